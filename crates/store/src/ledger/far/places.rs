//! Which bucket each message lies in, while somebody asks for messages one by one.
//!
//! A receipt of a message that is hidden for long names it by its sequence, and the buckets are ordered by time. Where
//! delays differ every bucket may hold it. So its bucket is looked up here, in runs of neighbouring sequences.

use hashbrown::HashMap;
use kew_core::{Sequence, Timestamp};

use super::WIDTHS;

/// A bucket's width and its first instant.
pub(super) type Bucket = (u32, Timestamp);

/// Sequences in a run, as a power of two.
const RUN: u32 = 8;
/// All instants of buckets are multiples of the narrowest width.
const NARROWEST: u32 = WIDTHS[0];
const WIDTH_BITS: u32 = 2;

/// The buckets of messages.
#[derive(Clone, Debug, Default)]
pub(super) struct Places {
    /// By run, for each message there: the bucket's instant, its width, and the message's place in the run.
    runs: HashMap<u64, Vec<u64>>,
}

impl Places {
    pub(super) fn note(&mut self, sequence: Sequence, (width, start): Bucket) {
        let width = WIDTHS.iter().position(|known| *known == width).unwrap_or_default() as u64;
        let bucket = start.0 >> NARROWEST << WIDTH_BITS | width;
        self.runs.entry(sequence.0 >> RUN).or_default().push(bucket << RUN | place(sequence));
    }

    pub(super) fn forget(&mut self, sequence: Sequence) {
        let Some(run) = self.runs.get_mut(&(sequence.0 >> RUN)) else { return };
        run.retain(|noted| *noted & ((1 << RUN) - 1) != place(sequence));
        if run.is_empty() {
            self.runs.remove(&(sequence.0 >> RUN));
        }
    }

    pub(super) fn of(&self, sequence: Sequence) -> Option<Bucket> {
        let run = self.runs.get(&(sequence.0 >> RUN))?;
        let noted = *run.iter().find(|noted| **noted & ((1 << RUN) - 1) == place(sequence))?;
        let bucket = noted >> RUN;
        let width = *WIDTHS.get((bucket & ((1 << WIDTH_BITS) - 1)) as usize)?;
        Some((width, Timestamp(bucket >> WIDTH_BITS << NARROWEST)))
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let runs: usize = self.runs.values().map(|run| run.capacity() * size_of::<u64>()).sum();
        runs + self.runs.capacity() * size_of::<(u64, Vec<u64>)>()
    }
}

/// Where in its run a message stands.
fn place(sequence: Sequence) -> u64 {
    sequence.0 & ((1 << RUN) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_message_has_the_bucket_it_was_last_noted_in() {
        let mut places = Places::default();
        let bucket = |sequence: u64| {
            let width = WIDTHS[sequence as usize % WIDTHS.len()];
            (width, Timestamp((1_900_000_000_000 + sequence * 7_777_777) >> width << width))
        };
        for sequence in 0..2_000 {
            places.note(Sequence(sequence), bucket(sequence));
        }
        for sequence in (0..2_000).step_by(3) {
            places.forget(Sequence(sequence));
        }
        for sequence in (0..2_000).step_by(6) {
            places.note(Sequence(sequence), bucket(sequence + 1));
        }
        for sequence in 0..2_000 {
            let expected = match sequence {
                sequence if sequence % 6 == 0 => Some(bucket(sequence + 1)),
                sequence if sequence % 3 == 0 => None,
                sequence => Some(bucket(sequence)),
            };
            assert_eq!(places.of(Sequence(sequence)), expected, "{sequence}");
        }
        (0..2_000).for_each(|sequence| places.forget(Sequence(sequence)));
        assert!(places.runs.is_empty());
    }
}
