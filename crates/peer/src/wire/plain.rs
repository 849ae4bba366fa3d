//! The forms of numbers, flags, options, lists, results and durations.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::forms::field;
use super::{Fault, In, Out, Wire, WireError};

const NANOS_A_SECOND: u32 = 1_000_000_000;

impl Wire for u64 {
    #[inline]
    fn put(&self, out: &mut Out) {
        out.number(*self);
    }

    #[inline]
    fn get(from: &mut In<'_>) -> Result<Self, WireError> {
        from.number()
    }
}

/// Numbers of fewer bits.
macro_rules! small_numbers {
    ($($type:ty)+) => {
        $(impl Wire for $type {
            #[inline]
            fn put(&self, out: &mut Out) {
                out.number(u64::from(*self));
            }

            #[inline]
            fn get(from: &mut In<'_>) -> Result<Self, WireError> {
                let number = from.number()?;
                number.try_into().map_err(|_| Fault::TooLarge { number }.into())
            }
        })+
    };
}

small_numbers! { u16 u32 }

impl Wire for usize {
    fn put(&self, out: &mut Out) {
        out.number(*self as u64);
    }

    fn get(from: &mut In<'_>) -> Result<Self, WireError> {
        let number = from.number()?;
        number.try_into().map_err(|_| Fault::TooLarge { number }.into())
    }
}

impl Wire for bool {
    #[inline]
    fn put(&self, out: &mut Out) {
        out.byte(u8::from(*self));
    }

    #[inline]
    fn get(from: &mut In<'_>) -> Result<Self, WireError> {
        match from.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            byte => Err(Fault::UnknownChoice { byte }.into()),
        }
    }
}

impl Wire for () {
    fn put(&self, _out: &mut Out) {}

    fn get(_from: &mut In<'_>) -> Result<Self, WireError> {
        Ok(())
    }
}

/// Whole seconds, then nanoseconds: nearly every duration is of whole seconds.
impl Wire for Duration {
    #[inline]
    fn put(&self, out: &mut Out) {
        out.number(self.as_secs());
        out.number(u64::from(self.subsec_nanos()));
    }

    #[inline]
    fn get(from: &mut In<'_>) -> Result<Self, WireError> {
        let (seconds, nanos) = (from.number()?, field::<u32>(from, "Duration")?);
        if nanos >= NANOS_A_SECOND {
            return Err(WireError::new("Duration", Fault::TooLarge { number: u64::from(nanos) }));
        }
        Ok(Self::new(seconds, nanos))
    }
}

/// Read as a slice of the frame, which stays in memory as long as the slice: for what is used at once.
impl Wire for Bytes {
    #[inline]
    fn put(&self, out: &mut Out) {
        out.bytes(self);
    }

    #[inline]
    fn get(from: &mut In<'_>) -> Result<Self, WireError> {
        from.slice()
    }
}

impl Wire for Arc<str> {
    fn put(&self, out: &mut Out) {
        out.bytes(self.as_bytes());
    }

    fn get(from: &mut In<'_>) -> Result<Self, WireError> {
        from.text().map(Self::from)
    }
}

impl Wire for String {
    fn put(&self, out: &mut Out) {
        out.bytes(self.as_bytes());
    }

    fn get(from: &mut In<'_>) -> Result<Self, WireError> {
        from.text().map(Self::from)
    }
}

impl<T: Wire> Wire for Arc<T> {
    fn put(&self, out: &mut Out) {
        T::put(self, out);
    }

    fn get(from: &mut In<'_>) -> Result<Self, WireError> {
        T::get(from).map(Self::new)
    }
}

impl<T: Wire> Wire for Box<T> {
    fn put(&self, out: &mut Out) {
        T::put(self, out);
    }

    fn get(from: &mut In<'_>) -> Result<Self, WireError> {
        T::get(from).map(Self::new)
    }
}

impl<T: Wire> Wire for Option<T> {
    #[inline]
    fn put(&self, out: &mut Out) {
        out.byte(u8::from(self.is_some()));
        if let Some(value) = self {
            value.put(out);
        }
    }

    #[inline]
    fn get(from: &mut In<'_>) -> Result<Self, WireError> {
        match from.byte()? {
            0 => Ok(None),
            1 => T::get(from).map(Some),
            byte => Err(Fault::UnknownChoice { byte }.into()),
        }
    }
}

impl<T: Wire, E: Wire> Wire for Result<T, E> {
    #[inline]
    fn put(&self, out: &mut Out) {
        match self {
            Ok(value) => {
                out.byte(0);
                value.put(out);
            }
            Err(error) => {
                out.byte(1);
                error.put(out);
            }
        }
    }

    #[inline]
    fn get(from: &mut In<'_>) -> Result<Self, WireError> {
        match from.byte()? {
            0 => T::get(from).map(Ok),
            1 => E::get(from).map(Err),
            byte => Err(Fault::UnknownChoice { byte }.into()),
        }
    }
}

impl<T: Wire> Wire for Vec<T> {
    fn put(&self, out: &mut Out) {
        out.number(self.len() as u64);
        for entry in self {
            entry.put(out);
        }
    }

    fn get(from: &mut In<'_>) -> Result<Self, WireError> {
        from.list()
    }
}
