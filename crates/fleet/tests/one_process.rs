//! Two shards of one process, each on an event loop and a thread of its own.

use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use kew_core::command::{CreateQueue, DeleteQueue, FirstReceipts, Lease, Send, UpdateQueue};
use kew_core::{
    AccountId, Command, NewMessage, Policy, Queue, QueueKey, RuleError, ShardCount, ShardPlace, Timestamp,
};
use kew_engine::{Engine, EngineError, Options, TimeSource};
use kew_fleet::{Fleet, loops_of_process};
use kew_store::ledger::Bounds;
use kew_store::{MemoryStore, Store};
use kew_testing::CountingEntropy;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

const PATIENCE: Duration = Duration::from_secs(20);

fn key(name: &str) -> QueueKey {
    QueueKey::new(AccountId(0), "r", name)
}

fn create(name: &str) -> CreateQueue {
    CreateQueue { key: key(name), policy: Policy::standard(), documents: Vec::new() }
}

fn stores(count: u16) -> Vec<Arc<dyn Store>> {
    let of = ShardCount::new(count).expect("a process keeps at least one shard");
    let store = |shard| {
        let entropy = Arc::new(CountingEntropy::default());
        Arc::new(MemoryStore::shard(entropy, Bounds::default(), ShardPlace { shard, of })) as Arc<dyn Store>
    };
    of.all().map(store).collect()
}

struct Still(Instant);

impl TimeSource for Still {
    fn system(&self) -> Timestamp {
        Timestamp(1_700_000_000_000 + u64::try_from(self.0.elapsed().as_millis()).unwrap_or(0))
    }

    fn steady(&self) -> Duration {
        self.0.elapsed()
    }
}

/// One of the loops.
struct Loop {
    engine: Arc<Engine>,
    fleet: Arc<Fleet>,
    handle: Handle,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Loop {
    /// Carries something out on the loop, and waits for it.
    fn run<T: std::marker::Send + 'static>(
        &self,
        work: impl Future<Output = T> + std::marker::Send + 'static,
    ) -> T {
        let (tell, told) = mpsc::channel();
        self.handle.spawn(async move { tell.send(work.await) });
        told.recv_timeout(PATIENCE).expect("the loop answers")
    }

    fn make(&self, name: &str) -> Arc<Queue> {
        let (engine, create) = (Arc::clone(&self.engine), create(name));
        self.run(async move { engine.create_queue(create).await }).expect("the queue is made")
    }

    fn rename(&self, queue: &Queue, name: &str) -> Result<Arc<Queue>, EngineError> {
        let (rename, documents) = (Some(key(name)), Vec::new());
        let update = UpdateQueue { queue: queue.id, if_version: None, policy: None, documents, rename };
        let engine = Arc::clone(&self.engine);
        self.run(async move { engine.update_queue(update).await })
    }

    fn delete(&self, queue: &Queue) {
        let delete = DeleteQueue { queue: queue.id, if_version: None };
        let engine = Arc::clone(&self.engine);
        self.run(async move { engine.delete_queue(delete).await }).expect("the queue is deleted");
    }

    fn send(&self, queue: &Queue, body: &'static str) {
        let message = NewMessage::text(self.engine.message_id(), body);
        let receipts = FirstReceipts::Untold;
        let send = Send { queue: queue.id, messages: vec![message], receipts };
        let engine = Arc::clone(&self.engine);
        self.run(async move { engine.send(send).await }).expect("the message is sent");
    }

    /// A receive of one message that waits, under way.
    fn receive(&self, queue: &Queue) -> tokio::task::JoinHandle<usize> {
        let (engine, lease) = (Arc::clone(&self.engine), Lease::of(queue.id, 1, self.engine.now()));
        self.handle.spawn(async move {
            let leased = engine.lease_waiting(lease, PATIENCE).await;
            leased.expect("the receive is answered").len()
        })
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking(), "a loop panicked");
        }
    }
}

/// The loops of these stores, all of which know each other's queues.
fn begin(stores: Vec<Arc<dyn Store>>) -> Vec<Loop> {
    let loops = loops_of_process(stores).expect("the shards go together");
    let begun = Instant::now();
    let loops: Vec<Loop> = loops
        .into_iter()
        .map(|store| {
            let fleet = store.store();
            let (tell, told) = mpsc::channel();
            let (end, ends) = oneshot::channel::<()>();
            let thread = std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                runtime.expect("a runtime of one thread is built").block_on(async move {
                    let options = Options { shards_come: true, ..Options::default() };
                    let entropy = Arc::new(CountingEntropy::default());
                    let engine = Engine::start(store.store(), Arc::new(Still(begun)), entropy, options).await;
                    let engine = engine.expect("the engine starts");
                    let _tasks = store.begin(&engine);
                    let timers = Arc::clone(&engine);
                    tokio::spawn(async move { timers.run_timers().await });
                    tell.send((engine, Handle::current())).expect("the test waits for it");
                    // Ends when its other end is dropped.
                    let _ended = ends.await;
                });
            });
            let (engine, handle) = told.recv().expect("the loop begins");
            Loop { engine, fleet, handle, end: Some(end), thread: Some(thread) }
        })
        .collect();
    until("all loops know all queues", || loops.iter().all(|one| one.fleet.knows_all()));
    loops
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "it never came to this: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn any_loop_makes_finds_and_uses_queues_of_all_and_reads_their_figures() {
    let loops = begin(stores(2));
    let (a, b) = (loops[0].make("a"), loops[0].make("b"));
    assert_ne!(loops[0].fleet.shard_of(a.id), loops[0].fleet.shard_of(b.id), "they are spread");
    for one in &loops {
        for queue in [&a, &b] {
            assert_eq!(one.engine.queue(&queue.key).map(|found| found.id), Some(queue.id));
            assert!(one.engine.sees(queue.id));
            one.send(queue, "m");
        }
    }
    let keepers = |queue: &Queue| loops.iter().filter(|one| one.engine.keeps(queue.id)).count();
    assert_eq!((keepers(&a), keepers(&b)), (1, 1));
    let sent = |one: &Loop| one.engine.tally().sent;
    assert_eq!((sent(&loops[0]), sent(&loops[1])), (4, 4));
}

#[test]
fn receive_waits_at_the_loop_of_its_queue_and_ends_there_with_its_asker() {
    let loops = begin(stores(2));
    let queue = loops[0].make("a");
    let (keeper, other) = if loops[0].engine.keeps(queue.id) { (0, 1) } else { (1, 0) };
    let waiting = || loops[keeper].engine.stats().waiting_receives.value();
    let given_up = loops[other].receive(&queue);
    until("it waits there", || waiting() == 1);
    given_up.abort();
    until("it waits no more", || waiting() == 0);
    let served = loops[other].receive(&queue);
    until("another one waits", || waiting() == 1);
    loops[keeper].send(&queue, "m");
    assert_eq!(loops[other].run(served).expect("the served request ran to its end"), 1);
}

#[test]
fn loop_that_stood_still_hears_of_a_queue_that_was_made_meanwhile() {
    let loops = begin(stores(2));
    // Longer than anyone waits until it has heard.
    let (goes_on, stands_still) = mpsc::channel::<()>();
    loops[1].handle.spawn(async move { stands_still.recv_timeout(Duration::from_secs(30)) });
    let begun = Instant::now();
    let queue = loops[0].make("a");
    assert!(begun.elapsed() < Duration::from_secs(20), "it waited for the loop that stood still");
    assert_eq!(loops[1].engine.queue(&queue.key), None);
    drop(goes_on);
    until("it has heard", || loops[1].engine.queue(&queue.key).is_some());
}

#[test]
fn name_of_a_queue_in_another_shard_is_refused_for_a_rename_and_the_shards_go_together_again() {
    let stores = stores(2);
    let loops = begin(stores.clone());
    let (a, b) = (loops[0].make("a"), loops[0].make("b"));
    for one in &loops {
        for (queue, taken) in [(&a, &b), (&b, &a)] {
            let refused = one.rename(queue, &taken.key.name);
            assert_eq!(refused, Err(EngineError::Rule(RuleError::QueueExists(Arc::clone(taken)))));
        }
    }
    drop(loops);
    let again = begin(stores);
    for queue in [&a, &b] {
        assert_eq!(again[0].engine.queue(&queue.key).map(|found| found.id), Some(queue.id));
    }
}

#[test]
fn name_of_a_queue_that_is_gone_from_another_shard_is_free_for_a_rename() {
    let stores = stores(2);
    let loops = begin(stores.clone());
    let (a, b) = (loops[0].make("a"), loops[0].make("b"));
    loops[0].delete(&b);
    for one in &loops {
        let renamed = one.rename(&a, "b").expect("no queue has the name");
        assert_eq!(renamed.id, a.id);
        let back = one.rename(&a, "a").expect("no queue has the name");
        assert_eq!(back.id, a.id);
    }
    loops[1].rename(&a, "b").expect("no queue has the name");
    let new = loops[1].make("a");
    assert_eq!(loops[0].rename(&new, "b").map(drop).ok(), None, "the renamed queue has it");
    drop(loops);
    let again = begin(stores);
    for (name, queue) in [("a", &new), ("b", &a)] {
        assert_eq!(again[1].engine.queue(&key(name)).map(|found| found.id), Some(queue.id));
    }
}

#[test]
fn shards_that_have_a_name_twice_or_a_queue_of_another_shard_do_not_go_together() {
    let make = |store: &Arc<dyn Store>| {
        let made = store.step(Timestamp(1), &Command::CreateQueue(create("a")));
        assert!(made.peek().is_some(), "the queue is made");
    };
    let twice = stores(2);
    twice.iter().for_each(make);
    let refusal = loops_of_process(twice).map(drop);
    assert_eq!(refusal, Err("the queue a is in shard 0 and in shard 1".to_owned()));
    let mut turned = stores(2);
    make(&turned[0]);
    turned.reverse();
    let refusal = loops_of_process(turned).map(drop).expect_err("the first is the second one's");
    assert!(refusal.contains("which no queue of shard 1 has"), "{refusal}");
}
