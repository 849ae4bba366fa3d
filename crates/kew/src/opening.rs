//! Opens the store in a directory, and tells what was found there.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kew_core::Entropy;
use kew_store_log::{
    Disk, Durability, LogError, LogOptions, LogStore, OpenReport, RealDisk, ScrubPace, make_private,
};

use crate::log::{Level, Log};
use crate::machine;
use crate::slow_disk;
use crate::start_error::StartError;

/// The store in the directory at `path`.
pub fn open(
    path: &Path,
    options: LogOptions,
    entropy: Arc<dyn Entropy>,
    log: Log,
) -> Result<Arc<LogStore>, StartError> {
    let disk =
        RealDisk::open(path).map_err(|cause| StartError::Directory { path: path.to_owned(), cause })?;
    let disk: Arc<dyn Disk> = match slow_disk::asked() {
        None => Arc::new(disk),
        Some(slow) => {
            let warning = "syncs or reads are made to take longer, as variables ask; unset them unless this is a measurement";
            let millis = [slow.sync, slow.read].map(|added| added.as_millis().to_string());
            log.tell(Level::Warn, warning, &[(slow_disk::SYNCS, &millis[0]), (slow_disk::READS, &millis[1])]);
            Arc::new(slow_disk::slowed(disk, slow))
        }
    };
    let opened = LogStore::open(disk, options, entropy, machine::system_now());
    let (store, report) = opened.map_err(|cause| match cause {
        LogError::Locked { holder } => StartError::Locked { path: path.to_owned(), holder },
        cause => StartError::Store { path: path.to_owned(), cause },
    })?;
    tell_opening(log, &report, options.durability);
    close_to_others(path, log);
    Ok(Arc::new(store))
}

/// Begins to look for damage beside requests, if that is wanted; one look at everything takes `pass`.
pub fn scrub(store: &LogStore, path: &Path, pass: Option<Duration>) -> Result<(), StartError> {
    let Some(pass) = pass else { return Ok(()) };
    let pace = ScrubPace { pass, ..ScrubPace::default() };
    let begun = store.scrub_beside(pace, Arc::new(machine::SystemClock));
    begun.map_err(|cause| StartError::Store { path: path.to_owned(), cause })
}

/// An older version, or a `mkdir` before the first start, may have left the store readable by everyone on the machine.
fn close_to_others(path: &Path, log: Log) {
    let store = path.display().to_string();
    match make_private(path) {
        Ok(0) => {}
        Ok(closed) => log.tell(
            Level::Warn,
            "other users of this machine could read the store; from now on its owner alone can",
            &[("store", &store), ("names", &closed.to_string())],
        ),
        Err(cause) => log.tell(
            Level::Warn,
            "other users of this machine may be able to read the store: its mode could not be changed to 0700",
            &[("store", &store), ("cause", &cause.to_string())],
        ),
    }
}

/// What opening found, as far as an operator should know.
fn tell_opening(log: Log, report: &OpenReport, durability: Durability) {
    if report.created {
        log.tell(Level::Info, "a new store was made", &[]);
    } else if !report.clean {
        let batches = report.batches.to_string();
        log.tell(
            Level::Warn,
            "the last run was cut short; the store was recovered",
            &[("batches", &batches)],
        );
    }
    if let Some(tail) = &report.tail {
        let (offset, bytes) = (tail.offset.to_string(), tail.bytes_dropped.to_string());
        log.tell(
            Level::Warn,
            "an incomplete batch was cut off the journal's end; nothing in it was ever acknowledged as durable",
            &[("file", &tail.file), ("offset", &offset), ("bytes", &bytes), ("why", &tail.why)],
        );
    }
    if report.copy_on_write {
        log.tell(
            Level::Warn,
            "this file system copies on write: when it is full, a write that needs no new space elsewhere may fail here and stop the store",
            &[],
        );
    }
    if durability == Durability::Os {
        log.tell(
            Level::Warn,
            "--durability os: a power cut may lose messages whose sends were acknowledged, and bring back deleted ones",
            &[],
        );
    }
}
