//! Writing everything a store holds as JSON lines.
//!
//! What travels: queues with settings and documents, documents of accounts, messages with all that is stored of them,
//! deduplication ids whose window is open, move tasks, receives that may be repeated, and the key of the receipts, so
//! that an export is as secret as the store. Leases run on where it is imported. Only the history stays behind.
//!
//! The store goes on meanwhile: what comes or goes during an export may or may not be in it. For a picture of one
//! moment, export a backup.
//!
//! A message that cannot be read ends an export, unless the caller wants the others all the same.

use std::io::Write;
use std::sync::Arc;

use bytes::Bytes;
use kew_core::{DocumentKey, QueueId, QueueKey, Sequence, TaskId, Timestamp, own};
use kew_store::ledger::{Carried, CarriedOrder, Shelf, Stored, codec};

use super::lines::{
    DocumentLine, EndLine, LINES_VERSION, Line, MessageLine, OrderLine, QueueLine, RememberedLine, StoreLine,
    TaskLine, hex,
};
use crate::checkpoint::Identity;
use crate::disk::{IDENTITY_FILE, SEGMENTS_FOLDER};
use crate::error::LogError;
use crate::journal::{Address, Checksums, FRAME_HEADER_BYTES, Segment, read_chunk};
use crate::store::LogStore;

/// The fewest messages that are looked up under one hold of the writer's lock. All of a queue are looked at for it.
const PAGE_MIN: u64 = 4_096;
/// A queue of up to 64 million messages has at most this many pages, so that a large one is not looked at once more for
/// every few of its messages.
const PAGES: u64 = 64;
/// The most messages of a page: they lie in memory a second time.
const PAGE_MAX: u64 = 1 << 20;
const READ_AHEAD: u64 = 128 << 10;

/// What an export wrote.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ExportReport {
    /// Queues.
    pub queues: u64,
    /// Messages.
    pub messages: u64,
    /// Messages that could not be read and are in no line.
    pub left_out: u64,
    /// Lines in all.
    pub lines: u64,
}

/// A message of which the content cannot be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unreadable {
    /// The queue it is in.
    pub queue: QueueKey,
    /// Which one of the queue's.
    pub sequence: Sequence,
    /// What is wrong, with the place.
    pub cause: LogError,
}

impl std::fmt::Display for Unreadable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "message {} of queue {}: {}", self.sequence.0, self.queue, self.cause)
    }
}

/// Writes everything the store holds.
pub fn export(store: &LogStore, to: &mut dyn Write) -> Result<ExportReport, LogError> {
    export_readable(store, to, &mut |message| Err(message.cause))
}

/// Writes everything the store holds but the messages that cannot be read. `leave_out` is called for each
/// of those; an error from it ends the export.
pub fn export_readable(
    store: &LogStore,
    to: &mut dyn Write,
    leave_out: &mut dyn FnMut(Unreadable) -> Result<(), LogError>,
) -> Result<ExportReport, LogError> {
    let mut export = Export::begin(&ExportHead::of(store)?, to, leave_out)?;
    export.add(store)?;
    export.end()
}

/// What the first line of an export says of a store, or of one of its shards.
pub struct ExportHead {
    identity: Identity,
    newest: Timestamp,
    next: (QueueId, TaskId),
}

impl ExportHead {
    /// The head of a store, or of a shard.
    pub fn of(store: &LogStore) -> Result<Self, LogError> {
        let inner = &store.inner;
        let identity = Identity::load(&*inner.disk)?;
        let identity = identity.ok_or_else(|| LogError::damage(IDENTITY_FILE, 0, "the file is missing"))?;
        let ledger = inner.writer.lock();
        Ok(Self { identity, newest: ledger.newest_instant(), next: ledger.carried_numbers() })
    }

    /// The head of a store that has this shard too. All shards of a store seal receipts with one key.
    pub fn with(mut self, shard: &Self) -> Result<Self, LogError> {
        if shard.identity.mac_key != self.identity.mac_key {
            let what = "the shards of this store seal receipts with different keys";
            return Err(LogError::damage(IDENTITY_FILE, 0, what));
        }
        self.newest = self.newest.max(shard.newest);
        self.next = (self.next.0.max(shard.next.0), self.next.1.max(shard.next.1));
        Ok(self)
    }
}

/// An export that is being written: a store, or its shards one after another.
pub struct Export<'a> {
    to: &'a mut dyn Write,
    leave_out: &'a mut dyn FnMut(Unreadable) -> Result<(), LogError>,
    report: ExportReport,
}

impl<'a> Export<'a> {
    /// Writes the first line. `leave_out` is called as [`export_readable`] says.
    pub fn begin(
        head: &ExportHead,
        to: &'a mut dyn Write,
        leave_out: &'a mut dyn FnMut(Unreadable) -> Result<(), LogError>,
    ) -> Result<Self, LogError> {
        let mut export = Self { to, leave_out, report: ExportReport::default() };
        export.write(&Line::Store(StoreLine {
            version: LINES_VERSION,
            store_id: hex(&head.identity.store_id),
            mac_key: hex(&head.identity.mac_key),
            newest_ms: head.newest.0,
            next_queue: head.next.0.0,
            next_task: head.next.1.0,
        }))?;
        Ok(export)
    }

    /// Writes everything that a store, or a shard, holds.
    pub fn add(&mut self, store: &LogStore) -> Result<(), LogError> {
        self.documents(store)?;
        self.queues(store)?;
        self.sends(store)
    }

    /// Writes the last line.
    pub fn end(mut self) -> Result<ExportReport, LogError> {
        let lines = self.report.lines + 1;
        self.write(&Line::End(EndLine { lines }))?;
        Ok(self.report)
    }

    fn write(&mut self, line: &Line) -> Result<(), LogError> {
        let failed = |error: std::io::Error| LogError::from_io("writing the export", &error);
        serde_json::to_writer(&mut *self.to, line).map_err(|error| failed(error.into()))?;
        self.to.write_all(b"\n").map_err(failed)?;
        self.report.lines += 1;
        Ok(())
    }

    fn documents(&mut self, store: &LogStore) -> Result<(), LogError> {
        let documents: Vec<_> = {
            let ledger = store.inner.writer.lock();
            // That this store was imported, and how far outboxes came, says nothing of the one that is made of the
            // lines.
            let is_carried = |account, key: &DocumentKey| {
                account != own::OWN_ACCOUNT || (*key != own::imported() && &*key.owner != own::CAME)
            };
            let documents = ledger.carried_documents().filter(|(account, key, _)| is_carried(*account, key));
            documents.map(|(account, key, bytes)| (account, key.clone(), bytes.clone())).collect()
        };
        documents.iter().try_for_each(|(account, key, bytes)| {
            self.write(&Line::Document(DocumentLine::of(*account, key, bytes)))
        })
    }

    fn queues(&mut self, store: &LogStore) -> Result<(), LogError> {
        let queues = store.inner.writer.lock().carried_queues();
        for carried in queues {
            if own::owed_to(&carried.queue.key).is_some() {
                is_empty(store, carried.queue.id)?;
                continue;
            }
            self.write(&Line::Queue(QueueLine::of(&carried)))?;
            self.report.queues += 1;
            self.messages(store, carried.queue.id, &carried.queue.key)?;
            let order = store.inner.writer.lock().carried_order(carried.queue.id);
            if order != CarriedOrder::default() {
                self.write(&Line::Order(OrderLine::of(carried.queue.id, &order)))?;
            }
        }
        let tasks = store.inner.writer.lock().carried_tasks();
        tasks.iter().try_for_each(|task| self.write(&Line::Task(TaskLine::of(task))))
    }

    fn messages(&mut self, store: &LogStore, queue: QueueId, key: &QueueKey) -> Result<(), LogError> {
        let mut after = Sequence(0);
        loop {
            let page = Page::take(store, queue, after)?;
            let Some((last, _)) = page.messages.last() else { return Ok(()) };
            after = last.sequence;
            let mut contents = Pinned::new(page.segments, page.sums);
            for (carried, stored) in page.messages {
                match stored.map_or_else(|| contents.read(carried.place.address.into()), Ok) {
                    Ok(stored) => {
                        self.write(&Line::Message(MessageLine::of(queue, &carried, &stored)))?;
                        self.report.messages += 1;
                    }
                    Err(cause) => {
                        (self.leave_out)(Unreadable {
                            queue: key.clone(),
                            sequence: carried.sequence,
                            cause,
                        })?;
                        self.report.left_out += 1;
                    }
                }
            }
        }
    }

    fn sends(&mut self, store: &LogStore) -> Result<(), LogError> {
        let generations = store.inner.writer.lock().carried_generations();
        for generation in generations {
            let sends = store.inner.writer.lock().carried_sends(generation).map_err(unreadable)?;
            sends.iter().try_for_each(|send| self.write(&Line::Remembered(RememberedLine::of(send))))?;
        }
        Ok(())
    }
}

/// Messages of one moment, with the segments their contents lie in.
struct Page {
    /// With the contents of those that are not written yet.
    messages: Vec<(Carried, Option<Stored>)>,
    segments: Vec<Arc<Segment>>,
    sums: Checksums,
}

impl Page {
    fn take(store: &LogStore, queue: QueueId, after: Sequence) -> Result<Self, LogError> {
        let mut ledger = store.inner.writer.lock();
        let max = (ledger.carried_messages(queue) / PAGES).clamp(PAGE_MIN, PAGE_MAX);
        let page = ledger.carried_after(queue, after, usize::try_from(max).unwrap_or(usize::MAX));
        let unwritten = ledger.shelf.batch.start()..Address::SURVIVORS;
        let mut messages = Vec::with_capacity(page.len());
        for carried in page {
            let stored = match unwritten.contains(&carried.place.address.into()) {
                true => Some(ledger.shelf.read(carried.place).map_err(unreadable)?),
                false => None,
            };
            messages.push((carried, stored));
        }
        // A segment that is kept can be read, also when it is freed meanwhile.
        Ok(Self { messages, segments: store.inner.segments.list(), sums: ledger.shelf.sums })
    }
}

/// Reads contents out of segments that are kept.
struct Pinned {
    segments: Vec<Arc<Segment>>,
    sums: Checksums,
    chunk: Option<(Address, Bytes)>,
    read_ahead: u64,
}

impl Pinned {
    fn new(segments: Vec<Arc<Segment>>, sums: Checksums) -> Self {
        Self { segments, sums, chunk: None, read_ahead: READ_AHEAD }
    }

    fn read(&mut self, at: Address) -> Result<Stored, LogError> {
        let segment = self.segments.iter().find(|segment| (segment.base()..segment.end()).contains(&at));
        let segment = segment.ok_or_else(|| {
            LogError::damage(SEGMENTS_FOLDER, 0, format!("no segment holds the record at {at:#x}"))
        })?;
        let held = self.chunk.as_ref().and_then(|(start, bytes)| {
            self.sums.verify_shared(bytes, usize::try_from(at.checked_since(*start)?).ok()?, at)
        });
        let frame = match held {
            Some(frame) => frame,
            None => {
                let bytes = read_chunk(segment, at, segment.end(), self.read_ahead).or_else(|_| {
                    // A bad sector keeps back what lies in it, not what is read together with it.
                    self.read_ahead = FRAME_HEADER_BYTES;
                    read_chunk(segment, at, segment.end(), self.read_ahead)
                })?;
                let frame = self.sums.verify_shared(&bytes, 0, at);
                self.chunk = Some((at, bytes));
                frame.ok_or_else(|| damaged(segment, at))?
            }
        };
        codec::read_content(frame.kind, frame.payload).ok_or_else(|| damaged(segment, at))
    }
}

fn damaged(segment: &Segment, at: Address) -> LogError {
    LogError::damage(segment.name(), segment.offset_of(at), "the record of a message cannot be read")
}

fn unreadable(error: kew_store::StoreError) -> LogError {
    LogError::damage(SEGMENTS_FOLDER, 0, error.to_string())
}

/// Refuses an outbox with messages in it: in another store it would not be known how far they came. One that is
/// empty is made again when it is needed.
fn is_empty(store: &LogStore, outbox: QueueId) -> Result<(), LogError> {
    if store.inner.writer.lock().carried_after(outbox, Sequence(0), 1).is_empty() {
        return Ok(());
    }
    Err(LogError::Io {
        doing: "exporting the shard".to_owned(),
        kind: std::io::ErrorKind::ResourceBusy,
        detail: "messages are on their way to queues of other shards: serve the store until kew_owed_messages is 0"
            .to_owned(),
    })
}
