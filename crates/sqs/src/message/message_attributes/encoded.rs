//! The one form of message attributes: what their MD5 is taken over, and what is stored.
//!
//! For each, in the order of names: name, type, a byte 1 (text) or 2 (binary), value; texts and bytes each behind their
//! length in four bytes, high first. Because the stored bytes are the hashed ones, the hash of what a receive chooses
//! is the hash of pieces of them.

use md5::{Digest, Md5};

use crate::message::hash::Hash;

const TEXT: u8 = 1;
const BINARY: u8 = 2;

/// Attributes in their one form.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Encoded(Vec<u8>);

/// A value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Value<'a> {
    Text(&'a str),
    Binary(&'a [u8]),
}

impl Encoded {
    pub(super) fn with_capacity(bytes: usize) -> Self {
        Self(Vec::with_capacity(bytes))
    }

    /// Adds one. They are added in the order of their names.
    pub(crate) fn push(&mut self, name: &str, data_type: &str, value: Value<'_>) {
        self.push_bytes(name.as_bytes());
        self.push_bytes(data_type.as_bytes());
        match value {
            Value::Text(text) => {
                self.0.push(TEXT);
                self.push_bytes(text.as_bytes());
            }
            Value::Binary(bytes) => {
                self.0.push(BINARY);
                self.push_bytes(bytes);
            }
        }
    }

    fn push_bytes(&mut self, bytes: &[u8]) {
        let length = u32::try_from(bytes.len()).expect("a request holds less than four gigabytes");
        self.0.extend_from_slice(&length.to_be_bytes());
        self.0.extend_from_slice(bytes);
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Their MD5.
    pub(crate) fn hash(&self) -> Hash {
        Md5::digest(&self.0).into()
    }
}

/// One stored attribute.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Attribute<'a> {
    pub(crate) name: &'a str,
    pub(crate) data_type: &'a str,
    pub(crate) value: Value<'a>,
    /// Its part of the stored bytes.
    encoded: &'a [u8],
}

impl Attribute<'_> {
    /// The MD5 of some of a message's attributes, in their stored order.
    pub(crate) fn hash_of(chosen: &[Self]) -> Hash {
        let mut hash = Md5::new();
        for attribute in chosen {
            hash.update(attribute.encoded);
        }
        hash.finalize().into()
    }
}

/// Stored attributes, one after the other. Ends where the bytes are none of ours.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Attributes<'a>(pub(crate) &'a [u8]);

impl<'a> Iterator for Attributes<'a> {
    type Item = Attribute<'a>;

    fn next(&mut self) -> Option<Attribute<'a>> {
        let whole = self.0;
        let (name, rest) = piece(whole)?;
        let (data_type, rest) = piece(rest)?;
        let (kind, rest) = rest.split_first()?;
        let (value, rest) = piece(rest)?;
        let value = match *kind {
            TEXT => Value::Text(std::str::from_utf8(value).ok()?),
            BINARY => Value::Binary(value),
            _ => return None,
        };
        let (name, data_type) = (std::str::from_utf8(name).ok()?, std::str::from_utf8(data_type).ok()?);
        let encoded = whole.get(..whole.len() - rest.len())?;
        self.0 = rest;
        Some(Attribute { name, data_type, value, encoded })
    }
}

fn piece(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    rest.split_at_checked(usize::try_from(u32::from_be_bytes(*length)).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Encoded {
        let mut encoded = Encoded::default();
        encoded.push("a", "String", Value::Text("é"));
        encoded.push("b", "Binary.gif", Value::Binary(&[0, 255]));
        encoded.push("c", "Number", Value::Text("7"));
        encoded
    }

    #[test]
    fn attributes_read_back_as_they_were_and_hash_piece_by_piece() {
        let encoded = sample();
        let all: Vec<_> = Attributes(encoded.as_bytes()).collect();
        let seen: Vec<_> = all.iter().map(|one| (one.name, one.data_type, one.value)).collect();
        assert_eq!(
            seen,
            [
                ("a", "String", Value::Text("é")),
                ("b", "Binary.gif", Value::Binary(&[0, 255])),
                ("c", "Number", Value::Text("7"))
            ]
        );
        assert_eq!(Attribute::hash_of(&all), encoded.hash());
        let mut some = Encoded::default();
        some.push("a", "String", Value::Text("é"));
        some.push("c", "Number", Value::Text("7"));
        assert_eq!(Attribute::hash_of(&[all[0], all[2]]), some.hash());
    }

    #[test]
    fn bytes_that_are_no_attributes_end_them() {
        let encoded = sample();
        let whole = encoded.as_bytes();
        for end in 0..whole.len() {
            let read = Attributes(&whole[..end]).count();
            assert!(read < 3, "{end}");
        }
        for place in 0..whole.len() {
            let mut altered = whole.to_vec();
            altered[place] ^= 0xff;
            assert!(Attributes(&altered).count() <= 3, "{place}");
        }
    }
}
