//! `kill -9` in the middle of each load: what was acknowledged is there after the restart, says the load's own
//! verifier.
//!
//! The middle is a moment of real time, since load is. A run has one kill; with `KEW_LONG=1` it is longer and has four.

use std::net::TcpListener;
use std::process::Child;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use super::program::{Kew, data_directory};
use super::{bench, document};

const BEFORE_KILL: Duration = Duration::from_millis(500);
/// Messages of the scenario backlog that lie in the queue beforehand.
const BACKLOG: u64 = 1_000;
/// A load is at work after this long.
const BEGINS_WITHIN: Duration = Duration::from_secs(60);

fn is_long() -> bool {
    std::env::var("KEW_LONG").is_ok_and(|value| value == "1")
}

/// An address for as long as a test takes: below the ports that the system gives to other sockets, so that
/// no other program takes it while its server is away.
fn address() -> String {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first =
        20_000 + u16::try_from(std::process::id() % 10_000).expect("a number below 10 000 fits into 16 bits");
    loop {
        let address = format!("127.0.0.1:{}", first + NEXT.fetch_add(1, Ordering::Relaxed));
        if TcpListener::bind(&address).is_ok() {
            return address;
        }
    }
}

/// Waits until the load is at work. Before that it makes its queues and sends its backlog, of which it has no account.
fn wait_until_at_work(kew: &Kew, backlog: u64) {
    let begun = Instant::now();
    let sent = |metrics: &str| -> u64 {
        let samples = metrics.lines().filter_map(|line| line.strip_prefix("kew_messages_sent_total{"));
        samples.filter_map(|sample| sample.rsplit_once(' ')?.1.parse::<u64>().ok()).sum()
    };
    while sent(&kew.admin("GET", "/metrics", &[], "").1) <= backlog {
        assert!(begun.elapsed() < BEGINS_WITHIN, "the load sends nothing");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Kills the server under the load and starts it again on its store and its ports, as often as asked.
fn kill_and_restart(
    mut kew: Kew,
    directory: &std::path::Path,
    words: &[&str],
    load: &mut Child,
    (kills, backlog): (u32, u64),
) -> Kew {
    wait_until_at_work(&kew, backlog);
    for kill in 0..kills {
        std::thread::sleep(BEFORE_KILL);
        assert!(
            load.try_wait().expect("the child process was not waited for before").is_none(),
            "the load was over before kill {kill}"
        );
        kew.kill();
        kew = Kew::start_with(directory, words);
    }
    kew
}

fn survives(dialect: &str, scenario: &str, more: &[&str]) {
    let directory = data_directory();
    let (data, address, flag) = (directory.path().join("data"), address(), format!("--{dialect}"));
    let server = ["--store", &data.to_string_lossy(), &flag, &address];
    let kew = Kew::start_with(directory.path(), &server);
    let endpoint = format!("http://{address}");
    let (seconds, kills) = if is_long() { ("12", 4) } else { ("2", 1) };
    let mut words = vec!["--dialect", dialect, "--endpoint", &endpoint, "--scenario", scenario];
    words.extend(["--survive", "--json", "--seconds", seconds, "--connections", "8"]);
    words.extend(more);
    let mut load = bench(&words);
    // The push scenario has an account of its backlog.
    let backlog = if scenario == "backlog" { BACKLOG } else { 0 };
    let _kew = kill_and_restart(kew, directory.path(), &server, &mut load, (kills, backlog));
    let printed = document(&load.wait_with_output().expect("the load can be waited for"), &words.join(" "));
    let round = &printed["rounds"][0];
    assert!(round["interruptions"].as_u64() > Some(0), "no request was under way: {printed}");
    assert!(round["messages"].as_u64() > Some(0), "{printed}");
    for fault in ["lost", "resurrected", "disordered", "strange"] {
        assert_eq!(round[fault], 0, "{fault}: {printed}");
    }
}

#[test]
fn sqs_cycle_survives() {
    survives("sqs", "cycle", &[]);
}

#[test]
fn sqs_send_survives() {
    survives("sqs", "send", &[]);
}

#[test]
fn sqs_batch_survives() {
    survives("sqs", "batch", &[]);
}

#[test]
fn sqs_fifo_survives_in_order() {
    survives("sqs", "fifo", &["--groups", "32"]);
}

#[test]
fn sqs_backlog_survives() {
    survives("sqs", "backlog", &["--backlog", &BACKLOG.to_string()]);
}

#[test]
fn sqs_long_poll_survives() {
    survives("sqs", "longpoll", &[]);
}

#[test]
fn sqs_idle_queues_survive() {
    survives("sqs", "idle-queues", &["--queues", "100"]);
}

#[test]
fn azure_cycle_survives() {
    survives("azure", "cycle", &[]);
}

#[test]
fn cloudflare_cycle_survives() {
    survives("cloudflare", "cycle", &[]);
}

#[test]
fn cloudflare_batch_survives() {
    survives("cloudflare", "batch", &[]);
}

#[test]
fn push_survives() {
    let backlog = if is_long() { "600000" } else { "60000" };
    survives("cloudflare", "push", &["--backlog", backlog]);
}
