//! The end of a host: asked for, or not.

use std::time::{Duration, Instant};

use crate::rig::Rig;

const LONG: Duration = Duration::from_secs(20);

// Scenario 15.
#[test]
fn a_stopping_host_completes_its_running_functions() {
    let rig = Rig::new("", "orders");
    let mut host = rig.host();
    rig.put("orders", "hello");
    let call = rig.desk.next();
    rig.put("orders", "later");
    rig.desk.next().succeed();
    host.signal("TERM");
    host.logs("stopping when runs have ended", 1);
    // What the server had answered to the last poll is run; after that no message is received.
    rig.is_not_polled();
    rig.put("orders", "comes too late");
    rig.desk.is_silent();
    call.succeed();
    assert_eq!(host.exit_code(LONG), Some(0), "{}", host.log());
    assert!(host.log().contains("Executed 'Functions.fn' (Succeeded"));
    assert_eq!(rig.count("orders"), Some(1));
}

#[test]
fn a_host_that_may_not_wait_any_longer_abandons_its_runs_and_says_so() {
    let rig = Rig::new("", "orders");
    let mut host = rig.host_with(&["--drain-seconds", "1"]);
    rig.put("orders", "hello");
    let _call = rig.desk.next();
    host.signal("TERM");
    assert_eq!(host.exit_code(LONG), Some(1));
    assert!(host.log().contains("the time to stop was over"), "{}", host.log());
    assert_eq!(rig.count("orders"), Some(1));
}

#[test]
fn a_second_signal_ends_a_host_at_once() {
    let rig = Rig::new("", "orders");
    let mut host = rig.host();
    rig.put("orders", "hello");
    let _call = rig.desk.next();
    host.signal("INT");
    host.logs("stopping when runs have ended", 1);
    host.signal("INT");
    assert_eq!(host.exit_code(LONG), Some(130));
}

/// The processes that run with this project's root in their environment.
pub fn handlers(rig: &Rig) -> Vec<String> {
    let marker = format!("FUNCTIONS_APP_ROOT_PATH={}\0", rig.root().display());
    let processes = std::fs::read_dir("/proc").expect("Linux has /proc");
    let is_one = |name: &String| {
        name.bytes().all(|byte| byte.is_ascii_digit())
            && std::fs::read(format!("/proc/{name}/environ"))
                .is_ok_and(|environment| String::from_utf8_lossy(&environment).contains(&marker))
    };
    processes.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).filter(is_one).collect()
}

/// Kills the handler itself: of the two processes the one that the other guards.
pub fn kill_handler(rig: &Rig) {
    let is_guard = |id: &String| {
        std::fs::read(format!("/proc/{id}/cmdline"))
            .is_ok_and(|line| String::from_utf8_lossy(&line).contains("guard"))
    };
    for id in handlers(rig).into_iter().filter(|id| !is_guard(id)) {
        let killed = std::process::Command::new("kill").args(["-KILL", &id]).status();
        assert!(killed.expect("the system has the program kill").success());
    }
}

#[test]
fn a_handler_does_not_outlive_a_host_that_was_killed() {
    let rig = Rig::new("", "orders");
    let host = rig.host();
    assert!(handlers(&rig).len() >= 2, "a guard and a handler");
    host.kill();
    let begun = Instant::now();
    while !handlers(&rig).is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?} go on", handlers(&rig));
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_handler_does_not_outlive_a_host_that_stopped() {
    let rig = Rig::new("", "orders");
    let mut host = rig.host();
    host.signal("TERM");
    assert_eq!(host.exit_code(LONG), Some(0));
    assert!(handlers(&rig).is_empty());
}

#[test]
fn a_host_killed_in_many_moments_loses_no_message() {
    let rig = Rig::new("", "orders");
    for number in 0..60 {
        rig.put("orders", &number.to_string());
    }
    let mut done = std::collections::BTreeSet::new();
    for round in 0..4 {
        let host = rig.host();
        for _ in 0..3 + round {
            let call = rig.desk.next();
            let text = call.text();
            call.succeed();
            done.insert(text);
        }
        host.kill();
        // Whatever the dead one had received.
        while rig.desk.soon().is_some() {}
        rig.advance(600);
    }
    let _host = rig.host();
    while rig.count("orders") != Some(0) {
        if let Some(call) = rig.desk.soon() {
            done.insert(call.text());
            call.succeed();
        }
    }
    assert_eq!(done.len(), 60);
    assert_eq!(rig.count("orders-poison"), None);
}
