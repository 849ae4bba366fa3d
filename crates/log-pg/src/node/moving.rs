//! A shard moves from one database of its store to another while it is served.
//!
//! Its owner copies the files while it serves them, and again what was written meanwhile. Then it closes the store and
//! copies the rest. One statement where the shard lay decides that it has left; a second one where it arrives lets a
//! node take it. Between the two it lies nowhere, and any node does the second one (`arrivals.rs`). An owner that dies
//! before the first leaves a shard that lies where it lay, and files beside it that somebody drops.
//!
//! What was copied counts only if it is whole. So each attempt begins with nothing, under an epoch of its own where the
//! shard arrives, and every row of it is committed synchronously.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use kew_core::ShardId;

use super::files::{PgDisk, Shared, purpose};
use super::{Home, PgNode, TAKE_MAX};
use crate::PgError;
use crate::database::{NO_ANSWER, within};
use crate::driver::Driver;
use crate::map::shard_id;
use crate::postgres::{Arrival, Connection, FileRow, Key};
use crate::tables::{Purpose, Table};

/// Keys that are compared at a time.
const KEYS: i64 = 4_096;
/// Bytes, and rows, that are copied at a time; a row may be larger.
const PIECE_BYTES: i64 = 4 << 20;
const PIECE_ROWS: usize = 1_000;
/// Rounds of copying, at most, while the shard is served.
const ROUNDS: usize = 8;
/// Rows of a round that are few: what is written meanwhile is copied in a moment.
const FEW: u64 = 500;
/// Rows that are still copied in good time while the shard is not served.
const MANY: u64 = 10_000;
/// How often it is looked whether a move is still wanted.
const LOOKS_EVERY: Duration = Duration::from_millis(500);
/// How long it may take to copy the rest, while the shard is not served. It is kept where it is after that.
const REST_MAX: Duration = Duration::from_secs(30);
/// Without an answer for this long, and at most twice as long, it is kept where it is too.
const SILENCE_MAX: Duration = Duration::from_secs(5);
/// How long dropping what was copied may take.
const DROPS_WITHIN: Duration = Duration::from_secs(30);
/// How often a step is tried whose outcome is not known.
const TRIES: usize = 5;
/// The pause between two of them.
const TRIES_AGAIN: Duration = Duration::from_millis(200);

/// Whether a move is still wanted.
pub type IsWanted = Arc<dyn Fn() -> bool + Send + Sync>;

/// A shard that is moved to another database of its store.
pub struct PgMove {
    copying: Arc<tokio::sync::Mutex<Copying>>,
    disk: Arc<Shared>,
    to: Arc<Home>,
    arrival: Arrival,
    is_wanted: IsWanted,
    /// By which the disk knows it.
    number: u64,
    /// The shard may have left: what was copied is not dropped any more.
    may_have_left: bool,
    /// Beside the threads that serve shards.
    driver: Driver,
}

/// Two sessions, and what was copied over them.
struct Copying {
    from: Connection,
    to: Connection,
    arrival: Arrival,
    shard: i32,
    number: u64,
    /// Large files that were copied, each with the last row that the round before the last one saw of it, and the last.
    copied: BTreeMap<i64, [Key; 2]>,
    /// Rows that were copied in this round.
    rows: u64,
    /// Answers of either database to what takes long.
    answers: Arc<AtomicU64>,
    /// `None` once the shard is not served any more: then nothing else is waited for.
    is_wanted: Option<IsWanted>,
}

impl PgNode {
    /// Begins to move a shard that this node owns to another database, by its number. Its files are copied before the
    /// answer, which may take long, and written to meanwhile. [`PgMove::copy_again`] copies what was written.
    pub fn begin_move(&self, disk: &PgDisk, database: u16, is_wanted: IsWanted) -> Result<PgMove, PgError> {
        let shard = disk.shard();
        let cannot = |why: &str| PgError::CannotMove { shard, database, why: why.to_owned() };
        let there = self.homes.get(usize::from(database)).ok_or_else(|| cannot("the store has fewer"))?;
        let (disk, to) = (Arc::clone(disk.shared()), Arc::clone(there));
        if disk.home.place == to.place {
            return Err(cannot("it lies there"));
        }
        let driver = Driver::start()?;
        let number = disk.written.begin();
        let (shared, there) = (Arc::clone(&disk), Arc::clone(&to));
        let begun = driver.wait(within(TAKE_MAX, async move { begin(&shared, &there).await }));
        let (from, connection, arrival) = begun.unwrap_or(Err(PgError::Closed)).inspect_err(|_error| {
            disk.written.end(number);
        })?;
        let copying = Copying {
            from,
            to: connection,
            arrival,
            shard: disk.tenure.shard,
            number,
            copied: BTreeMap::new(),
            rows: 0,
            answers: Arc::default(),
            is_wanted: Some(Arc::clone(&is_wanted)),
        };
        let copying = Arc::new(tokio::sync::Mutex::new(copying));
        let may_have_left = false;
        let mut moving = PgMove { copying, disk, to, arrival, is_wanted, number, may_have_left, driver };
        if let Err(error) = moving.copy_again() {
            moving.give_up();
            return Err(error);
        }
        Ok(moving)
    }

    /// Notes in which database an operator wants a shard to be, by its number. Whichever node owns the shard moves it.
    pub async fn want_in(&self, shard: ShardId, database: u16) -> Result<(), PgError> {
        let cannot = |why: &str| PgError::CannotMove { shard, database, why: why.to_owned() };
        if self.homes.get(usize::from(database)).is_none() {
            return Err(cannot("the store has fewer"));
        }
        let home = Arc::clone(self.home_of(shard));
        let number = home.number(shard)?;
        let wanted = (home.place.number != database).then_some(database);
        let place = home.place;
        let noted = Arc::clone(&home).driver.run(within(TAKE_MAX, async move {
            let several = home.several.as_ref().ok_or(PgError::Closed)?;
            several.open().await?.want_in(number, wanted).await
        }));
        let noted = noted.await.unwrap_or(Err(PgError::Closed)).map_err(|error| error.of(place))?;
        self.home_of(shard).renews_soon.notify_one();
        if noted { Ok(()) } else { Err(PgError::Elsewhere { shard }) }
    }
}

/// Waits until a move is not wanted any more.
async fn is_unwanted(is_wanted: IsWanted) {
    while is_wanted() {
        tokio::time::sleep(LOOKS_EVERY).await;
    }
}

async fn begin(disk: &Shared, to: &Home) -> Result<(Connection, Connection, Arrival), PgError> {
    let (own, node) = (disk.tenure.own(), &disk.home.node.id);
    let several = |home: &Home| home.several.clone().ok_or(PgError::Closed);
    let mut from = several(&disk.home)?.open().await?;
    let mut there = several(to)?.open().await?;
    let moves = from.moves_of(own, node).await?;
    from.refuse_programs_without_moves(own).await?;
    let arrival = there.begin_arrival(own, moves + 1).await?;
    while !there.drop_arrived(arrival).await? {}
    Ok((from, there, arrival))
}

impl PgMove {
    /// Which shard it is.
    pub fn shard(&self) -> ShardId {
        shard_id(self.arrival.shard)
    }

    /// Copies what was written since the last time, again and again until that is little. The shard is served.
    pub fn copy_again(&mut self) -> Result<(), PgError> {
        let (copying, disk) = (Arc::clone(&self.copying), Arc::clone(&self.disk));
        let (shard, database) = (self.shard(), self.to.place.number);
        let copied = async move {
            let mut copying = copying.lock().await;
            for _ in 0..ROUNDS {
                copying.round(&disk).await?;
                if copying.rows <= FEW {
                    return Ok(());
                }
            }
            if copying.rows <= MANY {
                return Ok(());
            }
            let why = "it is written to faster than it can be copied".to_owned();
            Err(PgError::CannotMove { shard, database, why })
        };
        let is_wanted = Arc::clone(&self.is_wanted);
        let copied = self.driver.wait(async move {
            tokio::select! {
                biased;
                // A statement that waits for a server is left with its connection.
                () = is_unwanted(is_wanted) => Err(PgError::Stays { shard }),
                copied = copied => copied,
            }
        });
        copied.unwrap_or(Err(PgError::Closed))
    }

    /// Copies the rest of a shard whose store was closed, and lets it lie in the other database from then on, where it
    /// is kept for this node for a moment. If that fails the shard is to be given up, and then this move.
    pub fn finish(&mut self) -> Result<(), PgError> {
        let (copying, disk) = (Arc::clone(&self.copying), Arc::clone(&self.disk));
        let copied = self.driver.wait(async move {
            let mut copying = copying.lock().await;
            copying.is_wanted = None;
            let answers = Arc::clone(&copying.answers);
            let copied = within(REST_MAX, async {
                copying.round(&disk).await?;
                let files = copying.from.files_with_names(copying.shard).await?;
                let arrival = copying.arrival;
                copying.to.name_files(arrival, files).await
            });
            tokio::select! {
                biased;
                copied = copied => copied,
                () = silence(&answers) => Err(PgError::Unreachable(NO_ANSWER.to_owned())),
            }
        });
        copied.unwrap_or(Err(PgError::Closed))?;
        self.may_have_left = true;
        let _in_hand =
            self.disk.home.close_in_hand(&self.disk, "this node moves its shard to another database");
        let (disk, to, arrival) = (Arc::clone(&self.disk), Arc::clone(&self.to), self.arrival);
        let ended = self.driver.wait(async move {
            decide(&disk, (to.place.number, arrival.epoch)).await?;
            arrive(&to, arrival, &disk.home.node.id).await
        });
        for home in [&self.disk.home, &self.to] {
            home.renews_soon.notify_one();
        }
        ended.unwrap_or(Err(PgError::Closed))
    }

    /// Leaves the shard where it is. What was copied is dropped, as far as that is possible now.
    pub fn give_up(self) {
        self.disk.written.end(self.number);
        if self.may_have_left {
            return;
        }
        let (to, arrival) = (Arc::clone(&self.to), self.arrival);
        // What is left is dropped by the next attempt, or when the shard has another owner.
        let _dropped = self.driver.wait(within(DROPS_WITHIN, async move {
            let several = to.several.clone().ok_or(PgError::Closed)?;
            let mut connection = several.open().await?;
            while !connection.drop_arrived(arrival).await? {}
            Ok(())
        }));
    }
}

/// Waits until nothing was answered for a while.
async fn silence(answers: &AtomicU64) {
    let mut before = answers.load(Ordering::Relaxed);
    loop {
        tokio::time::sleep(SILENCE_MAX).await;
        let now = answers.load(Ordering::Relaxed);
        if std::mem::replace(&mut before, now) == now {
            return;
        }
    }
}

/// Lets the shard leave the database that it lay in.
async fn decide(disk: &Shared, to: (u16, i64)) -> Result<(), PgError> {
    let (own, home) = (disk.tenure.own(), &disk.home);
    let (mut tries, mut refused) = (0, 0);
    loop {
        tries += 1;
        let decided = within(TAKE_MAX, async {
            let several = home.several.as_ref().ok_or(PgError::Closed)?;
            several.open().await?.decide(own, &home.node.id, to).await
        });
        match decided.await {
            Ok(true) => return Ok(()),
            // A try that waited for an earlier one does not see what that one did.
            Ok(false) if refused == 0 => refused += 1,
            Ok(false) => return Err(PgError::Stays { shard: shard_id(own.shard) }),
            // It may have happened: done twice is done once.
            Err(error) if error.may_pass() && tries < TRIES => tokio::time::sleep(TRIES_AGAIN).await,
            Err(error) => return Err(error),
        }
    }
}

/// Lets a shard that has left another database lie in this one.
pub(super) async fn arrive(to: &Home, arrival: Arrival, keep_for: &str) -> Result<(), PgError> {
    let arrived = within(TAKE_MAX, async {
        let several = to.several.as_ref().ok_or(PgError::Closed)?;
        several.open().await?.arrive(arrival, keep_for).await
    });
    arrived.await.map_err(|error| error.of(to.place))
}

impl Copying {
    /// Copies what was written up to now.
    async fn round(&mut self, disk: &Shared) -> Result<(), PgError> {
        self.rows = 0;
        let over = || PgError::Fenced { shard: self.shard, epoch: self.arrival.epoch };
        let written = disk.written.take(self.number).ok_or_else(over)?;
        for lane in [&disk.journal, &disk.bulk] {
            Arc::clone(lane).sync().await?;
        }
        for file in self.from.files_with_names(self.shard).await? {
            let FileRow { id, name, .. } = file;
            let Some(purpose) = purpose(&name) else { continue };
            if written.contains(&id) || !self.copied.contains_key(&id) {
                self.copy(&Table::new(id, purpose), purpose).await?;
            }
        }
        Ok(())
    }

    /// Makes a large file equal to what it is where the shard lies.
    async fn copy(&mut self, table: &Table, purpose: Purpose) -> Result<(), PgError> {
        let seen = self.copied.get(&table.id).copied();
        if seen.is_none() {
            self.to.make_table(self.arrival, table).await?;
        }
        let [before_last, last] = seen.unwrap_or([Key::FIRST; 2]);
        // Rows of the journal are handed over in the order of their positions. So those up to the last one that was
        // seen two rounds ago were all there in the round after that.
        let mut after = if purpose == Purpose::Journal { before_last } else { Key::FIRST };
        let mut newest = last;
        loop {
            let Some(page) = self.from.keys(table, after, KEYS).await? else { return Ok(()) };
            self.answered();
            let Some(last) = page.last().map(|(key, _)| *key) else { break };
            // What is appended meanwhile is left to the next round: else this one might never end.
            let is_end = page.len() < KEYS as usize;
            let there = self.keys_there(table, after, Some(last)).await?;
            let mut missing: Vec<(Key, i32)> = Vec::new();
            let mut extra = there.clone();
            for (key, bytes) in page {
                if !extra.remove(&key) {
                    missing.push((key, bytes));
                }
            }
            self.delete(table, extra).await?;
            self.copy_rows(table, &missing).await?;
            after = last;
            newest = newest.max(last);
            if is_end {
                break;
            }
        }
        let extra = self.keys_there(table, after, None).await?;
        self.delete(table, extra).await?;
        self.copied.insert(table.id, [last, newest]);
        Ok(())
    }

    fn answered(&self) {
        self.answers.fetch_add(1, Ordering::Relaxed);
    }

    /// The keys of rows that were copied, behind one and up to another.
    async fn keys_there(
        &self,
        table: &Table,
        after: Key,
        last: Option<Key>,
    ) -> Result<BTreeSet<Key>, PgError> {
        let (mut there, mut after) = (BTreeSet::new(), after);
        loop {
            let page = self.to.keys(table, after, KEYS).await?;
            self.answered();
            let page =
                page.ok_or(PgError::Fenced { shard: self.arrival.shard, epoch: self.arrival.epoch })?;
            let Some((next, _)) = page.last().copied() else { return Ok(there) };
            let within =
                page.into_iter().map(|(key, _)| key).filter(|key| last.is_none_or(|last| *key <= last));
            there.extend(within);
            if last.is_some_and(|last| next >= last) {
                return Ok(there);
            }
            after = next;
        }
    }

    async fn delete(&mut self, table: &Table, keys: BTreeSet<Key>) -> Result<(), PgError> {
        if keys.is_empty() {
            return Ok(());
        }
        self.to.put_rows(self.arrival, table, Vec::new(), keys.into_iter().collect()).await
    }

    async fn copy_rows(&mut self, table: &Table, mut missing: &[(Key, i32)]) -> Result<(), PgError> {
        while !missing.is_empty() {
            let begun = Instant::now();
            let (mut bytes, mut count) = (0, 0);
            for (_, length) in missing.iter().take(PIECE_ROWS) {
                bytes += i64::from(*length);
                if count > 0 && bytes > PIECE_BYTES {
                    break;
                }
                count += 1;
            }
            let (piece, rest) = missing.split_at(count);
            missing = rest;
            let keys: Vec<Key> = piece.iter().map(|(key, _)| *key).collect();
            let Some(rows) = self.from.rows(table, &keys).await? else { return Ok(()) };
            self.answered();
            self.rows += rows.len() as u64;
            self.to.put_rows(self.arrival, table, rows, Vec::new()).await?;
            self.answered();
            self.let_others_work(begun.elapsed()).await?;
        }
        Ok(())
    }

    /// Both databases serve other shards: while this one is served too, copying takes half of the time at most.
    async fn let_others_work(&self, worked: Duration) -> Result<(), PgError> {
        let Some(is_wanted) = &self.is_wanted else { return Ok(()) };
        // Looked at also here: a round may be over before it is looked again.
        if !is_wanted() {
            return Err(PgError::Stays { shard: shard_id(self.shard) });
        }
        tokio::time::sleep(worked).await;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn databases_that_answer_now_and_then_are_not_silent() {
        let answers = Arc::new(AtomicU64::new(0));
        let silent = tokio::spawn({
            let answers = Arc::clone(&answers);
            async move { silence(&answers).await }
        });
        let begun = tokio::time::Instant::now();
        for _ in 0..20 {
            tokio::time::sleep(SILENCE_MAX - Duration::from_millis(1)).await;
            answers.fetch_add(1, Ordering::Relaxed);
        }
        assert!(!silent.is_finished());
        let last = begun.elapsed();
        silent.await.expect("nothing panics");
        let passed = begun.elapsed() - last;
        assert!((SILENCE_MAX..=2 * SILENCE_MAX).contains(&passed), "{passed:?}");
    }
}
