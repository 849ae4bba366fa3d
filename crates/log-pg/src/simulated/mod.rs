//! A simulated database and the machines of its nodes, for tests: a seed decides what happens.
//!
//! Everything runs on the thread of the test. Time is virtual: it passes only while something is waited for, and then
//! leaps to the next instant at which something happens. So one seed repeats one history.
//!
//! The database (`database.rs`) keeps what PostgreSQL would: tables, row locks, commits that are synchronous or not, a
//! standby that has received a part of them. Its faults (`faults.rs`) cut connections before, during and after a
//! statement, restart the server, fail over to the standby, and are slow.

mod database;
mod faults;
mod locks;
mod names;
mod session;
mod switches;
mod tables;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::EnterGuard;
use tokio::task::AbortHandle;

use kew_core::{ShardCount, ShardId};

use crate::driver::Driver;
use crate::machine::Room;
use crate::map::{DatabasePlace, Founding, Node, PeerSecret};
use crate::node::{Home, HomeParts, PgNode};
use crate::several::Reached;
use crate::tenure::TENURE;
use crate::{PgDisk, PgError, open};

pub use crate::machine::{Machine, Power};
pub use database::{Photograph, SimDatabase};
pub use faults::{AtAppends, Fault, Hanging, Rates};

/// A task that waits for another one that is ready goes on within this many turns.
const TURNS: usize = 8;

/// A simulated database, virtual time, and the nodes that share both.
pub struct World {
    room: Arc<Room>,
    database: SimDatabase,
    shards: ShardCount,
    /// Bytes of a row that is sent beside another.
    large_row: u64,
}

impl World {
    /// A world whose chance comes from a seed, with a store of one shard.
    pub fn new(seed: u64, rates: Rates) -> Self {
        Self::of_shards(seed, rates, ShardCount::ONE)
    }

    /// The same with a store of many shards.
    pub fn of_shards(seed: u64, rates: Rates, shards: ShardCount) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime without input and output needs nothing of the system");
        let database = {
            let _inside = runtime.enter();
            SimDatabase::new(seed, rates, (shards.get(), DatabasePlace::ONLY))
        };
        Self { room: Arc::new(Room::new(runtime)), database, shards, large_row: 0 }
    }

    /// Nodes send a row beside another if it has this many bytes, and else wait for the other. Without this they wait
    /// for none: what goes wrong between two rows shows most often then.
    #[must_use]
    pub fn with_large_rows_from(self, bytes: u64) -> Self {
        Self { large_row: bytes, ..self }
    }

    /// This thread reads the world's clock until the answer is dropped.
    pub fn enter(&self) -> EnterGuard<'_> {
        self.room.runtime.enter()
    }

    /// The database.
    pub fn database(&self) -> &SimDatabase {
        &self.database
    }

    /// Lets time pass.
    pub fn pass(&self, time: Duration) {
        self.room.wait(tokio::time::sleep(time), None);
    }

    /// Lets tasks go on that can without any time passing.
    pub fn settle(&self) {
        // What stores hear wakes tasks again.
        for _ in 0..TURNS {
            let turns = async {
                for _ in 0..TURNS {
                    tokio::task::yield_now().await;
                }
            };
            self.room.wait(turns, None);
        }
    }

    /// Runs a task on the machine of a node; it ends with the answer.
    pub fn spawn(&self, power: &Power, task: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        self.room.runtime.spawn(power.run(task)).abort_handle()
    }

    /// Waits for a task. Time passes meanwhile.
    pub fn wait<T>(&self, task: impl Future<Output = T>) -> T {
        self.room.wait(task, None)
    }

    /// A node takes the first shard, or learns why it cannot. The answer can be stopped and continued.
    pub fn own(&self, name: &str) -> Result<(PgDisk, Power), PgError> {
        let (home, power) = self.home(name, false);
        Ok((open::take_alone(&home, ShardId(0))?, power))
    }

    /// A node of the store, that has no shard yet.
    pub fn join(&self, name: &str) -> Result<(PgNode, Power), PgError> {
        let (home, power) = self.home(name, true);
        Ok((PgNode::live(vec![home], &[true])?, power))
    }

    fn home(&self, name: &str, is_member: bool) -> (Arc<Home>, Power) {
        let machine = Machine::new(Arc::clone(&self.room), self.large_row);
        let power = machine.power();
        let node = Node { peer: Some(format!("{name}:9400")), ..Node::alone(name, name) };
        let founding = Founding { shards: self.shards, secret: PeerSecret([7; 32]) };
        let reached = Reached { database: Arc::new(self.database.clone()), several: None };
        let (driver, place) = (Driver::simulated(machine), DatabasePlace::ONLY);
        let parts = HomeParts { driver, reached, founding, place, tenure_length: TENURE };
        (Home::new(parts, node, is_member, None), power)
    }
}
