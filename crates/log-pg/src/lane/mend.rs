//! What follows a session that failed: the database is brought to what was handed over, whatever became of the
//! statements that failed.
//!
//! In new sessions the lane looks whether the last durable rows are still there, and which rows are there of those not
//! known to be durable. It inserts the missing ones, and makes a synchronous commit, the barrier, because the database
//! may show commits that no standby has. Then all of them must be there. Where a statement of this fails it begins
//! anew, and finds what it inserted before, unless the server lost that.
//!
//! With a synchronous standby the last durable row is always there: the barrier made it so. Without one a fail-over may
//! have lost it. What is appended behind such a gap would be acknowledged and then not be found by the next opening, so
//! the node gives its shard up instead.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{HANGS_AFTER, LOOK_PAUSE, Lane, NOT_WHAT_IT_WAS, RETRY};
use crate::PgError;
use crate::database::{Asked, IfThere, Placed, Row, RowKey, Session};
use crate::planted::Planted;
use crate::tables::Table;

/// How long a statement of the mending may take before it is made again on another connection, which may be quicker:
/// the first time. Where it is not, the statement needs longer, as a large row does on a slow network: each time that
/// one was given up the next may take twice as long, until the lane is mended.
const ANSWER_FIRST: Duration = Duration::from_secs(10);
/// The longest that a statement of the mending may take.
const ANSWER_LAST: Duration = Duration::from_secs(3_600);

/// Rows that one statement asks for, at most.
const ASKED_MAX: usize = 1_000;

/// What a lane that is looked after needs.
enum ToDo {
    /// Nothing for so long.
    Wait(Duration),
    /// Its statements hang.
    GiveUp,
    Mend,
}

/// How long statements of a mending may take.
struct Pace {
    limit: Duration,
    /// The limit at which a statement was last cut short.
    cut_short: Option<Duration>,
}

impl Pace {
    const FIRST: Self = Self { limit: ANSWER_FIRST, cut_short: None };

    /// Whether a statement may be cut short: its limit has grown, and none was cut short since then. So a row that
    /// needs long gets its time, however often a connection beside it is cut.
    fn may_cut_short(&self) -> bool {
        self.limit > ANSWER_FIRST && self.cut_short != Some(self.limit) && !Planted::MendingGoesOn.is_there()
    }

    /// One that was given up gives the next one more time.
    fn gave_up(&mut self) -> PgError {
        let given = self.limit;
        self.limit = (2 * given).min(ANSWER_LAST);
        let text = format!("the database did not answer within {given:?}; it has {:?} now", self.limit);
        PgError::Unreachable(text)
    }
}

/// One mending: how long its statements may take, and what it begins with.
struct Mending<'a> {
    lane: &'a Lane,
    pace: &'a mut Pace,
    /// How often the lane had been asked to look when this began.
    looks_wanted: u64,
}

impl Mending<'_> {
    /// Waits for a statement that may hang. Where its limit has grown it is given up when the lane is asked to look
    /// again: its connection may lead to a server that was failed over.
    async fn in_time<T>(&mut self, asked: Asked<'_, T>) -> Result<T, PgError> {
        let may_cut_short = self.pace.may_cut_short();
        tokio::select! {
            biased;
            answered = tokio::time::timeout(self.pace.limit, asked) => {
                answered.unwrap_or_else(|_elapsed| Err(self.pace.gave_up()))
            }
            () = self.lane.asked_again(self.looks_wanted), if may_cut_short => {
                self.pace.cut_short = Some(self.pace.limit);
                Err(PgError::Unreachable("another connection was cut, so a new one is made".to_owned()))
            }
        }
    }
}

impl Lane {
    pub(super) async fn mend_when_broken(self: Arc<Self>) {
        let mut pace = Pace::FIRST;
        loop {
            let broken = self.broken.notified();
            if self.tenure.check().is_err() {
                return;
            }
            match self.what_is_to_do() {
                ToDo::Mend => {}
                ToDo::Wait(pause) => {
                    self.rest();
                    let _timed_out = tokio::time::timeout(pause, broken).await;
                    continue;
                }
                ToDo::GiveUp => {
                    self.gives_up.notify_waiters();
                    // Those who gave up ring when they have said so.
                    let _timed_out = tokio::time::timeout(RETRY, broken).await;
                    continue;
                }
            }
            self.state.lock().is_mending = true;
            let mended = self.mend(&mut pace).await;
            self.state.lock().is_mending = false;
            match mended {
                Ok(()) => {
                    pace = Pace::FIRST;
                    // Those that are free look for rows.
                    for _ in 0..self.sessions {
                        self.ready.notify_one();
                    }
                }
                Err(error) if error.may_pass() => {
                    self.state.lock().note_failure(&error);
                    tokio::time::sleep(RETRY).await;
                }
                Err(error) => return self.lose(&error.to_string()),
            }
        }
    }

    /// Waits until the lane is asked to look once more than this.
    async fn asked_again(&self, looks_wanted: u64) {
        loop {
            let looks = self.looks.notified();
            if self.state.lock().looks_wanted != looks_wanted {
                return;
            }
            looks.await;
        }
    }

    fn what_is_to_do(&self) -> ToDo {
        let state = self.state.lock();
        let Some(since) = state.broken_at.filter(|_| state.is_broken) else { return ToDo::Wait(LOOK_PAUSE) };
        match HANGS_AFTER.checked_sub(since.elapsed()) {
            _ if state.rows.is_quiet() => ToDo::Mend,
            Some(left) if !left.is_zero() => ToDo::Wait(left),
            _ => ToDo::GiveUp,
        }
    }

    async fn mend(&self, pace: &mut Pace) -> Result<(), PgError> {
        let looks_wanted = self.state.lock().looks_wanted;
        let mut mending = Mending { lane: self, pace, looks_wanted };
        let mut sessions = Vec::with_capacity(self.sessions);
        for _ in 0..self.sessions {
            sessions.push(mending.in_time(self.database.connect()).await?);
        }
        let Some(session) = sessions.first_mut() else { return Ok(()) };
        let (rows, last_durable) = {
            let state = self.state.lock();
            (state.rows.all(), state.rows.last_durable())
        };
        let own = self.tenure.own();
        self.must_have(&mut mending, &mut **session, &last_durable).await?;
        let placed = || rows.iter().filter_map(Row::placed);
        let was_there = self.those_there(&mut mending, &mut **session, placed()).await?;
        self.state.lock().rows.lack(|row| was_there.contains(&(row.table.id, row.key)));
        for row in &rows {
            self.insert_missing(&mut mending, &mut **session, row, &was_there).await?;
        }
        // What is there may be a commit that no standby has: all of it rests on this one.
        if !Planted::NoBarrier.is_there() && mending.in_time(session.barrier(own)).await? == 0 {
            return Err(self.tenure.fenced());
        }
        // Behind a pooler the barrier may have come to another server than what was before it.
        if !Planted::MendsUnseen.is_there() {
            self.must_have(&mut mending, &mut **session, &last_durable).await?;
            let there = self.those_there(&mut mending, &mut **session, placed()).await?;
            if !placed().all(|row| there.contains(&(row.table.id, row.key))) {
                return Err(PgError::Unreachable(NOT_WHAT_IT_WAS.to_owned()));
            }
        }
        let mut state = self.state.lock();
        state.rows.mended(rows.len(), |row| was_there.contains(&(row.table.id, row.key)));
        // Asked for meanwhile: these sessions may lead to a server that was failed over.
        state.is_broken = state.looks_wanted != looks_wanted;
        state.broken_at = state.is_broken.then(Instant::now);
        (state.failed, state.is_resting) = (None, false);
        state.sessions = sessions;
        state.generation += 1;
        if !Planted::NoNewsOfMending.is_there() {
            state.reported = None;
        }
        self.report(state);
        Ok(())
    }

    /// Fails for good where one of the last durable rows is gone.
    async fn must_have(
        &self,
        mending: &mut Mending<'_>,
        session: &mut dyn Session,
        last_durable: &[Placed],
    ) -> Result<(), PgError> {
        if Planted::LastDurableNotLookedAt.is_there() {
            return Ok(());
        }
        let there = self.those_there(mending, session, last_durable.iter().cloned()).await?;
        let Some(last) = last_durable.iter().find(|row| !there.contains(&(row.table.id, row.key))) else {
            return Ok(());
        };
        let text = format!(
            "the database has lost row {} of {}, which it had reported durable: it was failed over to a server that \
             had not received it",
            last.key.0, last.table.name
        );
        Err(PgError::Database(text))
    }

    /// Tables and keys of those rows that are there.
    async fn those_there(
        &self,
        mending: &mut Mending<'_>,
        session: &mut dyn Session,
        rows: impl Iterator<Item = Placed>,
    ) -> Result<HashSet<(i64, RowKey)>, PgError> {
        let mut of_tables: BTreeMap<i64, (Arc<Table>, Vec<RowKey>)> = BTreeMap::new();
        for Placed { table, key } in rows {
            of_tables.entry(table.id).or_insert((table, Vec::new())).1.push(key);
        }
        let mut there = HashSet::new();
        for (table, keys) in of_tables.into_values() {
            for keys in keys.chunks(ASKED_MAX) {
                let found = mending.in_time(session.which(&table, self.tenure.own().epoch, keys)).await?;
                there.extend(found.into_iter().map(|key| (table.id, key)));
            }
        }
        Ok(there)
    }

    async fn insert_missing(
        &self,
        mending: &mut Mending<'_>,
        session: &mut dyn Session,
        row: &Row,
        there: &HashSet<(i64, RowKey)>,
    ) -> Result<(), PgError> {
        let Some(placed) = row.placed().filter(|row| !there.contains(&(row.table.id, row.key))) else {
            return Ok(());
        };
        let inserted = mending.in_time(session.insert(self.tenure.own(), row, &[], IfThere::Skip)).await?;
        // A statement that was given up may have ended since the look.
        if inserted == 0 && !self.is_there(mending, session, &placed).await? {
            return Err(self.tenure.fenced());
        }
        Ok(())
    }

    async fn is_there(
        &self,
        mending: &mut Mending<'_>,
        session: &mut dyn Session,
        row: &Placed,
    ) -> Result<bool, PgError> {
        let keys = [row.key];
        let there = mending.in_time(session.which(&row.table, self.tenure.own().epoch, &keys)).await?;
        Ok(!there.is_empty())
    }
}
