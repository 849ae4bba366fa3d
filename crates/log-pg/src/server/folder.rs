//! Where the data of a server lies, and how it comes there.
//!
//! A new cluster takes more than a second of the processor to make. So one is made and kept while any server of this
//! process lives; each server begins with a copy.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use rustix::fs::statvfs;
use tempfile::TempDir;

use super::{as_server, is_root, run};

/// Linux's file system in memory that is there on every machine.
const MEMORY: &str = "/dev/shm";
/// Bytes that have to be free in it, and in memory: a program of tests makes some hundred databases of 8 MB each.
const ROOM: u64 = 6 << 30;
/// In memory a server keeps less of its log than it would.
const LITTLE_LOG: &str = "max_wal_size=256MB\nmin_wal_size=32MB\n";
/// What says that a server syncs nothing, so that no disk is needed.
const NO_SYNC: &str = "fsync=off";

/// The cluster that others are copies of, while one of them lives.
static NEW_CLUSTER: Mutex<Weak<TempDir>> = Mutex::new(Weak::new());

/// The folder of one server, gone with it.
pub(super) struct Folder {
    own: TempDir,
    copied_from: Option<Arc<TempDir>>,
}

impl Folder {
    /// With a new cluster in it, for a server with these settings.
    pub fn with_cluster(settings: &[&str]) -> io::Result<Self> {
        let new = new_cluster()?;
        let own = folder(settings.contains(&NO_SYNC))?;
        run(Command::new("cp").arg("-a").arg(data(&new)).arg(own.path()))?;
        Ok(Self { own, copied_from: Some(new) })
    }

    /// With nothing in it, for a server that follows the one of this folder.
    pub fn for_a_follower(&self) -> io::Result<Self> {
        Ok(Self { own: folder(self.lies_in_memory())?, copied_from: None })
    }

    pub fn path(&self) -> &Path {
        self.own.path()
    }

    /// All that is to be removed when this process is gone without having done so.
    pub fn all(&self) -> Vec<&Path> {
        [Some(self.own.path()), self.copied_from.as_ref().map(|new| new.path())]
            .into_iter()
            .flatten()
            .collect()
    }

    /// Lines for the server's settings that its place asks for.
    pub fn settings(&self) -> &'static str {
        if self.lies_in_memory() { LITTLE_LOG } else { "" }
    }

    fn lies_in_memory(&self) -> bool {
        self.path().starts_with(MEMORY)
    }

    /// The directory of the server's data.
    pub fn data(&self) -> PathBuf {
        data(&self.own)
    }
}

fn data(folder: &TempDir) -> PathBuf {
    folder.path().join("data")
}

fn new_cluster() -> io::Result<Arc<TempDir>> {
    // Others that want one wait meanwhile: to make their own would take longer.
    let mut known = NEW_CLUSTER.lock();
    if let Some(new) = known.upgrade() {
        return Ok(new);
    }
    let new = Arc::new(folder(true)?);
    let initdb = ["--auth=trust", "--username=kew", "--no-sync", "--encoding=UTF8", "--locale=C", "-D"];
    run(as_server("initdb")?.args(initdb).arg(data(&new)))?;
    *known = Arc::downgrade(&new);
    Ok(new)
}

/// A folder that the server may write to: in memory if it may lie there and there is room.
fn folder(may_lie_in_memory: bool) -> io::Result<TempDir> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("kew-pg-");
    let folder = if may_lie_in_memory && has_room_in_memory() {
        builder.tempdir_in(MEMORY)?
    } else {
        builder.tempdir()?
    };
    if is_root() {
        run(Command::new("chown").arg("postgres").arg(folder.path()))?;
    }
    Ok(folder)
}

fn has_room_in_memory() -> bool {
    let free = statvfs(MEMORY).map_or(0, |stat| stat.f_bavail * stat.f_frsize);
    free >= ROOM && memory_left() >= ROOM
}

/// Bytes that programs may still ask for.
fn memory_left() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kilobytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kilobytes.unwrap_or(0) << 10
}
