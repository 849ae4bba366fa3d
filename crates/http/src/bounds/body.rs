//! A body that is put together from pieces, within bounds of its length and of what all bodies together may hold.

use bytes::{Bytes, BytesMut};

use crate::bounds::ration::Share;
use crate::refusal::Refusal;

/// So much room is made for an announced body before it comes: announcing is cheap.
const EXPECTED_MAX: usize = 16 << 10;

/// What has come of a body.
pub(crate) struct Gathered<'a, 'b> {
    bytes_max: usize,
    share: &'a mut Share<'b>,
    bytes: BytesMut,
}

impl<'a, 'b> Gathered<'a, 'b> {
    pub(crate) fn new(bytes_max: usize, share: &'a mut Share<'b>) -> Self {
        Self { bytes_max, share, bytes: BytesMut::new() }
    }

    /// Reserves memory for an announced length in bytes; of a long body only for the beginning.
    pub(crate) fn expect(&mut self, bytes: u64) {
        let expected = usize::try_from(bytes).unwrap_or(usize::MAX);
        self.bytes.reserve(expected.min(EXPECTED_MAX).min(self.bytes_max));
    }

    pub(crate) fn add(&mut self, piece: &[u8]) -> Result<(), Refusal> {
        self.check(piece.len())?;
        self.bytes.extend_from_slice(piece);
        Ok(())
    }

    /// Where a piece of an announced body may be put, which is then [counted](Self::count).
    pub(crate) fn bytes(&mut self) -> &mut BytesMut {
        &mut self.bytes
    }

    /// Counts a piece that is where it belongs.
    pub(crate) fn count(&mut self, bytes: usize) -> Result<(), Refusal> {
        if self.share.grow(bytes) { Ok(()) } else { Err(Refusal::BodiesTooLarge) }
    }

    /// Refuses this number of further bytes when they exceed the bound.
    pub(crate) fn check(&mut self, bytes: usize) -> Result<(), Refusal> {
        if self.bytes.len().saturating_add(bytes) > self.bytes_max {
            return Err(Refusal::BodyTooLarge { bytes_max: self.bytes_max });
        }
        self.count(bytes)
    }

    pub(crate) fn whole(self) -> Bytes {
        self.bytes.freeze()
    }
}
