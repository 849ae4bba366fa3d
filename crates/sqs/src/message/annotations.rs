//! What SQS keeps with a message beside its body: made once at the send, read at every receive.
//!
//! The bytes, which the store keeps as they are, are described in `docs/storage-format.md`: `S` (SQS wrote
//! them), a format version (1), the body's MD5, and for messages that have more to them, parts. A message of another
//! front-end has other annotations or none: then there is nothing to read, and what SQS shows is worked out anew. Where
//! another front-end replaced the body, ours stay behind the mark of the core, and only the MD5 is worked out anew.

use bytes::Bytes;

use kew_core::{Content, ContentType};

use crate::message::hash::Hash;
use crate::message::message_attributes::{Attributes, Encoded};

const WRITER: u8 = b'S';
const VERSION: u8 = 1;
const HEAD: usize = 2;

/// The parts a message may have, by their numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Sender = 1,
    TraceHeader = 2,
    Attributes = 3,
}

/// What is to be kept with a message.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Notes<'a> {
    pub(crate) body_hash: Hash,
    /// Who sent it, unless it was the queue's own account.
    pub(crate) sender: Option<&'a str>,
    pub(crate) trace_header: Option<&'a str>,
    /// Its attributes and their hash.
    pub(crate) attributes: Option<(&'a Encoded, Hash)>,
}

impl Notes<'_> {
    /// The annotations.
    pub(crate) fn write(&self) -> Bytes {
        let mut head = [0; HEAD + size_of::<Hash>()];
        head[0] = WRITER;
        head[1] = VERSION;
        head[HEAD..].copy_from_slice(&self.body_hash);
        // Nearly every message has nothing more.
        if self.sender.is_none() && self.trace_header.is_none() && self.attributes.is_none() {
            return Bytes::copy_from_slice(&head);
        }
        let mut bytes = head.to_vec();
        if let Some(sender) = self.sender {
            push_part(&mut bytes, Part::Sender, &[sender.as_bytes()]);
        }
        if let Some(trace) = self.trace_header {
            push_part(&mut bytes, Part::TraceHeader, &[trace.as_bytes()]);
        }
        if let Some((attributes, hash)) = &self.attributes {
            push_part(&mut bytes, Part::Attributes, &[hash, attributes.as_bytes()]);
        }
        bytes.into()
    }
}

fn push_part(bytes: &mut Vec<u8>, part: Part, pieces: &[&[u8]]) {
    bytes.push(part as u8);
    let mut length = pieces.iter().map(|piece| piece.len()).sum::<usize>();
    bytes.reserve(length + 5);
    while length > 0x7f {
        bytes.push(0x80 | (length & 0x7f) as u8);
        length >>= 7;
    }
    bytes.push(length as u8);
    for piece in pieces {
        bytes.extend_from_slice(piece);
    }
}

/// The annotations of a message that SQS sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Annotations<'a> {
    /// Of the body, unless another front-end replaced that.
    pub(crate) body_hash: Option<Hash>,
    parts: &'a [u8],
}

/// The annotations of a message, if they are ours.
pub(crate) fn read(content: &Content) -> Option<Annotations<'_>> {
    let (noted, is_beside_body) = content.noted();
    let [WRITER, VERSION, rest @ ..] = noted else { return None };
    let (body_hash, parts) = rest.split_first_chunk()?;
    // What SQS sends is text.
    let is_hash_of_body = is_beside_body && content.content_type == ContentType::Text;
    Some(Annotations { body_hash: is_hash_of_body.then_some(*body_hash), parts })
}

impl<'a> Annotations<'a> {
    /// Who sent it, unless it was the queue's own account.
    pub(crate) fn sender(&self) -> Option<&'a str> {
        self.part(Part::Sender).and_then(|sender| std::str::from_utf8(sender).ok())
    }

    pub(crate) fn trace_header(&self) -> Option<&'a str> {
        self.part(Part::TraceHeader).and_then(|trace| std::str::from_utf8(trace).ok())
    }

    /// Its attributes, and the hash of all of them.
    pub(crate) fn attributes(&self) -> Option<(Attributes<'a>, Hash)> {
        let (hash, attributes) = self.part(Part::Attributes)?.split_first_chunk()?;
        Some((Attributes(attributes), *hash))
    }

    /// A part by its number. Numbers that are not known are passed over: a later version may write more.
    fn part(&self, wanted: Part) -> Option<&'a [u8]> {
        let mut rest = self.parts;
        loop {
            let (number, behind) = rest.split_first()?;
            let (length, behind) = length(behind)?;
            let (part, behind) = behind.split_at_checked(length)?;
            if *number == wanted as u8 {
                return Some(part);
            }
            rest = behind;
        }
    }
}

/// A length of at most 32 bits: seven bits a byte, low ones first.
fn length(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let mut length = 0_u64;
    for (place, byte) in bytes.iter().take(5).enumerate() {
        length |= u64::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            return Some((usize::try_from(length).ok()?, bytes.get(place + 1..)?));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::message_attributes::Value;

    fn content(annotations: Bytes) -> Content {
        Content { annotations, ..Content::default() }
    }

    fn attributes(value_bytes: usize) -> Encoded {
        let mut encoded = Encoded::default();
        encoded.push("name", "String", Value::Text(&"v".repeat(value_bytes)));
        encoded
    }

    #[test]
    fn a_plain_message_takes_eighteen_bytes() {
        let content = content(Notes { body_hash: [7; 16], ..Notes::default() }.write());
        assert_eq!(content.annotations.len(), 18);
        let read = read(&content).expect("notes that SQS wrote are read as its own");
        assert_eq!((read.body_hash, read.sender(), read.trace_header()), (Some([7; 16]), None, None));
        assert!(read.attributes().is_none());
    }

    #[test]
    fn every_part_is_handed_back_alone_and_together() {
        for value_bytes in [1, 100, 200, 20_000, 1 << 20] {
            let encoded = attributes(value_bytes);
            for mask in 0..8_u8 {
                let has = |bit: u8| mask & bit != 0;
                let notes = Notes {
                    body_hash: [1; 16],
                    sender: has(1).then_some("someone"),
                    trace_header: has(2).then_some("Root=1"),
                    attributes: has(4).then_some((&encoded, [9; 16])),
                };
                let content = content(notes.write());
                let read = read(&content).expect("notes that SQS wrote are read as its own");
                assert_eq!((read.sender(), read.trace_header()), (notes.sender, notes.trace_header));
                let found = read.attributes().map(|(attributes, hash)| (attributes.count(), hash));
                assert_eq!(found, has(4).then_some((1, [9; 16])));
            }
        }
    }

    #[test]
    fn annotations_of_others_are_none_of_ours() {
        for annotations in
            ["", "S", "S\u{1}short", "S\u{2}0123456789abcdef", "Azure, perhaps, and long enough"]
        {
            assert!(read(&content(Bytes::from_static(annotations.as_bytes()))).is_none(), "{annotations}");
        }
    }

    #[test]
    fn of_a_replaced_body_everything_but_its_hash_stays() {
        let notes = Notes { body_hash: [7; 16], sender: Some("someone"), ..Notes::default() };
        let old = content(notes.write());
        for content_type in [ContentType::Text, ContentType::Bytes] {
            let new = Content { content_type, body: "new".into(), ..Content::default() }.in_place_of(&old);
            let read = read(&new).expect("the notes stay");
            assert_eq!((read.body_hash, read.sender()), (None, Some("someone")));
        }
    }

    #[test]
    fn parts_that_are_not_known_are_passed_over_and_broken_ones_end_the_reading() {
        let mut later = Notes { sender: Some("someone"), ..Notes::default() }.write().to_vec();
        let sender = later.split_off(18);
        later.extend_from_slice(&[200, 3, 1, 2, 3]);
        later.extend_from_slice(&sender);
        let later = content(later.into());
        assert_eq!(read(&later).and_then(|read| read.sender()), Some("someone"));
        let whole =
            Notes { sender: Some("s"), attributes: Some((&attributes(300), [0; 16])), ..Notes::default() };
        let whole = whole.write();
        for end in 18..whole.len() {
            let cut = content(whole.slice(..end));
            let read = read(&cut).expect("the head is there");
            assert!(read.attributes().is_none_or(|(attributes, _)| attributes.count() == 0), "{end}");
        }
        for place in 18..40 {
            let mut altered = whole.to_vec();
            altered[place] ^= 0xff;
            let altered = content(altered.into());
            let read = read(&altered).expect("the head is there");
            let _any = (read.sender(), read.trace_header(), read.attributes().map(|(all, _)| all.count()));
        }
    }
}
