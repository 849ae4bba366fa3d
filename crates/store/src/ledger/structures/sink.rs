//! Where a checkpoint's bytes go, handed on in pieces: a large queue is never in memory twice.

use super::varint;

/// Bytes that are gathered before they are handed on.
const PIECE_BYTES: usize = 64 << 10;

/// Gathers bytes and hands them on.
pub(crate) struct Sink<'a> {
    gathered: Vec<u8>,
    give: &'a mut dyn FnMut(&[u8]),
}

impl<'a> Sink<'a> {
    pub(crate) fn new(give: &'a mut dyn FnMut(&[u8])) -> Self {
        Self { gathered: Vec::new(), give }
    }

    /// Appends what `write` appends.
    pub(crate) fn with(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.gathered);
        if self.gathered.len() >= PIECE_BYTES {
            self.hand_on();
        }
    }

    /// Appends a number.
    pub(crate) fn number(&mut self, number: u64) {
        self.with(|out| varint::put(out, number));
    }

    fn hand_on(&mut self) {
        (self.give)(&self.gathered);
        self.gathered.clear();
    }

    /// Hands on the rest.
    pub(crate) fn finish(mut self) {
        if !self.gathered.is_empty() {
            self.hand_on();
        }
    }
}

/// All bytes that `write` appends.
#[cfg(test)]
pub(crate) fn written(write: impl FnOnce(&mut Sink<'_>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut give = |piece: &[u8]| bytes.extend_from_slice(piece);
    let mut sink = Sink::new(&mut give);
    write(&mut sink);
    sink.finish();
    bytes
}
