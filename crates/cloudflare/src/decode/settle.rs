//! Pulls, peeks, acknowledgements and purges.

use std::borrow::Cow;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Bounded, object, object_if_any, setting, truth};
use crate::error::{Code, WireError};
use crate::limits;

#[derive(Deserialize)]
struct WirePull<'a> {
    #[serde(borrow)]
    batch_size: Option<&'a RawValue>,
    #[serde(borrow)]
    visibility_timeout_ms: Option<&'a RawValue>,
    /// What the guide and the command line call it; in milliseconds too.
    #[serde(borrow)]
    visibility_timeout: Option<&'a RawValue>,
}

/// A pull, as far as it says what it wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PullBody {
    pub(crate) batch_size: Option<u32>,
    pub(crate) visibility_timeout: Option<Duration>,
}

impl PullBody {
    /// Reads a pull or a peek.
    pub(crate) fn read(json: &[u8]) -> Result<Self, WireError> {
        let wire: WirePull<'_> = object_if_any(json)?;
        let timeout = wire.visibility_timeout_ms.or(wire.visibility_timeout);
        let timeout = setting(limits::VISIBILITY_TIMEOUT, timeout, Code::Schema)?;
        Ok(Self {
            batch_size: setting(limits::PULL_MESSAGES, wire.batch_size, Code::Schema)?,
            visibility_timeout: timeout.map(|millis| Duration::from_millis(u64::from(millis))),
        })
    }
}

#[derive(Deserialize)]
struct WireAck<'a> {
    #[serde(borrow)]
    acks: Option<Bounded<&'a RawValue, { limits::SETTLED_TOGETHER }>>,
    #[serde(borrow)]
    retries: Option<Bounded<&'a RawValue, { limits::SETTLED_TOGETHER }>>,
}

#[derive(Deserialize)]
struct WireLease<'a> {
    #[serde(borrow)]
    lease_id: Cow<'a, str>,
    #[serde(borrow)]
    delay_seconds: Option<&'a RawValue>,
}

/// Leases to be settled.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct AckBody<'a> {
    pub(crate) acks: Vec<Cow<'a, str>>,
    /// Each with its delay in seconds, if it names one.
    pub(crate) retries: Vec<(Cow<'a, str>, Option<u32>)>,
}

impl<'a> AckBody<'a> {
    /// Reads an acknowledgement.
    pub(crate) fn read(json: &'a [u8]) -> Result<Self, WireError> {
        let wire: WireAck<'_> = object_if_any(json)?;
        let (acks, retries) = (wire.acks.unwrap_or_default(), wire.retries.unwrap_or_default());
        check_count(acks.entries.len() + retries.entries.len(), acks.is_too_long || retries.is_too_long)?;
        let acks = acks.entries.into_iter().map(|json| Ok(lease(json)?.lease_id));
        let retries = retries.entries.into_iter().map(|json| {
            let wire = lease(json)?;
            Ok((wire.lease_id, wire.delay_seconds.map(retry_delay).transpose()?))
        });
        Ok(Self {
            acks: acks.collect::<Result<_, WireError>>()?,
            retries: retries.collect::<Result<_, WireError>>()?,
        })
    }
}

fn check_count(count: usize, is_too_long: bool) -> Result<(), WireError> {
    if is_too_long || count > limits::SETTLED_TOGETHER {
        let max = limits::SETTLED_TOGETHER;
        return Err(WireError::new(Code::BatchTooLong).saying(format!("At most {max} entries at once")));
    }
    Ok(())
}

fn lease(json: &RawValue) -> Result<WireLease<'_>, WireError> {
    object(json.get().as_bytes())
}

/// A retry's delay. Consumers work it out as a power of the attempts, so what is beyond the bounds is taken to them,
/// also where it is more than any float.
fn retry_delay(json: &RawValue) -> Result<u32, WireError> {
    let is_number = json.get().starts_with(|first: char| first == '-' || first.is_ascii_digit());
    let seconds: Option<f64> = json.get().parse().ok().filter(|_| is_number);
    let seconds =
        seconds.ok_or_else(|| WireError::new(Code::Schema).saying("delay_seconds must be a number"))?;
    let limit = limits::DELIVERY_DELAY;
    Ok(seconds.clamp(f64::from(limit.min), f64::from(limit.max)) as u32)
}

#[derive(Deserialize)]
struct WireRefs<'a> {
    #[serde(borrow)]
    refs: Bounded<&'a RawValue, { limits::SETTLED_TOGETHER }>,
}

#[derive(Deserialize)]
struct WireRef<'a> {
    #[serde(borrow, rename = "ref")]
    reference: Cow<'a, str>,
}

/// Reads the references of messages to be deleted.
pub(crate) fn references(json: &[u8]) -> Result<Vec<Cow<'_, str>>, WireError> {
    let wire: WireRefs<'_> = object(json)?;
    check_count(wire.refs.entries.len(), wire.refs.is_too_long)?;
    let read = |json: &'_ RawValue| -> Result<String, WireError> {
        let wire: WireRef<'_> = object(json.get().as_bytes())?;
        Ok(wire.reference.into_owned())
    };
    wire.refs.entries.into_iter().map(|json| read(json).map(Cow::Owned)).collect()
}

#[derive(Deserialize)]
struct WirePurge<'a> {
    #[serde(borrow)]
    delete_messages_permanently: Option<&'a RawValue>,
}

/// Refuses a purge that does not say that it means it.
pub(crate) fn check_purge(json: &[u8]) -> Result<(), WireError> {
    let wire: WirePurge<'_> = object(json)?;
    match wire.delete_messages_permanently.and_then(truth) {
        Some(true) => Ok(()),
        Some(false) | None => {
            Err(WireError::new(Code::Schema).saying("delete_messages_permanently must be true"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pulls_say_what_they_want_or_nothing() {
        let read = |json: &str| {
            let pull = PullBody::read(json.as_bytes()).map_err(|error| error.code())?;
            Ok((pull.batch_size, pull.visibility_timeout.map(|length| length.as_millis())))
        };
        for (json, expected) in [
            ("", Ok((None, None))),
            ("{}", Ok((None, None))),
            (r#"{"batch_size":1,"visibility_timeout_ms":43200000}"#, Ok((Some(1), Some(43_200_000)))),
            (r#"{"visibility_timeout":5000}"#, Ok((None, Some(5_000)))),
            (r#"{"visibility_timeout":5000,"visibility_timeout_ms":7}"#, Ok((None, Some(7)))),
            (r#"{"batch_size":0}"#, Err(Code::Schema)),
            (r#"{"batch_size":101}"#, Err(Code::Schema)),
            (r#"{"batch_size":"5"}"#, Err(Code::Schema)),
            (r#"{"visibility_timeout_ms":43200001}"#, Err(Code::Schema)),
            (r#"{"visibility_timeout_ms":-1}"#, Err(Code::Schema)),
            ("[]", Err(Code::Schema)),
            ("batch_size=1", Err(Code::NotJson)),
        ] {
            assert_eq!(read(json), expected, "{json}");
        }
    }

    // [seed] Backoff: what grows beyond the longest delay is clamped to it.
    #[test]
    fn retry_delays_beyond_the_bounds_are_taken_to_them() {
        for (delay, expected) in [
            ("30", 30),
            ("0", 0),
            ("810000", 86_400),
            ("1e300", 86_400),
            ("1e400", 86_400),
            ("-1e400", 0),
            ("-5", 0),
            ("2.9", 2),
        ] {
            let json = format!(r#"{{"retries":[{{"lease_id":"a","delay_seconds":{delay}}}]}}"#);
            let read = AckBody::read(json.as_bytes()).expect("a body with acknowledgements is read");
            assert_eq!(read.retries, [("a".into(), Some(expected))], "{delay}");
        }
        for delay in ["\"5\"", "true", "[]", "{}"] {
            let json = format!(r#"{{"retries":[{{"lease_id":"a","delay_seconds":{delay}}}]}}"#);
            assert_eq!(
                AckBody::read(json.as_bytes()).map_err(|error| error.code()),
                Err(Code::Schema),
                "{delay}"
            );
        }
    }

    #[test]
    fn lists_of_leases_are_bounded_and_of_objects() {
        let read = |json: String| AckBody::read(json.as_bytes()).map(|_| ()).map_err(|error| error.code());
        let acks = |count: usize| vec![r#"{"lease_id":"a"}"#; count].join(",");
        assert_eq!(read(String::new()), Ok(()));
        assert_eq!(read(format!(r#"{{"acks":[{}]}}"#, acks(1_000))), Ok(()));
        assert_eq!(read(format!(r#"{{"acks":[{}]}}"#, acks(1_001))), Err(Code::BatchTooLong));
        assert_eq!(
            read(format!(r#"{{"acks":[{}],"retries":[{}]}}"#, acks(600), acks(600))),
            Err(Code::BatchTooLong)
        );
        for json in
            [r#"{"acks":["a"]}"#, r#"{"acks":[{}]}"#, r#"{"acks":{}}"#, r#"{"acks":[{"lease_id":7}]}"#]
        {
            assert_eq!(read(json.to_owned()), Err(Code::Schema), "{json}");
        }
        assert!(references(br#"{"refs":[{"ref":"a"}]}"#).is_ok());
        assert!(references(b"{}").is_err() && references(br#"{"refs":["a"]}"#).is_err());
    }

    #[test]
    fn a_purge_says_that_it_means_it() {
        assert!(check_purge(br#"{"delete_messages_permanently":true}"#).is_ok());
        for json in [&b"{}"[..], br#"{"delete_messages_permanently":false}"#, b"", b"[]"] {
            assert!(check_purge(json).is_err());
        }
    }
}
