//! A history written down so that it can be run again, also with steps left out.
//!
//! Receipts are written as places: the third token that step 17 gave out. Each side puts its own token there. An entry
//! whose place was left out is left out too.

use std::collections::BTreeMap;
use std::fmt;

use kew_core::{Command, LeaseToken, QueueId, Sequence, Timestamp};

use crate::contract::Ending;

/// One step of a history.
#[derive(Clone)]
pub struct Step {
    /// Its number for life, whatever is left out before it.
    pub number: u32,
    /// The instant it is taken.
    pub now: Timestamp,
    /// What is done. Its tokens are places, see [`place`].
    pub action: Action,
    /// Whether everything since the last commit is committed after it.
    pub commits: bool,
    /// Whether all figures are looked at after that commit.
    pub checks: bool,
}

/// What is done.
#[derive(Clone, Debug)]
pub enum Action {
    /// A command.
    Do(Box<Command>),
    /// The store is ended and opened again.
    Restart(Ending),
}

impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ends = if self.commits { " ; commit" } else { "" };
        match &self.action {
            Action::Do(command) => write!(f, "#{} {:?} {command:?}{ends}", self.number, self.now),
            Action::Restart(ending) => write!(f, "#{} {:?} Restart({ending:?})", self.number, self.now),
        }
    }
}

/// What is written in the `mac` of a token's place.
const GENUINE: u128 = 1;
const FORGED: u128 = 2;

/// The place of the token that stands at `entry` of the outcome of step `number`. Queue and sequence are for the
/// reader.
pub(super) fn place(number: u32, entry: usize, queue: QueueId, sequence: Sequence) -> LeaseToken {
    LeaseToken { queue, sequence, nonce: (u64::from(number) << 16) | entry as u64, mac: GENUINE }
}

/// The same token, but altered by somebody.
pub(super) fn forged(place: LeaseToken) -> LeaseToken {
    LeaseToken { mac: FORGED, ..place }
}

/// One receipt, as each side knows it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair {
    pub of_model: LeaseToken,
    pub of_subject: LeaseToken,
}

/// The tokens that stand at the places of a running history.
#[derive(Debug, Default)]
pub(super) struct Places {
    pairs: BTreeMap<u64, Pair>,
}

impl Places {
    pub fn fill(&mut self, place: LeaseToken, pair: Pair) {
        self.pairs.insert(place.nonce, pair);
    }

    /// The command with the model's own tokens, and the one with the subject's.
    pub fn resolve(&self, command: &Command) -> (Command, Command) {
        let of_model = self.put(command.clone(), |pair| pair.of_model);
        (of_model, self.put(command.clone(), |pair| pair.of_subject))
    }

    fn put(&self, mut command: Command, side: impl Fn(&Pair) -> LeaseToken) -> Command {
        let token = |place: &LeaseToken| {
            let token = side(self.pairs.get(&place.nonce)?);
            Some(if place.mac == FORGED { LeaseToken { mac: token.mac ^ 1, ..token } } else { token })
        };
        // Writes the token over its place; false when nothing stands there.
        let fill = |place: &mut LeaseToken| match token(place) {
            Some(token) => {
                *place = token;
                true
            }
            None => false,
        };
        match &mut command {
            Command::Withdraw(withdraw) => withdraw.tokens.retain_mut(fill),
            Command::Ack(ack) => ack.tokens.retain_mut(fill),
            Command::Extend(extend) => extend.entries.retain_mut(|entry| fill(&mut entry.token)),
            Command::Release(release) => release.entries.retain_mut(|(token, _)| fill(token)),
            Command::Promote(promote) => promote.tokens.retain_mut(fill),
            Command::MoveChosen(chosen) => chosen.tokens.retain_mut(fill),
            _ => {}
        }
        command
    }
}

/// A history with one entry fewer, for every entry that could be left out of this step.
pub(super) fn smaller(step: &Step) -> Vec<Step> {
    fn without<T: Clone>(entries: &[T], rebuild: impl Fn(Vec<T>) -> Command) -> Vec<Command> {
        let leave_out = |left_out: usize| {
            let mut rest = entries.to_vec();
            rest.remove(left_out);
            rebuild(rest)
        };
        if entries.len() < 2 { Vec::new() } else { (0..entries.len()).map(leave_out).collect() }
    }
    let Action::Do(command) = &step.action else { return Vec::new() };
    let commands = match command.as_ref() {
        Command::Send(send) => without(&send.messages, |messages| {
            Command::Send(kew_core::command::Send { messages, ..send.clone() })
        }),
        Command::Withdraw(withdraw) => without(&withdraw.tokens, |tokens| {
            Command::Withdraw(kew_core::command::Withdraw { tokens, ..withdraw.clone() })
        }),
        Command::Ack(ack) => {
            without(&ack.tokens, |tokens| Command::Ack(kew_core::command::Ack { tokens, ..ack.clone() }))
        }
        Command::Extend(extend) => without(&extend.entries, |entries| {
            Command::Extend(kew_core::command::Extend { entries, ..extend.clone() })
        }),
        Command::Release(release) => without(&release.entries, |entries| {
            Command::Release(kew_core::command::Release { entries, ..release.clone() })
        }),
        _ => Vec::new(),
    };
    commands
        .into_iter()
        .map(|command| Step { action: Action::Do(Box::new(command)), ..step.clone() })
        .collect()
}
