//! Messages chosen by what they are: counted, looked for, and moved step by step.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use kew_core::command::{Browse, CreateQueue, FirstReceipts, Send};
use kew_core::outcome::Seen;
use kew_core::{
    Command, Content, NewMessage, Outcome, Policy, QueueId, QueueKey, RuleError, Sequence, Timestamp,
};
use kew_engine::{ClockKind, Engine, EngineError, Matching, MovedSlice, Options, Slice};
use kew_store::{MemoryStore, Store, Submission};
use kew_testing::{Wrap, Wrapped};

use crate::bench::{Bench, Dice, Hands, START, body, key, seconds};

fn has(seen: &Seen, end: &str) -> bool {
    String::from_utf8_lossy(&seen.message.content.body).ends_with(end)
}

async fn filled(bench: &Bench, messages: u32) -> QueueId {
    let source = bench.queue("source").await;
    for number in 0..messages {
        bench.send(source, &number.to_string()).await;
    }
    source
}

/// One look at the beginning of a queue, and one step that moves what fits.
async fn move_all(bench: &Bench, source: QueueId, to: Option<QueueKey>) -> Result<MovedSlice, EngineError> {
    let slice = Slice { browse: Browse::of(source, 100), through: Sequence(u64::MAX) };
    let chosen = bench.engine.choose(&slice, |_| true).await?;
    let tokens = chosen.messages.into_iter().map(|(_, token)| token).collect();
    bench.engine.move_these(source, to, tokens).await
}

async fn bodies(bench: &Bench, queue: QueueId) -> Vec<String> {
    let mut found = Vec::new();
    while let Some(leased) = bench.lease(queue).await {
        found.push(body(&leased));
    }
    found
}

#[tokio::test]
async fn a_count_looks_at_all_visible_messages_and_changes_nothing() {
    let bench = Bench::new().await;
    let source = filled(&bench, 2_500).await;
    bench.send_with(source, "delayed7", |message| message.delay = Some(seconds(9))).await;
    bench.queue("target").await;
    let (browse, to) = (Browse::of(source, 1), Some(&key("target")));
    let found = bench.engine.count_matching(&browse, to, |seen| has(seen, "7")).await;
    let expected = Matching { messages: 250, stranded: 0, last: Some(Sequence(2_498)), next: None };
    assert_eq!(found, Ok(expected), "2 497 is the last of them, and sequences begin at 1");
    let none = bench.engine.count_matching(&browse, to, |_| false).await;
    assert_eq!(none, Ok(Matching::default()));
    let to_origin = bench.engine.count_matching(&browse, None, |seen| has(seen, "7")).await;
    assert_eq!(to_origin, Ok(Matching { messages: 0, stranded: 250, ..expected }), "they were sent here");
    assert_eq!(bench.engine.counts(source).await.map(|counts| counts.visible), Ok(2_500));
}

#[tokio::test]
async fn looks_bring_what_fits_in_order_and_steps_move_it_without_another_look() {
    let bench = Bench::new().await;
    let (source, target) = (filled(&bench, 30).await, bench.queue("target").await);
    let (mut next, mut found, mut looks) = (Some(Sequence(0)), Vec::new(), 0);
    while let Some(from) = next {
        let browse = Browse { from, ..Browse::of(source, 20) };
        let slice = Slice { browse, through: Sequence(u64::MAX) };
        let chosen = bench.engine.choose(&slice, |seen| has(seen, "7")).await.expect("the queue is there");
        found.extend(chosen.messages);
        (next, looks) = (chosen.next, looks + 1);
    }
    assert_eq!((looks, found.len()), (2, 3));
    for (_, token) in found {
        let moved = bench.engine.move_these(source, Some(key("target")), vec![token]).await;
        assert_eq!(moved, Ok(MovedSlice { moved: 1, ..MovedSlice::default() }));
    }
    assert_eq!(bodies(&bench, target).await, ["7", "17", "27"]);
    assert_eq!(bodies(&bench, source).await.len(), 27);
}

#[tokio::test]
async fn messages_behind_the_last_one_counted_stay() {
    let bench = Bench::new().await;
    let source = filled(&bench, 3).await;
    for (max, expected) in [(100, None), (1, Some(Sequence(2)))] {
        let slice = Slice { browse: Browse::of(source, max), through: Sequence(2) };
        let chosen = bench.engine.choose(&slice, |_| true).await.expect("the queue is there");
        assert_eq!((chosen.messages.len(), chosen.next), (max.min(2) as usize, expected));
    }
}

#[tokio::test]
async fn a_message_leased_before_its_turn_is_left() {
    let bench = Bench::new().await;
    let (source, target) = (filled(&bench, 2).await, bench.queue("target").await);
    let leased = bench.lease(source).await.expect("a message waits");
    let moved = move_all(&bench, source, Some(key("target"))).await;
    assert_eq!(moved, Ok(MovedSlice { moved: 1, ..MovedSlice::default() }));
    assert_eq!(bench.ack(&leased).await, Ok(()), "its lease runs on");
    assert_eq!(bodies(&bench, target).await, ["1"]);
}

#[tokio::test]
async fn messages_without_a_queue_to_go_back_to_are_counted_and_keep_none_behind_them() {
    let bench = Bench::new().await;
    let dead = bench.queue("dead").await;
    bench.send(dead, "sent here").await;
    let (one, two) = (bench.queue("one").await, bench.queue("two").await);
    for (from, text) in [(one, "a"), (two, "b")] {
        bench.send(from, text).await;
        let moved = move_all(&bench, from, Some(key("dead"))).await;
        assert_eq!(moved.map(|moved| moved.moved), Ok(1));
    }
    let delete = kew_core::command::DeleteQueue { queue: one, if_version: None };
    bench.engine.delete_queue(delete).await.expect("the queue exists");
    let moved = move_all(&bench, dead, None).await;
    assert_eq!(moved, Ok(MovedSlice { moved: 1, stranded: 2, ..MovedSlice::default() }));
    assert_eq!(bodies(&bench, two).await, ["b"]);
    assert_eq!(bodies(&bench, dead).await, ["sent here", "a"]);
}

#[tokio::test]
async fn a_destination_of_another_kind_or_that_is_missing_takes_nothing() {
    let bench = Bench::new().await;
    let source = filled(&bench, 1).await;
    bench.queue_with("f.fifo", Policy::fifo()).await;
    let moved = move_all(&bench, source, Some(key("f.fifo"))).await;
    assert_eq!(moved, Ok(MovedSlice { stranded: 1, ..MovedSlice::default() }));
    let moved = move_all(&bench, source, Some(key("nowhere"))).await;
    assert_eq!(moved, Err(EngineError::Rule(RuleError::QueueNotFound)));
    assert_eq!(bodies(&bench, source).await, ["0"]);
}

#[tokio::test]
async fn a_message_leased_after_the_look_is_passed_by_also_when_it_is_back() {
    let bench = Bench::new().await;
    let (source, target) = (filled(&bench, 2).await, bench.queue("target").await);
    let slice = Slice { browse: Browse::of(source, 100), through: Sequence(u64::MAX) };
    let chosen = bench.engine.choose(&slice, |_| true).await.expect("the queue is there");
    bench.lease(source).await.expect("a message waits");
    bench.engine.advance(seconds(600)).await.expect("the clock is virtual");
    let tokens = chosen.messages.into_iter().map(|(_, token)| token).collect();
    let moved = bench.engine.move_these(source, Some(key("target")), tokens).await;
    assert_eq!(moved, Ok(MovedSlice { moved: 1, passed_by: 1, ..MovedSlice::default() }));
    assert_eq!(
        (bodies(&bench, target).await, bodies(&bench, source).await),
        (vec!["1".into()], vec!["0".into()])
    );
}

/// A store that cannot read the content of the second message of a queue.
struct Damaged;

impl Wrap<MemoryStore> for Damaged {
    fn step(&self, store: &MemoryStore, now: Timestamp, command: &Command) -> Submission {
        let submission = store.step(now, command);
        let Some(Outcome::Browsed(page)) = submission.peek() else { return submission };
        let mut page = page.clone();
        for seen in page.messages.iter_mut().filter(|seen| seen.message.sequence == Sequence(2)) {
            (seen.is_readable, seen.message.content) = (false, Content::default());
        }
        Submission::settled(Ok(Outcome::Browsed(page)))
    }
}

#[tokio::test]
async fn a_damaged_message_is_neither_counted_nor_chosen_and_keeps_none_behind_it() {
    let dice = Arc::new(Dice(AtomicU64::new(1)));
    let store = Wrapped { store: MemoryStore::new(Arc::clone(&dice) as _), wrap: Damaged };
    let hands = Arc::new(Hands(AtomicU64::new(START.0)));
    let options = Options { clock: ClockKind::Virtual, ..Options::default() };
    let engine = Engine::start(Arc::new(store), hands, dice, options).await.expect("the engine starts");
    let mut queues = Vec::new();
    for name in ["source", "target"] {
        let create = CreateQueue { key: key(name), policy: Policy::standard(), documents: Vec::new() };
        queues.push(engine.create_queue(create).await.expect("the queue is new").id);
    }
    let (source, target) = (queues[0], queues[1]);
    for text in ["a", "b", "c"] {
        let messages = vec![NewMessage::text(engine.message_id(), text.to_owned())];
        let send = Send { queue: source, messages, receipts: FirstReceipts::Told };
        engine.send(send).await.expect("the send is fine");
    }
    // Also by a filter that would take anything.
    let counted = engine.count_matching(&Browse::of(source, 1), Some(&key("target")), |_| true).await;
    assert_eq!(counted, Ok(Matching { messages: 2, stranded: 0, last: Some(Sequence(3)), next: None }));
    let slice = Slice { browse: Browse::of(source, 100), through: Sequence(u64::MAX) };
    let chosen = engine.choose(&slice, |_| true).await.expect("the queue is there");
    let places: Vec<Sequence> = chosen.messages.iter().map(|(sequence, _)| *sequence).collect();
    assert_eq!((places, chosen.next), (vec![Sequence(1), Sequence(3)], None));
    let tokens = chosen.messages.into_iter().map(|(_, token)| token).collect();
    let moved = engine.move_these(source, Some(key("target")), tokens).await;
    assert_eq!(moved, Ok(MovedSlice { moved: 2, ..MovedSlice::default() }));
    let visible = async |queue| engine.counts(queue).await.map(|counts| counts.visible);
    assert_eq!((visible(source).await, visible(target).await), (Ok(1), Ok(2)), "it stays for rescue");
}
