//! Shows that the random histories come by everything they are there to compare.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::rc::Rc;

use kew_core::outcome::Extended;
use kew_core::{Command, LeaseToken, Outcome, Timestamp, WhenFree};

use super::{Answer, ModelSubject, Subject, differs};
use crate::StoreError;
use crate::contract::Ending;

type Tally = Rc<RefCell<BTreeMap<String, u64>>>;

/// Notes what the steps of a history lead to.
struct Tallied {
    inner: ModelSubject,
    tally: Tally,
    receipts: BTreeSet<LeaseToken>,
}

impl Tallied {
    fn note(&self, what: String) {
        *self.tally.borrow_mut().entry(what).or_default() += 1;
    }

    fn note_entries<T, E: Debug>(&self, entries: &[Result<T, E>], name: &str, done: impl Fn(&T) -> String) {
        for entry in entries {
            self.note(match entry {
                Ok(entry) => done(entry),
                Err(error) => format!("{name} {}", first_word(error)),
            });
        }
    }

    fn note_answer(&mut self, asked: &Command, result: &Result<Outcome, StoreError>) {
        let outcome = match result {
            Ok(outcome) => outcome,
            Err(StoreError::Rule(error)) => {
                return self.note(format!("{} {}", first_word(asked), first_word(error)));
            }
            Err(error) => panic!("the model has no such error: {error}"),
        };
        match (asked, outcome) {
            (_, Outcome::Sent(sent)) => {
                sent.iter().for_each(|sent| self.note(format!("Sent duplicate={}", sent.duplicate)));
            }
            (_, Outcome::Leased(leased)) => {
                if leased.is_empty() {
                    self.note("Leased nothing".into());
                }
                for leased in leased {
                    let repeated = !self.receipts.insert(leased.token);
                    let ordinary = format!("Leased attempts={}", leased.message.attempts.min(4));
                    self.note(if repeated { "Leased repeated".into() } else { ordinary });
                }
            }
            (_, Outcome::Withdrawn(count)) => self.note(format!("Withdrawn {}", count.min(&2))),
            (_, Outcome::Acked(entries)) => self.note_entries(entries, "Ack", |()| "Acked".into()),
            (Command::Extend(extend), Outcome::Extended(entries)) => {
                let hides = extend.when_free == WhenFree::Hide;
                self.note_entries(entries, "Extend", |entry| match entry {
                    Extended::Free => "Extended free".into(),
                    Extended::Until { .. } => format!("Extended hides={hides} renew={}", extend.renew),
                });
            }
            (_, Outcome::Released(entries)) => self.note_entries(entries, "Release", |_| "Released".into()),
            (_, Outcome::Promoted(entries)) => {
                self.note_entries(entries, "Promote", |()| "Promoted".into());
            }
            (_, Outcome::MovedChosen(entries)) => {
                self.note_entries(entries, "MoveChosen", |_| "Moved".into());
            }
            (_, Outcome::Move(task)) => self.note(format!("Move {:?}", task.state)),
            (_, Outcome::Peeked(seen)) => {
                seen.iter()
                    .for_each(|(message, _)| self.note(format!("Peeked {}", first_word(&message.state))));
            }
            (_, Outcome::Browsed(page)) => {
                page.messages
                    .iter()
                    .for_each(|seen| self.note(format!("Browsed {}", first_word(&seen.message.state))));
                self.note(format!("Browsed more={}", page.next.is_some()));
            }
            (_, Outcome::History(events)) => {
                events.iter().for_each(|event| self.note(format!("Event {}", first_word(&event.kind))));
            }
            (_, outcome) => self.note(first_word(outcome)),
        }
    }
}

impl Subject for Tallied {
    fn steps(&mut self, batch: Vec<(Timestamp, Command)>) -> Vec<Answer> {
        let asked: Vec<_> = batch.iter().map(|(_, command)| command.clone()).collect();
        let answers = self.inner.steps(batch);
        asked.iter().zip(&answers).for_each(|(asked, answer)| self.note_answer(asked, &answer.result));
        answers
    }

    fn restart(&mut self, ending: Ending) -> bool {
        self.note(format!("Restart {ending:?}"));
        self.inner.restart(ending)
    }

    fn next_due(&self) -> Option<Option<Timestamp>> {
        self.inner.next_due()
    }
}

fn first_word(value: &impl Debug) -> String {
    let text = format!("{value:?}");
    text.split(|letter: char| !letter.is_alphanumeric()).next().unwrap_or_default().to_owned()
}

/// Each of these comes up at least five times in [`HISTORIES`] histories.
const REACHED: &[&str] = &[
    "Ack LeaseEnded",
    "Ack MessageNotFound",
    "Ack TokenForged",
    "Ack TokenOfOtherQueue",
    "Ack TokenStale",
    "Acked",
    "Browsed Delayed",
    "Browsed Leased",
    "Browsed Ready",
    "Browsed more=false",
    "Browsed more=true",
    "CreateQueue QueueExists",
    "DeleteQueue VersionChanged",
    "Event Arrived",
    "Event DeadLettered",
    "Event Dropped",
    "Event Expired",
    "Event Lapsed",
    "Event Redriven",
    "Event Rewritten",
    "Extend LeaseEnded",
    "Extend LeaseTooLong",
    "Extend TokenStale",
    "Extended free",
    "Extended hides=false renew=false",
    "Extended hides=false renew=true",
    "Extended hides=true renew=false",
    "Extended hides=true renew=true",
    "Lease FirstTooLarge",
    "Lease TooManyInFlight",
    "Leased attempts=1",
    "Leased attempts=2",
    "Leased attempts=3",
    "Leased attempts=4",
    "Leased nothing",
    "Leased repeated",
    "Move Cancelled",
    "Move Completed",
    "Move Failed(OriginUnknown)",
    "Move Failed(SourceMissing)",
    "Move Running",
    "MoveChosen KindChange",
    "MoveChosen LeaseEnded",
    "MoveChosen QueueNotFound",
    "MoveChosen TokenStale",
    "Moved",
    "Peeked Delayed",
    "Peeked Leased",
    "Peeked Ready",
    "Promote NotDelayed",
    "Promoted",
    "Purged",
    "PutDocuments VersionChanged",
    "QueueDeleted",
    "Release LeaseEnded",
    "Release TokenStale",
    "Released",
    "Restart Close",
    "Restart Kill",
    "Send DeduplicationMissing",
    "Send DeduplicationNotAllowed",
    "Send DelayNotAllowed",
    "Send GroupMissing",
    "Sent duplicate=false",
    "Sent duplicate=true",
    "StartMove TaskRunning",
    "StartMove TooManyTasks",
    "UpdateQueue KindChange",
    "UpdateQueue QueueExists",
    "UpdateQueue VersionChanged",
    "Withdrawn 0",
    "Withdrawn 1",
    "Withdrawn 2",
];

const HISTORIES: u64 = 150;

#[test]
fn histories_come_by_everything_worth_comparing() {
    let tally = Tally::default();
    let make = |seed| {
        let (inner, tally) = (ModelSubject::new(seed), tally.clone());
        Box::new(Tallied { inner, tally, receipts: BTreeSet::new() }) as Box<dyn Subject>
    };
    for seed in 1..=HISTORIES {
        assert!(!differs(seed, &make), "seed {seed}: a model differs from a model");
    }
    let tally = tally.borrow();
    tally.iter().for_each(|(what, count)| println!("{count:8} {what}"));
    let rare: Vec<_> =
        REACHED.iter().filter(|what| tally.get(**what).is_none_or(|count| *count < 5)).collect();
    assert!(rare.is_empty(), "never or hardly ever reached: {rare:?}");
}
