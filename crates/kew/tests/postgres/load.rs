//! Clients that send, receive and delete beside everything a test does, and keep account of what they saw: nothing
//! acknowledged may be lost, come back after its deletion, be leased twice, or come out of order.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::nodes::ask;

/// How long a received message is hidden.
const HIDDEN: Duration = Duration::from_secs(8);
/// Kew's time has whole milliseconds, and each node knows the database's clock as well as its quickest answer shows it.
const PRECISION: Duration = Duration::from_millis(10);
const SENDERS: usize = 3;
const RECEIVERS: usize = 2;
const GROUPS: usize = 2;
/// A client that was refused asks the next node after this.
const PAUSE: Duration = Duration::from_millis(20);

/// What the clients saw.
#[derive(Default)]
struct Account {
    /// Numbers whose send was acknowledged.
    sent: BTreeSet<u64>,
    /// When a number was received last: the request's begin.
    received: BTreeMap<u64, Instant>,
    /// When the deletion of a number was acknowledged.
    deleted: BTreeMap<u64, Instant>,
    /// Numbers whose deletion was asked for and not acknowledged: they may be gone, or not.
    in_doubt: BTreeSet<u64>,
    /// The largest number received and deleted of each group.
    groups: BTreeMap<String, (u64, u64)>,
    /// What must not be.
    faults: Vec<String>,
    /// When the latest send that was acknowledged had begun.
    latest: Option<Instant>,
}

struct Shared {
    nodes: Vec<SocketAddr>,
    /// Leases that were answered may be forgotten: the database was killed.
    forgets_leases: bool,
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
            account: Mutex::default(),
            next: AtomicU64::new(1),
            no_more_sends: AtomicBool::new(false),
            no_more_receives: AtomicBool::new(false),
        });
        let hidden = HIDDEN.as_secs();
        for (name, fifo) in [("load", ""), ("load.fifo", r#","FifoQueue":"true""#)] {
            let create =
                format!(r#"{{"QueueName":"{name}","Attributes":{{"VisibilityTimeout":"{hidden}"{fifo}}}}}"#);
            assert!(shared.ask("CreateQueue", &create).is_some(), "no node made the queue {name}");
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
        let mut receivers = spawn(Shared::receive, RECEIVERS);
        receivers.extend(spawn(Shared::receive_in_order, 1));
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
        let begun = Instant::now();
        loop {
            let left = self.shared.account().left();
            if left.is_empty() {
                break;
            }
            assert!(begun.elapsed() < 5 * HIDDEN, "lost after they were acknowledged: {left:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
        // What should be gone has time to come back.
        std::thread::sleep(Duration::from_secs(1));
        self.shared.no_more_receives.store(true, Ordering::Relaxed);
        self.receivers.into_iter().for_each(|receiver| receiver.join().expect("a receiver does not panic"));
        let account = self.shared.account();
        assert!(account.faults.is_empty(), "{}", account.faults.join("\n"));
        Sum { sent: account.sent.len(), deleted: account.deleted.len() }
    }
}

impl Account {
    /// Numbers that were acknowledged and certainly not deleted yet.
    fn left(&self) -> Vec<u64> {
        let is_left = |number: &&u64| !self.deleted.contains_key(number) && !self.in_doubt.contains(number);
        self.sent.iter().filter(is_left).copied().collect()
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
        }
    }

    fn acknowledged(&self, number: u64, begun: Instant) {
        let mut account = self.account();
        account.sent.insert(number);
        account.latest = account.latest.max(Some(begun));
    }

    /// Messages of a queue with the request's begin and the node that answered; nothing where no node did.
    fn messages(&self, queue: &str) -> Option<(Instant, SocketAddr, Vec<Value>)> {
        let json = format!(
            r#"{{"QueueUrl":"{queue}","MaxNumberOfMessages":10,"AttributeNames":["MessageGroupId"]}}"#
        );
        for node in &self.nodes {
            let begun = Instant::now();
            let Some(body) = ask(*node, "ReceiveMessage", &json) else { continue };
            let reply: Value = serde_json::from_str(&body).expect("a reply of 200 is JSON");
            return Some((begun, *node, reply["Messages"].as_array().cloned().unwrap_or_default()));
        }
        None
    }

    fn delete(&self, queue: &str, message: &Value) -> bool {
        let receipt = &message["ReceiptHandle"];
        self.ask("DeleteMessage", &format!(r#"{{"QueueUrl":"{queue}","ReceiptHandle":{receipt}}}"#)).is_some()
    }

    fn receive(&self, _index: usize) {
        while !self.no_more_receives.load(Ordering::Relaxed) {
            let Some((begun, node, messages)) = self.messages("load") else {
                std::thread::sleep(PAUSE);
                continue;
            };
            let numbers: Vec<u64> = messages.iter().map(number).collect();
            {
                let mut account = self.account();
                for &number in &numbers {
                    self.saw(&mut account, number, begun, node);
                }
            }
            for (message, number) in messages.iter().zip(numbers) {
                let is_deleted = self.delete("load", message);
                let mut account = self.account();
                if is_deleted {
                    account.deleted.insert(number, Instant::now());
                } else {
                    account.in_doubt.insert(number);
                }
            }
        }
    }

    /// A message was received by a request that began then.
    fn saw(&self, account: &mut Account, number: u64, begun: Instant, node: SocketAddr) {
        if account.deleted.get(&number).is_some_and(|deleted| *deleted < begun) {
            account.fault(format!("message {number} came back from {node} after its deletion"));
        }
        let before = account.received.insert(number, begun);
        if let Some(before) =
            before.filter(|before| !self.forgets_leases && before.elapsed() + PRECISION < HIDDEN)
        {
            let apart = begun - before;
            account.fault(format!("message {number} was leased twice, {apart:?} apart, last by {node}"));
        }
    }

    fn receive_in_order(&self, _index: usize) {
        while !self.no_more_receives.load(Ordering::Relaxed) {
            let Some((_, node, messages)) = self.messages("load.fifo") else {
                std::thread::sleep(PAUSE);
                continue;
            };
            for message in &messages {
                let group = message["Attributes"]["MessageGroupId"].to_string();
                let number = number(message);
                let mut account = self.account();
                let (received, deleted) = account.groups.get(&group).copied().unwrap_or_default();
                if number > received + 1 || number <= deleted {
                    let text = format!("{node}: {number} of {group} after {received}, deleted {deleted}");
                    account.fault(text);
                }
                account.groups.insert(group.clone(), (received.max(number), deleted));
                drop(account);
                if !self.delete("load.fifo", message) {
                    // Those behind it must come again in order.
                    break;
                }
                self.account().groups.insert(group, (received.max(number), number));
            }
        }
    }
}

fn number(message: &Value) -> u64 {
    let body = message["Body"].as_str().expect("a message has a body");
    body.parse().expect("each body is a number")
}
