//! Move tasks: pace, cancelling, going on after a restart, and waking those who wait for what they move.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kew_core::command::{CreateQueue, FirstReceipts, ListMoves, Send, StartMove};
use kew_core::{Command, MoveTask, NewMessage, Policy, QueueId, RuleError, ShardId, TaskState, Timestamp};
use kew_engine::{Engine, EngineError, Options};
use kew_store::{MemoryStore, Store as _, Submission};
use kew_testing::{Wrap, Wrapped};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::bench::{Bench, Dice, Hands, bodies, key, rest, seconds};

async fn filled(bench: &Bench, messages: u32) -> (QueueId, QueueId) {
    let (source, target) = (bench.queue("source").await, bench.queue("target").await);
    for number in 0..messages {
        bench.send(source, &number.to_string()).await;
    }
    (source, target)
}

fn drive(bench: &Bench) -> JoinHandle<()> {
    let engine = Arc::clone(&bench.engine);
    tokio::spawn(async move { engine.run_moves().await })
}

fn start(source: QueueId, rate_max: Option<u32>) -> StartMove {
    StartMove { source, destination: Some(key("target")), rate_max, running_max: 100 }
}

async fn moved(bench: &Bench) -> u64 {
    let tasks = bench.engine.list_moves(ListMoves { source: None }).await.expect("tasks are listed");
    tasks.first().expect("a move task was started").moved
}

async fn state(bench: &Bench) -> TaskState {
    let tasks = bench.engine.list_moves(ListMoves { source: None }).await.expect("tasks are listed");
    tasks.first().expect("a move task was started").state
}

#[tokio::test]
async fn unthrottled_task_moves_everything_in_batches() {
    let bench = Bench::new().await;
    let (source, target) = filled(&bench, 250).await;
    let driver = drive(&bench);
    bench.engine.start_move(start(source, None)).await.expect("the move task starts");
    rest().await;
    assert_eq!(state(&bench).await, TaskState::Completed);
    assert_eq!(bench.engine.counts(target).await.map(|counts| counts.visible), Ok(250));
    let steps = bench.count_of(|command| matches!(command, Command::ContinueMove(_)));
    assert_eq!(steps, 3);
    bench.engine.shutdown();
    driver.await.expect("the driver ends with the engine");
}

#[tokio::test]
async fn throttled_task_keeps_to_its_rate() {
    let bench = Bench::new().await;
    let (source, _) = filled(&bench, 100).await;
    let _driver = drive(&bench);
    rest().await;
    bench.engine.start_move(start(source, Some(20))).await.expect("the move task starts");
    for second in 1..=4 {
        bench.advance(Duration::from_millis(999)).await;
        assert_eq!(moved(&bench).await, second * 20, "in second {second}");
        bench.advance(Duration::from_millis(1)).await;
    }
    bench.advance(seconds(1)).await;
    assert_eq!(moved(&bench).await, 100);
    assert_eq!(state(&bench).await, TaskState::Completed);
    bench.engine.shutdown();
}

#[tokio::test]
async fn cancelled_task_moves_no_more_and_keeps_what_it_moved() {
    let bench = Bench::new().await;
    let (source, target) = filled(&bench, 100).await;
    let _driver = drive(&bench);
    rest().await;
    let task = bench.engine.start_move(start(source, Some(10))).await.expect("the move task starts");
    let again = bench.engine.start_move(start(source, None)).await;
    assert_eq!(again, Err(EngineError::Rule(RuleError::TaskRunning)));
    bench.advance(Duration::from_millis(2_950)).await;
    let cancelled = bench.engine.cancel_move(task.id).await.expect("the move task runs");
    assert_eq!((cancelled.state, cancelled.moved), (TaskState::Cancelled, 30));
    bench.advance(seconds(60)).await;
    assert_eq!(bench.engine.counts(target).await.map(|counts| counts.visible), Ok(30));
    assert_eq!(bench.engine.cancel_move(task.id).await, Err(EngineError::Rule(RuleError::TaskNotFound)));
    bench.engine.shutdown();
}

#[tokio::test]
async fn task_goes_on_after_a_restart() {
    let bench = Bench::new().await;
    let (source, target) = filled(&bench, 50).await;
    let driver = drive(&bench);
    rest().await;
    bench.engine.start_move(start(source, Some(10))).await.expect("the move task starts");
    bench.advance(Duration::from_millis(1_950)).await;
    assert_eq!(moved(&bench).await, 20);
    bench.engine.shutdown();
    driver.await.expect("the driver ends with the engine");
    let reopened = Bench::over(Arc::clone(&bench.store), Options::default()).await;
    let _driver = drive(&reopened);
    rest().await;
    reopened.advance(seconds(60)).await;
    assert_eq!(state(&reopened).await, TaskState::Completed);
    assert_eq!(reopened.engine.counts(target).await.map(|counts| counts.visible), Ok(50));
    reopened.engine.shutdown();
}

#[tokio::test]
async fn moved_messages_wake_those_who_wait_at_the_destination() {
    let bench = Bench::new().await;
    let (source, target) = filled(&bench, 2).await;
    let _driver = drive(&bench);
    let waiting = [bench.wait(target, seconds(20)).await, bench.wait(target, seconds(20)).await];
    bench.engine.start_move(start(source, None)).await.expect("the move task starts");
    let [first, second] = waiting;
    assert_eq!(bodies(first).await, ["0"]);
    assert_eq!(bodies(second).await, ["1"]);
    bench.engine.shutdown();
}

#[tokio::test]
async fn task_whose_source_is_deleted_ends_as_failed() {
    let bench = Bench::new().await;
    let (source, _) = filled(&bench, 50).await;
    let _driver = drive(&bench);
    rest().await;
    bench.engine.start_move(start(source, Some(10))).await.expect("the move task starts");
    bench.advance(seconds(1)).await;
    let delete = kew_core::command::DeleteQueue { queue: source, if_version: None };
    bench.engine.delete_queue(delete).await.expect("the queue exists");
    bench.advance(seconds(1)).await;
    assert_eq!(state(&bench).await, TaskState::Failed(kew_core::TaskFailure::SourceMissing));
    bench.engine.shutdown();
}

#[tokio::test]
async fn two_tasks_run_side_by_side() {
    let bench = Bench::new().await;
    let (source, target) = filled(&bench, 30).await;
    let other = bench.queue("other").await;
    for number in 0..30 {
        bench.send(other, &number.to_string()).await;
    }
    let _driver = drive(&bench);
    rest().await;
    bench.engine.start_move(start(source, Some(10))).await.expect("the move task starts");
    bench.engine.start_move(start(other, Some(10))).await.expect("the move task starts");
    bench.advance(Duration::from_millis(999)).await;
    assert_eq!(bench.engine.counts(target).await.map(|counts| counts.visible), Ok(20));
    bench.advance(seconds(2)).await;
    assert_eq!(bench.engine.counts(target).await.map(|counts| counts.visible), Ok(60));
    bench.engine.shutdown();
}

/// Each queue has a shard of its own; notes of which tasks steps were taken.
#[derive(Default)]
struct ShardEach(Mutex<Vec<u64>>);

impl Wrap<MemoryStore> for ShardEach {
    fn step(&self, store: &MemoryStore, now: Timestamp, command: &Command) -> Submission {
        if let Command::ContinueMove(next) = command {
            self.0.lock().expect("no other test panics here").push(next.task.0);
        }
        store.step(now, command)
    }

    fn shard_of(&self, _store: &MemoryStore, queue: QueueId) -> ShardId {
        ShardId(u16::try_from(queue.0).expect("the first queues have small numbers"))
    }
}

#[tokio::test]
async fn tasks_of_three_shards_whose_steps_end_at_once_take_them_in_turn() {
    let memory = MemoryStore::new(Arc::new(Dice(AtomicU64::new(1))));
    let store = Arc::new(Wrapped { store: memory, wrap: ShardEach::default() });
    let (hands, dice) = (Arc::new(Hands(AtomicU64::new(1_000))), Arc::new(Dice(AtomicU64::new(1 << 40))));
    let started = Engine::start(Arc::clone(&store) as _, hands, dice, Options::default()).await;
    let engine = started.expect("the engine starts");
    let mut tasks = Vec::new();
    let target = CreateQueue { key: key("target"), policy: Policy::standard(), documents: Vec::new() };
    engine.create_queue(target).await.expect("the queue is new");
    for name in ["a", "b", "c"] {
        let create = CreateQueue { key: key(name), policy: Policy::standard(), documents: Vec::new() };
        let queue = engine.create_queue(create).await.expect("the queue is new").id;
        for _ in 0..350 {
            let messages = vec![NewMessage::text(engine.message_id(), "hello")];
            let send = Send { queue, messages, receipts: FirstReceipts::Untold };
            engine.send(send).await.expect("the send is valid");
        }
        tasks.push(engine.start_move(start(queue, None)).await.expect("the move task starts").id.0);
    }
    let driver = tokio::spawn({
        let engine = Arc::clone(&engine);
        async move { engine.run_moves().await }
    });
    rest().await;
    let steps = store.wrap.0.lock().expect("no other test panics here").clone();
    assert_eq!(steps, tasks.repeat(4), "each in turn");
    engine.shutdown();
    driver.await.expect("the driver ends with the engine");
}

/// One queue has a shard of its own, and the steps of one task are answered when they are let through.
#[derive(Default)]
struct SlowShard {
    queue: AtomicU64,
    task: AtomicU64,
    let_through: Arc<Notify>,
}

impl Wrap<MemoryStore> for SlowShard {
    fn step(&self, store: &MemoryStore, now: Timestamp, command: &Command) -> Submission {
        let taken = store.step(now, command);
        match command {
            Command::ContinueMove(next) if next.task.0 == self.task.load(Ordering::Relaxed) => {
                let let_through = Arc::clone(&self.let_through);
                Submission::remote(async move {
                    let_through.notified().await;
                    taken.await
                })
            }
            _ => taken,
        }
    }

    fn shard_of(&self, _store: &MemoryStore, queue: QueueId) -> ShardId {
        ShardId(u16::from(queue.0 == self.queue.load(Ordering::Relaxed)))
    }
}

#[tokio::test]
async fn task_whose_shard_answers_slowly_holds_up_no_task_of_another_shard() {
    let memory = MemoryStore::new(Arc::new(Dice(AtomicU64::new(1))));
    let store = Arc::new(Wrapped { store: memory, wrap: SlowShard::default() });
    let (hands, dice) = (Arc::new(Hands(AtomicU64::new(1_000))), Arc::new(Dice(AtomicU64::new(1 << 40))));
    let started = Engine::start(Arc::clone(&store) as _, hands, dice, Options::default()).await;
    let engine = started.expect("the engine starts");
    let mut queues = Vec::new();
    for name in ["slow", "quick", "target"] {
        let create = CreateQueue { key: key(name), policy: Policy::standard(), documents: Vec::new() };
        queues.push(engine.create_queue(create).await.expect("the queue is new").id);
    }
    let [slow, quick, _target] = queues[..] else { unreachable!("three queues were made") };
    for queue in [slow, quick] {
        for _ in 0..250 {
            let messages = vec![NewMessage::text(engine.message_id(), "hello")];
            let send = Send { queue, messages, receipts: FirstReceipts::Untold };
            engine.send(send).await.expect("the send is valid");
        }
    }
    let held = engine.start_move(start(slow, None)).await.expect("the move task starts");
    store.wrap.queue.store(slow.0, Ordering::Relaxed);
    store.wrap.task.store(held.id.0, Ordering::Relaxed);
    engine.start_move(start(quick, None)).await.expect("the move task starts");
    let task_of = async |source: QueueId| -> MoveTask {
        let tasks = engine.list_moves(ListMoves { source: Some(source) }).await.expect("tasks are listed");
        MoveTask::clone(tasks.first().expect("a move task was started"))
    };
    let driver = tokio::spawn({
        let engine = Arc::clone(&engine);
        async move { engine.run_moves().await }
    });
    rest().await;
    assert_eq!(task_of(quick).await.state, TaskState::Completed);
    assert_eq!(task_of(slow).await.moved, 100, "its one step is on its way");
    for _ in 0..3 {
        store.wrap.let_through.notify_one();
        rest().await;
    }
    assert_eq!(task_of(slow).await.state, TaskState::Completed);
    engine.shutdown();
    driver.await.expect("the driver ends with the engine");
}
