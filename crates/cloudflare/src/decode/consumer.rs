//! A consumer's body: its type, what it consumes with, and its settings, whichever are given.

use std::time::Duration;

use kew_core::{Queue, Timestamp};
use kew_push::limits as settings;
use kew_push::{Consumer, ConsumerId, Delivery, Limit, Pull, Push, Secret, Target, WebhookUrl};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{object, setting, text};
use crate::error::{Code, WireError};
use crate::limits;

const CODE: Code = Code::InvalidConsumerSettings;

#[derive(Deserialize)]
struct Wire<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<&'a RawValue>,
    #[serde(borrow)]
    script_name: Option<&'a RawValue>,
    #[serde(borrow)]
    url: Option<&'a RawValue>,
    #[serde(borrow)]
    secret: Option<&'a RawValue>,
    #[serde(borrow)]
    dead_letter_queue: Option<&'a RawValue>,
    #[serde(borrow)]
    settings: Option<&'a RawValue>,
}

#[derive(Deserialize, Default)]
struct WireSettings<'a> {
    #[serde(borrow)]
    batch_size: Option<&'a RawValue>,
    #[serde(borrow)]
    max_retries: Option<&'a RawValue>,
    #[serde(borrow)]
    max_wait_time_ms: Option<&'a RawValue>,
    #[serde(borrow)]
    max_concurrency: Option<&'a RawValue>,
    #[serde(borrow)]
    retry_delay: Option<&'a RawValue>,
    #[serde(borrow)]
    visibility_timeout_ms: Option<&'a RawValue>,
    #[serde(borrow)]
    timeout_ms: Option<&'a RawValue>,
}

/// A consumer as a request describes it; what it left out has its default.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ConsumerBody {
    delivery: Delivery,
    batch_size: u32,
    max_retries: Option<u32>,
    retry_delay: Duration,
    dead_letter_queue: Option<String>,
}

impl ConsumerBody {
    /// Reads a body.
    pub(crate) fn read(json: &[u8]) -> Result<Self, WireError> {
        let wire: Wire<'_> = object(json)?;
        let kind =
            wire.kind.and_then(text).filter(|kind| !kind.is_empty()).ok_or(Code::ConsumerTypeMissing)?;
        let given: WireSettings<'_> = match wire.settings {
            Some(json) => object(json.get().as_bytes())
                .map_err(|_| refused("settings must be an object that names each setting once"))?,
            None => WireSettings::default(),
        };
        let delivery = match kind.as_str() {
            "worker" => pushed(&given, Target::Worker { script: script_name(wire.script_name)? })?,
            "http_pull" => pulled(&given)?,
            "http_push" => pushed(&given, webhook(&wire, &given)?)?,
            _ => return Err(refused("type must be worker, http_pull or http_push")),
        };
        let batch_size = match delivery {
            Delivery::Pull(_) => settings::PULL_BATCH_SIZE,
            Delivery::Push(_) => settings::PUSH_BATCH_SIZE,
        };
        let retry_delay = or_default(settings::RETRY_DELAY_SECONDS, given.retry_delay)?;
        Ok(Self {
            delivery,
            batch_size: or_default(batch_size, given.batch_size)?,
            max_retries: setting(settings::MAX_RETRIES, given.max_retries, CODE)?,
            retry_delay: Duration::from_secs(u64::from(retry_delay)),
            dead_letter_queue: dead_letter_queue(wire.dead_letter_queue)?,
        })
    }

    /// The queue it wants dead letters in.
    pub(crate) fn dead_letter_queue(&self) -> Option<&str> {
        self.dead_letter_queue.as_deref()
    }

    /// Whether it brings messages the same way as another consumer does: pulled, to a Worker, to a webhook.
    pub(crate) fn is_of_type(&self, other: &Consumer) -> bool {
        kind(&self.delivery) == kind(&other.delivery)
    }

    /// Whether it is a puller that says nothing of failures.
    pub(crate) fn leaves_failures_alone(&self) -> bool {
        matches!(self.delivery, Delivery::Pull(_))
            && self.max_retries.is_none()
            && self.dead_letter_queue.is_none()
    }

    /// Refuses a queue that would be its own dead-letter queue.
    pub(crate) fn check_against(&self, queue: &Queue) -> Result<(), WireError> {
        if self.dead_letter_queue.as_deref() == Some(&*queue.key.name) {
            return Err(refused("a queue cannot be its own dead letter queue"));
        }
        Ok(())
    }

    /// The consumer it describes.
    pub(crate) fn consumer(&self, id: ConsumerId, created_at: Timestamp) -> Consumer {
        Consumer {
            batch_size: self.batch_size,
            max_retries: self.max_retries.unwrap_or(settings::MAX_RETRIES.default),
            retry_delay: self.retry_delay,
            dead_letter_queue: self.dead_letter_queue.clone(),
            ..Consumer::of(id, created_at, self.delivery.clone())
        }
    }
}

/// A type's name on the wire.
pub(crate) fn kind(delivery: &Delivery) -> &'static str {
    match delivery {
        Delivery::Pull(_) => "http_pull",
        Delivery::Push(Push { target: Target::Worker { .. }, .. }) => "worker",
        Delivery::Push(Push { target: Target::Webhook { .. }, .. }) => "http_push",
    }
}

fn refused(why: &'static str) -> WireError {
    WireError::new(CODE).saying(why)
}

fn or_default(limit: Limit, given: Option<&RawValue>) -> Result<u32, WireError> {
    Ok(setting(limit, given, CODE)?.unwrap_or(limit.default))
}

fn millis(limit: Limit, given: Option<&RawValue>) -> Result<Duration, WireError> {
    Ok(Duration::from_millis(u64::from(or_default(limit, given)?)))
}

fn pulled(given: &WireSettings<'_>) -> Result<Delivery, WireError> {
    let visibility_timeout = millis(settings::VISIBILITY_TIMEOUT_MILLIS, given.visibility_timeout_ms)?;
    Ok(Delivery::Pull(Pull { visibility_timeout }))
}

fn pushed(given: &WireSettings<'_>, target: Target) -> Result<Delivery, WireError> {
    Ok(Delivery::Push(Push {
        max_wait: millis(settings::MAX_WAIT_MILLIS, given.max_wait_time_ms)?,
        max_concurrency: setting(settings::MAX_CONCURRENCY, given.max_concurrency, CODE)?,
        target,
    }))
}

fn script_name(given: Option<&RawValue>) -> Result<String, WireError> {
    let name = given.and_then(text).filter(|name| {
        (1..=limits::SCRIPT_NAME_CHARACTERS).contains(&name.chars().count())
            && !name.chars().any(char::is_control)
    });
    name.ok_or_else(|| refused("script_name must name a Worker"))
}

fn webhook(wire: &Wire<'_>, given: &WireSettings<'_>) -> Result<Target, WireError> {
    let url = wire.url.and_then(text).unwrap_or_default();
    let url = WebhookUrl::parse(&url).map_err(|error| WireError::new(CODE).saying(error.to_string()))?;
    let secret = match wire.secret {
        Some(json) => Some(text(json).ok_or_else(|| refused("secret must be a string"))?),
        None => None,
    };
    let secret = secret.filter(|secret| !secret.is_empty()).map(Secret);
    Ok(Target::Webhook { url, secret, timeout: millis(settings::WEBHOOK_TIMEOUT_MILLIS, given.timeout_ms)? })
}

/// The name of a queue; an empty one is none.
fn dead_letter_queue(given: Option<&RawValue>) -> Result<Option<String>, WireError> {
    const WHY: &str = "dead_letter_queue must be the name of a queue";
    let Some(json) = given else { return Ok(None) };
    match text(json).ok_or_else(|| refused(WHY))? {
        name if name.is_empty() => Ok(None),
        name if limits::is_queue_name(&name) => Ok(Some(name)),
        _ => Err(refused(WHY)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<ConsumerBody, Code> {
        ConsumerBody::read(json.as_bytes()).map_err(|error| error.code())
    }

    fn with_settings(kind: &str, settings: &str) -> Result<ConsumerBody, Code> {
        let json = format!(
            r#"{{"type":"{kind}","script_name":"w","url":"http://127.0.0.1:1/","settings":{settings}}}"#
        );
        read(&json)
    }

    #[test]
    fn types_have_their_own_defaults() {
        let id = ConsumerId([1; 16]);
        let of = |kind: &str| {
            with_settings(kind, "{}")
                .expect("a consumer without settings is valid")
                .consumer(id, Timestamp(1))
        };
        assert_eq!(of("http_pull"), Consumer::of(id, Timestamp(1), Delivery::Pull(Pull::new())));
        let worker = Push::to(Target::Worker { script: "w".into() });
        assert_eq!(of("worker"), Consumer::of(id, Timestamp(1), Delivery::Push(worker)));
        let url = WebhookUrl::parse("http://127.0.0.1:1/").expect("a loopback address is a webhook's URL");
        let webhook = Push::to(Target::Webhook { url, secret: None, timeout: Duration::from_secs(30) });
        assert_eq!(of("http_push"), Consumer::of(id, Timestamp(1), Delivery::Push(webhook)));
    }

    #[test]
    fn settings_hold_at_their_edges() {
        for (kind, name, min, max) in [
            ("worker", "batch_size", 1, 100),
            ("worker", "max_wait_time_ms", 0, 60_000),
            ("worker", "max_retries", 0, 100),
            ("worker", "retry_delay", 0, 86_400),
            ("worker", "max_concurrency", 1, 250),
            ("http_pull", "batch_size", 1, 100),
            ("http_pull", "visibility_timeout_ms", 0, 43_200_000),
            ("http_push", "timeout_ms", 1_000, 900_000),
        ] {
            let given = |number: i64| with_settings(kind, &format!(r#"{{"{name}":{number}}}"#)).map(|_| ());
            assert_eq!((given(min), given(max)), (Ok(()), Ok(())), "{kind} {name}");
            assert_eq!((given(min - 1), given(max + 1)), (Err(CODE), Err(CODE)), "{kind} {name}");
            let odd = with_settings(kind, &format!(r#"{{"{name}":"1"}}"#));
            assert_eq!(odd.map(|_| ()), Err(CODE), "{kind} {name}");
            assert!(with_settings(kind, &format!(r#"{{"{name}":null}}"#)).is_ok(), "{kind} {name}");
        }
    }

    #[test]
    fn bodies_that_make_no_consumer_are_refused() {
        for (json, code) in [
            ("{}", Code::ConsumerTypeMissing),
            (r#"{"type":""}"#, Code::ConsumerTypeMissing),
            (r#"{"type":7}"#, Code::ConsumerTypeMissing),
            (r#"{"type":"carrier_pigeon"}"#, CODE),
            (r#"{"type":"worker"}"#, CODE),
            (r#"{"type":"worker","script_name":""}"#, CODE),
            (r#"{"type":"http_push"}"#, CODE),
            (r#"{"type":"http_push","url":"ftp://a/"}"#, CODE),
            (r#"{"type":"http_pull","settings":[]}"#, CODE),
            (r#"{"type":"http_pull","dead_letter_queue":"a_b"}"#, CODE),
            (r#"{"type":"http_pull","dead_letter_queue":7}"#, CODE),
            ("[]", Code::Schema),
            ("", Code::NotJson),
        ] {
            assert_eq!(read(json).map(|_| ()), Err(code), "{json}");
        }
        assert!(read(r#"{"type":"http_pull","dead_letter_queue":"","settings":null}"#).is_ok());
    }
}
