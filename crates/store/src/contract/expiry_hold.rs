//! Expiry that is held: nothing dies that is over after the hold's instant, and everything else goes on.

use std::time::Duration;

use kew_core::rules::retention::{ExpiryHold, HoldEnd};
use kew_core::{Command, Expiry, NewMessage, Outcome, Policy, QueueId, Timestamp};

use super::stage::{Stage, bodies, seconds};
use super::{Ending, Factory};

const DAY: Duration = Duration::from_secs(86_400);

/// Holds expiry through the present.
fn hold(stage: &Stage<'_>) -> ExpiryHold {
    let hold = ExpiryHold { through: stage.now(), until: HoldEnd::Confirmed };
    hold_as(stage, Some(hold));
    hold
}

fn hold_as(stage: &Stage<'_>, hold: Option<ExpiryHold>) {
    assert_eq!(stage.step(Command::HoldExpiry(hold)), Outcome::Done);
    assert_eq!(stage.store().expiry_hold(), hold);
}

fn minute(stage: &Stage<'_>, name: &str, policy: Policy) -> QueueId {
    stage.named(name, Policy { retention: seconds(60), ..policy })
}

pub fn held_messages_show_and_can_be_leased_however_late_it_is(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = minute(&stage, "q", Policy::standard());
    stage.send_text(queue, &["leased", "ready"]);
    for (body, delay) in [("near", 90), ("far", 3_000)] {
        let delayed = NewMessage { delay: Some(seconds(delay)), ..stage.message(body) };
        stage.send(queue, delayed);
    }
    let own = NewMessage { expiry: Expiry::After { seconds: 100 }, ..stage.message("own") };
    stage.send(queue, own);
    assert_eq!(bodies(&stage.lease_for(queue, 1, seconds(80))), ["leased"]);
    stage.at_second(30);
    hold(&stage);
    stage.at_second(70);
    assert_eq!(stage.figures(queue), (2, 1, 2), "leases and delays go on");
    stage.at_second(80);
    assert_eq!(stage.figures(queue), (3, 0, 2));
    stage.pass(30 * DAY);
    assert_eq!(stage.figures(queue), (5, 0, 0));
    let leased = stage.lease_for(queue, 2, seconds(20));
    assert_eq!(stage.ack(leased[0].token), Ok(()));
    stage.pass(seconds(20));
    assert_eq!(stage.figures(queue), (4, 0, 0), "a lease ends, and its message shows again");
    assert_eq!(stage.leased_bodies(queue).len(), 4);
}

pub fn messages_die_that_were_over_by_the_hold(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = minute(&stage, "q", Policy::standard());
    stage.send_text(queue, &["old"]);
    stage.pass(seconds(1));
    stage.send_text(queue, &["young"]);
    hold_as(&stage, Some(ExpiryHold { through: stage.now().plus(seconds(59)), until: HoldEnd::Settled }));
    stage.pass(DAY);
    assert_eq!(stage.leased_bodies(queue), ["young"]);
}

pub fn hold_that_is_moved_lets_die_what_is_over_by_then(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queues = [minute(&stage, "q", Policy::standard()), minute(&stage, "q.fifo", Policy::fifo())];
    let begin = stage.now();
    for (second, name) in ["a", "b", "c"].into_iter().enumerate() {
        stage.at_second(second as u64);
        stage.send_text(queues[0], &[name]);
        stage.send_groups(queues[1], &[&format!("{name}-1")]);
    }
    hold(&stage);
    stage.pass(DAY);
    stage.send_text(queues[0], &["late"]);
    // A lease that runs does not keep its message from dying in its time.
    let leased = stage.lease_for(queues[0], 1, 2 * DAY);
    assert_eq!((bodies(&leased), stage.figures(queues[0])), (vec!["a".to_owned()], (3, 1, 0)));
    let through = |second| Some(ExpiryHold { through: begin.plus(seconds(second)), until: HoldEnd::Settled });
    for (second, standard, fifo) in [(59, (3, 1, 0), 3), (60, (3, 0, 0), 2), (61, (2, 0, 0), 1), (62, (1, 0, 0), 0)] {
        hold_as(&stage, through(second));
        assert_eq!(stage.figures(queues[0]), standard, "through {second}");
        assert_eq!(stage.counts(queues[1]).stored(), fifo, "through {second}");
    }
    assert_eq!(stage.leased_bodies(queues[0]), ["late"]);
}

pub fn everything_that_is_over_dies_when_the_hold_is_lifted(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queues = [minute(&stage, "q", Policy::standard()), minute(&stage, "q.fifo", Policy::fifo())];
    stage.send_text(queues[0], &["leased", "ready"]);
    stage.send_groups(queues[1], &["g-1", "g-2", "h-1"]);
    let hidden = NewMessage { delay: Some(3 * DAY), ..stage.message("hidden") };
    stage.send(queues[0], hidden);
    hold(&stage);
    stage.pass(DAY);
    for queue in queues {
        stage.lease_for(queue, 1, 5 * DAY);
    }
    let made_while_held = minute(&stage, "new", Policy::standard());
    stage.send_text(made_while_held, &["new"]);
    assert_eq!(queues.map(|queue| stage.figures(queue)), [(1, 1, 1), (2, 1, 0)]);
    hold_as(&stage, None);
    assert_eq!(queues.map(|queue| stage.figures(queue)), [(0, 0, 0); 2]);
    assert_eq!(stage.figures(made_while_held), (1, 0, 0));
    stage.pass(seconds(60));
    assert_eq!(stage.figures(made_while_held), (0, 0, 0));
}

pub fn nothing_is_due_for_what_is_held(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = minute(&stage, "q", Policy::standard());
    stage.send_text(queue, &["leased", "ready"]);
    stage.lease_for(queue, 1, seconds(80));
    hold(&stage);
    stage.pass(DAY);
    assert_eq!(stage.figures(queue), (2, 0, 0));
    assert_eq!(stage.store().next_due(), None, "or the timers would never rest");
    stage.set_policy(queue, Policy { retention: seconds(61), ..Policy::standard() });
    assert_eq!(stage.figures(queue), (2, 0, 0));
    assert_eq!(stage.store().next_due().filter(|due| *due <= stage.now()), None);
}

pub fn hold_survives_restarts(factory: &dyn Factory) {
    for ending in [Ending::Close, Ending::Kill] {
        let mut stage = Stage::new(factory);
        let queues = [minute(&stage, "q", Policy::standard()), minute(&stage, "q.fifo", Policy::fifo())];
        stage.send_text(queues[0], &["leased", "ready"]);
        stage.send_groups(queues[1], &["g-1", "g-2"]);
        let held = hold(&stage);
        stage.pass(DAY);
        stage.lease_for(queues[0], 1, seconds(10));
        stage.lease_for(queues[1], 1, seconds(10));
        for _ in 0..2 {
            if !stage.reopen(ending) {
                return;
            }
            assert_eq!(stage.store().expiry_hold(), Some(held));
            stage.pass(seconds(10));
            assert_eq!(queues.map(|queue| stage.figures(queue)), [(2, 0, 0); 2], "{ending:?}");
        }
        hold_as(&stage, None);
        stage.pass(Duration::from_millis(1));
        if stage.reopen(ending) {
            assert_eq!(stage.store().expiry_hold(), None);
            assert_eq!(queues.map(|queue| stage.figures(queue)), [(0, 0, 0); 2], "{ending:?}");
        }
    }
}

pub fn hold_is_no_document_of_anybody(factory: &dyn Factory) {
    let stage = Stage::new(factory);
    hold(&stage);
    let found = stage.step(Command::Documents(kew_core::command::Documents {
        account: kew_core::AccountId(0),
        owner: "store".into(),
    }));
    assert_eq!(found, Outcome::Documents(Vec::new()));
    assert_ne!(stage.now(), Timestamp::ZERO);
}
