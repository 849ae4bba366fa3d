//! A queue's body: its name and its settings, whichever are given.

use std::time::Duration;

use kew_core::Policy;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{object, setting, text, truth};
use crate::error::{Code, WireError};
use crate::limits;

const JURISDICTIONS: [&str; 3] = ["eu", "us", "fedramp"];

#[derive(Deserialize)]
struct Wire<'a> {
    #[serde(borrow)]
    queue_name: Option<&'a RawValue>,
    #[serde(borrow)]
    settings: Option<&'a RawValue>,
    #[serde(borrow)]
    jurisdiction: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct WireSettings<'a> {
    #[serde(borrow)]
    delivery_delay: Option<&'a RawValue>,
    #[serde(borrow)]
    delivery_paused: Option<&'a RawValue>,
    #[serde(borrow)]
    message_retention_period: Option<&'a RawValue>,
}

/// A queue as a request describes it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct QueueBody {
    /// A name that a queue may have, if one is given.
    pub(crate) name: Option<String>,
    pub(crate) settings: QueueSettings,
    pub(crate) jurisdiction: Option<String>,
}

/// The settings that are given.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct QueueSettings {
    pub(crate) delay: Option<Duration>,
    pub(crate) paused: Option<bool>,
    pub(crate) retention: Option<Duration>,
}

impl QueueBody {
    /// Reads a body.
    pub(crate) fn read(json: &[u8]) -> Result<Self, WireError> {
        let wire: Wire<'_> = object(json)?;
        let name = match wire.queue_name {
            Some(name) => {
                let name = text(name).filter(|name| limits::is_queue_name(name));
                Some(name.ok_or(Code::InvalidQueueName)?)
            }
            None => None,
        };
        let settings = wire.settings.map(|json| QueueSettings::read(json.get().as_bytes())).transpose()?;
        Ok(Self {
            name,
            settings: settings.unwrap_or_default(),
            jurisdiction: wire.jurisdiction.map(jurisdiction).transpose()?,
        })
    }
}

fn jurisdiction(json: &RawValue) -> Result<String, WireError> {
    let name = text(json).filter(|name| JURISDICTIONS.contains(&name.as_str()));
    name.ok_or_else(|| {
        WireError::new(Code::InvalidQueueSettings).saying("jurisdiction must be eu, us or fedramp")
    })
}

impl QueueSettings {
    fn read(json: &[u8]) -> Result<Self, WireError> {
        let code = Code::InvalidQueueSettings;
        let wire: WireSettings<'_> = object(json).map_err(|_| {
            WireError::new(code).saying("settings must be an object that names each setting once")
        })?;
        let seconds = |number: u32| Duration::from_secs(u64::from(number));
        let paused = match wire.delivery_paused {
            Some(json) => Some(
                truth(json)
                    .ok_or_else(|| WireError::new(code).saying("delivery_paused must be true or false"))?,
            ),
            None => None,
        };
        Ok(Self {
            delay: setting(limits::DELIVERY_DELAY, wire.delivery_delay, code)?.map(seconds),
            paused,
            retention: setting(limits::RETENTION, wire.message_retention_period, code)?.map(seconds),
        })
    }

    /// A queue's policy with these settings changed.
    pub(crate) fn merged(self, policy: &Policy) -> Policy {
        Policy {
            delay: self.delay.unwrap_or(policy.delay),
            paused: self.paused.unwrap_or(policy.paused),
            retention: self.retention.unwrap_or(policy.retention),
            ..policy.clone()
        }
    }

    /// A queue's policy with these settings in the place of all of them: what is not given is what it is by default.
    ///
    /// A delay alone is merged: that is what a deploy of the older command line sends, and a deploy must not change how
    /// long messages are kept, nor go on with what was paused.
    pub(crate) fn replaced(self, policy: &Policy) -> Policy {
        if self.delay.is_some() && self.paused.is_none() && self.retention.is_none() {
            return self.merged(policy);
        }
        let seconds = |limit: kew_push::Limit| Duration::from_secs(u64::from(limit.default));
        Policy {
            delay: self.delay.unwrap_or(seconds(limits::DELIVERY_DELAY)),
            paused: self.paused.unwrap_or(false),
            retention: self.retention.unwrap_or(seconds(limits::RETENTION)),
            ..policy.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(json: &str) -> Result<QueueSettings, Code> {
        let body = QueueBody::read(format!(r#"{{"settings":{json}}}"#).as_bytes());
        body.map(|body| body.settings).map_err(|error| error.code())
    }

    #[test]
    fn settings_hold_at_their_edges() {
        for (json, legal) in [
            (r#"{"delivery_delay":0}"#, true),
            (r#"{"delivery_delay":86400}"#, true),
            (r#"{"delivery_delay":86401}"#, false),
            (r#"{"delivery_delay":-1}"#, false),
            (r#"{"delivery_delay":1.5}"#, false),
            (r#"{"delivery_delay":"60"}"#, false),
            (r#"{"delivery_delay":null}"#, true),
            (r#"{"message_retention_period":59}"#, false),
            (r#"{"message_retention_period":60}"#, true),
            (r#"{"message_retention_period":1209600}"#, true),
            (r#"{"message_retention_period":1209601}"#, false),
            (r#"{"delivery_paused":true}"#, true),
            (r#"{"delivery_paused":"yes"}"#, false),
            ("[]", false),
            ("7", false),
        ] {
            assert_eq!(
                settings(json).map(|_| ()),
                if legal { Ok(()) } else { Err(Code::InvalidQueueSettings) },
                "{json}"
            );
        }
    }

    #[test]
    fn replacing_returns_to_defaults_unless_only_the_delay_is_given() {
        let before = Policy { paused: true, retention: Duration::from_secs(60), ..Policy::standard() };
        let delay = settings(r#"{"delivery_delay":7}"#).expect("a delay of seven seconds is valid");
        let after = delay.replaced(&before);
        assert_eq!(
            (after.delay, after.paused, after.retention),
            (Duration::from_secs(7), true, before.retention)
        );
        let after = settings("{}").expect("empty settings are valid").replaced(&before);
        assert_eq!((after.paused, after.retention), (false, Policy::standard().retention));
        let after = settings(r#"{"delivery_paused":true,"delivery_delay":7}"#)
            .expect("a pause and a delay are valid")
            .replaced(&before);
        assert_eq!((after.paused, after.retention), (true, Policy::standard().retention));
    }

    #[test]
    fn names_are_names_or_refused() {
        let name =
            |json: &str| QueueBody::read(json.as_bytes()).map(|body| body.name).map_err(|error| error.code());
        assert_eq!(name("{}"), Ok(None));
        assert_eq!(name(r#"{"queue_name":"Orders-1"}"#), Ok(Some("Orders-1".to_owned())));
        for json in [r#"{"queue_name":""}"#, r#"{"queue_name":"a b"}"#, r#"{"queue_name":7}"#] {
            assert_eq!(name(json), Err(Code::InvalidQueueName), "{json}");
        }
    }
}
