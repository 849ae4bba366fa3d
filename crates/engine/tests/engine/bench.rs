//! The store under test, with a gate that tests open by hand, and short words for what tests do.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use kew_core::command::{Ack, CreateQueue, FirstReceipts, Lease, Release, Send};
use kew_core::model::Model;
use kew_core::outcome::{Leased, Sent};
use kew_core::{
    AccountId, Command, Entropy, NewMessage, Policy, Queue, QueueId, QueueKey, ReceiptRule, RuleError,
    Timestamp,
};
use kew_engine::{ClockKind, Engine, EngineError, Notice, Options, QueueName, TimeSource};
use kew_store::{BatchNumber, Gate, MemoryStore, Store, StoreError, Submission};
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::OVER;

/// When the clocks of tests begin.
pub const START: Timestamp = Timestamp(1_000_000);

/// How a test store answers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Answers {
    /// With the step.
    AtOnce,
    /// When the test commits.
    AtCommit,
    /// From elsewhere, when the test lets it; nothing is known before.
    Late,
}

/// What the tests of one program run over.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Over {
    /// The model, which is slow and right.
    #[allow(dead_code, reason = "each test program uses one")]
    Model,
    /// The in-memory store.
    #[allow(dead_code, reason = "each test program uses one")]
    Memory,
}

enum Inner {
    Model(Mutex<Model>),
    Memory(Box<MemoryStore>),
}

impl Inner {
    fn new(over: Over) -> Self {
        match over {
            Over::Model => Self::Model(Mutex::new(Model::new(Box::new(Dice(AtomicU64::new(1)))))),
            Over::Memory => Self::Memory(Box::new(MemoryStore::new(Arc::new(Dice(AtomicU64::new(1)))))),
        }
    }
}

/// The store under test, with answers that tests let through by hand.
pub struct HandStore {
    inner: Inner,
    answers: Answers,
    gate: Arc<HandGate>,
    late: Mutex<Vec<Late>>,
    newest: AtomicU64,
    pub fails: AtomicBool,
    /// It may not answer, though it lives.
    pub is_away: AtomicBool,
    /// It names no instant at which something is due: as when that comes between two looks at it.
    pub hides_due: AtomicBool,
    pub steps: Mutex<Vec<Command>>,
}

struct Late {
    now: Timestamp,
    command: Command,
    answer: oneshot::Sender<Result<kew_core::Outcome, StoreError>>,
}

impl HandStore {
    pub fn new(answers: Answers) -> Arc<Self> {
        Arc::new(Self {
            inner: Inner::new(OVER),
            answers,
            gate: Arc::default(),
            late: Mutex::default(),
            newest: AtomicU64::new(0),
            fails: AtomicBool::new(false),
            is_away: AtomicBool::new(false),
            hides_due: AtomicBool::new(false),
            steps: Mutex::default(),
        })
    }

    /// Steps so far, without those that only look.
    pub fn step_count(&self) -> usize {
        self.steps.lock().len()
    }

    /// Does what was asked of a late store, in order, and answers; says which queues got messages.
    pub fn answer_late(&self) -> Vec<QueueId> {
        let asked = std::mem::take(&mut *self.late.lock());
        let mut freed = Vec::new();
        for Late { now, command, answer } in asked {
            let (outcome, queues) = self.apply(now, command);
            freed.extend(queues);
            drop(answer.send(outcome));
        }
        freed
    }

    fn apply(
        &self,
        now: Timestamp,
        command: Command,
    ) -> (Result<kew_core::Outcome, StoreError>, Vec<QueueId>) {
        let model = match &self.inner {
            Inner::Model(model) => model,
            Inner::Memory(store) => {
                let mut submission = store.step(now, &command);
                let freed = submission.freed.to_vec();
                let polled = Pin::new(&mut submission).poll(&mut Context::from_waker(Waker::noop()));
                let Poll::Ready(outcome) = polled else { panic!("memory answers at once") };
                return (outcome, freed);
            }
        };
        let mut model = model.lock();
        let before: BTreeSet<_> = model.offered().into_iter().collect();
        let outcome = model.step(now, command).map_err(StoreError::Rule);
        let fresh = model.offered().into_iter().filter(|offer| !before.contains(offer));
        let freed: BTreeSet<QueueId> = fresh.map(|(queue, _)| queue).collect();
        (outcome, freed.into_iter().collect())
    }
}

impl Store for HandStore {
    fn step(&self, now: Timestamp, command: &Command) -> Submission {
        let newest = self.newest.fetch_max(now.0, Ordering::Relaxed);
        assert!(now.0 >= newest, "a step at {now:?} after one at {newest}");
        self.steps.lock().push(command.clone());
        if self.fails.load(Ordering::Relaxed) {
            return Submission::settled(Err(StoreError::FailStopped { cause: "told to".to_owned() }));
        }
        if self.answers == Answers::Late {
            let (answer, outcome) = oneshot::channel();
            self.late.lock().push(Late { now, command: command.clone(), answer });
            return Submission::remote(async { outcome.await.expect("a late store answers everything") });
        }
        let (outcome, freed) = self.apply(now, command.clone());
        let submission = match outcome {
            Ok(outcome) if self.answers == Answers::AtCommit => {
                let batch = self.gate.fill();
                Submission::applied(outcome, BatchNumber(batch), Arc::clone(&self.gate) as _)
            }
            outcome => Submission::settled(outcome),
        };
        submission.freeing(freed.into_iter().collect())
    }

    fn next_due(&self) -> Option<Timestamp> {
        if self.hides_due.load(Ordering::Relaxed) {
            return None;
        }
        match &self.inner {
            Inner::Model(model) => model.lock().next_due(),
            Inner::Memory(store) => store.next_due(),
        }
    }

    fn newest_instant(&self) -> Timestamp {
        Timestamp(self.newest.load(Ordering::Relaxed))
    }

    fn commit(&self) -> bool {
        self.answers == Answers::AtCommit && self.gate.open()
    }

    fn health(&self) -> Result<(), StoreError> {
        let is_away = self.is_away.load(Ordering::Relaxed);
        if is_away { Err(StoreError::Unavailable { cause: "told to".to_owned() }) } else { Ok(()) }
    }
}

/// Opens for everything filled so far.
#[derive(Default)]
struct HandGate {
    state: Mutex<HandGateState>,
}

#[derive(Default)]
struct HandGateState {
    filling: u64,
    filled: bool,
    open: u64,
    waiting: Vec<Waker>,
}

impl HandGate {
    fn fill(&self) -> u64 {
        let mut state = self.state.lock();
        state.filled = true;
        state.filling + 1
    }

    fn open(&self) -> bool {
        let mut state = self.state.lock();
        if !std::mem::take(&mut state.filled) {
            return false;
        }
        state.filling += 1;
        state.open = state.filling;
        state.waiting.drain(..).for_each(Waker::wake);
        true
    }
}

impl Gate for HandGate {
    fn poll_open(&self, turn: u64, cx: &mut Context<'_>) -> Poll<Result<(), StoreError>> {
        let mut state = self.state.lock();
        if state.open >= turn {
            return Poll::Ready(Ok(()));
        }
        state.waiting.push(cx.waker().clone());
        Poll::Pending
    }
}

/// Chance for tests: a counter, stirred.
pub struct Dice(pub AtomicU64);

impl Entropy for Dice {
    fn bits(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

/// A system clock that tests set.
pub struct Hands(pub AtomicU64);

impl Hands {
    pub fn pass(&self, by: Duration) {
        self.0.fetch_add(u64::try_from(by.as_millis()).expect("tests are short"), Ordering::Relaxed);
    }
}

impl TimeSource for Hands {
    fn system(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::Relaxed))
    }

    fn steady(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::Relaxed))
    }
}

/// An engine on the model, and everything around it.
pub struct Bench {
    pub engine: Arc<Engine>,
    pub store: Arc<HandStore>,
    pub hands: Arc<Hands>,
    pub notices: Arc<Mutex<Vec<Notice>>>,
}

impl Bench {
    /// On a virtual clock whose system clock stands still: time moves only by hand.
    pub async fn new() -> Self {
        Self::over(HandStore::new(Answers::AtOnce), Options::default()).await
    }

    pub async fn with(options: Options) -> Self {
        Self::over(HandStore::new(Answers::AtOnce), options).await
    }

    pub async fn committed_by_hand() -> Self {
        Self::over(HandStore::new(Answers::AtCommit), Options::default()).await
    }

    pub async fn over(store: Arc<HandStore>, options: Options) -> Self {
        let hands = Arc::new(Hands(AtomicU64::new(START.0)));
        let notices = Arc::new(Mutex::new(Vec::new()));
        let told = Arc::clone(&notices);
        let options = Options {
            clock: ClockKind::Virtual,
            notices: Arc::new(move |notice| told.lock().push(notice)),
            ..options
        };
        let dice = Arc::new(Dice(AtomicU64::new(1 << 40)));
        let engine = Engine::start(Arc::clone(&store) as _, Arc::clone(&hands) as _, dice, options).await;
        Self { engine: engine.expect("the engine starts"), store, hands, notices }
    }

    pub async fn queue(&self, name: &str) -> QueueId {
        self.queue_with(name, Policy::standard()).await.id
    }

    pub async fn queue_with(&self, name: &str, policy: Policy) -> Arc<Queue> {
        let create = CreateQueue { key: key(name), policy, documents: Vec::new() };
        self.committed(self.engine.create_queue(create)).await.expect("the queue is new")
    }

    pub async fn send(&self, queue: QueueId, body: &str) -> Sent {
        self.send_with(queue, body, |_| {}).await
    }

    pub async fn send_with(&self, queue: QueueId, body: &str, set: impl FnOnce(&mut NewMessage)) -> Sent {
        let mut message = NewMessage::text(self.engine.message_id(), body.to_owned());
        set(&mut message);
        let send = Send { queue, messages: vec![message], receipts: FirstReceipts::Told };
        let sent = self.committed(self.engine.send(send)).await.expect("the send is fine");
        sent.into_iter().next().expect("a send of one message has one answer")
    }

    pub async fn ack(&self, leased: &Leased) -> Result<(), RuleError> {
        let queue = leased.message.queue;
        let ack = Ack { queue, receipt: ReceiptRule::Any, tokens: vec![leased.token] };
        let acked = self.committed(self.engine.ack(ack)).await.expect("the queue is there");
        acked.into_iter().next().expect("an ack of one receipt has one answer")
    }

    pub async fn release(&self, leased: &Leased, delay: Duration) {
        let queue = leased.message.queue;
        let entries = vec![(leased.token, delay)];
        let release = Release { queue, receipt: ReceiptRule::Any, entries };
        let released = self.committed(self.engine.release(release)).await.expect("the queue is there");
        assert!(released.iter().all(Result::is_ok), "{released:?}");
    }

    /// What a lease of one message finds at once.
    pub async fn lease(&self, queue: QueueId) -> Option<Leased> {
        let lease = self.lease_of(queue);
        self.committed(self.engine.lease(lease)).await.expect("the queue is there").into_iter().next()
    }

    pub fn lease_of(&self, queue: QueueId) -> Lease {
        Lease::of(queue, 1, self.engine.now())
    }

    /// A receive of one message that waits; it stands in line when this returns.
    pub async fn wait(&self, queue: QueueId, wait: Duration) -> Waiting {
        self.wait_with(self.lease_of(queue), wait).await
    }

    pub async fn wait_with(&self, lease: Lease, wait: Duration) -> Waiting {
        let engine = Arc::clone(&self.engine);
        let task = tokio::spawn(async move { engine.lease_waiting(lease, wait).await });
        rest().await;
        task
    }

    pub async fn advance(&self, by: Duration) {
        self.engine.advance(by).await.expect("the clock is virtual");
    }

    pub fn count_of(&self, kind: impl Fn(&Command) -> bool) -> usize {
        self.store.steps.lock().iter().filter(|command| kind(command)).count()
    }

    /// Commits when the command has been applied, and gives its answer.
    async fn committed<T>(&self, command: impl Future<Output = T>) -> T {
        let mut command = std::pin::pin!(command);
        std::future::poll_fn(|cx| {
            let first = command.as_mut().poll(cx);
            if first.is_ready() {
                return first;
            }
            self.engine.commit();
            command.as_mut().poll(cx)
        })
        .await
    }
}

pub type Waiting = JoinHandle<Result<Vec<Leased>, EngineError>>;

/// The bodies a waiting receive was answered with. It has been answered, or this fails.
pub async fn bodies(waiting: Waiting) -> Vec<String> {
    rest().await;
    assert!(waiting.is_finished(), "it still waits");
    let leases = waiting.await.expect("the receive ran").expect("the receive was answered");
    leases.iter().map(body).collect()
}

pub fn body(leased: &Leased) -> String {
    String::from_utf8(leased.message.content.body.to_vec()).expect("tests send text")
}

pub fn key(name: &str) -> QueueKey {
    QueueKey::new(AccountId(0), "here", name)
}

pub fn name(name: &str) -> QueueName<'_> {
    QueueName { account: AccountId(0), region: "here", name }
}

pub const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// Lets every other task run until it waits.
pub async fn rest() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}
