//! What goes wrong in a simulated database, and how often.

use std::time::Duration;

/// One thing that goes wrong at a statement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The connection is cut before the statement arrives.
    CutBefore,
    /// It is cut while the server is at work, which goes on.
    CutDuring,
    /// It is cut between the commit and its answer.
    CutAfter,
    /// The statement takes seconds.
    Slow,
    /// The statement is carried out, and its answer never comes.
    Hangs,
    /// The server dies before the commit, and starts again.
    RestartBefore,
    /// It dies while the commit waits for the standby: what it shows then may be on no standby.
    RestartWhileWaiting,
    /// It dies between the commit and its answer.
    RestartAfter,
    /// The standby takes over before the commit.
    FailOverBefore,
    /// It takes over while the commit waits for it.
    FailOverWhileWaiting,
    /// It takes over between the commit and its answer.
    FailOverAfter,
    /// The server dies while the commit waits for the standby, shows it when it has started again, and is then replaced
    /// by the standby, which has not received it.
    ShownAndWithdrawn,
}

impl Fault {
    /// Every fault.
    pub const ALL: [Self; 12] = [
        Self::CutBefore,
        Self::CutDuring,
        Self::CutAfter,
        Self::Slow,
        Self::Hangs,
        Self::RestartBefore,
        Self::RestartWhileWaiting,
        Self::RestartAfter,
        Self::FailOverBefore,
        Self::FailOverWhileWaiting,
        Self::FailOverAfter,
        Self::ShownAndWithdrawn,
    ];
}

/// Statements that reach the server and are never answered, beside those that chance picks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hanging {
    /// None.
    Nothing,
    /// Reads of large files.
    Reads,
    /// Changes of files.
    Changes,
}

/// A fault at certain appends to the journal, counted from 1.
#[derive(Clone, Copy, Debug)]
pub struct AtAppends {
    /// The first of them.
    pub first: u64,
    /// One in how many from there on.
    pub one_in: u64,
    /// What goes wrong.
    pub fault: Fault,
}

/// How often statements go wrong.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rates {
    /// Of a thousand statements.
    pub per_mille: u64,
    /// The most milliseconds that a part of a statement takes, if it is not slow.
    pub latency_ms: u64,
    /// Faults of the server beside those of connections.
    pub server_fails: bool,
    /// Statements that take seconds.
    pub is_slow: bool,
    /// How much faster than the nodes' clocks the database's may go, in thousandths.
    pub drift: u64,
    /// Milliseconds until a row to insert has come through the network. A client that gives up before has sent nothing.
    pub row_arrives_ms: u64,
    /// Faults at appends.
    pub at_appends: Option<AtAppends>,
}

/// What will happen to one statement.
#[derive(Clone, Copy)]
pub(super) struct Course {
    /// Before it arrives, while it holds its locks, while its commit waits for the standby, before its answer arrives.
    pub before: Duration,
    pub during: Duration,
    pub waiting: Duration,
    pub after: Duration,
    pub fault: Option<Fault>,
}

impl Rates {
    /// Decides about a statement. `append` is the number of one that appends to the journal.
    pub(super) fn course(&self, chance: &mut Chance, append: Option<u64>) -> Course {
        let planned = self.at_appends.zip(append).filter(|(at, number)| {
            number.checked_sub(at.first).is_some_and(|behind| behind.is_multiple_of(at.one_in))
        });
        let fault = match planned {
            Some((at, _)) => Some(at.fault),
            None if chance.below(1_000) < self.per_mille => self.any(chance),
            None => None,
        };
        let mut takes = || Duration::from_millis(chance.below(self.latency_ms + 1));
        let mut course = Course { before: takes(), during: takes(), waiting: takes(), after: takes(), fault };
        if fault == Some(Fault::Slow) {
            let slow = Duration::from_millis(500 + chance.below(5_000));
            match chance.below(4) {
                0 => course.before = slow,
                1 => course.during = slow,
                2 => course.waiting = slow,
                _ => course.after = slow,
            }
        }
        course
    }

    fn any(&self, chance: &mut Chance) -> Option<Fault> {
        let fault = Fault::ALL[chance.below(Fault::ALL.len() as u64) as usize];
        let happens = match fault {
            Fault::CutBefore | Fault::CutDuring | Fault::CutAfter => true,
            Fault::Slow | Fault::Hangs => self.is_slow,
            _ => self.server_fails && chance.below(3) == 0,
        };
        happens.then_some(fault)
    }
}

/// Chance from a seed.
pub(super) struct Chance(u64);

impl Chance {
    pub fn of(seed: u64) -> Self {
        Self(seed)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit.max(1)
    }
}
