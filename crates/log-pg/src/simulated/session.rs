//! A session with the simulated server: each call is a transaction, on a connection that may be cut.

use std::future::{Future, pending};
use std::time::Duration;

use tokio::time::sleep;

use super::database::{RowLock, SimDatabase, Transaction, cut};
use super::faults::{Course, Fault, Hanging};
use super::tables::{Did, Key, Tables};
use crate::PgError;
use crate::database::{Asked, Change, FoundFile, IfThere, Node, Own, Renewed, Row, Session, Taking, no_file};
use crate::planted::Planted;
use crate::tables::Table;

/// How long a drop waits for readers.
const DROP_WAITS: Duration = Duration::from_millis(500);

/// What a renewal locks of the table of nodes.
const NODES: (i64, Key) = (-1, (0, 0, 0));

pub(super) struct SimSession {
    server: SimDatabase,
    incarnation: u64,
    is_closed: bool,
}

impl SimSession {
    /// A session over a connection that the server has counted.
    pub fn new(server: SimDatabase, incarnation: u64) -> Self {
        Self { server, incarnation, is_closed: false }
    }

    /// Asks for a transaction, and learns what became of it or not.
    async fn ask<T: Send + 'static>(
        &mut self,
        is_append: bool,
        transaction: Transaction,
        evaluate: impl FnOnce(&Tables, i64) -> Result<(T, Vec<Did>), PgError> + Send + 'static,
    ) -> Result<T, PgError> {
        if self.is_closed {
            return Err(cut());
        }
        let course = self.server.course(is_append);
        if course.fault == Some(Fault::CutBefore) {
            sleep(course.before).await;
            self.is_closed = true;
            return Err(cut());
        }
        let work = self.server.clone().transact(self.incarnation, course, transaction, evaluate);
        let done = carried_out(course, work).await;
        self.is_closed = done.is_err();
        done
    }

    /// Never goes on where statements of this kind hang.
    async fn hang_if(&self, kind: Hanging) {
        if self.server.lets_hang(kind) {
            pending::<()>().await;
        }
    }

    /// Looks at the tables.
    async fn look<T: Send + 'static>(
        &mut self,
        look: impl FnOnce(&Tables, i64) -> Result<T, PgError> + Send + 'static,
    ) -> Result<T, PgError> {
        let nothing = Transaction { lock: RowLock::None, is_synced: false, key: None };
        self.ask(false, nothing, move |tables, clock| Ok((look(tables, clock)?, Vec::new()))).await
    }
}

impl Drop for SimSession {
    fn drop(&mut self) {
        self.server.disconnected(self.incarnation);
    }
}

/// What the client sees of a transaction, which the server carries out in any case.
async fn carried_out<T: Send + 'static>(
    course: Course,
    work: impl Future<Output = Result<T, PgError>> + Send + 'static,
) -> Result<T, PgError> {
    let work = tokio::spawn(work);
    if course.fault == Some(Fault::CutDuring) {
        sleep(course.before + course.after).await;
        return Err(cut());
    }
    let done = work.await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
    match course.fault {
        Some(Fault::CutAfter) => Err(cut()),
        Some(Fault::Hangs) => pending().await,
        _ => done,
    }
}

fn synced(lock: RowLock) -> Transaction {
    Transaction { lock, is_synced: true, key: None }
}

impl Session for SimSession {
    fn is_closed(&self) -> bool {
        self.is_closed
    }

    fn insert<'a>(&'a mut self, own: Own, row: &'a Row, if_there: IfThere) -> Asked<'a, u64> {
        Box::pin(async move {
            let Some(table) = row.table.clone() else { return self.barrier(own).await };
            let key = (row.pos, own.epoch, row.seq);
            let transaction =
                Transaction { lock: RowLock::Share, is_synced: row.syncs, key: Some((table.id, key)) };
            let bytes = row.bytes.clone();
            let is_fenced = !(Planted::MendsUnfenced.is_there() && if_there == IfThere::Skip);
            let is_append = row.batch > 0 && if_there == IfThere::Fail;
            sleep(self.server.row_arrives_after()).await;
            self.ask(is_append, transaction, move |tables, _| {
                let is_there = tables.has(&table, key)?;
                if is_fenced && tables.epoch != own.epoch {
                    return Ok((0, Vec::new()));
                }
                match (is_there, if_there) {
                    (false, _) => Ok((1, vec![Did::Inserted { table: table.id, key, bytes }])),
                    (true, IfThere::Skip) => Ok((0, Vec::new())),
                    (true, IfThere::Fail) => {
                        Err(PgError::Database("duplicate key value violates unique constraint".to_owned()))
                    }
                }
            })
            .await
        })
    }

    fn barrier(&mut self, own: Own) -> Asked<'_, u64> {
        let owns = move |tables: &Tables, _| Ok((u64::from(tables.epoch == own.epoch), vec![Did::Nothing]));
        Box::pin(self.ask(false, synced(RowLock::Share), owns))
    }

    fn has<'a>(&'a mut self, table: &'a Table, pos: u64, epoch: i64, seq: i64) -> Asked<'a, bool> {
        let table = table.clone();
        Box::pin(self.look(move |tables, _| tables.has(&table, (pos, epoch, seq))))
    }

    fn read<'a>(&'a mut self, table: &'a Table, offset: u64, len: usize) -> Asked<'a, Vec<u8>> {
        let table = table.clone();
        Box::pin(async move {
            self.hang_if(Hanging::Reads).await;
            self.look(move |tables, _| tables.read(&table, offset, len)).await
        })
    }

    fn owner(&mut self, _shard: i32) -> Asked<'_, Option<String>> {
        Box::pin(self.look(|tables, clock| Ok(tables.owner_at(clock, ""))))
    }

    fn take<'a>(&'a mut self, _shard: i32, node: &'a Node, length: Duration) -> Asked<'a, Taking> {
        Box::pin(async move {
            let own_id = node.id.clone();
            if let Some(owner) = self.look(move |tables, clock| Ok(tables.owner_at(clock, &own_id))).await? {
                return Ok(Taking::Owned(owner));
            }
            let lock =
                if Planted::TakeOverDoesNotWait.is_there() { RowLock::None } else { RowLock::Exclusive };
            let transaction = Transaction { is_synced: !Planted::TenureUnsynced.is_there(), ..synced(lock) };
            let Node { id, name } = node.clone();
            let rises = i64::from(!Planted::EpochNotRaised.is_there() || self.server.epoch() == 0);
            self.ask(false, transaction, move |tables, clock| {
                if let Some(owner) = tables.owner_at(clock, &id) {
                    return Ok((Taking::Owned(owner), Vec::new()));
                }
                let epoch = tables.epoch + rises;
                let took = Did::Took { epoch, node: id.clone() };
                let until = clock + i64::try_from(length.as_millis()).unwrap_or(i64::MAX);
                Ok((Taking::Taken { epoch, clock }, vec![took, Did::Renewed { node: id, name, until }]))
            })
            .await
        })
    }

    fn renew<'a>(&'a mut self, _shard: i32, node: &'a Node, length: Duration) -> Asked<'a, Renewed> {
        let lock = if Planted::RenewalUnlocked.is_there() { RowLock::None } else { RowLock::Share };
        let key = (!Planted::RenewalUndone.is_there()).then_some(NODES);
        let is_synced = !Planted::TenureUnsynced.is_there();
        let transaction = Transaction { lock, is_synced, key };
        let Node { id, name } = node.clone();
        Box::pin(self.ask(false, transaction, move |tables, clock| {
            let renewed = Renewed { epoch: tables.epoch, owner: tables.owner.clone(), clock };
            let until = clock + i64::try_from(length.as_millis()).unwrap_or(i64::MAX);
            let did = if tables.owner == id { Did::Renewed { node: id, name, until } } else { Did::Nothing };
            Ok((renewed, vec![did]))
        }))
    }

    fn clock(&mut self) -> Asked<'_, i64> {
        if self.server.cuts_this_look() {
            self.is_closed = true;
        }
        Box::pin(self.look(|_, clock| Ok(clock)))
    }

    fn give_up<'a>(&'a mut self, own: Own, node: &'a Node) -> Asked<'a, ()> {
        let Node { id, name } = node.clone();
        let is_undone = Planted::GivingUpUndone.is_there();
        let lock = if is_undone { RowLock::None } else { RowLock::Exclusive };
        Box::pin(self.ask(false, synced(lock), move |tables, _| {
            let did = if is_undone {
                Did::Renewed { node: id, name, until: 0 }
            } else if tables.epoch == own.epoch && tables.owner == id {
                Did::GaveUp { node: id }
            } else {
                Did::Nothing
            };
            Ok(((), vec![did]))
        }))
    }

    fn find<'a>(&'a mut self, _shard: i32, name: &'a str) -> Asked<'a, Option<FoundFile>> {
        let name = name.to_owned();
        Box::pin(self.look(move |tables, _| Ok(tables.find(&name))))
    }

    fn files(&mut self, _shard: i32) -> Asked<'_, Vec<(i64, String)>> {
        Box::pin(self.look(|tables, _| Ok(tables.files())))
    }

    fn change<'a>(&'a mut self, own: Own, change: &'a Change) -> Asked<'a, bool> {
        let change = change.clone();
        if matches!(change, Change::Drop { .. }) && self.server.is_read() {
            return Box::pin(async {
                sleep(DROP_WAITS).await;
                Err(PgError::Unreachable("canceling statement due to lock timeout (55P03)".to_owned()))
            });
        }
        Box::pin(async move {
            self.hang_if(Hanging::Changes).await;
            self.ask(false, synced(RowLock::Share), move |tables, _| changed(tables, own, change)).await
        })
    }
}

/// What a change of files does.
fn changed(tables: &Tables, own: Own, change: Change) -> Result<(bool, Vec<Did>), PgError> {
    if tables.epoch != own.epoch {
        return Err(PgError::Fenced { shard: own.shard, epoch: own.epoch });
    }
    if let Change::Rename { id, .. } | Change::Length { id, .. } | Change::Bytes { id, .. } = &change
        && !tables.has_file(*id)
    {
        return Err(no_file(*id));
    }
    if let Change::Create { id, name, .. } = &change
        && tables.is_taken(name, *id)
    {
        return Ok((false, Vec::new()));
    }
    Ok((true, vec![Did::Changed(change)]))
}
