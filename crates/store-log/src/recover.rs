//! Opening a store: the newest checkpoint, the journal after it, and a report of what was found.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use bytes::Bytes;
use hashbrown::HashMap;
use kew_core::{Entropy, QueueId, Timestamp};
use kew_store::ledger::{Address, Ledger, Place, codec};
use kew_store::token::TokenKey;
use parking_lot::Mutex;

use crate::arrivals::Arrivals;
use crate::batch::{BatchBuffer, BatchView};
use crate::disk::Disk;
use crate::error::{Doing, LogError};
use crate::frame::{Checksums, FRAME_HEADER_BYTES};
use crate::gate::LogGate;
use crate::identity::{Identity, lock_store};
use crate::journal::Journal;
use crate::live::Live;
use crate::manifest::{Manifest, SegmentUse, Sidecar};
use crate::options::LogOptions;
use crate::put_away::{self, PutAway};
use crate::reader::Reader;
use crate::recent::Recent;
use crate::room;
use crate::scan::{ReplayStart, TailReport};
use crate::segment::{SEGMENTS_FOLDER, segment_name};
use crate::segments::Segments;
use crate::shelf::LogShelf;
use crate::store::{Inner, Signal};
use crate::upkeep::{Done, Upkeep};

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

/// How far each queue's slice of the checkpoint reaches: records below are in it.
pub(crate) type Reaches = HashMap<QueueId, u64>;

pub(crate) fn open(
    disk: Arc<dyn Disk>,
    options: LogOptions,
    entropy: Arc<dyn Entropy>,
    now: Timestamp,
) -> Result<(Inner, OpenReport), LogError> {
    let lock = lock_store(&*disk)?;
    let (identity, created) = identity(&*disk, &entropy, now)?;
    let sums = identity.checksums();
    let manifest = Manifest::load(&*disk)?;
    let segments = Segments::open(disk.clone(), options.segments)?;
    let mut ledger = Ledger::new(
        empty_shelf(&segments, sums, &options),
        TokenKey(identity.mac_key),
        entropy,
        options.bounds,
    );
    let mut reaches = Reaches::new();
    if let Some(manifest) = &manifest {
        check_segments(manifest, &segments)?;
        load_slices(&*disk, manifest, &mut ledger, &mut reaches)?;
        manifest.sweep(&*disk)?;
        put_away::sweep(&*disk, &manifest.fields.sidecars)?;
    }
    let fields = manifest.as_ref().map(|manifest| &manifest.fields);
    let start = fields.map_or(ReplayStart::FIRST, |fields| fields.replay);
    let durable = fields.map_or(0, |fields| fields.durable_through);
    let replayed =
        Journal::open(&segments, sums, start, durable, |batch| replay(&mut ledger, batch, &reaches));
    let (journal, recovery) = replayed?;
    // Segments that the checkpoint no longer needed are freed here; the shelf below knows only those that are left.
    let rests = |base: u64| ledger.shelf.live.of(base).is_some_and(|life| life.messages > 0);
    segments.reconcile(fields, sums, rests)?;
    ledger
        .shelf
        .live
        .keep_segments(&segments.list().iter().map(|segment| segment.base()).collect::<Vec<_>>());
    ledger.end_replay();
    begin(&mut ledger.shelf, journal, &segments);
    ledger.advance_newest(now);
    let gate = LogGate::default();
    gate.open(ledger.shelf.batch.number() - 1);
    let report = OpenReport {
        clean: recovery.clean,
        created,
        batches: recovery.batches,
        tail: recovery.tail,
        copy_on_write: disk.is_copy_on_write(),
    };
    let next_due = ledger.next_due().map_or(u64::MAX, |due| due.0);
    // Without it sends are refused, and upkeep tries again.
    let _kept = segments.kept().keep(room::taken(manifest.as_ref()));
    let inner = Inner {
        upkeep: Mutex::new(Upkeep::new(manifest, segments.clone(), sums)),
        disk,
        options,
        segments,
        writer: Mutex::new(ledger),
        committing: Mutex::new(()),
        next_due: AtomicU64::new(next_due),
        gate: Arc::new(gate),
        done: Done::default(),
        work: Signal::default(),
        _lock: lock,
    };
    Ok((inner, report))
}

/// Whether there is a checkpoint or a journal. The identity is the first file of a store: without it there is nothing
/// else either, unless it was lost.
pub(crate) fn is_left_of_a_store(disk: &dyn Disk) -> Result<bool, LogError> {
    let segments = disk.list(SEGMENTS_FOLDER).doing("listing", SEGMENTS_FOLDER)?;
    Ok(Manifest::load(disk)?.is_some() || segments.iter().any(|name| name.ends_with(".seg")))
}

/// The store's identity, made when the directory holds no store yet.
fn identity(
    disk: &dyn Disk,
    entropy: &Arc<dyn Entropy>,
    now: Timestamp,
) -> Result<(Identity, bool), LogError> {
    if let Some(identity) = Identity::load(disk)? {
        return Ok((identity, false));
    }
    if is_left_of_a_store(disk)? {
        let what = "the file is missing, but there is a checkpoint or a journal";
        return Err(LogError::damage(crate::IDENTITY_FILE, 0, what));
    }
    let identity = Identity {
        store_id: entropy.wide_bits().to_be_bytes(),
        mac_key: entropy.wide_bits().to_be_bytes(),
        created_ms: now.0,
    };
    identity.create(disk)?;
    Ok((identity, true))
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
    // Nothing is pending while changes are replayed: all places are in segments.
    live.begin_batch(u64::MAX);
    LogShelf {
        journal: None,
        batch: BatchBuffer::new(sums),
        must_sync: false,
        owed: 0,
        arrivals: Arrivals::default(),
        recent: Recent::new(options.recent_bytes),
        reader: Reader::new(segments.clone(), sums),
        live,
        put_away: PutAway::new(segments.disk().clone()),
        sums,
        stamp: codec::Stamp::default(),
    }
}

/// The journal is open: the shelf fills its next batch.
fn begin(shelf: &mut LogShelf, journal: Journal, segments: &Segments) {
    for segment in segments.list() {
        shelf.live.add_segment(segment.base());
    }
    shelf.batch.begin(journal.next_batch(), journal.end());
    shelf.live.begin_batch(journal.end());
    shelf.journal = Some(journal);
}

fn load_slices(
    disk: &dyn Disk,
    manifest: &Manifest,
    ledger: &mut Ledger<LogShelf>,
    reaches: &mut Reaches,
) -> Result<(), LogError> {
    for sidecar in &manifest.fields.sidecars {
        load_sidecar(ledger, sidecar)?;
    }
    manifest.read_slices(disk, |key, _reflects, bytes| {
        load_slice(ledger, reaches, key, &bytes).ok_or_else(|| {
            LogError::damage(crate::CHECKPOINTS_FOLDER, 0, format!("the slice of key {key:#x} is not one"))
        })
    })
}

pub(crate) fn load_sidecar(ledger: &mut Ledger<LogShelf>, sidecar: &Sidecar) -> Result<(), LogError> {
    let (start, heads) = ledger.shelf.put_away.open(sidecar)?;
    ledger.add_put_away(start, heads);
    Ok(())
}

/// Reads a slice into the ledger; `None` when the bytes are not one.
pub(crate) fn load_slice(
    ledger: &mut Ledger<LogShelf>,
    reaches: &mut Reaches,
    key: u64,
    bytes: &Bytes,
) -> Option<()> {
    let (reach, slice) = bytes.split_first_chunk::<8>()?;
    reaches.insert(QueueId(key), u64::from_le_bytes(*reach));
    ledger.load_slice(key, &bytes.slice_ref(slice))
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
        let place = Place { address: Address(address), bytes: record_bytes };
        let known = |queue: QueueId| reaches.get(&queue).is_some_and(|reach| address < *reach);
        let read = codec::read(kind, &record, |made, change| match change {
            Some(change) => ledger.replay(made, change, place, &known),
            None => ledger.advance_newest(made.at),
        });
        read.ok_or_else(|| batch.damage(address, format!("a record of kind {kind} that cannot be read")))?;
    }
    Ok(())
}
