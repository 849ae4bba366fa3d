//! Looks at every byte of a stopped store that means something, and changes none.
//!
//! Where opening a store stops at the first thing that is wrong, a check goes on as far as it can and lists all of it:
//! identity, manifest, every checkpoint slice and file of deduplication ids, every segment's header and frames, every
//! batch of the journal, the content of every message, and whether the figures add up. A backup is compared with its
//! list as well.

use std::sync::Arc;

use kew_core::Entropy;
use kew_store::ledger::{IdsRead, Ledger, META_KEY, codec};
use kew_store::token::TokenKey;

use super::backup_list::compare;
use super::problem::Problem;
use crate::checkpoint::{GenerationFile, Manifest, ManifestFields, Named, read_slice};
use crate::disk::{
    BACKUP_LIST, Disk, Handles, IDENTITY_FILE, IMPORT_FILE, MANIFEST_FILE, SEGMENTS_FOLDER, lock_store,
};
use crate::error::{Doing, LogError};
use crate::journal::{
    Address, BatchNumber, Checksums, Reader, ReplayStart, ScanEnd, Segment, SegmentKind, SegmentNumber,
    Segments, TailReport, parse_name, scan_frames, scan_journal, segment_name,
};
use crate::store::{LogOptions, LogShelf, Reaches, heads_of, load, recover};

/// What a check found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CheckReport {
    /// Everything that is wrong; empty for a sound store.
    pub problems: Vec<Problem>,
    /// An incomplete batch at the journal's end, which the next start will cut off: what a crash leaves.
    pub tail: Option<TailReport>,
    /// Segments whose bytes were looked at.
    pub segments: u64,
    /// Batches of the journal after the checkpoint.
    pub batches: u64,
    /// Records verified in segments before it.
    pub records: u64,
    /// Slices of the checkpoint.
    pub slices: u64,
    /// Queues.
    pub queues: u64,
    /// Messages whose content was read.
    pub messages: u64,
}

impl CheckReport {
    /// True when nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.problems.is_empty()
    }
}

/// Checks a stopped store. An error means that it could not be looked at: it is in use, or the machine fails.
pub fn check(disk: Arc<dyn Disk>) -> Result<CheckReport, LogError> {
    let _lock = lock_store(&*disk)?;
    let mut checking = Checking { disk, report: CheckReport::default() };
    checking.run()?;
    Ok(checking.report)
}

struct Checking {
    disk: Arc<dyn Disk>,
    report: CheckReport,
}

impl Checking {
    fn run(&mut self) -> Result<(), LogError> {
        let names = self.disk.list("").doing("listing", "the directory")?;
        if names.iter().any(|name| name == IMPORT_FILE) {
            self.problem(
                IMPORT_FILE,
                0,
                "an import into this store was cut short; other shards may have more of it",
            );
        }
        if names.iter().any(|name| name == BACKUP_LIST) {
            let compared = compare(&*self.disk);
            let differing = self.note(compared)?.map(|(_, problems)| problems);
            self.report.problems.extend(differing.unwrap_or_default());
        }
        let manifest = Manifest::load(&*self.disk);
        let manifest = self.note(manifest)?;
        let is_whole = self.headers()?;
        let named = Named::load(&*self.disk);
        let Some(named) = self.note(named)? else { return Ok(()) };
        let Some(named) = named else {
            self.problem(IDENTITY_FILE, 0, "the file is missing");
            return Ok(());
        };
        // Without a whole set of headers, or without a manifest that can be read, it is unknown what the rest means.
        let Some(manifest) = manifest.filter(|_| is_whole) else { return Ok(()) };
        let expected = named.expected().check_manifest(manifest.as_ref());
        if self.note(expected)?.is_none() {
            return Ok(());
        }
        self.contents(&named, manifest.as_ref())
    }

    /// Every segment's header, each for itself. True when all can be read.
    fn headers(&mut self) -> Result<bool, LogError> {
        let before = self.report.problems.len();
        let handles = Handles::new(self.disk.clone(), 1);
        for name in self.disk.list(SEGMENTS_FOLDER).doing("listing", SEGMENTS_FOLDER)? {
            if let Some((number, "seg")) = parse_name(&name) {
                let segment = Segment::open(&handles, SegmentNumber(number));
                self.note(segment)?;
            }
        }
        Ok(self.report.problems.len() == before)
    }

    fn contents(&mut self, named: &Named, manifest: Option<&Manifest>) -> Result<(), LogError> {
        let (options, identity) = (LogOptions::default(), &named.identity);
        let segments = Segments::open(self.disk.clone(), options.segments)?;
        let newest = named.expected().check_newest(&segments);
        self.note(newest)?;
        let sums = identity.checksums();
        let shelf = recover::empty_shelf(&segments, sums, &options);
        let key = TokenKey(identity.mac_key);
        let mut ledger = Ledger::new(shelf, key, Arc::new(NoChance), options.bounds);
        let mut reaches = Reaches::new();
        if let Some(manifest) = manifest {
            self.missing_segments(manifest, &segments);
            self.slices(manifest, &mut ledger, &mut reaches)?;
        }
        let fields = manifest.map(|manifest| &manifest.fields);
        let start = fields.map_or(ReplayStart::FIRST, |fields| fields.replay);
        let durable = fields.map_or(BatchNumber::BEFORE_FIRST, |fields| fields.durable_through);
        let scanned = scan_journal(&segments, sums, start, durable, |batch| {
            recover::replay(&mut ledger, batch, &reaches)
        });
        let scanned = self.note(scanned)?;
        let rests = |base| ledger.shelf.live.of(base).is_some_and(|life| life.resting.messages > 0);
        segments.reconcile(fields.map(ManifestFields::known_segments), sums, rests)?;
        self.frames(&segments, sums, start)?;
        // The figures and places of a state that could not be read to its end mean nothing.
        if let Some(end) = scanned {
            self.end(end, &segments);
            self.messages(&ledger, &segments, sums)?;
        }
        Ok(())
    }

    fn missing_segments(&mut self, manifest: &Manifest, segments: &Segments) {
        for listed in &manifest.fields.segments {
            if listed.used > 0 && segments.numbered(listed.number).is_none() {
                self.problem(&segment_name(listed.number), 0, "the file is missing");
            }
        }
    }

    fn slices(
        &mut self,
        manifest: &Manifest,
        ledger: &mut Ledger<LogShelf>,
        reaches: &mut Reaches,
    ) -> Result<(), LogError> {
        let mut ids = IdsRead::default();
        ids.make_room(load::bytes_of_ids(manifest));
        for sidecar in &manifest.fields.sidecars {
            let opened = ledger.shelf.put_away.open(sidecar);
            let heads = opened.and_then(|(start, bytes)| Ok((start, heads_of(sidecar, &bytes)?)));
            if let Some((start, heads)) = self.note(heads)? {
                ids.add_put_away(start, heads);
            }
        }
        if manifest.slice(META_KEY).is_none() {
            self.problem(MANIFEST_FILE, 0, "no slice of what belongs to no queue");
        }
        for (key, slice) in manifest.slices() {
            let bytes = GenerationFile::open(&*self.disk, slice.generation)
                .and_then(|file| read_slice(&file, key, &slice));
            let Some(bytes) = self.note(bytes)? else { continue };
            self.report.slices += 1;
            let loaded = match IdsRead::has_key(key) {
                true => load::ids_slice(&mut ids, &bytes),
                false => load::slice(ledger, reaches, key, &bytes),
            };
            if loaded.is_none() {
                let name = slice.generation.name();
                self.problem(&name, slice.offset, &format!("the slice of key {key:#x} is not one"));
            }
        }
        ledger.set_ids(ids);
        Ok(())
    }

    /// Every frame of the segments before the replay start, and of survivors; the journal behind it was walked.
    fn frames(&mut self, segments: &Segments, sums: Checksums, start: ReplayStart) -> Result<(), LogError> {
        for segment in segments.list() {
            self.report.segments += 1;
            let end = match segment.kind() {
                SegmentKind::Survivor => segment.end(),
                SegmentKind::Journal => segment.end().min(start.address),
            };
            let mut records = 0;
            let scanned = scan_frames(&segment, sums, segment.base()..end, |_| {
                records += 1;
                Ok(())
            });
            self.report.records += records;
            self.note(scanned)?;
        }
        Ok(())
    }

    fn end(&mut self, end: ScanEnd, segments: &Segments) {
        self.report.batches = end.batches;
        self.report.tail = end.tail;
        if let Some(last) = segments.list().iter().rfind(|segment| segment.kind() == SegmentKind::Journal) {
            last.set_used(end.end.since(last.base()));
        }
    }

    /// The content of every message, and the figures.
    fn messages(
        &mut self,
        ledger: &Ledger<LogShelf>,
        segments: &Segments,
        sums: Checksums,
    ) -> Result<(), LogError> {
        let mut reader = Reader::new(segments.clone(), sums);
        for queue in ledger.queue_ids() {
            self.report.queues += 1;
            let mut places = ledger.places_in(queue, &(Address::START.into()..Address::MAX.into()));
            places.sort_unstable();
            for place in places {
                let address = Address::from(place);
                let frame = reader.read(address);
                let Some(frame) = self.note(frame)? else { continue };
                self.report.messages += 1;
                if codec::read_content(frame.kind, frame.payload).is_none() {
                    let segment = segments.find(address);
                    let name = segment.as_ref().map_or(SEGMENTS_FOLDER, |segment| segment.name());
                    let offset = segment.as_ref().map_or(0, |segment| segment.offset_of(address));
                    self.problem(name, offset, &format!("the record holds no message of queue {}", queue.0));
                }
            }
        }
        for miscount in ledger.miscounts() {
            self.problem(MANIFEST_FILE, 0, &miscount);
        }
        Ok(())
    }

    fn problem(&mut self, file: &str, offset: u64, what: &str) {
        let problem = Problem { file: file.to_owned(), offset, what: what.to_owned() };
        if !self.report.problems.contains(&problem) {
            self.report.problems.push(problem);
        }
    }

    /// Notes damage and goes on; whatever else went wrong ends the check.
    fn note<T>(&mut self, found: Result<T, LogError>) -> Result<Option<T>, LogError> {
        match found {
            Ok(found) => Ok(Some(found)),
            Err(LogError::Damage { file, offset, what }) => {
                self.problem(&file, offset, &what);
                Ok(None)
            }
            Err(LogError::UnsupportedVersion { file, found, supported }) => {
                self.problem(&file, 0, &format!("format version {found}, known up to {supported}"));
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

/// A check makes nothing that needs chance.
struct NoChance;

impl Entropy for NoChance {
    fn bits(&self) -> u64 {
        1
    }
}
