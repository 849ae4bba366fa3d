//! All that the disk holds, and the points that its operations pass.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::Operation;
use super::chance::Chance;
use super::contents::{Contents, SECTOR};
use super::faults::{Fault, FaultPlan, Verdict, power_is_gone};
use super::names::Folder;
use crate::disk::folder_of;

/// What was done to the disk so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SimStats {
    /// Positioned writes.
    pub writes: u64,
    /// Bytes in them.
    pub bytes_written: u64,
    /// Syncs of files.
    pub syncs: u64,
    /// Syncs of folders.
    pub dir_syncs: u64,
    /// Bytes filled with zeros.
    pub bytes_allocated: u64,
    /// Points passed: every operation that changes something.
    pub points: u64,
}

#[derive(Clone, Default)]
pub(super) struct State {
    pub(super) files: HashMap<u64, Arc<Contents>>,
    pub(super) folders: BTreeMap<String, Folder>,
    pub(super) next_file: u64,
    pub(super) plan: Option<FaultPlan>,
    pub(super) broken: Option<Fault>,
    pub(super) capacity: Option<u64>,
    pub(super) sync_delay: Duration,
    pub(super) copy_on_write: bool,
    pub(super) stats: SimStats,
    pub(super) recording: bool,
    pub(super) recorded: Vec<(u64, Arc<State>)>,
}

impl State {
    /// A copy without plans, faults and recordings.
    pub(super) fn bare(&self) -> Self {
        Self {
            files: self.files.clone(),
            folders: self.folders.clone(),
            next_file: self.next_file,
            capacity: self.capacity,
            copy_on_write: self.copy_on_write,
            ..Self::default()
        }
    }

    pub(super) fn point_of(&mut self, operation: Operation) -> Verdict {
        if self.recording {
            let before = Arc::new(self.bare());
            self.recorded.push((self.stats.points, before));
        }
        if self.broken == Some(Fault::PowerCut) {
            return Verdict::Dead;
        }
        self.stats.points += 1;
        if self.broken.is_some() {
            return Verdict::Fail(io::ErrorKind::Other);
        }
        let points = self.stats.points;
        let strikes = |plan: &FaultPlan| plan.at <= points && plan.fault.may_meet(operation);
        let Some(plan) = self.plan.filter(strikes) else { return Verdict::Go };
        self.plan = None;
        match plan.fault {
            Fault::Error | Fault::SyncError => Verdict::Fail(io::ErrorKind::Other),
            Fault::NoSpace => Verdict::Fail(io::ErrorKind::StorageFull),
            Fault::ErrorsFromHere => {
                self.broken = Some(plan.fault);
                Verdict::Fail(io::ErrorKind::Other)
            }
            Fault::PowerCut => {
                self.broken = Some(plan.fault);
                Verdict::Cut
            }
            Fault::LostWrite => Verdict::Lose,
            Fault::MisdirectedWrite => Verdict::Misdirect,
        }
    }

    /// A write meant for a file goes to a random sector of it or of another one.
    pub(super) fn misdirect(&mut self, file: &mut Contents, bytes: &[u8]) {
        let mut chance = Chance(self.stats.points);
        let mut others: Vec<u64> = self.files.keys().copied().collect();
        others.sort_unstable();
        let at = |len: u64, chance: &mut Chance| chance.below(len.div_ceil(SECTOR).max(1)) * SECTOR;
        let other = chance.below(2 * others.len() as u64 + 1) as usize;
        match others.get(other).and_then(|id| self.files.get_mut(id)) {
            Some(other) => {
                let offset = at(other.durable.len, &mut chance);
                Arc::make_mut(other).receive_astray(offset, bytes);
            }
            None => file.receive_astray(at(file.durable.len, &mut chance), bytes),
        }
    }

    pub(super) fn check_power(&self) -> io::Result<()> {
        if self.broken == Some(Fault::PowerCut) { Err(power_is_gone()) } else { Ok(()) }
    }

    pub(super) fn folder(&self, name: &str) -> io::Result<&Folder> {
        self.folders.get(folder_of(name)).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    pub(super) fn folder_mut(&mut self, name: &str) -> io::Result<&mut Folder> {
        self.folders.get_mut(folder_of(name)).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    pub(super) fn find(&self, name: &str) -> io::Result<u64> {
        self.folder(name)?.now.get(base_of(name)).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    pub(super) fn links(&self, id: u64) -> u64 {
        self.folders.values().flat_map(|folder| folder.now.values()).filter(|&&other| other == id).count()
            as u64
    }

    /// Bytes of all files that have a name.
    pub(super) fn used(&self) -> u64 {
        let mut ids: Vec<u64> =
            self.folders.values().flat_map(|folder| folder.now.values().copied()).collect();
        ids.sort_unstable();
        ids.dedup();
        ids.iter().filter_map(|id| self.files.get(id)).map(|file| file.now.len).sum()
    }

    /// Refuses growth past the capacity. The file being changed is out of the map just now: `len` is its length.
    pub(super) fn check_room(&self, len: u64, more: u64) -> io::Result<()> {
        let Some(capacity) = self.capacity.filter(|_| more > 0) else { return Ok(()) };
        if self.used() + len + more <= capacity { Ok(()) } else { Err(io::ErrorKind::StorageFull.into()) }
    }
}

pub(super) fn base_of(name: &str) -> &str {
    name.rsplit_once('/').map_or(name, |(_, base)| base)
}
