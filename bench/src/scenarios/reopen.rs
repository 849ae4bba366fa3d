//! Opening a large store again after its process was killed.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::time::Instant;

use kew_core::Policy;
use rustix::fs::{Advice, fadvise};

use super::Context;
use crate::machine;
use crate::report::{Report, count};
use crate::rig::{Rig, body};

const MESSAGES: u64 = 10_000_000;

/// Fills a queue and waits to be killed.
pub fn fill(context: &Context) {
    let rig = Rig::open(&context.dir);
    let queue = rig.queue("kept", Policy::standard());
    let body = body(256);
    rig.fill(context.scaled(MESSAGES, 5_000), 100, |_| (queue, rig.message(&body)));
    println!("filled");
    // Nobody ever writes here; it ends with the parent at the latest.
    let _ended = std::io::stdin().read(&mut [0]);
}

/// Kills the one who filled it, and opens the store.
pub fn run(context: &Context) {
    let report = Report::new("reopen", context.scale);
    let messages = context.scaled(MESSAGES, 5_000);
    let mut child = context.spawn("reopen-fill");
    let output = child.stdout.take().expect("it is piped");
    let said = BufReader::new(output).lines().next().and_then(Result::ok);
    assert_eq!(said.as_deref(), Some("filled"));
    child.kill().expect("the child is ours");
    child.wait().expect("the child is ours");

    let first = open(&context.dir, messages);
    forget_cached(&context.dir);
    let second = open(&context.dir, messages);
    let figure = format!("opening {} messages after a kill", count(messages));
    report.wall(&figure, format!("{:.2} s", first.seconds), "≤ 3 s", first.seconds <= 3.0);
    report.tell("CPU of it", format!("{:.2} s", first.cpu));
    report.tell("replayed from the journal", first.replayed);
    report.tell("the same again with the files out of the page cache", format!("{:.2} s", second.seconds));
    report.tell("process after it", format!("{} MB", machine::memory().peak / 1_000_000));
}

struct Opened {
    seconds: f64,
    cpu: f64,
    replayed: String,
}

/// Dropped without being closed, so that the next opening recovers again.
fn open(dir: &Path, messages: u64) -> Opened {
    let (begun, cpu) = (Instant::now(), machine::process_cpu());
    let rig = Rig::open(dir);
    let (seconds, cpu) = (begun.elapsed().as_secs_f64(), (machine::process_cpu() - cpu).as_secs_f64());
    assert_eq!(rig.stored(rig.queue_again("kept")), messages, "nothing acknowledged is lost");
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
