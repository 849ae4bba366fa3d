//! Making a new store out of an export.
//!
//! Contents are journalled under no queue; everything that refers to them goes into one checkpoint at the end. So an
//! import that is cut short leaves an empty store, and one that ends is durable.

use std::io::BufRead;
use std::sync::Arc;

use hashbrown::HashMap;
use kew_core::{Entropy, QueueId, Return, Sequence, TaskId, Timestamp, own};
use kew_store::ledger::change::{Extended, Rewritten};
use kew_store::ledger::{Carried, CarriedOrder, Change, Ledger, Made, Place, Remembered, Shelf, Stored};

use super::lines::{LINES_VERSION, Line, StoreLine, from_hex};
use crate::checkpoint::Identity;
use crate::disk::Disk;
use crate::error::LogError;
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
    let mut lines = Lines { from, number: 0, text: String::new() };
    let Some(Line::Store(head)) = lines.next()? else {
        return Err(lines.bad("the first line of an export says which store it was"));
    };
    let key = from_hex(&head.mac_key).filter(|_| (1..=LINES_VERSION).contains(&head.version));
    let key = key.ok_or_else(|| lines.bad("the line is of another version or has no key"))?;
    if head.newest_ms > NEWEST_MS_MAX {
        return Err(lines.bad("newest_ms is past the year 9999"));
    }
    if Identity::load(&*disk)?.is_some() {
        return Err(occupied("the directory holds a store already; an import makes a new one"));
    }
    if is_left_of_a_store(&*disk)? {
        return Err(occupied("the directory holds what is left of a store; an import makes a new one"));
    }
    let store_id = entropy.wide_bits().to_be_bytes();
    Identity { store_id, mac_key: key, created_ms: now.0 }.create(&*disk)?;
    let options = LogOptions { drive: Drive::Manual, ..options };
    let (store, _) = LogStore::open(disk, options, entropy, now)?;
    // When the exported store was last in use, so that the first start sees how long ago that is.
    store.inner.writer.lock().advance_newest(Timestamp(head.newest_ms));
    let importing =
        Importing { store: &store, report: ImportReport::default(), sends: Vec::new(), last: HashMap::new() };
    let report = importing.run(&mut lines, &head, now)?;
    store.close()?;
    Ok(report)
}

fn occupied(what: &str) -> LogError {
    let kind = std::io::ErrorKind::AlreadyExists;
    LogError::Io { doing: "importing".into(), kind, detail: what.to_owned() }
}

struct Importing<'a> {
    store: &'a LogStore,
    report: ImportReport,
    sends: Vec<Remembered>,
    /// The newest message of each queue.
    last: HashMap<QueueId, Sequence>,
}

impl Importing<'_> {
    fn run(
        mut self,
        lines: &mut Lines<'_>,
        head: &StoreLine,
        now: Timestamp,
    ) -> Result<ImportReport, LogError> {
        self.store.inner.writer.lock().restore_numbers(QueueId(head.next_queue), TaskId(head.next_task));
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
        self.store.checkpoint()?;
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
                let key = kew_core::DocumentKey::new(&line.owner, &line.key);
                let account = kew_core::AccountId(line.account);
                self.store.inner.writer.lock().restore_document(account, key, bytes);
            }
            Line::Queue(line) => {
                let carried =
                    line.carried().ok_or_else(|| lines.bad("a document of a queue is no base64"))?;
                if self.store.inner.writer.lock().carried_queue(carried.queue.id).is_some() {
                    return Err(lines.bad("a queue that was there before"));
                }
                self.store.inner.writer.lock().restore_queue(&carried);
                self.report.queues += 1;
            }
            Line::Message(line) => {
                let (queue, carried, stored) = line.carried().map_err(|what| lines.bad(what))?;
                self.message(lines, queue, carried, &stored)?;
            }
            Line::Order(line) => {
                let queue = QueueId(line.queue);
                let mut ledger = self.store.inner.writer.lock();
                if ledger.carried_queue(queue).is_none() {
                    return Err(lines.bad("an order of no queue before it"));
                }
                ledger.restore_order(queue, &line.order());
            }
            Line::Task(line) => self.store.inner.writer.lock().restore_task(line.task()),
            Line::Remembered(line) => {
                let send = line.remembered();
                self.sends.push(send.ok_or_else(|| lines.bad("identity and id must be 32 hex digits"))?);
            }
        }
        Ok(())
    }

    /// What can only be put into the ledger when all lines were read.
    fn end(&mut self, version: u32, at: Timestamp) {
        self.sends.sort_unstable_by_key(|send| send.at);
        let mut ledger = self.store.inner.writer.lock();
        self.sends.iter().for_each(|send| ledger.restore_send(send));
        // In place of what an earlier import left there.
        let at = own::write_imported(at.max(ledger.newest_instant()));
        ledger.restore_document(own::OWN_ACCOUNT, own::imported(), at);
        if version == 1 {
            // Those lines say nothing of turns.
            for carried in ledger.carried_queues() {
                ledger.restore_order(carried.queue.id, &CarriedOrder::default());
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
        let mut ledger = self.store.inner.writer.lock();
        let known =
            ledger.carried_queue(queue).ok_or_else(|| lines.bad("a message of no queue before it"))?;
        if known.queue.policy.kind.is_fifo() && stored.group.is_none() {
            return Err(lines.bad("a message of a FIFO queue without a group"));
        }
        let last = self.last.insert(queue, carried.sequence);
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
        self.report.messages += 1;
        if is_full { self.store.inner.commit() } else { Ok(()) }
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
