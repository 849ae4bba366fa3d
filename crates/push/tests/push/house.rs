//! An engine with a dispatcher beside it. Time stands and is moved by hand; chance counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kew_core::command::{CreateQueue, FirstReceipts, Send, UpdateQueue};
use kew_core::{AccountId, Clock, Counts, Entropy, NewMessage, Policy, Queue, QueueId, QueueKey, Timestamp};
use kew_engine::{ClockKind, Engine, Options, TimeSource};
use kew_http::Drain;
use kew_http::client::Reach;
use kew_push::verdict::Ending;
use kew_push::workers::Workers;
use kew_push::{
    Attempts, Circuits, Consumer, ConsumerId, Delivery, Dispatcher, Notice, Push, Settings, Target,
    WebhookUrl, consumer, document,
};
use kew_store::MemoryStore;
use parking_lot::Mutex;
use tokio::task::JoinHandle;

use crate::hook::Hook;

/// 2026-01-01, and it stays that.
const START: Timestamp = Timestamp(1_767_225_600_000);
/// How long a test waits in real time for what must happen.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Default)]
pub struct Counting(AtomicU64);

impl Entropy for Counting {
    fn bits(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

struct Standing;

impl TimeSource for Standing {
    fn system(&self) -> Timestamp {
        START
    }

    fn steady(&self) -> Duration {
        Duration::ZERO
    }
}

impl Clock for Standing {
    fn now(&self) -> Timestamp {
        START
    }
}

/// An engine with a dispatcher.
pub struct House {
    pub engine: Arc<Engine>,
    pub told: Arc<Mutex<Vec<Notice>>>,
    pub attempts: Arc<Attempts>,
    pub circuits: Arc<Circuits>,
    stop: Drain,
    running: JoinHandle<()>,
}

/// Tries that reached nobody.
pub fn unreached(house: &House) -> u64 {
    house.attempts.count(Ending::Unreached)
}

/// Waits until something is so.
pub async fn until(what: &str, is_so: impl Fn() -> bool) {
    let waits = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, waits).await.is_ok(), "waited in vain for {what}");
}

pub async fn engine() -> Arc<Engine> {
    let entropy: Arc<dyn Entropy> = Arc::new(Counting::default());
    let store = Arc::new(MemoryStore::new(Arc::clone(&entropy)));
    let options = Options { clock: ClockKind::Virtual, ..Options::default() };
    let engine = Engine::start(store, Arc::new(Standing), entropy, options);
    let engine = engine.await.expect("an empty store opens");
    let timers = Arc::clone(&engine);
    tokio::spawn(async move { timers.run_timers().await });
    engine
}

impl House {
    pub async fn open() -> Self {
        Self::over(engine().await, 256)
    }

    /// A house over an engine, with so many places for batches.
    pub fn over(engine: Arc<Engine>, batches_max: u32) -> Self {
        Self::with(engine, batches_max, None)
    }

    /// The same, with Workers.
    pub fn with(engine: Arc<Engine>, batches_max: u32, workers: Option<Arc<Workers>>) -> Self {
        let told = Arc::new(Mutex::new(Vec::new()));
        let notices = {
            let told = Arc::clone(&told);
            Arc::new(move |notice| told.lock().push(notice))
        };
        let settings = Settings {
            reach: Reach::Private,
            batches_max,
            in_flight_max: 120_000,
            clock: Arc::new(Standing),
            entropy: Arc::new(Counting::default()),
            notices,
        };
        let stop = Drain::default();
        let dispatcher = Dispatcher::new(Arc::clone(&engine), settings, workers, stop.clone());
        let (attempts, circuits) = (Arc::clone(dispatcher.attempts()), Arc::clone(dispatcher.circuits()));
        let running = tokio::spawn(dispatcher.run());
        Self { engine, told, attempts, circuits, stop, running }
    }

    /// Calls the end, and waits for it.
    pub async fn close(self) {
        self.stop.close();
        self.running.await.expect("the dispatcher ends by itself");
    }

    /// Calls the end.
    pub fn begin_to_close(&self) {
        self.stop.close();
    }

    /// Whether it has ended.
    pub fn is_closed(&self) -> bool {
        self.running.is_finished()
    }

    /// A queue of this name, consumed like this.
    pub async fn queue(&self, name: &str, consumer: Option<&Consumer>) -> QueueId {
        queue(&self.engine, name, Policy::standard(), consumer).await.id
    }

    /// Changes the consumer of a queue.
    pub async fn consume(&self, queue: QueueId, consumer: Option<&Consumer>) {
        let known = self.engine.queue_by_id(queue).expect("it is there");
        let rule = match consumer {
            Some(consumer) => {
                Some(consumer.dead_letter_rule(&known.key, known.policy.dead_letters.as_deref()))
            }
            None => consumer::rule_without_consumer(known.policy.dead_letters.as_deref()),
        };
        let policy = Policy { dead_letters: rule.map(Box::new), ..known.policy.clone() };
        let consumers: Vec<Consumer> = consumer.into_iter().cloned().collect();
        self.update(queue, policy, vec![document::change(&consumers)]).await;
    }

    pub async fn pause(&self, queue: QueueId, paused: bool) {
        let known = self.engine.queue_by_id(queue).expect("it is there");
        let policy = Policy { paused, ..known.policy.clone() };
        self.update(queue, policy, Vec::new()).await;
    }

    async fn update(
        &self,
        queue: QueueId,
        policy: Policy,
        documents: Vec<(kew_core::DocumentKey, Option<bytes::Bytes>)>,
    ) {
        let update = UpdateQueue { queue, if_version: None, policy: Some(policy), documents, rename: None };
        self.engine.update_queue(update).await.expect("it is there");
    }

    /// Sends texts, all in one step.
    pub async fn send(&self, queue: QueueId, texts: impl IntoIterator<Item = String>) {
        self.send_delayed(queue, texts, None).await;
    }

    /// Sends texts that are hidden for so long first.
    pub async fn send_delayed(
        &self,
        queue: QueueId,
        texts: impl IntoIterator<Item = String>,
        delay: Option<Duration>,
    ) {
        let messages = texts
            .into_iter()
            .map(|text| NewMessage { delay, ..NewMessage::text(self.engine.message_id(), text) })
            .collect();
        let send = Send { queue, messages, receipts: FirstReceipts::Untold };
        self.engine.send(send).await.expect("they are sent");
    }

    /// Moves time ahead, through everything that happens on the way.
    pub async fn advance(&self, by: Duration) {
        self.engine.advance(by).await.expect("the clock is virtual");
    }

    /// Seconds since the test began.
    pub fn seconds(&self) -> u64 {
        self.engine.now().since(START).as_secs()
    }

    /// Lets everybody who has something to do now do it.
    pub async fn calm(&self) {
        for _ in 0..20 {
            self.advance(Duration::ZERO).await;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    pub async fn counts(&self, queue: QueueId) -> Counts {
        self.engine.counts(queue).await.expect("it is there")
    }

    /// Waits until a queue holds so many messages: ready, leased, delayed.
    pub async fn until_holds(&self, queue: QueueId, expected: (u64, u64, u64)) {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            let counts = self.counts(queue).await;
            let found = (counts.visible, counts.in_flight, counts.delayed);
            if found == expected {
                return;
            }
            assert!(tokio::time::Instant::now() < deadline, "it holds {found:?} and not {expected:?}");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

pub async fn queue(engine: &Engine, name: &str, policy: Policy, consumer: Option<&Consumer>) -> Arc<Queue> {
    let key = QueueKey::new(AccountId(0), "here", name);
    let dead_letters = consumer.map(|consumer| consumer.dead_letter_rule(&key, None).into());
    let documents = consumer.map(|consumer| document::change(std::slice::from_ref(consumer)));
    let documents = documents.and_then(|(key, json)| Some((key, json?))).into_iter().collect();
    let create = CreateQueue { key, policy: Policy { dead_letters, ..policy }, documents };
    engine.create_queue(create).await.expect("the name is free")
}

/// A consumer that gets what there is at once.
pub fn to(hook: &Hook) -> Consumer {
    to_url(&hook.url)
}

pub fn to_url(url: &str) -> Consumer {
    to_target(Target::Webhook {
        url: WebhookUrl::parse(url).expect("it is an address"),
        secret: None,
        timeout: Duration::from_secs(30),
    })
}

pub fn to_target(target: Target) -> Consumer {
    let push = Push { max_wait: Duration::ZERO, ..Push::to(target) };
    Consumer::of(ConsumerId([7; 16]), START, Delivery::Push(push))
}

/// The same with other settings of pushing.
pub fn pushing(consumer: &Consumer, change: impl FnOnce(&mut Push)) -> Consumer {
    let mut push = consumer.push().expect("it is pushed to").clone();
    change(&mut push);
    Consumer { delivery: Delivery::Push(push), ..consumer.clone() }
}

/// Numbered texts.
pub fn texts(count: usize) -> impl Iterator<Item = String> {
    (1..=count).map(|number| format!("m{number}"))
}

pub fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}
