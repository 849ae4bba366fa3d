//! Copying survivors forward: the few living messages of nearly dead segments move together, so that those segments
//! can be recycled.
//!
//! Contents are copied outside the journal and without the writer's lock. The places in memory change after the copies
//! are synced; until the next checkpoint the victims stay, so a crash at any moment finds every message.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use hashbrown::HashMap;
use kew_core::QueueId;
use kew_store::ledger;

use crate::error::LogError;
use crate::journal::{
    Address, Checksums, FRAME_HEADER_BYTES, Reader, Segment, SegmentKind, SegmentNumber, Segments,
    SurvivorWriter, frame_bytes,
};
use crate::store::inner::Inner;
use crate::store::live::SegmentLife;
use crate::store::reads::damaged::DAMAGED_KIND;

/// The most segments copied from in one round.
const VICTIMS_MAX: usize = 8;

/// Rounds after which a segment that could not be copied from wholly is tried again.
const STUCK_ROUNDS: u32 = 64;
/// The most bytes that are kept of a damaged record whose length is not known.
const UNKNOWN_LENGTH_MAX: u64 = 1 << 20;

/// Copies survivors forward, round after round.
pub(crate) struct Forwarding {
    survivors: SurvivorWriter,
    reader: Reader,
    /// Segments in which records had to stay, by number, with the rounds for which they are left alone.
    stuck: HashMap<SegmentNumber, u32>,
    /// Why the last of them had to.
    left: Option<LogError>,
}

impl Forwarding {
    pub(crate) fn new(segments: Segments, sums: Checksums) -> Self {
        Self {
            survivors: SurvivorWriter::new(segments.clone(), sums),
            reader: Reader::new(segments, sums),
            stuck: HashMap::new(),
            left: None,
        }
    }

    pub(crate) fn open_segment(&self) -> Option<SegmentNumber> {
        self.survivors.open_segment()
    }

    /// Copies from the segments with least life, if too much of the store is dead. True when something was copied.
    /// `keep_spares` spares are left alone.
    pub(crate) fn copy(
        &mut self,
        inner: &Inner,
        short_of_space: bool,
        keep_spares: usize,
    ) -> Result<bool, LogError> {
        self.leave_dead_segment(inner);
        self.left = None;
        self.stuck.retain(|_, rounds| {
            *rounds -= 1;
            *rounds > 0
        });
        let victims = self.victims(inner, short_of_space);
        for victim in &victims {
            self.copy_from(inner, victim, keep_spares)?;
        }
        Ok(!victims.is_empty())
    }

    /// Why records had to stay where they are in the last round, if any did.
    pub(crate) fn left(&self) -> Option<&LogError> {
        self.left.as_ref()
    }

    /// The segment being filled with survivors is free for good once none of them lives.
    fn leave_dead_segment(&mut self, inner: &Inner) {
        let Some(open) = self.open_segment().and_then(|number| inner.segments.numbered(number)) else {
            return;
        };
        let rests =
            |base| inner.writer.lock_beside().shelf.live.of(base).map_or(0, |life| life.resting.messages);
        if open.used() > 0 && self.survivors.is_synced() && rests(open.base()) == 0 {
            self.survivors.seal();
        }
    }

    fn victims(&self, inner: &Inner, short_of_space: bool) -> Vec<Arc<Segment>> {
        let ledger = inner.writer.lock_beside();
        let lives: HashMap<Address, SegmentLife> =
            ledger.shelf.live.segments().map(|life| (life.base, *life)).collect();
        let active = ledger.shelf.journal.as_ref().map(|journal| journal.active().number());
        drop(ledger);
        let live_bytes =
            |segment: &Arc<Segment>| lives.get(&segment.base()).map_or(0, |life| life.resting.record_bytes);
        let segments = inner.segments.list();
        let live: u64 = segments.iter().map(live_bytes).sum();
        let used: u64 = segments.iter().map(|segment| segment.used()).sum();
        let dead = used.saturating_sub(live);
        if dead <= live + inner.options.slack_bytes && !short_of_space {
            return Vec::new();
        }
        // Under a quarter alive: copying then frees at least three times what it takes. Short of space, a half.
        let share = if short_of_space { 2 } else { 4 };
        let mut victims: Vec<Arc<Segment>> = segments
            .into_iter()
            .filter(|segment| {
                Some(segment.number()) != active && Some(segment.number()) != self.open_segment()
            })
            .filter(|segment| segment.kind() == SegmentKind::Survivor || segment.used() > 0)
            .filter(|segment| !self.stuck.contains_key(&segment.number()))
            .filter(|segment| live_bytes(segment) > 0 && live_bytes(segment) * share < segment.used())
            .collect();
        victims.sort_unstable_by_key(|segment| live_bytes(segment) * 1_000 / segment.used().max(1));
        victims.truncate(VICTIMS_MAX);
        victims
    }

    fn copy_from(&mut self, inner: &Inner, victim: &Segment, keep_spares: usize) -> Result<(), LogError> {
        let range = ledger::Address::from(victim.base())..victim.end().into();
        let queues = inner.writer.lock_beside().queue_ids();
        let mut found: Vec<(QueueId, Vec<ledger::Address>)> = Vec::new();
        for queue in queues {
            let mut places = inner.writer.lock_beside().places_in(queue, &range);
            if !places.is_empty() {
                places.sort_unstable();
                found.push((queue, places));
            }
        }
        let mut all: Vec<ledger::Address> = found.iter().flat_map(|(_, places)| places).copied().collect();
        all.sort_unstable();
        all.dedup();
        let mut moved: HashMap<ledger::Address, ledger::Address> = HashMap::new();
        for (index, place) in all.iter().enumerate() {
            let next = all.get(index + 1).map_or(victim.end(), |next| (*next).into());
            let from = Address::from(*place);
            let Some((kind, payload)) = self.read_or_quarantine(inner, victim, from..next) else {
                self.stuck.insert(victim.number(), STUCK_ROUNDS);
                continue;
            };
            let new = self.survivors.push(kind, &payload, keep_spares)?;
            inner.done.copied_bytes.fetch_add(payload.len() as u64, Ordering::Relaxed);
            if kind == DAMAGED_KIND {
                inner.damaged.moved(from, new);
            }
            moved.insert(*place, new.into());
        }
        self.reader.clear();
        self.survivors.sync()?;
        self.change_places(inner, &found, &range, &moved);
        Ok(())
    }

    /// What is to be copied for the record that begins a range of addresses: the record, or a mark in its place when it
    /// is damaged. `None` when it has to stay: the disk fails, which may end, or its bytes can be kept nowhere else.
    fn read_or_quarantine(
        &mut self,
        inner: &Inner,
        victim: &Segment,
        range: Range<Address>,
    ) -> Option<(u8, Bytes)> {
        let first = self.reader.read(range.start);
        let read = first.or_else(|_| {
            // Once more, from the disk: what was read ahead may be older than a repair.
            self.reader.clear();
            self.reader.read(range.start)
        });
        let error = match read {
            Ok(frame) => return Some((frame.kind, frame.payload)),
            Err(error) => error,
        };
        inner.damaged.note(range.start, &error);
        if !matches!(error, LogError::Damage { .. }) {
            self.left = Some(error);
            return None;
        }
        let kept = bytes_as_found(victim, &range).and_then(|bytes| inner.damaged.keep(range.start, &bytes));
        match kept {
            Ok(file) => Some((DAMAGED_KIND, Bytes::from(format!("{error}; its bytes are kept in {file}")))),
            Err(error) => {
                self.left = Some(error);
                None
            }
        }
    }

    fn change_places(
        &self,
        inner: &Inner,
        found: &[(QueueId, Vec<ledger::Address>)],
        range: &Range<ledger::Address>,
        moved: &HashMap<ledger::Address, ledger::Address>,
    ) {
        for segment in inner.segments.list().iter().filter(|segment| segment.kind() == SegmentKind::Survivor)
        {
            inner.writer.lock_beside().shelf.live.add_segment(segment.base());
        }
        for (queue, _) in found {
            inner.writer.lock_beside().relocate(*queue, range, moved);
        }
    }
}

/// The bytes of a damaged record as they are found: as many as its length says, if that makes sense, else up to the
/// next record that is needed.
fn bytes_as_found(segment: &Segment, range: &Range<Address>) -> Result<Vec<u8>, LogError> {
    let offset = segment.offset_of(range.start);
    let most = range.end.since(range.start);
    let head = segment.read_up_to(offset, most.min(FRAME_HEADER_BYTES) as usize)?;
    let by_its_length = frame_bytes(&head).map(|bytes| bytes as u64).filter(|bytes| *bytes <= most);
    segment.read_up_to(offset, by_its_length.unwrap_or(most.min(UNKNOWN_LENGTH_MAX)) as usize)
}
