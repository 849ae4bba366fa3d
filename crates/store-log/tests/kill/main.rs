//! A real process with several threads on a real directory, killed with signal 9 at any moment, round after round on
//! the same store. It reports through a pipe what was acknowledged, and beforehand what it is about to delete; after
//! each kill the store is opened here and held against that.
//!
//! `KEW_KILLS` says how many rounds; the process is this very test program, started again.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod child;
mod reported;

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use kew_core::Timestamp;
use kew_store::contract::model::{Random, SeededEntropy};
use kew_store::ledger::Bounds;
use kew_store_log::{Drive, LogOptions, LogStore, RealDisk, SegmentOptions, check};

use reported::Reported;

const FOLDER: &str = "KEW_KILL_FOLDER";
const ROUND: &str = "KEW_KILL_ROUND";

fn options(drive: Drive) -> LogOptions {
    let segments = SegmentOptions {
        first_bytes: 16 << 10,
        largest_bytes: 64 << 10,
        reserve_spares: 1,
        spares_max: 3,
        open_max: 4,
    };
    LogOptions {
        segments,
        recent_bytes: 64 << 10,
        checkpoint_bytes: 16 << 10,
        slack_bytes: 16 << 10,
        drive,
        bounds: Bounds { deduplication_ids: 50, ..Bounds::default() },
        ..LogOptions::default()
    }
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    Timestamp(since.as_millis() as u64)
}

fn open(folder: &Path, drive: Drive, seed: u64) -> LogStore {
    let disk = Arc::new(RealDisk::open(folder).unwrap());
    let entropy = Arc::new(SeededEntropy::new(seed));
    let (store, report) = LogStore::open(disk, options(drive), entropy, now()).unwrap();
    if let Some(tail) = report.tail {
        println!("{tail}");
    }
    store
}

/// The other process: does nothing unless it was started by the test below.
#[test]
fn child_works_until_it_is_killed() {
    let (Ok(folder), Ok(round)) = (std::env::var(FOLDER), std::env::var(ROUND)) else { return };
    child::work(Path::new(&folder), round.parse().unwrap());
}

#[test]
fn nothing_acknowledged_is_lost_or_comes_back_however_often_the_process_is_killed() {
    let rounds: u64 =
        std::env::var("KEW_KILLS").map_or(3, |text| text.parse().expect("KEW_KILLS is a number"));
    let folder = tempfile::tempdir().unwrap();
    let seed = now().0;
    let mut random = Random::new(seed);
    let mut reported = Reported::default();
    for round in 1..=rounds {
        let lives = Duration::from_millis(30 + random.below(300));
        let lines = run_and_kill(folder.path(), round, lives);
        reported.add(&lines);
        let report = check(Arc::new(RealDisk::open(folder.path()).unwrap())).unwrap();
        assert!(report.is_sound(), "round {round}, seed {seed}: {:?}", report.problems);
        let store = open(folder.path(), Drive::Manual, round << 32);
        reported.check(&store, now()).unwrap_or_else(|what| panic!("round {round}, seed {seed}: {what}"));
        if random.chance(30) {
            store.close().unwrap();
        }
    }
    println!("{rounds} kills: {reported}");
}

/// Starts the child and kills it some time after it is at work. Answers the lines that it reported.
fn run_and_kill(folder: &Path, round: u64, lives: Duration) -> Vec<String> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["child_works_until_it_is_killed", "--exact", "--nocapture", "--test-threads=1"])
        .env(FOLDER, folder)
        .env(ROUND, round.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut lines = Vec::new();
    while lines.last().is_none_or(|line: &String| !line.contains("@ready")) {
        let mut line = String::new();
        assert!(output.read_line(&mut line).unwrap() > 0, "the child ended by itself: {lines:?}");
        lines.push(line);
    }
    let reading = std::thread::spawn(move || {
        let mut lines = Vec::new();
        let mut line = Vec::new();
        // The last line may be cut short; it then has no end.
        while output.read_until(b'\n', &mut line).unwrap() > 0 && line.ends_with(b"\n") {
            lines.push(String::from_utf8(std::mem::take(&mut line)).unwrap());
        }
        lines
    });
    std::thread::park_timeout(lives);
    child.kill().unwrap();
    let status = child.wait().unwrap();
    assert_eq!(status.signal(), Some(9), "the child found something wrong and ended by itself: {status}");
    reading.join().unwrap()
}
