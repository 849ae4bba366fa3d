//! Room for a checkpoint on a full disk: a file of zeros holds its place, and spare segments are given up when that is
//! too little, but never for nothing. How much a checkpoint takes is said from above.
//!
//! What is given up is missed: without kept room sends are refused, without spares deletes are. So it goes only when
//! the checkpoint then surely fits, and the caller writes it at once: whatever is free for longer is soon a spare
//! again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::segments::Segments;
use crate::disk::{CHECKPOINTS_FOLDER, Disk, KEPT_FILE, remove_if_there};
use crate::error::{Doing, LogError};

/// File systems give space in blocks.
const BLOCK: u64 = 4096;
/// The file that holds the place of the next checkpoint.
pub(crate) struct KeptRoom {
    disk: Arc<dyn Disk>,
    /// Bytes it holds, and whether those are too few.
    bytes: AtomicU64,
    is_short: AtomicBool,
}

impl KeptRoom {
    /// None is kept so far, nor asked for.
    pub fn new(disk: Arc<dyn Disk>) -> Self {
        Self { disk, bytes: AtomicU64::new(0), is_short: AtomicBool::new(false) }
    }

    /// Bytes it holds.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Acquire)
    }

    /// Whether less is kept than was asked for: no time to take more messages.
    pub fn is_short(&self) -> bool {
        self.is_short.load(Ordering::Acquire)
    }

    /// Keeps a quarter more than this many bytes. A file that is much too large is made anew.
    pub fn keep(&self, bytes: u64) -> Result<(), LogError> {
        let wanted = (bytes + bytes / 4).next_multiple_of(BLOCK);
        let kept = self.hold(wanted);
        self.is_short.store(kept.is_err(), Ordering::Release);
        kept
    }

    fn hold(&self, wanted: u64) -> Result<(), LogError> {
        let held = self.bytes();
        if held >= wanted && held / 4 <= wanted {
            return Ok(());
        }
        self.disk.create_dir(CHECKPOINTS_FOLDER).doing("making", CHECKPOINTS_FOLDER)?;
        let found = self.disk.open(KEPT_FILE).and_then(|file| Ok((file.len()?, file)));
        let file = match found {
            Ok((len, file)) if len / 4 <= wanted => file,
            _ => {
                self.give_up()?;
                self.disk.create(KEPT_FILE).doing("making", KEPT_FILE)?
            }
        };
        if file.len().doing("measuring", KEPT_FILE)? < wanted {
            file.allocate(wanted).doing("filling", KEPT_FILE)?;
            file.sync_all().doing("syncing", KEPT_FILE)?;
        }
        self.bytes.store(wanted, Ordering::Release);
        Ok(())
    }

    fn give_up(&self) -> Result<(), LogError> {
        self.bytes.store(0, Ordering::Release);
        remove_if_there(&*self.disk, KEPT_FILE).doing("removing", KEPT_FILE)
    }

    /// Gives up what is kept, then spares, until `needed` bytes are free; false, and nothing is given up, when all of
    /// it is too little.
    pub fn make(&self, segments: &Segments, needed: u64) -> Result<bool, LogError> {
        let free = || self.disk.free_space().doing("measuring", "the free space");
        if free()?.saturating_add(self.bytes()).saturating_add(segments.spare_bytes()) < needed {
            return Ok(false);
        }
        if free()? < needed {
            self.is_short.store(true, Ordering::Release);
            self.give_up()?;
        }
        while free()? < needed {
            if !segments.give_up_spare()? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
