//! Which receipts still count, for whom.

use kew_core::command::{Ack, FirstReceipts, Send, View};
use kew_core::{Command, LeaseToken, Outcome, ReceiptRule, RuleError, Sequence};

use super::Factory;
use super::stage::{Stage, seconds, first_receipt};

const ANY: ReceiptRule = ReceiptRule::Any;
const CURRENT: ReceiptRule = ReceiptRule::Current;
const UNEXPIRED: ReceiptRule = ReceiptRule::Unexpired;

pub fn acked_message_never_comes_back(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    stage.send_text(queue, &["a"]);
    let token = stage.lease_one(queue).token;
    assert_eq!(stage.ack(token), Ok(()));
    assert_eq!(stage.figures(queue), (0, 0, 0));
    assert_eq!(stage.ack(token), Err(RuleError::MessageNotFound));
    stage.pass(seconds(1_000));
    assert!(stage.lease(queue, 1).is_empty());
}

pub fn any_receipt_counts_for_who_asks_no_more(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    let sent = stage.send_text(queue, &["a", "b"]);
    let old = stage.lease_for(queue, 1, seconds(1))[0].token;
    stage.pass(seconds(5));
    stage.lease(queue, 2);
    assert_eq!(stage.ack_by(ANY, old), Ok(()));
    assert_eq!(stage.ack_by(ANY, first_receipt(&sent[1])), Ok(()));
    assert_eq!(stage.figures(queue), (0, 0, 0));
}

pub fn receipts_of_a_send_are_told_only_to_who_asks_and_count_either_way(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    let messages = vec![stage.message("a")];
    let send = Send { queue, messages, receipts: FirstReceipts::Untold };
    let Outcome::Sent(sent) = stage.step(Command::Send(send)) else { panic!("a send is expected") };
    assert_eq!(sent[0].token, None);
    let (_, token) = stage.peek_as(Stage::looking(queue, View::Ready)).remove(0);
    assert_eq!(stage.ack_by(CURRENT, token), Ok(()));
}

pub fn current_receipt_outlives_its_lease_until_the_next_one(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    let sent = stage.send_text(queue, &["a", "b"]);
    let first = stage.lease_for(queue, 1, seconds(1))[0].token;
    assert_eq!(stage.ack_by(CURRENT, first_receipt(&sent[0])), Err(RuleError::TokenStale));
    stage.pass(seconds(5));
    let second = stage.lease_for(queue, 1, seconds(1))[0].token;
    assert_eq!(stage.ack_by(CURRENT, first), Err(RuleError::TokenStale));
    stage.pass(seconds(5));
    assert_eq!(stage.ack_by(CURRENT, second), Ok(()));
    assert_eq!(stage.ack_by(CURRENT, first_receipt(&sent[1])), Ok(()), "a send's receipt counts until the first lease");
}

pub fn unexpired_receipt_counts_through_the_last_millisecond(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.fifo();
    stage.send_groups(queue, &["g-1", "h-1"]);
    let leased = stage.lease_for(queue, 2, seconds(10));
    stage.at_second(10);
    assert_eq!(stage.ack_by(UNEXPIRED, leased[0].token), Ok(()));
    stage.tick();
    assert_eq!(stage.ack_by(UNEXPIRED, leased[1].token), Err(RuleError::LeaseEnded));
    assert_eq!(stage.figures(queue), (1, 0, 0));
}

pub fn new_lease_in_the_last_millisecond_voids_the_old_receipt(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.fifo();
    stage.send_groups(queue, &["g-1"]);
    let old = stage.lease_one(queue);
    stage.at(old.until);
    let new = stage.lease_one(queue);
    assert_eq!(stage.ack_by(UNEXPIRED, old.token), Err(RuleError::LeaseEnded));
    assert_eq!(stage.ack_by(UNEXPIRED, new.token), Ok(()));
}

pub fn zero_second_lease_can_be_acked_in_its_own_millisecond(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.fifo();
    stage.send_groups(queue, &["g-1", "h-1"]);
    let leased = stage.lease_for(queue, 2, seconds(0));
    assert_eq!(stage.ack_by(UNEXPIRED, leased[0].token), Ok(()));
    stage.tick();
    assert_eq!(stage.ack_by(UNEXPIRED, leased[1].token), Err(RuleError::LeaseEnded));
}

pub fn send_receipt_of_a_fifo_message_never_counts_before_a_lease(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.fifo();
    let sent = stage.send_groups(queue, &["g-1"]).remove(0);
    assert_eq!(stage.ack_by(ANY, first_receipt(&sent)), Err(RuleError::TokenStale));
    assert_eq!(stage.ack_by(CURRENT, first_receipt(&sent)), Err(RuleError::TokenStale));
    assert_eq!(stage.ack_by(UNEXPIRED, first_receipt(&sent)), Err(RuleError::LeaseEnded));
    assert_eq!(stage.leased_bodies(queue), ["g-1"]);
}

pub fn altered_receipt_is_forged_in_whatever_part(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    let other = stage.named("other", kew_core::Policy::standard());
    stage.send_text(queue, &["a"]);
    let token = stage.lease_one(queue).token;
    let altered = [
        LeaseToken { mac: token.mac ^ 1, ..token },
        LeaseToken { mac: token.mac ^ (1 << 127), ..token },
        LeaseToken { nonce: token.nonce ^ 1, ..token },
        LeaseToken { sequence: Sequence(token.sequence.0 + 1), ..token },
        LeaseToken { queue: other, ..token },
    ];
    for token in altered {
        let ack = Ack { queue, receipt: ANY, tokens: vec![token] };
        assert_eq!(stage.step(Command::Ack(ack)), Outcome::Acked(vec![Err(RuleError::TokenForged)]));
    }
    assert_eq!(stage.ack(token), Ok(()));
}

pub fn receipt_of_another_queue_is_told_apart(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    let other = stage.named("other", kew_core::Policy::standard());
    stage.send_text(queue, &["a"]);
    let token = stage.lease_one(queue).token;
    let ack = Ack { queue: other, receipt: ANY, tokens: vec![token] };
    assert_eq!(stage.step(Command::Ack(ack)), Outcome::Acked(vec![Err(RuleError::TokenOfOtherQueue)]));
}

pub fn entries_succeed_and_fail_each_for_itself(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    stage.send_text(queue, &["a", "b", "c"]);
    let leased = stage.lease(queue, 2);
    let (a, b) = (leased[0].token, leased[1].token);
    let tokens = vec![a, LeaseToken { mac: 0, ..b }, a, b];
    let acked = stage.step(Command::Ack(Ack { queue, receipt: CURRENT, tokens }));
    let expected = vec![Ok(()), Err(RuleError::TokenForged), Err(RuleError::MessageNotFound), Ok(())];
    assert_eq!(acked, Outcome::Acked(expected));
    assert_eq!(stage.leased_bodies(queue), ["c"]);
}

pub fn look_gives_a_receipt_that_any_accepts(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    stage.send_text(queue, &["a", "b"]);
    let leased = stage.lease_one(queue).token;
    let ready = stage.peek_as(Stage::looking(queue, View::Ready)).remove(0).1;
    let seen_leased = stage.peek_as(Stage::looking(queue, View::Leased)).remove(0).1;
    assert_eq!(seen_leased, leased);
    assert_eq!(stage.ack_by(ANY, ready), Ok(()));
    assert_eq!(stage.ack_by(ANY, seen_leased), Ok(()));
}

pub fn token_survives_its_wire_form(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    stage.send_text(queue, &["a"]);
    let token = stage.lease_one(queue).token;
    let back = LeaseToken::from_bytes(&token.to_bytes()).expect("bytes of a token parse as a token");
    assert_eq!(stage.ack(back), Ok(()));
}
