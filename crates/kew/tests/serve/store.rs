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

/// A store that is left behind, with one byte of the message `m1` flipped below its last checkpoint.
fn left_damaged(directory: &Path) {
    left_behind(directory);
    done(directory, &["stats"]);
    let segments = directory.join("data/segments");
    let first =
        std::fs::read_dir(&segments).expect("there are some").flatten().map(|entry| entry.path()).min();
    let first = first.expect("there is one");
    let mut bytes = std::fs::read(&first).expect("it is readable");
    let body = bytes.windows(2).position(|window| window == b"m1").expect("bodies lie there as they are");
    bytes[body] ^= 1;
    std::fs::write(&first, bytes).expect("it is writable");
}

#[test]
fn damage_is_named_with_exit_code_one() {
    let directory = data_directory();
    left_damaged(directory.path());
    let output = tool(directory.path(), &["check"]);
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(told.contains("DAMAGE  ") && told.contains("segments/"), "{told}");
}

#[test]
fn all_other_messages_are_rescued_from_a_store_with_a_damaged_one() {
    let (one, other) = (data_directory(), data_directory());
    left_damaged(one.path());
    let lines = one.path().join("lines").to_string_lossy().into_owned();
    let output = tool(one.path(), &["export", "--to", &lines]);
    let told = errors(&output);
    assert_eq!(output.status.code(), Some(1));
    assert!(told.contains("damage in segments/") && told.contains("; --leave-out-damaged exports"), "{told}");
    assert!(!Path::new(&lines).exists(), "a part of an export is in the way of the next");
    let output = tool(one.path(), &["export", "--leave-out-damaged", "--to", &lines]);
    let told = errors(&output);
    assert_eq!(output.status.code(), Some(3), "{told}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "1 queues and 2 messages, in 5 lines\n");
    let (left_out, sum) = told.trim_end().split_once('\n').expect("two lines");
    assert!(
        left_out
            .starts_with("left out message 2 of queue 000000000000/us-east-1/orders: damage in segments/")
    );
    assert!(left_out.contains(".seg at offset "), "{told}");
    assert_eq!(sum, "error: messages left out, since they cannot be read: 1");
    let output = tool(one.path(), &["export", "--leave-out-damaged"]);
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(output.stdout, std::fs::read(&lines).expect("it was written"));

    done(other.path(), &["import", "--from", &lines]);
    // Of a sound store nothing is left out.
    done(other.path(), &["export", "--leave-out-damaged"]);
    let kew = Kew::start(other.path());
    let (_, found) = kew.ask("ReceiveMessage", r#"{"QueueUrl":"orders","MaxNumberOfMessages":10}"#);
    assert!(found.contains("\"Body\":\"m0") && found.contains("\"Body\":\"m2"), "{found}");
    assert_eq!(found.matches("\"Body\":").count(), 2, "{found}");
}

#[test]
fn a_receive_of_a_damaged_message_fails_and_the_log_says_where_it_lies() {
    let directory = data_directory();
    left_damaged(directory.path());
    let kew = Kew::start(directory.path());
    let receive = || kew.ask("ReceiveMessage", r#"{"QueueUrl":"orders","MaxNumberOfMessages":10}"#);
    let (_, first) = receive();
    assert_eq!(first.matches("\"Body\":").count(), 1, "{first}");
    let (status, refused) = receive();
    assert!(status == 500 && refused.contains("InternalFailure"), "{status} {refused}");
    let told = kew.errors();
    let store = directory.path().join("data").display().to_string();
    assert!(told.contains("stored data is damaged: damage in segments/"), "{told}");
    assert!(told.contains(&format!("store=\"{store}\"")), "{told}");
}
