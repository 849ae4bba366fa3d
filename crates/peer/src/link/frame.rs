//! Frames: what both sides write once the handshake is done.
//!
//! A frame is its length (4 bytes, little-endian, without themselves), its kind (1 byte) and its body. The body of a
//! request, an answer, a cancel and a failure begins with the request's number (8 bytes), that of a beat and its echo
//! is an instant (8 bytes). Each side numbers its own requests.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::error::Why;
use super::limits::PAYLOAD_MAX;

/// The bytes of a length.
const LENGTH: usize = 4;
/// The bytes of a kind.
const KIND: usize = 1;
/// The bytes of a number or an instant.
const NUMBER: usize = 8;
/// The longest frame, without its length.
const FRAME_MAX: usize = KIND + NUMBER + PAYLOAD_MAX;

/// Payloads shorter than this are copied out of the buffer they were read into: a slice would keep all of it in memory
/// for as long as the request waits.
pub const SLICED_FROM: usize = 16 << 10;

const ASK: u8 = 1;
const ANSWER: u8 = 2;
const FAILED: u8 = 3;
const CANCEL: u8 = 4;
const BEAT: u8 = 5;
const ECHO: u8 = 6;
const LEAVE: u8 = 7;

/// A request's number. The side that asks counts them; none is used twice on one link.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Number(pub u64);

/// Milliseconds since the sender's side of the link began.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Beat(pub u64);

/// One frame that was read.
#[derive(PartialEq, Eq, Debug)]
pub enum Frame {
    /// The other side asks.
    Ask(Number, Bytes),
    /// The other side answers a request of this side.
    Answer(Number, Bytes),
    /// The other side has an answer that is too long to be sent.
    Failed(Number),
    /// The other side waits no longer for the answer to its request.
    Cancel(Number),
    /// The other side is there.
    Beat(Beat),
    /// The other side has had a beat of this side.
    Echo(Beat),
    /// The other side asks no more on this link.
    Leave,
}

/// Takes the frame at the front of `buffer`, if all of it is there.
pub fn take(buffer: &mut BytesMut) -> Result<Option<Frame>, Why> {
    let Some(length) = announced(buffer)? else { return Ok(None) };
    if buffer.len() < LENGTH + length {
        return Ok(None);
    }
    buffer.advance(LENGTH);
    let kind = buffer.get_u8();
    decode(kind, buffer, length - KIND).map(Some)
}

/// How many bytes of the frame at the front of `buffer` are not there yet.
pub fn missing(buffer: &BytesMut) -> usize {
    match announced(buffer) {
        Ok(Some(length)) => (LENGTH + length).saturating_sub(buffer.len()),
        Ok(None) | Err(_) => 0,
    }
}

/// The length of the frame at the front of `buffer`, if it is there. It is from [`KIND`] to [`FRAME_MAX`].
fn announced(buffer: &BytesMut) -> Result<Option<usize>, Why> {
    let Some(mut head) = buffer.get(..LENGTH) else { return Ok(None) };
    match usize::try_from(head.get_u32_le()) {
        Ok(length @ KIND..=FRAME_MAX) => Ok(Some(length)),
        _ => Err(Why::Protocol("the length of a frame is out of bounds")),
    }
}

fn decode(kind: u8, buffer: &mut BytesMut, length: usize) -> Result<Frame, Why> {
    if kind == LEAVE && length == 0 {
        return Ok(Frame::Leave);
    }
    let rest = length.checked_sub(NUMBER).ok_or(Why::Protocol("a frame is too short"))?;
    let number = buffer.get_u64_le();
    match (kind, rest) {
        (ASK, _) => Ok(Frame::Ask(Number(number), payload(buffer, rest))),
        (ANSWER, _) => Ok(Frame::Answer(Number(number), payload(buffer, rest))),
        (FAILED, 0) => Ok(Frame::Failed(Number(number))),
        (CANCEL, 0) => Ok(Frame::Cancel(Number(number))),
        (BEAT, 0) => Ok(Frame::Beat(Beat(number))),
        (ECHO, 0) => Ok(Frame::Echo(Beat(number))),
        _ => Err(Why::Protocol("a frame is of no known kind and length")),
    }
}

fn payload(buffer: &mut BytesMut, length: usize) -> Bytes {
    if length >= SLICED_FROM {
        return buffer.split_to(length).freeze();
    }
    let copy = Bytes::copy_from_slice(buffer.get(..length).unwrap_or_default());
    buffer.advance(length);
    copy
}

/// Writes all of a request's frame but its payload.
pub fn ask_head(out: &mut BytesMut, number: Number, payload: usize) {
    head(out, ASK, number.0, payload);
}

/// Writes all of an answer's frame but its payload.
pub fn answer_head(out: &mut BytesMut, number: Number, payload: usize) {
    head(out, ANSWER, number.0, payload);
}

/// Writes that the answer to a request is too long.
pub fn failed(out: &mut BytesMut, number: Number) {
    head(out, FAILED, number.0, 0);
}

/// Writes that a request of this side is not waited for any longer.
pub fn cancel(out: &mut BytesMut, number: Number) {
    head(out, CANCEL, number.0, 0);
}

/// Writes a beat.
pub fn beat(out: &mut BytesMut, beat: Beat) {
    head(out, BEAT, beat.0, 0);
}

/// Writes that a beat of the other side was heard.
pub fn echo(out: &mut BytesMut, beat: Beat) {
    head(out, ECHO, beat.0, 0);
}

/// Writes that this side asks no more.
pub fn leave(out: &mut BytesMut) {
    out.put_u32_le(1);
    out.put_u8(LEAVE);
}

fn head(out: &mut BytesMut, kind: u8, number: u64, payload: usize) {
    let length = KIND + NUMBER + payload;
    out.put_u32_le(u32::try_from(length).expect("a payload has at most PAYLOAD_MAX bytes"));
    out.put_u8(kind);
    out.put_u64_le(number);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One frame of each kind, with the bytes of it.
    fn each() -> Vec<(Frame, BytesMut)> {
        let long = Bytes::from(vec![7; SLICED_FROM]);
        let with = |frame, write: &dyn Fn(&mut BytesMut)| {
            let mut out = BytesMut::new();
            write(&mut out);
            (frame, out)
        };
        vec![
            with(Frame::Ask(Number(1), Bytes::from_static(b"ask")), &|out| {
                ask_head(out, Number(1), 3);
                out.put_slice(b"ask");
            }),
            with(Frame::Ask(Number(9), long.clone()), &|out| {
                ask_head(out, Number(9), long.len());
                out.put_slice(&long);
            }),
            with(Frame::Answer(Number(2), Bytes::new()), &|out| answer_head(out, Number(2), 0)),
            with(Frame::Failed(Number(3)), &|out| failed(out, Number(3))),
            with(Frame::Cancel(Number(4)), &|out| cancel(out, Number(4))),
            with(Frame::Beat(Beat(u64::MAX)), &|out| beat(out, Beat(u64::MAX))),
            with(Frame::Echo(Beat(6)), &|out| echo(out, Beat(6))),
            with(Frame::Leave, &|out| leave(out)),
        ]
    }

    #[test]
    fn every_frame_is_read_as_it_was_written_and_not_before_its_last_byte() {
        for (frame, bytes) in each() {
            for cut in 0..bytes.len() {
                let mut part = BytesMut::from(&bytes[..cut]);
                assert_eq!(take(&mut part), Ok(None), "{frame:?} cut at byte {cut}");
                assert_eq!(part.len(), cut, "a frame that is not whole stays in the buffer");
                let missing_now = if cut < LENGTH { 0 } else { bytes.len() - cut };
                assert_eq!(missing(&part), missing_now);
            }
            let mut whole = bytes;
            whole.put_u8(0xaa);
            assert_eq!(take(&mut whole), Ok(Some(frame)));
            assert_eq!(&whole[..], [0xaa], "what follows a frame stays in the buffer");
        }
    }

    #[test]
    fn a_length_out_of_bounds_is_refused_before_its_bytes_arrive() {
        for length in [0, u32::try_from(FRAME_MAX).unwrap() + 1, u32::MAX] {
            let mut buffer = BytesMut::from(&length.to_le_bytes()[..]);
            assert!(matches!(take(&mut buffer), Err(Why::Protocol(_))), "length {length}");
        }
        let mut longest = BytesMut::from(&u32::try_from(FRAME_MAX).unwrap().to_le_bytes()[..]);
        assert_eq!(take(&mut longest), Ok(None));
    }

    #[test]
    fn no_bytes_make_decoding_panic() {
        for kind in 0..=u8::MAX {
            for length in [1_u32, 2, 8, 9, 10, 40] {
                let mut buffer = BytesMut::new();
                buffer.put_u32_le(length);
                buffer.put_u8(kind);
                buffer.put_bytes(0xff, length as usize - 1);
                let is_known = match kind {
                    ASK | ANSWER => length >= 9,
                    FAILED | CANCEL | BEAT | ECHO => length == 9,
                    LEAVE => length == 1,
                    _ => false,
                };
                assert_eq!(take(&mut buffer).is_ok(), is_known, "kind {kind}, length {length}");
            }
        }
    }
}
