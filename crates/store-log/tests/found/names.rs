//! Names of groups and queues through checkpoints, and who is told of a name.

use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};

use kew_core::command::{CreateQueue, UpdateQueue};
use kew_core::{Command, NewMessage, Outcome, Policy, QueueId, RuleError};
use kew_store::contract::model::subject::block_on;
use kew_store::{Store, StoreError};
use kew_store_log::{Disk, DiskFile, DiskLock, LogStore, SimDisk};

use crate::opened;
use crate::small::{Asked, START, entropy, key, options, text_of};

#[test]
fn groups_of_any_name_survive_a_checkpoint() {
    let names = ["", "\0", "\x000", "\x001", "\x002", "b", "\u{7f}é"];
    for policy in [Policy::standard(), Policy::fifo()] {
        for gone in 0..=names.len() {
            let disk = SimDisk::new();
            let asked = opened(&disk, options());
            let queue = asked.queue("grouped", policy.clone());
            let mut tokens = Vec::new();
            for name in names {
                let message = asked.row(name, name, name);
                let deduplication = message.deduplication.clone().filter(|_| policy.kind.is_fifo());
                tokens.push(
                    asked.try_send(queue, NewMessage { deduplication, ..message }).map(|sent| sent.token),
                );
            }
            // One group's slot is free when the checkpoint is made.
            if let Some(Ok(_)) = tokens.get(gone) {
                let leased = asked.lease(queue, 10);
                asked.ack(queue, &leased[gone..=gone]);
            }
            asked.store.checkpoint().unwrap();
            let held = text_of(&asked.store).unwrap();
            drop(asked);
            let again = opened(&disk.reopen_process_crash(), options());
            assert_eq!(text_of(&again.store).unwrap(), held, "without group {gone}");
        }
    }
}

type Interruption = Box<dyn FnOnce() + Send>;

/// A disk that lets something else happen once, when a checkpoint has begun.
struct Interrupted {
    disk: SimDisk,
    then: Arc<Mutex<Option<Interruption>>>,
}

impl Disk for Interrupted {
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.disk.create(name)
    }
    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.disk.open(name)
    }
    fn create_dir(&self, folder: &str) -> io::Result<()> {
        self.disk.create_dir(folder)
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }
    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }
    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        let then = self.then.lock().unwrap().take_if(|_| folder == "checkpoints");
        if let Some(then) = then {
            then();
        }
        self.disk.list(folder)
    }
    fn hard_link(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.hard_link(from, to)
    }
    fn hard_link_out(&self, from: &str, to: &Path) -> io::Result<()> {
        self.disk.hard_link_out(from, to)
    }
    fn link_count(&self, name: &str) -> io::Result<u64> {
        self.disk.link_count(name)
    }
    fn sync_dir(&self, folder: &str) -> io::Result<()> {
        self.disk.sync_dir(folder)
    }
    fn free_space(&self) -> io::Result<u64> {
        self.disk.free_space()
    }
    fn lock(&self) -> io::Result<DiskLock> {
        self.disk.lock()
    }
    fn is_copy_on_write(&self) -> bool {
        self.disk.is_copy_on_write()
    }
}

fn rename(asked: &Asked, queue: QueueId, name: &str) {
    let update =
        UpdateQueue { queue, if_version: None, policy: None, documents: Vec::new(), rename: Some(key(name)) };
    asked.ask(Command::UpdateQueue(update));
}

#[test]
fn queues_renamed_during_a_checkpoint_keep_their_names() {
    let (disk, then) = (SimDisk::new(), Arc::default());
    let interrupted = Interrupted { disk: disk.clone(), then: Arc::clone(&then) };
    let store = LogStore::open(Arc::new(interrupted), options(), entropy(1), START).unwrap().0;
    let asked = Arc::new(Asked::of(store));
    let first = asked.queue("x", Policy::standard());
    asked.store.checkpoint().unwrap();
    let second = asked.queue("b", Policy::standard());
    let renaming = asked.clone();
    // The first one's slice is kept as it was, the second one's is written after this.
    *then.lock().unwrap() = Some(Box::new(move || {
        rename(&renaming, first, "y");
        rename(&renaming, second, "x");
    }));
    asked.store.checkpoint().unwrap();
    assert!(then.lock().unwrap().is_none(), "nothing was renamed");
    drop(asked);
    let again = opened(&disk.reopen_process_crash(), options());
    assert_eq!((again.find("y"), again.find("x")), (first, second));
    for (name, queue) in [("x", second), ("y", first)] {
        let taken = again.try_ask(create(name));
        let Err(StoreError::Rule(RuleError::QueueExists(found))) = taken else { panic!("{name}: {taken:?}") };
        assert_eq!(found.id, queue);
    }
    assert!(matches!(again.ask(create("b")), Outcome::Queue(_)), "the old name is free");
}

fn create(name: &str) -> Command {
    Command::CreateQueue(CreateQueue { key: key(name), policy: Policy::standard(), documents: Vec::new() })
}

#[test]
fn existing_queue_is_told_only_once_it_is_durable() {
    let disk = SimDisk::new();
    let asked = opened(&disk, options());
    let made = asked.store.step(asked.now, &create("x"));
    let mut refused = asked.store.step(asked.now, &create("x"));
    let mut cx = Context::from_waker(Waker::noop());
    assert!(Pin::new(&mut refused).poll(&mut cx).is_pending(), "a kill now leaves no queue");
    let found = opened(&disk.reopen_process_crash(), options());
    assert!(matches!(found.ask(Command::Queues), Outcome::Queues(queues) if queues.is_empty()));
    asked.store.commit();
    assert!(matches!(block_on(refused), Err(StoreError::Rule(RuleError::QueueExists(_)))));
    assert!(matches!(block_on(made), Ok(Outcome::Queue(_))));
}
