//! Writing and reading one frame.
//!
//! [`Out`] grows as it is written. [`In`] reads the bytes of a frame and hands out slices of it: no body is copied.

use bytes::Bytes;
use kew_store::ledger::varint::{Reader, put, put_bytes};

use super::{Fault, WireError};

/// A type that has a form on the wire.
pub trait Wire: Sized {
    /// Appends its form.
    fn put(&self, out: &mut Out);

    /// Reads its form.
    fn get(from: &mut In<'_>) -> Result<Self, WireError>;
}

/// The bytes of a frame that is being written.
#[derive(Clone, Debug, Default)]
pub struct Out {
    bytes: Vec<u8>,
}

/// Room for most requests and answers: a larger one grows.
const ROOM: usize = 256;

/// Entries that a list gets room for before any is read, however few bytes are left.
const LIST_ROOM: usize = 16;

/// The frame of a value.
pub fn encode(value: &impl Wire) -> Vec<u8> {
    let mut out = Out::onto(Vec::with_capacity(ROOM));
    value.put(&mut out);
    out.into_bytes()
}

/// The value of a frame, which has to be the whole frame. Bodies in it are slices of the frame.
pub fn decode<T: Wire>(frame: &Bytes) -> Result<T, WireError> {
    let mut from = In::new(frame);
    let value = T::get(&mut from).map_err(|error| error.at("a frame"))?;
    match from.left() {
        0 => Ok(value),
        bytes => Err(WireError::new("a frame", Fault::Trailing { bytes })),
    }
}

impl Out {
    /// Appends to these bytes.
    pub fn onto(bytes: Vec<u8>) -> Self {
        Self { bytes }
    }

    /// What was written.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Appends one byte.
    #[inline]
    pub fn byte(&mut self, byte: u8) {
        self.bytes.push(byte);
    }

    /// Appends a number in as few bytes as it needs.
    #[inline]
    pub fn number(&mut self, number: u64) {
        put(&mut self.bytes, number);
    }

    /// Appends bytes whose number both sides know.
    #[inline]
    pub fn fixed<const N: usize>(&mut self, bytes: [u8; N]) {
        self.bytes.extend_from_slice(&bytes);
    }

    /// Appends bytes behind their length.
    #[inline]
    pub fn bytes(&mut self, bytes: &[u8]) {
        put_bytes(&mut self.bytes, bytes);
    }
}

/// A frame that is being read.
#[derive(Clone, Debug)]
pub struct In<'a> {
    frame: &'a Bytes,
    rest: Reader<'a>,
}

impl<'a> In<'a> {
    /// Reads a frame from its beginning.
    pub fn new(frame: &'a Bytes) -> Self {
        Self { frame, rest: Reader::new(frame) }
    }

    /// Number of bytes that were not read yet.
    #[inline]
    pub fn left(&self) -> usize {
        self.rest.rest().len()
    }

    /// One byte.
    #[inline]
    pub fn byte(&mut self) -> Result<u8, WireError> {
        self.rest.byte().ok_or_else(|| Fault::EndsEarly.into())
    }

    /// A number.
    #[inline]
    pub fn number(&mut self) -> Result<u64, WireError> {
        self.rest.number().ok_or_else(|| Fault::NoNumber.into())
    }

    /// Bytes whose number both sides know.
    #[inline]
    pub fn fixed<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let bytes = self.rest.take(N).and_then(|bytes| bytes.first_chunk());
        bytes.copied().ok_or_else(|| Fault::EndsEarly.into())
    }

    /// Bytes behind their length.
    #[inline]
    pub fn bytes(&mut self) -> Result<&'a [u8], WireError> {
        self.rest.bytes().ok_or_else(|| Fault::EndsEarly.into())
    }

    /// Bytes behind their length, as a slice of the frame that keeps all of it in memory.
    #[inline]
    pub fn slice(&mut self) -> Result<Bytes, WireError> {
        self.bytes().map(|bytes| self.frame.slice_ref(bytes))
    }

    /// A text behind its length.
    pub fn text(&mut self) -> Result<&'a str, WireError> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Fault::NotText.into())
    }

    /// The number of entries of a list. Each of them takes a byte at least, so more than there are bytes left is wrong.
    #[inline]
    pub fn count(&mut self) -> Result<usize, WireError> {
        let count = self.number()?;
        match usize::try_from(count) {
            Ok(entries) if entries <= self.left() => Ok(entries),
            _ => Err(Fault::TooMany { count }.into()),
        }
    }

    /// A list.
    pub fn list<T: Wire>(&mut self) -> Result<Vec<T>, WireError> {
        let count = self.count()?;
        let mut list = Vec::with_capacity(first_room::<T>(count, self.left()));
        for _ in 0..count {
            list.push(T::get(self)?);
        }
        Ok(list)
    }
}

/// Entries to make room for before any was read: no more bytes of memory than the frame has left, or a few entries. A
/// list of small entries grows as they are read, so that a frame which only promises entries takes no memory for them.
fn first_room<T>(count: usize, left: usize) -> usize {
    let fit = left.checked_div(size_of::<T>()).unwrap_or(0);
    count.min(fit.max(LIST_ROOM))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_reserves_no_more_than_the_frame_has_left() {
        assert_eq!(first_room::<[u8; 100]>(3, 1_000_000), 3);
        assert_eq!(first_room::<[u8; 100]>(1_000_000, 1_000_000), 10_000);
        assert_eq!(first_room::<[u8; 100]>(1_000, 1_000), LIST_ROOM);
        assert_eq!(first_room::<()>(1_000, 1_000), LIST_ROOM);
    }

    #[test]
    fn list_with_more_entries_than_bytes_left_is_refused() {
        let count = |bytes: &[u8]| In::new(&Bytes::copy_from_slice(bytes)).count();
        assert_eq!(count(&[2, 0, 0]), Ok(2));
        assert_eq!(count(&[2, 0]), Err(Fault::TooMany { count: 2 }.into()));
        let mut endless = Out::default();
        endless.number(u64::MAX);
        assert_eq!(count(&endless.into_bytes()), Err(Fault::TooMany { count: u64::MAX }.into()));
    }

    #[test]
    fn bytes_behind_the_value_are_refused() {
        assert_eq!(decode::<u64>(&Bytes::from_static(&[5])), Ok(5));
        let error = decode::<u64>(&Bytes::from_static(&[5, 0])).expect_err("a byte follows the number");
        assert_eq!((error.place(), error.fault()), ("a frame", Fault::Trailing { bytes: 1 }));
    }

    #[test]
    fn body_is_a_slice_of_its_frame() {
        let frame = Bytes::from(encode(&Bytes::from_static(b"body")));
        let body: Bytes = decode(&frame).expect("the frame was written just now");
        assert_eq!(body.as_ptr(), frame[1..].as_ptr());
    }
}
