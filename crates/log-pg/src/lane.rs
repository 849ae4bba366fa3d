//! Writes on their way to the database, in order: the journal's batches, and what upkeep writes.
//!
//! A lane has one or more connections. Each sends one statement at a time, and each statement is one row and one
//! transaction; so a later row may be committed before an earlier one, and progress is what is committed without a gap.
//! A row is kept until it is durable: it was committed synchronously, or a synchronous commit was sent after its own
//! had ended.
//!
//! When a connection fails, nobody knows what became of its statement. The lane then stops, waits for its other
//! statements, and mends: on a new connection it inserts every row that is not known durable, skips those that are
//! there, and ends with a synchronous commit, the barrier, because the database may show commits that no standby has.
//! No statement is ever cancelled.

use std::collections::VecDeque;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use bytes::Bytes;
use kew_store_log::AppendListener;
use parking_lot::{Condvar, Mutex};
use tokio::sync::Notify;

use crate::PgError;
use crate::pool::{Connection, Target};
use crate::tables::Table;
use crate::tenure::Tenure;

/// Rows under way at a time are at most as many as the lane has connections.
const CONNECTIONS_MAX: usize = 4;
/// Bytes of rows that are not durable before the next one is committed synchronously, whatever it asks for.
const UNSYNCED_MAX: usize = 1 << 20;
/// Bytes of rows that wait before a writer that may wait does.
const WAITING_MAX: usize = 8 << 20;
/// How long a row may wait to be written before requests are refused: a row is never given up, its clients are.
const WRITTEN_WITHIN: Duration = Duration::from_millis(2_500);
/// The pause before mending is tried again.
const RETRY: Duration = Duration::from_millis(100);

/// One row.
#[derive(Clone)]
pub(crate) struct Row {
    /// Where it goes; a barrier goes nowhere.
    pub table: Option<Arc<Table>>,
    pub pos: u64,
    pub seq: i64,
    pub bytes: Bytes,
    /// The batch it is, if it is one of the journal.
    pub batch: u64,
    pub syncs: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Waits,
    /// Sent at this tick.
    Sent(u64),
    /// Its commit had ended at this tick.
    Written(u64),
    Durable,
}

struct Kept {
    row: Row,
    fate: Fate,
    since: Instant,
}

#[derive(Default)]
struct State {
    rows: VecDeque<Kept>,
    /// The index of the first of them, counted from the lane's beginning.
    first: u64,
    /// The index of the next row to send.
    next: u64,
    under_way: usize,
    /// Counts sends and ends, to order them.
    tick: u64,
    bytes: usize,
    unsynced: usize,
    /// Nothing is sent: a connection failed, or none was made yet.
    is_broken: bool,
    /// Connections that were made after what the database has was looked at, for the tasks that send; and how often
    /// that was.
    connections: Vec<Connection>,
    generation: u64,
    /// What was reported last: batches written and durable.
    reported: (u64, u64),
    written: u64,
    durable: u64,
    /// The last row that is durable: it must be there for as long as this owner lives.
    last_durable: Option<(Arc<Table>, u64, i64)>,
    /// Why a row could not be written, or mending failed; of the last time.
    failed: Option<String>,
}

/// A lane of writes.
pub(crate) struct Lane {
    target: Target,
    tenure: Arc<Tenure>,
    connections: usize,
    state: Mutex<State>,
    /// Work for the connections, or for the mender.
    ready: Notify,
    broken: Notify,
    /// Progress, for those who wait on other threads.
    progress: Condvar,
    /// News for the store, told by a thread of its own.
    news: Mutex<Option<mpsc::Sender<News>>>,
}

/// What the store hears of.
enum News {
    /// Batches written and durable.
    Reached(u64, u64),
    Suspended(Option<String>),
    Lost(String),
}

impl Lane {
    /// A lane with so many connections; its tasks run on `handle`.
    pub fn start(
        handle: &tokio::runtime::Handle,
        target: Target,
        tenure: Arc<Tenure>,
        connections: usize,
    ) -> Arc<Self> {
        let lane = Arc::new(Self {
            target,
            connections: connections.clamp(1, CONNECTIONS_MAX),
            // The first connections are made as all later ones are.
            state: Mutex::new(State { is_broken: tenure.may_change().is_ok(), ..State::default() }),
            ready: Notify::new(),
            broken: Notify::new(),
            progress: Condvar::new(),
            news: Mutex::default(),
            tenure,
        });
        for _ in 0..lane.connections {
            handle.spawn(Arc::clone(&lane).send_rows());
        }
        handle.spawn(Arc::clone(&lane).mend_when_broken());
        lane
    }

    /// Tells `listener` of progress from now on, on a thread of its own: the store may be slow to take it, and the
    /// connections go on meanwhile.
    pub fn report_to(&self, listener: Arc<dyn AppendListener>) {
        let (news, heard) = mpsc::channel();
        let tell = move || {
            while let Ok(mut next) = heard.recv() {
                // Progress that was overtaken need not be told.
                while let News::Reached(..) = next {
                    match heard.try_recv() {
                        Ok(newer @ News::Reached(..)) => next = newer,
                        Ok(other) => {
                            tell_one(&*listener, next);
                            next = other;
                        }
                        Err(_) => break,
                    }
                }
                tell_one(&*listener, next);
            }
        };
        let thread = std::thread::Builder::new().name("kew-answers".into()).spawn(tell);
        thread.expect("the system gives one more thread while the store is opened");
        *self.news.lock() = Some(news);
    }

    fn tell(&self, news: News) {
        if let Some(listener) = &*self.news.lock() {
            // The one who listened may be gone.
            let _told = listener.send(news);
        }
    }

    /// A connection to the database was cut: it may have been failed over. What it has is looked at before anything
    /// else is sent.
    pub fn look_again(&self) {
        self.state.lock().is_broken = true;
        self.broken.notify_one();
    }

    /// Refuses answers that wait, until it is called with `None`.
    pub fn suspend(&self, why: Option<String>) {
        self.tell(News::Suspended(why));
    }

    /// Why no answer is to be expected, if a row waits for too long: the database cannot be written to, or hangs.
    pub fn stuck(&self) -> Option<String> {
        let state = self.state.lock();
        let unwritten = |kept: &&Kept| matches!(kept.fate, Fate::Waits | Fate::Sent(_));
        let waits = state.rows.iter().find(unwritten)?.since.elapsed();
        let why = state.failed.as_deref().unwrap_or("the database does not answer");
        (waits > WRITTEN_WITHIN).then(|| why.to_owned())
    }

    /// Whether a connection is free.
    pub fn takes_more(&self) -> bool {
        let state = self.state.lock();
        !state.is_broken && state.not_ended() < self.connections
    }

    /// Hands a row over.
    pub fn push(&self, mut row: Row) {
        let mut state = self.state.lock();
        state.unsynced += row.bytes.len();
        row.syncs |= state.unsynced > UNSYNCED_MAX && row.batch > 0;
        if row.syncs {
            state.unsynced = 0;
        }
        state.bytes += row.bytes.len();
        state.rows.push_back(Kept { row, fate: Fate::Waits, since: Instant::now() });
        drop(state);
        self.ready.notify_one();
    }

    /// Hands a row over; waits while too much is under way.
    pub fn push_patiently(&self, row: Row) -> Result<(), PgError> {
        {
            let mut state = self.state.lock();
            while state.bytes > WAITING_MAX {
                self.tenure.may_change()?;
                if state.unsent() == 0 && state.under_way == 0 {
                    // All is committed and waits only for a barrier.
                    drop(state);
                    self.push(Row::barrier());
                    state = self.state.lock();
                }
                self.progress.wait_for(&mut state, RETRY);
            }
        }
        self.push(row);
        Ok(())
    }

    /// Waits until every row handed over by now is durable.
    pub fn sync(&self) -> Result<(), PgError> {
        let mut state = self.state.lock();
        let until = state.first + state.rows.len() as u64;
        while state.first < until {
            self.tenure.may_change()?;
            let last_syncs =
                state.rows.back().is_some_and(|kept| kept.row.syncs && kept.fate != Fate::Durable);
            if !last_syncs {
                drop(state);
                self.push(Row::barrier());
                state = self.state.lock();
                continue;
            }
            self.progress.wait_for(&mut state, RETRY);
        }
        Ok(())
    }

    /// The rows of a table that are not known to be there, in order.
    pub fn not_there(&self, table: &Table) -> Vec<(u64, Bytes)> {
        let state = self.state.lock();
        let of_table = state.rows.iter().filter(|kept| {
            matches!(kept.fate, Fate::Waits | Fate::Sent(_))
                && kept.row.table.as_ref().is_some_and(|other| other.id == table.id)
        });
        of_table.map(|kept| (kept.row.pos, kept.row.bytes.clone())).collect()
    }

    async fn send_rows(self: Arc<Self>) {
        let mut connection: Option<(u64, Connection)> = None;
        loop {
            let ready = self.ready.notified();
            if self.tenure.check().is_err() {
                return;
            }
            let Some((index, row)) = self.take_next() else {
                // Looked at again from time to time: the tenure may have ended.
                let _timed_out = tokio::time::timeout(Duration::from_secs(1), ready).await;
                continue;
            };
            let sent = self.send(&mut connection, &row).await;
            self.ended(index, sent);
        }
    }

    fn take_next(&self) -> Option<(u64, Row)> {
        let mut state = self.state.lock();
        if state.is_broken || state.unsent() == 0 {
            return None;
        }
        let index = state.next;
        state.next += 1;
        state.under_way += 1;
        state.tick += 1;
        let tick = state.tick;
        let kept = state.at(index)?;
        kept.fate = Fate::Sent(tick);
        Some((index, kept.row.clone()))
    }

    /// Sends a row on a connection of the newest generation. An older one may lead to a database that was failed over:
    /// what it has is looked at before anything is sent.
    async fn send(&self, slot: &mut Option<(u64, Connection)>, row: &Row) -> Result<u64, PgError> {
        let (generation, mut connection) = {
            let mut state = self.state.lock();
            let generation = state.generation;
            let fresh = slot.take().filter(|(of, _)| *of == generation);
            let fresh = fresh.or_else(|| state.connections.pop().map(|connection| (generation, connection)));
            fresh.ok_or_else(|| PgError::Unreachable("the connection was cut".to_owned()))?
        };
        let rows = send_row(&mut connection, &self.tenure, row, false).await?;
        *slot = Some((generation, connection));
        Ok(rows)
    }

    fn ended(&self, index: u64, sent: Result<u64, PgError>) {
        match sent {
            Ok(1) => {}
            Ok(_) => {
                self.state.lock().under_way -= 1;
                let fenced = PgError::Fenced { shard: self.tenure.shard, epoch: self.tenure.epoch };
                return self.lose(&fenced.to_string());
            }
            Err(error) => {
                let mut state = self.state.lock();
                state.under_way -= 1;
                if !error.may_pass() {
                    drop(state);
                    return self.lose(&error.to_string());
                }
                state.is_broken = true;
                state.failed = Some(error.to_string());
                drop(state);
                self.broken.notify_one();
                return;
            }
        }
        let mut state = self.state.lock();
        state.under_way -= 1;
        state.tick += 1;
        let tick = state.tick;
        let Some(kept) = state.at(index) else { return };
        let syncs_since = match kept.fate {
            Fate::Sent(sent) if kept.row.syncs => Some(sent),
            _ => None,
        };
        kept.fate = if syncs_since.is_some() { Fate::Durable } else { Fate::Written(tick) };
        if let Some(since) = syncs_since {
            for kept in &mut state.rows {
                if matches!(kept.fate, Fate::Written(at) if at < since) {
                    kept.fate = Fate::Durable;
                }
            }
        }
        if state.is_broken && state.under_way == 0 {
            self.broken.notify_one();
        }
        self.report(state);
    }

    /// Lets go what is durable, and tells of progress.
    fn report(&self, mut state: parking_lot::MutexGuard<'_, State>) {
        state.let_durable_go();
        let reached = (state.written, state.durable);
        let is_news = std::mem::replace(&mut state.reported, reached) != reached;
        drop(state);
        self.progress.notify_all();
        // Only an owner answers. One whose tenure has ended hears of it again when it was renewed.
        if is_news && self.tenure.is_held() {
            self.tell(News::Reached(reached.0, reached.1));
        }
    }

    /// Tells the listener again: the tenure was renewed after it had ended.
    pub fn tell_again(&self) {
        let (written, durable) = self.state.lock().reported;
        self.tell(News::Suspended(None));
        self.tell(News::Reached(written, durable));
    }

    /// It is over: the shard has another owner, or the database lost what was durable.
    pub fn lose(&self, why: &str) {
        self.tenure.end(why);
        self.progress.notify_all();
        self.broken.notify_one();
        self.tell(News::Lost(why.to_owned()));
    }

    async fn mend_when_broken(self: Arc<Self>) {
        loop {
            let broken = self.broken.notified();
            if self.tenure.check().is_err() {
                return;
            }
            if !self.is_to_be_mended() {
                let _timed_out = tokio::time::timeout(Duration::from_secs(1), broken).await;
                continue;
            }
            match self.mend().await {
                Ok(()) => {
                    // Those who were free look for rows.
                    for _ in 0..self.connections {
                        self.ready.notify_one();
                    }
                }
                Err(error) if error.may_pass() => {
                    self.state.lock().failed = Some(error.to_string());
                    tokio::time::sleep(RETRY).await;
                }
                Err(error) => return self.lose(&error.to_string()),
            }
        }
    }

    fn is_to_be_mended(&self) -> bool {
        let state = self.state.lock();
        state.is_broken && state.under_way == 0
    }

    /// Brings the database to what was handed over, whatever became of the statements that failed.
    async fn mend(&self) -> Result<(), PgError> {
        let mut connections = Vec::with_capacity(self.connections);
        for _ in 1..self.connections {
            connections.push(Connection::open(&self.target).await?);
        }
        let mut connection = Connection::open(&self.target).await?;
        let (rows, last_durable) = {
            let state = self.state.lock();
            let rows: Vec<Row> = state.rows.iter().map(|kept| kept.row.clone()).collect();
            (rows, state.last_durable.clone())
        };
        if let Some((table, pos, seq)) = last_durable
            && !table.has(&connection.client, pos, self.tenure.epoch, seq).await?
        {
            let text = format!(
                "the database has lost row {pos} of {}, which it had reported durable: it was failed over to a \
                 server that had not received it",
                table.name
            );
            return Err(PgError::Database(text));
        }
        let fenced = || PgError::Fenced { shard: self.tenure.shard, epoch: self.tenure.epoch };
        for row in rows.iter().filter(|row| row.table.is_some()) {
            let inserted = send_row(&mut connection, &self.tenure, row, true).await?;
            let Some(table) = &row.table else { continue };
            if inserted == 0 && !table.has(&connection.client, row.pos, self.tenure.epoch, row.seq).await? {
                return Err(fenced());
            }
        }
        // What is there may be a commit that no standby has: all of it rests on this one.
        if send_row(&mut connection, &self.tenure, &Row::barrier(), false).await? == 0 {
            return Err(fenced());
        }
        let mut state = self.state.lock();
        for kept in state.rows.iter_mut().take(rows.len()) {
            kept.fate = Fate::Durable;
        }
        state.next = state.next.max(state.first + rows.len() as u64);
        state.is_broken = false;
        state.failed = None;
        connections.push(connection);
        state.connections = connections;
        state.generation += 1;
        // Told in any case: what filled meanwhile is to be handed over.
        state.reported = (u64::MAX, u64::MAX);
        self.report(state);
        Ok(())
    }
}

fn tell_one(listener: &dyn AppendListener, news: News) {
    match news {
        News::Reached(written, durable) => listener.reached(written, durable),
        News::Suspended(why) => listener.suspended(why),
        News::Lost(why) => listener.lost(why),
    }
}

impl State {
    fn at(&mut self, index: u64) -> Option<&mut Kept> {
        let place = usize::try_from(index.checked_sub(self.first)?).ok()?;
        self.rows.get_mut(place)
    }

    fn unsent(&self) -> u64 {
        self.first + self.rows.len() as u64 - self.next
    }

    fn not_ended(&self) -> usize {
        self.under_way + usize::try_from(self.unsent()).unwrap_or(usize::MAX)
    }

    fn let_durable_go(&mut self) {
        while self.rows.front().is_some_and(|kept| kept.fate == Fate::Durable) {
            let Some(kept) = self.rows.pop_front() else { return };
            self.first += 1;
            self.bytes -= kept.row.bytes.len();
            if kept.row.batch > 0 {
                self.durable = kept.row.batch;
                self.written = self.written.max(kept.row.batch);
            }
            if let Some(table) = kept.row.table {
                self.last_durable = Some((table, kept.row.pos, kept.row.seq));
            }
        }
        let written = |kept: &&Kept| matches!(kept.fate, Fate::Written(_) | Fate::Durable);
        let newest = self.rows.iter().take_while(written).filter(|kept| kept.row.batch > 0).last();
        if let Some(kept) = newest {
            self.written = self.written.max(kept.row.batch);
        }
    }
}

impl Row {
    pub fn barrier() -> Self {
        Self { table: None, pos: 0, seq: 0, bytes: Bytes::new(), batch: 0, syncs: true }
    }
}

/// Sends one row, or a barrier. Answers 1 when it was committed; 0 when the epoch is over or, where rows that are there
/// are skipped, it is there.
async fn send_row(
    connection: &mut Connection,
    tenure: &Tenure,
    row: &Row,
    skips: bool,
) -> Result<u64, PgError> {
    let syncs = if row.syncs { "on" } else { "off" };
    let Some(table) = &row.table else {
        let barrier = "SELECT set_config('synchronous_commit', 'on', true) FROM kew_shard
            WHERE id = $1 AND epoch = $2 FOR SHARE OF kew_shard";
        let barrier = connection.statement(&Arc::from(barrier)).await?;
        return Ok(connection.client.execute(&barrier, &[&tenure.shard, &tenure.epoch]).await?);
    };
    let text = if skips { &table.insert_if_missing } else { &table.insert };
    let statement = connection.statement(text).await?;
    let pos = i64::try_from(row.pos).unwrap_or(i64::MAX);
    let bytes: &[u8] = &row.bytes;
    Ok(connection
        .client
        .execute(&statement, &[&tenure.shard, &pos, &row.seq, &tenure.epoch, &bytes, &syncs])
        .await?)
}
