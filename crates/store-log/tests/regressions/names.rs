//! Names of groups and queues through checkpoints, and when a name is revealed.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};

use kew_core::command::{CreateQueue, UpdateQueue};
use kew_core::{Command, NewMessage, Outcome, Policy, QueueId, RuleError};
use kew_store::contract::model::subject::block_on;
use kew_store::{Store, StoreError};
use kew_store_log::{LogStore, SimDisk, WatchedDisk, Watcher};

use crate::opened;
use crate::small_store::{Asked, START, entropy, key, options, text_of};

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

/// Lets something else happen once, when a checkpoint has begun.
#[derive(Default)]
struct Interrupts {
    then: Mutex<Option<Interruption>>,
}

impl Watcher for Interrupts {
    type File = ();

    fn opened(&self, _name: &str) {}

    fn lists(&self, folder: &str) {
        let then = self.then.lock().unwrap().take_if(|_| folder == "checkpoints");
        if let Some(then) = then {
            then();
        }
    }
}

fn rename(asked: &Asked, queue: QueueId, name: &str) {
    let update =
        UpdateQueue { queue, if_version: None, policy: None, documents: Vec::new(), rename: Some(key(name)) };
    asked.ask(Command::UpdateQueue(update));
}

#[test]
fn queues_renamed_during_a_checkpoint_keep_their_names() {
    let (disk, interrupts) = (SimDisk::new(), Arc::new(Interrupts::default()));
    let interrupted = WatchedDisk::new(disk.clone(), Arc::clone(&interrupts));
    let store = LogStore::open(Arc::new(interrupted), options(), entropy(1), START).unwrap().0;
    let asked = Arc::new(Asked::of(store));
    let first = asked.queue("x", Policy::standard());
    asked.store.checkpoint().unwrap();
    let second = asked.queue("b", Policy::standard());
    let renaming = asked.clone();
    // The first one's slice is kept as it was, the second one's is written after this.
    *interrupts.then.lock().unwrap() = Some(Box::new(move || {
        rename(&renaming, first, "y");
        rename(&renaming, second, "x");
    }));
    asked.store.checkpoint().unwrap();
    assert!(interrupts.then.lock().unwrap().is_none(), "nothing was renamed");
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
fn existing_queue_is_revealed_only_once_it_is_durable() {
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
