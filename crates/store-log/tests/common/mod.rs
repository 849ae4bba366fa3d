//! A small store on the byte layer, just enough to live through everything: batches, live records that are kept for
//! ever, checkpoints, copy-forward, recycling. Its contents are computed, so that any disk can be checked.
#![allow(dead_code, reason = "each test program uses its own part")]
#![allow(clippy::unwrap_used, reason = "a test fails where it unwraps")]

use kew_store_log::{
    Address, BatchNumber, CheckpointWriter, Disk, Identity, Journal, LogError, Manifest, ManifestFields,
    Reader, Recovery, ReplayStart, Room, SegmentKind, SegmentNumber, SegmentOptions, SegmentUse, Segments,
    SimDisk, SurvivorWriter,
};
use std::collections::BTreeMap;
use std::sync::Arc;

pub const IDENTITY: Identity = Identity { store_id: [1; 16], mac_key: [2; 16], created_ms: 3 };
pub const SMALL: SegmentOptions =
    SegmentOptions { first_bytes: 4096, largest_bytes: 8192, reserve_spares: 1, spares_max: 3, open_max: 4 };

/// A record: its batch, its index there, and the run that wrote it.
pub type Record = (u64, u32, u32);

pub struct Tiny {
    pub disk: Arc<dyn Disk>,
    pub segments: Segments,
    pub journal: Journal,
    pub survivors: SurvivorWriter,
    pub manifest: Option<Manifest>,
    pub recovery: Recovery,
    /// Which run wrote each batch still replayed or alive.
    pub runs: BTreeMap<u64, u32>,
    /// Records that live for ever: every third batch's first.
    pub alive: BTreeMap<u64, (u32, Address)>,
    pub victims: Vec<SegmentNumber>,
    pub run: u32,
}

/// The bytes of a record. Sizes differ from batch to batch, some longer than a segment.
pub fn payload((batch, index, run): Record) -> Vec<u8> {
    let text = format!("batch {batch} record {index} run {run} ");
    let len = if batch.is_multiple_of(23) { 9000 } else { 40 + (batch * 37 + u64::from(index) * 101) % 400 };
    text.bytes().cycle().take(len as usize).collect()
}

pub fn records(batch: u64) -> u32 {
    (batch % 4) as u32
}

fn parse(payload: &[u8]) -> Record {
    let text = std::str::from_utf8(payload).expect("text");
    let mut words = text.split(' ').filter_map(|word| word.parse::<u64>().ok());
    let mut next = || words.next().expect("a number");
    let record = (next(), next() as u32, next() as u32);
    assert!(payload == self::payload(record), "a record's bytes are not what was written: {record:?}");
    record
}

impl Tiny {
    pub fn open(disk: &SimDisk, run: u32, options: SegmentOptions) -> Result<Self, LogError> {
        let disk: Arc<dyn Disk> = Arc::new(disk.clone());
        if Identity::load(&*disk)?.is_none() {
            IDENTITY.create(&*disk)?;
        }
        let sums = IDENTITY.checksums();
        let manifest = Manifest::load(&*disk)?;
        let segments = Segments::open(disk.clone(), options)?;
        let (mut start, mut durable_through) = (ReplayStart::FIRST, BatchNumber::BEFORE_FIRST);
        let mut runs = BTreeMap::new();
        let mut alive = BTreeMap::new();
        if let Some(manifest) = &manifest {
            (start, durable_through) = (manifest.fields.replay, manifest.fields.durable_through);
            let all = |_| true;
            manifest.read_slices(&*disk, all, |key, reflects, bytes| {
                assert!(reflects < start.batch, "installed before it was synced");
                if key < 1000 {
                    for entry in bytes.chunks(24) {
                        let number = |at: usize| u64::from_le_bytes(entry[at..at + 8].try_into().unwrap());
                        alive.insert(number(0), (number(8) as u32, Address(number(16))));
                    }
                }
                Ok(())
            })?;
            manifest.sweep(&*disk)?;
        }
        let (journal, recovery) = Journal::open(&segments, sums, start, durable_through, |view| {
            let found: Vec<_> = view.records().collect();
            if view.is_closing_mark() {
                assert!(found.is_empty());
                return Ok(());
            }
            let batch = view.number().0;
            assert_eq!(found.len() as u32, records(batch), "batch {batch}");
            for (index, (address, kind, bytes)) in found.into_iter().enumerate() {
                let record = parse(bytes);
                assert_eq!((record.0, record.1, kind), (batch, index as u32, index as u8));
                runs.insert(record.0, record.2);
                if record.0.is_multiple_of(3) && index == 0 {
                    alive.insert(record.0, (record.2, address));
                }
            }
            Ok(())
        })?;
        segments
            .reconcile(manifest.as_ref().map(|manifest| manifest.fields.known_segments()), sums, |_| false)
            .unwrap();
        let survivors = SurvivorWriter::new(segments.clone(), sums);
        Ok(Self {
            disk,
            segments,
            journal,
            survivors,
            manifest,
            recovery,
            runs,
            alive,
            victims: Vec::new(),
            run,
        })
    }

    /// Writes the next batch; false when there is no room.
    pub fn append(&mut self) -> Result<bool, LogError> {
        let next = self.journal.next_batch();
        let number = next.0;
        let mut batch = self.journal.batch_buffer();
        batch.begin(next, self.journal.end());
        let mut alive = None;
        for index in 0..records(number) {
            let address = batch.push(index as u8, &[&payload((number, index, self.run))]);
            if number.is_multiple_of(3) && index == 0 {
                alive = Some(address);
            }
        }
        if self.journal.room(batch.bytes()) == Room::Nothing {
            return Ok(false);
        }
        let appended = self.journal.append(&mut batch)?;
        assert_eq!((appended.batch, appended.address + appended.bytes), (next, self.journal.end()));
        self.runs.insert(number, self.run);
        if let Some(address) = alive {
            self.alive.insert(number, (self.run, address));
        }
        Ok(true)
    }

    /// One checkpoint; afterwards the victims of the one before are free, and segments behind it are copied forward.
    pub fn checkpoint(&mut self) -> Result<(), LogError> {
        let replay = ReplayStart { address: self.journal.end(), batch: self.journal.next_batch() };
        let reflects = replay.batch.previous();
        let mut writer = CheckpointWriter::start(self.disk.clone(), self.manifest.as_ref())?;
        for third in 0..3 {
            let mut slice = Vec::new();
            for (batch, (run, address)) in self.alive.iter().filter(|(batch, _)| *batch % 9 == third * 3) {
                slice.extend_from_slice(&batch.to_le_bytes());
                slice.extend_from_slice(&u64::from(*run).to_le_bytes());
                slice.extend_from_slice(&address.0.to_le_bytes());
            }
            writer.put(third, reflects, &slice)?;
        }
        if !writer.keep(1000, reflects) {
            writer.put(1000, reflects, &[7; 3000])?;
        }
        self.journal.sync()?;
        let sealed = writer.seal()?;
        assert_eq!(sealed.reflects(), reflects);
        let victims = std::mem::take(&mut self.victims);
        let segments = self.segments.list();
        let fields = ManifestFields {
            replay,
            durable_through: self.journal.durable_through(),
            segments: segments
                .iter()
                .filter(|segment| !victims.contains(&segment.number()))
                .map(|segment| SegmentUse::of(segment))
                .collect(),
            next_segment: self.segments.next_number(),
            survivor_end: self.segments.survivor_end(),
            sidecars: Vec::new(),
            meta: b"meta"[..].into(),
        };
        drop(segments);
        let manifest = sealed.install(fields)?;
        manifest.sweep(&*self.disk)?;
        self.manifest = Some(manifest);
        for victim in victims {
            assert!(self.segments.free(victim));
        }
        self.copy_forward(replay.address)?;
        self.segments.prepare_spare()
    }

    fn copy_forward(&mut self, before: Address) -> Result<(), LogError> {
        let mut reader = self.reader();
        for segment in self.segments.list() {
            let active = segment.number() == self.journal.active().number();
            if segment.kind() == SegmentKind::Survivor || active || segment.end() > before {
                continue;
            }
            for (_, address) in self.alive.values_mut() {
                if (segment.base()..segment.end()).contains(address) {
                    let frame = reader.read(*address)?;
                    *address = self.survivors.push(frame.kind, &frame.payload, 0)?;
                }
            }
            self.victims.push(segment.number());
        }
        self.survivors.sync()
    }

    pub fn reader(&self) -> Reader {
        Reader::new(self.segments.clone(), IDENTITY.checksums())
    }

    /// Reads every living record.
    pub fn check_alive(&self) {
        let mut reader = self.reader();
        let expected: Vec<u64> =
            (1..self.journal.next_batch().0).filter(|b| b.is_multiple_of(3) && records(*b) > 0).collect();
        let marks: Vec<u64> =
            expected.iter().copied().filter(|batch| !self.alive.contains_key(batch)).collect();
        // A batch that was the mark of a clean stop has no records.
        assert!(marks.len() < 3, "records of batches {marks:?} are gone");
        for (batch, (run, address)) in &self.alive {
            let frame = reader.read(*address).unwrap_or_else(|error| panic!("batch {batch}: {error}"));
            assert_eq!(parse(&frame.payload), (*batch, 0, *run));
        }
    }
}
