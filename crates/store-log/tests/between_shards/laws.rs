//! What a message keeps on its way to another shard, and what becomes of it where it cannot go on.

use std::time::Duration;

use kew_core::command::{ContinueMove, MoveChosen, Peek, StartMove, UpdateQueue, View};
use kew_core::{
    Carries, Command, Content, EventKind, MoveReason, NewMessage, Outcome, Policy, QueueId, RuleError,
    Sequence, TaskState,
};
use kew_store::{Store as _, StoreError};

use crate::pair::{Pair, body, carry, rule};
use crate::small_store::{key, text_of};

const LAPSE: Duration = Duration::from_secs(31);

/// Two standard queues, the first with a rule that leads to the second, in the other shard.
fn linked(carries: Carries) -> (Pair, QueueId, QueueId) {
    let pair = Pair::new();
    let dead = pair.queue(1, "dead", Policy { delay: Duration::from_secs(5), ..Policy::standard() });
    let policy = Policy { dead_letters: rule("dead", carries), ..Policy::standard() };
    let source = pair.queue(0, "source", policy);
    (pair, source, dead)
}

/// One message of the first queue was leased once, and its lease is over.
fn owed_one(pair: &mut Pair, source: QueueId) {
    pair.at(0).send(source, "poison");
    assert_eq!(pair.at(0).lease(source, 1).len(), 1);
    pair.later(LAPSE);
    pair.at(0).ask(Command::Due);
}

#[test]
fn dead_letter_for_another_shard_is_owed_then_arrives_with_its_history() {
    let (mut pair, source, dead) = linked(Carries::History);
    let sent_at = pair.at(0).now;
    owed_one(&mut pair, source);
    assert!(pair.at(0).lease(source, 1).is_empty(), "it has left its queue");
    let owing = pair.owing(0);
    assert_eq!(owing.len(), 1);
    assert_eq!((owing[0].target, owing[0].messages), (dead, 1));
    pair.carry_all(0);
    assert_eq!(pair.owing(0)[0].messages, 0);
    let leased = pair.at(1).lease(dead, 1);
    let message = &leased[0].message;
    assert_eq!(body(&leased[0]), "poison");
    assert_eq!((message.attempts, message.sent_at), (2, sent_at));
    let origin = message.origin.as_ref().unwrap();
    assert_eq!((&origin.queue, origin.reason), (&key("source"), MoveReason::AttemptsExhausted));
}

/// A message was to leave when it could not be said yet whether there is a queue for it. It leaves as soon as that is
/// known, and is no older there than what came meanwhile.
#[test]
fn dead_letter_that_waited_for_the_queues_of_others_leaves_when_they_are_known() {
    for carries in [Carries::Nothing, Carries::History] {
        let (mut pair, source, dead) = linked(carries);
        let sent_at = pair.at(0).now;
        pair.at(0).send(source, "poison");
        assert_eq!(pair.at(0).lease(source, 1).len(), 1);
        pair.later(LAPSE);
        pair.cut_off(true);
        pair.knows_no_more("dead");
        pair.at(0).ask(Command::Due);
        assert_eq!(pair.owing(0), []);
        // Also when it is opened meanwhile.
        let disk = pair.shards[0].disk.reopen_process_crash();
        pair.reopen(0, disk);
        pair.later(LAPSE);
        pair.at(0).ask(Command::Due);
        assert_eq!(pair.owing(0), []);
        pair.knows("dead", 1);
        pair.cut_off(false);
        pair.know_others(0);
        let due = pair.at(0).store.next_due();
        assert!(due.is_some_and(|due| due <= pair.at(0).now), "{due:?}");
        pair.at(0).ask(Command::Due);
        pair.carry_all(0);
        let begun = if carries == Carries::Nothing { pair.at(0).now } else { sent_at };
        pair.later(Duration::from_secs(5));
        let leased = pair.at(1).lease(dead, 1);
        assert_eq!((body(&leased[0]), leased[0].message.sent_at), ("poison".to_owned(), begun));
    }
}

#[test]
fn dead_letter_without_its_past_begins_under_the_delay_of_its_target() {
    let (mut pair, source, dead) = linked(Carries::Nothing);
    owed_one(&mut pair, source);
    pair.carry_all(0);
    assert!(pair.at(1).lease(dead, 1).is_empty(), "it is delayed as a fresh send is");
    pair.later(Duration::from_secs(5));
    let leased = pair.at(1).lease(dead, 1);
    assert_eq!((leased[0].message.attempts, leased[0].message.first_leased_at), (1, Some(pair.at(1).now)));
}

#[test]
fn batch_that_comes_again_is_passed_over() {
    let (mut pair, source, dead) = linked(Carries::History);
    owed_one(&mut pair, source);
    let outbox = pair.owing(0)[0].outbox;
    let messages = pair.owed(0, outbox);
    let through = pair.bring(1, dead, outbox, messages.clone());
    assert!(through.is_some());
    // The answer was lost, and another owner of the source carries what is still owed.
    assert_eq!(pair.bring(1, dead, outbox, messages), through);
    assert_eq!(pair.drain(1, dead), ["poison"]);
    let disk = pair.shards[1].disk.reopen_process_crash();
    pair.reopen(1, disk);
    assert_eq!(pair.bring(1, dead, outbox, pair.owed(0, outbox)), through);
    assert!(pair.drain(1, dead).is_empty());
    pair.settle(0, outbox, through.unwrap());
    assert!(pair.owed(0, outbox).is_empty());
}

#[test]
fn what_is_owed_goes_back_when_its_target_is_gone_and_its_outbox_goes_away() {
    let (mut pair, source, dead) = linked(Carries::History);
    owed_one(&mut pair, source);
    let outbox = pair.owing(0)[0].outbox;
    pair.delete(1, "dead");
    assert_eq!(pair.bring(1, dead, outbox, pair.owed(0, outbox)), None);
    assert_eq!(pair.take_back(0, outbox), Outcome::TakenBack(1));
    assert_eq!(pair.bring(1, dead, outbox, Vec::new()), None);
    assert_eq!(pair.take_back(0, outbox), Outcome::TakenBack(0));
    assert!(pair.owing(0).is_empty());
    let leased = pair.at(0).lease(source, 1);
    assert_eq!(
        (body(&leased[0]).as_str(), leased[0].message.attempts),
        ("poison", 2),
        "without a target it stays"
    );
}

#[test]
fn what_goes_back_finds_its_queue_under_a_new_name_and_comes_from_nowhere() {
    let (mut pair, source, dead) = linked(Carries::History);
    owed_one(&mut pair, source);
    let outbox = pair.owing(0)[0].outbox;
    let rename = Some(key("renamed"));
    let update = UpdateQueue { queue: source, if_version: None, policy: None, documents: Vec::new(), rename };
    pair.at(0).ask(Command::UpdateQueue(update));
    assert_eq!(pair.owed(0, outbox)[0].origin.queue, key("renamed"), "it arrives from the name of now");
    // Another queue of the old name is not where it goes.
    pair.queue(0, "source", Policy::standard());
    pair.delete(1, "dead");
    assert_eq!(pair.bring(1, dead, outbox, pair.owed(0, outbox)), None);
    assert_eq!(pair.take_back(0, outbox), Outcome::TakenBack(1));
    let leased = pair.at(0).lease(source, 1);
    assert_eq!((body(&leased[0]).as_str(), &leased[0].message.origin), ("poison", &None));
}

#[test]
fn batch_is_bounded_by_all_that_its_messages_are_not_by_their_bodies_alone() {
    let (mut pair, source, _) = linked(Carries::History);
    for _ in 0..3 {
        let message = pair.at(0).message("x");
        let annotations = vec![b'a'; 400 << 10].into();
        let content = Content { annotations, ..message.content };
        pair.at(0).try_send(source, NewMessage { content, ..message }).unwrap();
    }
    assert_eq!(pair.at(0).lease(source, 3).len(), 3);
    pair.later(LAPSE);
    pair.at(0).ask(Command::Due);
    let outbox = pair.owing(0)[0].outbox;
    let Outcome::Owed(messages) = pair.at(0).ask(carry(outbox, 10)) else { panic!("nothing is owed") };
    assert_eq!(messages.len(), 2, "two of 400 KiB are less than a MiB, and three are more");
}

#[test]
fn exhausted_message_is_not_leased_while_it_is_not_known_whether_it_has_a_target() {
    let (mut pair, source, dead) = linked(Carries::History);
    pair.delete(1, "dead");
    pair.cut_off(true);
    owed_one(&mut pair, source);
    assert!(matches!(pair.at(0).try_lease(source, 1), Err(StoreError::Unavailable { .. })));
    let again = pair.queue(1, "dead", Policy::standard());
    assert_ne!(dead, again);
    assert!(pair.at(0).lease(source, 1).is_empty(), "it leaves for the queue that was made meanwhile");
    pair.carry_all(0);
    assert_eq!(pair.drain(1, again), ["poison"]);
}

#[test]
fn what_had_come_to_a_deleted_target_does_not_go_back() {
    let (mut pair, source, dead) = linked(Carries::History);
    owed_one(&mut pair, source);
    let outbox = pair.owing(0)[0].outbox;
    let through = pair.bring(1, dead, outbox, pair.owed(0, outbox));
    // The node that carried it is gone; a receiver deletes the message, and somebody the queue.
    assert_eq!(pair.drain(1, dead), ["poison"]);
    pair.delete(1, "dead");
    owed_two(&mut pair, outbox, source);
    assert_eq!(pair.bring(1, dead, outbox, pair.owed(0, outbox)), through);
    pair.settle(0, outbox, through.unwrap());
    assert_eq!(pair.bring(1, dead, outbox, pair.owed(0, outbox)), None);
    assert_eq!(pair.take_back(0, outbox), Outcome::TakenBack(1));
    assert_eq!(pair.drain(0, source), ["later"]);
    assert_eq!(pair.bring(1, dead, outbox, Vec::new()), None);
    let own = kew_core::command::Documents {
        account: kew_core::own::OWN_ACCOUNT,
        owner: kew_core::own::CAME.into(),
    };
    assert_eq!(pair.at(1).ask(Command::Documents(own)), Outcome::Documents(Vec::new()), "all is forgotten");
}

/// Another message leaves, for the queue that was deleted a moment ago: its shard has not heard of that.
fn owed_two(pair: &mut Pair, outbox: QueueId, source: QueueId) {
    pair.still_knows("dead", pair.owing(0)[0].target);
    pair.at(0).send(source, "later");
    pair.at(0).lease(source, 1);
    pair.later(LAPSE);
    pair.at(0).ask(Command::Due);
    assert_eq!(pair.owed(0, outbox).len(), 2);
    pair.knows_no_more("dead");
}

#[test]
fn export_waits_until_nothing_is_owed_and_leaves_the_outbox_out() {
    let (mut pair, source, _) = linked(Carries::History);
    owed_one(&mut pair, source);
    let refused = text_of(&pair.at(0).store).unwrap_err().to_string();
    assert!(refused.contains("on their way to queues of other shards"), "{refused}");
    pair.carry_all(0);
    let text = text_of(&pair.at(0).store).unwrap();
    assert!(text.contains("\"source\"") && !text.contains("owed-to-"), "{text}");
}

#[test]
fn messages_of_a_group_arrive_in_their_order_and_deduplicate_nothing() {
    let mut pair = Pair::new();
    let dead = pair.queue(1, "dead.fifo", Policy::fifo());
    let policy = Policy { dead_letters: rule("dead.fifo", Carries::History), ..Policy::fifo() };
    let source = pair.queue(0, "source.fifo", policy);
    for number in 0..7 {
        let message = pair.at(0).row(&format!("{number}"), "g", &format!("d{number}"));
        pair.at(0).try_send(source, message).unwrap();
    }
    for _ in 0..7 {
        pair.at(0).lease(source, 1);
        pair.later(LAPSE);
        pair.at(0).ask(Command::Due);
    }
    pair.carry_all(0);
    let taken = pair.drain(1, dead);
    assert_eq!(taken, ["0", "1", "2", "3", "4", "5", "6"]);
}

#[test]
fn move_task_brings_messages_back_to_their_origin_in_another_shard() {
    let (mut pair, source, dead) = linked(Carries::History);
    for _ in 0..3 {
        owed_one(&mut pair, source);
    }
    pair.carry_all(0);
    let start = StartMove { source: dead, destination: None, rate_max: None, running_max: 10 };
    let Outcome::Move(task) = pair.at(1).ask(Command::StartMove(start)) else { panic!("no task") };
    let next = Command::ContinueMove(ContinueMove { task: task.id, max: 100 });
    let Outcome::Move(task) = pair.at(1).ask(next) else { panic!("no task") };
    assert_eq!((task.moved, task.state), (3, TaskState::Completed));
    assert!(pair.at(1).lease(dead, 1).is_empty());
    let delayed = pair.owing(1)[0].outbox;
    assert_eq!(pair.owed(1, delayed).len(), 3);
    pair.carry_all(1);
    let leased = pair.at(0).lease(source, 10);
    assert_eq!(leased.len(), 3);
    for leased in &leased {
        let origin = leased.message.origin.as_ref().unwrap();
        assert_eq!((&origin.queue, origin.reason), (&key("dead"), MoveReason::Redriven));
        assert_eq!((body(leased).as_str(), leased.message.attempts), ("poison", 1));
    }
}

#[test]
fn chosen_message_moves_to_a_queue_of_another_shard() {
    let (pair, source, dead) = linked(Carries::History);
    pair.at(0).send(source, "chosen");
    let peek = Peek { queue: source, view: View::Ready, skip: 0, max: 1, body_bytes_max: 1 << 20 };
    let Outcome::Peeked(seen) = pair.at(0).ask(Command::Peek(peek)) else { panic!("nothing is seen") };
    let chosen = |destination| {
        let tokens = vec![seen[0].1];
        Command::MoveChosen(MoveChosen { source, destination: Some(destination), tokens })
    };
    let nowhere = pair.at(0).try_ask(chosen(key("nowhere")));
    assert_eq!(nowhere, Err(StoreError::Rule(RuleError::QueueNotFound)));
    assert_eq!(pair.at(0).ask(chosen(key("dead"))), Outcome::MovedChosen(vec![Ok(Sequence(1))]));
    pair.carry_all(0);
    let peek = Peek { queue: dead, view: View::Delayed, skip: 0, max: 1, body_bytes_max: 1 << 20 };
    let Outcome::Peeked(seen) = pair.at(1).ask(Command::Peek(peek)) else { panic!("nothing is seen") };
    assert_eq!(&*seen[0].0.content.body, b"chosen");
}

#[test]
fn outbox_is_no_queue_that_anybody_sees_and_the_trail_leads_through_it() {
    let (mut pair, source, dead) = linked(Carries::History);
    owed_one(&mut pair, source);
    let outbox = pair.owing(0)[0].outbox;
    pair.carry_all(0);
    let Outcome::Queues(queues) = pair.at(0).ask(Command::Queues) else { panic!("no queues") };
    assert_eq!(queues.iter().map(|queue| queue.id).collect::<Vec<_>>(), [source]);
    let history = |shard: usize, queue| {
        let look = kew_core::command::History { queue, sequence: Sequence(1) };
        match pair.at(shard).ask(Command::History(look)) {
            Outcome::History(events) => events.into_iter().map(|event| event.kind).collect::<Vec<_>>(),
            other => panic!("{other:?}"),
        }
    };
    assert!(history(0, source).contains(&EventKind::DeadLettered { to: outbox, sequence: Sequence(1) }));
    assert_eq!(history(0, outbox), []);
    assert_eq!(history(1, dead), [EventKind::Arrived { from: outbox, sequence: Sequence(1) }]);
    let departures = kew_store::Store::take_departures(&pair.at(0).store);
    assert_eq!(departures.first[0].to, Some(dead), "an operator is told the queue that it is for");
}
