//! Opens the store in a directory, and tells what was found there.

use std::panic::resume_unwind;
use std::path::Path;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use kew_core::{Entropy, ShardCount, ShardId, ShardPlace, Timestamp};
use kew_log_pg::{Ending, Founding, Node, PeerSecret, PgDisk, Waiting};
use kew_store_log::{
    BACKUP_LIST, Disk, Durability, LogError, LogOptions, LogStore, OpenReport, RealDisk, ScrubPace,
    ShardFolders, make_private,
};

use crate::config::PgUrl;
use crate::lines::Lines;
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
    let is_backup = holds_backup(path);
    let (store, report) = opened(path, options, entropy, log)?;
    tell_opening(log, &report, is_backup, &[]);
    tell_place(log, report.copy_on_write, options.durability);
    close_to_others(path, log);
    Ok(store)
}

/// The shards of a store in the directory at `path`, and what holds them. One that is not there is made, with `shards`.
pub fn open_shards(
    path: &Path,
    shards: ShardCount,
    options: LogOptions,
    entropy: &Arc<dyn Entropy>,
    log: Log,
) -> Result<(ShardFolders, Vec<Arc<LogStore>>), StartError> {
    let failed = |cause| failed_at(path, cause);
    let mut folders = ShardFolders::take(path, shards).map_err(failed)?;
    let key = Some(folders.key(&**entropy).map_err(failed)?);
    let backups: Vec<bool> = shards.all().map(|shard| holds_backup(&folders.path(shard))).collect();
    let open = |shard: ShardId| {
        let options = LogOptions { place: ShardPlace { shard, of: shards }, key, ..options };
        opened(&folders.path(shard), options, Arc::clone(entropy), log)
    };
    // Each reads what it holds: together they take as long as the largest.
    let all: Vec<_> = std::thread::scope(|scope| {
        let opening: Vec<_> = shards.all().map(|shard| scope.spawn(move || open(shard))).collect();
        let ended =
            opening.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
        ended.collect()
    });
    let all = all.into_iter().collect::<Result<Vec<_>, _>>()?;
    folders.made().map_err(failed)?;
    for ((shard, (_, report)), is_backup) in shards.all().zip(&all).zip(backups) {
        tell_opening(log, report, is_backup, &[("shard", &shard.to_string())]);
    }
    tell_place(log, all.iter().any(|(_, report)| report.copy_on_write), options.durability);
    close_to_others(path, log);
    shards.all().for_each(|shard| close_to_others(&folders.path(shard), log));
    Ok((folders, all.into_iter().map(|(store, _)| store).collect()))
}

/// Whether a backup lies there that was never opened: its list goes when it is.
fn holds_backup(path: &Path) -> bool {
    path.join(BACKUP_LIST).exists()
}

fn failed_at(path: &Path, cause: LogError) -> StartError {
    match cause {
        LogError::Locked { holder } => StartError::Locked { path: path.to_owned(), holder },
        cause => StartError::Store { path: path.to_owned(), cause },
    }
}

/// A store in the directory at `path`, of one shard or one of several.
fn opened(
    path: &Path,
    options: LogOptions,
    entropy: Arc<dyn Entropy>,
    log: Log,
) -> Result<(Arc<LogStore>, OpenReport), StartError> {
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
    let (store, report) = opened.map_err(|cause| failed_at(path, cause))?;
    Ok((Arc::new(store), report))
}

/// Within this time a renewal shows that another node has taken the store.
const VERDICT_MAX: Duration = Duration::from_secs(1);
/// How often a node that waits for its shard says so.
const TELLS_AGAIN: Duration = Duration::from_secs(60);

/// An opening whose database has made it wait for this long says so.
const STUCK_AFTER: Duration = Duration::from_secs(2);

/// What was logged of an opening that has to wait or begins again. The lines are bounded, however often it does.
#[derive(Default)]
pub struct Standing {
    /// What was logged last, and when: whether the database failed.
    told: Option<(bool, Instant)>,
    lines: Lines,
}

impl Standing {
    /// Whether a reason to wait is to be logged, by whether the database fails.
    fn is_news(&mut self, now: Instant, fails: bool) -> bool {
        let is_other =
            |(failed, at): (bool, Instant)| failed != fails || now.duration_since(at) > TELLS_AGAIN;
        let is_news = self.told.is_none_or(is_other) && self.lines.take(now);
        if is_news {
            self.told = Some((fails, now));
        }
        is_news
    }

    /// The store was lost before it was open.
    pub fn lost(&mut self, log: Log, url: &PgUrl, cause: &str) {
        if self.lines.take(Instant::now()) {
            let line = "the store was lost while it was being opened; this node stands by and opens it again";
            log.tell(Level::Warn, line, &[("store", &url.to_string()), ("cause", cause)]);
        }
    }
}

/// The shard that a node without `--peer` serves: the store has no other.
pub const ONLY_SHARD: ShardId = ShardId(0);

/// This run of a node in a store in PostgreSQL.
pub fn this_run(name: &str, entropy: &dyn Entropy) -> Node {
    let id = kew_log_pg::node_id(name, entropy.wide_bits());
    Node { version: Some(env!("CARGO_PKG_VERSION").to_owned()), ..Node::alone(&id, name) }
}

/// What a store in PostgreSQL is made with.
pub fn founding(entropy: &dyn Entropy) -> Founding {
    Founding::usual(PeerSecret::from_chance(entropy.wide_bits(), entropy.wide_bits()))
}

/// What a fleet's store is made with.
pub fn founding_of_fleet(entropy: &dyn Entropy) -> Founding {
    let shards = ShardCount::new(SHARDS_OF_A_FLEET).expect("a fleet's store has a shard");
    Founding { shards, ..founding(entropy) }
}

/// Shards of a fleet's store, where its first node makes it.
const SHARDS_OF_A_FLEET: u16 = 16;

/// The log of the store in PostgreSQL, as soon as no other node owns it. `waits` is called with the reason each time
/// it is found that this node has to wait.
pub fn own_postgres(
    url: &PgUrl,
    node: Option<&str>,
    entropy: &dyn Entropy,
    (log, standing): (Log, &mut Standing),
    ending: &Ending,
    mut waits: impl FnMut(&str),
) -> Result<PgDisk, StartError> {
    let name = node.map_or_else(machine::host_name, ToOwned::to_owned);
    let node = this_run(&name, entropy);
    let shown = url.to_string();
    let owned = kew_log_pg::wait_to_own(&url.0, ONLY_SHARD, (&node, founding(entropy)), ending, |waiting| {
        let is_news = standing.is_news(Instant::now(), matches!(waiting, Waiting::Failing(_)));
        match waiting {
            // The log first: who hears that this node waits finds the line.
            Waiting::For(node) => {
                if is_news {
                    let line = "another node owns the store; this one stands by and takes over when that one is gone";
                    log.tell(Level::Info, line, &[("store", &shown), ("owner", node)]);
                }
                waits(&format!("standing by: node {node} owns the store"));
            }
            Waiting::Failing(cause) => {
                if is_news {
                    let line = "the database cannot be used yet; it is tried again until it can";
                    log.tell(Level::Warn, line, &[("store", &shown), ("cause", &cause.to_string())]);
                }
                waits(&format!("the database cannot be used yet: {cause}"));
            }
        }
    });
    let ready = owned.map_err(|cause| StartError::Postgres { url: url.clone(), cause })?;
    for warning in &ready.warnings {
        log.tell(Level::Warn, warning, &[("store", &shown)]);
    }
    Ok(ready.disk)
}

/// The store on a log in PostgreSQL that this node owns. `waits` is called with the reason again and again while the
/// database makes the opening wait.
pub fn open_postgres(
    disk: &PgDisk,
    url: &PgUrl,
    options: LogOptions,
    entropy: Arc<dyn Entropy>,
    log: Log,
    mut waits: impl FnMut(&str),
) -> Result<Arc<LogStore>, StartError> {
    let (store, shard) = (url.to_string(), disk.shard().to_string());
    let mut logged: Option<Instant> = None;
    let open = || LogStore::open(Arc::new(disk.clone()), options, entropy, Timestamp(disk.tenure().now_ms()));
    let opened = watched(disk, open, |why| {
        if logged.is_none_or(|at| at.elapsed() > TELLS_AGAIN) {
            logged = Some(Instant::now());
            let line = "a shard cannot be opened yet; it is tried until it can";
            log.tell(Level::Warn, line, &[("store", &store), ("shard", &shard), ("cause", why)]);
        }
        waits(why);
    });
    let (store, report) = opened.map_err(|cause| StartError::PostgresStore { url: url.clone(), cause })?;
    tell_opening(log, &report, false, &[]);
    tell_place(log, report.copy_on_write, options.durability);
    Ok(Arc::new(store))
}

/// Opens a store on a thread of its own, and says why it waits while it does for longer than usual.
fn watched<T: Send>(disk: &PgDisk, open: impl FnOnce() -> T + Send, mut waits: impl FnMut(&str)) -> T {
    std::thread::scope(|scope| {
        let (done, is_done) = mpsc::channel();
        scope.spawn(move || drop(done.send(open())));
        loop {
            match is_done.recv_timeout(STUCK_AFTER) {
                Ok(opened) => return opened,
                Err(RecvTimeoutError::Timeout) => {
                    if let Some(why) = disk.why_stuck(STUCK_AFTER) {
                        waits(&why);
                    }
                }
                Err(RecvTimeoutError::Disconnected) => panic!("the thread that opens a store panicked"),
            }
        }
    })
}

/// Whether an opening failed since this node lost the store meanwhile, or since its database could not be used. What a
/// node reads while another one writes may look damaged, and the next renewal says why.
pub fn was_lost(disk: &PgDisk, failed: &StartError) -> bool {
    let StartError::PostgresStore { cause, .. } = failed else { return false };
    let may_pass = matches!(
        cause,
        LogError::NoSpace { .. } | LogError::Io { kind: std::io::ErrorKind::NotConnected, .. }
    );
    let begun = Instant::now();
    loop {
        let tenure = disk.tenure();
        if may_pass || tenure.over().is_some() || !tenure.is_held() {
            return true;
        }
        if begun.elapsed() > VERDICT_MAX {
            return false;
        }
        std::thread::sleep(VERDICT_MAX / 20);
    }
}

/// Begins to look for damage beside requests, if that is wanted; one look at everything takes `pass`.
pub fn scrub(store: &LogStore, path: &Path, pass: Option<Duration>) -> Result<(), StartError> {
    let Some(pass) = pass else { return Ok(()) };
    let pace = ScrubPace { cycle: pass, ..ScrubPace::default() };
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

/// What opening found, as far as an operator should know. `which` says which shard it was, where there are several. A
/// backup of a store in use ends without the mark of a clean end, and that is no warning.
fn tell_opening(log: Log, report: &OpenReport, is_backup: bool, which: &[(&str, &str)]) {
    if report.created {
        log.tell(Level::Info, "a new store was made", which);
    } else if is_backup {
        log.tell(Level::Info, "the store was restored from a backup", which);
    } else if !report.clean {
        let batches = report.batches.to_string();
        let fields = [which, &[("batches", &*batches)]].concat();
        log.tell(Level::Warn, "the last run was cut short; the store was recovered", &fields);
    }
    if let Some(tail) = &report.tail {
        let (offset, bytes) = (tail.offset.to_string(), tail.bytes_dropped.to_string());
        let found: &[(&str, &str)] =
            &[("file", &tail.file), ("offset", &offset), ("bytes", &bytes), ("why", &tail.why)];
        let line = "an incomplete batch was cut off the journal's end; nothing in it was ever acknowledged as durable";
        log.tell(Level::Warn, line, &[which, found].concat());
    }
}

/// What an operator should know of the disk, and of how it is used.
fn tell_place(log: Log, is_copy_on_write: bool, durability: Durability) {
    if is_copy_on_write {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn database_that_flaps_while_a_node_stands_by_is_a_bounded_number_of_lines() {
        let (mut standing, begun) = (Standing::default(), Instant::now());
        let hour = (0..4 * 3_600).filter(|quarter| {
            standing.is_news(begun + Duration::from_millis(quarter * 250), quarter % 2 == 0)
        });
        assert!(hour.count() <= 6 * 60);
        let mut standing = Standing::default();
        let hour = (0..4 * 3_600)
            .filter(|quarter| standing.is_news(begun + Duration::from_millis(quarter * 250), true));
        assert_eq!(hour.count(), 60, "one that is away is a line a minute");
    }
}
