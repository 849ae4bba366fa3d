//! Batches: what the journal writes in one piece and replays wholly or not at all.
//!
//! A batch is a header frame, the caller's record frames, and an end frame. Places are known while it is filled,
//! because addresses are logical; which segment it goes to, and what was durable by then, is filled in when it is
//! written.

use super::frame::{BATCH_END, BATCH_HEADER, Checksums, HEADER_BYTES, KINDS_OF_CALLER, RawFrame, u32_at};
use super::numbers::{Address, BatchNumber, SegmentNumber};
use crate::error::LogError;
use crate::fields::{BadField, Codec, Fields};
use bytes::Bytes;

/// First bytes of the payload of a batch header frame.
pub(crate) const HEADER_MAGIC: [u8; 8] = *b"KewBatch";
/// First bytes of the payload of a batch end frame.
pub(crate) const END_MAGIC: [u8; 8] = *b"KewBtEnd";
/// What both magics begin with; a scan for later batches looks for it.
pub(crate) const COMMON_MAGIC: [u8; 4] = *b"KewB";

const HEADER_PAYLOAD: usize = 40;
const END_PAYLOAD: usize = 32;
/// Bytes of a batch header frame.
pub(crate) const BATCH_HEADER_BYTES: usize = HEADER_BYTES + HEADER_PAYLOAD;
/// Bytes of a batch end frame.
pub(crate) const BATCH_END_BYTES: usize = HEADER_BYTES + END_PAYLOAD;

/// Bytes a batch has beside its record frames.
pub const BATCH_OVERHEAD_BYTES: u64 = (BATCH_HEADER_BYTES + BATCH_END_BYTES) as u64;

/// The most bytes the record frames of a batch may have together.
pub const BATCH_RECORDS_MAX: u64 = 1 << 30;

/// A new buffer is made as large as the last batch was, but not larger than this.
const REUSE_BYTES_MAX: usize = 1 << 20;

/// Memory of a batch larger than this, and than twice what was filled last, is not kept for the next one.
const KEPT_BYTES_MAX: usize = 4 << 20;
/// Records may reserve a little more memory than they take in the end.
const SLACK_BYTES: usize = 1 << 10;

const FLAG_CLOSING: u32 = 1;

/// A batch being filled. It is reused for batch after batch: [`BatchBuffer::begin`] empties it.
#[derive(Debug)]
pub struct BatchBuffer {
    sums: Checksums,
    buffer: Vec<u8>,
    number: BatchNumber,
    start: Address,
    records: u32,
    /// The checksums of the record frames, in order: what the chain in the end frame is made of.
    frame_sums: Vec<u8>,
    /// Bytes of the batch filled before this one.
    last_bytes: usize,
}

impl BatchBuffer {
    /// An empty buffer for batches of one store.
    pub fn new(sums: Checksums) -> Self {
        Self {
            sums,
            buffer: Vec::new(),
            number: BatchNumber::BEFORE_FIRST,
            start: Address::START,
            records: 0,
            frame_sums: Vec::new(),
            last_bytes: 0,
        }
    }

    /// Fills the next batch in this memory, if one as large as the last fits into it. Said before the next begins:
    /// memory that is given back and asked for again is memory the system zeroes again.
    pub fn reuse(&mut self, memory: Vec<u8>) {
        if memory.capacity() >= self.last_bytes && memory.capacity() > self.buffer.capacity() {
            self.buffer = memory;
        }
    }

    /// Starts batch `number` at an address: the journal's next ones, or the end of the batch filled before it.
    pub fn begin(&mut self, number: BatchNumber, start: Address) {
        if !self.buffer.is_empty() {
            self.last_bytes = self.buffer.len();
        }
        self.buffer.clear();
        // One huge batch is no reason to keep its memory for ever.
        if self.buffer.capacity() > KEPT_BYTES_MAX.max(2 * self.last_bytes) {
            self.buffer = Vec::new();
        }
        // The next batch is likely to be about as large: growing to it step by step would copy it twice over.
        self.buffer.reserve((self.last_bytes + self.last_bytes / 8).min(REUSE_BYTES_MAX) + SLACK_BYTES);
        self.buffer.resize(BATCH_HEADER_BYTES, 0);
        self.number = number;
        self.start = start;
        self.records = 0;
        self.frame_sums.clear();
    }

    /// Appends a record made of parts; answers its place.
    pub fn push(&mut self, kind: u8, parts: &[&[u8]]) -> Address {
        self.push_with(kind, |buffer| parts.iter().for_each(|part| buffer.extend_from_slice(part)))
    }

    /// Appends a record whose payload is written straight into the buffer; answers its place.
    /// The closure may only append.
    #[inline]
    pub fn push_with(&mut self, kind: u8, write: impl FnOnce(&mut Vec<u8>)) -> Address {
        assert!(kind < KINDS_OF_CALLER, "kind {kind} is the journal's own");
        let at = self.buffer.len();
        let address = self.start + at as u64;
        self.buffer.extend_from_slice(&[0; HEADER_BYTES]);
        write(&mut self.buffer);
        let sum = self.sums.seal(&mut self.buffer, at, kind, address);
        self.frame_sums.extend_from_slice(&sum.to_le_bytes());
        self.records += 1;
        address
    }

    /// Where the next record will lie.
    pub fn next_record(&self) -> Address {
        self.start + self.buffer.len() as u64
    }

    /// How many records it holds.
    pub fn records(&self) -> u32 {
        self.records
    }

    /// The batch's number.
    pub fn number(&self) -> BatchNumber {
        self.number
    }

    /// Address of the batch itself.
    pub fn start(&self) -> Address {
        self.start
    }

    /// Where the next batch starts, once this one is written as it is now.
    pub fn end(&self) -> Address {
        self.start + self.bytes()
    }

    /// Bytes the batch takes when it is written as it is now.
    pub fn bytes(&self) -> u64 {
        (self.buffer.len() + BATCH_END_BYTES) as u64
    }

    /// The batch as it was written, and the buffer empty; for a cache of recent batches. Before it was appended
    /// to the journal, header and end are missing, but every record can be read.
    ///
    /// It takes at most a quarter more memory than it has bytes, whatever was filled before in the same memory: a cache
    /// counts bytes. A batch much smaller than its memory is copied, and the next one is filled there.
    pub fn take(&mut self) -> Bytes {
        self.last_bytes = self.buffer.len();
        if self.buffer.capacity() > self.last_bytes + self.last_bytes / 4 {
            let batch = Bytes::copy_from_slice(&self.buffer);
            self.buffer.clear();
            return batch;
        }
        Bytes::from(std::mem::take(&mut self.buffer))
    }

    /// The batch's bytes so far, starting at [`BatchBuffer::start`].
    pub fn as_bytes(&self) -> &[u8] {
        &self.buffer
    }

    /// Writes header and end. Called once, when it is known where the batch goes.
    pub(crate) fn seal(
        &mut self,
        durable_through: BatchNumber,
        segment: SegmentNumber,
        closing: bool,
    ) -> Result<&[u8], LogError> {
        let records_bytes = (self.buffer.len() - BATCH_HEADER_BYTES) as u64;
        if records_bytes > BATCH_RECORDS_MAX {
            return Err(LogError::NoSpace { what: format!("a batch of {records_bytes} bytes") });
        }
        let mut header = &mut self.buffer[HEADER_BYTES..BATCH_HEADER_BYTES];
        HEADER_MAGIC.put(&mut header);
        self.number.put(&mut header);
        durable_through.put(&mut header);
        self.start.put(&mut header);
        (records_bytes as u32).put(&mut header);
        (if closing { FLAG_CLOSING } else { 0 }).put(&mut header);
        self.sums.seal(&mut self.buffer[..BATCH_HEADER_BYTES], 0, BATCH_HEADER, self.start);

        let at = self.buffer.len();
        let address = self.start + at as u64;
        self.buffer.extend_from_slice(&[0; HEADER_BYTES]);
        END_MAGIC.put(&mut self.buffer);
        self.number.put(&mut self.buffer);
        segment.put(&mut self.buffer);
        self.records.put(&mut self.buffer);
        crc32c::crc32c(&self.frame_sums).put(&mut self.buffer);
        self.sums.seal(&mut self.buffer, at, BATCH_END, address);
        Ok(&self.buffer)
    }
}

#[inline]
fn chained(chain: u32, sum: u32) -> u32 {
    crc32c::crc32c_append(chain, &sum.to_le_bytes())
}

/// A verified batch header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BatchHeader {
    pub number: BatchNumber,
    pub durable_through: BatchNumber,
    pub records_bytes: u64,
    pub closing: bool,
}

impl BatchHeader {
    /// Reads the header at the start of the bytes, if a valid one for this address is there.
    pub fn read(bytes: &[u8], address: Address, sums: Checksums) -> Option<Self> {
        let frame = sums.verify(bytes.get(..BATCH_HEADER_BYTES)?, address)?;
        let payload = frame.payload;
        if frame.kind != BATCH_HEADER || payload.len() != HEADER_PAYLOAD || payload[..8] != HEADER_MAGIC {
            return None;
        }
        let (header, start) = Self::decode(payload).ok()?;
        (start == address).then_some(header)
    }

    /// The header, and the address it says that it lies at.
    fn decode(payload: &[u8]) -> Result<(Self, Address), BadField> {
        let mut fields = Fields::of("the batch header", payload, HEADER_MAGIC.len());
        let (number, durable_through) = (fields.get("the number")?, fields.get("the durable batch")?);
        let start = fields.get("the address")?;
        let records_bytes = u64::from(fields.get::<u32>("the length")?);
        let closing = fields.get::<u32>("the flags")? & FLAG_CLOSING != 0;
        Ok((Self { number, durable_through, records_bytes, closing }, start))
    }

    /// Bytes of the whole batch.
    pub fn batch_bytes(&self) -> u64 {
        BATCH_OVERHEAD_BYTES + self.records_bytes
    }
}

/// What the end of a batch says of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BatchEnd {
    pub number: BatchNumber,
    /// The segment it was written to.
    segment: SegmentNumber,
    records: u32,
    /// The checksum of the records' checksums.
    chain: u32,
}

impl BatchEnd {
    /// Reads the end frame at the start of the bytes, if a valid one for this address is there.
    pub fn read(bytes: &[u8], address: Address, sums: Checksums) -> Option<Self> {
        let frame = sums.verify(bytes.get(..BATCH_END_BYTES)?, address)?;
        let payload = frame.payload;
        if frame.kind != BATCH_END || payload.len() != END_PAYLOAD || payload[..8] != END_MAGIC {
            return None;
        }
        Self::decode(payload).ok()
    }

    fn decode(payload: &[u8]) -> Result<Self, BadField> {
        let mut fields = Fields::of("the end marker", payload, END_MAGIC.len());
        Ok(Self {
            number: fields.get("the batch number")?,
            segment: fields.get("the segment number")?,
            records: fields.get("the record count")?,
            chain: fields.get("the checksum of the records")?,
        })
    }
}

/// Why bytes are no batch, and where in them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BadBatch {
    /// Offset from the batch's start.
    pub at: u64,
    pub what: &'static str,
}

/// A whole verified batch, as found on disk.
#[derive(Debug, Clone, Copy)]
pub struct BatchView<'a> {
    header: BatchHeader,
    address: Address,
    file: &'a str,
    file_offset: u64,
    bytes: &'a [u8],
}

impl<'a> BatchView<'a> {
    /// Verifies a whole batch: every frame, their number and order, and that it was written to this segment.
    pub(crate) fn verify(
        header: BatchHeader,
        bytes: &'a [u8],
        address: Address,
        (file, file_offset): (&'a str, u64),
        segment: SegmentNumber,
        sums: Checksums,
    ) -> Result<Self, BadBatch> {
        let end_at = BATCH_HEADER_BYTES + header.records_bytes as usize;
        let (mut at, mut records, mut chain) = (BATCH_HEADER_BYTES, 0u32, 0u32);
        while at < end_at {
            let bad = |what| BadBatch { at: at as u64, what };
            let frame =
                sums.verify(&bytes[at..end_at], address + at as u64).ok_or(bad("a record's checksum"))?;
            if frame.kind >= KINDS_OF_CALLER {
                return Err(bad("a batch within a batch"));
            }
            records += 1;
            chain = chained(chain, frame.sum);
            at += frame.bytes();
        }
        let bad = |what| BadBatch { at: end_at as u64, what };
        let end_frame = &bytes[end_at..];
        let end = BatchEnd::read(end_frame, address + end_at as u64, sums).ok_or(bad("the end marker"))?;
        if end.number != header.number {
            return Err(bad("the batch number in the end marker"));
        }
        if end.segment != segment {
            return Err(bad("the segment number in the end marker"));
        }
        if (end.records, end.chain) != (records, chain) {
            return Err(bad("the record count in the end marker"));
        }
        Ok(Self { header, address, file, file_offset, bytes: &bytes[..end_at + BATCH_END_BYTES] })
    }

    /// The batch's number.
    pub fn number(&self) -> BatchNumber {
        self.header.number
    }

    /// The batch's address.
    pub fn address(&self) -> Address {
        self.address
    }

    /// Address of what follows it.
    pub fn end(&self) -> Address {
        self.address + self.bytes.len() as u64
    }

    /// The newest batch known synced when this one was written.
    pub fn durable_through(&self) -> BatchNumber {
        self.header.durable_through
    }

    /// True for the mark of a clean stop (it has no records).
    pub fn is_closing_mark(&self) -> bool {
        self.header.closing
    }

    /// All its bytes, starting at its address.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Its records in order: place, kind, payload.
    pub fn records(&self) -> impl Iterator<Item = (Address, u8, &'a [u8])> + use<'a> {
        let records = &self.bytes[..self.bytes.len() - BATCH_END_BYTES];
        let address = self.address;
        let mut at = BATCH_HEADER_BYTES;
        std::iter::from_fn(move || {
            let frame = unverified(records.get(at..)?)?;
            let place = address + at as u64;
            at += frame.bytes();
            Some((place, frame.kind, frame.payload))
        })
    }

    /// An error that names the place of one of its records, for a payload that cannot be understood.
    pub fn damage(&self, address: Address, what: impl Into<String>) -> LogError {
        LogError::damage(self.file, self.file_offset + address.since(self.address), what)
    }
}

/// Splits a frame that was verified before.
fn unverified(bytes: &[u8]) -> Option<RawFrame<'_>> {
    let len = super::frame::frame_bytes(bytes)?;
    let frame = bytes.get(..len)?;
    Some(RawFrame { kind: frame[8], payload: &frame[HEADER_BYTES..], sum: u32_at(frame, 0) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUMS: Checksums = Checksums::new(99);
    const START: Address = Address(1000);
    const SEGMENT: SegmentNumber = SegmentNumber(2);

    fn sealed(records: &[(u8, &[u8])]) -> Vec<u8> {
        let mut batch = BatchBuffer::new(SUMS);
        batch.begin(BatchNumber(5), START);
        for (kind, payload) in records {
            batch.push(*kind, &[payload]);
        }
        batch.seal(BatchNumber(4), SEGMENT, false).unwrap().to_vec()
    }

    type Found<'a> = Vec<(Address, u8, &'a [u8])>;

    fn verify(bytes: &[u8]) -> Result<Found<'_>, BadBatch> {
        let header = BatchHeader::read(bytes, START, SUMS).ok_or(BadBatch { at: 0, what: "the header" })?;
        if header.batch_bytes() > bytes.len() as u64 {
            return Err(BadBatch { at: 0, what: "the length" });
        }
        BatchView::verify(header, bytes, START, ("x", 0), SEGMENT, SUMS).map(|view| view.records().collect())
    }

    #[test]
    fn records_come_back_in_order_with_the_places_they_were_given() {
        let mut batch = BatchBuffer::new(SUMS);
        batch.begin(BatchNumber(5), START);
        let first = batch.push(1, &[b"one", b"1"]);
        let second = batch.push_with(2, |buffer| buffer.extend_from_slice(b"two"));
        let third = batch.push(3, &[]);
        assert_eq!((first, second), (START + BATCH_HEADER_BYTES as u64, first + 13));
        let end = batch.end();
        let bytes = batch.seal(BatchNumber(4), SEGMENT, false).unwrap();
        assert_eq!(START + bytes.len() as u64, end);
        let found = verify(bytes).unwrap();
        assert_eq!(found, [(first, 1, &b"one1"[..]), (second, 2, b"two"), (third, 3, b"")]);
    }

    #[test]
    fn batch_that_is_taken_holds_little_more_memory_than_bytes() {
        let mut batch = BatchBuffer::new(SUMS);
        let mut spare: Option<Vec<u8>> = None;
        for number in 0..2_000_u64 {
            if let Some(memory) = spare.take() {
                batch.reuse(memory);
            }
            batch.begin(BatchNumber(number), Address::START);
            assert!(batch.buffer.capacity() <= KEPT_BYTES_MAX.max(2 * batch.last_bytes) + REUSE_BYTES_MAX);
            // Small ones, now and then a large one, rarely a huge one; some are not taken.
            let bytes = match number {
                number if number % 400 == 399 => 12 << 20,
                number if number % 7 == 6 => 90_000,
                number => number as usize % 900,
            };
            batch.push(1, &[&vec![0; bytes]]);
            if number % 5 == 4 {
                continue;
            }
            let taken = batch.take();
            let len = taken.len();
            let memory = Vec::from(taken);
            assert!(memory.capacity() <= len + len / 4, "{len} bytes in {}", memory.capacity());
            spare = (number % 3 == 0).then_some(memory);
        }
    }

    #[test]
    fn any_flipped_bit_is_found() {
        let good = sealed(&[(1, b"hello"), (2, b""), (3, &[7; 100])]);
        assert!(verify(&good).is_ok());
        for at in 0..good.len() {
            for bit in 0..8 {
                let mut bad = good.clone();
                bad[at] ^= 1 << bit;
                assert!(verify(&bad).is_err(), "byte {at} bit {bit}");
            }
        }
    }

    #[test]
    fn a_record_of_an_earlier_try_at_the_same_place_is_found() {
        // Both tries have valid frames of the same shape at the same addresses; only the chain tells them apart.
        let (old, new) = (sealed(&[(1, b"old"), (2, b"old")]), sealed(&[(1, b"new"), (2, b"new")]));
        let mut mixed = new.clone();
        let record = BATCH_HEADER_BYTES..BATCH_HEADER_BYTES + 12;
        mixed[record.clone()].copy_from_slice(&old[record]);
        assert_eq!(verify(&mixed).unwrap_err().what, "the record count in the end marker");
    }

    #[test]
    fn a_batch_of_another_segment_is_refused() {
        let bytes = sealed(&[(1, b"x")]);
        let header = BatchHeader::read(&bytes, START, SUMS).unwrap();
        assert!(BatchView::verify(header, &bytes, START, ("x", 0), SegmentNumber(3), SUMS).is_err());
    }
}
