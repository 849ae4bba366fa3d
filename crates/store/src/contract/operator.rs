//! What an operator does to single messages and to a queue, and asks of it beside its messages.

use kew_core::command::{DeleteQueue, FirstSend, Groups, Promote, Purge, Trace, Traced};
use kew_core::outcome::{First, GroupLock, SeenGroup, Trail};
use kew_core::rules::dedup::WINDOW;
use kew_core::{
    Carries, Command, DeduplicationId, DeduplicationScope, Event, EventKind, LeaseToken, NewMessage, Outcome, Policy,
    QueueId, QueueKind, ReceiptRule, RuleError, Sequence, Text,
};

use super::stage::{Stage, bodies, dead_letters, first_receipt, group, seconds};
use super::{Ending, Factory};

fn promote(stage: &Stage<'_>, token: LeaseToken) -> Result<(), RuleError> {
    match stage.step(Command::Promote(Promote { queue: token.queue, tokens: vec![token] })) {
        Outcome::Promoted(mut promoted) => promoted.pop().expect("a promotion answers for each receipt"),
        other => panic!("promotions are expected: {other:?}"),
    }
}

fn groups(stage: &Stage<'_>, queue: QueueId, prefix: &str, max: u32) -> Vec<SeenGroup> {
    let (mut seen, mut next) = (Vec::new(), Some(0));
    while let Some(from) = next {
        let asked = Groups { queue, from, prefix: Text::from(prefix), max, look_max: 3 };
        let Outcome::Groups(page) = stage.step(Command::Groups(asked)) else { panic!("groups are expected") };
        seen.extend(page.groups);
        next = page.next;
    }
    seen.sort_by(|one, other| one.group.cmp(&other.group));
    seen
}

fn trace(stage: &Stage<'_>, what: Traced, look_max: u32) -> Trail {
    let mut trail = Trail::default();
    let mut before = None;
    loop {
        let asked = Trace { what: what.clone(), before, look_max };
        let Outcome::Traced(slice) = stage.step(Command::Trace(asked)) else { panic!("events are expected") };
        trail.events.extend(slice.events);
        if slice.next.is_none() {
            return trail;
        }
        before = slice.next;
    }
}

pub fn promoted_message_shows_at_once_whichever_way_it_was_delayed(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    for delay in [3, 900, 50_000] {
        let message = stage.message(&delay.to_string());
        let sent = stage.send(queue, NewMessage { delay: Some(seconds(delay)), ..message });
        assert_eq!(stage.figures(queue), (0, 0, 1));
        assert_eq!(promote(&stage, first_receipt(&sent)), Ok(()));
        assert_eq!(stage.figures(queue), (1, 0, 0));
        let leased = stage.lease_one(queue);
        assert_eq!((leased.message.sequence, leased.message.attempts), (sent.sequence, 1));
        stage.release(leased.token, seconds(400)).expect("the message was leased just now");
        assert_eq!(promote(&stage, leased.token), Ok(()));
        assert_eq!(stage.ack(stage.lease_one(queue).token), Ok(()));
    }
}

pub fn promoted_message_of_a_group_waits_for_those_before_it_only(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.named("q", Policy { delay: seconds(100), ..Policy::fifo() });
    let sent = stage.send_groups(queue, &["g-1", "g-2", "h-1"]);
    assert_eq!(promote(&stage, first_receipt(&sent[1])), Ok(()));
    assert_eq!((stage.figures(queue), stage.lease(queue, 10).len()), ((1, 0, 2), 0));
    assert_eq!(promote(&stage, first_receipt(&sent[0])), Ok(()));
    assert_eq!(stage.leased_bodies(queue), ["g-1", "g-2"]);
    stage.set_policy(queue, Policy { delay: seconds(900), ..Policy::fifo() });
    assert_eq!(stage.figures(queue), (0, 2, 1), "a longer delay does not hide them again");
}

pub fn only_a_delayed_message_is_promoted(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    let sent = stage.send_text(queue, &["a"]).remove(0);
    assert_eq!(promote(&stage, first_receipt(&sent)), Err(RuleError::NotDelayed));
    let leased = stage.lease_one(queue);
    assert_eq!(promote(&stage, leased.token), Err(RuleError::NotDelayed));
    assert_eq!(stage.figures(queue), (0, 1, 0), "its lease goes on");
    assert_eq!(stage.ack(leased.token), Ok(()));
    assert_eq!(promote(&stage, leased.token), Err(RuleError::MessageNotFound));
}

pub fn promotion_survives_a_restart(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    let message = stage.message("a");
    let sent = stage.send(queue, NewMessage { delay: Some(seconds(50_000)), ..message });
    assert_eq!(promote(&stage, first_receipt(&sent)), Ok(()));
    if stage.reopen(Ending::Close) {
        assert_eq!(stage.figures(queue), (1, 0, 0));
    }
}

pub fn operator_deletes_a_message_of_a_group_out_of_its_turn(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.fifo();
    let sent = stage.send_groups(queue, &["g-1", "g-2", "g-3"]);
    let token = first_receipt(&sent[1]);
    assert_eq!(stage.ack_by(ReceiptRule::Any, token), Err(RuleError::TokenStale));
    assert_eq!(stage.ack_by(ReceiptRule::OutOfTurn, token), Ok(()));
    assert_eq!(stage.leased_bodies(queue), ["g-1", "g-3"]);
}

pub fn paused_queue_delivers_nothing_and_takes_everything(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    for kind in [Policy::standard(), Policy::fifo()] {
        let is_fifo = kind.kind.is_fifo();
        let queue = stage.named(if is_fifo { "f" } else { "s" }, kind.clone());
        let message = if is_fifo { stage.grouped("g", "a") } else { stage.message("a") };
        stage.send(queue, message);
        let leased = stage.lease_one(queue);
        stage.set_policy(queue, Policy { paused: true, ..kind.clone() });
        let message = if is_fifo { stage.grouped("h", "b") } else { stage.message("b") };
        stage.send(queue, message);
        assert!(stage.lease(queue, 10).is_empty(), "nothing is delivered");
        assert_eq!(stage.ack(leased.token), Ok(()), "what was delivered before can be acknowledged");
        stage.reopen(Ending::Kill);
        assert!(stage.lease(queue, 10).is_empty(), "a pause survives a restart");
        stage.set_policy(queue, kind);
        assert_eq!(bodies(&stage.lease(queue, 10)), ["b"]);
    }
}

pub fn resumed_queue_is_freed_for_those_who_wait(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.named("q", Policy { paused: true, ..Policy::standard() });
    stage.send_text(queue, &["a"]);
    let policy = Some(Policy::standard());
    let resume = Command::UpdateQueue(kew_core::command::UpdateQueue { policy, ..Stage::update(queue) });
    let submission = stage.store().step(stage.now(), &resume);
    assert!(submission.freed.contains(&queue));
}

pub fn groups_are_shown_with_what_waits_and_what_locks_them(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.fifo();
    let sent = stage.send_groups(queue, &["a-1", "a-2", "ab-1", "b-1", "c-1", "c-2", "d-1"]);
    let leased = stage.lease_for(queue, 1, seconds(20)).remove(0);
    let lock = GroupLock { sequence: sent[0].sequence, id: sent[0].id, until: leased.until };
    let seen = |name, waiting, lock| SeenGroup { group: group(name).expect("a name"), waiting, lock };
    let expected = [
        seen("a", 1, Some(lock)),
        seen("ab", 1, None),
        seen("b", 1, None),
        seen("c", 2, None),
        seen("d", 1, None),
    ];
    for max in [1, 2, 100] {
        assert_eq!(groups(&stage, queue, "", max), expected);
        assert_eq!(groups(&stage, queue, "a", max), expected[..2]);
    }
    stage.pass(seconds(20));
    assert_eq!(groups(&stage, queue, "a", 9)[0], seen("a", 2, None), "a lease that is over locks nothing");
    let asked = Groups { queue: QueueId(404), from: 0, prefix: Text::default(), max: 1, look_max: 1 };
    assert_eq!(stage.refused(Command::Groups(asked)), RuleError::QueueNotFound);
}

pub fn deduplication_id_is_looked_up_while_its_window_is_open(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.fifo();
    let look = |stage: &Stage<'_>, queue, id: &str, in_group: Option<&str>| {
        let id = DeduplicationId(Text::from(id));
        let asked = FirstSend { queue, id, group: in_group.and_then(group) };
        match stage.step(Command::FirstSend(asked)) {
            Outcome::FirstSend(first) => first,
            other => panic!("a first send is expected: {other:?}"),
        }
    };
    let message = NewMessage { deduplication: super::stage::id("d"), ..stage.grouped("g", "a") };
    let sent = stage.send(queue, message.clone());
    let first = First { id: sent.id, sequence: sent.sequence, until: stage.now().plus(WINDOW) };
    assert_eq!(look(&stage, queue, "d", None), Some(first));
    assert_eq!(look(&stage, queue, "other", None), None);
    assert_eq!(stage.ack_by(ReceiptRule::OutOfTurn, first_receipt(&sent)), Ok(()));
    assert_eq!(look(&stage, queue, "d", None), Some(first), "an id outlives its message");
    stage.pass(WINDOW);
    assert_eq!(look(&stage, queue, "d", None), None);
    let kind = QueueKind::Fifo { scope: DeduplicationScope::Group, by_content: false };
    let scoped = stage.named("scoped", Policy { kind, ..Policy::fifo() });
    stage.send(scoped, message);
    assert!(look(&stage, scoped, "d", Some("g")).is_some());
    assert_eq!(look(&stage, scoped, "d", Some("h")), None);
}

pub fn trail_of_a_message_leads_through_its_moves(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let dead = stage.named("dead", Policy::standard());
    let rule = dead_letters("dead", 1, Carries::History);
    let source = stage.named("source", Policy { dead_letters: rule, ..Policy::standard() });
    let sent = stage.send_text(source, &["noise", "a", "noise"]).remove(1);
    stage.lease(source, 3);
    stage.at_second(60);
    stage.step(Command::Due);
    let sends = trace(&stage, Traced::Id(sent.id), 2);
    let told = sends.events.iter().map(|event| (event.queue, event.sequence)).collect::<Vec<_>>();
    assert_eq!(told, [(source, Sequence(2))]);
    let kinds = |places: Vec<(QueueId, Sequence)>, look_max| {
        let trail = trace(&stage, Traced::Places(places), look_max);
        trail.events.into_iter().map(|event| event.kind).collect::<Vec<_>>()
    };
    let moved = EventKind::DeadLettered { to: dead, sequence: Sequence(2) };
    let arrived = EventKind::Arrived { from: source, sequence: Sequence(2) };
    for look_max in [1, 100] {
        assert_eq!(kinds(vec![(dead, Sequence(2))], look_max), [moved.clone(), arrived.clone()]);
        let all = kinds(vec![(dead, Sequence(2)), (source, Sequence(2))], look_max);
        assert_eq!((all.len(), &all[..2]), (5, &[moved.clone(), arrived.clone()][..]));
    }
    let of = |queue| trace(&stage, Traced::Queue(queue), 2).events;
    assert!(of(source).iter().all(|event| event.queue == source), "only what happened in the queue");
    let sends = of(source).iter().filter(|event| matches!(event.kind, EventKind::Sent { .. })).count();
    assert_eq!((sends, of(QueueId(99)).len()), (3, 0));
}

pub fn what_went_with_its_queue_is_told_once_for_all(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let (purged, deleted, empty) = (stage.standard(), stage.fifo(), stage.named("empty", Policy::standard()));
    stage.send_text(purged, &["a", "b"]);
    let lone = stage.grouped("g", "c");
    stage.send(deleted, lone);
    stage.at_second(5);
    let at = stage.now();
    for queue in [purged, empty] {
        stage.step(Command::Purge(Purge { queue }));
    }
    stage.send_text(purged, &["later"]);
    stage.step(Command::DeleteQueue(DeleteQueue { queue: deleted, if_version: None }));
    let ends = |queue, sequence| {
        let events = trace(&stage, Traced::Places(vec![(queue, Sequence(sequence))]), 2).events;
        events.into_iter().filter(|event| event.purges(queue, Sequence(sequence))).collect::<Vec<_>>()
    };
    let end = |queue, sequence| vec![Event { at, queue, sequence, kind: EventKind::Purged }];
    for sequence in [1, 2] {
        assert_eq!(ends(purged, sequence), end(purged, Sequence(2)));
    }
    assert_eq!(ends(purged, 3), [], "it was sent afterwards");
    assert_eq!(ends(deleted, 1), end(deleted, Event::WHOLE_QUEUE));
    assert_eq!(trace(&stage, Traced::Queue(empty), 2).events, [], "nothing was in it");
}
