//! `kew store` on what a server left behind.

use std::path::Path;
use std::process::{Command, Output};

use super::program::{Kew, data_directory};

fn tool(directory: &Path, arguments: &[&str]) -> Output {
    let data = directory.join("data");
    let mut command = Command::new(env!("CARGO_BIN_EXE_kew"));
    command.env("KEW_STORE", data).arg("store").args(arguments).output().expect("it was built")
}

fn done(directory: &Path, arguments: &[&str]) -> String {
    let output = tool(directory, arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A store with one queue and three messages, its server killed.
fn left_behind(directory: &Path) {
    let mut kew = Kew::start(directory);
    kew.ask("CreateQueue", r#"{"QueueName":"orders"}"#);
    for number in 0..3 {
        kew.ask("SendMessage", &format!(r#"{{"QueueUrl":"orders","MessageBody":"m{number}"}}"#));
    }
    kew.kill();
}

#[test]
fn a_store_is_checked_counted_exported_and_imported_again() {
    let (one, other) = (data_directory(), data_directory());
    left_behind(one.path());
    assert!(done(one.path(), &["check"]).contains("sound: "));
    let stats = done(one.path(), &["stats"]);
    assert!(stats.starts_with("queues               1\nmessages             3\n"), "{stats}");
    let lines = one.path().join("lines").to_string_lossy().into_owned();
    done(one.path(), &["export", "--to", &lines]);
    assert_eq!(done(one.path(), &["export"]), std::fs::read_to_string(&lines).expect("it was written"));
    done(other.path(), &["import", "--from", &lines]);
    let kew = Kew::start(other.path());
    let (_, found) = kew.ask("ReceiveMessage", r#"{"QueueUrl":"orders","MaxNumberOfMessages":10}"#);
    assert_eq!(found.matches("\"Body\":\"m").count(), 3, "{found}");
}

#[test]
fn a_backup_opens_like_any_store_and_is_verified_against_its_list() {
    let (one, other) = (data_directory(), data_directory());
    left_behind(one.path());
    let target = other.path().join("data").to_string_lossy().into_owned();
    done(one.path(), &["backup", &target]);
    done(one.path(), &["backup", "--verify", &target]);
    let kew = Kew::start(other.path());
    let (_, found) = kew.ask("ReceiveMessage", r#"{"QueueUrl":"orders","MaxNumberOfMessages":10}"#);
    assert_eq!(found.matches("\"Body\":\"m").count(), 3, "{found}");
}

#[test]
fn tools_keep_away_from_a_running_server_and_from_nothing() {
    let directory = data_directory();
    let nothing = tool(directory.path(), &["check"]);
    assert_eq!(nothing.status.code(), Some(1));
    assert!(errors(&nothing).contains("holds no store"), "{}", errors(&nothing));
    assert!(!directory.path().join("data").exists(), "looking made a directory");
    let _kew = Kew::start(directory.path());
    for arguments in [&["check"][..], &["stats"], &["export"]] {
        let output = tool(directory.path(), arguments);
        assert_eq!(output.status.code(), Some(1));
        assert!(errors(&output).contains("is in use by"), "{arguments:?}: {}", errors(&output));
    }
}

#[test]
fn a_directory_of_something_else_is_no_store_and_is_left_as_it_is() {
    let directory = data_directory();
    let data = directory.path().join("data");
    std::fs::create_dir(&data).expect("there is room");
    std::fs::write(data.join("letter"), "dear").expect("there is room");
    for arguments in [&["check"][..], &["stats"], &["export"], &["backup", "elsewhere"]] {
        let output = tool(directory.path(), arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(errors(&output).contains("holds no store"), "{arguments:?}: {}", errors(&output));
    }
    assert_eq!(std::fs::read_dir(&data).expect("it is there").count(), 1, "a tool made something");
    let missing = directory.path().join("missing");
    let output = tool(directory.path(), &["backup", "--verify", &missing.to_string_lossy()]);
    assert!(errors(&output).contains("no such directory"), "{}", errors(&output));
    assert!(!missing.exists(), "verifying made a directory");
}

#[test]
fn an_import_that_fails_says_what_it_leaves() {
    let (one, other) = (data_directory(), data_directory());
    left_behind(one.path());
    let lines = done(one.path(), &["export"]);
    let cut = one.path().join("cut");
    std::fs::write(&cut, &lines[..lines.len() / 2]).expect("there is room");
    let import = ["import", "--from", &cut.to_string_lossy()];
    let output = tool(other.path(), &import);
    let told = errors(&output);
    assert!(told.contains("importing line") && told.contains("remove it before the next import"), "{told}");
    assert!(errors(&tool(other.path(), &import)).contains("holds a store already"));
}

#[test]
fn damage_is_named_with_exit_code_one() {
    let directory = data_directory();
    left_behind(directory.path());
    done(directory.path(), &["stats"]);
    let segments = directory.path().join("data/segments");
    let first =
        std::fs::read_dir(&segments).expect("there are some").flatten().map(|entry| entry.path()).min();
    let first = first.expect("there is one");
    let mut bytes = std::fs::read(&first).expect("it is readable");
    let body = bytes.windows(2).position(|window| window == b"m1").expect("bodies lie there as they are");
    bytes[body] ^= 1;
    std::fs::write(&first, bytes).expect("it is writable");
    let output = tool(directory.path(), &["check"]);
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(told.contains("DAMAGE  ") && told.contains("segments/"), "{told}");
}
