//! A large FIFO queue: a receive must not look at what is locked, and a group must not cost much.
//!
//! One process fills it (remembering deduplication ids as it goes), another opens it when all windows have closed: so
//! the memory of messages and groups is measured apart from that of ids.

use std::time::{Duration, Instant};

use kew_core::command::{Ack, Lease};
use kew_core::{DeduplicationId, GroupId, NewMessage, Policy, QueueId, ReceiptRule, Text};
use kew_store_log::Drive;

use super::Context;
use crate::answers::Answers;
use crate::machine;
use crate::report::{Report, count, median};
use crate::rig::{Rig, body};

const MESSAGES: u64 = 5_000_000;
pub const GROUPS: u64 = 1_000_000;
/// The fill counts as so long: with its ids spread over it, those remembered at once stay within their bound.
pub const FILL_SECONDS: u64 = 900;
const RECEIVES: u64 = 3_000;

/// Fills the queue, round the groups in turn.
pub fn fill(context: &Context) {
    let (messages, groups) = (context.scaled(MESSAGES, 5_000), context.scaled(GROUPS, 1_000));
    let rig = Rig::open(&context.dir);
    let queue = rig.queue("groups.fifo", Policy::fifo());
    fill_queue(&rig, queue, messages, groups);
    rig.store.checkpoint().expect("a checkpoint can be made");
    println!("{}", machine::memory().peak);
    rig.store.close().expect("the store closes");
}

/// Sends messages of 256 bytes, round the groups in turn, over [`FILL_SECONDS`] of engine time.
pub fn fill_queue(rig: &Rig, queue: QueueId, messages: u64, groups: u64) {
    let body = body(256);
    let per_second = (messages / FILL_SECONDS).max(1);
    rig.fill(messages, 10, |number| {
        if number % per_second == 0 {
            rig.clock.advance(Duration::from_secs(1));
        }
        let message = NewMessage {
            group: Some(GroupId(Text::from(format!("group-{}", number % groups)))),
            deduplication: Some(DeduplicationId(Text::from(format!("id-{number}")))),
            ..rig.message(&body)
        };
        (queue, message)
    });
}

/// Receives single messages while one group stays locked; how many microseconds each receive took.
fn receives_beside_a_locked_group(rig: &Rig, queue: QueueId, receives: u64) -> Vec<f64> {
    let engine = &*rig.engine;
    let (mut leases, mut acks) = (Answers::new(), Answers::new());
    let mut lease = || {
        leases.ask(engine.lease(Lease::of(queue, 1, engine.now())));
        engine.commit();
        leases.take(engine).next().expect("a lease was asked for").expect("a lease is taken")
    };
    let locked = lease();
    assert_eq!(locked.len(), 1);
    let mut times = Vec::new();
    for _ in 0..receives {
        let begun = Instant::now();
        let found = lease();
        times.push(begun.elapsed().as_secs_f64() * 1e6);
        assert_ne!(found[0].message.group, locked[0].message.group);
        acks.ask(engine.ack(Ack { queue, receipt: ReceiptRule::Any, tokens: vec![found[0].token] }));
        engine.commit();
        acks.take(engine).for_each(|acked| assert_eq!(acked.expect("an ack is taken"), [Ok(())]));
    }
    times
}

/// Receives from it while one group stays locked.
pub fn run(context: &Context) {
    let report = Report::new("fifo", context.scale);
    let (messages, groups) = (context.scaled(MESSAGES, 5_000), context.scaled(GROUPS, 1_000));
    let fill_peak: u64 = context.part("fifo-fill").iter().find_map(|line| line.parse().ok()).unwrap_or(0);
    let before = machine::memory();
    let rig = Rig::open_at(&context.dir, Duration::from_secs(2 * FILL_SECONDS), Drive::Loop);
    let queue = rig.queue_again("groups.fifo");
    let after = machine::memory();
    assert_eq!(rig.stored(queue), messages);
    let middle = median(receives_beside_a_locked_group(&rig, queue, context.scaled(RECEIVES, 100)));
    report.wall(
        &format!(
            "receive beside a locked group, {} messages in {} groups, median",
            count(messages),
            count(groups)
        ),
        format!("{middle:.0} µs"),
        "< 100 µs",
        middle < 100.0,
    );
    let heap = rig.store.stats().heap_bytes;
    let allowed = 24 * messages + 96 * groups;
    report.judge(
        "memory of messages and groups, by the store's own count",
        format!("{} MB, {:.1} B a message", heap / 1_000_000, heap as f64 / messages as f64),
        format!("≤ {} MB (24 B a message, 96 B a group)", allowed / 1_000_000),
        heap <= allowed,
    );
    let grown = after.resident.saturating_sub(before.resident);
    report.note(
        "the same, by how much opening the store made the process grow",
        format!("{} MB, {:.1} B a message", grown / 1_000_000, grown as f64 / messages as f64),
    );
    report.note(
        "process at its largest while filling, deduplication ids included",
        format!("{} MB", fill_peak / 1_000_000),
    );
}
