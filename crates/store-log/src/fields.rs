//! Fields of fixed length, one behind the other: how each looks in a file, and which record and field were bad.
//!
//! A type says with [`Codec`] how many bytes it takes and which bytes make no sense. A decoder asks for field after
//! field with [`Fields::get`]; the type it asks for decides what is read, so that two numbers cannot change places.

use bytes::BufMut;

use crate::error::LogError;

/// Numbers above this make no sense in any file; below it, arithmetic with two of them cannot overflow.
pub(crate) const NUMBER_MAX: u64 = 1 << 62;

/// A value that takes a fixed number of bytes.
pub(crate) trait Codec: Sized {
    /// How many.
    const BYTES: usize;

    /// Appends its bytes.
    fn put(self, to: &mut impl BufMut);

    /// Reads it from exactly [`Codec::BYTES`] bytes; `None` when they make no sense.
    fn get(from: &[u8]) -> Option<Self>;
}

macro_rules! integers {
    ($($integer:ty),*) => {$(
        impl Codec for $integer {
            const BYTES: usize = size_of::<Self>();

            #[inline]
            fn put(self, to: &mut impl BufMut) {
                to.put_slice(&self.to_le_bytes());
            }

            #[inline]
            fn get(from: &[u8]) -> Option<Self> {
                Some(Self::from_le_bytes(from.try_into().ok()?))
            }
        }
    )*};
}

integers!(u8, u32, u64);

impl<const N: usize> Codec for [u8; N] {
    const BYTES: usize = N;

    #[inline]
    fn put(self, to: &mut impl BufMut) {
        to.put_slice(&self);
    }

    #[inline]
    fn get(from: &[u8]) -> Option<Self> {
        from.try_into().ok()
    }
}

/// A number that arithmetic may be done with.
pub(crate) fn sensible(number: u64) -> Option<u64> {
    (number <= NUMBER_MAX).then_some(number)
}

/// Makes a number a type of its own, with the same bytes in files: at most [`NUMBER_MAX`].
macro_rules! number_codec {
    ($type:ident) => {
        impl $crate::fields::Codec for $type {
            const BYTES: usize = 8;

            #[inline]
            fn put(self, to: &mut impl bytes::BufMut) {
                self.0.put(to);
            }

            #[inline]
            fn get(from: &[u8]) -> Option<Self> {
                u64::get(from).and_then($crate::fields::sensible).map(Self)
            }
        }
    };
}
pub(crate) use number_codec;

/// Reads the fields of one record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fields<'a> {
    record: &'static str,
    bytes: &'a [u8],
    at: usize,
}

/// A field that its record ends within, or whose bytes make no sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BadField {
    /// What the bytes should be.
    pub record: &'static str,
    /// Which part of it is bad.
    pub field: &'static str,
    /// Offset of the field from the beginning of the record.
    pub at: usize,
}

impl<'a> Fields<'a> {
    /// The fields of a record from an offset on.
    #[inline]
    pub fn of(record: &'static str, bytes: &'a [u8], at: usize) -> Self {
        Self { record, bytes, at }
    }

    /// The next field.
    #[inline]
    pub fn get<T: Codec>(&mut self, field: &'static str) -> Result<T, BadField> {
        let bad = self.bad(field);
        T::get(self.take(field, T::BYTES)?).ok_or(bad)
    }

    /// The next field, a number that arithmetic may be done with.
    pub fn number(&mut self, field: &'static str) -> Result<u64, BadField> {
        let bad = self.bad(field);
        self.get(field).and_then(|number| sensible(number).ok_or(bad))
    }

    /// The bytes of the next field, which is `len` bytes long.
    #[inline]
    pub fn take(&mut self, field: &'static str, len: usize) -> Result<&'a [u8], BadField> {
        let taken = self.bytes.get(self.at..self.at.saturating_add(len)).ok_or(self.bad(field))?;
        self.at += len;
        Ok(taken)
    }

    /// Skips bytes that have no meaning.
    #[inline]
    pub fn skip(&mut self, len: usize) {
        self.at = self.at.saturating_add(len);
    }

    /// What was not read so far.
    pub fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    /// The field that begins here is bad.
    #[inline]
    pub fn bad(&self, field: &'static str) -> BadField {
        BadField { record: self.record, field, at: self.at }
    }
}

impl BadField {
    /// Damage, in a file in which the record begins at an offset.
    pub fn damage(self, file: &str, record_at: u64) -> LogError {
        LogError::damage(file, record_at + self.at as u64, self.to_string())
    }
}

impl std::fmt::Display for BadField {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {}", self.field, self.record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_back_in_the_order_they_were_put() {
        let mut bytes = Vec::new();
        7_u32.put(&mut bytes);
        [1_u8, 2].put(&mut bytes);
        9_u64.put(&mut bytes);
        3_u8.put(&mut bytes);
        let mut fields = Fields::of("a record", &bytes, 0);
        assert_eq!(fields.get::<u32>("a"), Ok(7));
        fields.skip(2);
        assert_eq!((fields.get::<u64>("b"), fields.rest()), (Ok(9), &[3_u8][..]));
    }

    #[test]
    fn bad_field_is_named_with_its_record_and_its_place() {
        let mut bytes = vec![0; 4];
        (NUMBER_MAX + 1).put(&mut bytes);
        let mut fields = Fields::of("a record", &bytes, 4);
        let error = fields.number("the size").unwrap_err();
        assert_eq!(error.damage("x", 100).to_string(), "damage in x at offset 104: the size of a record");
        assert_eq!(fields.get::<u8>("the end").map_err(|bad| bad.at), Err(12));
    }
}
