//! Clients that send, receive and delete beside everything a test does, and keep account of what they saw: nothing
//! acknowledged may be lost, come back after its deletion, be stored or leased twice, or come out of order.
//!
//! Most clients give up a request after two seconds and ask the next node. One sender and one receiver of each node are
//! patient: they wait for that node alone, so that they hear whatever an owner answers that was stopped and continues.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::nodes::ask_within;

/// How long a received message is hidden.
const HIDDEN: Duration = Duration::from_secs(8);
/// Kew's time has whole milliseconds, and a new owner knows the database's clock to 8 of them.
const PRECISION: Duration = Duration::from_millis(10);
const SENDERS: usize = 3;
const RECEIVERS: usize = 2;
const GROUPS: usize = 2;
/// In a short run a sender waits for this long after each message, and a receiver after it got none: many tests share
/// the machine.
const BETWEEN: Duration = Duration::from_millis(4);
/// A client that was refused asks the next node after this.
const PAUSE: Duration = Duration::from_millis(20);

/// Most clients give a request up after this and ask the next node: one that was stopped gives no reply.
pub const GIVES_UP_AFTER: Duration = Duration::from_secs(2);
/// A reply that came within this time is not one that was held up.
const REPLY_SOON: Duration = Duration::from_secs(1);
/// How long a patient client waits for a reply.
const PATIENCE: Duration = Duration::from_secs(20);

/// One message as it was received last.
struct Seen {
    /// The request's begin.
    begun: Instant,
    id: String,
    attempts: u64,
}

/// What became of a group's messages, which are numbered from one.
#[derive(Default)]
struct Group {
    /// The largest number whose send was acknowledged.
    sent: u64,
    /// The largest number whose deletion was acknowledged, and the largest one whose deletion was asked for.
    deleted: u64,
    asked: u64,
    /// The number that was received last, by the same request or an earlier one.
    last: u64,
    /// When each number was received last: the request's begin.
    received: BTreeMap<u64, Instant>,
}

/// What the clients saw.
#[derive(Default)]
struct Account {
    /// Numbers whose send was acknowledged.
    sent: BTreeSet<u64>,
    received: BTreeMap<u64, Seen>,
    /// When the deletion of a number was acknowledged.
    deleted: BTreeMap<u64, Instant>,
    /// Numbers whose deletion was asked for and not acknowledged: they may be gone, or not.
    in_doubt: BTreeSet<u64>,
    groups: BTreeMap<String, Group>,
    /// What must not be.
    faults: Vec<String>,
    /// When the latest send that was acknowledged had begun.
    latest: Option<Instant>,
}

struct Shared {
    nodes: Vec<SocketAddr>,
    /// Leases that were answered may be forgotten: the database was killed.
    forgets_leases: bool,
    is_long: bool,
    account: Mutex<Account>,
    next: AtomicU64,
    no_more_sends: AtomicBool,
    no_more_receives: AtomicBool,
}

/// Clients at work.
pub struct Load {
    shared: Arc<Shared>,
    senders: Vec<JoinHandle<()>>,
    receivers: Vec<JoinHandle<()>>,
}

/// What came of it.
pub struct Sum {
    pub sent: usize,
    pub deleted: usize,
}

impl Load {
    /// Makes the queues and begins.
    pub fn begin(nodes: &[SocketAddr], forgets_leases: bool) -> Self {
        let shared = Arc::new(Shared {
            nodes: nodes.to_vec(),
            forgets_leases,
            is_long: std::env::var("KEW_LONG").is_ok_and(|value| value == "1"),
            account: Mutex::default(),
            next: AtomicU64::new(1),
            no_more_sends: AtomicBool::new(false),
            no_more_receives: AtomicBool::new(false),
        });
        let hidden = HIDDEN.as_secs();
        for (name, fifo) in [("load", ""), ("load.fifo", r#","FifoQueue":"true""#)] {
            let create =
                format!(r#"{{"QueueName":"{name}","Attributes":{{"VisibilityTimeout":"{hidden}"{fifo}}}}}"#);
            let begun = Instant::now();
            while shared.ask("CreateQueue", &create).is_none() {
                assert!(begun.elapsed() < PATIENCE, "no node made the queue {name}");
                std::thread::sleep(PAUSE);
            }
        }
        let spawn = |work: fn(&Shared, usize), count: usize| -> Vec<JoinHandle<()>> {
            let one = |index| {
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || work(&shared, index))
            };
            (0..count).map(one).collect()
        };
        let mut senders = spawn(Shared::send, SENDERS);
        senders.extend(spawn(Shared::send_in_order, GROUPS));
        senders.extend(spawn(Shared::send_patiently, nodes.len()));
        let mut receivers = spawn(Shared::receive, RECEIVERS);
        receivers.extend(spawn(Shared::receive_in_order, 1));
        receivers.extend(spawn(Shared::receive_patiently, nodes.len()));
        Self { shared, senders, receivers }
    }

    /// How long it takes from now on until a send is acknowledged that begins from now on.
    pub fn time_to_serve(&self) -> Duration {
        let begun = Instant::now();
        while self.shared.account().latest.is_none_or(|latest| latest < begun) {
            assert!(begun.elapsed() < Duration::from_secs(60), "no send was acknowledged for a minute");
            std::thread::sleep(Duration::from_millis(5));
        }
        begun.elapsed()
    }

    /// Ends the sends, receives what is left, and checks the account.
    pub fn end(self) -> Sum {
        self.shared.no_more_sends.store(true, Ordering::Relaxed);
        self.senders.into_iter().for_each(|sender| sender.join().expect("a sender does not panic"));
        // After many sends it takes long to receive what is left; what can no longer be received is lost.
        let mut left = self.shared.account().left();
        let mut since = Instant::now();
        while !left.is_empty() {
            assert!(since.elapsed() < 6 * HIDDEN, "lost after they were acknowledged: {left:?}");
            std::thread::sleep(Duration::from_millis(50));
            let before = std::mem::replace(&mut left, self.shared.account().left());
            if left != before {
                since = Instant::now();
            }
        }
        // What should be gone has time to come back.
        std::thread::sleep(Duration::from_secs(1));
        // A send that was not acknowledged may have stored a message: it is received and deleted as all others are, if
        // need be when a lease of it has ended whose reply was lost.
        let begun = Instant::now();
        while self.shared.has_too_many() && begun.elapsed() < 2 * HIDDEN {
            std::thread::sleep(Duration::from_millis(50));
        }
        self.shared.no_more_receives.store(true, Ordering::Relaxed);
        self.receivers.into_iter().for_each(|receiver| receiver.join().expect("a receiver does not panic"));
        let stored = self.shared.stored_in_all();
        let account = self.shared.account();
        assert!(account.faults.is_empty(), "{}", account.faults.join("\n"));
        let in_doubt = account.may_be_there();
        assert!(stored <= in_doubt, "{stored} messages are counted, {in_doubt} may be there");
        Sum { sent: account.sent.len(), deleted: account.deleted.len() }
    }
}

impl Account {
    /// Messages that were acknowledged and certainly not deleted yet, by queue or group and number.
    fn left(&self) -> Vec<(String, u64)> {
        let is_left = |number: &&u64| !self.deleted.contains_key(number) && !self.in_doubt.contains(number);
        let of_load = self.sent.iter().filter(is_left).map(|number| ("load".to_owned(), *number));
        let of_groups = self.groups.iter().filter(|(_, group)| group.asked < group.sent);
        of_load.chain(of_groups.map(|(name, group)| (name.clone(), group.asked + 1))).collect()
    }

    /// How many messages may be there when all were received: a number whose deletion is in doubt may still be hidden,
    /// and at most one of each group is.
    fn may_be_there(&self) -> usize {
        self.in_doubt.len() + self.groups.len()
    }

    fn fault(&mut self, text: String) {
        self.faults.push(text);
    }
}

impl Shared {
    fn account(&self) -> std::sync::MutexGuard<'_, Account> {
        self.account.lock().expect("a client does not panic with the account")
    }

    /// Asks one node after the other, once each.
    fn ask(&self, action: &str, json: &str) -> Option<String> {
        self.nodes.iter().find_map(|node| ask(*node, action, json))
    }

    fn send(&self, _index: usize) {
        while !self.no_more_sends.load(Ordering::Relaxed) {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            // Asked once: a send without an acknowledgement may have happened or not.
            let json = format!(r#"{{"QueueUrl":"load","MessageBody":"{number}"}}"#);
            let node = self.nodes[usize::try_from(number).unwrap_or_default() % self.nodes.len()];
            let begun = Instant::now();
            match ask(node, "SendMessage", &json) {
                Some(_) => self.acknowledged(number, begun),
                None => std::thread::sleep(PAUSE),
            }
            self.rest();
        }
    }

    /// Waits in a short run.
    fn rest(&self) {
        if !self.is_long {
            std::thread::sleep(BETWEEN);
        }
    }

    /// Sends to a FIFO queue; each message is asked for until it is acknowledged.
    fn send_in_order(&self, index: usize) {
        let mut number = 0;
        while !self.no_more_sends.load(Ordering::Relaxed) {
            number += 1;
            let json = format!(
                r#"{{"QueueUrl":"load.fifo","MessageBody":"{number}","MessageGroupId":"g{index}","MessageDeduplicationId":"{index}-{number}"}}"#
            );
            while self.ask("SendMessage", &json).is_none() {
                std::thread::sleep(PAUSE);
            }
            self.account().groups.entry(format!("g{index}")).or_default().sent = number;
            self.rest();
        }
    }

    /// Sends to one node alone, and waits for its answers for as long as they may take.
    fn send_patiently(&self, index: usize) {
        while !self.no_more_sends.load(Ordering::Relaxed) {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let json = format!(r#"{{"QueueUrl":"load","MessageBody":"{number}"}}"#);
            let begun = Instant::now();
            if ask_within(self.nodes[index], "SendMessage", &json, PATIENCE).is_some() {
                self.acknowledged(number, begun);
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn acknowledged(&self, number: u64, begun: Instant) {
        let mut account = self.account();
        account.sent.insert(number);
        account.latest = account.latest.max(Some(begun));
    }

    /// Whether more messages are counted than may be there.
    fn has_too_many(&self) -> bool {
        let stored = self.stored_in_all();
        stored > self.account().may_be_there()
    }

    fn stored_in_all(&self) -> usize {
        self.stored("load") + self.stored("load.fifo")
    }

    /// How many messages of a queue are counted.
    fn stored(&self, queue: &str) -> usize {
        let json = format!(r#"{{"QueueUrl":"{queue}","AttributeNames":["All"]}}"#);
        let begun = Instant::now();
        let body = loop {
            if let Some(body) = self.ask("GetQueueAttributes", &json) {
                break body;
            }
            assert!(begun.elapsed() < PATIENCE, "no node counts the messages of {queue}");
        };
        let reply: Value = serde_json::from_str(&body).expect("a reply of 200 is JSON");
        let count = |name: &str| {
            let text = reply["Attributes"][name].as_str().expect("all attributes were asked for");
            text.parse::<usize>().expect("a count is a number")
        };
        count("ApproximateNumberOfMessages") + count("ApproximateNumberOfMessagesNotVisible")
    }

    /// Messages of a queue from the first node that answers; nothing where none does.
    fn messages(&self, queue: &str) -> Option<Batch> {
        let receive =
            |node: &SocketAddr| Batch::receive(*node, queue, |json| ask(*node, "ReceiveMessage", json));
        let batch = self.nodes.iter().find_map(receive)?;
        if batch.messages.is_empty() {
            self.rest();
        }
        Some(batch)
    }

    fn delete(&self, queue: &str, message: &Value) -> bool {
        let receipt = &message["ReceiptHandle"];
        self.ask("DeleteMessage", &format!(r#"{{"QueueUrl":"{queue}","ReceiptHandle":{receipt}}}"#)).is_some()
    }

    fn receive(&self, _index: usize) {
        while !self.no_more_receives.load(Ordering::Relaxed) {
            match self.messages("load") {
                Some(batch) => self.take(&batch),
                None => std::thread::sleep(PAUSE),
            }
        }
    }

    /// Receives from one node alone, and waits for its answers for as long as they may take.
    fn receive_patiently(&self, index: usize) {
        let node = self.nodes[index];
        while !self.no_more_receives.load(Ordering::Relaxed) {
            let ask = |json: &str| ask_within(node, "ReceiveMessage", json, PATIENCE);
            if let Some(batch) = Batch::receive(node, "load", ask) {
                self.take(&batch);
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Notes and deletes what was received.
    fn take(&self, batch: &Batch) {
        {
            let mut account = self.account();
            batch.messages.iter().for_each(|message| self.saw(&mut account, message, batch));
        }
        for message in &batch.messages {
            let is_deleted = self.delete("load", message);
            let mut account = self.account();
            if is_deleted {
                account.deleted.insert(number(message), Instant::now());
            } else {
                account.in_doubt.insert(number(message));
            }
        }
    }

    /// A message was received.
    fn saw(&self, account: &mut Account, message: &Value, batch: &Batch) {
        let (number, node) = (number(message), batch.node);
        let id = message["MessageId"].as_str().unwrap_or_default().to_owned();
        let seen = Seen { begun: batch.begun, id, attempts: attempts(message) };
        if number >= self.next.load(Ordering::Relaxed) {
            account.fault(format!("message {number} from {node} was never sent"));
        }
        if account.deleted.get(&number).is_some_and(|deleted| *deleted < seen.begun) {
            account.fault(format!("message {number} came back from {node} after its deletion"));
        }
        if let Some(before) = account.received.get(&number) {
            let (is_other, is_early) = (before.id != seen.id, self.is_early(before.begun));
            let counts_again = before.attempts >= seen.attempts && !self.forgets_leases;
            let apart = seen.begun.saturating_duration_since(before.begun);
            if is_other {
                account.fault(format!("message {number} is stored twice, last seen at {node}"));
            }
            if is_early {
                account.fault(format!("message {number} was leased twice, {apart:?} apart, last by {node}"));
            }
            // A late answer of an earlier lease may be heard after that of a later one.
            if counts_again && batch.begun.elapsed() < REPLY_SOON {
                account.fault(format!("attempts of message {number} did not rise at {node}"));
            }
        }
        account.received.insert(number, seen);
    }

    /// Whether a message that was received by a request that began then cannot be offered again yet.
    fn is_early(&self, before: Instant) -> bool {
        !self.forgets_leases && before.elapsed() + PRECISION < HIDDEN
    }

    fn receive_in_order(&self, _index: usize) {
        while !self.no_more_receives.load(Ordering::Relaxed) {
            let Some(batch) = self.messages("load.fifo") else {
                std::thread::sleep(PAUSE);
                continue;
            };
            let mut begun = BTreeSet::new();
            for message in &batch.messages {
                let name = message["Attributes"]["MessageGroupId"].as_str().unwrap_or_default();
                self.saw_in_order(name, number(message), &batch, begun.insert(name.to_owned()));
            }
            self.delete_in_order(&batch);
        }
    }

    /// A message of a group was received, as the first of its request or after another one.
    fn saw_in_order(&self, name: &str, number: u64, batch: &Batch, is_first: bool) {
        let (mut account, node) = (self.account(), batch.node);
        let group = account.groups.entry(name.to_owned()).or_default();
        let (deleted, asked, last) = (group.deleted, group.asked, group.last);
        // The first one that is not deleted comes first; whether the last deletion happened may not be known.
        let is_next =
            if is_first { number == deleted + 1 || number == asked + 1 } else { number == last + 1 };
        if is_first && is_next {
            // Whatever came of their deletion: those before it are gone.
            group.deleted = group.deleted.max(number - 1);
        }
        let before = group.received.insert(number, batch.begun);
        group.last = number;
        if !is_next {
            account
                .fault(format!("{node}: {number} of {name} after {last}, deleted {deleted}, asked {asked}"));
        }
        if let Some(before) = before.filter(|before| self.is_early(*before)) {
            let apart = batch.begun.saturating_duration_since(before);
            account.fault(format!("{node}: {number} of {name} was leased twice, {apart:?} apart"));
        }
    }

    /// Deletes in order, up to the first that is not acknowledged: those behind it come again.
    fn delete_in_order(&self, batch: &Batch) {
        let mut in_doubt = BTreeSet::new();
        for message in &batch.messages {
            let name = message["Attributes"]["MessageGroupId"].as_str().unwrap_or_default();
            if in_doubt.contains(name) {
                continue;
            }
            let number = number(message);
            self.account().groups.entry(name.to_owned()).or_default().asked = number;
            if self.delete("load.fifo", message) {
                self.account().groups.entry(name.to_owned()).or_default().deleted = number;
            } else {
                in_doubt.insert(name.to_owned());
            }
        }
    }
}

/// One action, given up as clients without patience do.
fn ask(node: SocketAddr, action: &str, json: &str) -> Option<String> {
    ask_within(node, action, json, GIVES_UP_AFTER)
}

/// What one request received.
struct Batch {
    /// The request's begin.
    begun: Instant,
    node: SocketAddr,
    messages: Vec<Value>,
}

impl Batch {
    fn receive(node: SocketAddr, queue: &str, ask: impl FnOnce(&str) -> Option<String>) -> Option<Self> {
        let attributes = r#"["MessageGroupId","ApproximateReceiveCount"]"#;
        let json =
            format!(r#"{{"QueueUrl":"{queue}","MaxNumberOfMessages":10,"AttributeNames":{attributes}}}"#);
        let begun = Instant::now();
        let reply: Value = serde_json::from_str(&ask(&json)?).expect("a reply of 200 is JSON");
        Some(Self { begun, node, messages: reply["Messages"].as_array().cloned().unwrap_or_default() })
    }
}

fn number(message: &Value) -> u64 {
    let body = message["Body"].as_str().expect("a message has a body");
    body.parse().expect("each body is a number")
}

fn attempts(message: &Value) -> u64 {
    let text = message["Attributes"]["ApproximateReceiveCount"].as_str().expect("attempts were asked for");
    text.parse().expect("attempts are a number")
}
