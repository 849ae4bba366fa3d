//! Frames: the smallest thing the log writes and can verify alone.
//!
//! ```text
//! crc32c u32 | length u32 | kind u8 | payload
//! ```
//!
//! The checksum covers length, kind and payload, and starts from a seed made of the store's secret salt and the
//! frame's address. So bytes left over from an earlier use of a file, bytes at the wrong place, and bytes that a
//! client made look like a frame do not verify.

use bytes::Bytes;

use super::numbers::Address;

/// Bytes of a frame before its payload.
pub const FRAME_HEADER_BYTES: u64 = 9;

/// The longest payload of a frame.
pub const FRAME_PAYLOAD_MAX: u32 = 256 << 20;

/// Kinds below this are the caller's; those from here on are the journal's own.
pub const KINDS_OF_CALLER: u8 = 0xF0;

/// Opens a batch.
pub(crate) const BATCH_HEADER: u8 = 0xF0;
/// Closes a batch.
pub(crate) const BATCH_END: u8 = 0xF1;

pub(crate) const HEADER_BYTES: usize = FRAME_HEADER_BYTES as usize;

/// Makes and checks the checksums of one store's frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checksums {
    salt: u32,
}

/// A verified frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Where it lies.
    pub address: Address,
    /// What it is, in the caller's terms.
    pub kind: u8,
    /// Its bytes.
    pub payload: Bytes,
}

impl Checksums {
    /// Checksums salted with a store's secret, which the identity makes.
    pub const fn new(salt: u32) -> Self {
        Self { salt }
    }

    /// The checksum of a frame at an address; `covered` starts at the length field.
    fn of(self, address: Address, covered: &[u8]) -> u32 {
        // Addresses differ in the low half within 4 GiB and in the high half beyond it.
        let folded = (address.0 as u32) ^ ((address.0 >> 32) as u32).wrapping_mul(0x9E37_79B1);
        crc32c::crc32c_append(self.salt ^ folded, covered)
    }

    /// Fills in the header of the frame that was left open at `start` of the buffer; answers its checksum.
    pub(crate) fn seal(self, buffer: &mut [u8], start: usize, kind: u8, address: Address) -> u32 {
        let payload = buffer.len() - start - HEADER_BYTES;
        assert!(payload <= FRAME_PAYLOAD_MAX as usize, "payload of {payload} bytes is past the frame limit");
        let frame = &mut buffer[start..];
        frame[4..8].copy_from_slice(&(payload as u32).to_le_bytes());
        frame[8] = kind;
        let sum = self.of(address, &frame[4..]);
        frame[..4].copy_from_slice(&sum.to_le_bytes());
        sum
    }

    /// Verifies the frame at the start of the bytes; `None` when it is no such frame.
    pub(crate) fn verify(self, bytes: &[u8], address: Address) -> Option<RawFrame<'_>> {
        let len = frame_bytes(bytes)?;
        let frame = bytes.get(..len)?;
        let sum = self.of(address, &frame[4..]);
        (sum == u32_at(frame, 0)).then(|| RawFrame { kind: frame[8], payload: &frame[HEADER_BYTES..], sum })
    }

    /// Verifies the frame at `offset` of the bytes without copying it.
    pub fn verify_shared(self, bytes: &Bytes, offset: usize, address: Address) -> Option<Frame> {
        let raw = self.verify(bytes.get(offset..)?, address)?;
        Some(Frame { address, kind: raw.kind, payload: bytes.slice_ref(raw.payload) })
    }
}

/// A frame verified in place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RawFrame<'a> {
    pub kind: u8,
    pub payload: &'a [u8],
    pub sum: u32,
}

impl RawFrame<'_> {
    /// Bytes of the whole frame.
    pub fn bytes(&self) -> usize {
        HEADER_BYTES + self.payload.len()
    }
}

/// Kind and payload of the frame at `offset` of bytes that never left memory: nothing to verify.
pub(crate) fn trusted(bytes: &[u8], offset: usize) -> Option<(u8, &[u8])> {
    let rest = bytes.get(offset..)?;
    let frame = rest.get(..frame_bytes(rest)?)?;
    Some((*frame.get(8)?, frame.get(HEADER_BYTES..)?))
}

/// Bytes of the whole frame that starts here, by its unverified length field.
pub(crate) fn frame_bytes(bytes: &[u8]) -> Option<usize> {
    if bytes.len() < HEADER_BYTES {
        return None;
    }
    let payload = u32_at(bytes, 4);
    (payload <= FRAME_PAYLOAD_MAX).then(|| HEADER_BYTES + payload as usize)
}

/// The number at an offset. The caller has checked that the bytes reach that far.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("a slice of four bytes is a [u8; 4]"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Address = Address(1 << 40);

    fn frame(sums: Checksums, address: Address, kind: u8, payload: &[u8]) -> Vec<u8> {
        let mut buffer = vec![0; HEADER_BYTES];
        buffer.extend_from_slice(payload);
        sums.seal(&mut buffer, 0, kind, address);
        buffer
    }

    #[test]
    fn a_frame_verifies_only_as_it_was_written() {
        let sums = Checksums::new(7);
        let good = frame(sums, AT, 3, b"payload");
        assert_eq!(sums.verify(&good, AT).map(|f| (f.kind, f.payload)), Some((3, &b"payload"[..])));
        for at in 0..good.len() {
            for bit in 0..8 {
                let mut bad = good.clone();
                bad[at] ^= 1 << bit;
                assert!(sums.verify(&bad, AT).is_none(), "byte {at} bit {bit}");
            }
        }
        for short in 0..good.len() {
            assert!(sums.verify(&good[..short], AT).is_none());
        }
    }

    #[test]
    fn a_frame_at_another_address_or_of_another_store_does_not_verify() {
        let sums = Checksums::new(7);
        let good = frame(sums, AT, 3, b"payload");
        for address in [Address(0), Address(1), AT + 1, AT + (1 << 32), Address::SURVIVORS + AT.0] {
            assert!(sums.verify(&good, address).is_none(), "{address:#x}");
        }
        assert!(Checksums::new(8).verify(&good, AT).is_none());
    }

    #[test]
    fn zeros_are_no_frame_anywhere() {
        // All zeros would be an empty frame of kind 0 with checksum 0.
        let sums = Checksums::new(0x1234_5678);
        assert!((0..100_000).map(Address).all(|address| sums.verify(&[0; 64], address).is_none()));
    }
}
