//! What reviews found, each behind the smallest case that showed it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod checkpoints;
mod dead_letters;
mod full_disk;
mod ids;
mod names;
mod segments;
#[path = "../small_store/mod.rs"]
mod small_store;

use std::sync::Arc;

use kew_core::command::{Ack, FirstReceipts, Lease, Send};
use kew_core::outcome::Sent;
use kew_core::{
    Carries, Command, DeadLetterAction, DeadLetterRule, LeaseToken, NewMessage, Outcome, Policy, QueueId,
    ReceiptRule,
};
use kew_store_log::{LogOptions, LogStore, SimDisk};

use small_store::{Asked, START, entropy, key};

fn opened(disk: &SimDisk, options: LogOptions) -> Asked {
    Asked::of(LogStore::open(Arc::new(disk.clone()), options, entropy(1), START).unwrap().0)
}

/// Messages go to `dead` once they were leased.
fn leased_once() -> Policy {
    let rule = DeadLetterRule {
        attempts_max: 1,
        then: DeadLetterAction::MoveTo(key("dead")),
        carries: Carries::History,
        written_by: "sqs".into(),
    };
    Policy { dead_letters: Some(rule.into()), ..Policy::standard() }
}

fn send_many(asked: &Asked, queue: QueueId, bodies: impl IntoIterator<Item = String>) -> Vec<Sent> {
    let messages: Vec<NewMessage> = bodies.into_iter().map(|body| asked.message(&body)).collect();
    match asked.ask(Command::Send(Send { queue, messages, receipts: FirstReceipts::Told })) {
        Outcome::Sent(sent) => sent,
        other => panic!("{other:?}"),
    }
}

fn acking(queue: QueueId, tokens: Vec<LeaseToken>) -> Command {
    Command::Ack(Ack { queue, receipt: ReceiptRule::Any, tokens })
}

/// Sends messages and deletes them at once.
fn pass_through(asked: &Asked, queue: QueueId, bodies: impl IntoIterator<Item = String>) {
    let tokens = send_many(asked, queue, bodies).iter().filter_map(|sent| sent.token).collect();
    asked.ask(acking(queue, tokens));
}

/// How many messages a lease of up to `max` takes.
fn leased(asked: &Asked, queue: QueueId, max: u32) -> usize {
    match asked.ask(Command::Lease(Lease::of(queue, max, asked.now))) {
        Outcome::Leased(leased) => leased.len(),
        other => panic!("{other:?}"),
    }
}

fn stored(asked: &Asked, queue: QueueId) -> u64 {
    match asked.ask(Command::Counts(queue)) {
        Outcome::Counts(counts) => counts.stored(),
        other => panic!("{other:?}"),
    }
}
