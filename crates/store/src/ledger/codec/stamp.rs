//! When a change was made: what every record begins with.

use kew_core::Timestamp;

use crate::ledger::shelf::Made;
use crate::ledger::varint::{Fields, Reader, put};

/// When a change was made, as its record begins: most records begin like the one before.
#[derive(Clone, Default, Debug)]
pub struct Stamp {
    number: u64,
    bytes: [u8; 10],
    length: usize,
}

impl Stamp {
    #[inline]
    pub(super) fn set(&mut self, made: Made) {
        let number = made.at.0 << 1 | u64::from(made.begins_step);
        if number != self.number || self.length == 0 {
            let mut bytes = Vec::with_capacity(16);
            put(&mut bytes, number);
            self.number = number;
            self.length = bytes.len();
            bytes.resize(self.bytes.len(), 0);
            self.bytes.copy_from_slice(&bytes);
        }
    }

    /// Begins a record.
    #[inline]
    pub(super) fn begin(&self, fields: &mut Fields<'_>) {
        fields.beginning(self.bytes, self.length);
    }
}

#[inline]
pub(super) fn read_made(from: &mut Reader<'_>) -> Option<Made> {
    let number = from.number()?;
    Some(Made { at: Timestamp(number >> 1), begins_step: number & 1 == 1 })
}
