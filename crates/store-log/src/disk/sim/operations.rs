//! The simulated disk does what a disk does: each operation that changes something asks first what is planned for it.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::chance::Chance;
use super::contents::Contents;
use super::faults::Verdict;
use super::names::{Folder, NameChange};
use super::state::{State, base_of};
use super::{Operation, SharedDisk, SimDisk};
use crate::disk::{Disk, DiskFile, DiskLock, check_name, check_rename};

impl Disk for SimDisk {
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        check_name(name)?;
        self.shared.before_operation(Operation::Name);
        let mut state = self.shared.state.lock();
        if state.folder(name)?.now.contains_key(base_of(name)) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let verdict = state.point_of(Operation::Name);
        if verdict.applies() {
            let id = state.next_file;
            state.next_file += 1;
            state.files.insert(id, Arc::default());
            state.folder_mut(name)?.change(NameChange::Set(base_of(name).to_owned(), id));
        }
        verdict.result()?;
        let id = state.next_file - 1;
        drop(state);
        Ok(self.handle(id))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        check_name(name)?;
        self.shared.before_operation(Operation::Look);
        let state = self.shared.state.lock();
        state.check_power()?;
        let id = state.find(name)?;
        drop(state);
        Ok(self.handle(id))
    }

    fn create_dir(&self, folder: &str) -> io::Result<()> {
        check_name(folder)?;
        self.shared.before_operation(Operation::Name);
        let mut state = self.shared.state.lock();
        if state.folders.contains_key(folder) {
            return Ok(());
        }
        let verdict = state.point_of(Operation::Name);
        if verdict.applies() {
            state.folder_mut(folder)?.change(NameChange::Made(folder.to_owned()));
            state.folders.insert(folder.to_owned(), Folder::default());
        }
        verdict.result()
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        check_rename(from, to)?;
        self.shared.before_operation(Operation::Name);
        let mut state = self.shared.state.lock();
        let id = state.find(from)?;
        let verdict = state.point_of(Operation::Name);
        if verdict.applies() {
            state.folder_mut(from)?.change(NameChange::Move(
                base_of(from).to_owned(),
                base_of(to).to_owned(),
                id,
            ));
        }
        verdict.result()
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        check_name(name)?;
        self.shared.before_operation(Operation::Name);
        let mut state = self.shared.state.lock();
        state.find(name)?;
        let verdict = state.point_of(Operation::Name);
        if verdict.applies() {
            state.folder_mut(name)?.change(NameChange::Drop(base_of(name).to_owned()));
        }
        verdict.result()
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        self.shared.before_operation(Operation::Look);
        let state = self.shared.state.lock();
        state.check_power()?;
        Ok(state.folders.get(folder).map(|folder| folder.now.keys().cloned().collect()).unwrap_or_default())
    }

    fn hard_link(&self, from: &str, to: &str) -> io::Result<()> {
        check_name(from)?;
        check_name(to)?;
        self.shared.before_operation(Operation::Name);
        let mut state = self.shared.state.lock();
        let id = state.find(from)?;
        if state.find(to).is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let verdict = state.point_of(Operation::Name);
        if verdict.applies() {
            state.folder_mut(to)?.change(NameChange::Set(base_of(to).to_owned(), id));
        }
        verdict.result()
    }

    fn hard_link_out(&self, _from: &str, _to: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn link_count(&self, name: &str) -> io::Result<u64> {
        self.shared.before_operation(Operation::Look);
        let state = self.shared.state.lock();
        state.check_power()?;
        let id = state.find(name)?;
        Ok(state.links(id))
    }

    fn sync_dir(&self, folder: &str) -> io::Result<()> {
        self.shared.before_operation(Operation::SyncFolder);
        let mut state = self.shared.state.lock();
        let verdict = state.point_of(Operation::SyncFolder);
        state.stats.dir_syncs += 1;
        let reach = state.folders.get(folder).ok_or(io::ErrorKind::NotFound)?.reach();
        drop(state);
        verdict.result()?;
        self.shared.during_sync();
        let mut state = self.shared.state.lock();
        state.check_power()?;
        state.folders.get_mut(folder).ok_or(io::ErrorKind::NotFound)?.sync_to(reach);
        Ok(())
    }

    fn free_space(&self) -> io::Result<u64> {
        self.shared.before_operation(Operation::Look);
        let state = self.shared.state.lock();
        state.check_power()?;
        Ok(state.capacity.map_or(1 << 50, |capacity| capacity.saturating_sub(state.used())))
    }

    fn lock(&self) -> io::Result<DiskLock> {
        if self.shared.locked.swap(true, Ordering::AcqRel) {
            return Err(io::Error::new(io::ErrorKind::WouldBlock, "another holder of the simulated disk"));
        }
        Ok(DiskLock::holding(SimLock(self.shared.clone())))
    }

    fn is_copy_on_write(&self) -> bool {
        self.shared.state.lock().copy_on_write
    }
}

struct SimLock(Arc<SharedDisk>);

impl Drop for SimLock {
    fn drop(&mut self) {
        self.0.locked.store(false, Ordering::Release);
    }
}

pub(super) struct SimFile {
    pub(super) shared: Arc<SharedDisk>,
    pub(super) id: u64,
    /// Errors of writing back that were reported to this handle.
    pub(super) errors_known: AtomicU64,
}

impl SimFile {
    fn change<T>(
        &self,
        operation: Operation,
        change: impl FnOnce(&mut State, &mut Contents, Verdict) -> io::Result<T>,
    ) -> io::Result<T> {
        self.shared.before_operation(operation);
        let mut state = self.shared.state.lock();
        let verdict = state.point_of(operation);
        self.with_file(&mut state, |state, file| change(state, file, verdict))
    }

    fn with_file<T>(&self, state: &mut State, change: impl FnOnce(&mut State, &mut Contents) -> T) -> T {
        // Taken out of the map, so that only snapshots share it.
        let mut file = state.files.remove(&self.id).unwrap_or_default();
        let result = change(state, Arc::make_mut(&mut file));
        state.files.insert(self.id, file);
        result
    }

    /// Ends a sync that reached so far. An error of writing back, whichever sync met it, is reported to one sync of
    /// this handle.
    fn end_sync(&self, reach: u64) -> io::Result<()> {
        let mut state = self.shared.state.lock();
        state.check_power()?;
        self.with_file(&mut state, |_, file| {
            file.sync_to(reach);
            let (known, error) = file.report_error(self.errors_known.load(Ordering::Relaxed));
            self.errors_known.store(known, Ordering::Relaxed);
            error.map_or(Ok(()), |kind| Err(io::Error::new(kind, "planned fault")))
        })
    }
}

impl DiskFile for SimFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.shared.before_operation(Operation::Write);
        let mut state = self.shared.state.lock();
        let verdict = state.point_of(Operation::Write);
        self.with_file(&mut state, |state, file| {
            let end = offset + bytes.len() as u64;
            state.check_room(file.now.len, end.saturating_sub(file.now.len))?;
            match verdict {
                Verdict::Fail(_) => file.write(offset, &bytes[..bytes.len() / 2]),
                Verdict::Go | Verdict::Cut => file.write(offset, bytes),
                Verdict::Lose => file.lose_write(offset, bytes),
                Verdict::Misdirect => {
                    file.lose_write(offset, bytes);
                    state.misdirect(file, bytes);
                }
                Verdict::Dead => {}
            }
            state.stats.writes += 1;
            state.stats.bytes_written += bytes.len() as u64;
            verdict.result()
        })
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.shared.before_operation(Operation::Look);
        let state = self.shared.state.lock();
        state.check_power()?;
        Ok(state.files.get(&self.id).map_or(0, |file| file.now.read(offset, buffer)))
    }

    fn sync_data(&self) -> io::Result<()> {
        let delay = self.shared.state.lock().sync_delay;
        if !delay.is_zero() {
            std::thread::sleep(delay);
        }
        let reach = self.change(Operation::Sync, |state, file, verdict| {
            state.stats.syncs += 1;
            match verdict {
                Verdict::Fail(kind) => file.fail_sync(kind, &mut Chance(state.stats.points)),
                Verdict::Cut | Verdict::Dead => verdict.result()?,
                Verdict::Go | Verdict::Lose | Verdict::Misdirect => {}
            }
            Ok(file.reach())
        })?;
        self.shared.during_sync();
        self.end_sync(reach)
    }

    fn sync_all(&self) -> io::Result<()> {
        self.sync_data()
    }

    fn len(&self) -> io::Result<u64> {
        self.shared.before_operation(Operation::Look);
        let state = self.shared.state.lock();
        state.check_power()?;
        Ok(state.files.get(&self.id).map_or(0, |file| file.now.len))
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.change(Operation::Write, |state, file, verdict| {
            let more = len.saturating_sub(file.now.len);
            state.check_room(file.now.len, more)?;
            match verdict {
                Verdict::Fail(_) => file.grow(file.now.len + more / 2),
                Verdict::Dead => {}
                _ => file.grow(len),
            }
            state.stats.bytes_allocated += more;
            verdict.result()
        })
    }
}
