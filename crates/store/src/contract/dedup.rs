//! Deduplication: one message per id and window.

use kew_core::command::{FirstReceipts, Purge, Send};
use kew_core::rules::dedup;
use kew_core::{
    Command, DeduplicationScope, NewMessage, Outcome, Policy, QueueId, QueueKind, RuleError, outcome::Sent,
};

use super::Factory;
use super::stage::{Stage, group, id, seconds};

fn fifo(scope: DeduplicationScope, by_content: bool) -> Policy {
    Policy { kind: QueueKind::Fifo { scope, by_content }, ..Policy::fifo() }
}

fn send_as(stage: &mut Stage<'_>, queue: QueueId, in_group: &str, own: &str) -> Sent {
    let message = NewMessage { group: group(in_group), deduplication: id(own), ..stage.message(own) };
    stage.send(queue, message)
}

pub fn repeat_adds_nothing_and_answers_like_the_first(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.fifo();
    let first = send_as(&mut stage, queue, "g", "x");
    stage.pass(seconds(1));
    let again = send_as(&mut stage, queue, "g", "x");
    assert_eq!((again.id, again.sequence, again.token), (first.id, first.sequence, first.token));
    assert_eq!((again.duplicate, again.sent_at, again.visible_at), (true, stage.now(), stage.now()));
    assert!(!first.duplicate);
    assert_eq!(stage.figures(queue), (1, 0, 0));
}

pub fn window_closes_five_minutes_after_the_first_send(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.fifo();
    let first = send_as(&mut stage, queue, "g", "x");
    stage.at_second(299);
    assert!(send_as(&mut stage, queue, "g", "x").duplicate, "repeats do not move the window");
    stage.at(first.sent_at.plus(seconds(300)).minus(std::time::Duration::from_millis(1)));
    assert!(send_as(&mut stage, queue, "g", "x").duplicate);
    stage.tick();
    let fresh = send_as(&mut stage, queue, "g", "x");
    assert!(!fresh.duplicate && fresh.sequence > first.sequence);
    stage.pass(seconds(299));
    assert!(send_as(&mut stage, queue, "g", "x").duplicate, "a fresh first send opens a window of its own");
}

pub fn id_is_remembered_after_its_message_was_deleted(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.fifo();
    send_as(&mut stage, queue, "g", "x");
    assert_eq!(stage.ack(stage.lease_one(queue).token), Ok(()));
    assert!(send_as(&mut stage, queue, "g", "x").duplicate);
    assert_eq!(stage.figures(queue), (0, 0, 0));
}

pub fn repeat_within_one_batch_is_found_too(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.fifo();
    let one = NewMessage { deduplication: id("x"), ..stage.grouped("g", "one") };
    let two = NewMessage { deduplication: id("x"), ..stage.grouped("g", "two") };
    let sent = stage.send_all(queue, vec![one, two]);
    assert_eq!((sent[0].duplicate, sent[1].duplicate), (false, true));
    assert_eq!((sent[1].id, sent[1].sequence), (sent[0].id, sent[0].sequence));
    assert_eq!(stage.leased_bodies(queue), ["one"]);
}

pub fn scope_decides_whether_two_groups_share_an_id(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    for (scope, shared) in [(DeduplicationScope::Queue, true), (DeduplicationScope::Group, false)] {
        let queue = stage.named(&format!("{scope:?}"), fifo(scope, false));
        assert!(!send_as(&mut stage, queue, "g1", "x").duplicate);
        assert_eq!(send_as(&mut stage, queue, "g2", "x").duplicate, shared);
        assert!(send_as(&mut stage, queue, "g1", "x").duplicate);
    }
}

pub fn ids_used_before_a_change_of_scope_keep_what_they_counted_for(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.fifo();
    assert!(!send_as(&mut stage, queue, "g1", "x").duplicate);
    stage.pass(seconds(1));
    stage.set_policy(queue, fifo(DeduplicationScope::Group, false));
    assert!(send_as(&mut stage, queue, "g2", "x").duplicate, "it counted for the whole queue");
    assert!(!send_as(&mut stage, queue, "g1", "y").duplicate);
    assert!(!send_as(&mut stage, queue, "g2", "y").duplicate, "this one counts for its group");
    assert!(send_as(&mut stage, queue, "g2", "y").duplicate);
    stage.pass(dedup::WINDOW - seconds(1));
    assert!(!send_as(&mut stage, queue, "g2", "x").duplicate, "its window is over");
    assert!(!send_as(&mut stage, queue, "g1", "x").duplicate, "and it counts for its group now");
}

pub fn after_a_change_back_an_id_repeats_in_its_own_group(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.named("q", fifo(DeduplicationScope::Group, false));
    assert!(!send_as(&mut stage, queue, "g1", "x").duplicate);
    stage.pass(seconds(1));
    stage.set_policy(queue, fifo(DeduplicationScope::Queue, false));
    assert!(send_as(&mut stage, queue, "g1", "x").duplicate);
    assert!(!send_as(&mut stage, queue, "g2", "x").duplicate, "it never counted for this one");
    assert!(send_as(&mut stage, queue, "g3", "x").duplicate, "since then it counts for the whole queue");
}

pub fn own_id_wins_over_the_hash_of_the_body(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.named("q", fifo(DeduplicationScope::Queue, true));
    let hashed = |message, own| NewMessage { content_hash: id("hash"), deduplication: own, ..message };
    let by_hash = hashed(stage.grouped("g", "a"), None);
    assert!(!stage.send(queue, by_hash).duplicate);
    let own = hashed(stage.grouped("g", "a"), id("own"));
    assert!(!stage.send(queue, own).duplicate, "the same body under an id of its own is another send");
    let again = hashed(stage.grouped("g", "other text"), id("own"));
    assert!(stage.send(queue, again).duplicate, "another body under the same id is the same send");
    let again = hashed(stage.grouped("g", "a"), None);
    assert!(stage.send(queue, again).duplicate);
}

pub fn id_that_counted_is_shown_with_the_message(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.named("q", fifo(DeduplicationScope::Queue, true));
    let own = NewMessage { content_hash: id("hash"), deduplication: id("own"), ..stage.grouped("g", "a") };
    let hashed = NewMessage { content_hash: id("hash"), deduplication: None, ..stage.grouped("g", "b") };
    stage.send_all(queue, vec![own, hashed]);
    let shown: Vec<_> =
        stage.lease(queue, 2).into_iter().map(|leased| leased.message.deduplication).collect();
    assert_eq!(shown, [id("own"), id("hash")]);
}

pub fn fifo_demands_an_id_and_standard_refuses_one(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let (standard, fifo) = (stage.standard(), stage.fifo());
    let hash_only = NewMessage { content_hash: id("hash"), deduplication: None, ..stage.grouped("g", "a") };
    let with_id = NewMessage { group: None, ..stage.grouped("g", "a") };
    let send = |queue, message| Command::Send(Send { queue, messages: vec![message], receipts: FirstReceipts::Told });
    assert_eq!(stage.refused(send(fifo, hash_only)), RuleError::DeduplicationMissing);
    assert_eq!(stage.refused(send(standard, with_id)), RuleError::DeduplicationNotAllowed);
}

pub fn purge_forgets_the_ids_of_its_queue_only(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let (one, two) = (stage.fifo(), stage.named("two", Policy::fifo()));
    send_as(&mut stage, one, "g", "x");
    send_as(&mut stage, two, "g", "x");
    assert_eq!(stage.step(Command::Purge(Purge { queue: one })), Outcome::Purged(1));
    assert!(!send_as(&mut stage, one, "g", "x").duplicate);
    assert!(send_as(&mut stage, two, "g", "x").duplicate);
}

pub fn same_id_in_two_queues_is_two_sends(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let (one, two) = (stage.fifo(), stage.named("two", Policy::fifo()));
    assert!(!send_as(&mut stage, one, "g", "x").duplicate);
    assert!(!send_as(&mut stage, two, "g", "x").duplicate);
}

pub fn many_ids_are_told_apart(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.fifo();
    let names: Vec<String> = (0..2_000).map(|number| format!("id-{number}")).collect();
    for round in [false, true] {
        for batch in names.chunks(100) {
            let messages =
                batch.iter().map(|name| NewMessage { deduplication: id(name), ..stage.grouped("g", "b") });
            let messages = messages.collect();
            assert!(stage.send_all(queue, messages).iter().all(|sent| sent.duplicate == round));
        }
    }
    assert_eq!(stage.counts(queue).visible, 2_000);
}
