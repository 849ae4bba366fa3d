//! The full cycle of a message (send, lease, ack) through engine and log, 512 commands to a commit.
//!
//! Rounds on Kew alternate with rounds of the raw ceiling: as many appends of as many bytes, each synced, with nothing
//! around them.

use std::time::{Duration, Instant};

use bytes::Bytes;
use kew_core::{LeaseToken, Policy, QueueId};

use super::Context;
use crate::machine;
use crate::raw::Raw;
use crate::report::{Report, count, median, spread};
use crate::rig::{CYCLES_PER_COMMIT, Rig, Syncs, body};

/// Cycles in one round.
const ROUND: u64 = 300_000;
const BACKLOG: u64 = 2_000_000;
/// Journal written before the first round: by then segments have their full size, and used ones come back as spares.
const WARM_BYTES: u64 = 600 << 20;
const RAW_BYTES: u64 = 64 << 20;

/// 256-byte bodies, at most one pass of messages waiting.
pub fn shallow(context: &Context) {
    let report = Report::new("cycle", context.scale);
    against_the_ceiling(context, &report, 256, 1.3);
}

/// Bodies of one KiB.
pub fn kilobyte(context: &Context) {
    let report = Report::new("cycle-1k", context.scale);
    against_the_ceiling(context, &report, 1024, 2.2);
}

fn against_the_ceiling(context: &Context, report: &Report, body_bytes: usize, bound: f64) {
    let mut lane = Lane::new(context, "kew", body(body_bytes), 0);
    let mut raw = Raw::new(&context.dir.join("raw"), RAW_BYTES);
    let bytes = lane.bytes_per_commit();
    let mut rounds = Vec::new();
    let mut ceiling = Vec::new();
    for _ in 0..context.rounds {
        rounds.push(lane.round());
        ceiling.push(raw_round(&mut raw, lane.commits, bytes));
    }
    let cpu: Vec<f64> = rounds.iter().map(Round::cpu).collect();
    let figure = median(cpu.clone());
    report.judge(
        "CPU per cycle, user and system, all threads",
        format!("{figure:.2} µs ({})", spread(&cpu)),
        format!("≤ {bound} µs"),
        figure <= bound,
    );
    let part = |pick: fn(&Round) -> f64| median(rounds.iter().map(pick).collect());
    report.note("of it in the loop's own thread", format!("{:.2} µs", part(Round::loop_cpu)));
    report.note("of it in the system", format!("{:.2} µs", part(Round::system_cpu)));
    tell_syncs(report, &rounds);
    let (wall, raw_wall) = (part(Round::wall), median(ceiling.iter().map(|round| round.0).collect()));
    report.note("cycles per second", count((1e6 / wall) as u64));
    report.note(
        &format!("raw ceiling: append of {} bytes and fdatasync", count(bytes as u64)),
        format!(
            "{:.0} µs, worth {} cycles per second at {:.2} µs CPU",
            raw_wall,
            count((1e6 * CYCLES_PER_COMMIT as f64 / raw_wall) as u64),
            median(ceiling.iter().map(|round| round.1).collect())
        ),
    );
    report
        .note("share of the ceiling", format!("{:.0} %", 100.0 * raw_wall / CYCLES_PER_COMMIT as f64 / wall));
}

/// The same cycle beside two million waiting messages, against a shallow queue in another store, in turn.
pub fn backlog(context: &Context) {
    let report = Report::new("backlog", context.scale);
    let waiting = context.scaled(BACKLOG, 2_000);
    let mut shallow = Lane::new(context, "shallow", body(256), 0);
    let mut deep = Lane::new(context, "deep", body(256), waiting);
    let (mut ratios, mut shallow_cpu, mut deep_rounds) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..context.rounds {
        let (before, round) = (shallow.round().cpu(), deep.round());
        ratios.push(round.cpu() / before);
        shallow_cpu.push(before);
        deep_rounds.push(round);
    }
    let ratio = median(ratios.clone());
    report.judge(
        &format!("CPU per cycle with {} waiting, against shallow", count(waiting)),
        format!("{ratio:.2}× ({})", spread(&ratios)),
        "≤ 1.25×",
        ratio <= 1.25,
    );
    let part = |pick: fn(&Round) -> f64| median(deep_rounds.iter().map(pick).collect());
    report.note("CPU per cycle, deep", format!("{:.2} µs", part(Round::cpu)));
    report.note("of it in the loop's own thread", format!("{:.2} µs", part(Round::loop_cpu)));
    report.note("of it in the system", format!("{:.2} µs", part(Round::system_cpu)));
    report.note("CPU per cycle, shallow", format!("{:.2} µs", median(shallow_cpu)));
    tell_syncs(&report, &deep_rounds);
}

fn tell_syncs(report: &Report, rounds: &[Round]) {
    let mut all = Syncs::default();
    rounds.iter().for_each(|round| all.add(round.syncs));
    report.judge(
        "syncs per commit",
        format!(
            "{} in {} commits, {} of them when a segment was full",
            count(all.syncs),
            count(all.commits),
            all.segments_opened
        ),
        "≤ 1, and 1 per segment",
        all.syncs <= all.commits + all.segments_opened,
    );
}

fn raw_round(raw: &mut Raw, commits: u64, bytes: usize) -> (f64, f64) {
    let cpu = machine::process_cpu();
    let wall: Duration = (0..commits).map(|_| raw.append(bytes)).sum();
    let cpu = machine::process_cpu() - cpu;
    let cycles = (commits * CYCLES_PER_COMMIT) as f64;
    (wall.as_secs_f64() * 1e6 / commits as f64, cpu.as_secs_f64() * 1e6 / cycles)
}

/// One queue in a store of its own, and how it is churned.
struct Lane {
    rig: Rig,
    queue: QueueId,
    body: Bytes,
    leased: Vec<LeaseToken>,
    /// Commits in one round.
    commits: u64,
}

/// What one round took.
struct Round {
    cycles: f64,
    cpu: Duration,
    loop_cpu: Duration,
    system: Duration,
    wall: Duration,
    syncs: Syncs,
}

impl Lane {
    /// Warm: segments have grown to their full size and are being recycled, and checkpoints are being made.
    fn new(context: &Context, name: &str, body: Bytes, waiting: u64) -> Self {
        let rig = Rig::open(&context.dir.join(name));
        let queue = rig.queue("cycle", Policy::standard());
        let commits = context.scaled(ROUND, 1_000).div_ceil(CYCLES_PER_COMMIT);
        let mut lane = Self { rig, queue, body, leased: Vec::new(), commits };
        lane.rig.fill(waiting, 100, |_| (lane.queue, lane.rig.message(&lane.body)));
        let warm = lane.rig.counts.written().0 + context.scaled(WARM_BYTES, 0);
        while lane.rig.counts.written().0 < warm {
            lane.rig.churn(queue, &lane.body, commits.min(100), &mut lane.leased);
        }
        lane
    }

    /// Bytes of one commit.
    fn bytes_per_commit(&mut self) -> usize {
        let before = self.rig.counts.written().0;
        self.rig.churn(self.queue, &self.body, 10, &mut self.leased);
        ((self.rig.counts.written().0 - before) / 10) as usize
    }

    fn round(&mut self) -> Round {
        let (_, system) = machine::user_and_system();
        let (cpu, loop_cpu, begun) = (machine::process_cpu(), machine::thread_cpu(), Instant::now());
        let syncs = self.rig.churn(self.queue, &self.body, self.commits, &mut self.leased);
        Round {
            cycles: (self.commits * CYCLES_PER_COMMIT) as f64,
            cpu: machine::process_cpu() - cpu,
            loop_cpu: machine::thread_cpu() - loop_cpu,
            wall: begun.elapsed(),
            system: machine::user_and_system().1 - system,
            syncs,
        }
    }
}

impl Round {
    fn cpu(&self) -> f64 {
        self.per_cycle(self.cpu)
    }

    fn loop_cpu(&self) -> f64 {
        self.per_cycle(self.loop_cpu)
    }

    fn system_cpu(&self) -> f64 {
        self.per_cycle(self.system)
    }

    fn wall(&self) -> f64 {
        self.per_cycle(self.wall)
    }

    fn per_cycle(&self, time: Duration) -> f64 {
        time.as_secs_f64() * 1e6 / self.cycles
    }
}
