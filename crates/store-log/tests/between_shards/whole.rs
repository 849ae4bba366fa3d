//! A message that goes between two shards is compared whole, before and after: all that is not named here must be the
//! same. So a field that a later place forgets is noticed, as soon as `with_all_fields` sets it.

use std::time::Duration;

use kew_core::command::{MoveChosen, Peek, View};
use kew_core::{
    Carries, Command, Content, ContentType, DeduplicationId, Expiry, GroupId, LeaseToken, Message, MessageId,
    MoveReason, NewMessage, Origin, Outcome, Policy, QueueId, Return, Sequence, State, Text,
};

use crate::pair::{Pair, rule};
use crate::small_store::key;

const DELAY: Duration = Duration::from_secs(2);
const LAPSE: Duration = Duration::from_secs(31);
const LIFE: Duration = Duration::from_secs(3_600);

/// Each field is other than its default, but what the kind of queue refuses. There is no `..` here, so that a new field
/// has to be set too.
fn with_all_fields(pair: &Pair, policy: &Policy) -> NewMessage {
    let is_fifo = policy.kind.is_fifo();
    let fifo_only = |text: &str| is_fifo.then(|| DeduplicationId(Text::from(text)));
    NewMessage {
        id: pair.at(0).message("").id,
        content: Content {
            content_type: ContentType::Json,
            body: "{\"whole\":1}".into(),
            annotations: "of a dialect".into(),
        },
        group: Some(GroupId(Text::from("group"))),
        deduplication: fifo_only("once"),
        content_hash: fifo_only("hash"),
        delay: (!is_fifo).then_some(DELAY),
        returns: Return::Behind,
        expiry: Expiry::After { seconds: 3_600 },
    }
}

/// A queue in each shard; the dead letters of the first go to the second.
fn linked(of: &Policy) -> (Pair, QueueId, QueueId) {
    let pair = Pair::new();
    let dead = pair.queue(1, "dead", of.clone());
    let policy = Policy { dead_letters: rule("dead", Carries::History), ..of.clone() };
    let source = pair.queue(0, "source", policy);
    (pair, source, dead)
}

/// The one message of a queue.
fn seen(pair: &Pair, shard: usize, queue: QueueId) -> (Message, LeaseToken) {
    let peek = Peek { queue, view: View::Ready, skip: 0, max: 10, body_bytes_max: 1 << 20 };
    let Outcome::Peeked(mut seen) = pair.at(shard).ask(Command::Peek(peek)) else {
        panic!("nothing is seen")
    };
    assert_eq!(seen.len(), 1);
    seen.remove(0)
}

/// A message with all fields becomes a dead letter for the other shard: as it was when it was leased.
fn owed_one(pair: &mut Pair, source: QueueId, policy: &Policy) -> Message {
    let message = with_all_fields(pair, policy);
    pair.at(0).try_send(source, message).unwrap();
    pair.later(DELAY);
    let leased = pair.at(0).lease(source, 1).remove(0).message;
    pair.later(LAPSE);
    pair.at(0).ask(Command::Due);
    assert_eq!(pair.owing(0)[0].messages, 1);
    leased
}

fn crash(pair: &mut Pair, shard: usize) {
    let disk = pair.shards[shard].disk.reopen_process_crash();
    pair.reopen(shard, disk);
}

/// What a moved message is deduplicated by.
fn own_id(policy: &Policy, id: MessageId) -> Option<DeduplicationId> {
    policy.kind.is_fifo().then(|| DeduplicationId(Text::from(id.to_string())))
}

fn both_kinds() -> [Policy; 2] {
    [Policy::standard(), Policy::fifo()]
}

#[test]
fn dead_letter_keeps_every_field_on_its_way_to_another_shard() {
    for (policy, crashes) in both_kinds().iter().flat_map(|policy| [(policy, false), (policy, true)]) {
        let (mut pair, source, dead) = linked(policy);
        let before = owed_one(&mut pair, source, policy);
        if crashes {
            crash(&mut pair, 0);
        }
        pair.carry_all(0);
        if crashes {
            crash(&mut pair, 1);
        }
        let at = pair.at(1).now;
        let origin = Some(Origin { queue: key("source"), reason: MoveReason::AttemptsExhausted, at });
        let sequence = Sequence(1);
        // On a FIFO queue a dead letter is known by its own id, in one shard too.
        let deduplication = own_id(policy, before.id);
        let expected =
            Message { queue: dead, sequence, deduplication, origin, state: State::Ready, ..before };
        assert_eq!(seen(&pair, 1, dead).0, expected, "crashes: {crashes}, {policy:?}");
    }
}

#[test]
fn what_goes_back_to_its_queue_keeps_every_field() {
    for policy in &both_kinds() {
        let (mut pair, source, _) = linked(policy);
        let before = owed_one(&mut pair, source, policy);
        pair.delete(1, "dead");
        pair.carry_all(0);
        crash(&mut pair, 0);
        let expected = Message { sequence: Sequence(2), state: State::Ready, ..before };
        assert_eq!(seen(&pair, 0, source).0, expected, "{policy:?}");
    }
}

#[test]
fn moved_message_keeps_every_field_that_a_fresh_send_does_not_replace() {
    for policy in &both_kinds() {
        let (mut pair, source, dead) = linked(policy);
        let message = with_all_fields(&pair, policy);
        pair.at(0).try_send(source, message).unwrap();
        pair.later(DELAY);
        let (before, token) = seen(&pair, 0, source);
        let command = MoveChosen { source, destination: Some(key("dead")), tokens: vec![token] };
        pair.at(0).ask(Command::MoveChosen(command));
        pair.carry_all(0);
        crash(&mut pair, 1);
        let (after, _) = seen(&pair, 1, dead);
        assert_ne!(after.id, before.id, "it is sent anew");
        let (now, id) = (pair.at(1).now, after.id);
        let expected = Message {
            queue: dead,
            sequence: Sequence(1),
            id,
            deduplication: own_id(policy, id),
            sent_at: now,
            expires_at: Some(now.plus(LIFE)),
            origin: Some(Origin { queue: key("source"), reason: MoveReason::Redriven, at: now }),
            ..before
        };
        assert_eq!(after, expected);
    }
}
