//! When a lease is answered: once it is written, and as soon as nothing it tells could be taken back by a power cut.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "small_store/mod.rs"]
mod small_store;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use kew_core::command::{Ack, Extend, Extension, FirstReceipts, Lease, Purge, Send};
use kew_core::outcome::Leased;
use kew_core::{
    Carries, Command, Content, DeadLetterAction, DeadLetterRule, LeaseToken, Outcome, Policy, QueueId,
    ReceiptRule, WhenFree,
};
use kew_store::{Store, Submission};
use kew_store_log::{Found, LogStore, SimDisk};

use small_store::{Asked, START, answer_of, entropy, key, options, text_of};

fn opened(disk: &SimDisk) -> Asked {
    Asked::of(LogStore::open(Arc::new(disk.clone()), options(), entropy(1), START).unwrap().0)
}

fn is_answered(answer: &mut Submission) -> bool {
    answer_of(answer).is_some_and(|result| result.is_ok())
}

fn leasing(asked: &Asked, queue: QueueId, max: u32) -> Submission {
    asked.store.step(asked.now, &Command::Lease(Lease::of(queue, max, asked.now)))
}

#[test]
fn lease_of_a_durable_message_is_answered_when_it_is_written_although_sends_wait_for_their_sync() {
    let asked = opened(&SimDisk::new());
    let queue = asked.queue("plain", Policy::standard());
    asked.send(queue, "durable");
    let mut sent = asked.sending(queue, "not yet");
    let mut leased = leasing(&asked, queue, 1);
    assert!(!is_answered(&mut leased), "it is not written");
    asked.store.write();
    assert!(!is_answered(&mut sent));
    assert!(is_answered(&mut leased));
    assert!(asked.store.commit());
    assert!(is_answered(&mut sent));
}

#[test]
fn lease_of_a_message_waits_until_its_send_is_synced() {
    let asked = opened(&SimDisk::new());
    let queue = asked.queue("plain", Policy::standard());
    let mut sent = asked.sending(queue, "one");
    asked.store.write();
    // In a batch of its own, and together with its send.
    let mut later = leasing(&asked, queue, 1);
    let mut also_sent = asked.sending(queue, "two");
    let mut together = leasing(&asked, queue, 1);
    asked.store.write();
    assert!(!is_answered(&mut sent) && !is_answered(&mut also_sent));
    assert!(!is_answered(&mut later) && !is_answered(&mut together));
    assert!(asked.store.commit());
    assert!(
        is_answered(&mut sent)
            && is_answered(&mut also_sent)
            && is_answered(&mut later)
            && is_answered(&mut together)
    );
}

#[test]
fn lease_of_a_content_that_was_replaced_waits_until_that_is_synced() {
    let asked = opened(&SimDisk::new());
    let queue = asked.queue("plain", Policy::standard());
    let sent = asked.send(queue, "old");
    asked.store.step(asked.now, &rewriting(queue, sent.token.expect("the send asked for a receipt"), "new"));
    asked.store.write();
    let mut leased = leasing(&asked, queue, 1);
    asked.store.write();
    assert!(!is_answered(&mut leased));
    asked.store.commit();
    let Some(Ok(Outcome::Leased(leased))) = answer_of(&mut leased) else { panic!("no lease") };
    assert_eq!(&*leased[0].message.content.body, b"new");
}

#[test]
fn lease_of_a_dead_letter_waits_until_its_move_is_synced() {
    let mut asked = opened(&SimDisk::new());
    let [_, plain, dead] = queues(&asked);
    asked.send(plain, "a letter");
    assert_eq!(asked.lease(plain, 1).len(), 1);
    asked.later(Duration::from_secs(31));
    asked.store.step(asked.now, &Command::Counts(plain));
    let mut leased = leasing(&asked, dead, 1);
    asked.store.write();
    assert!(!is_answered(&mut leased));
    asked.store.commit();
    assert!(matches!(answer_of(&mut leased), Some(Ok(Outcome::Leased(leased))) if leased.len() == 1));
}

#[test]
fn lease_on_a_fifo_queue_waits_until_those_before_it_in_its_group_are_gone_for_good() {
    let asked = opened(&SimDisk::new());
    let [row, ..] = queues(&asked);
    for (number, group) in (1..).zip(["g", "g", "other"]) {
        asked.try_send(row, asked.row("in row", group, &format!("d{number}"))).unwrap();
    }
    let first = asked.lease(row, 1);
    let tokens = vec![first[0].token];
    asked.store.step(asked.now, &Command::Ack(Ack { queue: row, receipt: ReceiptRule::Any, tokens }));
    asked.store.write();
    // A power cut now would bring the first one back: no receiver may hold the second.
    let mut other = leasing(&asked, row, 1);
    let mut second = leasing(&asked, row, 1);
    asked.store.write();
    assert!(is_answered(&mut other), "another group's messages tell nothing of it");
    assert!(!is_answered(&mut second));
    asked.store.commit();
    assert!(matches!(answer_of(&mut second), Some(Ok(Outcome::Leased(leased))) if leased.len() == 1));
}

#[test]
fn lease_is_written_and_answered_while_another_thread_syncs() {
    let disk = SimDisk::new();
    let asked = Arc::new(opened(&disk));
    let queue = asked.queue("plain", Policy::standard());
    asked.send(queue, "durable");
    disk.set_sync_delay(Duration::from_secs(1));
    let mut sent = asked.sending(queue, "not yet");
    let syncs = asked.clone();
    let thread = std::thread::spawn(move || syncs.store.commit());
    while asked.store.stats().written_through == asked.store.stats().durable_through {
        std::thread::yield_now();
    }
    let mut leased = leasing(&asked, queue, 1);
    asked.store.write();
    assert!(is_answered(&mut leased) && !is_answered(&mut sent));
    assert!(!thread.is_finished(), "a write waited for a sync");
    assert!(thread.join().unwrap());
    assert!(is_answered(&mut sent));
}

fn queues(asked: &Asked) -> [QueueId; 3] {
    let dead = asked.queue("dead", Policy::standard());
    let rule = DeadLetterRule {
        attempts_max: 1,
        then: DeadLetterAction::MoveTo(key("dead")),
        carries: Carries::History,
        written_by: "sqs".into(),
    };
    let plain = asked.queue("plain", Policy { dead_letters: Some(rule.into()), ..Policy::standard() });
    [asked.queue("row.fifo", Policy::fifo()), plain, dead]
}

fn rewriting(queue: QueueId, token: LeaseToken, body: &str) -> Command {
    let content = Some(Content { body: body.to_owned().into(), ..Content::default() });
    let entries = vec![Extension { token, length: Duration::ZERO, content }];
    Command::Extend(Extend {
        queue,
        receipt: ReceiptRule::Any,
        when_free: WhenFree::Hide,
        renew: false,
        entries,
    })
}

/// How messages of the FIFO queue go.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ends {
    /// By acks alone.
    Acked,
    /// Also by a rule that drops them after one lease, and by purges.
    Dropped,
}

impl Ends {
    /// The queues, of which the first is the FIFO queue.
    fn queues(self, asked: &Asked) -> [QueueId; 3] {
        let [row, plain, dead] = queues(asked);
        if self == Self::Acked {
            return [row, plain, dead];
        }
        let rule = DeadLetterRule {
            attempts_max: 1,
            then: DeadLetterAction::Drop,
            carries: Carries::History,
            written_by: "sqs".into(),
        };
        let policy = Policy { dead_letters: Some(rule.into()), ..Policy::fifo() };
        [asked.queue("dropping.fifo", policy), plain, dead]
    }
}

/// Which messages somebody holds, and in which version; acked ones may be gone.
#[derive(Default)]
struct Held {
    versions: BTreeMap<u64, u64>,
    /// What an ack was asked for: any receipt of it may have been meant.
    acked: BTreeSet<u64>,
    /// The groups of messages on the FIFO queue, by message.
    rows: BTreeMap<u64, String>,
    /// The first message of each group that somebody was given last: those before it are gone.
    begun: BTreeMap<String, u64>,
}

impl Held {
    fn hear(&mut self, leased: &[Leased]) {
        for leased in leased {
            let (number, version) = version_of(leased);
            let known = self.versions.entry(number).or_default();
            *known = version.max(*known);
        }
        // From the last to the first: a group's first message counts.
        let rows = leased.iter().rev().map(|leased| version_of(leased).0);
        for (number, group) in rows.filter_map(|number| Some((number, self.rows.get(&number)?))) {
            self.begun.insert(group.clone(), number);
        }
    }

    /// Everything that is held must be found, as new as it is held or newer.
    fn check(&self, disk: &SimDisk, ends: Ends, what: &str) {
        let text = text_of(&opened(disk).store).unwrap();
        let bodies = text.split("\"m").skip(1).filter_map(|rest| parse(rest.split('"').next()?));
        let found: BTreeMap<u64, u64> = bodies.collect();
        let may_go =
            |number| self.acked.contains(number) || (ends == Ends::Dropped && self.rows.contains_key(number));
        let owed = self.versions.iter().filter(|(number, _)| !may_go(*number));
        for (number, version) in owed {
            let is_there = found.get(number).is_some_and(|found| found >= version);
            assert!(is_there, "{what}: message {number} is held as {version}, found {:?}", found.get(number));
        }
        for number in found.keys() {
            let begun = self.rows.get(number).and_then(|group| self.begun.get(group));
            assert!(begun.is_none_or(|begun| begun <= number), "{what}: {number} is back, behind {begun:?}");
        }
    }
}

/// Number and version of a body such as `m12v3`; the first letter may be missing.
fn parse(body: &str) -> Option<(u64, u64)> {
    let (number, version) = body.trim_start_matches('m').split_once('v')?;
    Some((number.parse().ok()?, version.parse().ok()?))
}

fn version_of(leased: &Leased) -> (u64, u64) {
    parse(std::str::from_utf8(&leased.message.content.body).unwrap()).unwrap()
}

#[test]
fn no_power_cut_takes_a_message_that_a_receiver_was_given_or_puts_one_before_it_in_its_group() {
    let early = cut_the_power_behind_every_step(Ends::Acked);
    assert!(early > 80, "{early} leases were answered before a sync");
}

#[test]
fn no_power_cut_brings_back_what_was_dropped_or_purged_behind_a_message_that_a_receiver_was_given() {
    let early = cut_the_power_behind_every_step(Ends::Dropped);
    assert!(early > 40, "{early} leases were answered before a sync");
}

/// Answers how many leases were answered before a sync.
fn cut_the_power_behind_every_step(ends: Ends) -> u32 {
    let mut early = 0;
    for seed in 1..=16 {
        let disk = SimDisk::new();
        let mut asked = opened(&disk);
        let queues = ends.queues(&asked);
        let (chance, mut held, mut sent) = (entropy(seed), Held::default(), 0);
        let mut waiting: Vec<Submission> = Vec::new();
        let mut holding: Vec<(QueueId, Leased)> = Vec::new();
        for step in 0..150 {
            let queue = queues[chance.bits() as usize % 3];
            match chance.bits() % 12 {
                0..=3 => {
                    sent += 1;
                    let body = format!("m{sent}v0");
                    let message = if queue == queues[0] {
                        let group = format!("g{}", sent % 3);
                        held.rows.insert(sent, group.clone());
                        asked.row(&body, &group, &format!("d{sent}"))
                    } else {
                        asked.message(&body)
                    };
                    let send = asked.store.step(
                        asked.now,
                        &Command::Send(Send {
                            queue,
                            messages: vec![message],
                            receipts: FirstReceipts::Told,
                        }),
                    );
                    assert!(send.peek().is_some(), "a send was refused");
                }
                4..=7 => waiting.push(leasing(&asked, queue, 2)),
                // All of them: a message that comes back is offered before fresh ones.
                8..=9 => {
                    for (queue, leased) in holding.drain(..) {
                        held.acked.insert(version_of(&leased).0);
                        let ack = Ack { queue, receipt: ReceiptRule::Any, tokens: vec![leased.token] };
                        asked.store.step(asked.now, &Command::Ack(ack));
                    }
                }
                10 => {
                    if let Some((queue, leased)) = holding.pop() {
                        let (number, version) = version_of(&leased);
                        let body = format!("m{number}v{}", version + 1);
                        asked.store.step(asked.now, &rewriting(queue, leased.token, &body));
                    }
                }
                _ if chance.bits().is_multiple_of(4) => {
                    asked.later(Duration::from_secs(31));
                    if ends == Ends::Dropped {
                        holding.clear();
                    }
                }
                _ if ends == Ends::Dropped && chance.bits().is_multiple_of(4) => {
                    asked.store.step(asked.now, &Command::Purge(Purge { queue: queues[0] }));
                    holding.retain(|(queue, _)| *queue != queues[0]);
                }
                _ => {
                    let _kept_up = asked.store.keep_up();
                }
            }
            let is_synced = chance.bits().is_multiple_of(8);
            if is_synced {
                asked.store.commit();
            } else {
                asked.store.write();
            }
            waiting.retain_mut(|answer| match answer_of(answer) {
                Some(Ok(Outcome::Leased(leased))) => {
                    early += u32::from(!is_synced && !leased.is_empty());
                    held.hear(&leased);
                    holding.extend(leased.into_iter().map(|leased| (leased.message.queue, leased)));
                    false
                }
                Some(other) => panic!("{other:?}"),
                None => true,
            });
            for found in [Found::Lost, Found::Torn] {
                held.check(
                    &disk.reopen(seed + step, found),
                    ends,
                    &format!("seed {seed}, step {step}, {found:?}"),
                );
            }
        }
    }
    early
}
