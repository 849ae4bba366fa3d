//! Giving a lease another end, or hiding a message that is free.

use kew_core::command::{Extend, Extension, Lease, View};
use kew_core::outcome::Extended;
use kew_core::{Content, ContentType, LeaseTerms, ReceiptRule, RuleError, Timestamp, WhenFree};

use super::{Ending, Factory};
use super::stage::{Stage, bodies, body, seconds, first_receipt};

fn until(extended: Result<Extended, RuleError>) -> Timestamp {
    match extended {
        Ok(Extended::Until { until, .. }) => until,
        other => panic!("a new end is expected: {other:?}"),
    }
}

pub fn counts_from_the_call_and_not_from_the_lease(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    stage.send_text(queue, &["a"]);
    let leased = stage.lease_for(queue, 1, seconds(60)).remove(0);
    let begun = stage.now();
    stage.at_second(15);
    assert_eq!(until(stage.extend(leased.token, seconds(10))), begun.plus(seconds(25)));
    stage.at(begun.plus(std::time::Duration::from_millis(24_999)));
    assert!(stage.lease(queue, 1).is_empty());
    stage.tick();
    assert_eq!(stage.leased_bodies(queue), ["a"]);
}

pub fn zero_ends_the_lease_at_once(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    stage.send_text(queue, &["a"]);
    let leased = stage.lease_one(queue);
    assert_eq!(until(stage.extend(leased.token, seconds(0))), stage.now());
    assert_eq!(stage.figures(queue), (1, 0, 0));
    assert_eq!(stage.lease_one(queue).message.attempts, 2);
}

pub fn twelve_hours_count_from_the_arrival_of_the_request(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    stage.send_text(queue, &["a"]);
    let arrived = stage.now();
    stage.pass(seconds(3));
    let asking = Lease { received_at: arrived, ..stage.asking(queue, 1, seconds(60)) };
    let token = stage.lease_as(asking).remove(0).token;
    stage.at(arrived.plus(seconds(5)));
    let too_long = Err(RuleError::LeaseTooLong { cap: seconds(43_200) });
    assert_eq!(stage.extend(token, seconds(43_196)), too_long);
    assert_eq!(until(stage.extend(token, seconds(43_195))), arrived.plus(seconds(43_200)));
    stage.pass(seconds(1));
    assert_eq!(stage.extend(token, seconds(43_195)), too_long, "extending does not begin the hours anew");
    assert_eq!(until(stage.extend(token, seconds(43_194))), arrived.plus(seconds(43_200)));
}

pub fn refused_extension_leaves_the_lease_as_it_was(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    stage.send_text(queue, &["a"]);
    let leased = stage.lease_one(queue);
    let extend = Extend {
        renew: true,
        entries: vec![Extension {
            token: leased.token,
            length: seconds(43_201),
            content: Some(Content { body: "changed".into(), ..Content::default() }),
        }],
        ..Stage::extending(leased.token, seconds(0))
    };
    assert!(stage.extend_as(extend).is_err());
    stage.at(leased.until);
    let again = stage.lease_one(queue);
    assert_eq!((body(&again.message), again.message.attempts), ("a".to_owned(), 2));
}

pub fn lease_without_a_cap_may_be_stretched_for_ever(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    stage.send_text(queue, &["a"]);
    let terms = LeaseTerms { length: Some(seconds(30)), ..LeaseTerms::default() };
    let token = stage.lease_as(Lease { terms, ..Lease::of(queue, 1, stage.now()) })[0].token;
    assert_eq!(until(stage.extend(token, seconds(1_000_000))), stage.now().plus(seconds(1_000_000)));
}

pub fn receipt_and_attempts_stay_and_one_lease_leaves_the_others_alone(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    stage.send_text(queue, &["a", "b"]);
    let leased = stage.lease_for(queue, 2, seconds(10));
    let extended = stage.extend(leased[0].token, seconds(60));
    assert_eq!(
        extended,
        Ok(Extended::Until { until: stage.now().plus(seconds(60)), token: leased[0].token })
    );
    stage.pass(seconds(10));
    assert_eq!(stage.leased_bodies(queue), ["b"]);
    stage.pass(seconds(50));
    let again = stage.lease_one(queue);
    assert_eq!((body(&again.message), again.message.attempts), ("a".to_owned(), 2));
}

pub fn renewed_receipt_voids_all_older_ones(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    stage.send_text(queue, &["a"]);
    let leased = stage.lease_one(queue);
    let renewing = Extend { renew: true, ..Stage::extending(leased.token, seconds(30)) };
    let Ok(Extended::Until { token, .. }) = stage.extend_as(renewing) else { panic!("it is extended") };
    assert_ne!(token, leased.token);
    assert_eq!(stage.extend(leased.token, seconds(1)), Err(RuleError::TokenStale));
    assert_eq!(stage.ack(leased.token), Err(RuleError::TokenStale));
    assert_eq!(stage.ack(token), Ok(()));
}

pub fn body_is_replaced_under_the_same_name_and_place(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    stage.send_text(queue, &["old body", "later"]);
    let leased = stage.lease_one(queue);
    let content = Content {
        content_type: ContentType::Bytes,
        body: "new".into(),
        annotations: bytes::Bytes::from_static(b"note"),
    };
    let entry = Extension { token: leased.token, length: seconds(5), content: Some(content.clone()) };
    let extend = Extend { entries: vec![entry], ..Stage::extending(leased.token, seconds(0)) };
    assert!(stage.extend_as(extend).is_ok());
    assert_eq!(stage.counts(queue).body_bytes, 8);
    stage.pass(seconds(5));
    let again = stage.lease_one(queue).message;
    assert_eq!((again.id, again.sequence), (leased.message.id, leased.message.sequence));
    assert_eq!((again.content, again.sent_at), (content, leased.message.sent_at));
}

pub fn body_without_annotations_leaves_those_of_the_old_one(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    let mut message = stage.message("old");
    message.content.annotations = "note".into();
    stage.send(queue, message);
    for (body, own, found) in [("b", "", "Rnote"), ("c", "", "Rnote"), ("d", "own", "own"), ("e", "", "Rown")] {
        let token = stage.lease_one(queue).token;
        let content = Content { body: body.into(), annotations: own.into(), ..Content::default() };
        let entry = Extension { token, length: seconds(0), content: Some(content) };
        assert!(stage.extend_as(Extend { entries: vec![entry], ..Stage::extending(token, seconds(0)) }).is_ok());
        stage.reopen(Ending::Kill);
        let seen = stage.peek(queue, View::Ready).remove(0).content;
        assert_eq!((seen.body, seen.annotations), (body.into(), found.into()));
    }
}

pub fn free_message_is_left_alone_for_who_wants_nothing_done(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    stage.send_text(queue, &["a"]);
    let leased = stage.lease_one(queue);
    stage.at(leased.until);
    assert_eq!(stage.extend(leased.token, seconds(60)), Ok(Extended::Free));
    assert_eq!(stage.leased_bodies(queue), ["a"]);
}

pub fn free_message_is_hidden_for_who_wants_it_hidden(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    let sent = stage.send_text(queue, &["a", "b"]);
    let leased = stage.lease_one(queue);
    stage.at(leased.until);
    for (token, attempts) in [(leased.token, 1), (first_receipt(&sent[1]), 0)] {
        let hiding = Extend { when_free: WhenFree::Hide, ..Stage::extending(token, seconds(50_000)) };
        assert_eq!(until(stage.extend_as(hiding)), stage.now().plus(seconds(50_000)));
        let hidden = stage.peek(queue, View::Leased);
        let found = hidden.iter().find(|message| message.sequence == token.sequence);
        assert_eq!(found.map(|message| message.attempts), Some(attempts));
    }
    assert_eq!(stage.figures(queue), (0, 2, 0));
    stage.pass(seconds(50_000));
    assert_eq!(bodies(&stage.lease(queue, 10)), ["a", "b"]);
}

pub fn hidden_and_renewed_message_returns_behind(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    let first = stage.send_text(queue, &["a"]).remove(0);
    stage.pass(seconds(1));
    stage.send_text(queue, &["b"]);
    let hiding =
        Extend { when_free: WhenFree::Hide, renew: true, ..Stage::extending(first_receipt(&first), seconds(5)) };
    assert!(stage.extend_as(hiding).is_ok());
    stage.pass(seconds(5));
    assert_eq!(stage.leased_bodies(queue), ["b", "a"]);
}

pub fn ended_lease_is_refused_where_only_running_ones_count(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.fifo();
    stage.send_groups(queue, &["g-1"]);
    let leased = stage.lease_one(queue);
    let extending = Extend { receipt: ReceiptRule::Unexpired, ..Stage::extending(leased.token, seconds(30)) };
    stage.at(leased.until.next());
    assert_eq!(stage.extend_as(extending.clone()), Err(RuleError::LeaseEnded));
    let hiding = Extend { when_free: WhenFree::Hide, ..extending };
    assert_eq!(stage.extend_as(hiding), Err(RuleError::LeaseEnded));
}

pub fn same_lease_can_be_extended_again_and_again(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    stage.send_text(queue, &["a"]);
    let token = stage.lease_for(queue, 1, seconds(2))[0].token;
    for _ in 0..20 {
        stage.pass(seconds(1));
        assert_eq!(until(stage.extend(token, seconds(2))), stage.now().plus(seconds(2)));
        assert!(stage.lease(queue, 1).is_empty());
    }
    assert_eq!(stage.ack(token), Ok(()));
}
