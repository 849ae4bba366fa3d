//! What must hold when a store is opened after a crash.
#![allow(dead_code, reason = "each test program uses its own part")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod things;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use kew_core::command::{Ack, FirstReceipts, Lease, Send};
use kew_core::{
    Command, DeduplicationId, GroupId, MessageId, NewMessage, Outcome, Queue, QueueId, ReceiptRule, Text,
    Timestamp,
};
use kew_store::Store;
use kew_store::contract::model::subject::block_on;
use kew_store_log::{Found, LogError, LogOptions, LogStore, SimDisk};
use serde_json::Value;

pub use things::{Chance, Debt, State, States, difference, is_promise, options, text_of};

/// How the crash went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Crash {
    /// The process died; the disk goes on.
    Process,
    /// The power went.
    Power(Found, u64),
}

impl Crash {
    pub fn disk(self, disk: &SimDisk) -> SimDisk {
        match self {
            Self::Process => disk.reopen_process_crash(),
            Self::Power(found, seed) => disk.reopen(seed, found),
        }
    }
}

/// Opens what a crash left and holds it against what was owed.
pub fn hold(disk: &SimDisk, crash: Crash, debt: Debt, states: &States) -> Result<(), String> {
    let least = if crash == Crash::Process { debt.written } else { debt.promised };
    let found = Reopened::of(crash.disk(disk), Timestamp(0))?;
    let state = found.is_in(least..=debt.written + 1, |batch, newest| {
        // A checkpoint may know a later instant than the records do.
        let later = states.get(&batch).into_iter().flatten().filter(|state| state.now >= newest);
        Ok(later.cloned().collect())
    })?;
    found.keeps_its_word(&state)
}

/// A store that was opened after a crash.
pub struct Reopened {
    disk: SimDisk,
    store: LogStore,
}

impl Reopened {
    /// Opens what was found, at some instant by the machine's clock.
    pub fn of(disk: SimDisk, now: Timestamp) -> Result<Self, String> {
        Ok(Self { store: open(&disk, now)?, disk })
    }

    /// It must be what it was after one of these batches. Answers its state then. A batch that found no room takes up
    /// what is asked next, so one instant may have several states; those of the first one known count.
    pub fn is_in(
        &self,
        batches: RangeInclusive<u64>,
        states_of: impl FnOnce(u64, Timestamp) -> Result<Vec<State>, String>,
    ) -> Result<State, String> {
        let batch = self.store.stats().written_through.0;
        if !batches.contains(&batch) {
            let (least, most) = batches.into_inner();
            return Err(format!("{batch} batches were found, of {least} owed and at most {most}"));
        }
        let newest = self.store.newest_instant();
        let mut states = states_of(batch, newest)?;
        let state = states
            .first()
            .cloned()
            .ok_or_else(|| format!("nothing is known of batch {batch} at {newest:?}"))?;
        ask(&self.store, state.now, Command::Due)?;
        let text = text_of(&self.store)?;
        states.retain(|known| known.now == state.now && known.text == text);
        if let Some(state) = states.pop() {
            return Ok(state);
        }
        Err(format!(
            "batch {batch} is not what it was at {:?}:\n{}",
            state.now,
            difference(&state.text, &text)
        ))
    }

    /// What it has adds up, it goes on, and what it does then is durable.
    pub fn keeps_its_word(self, state: &State) -> Result<(), String> {
        let Self { disk, store } = self;
        let messages = Messages::read(&state.text);
        messages.add_up(&store, state.now)?;
        go_on(&store, &messages, state.now)?;
        let after = text_of(&store)?;
        drop(store);
        let again = open(&disk.reopen(0, Found::Lost), Timestamp(0))?;
        ask(&again, state.now, Command::Due)?;
        let found = text_of(&again)?;
        if found == after {
            return Ok(());
        }
        Err(format!("after it went on and lost its power:\n{}", difference(&after, &found)))
    }
}

/// Opens a store as a program that is started again when it fails: an error of writing back that was not reported is
/// reported once, to the next one who opens the file.
pub fn start(disk: &SimDisk, options: LogOptions, chance: u64, now: Timestamp) -> Result<LogStore, String> {
    let open = || LogStore::open(Arc::new(disk.clone()), options, Chance::at(chance), now);
    let opened = match open() {
        Err(LogError::Io { .. }) => open(),
        opened => opened,
    };
    opened.map(|(store, _)| store).map_err(|error| format!("the store does not open: {error}"))
}

fn open(disk: &SimDisk, now: Timestamp) -> Result<LogStore, String> {
    start(disk, options(), 1 << 40, now)
}

fn ask(store: &LogStore, now: Timestamp, command: Command) -> Result<Outcome, String> {
    let asked = format!("{command:?}");
    let answer = store.step(now, &command);
    store.commit();
    block_on(answer).map_err(|error| format!("{asked}: {error}"))
}

/// The messages of an export.
struct Messages {
    lines: Vec<Value>,
}

impl Messages {
    fn read(text: &str) -> Self {
        let messages = text.lines().filter(|line| line.starts_with("{\"message\""));
        let value =
            |line: &str| serde_json::from_str::<Value>(line).expect("an export is JSON")["message"].take();
        Self { lines: messages.map(value).collect() }
    }

    fn of(&self, queue: QueueId) -> impl Iterator<Item = &Value> {
        self.lines.iter().filter(move |line| line["queue"].as_u64() == Some(queue.0))
    }

    /// Law 8: what each queue counts is what is found in it.
    fn add_up(&self, store: &LogStore, now: Timestamp) -> Result<(), String> {
        for queue in queues(store, now)? {
            let Outcome::Counts(counts) = ask(store, now, Command::Counts(queue.id))? else {
                return Err("no counts".into());
            };
            let (mut ready, mut delayed, mut leased) = (0, 0, 0);
            for line in self.of(queue.id) {
                match &line["state"] {
                    Value::String(state) if state == "ready" => ready += 1,
                    Value::Object(state) if state.contains_key("delayed_until_ms") => delayed += 1,
                    _ => leased += 1,
                }
            }
            if (counts.visible, counts.delayed, counts.in_flight) != (ready, delayed, leased) {
                return Err(format!(
                    "law 8: {counts:?}, but {ready} ready, {delayed} delayed, {leased} leased"
                ));
            }
        }
        Ok(())
    }
}

fn queues(store: &LogStore, now: Timestamp) -> Result<Vec<Arc<Queue>>, String> {
    match ask(store, now, Command::Queues)? {
        Outcome::Queues(queues) => Ok(queues),
        other => Err(format!("{other:?}")),
    }
}

/// The store must go on: remember ids, take and give messages, keep groups in order, forget what was deleted.
fn go_on(store: &LogStore, messages: &Messages, now: Timestamp) -> Result<(), String> {
    for queue in queues(store, now)? {
        let is_fifo = queue.policy.kind.is_fifo();
        if is_fifo {
            repeat_a_send(store, messages, &queue, now)?;
        }
        let fresh = NewMessage {
            group: is_fifo.then(|| GroupId(Text::from("g0"))),
            deduplication: is_fifo.then(|| DeduplicationId(Text::from("after the crash"))),
            ..NewMessage::text(MessageId::from_chance(77), "after the crash")
        };
        let sent = ask(
            store,
            now,
            Command::Send(Send { queue: queue.id, messages: vec![fresh], receipts: FirstReceipts::Told }),
        )?;
        if !matches!(&sent, Outcome::Sent(sent) if !sent[0].duplicate) {
            return Err(format!("a fresh send was none: {sent:?}"));
        }
        let taken = ask(store, now, Command::Lease(Lease::of(queue.id, 5, now)))?;
        let Outcome::Leased(leased) = taken else { return Err("no lease".into()) };
        if is_fifo {
            in_order(store, messages, &leased)?;
        }
        let tokens: Vec<_> = leased.iter().map(|leased| leased.token).collect();
        let ack = Ack { queue: queue.id, receipt: ReceiptRule::Any, tokens };
        let Outcome::Acked(acked) = ask(store, now, Command::Ack(ack))? else { return Err("no acks".into()) };
        if let Some(error) = acked.iter().find_map(|acked| acked.as_ref().err()) {
            return Err(format!("an ack right after its lease: {error}"));
        }
    }
    // An error of writing back that was not reported to the process before; upkeep tries again by itself.
    let kept = match store.keep_up() {
        Err(LogError::Io { .. }) => store.keep_up(),
        kept => kept,
    };
    kept.map_err(|error| format!("upkeep: {error}"))
}

/// Law 5: an id whose message is still there and was sent within the window is a duplicate.
fn repeat_a_send(store: &LogStore, messages: &Messages, queue: &Queue, now: Timestamp) -> Result<(), String> {
    // Sent under the queue's present settings: others may count ids otherwise.
    let is_young = |line: &&Value| {
        line["sent_ms"].as_u64().is_some_and(|sent| now.0 < sent + 300_000 && queue.modified_at.0 < sent)
    };
    let was_sent = |line: &&Value| line["origin"].is_null() && line["deduplication"].is_string();
    let Some(line) = messages.of(queue.id).filter(is_young).find(was_sent) else { return Ok(()) };
    let text = |field: &str| Text::from(line[field].as_str().unwrap_or_default());
    let again = NewMessage {
        group: Some(GroupId(text("group"))),
        deduplication: Some(DeduplicationId(text("deduplication"))),
        ..NewMessage::text(MessageId::from_chance(78), "again")
    };
    let sent = ask(
        store,
        now,
        Command::Send(Send { queue: queue.id, messages: vec![again], receipts: FirstReceipts::Told }),
    )?;
    match &sent {
        Outcome::Sent(sent) if sent[0].duplicate => Ok(()),
        _ => Err(format!("law 5: {line} was forgotten: {sent:?}")),
    }
}

/// Law 4: nothing of a group is leased while an earlier one of it is left behind.
fn in_order(
    store: &LogStore,
    messages: &Messages,
    leased: &[kew_core::outcome::Leased],
) -> Result<(), String> {
    let left = Messages::read(&text_of(store)?);
    let taken: Vec<u64> = leased.iter().map(|leased| leased.message.sequence.0).collect();
    for each in leased {
        let group = each.message.group.as_ref().map(|group| group.0.as_str());
        let earlier = |line: &&Value| {
            let sequence = line["sequence"].as_u64().unwrap_or_default();
            sequence < each.message.sequence.0
                && line["group"].as_str() == group
                && !taken.contains(&sequence)
        };
        let left_behind = left.of(each.message.queue).find(earlier);
        let known = left_behind.filter(|line| messages.lines.iter().any(|before| before["id"] == line["id"]));
        if let Some(line) = known {
            return Err(format!("law 4: {:?} was leased before {line}", each.message));
        }
    }
    let mut order: BTreeMap<Option<&Text>, u64> = BTreeMap::new();
    for each in leased {
        let last = order.insert(each.message.group.as_ref().map(|group| &group.0), each.message.sequence.0);
        if last > Some(each.message.sequence.0) {
            return Err(format!("law 4: out of order within a group: {leased:?}"));
        }
    }
    Ok(())
}
