//! What happened is counted by queue, and in all queues together.

use kew_core::command::{ContinueMove, Purge, StartMove};
use kew_core::outcome::Extended;
use kew_core::{
    Carries, Command, DeadLetterAction, DeadLetterRule, Departure, Expiry, NewMessage, Outcome, Policy,
    QueueId, Tally,
};

use super::stage::{Stage, dead_letters, group, id, seconds};
use super::{Ending, Factory};

/// A queue that drops what was leased once.
fn dropping(stage: &Stage<'_>) -> QueueId {
    let rule = DeadLetterRule {
        attempts_max: 1,
        then: DeadLetterAction::Drop,
        carries: Carries::Nothing,
        written_by: "test".into(),
    };
    stage.named("dropping", Policy { dead_letters: Some(rule.into()), ..Policy::standard() })
}

/// A queue from which what was leased once goes to another, and that one.
fn pair(stage: &Stage<'_>) -> (QueueId, QueueId) {
    let dead = stage.named("dead", Policy::standard());
    let dead_letters = dead_letters("dead", 1, Carries::History);
    (stage.named("source", Policy { dead_letters, ..Policy::standard() }), dead)
}

fn tally(stage: &Stage<'_>, queue: QueueId) -> Tally {
    stage.store().tallies(&[queue])[0]
}

fn sum(one: Tally, other: &Tally) -> Tally {
    Tally {
        sent: one.sent + other.sent,
        deduplicated: one.deduplicated + other.deduplicated,
        leased: one.leased + other.leased,
        acked: one.acked + other.acked,
        expired: one.expired + other.expired,
        lapsed: one.lapsed + other.lapsed,
        released: one.released + other.released,
        dead_lettered: one.dead_lettered + other.dead_lettered,
        dropped: one.dropped + other.dropped,
    }
}

/// What each queue counted is all that was counted.
fn assert_adds_up(stage: &Stage<'_>) {
    let ids: Vec<QueueId> = stage.queues().iter().map(|queue| queue.id).collect();
    let all = stage.store().tallies(&ids).iter().fold(Tally::default(), sum);
    assert_eq!(all, stage.store().tally());
}

pub fn each_queue_counts_what_happened_in_it(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let (plain, row) = (stage.standard(), stage.fifo());
    stage.send_text(plain, &["a", "b", "c"]);
    let mortal = NewMessage { expiry: Expiry::After { seconds: 100 }, ..stage.message("mortal") };
    stage.send(plain, mortal);
    for _ in 0..3 {
        let message = NewMessage { group: group("g"), deduplication: id("x"), ..stage.message("x") };
        stage.send(row, message);
    }
    let leased = stage.lease(plain, 3);
    assert_eq!(stage.ack(leased[0].token), Ok(()));
    assert!(stage.release(leased[1].token, seconds(0)).is_ok());
    stage.pass(seconds(101));
    stage.counts(plain);
    let expected = Tally { sent: 4, leased: 3, acked: 1, released: 1, lapsed: 1, expired: 1, ..Tally::default() };
    assert_eq!(tally(&stage, plain), expected);
    assert_eq!(tally(&stage, row), Tally { sent: 1, deduplicated: 2, ..Tally::default() });
    assert_adds_up(&stage);
}

pub fn a_purge_takes_nothing_from_what_was_counted(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    stage.send_text(queue, &["a", "b", "c"]);
    let leased = stage.lease(queue, 3);
    assert_eq!(stage.ack(leased[0].token), Ok(()));
    let before = tally(&stage, queue);
    assert_eq!((before.sent, before.leased, before.acked), (3, 3, 1));
    assert_eq!(stage.step(Command::Purge(Purge { queue })), Outcome::Purged(2));
    let after = tally(&stage, queue);
    assert_eq!((after.sent, after.leased, after.acked), (3, 3, 1));
    stage.send_text(queue, &["d"]);
    stage.lease_one(queue);
    assert_eq!(tally(&stage, queue).leased, 4);
    assert_adds_up(&stage);
}

pub fn a_lease_that_is_given_back_is_counted_as_released(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let (plain, (source, _)) = (stage.standard(), pair(&stage));
    stage.send_text(plain, &["a", "b"]);
    stage.send_text(source, &["c"]);
    let leased = stage.lease(plain, 2);
    // One that is given back when its time is over anyway ran out.
    stage.pass(seconds(30));
    let late = stage.extend(leased[0].token, seconds(0));
    assert!(late.is_ok_and(|late| late == Extended::Free));
    let again = stage.lease(plain, 2);
    assert!(stage.extend(again[1].token, seconds(0)).is_ok());
    stage.counts(plain);
    let expected = Tally { sent: 2, leased: 4, lapsed: 2, released: 1, ..Tally::default() };
    assert_eq!(tally(&stage, plain), expected);
    // One that was leased as often as allowed is not offered again.
    let last = stage.lease_one(source);
    assert!(stage.extend(last.token, seconds(0)).is_ok());
    stage.pass(seconds(1));
    stage.counts(source);
    assert_eq!(tally(&stage, source), Tally { sent: 1, leased: 1, dead_lettered: 1, ..Tally::default() });
    assert_adds_up(&stage);
}

pub fn a_message_that_comes_from_another_queue_was_sent_there(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let (source, dead) = pair(&stage);
    stage.send_text(source, &["a", "b"]);
    stage.lease(source, 2);
    stage.pass(seconds(31));
    assert_eq!(stage.figures(dead), (2, 0, 0));
    assert_eq!(tally(&stage, source), Tally { sent: 2, leased: 2, dead_lettered: 2, ..Tally::default() });
    assert_eq!(tally(&stage, dead), Tally::default());
    let start = StartMove { source: dead, destination: None, rate_max: None, running_max: 1 };
    let Outcome::Move(task) = stage.step(Command::StartMove(start)) else { panic!("no task began") };
    stage.step(Command::ContinueMove(ContinueMove { task: task.id, max: 10 }));
    assert_eq!(stage.figures(source), (2, 0, 0));
    assert_eq!(tally(&stage, source).sent, 2);
    assert_adds_up(&stage);
}

pub fn a_departure_is_told_once(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let ((source, dead), dropping) = (pair(&stage), dropping(&stage));
    let moved = stage.send_text(source, &["a"])[0].sequence;
    let dropped = stage.send_text(dropping, &["b"])[0].sequence;
    stage.lease(source, 1);
    stage.lease(dropping, 1);
    // An ack in the very millisecond of the lease's end still counts.
    let end = stage.now().plus(seconds(30)).plus(std::time::Duration::from_millis(1));
    stage.pass(seconds(31));
    stage.counts(source);
    let told = stage.store().take_departures();
    let departure = |queue, sequence, to| Departure { at: end, queue, sequence, to };
    assert_eq!(
        (told.first, told.more),
        (vec![departure(source, moved, Some(dead)), departure(dropping, dropped, None)], 0)
    );
    assert_eq!(stage.store().take_departures(), Default::default());
    assert_eq!(tally(&stage, dropping), Tally { sent: 1, leased: 1, dropped: 1, ..Tally::default() });
    assert_adds_up(&stage);
}

pub fn counts_begin_with_the_store(factory: &dyn Factory) {
    for ending in [Ending::Close, Ending::Kill] {
        let mut stage = Stage::new(factory);
        let (source, _) = pair(&stage);
        stage.send_text(source, &["a", "b"]);
        stage.lease(source, 1);
        stage.pass(seconds(31));
        stage.counts(source);
        if !stage.reopen(ending) {
            return;
        }
        assert_eq!(tally(&stage, source), Tally::default());
        assert_eq!(stage.store().take_departures(), Default::default(), "it was told before");
        stage.send_text(source, &["c"]);
        stage.lease(source, 1);
        assert_eq!(tally(&stage, source), Tally { sent: 1, leased: 1, ..Tally::default() });
        assert_adds_up(&stage);
    }
}
