//! Who consumes a queue, and how: a typed consumer whose settings are within their bounds.
//!
//! How it is kept with its queue is said in [`crate::document`]. A consumer also says which dead-letter rule its queue
//! gets, because a queue has one rule over all dialects ([`Consumer::dead_letter_rule`], [`rule_without_consumer`]).

use std::fmt;
use std::time::Duration;

use kew_core::{Carries, DeadLetterAction, DeadLetterRule, QueueKey, Timestamp};
use kew_http::hex;

use crate::{WebhookUrl, limits};

/// Marks the dead-letter rules that consumers write.
pub const RULES_ARE_WRITTEN_BY: &str = "push";

/// Sixteen bytes that name a consumer, made by the front-end that adds it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConsumerId(pub [u8; 16]);

impl ConsumerId {
    /// The id in 32 hex digits.
    pub fn parse(text: &str) -> Option<Self> {
        hex::sixteen(text).map(Self)
    }
}

impl fmt::Display for ConsumerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for ConsumerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// One consumer of one queue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Consumer {
    /// Its name for life.
    pub id: ConsumerId,
    /// When it was added.
    pub created_at: Timestamp,
    /// Messages of one batch or pull; within [`limits::PUSH_BATCH_SIZE`] or [`limits::PULL_BATCH_SIZE`].
    pub batch_size: u32,
    /// Deliveries after the first; within [`limits::MAX_RETRIES`].
    pub max_retries: u32,
    /// How long a message rests before its next delivery; within [`limits::RETRY_DELAY_SECONDS`].
    pub retry_delay: Duration,
    /// The queue that takes what was delivered too often, by its name beside this one's; `None` when none was named.
    /// What counts when a message is moved is the queue's rule.
    pub dead_letter_queue: Option<String>,
    /// How messages get to it.
    pub delivery: Delivery,
}

/// How messages get to a consumer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Delivery {
    /// It fetches them.
    Pull(Pull),
    /// They are brought to it.
    Push(Push),
}

/// What only a pulling consumer is set to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pull {
    /// How long a lease lasts; within [`limits::VISIBILITY_TIMEOUT_MILLIS`].
    pub visibility_timeout: Duration,
}

/// What only a pushed consumer is set to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Push {
    /// How long a batch waits to fill; within [`limits::MAX_WAIT_MILLIS`].
    pub max_wait: Duration,
    /// Batches under way at once, within [`limits::MAX_CONCURRENCY`]; `None` follows the backlog.
    pub max_concurrency: Option<u32>,
    /// Where they are brought.
    pub target: Target,
}

/// Where batches are brought.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Target {
    /// To the queue handler of a Worker.
    Worker {
        /// The script's name.
        script: String,
    },
    /// To an HTTP service.
    Webhook {
        /// Its address.
        url: WebhookUrl,
        /// What requests are signed with, if they are.
        secret: Option<Secret>,
        /// How long it may take to answer; within [`limits::WEBHOOK_TIMEOUT_MILLIS`].
        timeout: Duration,
    },
}

impl fmt::Display for Target {
    /// Says what it is without the path of an address: that may be as good as a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Worker { script } => write!(f, "worker {script}"),
            Self::Webhook { url, .. } => {
                let place = url.uri().authority().map_or("", |authority| authority.as_str());
                write!(f, "webhook {place}")
            }
        }
    }
}

/// A text that is not shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl Consumer {
    /// A consumer with every setting at its default.
    pub fn of(id: ConsumerId, created_at: Timestamp, delivery: Delivery) -> Self {
        let batch_size = match delivery {
            Delivery::Pull(_) => limits::PULL_BATCH_SIZE.default,
            Delivery::Push(_) => limits::PUSH_BATCH_SIZE.default,
        };
        Self {
            id,
            created_at,
            batch_size,
            max_retries: limits::MAX_RETRIES.default,
            retry_delay: Duration::from_secs(u64::from(limits::RETRY_DELAY_SECONDS.default)),
            dead_letter_queue: None,
            delivery,
        }
    }

    /// What it is set to as a pushed consumer, if it is one.
    pub fn push(&self) -> Option<&Push> {
        match &self.delivery {
            Delivery::Push(push) => Some(push),
            Delivery::Pull(_) => None,
        }
    }

    /// The rule that `queue` has from when this consumer is written.
    ///
    /// A consumer that names no dead-letter queue keeps a target that somebody else's rule has, and changes its limit
    /// alone: the rule stays theirs.
    pub fn dead_letter_rule(&self, queue: &QueueKey, before: Option<&DeadLetterRule>) -> DeadLetterRule {
        let attempts_max = self.max_retries.saturating_add(1);
        if self.dead_letter_queue.is_none()
            && let Some(before) = before
            && matches!(before.then, DeadLetterAction::MoveTo(_))
            && !is_of_consumer(before)
        {
            return DeadLetterRule { attempts_max, ..before.clone() };
        }
        let then = match &self.dead_letter_queue {
            Some(name) => DeadLetterAction::MoveTo(QueueKey { name: name.as_str().into(), ..queue.clone() }),
            None => DeadLetterAction::Drop,
        };
        DeadLetterRule {
            attempts_max,
            then,
            carries: Carries::Nothing,
            written_by: RULES_ARE_WRITTEN_BY.into(),
        }
    }
}

impl Pull {
    /// The default.
    pub fn new() -> Self {
        Self { visibility_timeout: millis(limits::VISIBILITY_TIMEOUT_MILLIS.default) }
    }
}

impl Default for Pull {
    fn default() -> Self {
        Self::new()
    }
}

impl Push {
    /// Batches to `target`, with the defaults.
    pub fn to(target: Target) -> Self {
        Self { max_wait: millis(limits::MAX_WAIT_MILLIS.default), max_concurrency: None, target }
    }
}

/// The rule a queue keeps when its consumer is removed: whatever a consumer did not write.
pub fn rule_without_consumer(rule: Option<&DeadLetterRule>) -> Option<DeadLetterRule> {
    rule.filter(|rule| !is_of_consumer(rule)).cloned()
}

fn is_of_consumer(rule: &DeadLetterRule) -> bool {
    &*rule.written_by == RULES_ARE_WRITTEN_BY
}

fn millis(number: u32) -> Duration {
    Duration::from_millis(u64::from(number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kew_core::AccountId;

    fn queue(name: &str) -> QueueKey {
        QueueKey::new(AccountId(7), "here", name)
    }

    fn consumer() -> Consumer {
        let push = Push::to(Target::Worker { script: "worker".into() });
        Consumer::of(ConsumerId([1; 16]), Timestamp(5), Delivery::Push(push))
    }

    fn rule_of_somebody(then: DeadLetterAction) -> DeadLetterRule {
        DeadLetterRule { attempts_max: 9, then, carries: Carries::History, written_by: "somebody".into() }
    }

    #[test]
    fn ids_are_thirty_two_hex_digits() {
        let id = ConsumerId([0xab; 16]);
        assert_eq!(id.to_string(), "ab".repeat(16));
        assert_eq!(ConsumerId::parse(&id.to_string()), Some(id));
        assert_eq!(ConsumerId::parse(&"AB".repeat(16)), Some(id));
        for text in ["", "ab", &"g".repeat(32), &"+".repeat(32), &"a".repeat(33)] {
            assert_eq!(ConsumerId::parse(text), None, "{text}");
        }
    }

    #[test]
    fn defaults_are_those_of_the_limits() {
        let pushed = consumer();
        assert_eq!((pushed.batch_size, pushed.max_retries, pushed.retry_delay), (10, 3, Duration::ZERO));
        assert_eq!(pushed.push().map(|push| push.max_wait), Some(Duration::from_secs(5)));
        let pulled = Consumer::of(ConsumerId([1; 16]), Timestamp(5), Delivery::Pull(Pull::new()));
        assert_eq!((pulled.batch_size, pulled.push()), (5, None));
        assert_eq!(Pull::new().visibility_timeout, Duration::from_secs(30));
    }

    #[test]
    fn n_retries_are_n_and_one_attempts() {
        for retries in [0, 3, 100] {
            let consumer = Consumer { max_retries: retries, ..consumer() };
            assert_eq!(consumer.dead_letter_rule(&queue("a"), None).attempts_max, retries + 1);
        }
    }

    #[test]
    fn dead_letter_queue_is_beside_the_queue_and_starts_messages_afresh() {
        let named = Consumer { dead_letter_queue: Some("dead".into()), ..consumer() };
        let rule = named.dead_letter_rule(&queue("a"), None);
        assert_eq!(rule.then, DeadLetterAction::MoveTo(queue("dead")));
        assert_eq!(rule.carries, Carries::Nothing);
        assert_eq!(consumer().dead_letter_rule(&queue("a"), None).then, DeadLetterAction::Drop);
    }

    #[test]
    fn consumer_without_a_dead_letter_queue_keeps_the_target_of_somebody_else() {
        let before = rule_of_somebody(DeadLetterAction::MoveTo(queue("theirs")));
        let rule = consumer().dead_letter_rule(&queue("a"), Some(&before));
        assert_eq!(rule, DeadLetterRule { attempts_max: 4, ..before.clone() });
        let named = Consumer { dead_letter_queue: Some("ours".into()), ..consumer() };
        let rule = named.dead_letter_rule(&queue("a"), Some(&before));
        assert_eq!(rule.then, DeadLetterAction::MoveTo(queue("ours")), "the last write wins as a whole");
        let drops = rule_of_somebody(DeadLetterAction::Drop);
        assert_eq!(&*consumer().dead_letter_rule(&queue("a"), Some(&drops)).written_by, RULES_ARE_WRITTEN_BY);
    }

    #[test]
    fn consumer_written_again_without_its_dead_letter_queue_gives_it_up() {
        let named = Consumer { dead_letter_queue: Some("dead".into()), ..consumer() };
        let rule = named.dead_letter_rule(&queue("a"), None);
        assert_eq!(consumer().dead_letter_rule(&queue("a"), Some(&rule)).then, DeadLetterAction::Drop);
    }

    #[test]
    fn removing_a_consumer_removes_only_the_rule_a_consumer_wrote() {
        let own = consumer().dead_letter_rule(&queue("a"), None);
        assert_eq!(rule_without_consumer(Some(&own)), None);
        let theirs = rule_of_somebody(DeadLetterAction::MoveTo(queue("theirs")));
        assert_eq!(rule_without_consumer(Some(&theirs)), Some(theirs));
        assert_eq!(rule_without_consumer(None), None);
    }

    #[test]
    fn secrets_are_not_shown() {
        assert_eq!(format!("{:?}", Secret("word".into())), "***");
    }
}
