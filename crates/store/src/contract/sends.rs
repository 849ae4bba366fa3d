//! Sends: what goes in comes out, in order, all or none.

use std::collections::BTreeSet;

use bytes::Bytes;
use kew_core::command::{FirstReceipts, Send};
use kew_core::{Command, Content, ContentType, Expiry, NewMessage, Policy, ReceiptRule, RuleError, State};

use super::Factory;
use super::stage::{Stage, group, seconds, first_receipt};

pub fn message_is_leased_as_it_was_sent(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    let kinds = [ContentType::Text, ContentType::Json, ContentType::Bytes, ContentType::V8];
    for content_type in kinds {
        let content = Content {
            content_type,
            body: Bytes::from((0..=255).collect::<Vec<u8>>()),
            annotations: Bytes::from_static(b"\0for the front-end only\xff"),
        };
        let message = NewMessage { content: content.clone(), group: group("tenant"), ..stage.message("") };
        let sent = stage.send(queue, message.clone());
        let leased = stage.lease_one(queue);
        assert_eq!(leased.message.content, content);
        assert_eq!((leased.message.id, leased.message.sequence), (message.id, sent.sequence));
        assert_eq!((leased.message.queue, leased.message.group), (queue, group("tenant")));
        assert_eq!((leased.message.sent_at, leased.message.origin), (stage.now(), None));
        assert_eq!(leased.message.deduplication, None);
    }
}

pub fn empty_body_and_one_of_a_mebibyte_are_kept(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    let large = Bytes::from((0..1_048_576_u32).map(|place| (place % 251) as u8).collect::<Vec<_>>());
    for body in [Bytes::new(), large] {
        let message =
            NewMessage { content: Content { body: body.clone(), ..Content::default() }, ..stage.message("") };
        stage.send(queue, message);
        assert_eq!(stage.lease_one(queue).message.content.body, body);
    }
    assert_eq!(stage.counts(queue).body_bytes, 1_048_576);
}

pub fn sequences_rise_in_the_order_of_sends(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    let batch = vec![stage.message("a"), stage.message("b"), stage.message("c")];
    let mut sent = stage.send_all(queue, batch);
    sent.extend(stage.send_text(queue, &["d"]));
    let sequences: Vec<_> = sent.iter().map(|sent| sent.sequence.0).collect();
    assert_eq!(sequences, [1, 2, 3, 4]);
    assert_eq!(stage.leased_bodies(queue), ["a", "b", "c", "d"]);
}

pub fn sequence_is_not_given_again_when_its_message_is_gone(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    stage.send_text(queue, &["a"]);
    assert_eq!(stage.ack(stage.lease_one(queue).token), Ok(()));
    assert_eq!(stage.send_text(queue, &["b"])[0].sequence.0, 2);
}

pub fn one_message_that_may_not_be_sent_holds_all_of_them_back(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.fifo();
    let fine = stage.grouped("g", "fine");
    let groupless = NewMessage { group: None, ..stage.grouped("g", "groupless") };
    let send = Send { queue, messages: vec![fine, groupless], receipts: FirstReceipts::Told };
    assert_eq!(stage.refused(Command::Send(send)), RuleError::GroupMissing);
    assert_eq!(stage.figures(queue), (0, 0, 0));
    assert_eq!(stage.send_groups(queue, &["g-next"])[0].sequence.0, 1);
}

pub fn answer_tells_when_the_message_shows_and_dies(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.named("q", Policy { delay: seconds(5), retention: seconds(60), ..Policy::standard() });
    let plain = stage.message("plain");
    let sent = stage.send(queue, plain.clone());
    assert_eq!((sent.id, sent.sent_at, sent.duplicate), (plain.id, stage.now(), false));
    assert_eq!(sent.visible_at, stage.now().plus(seconds(5)));
    assert_eq!(sent.expires_at, Some(stage.now().plus(seconds(60))));
    let special = NewMessage {
        delay: Some(seconds(9)),
        expiry: Expiry::After { seconds: 10 },
        ..stage.message("special")
    };
    let sent = stage.send(queue, special);
    assert_eq!(sent.visible_at, stage.now().plus(seconds(9)));
    assert_eq!(sent.expires_at, Some(stage.now().plus(seconds(10))));
    let immortal = NewMessage { expiry: Expiry::Never, ..stage.message("immortal") };
    assert_eq!(stage.send(queue, immortal).expires_at, None);
}

pub fn every_send_has_a_receipt_of_its_own(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    let sent = stage.send_text(queue, &["a", "b", "c"]);
    let receipts: BTreeSet<_> = sent.iter().map(first_receipt).collect();
    assert_eq!(receipts.len(), 3);
    assert_eq!(stage.ack_by(ReceiptRule::Current, first_receipt(&sent[1])), Ok(()));
    assert_eq!(stage.leased_bodies(queue), ["a", "c"]);
}

pub fn nothing_sent_is_nothing_stored(factory: &dyn Factory) {
    let stage = Stage::new(factory);
    let queue = stage.standard();
    assert!(stage.send_all(queue, Vec::new()).is_empty());
    assert_eq!(stage.figures(queue), (0, 0, 0));
}

pub fn stored_message_shows_that_it_is_ready(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    stage.send_text(queue, &["a"]);
    let seen = stage.peek(queue, kew_core::command::View::Ready);
    assert_eq!((seen[0].state, seen[0].attempts, seen[0].first_leased_at), (State::Ready, 0, None));
}
