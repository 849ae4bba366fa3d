//! Backups of the store of a running server, through the admin API.

use std::collections::BTreeSet;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::program::{Kew, command_with_open_umask, data_directory};

const JSON: (&str, &str) = ("Content-Type", "application/json");
/// A backup of a few megabytes takes much less.
const PATIENCE: Duration = Duration::from_secs(60);

/// A backup through the admin API: status and body.
fn begin(kew: &Kew, body: &Value) -> (u16, Value) {
    let (status, text) = kew.admin("POST", "/api/v1/store/backup", &[JSON], &body.to_string());
    (status, serde_json::from_str(&text).expect("the reply is JSON"))
}

/// The end of a backup that must begin.
fn end_of(kew: &Kew, body: &Value) -> Value {
    let (status, begun) = begin(kew, body);
    assert_eq!(status, 202, "{begun}");
    let path = format!("/api/v1/store/backups/{}", begun["task"].as_str().expect("a task is a text"));
    let asked = Instant::now();
    loop {
        let (status, shown) = kew.admin("GET", &path, &[], "");
        assert_eq!(status, 200, "{shown}");
        let shown: Value = serde_json::from_str(&shown).expect("the reply is JSON");
        if shown["state"] != "running" {
            return shown;
        }
        assert!(asked.elapsed() < PATIENCE, "{shown}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Every file and folder below a directory.
fn all_below(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).expect("the directory exists") {
        let path = entry.expect("the test can read its own files").path();
        if path.is_dir() {
            found.extend(all_below(&path));
        }
        found.push(path);
    }
    found
}

fn inodes(directory: &Path) -> BTreeSet<u64> {
    let files = all_below(directory).into_iter().filter(|path| path.is_file());
    files.filter_map(|path| path.metadata().ok()).map(|found| found.ino()).collect()
}

#[test]
fn a_server_under_load_is_backed_up_and_the_backup_is_a_store_of_its_own() {
    let directory = data_directory();
    let home = directory.path().join("data").to_string_lossy().into_owned();
    let kew = Kew::start_by(command_with_open_umask(), directory.path(), &["--store", &home]);
    kew.ask("CreateQueue", r#"{"QueueName":"kept"}"#);
    kew.ask("CreateQueue", r#"{"QueueName":"busy"}"#);
    for number in 0..20 {
        kew.ask("SendMessage", &format!(r#"{{"QueueUrl":"kept","MessageBody":"kept {number}"}}"#));
    }
    let stop = AtomicBool::new(false);
    let (copied, linked) = (directory.path().join("copied"), directory.path().join("deep/linked"));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let body = "x".repeat(20_000);
            while !stop.load(Ordering::Relaxed) {
                let sent =
                    kew.ask("SendMessage", &format!(r#"{{"QueueUrl":"busy","MessageBody":"{body}"}}"#));
                assert_eq!(sent.0, 200, "{}", sent.1);
            }
        });
        for (to, link) in [(&copied, false), (&linked, true)] {
            let ended = end_of(&kew, &json!({ "to": to, "link": link }));
            assert_eq!(ended["state"], "done", "{ended}");
            assert!(ended["bytes"] == ended["of"] && ended["of"].as_u64() > Some(0), "{ended}");
            assert_eq!(ended["linked"].as_u64() > Some(0), link, "{ended}");
        }
        stop.store(true, Ordering::Relaxed);
    });
    let live = inodes(Path::new(&home));
    assert!(live.is_disjoint(&inodes(&copied)), "a copy shares a file with the live store");
    assert!(!live.is_disjoint(&inodes(&linked)), "links share files with the live store");
    for path in all_below(&copied).into_iter().chain([copied.clone()]) {
        let mode = path.metadata().expect("the file exists").permissions().mode() & 0o777;
        assert_eq!(mode, if path.is_dir() { 0o700 } else { 0o600 }, "{}", path.display());
    }
    for backup in [&copied, &linked] {
        let mut tool = Command::new(env!("CARGO_BIN_EXE_kew"));
        let output = tool.args(["store", "backup", "--verify"]).arg(backup).output();
        assert!(output.expect("the program kew is built with its tests").status.success());
    }
    let other = data_directory();
    let restored = Kew::start_with(other.path(), &["--store", &copied.to_string_lossy()]);
    let mut found = 0;
    for _ in 0..40 {
        let (_, page) = restored.ask("ReceiveMessage", r#"{"QueueUrl":"kept","MaxNumberOfMessages":10}"#);
        found += page.matches("\"Body\":\"kept").count();
    }
    assert_eq!(found, 20);
}

#[test]
fn a_directory_that_cannot_hold_a_backup_is_refused_and_stays_as_it_is() {
    let directory = data_directory();
    let kew = Kew::start(directory.path());
    let home = directory.path().join("data");
    let full = directory.path().join("full");
    std::fs::create_dir(&full).expect("the test can write to its own directory");
    std::fs::write(full.join("letter"), "dear").expect("the test can write to its own directory");
    let way_in = directory.path().join("way in");
    std::os::unix::fs::symlink(&home, &way_in).expect("the test can write to its own directory");
    let file = full.join("letter/below");
    for (to, status, code) in [
        ("backup".to_owned(), 400, "bad_request"),
        (home.join("backup").display().to_string(), 400, "bad_request"),
        (home.display().to_string(), 400, "bad_request"),
        (way_in.join("backup").display().to_string(), 400, "bad_request"),
        (format!("{}/../data/backup", full.display()), 400, "bad_request"),
        (file.display().to_string(), 400, "bad_request"),
        (full.display().to_string(), 409, "not_empty"),
    ] {
        let (found, body) = begin(&kew, &json!({ "to": to }));
        assert_eq!((found, &body["error"]["code"]), (status, &code.into()), "{to}: {body}");
    }
    assert!(!home.join("backup").exists());
    assert_eq!(all_below(&full).len(), 1);
    // What the check cannot see ends the task as failed, with the reason.
    let ended = end_of(&kew, &json!({ "to": "/proc/kew/backup" }));
    assert_eq!(ended["state"], "failed", "{ended}");
    assert!(ended["reason"].as_str().is_some_and(|why| why.contains("/proc/kew/backup")), "{ended}");
    assert!(kew.errors().contains("a backup failed"), "{}", kew.errors());
}

#[test]
fn a_store_in_memory_says_what_to_do_instead_of_a_backup() {
    let directory = data_directory();
    let kew = Kew::start_with(directory.path(), &["--store", "memory"]);
    let (status, body) = begin(&kew, &json!({ "to": directory.path().join("backup") }));
    assert_eq!((status, &body["error"]["code"]), (409, &"no_backup_here".into()), "{body}");
}
