//! Opening a store: the newest checkpoint, the journal after it, and a report of what was found.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use bytes::Bytes;
use kew_core::{Entropy, QueueId, ShardCount, Timestamp, Work};
use kew_store::ledger::{Ledger, Place, codec};
use kew_store::token::TokenKey;

use super::arrivals::Arrivals;
use super::gate::LogGate;
use super::gathering::{Gathering, OwnLoop};
use super::ids_aside::IdsAside;
use super::inner::{Inner, NextDue, Signal};
use super::live::Live;
use super::load::{self, Reaches};
use super::options::{Drive, LogOptions};
use super::owed::Owed;
use super::reads::Reads;
use super::reads::damaged::Damaged;
use super::recent::Recent;
use super::shelf::LogShelf;
use super::upkeep::put_away::{self, PutAway};
use super::upkeep::reporting::Reporting;
use super::upkeep::{Done, Upkeep};
use super::writer::Writer;
use crate::checkpoint::{Expected, Expecting, Identity, Manifest, Named, room};
use crate::disk::{
    BACKUP_LIST, CHECKPOINTS_FOLDER, DEDUPLICATION_FOLDER, Disk, DiskLock, IDENTITY_FILE, IMPORT_FILE,
    SEGMENTS_FOLDER, lock_store, remove_if_there,
};
use crate::error::{Doing, LogError};
use crate::journal::{
    Address, BatchBuffer, BatchNumber, BatchView, Checksums, FRAME_HEADER_BYTES, Journal, ReplayStart,
    SegmentUse, Segments, TailReport, scan_journal, segment_name,
};
use crate::planted::Planted;
use crate::turns::Lock;

/// What opening a store found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenReport {
    /// True when the last run ended cleanly, or there was none.
    pub clean: bool,
    /// True when the store was made just now.
    pub created: bool,
    /// Batches replayed after the checkpoint.
    pub batches: u64,
    /// What was cut off the journal's end, if anything.
    pub tail: Option<TailReport>,
    /// True on a file system where overwriting allocates: a full disk may then stop the store.
    pub copy_on_write: bool,
}

pub(crate) fn open(
    disk: Arc<dyn Disk>,
    options: LogOptions,
    entropy: Arc<dyn Entropy>,
    now: Timestamp,
) -> Result<(Inner, OpenReport), LogError> {
    let lock = lock_store(&*disk)?;
    is_whole(&*disk, &options)?;
    let (named, created) = named(&*disk, &options, &entropy, now)?;
    let expecting = Expecting::new(disk.clone(), &named)?;
    let mut loaded = Loaded::read(&disk, &named, options, entropy)?;
    if Planted::SweepBeforeFolderSync.is_there()
        && let Some(manifest) = &loaded.manifest
    {
        manifest.sweep(&*disk)?;
    }
    let (start, durable) = loaded.start();
    let Loaded { segments, ledger, reaches, ids, .. } = &mut loaded;
    let (journal, recovery) = Journal::open(segments, named.identity.checksums(), start, durable, |batch| {
        replay(ledger, batch, reaches)?;
        ids.take_replayed(ledger)
    })?;
    // Only now, when nothing is refused any more.
    remove_if_there(&*disk, BACKUP_LIST).doing("removing", BACKUP_LIST)?;
    if let Some(manifest) = &loaded.manifest {
        manifest.sweep(&*disk)?;
        put_away::sweep(&*disk, &manifest.fields.sidecars)?;
    }
    loaded.reconcile(&named.identity)?;
    let manifest = loaded.manifest.is_some();
    expecting.raise(Expected { newest_segment: Some(journal.active().number()), manifest })?;
    loaded.begin(journal.next_batch(), journal.end());
    loaded.ledger.shelf.journal = Some(journal);
    if created {
        loaded.ledger.advance_newest(now);
    }
    // Without it sends are refused, and upkeep tries again.
    let kept = loaded.segments.kept().keep(room::taken(loaded.manifest.as_ref()));
    let report = OpenReport {
        clean: recovery.clean,
        created,
        batches: recovery.batches,
        tail: recovery.tail,
        copy_on_write: disk.is_copy_on_write(),
    };
    let inner = loaded.inner(disk, options, expecting, lock);
    inner.reports.report(Work::KeptRoom, &kept);
    Ok((inner, report))
}

/// Opens a store without writing anything: what a start would cut off or repair is only left out.
pub(crate) fn look(
    disk: Arc<dyn Disk>,
    options: LogOptions,
    entropy: Arc<dyn Entropy>,
) -> Result<(Inner, OpenReport), LogError> {
    let lock = lock_store(&*disk)?;
    is_whole(&*disk, &options)?;
    let named =
        Named::load(&*disk)?.ok_or_else(|| LogError::damage(IDENTITY_FILE, 0, "the file is missing"))?;
    let expecting = Expecting::new(disk.clone(), &named)?;
    let mut loaded = Loaded::read(&disk, &named, options, entropy)?;
    let (start, durable) = loaded.start();
    let Loaded { segments, ledger, reaches, ids, .. } = &mut loaded;
    let end = scan_journal(segments, named.identity.checksums(), start, durable, |batch| {
        replay(ledger, batch, reaches)?;
        ids.take_replayed(ledger)
    })?;
    if let Some(last) = &end.last {
        last.set_used(end.end - last.base());
    }
    loaded.reconcile(&named.identity)?;
    loaded.begin(end.next_batch, end.end);
    let report = OpenReport {
        clean: end.clean,
        created: false,
        batches: end.batches,
        tail: end.tail,
        copy_on_write: disk.is_copy_on_write(),
    };
    Ok((loaded.inner(disk, options, expecting, lock), report))
}

/// A store as its files say, on its way to being open.
struct Loaded {
    manifest: Option<Manifest>,
    segments: Segments,
    ledger: Ledger<LogShelf>,
    reaches: Reaches,
    ids: IdsAside,
}

impl Loaded {
    /// Reads everything but the journal. Every file that must exist does.
    fn read(
        disk: &Arc<dyn Disk>,
        named: &Named,
        options: LogOptions,
        entropy: Arc<dyn Entropy>,
    ) -> Result<Self, LogError> {
        let identity = &named.identity;
        let manifest = Manifest::load(&**disk)?;
        let segments = Segments::open(disk.clone(), options.segments)?;
        named.expected().check(manifest.as_ref(), &segments)?;
        let shelf = empty_shelf(&segments, identity.checksums(), &options);
        let mut ledger =
            Ledger::new(shelf, TokenKey(identity.mac_key), entropy, options.bounds).at(options.place);
        let (mut reaches, mut ids) = (Reaches::new(), IdsAside::default());
        if let Some(manifest) = &manifest {
            check_segments(manifest, &segments)?;
            load::checkpoint(&**disk, manifest, &mut ledger, &mut reaches, &mut ids)?;
        }
        ledger.set_ids_aside();
        Ok(Self { manifest, segments, ledger, reaches, ids })
    }

    /// Where replay starts, and the newest batch that the checkpoint knows durable.
    fn start(&self) -> (ReplayStart, BatchNumber) {
        let fields = self.manifest.as_ref().map(|manifest| &manifest.fields);
        fields.map_or((ReplayStart::FIRST, BatchNumber::BEFORE_FIRST), |fields| {
            (fields.replay, fields.durable_through)
        })
    }

    /// After the replay: segments that the checkpoint no longer needed are freed, and the shelf knows only those that
    /// are left.
    fn reconcile(&mut self, identity: &Identity) -> Result<(), LogError> {
        let shelf = &mut self.ledger.shelf;
        let rests = |base: Address| shelf.live.of(base).is_some_and(|life| life.resting.messages > 0);
        let known = self.manifest.as_ref().map(|manifest| manifest.fields.known_segments());
        self.segments.reconcile(known, identity.checksums(), rests)?;
        let bases: Vec<Address> = self.segments.list().iter().map(|segment| segment.base()).collect();
        shelf.live.keep_segments(&bases);
        std::mem::take(&mut self.ids).finish(&mut self.ledger)?;
        self.ledger.end_replay();
        Ok(())
    }

    /// The shelf fills its next batch from here.
    fn begin(&mut self, next_batch: BatchNumber, end: Address) {
        let shelf = &mut self.ledger.shelf;
        for segment in self.segments.list() {
            shelf.live.add_segment(segment.base());
        }
        shelf.batch.begin(next_batch, end);
        shelf.live.begin_batch(end);
    }

    fn inner(self, disk: Arc<dyn Disk>, options: LogOptions, expecting: Expecting, lock: DiskLock) -> Inner {
        let gate = LogGate::default();
        gate.open(self.ledger.shelf.batch.number().previous().0);
        let next_due = NextDue::new(self.ledger.next_due());
        let sums = self.ledger.shelf.sums;
        let reads = Arc::clone(&self.ledger.shelf.reads);
        Inner {
            upkeep: Lock::new(Upkeep::new(self.manifest, self.segments.clone(), sums)),
            appends: disk.appends(),
            syncs: AtomicU64::new(0),
            disk,
            options,
            segments: self.segments,
            writer: Writer::new(self.ledger),
            committing: Lock::new(()),
            next_due,
            gate: Arc::new(gate),
            expecting,
            done: Done::default(),
            reports: Reporting::default(),
            damaged: Arc::clone(reads.damaged()),
            reads,
            work: Signal::default(),
            made: Arc::default(),
            makes_begun: AtomicU64::new(0),
            own_loop: OwnLoop::default(),
            _lock: lock,
        }
    }
}

/// Whether there is a checkpoint, a journal or deduplication ids. The identity is the first file of a store: without it
/// there is nothing else either, unless it was lost.
pub(crate) fn is_left_of_a_store(disk: &dyn Disk) -> Result<bool, LogError> {
    for (folder, suffix) in
        [(SEGMENTS_FOLDER, ".seg"), (CHECKPOINTS_FOLDER, ".ckp"), (DEDUPLICATION_FOLDER, ".ids")]
    {
        let names = disk.list(folder).doing("listing", folder)?;
        if names.iter().any(|name| name.ends_with(suffix)) {
            return Ok(true);
        }
    }
    Ok(Manifest::load(disk)?.is_some())
}

/// Refuses a shard that an import was to fill and did not: other shards may have what was imported, and what it had is
/// not known.
fn is_whole(disk: &dyn Disk, options: &LogOptions) -> Result<(), LogError> {
    if options.place.of == ShardCount::ONE {
        return Ok(());
    }
    let names = disk.list("").doing("listing", "the files of a shard")?;
    if names.iter().any(|name| name == IMPORT_FILE) {
        let what = "an import into this store was cut short; make the store anew and import again";
        return Err(LogError::damage(IMPORT_FILE, 0, what));
    }
    Ok(())
}

/// The store's identity, made when the directory holds no store yet.
fn named(
    disk: &dyn Disk,
    options: &LogOptions,
    entropy: &Arc<dyn Entropy>,
    now: Timestamp,
) -> Result<(Named, bool), LogError> {
    if let Some(named) = Named::load(disk)? {
        return Ok((named, false));
    }
    if is_left_of_a_store(disk)? {
        let what = "the file is missing, but there is a checkpoint or a journal";
        return Err(LogError::damage(IDENTITY_FILE, 0, what));
    }
    let identity = Identity {
        store_id: entropy.wide_bits().to_be_bytes(),
        mac_key: options.key.map_or_else(|| entropy.wide_bits().to_be_bytes(), |key| key.0),
        created_ms: now.0,
    };
    identity.create(disk)?;
    let named = Named::load(disk)?;
    let named =
        named.ok_or_else(|| LogError::damage(IDENTITY_FILE, 0, "the file was made and is missing"))?;
    Ok((named, true))
}

/// Every segment that the checkpoint needs must be there: none is given up before a newer checkpoint counts.
pub(crate) fn check_segments(manifest: &Manifest, segments: &Segments) -> Result<(), LogError> {
    let is_missing = |listed: &&SegmentUse| {
        // An empty one may have been put aside for a larger one.
        listed.used > 0 && segments.numbered(listed.number).is_none()
    };
    match manifest.fields.segments.iter().find(is_missing) {
        None => Ok(()),
        Some(listed) => Err(LogError::damage(segment_name(listed.number), 0, "the file is missing")),
    }
}

pub(crate) fn empty_shelf(segments: &Segments, sums: Checksums, options: &LogOptions) -> LogShelf {
    let mut live = Live::default();
    for segment in segments.list() {
        live.add_segment(segment.base());
    }
    let damaged = Arc::new(Damaged::new(segments.disk().clone()));
    // Nothing is pending while changes are replayed: all places are in segments.
    live.begin_batch(Address::MAX);
    LogShelf {
        journal: None,
        batch: BatchBuffer::new(sums),
        must_sync: false,
        gathering: Gathering::default(),
        owed: Owed::default(),
        arrivals: Arrivals::default(),
        recent: Recent::new(options.recent_bytes),
        reads: Arc::new(Reads::new(segments.clone(), sums, damaged)),
        cold: None,
        live,
        put_away: PutAway::new(segments.disk().clone()),
        makes_room: options.drive != Drive::Loop,
        refused: 0,
        sums,
        stamp: codec::Stamp::default(),
    }
}

pub(crate) fn replay(
    ledger: &mut Ledger<LogShelf>,
    batch: &BatchView<'_>,
    reaches: &Reaches,
) -> Result<(), LogError> {
    // One copy for the whole batch; records are slices of it.
    let bytes = Bytes::copy_from_slice(batch.bytes());
    for (address, kind, payload) in batch.records() {
        let offset = usize::try_from(address - batch.address() + FRAME_HEADER_BYTES).unwrap_or(usize::MAX);
        let record = bytes.slice(offset..offset + payload.len());
        let record_bytes = u32::try_from(FRAME_HEADER_BYTES + payload.len() as u64).unwrap_or(u32::MAX);
        let place = Place { address: address.into(), bytes: record_bytes };
        let known = |queue: QueueId| reaches.get(&queue).is_some_and(|reach| address < *reach);
        let read = codec::read(kind, &record, |made, change| match change {
            Some(change) => ledger.replay(made, change, place, &known),
            None => ledger.advance_newest(made.at),
        });
        read.ok_or_else(|| batch.damage(address, format!("a record of kind {kind} that cannot be read")))?;
    }
    Ok(())
}
