//! A store that an earlier program wrote: one fixture for each version of the format, kept as it was written.
//!
//! `KEW_FIXTURE=<folder>` writes the one of this version anew, into a folder that does not exist yet.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kew_core::command::Bring;
use kew_core::{
    Carries, Command, Content, DeadLetterAction, DeadLetterRule, Expiry, MessageId, MoveReason, Origin,
    Outcome, OwedMessage, Policy, QueueId, Sequence,
};
use kew_store_log::{Disk, LogStore, RealDisk, STORE_VERSION, SimDisk, check, import};

use crate::small_store::{Asked, START, a_bit_of_everything, entropy, key, open, options, text_of};

const EXPORT: &str = "expected.jsonl";

fn fixture(version: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/format-{version}"))
}

fn opened(folder: &Path) -> LogStore {
    let disk = Arc::new(RealDisk::open(folder).unwrap());
    LogStore::open(disk, options(), entropy(2), START).unwrap().0
}

/// The version of the format that a store's head says.
fn version_of(folder: &Path) -> u32 {
    let head = std::fs::read(folder.join("STORE")).unwrap();
    u32::from_le_bytes(head[12..16].try_into().unwrap())
}

/// Copies the files of a store, without spares, the lock and what tells of it.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to.join(name));
        } else if !name.ends_with(".spare") && name != "LOCK" && name != EXPORT {
            std::fs::copy(entry.path(), to.join(name)).unwrap();
        }
    }
}

#[test]
fn a_store_of_every_earlier_format_opens_with_everything_in_it() {
    if let Ok(target) = std::env::var("KEW_FIXTURE") {
        write_fixture(Path::new(&target));
    }
    for version in 1..=STORE_VERSION {
        let folder = tempfile::tempdir().unwrap();
        copy(&fixture(version), folder.path());
        let expected = std::fs::read_to_string(fixture(version).join(EXPORT)).unwrap();
        let disk: Arc<dyn Disk> = Arc::new(RealDisk::open(folder.path()).unwrap());
        let report = check(disk).unwrap();
        assert!(report.is_sound(), "version {version}: {:?}", report.problems);
        let store = opened(folder.path());
        assert_eq!(version_of(folder.path()), STORE_VERSION, "an older program would misread it from now on");
        let found = text_of(&store).unwrap();
        assert_eq!(known(&found), known(&expected), "version {version}");
        if version == STORE_VERSION {
            // With the order of groups, and what is to leave.
            assert_eq!(found.lines().collect::<BTreeSet<_>>(), expected.lines().collect::<BTreeSet<_>>());
        }
        let asked = Asked::of(store);
        let plain = asked.find("plain");
        asked.send(plain, "a new message in an old store");
        asked.store.checkpoint().unwrap();
        let held = text_of(&asked.store).unwrap();
        asked.store.close().unwrap();
        drop(asked);
        assert_eq!(text_of(&opened(folder.path())).unwrap(), held);
    }
}

#[test]
fn an_export_of_the_first_version_is_imported_with_a_lease_as_a_delay() {
    let text = std::fs::read_to_string(fixture(1).join(EXPORT)).unwrap();
    assert!(text.contains("\"version\":1,") && text.contains("leased_until_ms"), "it is of that version");
    // The fixture holds its lines sorted; an export ends with the number of them.
    let (last, mut lines): (Vec<&str>, Vec<&str>) =
        text.lines().partition(|line| line.starts_with("{\"end\""));
    lines.extend(last);
    let lines = lines.join("\n");
    let disk = SimDisk::new();
    import(&mut lines.as_bytes(), Arc::new(disk.clone()), options(), entropy(5), START).unwrap();
    assert!(check(Arc::new(disk.clone())).unwrap().is_sound());
    let (store, _) = open(&disk).unwrap();
    let expected = text.replace("leased_until_ms", "delayed_until_ms");
    // The first line names the store itself.
    assert_eq!(known(&text_of(&store).unwrap())[1..], known(&expected)[1..]);
    let asked = Asked::of(store);
    assert_eq!(asked.lease(asked.find("row.fifo"), 1).len(), 1, "groups take turns");
}

/// The lines of an export without what version 1 of the lines did not say or said in another way.
fn known(text: &str) -> Vec<serde_json::Value> {
    let mut lines = Vec::new();
    for line in text.lines() {
        let mut line: serde_json::Value = serde_json::from_str(line).unwrap();
        let is_newer = ["order", "task", "end"].iter().any(|kind| line.get(kind).is_some());
        if let Some(store) = line.get_mut("store").and_then(serde_json::Value::as_object_mut) {
            store.remove("version");
        }
        if let Some(message) = line.get_mut("message").and_then(serde_json::Value::as_object_mut) {
            for field in ["rests", "shows_ms", "lease", "lease_end_ms"] {
                message.remove(field);
            }
        }
        if !is_newer {
            lines.push(line);
        }
    }
    lines
}

/// A batch of one message from an outbox of another shard.
fn from_another_shard(asked: &Asked) -> Command {
    let message = OwedMessage {
        sequence: Sequence(4),
        id: MessageId([9; 16]),
        content: Content { body: Bytes::from_static(b"a message from another shard"), ..Content::default() },
        group: None,
        deduplication: None,
        expiry: Expiry::Never,
        sent_at: START,
        attempts: 3,
        first_leased_at: Some(START),
        origin: Origin { queue: key("far away"), reason: MoveReason::AttemptsExhausted, at: START },
    };
    Command::Bring(Bring { target: asked.find("dead"), outbox: QueueId(77), messages: vec![message] })
}

/// A message that was tried too often while the queue of dead letters is missing.
fn has_nowhere_to_go(asked: &mut Asked) {
    let rule = DeadLetterRule {
        attempts_max: 1,
        then: DeadLetterAction::MoveTo(key("missing")),
        carries: Carries::History,
        written_by: "sqs".into(),
    };
    let stuck = asked.queue("stuck", Policy { dead_letters: Some(rule.into()), ..Policy::standard() });
    asked.send(stuck, "a message that stays");
    assert_eq!(asked.lease(stuck, 1).len(), 1);
    asked.later(Duration::from_secs(31));
    asked.ask(Command::Due);
    asked.send(asked.find("plain"), "the newest message");
}

/// Writes a store that was killed: it has a checkpoint, old segments, survivors, ids put away, and a journal behind.
fn write_fixture(target: &Path) {
    let folder = tempfile::tempdir().unwrap();
    let mut asked = a_bit_of_everything(Arc::new(RealDisk::open(folder.path()).unwrap()));
    asked.lease(asked.find("dead"), 1);
    assert_eq!(asked.ask(from_another_shard(&asked)), Outcome::Brought(Some(Sequence(4))));
    has_nowhere_to_go(&mut asked);
    let text = text_of(&asked.store).unwrap();
    drop(asked);
    copy(folder.path(), target);
    std::fs::write(target.join(EXPORT), text).unwrap();
}
