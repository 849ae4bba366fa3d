//! One history, driven through the model and a subject side by side.

use std::collections::BTreeSet;
use std::fmt;
use std::mem;

use kew_core::command::Lease;
use kew_core::model::Model;
use kew_core::outcome::Leased;
use kew_core::{Command, LeaseToken, Outcome, QueueId, RuleError, Sequence, State, Timestamp};

use super::pairs::{Pairs, compared, tokens_of};
use super::random::SeededEntropy;
use super::subject::{Answer, Subject};
use super::trace::{Action, Pair, Places, Step, place};
use crate::StoreError;

/// Keeps the model's chance apart from the one its history is made of.
const CHANCE_OF_MODEL: u64 = 0x6d6f_6465_6c00_0000;

/// Where the two sides said different things.
#[derive(Clone)]
pub struct Mismatch {
    /// At which step.
    pub number: u32,
    /// What was asked, and what each side said.
    pub what: String,
}

impl fmt::Debug for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at step #{}: {}", self.number, self.what)
    }
}

/// A receipt that was given out, for the generator to choose from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    /// How a history writes it.
    pub place: LeaseToken,
    /// Whether it was given out after the last restart.
    pub since_restart: bool,
}

/// A step the model has taken and the subject has yet to answer.
struct Pending {
    number: u32,
    now: Timestamp,
    asked: Command,
    for_subject: Command,
    expected: Result<Outcome, RuleError>,
    freed: Vec<QueueId>,
}

/// The model, the subject, and what ties them together.
pub(super) struct Run<'a> {
    pub model: Model,
    subject: &'a mut dyn Subject,
    pairs: Pairs,
    places: Places,
    pub known: Vec<Known>,
    pending: Vec<Pending>,
    restarted: bool,
    now: Timestamp,
}

impl<'a> Run<'a> {
    pub fn new(seed: u64, subject: &'a mut dyn Subject) -> Self {
        Self {
            model: Model::new(Box::new(SeededEntropy::new(seed ^ CHANCE_OF_MODEL))),
            subject,
            pairs: Pairs::default(),
            places: Places::default(),
            known: Vec::new(),
            pending: Vec::new(),
            restarted: false,
            now: Timestamp::ZERO,
        }
    }

    /// Takes one step; the answers are compared when it commits.
    pub fn step(&mut self, step: &Step) -> Result<(), Mismatch> {
        self.now = step.now;
        match &step.action {
            Action::Do(command) => self.submit(step, command)?,
            Action::Restart(ending) => {
                self.settle()?;
                if self.subject.restart(*ending) {
                    self.restarted = true;
                    self.known.iter_mut().for_each(|known| known.since_restart = false);
                }
            }
        }
        if step.commits {
            self.settle()?;
            if step.checks {
                self.check_figures(step.number)?;
            }
        }
        Ok(())
    }

    /// Commits what is left and looks at all figures.
    pub fn finish(&mut self, number: u32) -> Result<(), Mismatch> {
        self.settle()?;
        self.check_figures(number)
    }

    fn submit(&mut self, step: &Step, asked: &Command) -> Result<(), Mismatch> {
        if let Command::Send(send) = asked {
            send.messages.iter().for_each(|message| self.pairs.note_sent(message.id));
        }
        let (for_model, for_subject) = self.places.resolve(asked);
        let running = match asked {
            Command::Lease(lease) => running_leases(&self.model, lease.queue, step.now),
            _ => BTreeSet::new(),
        };
        let offered_before: BTreeSet<_> = self.model.offered().into_iter().collect();
        let expected = self.model.step(step.now, for_model);
        let newly = |offered: &(QueueId, Sequence)| !offered_before.contains(offered);
        let freed: BTreeSet<_> =
            self.model.offered().into_iter().filter(newly).map(|(queue, _)| queue).collect();
        if let (Command::Lease(lease), Ok(Outcome::Leased(leased))) = (asked, &expected) {
            let checked = check_laws(&self.model, lease, leased, &running);
            checked.map_err(|what| Mismatch { number: step.number, what })?;
        }
        self.pending.push(Pending {
            number: step.number,
            now: step.now,
            asked: asked.clone(),
            for_subject,
            expected,
            freed: freed.into_iter().collect(),
        });
        Ok(())
    }

    fn settle(&mut self) -> Result<(), Mismatch> {
        let pending = mem::take(&mut self.pending);
        let batch = pending.iter().map(|each| (each.now, each.for_subject.clone())).collect();
        let answers = self.subject.steps(batch);
        assert_eq!(answers.len(), pending.len(), "a subject answers every step");
        pending.into_iter().zip(answers).try_for_each(|(pending, answer)| self.compare(pending, answer))
    }

    fn compare(&mut self, pending: Pending, answer: Answer) -> Result<(), Mismatch> {
        let mismatch = |model: &dyn fmt::Debug, subject: &dyn fmt::Debug| {
            let what = format!(
                "{:?} {:?}\n  model:   {model:?}\n  subject: {subject:?}",
                pending.now, pending.asked
            );
            Err(Mismatch { number: pending.number, what })
        };
        match (pending.expected, answer.result) {
            (Ok(expected), Ok(got)) => {
                let tokens = tokens_of(&got);
                let translated = self.pairs.translate(&expected, got);
                let given = tokens_of(&expected);
                let expected = compared(expected);
                // After a restart a store tells of the past only what it finds left of its log.
                let forgiven = self.restarted && matches!(translated, Outcome::History(_));
                if translated != expected && !forgiven {
                    return mismatch(&expected, &translated);
                }
                for ((entry, of_model), (_, of_subject)) in given.into_iter().zip(tokens) {
                    let place = place(pending.number, entry, of_model.queue, of_model.sequence);
                    self.places.fill(place, Pair { of_model, of_subject });
                    self.known.push(Known { place, since_restart: true });
                }
            }
            (Err(expected), Err(StoreError::Rule(got))) if expected == got => {}
            (expected, got) => return mismatch(&expected, &got),
        }
        if let Some(named) = answer.freed
            && let Some(missing) = pending.freed.iter().find(|queue| !named.contains(queue))
        {
            return mismatch(
                &format!("messages became available in {missing:?}"),
                &format!("freed {named:?}"),
            );
        }
        Ok(())
    }

    fn check_figures(&mut self, number: u32) -> Result<(), Mismatch> {
        self.model.audit();
        for queue in self.model.queues().map(|queue| queue.id).collect::<Vec<_>>() {
            let command = Command::Counts(queue);
            let step = Step {
                number,
                now: self.now,
                action: Action::Do(Box::new(command.clone())),
                commits: true,
                checks: false,
            };
            self.submit(&step, &command)?;
        }
        self.settle()?;
        let (expected, got) = (self.model.next_due(), self.subject.next_due());
        let late = |got: Option<Timestamp>| expected.is_some_and(|due| got.is_none_or(|got| got > due));
        if got.is_some_and(late) {
            let what = format!("next due\n  model:   {expected:?}\n  subject: {got:?}, which is too late");
            return Err(Mismatch { number, what });
        }
        Ok(())
    }
}

/// The messages of a queue that no receive may get now.
fn running_leases(model: &Model, queue: QueueId, now: Timestamp) -> BTreeSet<Sequence> {
    let running = |state: State| matches!(state, State::Leased { until } if until > now);
    let stored = model.messages(queue).into_iter();
    stored.filter(|(.., state)| running(*state)).map(|(sequence, ..)| sequence).collect()
}

/// Laws that can be seen from a receive's outcome and what is stored, whatever rotation or rank did.
fn check_laws(
    model: &Model,
    lease: &Lease,
    leased: &[Leased],
    running: &BTreeSet<Sequence>,
) -> Result<(), String> {
    let taken: BTreeSet<_> = leased.iter().map(|leased| leased.message.sequence).collect();
    if taken.len() != leased.len() {
        return Err(format!("law 2: one receive returned a message twice: {leased:?}"));
    }
    let is_fifo = model.queues().any(|queue| queue.id == lease.queue && queue.policy.kind.is_fifo());
    let repeated = is_fifo && lease.attempt.is_some();
    if let Some(twice) = taken.intersection(running).next().filter(|_| !repeated) {
        return Err(format!("law 2: {twice:?} was leased while it was leased"));
    }
    let stored = if is_fifo && !repeated { model.messages(lease.queue) } else { Vec::new() };
    for each in leased {
        let ahead = stored.iter().filter(|(sequence, group, _)| {
            *sequence < each.message.sequence && *group == each.message.group && !taken.contains(sequence)
        });
        if let Some((sequence, _, state)) = ahead.into_iter().next() {
            let after = each.message.sequence;
            return Err(format!(
                "law 4: {after:?} was leased before {sequence:?} of its group, which is {state:?}"
            ));
        }
    }
    Ok(())
}
