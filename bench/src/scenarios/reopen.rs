//! Opening a large store again after its process was killed.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::time::{Duration, Instant};

use kew_core::Policy;
use kew_store_log::Drive;
use rustix::fs::{Advice, fadvise};

use super::Context;
use super::fifo::{FILL_SECONDS, GROUPS, fill_queue};
use crate::machine;
use crate::report::{Report, count};
use crate::rig::{Rig, body};

const MESSAGES: u64 = 10_000_000;

/// A kind of queue to fill and open again.
struct Kind {
    name: &'static str,
    queue: &'static str,
    part: &'static str,
    /// How long a start may take with all messages.
    seconds: f64,
    /// Engine time that has passed since the first message was sent.
    passed: Duration,
}

const STANDARD: Kind =
    Kind { name: "reopen", queue: "kept", part: "reopen-fill", seconds: 1.5, passed: Duration::ZERO };
const FIFO: Kind = Kind {
    name: "reopen-fifo",
    queue: "kept.fifo",
    part: "reopen-fifo-fill",
    seconds: 1.5,
    passed: Duration::from_secs(FILL_SECONDS),
};

/// Fills a standard queue and waits to be killed.
pub fn fill(context: &Context) {
    let rig = Rig::open(&context.dir);
    let queue = rig.queue(STANDARD.queue, Policy::standard());
    let body = body(256);
    rig.fill(context.scaled(MESSAGES, 5_000), 100, |_| (queue, rig.message(&body)));
    wait_to_be_killed();
}

/// Fills a FIFO queue of many groups and waits to be killed.
pub fn fill_fifo(context: &Context) {
    let rig = Rig::open(&context.dir);
    let queue = rig.queue(FIFO.queue, Policy::fifo());
    fill_queue(&rig, queue, context.scaled(MESSAGES, 5_000), context.scaled(GROUPS, 1_000));
    wait_to_be_killed();
}

fn wait_to_be_killed() {
    println!("filled");
    // Nothing is ever written here; it ends with the parent at the latest.
    let _ended = std::io::stdin().read(&mut [0]);
}

/// Opens a store with a large standard queue after a kill.
pub fn run(context: &Context) {
    run_kind(context, &STANDARD);
}

/// Opens a store with a large FIFO queue after a kill.
pub fn run_fifo(context: &Context) {
    run_kind(context, &FIFO);
}

fn run_kind(context: &Context, kind: &Kind) {
    let report = Report::new(kind.name, context.scale);
    let messages = context.scaled(MESSAGES, 5_000);
    let mut child = context.spawn(kind.part);
    let output = child.stdout.take().expect("the child's output is piped");
    let said = BufReader::new(output).lines().next().and_then(Result::ok);
    assert_eq!(said.as_deref(), Some("filled"));
    child.kill().expect("the child is ours");
    child.wait().expect("the child is ours");

    let first = open(&context.dir, kind, messages);
    forget_cached(&context.dir);
    let second = open(&context.dir, kind, messages);
    let figure = format!("opening {} messages after a kill", count(messages));
    let bound = format!("≤ {} s", kind.seconds);
    report.wall(&figure, format!("{:.2} s", first.seconds), &bound, first.seconds <= kind.seconds);
    report.note("CPU of it", format!("{:.2} s", first.cpu));
    report.note("replayed from the journal", first.replayed);
    report.note("the same again with the files out of the page cache", format!("{:.2} s", second.seconds));
    report.note("process after it", format!("{} MB", machine::memory().peak / 1_000_000));
}

struct Opened {
    seconds: f64,
    cpu: f64,
    replayed: String,
}

/// Dropped without being closed, so that the next opening recovers again.
fn open(dir: &Path, kind: &Kind, messages: u64) -> Opened {
    let (begun, cpu) = (Instant::now(), machine::process_cpu());
    let rig = Rig::open_at(dir, kind.passed, Drive::Loop);
    let (seconds, cpu) = (begun.elapsed().as_secs_f64(), (machine::process_cpu() - cpu).as_secs_f64());
    assert_eq!(rig.stored(rig.queue_again(kind.queue)), messages, "nothing acknowledged is lost");
    Opened { seconds, cpu, replayed: format!("{:?}", rig.report) }
}

fn forget_cached(dir: &Path) {
    for folder in std::fs::read_dir(dir).expect("the directory is there").flatten() {
        let Ok(files) = std::fs::read_dir(folder.path()) else { continue };
        for file in files.flatten() {
            let file = std::fs::File::open(file.path()).expect("the file is there");
            file.sync_all().expect("the disk syncs");
            fadvise(&file, 0, None, Advice::DontNeed).expect("the system takes advice");
        }
    }
}
