//! The contract of a database: what a log asks of it, and nothing of SQL.
//!
//! PostgreSQL is one (`postgres/mod.rs`); tests have a simulated one (`simulated/`). Every call may fail with an
//! outcome that is not known: its statement happened, did not happen, or is still under way.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use kew_core::QueueKey;

use crate::PgError;
use crate::map::{AwayRow, Node, ShardRow};
use crate::tables::Table;

/// How long a shard that is handed over waits for the node it is meant for, while that lives.
pub const PROMISED: Duration = Duration::from_secs(2);
/// Where the database's clock was set back, a node's row says that it lives for longer than a renewal makes it. By less
/// than this is not worth a change.
pub(crate) const SET_BACK_MIN: Duration = Duration::from_secs(1);
/// How long the row of a node that has gone is kept.
pub(crate) const NODES_KEPT: Duration = Duration::from_secs(3_600);

/// What is said of a statement that was given up.
pub(crate) const NO_ANSWER: &str = "the database does not answer";

/// Gives work up after a time. What its last statement does is not known then.
pub(crate) async fn within<T>(
    most: Duration,
    work: impl Future<Output = Result<T, PgError>>,
) -> Result<T, PgError> {
    match tokio::time::timeout(most, work).await {
        Ok(done) => done,
        Err(_elapsed) => Err(PgError::Unreachable(NO_ANSWER.to_owned())),
    }
}

/// A call that is under way.
pub(crate) type Asked<'a, T> = Pin<Box<dyn Future<Output = Result<T, PgError>> + Send + 'a>>;

/// Makes sessions.
pub(crate) trait Database: Send + Sync + 'static {
    /// A new session with the server that takes writes.
    fn connect(&self) -> Asked<'_, Box<dyn Session>>;
}

/// A shard, and the epoch in which its owner writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Own {
    pub shard: i32,
    pub epoch: i64,
}

/// The owner of a shard in one act: it claims names, or releases one. The number of an act is higher than those of all
/// acts before it, of this epoch and of earlier ones, so that one that is carried out late undoes no later claim.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claimant {
    pub own: Own,
    pub number: i64,
}

/// Bits of the number that count the acts of one epoch.
const ACT_BITS: u32 = 32;

impl Claimant {
    /// An owner that has claimed and released names `before` times in its epoch.
    pub fn new(own: Own, before: u32) -> Self {
        Self { own, number: (own.epoch << ACT_BITS) | i64::from(before) }
    }

    /// Whether a name that was claimed with this number belongs to a newer owner of the same shard.
    pub fn is_over(self, shard: i32, claim: i64) -> bool {
        shard == self.own.shard && claim >> ACT_BITS > self.own.epoch
    }

    pub fn fenced(self) -> PgError {
        PgError::Fenced { shard: self.own.shard, epoch: self.own.epoch }
    }
}

/// One row of a large file; without a table it is a barrier, which is stored nowhere.
#[derive(Clone)]
pub(crate) struct Row {
    pub table: Option<Arc<Table>>,
    pub pos: u64,
    pub seq: i64,
    pub bytes: Bytes,
    /// The number of its batch; 0 for a row outside the journal.
    pub batch: u64,
    /// Whether the commit waits until the row survives the loss of the server.
    pub syncs: bool,
}

/// Where a row begins, and its number. Together they name one row of a table in an epoch.
pub(crate) type RowKey = (u64, i64);

/// A row of a table.
#[derive(Clone)]
pub(crate) struct Placed {
    pub table: Arc<Table>,
    pub key: RowKey,
}

impl Row {
    pub fn key(&self) -> RowKey {
        (self.pos, self.seq)
    }

    /// `None` for a barrier.
    pub fn placed(&self) -> Option<Placed> {
        let table = self.table.clone()?;
        Some(Placed { table, key: self.key() })
    }

    pub fn barrier() -> Self {
        Self { table: None, pos: 0, seq: 0, bytes: Bytes::new(), batch: 0, syncs: true }
    }
}

/// What an insert does where the row is there already.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum IfThere {
    /// It fails.
    Fail,
    /// It inserts nothing.
    Skip,
}

/// What came of taking a shard.
pub(crate) enum Taking {
    /// It was taken, in this epoch, at this many milliseconds since 1970 by the database's clock.
    Taken { epoch: i64, clock: i64 },
    /// This node owns it, or is handed it.
    Owned(String),
}

/// What a renewal of a node found.
pub(crate) struct Renewed {
    /// Shards and epochs that the node owned while its row was renewed: no take-over of these was under way. Its hold
    /// of them counts from before the renewal was sent.
    pub held: Vec<(i32, i64)>,
    /// All shards that lie there, as they were a moment before.
    pub shards: Vec<ShardRow>,
    /// Those that have a row there, and lie elsewhere.
    pub away: Vec<AwayRow>,
    /// The other nodes that live.
    pub others: Vec<Node>,
    /// Of one of them the row says so for longer than a renewal makes it: [`Session::shorten_lives`].
    pub lives_too_long: bool,
    /// Milliseconds since 1970, by the database's clock.
    pub clock: i64,
}

/// What the owner of a shard does with the name of a queue. Each may be done twice, and is then done once.
#[derive(Clone, Debug)]
pub(crate) enum Naming {
    /// Claims it, if no other shard has it.
    Claim(QueueKey),
    /// Lets it go, if this shard has it.
    Release(QueueKey),
    /// Claims one, and lets another go if that came about.
    Rename { from: QueueKey, to: QueueKey },
    /// Claims all that no other shard has.
    ClaimAll(Arc<[QueueKey]>),
}

/// A file as its row says.
pub(crate) struct FoundFile {
    pub id: i64,
    pub length: u64,
    pub bytes: Option<Vec<u8>>,
}

/// A change of files. Each may be made twice, and is then made once.
#[derive(Clone)]
pub(crate) enum Change {
    /// Gives a new file its name, and makes its table if it is a large one.
    Create { id: i64, name: String, table: Option<Arc<Table>> },
    /// Gives a file a name. What had the name before is removed in the same step.
    Rename { id: i64, to: String },
    /// Takes a file's name away.
    Remove { id: i64 },
    /// Drops a removed file with its table.
    Drop { id: i64 },
    /// Stores a file's length, unless a larger one is stored.
    Length { id: i64, length: i64 },
    /// Stores the bytes of a small file.
    Bytes { id: i64, bytes: Arc<Vec<u8>> },
    /// Deletes the rows of a file that begin at or behind an offset.
    Cut { table: Arc<Table>, from: i64 },
}

/// The error of a change of a file that is not there.
pub(crate) fn no_file(id: i64) -> PgError {
    PgError::Database(format!("the database has lost file {id}, which is in use"))
}

/// One session: statements one after the other. One that failed is not used again.
pub(crate) trait Session: Send {
    /// Whether the connection is known to be closed.
    fn is_closed(&self) -> bool;

    /// Inserts a row and commits, if the epoch is the shard's and the rows that it rests on are there. Answers how many
    /// rows were inserted, and 1 for a barrier.
    fn insert<'a>(
        &'a mut self,
        own: Own,
        row: &'a Row,
        rests_on: &'a [Placed],
        if_there: IfThere,
    ) -> Asked<'a, u64>;
    /// Commits synchronously if the epoch is the shard's: what this server has survives from then on. Answers 1,
    /// or 0 when the epoch is over.
    fn barrier(&mut self, own: Own) -> Asked<'_, u64>;
    /// Which rows of a table are there, of these that were written in an epoch. One whose insert is under way may come
    /// later.
    fn which<'a>(&'a mut self, table: &'a Table, epoch: i64, rows: &'a [RowKey]) -> Asked<'a, Vec<RowKey>>;
    /// Reads a range of a large file. What no row holds is zeros.
    fn read<'a>(&'a mut self, table: &'a Table, offset: u64, len: usize) -> Asked<'a, Vec<u8>>;

    /// The name of the node that owns a shard by the database's clock, or that it is handed over to.
    fn owner(&mut self, shard: i32) -> Asked<'_, Option<String>>;
    /// Takes a shard that no other node owns or is handed: waits for inserts under way, raises the epoch, and renews
    /// for this long. Where another node owns it, [`Self::shorten_lives`] too. A node that took it before and did not
    /// hear of it takes it again, in another epoch.
    fn take<'a>(&'a mut self, shard: i32, node: &'a Node, length: Duration) -> Asked<'a, Taking>;
    /// Says that a node lives for this long from now on, and reads the map. A shard that is being taken over or given
    /// up is waited for neither, and is not held then.
    fn renew<'a>(&'a mut self, node: &'a Node, length: Duration) -> Asked<'a, Renewed>;
    /// Renewals make a node live for this long. Those whose rows say that they live for longer live for this long from
    /// now on: the database's clock was set back since, and one that has gone would own its shards for as much longer.
    fn shorten_lives(&mut self, length: Duration) -> Asked<'_, ()>;
    /// Milliseconds since 1970, by the database's clock.
    fn clock(&mut self) -> Asked<'_, i64>;
    /// Gives a shard up that a node owns in this epoch, to another node if that is named: no renewal that is carried
    /// out later brings it back. False for a shard that has another owner by now, or had one since. May be done twice.
    fn give_up<'a>(&'a mut self, own: Own, node: &'a Node, to: Option<&'a str>) -> Asked<'a, bool>;
    /// Gives a shard up that a node owns in this epoch, unless its row is locked just now: it waits for nothing.
    fn let_go<'a>(&'a mut self, own: Own, node: &'a Node) -> Asked<'a, ()>;
    /// Takes the row of a node away that has given all its shards up.
    fn leave<'a>(&'a mut self, node: &'a Node) -> Asked<'a, ()>;
    /// Deletes the rows of nodes that are long past.
    fn forget_past_nodes(&mut self) -> Asked<'_, ()>;

    /// Does something with a queue's name if the epoch is the shard's. Answers the shard that has it afterwards.
    fn name<'a>(&'a mut self, claimant: Claimant, naming: &'a Naming) -> Asked<'a, Option<i32>>;
    /// The same for a shard whose row is in another database, so that this one cannot tell its newest epoch. A claim
    /// leaves its number in the name, and one of a lower epoch fails; a release frees the name only if its number is
    /// not lower than that of the last claim.
    fn name_afar<'a>(&'a mut self, claimant: Claimant, naming: &'a Naming) -> Asked<'a, Option<i32>>;
    /// The shard that has the name of a queue.
    fn shard_of_name<'a>(&'a mut self, key: &'a QueueKey) -> Asked<'a, Option<i32>>;
    /// Names that a shard has, in order, behind one of them, this many at most.
    fn names<'a>(
        &'a mut self,
        shard: i32,
        after: Option<&'a QueueKey>,
        most: usize,
    ) -> Asked<'a, Vec<QueueKey>>;

    /// The file of a name.
    fn find<'a>(&'a mut self, shard: i32, name: &'a str) -> Asked<'a, Option<FoundFile>>;
    /// Ids and names of all files; a removed one has the name `#` and its id.
    fn files(&mut self, shard: i32) -> Asked<'_, Vec<(i64, String)>>;
    /// Makes a change if the epoch is the shard's. Fails where the file is not there that is to be renamed, or whose
    /// length or bytes are to be stored. False for a file that another one has the name of.
    fn change<'a>(&'a mut self, own: Own, change: &'a Change) -> Asked<'a, bool>;
}
