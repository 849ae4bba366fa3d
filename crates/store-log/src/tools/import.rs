//! Making a new store out of an export.
//!
//! Contents are journalled under no queue; everything that refers to them goes into one checkpoint at the end. So an
//! import that is cut short leaves an empty store, and one that ends is durable. Shards have checkpoints of their own:
//! a file in each ([`IMPORT_FILE`]) keeps them from being opened until all of these are made.

use std::io::BufRead;
use std::sync::Arc;

use bytes::Bytes;
use hashbrown::HashMap;
use kew_core::{
    AccountId, DocumentKey, Entropy, MoveTask, QueueId, QueueKey, Return, Sequence, ShardCount, ShardId,
    ShardPlace, TaskId, Timestamp, own,
};
use kew_store::ledger::change::{Extended, Rewritten};
use kew_store::ledger::{Carried, CarriedOrder, Change, Ledger, Made, Place, Remembered, Shelf, Stored};

use super::lines::{LINES_VERSION, Line, StoreLine, from_hex};
use crate::checkpoint::Identity;
use crate::disk::{Disk, IMPORT_FILE, remove_if_there, replace_whole};
use crate::error::{Doing, LogError};
use crate::store::{Drive, LogOptions, LogShelf, LogStore, is_left_of_a_store};

/// Contents are committed when this many bytes wait.
const BATCH_BYTES: u64 = 1 << 20;

/// The last millisecond of the year 9999. Engine time begins no earlier than an export says, and must go on from there.
const NEWEST_MS_MAX: u64 = 253_402_300_799_999;

/// What an import brought.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ImportReport {
    /// Queues.
    pub queues: u64,
    /// Messages.
    pub messages: u64,
    /// Lines in all.
    pub lines: u64,
}

/// Makes a store in an empty directory out of the lines of an export. Receipts given out before the export still count.
pub fn import(
    from: &mut dyn BufRead,
    disk: Arc<dyn Disk>,
    options: LogOptions,
    entropy: Arc<dyn Entropy>,
    now: Timestamp,
) -> Result<ImportReport, LogError> {
    import_into_shards(from, &[disk], options, (&entropy, now), &mut |_, _| Ok(()))
}

/// The same into the shards of one store, all of them and in order. Queues keep their numbers, which say the shard. A
/// move task whose number leads to another shard than its source gets a new one. `name` is called with the queues of
/// each shard, before any of them can be seen.
pub fn import_into_shards(
    from: &mut dyn BufRead,
    disks: &[Arc<dyn Disk>],
    options: LogOptions,
    (entropy, now): (&Arc<dyn Entropy>, Timestamp),
    name: &mut dyn FnMut(ShardId, Vec<QueueKey>) -> Result<(), LogError>,
) -> Result<ImportReport, LogError> {
    let shards = u16::try_from(disks.len()).ok().and_then(ShardCount::new);
    let shards = shards.expect("a store has at least one shard, and as many as 16 bits count");
    let mut lines = Lines { from, number: 0, text: String::new() };
    let Some(Line::Store(head)) = lines.next()? else {
        return Err(lines.bad("the first line of an export says which store it was"));
    };
    let key = from_hex(&head.mac_key).filter(|_| (1..=LINES_VERSION).contains(&head.version));
    let key = key.ok_or_else(|| lines.bad("the line is of another version or has no key"))?;
    if head.newest_ms > NEWEST_MS_MAX {
        return Err(lines.bad("newest_ms is past the year 9999"));
    }
    disks.iter().try_for_each(|disk| is_free(&**disk))?;
    let mut stores = Vec::with_capacity(disks.len());
    for (shard, disk) in shards.all().zip(disks) {
        let store_id = entropy.wide_bits().to_be_bytes();
        Identity { store_id, mac_key: key, created_ms: now.0 }.create(&**disk)?;
        let place = ShardPlace { shard, of: shards };
        let options = LogOptions { drive: Drive::Manual, place, ..options };
        let (store, _) = LogStore::open(Arc::clone(disk), options, Arc::clone(entropy), now)?;
        // When the exported store was last in use, so that the first start sees how long ago that is.
        store.inner.writer.lock().advance_newest(Timestamp(head.newest_ms));
        stores.push(store);
    }
    let marks = Marks::set(if disks.len() > 1 { disks } else { &[] })?;
    let importing = Importing {
        stores: &stores,
        shards,
        report: ImportReport::default(),
        sends: Vec::new(),
        last: HashMap::new(),
        hold: None,
    };
    let report = importing.run(&mut lines, &head, now, name)?;
    stores.iter().try_for_each(LogStore::close)?;
    marks.take_away()?;
    Ok(report)
}

/// Refuses a place where something is.
fn is_free(disk: &dyn Disk) -> Result<(), LogError> {
    if Identity::load(disk)?.is_some() {
        return Err(occupied("the directory holds a store already; an import makes a new one"));
    }
    if is_left_of_a_store(disk)? {
        return Err(occupied("the directory holds what is left of a store; an import makes a new one"));
    }
    Ok(())
}

/// Whether there is neither a store nor a part of one: a shard that no node has opened yet.
pub fn is_untouched(disk: &dyn Disk) -> Result<bool, LogError> {
    Ok(Identity::load(disk)?.is_none() && !is_left_of_a_store(disk)?)
}

/// Keeps shards from being opened, after this process too.
struct Marks<'a>(&'a [Arc<dyn Disk>]);

impl<'a> Marks<'a> {
    fn set(disks: &'a [Arc<dyn Disk>]) -> Result<Self, LogError> {
        for disk in disks {
            replace_whole(&**disk, IMPORT_FILE, b"").doing("writing", IMPORT_FILE)?;
        }
        Ok(Self(disks))
    }

    fn take_away(self) -> Result<(), LogError> {
        for disk in self.0 {
            remove_if_there(&**disk, IMPORT_FILE).doing("removing", IMPORT_FILE)?;
            disk.sync_dir("").doing("syncing", "the files of a shard")?;
        }
        Ok(())
    }
}

fn occupied(what: &str) -> LogError {
    let kind = std::io::ErrorKind::AlreadyExists;
    LogError::Io { doing: "importing".into(), kind, detail: what.to_owned() }
}

struct Importing<'a> {
    stores: &'a [LogStore],
    shards: ShardCount,
    report: ImportReport,
    sends: Vec<Remembered>,
    /// The newest message of each queue.
    last: HashMap<QueueId, Sequence>,
    /// The document of the hold of expiry. Each shard of an export may have one.
    hold: Option<Bytes>,
}

impl Importing<'_> {
    fn run(
        mut self,
        lines: &mut Lines<'_>,
        head: &StoreLine,
        now: Timestamp,
        name: &mut dyn FnMut(ShardId, Vec<QueueKey>) -> Result<(), LogError>,
    ) -> Result<ImportReport, LogError> {
        for store in self.stores {
            let next = (QueueId(head.next_queue), TaskId(head.next_task));
            store.inner.writer.lock().restore_numbers(next.0, next.1);
        }
        loop {
            match lines.next()?.ok_or_else(|| lines.bad("the export ends before its last line"))? {
                Line::End(end) if end.lines == lines.number => break,
                Line::End(_) => return Err(lines.bad("lines are missing")),
                line => self.take(lines, line)?,
            }
        }
        self.report.lines = lines.number;
        if !lines.is_at_end()? {
            return Err(lines.bad("there is more behind the last line of the export"));
        }
        self.end(head.version, now);
        for (shard, store) in self.shards.all().zip(self.stores) {
            let queues = store.inner.writer.lock().carried_queues();
            name(shard, queues.iter().map(|carried| carried.queue.key.clone()).collect())?;
        }
        self.stores.iter().try_for_each(LogStore::checkpoint)?;
        Ok(self.report)
    }

    /// Puts what one line between the first and the last says into the ledger.
    fn take(&mut self, lines: &Lines<'_>, line: Line) -> Result<(), LogError> {
        match line {
            Line::Store(_) => return Err(lines.bad("a second first line")),
            Line::End(_) => return Err(lines.bad("a last line before the end")),
            Line::Document(line) => {
                let bytes =
                    line.bytes.bytes().ok_or_else(|| lines.bad("a document's bytes are no base64"))?;
                let key = DocumentKey::new(&line.owner, &line.key);
                self.document(AccountId(line.account), key, bytes);
            }
            Line::Queue(line) => {
                let carried =
                    line.carried().ok_or_else(|| lines.bad("a document of a queue is no base64"))?;
                let mut ledger = self.shard_of(carried.queue.id).inner.writer.lock();
                if ledger.carried_queue(carried.queue.id).is_some() {
                    return Err(lines.bad("a queue that was there before"));
                }
                ledger.restore_queue(&carried);
                drop(ledger);
                self.report.queues += 1;
            }
            Line::Message(line) => {
                let (queue, carried, stored) = line.carried().map_err(|what| lines.bad(what))?;
                self.message(lines, queue, carried, &stored)?;
            }
            Line::Order(line) => {
                let queue = QueueId(line.queue);
                let mut ledger = self.shard_of(queue).inner.writer.lock();
                if ledger.carried_queue(queue).is_none() {
                    return Err(lines.bad("an order of no queue before it"));
                }
                ledger.restore_order(queue, &line.order());
            }
            Line::Task(line) => self.task(line.task()),
            Line::Remembered(line) => {
                let send = line.remembered();
                self.sends.push(send.ok_or_else(|| lines.bad("identity and id must be 32 hex digits"))?);
            }
        }
        Ok(())
    }

    fn shard_of(&self, queue: QueueId) -> &LogStore {
        let shard = usize::from(self.shards.of_queue(queue).0);
        self.stores.get(shard).expect("each shard of the import has an open store")
    }

    /// Accounts' documents lie in the first shard. Each shard has a hold of expiry: of several the longest.
    fn document(&mut self, account: AccountId, key: DocumentKey, bytes: Bytes) {
        if account == own::OWN_ACCOUNT && key == own::expiry_hold() {
            // It begins with the last instant that is let expire.
            if self.hold.as_ref().is_none_or(|hold| bytes < *hold) {
                for store in self.stores {
                    store.inner.writer.lock().restore_document(account, key.clone(), bytes.clone());
                }
                self.hold = Some(bytes);
            }
        } else if let Some(first) = self.stores.first() {
            first.inner.writer.lock().restore_document(account, key, bytes);
        }
    }

    /// A task is in the shard of its source, and its number says that too.
    fn task(&self, mut task: MoveTask) {
        let shard = self.shards.of_queue(task.source);
        let mut ledger = self.shard_of(task.source).inner.writer.lock();
        if self.shards.of_task(task.id) != shard {
            let next = ledger.carried_numbers().1;
            task.id = TaskId(ShardPlace { shard, of: self.shards }.number_from(next.0));
        }
        ledger.restore_task(task);
    }

    /// What can only be put into the ledger when all lines were read.
    fn end(&mut self, version: u32, at: Timestamp) {
        self.sends.sort_unstable_by_key(|send| send.at);
        for store in self.stores {
            let mut ledger = store.inner.writer.lock();
            let queues = ledger.carried_queues();
            // A remembered send does not say its queue. Only FIFO queues ask for one.
            if self.stores.len() == 1 || queues.iter().any(|queue| queue.queue.policy.kind.is_fifo()) {
                self.sends.iter().for_each(|send| ledger.restore_send(send));
            }
            // In place of what an earlier import left there.
            let at = own::write_imported(at.max(ledger.newest_instant()));
            ledger.restore_document(own::OWN_ACCOUNT, own::imported(), at);
            if version == 1 {
                // Those lines say nothing of turns.
                for carried in queues {
                    ledger.restore_order(carried.queue.id, &CarriedOrder::default());
                }
            }
        }
    }

    fn message(
        &mut self,
        lines: &Lines<'_>,
        queue: QueueId,
        carried: Carried,
        stored: &Stored,
    ) -> Result<(), LogError> {
        let last = self.last.insert(queue, carried.sequence);
        let store = self.shard_of(queue);
        let mut ledger = store.inner.writer.lock();
        let known =
            ledger.carried_queue(queue).ok_or_else(|| lines.bad("a message of no queue before it"))?;
        if known.queue.policy.kind.is_fifo() && stored.group.is_none() {
            return Err(lines.bad("a message of a FIFO queue without a group"));
        }
        if last >= Some(carried.sequence) {
            return Err(lines.bad("a message that is not behind the one before it"));
        }
        let bytes = u64::from(carried.body_bytes) + stored.content.annotations.len() as u64 + 4096;
        ledger
            .shelf
            .room(bytes)
            .map_err(|_| LogError::NoSpace { what: "the messages of an import".into() })?;
        let place = content(&mut ledger, stored);
        ledger.restore_message(queue, &Carried { place, ..carried }, stored.group.as_ref());
        let is_full = ledger.shelf.batch.bytes() > BATCH_BYTES;
        drop(ledger);
        if is_full {
            store.inner.commit()?;
        }
        self.report.messages += 1;
        Ok(())
    }
}

/// Journals a content that belongs to no queue: replay skips it, a checkpoint may refer to it.
fn content(ledger: &mut Ledger<LogShelf>, stored: &Stored) -> Place {
    let at = ledger.newest_instant();
    let rewritten = Rewritten {
        id: stored.id,
        content: &stored.content,
        group: stored.group.as_ref(),
        deduplication: stored.deduplication.as_ref(),
    };
    let change = Change::Extended(Extended {
        queue: QueueId(0),
        sequence: Sequence(0),
        until: at,
        nonce: None,
        returns: Return::InPlace,
        content: Some(rewritten),
    });
    ledger.shelf.record(Made { at, begins_step: true }, &change)
}

/// Reads line after line and knows where it is.
struct Lines<'a> {
    from: &'a mut dyn BufRead,
    number: u64,
    text: String,
}

impl Lines<'_> {
    fn next(&mut self) -> Result<Option<Line>, LogError> {
        self.text.clear();
        let read = self.from.read_line(&mut self.text);
        self.number += 1;
        if read.map_err(|error| LogError::from_io("reading the export", &error))? == 0 {
            return Ok(None);
        }
        let line = serde_json::from_str(&self.text);
        line.map(Some).map_err(|error| self.bad(&error.to_string()))
    }

    /// Whether nothing but empty lines is left.
    fn is_at_end(&mut self) -> Result<bool, LogError> {
        loop {
            self.text.clear();
            let read = self.from.read_line(&mut self.text);
            if read.map_err(|error| LogError::from_io("reading the export", &error))? == 0 {
                return Ok(true);
            }
            self.number += 1;
            if !self.text.trim().is_empty() {
                return Ok(false);
            }
        }
    }

    fn bad(&self, what: &str) -> LogError {
        let doing = format!("importing line {}", self.number);
        LogError::Io { doing, kind: std::io::ErrorKind::InvalidData, detail: what.to_owned() }
    }
}
