//! The process that is killed: senders and receivers on three queues, telling what they did.

use std::collections::HashMap;
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use kew_core::command::{Ack, CreateQueue, FirstReceipts, Lease, Release, Send};
use kew_core::outcome::Leased;
use kew_core::{
    AccountId, Carries, Command, DeadLetterAction, DeadLetterRule, DeduplicationId, GroupId, LeaseTerms,
    LeaseToken, MessageId, NewMessage, Outcome, Policy, QueueId, QueueKey, ReceiptRule, Text,
};
use kew_store::Store;
use kew_store::contract::model::Random;
use kew_store::contract::model::subject::block_on;
use kew_store_log::{Drive, LogStore};

use crate::{now, open};

pub const GROUPS: u64 = 5;
pub const ATTEMPTS_MAX: u32 = 3;
/// Messages in a queue beyond which senders delete some.
const STORED_MAX: u64 = 800;

pub fn key(name: &str) -> QueueKey {
    QueueKey::new(AccountId(0), "here", name)
}

/// One line, in one write.
fn report(line: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("@{line}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}

pub fn ask(store: &LogStore, command: Command) -> Outcome {
    let answer = store.step(now(), &command);
    store.commit();
    block_on(answer).unwrap()
}

/// The queue of this name, made in the first round.
fn queue(store: &LogStore, name: &str, policy: Policy) -> QueueId {
    let Outcome::Queues(queues) = ask(store, Command::Queues) else { panic!("no queues") };
    if let Some(queue) = queues.iter().find(|queue| *queue.key.name == *name) {
        return queue.id;
    }
    let create = CreateQueue { key: key(name), policy, documents: Vec::new() };
    match ask(store, Command::CreateQueue(create)) {
        Outcome::Queue(queue) => queue.id,
        other => panic!("{other:?}"),
    }
}

/// The leases of each message that were not given up: from when until when.
type Leases = Mutex<HashMap<u64, Vec<(u64, u64)>>>;

pub fn work(folder: &Path, round: u64) {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        print(panic);
        std::process::abort();
    }));
    let store = open(folder, Drive::Threads, round);
    let dead = queue(&store, "dead", Policy::standard());
    let rule = DeadLetterRule {
        attempts_max: ATTEMPTS_MAX,
        then: DeadLetterAction::MoveTo(key("dead")),
        carries: Carries::History,
        written_by: "kill".into(),
    };
    let plain = queue(&store, "plain", Policy { dead_letters: Some(rule.into()), ..Policy::standard() });
    let row = queue(&store, "row.fifo", Policy::fifo());
    report("ready");
    let leased = Leases::default();
    std::thread::scope(|scope| {
        for thread in 0..2 {
            scope.spawn({
                let store = &store;
                move || send_plain(store, [plain, dead], round, thread)
            });
            scope.spawn(|| receive_plain(&store, plain, &leased, round));
        }
        scope.spawn(|| send_row(&store, row, round));
        scope.spawn(|| receive_row(&store, row, round));
    });
}

fn send_plain(store: &LogStore, [queue, dead]: [QueueId; 2], round: u64, thread: u64) {
    let mut random = Random::new(round * 10 + thread);
    for number in 0.. {
        // So that no round has to look at all the rounds before it.
        for crowded in [queue, dead] {
            let Outcome::Counts(counts) = ask(store, Command::Counts(crowded)) else { panic!("no counts") };
            if counts.stored() > STORED_MAX {
                delete_some(store, crowded);
            }
        }
        let count = 1 + random.below(4);
        let bodies: Vec<String> =
            (0..count).map(|part| format!("r{round}t{thread}n{number}p{part}")).collect();
        let message = |body: &String| {
            let padded = format!("{body} {}", "x".repeat(random_length(number)));
            NewMessage::text(MessageId::from_chance(u128::from(number)), padded)
        };
        let messages = bodies.iter().map(message).collect();
        let Outcome::Sent(sent) =
            ask(store, Command::Send(Send { queue, messages, receipts: FirstReceipts::Told }))
        else {
            panic!("no send")
        };
        for (body, sent) in bodies.iter().zip(sent) {
            report(&format!("sent {body} {}", sent.sequence.0));
        }
    }
}

/// The first word of a body names the message.
fn name_of(leased: &Leased) -> String {
    let body = leased.message.content.body.split(|byte| *byte == b' ').next().unwrap();
    std::str::from_utf8(body).unwrap().to_owned()
}

fn delete(store: &LogStore, queue: QueueId, token: LeaseToken, name: &str) {
    report(&format!("acking {name}"));
    let ack = Ack { queue, receipt: ReceiptRule::Any, tokens: vec![token] };
    let Outcome::Acked(acked) = ask(store, Command::Ack(ack)) else { panic!("no ack") };
    if acked[0].is_ok() {
        report(&format!("acked {name}"));
    }
}

fn delete_some(store: &LogStore, queue: QueueId) {
    let Outcome::Leased(taken) = ask(store, Command::Lease(Lease::of(queue, 10, now()))) else {
        panic!("no lease")
    };
    for each in &taken {
        delete(store, queue, each.token, &name_of(each));
    }
}

fn random_length(number: u64) -> usize {
    (number * 37 % 500) as usize
}

fn receive_plain(store: &LogStore, queue: QueueId, leased: &Leases, round: u64) {
    let mut random = Random::new(round ^ 0xffff);
    loop {
        let length = random.millis(&[20, 60, 5_000]);
        let terms = LeaseTerms { length: Some(length), ..LeaseTerms::default() };
        let lease = Lease { terms, ..Lease::of(queue, 5, now()) };
        let Outcome::Leased(taken) = ask(store, Command::Lease(lease)) else { panic!("no lease") };
        let mut tokens = Vec::new();
        for each in &taken {
            let (sequence, until, body) = (each.message.sequence.0, each.until.0, name_of(each));
            report(&format!("leased {body} {} {until}", each.message.attempts));
            // Law 2: no other lease had it at any instant of this one.
            let (from, mut leased) = (each.until.minus(length).0, leased.lock().unwrap());
            let others = leased.entry(sequence).or_default();
            let overlaps = others.iter().any(|(start, end)| from < *end && *start < until);
            assert!(!overlaps, "{sequence} was leased from {from} until {until}, and {others:?}");
            others.push((from, until));
            tokens.push((each.token, body, sequence, until));
        }
        match random.below(10) {
            0 | 1 => {}
            2 | 3 => {
                for (token, body, sequence, until) in tokens {
                    report(&format!("releasing {body}"));
                    leased.lock().unwrap().entry(sequence).or_default().retain(|(_, end)| *end != until);
                    let entries = vec![(token, Duration::ZERO)];
                    // It may have ended meanwhile.
                    ask(store, Command::Release(Release { queue, receipt: ReceiptRule::Current, entries }));
                }
            }
            _ => {
                for (token, body, ..) in tokens {
                    delete(store, queue, token, &body);
                }
            }
        }
    }
}

fn send_row(store: &LogStore, queue: QueueId, round: u64) {
    for number in 0_u64.. {
        let group = number % GROUPS;
        let body = format!("r{round}n{number}");
        let message = NewMessage {
            group: Some(GroupId(Text::from(format!("g{group}")))),
            deduplication: Some(DeduplicationId(Text::from(body.clone()))),
            ..NewMessage::text(MessageId::from_chance(u128::from(number)), body.clone())
        };
        let send = Send { queue, messages: vec![message], receipts: FirstReceipts::Told };
        let Outcome::Sent(sent) = ask(store, Command::Send(send)) else { panic!("no send") };
        report(&format!("row {body} {} g{group}", sent[0].sequence.0));
    }
}

fn receive_row(store: &LogStore, queue: QueueId, round: u64) {
    for number in 0.. {
        let attempt = format!("r{round}a{number}");
        let terms = LeaseTerms { length: Some(Duration::from_secs(60)), ..LeaseTerms::default() };
        let lease = Lease { terms, attempt: Some(Text::from(attempt.clone())), ..Lease::of(queue, 3, now()) };
        let Outcome::Leased(taken) = ask(store, Command::Lease(lease)) else { panic!("no lease") };
        let leased: Vec<String> =
            taken.iter().map(|each| format!("{}:{}", each.message.sequence.0, each.token.nonce)).collect();
        report(&format!("attempt {attempt} {}", leased.join(" ")));
        for each in taken {
            report(&format!("row-acking {}", each.message.sequence.0));
            let ack = Ack { queue, receipt: ReceiptRule::Unexpired, tokens: vec![each.token] };
            let Outcome::Acked(acked) = ask(store, Command::Ack(ack)) else { panic!("no ack") };
            acked[0].clone().unwrap();
            report(&format!("row-acked {}", each.message.sequence.0));
        }
    }
}
