//! Random histories of two shards: sends, leases, carriers that come and go, late batches, checkpoints, crashes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use kew_core::command::{Bring, Settle};
use kew_core::{Carries, Command, Entropy, Outcome, OwedMessage, Policy, QueueId, Sequence};
use kew_store::contract::model::SeededEntropy;
use kew_store::{Store, Submission};
use kew_store_log::Found;

use crate::pair::{Pair, body, carry, lease, rule};
use crate::small_store::answer_of;

/// Histories of the plain run, and those in which a planted fault is found.
const HISTORIES: u64 = 60;
const STEPS: usize = 160;

/// A fault in how messages are carried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Planted {
    /// A batch is settled before its target has it.
    SettledFirst,
    /// The target does not know what came before.
    NothingNoted,
    /// A batch is carried that is not durable at its source.
    NotDurable,
    /// What the target has is settled before it is durable there.
    AnsweredEarly,
}

/// What one carrier is doing.
enum Carrying {
    Nothing,
    Reading(QueueId, QueueId, Submission),
    Bringing(QueueId, Submission),
    Settling(Submission),
}

/// A batch as it was carried once: a carrier that hung may bring it much later.
type Late = (QueueId, QueueId, Vec<OwedMessage>);

struct History {
    pair: Pair,
    chance: SeededEntropy,
    planted: Option<Planted>,
    /// Standard, and FIFO: the source and its dead-letter queue.
    ways: [(QueueId, QueueId); 2],
    carrying: Carrying,
    late: VecDeque<Late>,
    sent: BTreeSet<String>,
    /// What consumers deleted, in order.
    taken: Vec<String>,
    brought: u64,
}

impl History {
    fn new(seed: u64, planted: Option<Planted>) -> Self {
        let pair = Pair::new();
        let dead = pair.queue(1, "dead", Policy::standard());
        let dead_row = pair.queue(1, "dead.fifo", Policy::fifo());
        let dead_letters = rule("dead", Carries::History);
        let source = pair.queue(0, "source", Policy { dead_letters, ..Policy::standard() });
        let dead_letters = rule("dead.fifo", Carries::History);
        let row = pair.queue(0, "row.fifo", Policy { dead_letters, ..Policy::fifo() });
        Self {
            pair,
            chance: SeededEntropy::new(seed),
            planted,
            ways: [(source, dead), (row, dead_row)],
            carrying: Carrying::Nothing,
            late: VecDeque::new(),
            sent: BTreeSet::new(),
            taken: Vec::new(),
            brought: 0,
        }
    }

    fn below(&self, bound: u64) -> u64 {
        (self.chance.bits() >> 8) % bound
    }

    fn pick<T>(&self, of: &[T]) -> usize {
        usize::try_from(self.below(of.len() as u64)).unwrap()
    }

    fn step(&mut self) {
        match self.below(20) {
            0..=4 => self.send(),
            5..=7 => self.lease(),
            8..=13 => self.carry_on(),
            14 => self.bring_late(),
            15 => self.take(),
            16 => self.commit(),
            17 => self.pair.at(self.pick(&[0, 1])).store.checkpoint().unwrap(),
            18 => self.pair.later(Duration::from_secs(self.below(3) * 20)),
            _ => self.crash(),
        }
    }

    fn commit(&self) {
        for shard in &self.pair.shards {
            let _was_something_pending = shard.asked.store.commit();
        }
    }

    fn send(&mut self) {
        let number = self.sent.len();
        if self.below(2) == 0 {
            let text = format!("s {number}");
            self.pair.at(0).send(self.ways[0].0, &text);
            self.sent.insert(text);
        } else {
            let group = self.below(2);
            let text = format!("g{group} {number:04}");
            let message = self.pair.at(0).row(&text, &format!("g{group}"), &format!("d{number}"));
            self.pair.at(0).try_send(self.ways[1].0, message).unwrap();
            self.sent.insert(text);
        }
    }

    /// Leases and lets the leases lapse. What departs by that is not committed yet.
    fn lease(&mut self) {
        let (source, _) = self.ways[self.pick(&self.ways)];
        let now = self.pair.at(0).now;
        drop(self.pair.at(0).store.step(now, &lease(source, 3, now)));
        self.pair.later(Duration::from_secs(31));
        drop(self.pair.at(0).store.step(self.pair.at(0).now, &Command::Due));
    }

    /// The carrier does its next step, if that may be done by now.
    fn carry_on(&mut self) {
        self.carrying = match std::mem::replace(&mut self.carrying, Carrying::Nothing) {
            Carrying::Nothing => self.begin(),
            Carrying::Reading(outbox, target, answer) => self.read(outbox, target, answer),
            Carrying::Bringing(outbox, mut answer) => {
                if self.planted == Some(Planted::AnsweredEarly)
                    && let Some(Outcome::Brought(Some(through))) = answer.peek().cloned()
                {
                    self.settling(outbox, through)
                } else {
                    match answer_of(&mut answer) {
                        None => Carrying::Bringing(outbox, answer),
                        Some(Ok(Outcome::Brought(Some(through)))) => self.settling(outbox, through),
                        Some(other) => panic!("{other:?}"),
                    }
                }
            }
            Carrying::Settling(mut answer) => match answer_of(&mut answer) {
                None => Carrying::Settling(answer),
                Some(_) => Carrying::Nothing,
            },
        };
    }

    fn begin(&self) -> Carrying {
        let owing = self.pair.at(0).store.step(self.pair.at(0).now, &Command::Owing);
        let Some(Outcome::Owing(owing)) = owing.peek() else { panic!("a look is answered") };
        if owing.is_empty() {
            return Carrying::Nothing;
        }
        let owing = owing[self.pick(owing)];
        let max = u32::try_from(1 + self.below(4)).unwrap();
        let answer = self.pair.at(0).store.step(self.pair.at(0).now, &carry(owing.outbox, max));
        Carrying::Reading(owing.outbox, owing.target, answer)
    }

    fn read(&mut self, outbox: QueueId, target: QueueId, mut answer: Submission) -> Carrying {
        let read = match self.planted {
            Some(Planted::NotDurable) => answer.peek().cloned().map(Ok).or_else(|| answer_of(&mut answer)),
            _ => answer_of(&mut answer),
        };
        let messages = match read {
            None => return Carrying::Reading(outbox, target, answer),
            Some(Ok(Outcome::Owed(messages))) => messages,
            Some(other) => panic!("{other:?}"),
        };
        let Some(last) = messages.last() else { return Carrying::Nothing };
        let through = last.sequence;
        self.late.push_back((outbox, target, messages.clone()));
        if self.planted == Some(Planted::SettledFirst) {
            return self.settling(outbox, through);
        }
        Carrying::Bringing(outbox, self.bring((outbox, target, messages)))
    }

    fn bring(&mut self, (outbox, target, messages): Late) -> Submission {
        self.brought += 1;
        let outbox = match self.planted {
            Some(Planted::NothingNoted) => QueueId(1_000_000 + 2 * self.brought),
            _ => outbox,
        };
        let bring = Command::Bring(Bring { target, outbox, messages });
        self.pair.at(1).store.step(self.pair.at(1).now, &bring)
    }

    fn settling(&self, outbox: QueueId, through: Sequence) -> Carrying {
        let settle = Command::Settle(Settle { outbox, through });
        Carrying::Settling(self.pair.at(0).store.step(self.pair.at(0).now, &settle))
    }

    /// A carrier that hung goes on.
    fn bring_late(&mut self) {
        if let Some(late) = self.late.pop_front() {
            drop(self.bring(late));
        }
    }

    fn take(&mut self) {
        let (_, dead) = self.ways[self.pick(&self.ways)];
        let leased = self.pair.at(1).lease(dead, 2);
        self.pair.at(1).ack(dead, &leased);
        self.taken.extend(leased.iter().map(body));
    }

    /// The power goes, or the process: a carrier at the source is gone with it.
    fn crash(&mut self) {
        let shard = self.pick(&[0, 1]);
        let disk = &self.pair.shards[shard].disk;
        let disk = match self.below(4) {
            0 => disk.reopen_process_crash(),
            1 => disk.reopen(self.chance.bits(), Found::Lost),
            2 => disk.reopen(self.chance.bits(), Found::Torn),
            _ => disk.reopen(self.chance.bits(), Found::Kept),
        };
        self.pair.reopen(shard, disk);
        self.carrying = Carrying::Nothing;
    }

    /// Carries the rest, takes everything there is, and looks whether each message was taken once.
    fn judge(mut self) -> Result<usize, String> {
        while let Some(late) = self.late.pop_back() {
            drop(self.bring(late));
        }
        self.pair.at(1).store.commit();
        if self.planted.is_none() {
            self.pair.carry_all(0);
        } else {
            for _ in 0..1_000 {
                self.carry_on();
                self.commit();
            }
        }
        self.pair.later(Duration::from_secs(60));
        for (_, dead) in self.ways {
            self.taken.extend(self.pair.drain(1, dead));
        }
        self.in_order()?;
        let arrived = self.taken.len();
        for (source, _) in self.ways {
            self.taken.extend(self.rest_of(source));
        }
        let mut times = BTreeMap::new();
        self.taken.iter().for_each(|body| *times.entry(body.as_str()).or_insert(0) += 1);
        for body in &self.sent {
            match times.remove(body.as_str()) {
                Some(1) => {}
                times => return Err(format!("{body} was taken {} times", times.unwrap_or(0))),
            }
        }
        if times.is_empty() { Ok(arrived) } else { Err(format!("never sent: {times:?}")) }
    }

    /// What has not left its queue: its rule would move it when it is leased, so it is looked at instead.
    fn rest_of(&self, source: QueueId) -> Vec<String> {
        let browse = kew_core::command::Browse::of(source, 1_000);
        let Outcome::Browsed(page) = self.pair.at(0).ask(Command::Browse(browse)) else { panic!("no page") };
        let text = |body: &[u8]| String::from_utf8_lossy(body).into_owned();
        page.messages.iter().map(|seen| text(&seen.message.content.body)).collect()
    }

    /// What was taken of each group came in the order of its sends.
    fn in_order(&self) -> Result<(), String> {
        for group in ["g0", "g1"] {
            let of_group = self.taken.iter().filter(|body| body.starts_with(group));
            if !of_group.clone().is_sorted() {
                return Err(format!("out of order: {:?}", of_group.collect::<Vec<_>>()));
            }
        }
        Ok(())
    }
}

/// How many messages arrived at their targets.
fn outcome_of(seed: u64, planted: Option<Planted>) -> Result<usize, String> {
    let mut history = History::new(seed, planted);
    for _ in 0..STEPS {
        history.step();
    }
    history.judge()
}

#[test]
fn every_message_arrives_once_and_in_order_whatever_crashes() {
    let mut arrived = 0;
    for seed in 0..HISTORIES {
        arrived += outcome_of(seed, None).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
    }
    assert!(arrived > 500, "only {arrived} messages moved");
}

#[test]
fn histories_notice_every_planted_fault() {
    for planted in [Planted::SettledFirst, Planted::NothingNoted, Planted::NotDurable, Planted::AnsweredEarly]
    {
        let found = (0..HISTORIES).find(|seed| outcome_of(*seed, Some(planted)).is_err());
        assert!(found.is_some(), "no history noticed {planted:?}");
    }
}
