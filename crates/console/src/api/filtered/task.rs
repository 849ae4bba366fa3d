//! One redrive by filter: what was ordered, how far it is, and both as a document.

use std::sync::{Arc, Weak};

use bytes::Bytes;
use kew_core::command::Browse;
use kew_core::outcome::Seen;
use kew_core::task::TASK_TIME_MAX;
use kew_core::{AccountId, LeaseToken, QueueId, QueueKey, Sequence, Timestamp};
use kew_engine::{Chosen, Engine, MovedSlice, Slice};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tokio::sync::Notify;

use super::super::fields::Members;
use super::super::message_fields::FILTER;
use super::super::names::{Home, full};
use super::super::wanted::Wanted;
use super::looked::Looked;
use crate::error::ApiError;

/// The form of the document.
const VERSION: u64 = 1;

/// What was ordered.
#[derive(Clone, PartialEq, Debug)]
pub(in crate::api) struct Order {
    /// The queue that messages leave.
    pub(in crate::api) source: QueueId,
    /// Its name when the task began.
    pub(in crate::api) source_key: QueueKey,
    /// Where they go; `None` returns each to its origin.
    pub(in crate::api) to: Option<QueueKey>,
    /// Messages a second; `None` is as fast as possible.
    pub(in crate::api) rate_max: Option<u32>,
    /// What they have to fit, in the API's words.
    pub(in crate::api) filter: Map<String, Value>,
    /// When it began: ages count from then.
    pub(in crate::api) started_at: Timestamp,
    /// None behind this one is moved.
    pub(in crate::api) through: Sequence,
    /// Messages that fitted when it began; of a very long queue those among the messages that were looked at.
    pub(in crate::api) matched: u64,
    /// Messages that were visible when it began: it moves no more than that.
    pub(in crate::api) moved_max: u64,
}

/// Where a task stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum State {
    Running,
    Done,
    Cancelled,
    Failed(&'static str),
}

impl State {
    /// As the API names it.
    fn name(&self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Done => "done",
            Self::Cancelled => "cancelled",
            Self::Failed(_) => "failed",
        }
    }
}

/// How far a task is.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Progress {
    pub(super) state: State,
    pub(super) moved: u64,
    /// Messages that others took between a look and a step.
    pub(super) passed_by: u64,
    /// Messages that have no queue to go to.
    pub(super) stranded: u64,
}

impl Order {
    /// Whether nothing has to be looked at: all messages were counted, and none fits.
    pub(super) fn is_empty(&self) -> bool {
        self.matched == 0 && self.through == Sequence::default()
    }
}

impl Progress {
    /// Messages left of those that were counted; at the end those that were found and stayed.
    fn left(&self, counted: u64) -> u64 {
        match self.state {
            State::Done => self.stranded + self.passed_by,
            _ => counted.saturating_sub(self.moved),
        }
    }
}

/// One task.
pub(in crate::api) struct Task {
    pub(in crate::api) id: String,
    pub(in crate::api) order: Order,
    wanted: Wanted,
    /// Guards the progress; held for moments.
    progress: Mutex<Progress>,
    /// Guards what the latest look found; held for moments.
    looked: Mutex<Looked>,
    /// Held while a step is under way.
    pub(super) turn: tokio::sync::Mutex<()>,
    /// Rung when a sleeping task has to look around.
    pub(super) bell: Notify,
    /// Guards what drives it; held for moments.
    driven: Mutex<Driven>,
}

#[derive(Default)]
struct Driven {
    by: Weak<Engine>,
    is_resting: bool,
}

impl Task {
    pub(super) fn new(id: String, order: Order) -> Result<Self, ApiError> {
        let progress = Progress { state: State::Running, moved: 0, passed_by: 0, stranded: 0 };
        let asked = Members::of_checked(order.filter.clone());
        let wanted = Wanted::of(&asked, order.source, order.started_at)?;
        let looked = Mutex::new(Looked::new(order.rate_max));
        let (progress, turn, bell, driven) =
            (Mutex::new(progress), Default::default(), Notify::new(), Default::default());
        Ok(Self { id, order, wanted, progress, looked, turn, bell, driven })
    }

    /// Whether a message is one of those that were ordered.
    pub(super) fn is_wanted(&self, seen: &Seen) -> bool {
        self.wanted.filter.fits(&seen.message.content)
    }

    /// What is to be looked at before the next step, if anything.
    pub(super) fn next_look(&self, now: Timestamp) -> Option<Slice> {
        let (from, max) = self.looked.lock().next_look(now)?;
        Some(Slice {
            browse: Browse { from, max, ..self.wanted.browse.clone() },
            through: self.order.through,
        })
    }

    /// Takes what a look found.
    pub(super) fn looked(&self, chosen: Chosen, now: Timestamp) {
        self.looked.lock().put(chosen, now);
    }

    /// Messages for one step, and the sequence of the first of them.
    pub(super) fn take_chosen(&self, max: u32) -> (Option<Sequence>, Vec<LeaseToken>) {
        self.looked.lock().take(max)
    }

    /// Has the next look begin at this sequence.
    pub(super) fn look_again_from(&self, first: Option<Sequence>) {
        if let Some(first) = first {
            self.looked.lock().again_from(first);
        }
    }

    /// Whether every message that it may move has had its turn.
    pub(super) fn has_met_all(&self) -> bool {
        self.looked.lock().is_over()
    }

    /// Messages that it may still move.
    pub(super) fn rest_of(&self) -> u64 {
        self.order.moved_max.saturating_sub(self.progress.lock().moved)
    }

    pub(super) fn is_running(&self) -> bool {
        self.progress.lock().state == State::Running
    }

    /// Its state, as the API names it.
    pub(super) fn state(&self) -> &'static str {
        self.progress.lock().state.name()
    }

    /// Whether its time is over.
    pub(super) fn is_over(&self, now: Timestamp) -> bool {
        self.order.started_at.plus(TASK_TIME_MAX) <= now
    }

    pub(super) fn end(&self, state: State) {
        self.progress.lock().state = state;
        *self.looked.lock() = Looked::default();
    }

    /// Counts what a slice came to; says how many messages were moved in all.
    pub(super) fn stepped(&self, slice: &MovedSlice) -> u64 {
        let mut progress = self.progress.lock();
        progress.moved += slice.moved;
        progress.passed_by += slice.passed_by;
        progress.stranded += slice.stranded;
        progress.moved
    }

    pub(super) fn moved(&self) -> u64 {
        self.progress.lock().moved
    }

    pub(super) fn driven_by(&self, engine: &Arc<Engine>) {
        self.driven.lock().by = Arc::downgrade(engine);
    }

    pub(super) fn is_driven_by(&self, engine: &Arc<Engine>) -> bool {
        self.driven.lock().by.as_ptr() == Arc::as_ptr(engine)
    }

    /// Has its driver end where it stands.
    pub(super) fn rest(&self) {
        self.driven.lock().is_resting = true;
        self.bell.notify_one();
    }

    pub(super) fn is_resting(&self) -> bool {
        self.driven.lock().is_resting
    }

    /// The task as the API shows it.
    pub(in crate::api) fn shown(&self, home: &Home<'_>) -> Value {
        let progress = self.progress.lock().clone();
        let state = progress.state.name();
        let failure = match progress.state {
            State::Failed(why) => Some(why.to_owned()),
            _ => None,
        };
        let reason = failure.or_else(|| left_because(&progress).filter(|_| state == "done"));
        let to = self.order.to.as_ref();
        json!({
            "task": self.id,
            "source": home.text(&self.order.source_key),
            "to": to.map_or_else(|| "origin".to_owned(), |key| home.text(key)),
            "state": state,
            "moved": progress.moved,
            "left": progress.left(self.order.matched),
            "filter": self.order.filter,
            "reason": reason,
        })
    }

    /// The task as it is stored.
    pub(super) fn document(&self) -> Bytes {
        let (order, progress) = (&self.order, self.progress.lock().clone());
        let document = json!({
            "version": VERSION,
            "source": order.source.0,
            "source_name": full(&order.source_key),
            "to": order.to.as_ref().map(full),
            "per_second": order.rate_max,
            "filter": order.filter,
            "started_at_ms": order.started_at.0,
            "through": order.through.0,
            "matched": order.matched,
            "moved_max": order.moved_max,
            "moved": progress.moved,
            "passed_by": progress.passed_by,
            "stranded": progress.stranded,
        });
        document.to_string().into()
    }

    /// The task in a document; none in one of another version.
    pub(super) fn of_document(id: &str, bytes: &[u8]) -> Option<Self> {
        let document: Value = serde_json::from_slice(bytes).ok()?;
        let whole = |name: &str| document.get(name)?.as_u64();
        if whole("version")? != VERSION {
            return None;
        }
        let anywhere = Home { account: AccountId(0), region: "" };
        let key = |name: &str| anywhere.key(document.get(name)?.as_str()?).ok();
        let filter = document.get("filter")?;
        // As strictly as when it was asked for.
        Members::of_body(filter.to_string().as_bytes(), FILTER).ok()?;
        let order = Order {
            source: QueueId(whole("source")?),
            source_key: key("source_name")?,
            to: if document.get("to")?.is_null() { None } else { Some(key("to")?) },
            rate_max: whole("per_second").and_then(|rate| u32::try_from(rate).ok()),
            filter: filter.as_object()?.clone(),
            started_at: Timestamp(whole("started_at_ms")?),
            through: Sequence(whole("through")?),
            matched: whole("matched")?,
            moved_max: whole("moved_max")?,
        };
        let task = Self::new(id.to_owned(), order).ok()?;
        {
            let mut progress = task.progress.lock();
            progress.moved = whole("moved")?;
            // The looks begin anew, and meet what is stranded again.
            progress.passed_by = whole("passed_by")?;
        }
        Some(task)
    }
}

/// Why messages are left that a task which is done has met.
fn left_because(progress: &Progress) -> Option<String> {
    let counted = |count: u64| format!("{count} message{}", if count == 1 { "" } else { "s" });
    let mut sentences = Vec::new();
    if progress.stranded > 0 {
        sentences.push(format!(
            "{} came from no other queue, or that queue was deleted or is of another kind",
            counted(progress.stranded)
        ));
    }
    if progress.passed_by > 0 {
        let was = if progress.passed_by == 1 { "was" } else { "were" };
        sentences.push(format!("{} {was} leased, moved or deleted meanwhile", counted(progress.passed_by)));
    }
    (!sentences.is_empty()).then(|| sentences.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order() -> Order {
        let key = |name: &str| QueueKey::new(AccountId(7), "eu-west-3", name);
        let filter = json!({ "json": "$.order.id=17", "older_than_seconds": 60, "min_attempts": 2 });
        Order {
            source: QueueId(9),
            source_key: key("dead"),
            to: Some(key("orders")),
            rate_max: Some(10),
            filter: filter.as_object().expect("the test writes an object").clone(),
            started_at: Timestamp(100_000),
            through: Sequence(u64::MAX),
            matched: 5,
            moved_max: 8,
        }
    }

    #[test]
    fn a_task_is_the_same_after_its_document() {
        for to in [None, order().to] {
            let task = Task::new("f1".to_owned(), Order { to, ..order() }).expect("the filter is one");
            let slice = MovedSlice { moved: 3, passed_by: 1, stranded: 2 };
            task.stepped(&slice);
            let read = Task::of_document("f1", &task.document()).expect("the document is a task");
            assert_eq!(read.order, task.order);
            let look = read
                .next_look(Timestamp(0))
                .expect("a task that has moved nothing looks from the first message")
                .browse;
            assert_eq!((read.moved(), look.from, read.rest_of()), (3, Sequence(0), 5));
            assert_eq!((look.sent_through, look.attempts_min), (Timestamp(40_000), 2));
        }
    }

    #[test]
    fn what_is_no_task_of_this_version_is_passed_over() {
        let task = Task::new("f1".to_owned(), order()).expect("the filter is one");
        let text = String::from_utf8(task.document().to_vec()).expect("a document is text");
        for (old, new) in [
            ("\"version\":1", "\"version\":2"),
            ("\"source\":9", "\"source\":-9"),
            ("000000000007:eu-west-3:dead", "7:dead"),
            ("000000000007:eu-west-3:orders", ""),
            ("\"min_attempts\":2", "\"min_attempts\":\"2\""),
            ("$.order.id=17", "order"),
            ("\"matched\":5", "\"matched\"5"),
        ] {
            let changed = text.replace(old, new);
            assert_ne!(changed, text, "{old}");
            assert!(Task::of_document("f1", changed.as_bytes()).is_none(), "{changed}");
        }
    }

    #[test]
    fn messages_that_are_left_are_explained() {
        let progress = |passed_by, stranded| Progress { state: State::Done, moved: 0, passed_by, stranded };
        assert_eq!(left_because(&progress(0, 0)), None);
        assert_eq!(
            left_because(&progress(1, 2)).as_deref(),
            Some(
                "2 messages came from no other queue, or that queue was deleted or is of another kind; 1 message \
                 was leased, moved or deleted meanwhile"
            )
        );
    }
}
