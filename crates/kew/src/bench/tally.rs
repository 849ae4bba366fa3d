//! Whether every message that was acknowledged came exactly once, in order where order is promised.
//!
//! A body begins with the connection that sent it and its number there; the rest is padding. A send whose answer never
//! came (the server was killed) may or may not have happened; what was acknowledged must have.

use std::collections::HashMap;

/// What a message's body begins with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Mark {
    pub(super) run: u32,
    pub(super) sender: u32,
    pub(super) number: u64,
}

const MARK_LENGTH: usize = 8 + 8 + 16;

impl Mark {
    /// A body of `bytes` bytes that begins with the mark.
    pub(super) fn body(self, bytes: u32) -> String {
        let mut body = format!("{:08x}{:08x}{:016x}", self.run, self.sender, self.number);
        let padding = (bytes as usize).saturating_sub(MARK_LENGTH);
        body.extend(std::iter::repeat_n('m', padding));
        body
    }

    /// The mark a body begins with.
    pub(super) fn read(body: &str) -> Option<Self> {
        let part = |range| u64::from_str_radix(body.get(range)?, 16).ok();
        let (run, sender, number) = (part(0..8)?, part(8..16)?, part(16..32)?);
        Some(Self { run: u32::try_from(run).ok()?, sender: u32::try_from(sender).ok()?, number })
    }
}

/// What became of one message.
#[derive(Clone, Copy, Default)]
struct Fate {
    acknowledged: bool,
    received: u8,
    deleted: bool,
}

/// What is wrong, when anything is.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct Faults {
    /// Acknowledged and never received.
    pub(super) lost: u64,
    /// Received again although no lease had ended.
    pub(super) duplicated: u64,
    /// Received again after its deletion was acknowledged.
    pub(super) resurrected: u64,
    /// Received before an earlier one of its group.
    pub(super) disordered: u64,
    /// Not one of this run's.
    pub(super) strange: u64,
}

impl Faults {
    /// Whether nothing is wrong. Across a kill a message may come twice: its lease may have been forgotten.
    pub(super) fn none(&self, survived: bool) -> bool {
        let tolerated = Self { duplicated: if survived { 0 } else { self.duplicated }, ..*self };
        tolerated == Self::default()
    }
}

/// All messages of a run.
pub(super) struct Tally {
    run: u32,
    senders: Vec<Vec<Fate>>,
    /// The highest number received of each group, where order is promised.
    newest: HashMap<u32, u64>,
    faults: Faults,
    pub(super) acknowledged: u64,
    pub(super) deletions: u64,
    /// Messages of requests that were never answered: each may have been sent, or deleted, or not.
    pub(super) unanswered: u64,
}

impl Tally {
    /// A tally for this number of senders.
    pub(super) fn new(run: u32, senders: u32) -> Self {
        Self {
            run,
            senders: (0..senders).map(|_| Vec::new()).collect(),
            newest: HashMap::new(),
            faults: Faults::default(),
            acknowledged: 0,
            deletions: 0,
            unanswered: 0,
        }
    }

    /// The next message of a sender.
    pub(super) fn next(&mut self, sender: u32) -> Mark {
        let fates = self.senders.get_mut(sender as usize).expect("senders are counted from zero");
        fates.push(Fate::default());
        Mark { run: self.run, sender, number: fates.len() as u64 - 1 }
    }

    fn fate(&mut self, mark: Mark) -> Option<&mut Fate> {
        let number = usize::try_from(mark.number).ok()?;
        if mark.run != self.run {
            return None;
        }
        self.senders.get_mut(mark.sender as usize)?.get_mut(number)
    }

    /// Its send was acknowledged.
    pub(super) fn sent(&mut self, mark: Mark) {
        if let Some(fate) = self.fate(mark) {
            fate.acknowledged = true;
            self.acknowledged += 1;
        }
    }

    /// Whether a message with this body has come already.
    pub(super) fn has_come(&mut self, body: &str) -> bool {
        Mark::read(body).and_then(|mark| self.fate(mark)).is_some_and(|fate| fate.received > 0)
    }

    /// It was received; `ordered_by` is its group where order is promised.
    pub(super) fn received(
        &mut self,
        body: &str,
        ordered_by: impl FnOnce(Mark) -> Option<u32>,
    ) -> Option<Mark> {
        let mark = Mark::read(body);
        let Some((mark, fate)) = mark.and_then(|mark| Some((mark, self.fate(mark)?))) else {
            self.faults.strange += 1;
            return None;
        };
        let before = *fate;
        fate.received = fate.received.saturating_add(1);
        self.faults.resurrected += u64::from(before.deleted);
        self.faults.duplicated += u64::from(!before.deleted && before.received > 0);
        if before.received == 0
            && let Some(group) = ordered_by(mark)
            && let Some(newer) = self.newest.insert(group, mark.number)
        {
            self.faults.disordered += u64::from(newer > mark.number);
        }
        Some(mark)
    }

    /// Its deletion was acknowledged.
    pub(super) fn deleted(&mut self, mark: Mark) {
        if let Some(fate) = self.fate(mark) {
            fate.deleted = true;
            self.deletions += 1;
        }
    }

    /// Messages acknowledged and not received so far.
    pub(super) fn missing(&self) -> u64 {
        let fates = self.senders.iter().flatten();
        fates.filter(|fate| fate.acknowledged && fate.received == 0).count() as u64
    }

    /// What is wrong, once everything there was has been received.
    pub(super) fn faults(&self) -> Faults {
        Faults { lost: self.missing(), ..self.faults }
    }

    /// The same when messages are left in the queue on purpose, and this number are stored.
    pub(super) fn faults_beside(&self, stored: u64) -> Faults {
        let expected = self.acknowledged.saturating_sub(self.deletions);
        Faults {
            lost: expected.saturating_sub(stored.saturating_add(self.unanswered)),
            duplicated: self.faults.duplicated
                + stored.saturating_sub(expected.saturating_add(self.unanswered)),
            ..self.faults
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_reads_back_from_its_body() {
        let mark = Mark { run: 7, sender: 3, number: u64::MAX };
        assert_eq!(mark.body(40).len(), 40);
        assert_eq!(Mark::read(&mark.body(40)), Some(mark));
        assert_eq!(Mark::read("hello"), None);
    }

    #[test]
    fn every_kind_of_fault_is_counted() {
        let mut tally = Tally::new(1, 2);
        let marks: Vec<Mark> = (0..4).map(|_| tally.next(1)).collect();
        marks.iter().for_each(|mark| tally.sent(*mark));
        let group = |_: Mark| Some(9);
        tally.received(&marks[1].body(40), group);
        tally.received(&marks[0].body(40), group);
        tally.received(&marks[1].body(40), group);
        tally.deleted(marks[0]);
        tally.received(&marks[0].body(40), group);
        tally.received(&marks[2].body(40), group);
        tally.received("strange", group);
        let expected = Faults { lost: 1, duplicated: 1, resurrected: 1, disordered: 1, strange: 1 };
        assert_eq!(tally.faults(), expected);
        assert!(!expected.none(true));
        assert!(Faults { duplicated: 1, ..Faults::default() }.none(true));
    }

    #[test]
    fn what_was_never_acknowledged_is_not_missed() {
        let mut tally = Tally::new(1, 1);
        let _unanswered = tally.next(0);
        assert_eq!(tally.faults(), Faults::default());
    }
}
