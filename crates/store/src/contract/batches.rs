//! How much one reply holds, and many steps in one commit.

use kew_core::command::{FirstMessage, FirstReceipts, Lease, Send};
use kew_core::{Command, Outcome, RuleError};

use super::Factory;
use super::model::subject::block_on;
use super::stage::{Stage, bodies, seconds};

pub fn reply_holds_no_more_bytes_than_asked_for(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    stage.send_text(queue, &["aaaa", "bbbb", "cc", "d"]);
    let limited = Lease { body_bytes_max: 9, ..stage.asking(queue, 10, seconds(30)) };
    assert_eq!(bodies(&stage.lease_as(limited)), ["aaaa", "bbbb"], "no smaller one is let past");
    assert_eq!(stage.leased_bodies(queue), ["cc", "d"]);
}

pub fn first_message_always_fits(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    stage.send_text(queue, &["aaaa", "b"]);
    let nothing = Lease { body_bytes_max: 0, ..stage.asking(queue, 10, seconds(30)) };
    assert_eq!(bodies(&stage.lease_as(nothing)), ["aaaa"]);
}

pub fn first_message_stays_when_asked_to_fit(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let (standard, fifo) = (stage.standard(), stage.fifo());
    let messages = [(standard, stage.message("aaaa")), (fifo, stage.grouped("g", "aaaa"))];
    for (queue, message) in messages {
        stage.send(queue, message);
        let within = |stage: &Stage<'_>, body_bytes_max| Lease {
            body_bytes_max,
            first: FirstMessage::FitsOrStays,
            ..stage.asking(queue, 10, seconds(30))
        };
        for body_bytes_max in [0, 3] {
            let refused = stage.refused(Command::Lease(within(&stage, body_bytes_max)));
            assert_eq!(refused, RuleError::FirstTooLarge, "{body_bytes_max} bytes");
        }
        assert_eq!(stage.lease_as(within(&stage, 4))[0].message.attempts, 1, "it was not leased before");
        assert!(stage.lease_as(within(&stage, 0)).is_empty(), "an empty queue has no first message");
    }
}

pub fn eight_mebibytes_of_bodies_fill_a_reply(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    let large = "x".repeat(1 << 20);
    for _ in 0..9 {
        let message = stage.message(&large);
        stage.send(queue, message);
    }
    assert_eq!(stage.lease(queue, 10).len(), 8);
    assert_eq!(stage.lease(queue, 10).len(), 1);
}

pub fn steps_of_one_commit_see_each_other_in_order(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    let send = |messages| Command::Send(Send { queue, messages, receipts: FirstReceipts::Told });
    let first = send(vec![stage.message("a")]);
    let second = send(vec![stage.message("b")]);
    let lease = Command::Lease(stage.asking(queue, 1, seconds(30)));
    let commands = [first, lease.clone(), second, lease.clone(), lease, Command::Counts(queue)];
    let now = stage.now();
    let submissions: Vec<_> = commands.iter().map(|command| stage.store().step(now, command)).collect();
    stage.store().commit();
    let outcomes: Vec<_> =
        submissions.into_iter().map(|each| block_on(each).expect("every step is allowed")).collect();
    let leased = |place: usize| match &outcomes[place] {
        Outcome::Leased(leased) => bodies(leased),
        other => panic!("leases are expected: {other:?}"),
    };
    assert_eq!((leased(1), leased(3), leased(4)), (vec!["a".to_owned()], vec!["b".to_owned()], vec![]));
    assert_eq!(stage.figures(queue), (0, 2, 0));
}

pub fn refused_step_harms_no_other_of_its_commit(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    let message = stage.message("a");
    let now = stage.now();
    let fine = stage.store().step(now, &Command::Send(Send { queue, messages: vec![message], receipts: FirstReceipts::Told }));
    let refused = stage.store().step(now, &Command::Counts(kew_core::QueueId(404)));
    stage.store().commit();
    assert!(block_on(refused).is_err());
    assert!(block_on(fine).is_ok());
    assert_eq!(stage.leased_bodies(queue), ["a"]);
}

pub fn commit_without_steps_has_nothing_to_do(factory: &dyn Factory) {
    let stage = Stage::new(factory);
    stage.store().commit();
    assert!(!stage.store().commit());
    assert!(stage.queues().is_empty());
}
