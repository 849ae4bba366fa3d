//! What commands are made of: few names, policies, contents and groups, so that things meet.

use std::time::Duration;

use bytes::Bytes;
use kew_core::{
    AccountId, Carries, Content, ContentType, DeadLetterAction, DeadLetterRule, DeduplicationId,
    DeduplicationScope, Expiry, GroupId, MessageId, NewMessage, Policy, QueueId, QueueKey, QueueKind, Return,
    State, Text,
};

use super::Generator;
use crate::contract::model::run::Run;

/// Names of queues. The last one is only ever a name in somebody's rule.
pub(super) const NAMES: [&str; 7] = ["s0", "s1", "s2", "f0", "f1", "f2", "missing"];
const ACCOUNT: AccountId = AccountId(0);

impl Generator {
    pub(super) fn key(name: &str) -> QueueKey {
        QueueKey::new(ACCOUNT, "here", name)
    }

    pub(super) fn any_key(&mut self) -> QueueKey {
        Self::key(self.random.pick(&NAMES).expect("a list with entries has a pick"))
    }

    pub(super) fn key_of_kind(&mut self, fifo: bool) -> QueueKey {
        let names = if fifo { &NAMES[3..6] } else { &NAMES[..3] };
        Self::key(self.random.pick(names).expect("a list with entries has a pick"))
    }

    pub(super) fn is_fifo_name(key: &QueueKey) -> bool {
        key.name.starts_with('f')
    }

    /// A queue that exists, mostly; sometimes one that never did.
    pub(super) fn queue(&mut self, run: &Run<'_>) -> Option<QueueId> {
        if self.random.below(200) == 0 {
            return Some(QueueId(999));
        }
        let queues: Vec<_> = run.model.queues().map(|queue| queue.id).collect();
        self.random.pick(&queues).copied()
    }

    /// A queue that holds such a message, if one is found in three tries.
    pub(super) fn queue_with(&mut self, run: &Run<'_>, wanted: fn(State) -> bool) -> Option<QueueId> {
        let holds = |queue: QueueId| run.model.messages(queue).iter().any(|(.., state)| wanted(*state));
        let mut queue = self.queue(run)?;
        for _ in 0..2 {
            if !holds(queue) {
                queue = self.queue(run)?;
            }
        }
        Some(queue)
    }

    pub(super) fn is_fifo(run: &Run<'_>, queue: QueueId) -> bool {
        run.model.queues().any(|each| each.id == queue && each.policy.kind.is_fifo())
    }

    pub(super) fn policy(&mut self, fifo: bool) -> Policy {
        let scope =
            if self.random.chance(60) { DeduplicationScope::Queue } else { DeduplicationScope::Group };
        let kind = match fifo {
            true => QueueKind::Fifo { scope, by_content: self.random.chance(50) },
            false => QueueKind::Standard,
        };
        let delay =
            if self.random.chance(65) { Duration::ZERO } else { self.random.millis(&[1_000, 10_000, 1]) };
        let retention = match self.random.below(100) {
            0..60 => Duration::from_secs(345_600),
            60..80 => Duration::from_secs(60),
            80..92 => Duration::from_secs(600),
            _ => self.random.millis(&[10_000, 3_000, 0]),
        };
        let lease_length = self.random.millis(&[30_000, 5_000, 0]);
        let rule = self.random.chance(60).then(|| self.dead_letters(fifo).into());
        let dead_letters = rule.filter(|_| self.has_dead_letters);
        let paused = self.random.chance(3);
        Policy { kind, lease_length, delay, retention, paused, dead_letters, ..Policy::standard() }
    }

    pub(super) fn dead_letters(&mut self, fifo: bool) -> DeadLetterRule {
        let then = match self.random.below(100) {
            0..18 => DeadLetterAction::Drop,
            18..88 => DeadLetterAction::MoveTo(self.key_of_kind(fifo)),
            _ => DeadLetterAction::MoveTo(self.any_key()),
        };
        DeadLetterRule {
            attempts_max: 1 + self.random.below(3) as u32,
            then,
            carries: if self.random.chance(60) { Carries::History } else { Carries::Nothing },
            written_by: "history".into(),
        }
    }

    pub(super) fn body(&mut self) -> Content {
        let length = self.random.below(20) as usize;
        let content_type = *self
            .random
            .pick(&[ContentType::Text, ContentType::Bytes])
            .expect("a list with entries has a pick");
        let body = Bytes::from(vec![b'a' + self.random.below(26) as u8; length]);
        let annotations = if self.random.chance(10) { Bytes::from_static(b"note") } else { Bytes::new() };
        Content { content_type, body, annotations }
    }

    pub(super) fn text(&mut self, prefix: &str, of: u64) -> Text {
        Text::from(format!("{prefix}{}", self.random.below(of)))
    }

    pub(super) fn message(&mut self, fifo: bool) -> NewMessage {
        self.unique += 1;
        let id =
            MessageId::from_chance((u128::from(self.random.bits()) << 64) | u128::from(self.random.bits()));
        let grouped = self.random.chance(if fifo { 99 } else { 40 });
        let group = match (grouped, self.crowded && !fifo) {
            (true, true) => Some(GroupId(Text::from(if self.random.chance(85) { "crowd" } else { "quiet" }))),
            (true, false) => {
                let groups = if fifo && !self.has_groups { 1 } else { 4 };
                Some(GroupId(self.text("g", groups)))
            }
            (false, _) => None,
        };
        let repeats = self.random.chance(45);
        let own = if repeats { self.text("d", 4) } else { Text::from(format!("u{}", self.unique)) };
        let deduplication = self.random.chance(if fifo { 90 } else { 1 }).then_some(DeduplicationId(own));
        let content_hash = self.random.chance(80).then(|| DeduplicationId(self.text("h", 6)));
        let delay = match (fifo, self.random.below(100)) {
            (false, 0..30) => Some(self.random.millis(&[0, 1, 1_000, 7_000, 1_000_000])),
            (true, 0..5) => Some(Duration::ZERO),
            (true, 5..7) => Some(Duration::from_secs(1)),
            _ => None,
        };
        let expiry = match self.random.below(100) {
            0..70 => Expiry::ByQueue,
            70..92 => Expiry::After {
                seconds: *self.random.pick(&[0, 1, 5, 30, 40, 400]).expect("a list with entries has a pick"),
            },
            _ => Expiry::Never,
        };
        NewMessage {
            id,
            content: self.body(),
            group,
            deduplication,
            content_hash,
            delay,
            returns: self.returns(),
            expiry,
        }
    }

    pub(super) fn returns(&mut self) -> Return {
        if self.random.chance(65) { Return::InPlace } else { Return::Behind }
    }
}

pub(super) fn is_leased(state: State) -> bool {
    matches!(state, State::Leased { .. })
}

pub(super) fn is_ready(state: State) -> bool {
    state == State::Ready
}

pub(super) fn is_delayed(state: State) -> bool {
    matches!(state, State::Delayed { .. })
}

pub(super) fn is_free(state: State) -> bool {
    !is_leased(state)
}
