//! How a queue's consumers are kept: one document of this room, in JSON.
//!
//! It is a list, although a queue has one consumer at a time. Fields this version does not know are passed over, and so
//! is a consumer it cannot make sense of; settings that are missing or out of bounds are what they are by default.

use std::time::Duration;

use bytes::Bytes;
use kew_core::{DocumentKey, Queue, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::limits::{self, Limit};
use crate::{Consumer, ConsumerId, Delivery, Pull, Push, Secret, Target, WebhookUrl};

const OWNER: &str = "push";
const KEY: &str = "consumers";

/// The document's name.
pub fn key() -> DocumentKey {
    DocumentKey::new(OWNER, KEY)
}

/// The consumers of a queue.
pub fn consumers(queue: &Queue) -> Vec<Consumer> {
    if queue.documents.is_empty() {
        return Vec::new();
    }
    queue.documents.get(&key()).map(|json| read(json)).unwrap_or_default()
}

/// The consumer of a queue: the first, should there ever be more.
pub fn consumer(queue: &Queue) -> Option<Consumer> {
    consumers(queue).into_iter().next()
}

/// The change that gives a queue these consumers and no others.
pub fn change(consumers: &[Consumer]) -> (DocumentKey, Option<Bytes>) {
    let json = (!consumers.is_empty()).then(|| write(consumers));
    (key(), json)
}

fn read(json: &[u8]) -> Vec<Consumer> {
    let kept: ConsumerList = serde_json::from_slice(json).unwrap_or_default();
    let records = kept.consumers.into_iter().filter_map(|value| serde_json::from_value::<Record>(value).ok());
    records.filter_map(Record::consumer).collect()
}

fn write(consumers: &[Consumer]) -> Bytes {
    let records = consumers.iter().map(|consumer| {
        serde_json::to_value(Record::of(consumer)).expect("a record is text, numbers and lists of them")
    });
    let kept = ConsumerList { consumers: records.collect() };
    serde_json::to_vec(&kept).expect("a list of values is JSON").into()
}

#[derive(Default, Serialize, Deserialize)]
struct ConsumerList {
    consumers: Vec<Value>,
}

/// A consumer as it is stored.
#[derive(Serialize, Deserialize)]
struct Record {
    id: String,
    created_ms: u64,
    #[serde(rename = "type")]
    kind: Kind,
    batch_size: Option<i64>,
    max_retries: Option<i64>,
    retry_delay: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    dead_letter_queue: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_wait_time_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_concurrency: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    visibility_timeout_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    script: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    secret: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timeout_ms: Option<i64>,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Worker,
    HttpPull,
    HttpPush,
}

impl Record {
    fn of(consumer: &Consumer) -> Self {
        let mut record = Self {
            id: consumer.id.to_string(),
            created_ms: consumer.created_at.0,
            kind: Kind::HttpPull,
            batch_size: Some(i64::from(consumer.batch_size)),
            max_retries: Some(i64::from(consumer.max_retries)),
            retry_delay: whole(consumer.retry_delay.as_secs().into()),
            dead_letter_queue: consumer.dead_letter_queue.clone(),
            max_wait_time_ms: None,
            max_concurrency: None,
            visibility_timeout_ms: None,
            script: None,
            url: None,
            secret: None,
            timeout_ms: None,
        };
        match &consumer.delivery {
            Delivery::Pull(pull) => {
                record.visibility_timeout_ms = whole(pull.visibility_timeout.as_millis());
            }
            Delivery::Push(push) => record.put_push(push),
        }
        record
    }

    fn put_push(&mut self, push: &Push) {
        self.max_wait_time_ms = whole(push.max_wait.as_millis());
        self.max_concurrency = push.max_concurrency.map(i64::from);
        match &push.target {
            Target::Worker { script } => {
                self.kind = Kind::Worker;
                self.script = Some(script.clone());
            }
            Target::Webhook { url, secret, timeout } => {
                self.kind = Kind::HttpPush;
                self.url = Some(url.as_str().to_owned());
                self.secret = secret.as_ref().map(|secret| secret.0.clone());
                self.timeout_ms = whole(timeout.as_millis());
            }
        }
    }

    fn consumer(self) -> Option<Consumer> {
        let batch_size = match self.kind {
            Kind::HttpPull => limits::PULL_BATCH_SIZE,
            Kind::Worker | Kind::HttpPush => limits::PUSH_BATCH_SIZE,
        };
        Some(Consumer {
            id: ConsumerId::parse(&self.id)?,
            created_at: Timestamp(self.created_ms),
            batch_size: number(batch_size, self.batch_size),
            max_retries: number(limits::MAX_RETRIES, self.max_retries),
            retry_delay: Duration::from_secs(number(limits::RETRY_DELAY_SECONDS, self.retry_delay).into()),
            dead_letter_queue: self.dead_letter_queue.clone(),
            delivery: self.delivery()?,
        })
    }

    fn delivery(self) -> Option<Delivery> {
        let target = match self.kind {
            Kind::HttpPull => {
                let visibility_timeout =
                    millis(limits::VISIBILITY_TIMEOUT_MILLIS, self.visibility_timeout_ms);
                return Some(Delivery::Pull(Pull { visibility_timeout }));
            }
            Kind::Worker => Target::Worker { script: self.script? },
            Kind::HttpPush => Target::Webhook {
                url: WebhookUrl::parse(&self.url?).ok()?,
                secret: self.secret.map(Secret),
                timeout: millis(limits::WEBHOOK_TIMEOUT_MILLIS, self.timeout_ms),
            },
        };
        Some(Delivery::Push(Push {
            max_wait: millis(limits::MAX_WAIT_MILLIS, self.max_wait_time_ms),
            max_concurrency: self.max_concurrency.map(|given| number(limits::MAX_CONCURRENCY, Some(given))),
            target,
        }))
    }
}

fn number(limit: Limit, stored: Option<i64>) -> u32 {
    limit.check(stored).unwrap_or(limit.default)
}

fn millis(limit: Limit, stored: Option<i64>) -> Duration {
    Duration::from_millis(u64::from(number(limit, stored)))
}

/// A number as it is stored; settings are far below its bounds.
fn whole(number: u128) -> Option<i64> {
    i64::try_from(number).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef";

    fn all_kinds() -> Vec<Consumer> {
        let id = ConsumerId::parse(ID).expect("the id has 32 hexadecimal digits");
        let webhook = Target::Webhook {
            url: WebhookUrl::parse("http://127.0.0.1:1/hook").expect("a loopback address is a webhook's URL"),
            secret: Some(Secret("word".into())),
            timeout: Duration::from_millis(1_500),
        };
        let push = Push { max_wait: Duration::ZERO, max_concurrency: Some(1), target: webhook };
        let worker = Push::to(Target::Worker { script: "worker \"x\"".into() });
        let pull = Pull { visibility_timeout: Duration::from_millis(7) };
        vec![
            Consumer {
                batch_size: 100,
                max_retries: 0,
                retry_delay: Duration::from_secs(86_400),
                dead_letter_queue: Some("dead".into()),
                ..Consumer::of(id, Timestamp(1), Delivery::Push(push))
            },
            Consumer::of(id, Timestamp(2), Delivery::Push(worker)),
            Consumer::of(id, Timestamp(3), Delivery::Pull(pull)),
        ]
    }

    #[test]
    fn consumers_survive_their_document() {
        assert_eq!(read(&write(&all_kinds())), all_kinds());
    }

    #[test]
    fn no_consumers_are_no_document() {
        assert_eq!(change(&[]), (DocumentKey::new("push", "consumers"), None));
    }

    #[test]
    fn what_another_version_wrote_is_passed_over() {
        let known = format!(r#"{{"id":"{ID}","created_ms":1,"type":"worker","script":"a","colour":"red"}}"#);
        let unknown = format!(r#"{{"id":"{ID}","created_ms":1,"type":"carrier_pigeon"}}"#);
        let json = format!(r#"{{"consumers":[{unknown},{known},7],"version":2}}"#);
        let found = read(json.as_bytes());
        let worker = Push::to(Target::Worker { script: "a".into() });
        let id = ConsumerId::parse(ID).expect("the id has 32 hexadecimal digits");
        assert_eq!(found, [Consumer::of(id, Timestamp(1), Delivery::Push(worker))]);
    }

    #[test]
    fn damaged_documents_hold_no_consumers_and_odd_settings_are_the_defaults() {
        for json in ["", "{", "[]", "null", r#"{"consumers":{}}"#, r#"{"consumers":[{}]}"#] {
            assert_eq!(read(json.as_bytes()), [], "{json}");
        }
        let json = format!(
            r#"{{"consumers":[{{"id":"{ID}","created_ms":1,"type":"http_pull","batch_size":-4,"max_retries":999}}]}}"#
        );
        let id = ConsumerId::parse(ID).expect("the id has 32 hexadecimal digits");
        assert_eq!(read(json.as_bytes()), [Consumer::of(id, Timestamp(1), Delivery::Pull(Pull::default()))]);
    }
}
