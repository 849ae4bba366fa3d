//! `kew store backup`: a copy of a stopped store, and what says whether one is whole.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use kew_core::{ShardCount, ShardId, Timestamp};
use kew_store_log::{BACKUP_LIST, Disk, Laid, LogStore, ShardFolders, Sharing, laid_out};

use super::lines::backup_lines;
use super::place::Place;
use super::{ToolError, doing, entropy, options, tell};
use crate::store::backups;

/// Opens the shards of a store, one after another, copies each, and closes it as it should be.
pub(super) fn run(place: &Place, target: &Path, link: bool) -> Result<(), ToolError> {
    must_lie_outside(place, target)?;
    let filled = place.to_change()?;
    let sharing = if link { Sharing::Links } else { Sharing::Nothing };
    let shards = filled.shards();
    let made = if shards == ShardCount::ONE {
        copy(place, (filled.only(), ShardId(0), shards), target, sharing)
    } else {
        copy_shards(place, &filled.disks, target, sharing)
    };
    filled.give_up();
    made
}

/// Refuses a target in the store itself: the next backup would hold this one, and a start would find it there.
fn must_lie_outside(place: &Place, target: &Path) -> Result<(), ToolError> {
    let Place::Directory(store) = place else { return Ok(()) };
    // Where there is no store, that is said.
    let Ok(home) = store.canonicalize() else { return Ok(()) };
    match backups::outside(target, &home) {
        Ok(_) => Ok(()),
        Err(why) => Err(ToolError::Target { target: target.to_owned(), why }),
    }
}

/// The shards lie in the copy as they do in the store. A copy that was cut short is refused when it is opened; one that
/// fails is removed.
fn copy_shards(
    place: &Place,
    disks: &[Arc<dyn Disk>],
    target: &Path,
    sharing: Sharing,
) -> Result<(), ToolError> {
    if !is_empty(target)? {
        return Err(ToolError::NotEmpty(target.to_owned()));
    }
    let shards = u16::try_from(disks.len()).ok().and_then(ShardCount::new);
    let shards = shards.expect("a store has at least one shard, and as many as 16 bits count");
    let mut copies = ShardFolders::take_for_copy(target, shards)?;
    let copied = shards.all().zip(disks).try_for_each(|(shard, disk)| {
        copy(place, (Arc::clone(disk), shard, shards), &copies.path(shard), sharing)
    });
    match copied {
        Ok(()) => Ok(copies.made()?),
        Err(error) => {
            // What stays where this fails too is refused when it is opened.
            let _left = copies.undo();
            Err(error)
        }
    }
}

fn is_empty(directory: &Path) -> Result<bool, ToolError> {
    match std::fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        entries => Ok(entries.map_err(doing(format!("reading {}", directory.display())))?.next().is_none()),
    }
}

fn copy(
    place: &Place,
    (disk, shard, of): (Arc<dyn Disk>, ShardId, ShardCount),
    target: &Path,
    sharing: Sharing,
) -> Result<(), ToolError> {
    let opened = LogStore::open(disk, options(shard, of), entropy()?, Timestamp::ZERO);
    let (store, report) = opened.map_err(|error| place.explain(error))?;
    if let Some(tail) = &report.tail {
        let line = format!(
            "cut {} bytes of an incomplete batch off {} at offset {}\n",
            tail.bytes_dropped, tail.file, tail.offset
        );
        // With a closed output the work goes on.
        let _told = io::stderr().lock().write_all(line.as_bytes());
    }
    let made = kew_store_log::backup(&store, target, sharing);
    let told = made.map_err(ToolError::Log).and_then(|report| tell(&backup_lines(target, &report)));
    let closed = store.close().map_err(ToolError::Log);
    told.and(closed)
}

/// Compares a backup with its lists.
pub(super) fn verify(target: &Path) -> Result<(), ToolError> {
    let mut files = 0;
    match laid_out(target)? {
        Laid::Several(shards) => {
            let copies = ShardFolders::look_at_copy(target)?;
            if !copies.is_made() {
                return Err(ToolError::HalfABackup(target.to_owned()));
            }
            if !shards.all().any(|shard| has_list(&copies.path(shard))) {
                return Err(ToolError::NotABackup(target.to_owned()));
            }
            for shard in shards.all() {
                files += kew_store_log::verify_backup(&copies.path(shard))?.len();
            }
        }
        Laid::One if !has_list(target) => return Err(ToolError::NotABackup(target.to_owned())),
        Laid::Nothing if target.is_dir() && !has_list(target) => {
            return Err(ToolError::NoBackupThere(target.to_owned()));
        }
        Laid::One | Laid::Nothing => files = kew_store_log::verify_backup(target)?.len(),
    }
    tell(&format!("every one of {files} files is as the list says\n"))
}

fn has_list(directory: &Path) -> bool {
    directory.join(BACKUP_LIST).exists()
}
