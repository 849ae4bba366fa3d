//! A busy queue beside a large quiet one: what is quiet must not be copied again and again.
//!
//! Half of the cold queue is written between the cycles of the hot one, so that their messages share segments, the
//! other half alone. Then the hot queue goes on for several gigabytes.

use kew_core::Policy;

use super::Context;
use crate::report::{Report, count};
use crate::rig::{CYCLES_PER_COMMIT, Rig, body};

/// Of 256 bytes: 5 GB of bodies.
const COLD: u64 = 20_000_000;
/// Of 1 KiB: more than 4 GB of journal.
const HOT_CYCLES: u64 = 3_600_000;

pub fn run(context: &Context) {
    let report = Report::new("shared", context.scale);
    let rig = Rig::open(&context.dir);
    let (cold, hot) = (rig.queue("cold", Policy::standard()), rig.queue("hot", Policy::standard()));
    let (cold_body, hot_body) = (body(256), body(1024));
    let messages = context.scaled(COLD, 20_000);
    let mut leased = Vec::new();
    let mut sent = 0;
    while sent < messages / 2 {
        rig.fill(1_000, 100, |_| (cold, rig.message(&cold_body)));
        rig.churn(hot, &hot_body, 1, &mut leased);
        sent += 1_000;
    }
    rig.fill(messages - sent, 100, |_| (cold, rig.message(&cold_body)));

    let (before, written) = (rig.store.stats(), rig.counts.written());
    let cycles = context.scaled(HOT_CYCLES, 10_000);
    rig.churn(hot, &hot_body, cycles / CYCLES_PER_COMMIT, &mut leased);
    let (after, written_then) = (rig.store.stats(), rig.counts.written());
    let copied = after.copied_bytes - before.copied_bytes;
    let journal = written_then.0 - written.0 - copied;
    let share = 100.0 * copied as f64 / journal as f64;
    report.judge(
        &format!(
            "copied forward while a hot queue wrote {} MB beside {} cold messages",
            journal / 1_000_000,
            count(messages)
        ),
        format!("{} MB, {share:.1} %", copied / 1_000_000),
        "< 10 %",
        share < 10.0,
    );
    report.note(
        "checkpoints meanwhile",
        format!(
            "{}, {} MB",
            after.checkpoints - before.checkpoints,
            (written_then.1 - written.1) / 1_000_000
        ),
    );
    report.note("copied before, while both were written", format!("{} MB", before.copied_bytes / 1_000_000));
    report.note(
        "segments at the end",
        format!("{} MB alive, {} MB dead", after.live_bytes / 1_000_000, after.dead_bytes / 1_000_000),
    );
    assert_eq!(rig.stored(cold), messages, "nothing is lost");
}
