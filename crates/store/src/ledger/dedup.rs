//! What was sent lately: one message per identity and window.
//!
//! Identities are keyed hashes. They are remembered in generations of ten seconds, dropped whole once no window that
//! began in them can be open.

use std::collections::VecDeque;
use std::time::Duration;

use hashbrown::HashMap;
use kew_core::rules::dedup;
use kew_core::{MessageId, Sequence, Timestamp};

use super::varint::{self, Reader};

const GENERATION: Duration = Duration::from_secs(10);

/// The first send of an identity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct First {
    /// When.
    pub at: Timestamp,
    /// The message's name.
    pub id: MessageId,
    /// Its place.
    pub sequence: Sequence,
}

#[derive(Clone, Debug, Default)]
struct Generation {
    /// Its first instant.
    start: Timestamp,
    identities: Vec<u128>,
}

/// All identities remembered.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sends {
    firsts: HashMap<u128, First>,
    generations: VecDeque<Generation>,
}

impl Sends {
    /// Identities remembered.
    pub(crate) fn len(&self) -> usize {
        self.firsts.len()
    }

    /// The first send of this identity, if its window is open.
    pub(crate) fn find(&self, identity: u128, now: Timestamp) -> Option<First> {
        self.firsts.get(&identity).copied().filter(|first| dedup::is_repeat(first.at, now))
    }

    /// Remembers a first send.
    pub(crate) fn remember(&mut self, identity: u128, first: First) {
        self.forget_closed(first.at);
        self.firsts.insert(identity, first);
        let start = Timestamp(first.at.0 - first.at.0 % GENERATION.as_millis() as u64);
        match self.generations.back_mut().filter(|generation| generation.start >= start) {
            Some(generation) => generation.identities.push(identity),
            None => self.generations.push_back(Generation { start, identities: vec![identity] }),
        }
    }

    /// Drops the generations all of whose windows have closed.
    pub(crate) fn forget_closed(&mut self, now: Timestamp) {
        while let Some(oldest) = self.generations.front()
            && oldest.start.plus(GENERATION).plus(dedup::WINDOW) <= now
        {
            let Some(oldest) = self.generations.pop_front() else { return };
            for identity in oldest.identities {
                // An identity sent again after its window is remembered by a later generation too.
                if self.firsts.get(&identity).is_some_and(|first| !dedup::is_repeat(first.at, now)) {
                    self.firsts.remove(&identity);
                }
            }
        }
    }

    /// The generations' first instants, and how many identities each has.
    pub(crate) fn generations(&self) -> impl Iterator<Item = (Timestamp, usize)> + '_ {
        self.generations.iter().map(|generation| (generation.start, generation.identities.len()))
    }

    /// Writes one generation for a checkpoint.
    pub(crate) fn write(&self, start: Timestamp, out: &mut Vec<u8>) {
        let Some(generation) = self.generations.iter().find(|generation| generation.start == start) else {
            return;
        };
        varint::put(out, start.0);
        for identity in &generation.identities {
            let Some(first) = self.firsts.get(identity) else { continue };
            out.extend_from_slice(&identity.to_le_bytes());
            out.extend_from_slice(&first.id.0);
            varint::put(out, first.at.0);
            varint::put(out, first.sequence.0);
        }
    }

    /// Reads a generation back.
    pub(crate) fn read(&mut self, from: &mut Reader<'_>) -> Option<()> {
        let _start = from.number()?;
        while !from.is_empty() {
            let identity = u128::from_le_bytes(from.take(16)?.try_into().ok()?);
            let id = MessageId(from.take(16)?.try_into().ok()?);
            let first = First { at: Timestamp(from.number()?), id, sequence: Sequence(from.number()?) };
            self.remember(identity, first);
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(at: u64) -> First {
        First { at: Timestamp(at), id: MessageId::from_chance(u128::from(at)), sequence: Sequence(at) }
    }

    #[test]
    fn identity_is_remembered_for_its_window_and_then_dropped() {
        let mut sends = Sends::default();
        sends.remember(1, first(5_000));
        assert!(sends.find(1, Timestamp(304_999)).is_some());
        assert!(sends.find(1, Timestamp(305_000)).is_none());
        sends.forget_closed(Timestamp(309_999));
        assert_eq!(sends.len(), 1);
        sends.forget_closed(Timestamp(310_000));
        assert_eq!(sends.len(), 0);
    }

    #[test]
    fn identity_sent_again_outlives_its_first_generation() {
        let mut sends = Sends::default();
        sends.remember(1, first(0));
        sends.remember(1, first(300_000));
        sends.forget_closed(Timestamp(310_000));
        assert_eq!(sends.find(1, Timestamp(310_000)), Some(first(300_000)));
    }

    #[test]
    fn generation_survives_its_bytes() {
        let mut sends = Sends::default();
        sends.remember(1, first(15_000));
        sends.remember(2, first(15_001));
        let (start, _) = sends.generations().next().expect("one");
        let mut bytes = Vec::new();
        sends.write(start, &mut bytes);
        let mut again = Sends::default();
        assert!(again.read(&mut Reader::new(&bytes)).is_some());
        assert_eq!(again.find(2, Timestamp(16_000)), Some(first(15_001)));
    }
}
