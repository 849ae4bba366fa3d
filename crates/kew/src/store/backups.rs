//! Backups of the store in a directory while it is in use: one at a time, on a thread of its own.

use std::collections::VecDeque;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use kew_console::{BackupRefused, BackupState, BackupTask, Backups};
use kew_core::Entropy;
use kew_store_log::{
    BackupFailed, BackupPlan, BackupProgress, BackupReport, LogStore, Sharing, backup_watched,
};
use parking_lot::Mutex;

use crate::log::{Level, Log};

/// Backups that are remembered; the oldest goes.
const REMEMBERED_MAX: usize = 16;

/// The backups of one store.
pub(crate) struct StoreBackups {
    store: Arc<LogStore>,
    /// The store's directory, with no link in its path.
    home: PathBuf,
    entropy: Arc<dyn Entropy>,
    log: Log,
    /// Guards what is known of backups; held for moments.
    known: Arc<Mutex<Known>>,
}

#[derive(Default)]
struct Known {
    tasks: VecDeque<Task>,
    /// The thread of the latest.
    thread: Option<JoinHandle<()>>,
    is_stopping: bool,
    done: u64,
    failed: u64,
}

struct Task {
    id: String,
    to: PathBuf,
    progress: Arc<BackupProgress>,
    /// `None` while it runs.
    ended: Option<BackupState>,
}

impl StoreBackups {
    /// Backups of the store in the directory `home`.
    pub(crate) fn new(
        store: Arc<LogStore>,
        home: &Path,
        entropy: Arc<dyn Entropy>,
        log: Log,
    ) -> std::io::Result<Self> {
        Ok(Self { store, home: home.canonicalize()?, entropy, log, known: Arc::default() })
    }

    /// Gives up the backup that runs, if one does, and waits until its thread has ended. None begins after that.
    pub(crate) fn stop(&self) {
        let thread = {
            let mut known = self.known.lock();
            known.is_stopping = true;
            known.tasks.iter().for_each(|task| task.progress.stop());
            known.thread.take()
        };
        if let Some(thread) = thread {
            // One that panicked has said so itself.
            let _ended = thread.join();
        }
    }
}

impl Backups for StoreBackups {
    fn begin(&self, to: &str, link: bool) -> Result<String, BackupRefused> {
        let target = target(to, &self.home)?;
        let sharing = if link { Sharing::Links } else { Sharing::Nothing };
        let id = format!("{:016x}", self.entropy.bits());
        let mut known = self.known.lock();
        if known.is_stopping {
            return Err(BackupRefused::Unavailable("the server is stopping".to_owned()));
        }
        if let Some(running) = known.tasks.iter().find(|task| task.ended.is_none()) {
            return Err(BackupRefused::Running(running.id.clone()));
        }
        let progress = Arc::<BackupProgress>::default();
        let making = Making {
            store: Arc::clone(&self.store),
            to: target.clone(),
            progress: Arc::clone(&progress),
            log: self.log,
            known: Arc::clone(&self.known),
        };
        let spawned = std::thread::Builder::new().name("kew-backup".to_owned()).spawn(move || {
            making.run(sharing);
        });
        let thread = spawned.map_err(|error| BackupRefused::Unavailable(error.to_string()))?;
        if known.tasks.len() >= REMEMBERED_MAX {
            known.tasks.pop_front();
        }
        known.tasks.push_back(Task { id: id.clone(), to: target, progress, ended: None });
        // The one before it has ended.
        known.thread = Some(thread);
        Ok(id)
    }

    fn task(&self, task: &str) -> Option<BackupTask> {
        let known = self.known.lock();
        let task = known.tasks.iter().find(|known| known.id == task)?;
        Some(BackupTask {
            state: task.ended.clone().unwrap_or(BackupState::Running),
            to: task.to.display().to_string(),
            bytes: task.progress.bytes(),
            of: task.progress.of(),
        })
    }

    fn ended(&self) -> (u64, u64) {
        let known = self.known.lock();
        (known.done, known.failed)
    }
}

/// A backup that is made on a thread of its own.
struct Making {
    store: Arc<LogStore>,
    to: PathBuf,
    progress: Arc<BackupProgress>,
    log: Log,
    known: Arc<Mutex<Known>>,
}

impl Making {
    fn run(self, sharing: Sharing) {
        let place = self.to.display().to_string();
        self.log.tell(Level::Info, "a backup begins", &[("to", &place)]);
        // Also where a step of it panics the task ends, and the next may begin.
        let ending = Ending { known: &self.known, progress: &self.progress };
        let made = backup_watched(&self.store, &self.to, BackupPlan::of(sharing), &self.progress);
        // Nothing of the store is held when the end of the task can be seen.
        drop(self.store);
        match made {
            Ok(report) => {
                let bytes: u64 = report.files.iter().map(|file| file.bytes).sum();
                let fields = [
                    ("to", place.as_str()),
                    ("files", &report.files.len().to_string()),
                    ("bytes", &bytes.to_string()),
                    ("batch", &report.batch.to_string()),
                ];
                self.log.tell(Level::Info, "a backup is done", &fields);
                ending.set(done(&report));
            }
            Err(failed) => {
                let why = failed.to_string();
                self.log.tell(Level::Error, "a backup failed", &[("to", &place), ("cause", &why)]);
                ending.set(failed_state(&failed));
            }
        }
    }
}

fn done(report: &BackupReport) -> BackupState {
    BackupState::Done { files: report.files.len() as u64, linked: report.linked }
}

fn failed_state(failed: &BackupFailed) -> BackupState {
    BackupState::Failed(failed.to_string())
}

/// Sees to it that a task ends.
struct Ending<'a> {
    known: &'a Mutex<Known>,
    progress: &'a Arc<BackupProgress>,
}

impl Ending<'_> {
    fn set(&self, state: BackupState) {
        let mut known = self.known.lock();
        let task = known.tasks.iter_mut().find(|task| Arc::ptr_eq(&task.progress, self.progress));
        let Some(task) = task.filter(|task| task.ended.is_none()) else { return };
        let is_done = matches!(state, BackupState::Done { .. });
        task.ended = Some(state);
        if is_done { known.done += 1 } else { known.failed += 1 }
    }
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.set(BackupState::Failed("the thread of the backup panicked".to_owned()));
    }
}

/// The directory of a backup, checked: an absolute path outside the store's own directory, missing or empty.
fn target(to: &str, home: &Path) -> Result<PathBuf, BackupRefused> {
    let path = Path::new(to);
    let refused = |why: &str| BackupRefused::Target(format!("`to` {why}"));
    if !path.is_absolute() {
        return Err(refused("must be an absolute path"));
    }
    if path.components().any(|part| matches!(part, Component::ParentDir)) {
        return Err(refused("must hold no `..`"));
    }
    let real = outside(path, home).map_err(|why| refused(&why))?;
    match std::fs::read_dir(&real) {
        Ok(mut entries) => match entries.next() {
            Some(_) => Err(BackupRefused::NotEmpty(format!("{} is not empty", real.display()))),
            None => Ok(real),
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(real),
        Err(error) => Err(refused(&format!("cannot be used: {error}"))),
    }
}

/// Where a directory really is or will be, whatever links are on the way: it must lie outside the store's own, `home`,
/// whose path has no link in it. Else why not.
pub(crate) fn outside(path: &Path, home: &Path) -> Result<PathBuf, String> {
    let unreachable = |error: std::io::Error| format!("cannot be reached: {error}");
    let path = std::path::absolute(path).map_err(unreachable)?;
    let there = path.ancestors().find(|above| above.exists()).unwrap_or(&path);
    let real = there.canonicalize().map_err(unreachable)?;
    let rest = path.strip_prefix(there).unwrap_or(Path::new(""));
    // What does not exist yet has no parent to go to.
    if rest.components().any(|part| matches!(part, Component::ParentDir)) {
        return Err("must hold no `..` behind a directory that does not exist".to_owned());
    }
    let real = if rest.as_os_str().is_empty() { real } else { real.join(rest) };
    if real.starts_with(home) {
        return Err(format!("lies in the store's own directory, {}", home.display()));
    }
    Ok(real)
}
