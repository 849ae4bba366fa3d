//! A node of a store: one thread of tasks, one pool of connections, and the shards it holds.
//!
//! A node takes shards and gives them up; each that it holds is a [`PgDisk`] with a tenure and lanes of its own. What
//! its shards share is here. `members.rs` renews them all with one statement.
//!
//! Connections of a node that holds k shards: two for each shard's journal, and one more for each whose upkeep has
//! written within the last half minute; up to four for reads and files; one that renews; three more while shards are
//! taken and given up. So they are 3k + 8 at most, and about 2k + 2 when little happens.

mod files;
mod members;
mod names;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kew_core::{ShardCount, ShardId};
use parking_lot::Mutex;
use tokio::sync::{Semaphore, watch};

use crate::PgError;
use crate::database::{Database, NO_ANSWER, Own};
use crate::driver::Driver;
use crate::map::{Founding, Map, Membership, Node, PeerSecret};
use crate::pool::Pool;
use crate::tenure::{TENURE, Tenure};

use files::{Shared, WeakDisk};

pub use files::{PgDisk, Undropped};
pub use names::NAMES_MAX;

/// How long taking a shard may take, with the connection for it. A statement that hangs, though the server lives, is
/// given up then: whether the shard was taken is found out by taking it again.
pub(crate) const TAKE_MAX: Duration = Duration::from_secs(10);
/// Shards that are being taken at a time.
const TAKES: usize = 2;
/// Shards that are being given up at a time.
const GIVINGS_UP: usize = 1;

/// A node of a store. Clones are handles to the same one. It lives, and keeps its shards, until the last of them and of
/// its disks is dropped, or [`Self::leave`].
#[derive(Clone)]
pub struct PgNode {
    pub(crate) home: Arc<Home>,
}

/// What the shards of one node share.
pub(crate) struct Home {
    pub driver: Driver,
    pub pool: Arc<Pool>,
    pub node: Node,
    pub founding: Founding,
    /// It lives without a shard too. Otherwise it has gone when it holds none.
    pub is_member: bool,
    has_left: AtomicBool,
    /// Held while the node's row is renewed: a renewal under way would bring the row back that leaving takes away.
    pub renewing: tokio::sync::Mutex<()>,
    held: Mutex<Held>,
    pub membership: watch::Sender<Membership>,
    takes: Semaphore,
    givings_up: Semaphore,
}

/// The shards of a node.
#[derive(Default)]
struct Held {
    disks: Vec<(i32, WeakDisk)>,
    /// Shards that are being taken or given up.
    in_hand: Vec<i32>,
}

/// A shard is being taken or given up while this lives.
struct InHand<'a>(&'a Home, i32);

impl Drop for InHand<'_> {
    fn drop(&mut self) {
        let mut held = self.0.held.lock();
        if let Some(place) = held.in_hand.iter().position(|shard| *shard == self.1) {
            held.in_hand.swap_remove(place);
        }
    }
}

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

impl Home {
    pub fn new(
        driver: Driver,
        database: Arc<dyn Database>,
        node: Node,
        founding: Founding,
        is_member: bool,
    ) -> Arc<Self> {
        Arc::new(Self {
            driver,
            pool: Arc::new(Pool::new(database)),
            node,
            founding,
            is_member,
            has_left: AtomicBool::new(false),
            renewing: tokio::sync::Mutex::default(),
            held: Mutex::default(),
            membership: watch::Sender::new(Membership::default()),
            takes: Semaphore::new(TAKES),
            givings_up: Semaphore::new(GIVINGS_UP),
        })
    }

    pub fn shards(&self) -> ShardCount {
        self.founding.shards
    }

    /// The number of a shard in the tables, if the store has it.
    pub fn number(&self, shard: ShardId) -> Result<i32, PgError> {
        let shards = self.shards().get();
        if shard.0 < shards { Ok(shard.0.into()) } else { Err(PgError::NoShard { shard, shards }) }
    }

    /// Takes a shard that no other node owns, and that this one does not hold.
    pub fn take(self: &Arc<Self>, shard: ShardId) -> Result<PgDisk, PgError> {
        let number = self.number(shard)?;
        let _in_hand = self.take_in_hand(number).ok_or_else(|| {
            // A second hold of one node would answer beside the first.
            PgError::Owned { shard: number, node: self.node.name.clone() }
        })?;
        let home = Arc::clone(self);
        let taken = self.driver.wait(within(TAKE_MAX, async move { home.take_number(number).await }));
        let tenure = Arc::new(taken.unwrap_or(Err(PgError::Closed))?);
        let disk = PgDisk::new(Arc::clone(self), tenure);
        self.held.lock().disks.push((number, disk.downgrade()));
        disk.begin_to_drop();
        Ok(disk)
    }

    async fn take_number(&self, number: i32) -> Result<Tenure, PgError> {
        let _permit = self.takes.acquire().await;
        let mut session = self.pool.database().connect().await?;
        let tenure = Tenure::take(&mut *session, number, &self.node, self.driver.steady()).await?;
        tenure.learn_clock(session, &**self.pool.database()).await?;
        Ok(tenure)
    }

    /// `None` for a shard that is held, or in hand already.
    fn take_in_hand(&self, shard: i32) -> Option<InHand<'_>> {
        let mut held = self.held.lock();
        held.disks.retain(|(_, disk)| disk.is_there());
        let is_held = held.disks.iter().any(|(other, disk)| *other == shard && disk.held().is_some());
        if is_held || held.in_hand.contains(&shard) {
            return None;
        }
        held.in_hand.push(shard);
        Some(InHand(self, shard))
    }

    /// Disks that this node holds.
    pub fn holds(&self) -> Vec<Arc<Shared>> {
        let mut held = self.held.lock();
        held.disks.retain(|(_, disk)| disk.is_there());
        held.disks.iter().filter_map(|(_, disk)| disk.held()).collect()
    }

    /// Whether a shard that the database says is this node's is not held, and not in hand either: its disk was dropped,
    /// or taking it failed at the end.
    pub fn has_let_go(&self, shard: i32) -> bool {
        let held = self.held.lock();
        let is_held = held.disks.iter().any(|(other, disk)| *other == shard && disk.held().is_some());
        !is_held && !held.in_hand.contains(&shard)
    }

    pub fn has_left(&self) -> bool {
        self.has_left.load(Ordering::Acquire)
    }

    /// Gives a shard up, to another node if that is named. What is not written by now never is.
    pub fn give_up(self: &Arc<Self>, disk: &Shared, to: Option<&str>) -> Result<(), PgError> {
        let own = disk.tenure.own();
        let in_hand = {
            self.held.lock().in_hand.push(own.shard);
            InHand(self, own.shard)
        };
        disk.tenure.close();
        disk.refuse_all("this node has given its shard up");
        let leaves = !self.is_member && self.holds().is_empty();
        let (home, to) = (Arc::clone(self), to.map(ToOwned::to_owned));
        let given_up = self.driver.wait(async move {
            // Others that are given up have their time before this one's begins.
            let _permit = tokio::time::timeout(TAKE_MAX, home.givings_up.acquire()).await;
            within(TENURE, home.give_up_now(own, to.as_deref(), leaves)).await
        });
        drop(in_hand);
        given_up.unwrap_or(Err(PgError::Closed))
    }

    async fn give_up_now(&self, own: Own, to: Option<&str>, leaves: bool) -> Result<(), PgError> {
        let mut session = self.pool.database().connect().await?;
        let is_given = session.give_up(own, &self.node, to).await?;
        if leaves {
            session.leave(&self.node).await?;
        }
        if is_given { Ok(()) } else { Err(PgError::Fenced { shard: own.shard, epoch: own.epoch }) }
    }

    /// Begins to renew this node's row and its shards.
    pub fn begin_to_renew(self: &Arc<Self>) {
        self.driver.spawn(members::renew(Arc::downgrade(self)));
    }
}

impl PgNode {
    /// A node that lives from now on: its row is there, and it has read the map.
    pub(crate) fn live(home: Arc<Home>) -> Result<Self, PgError> {
        let first = Arc::clone(&home);
        let renewed = home.driver.wait(within(TAKE_MAX, async move { members::begin(&first).await }));
        renewed.unwrap_or(Err(PgError::Closed))?;
        home.begin_to_renew();
        Ok(Self { home })
    }

    /// Which run of a node this is.
    pub fn node(&self) -> &Node {
        &self.home.node
    }

    /// How many shards the store has.
    pub fn shards(&self) -> ShardCount {
        self.home.shards()
    }

    /// By this the nodes of the store know each other.
    pub fn secret(&self) -> PeerSecret {
        self.home.founding.secret
    }

    /// Takes a shard, or says which node owns it or is handed it. A shard whose disk was dropped may be taken again.
    pub fn take(&self, shard: ShardId) -> Result<PgDisk, PgError> {
        self.home.take(shard)
    }

    /// What this node knows of the others just now.
    pub fn membership(&self) -> Membership {
        self.home.membership.borrow().clone()
    }

    /// The newest map.
    pub fn map(&self) -> Option<Arc<Map>> {
        self.home.membership.borrow().map.clone()
    }

    /// Follows what this node knows of the others: a new map twice a second, or why there is none.
    pub fn subscribe(&self) -> watch::Receiver<Membership> {
        self.home.membership.subscribe()
    }

    /// Takes this node's row away, so that no other one asks it for anything. Its shards are given up before.
    pub fn leave(&self) {
        self.home.has_left.store(true, Ordering::Release);
        let home = Arc::clone(&self.home);
        // If it fails the row is past soon.
        let _left = self.home.driver.wait(within(TENURE, async move {
            let _renewed = home.renewing.lock().await;
            let mut session = home.pool.database().connect().await?;
            session.leave(&home.node).await
        }));
    }
}
