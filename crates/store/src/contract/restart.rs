//! What a store finds again when it is opened anew, after a clean end and after a kill.

use std::collections::BTreeSet;

use bytes::Bytes;
use kew_core::command::{
    ContinueMove, Documents, Lease, ListMoves, PutDocuments, StartMove, UpdateQueue, View,
};
use kew_core::outcome::Leased;
use kew_core::{
    AccountId, Carries, Command, DocumentKey, Expiry, NewMessage, Outcome, Policy, QueueId, RuleError, TaskState,
    Text,
};

use super::stage::{Stage, bodies, body, dead_letters, expect_queue, id, seconds};
use super::{Ending, Factory};

/// Plays `before`, ends the store in each way, and plays `after`.
fn survives<T>(
    factory: &dyn Factory,
    before: impl Fn(&mut Stage<'_>) -> T,
    after: impl Fn(&mut Stage<'_>, T),
) {
    for ending in [Ending::Close, Ending::Kill] {
        let mut stage = Stage::new(factory);
        let known = before(&mut stage);
        if !stage.reopen(ending) {
            return;
        }
        after(&mut stage, known);
    }
}

pub fn messages_are_there_again_as_they_were(factory: &dyn Factory) {
    let before = |stage: &mut Stage<'_>| {
        let (standard, fifo) = (stage.standard(), stage.fifo());
        stage.send_text(standard, &["a", "b", "c"]);
        assert_eq!(stage.ack(stage.lease_one(standard).token), Ok(()));
        stage.send_groups(fifo, &["g-1", "h-1", "g-2"]);
        let delayed = NewMessage { delay: Some(seconds(9)), expiry: Expiry::Never, ..stage.message("d") };
        stage.send(standard, delayed);
        let seen = [View::Ready, View::Delayed].map(|view| stage.peek(standard, view));
        (standard, fifo, seen)
    };
    survives(factory, before, |stage, (standard, fifo, seen)| {
        assert_eq!([View::Ready, View::Delayed].map(|view| stage.peek(standard, view)), seen);
        assert_eq!(stage.figures(standard), (2, 0, 1));
        assert_eq!(stage.leased_bodies(fifo), ["g-1", "g-2", "h-1"]);
        assert_eq!(stage.send_text(standard, &["e"])[0].sequence.0, 5);
    });
}

/// Three messages leave a FIFO queue at one instant. The first is over where it arrives, so its group begins anew with
/// the third, behind that of the second.
pub fn groups_of_dead_letters_that_are_over_on_arrival_keep_their_turns(factory: &dyn Factory) {
    let before = |stage: &mut Stage<'_>| {
        let short = Policy { retention: seconds(60), ..Policy::fifo() };
        let dead = stage.named("dead", short);
        let rule = dead_letters("dead", 1, Carries::History);
        let source = stage.named("source", Policy { dead_letters: rule, ..Policy::fifo() });
        for (body, expiry) in [("g-1", Expiry::ByQueue), ("h-2", Expiry::Never), ("g-3", Expiry::Never)] {
            let message = stage.grouped(&body[..1], body);
            stage.send(source, NewMessage { expiry, ..message });
        }
        stage.at_second(100);
        assert_eq!(stage.lease_for(source, 10, seconds(5)).len(), 3);
        stage.at_second(106);
        assert_eq!(stage.figures(dead), (2, 0, 0));
        dead
    };
    let mut stage = Stage::new(factory);
    let dead = before(&mut stage);
    assert_eq!(stage.leased_bodies(dead), ["h-2", "g-3"]);
    survives(factory, before, |stage, dead| {
        assert_eq!(stage.leased_bodies(dead), ["h-2", "g-3"]);
    });
}

/// More than a step may send off. The store ends behind some of them; the others follow by themselves all the same.
pub fn dead_letters_that_were_still_to_leave_leave_afterwards(factory: &dyn Factory) {
    for (policy, group) in [(Policy::standard(), None), (Policy::fifo(), Some("g"))] {
        let before = |stage: &mut Stage<'_>| {
            let dead = stage.named("dead", policy.clone());
            let rule = dead_letters("dead", 1, Carries::History);
            let source = stage.named("source", Policy { dead_letters: rule, ..policy.clone() });
            let message = |stage: &mut Stage<'_>, body: &str| match group {
                Some(group) => stage.grouped(group, body),
                None => stage.message(body),
            };
            let messages = (0..2_500).map(|number| message(stage, &number.to_string())).collect();
            stage.send_all(source, messages);
            assert_eq!(stage.lease_for(source, 2_500, seconds(5)).len(), 2_500);
            stage.at_second(6);
            // Its own change comes while some are still to leave.
            let fresh = message(stage, "fresh");
            stage.send(source, fresh);
            let (left, _, _) = stage.figures(dead);
            assert!(left < 2_500, "{left} have left");
            (source, dead)
        };
        survives(factory, before, |stage, (source, dead)| {
            for _ in 0..4 {
                stage.step(Command::Due);
            }
            assert_eq!((stage.figures(source), stage.figures(dead)), ((1, 0, 0), (2_500, 0, 0)));
            let bodies: Vec<String> = (0..2_500).map(|number| number.to_string()).collect();
            assert_eq!(super::stage::bodies(&stage.lease_for(dead, 2_500, seconds(5))), bodies);
        });
    }
}

/// A message that had nowhere to go when its lease ended waits for its next lease, however the store ends, also where
/// there is a queue for it by then.
pub fn exhausted_message_that_stayed_waits_for_its_next_lease(factory: &dyn Factory) {
    let before = |stage: &mut Stage<'_>| {
        let rule = dead_letters("dead", 1, Carries::History);
        let source = stage.named("source", Policy { dead_letters: rule, ..Policy::standard() });
        stage.send_text(source, &["stays"]);
        assert_eq!(stage.lease_for(source, 1, seconds(5)).len(), 1);
        stage.at_second(6);
        stage.step(Command::Due);
        let dead = stage.named("dead", Policy::standard());
        assert_eq!((stage.figures(source), stage.figures(dead)), ((1, 0, 0), (0, 0, 0)));
        (source, dead)
    };
    survives(factory, before, |stage, (source, dead)| {
        stage.at_second(7);
        stage.step(Command::Due);
        assert_eq!((stage.figures(source), stage.figures(dead)), ((1, 0, 0), (0, 0, 0)));
        assert_eq!(stage.leased_bodies(source), [""; 0]);
        assert_eq!((stage.figures(source), stage.figures(dead)), ((0, 0, 0), (1, 0, 0)));
    });
}

/// Many more messages than are kept together, which leave from everywhere: the order of every group holds, also behind
/// those that are leased, and what remains expires in its time.
pub fn long_groups_keep_their_order_whatever_left_them(factory: &dyn Factory) {
    survives(factory, leave_from_everywhere, |stage, (queue, mut there, held)| {
        assert_eq!(stage.figures(queue), (there.len() as u64 - 10, 10, 0));
        let locked: BTreeSet<_> = held.iter().map(|body| group_of(body)).collect();
        for _ in 0..30 {
            let leased = stage.lease(queue, 3);
            assert!(!leased.is_empty());
            for leased in &leased {
                let found = body(&leased.message);
                assert!(!locked.contains(&group_of(&found)), "{found} is behind a leased one");
                let first = there.iter().copied().find(|number| group_of(&in_group(*number)) == group_of(&found));
                let first = first.expect("the group of the message has a name");
                assert_eq!(found, in_group(first));
                there.remove(&first);
                assert_eq!(stage.ack(leased.token), Ok(()));
            }
        }
        // Sent 10 s apart, fifty at a time, the first at 10 s.
        for gone_through in [99, 299, 549] {
            stage.at_second(1_000 + 10 * (1 + u64::from(gone_through) / 50));
            there.retain(|number| *number > gone_through);
            let counts = stage.counts(queue);
            assert_eq!(counts.visible + counts.in_flight, there.len() as u64);
            let bytes = there.iter().map(|number| in_group(*number).len() as u64).sum::<u64>();
            assert_eq!(counts.body_bytes, bytes);
        }
    });
}

/// The body of a message by its number, which begins with the name of its group.
fn in_group(number: u32) -> String {
    format!("g{}-{number:03}", number * number % 11)
}

fn group_of(body: &str) -> Option<&str> {
    body.split('-').next()
}

/// Sends 600 messages, of which some leave: the queue, the numbers of those that remain, and the bodies of the leased.
fn leave_from_everywhere(stage: &mut Stage<'_>) -> (QueueId, BTreeSet<u32>, Vec<String>) {
    let queue = stage.named("long.fifo", Policy { retention: seconds(1_000), ..Policy::fifo() });
    for number in 0..600 {
        if number % 50 == 0 {
            stage.pass(seconds(10));
        }
        stage.send_groups(queue, &[&in_group(number)]);
    }
    let mut there: BTreeSet<u32> = (0..600).collect();
    let mut ack = |leased: &Leased| {
        assert_eq!(stage.ack(leased.token), Ok(()));
        there.retain(|number| in_group(*number) != body(&leased.message));
    };
    (0..40).for_each(|_| stage.lease(queue, 3).iter().for_each(&mut ack));
    // Every group is leased; out of the middle of what is leased some leave, and the last group stays locked.
    let leased: Vec<Leased> = (0..6).flat_map(|_| stage.lease_for(queue, 10, seconds(5_000))).collect();
    assert_eq!((leased.len(), stage.lease(queue, 1).len()), (60, 0));
    let (held, back) = (&leased[50..], leased.iter().enumerate().take(50));
    for (place, leased) in back {
        match place % 4 {
            1 | 2 => ack(leased),
            _ => assert!(stage.extend(leased.token, seconds(0)).is_ok()),
        }
    }
    (queue, there, bodies(held))
}

pub fn acked_message_stays_gone(factory: &dyn Factory) {
    let before = |stage: &mut Stage<'_>| {
        let queue = stage.standard();
        stage.send_text(queue, &["a"]);
        let token = stage.lease_one(queue).token;
        assert_eq!(stage.ack(token), Ok(()));
        (queue, token)
    };
    survives(factory, before, |stage, (queue, token)| {
        assert_eq!(stage.ack(token), Err(RuleError::MessageNotFound));
        stage.pass(seconds(1_000));
        assert!(stage.lease(queue, 1).is_empty());
    });
}

pub fn lease_goes_on_with_its_receipt_terms_and_attempts(factory: &dyn Factory) {
    let before = |stage: &mut Stage<'_>| {
        let queue = stage.standard();
        stage.send_text(queue, &["a", "b"]);
        let mut asking = stage.asking(queue, 2, seconds(30));
        asking.terms.lapse_delay = seconds(5);
        (queue, stage.lease_as(asking))
    };
    survives(factory, before, |stage, (queue, leased)| {
        assert_eq!(stage.figures(queue), (0, 2, 0));
        let too_long = Err(RuleError::LeaseTooLong { cap: seconds(43_200) });
        assert_eq!(stage.extend(leased[0].token, seconds(43_201)), too_long);
        assert_eq!(stage.ack(leased[0].token), Ok(()));
        stage.at(leased[1].until);
        assert_eq!(stage.figures(queue), (0, 0, 1));
        stage.pass(seconds(5));
        assert_eq!(stage.lease_one(queue).message.attempts, 2);
    });
}

pub fn ids_are_remembered(factory: &dyn Factory) {
    let before = |stage: &mut Stage<'_>| {
        let queue = stage.fifo();
        let message = NewMessage { deduplication: id("x"), ..stage.grouped("g", "m") };
        (queue, stage.send(queue, message))
    };
    survives(factory, before, |stage, (queue, first)| {
        stage.at_second(299);
        let message = NewMessage { deduplication: id("x"), ..stage.grouped("g", "m") };
        let again = stage.send(queue, message.clone());
        assert_eq!((again.duplicate, again.id, again.token), (true, first.id, first.token));
        stage.at_second(300);
        assert!(!stage.send(queue, message).duplicate);
    });
}

pub fn receive_can_be_repeated_afterwards(factory: &dyn Factory) {
    let attempt = |stage: &Stage<'_>, queue| Lease {
        attempt: Some(Text::from("x")),
        ..stage.asking(queue, 10, seconds(30))
    };
    let before = |stage: &mut Stage<'_>| {
        let queue = stage.fifo();
        stage.send_groups(queue, &["g-1", "h-1"]);
        (queue, stage.lease_as(attempt(stage, queue)))
    };
    survives(factory, before, |stage, (queue, first)| {
        let again = stage.lease_as(attempt(stage, queue));
        assert_eq!(again, first);
        assert!(stage.lease(queue, 10).is_empty());
    });
}

pub fn turns_of_groups_are_kept(factory: &dyn Factory) {
    let before = |stage: &mut Stage<'_>| {
        let queue = stage.fifo();
        stage.send_groups(queue, &["a-1", "b-1", "c-1"]);
        stage.lease_for(queue, 1, seconds(0));
        stage.step(Command::Due);
        queue
    };
    survives(factory, before, |stage, queue| assert_eq!(stage.leased_bodies(queue), ["b-1", "c-1", "a-1"]));
}

pub fn settings_documents_and_names_are_kept(factory: &dyn Factory) {
    let key = || DocumentKey::new("front", "tags");
    let before = |stage: &mut Stage<'_>| {
        let queue = stage.standard();
        let update = UpdateQueue {
            policy: Some(Policy {
                dead_letters: dead_letters("dead", 3, Carries::Nothing),
                ..Policy::standard()
            }),
            documents: vec![(key(), Some(Bytes::from_static(b"doc")))],
            rename: Some(Stage::key("renamed")),
            ..Stage::update(queue)
        };
        let deleted = stage.named("deleted", Policy::standard());
        stage.step(Command::DeleteQueue(kew_core::command::DeleteQueue { queue: deleted, if_version: None }));
        let put = PutDocuments {
            account: AccountId(3),
            if_is: None,
            documents: vec![(key(), Some(Bytes::from_static(b"own")))],
        };
        stage.step(Command::PutDocuments(put));
        (deleted, expect_queue(stage.step(Command::UpdateQueue(update))))
    };
    survives(factory, before, |stage, (deleted, queue)| {
        assert_eq!(stage.queues(), [queue]);
        let wanted = Documents { account: AccountId(3), owner: "front".into() };
        let own = vec![(key(), Bytes::from_static(b"own"))];
        assert_eq!(stage.step(Command::Documents(wanted)), Outcome::Documents(own));
        assert!(stage.named("deleted", Policy::standard()) > deleted, "numbers are not given again");
    });
}

pub fn move_task_goes_on_where_it_stood(factory: &dyn Factory) {
    let before = |stage: &mut Stage<'_>| {
        let (from, to) = (stage.named("from", Policy::standard()), stage.named("to", Policy::standard()));
        stage.send_text(from, &["a", "b", "c"]);
        let start = StartMove { source: from, destination: Some(Stage::key("to")), rate_max: Some(5), running_max: 100 };
        let Outcome::Move(begun) = stage.step(Command::StartMove(start)) else {
            panic!("a task is expected")
        };
        stage.step(Command::ContinueMove(ContinueMove { task: begun.id, max: 1 }));
        (to, begun.id)
    };
    survives(factory, before, |stage, (to, task)| {
        let Outcome::Moves(tasks) = stage.step(Command::ListMoves(ListMoves { source: None })) else {
            panic!("tasks")
        };
        assert_eq!((tasks[0].id, tasks[0].moved, tasks[0].state), (task, 1, TaskState::Running));
        let go_on = Command::ContinueMove(ContinueMove { task, max: 10 });
        let Outcome::Move(done) = stage.step(go_on) else { panic!("a task is expected") };
        assert_eq!((done.moved, done.state), (3, TaskState::Completed));
        assert_eq!(stage.leased_bodies(to), ["a", "b", "c"]);
    });
}

pub fn dead_letter_is_in_one_queue_only(factory: &dyn Factory) {
    let before = |stage: &mut Stage<'_>| {
        let dead = stage.named("dead", Policy::standard());
        let rule = dead_letters("dead", 1, Carries::History);
        let source = stage.named("source", Policy { dead_letters: rule, ..Policy::standard() });
        stage.send_text(source, &["moved", "pending"]);
        let leased = stage.lease_for(source, 1, seconds(5));
        stage.lease_for(source, 1, seconds(60));
        stage.at(leased[0].until.next());
        stage.step(Command::Due);
        (source, dead)
    };
    survives(factory, before, |stage, (source, dead)| {
        assert_eq!((stage.figures(source), stage.figures(dead)), ((0, 1, 0), (1, 0, 0)));
        assert_eq!(bodies(&stage.lease_for(dead, 10, seconds(500))), ["moved"]);
        stage.pass(seconds(100));
        assert_eq!((stage.figures(source), stage.figures(dead)), ((0, 0, 0), (1, 1, 0)));
    });
}

pub fn what_became_due_meanwhile_is_done_at_once(factory: &dyn Factory) {
    let before = |stage: &mut Stage<'_>| {
        let queue = stage.standard();
        let mortal = NewMessage { expiry: Expiry::After { seconds: 50 }, ..stage.message("mortal") };
        let delayed = NewMessage { delay: Some(seconds(60)), ..stage.message("delayed") };
        stage.send_all(queue, vec![mortal, delayed]);
        stage.send_text(queue, &["leased"]);
        stage.lease(queue, 2);
        queue
    };
    survives(factory, before, |stage, queue| {
        stage.at_second(60);
        assert_eq!(stage.leased_bodies(queue), ["delayed", "leased"]);
    });
}

pub fn newest_instant_does_not_fall_back(factory: &dyn Factory) {
    let before = |stage: &mut Stage<'_>| {
        let queue = stage.standard();
        stage.pass(seconds(500));
        stage.send_text(queue, &["a"]);
    };
    survives(factory, before, |stage, ()| assert!(stage.store().newest_instant() >= stage.now()));
}

pub fn purge_and_rewritten_bodies_hold(factory: &dyn Factory) {
    let before = |stage: &mut Stage<'_>| {
        let (one, two) = (stage.fifo(), stage.standard());
        let message = NewMessage { deduplication: id("x"), ..stage.grouped("g", "m") };
        stage.send(one, message);
        stage.step(Command::Purge(kew_core::command::Purge { queue: one }));
        stage.send_text(two, &["old"]);
        let token = stage.lease_one(two).token;
        let content = Some(kew_core::Content { body: "new".into(), ..kew_core::Content::default() });
        let extend = kew_core::command::Extend {
            entries: vec![kew_core::command::Extension { token, length: seconds(0), content }],
            ..Stage::extending(token, seconds(0))
        };
        assert!(stage.extend_as(extend).is_ok());
        (one, two)
    };
    survives(factory, before, |stage, (one, two)| {
        assert_eq!(stage.figures(one), (0, 0, 0));
        let message = NewMessage { deduplication: id("x"), ..stage.grouped("g", "m") };
        assert!(!stage.send(one, message).duplicate, "a purge forgets ids for good");
        assert_eq!(stage.leased_bodies(two), ["new"]);
    });
}
