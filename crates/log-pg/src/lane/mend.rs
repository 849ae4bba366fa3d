//! What follows a session that failed: the database is brought to what was handed over, whatever became of the
//! statements that failed.
//!
//! In new sessions the lane looks whether the last durable row is still there, inserts every row that is not known to
//! be durable where it is missing, and ends with a synchronous commit, the barrier, because the database may show
//! commits that no standby has.

use std::sync::Arc;

use super::{LOOK_PAUSE, Lane, RETRY};
use crate::PgError;
use crate::database::{IfThere, Row, Session};
use crate::planted::Planted;

impl Lane {
    pub(super) async fn mend_when_broken(self: Arc<Self>) {
        loop {
            let broken = self.broken.notified();
            if self.tenure.check().is_err() {
                return;
            }
            if !self.is_to_be_mended() {
                let _timed_out = tokio::time::timeout(LOOK_PAUSE, broken).await;
                continue;
            }
            self.state.lock().is_mending = true;
            let mended = self.mend().await;
            self.state.lock().is_mending = false;
            match mended {
                Ok(()) => {
                    // Those that are free look for rows.
                    for _ in 0..self.sessions {
                        self.ready.notify_one();
                    }
                }
                Err(error) if error.may_pass() => tokio::time::sleep(RETRY).await,
                Err(error) => return self.lose(&error.to_string()),
            }
        }
    }

    fn is_to_be_mended(&self) -> bool {
        let state = self.state.lock();
        state.is_broken && state.rows.is_quiet()
    }

    async fn mend(&self) -> Result<(), PgError> {
        let looks_wanted = self.state.lock().looks_wanted;
        let mut sessions = Vec::with_capacity(self.sessions);
        for _ in 0..self.sessions {
            sessions.push(self.database.connect().await?);
        }
        let Some(session) = sessions.first_mut() else { return Ok(()) };
        let (rows, last_durable) = {
            let state = self.state.lock();
            (state.rows.all(), state.rows.last_durable())
        };
        let own = self.tenure.own();
        if let Some(last) = last_durable
            && !session.has(&last.table, last.pos, own.epoch, last.seq).await?
        {
            let text = format!(
                "the database has lost row {} of {}, which it had reported durable: it was failed over to a \
                 server that had not received it",
                last.pos, last.table.name
            );
            return Err(PgError::Database(text));
        }
        for row in rows.iter().filter(|row| row.table.is_some()) {
            self.insert_again(&mut **session, row).await?;
        }
        // What is there may be a commit that no standby has: all of it rests on this one.
        if !Planted::NoBarrier.is_there() && session.barrier(own).await? == 0 {
            return Err(self.tenure.fenced());
        }
        let mut state = self.state.lock();
        state.rows.mended(rows.len());
        // Asked for meanwhile: these sessions may lead to a server that was failed over.
        state.is_broken = state.looks_wanted != looks_wanted;
        state.sessions = sessions;
        state.generation += 1;
        state.reported = None;
        self.report(state);
        Ok(())
    }

    async fn insert_again(&self, session: &mut dyn Session, row: &Row) -> Result<(), PgError> {
        let Some(table) = &row.table else { return Ok(()) };
        let own = self.tenure.own();
        let inserted = session.insert(own, row, IfThere::Skip).await?;
        if inserted == 0 && !session.has(table, row.pos, own.epoch, row.seq).await? {
            return Err(self.tenure.fenced());
        }
        Ok(())
    }
}
