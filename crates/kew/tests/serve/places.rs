//! Where a new store and a backup may be made, and what is no backup.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::program::{Kew, data_directory, fail};
use super::store_tool::{done, errors, tool};

const OURS: &str = "the test can change its own files";

/// Names and modes of everything in a directory, the directory itself first.
fn seen(directory: &Path) -> Vec<(PathBuf, u32)> {
    let mode = |path: &Path| path.metadata().expect("the file exists").permissions().mode();
    let entries = fs::read_dir(directory).expect("the directory exists");
    let mut seen: Vec<PathBuf> = entries.map(|entry| entry.expect(OURS).path()).collect();
    seen.sort_unstable();
    seen.insert(0, directory.to_owned());
    seen.into_iter().map(|path| (path.clone(), mode(&path))).collect()
}

/// A directory that others may read, with these files in it.
fn foreign(within: &Path, names: &[&str]) -> PathBuf {
    let directory = within.join("work");
    fs::create_dir(&directory).expect(OURS);
    fs::set_permissions(&directory, Permissions::from_mode(0o755)).expect(OURS);
    names.iter().for_each(|name| fs::write(directory.join(name), "dear").expect(OURS));
    directory
}

/// A store that was served and stopped, and a backup of it.
fn store_and_backup(within: &Path) -> (PathBuf, PathBuf) {
    let mut kew = Kew::start(within);
    kew.ask("CreateQueue", r#"{"QueueName":"orders"}"#);
    kew.ask("SendMessage", r#"{"QueueUrl":"orders","MessageBody":"m"}"#);
    kew.signal("TERM");
    assert_eq!(kew.exit_code(), Some(0), "{}", kew.errors());
    let (store, backup) = (within.join("data"), within.join("backup"));
    done(&store, &["backup", &backup.to_string_lossy()]);
    (store, backup)
}

#[test]
fn no_store_is_made_where_something_else_lies_and_nothing_there_is_changed() {
    let directory = data_directory();
    let work = foreign(directory.path(), &["thesis.tex", "notes", "a", "b"]);
    let store = work.to_string_lossy().into_owned();
    let before = seen(&work);
    let says = |told: &str| {
        assert!(told.contains(&store) && told.contains("a, b, notes and 1 more"), "{told}");
        assert!(told.contains("a directory of its own"), "{told}");
        assert_eq!(seen(&work), before);
    };
    for shards in [&[][..], &["--shards", "2"]] {
        let (code, told) = fail(&[&["--store", &store], shards].concat());
        assert_eq!(code, Some(1), "{told}");
        says(&told);
        for make in [&["create"][..], &["import"]] {
            let output = tool(&store, &[make, shards].concat());
            assert_eq!(output.status.code(), Some(1), "{make:?}");
            says(&errors(&output));
        }
    }
}

#[test]
fn no_store_is_made_within_a_backup() {
    let directory = data_directory();
    let (_, backup) = store_and_backup(directory.path());
    let segments = backup.join("segments");
    fs::set_permissions(&segments, Permissions::from_mode(0o755)).expect(OURS);
    let before = seen(&segments);
    let (code, told) = fail(&["--store", &segments.to_string_lossy()]);
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("holds no store") && told.contains(".seg"), "{told}");
    assert_eq!(seen(&segments), before);
    done(directory.path(), &["backup", "--verify", &backup.to_string_lossy()]);
}

#[test]
fn a_store_opens_beside_what_was_put_there_later_and_begins_on_a_new_file_system() {
    let directory = data_directory();
    let data = directory.path().join("data");
    fs::create_dir_all(data.join("lost+found")).expect(OURS);
    for name in ["LOCK", "STORE.tmp"] {
        fs::write(data.join(name), "").expect(OURS);
    }
    let mut kew = Kew::start(directory.path());
    kew.ask("CreateQueue", r#"{"QueueName":"orders"}"#);
    kew.kill();
    fs::write(data.join("letter"), "dear").expect(OURS);
    let again = Kew::start(directory.path());
    assert_eq!(again.ask("GetQueueUrl", r#"{"QueueName":"orders"}"#).0, 200);
}

#[test]
fn a_start_that_was_cut_short_is_gone_on_with() {
    let directory = data_directory();
    let (store, begun) = (directory.path().join("data"), directory.path().join("begun"));
    done(&store, &["create"]);
    let output = tool(&store, &["export"]);
    let lines = directory.path().join("lines");
    fs::write(&lines, &output.stdout).expect(OURS);
    for files in [&["LOCK"][..], &["LOCK", "STORE.tmp"]] {
        fs::create_dir(&begun).expect(OURS);
        files.iter().for_each(|name| fs::write(begun.join(name), "").expect(OURS));
        assert!(done(&begun, &["create"]).contains("made an empty store"), "{files:?}");
        // The file that names it is there, and nothing else was made.
        done(&begun, &["create"]);
        fs::remove_dir_all(&begun).expect(OURS);
    }
    done(&begun, &["import", "--from", &lines.to_string_lossy()]);
}

#[test]
fn no_backup_is_made_within_its_own_store() {
    let directory = data_directory();
    let (store, _) = store_and_backup(directory.path());
    let way_in = directory.path().join("way in");
    std::os::unix::fs::symlink(&store, &way_in).expect(OURS);
    let before = seen(&store);
    for within in
        [store.join("copy"), store.join("segments/deep/copy"), store.clone(), way_in.join("copy"), way_in]
    {
        let output = tool(&store, &["backup", &within.to_string_lossy()]);
        assert_eq!(output.status.code(), Some(1), "{}", within.display());
        let told = errors(&output);
        assert!(told.contains("lies in the store's own directory"), "{told}");
        assert_eq!(seen(&store), before);
    }
    let around = directory.path().join("missing/../data/copy");
    let output = tool(&store, &["backup", &around.to_string_lossy()]);
    assert_eq!(output.status.code(), Some(1), "{}", errors(&output));
    assert_eq!(seen(&store), before);
    let beside = directory.path().join("data-copy");
    done(&store, &["backup", &beside.to_string_lossy()]);
}

#[test]
fn no_backup_of_shards_is_made_within_their_store() {
    let directory = data_directory();
    let store = directory.path().join("data");
    done(&store, &["create", "--shards", "2"]);
    let before = seen(&store);
    let output = tool(&store, &["backup", &store.join("shard-0000/copy").to_string_lossy()]);
    assert!(errors(&output).contains("lies in the store's own directory"), "{}", errors(&output));
    assert_eq!(seen(&store), before);
}

#[test]
fn a_store_is_not_taken_for_a_damaged_backup() {
    let directory = data_directory();
    let (store, _) = store_and_backup(directory.path());
    let several = directory.path().join("several");
    done(&several, &["create", "--shards", "2"]);
    for store in [&store, &several] {
        let output = tool(store, &["backup", "--verify", &store.to_string_lossy()]);
        let told = errors(&output);
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert!(told.contains("is a store") && told.contains("kew store check"), "{told}");
        assert!(!told.contains("damage"), "{told}");
    }
    let other = directory.path().join("other");
    fs::create_dir(&other).expect(OURS);
    let output = tool(&store, &["backup", "--verify", &other.to_string_lossy()]);
    assert!(errors(&output).contains("holds no backup"), "{}", errors(&output));
}

#[test]
fn a_damaged_line_of_a_list_moves_no_terminal_and_fills_no_screen() {
    let directory = data_directory();
    let (store, backup) = store_and_backup(directory.path());
    let list = backup.join("BACKUP");
    let text = fs::read_to_string(&list).expect("a backup has a list");
    let bad = format!("{text}\u{1b}[2J\u{202e}{}\n", "x".repeat(100_000));
    fs::write(&list, bad).expect(OURS);
    for arguments in [&["backup", "--verify"][..], &["check"]] {
        let output = tool(&store, &[arguments, &[&*backup.to_string_lossy()]].concat());
        let told = format!("{}{}", String::from_utf8_lossy(&output.stdout), errors(&output));
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert!(told.contains("BACKUP") && told.len() < 2_000, "{}", told.len());
        assert!(!told.contains('\u{1b}') && !told.contains('\u{202e}'), "{told:?}");
    }
}

#[test]
fn an_opened_backup_is_not_called_a_run_that_was_cut_short() {
    let directory = data_directory();
    let kew = Kew::start(directory.path());
    kew.ask("CreateQueue", r#"{"QueueName":"orders"}"#);
    let backup = directory.path().join("backup");
    let json = ("Content-Type", "application/json");
    let body = format!(r#"{{"to":"{}"}}"#, backup.display());
    assert_eq!(kew.admin("POST", "/api/v1/store/backup", &[json], &body).0, 202);
    let begun = std::time::Instant::now();
    while !backup.join("BACKUP").exists() {
        assert!(begun.elapsed().as_secs() < 60, "{}", kew.errors());
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    drop(kew);
    let other = data_directory();
    let flags = ["--store", &backup.to_string_lossy()];
    let mut restored = Kew::start_with(other.path(), &flags);
    assert!(!restored.errors().contains("cut short"), "{}", restored.errors());
    assert!(restored.errors().contains("the store was restored from a backup"), "{}", restored.errors());
    restored.kill();
    let again = Kew::start_with(other.path(), &flags);
    assert!(again.errors().contains("cut short"), "{}", again.errors());
}
