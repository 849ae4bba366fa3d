//! Messages chosen by what they are: counted, and moved slice by slice.

use kew_core::command::Browse;
use kew_core::outcome::Seen;
use kew_core::{Policy, QueueId, QueueKey, RuleError, Sequence};
use kew_engine::{EngineError, Matching, MovedSlice, Slice};

use crate::bench::{Bench, body, key, seconds};

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

fn slice(source: QueueId, destination: Option<QueueKey>) -> Slice {
    Slice { browse: Browse::of(source, 1), through: Sequence(u64::MAX), destination, max: 100 }
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
    let found = bench.engine.count_matching(&Browse::of(source, 1), |seen| has(seen, "7")).await;
    let expected = Matching { messages: 250, last: Some(Sequence(2_498)), next: None };
    assert_eq!(found, Ok(expected), "2 497 is the last of them, and sequences begin at 1");
    let none = bench.engine.count_matching(&Browse::of(source, 1), |_| false).await;
    assert_eq!(none, Ok(Matching::default()));
    assert_eq!(bench.engine.counts(source).await.map(|counts| counts.visible), Ok(2_500));
}

#[tokio::test]
async fn slices_move_what_fits_at_most_as_many_as_asked_and_leave_the_rest() {
    let bench = Bench::new().await;
    let (source, target) = (filled(&bench, 30).await, bench.queue("target").await);
    let mut next = Some(Sequence(0));
    let mut slices = Vec::new();
    while let Some(from) = next {
        let browse = Browse { from, ..Browse::of(source, 1) };
        let slice = Slice { browse, max: 2, ..slice(source, Some(key("target"))) };
        let moved = bench.engine.move_matching(slice, |seen| has(seen, "7")).await.expect("a slice");
        slices.push(moved.moved);
        next = moved.next;
    }
    assert_eq!(slices, [2, 1]);
    assert_eq!(bodies(&bench, target).await, ["7", "17", "27"]);
    assert_eq!(bodies(&bench, source).await.len(), 27);
}

#[tokio::test]
async fn messages_behind_the_last_one_counted_stay() {
    let bench = Bench::new().await;
    let (source, target) = (filled(&bench, 3).await, bench.queue("target").await);
    let slice = Slice { through: Sequence(2), ..slice(source, Some(key("target"))) };
    let moved = bench.engine.move_matching(slice, |_| true).await;
    assert_eq!(moved, Ok(MovedSlice { moved: 2, ..MovedSlice::default() }));
    assert_eq!(
        (bodies(&bench, target).await, bodies(&bench, source).await.len()),
        (vec!["0".into(), "1".into()], 1)
    );
}

#[tokio::test]
async fn a_message_leased_before_its_turn_is_left() {
    let bench = Bench::new().await;
    let (source, target) = (filled(&bench, 2).await, bench.queue("target").await);
    let leased = bench.lease(source).await.expect("a message waits");
    let moved = bench.engine.move_matching(slice(source, Some(key("target"))), |_| true).await;
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
        let there = slice(from, Some(key("dead")));
        assert_eq!(bench.engine.move_matching(there, |_| true).await.map(|moved| moved.moved), Ok(1));
    }
    let delete = kew_core::command::DeleteQueue { queue: one, if_version: None };
    bench.engine.delete_queue(delete).await.expect("the queue exists");
    let moved = bench.engine.move_matching(slice(dead, None), |_| true).await;
    assert_eq!(moved, Ok(MovedSlice { moved: 1, stranded: 2, ..MovedSlice::default() }));
    assert_eq!(bodies(&bench, two).await, ["b"]);
    assert_eq!(bodies(&bench, dead).await, ["sent here", "a"]);
}

#[tokio::test]
async fn a_destination_of_another_kind_or_that_is_missing_takes_nothing() {
    let bench = Bench::new().await;
    let source = filled(&bench, 1).await;
    bench.queue_with("f.fifo", Policy::fifo()).await;
    let moved = bench.engine.move_matching(slice(source, Some(key("f.fifo"))), |_| true).await;
    assert_eq!(moved, Ok(MovedSlice { stranded: 1, ..MovedSlice::default() }));
    let moved = bench.engine.move_matching(slice(source, Some(key("nowhere"))), |_| true).await;
    assert_eq!(moved, Err(EngineError::Rule(RuleError::QueueNotFound)));
    assert_eq!(bodies(&bench, source).await, ["0"]);
}
