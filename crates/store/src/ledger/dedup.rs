//! What was sent lately: one message per identity and window.
//!
//! Identities are keyed hashes. They are remembered in generations of ten seconds, dropped whole once no window that
//! began in them can be open. The newest are in memory. An older generation may be put away on the shelf, sorted by
//! identity; of each of its identities only the first four bytes stay, which say where on the shelf to look.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use kew_core::rules::dedup;
use kew_core::{MessageId, Sequence, Timestamp};

use super::parted::Parted;
use super::pieces::Pieces;
use super::varint::{self, Reader};

pub(crate) const GENERATION: Duration = Duration::from_secs(10);

/// The first send of an identity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct First {
    /// When.
    pub at: Timestamp,
    /// The message's id.
    pub id: MessageId,
    /// Its place.
    pub sequence: Sequence,
}

/// Bytes of an identity that is put away.
pub const PUT_AWAY_BYTES: usize = 48;

/// Bytes of an identity in a slice, about: its two names, an instant of six bytes and a sequence of four.
const SLICE_BYTES: usize = 42;

/// An identity as it is put away.
pub type PutAwayEntry = [u8; PUT_AWAY_BYTES];

/// Identities that leave memory with each send that is remembered: faster than they come.
const LEAVE_AT_ONCE: usize = 16;

#[derive(Clone, Debug)]
enum Kept {
    /// In memory, under these identities.
    Here(Pieces<u128>),
    /// On the shelf; the first four bytes of each identity, in order.
    Away(Box<[u32]>),
}

#[derive(Clone, Debug)]
struct Generation {
    /// Its first instant.
    start: Timestamp,
    kept: Kept,
}

impl Generation {
    fn len(&self) -> usize {
        match &self.kept {
            Kept::Here(identities) => identities.len(),
            Kept::Away(heads) => heads.len(),
        }
    }

    fn is_closed_at(&self, now: Timestamp) -> bool {
        self.start.plus(GENERATION).plus(dedup::WINDOW) <= now
    }
}

/// All identities remembered.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sends {
    firsts: Parted<u128, First>,
    generations: VecDeque<Generation>,
    /// Generations whose identities leave memory, a few at a time: one may have millions.
    leaving: VecDeque<(Timestamp, Pieces<u128>)>,
    /// While another thread remembers: the first sends that it has not taken yet.
    aside: Option<Vec<(u128, First)>>,
}

impl Sends {
    /// Identities remembered, in memory and away.
    pub(crate) fn len(&self) -> usize {
        self.generations.iter().map(Generation::len).sum()
    }

    /// Identities in memory.
    pub(crate) fn len_here(&self) -> usize {
        self.firsts.len()
    }

    /// The first send of this identity, if it is in memory and its window is open.
    pub(crate) fn find(&self, identity: u128, now: Timestamp) -> Option<First> {
        self.firsts.get(&identity).copied().filter(|first| dedup::is_repeat(first.at, now))
    }

    /// Where on the shelf the first send of this identity may lie: generations and places in them, newest first.
    pub(crate) fn places_away(&self, identity: u128) -> Vec<(Timestamp, Range<u64>)> {
        let head = head_of(identity);
        let places = |generation: &Generation| match &generation.kept {
            Kept::Here(_) => None,
            Kept::Away(heads) => {
                let (from, to) = (
                    heads.partition_point(|other| *other < head),
                    heads.partition_point(|other| *other <= head),
                );
                (from < to).then_some((generation.start, from as u64..to as u64))
            }
        };
        self.generations.iter().rev().filter_map(places).collect()
    }

    /// Remembers a first send.
    pub(crate) fn remember(&mut self, identity: u128, first: First) {
        if let Some(aside) = &mut self.aside {
            return aside.push((identity, first));
        }
        self.forget_closed(first.at);
        self.let_some_go(LEAVE_AT_ONCE);
        let is_new = self.firsts.insert(identity, first) != Some(first);
        let start = start_of(first.at);
        // Nearly always the newest; in a journal that is replayed, and in slices, it may be an older one.
        let place = self.generations.partition_point(|generation| generation.start < start);
        match self.generations.get_mut(place).filter(|generation| generation.start == start) {
            Some(Generation { kept: Kept::Here(identities), .. }) => {
                if is_new {
                    identities.push_back(identity);
                }
            }
            _ => {
                let mut identities = Pieces::default();
                identities.push_back(identity);
                self.generations.insert(place, Generation { start, kept: Kept::Here(identities) });
            }
        }
    }

    /// From now on first sends are only collected.
    pub(crate) fn set_aside(&mut self) {
        self.aside = Some(Vec::new());
    }

    /// The first sends that were collected, in their order, if they are at least this many.
    pub(crate) fn take_aside(&mut self, at_least: usize) -> Option<Vec<(u128, First)>> {
        self.aside.as_mut().filter(|aside| aside.len() >= at_least).map(std::mem::take)
    }

    /// Makes room for what slices of this many bytes have.
    pub(crate) fn make_room(&mut self, bytes: usize) {
        self.firsts.reserve(bytes / SLICE_BYTES);
    }

    /// Drops the generations all of whose windows have closed. Their identities leave memory with the next sends.
    pub(crate) fn forget_closed(&mut self, now: Timestamp) {
        while self.generations.front().is_some_and(|oldest| oldest.is_closed_at(now)) {
            if let Some(Generation { start, kept: Kept::Here(identities) }) = self.generations.pop_front() {
                self.leaving.push_back((start, identities));
            }
        }
    }

    /// At most `max` identities of dropped generations leave memory. True when there are more.
    pub(crate) fn let_some_go(&mut self, max: usize) -> bool {
        for _ in 0..max {
            let Some((start, identities)) = self.leaving.front_mut() else { return false };
            let Some(identity) = identities.pop_back() else {
                self.leaving.pop_front();
                continue;
            };
            // An identity sent again after its window is remembered by a later generation too.
            if self.firsts.get(&identity).is_some_and(|first| start_of(first.at) == *start) {
                self.firsts.remove(&identity);
            }
        }
        !self.leaving.is_empty()
    }

    /// The generations in memory: their first instants, and how many identities each has.
    pub(crate) fn generations(&self) -> impl Iterator<Item = (Timestamp, usize)> + '_ {
        let here = self.generations.iter().filter(|generation| matches!(generation.kept, Kept::Here(_)));
        here.map(|generation| (generation.start, generation.len()))
    }

    /// The first instants of the generations that are away.
    pub(crate) fn generations_away(&self) -> impl Iterator<Item = Timestamp> + '_ {
        let away = self.generations.iter().filter(|generation| matches!(generation.kept, Kept::Away(_)));
        away.map(|generation| generation.start)
    }

    /// How many identities a generation has on the shelf.
    pub(crate) fn len_away(&self, start: Timestamp) -> u64 {
        let away =
            |generation: &&Generation| generation.start == start && matches!(generation.kept, Kept::Away(_));
        self.generations.iter().filter(away).map(|generation| generation.len() as u64).sum()
    }

    /// The oldest generation in memory that can grow no more: its first instant, and how many identities it has.
    pub(crate) fn oldest_full(&self, now: Timestamp) -> Option<(Timestamp, usize)> {
        self.generations().next().filter(|(start, _)| start.plus(GENERATION) <= now)
    }

    /// The identities of a generation in memory, from one place to another.
    fn identities(&self, start: Timestamp, places: Range<usize>) -> Option<impl Iterator<Item = &u128>> {
        let generation = self.generations.iter().find(|generation| generation.start == start)?;
        let Kept::Here(identities) = &generation.kept else { return None };
        Some(identities.range(places))
    }

    /// Some identities of a generation as they are put away, not sorted yet; `None` when it is not in memory.
    pub(crate) fn entries(&self, start: Timestamp, places: Range<usize>) -> Option<Vec<PutAwayEntry>> {
        let identities = self.identities(start, places)?;
        let known = identities.filter_map(|identity| Some((*identity, self.firsts.get(identity)?)));
        Some(known.map(|(identity, first)| put_away_bytes(identity, first)).collect())
    }

    /// A generation lies on the shelf now: its identities leave memory, by [`Sends::let_some_go`].
    pub(crate) fn set_away(&mut self, start: Timestamp, heads: Box<[u32]>) {
        let Some(generation) = self.generations.iter_mut().find(|generation| generation.start == start)
        else {
            return;
        };
        if let Kept::Here(identities) = std::mem::replace(&mut generation.kept, Kept::Away(heads)) {
            self.leaving.push_back((start, identities));
        }
    }

    /// A generation was found on the shelf, before anything else is remembered.
    pub(crate) fn add_away(&mut self, start: Timestamp, heads: Box<[u32]>) {
        let place = self.generations.partition_point(|generation| generation.start < start);
        self.generations.insert(place, Generation { start, kept: Kept::Away(heads) });
    }

    /// Writes one generation for a checkpoint; false when it is not in memory.
    pub(crate) fn write(&self, start: Timestamp, out: &mut Vec<u8>) -> bool {
        varint::put(out, start.0);
        self.write_some(start, 0..usize::MAX, out)
    }

    /// Writes some identities of a generation; false when it is not in memory.
    pub(crate) fn write_some(&self, start: Timestamp, places: Range<usize>, out: &mut Vec<u8>) -> bool {
        let Some(identities) = self.identities(start, places) else { return false };
        for identity in identities {
            let Some(first) = self.firsts.get(identity) else { continue };
            out.extend_from_slice(&identity.to_le_bytes());
            out.extend_from_slice(&first.id.0);
            varint::put(out, first.at.0);
            varint::put(out, first.sequence.0);
        }
        true
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

fn put_away_bytes(identity: u128, first: &First) -> PutAwayEntry {
    let mut entry = [0; PUT_AWAY_BYTES];
    entry[..16].copy_from_slice(&identity.to_be_bytes());
    entry[16..32].copy_from_slice(&first.id.0);
    entry[32..40].copy_from_slice(&first.at.0.to_le_bytes());
    entry[40..].copy_from_slice(&first.sequence.0.to_le_bytes());
    entry
}

/// A generation as it is put away: its identities in order, each once.
pub fn sorted(mut entries: Vec<PutAwayEntry>) -> Vec<u8> {
    entries.sort_unstable();
    entries.dedup_by(|one, other| one[..16] == other[..16]);
    entries.concat()
}

/// The first four bytes of each identity in a generation as it is put away; `None` when the bytes are not one.
pub fn heads(bytes: &[u8]) -> Option<Box<[u32]>> {
    let (entries, rest) = bytes.as_chunks::<PUT_AWAY_BYTES>();
    let head =
        |entry: &[u8; PUT_AWAY_BYTES]| entry.first_chunk::<4>().map_or(0, |head| u32::from_be_bytes(*head));
    let heads: Box<[u32]> = entries.iter().map(head).collect();
    (rest.is_empty() && heads.is_sorted()).then_some(heads)
}

/// The identity in an entry that was put away, and its first send.
pub(crate) fn put_away_entry(entry: &[u8; PUT_AWAY_BYTES]) -> Option<(u128, First)> {
    let mut from = Reader::new(entry);
    let identity = u128::from_be_bytes(from.take(16)?.try_into().ok()?);
    let id = MessageId(from.take(16)?.try_into().ok()?);
    let at = Timestamp(u64::from_le_bytes(from.take(8)?.try_into().ok()?));
    let sequence = Sequence(u64::from_le_bytes(from.take(8)?.try_into().ok()?));
    Some((identity, First { at, id, sequence }))
}

fn head_of(identity: u128) -> u32 {
    (identity >> 96) as u32
}

fn start_of(at: Timestamp) -> Timestamp {
    Timestamp(at.0 - at.0 % GENERATION.as_millis() as u64)
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
    fn a_closed_generation_of_very_many_leaves_a_few_at_a_time() {
        let mut sends = Sends::default();
        (0..10_000).for_each(|identity| sends.remember(identity, first(5_000)));
        sends.remember(1 << 64, first(310_000));
        assert_eq!((sends.len(), sends.len_here()), (1, 10_001 - LEAVE_AT_ONCE));
        assert!(sends.find(7, Timestamp(310_000)).is_none());
        // One that is sent again is remembered anew, whether it has left or not.
        sends.remember(7, first(310_000));
        (0..1_000).for_each(|other| sends.remember((2 << 64) + other, first(310_000)));
        assert_eq!((sends.len(), sends.len_here()), (1_002, 1_002));
        assert_eq!(sends.find(7, Timestamp(310_000)), Some(first(310_000)));
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
        let (start, _) = sends.generations().next().expect("the send has one identity");
        let mut bytes = Vec::new();
        assert!(sends.write(start, &mut bytes));
        let mut again = Sends::default();
        assert!(again.read(&mut Reader::new(&bytes)).is_some());
        assert_eq!(again.find(2, Timestamp(16_000)), Some(first(15_001)));
    }

    #[test]
    fn generation_put_away_leaves_memory_and_says_where_to_look() {
        let mut sends = Sends::default();
        let identities: Vec<u128> =
            (1..=1_000_u128).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c834)).collect();
        for identity in &identities {
            sends.remember(*identity, first(1_000));
        }
        assert!(sends.oldest_full(Timestamp(9_999)).is_none());
        let (start, count) = sends.oldest_full(Timestamp(10_000)).expect("a generation of the past is full");
        let mut entries = sends.entries(start, 0..600).expect("the generation is in memory");
        entries.extend(sends.entries(start, 600..count).expect("the generation is in memory"));
        let bytes = sorted(entries);
        sends.set_away(start, heads(&bytes).expect("bytes that this test wrote are read back"));
        while sends.let_some_go(100) {}
        assert_eq!((sends.len(), sends.len_here()), (1_000, 0));
        for identity in &identities {
            assert!(sends.find(*identity, Timestamp(10_000)).is_none());
            let found =
                sends.places_away(*identity).into_iter().flat_map(|(_, places)| places).find_map(|place| {
                    let entry = bytes.as_chunks::<PUT_AWAY_BYTES>().0.get(usize::try_from(place).ok()?)?;
                    put_away_entry(entry).filter(|(other, _)| other == identity)
                });
            assert_eq!(found, Some((*identity, first(1_000))));
        }
        sends.forget_closed(Timestamp(310_000));
        assert_eq!(sends.len(), 0);
    }

    #[test]
    fn unsorted_or_cut_bytes_are_no_generation() {
        assert!(heads(&[0; PUT_AWAY_BYTES - 1]).is_none());
        let mut bytes = [0; 2 * PUT_AWAY_BYTES];
        bytes[0] = 1;
        assert!(heads(&bytes).is_none());
    }
}
