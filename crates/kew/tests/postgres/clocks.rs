//! Nodes whose own clocks differ: Kew's time is the database's.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use kew_log_pg::server::PgServer;
use serde_json::Value;

use super::nodes::{Node, ask};

/// How long a received message is hidden.
const HIDDEN: Duration = Duration::from_secs(6);
/// A message that a node before has hidden may be offered again this much too early, or late. A minute is what a wrong
/// clock makes it late by; a few seconds are what a machine that stands still does.
const EARLY_MAX: Duration = Duration::from_millis(10);
const LATE_MAX: Duration = Duration::from_secs(5);

/// Puts every reading of the wall clock ahead of the machine's; clocks that cannot be set are left as they are. At the
/// first reading it writes down whose clock it changed, and by how much.
const SHIFTED: &str = r#"#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
static void note(const char *ahead) {
    static int is_noted;
    const char *path = getenv("CLOCK_NOTE");
    if (!path || __atomic_exchange_n(&is_noted, 1, __ATOMIC_SEQ_CST)) return;
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (file < 0) return;
    dprintf(file, "process %d ahead %s", (int)getpid(), ahead);
    close(file);
}
int clock_gettime(clockid_t id, struct timespec *t) {
    static int (*next)(clockid_t, struct timespec *);
    if (!next) next = dlsym(RTLD_NEXT, "clock_gettime");
    int result = next(id, t);
    const char *ahead = getenv("CLOCK_AHEAD_MS");
    if (id == CLOCK_REALTIME && ahead) {
        note(ahead);
        long long ns = t->tv_nsec + atoll(ahead) % 1000 * 1000000;
        t->tv_sec += atoll(ahead) / 1000 + (ns >= 1000000000) - (ns < 0);
        t->tv_nsec = ns + (ns < 0 ? 1000000000 : 0) - (ns >= 1000000000 ? 1000000000 : 0);
    }
    return result;
}
"#;

/// Makes the library that does so.
fn library(directory: &Path) -> PathBuf {
    let (source, library) = (directory.join("shifted.c"), directory.join("shifted.so"));
    std::fs::write(&source, SHIFTED).expect("the directory is the test's own");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).arg("-ldl");
    let made = compiler.output().expect("the linker of Rust programs is there");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    library
}

/// The text of the message that is offered, if there is one.
fn received(node: &Node) -> Option<String> {
    let reply = ask(node.sqs, "ReceiveMessage", r#"{"QueueUrl":"orders"}"#)?;
    let reply: Value = serde_json::from_str(&reply).expect("a reply of 200 is JSON");
    Some(reply["Messages"][0]["Body"].as_str()?.to_owned())
}

#[test]
fn lease_ends_when_it_should_at_a_successor_whose_own_clock_is_another_one() {
    let server = PgServer::start(&["fsync=off"]).expect("PostgreSQL starts");
    let directory = tempfile::tempdir().expect("the machine has a temporary directory");
    let library = library(directory.path()).display().to_string();
    for ahead in ["100", "-100", "60000", "-60000"] {
        let url = server.database().expect("the server makes databases");
        let mut first = Node::start(&url);
        first.wait_until_ready();
        let hidden = HIDDEN.as_secs();
        let create = format!(r#"{{"QueueName":"orders","Attributes":{{"VisibilityTimeout":"{hidden}"}}}}"#);
        ask(first.sqs, "CreateQueue", &create).expect("the node serves");
        ask(first.sqs, "SendMessage", r#"{"QueueUrl":"orders","MessageBody":"hidden"}"#)
            .expect("the node serves");
        let note = directory.path().join(format!("ahead-{ahead}"));
        let noted = note.display().to_string();
        let variables = [("LD_PRELOAD", &*library), ("CLOCK_AHEAD_MS", ahead), ("CLOCK_NOTE", &*noted)];
        let next = Node::start_with(&url, &variables);
        next.wait_until_standing_by();
        let noted = std::fs::read_to_string(&note).expect("the node's own clock is changed");
        assert_eq!(noted, format!("process {} ahead {ahead}", next.process()));
        let begun = Instant::now();
        assert_eq!(received(&first).as_deref(), Some("hidden"));
        first.kill();
        let again = loop {
            if received(&next).is_some() {
                break begun.elapsed();
            }
            assert!(begun.elapsed() < 5 * HIDDEN, "it did not come back\n{}", next.errors());
            std::thread::sleep(Duration::from_millis(2));
        };
        println!("a clock {ahead} ms ahead: offered again after {again:?}");
        assert!(again + EARLY_MAX >= HIDDEN, "{ahead} ms ahead: offered again after {again:?}");
        assert!(again <= HIDDEN + LATE_MAX, "{ahead} ms ahead: offered again after {again:?}");
    }
}
