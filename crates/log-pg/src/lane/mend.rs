//! What follows a session that failed: the database is brought to what was handed over, whatever became of the
//! statements that failed.
//!
//! In new sessions the lane looks whether the last durable row is still there, inserts every row that is not known to
//! be durable where it is missing, and ends with a synchronous commit, the barrier, because the database may show
//! commits that no standby has.
//!
//! With a synchronous standby the last durable row is always there: the barrier made it so. Without one a fail-over may
//! have lost it. What is appended behind such a gap would be acknowledged and then not be found by the next opening, so
//! the node gives its shard up instead.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{HANGS_AFTER, LOOK_PAUSE, Lane, RETRY};
use crate::PgError;
use crate::database::{Asked, IfThere, Row, Session};
use crate::planted::Planted;

/// How long a statement of the mending may take before it is made again on another connection, which may be quicker:
/// the first time. Where it is not, the statement needs longer, as a large row does on a slow network: each time that
/// one was given up the next may take twice as long, until the lane is mended.
const ANSWER_FIRST: Duration = Duration::from_secs(10);
/// The longest that a statement of the mending may take.
const ANSWER_LAST: Duration = Duration::from_secs(3_600);

/// What a lane that is looked after needs.
enum ToDo {
    /// Nothing for so long.
    Wait(Duration),
    /// Its statements hang.
    GiveUp,
    Mend,
}

/// How long statements of a mending may take.
struct Pace(Duration);

impl Pace {
    /// Waits for a statement that may hang. One that is given up gives the next one more time.
    async fn in_time<T>(&mut self, asked: Asked<'_, T>) -> Result<T, PgError> {
        if let Ok(answered) = tokio::time::timeout(self.0, asked).await {
            return answered;
        }
        let given = self.0;
        self.0 = (2 * given).min(ANSWER_LAST);
        let text = format!("the database did not answer within {given:?}; it has {:?} now", self.0);
        Err(PgError::Unreachable(text))
    }
}

impl Lane {
    pub(super) async fn mend_when_broken(self: Arc<Self>) {
        let mut pace = Pace(ANSWER_FIRST);
        loop {
            let broken = self.broken.notified();
            if self.tenure.check().is_err() {
                return;
            }
            match self.what_is_to_do() {
                ToDo::Mend => {}
                ToDo::Wait(pause) => {
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
                    pace = Pace(ANSWER_FIRST);
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
        let mut sessions = Vec::with_capacity(self.sessions);
        for _ in 0..self.sessions {
            sessions.push(pace.in_time(self.database.connect()).await?);
        }
        let Some(session) = sessions.first_mut() else { return Ok(()) };
        let (rows, last_durable) = {
            let state = self.state.lock();
            (state.rows.all(), state.rows.last_durable())
        };
        let own = self.tenure.own();
        if let Some(last) = last_durable.filter(|_| !Planted::LastDurableNotLookedAt.is_there())
            && !pace.in_time(session.has(&last.table, last.pos, own.epoch, last.seq)).await?
        {
            let text = format!(
                "the database has lost row {} of {}, which it had reported durable: it was failed over to a \
                 server that had not received it",
                last.pos, last.table.name
            );
            return Err(PgError::Database(text));
        }
        for row in rows.iter().filter(|row| row.table.is_some()) {
            self.insert_again(pace, &mut **session, row).await?;
        }
        // What is there may be a commit that no standby has: all of it rests on this one.
        if !Planted::NoBarrier.is_there() && pace.in_time(session.barrier(own)).await? == 0 {
            return Err(self.tenure.fenced());
        }
        let mut state = self.state.lock();
        state.rows.mended(rows.len());
        // Asked for meanwhile: these sessions may lead to a server that was failed over.
        state.is_broken = state.looks_wanted != looks_wanted;
        state.broken_at = state.is_broken.then(Instant::now);
        state.failed = None;
        state.sessions = sessions;
        state.generation += 1;
        if !Planted::NoNewsOfMending.is_there() {
            state.reported = None;
        }
        self.report(state);
        Ok(())
    }

    async fn insert_again(
        &self,
        pace: &mut Pace,
        session: &mut dyn Session,
        row: &Row,
    ) -> Result<(), PgError> {
        let Some(table) = &row.table else { return Ok(()) };
        let own = self.tenure.own();
        let inserted = pace.in_time(session.insert(own, row, IfThere::Skip)).await?;
        if inserted == 0 && !pace.in_time(session.has(table, row.pos, own.epoch, row.seq)).await? {
            return Err(self.tenure.fenced());
        }
        Ok(())
    }
}
