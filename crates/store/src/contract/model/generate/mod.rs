//! Invents the next step of a history, looking at the model so that things meet: tokens that count and tokens that just
//! do not, instants at which something ends and the ones beside them, few names and few groups.

mod looking;
mod messages;
mod moves;
mod receipts;
mod settings;
mod things;

use std::time::Duration;

use kew_core::{Command, QueueId, Text, Timestamp};

use super::random::Random;
use super::run::Run;
use super::subject::Subject;
use super::trace::{Action, Step};
use crate::contract::Ending;

/// Makes up one history.
pub(super) struct Generator {
    random: Random,
    number: u32,
    now: Timestamp,
    /// Steps until the next commit.
    in_batch: u64,
    batch_max: u64,
    checks_always: bool,
    /// One group that sends and leases much, so that it becomes noisy.
    crowded: bool,
    unique: u64,
    /// The receive that may be asked again.
    last_attempt: Option<(QueueId, Text)>,
    /// Whether queues may have a rule for messages that were tried too often.
    has_dead_letters: bool,
    /// Whether FIFO queues have several groups.
    has_groups: bool,
}

/// The kinds of step, each with how often it comes.
type Invent = fn(&mut Generator, &Run<'_>) -> Option<Command>;

const KINDS: [(u64, Invent); 27] = [
    (26, Generator::send),
    (26, Generator::lease),
    (10, Generator::ack),
    (10, Generator::extend),
    (9, Generator::release),
    (3, Generator::withdraw),
    (3, Generator::promote),
    (6, Generator::peek),
    (4, Generator::browse),
    (2, Generator::identify),
    (2, Generator::counts),
    (2, Generator::due),
    (4, Generator::update_queue),
    (3, Generator::create_queue),
    (1, Generator::delete_queue),
    (1, Generator::purge),
    (2, Generator::start_move),
    (4, Generator::continue_move),
    (1, Generator::cancel_move),
    (1, Generator::list_moves),
    (2, Generator::move_chosen),
    (1, Generator::queues),
    (1, Generator::put_documents),
    (1, Generator::documents),
    (2, Generator::history),
    (1, Generator::release_owners),
    (1, Generator::hold_expiry),
];

impl Generator {
    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let batch_max = if random.chance(30) { 8 } else { 1 };
        Self {
            number: 0,
            now: Timestamp(1_000_000 + random.below(1_000)),
            in_batch: 1,
            batch_max,
            checks_always: random.chance(75),
            crowded: random.chance(10),
            unique: 0,
            last_attempt: None,
            has_dead_letters: true,
            has_groups: true,
            random,
        }
    }

    /// The same without what the subject does in another order than the model.
    pub fn of(seed: u64, subject: &dyn Subject) -> Self {
        let mut generator = Self::new(seed);
        if !subject.orders_dead_letters() {
            generator = generator.without_dead_letters();
        }
        if !subject.orders_groups() {
            generator = generator.in_one_group();
        }
        generator
    }

    /// The same history without rules for messages that were tried too often.
    pub fn without_dead_letters(self) -> Self {
        Self { has_dead_letters: false, ..self }
    }

    /// The same history with one group on FIFO queues.
    pub fn in_one_group(self) -> Self {
        Self { has_groups: false, ..self }
    }

    /// How many steps the history has.
    pub fn length(&mut self) -> u64 {
        200 + self.random.below(201)
    }

    pub fn next(&mut self, run: &Run<'_>) -> Step {
        self.number += 1;
        if self.number > 4 {
            self.pass_time(run);
        }
        let action = self.action(run);
        self.in_batch -= 1;
        let commits = self.in_batch == 0 || matches!(action, Action::Restart(_));
        if commits {
            self.in_batch = 1 + self.random.below(self.batch_max);
        }
        let checks = self.checks_always || self.random.chance(12);
        Step { number: self.number, now: self.now, action, commits, checks }
    }

    fn action(&mut self, run: &Run<'_>) -> Action {
        if self.number <= 4 {
            return Action::Do(Box::new(self.first_queue(self.number as usize)));
        }
        if self.random.below(150) == 0 {
            let ending = if self.random.chance(50) { Ending::Close } else { Ending::Kill };
            return Action::Restart(ending);
        }
        let weights = KINDS.map(|(weight, _)| weight);
        loop {
            let (_, invent) = KINDS[self.random.weighted(&weights)];
            if let Some(command) = invent(self, run) {
                return Action::Do(Box::new(command));
            }
        }
    }

    /// Mostly none; else to just before, at, or just after something that ends; sometimes far.
    fn pass_time(&mut self, run: &Run<'_>) {
        let later = match self.random.below(100) {
            0..50 => self.now,
            50..60 => self.now.plus(self.random.millis(&[1, 2, 10, 500])),
            60..93 => {
                let windows = self.random.chance(8);
                let ids = || run.model.remembered().into_iter().map(|(.., end)| end).collect();
                let mut ahead: Vec<_> = if windows { ids() } else { run.model.instants() };
                ahead.retain(|at| *at > self.now);
                ahead.sort();
                ahead.dedup();
                let near = if self.random.chance(75) { ahead.len().min(4) } else { ahead.len() };
                let at = self.random.pick(&ahead[..near]).copied().unwrap_or(self.now);
                let beside = Duration::from_millis(1);
                match self.random.below(4) {
                    0 => at.minus(beside),
                    1 => at.plus(beside),
                    _ => at,
                }
            }
            93..98 => self.now.plus(Duration::from_millis(self.random.below(20_000))),
            _ => self.now.plus(Duration::from_secs(self.random.below(400))),
        };
        // A message's four days are not for every history: whatever lies that far ahead stays there mostly.
        let far = later.since(self.now) > Duration::from_secs(3_600);
        if later > self.now && (!far || self.random.chance(3)) {
            self.now = later;
        }
    }
}
