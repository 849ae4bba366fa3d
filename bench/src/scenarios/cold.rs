//! What a stored message takes in memory when no request asks for it.

use std::time::Instant;

use kew_core::Policy;

use super::Context;
use crate::machine;
use crate::report::{Report, count};
use crate::rig::{Rig, body};

const MESSAGES: u64 = 20_000_000;

/// All in one queue.
pub fn one_queue(context: &Context) {
    fill(context, &Report::new("cold", context.scale), 1, 100);
}

/// One queue after the other in turn, so that neighbours in a queue are far apart in the log.
pub fn thousand_queues(context: &Context) {
    fill(context, &Report::new("cold-1000", context.scale), 1_000, 1);
}

fn fill(context: &Context, report: &Report, queues: u64, per_command: u64) {
    let messages = context.scaled(MESSAGES, 10_000);
    let rig = Rig::open(&context.dir);
    let ids: Vec<_> =
        (0..queues).map(|number| rig.queue(&format!("cold-{number}"), Policy::standard())).collect();
    let (empty, begun, cpu, body) = (machine::memory(), Instant::now(), machine::process_cpu(), body(256));
    rig.fill(messages, per_command, |number| (ids[(number % queues) as usize], rig.message(&body)));
    let (seconds, cpu) = (begun.elapsed().as_secs_f64(), machine::process_cpu() - cpu);
    rig.store.checkpoint().expect("a checkpoint can be made");
    let full = machine::memory();
    let each = full.resident.saturating_sub(empty.resident) as f64 / messages as f64;
    report.judge(
        &format!("memory per message, {} of them in {} queues", count(messages), count(queues)),
        format!("{each:.1} B"),
        "≤ 16 B",
        each <= 16.0,
    );
    report.judge(
        "process at its largest, checkpoint included",
        format!("{} MB", full.peak / 1_000_000),
        "≤ 600 MB",
        full.peak <= 600_000_000,
    );
    report.note("process at the end", format!("{} MB", full.resident / 1_000_000));
    let heap = rig.store.stats().heap_bytes;
    report.note(
        "of it the queues, by the store's own count",
        format!("{:.1} B each", heap as f64 / messages as f64),
    );
    report.note(
        "written at",
        format!(
            "{} messages per second, {:.2} µs CPU each",
            count((messages as f64 / seconds) as u64),
            cpu.as_secs_f64() * 1e6 / messages as f64
        ),
    );
}
