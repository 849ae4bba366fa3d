//! Writes on their way to the database, in order: the journal's batches, and what upkeep writes.
//!
//! A lane has one or more sessions. Each sends one statement at a time, and each statement is one row and one
//! transaction; so a later row may be committed before an earlier one, and progress is what is committed without a gap.
//! A row is kept until it is durable: it was committed synchronously, or a synchronous commit was sent after its own
//! had ended.
//!
//! When a session fails, the outcome of its statement is not known. The lane then stops, waits for its other
//! statements, and mends (`mend.rs`). No statement is cancelled, and none counts as done because it takes long. Of a
//! lane that has stopped, one that goes on for [`HANGS_AFTER`] is given up with its connection: its outcome is not
//! known then, which is what mending is for.

mod mend;
mod news;
mod rest;
mod rows;
mod took;
mod trouble;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kew_store_log::AppendListener;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::PgError;
use crate::database::{Asked, Database, IfThere, NO_ANSWER, Placed, Row, Session};
use crate::driver::Driver;
use crate::planted::Planted;
use crate::pool::Pool;
use crate::tables::Table;
use crate::tenure::{TENURE, Tenure};
use news::{News, Passing};
pub(crate) use rest::Kind;
use rows::{Reached, Rows};
use took::Took;
use trouble::Failed;

/// A row this large is sent beside others.
const LARGE_ROW: u64 = 256 << 10;
/// Beside a row that has taken this long, the next is sent whatever its size.
const SLOW_ROW: Duration = Duration::from_millis(20);
/// Bytes of rows that wait before a writer that may wait does.
const WAITING_MAX: usize = 8 << 20;
/// The pause before mending is tried again, and before a thread that waits looks again.
const RETRY: Duration = Duration::from_millis(100);
/// How long a lane that has stopped waits for its statements. One may hang although the server lives: its connection
/// leads to a server that is gone, or it waits for a lock.
const HANGS_AFTER: Duration = TENURE;
/// The pause before a task that has nothing to do looks whether the tenure has ended.
const LOOK_PAUSE: Duration = Duration::from_secs(1);

/// What is said of a connection that outlived the server, as one to a pooler does.
const NOT_WHAT_IT_WAS: &str = "the server was started anew or failed over, and lacks what was written last";

#[derive(Default)]
struct State {
    rows: Rows,
    /// Nothing is sent: a session failed, or none was made yet.
    is_broken: bool,
    /// Since when that is so.
    broken_at: Option<Instant>,
    /// It has no session, since nothing is written. The next row is sent as after a session that failed: in a new one,
    /// when it is known what the database has.
    is_resting: bool,
    /// When a row was handed over last.
    pushed_at: Option<Instant>,
    /// Why the last statement failed, until the lane is mended.
    failed: Option<Failed>,
    /// How often the lane was asked to look at what the database has: once more while it mends means that it mends
    /// again.
    looks_wanted: u64,
    /// The mender works on a copy of the rows.
    is_mending: bool,
    /// Sessions that send nothing just now. All were made after what the database has was looked at: none is left when
    /// the lane breaks off, as it may lead to a server that was failed over.
    sessions: Vec<Box<dyn Session>>,
    /// How often the lane was mended.
    generation: u64,
    /// What was reported last. `None` after a mending: then it is reported in any case, as what filled meanwhile is
    /// to be handed over.
    reported: Option<Reached>,
    /// Why answers that wait are refused, if they are.
    suspended: Option<String>,
    /// Steps that wait for a new file are refused.
    is_without_room: bool,
    took: Took,
}

impl State {
    /// Nothing is sent from now on: [`Lane::break_off`].
    fn break_off(&mut self) {
        self.is_broken = true;
        self.broken_at.get_or_insert_with(Instant::now);
        // Their connections are closed, so that the database has room for those of the mending.
        if !Planted::IdleSessionsKept.is_there() {
            self.sessions.clear();
        }
    }
}

/// A lane of writes.
pub(crate) struct Lane {
    database: Arc<dyn Database>,
    /// Sessions beside the lane's own, for reads and file operations.
    pool: Arc<Pool>,
    tenure: Arc<Tenure>,
    kind: Kind,
    /// Rows under way at a time are at most this many.
    sessions: usize,
    /// Bytes of a row that is sent beside another.
    large_row: u64,
    state: Mutex<State>,
    /// Rings when there is work for the sessions, or for the mender.
    ready: Notify,
    broken: Notify,
    /// Rings when statements that hang are given up.
    gives_up: Notify,
    /// Rings when the lane is asked to look at what the database has.
    looks: Notify,
    /// Rings at every progress.
    progress: Notify,
    news: Passing,
}

impl Lane {
    /// A lane to the database of `pool`; its tasks run on `driver`.
    pub fn start(driver: &Driver, pool: &Arc<Pool>, tenure: Arc<Tenure>, kind: Kind) -> Arc<Self> {
        // The first sessions are made as all later ones are.
        let is_broken = kind == Kind::Journal && tenure.may_change().is_ok();
        let lane = Arc::new(Self {
            database: Arc::clone(pool.database()),
            pool: Arc::clone(pool),
            kind,
            sessions: kind.sessions(),
            large_row: driver.large_row(LARGE_ROW),
            state: Mutex::new(State {
                is_broken,
                is_resting: kind == Kind::Bulk,
                broken_at: is_broken.then(Instant::now),
                reported: Some(Reached::default()),
                ..State::default()
            }),
            ready: Notify::new(),
            broken: Notify::new(),
            gives_up: Notify::new(),
            looks: Notify::new(),
            progress: Notify::new(),
            news: Passing::default(),
            tenure,
        });
        for _ in 0..lane.sessions {
            driver.spawn(Arc::clone(&lane).send_rows());
        }
        driver.spawn(Arc::clone(&lane).mend_when_broken());
        lane
    }

    /// Reports progress to `listener` from now on.
    pub fn report_to(&self, driver: &Driver, listener: Arc<dyn AppendListener>) -> io::Result<()> {
        self.news.begin(driver, Arc::clone(&self.tenure), listener)
    }

    /// Nothing is sent from now on. Idle connections of reads and file operations may lead to a server that was failed
    /// over as well.
    fn break_off(&self, state: &mut State) {
        state.break_off();
        if !(Planted::PoolSessionsKept.is_there() || Planted::IdleSessionsKept.is_there()) {
            self.pool.close_idle();
        }
    }

    /// A connection to the database was cut: it may have been failed over. What it has is looked at before anything
    /// else is sent.
    pub fn look_again(&self) {
        {
            let mut state = self.state.lock();
            self.break_off(&mut state);
            state.looks_wanted += 1;
        }
        self.looks.notify_waiters();
        self.broken.notify_one();
    }

    /// Whether a row of this many bytes may be handed over. Beside one that is under way it has to be large, or that
    /// one slow: each statement costs the database much the same, however many requests share it.
    pub fn takes_more(&self, bytes: u64) -> bool {
        let state = self.state.lock();
        let under_way = state.rows.not_ended();
        let is_worth_it = || bytes >= self.large_row || state.rows.longest_statement() >= SLOW_ROW;
        !state.is_broken && (under_way == 0 || (under_way < self.sessions && is_worth_it()))
    }

    /// How long ago a row was handed over last, or one that only makes others durable.
    pub fn since_newest(&self) -> Option<Duration> {
        self.state.lock().pushed_at.map(|pushed| pushed.elapsed())
    }

    /// Whether every row has ended, and more are taken.
    pub fn is_quiet(&self) -> bool {
        let state = self.state.lock();
        !state.is_broken && state.rows.not_ended() == 0
    }

    /// Hands a row over.
    pub fn push(&self, row: Row) {
        let was_resting = {
            let mut state = self.state.lock();
            state.rows.push(row);
            state.pushed_at = Some(Instant::now());
            let was_resting = std::mem::take(&mut state.is_resting);
            if was_resting {
                state.break_off();
            }
            was_resting
        };
        if was_resting {
            self.broken.notify_one();
        }
        self.ready.notify_one();
    }

    /// Its tasks end: the tenure is over or closed.
    pub fn close(&self) {
        self.progress.notify_waiters();
        self.broken.notify_one();
        for _ in 0..self.sessions {
            self.ready.notify_one();
        }
    }

    /// Whether a writer that may wait has to.
    pub fn is_full(&self) -> bool {
        self.state.lock().rows.bytes() > WAITING_MAX
    }

    /// Waits until less is on its way.
    pub async fn wait_for_room(self: Arc<Self>) -> Result<(), PgError> {
        loop {
            let progress = self.progress.notified();
            self.tenure.may_change()?;
            if !self.is_full() {
                return Ok(());
            }
            // All may be committed, and wait only for a synchronous commit.
            let is_idle = self.state.lock().rows.not_ended() == 0;
            if is_idle {
                self.push(Row::barrier());
            }
            let _timed_out = tokio::time::timeout(RETRY, progress).await;
        }
    }

    /// Waits until every row handed over by now is durable.
    pub async fn sync(self: Arc<Self>) -> Result<(), PgError> {
        let end = self.state.lock().rows.end();
        loop {
            let progress = self.progress.notified();
            self.tenure.may_change()?;
            let (is_done, wants_barrier) = {
                let state = self.state.lock();
                // A lane that is broken takes no batch: a store that asks again and again would never rest.
                (!state.is_broken && state.rows.are_durable_to(end), state.rows.want_a_barrier(end))
            };
            if is_done {
                return Ok(());
            }
            if wants_barrier {
                self.push(Row::barrier());
            }
            let _timed_out = tokio::time::timeout(RETRY, progress).await;
        }
    }

    /// The rows of a table that are not known to be there, in order.
    pub fn not_there(&self, table: &Table) -> Vec<(u64, Bytes)> {
        self.state.lock().rows.not_there(table)
    }

    /// Forgets the rows of a table that begin at or behind a position: they are about to go. False while a statement is
    /// under way that needs one of them, or may be.
    pub fn forget(&self, table: i64, from: u64) -> bool {
        let mut state = self.state.lock();
        (!state.is_mending || Planted::ForgetsWhileMending.is_there()) && state.rows.forget(table, from)
    }

    /// The same, when no statement needs one of them any more.
    pub async fn forget_in_time(self: Arc<Self>, table: i64, from: u64) -> Result<(), PgError> {
        loop {
            let progress = self.progress.notified();
            self.tenure.may_change()?;
            if self.forget(table, from) {
                return Ok(());
            }
            let _timed_out = tokio::time::timeout(RETRY, progress).await;
        }
    }

    async fn send_rows(self: Arc<Self>) {
        loop {
            let ready = self.ready.notified();
            if self.tenure.check().is_err() {
                return;
            }
            let Some((index, row, rests_on)) = self.take_next() else {
                let _timed_out = tokio::time::timeout(LOOK_PAUSE, ready).await;
                continue;
            };
            let sent = self.send(&row, &rests_on).await;
            self.ended(index, sent);
        }
    }

    fn take_next(&self) -> Option<(u64, Row, Vec<Placed>)> {
        let mut state = self.state.lock();
        if state.is_broken {
            return None;
        }
        let next = state.rows.take_next();
        if Planted::AnswerBeforeFrame.is_there() {
            self.report(state);
        }
        next
    }

    /// Sends a row in a free session. There is one for each task that sends, unless the lane was broken off meanwhile.
    async fn send(&self, row: &Row, rests_on: &[Placed]) -> Result<u64, PgError> {
        let (generation, mut session) = {
            let mut state = self.state.lock();
            let session = state.sessions.pop();
            (
                state.generation,
                session.ok_or_else(|| PgError::Unreachable("the connection was cut".to_owned()))?,
            )
        };
        let sent = session.insert(self.tenure.own(), row, rests_on, IfThere::Fail);
        let sent = self.unless_it_hangs(sent);
        let rows = if Planted::AppendTimesOut.is_there() {
            match tokio::time::timeout(RETRY, sent).await {
                Ok(sent) => sent?,
                Err(_cancelled) => return Ok(1),
            }
        } else {
            sent.await?
        };
        if rows == 0 && !rests_on.is_empty() {
            let barrier = session.barrier(self.tenure.own());
            return match self.unless_it_hangs(barrier).await? {
                // The epoch is over.
                0 => Ok(0),
                _ => Err(PgError::Unreachable(NOT_WHAT_IT_WAS.to_owned())),
            };
        }
        let mut state = self.state.lock();
        if state.generation == generation && !state.is_broken {
            state.sessions.push(session);
        }
        Ok(rows)
    }

    /// Waits for a statement, until the lane has given up those that hang.
    async fn unless_it_hangs(&self, sent: Asked<'_, u64>) -> Result<u64, PgError> {
        tokio::select! {
            biased;
            sent = sent => sent,
            () = self.gives_up.notified() => Err(PgError::Unreachable(NO_ANSWER.to_owned())),
        }
    }

    fn ended(&self, index: u64, sent: Result<u64, PgError>) {
        let mut state = self.state.lock();
        match sent {
            Ok(1) => {}
            Ok(_) => {
                state.rows.failed();
                drop(state);
                return self.lose(&self.tenure.fenced().to_string());
            }
            Err(error) => {
                state.rows.failed();
                self.break_off(&mut state);
                state.note_failure(&error);
                drop(state);
                if !error.may_pass() {
                    return self.lose(&error.to_string());
                }
                return self.broken.notify_one();
            }
        }
        if let Some(took) = state.rows.has_taken(index) {
            state.took.note(took);
        }
        state.rows.ended(index);
        if state.is_broken && state.rows.is_quiet() {
            self.broken.notify_one();
        }
        // While nothing else is under way no other commit would cover what is only written.
        // Before the listener hears of it: a row that it hands over is then not in front of the barrier.
        if state.rows.not_ended() == 0 && state.rows.waits_for_a_sync() {
            state.rows.push(Row::barrier());
            self.ready.notify_one();
        }
        // Also without progress: what filled while this row was under way may be handed over now.
        if !Planted::NoNewsOfAnEnd.is_there() {
            state.reported = None;
        }
        self.report(state);
    }

    /// Reports progress, if there is any.
    fn report(&self, mut state: MutexGuard<'_, State>) {
        self.progress.notify_waiters();
        let reached = state.rows.reached();
        // Only an owner answers. One whose tenure has ended reports it when it was renewed.
        let may_answer = self.tenure.is_held() || Planted::ProgressAfterTenure.is_there();
        if !may_answer && Planted::ProgressForgotten.is_there() {
            state.reported = Some(reached);
        }
        if may_answer && state.suspended.is_none() && state.reported != Some(reached) {
            state.reported = Some(reached);
            self.news.pass(News::Reached(reached.written, reached.durable));
        }
    }

    /// Refuses answers that wait, until [`Self::go_on`].
    pub fn suspend(&self, why: &str) {
        let mut state = self.state.lock();
        if state.suspended.replace(why.to_owned()).is_none() {
            self.news.pass(News::Suspended(Some(why.to_owned())));
        }
    }

    /// The tenure was renewed: reports what was not reported, because the tenure had ended meanwhile or the lane was
    /// suspended.
    pub fn go_on(&self) {
        let mut state = self.state.lock();
        if state.suspended.take().is_some() {
            state.reported = None;
            self.news.pass(News::Suspended(None));
        }
        if self.news.take_held_back() {
            state.reported = None;
        }
        self.report(state);
    }

    /// How long the latest rows took to be committed, in no order.
    pub fn latest_took(&self) -> Vec<Duration> {
        self.state.lock().took.latest()
    }

    /// How long the oldest row that is not committed has waited.
    pub fn oldest_waits(&self) -> Duration {
        self.state.lock().rows.oldest_waits()
    }

    /// It is over: the shard has another owner, or the database lost what was durable.
    pub fn lose(&self, why: &str) {
        self.tenure.end(why);
        self.progress.notify_waiters();
        self.broken.notify_one();
        self.news.pass(News::Lost(why.to_owned()));
    }
}
