//! An engine with a dispatcher beside it. Time stands until a test moves it.

use std::sync::Arc;
use std::time::Duration;

use kew_core::command::{CreateQueue, FirstReceipts, Send, UpdateQueue};
use kew_core::{AccountId, Counts, NewMessage, Policy, Queue, QueueId, QueueKey};
use kew_engine::{Engine, Options};
use kew_http::Drain;
use kew_http::client::Reach;
use kew_push::verdict::Ending;
use kew_push::workers::Workers;
use kew_push::{
    Attempts, Circuits, Consumer, ConsumerId, Delivery, Dispatcher, Notice, Push, Settings, Target,
    WebhookUrl, consumer, document,
};
pub use kew_testing::CountingEntropy;
use kew_testing::{FixedClock, NOW, TestStore, advance, start_engine};
use parking_lot::Mutex;
use tokio::task::JoinHandle;

use crate::hook::Hook;

/// How long a test waits in real time for what must happen.
const PATIENCE: Duration = Duration::from_secs(30);

/// An engine with a dispatcher.
pub struct TestDispatcher {
    pub engine: Arc<Engine>,
    pub notices: Arc<Mutex<Vec<Notice>>>,
    pub attempts: Arc<Attempts>,
    pub circuits: Arc<Circuits>,
    stop: Drain,
    running: JoinHandle<()>,
}

/// Attempts that did not reach their target.
pub fn unreached(dispatcher: &TestDispatcher) -> u64 {
    dispatcher.attempts.count(Ending::Unreached)
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

/// An engine over the store in memory.
pub async fn engine() -> Arc<Engine> {
    let entropy = Arc::new(CountingEntropy::default());
    start_engine(&TestStore::memory(), entropy, Options::default()).await
}

impl TestDispatcher {
    pub async fn open() -> Self {
        Self::over(engine().await, 256)
    }

    /// A dispatcher over an engine, with places for `batches_max` batches.
    pub fn over(engine: Arc<Engine>, batches_max: u32) -> Self {
        Self::with(engine, batches_max, None)
    }

    /// The same, with Workers.
    pub fn with(engine: Arc<Engine>, batches_max: u32, workers: Option<Arc<Workers>>) -> Self {
        let received = Arc::new(Mutex::new(Vec::new()));
        let notices = {
            let received = Arc::clone(&received);
            Arc::new(move |notice| received.lock().push(notice))
        };
        let settings = Settings {
            reach: Reach::Private,
            batches_max,
            in_flight_max: 120_000,
            clock: Arc::new(FixedClock),
            entropy: Arc::new(CountingEntropy::default()),
            traces: Default::default(),
            brought: Arc::new(|_| {}),
            notices,
        };
        let stop = Drain::default();
        let dispatcher = Dispatcher::new(Arc::clone(&engine), settings, workers, stop.clone());
        let (attempts, circuits) = (Arc::clone(dispatcher.attempts()), Arc::clone(dispatcher.circuits()));
        let running = tokio::spawn(dispatcher.run());
        Self { engine, notices: received, attempts, circuits, stop, running }
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

    /// A queue of this name, with this consumer.
    pub async fn queue(&self, name: &str, consumer: Option<&Consumer>) -> QueueId {
        queue(&self.engine, name, Policy::standard(), consumer).await.id
    }

    /// Changes the consumer of a queue.
    pub async fn consume(&self, queue: QueueId, consumer: Option<&Consumer>) {
        let known = self.engine.queue_by_id(queue).expect("the queue of the consumer exists");
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
        let known = self.engine.queue_by_id(queue).expect("the queue that is paused exists");
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
        self.engine.update_queue(update).await.expect("the queue that is changed exists");
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
        self.engine.send(send).await.expect("the engine accepts the messages");
    }

    /// Moves time ahead, through everything that happens on the way.
    pub async fn advance(&self, by: Duration) {
        advance(&self.engine, by).await;
    }

    /// Seconds since the test began.
    pub fn seconds(&self) -> u64 {
        self.engine.now().since(NOW).as_secs()
    }

    /// Lets everybody who has something to do now do it.
    pub async fn calm(&self) {
        for _ in 0..20 {
            self.advance(Duration::ZERO).await;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    pub async fn counts(&self, queue: QueueId) -> Counts {
        self.engine.counts(queue).await.expect("the queue that is counted exists")
    }

    /// Waits until a queue holds these numbers of messages: ready, leased, delayed.
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
        url: WebhookUrl::parse(url).expect("the URL of the webhook is valid"),
        secret: None,
        timeout: Duration::from_secs(30),
    })
}

pub fn to_target(target: Target) -> Consumer {
    let push = Push { max_wait: Duration::ZERO, ..Push::to(target) };
    Consumer::of(ConsumerId([7; 16]), NOW, Delivery::Push(push))
}

/// The same with other settings of pushing.
pub fn pushing(consumer: &Consumer, change: impl FnOnce(&mut Push)) -> Consumer {
    let mut push = consumer.push().expect("the consumer is a push consumer").clone();
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
