//! A session with the simulated server: each call is a transaction, on a connection that may be cut.

use std::collections::hash_map::DefaultHasher;
use std::future::{Future, pending};
use std::hash::{Hash, Hasher};
use std::time::Duration;

use kew_core::QueueKey;
use tokio::time::sleep;

use super::database::{SimDatabase, cut};
use super::faults::{Course, Fault, Hanging};
use super::locks::{RowLock, Transaction};
use super::names;
use super::tables::{Did, Key, Tables};
use crate::PgError;
use crate::database::{
    Asked, Change, Claimant, FoundFile, IfThere, NODES_KEPT, Naming, Own, Placed, Renewed, Row, RowKey,
    SET_BACK_MIN, Session, Taking, no_file,
};
use crate::map::Node;
use crate::planted::Planted;
use crate::tables::Table;

/// How long a drop waits for readers.
const DROP_WAITS: Duration = Duration::from_millis(500);

/// A row with a text for its key that a transaction locks: of a node, or of a queue's name.
fn row_of(key: &str) -> (i64, Key) {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    (-1, (hasher.finish(), 0, 0))
}

/// The row that a transaction about names locks.
fn row_of_name(naming: &Naming) -> Option<(i64, Key)> {
    let key = match naming {
        Naming::Claim(key) | Naming::Release(key) | Naming::Rename { to: key, .. } => Some(key),
        Naming::ClaimAll(keys) => keys.first(),
    };
    key.map(|key| row_of(&key.to_string()))
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

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
        self.ask_locked(is_append, transaction, move |tables, clock, _| evaluate(tables, clock)).await
    }

    /// The same, for what depends on the shards whose rows are locked.
    async fn ask_locked<T: Send + 'static>(
        &mut self,
        is_append: bool,
        transaction: Transaction,
        evaluate: impl FnOnce(&Tables, i64, &[(i32, i64)]) -> Result<(T, Vec<Did>), PgError> + Send + 'static,
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

    /// Commits synchronously, if rows are there.
    async fn commit_behind(&mut self, own: Own, rests_on: Vec<Placed>) -> Result<u64, PgError> {
        let commits = move |tables: &Tables, _| {
            let does = tables.has_epoch(own) && have_all(tables, own.epoch, &rests_on)?;
            Ok(if does { (1, vec![Did::Nothing]) } else { (0, Vec::new()) })
        };
        self.ask(false, synced(RowLock::Share(own.shard)), commits).await
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

    fn insert<'a>(
        &'a mut self,
        own: Own,
        row: &'a Row,
        rests_on: &'a [Placed],
        if_there: IfThere,
    ) -> Asked<'a, u64> {
        let rests_on = rests_on.to_vec();
        Box::pin(async move {
            let Some(table) = row.table.clone() else { return self.commit_behind(own, rests_on).await };
            let key = (row.pos, own.epoch, row.seq);
            let transaction = Transaction {
                lock: RowLock::Share(own.shard),
                is_synced: row.syncs,
                key: Some((table.id, key)),
            };
            let bytes = row.bytes.clone();
            let is_fenced = !(Planted::MendsUnfenced.is_there() && if_there == IfThere::Skip);
            let is_append = row.batch > 0 && if_there == IfThere::Fail;
            sleep(self.server.row_arrives_after()).await;
            self.ask(is_append, transaction, move |tables, _| {
                let is_there = tables.has(&table, key)?;
                if (is_fenced && !tables.has_epoch(own)) || !have_all(tables, own.epoch, &rests_on)? {
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
        Box::pin(self.commit_behind(own, Vec::new()))
    }

    fn which<'a>(&'a mut self, table: &'a Table, epoch: i64, rows: &'a [RowKey]) -> Asked<'a, Vec<RowKey>> {
        let (table, rows) = (table.clone(), rows.to_vec());
        Box::pin(self.look(move |tables, _| {
            let mut found = Vec::new();
            for (pos, seq) in rows {
                if tables.has(&table, (pos, epoch, seq))? {
                    found.push((pos, seq));
                }
            }
            Ok(found)
        }))
    }

    fn read<'a>(&'a mut self, table: &'a Table, offset: u64, len: usize) -> Asked<'a, Vec<u8>> {
        let table = table.clone();
        Box::pin(async move {
            self.hang_if(Hanging::Reads).await;
            self.look(move |tables, _| tables.read(&table, offset, len)).await
        })
    }

    fn owner(&mut self, shard: i32) -> Asked<'_, Option<String>> {
        Box::pin(self.look(move |tables, clock| Ok(tables.owner_at(shard, clock, ""))))
    }

    fn take<'a>(&'a mut self, shard: i32, node: &'a Node, length: Duration) -> Asked<'a, Taking> {
        Box::pin(async move {
            let own_id = node.id.clone();
            let look = move |tables: &Tables, clock| {
                let later = clock + millis(length + SET_BACK_MIN);
                let lives_then = tables.owner_at(shard, later, &own_id).is_some();
                Ok(tables.owner_at(shard, clock, &own_id).map(|owner| (owner, lives_then)))
            };
            if let Some((owner, too_long)) = self.look(look).await? {
                if too_long {
                    self.shorten_lives(length).await?;
                }
                return Ok(Taking::Owned(owner));
            }
            let is_unlocked = Planted::TakeOverDoesNotWait.is_there();
            let lock = if is_unlocked { RowLock::None } else { RowLock::Exclusive(shard) };
            let is_synced = !Planted::TenureUnsynced.is_there();
            let transaction = Transaction { lock, is_synced, key: Some(row_of(&node.id)) };
            let node = node.clone();
            let rises = !Planted::EpochNotRaised.is_there();
            self.ask(false, transaction, move |tables, clock| {
                if let Some(owner) = tables.owner_at(shard, clock, &node.id) {
                    return Ok((Taking::Owned(owner), Vec::new()));
                }
                let seen = tables.shard(shard)?;
                let epoch = seen.epoch + i64::from(rises || seen.epoch == 0);
                let took = Did::Took { shard, epoch, node: node.id.clone() };
                let renewed = Did::Renewed { node, until: clock + millis(length) };
                Ok((Taking::Taken { epoch, clock }, vec![took, renewed]))
            })
            .await
        })
    }

    fn renew<'a>(&'a mut self, node: &'a Node, length: Duration) -> Asked<'a, Renewed> {
        let is_unlocked = Planted::RenewalUnlocked.is_there();
        let lock = if is_unlocked { RowLock::None } else { RowLock::ShareOfNode(node.id.clone()) };
        let key = (!Planted::RenewalUndone.is_there()).then(|| row_of(&node.id));
        let is_synced = !Planted::TenureUnsynced.is_there();
        let transaction = Transaction { lock, is_synced, key };
        let node = node.clone();
        Box::pin(self.ask_locked(false, transaction, move |tables, clock, locked| {
            let held = if is_unlocked { tables.shards_of(&node.id) } else { locked.to_vec() };
            let others = tables.live_nodes(clock).filter(|other| other.id != node.id).cloned().collect();
            let too_long = tables.live_nodes(clock + millis(length + SET_BACK_MIN));
            let lives_too_long = { too_long }.any(|other| other.id != node.id);
            let (shards, away) = (tables.shard_rows(), Vec::new());
            let renewed = Renewed { held, shards, away, others, lives_too_long, clock };
            Ok((renewed, vec![Did::Renewed { node, until: clock + millis(length) }]))
        }))
    }

    fn shorten_lives(&mut self, length: Duration) -> Asked<'_, ()> {
        let nothing = Transaction { lock: RowLock::None, is_synced: false, key: None };
        Box::pin(self.ask(false, nothing, move |tables, clock| {
            let too_long = tables.live_nodes(clock + millis(length + SET_BACK_MIN)).cloned();
            let until = clock + millis(length);
            Ok(((), too_long.map(|node| Did::Renewed { node, until }).collect()))
        }))
    }

    fn clock(&mut self) -> Asked<'_, i64> {
        if self.server.cuts_this_look() {
            self.is_closed = true;
        }
        Box::pin(self.look(|_, clock| Ok(clock)))
    }

    fn give_up<'a>(&'a mut self, own: Own, node: &'a Node, to: Option<&'a str>) -> Asked<'a, bool> {
        let (node, to) = (node.clone(), to.unwrap_or_default().to_owned());
        let is_undone = Planted::GivingUpUndone.is_there();
        let lock = if is_undone { RowLock::None } else { RowLock::Exclusive(own.shard) };
        Box::pin(self.ask(false, synced(lock), move |tables, clock| {
            let row = tables.shard(own.shard)?;
            if is_undone {
                return Ok((true, vec![Did::Renewed { node, until: 0 }]));
            }
            let is_own = tables.has_epoch(own);
            let did = if is_own && row.node == node.id {
                Did::GaveUp { shard: own.shard, to, at: clock }
            } else {
                Did::Nothing
            };
            Ok((is_own && (row.node == node.id || row.node.is_empty()), vec![did]))
        }))
    }

    fn let_go<'a>(&'a mut self, own: Own, node: &'a Node) -> Asked<'a, ()> {
        let node = node.id.clone();
        let lock = RowLock::ExclusiveIfFree(own.shard);
        Box::pin(self.ask_locked(false, synced(lock), move |tables, clock, locked| {
            let is_own = !locked.is_empty() && tables.has_epoch(own) && tables.shard(own.shard)?.node == node;
            let given = Did::GaveUp { shard: own.shard, to: String::new(), at: clock };
            Ok(((), if is_own { vec![given] } else { Vec::new() }))
        }))
    }

    fn leave<'a>(&'a mut self, node: &'a Node) -> Asked<'a, ()> {
        let transaction = Transaction { lock: RowLock::None, is_synced: false, key: Some(row_of(&node.id)) };
        let id = node.id.clone();
        Box::pin(self.ask(false, transaction, move |tables, _| {
            let has_none = tables.shards_of(&id).is_empty();
            Ok(((), if has_none { vec![Did::Forgot(vec![id])] } else { Vec::new() }))
        }))
    }

    fn forget_past_nodes(&mut self) -> Asked<'_, ()> {
        let nothing = Transaction { lock: RowLock::None, is_synced: false, key: None };
        Box::pin(self.ask(false, nothing, move |tables, clock| {
            Ok(((), vec![Did::Forgot(tables.nodes_past(clock - millis(NODES_KEPT)))]))
        }))
    }

    fn name<'a>(&'a mut self, claimant: Claimant, naming: &'a Naming) -> Asked<'a, Option<i32>> {
        let (naming, key) = (naming.clone(), row_of_name(naming));
        let transaction = Transaction { lock: RowLock::Share(claimant.own.shard), is_synced: true, key };
        Box::pin(self.ask(false, transaction, move |tables, _| names::named(tables, claimant, naming)))
    }

    fn name_afar<'a>(&'a mut self, claimant: Claimant, naming: &'a Naming) -> Asked<'a, Option<i32>> {
        let (naming, key) = (naming.clone(), row_of_name(naming));
        let transaction = Transaction { lock: RowLock::None, is_synced: true, key };
        Box::pin(self.ask(false, transaction, move |tables, _| names::named_afar(tables, claimant, naming)))
    }

    fn shard_of_name<'a>(&'a mut self, key: &'a QueueKey) -> Asked<'a, Option<i32>> {
        let key = key.clone();
        Box::pin(self.look(move |tables, _| Ok(tables.named(&key).map(|(shard, _)| shard))))
    }

    fn names<'a>(
        &'a mut self,
        shard: i32,
        after: Option<&'a QueueKey>,
        most: usize,
    ) -> Asked<'a, Vec<QueueKey>> {
        let after = after.cloned();
        Box::pin(self.look(move |tables, _| Ok(tables.names(shard, after.as_ref(), most))))
    }

    fn find<'a>(&'a mut self, shard: i32, name: &'a str) -> Asked<'a, Option<FoundFile>> {
        let name = name.to_owned();
        Box::pin(self.look(move |tables, _| Ok(tables.find(shard, &name))))
    }

    fn files(&mut self, shard: i32) -> Asked<'_, Vec<(i64, String)>> {
        Box::pin(self.look(move |tables, _| Ok(tables.files(shard))))
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
            self.ask(false, synced(RowLock::Share(own.shard)), move |tables, _| changed(tables, own, change))
                .await
        })
    }
}

/// Whether rows of an epoch are all there.
fn have_all(tables: &Tables, epoch: i64, rows: &[Placed]) -> Result<bool, PgError> {
    for Placed { table, key: (pos, seq) } in rows {
        if !tables.has(table, (*pos, epoch, *seq))? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// What a change of files does.
fn changed(tables: &Tables, own: Own, change: Change) -> Result<(bool, Vec<Did>), PgError> {
    if !tables.has_epoch(own) {
        return Err(PgError::Fenced { shard: own.shard, epoch: own.epoch });
    }
    if let Change::Rename { id, .. } | Change::Length { id, .. } | Change::Bytes { id, .. } = &change
        && !tables.has_file(*id)
    {
        return Err(no_file(*id));
    }
    if let Change::Create { id, name, .. } = &change
        && tables.is_taken(own.shard, name, *id)
    {
        return Ok((false, Vec::new()));
    }
    Ok((true, vec![Did::Changed(own.shard, change)]))
}
