//! A node of a store: one thread of tasks, one pool of connections, and the shards it holds.
//!
//! A node takes shards and gives them up; each that it holds is a [`PgDisk`] with a tenure and lanes of its own. What
//! its shards share is here. `members.rs` renews them all with one statement.
//!
//! A store may lie in several databases. Then a node has a home in each: its row, its pool, its renewal and its shards
//! there, on a thread of their own. What one database does holds no other up. Names of queues are in the first one.
//!
//! Connections of a home that holds k shards: two for each shard's journal, and one more for each whose upkeep has
//! written within the last half minute; up to four for reads and files; one that renews; three more while shards are
//! taken and given up. So they are 3k + 8 at most, and about 2k + 2 when little happens.

mod arrivals;
mod files;
mod members;
mod moving;
mod names;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kew_core::{ShardCount, ShardId};
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore, watch};

use crate::PgError;
use crate::database::{Own, within};
use crate::driver::Driver;
use crate::map::{DatabasePlace, Founding, Map, Membership, Node, PeerSecret, first_database_of};
use crate::pool::Pool;
use crate::several::{OneOfSeveral, Reached};
use crate::tenure::{TENURE, Tenure};

use files::{Shared, WeakDisk};

pub use files::{PgDisk, Undropped};
pub use moving::{IsWanted, PgMove};
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
    /// One for each database, in the order of their numbers.
    homes: Arc<[Arc<Home>]>,
}

/// What the shards of one node share that lie in one database.
pub(crate) struct Home {
    pub driver: Driver,
    pub pool: Arc<Pool>,
    /// Its database, if that is one of several.
    pub several: Option<Arc<OneOfSeveral>>,
    pub node: Node,
    pub founding: Founding,
    pub place: DatabasePlace,
    /// How long it lives, and holds its shards, from a renewal on.
    pub tenure_length: Duration,
    /// Where the names of queues are, if that is another database.
    first: Option<Arc<Home>>,
    /// It lives without a shard too. Otherwise it has gone when it holds none.
    pub is_member: bool,
    has_left: AtomicBool,
    /// Held while the node's row is renewed: a renewal under way would bring the row back that leaving takes away.
    pub renewing: tokio::sync::Mutex<()>,
    held: Mutex<Held>,
    pub membership: watch::Sender<Membership>,
    /// Rings when the map has changed and is to be read at once.
    pub renews_soon: Arc<Notify>,
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

/// What a home is made of.
pub(crate) struct HomeParts {
    pub driver: Driver,
    pub reached: Reached,
    pub founding: Founding,
    pub place: DatabasePlace,
    pub tenure_length: Duration,
}

impl Home {
    /// A home of a node; `first` is its home in the first database, if this is another one.
    pub fn new(parts: HomeParts, node: Node, is_member: bool, first: Option<Arc<Self>>) -> Arc<Self> {
        let HomeParts { driver, reached: Reached { database, several }, founding, place, tenure_length } =
            parts;
        Arc::new(Self {
            driver,
            pool: Arc::new(Pool::new(database)),
            several,
            node,
            founding,
            place,
            tenure_length,
            first,
            is_member,
            has_left: AtomicBool::new(false),
            renewing: tokio::sync::Mutex::default(),
            held: Mutex::default(),
            membership: watch::Sender::new(Membership::default()),
            renews_soon: Arc::default(),
            takes: Semaphore::new(TAKES),
            givings_up: Semaphore::new(GIVINGS_UP),
        })
    }

    pub fn shards(&self) -> ShardCount {
        self.founding.shards
    }

    /// The homes of a node, one for each database.
    pub fn each(parts: impl IntoIterator<Item = HomeParts>, node: &Node, is_member: bool) -> Vec<Arc<Self>> {
        let mut homes: Vec<Arc<Self>> = Vec::new();
        for parts in parts {
            let first = homes.first().cloned();
            homes.push(Self::new(parts, node.clone(), is_member, first));
        }
        homes
    }

    /// The number of a shard in the tables, if the store has it.
    pub fn number(&self, shard: ShardId) -> Result<i32, PgError> {
        let shards = self.shards().get();
        if shard.0 < shards { Ok(shard.0.into()) } else { Err(PgError::NoShard { shard, shards }) }
    }

    /// The home in the database that has the names of all queues.
    pub fn of_names(self: &Arc<Self>) -> &Arc<Self> {
        self.first.as_ref().unwrap_or(self)
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
        let by = (&self.node, self.tenure_length);
        let tenure = Tenure::take(&mut *session, number, by, self.driver.steady()).await?;
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
        let in_hand = self.close_in_hand(disk, "this node has given its shard up");
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

    /// Ends a hold without giving the shard up: the answer keeps a renewal from doing that.
    fn close_in_hand(&self, disk: &Shared, why: &str) -> InHand<'_> {
        let shard = disk.tenure.shard;
        self.held.lock().in_hand.push(shard);
        disk.tenure.close();
        disk.refuse_all(why);
        InHand(self, shard)
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
    /// A node that lives from now on in its first database: its row is there, and it has read the map. So it is in the
    /// others that `are_there`; in one that cannot be reached it lives as soon as it can be.
    pub(crate) fn live(homes: Vec<Arc<Home>>, are_there: &[bool]) -> Result<Self, PgError> {
        let node = Self { homes: homes.into() };
        let begin = |(home, is_there): (&Arc<Home>, &bool)| {
            let first = Arc::clone(home);
            is_there.then(|| home.driver.run(within(TAKE_MAX, async move { members::begin(&first).await })))
        };
        let begun: Vec<_> = node.homes.iter().zip(are_there).map(begin).collect();
        let first = node.first();
        let lives = first.driver.wait(async move {
            let mut lives = Err(PgError::Closed);
            for (at, begun) in begun.into_iter().enumerate() {
                let Some(begun) = begun else { continue };
                let ended = begun.await.unwrap_or(Err(PgError::Closed));
                if at == 0 {
                    lives = ended;
                }
            }
            lives
        });
        lives.unwrap_or(Err(PgError::Closed)).map_err(|error| error.of(first.place))?;
        node.homes.iter().for_each(Home::begin_to_renew);
        if node.homes.len() > 1 {
            for (own, home) in node.homes.iter().enumerate() {
                home.driver.spawn(arrivals::watch(Arc::downgrade(&node.homes), own));
            }
        }
        Ok(node)
    }

    fn first(&self) -> &Arc<Home> {
        self.homes.first().expect("a store lies in at least one database")
    }

    /// The home in a database, by its number.
    fn home(&self, database: u16) -> &Arc<Home> {
        self.homes.get(usize::from(database)).unwrap_or_else(|| self.first())
    }

    /// Which run of a node this is.
    pub fn node(&self) -> &Node {
        &self.first().node
    }

    /// How many shards the store has.
    pub fn shards(&self) -> ShardCount {
        self.first().shards()
    }

    /// In how many databases the store lies.
    pub fn databases(&self) -> u16 {
        self.first().place.of
    }

    /// The home in the database that a shard lies in, or is about to, as far as this node knows.
    fn home_of(&self, shard: ShardId) -> &Arc<Home> {
        let known = |home: &Home| {
            let map = home.membership.borrow().map.clone()?;
            let lies = map.shard(shard).map(|row| (row.moves, home.place.number));
            let moved = map.moved().find(|(moved, ..)| *moved == shard);
            lies.or(moved.map(|(_, moves, to)| (moves + 1, to)))
        };
        let newest = self.homes.iter().filter_map(|home| known(home)).max();
        let first = || first_database_of(shard, self.databases());
        self.home(newest.map_or_else(first, |(_, database)| database))
    }

    /// Whether a shard was ever moved to the database that it lies in.
    pub fn was_moved(&self, shard: ShardId) -> bool {
        let map = self.home_of(shard).membership.borrow().map.clone();
        map.and_then(|map| map.shard(shard).map(|row| row.moves > 0)).unwrap_or(true)
    }

    /// The number of the database that a shard lies in, from 0.
    pub fn database_of(&self, shard: ShardId) -> u16 {
        self.home_of(shard).place.number
    }

    /// The number of the database that an operator wants a shard to be moved to, from 0.
    pub fn wanted_in(&self, shard: ShardId) -> Option<u16> {
        self.home_of(shard).membership.borrow().map.as_ref()?.shard(shard)?.wanted_in
    }

    /// By this the nodes of the store know each other.
    pub fn secret(&self) -> PeerSecret {
        self.first().founding.secret
    }

    /// Takes a shard, or says which node owns it or is handed it. A shard whose disk was dropped may be taken again.
    pub fn take(&self, shard: ShardId) -> Result<PgDisk, PgError> {
        let home = self.home_of(shard);
        home.take(shard).map_err(|error| error.of(home.place))
    }

    /// What this node knows just now of the others by one database.
    pub fn membership(&self, database: u16) -> Membership {
        self.home(database).membership.borrow().clone()
    }

    /// The newest map of one database.
    pub fn map(&self, database: u16) -> Option<Arc<Map>> {
        self.home(database).membership.borrow().map.clone()
    }

    /// Follows what this node knows of the others by one database: a new map twice a second, or why there is none.
    pub fn subscribe(&self, database: u16) -> watch::Receiver<Membership> {
        self.home(database).membership.subscribe()
    }

    /// Takes this node's rows away, so that no other one asks it for anything. Its shards are given up before.
    pub fn leave(&self) {
        // One that cannot be reached keeps no other waiting.
        let leaving: Vec<_> = self.homes.iter().map(Home::leave).collect();
        let _left = self.first().driver.wait(async move {
            for left in leaving {
                left.await;
            }
        });
    }
}

impl Home {
    /// Takes the node's row away.
    fn leave(self: &Arc<Self>) -> impl Future<Output = ()> + Send + use<> {
        self.has_left.store(true, Ordering::Release);
        let home = Arc::clone(self);
        let left = self.driver.run(within(TENURE, async move {
            let _renewed = home.renewing.lock().await;
            let mut session = home.pool.database().connect().await?;
            session.leave(&home.node).await
        }));
        async move {
            // If it fails the row is past soon.
            let _left = left.await;
        }
    }
}
