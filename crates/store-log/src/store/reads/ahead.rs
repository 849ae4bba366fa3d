//! What was read beyond what was asked for: a reader that goes on where it was finds it in memory.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

use crate::journal::{Address, Checksums, Frame};

/// How far a reader that goes on where it was reads ahead.
pub(crate) const READ_AHEAD: u64 = 128 << 10;
/// A read this close behind another one continues it.
pub(crate) const NEAR: u64 = 64 << 10;
/// Bytes that are kept, and how many of them one read may take.
const BYTES_MAX: usize = 4 << 20;
const CHUNK_BYTES_MAX: usize = 256 << 10;

/// Pieces of segments, the newest few. Addresses are never given out twice, so that none gets out of date.
#[derive(Default)]
pub(crate) struct Ahead {
    chunks: BTreeMap<Address, Bytes>,
    /// Their starts, the oldest first.
    order: VecDeque<Address>,
    bytes: usize,
}

/// What is known around an address.
pub(crate) struct Around {
    /// The piece that holds it.
    pub held: Option<(Address, Bytes)>,
    /// Whether there is one that ends shortly before it.
    pub is_led_to: bool,
}

impl Ahead {
    /// Adds a piece; past the bound the oldest go.
    pub fn insert(&mut self, start: Address, bytes: Bytes) {
        if bytes.len() > CHUNK_BYTES_MAX {
            return;
        }
        self.bytes += bytes.len();
        match self.chunks.insert(start, bytes) {
            Some(before) => self.bytes -= before.len(),
            None => self.order.push_back(start),
        }
        while self.bytes > BYTES_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.bytes -= self.chunks.remove(&oldest).map_or(0, |bytes| bytes.len());
        }
    }

    /// The record at an address, if it is wholly there.
    pub fn frame(&self, sums: Checksums, address: Address) -> Option<Frame> {
        let (start, bytes) = self.before(address)?;
        sums.verify_shared(bytes, usize::try_from(address - start).ok()?, address)
    }

    /// What is known around an address.
    pub fn around(&self, address: Address) -> Around {
        let Some((start, bytes)) = self.before(address) else {
            return Around { held: None, is_led_to: false };
        };
        let end = start + bytes.len() as u64;
        let held = (address < end).then(|| (start, bytes.clone()));
        Around { held, is_led_to: start < address && address < end + NEAR }
    }

    fn before(&self, address: Address) -> Option<(Address, &Bytes)> {
        self.chunks.range(..=address).next_back().map(|(start, bytes)| (*start, bytes))
    }
}
