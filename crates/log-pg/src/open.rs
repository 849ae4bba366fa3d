//! Opening a store: as a node of it, as the owner of one shard, in wait for that, or only to look.

use std::sync::Arc;
use std::time::Duration;

use kew_core::{ShardCount, ShardId};

use crate::driver::Driver;
use crate::ending::Ending;
use crate::map::{Founding, Node};
use crate::node::{Home, PgDisk, PgNode, TAKE_MAX, within};
use crate::postgres::Target;
use crate::tenure::Tenure;
use crate::{PgError, postgres, schema, warnings};

/// How often a node that waits looks whether the owner has gone.
const LOOK_PAUSE: Duration = Duration::from_millis(250);

/// How long making the tables ready may take.
const MAKE_READY_MAX: Duration = Duration::from_secs(60);

/// A log that this node owns.
pub struct Ready {
    /// Its files.
    pub disk: PgDisk,
    /// What an operator should know of the database.
    pub warnings: Vec<String>,
}

/// A node of a store.
pub struct Joined {
    /// The node. It has no shard yet.
    pub node: PgNode,
    /// What an operator should know of the database.
    pub warnings: Vec<String>,
}

/// What a node that waits for a shard says from time to time.
pub enum Waiting<'a> {
    /// Another node owns it.
    For(&'a str),
    /// The database cannot be used just now.
    Failing(&'a PgError),
}

/// A name for this run of a node, unlike that of any other.
pub fn node_id(name: &str, random: u128) -> String {
    format!("{name}/{random:032x}")
}

/// A database with its tables, and what it is used by.
struct Made {
    target: Target,
    driver: Driver,
    founding: Founding,
    warnings: Vec<String>,
}

/// Makes the tables ready. A database that holds no store gets one.
fn make_ready(url: &str, founding: Founding) -> Result<Made, PgError> {
    let target = Target::of(url)?;
    let driver = Driver::start()?;
    let reached = target.clone();
    let made_ready = driver.wait(within(MAKE_READY_MAX, async move {
        let mut connection = reached.open().await?;
        let mut warnings = warnings::of_settings(&connection.client).await?;
        warnings.extend(warnings::of_pooler(&connection.client, &reached).await?);
        let founding = schema::migrate(&mut connection.client, founding).await?;
        Ok((founding, warnings))
    }));
    let (founding, warnings) = made_ready.unwrap_or(Err(PgError::Closed))?;
    Ok(Made { target, driver, founding, warnings })
}

impl Made {
    fn home(self, node: &Node, is_member: bool) -> Arc<Home> {
        Home::new(self.driver, Arc::new(self.target), node.clone(), self.founding, is_member)
    }
}

/// Makes a store. One that is there already stays as it is, and is refused if it has another number of shards.
pub fn create(url: &str, founding: Founding) -> Result<(), PgError> {
    let shards = make_ready(url, founding)?.founding.shards;
    if shards == founding.shards { Ok(()) } else { Err(PgError::StoreExists { shards: shards.get() }) }
}

/// Becomes a node of a store, which is made if there is none.
pub fn join(url: &str, node: &Node, founding: Founding) -> Result<Joined, PgError> {
    let mut made = make_ready(url, founding)?;
    let warnings = std::mem::take(&mut made.warnings);
    Ok(Joined { node: PgNode::live(made.home(node, true))?, warnings })
}

/// Takes the shard of a store of one now, or says which node owns it. Makes the store when there is none. The node
/// lives for as long as it holds the shard.
pub fn own(url: &str, shard: ShardId, node: &Node, founding: Founding) -> Result<Ready, PgError> {
    own_unless(url, shard, node, founding, &Ending::default())
}

/// The same, unless the opening is to end.
fn own_unless(
    url: &str,
    shard: ShardId,
    node: &Node,
    founding: Founding,
    ending: &Ending,
) -> Result<Ready, PgError> {
    let mut made = make_ready(url, founding)?;
    let warnings = std::mem::take(&mut made.warnings);
    if made.founding.shards != ShardCount::ONE {
        // Before anything is taken: the shard may be another node's a moment later.
        return Err(PgError::ManyShards { shards: made.founding.shards.get() });
    }
    if !ending.begin() {
        return Err(PgError::Closed);
    }
    let taken = take_alone(&made.home(node, false), shard);
    ending.tried(taken.as_ref().ok());
    Ok(Ready { disk: taken?, warnings })
}

/// Takes one shard for a node that lives for as long as it holds it.
pub(crate) fn take_alone(home: &Arc<Home>, shard: ShardId) -> Result<PgDisk, PgError> {
    let disk = home.take(shard)?;
    home.begin_to_renew();
    Ok(disk)
}

/// Takes all shards of a store now, or says which node owns one. Makes the store when there is none; one that is there
/// is refused if it has another number of shards than is wanted.
pub fn own_all(
    url: &str,
    node: &Node,
    (founding, wanted): (Founding, Option<ShardCount>),
) -> Result<Vec<PgDisk>, PgError> {
    let made = make_ready(url, Founding { shards: wanted.unwrap_or(founding.shards), ..founding })?;
    let shards = made.founding.shards;
    if wanted.is_some_and(|wanted| wanted != shards) {
        return Err(PgError::StoreExists { shards: shards.get() });
    }
    let home = made.home(node, false);
    let mut disks = Vec::new();
    for shard in shards.all() {
        match home.take(shard) {
            Ok(disk) => disks.push(disk),
            Err(error) => {
                disks.iter().for_each(PgDisk::give_up);
                return Err(error);
            }
        }
        if disks.len() == 1 {
            home.begin_to_renew();
        }
    }
    Ok(disks)
}

/// Takes a shard as soon as no other node owns it; fails with [`PgError::Closed`] when `ending` says that this ends.
/// Errors that may pass are waited out; `waits` gets each.
pub fn wait_to_own(
    url: &str,
    shard: ShardId,
    (node, founding): (&Node, Founding),
    ending: &Ending,
    mut waits: impl FnMut(Waiting<'_>),
) -> Result<Ready, PgError> {
    loop {
        match own_unless(url, shard, node, founding, ending) {
            Ok(ready) => return Ok(ready),
            Err(PgError::Owned { node, .. }) => waits(Waiting::For(&node)),
            // Another node has taken it a moment after this one.
            Err(error) if error.may_pass() || matches!(error, PgError::Fenced { .. }) => {
                waits(Waiting::Failing(&error));
            }
            Err(error) => return Err(error),
        }
        std::thread::sleep(LOOK_PAUSE);
    }
}

/// Opens the files of a shard that no node owns to look at them.
pub fn look(url: &str, shard: ShardId) -> Result<PgDisk, PgError> {
    Look::open(url)?.disk(shard)
}

/// A store that is looked at: no node serves it.
pub struct Look {
    home: Arc<Home>,
    target: Target,
    /// The epoch of each shard at the beginning.
    epochs: Vec<i64>,
}

impl Look {
    /// Begins to look at a store.
    pub fn open(url: &str) -> Result<Self, PgError> {
        let target = Target::of(url)?;
        let driver = Driver::start()?;
        let reached = target.clone();
        let looked = driver.wait(within(TAKE_MAX, async move {
            let connection = reached.open().await?;
            schema::verify(&connection.client).await?;
            let epochs = postgres::epochs(&connection.client).await?;
            Ok((schema::founding(&connection.client).await?, epochs))
        }));
        let (founding, epochs) = looked.unwrap_or(Err(PgError::Closed))?;
        let database = Arc::new(target.clone());
        let home = Home::new(driver, database, Node::alone("", ""), founding, false);
        Ok(Self { home, target, epochs })
    }

    /// How many shards the store has.
    pub fn shards(&self) -> ShardCount {
        self.home.shards()
    }

    /// The files of a shard that no node owns.
    pub fn disk(&self, shard: ShardId) -> Result<PgDisk, PgError> {
        let number = self.home.number(shard)?;
        let (home, steady) = (Arc::clone(&self.home), self.home.driver.steady());
        let looked = self.home.driver.wait(within(TAKE_MAX, async move {
            let mut session = home.pool.database().connect().await?;
            Tenure::look(&mut *session, number, steady).await
        }));
        let tenure = looked.unwrap_or(Err(PgError::Closed))?;
        Ok(PgDisk::new(Arc::clone(&self.home), Arc::new(tenure)))
    }

    /// Fails when a node has taken a shard since the beginning: what was read of several shards is of no one moment.
    pub fn end(self) -> Result<(), PgError> {
        let target = self.target;
        let looked = self
            .home
            .driver
            .wait(within(TAKE_MAX, async move { postgres::epochs(&target.open().await?.client).await }));
        let epochs = looked.unwrap_or(Err(PgError::Closed))?;
        let is_other = |(_, (before, now)): &(ShardId, (&i64, &i64))| before != now;
        let mut shards = self.home.shards().all().zip(self.epochs.iter().zip(&epochs));
        shards.find(is_other).map_or(Ok(()), |(shard, _)| Err(PgError::TakenMeanwhile { shard }))
    }
}

#[cfg(all(test, feature = "server"))]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::map::PeerSecret;
    use crate::server::PgServer;

    fn first_shard(url: &str, name: &str) -> Result<Ready, PgError> {
        let founding = Founding::usual(PeerSecret([7; 32]));
        own(url, ShardId(0), &Node::alone(&node_id(name, 1), name), founding)
    }

    #[test]
    fn owner_that_vanished_within_a_transaction_keeps_no_other_from_taking_over() {
        let server = PgServer::start(&["fsync=off"]).unwrap();
        let url = server.database().unwrap();
        let first = first_shard(&url, "first").unwrap();
        let epoch = first.disk.tenure().epoch();
        first.disk.give_up();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        // A change of files whose client is cut off behind the first of its statements.
        let vanished = runtime.block_on(async {
            let connection = Target::of(&url).unwrap().open().await.unwrap();
            connection.client.batch_execute("BEGIN").await.unwrap();
            let lock = "SELECT epoch FROM kew_shard WHERE id = 0 FOR SHARE";
            connection.client.query_one(lock, &[]).await.unwrap();
            connection
        });
        let begun = Instant::now();
        let second = first_shard(&url, "second").unwrap();
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
        assert_eq!(second.disk.tenure().epoch(), epoch + 1);
        drop(vanished);
    }
}
