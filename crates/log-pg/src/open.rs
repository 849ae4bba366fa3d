//! Opening a store: as a node of it, as the owner of one shard, or in wait for that.

use std::sync::Arc;
use std::time::Duration;

use kew_core::{ShardCount, ShardId};

use crate::database::{Database, within};
use crate::driver::Driver;
use crate::ending::Ending;
use crate::look::{database_with, lying_in};
use crate::map::{DatabasePlace, Founding, Node};
use crate::node::{Home, HomeParts, PgDisk, PgNode, TAKE_MAX};
use crate::postgres::{Connection, Lying, Target};
use crate::schema::{Making, Standing};
use crate::tenure::TENURE;
use crate::urls::Urls;
use crate::{PgError, schema, several, warnings};

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

/// How long those of the other databases of a store may take, while its first one is there.
const OTHERS_READY_MAX: Duration = Duration::from_secs(10);

/// The databases of a store with their tables, and what they are used by.
struct Made {
    targets: Vec<Target>,
    /// Runs what is asked of the first database.
    driver: Driver,
    standing: Standing,
    warnings: Vec<String>,
}

/// Makes the tables of the first database ready. A database that holds no store gets one, unless several are named:
/// that is made by [`create`].
fn make_ready(urls: &Urls, founding: Founding) -> Result<Made, PgError> {
    let is_one = urls.given().is_none_or(|given| given.len() == 1);
    let making = is_one.then(|| Making::only(founding));
    let driver = Driver::start()?;
    let (reached, urls) = (Target::of(urls.first())?, urls.clone());
    let made_ready = driver.wait(within(MAKE_READY_MAX, async move {
        let mut connection = reached.open().await?;
        let warnings = warnings_of(&connection, &reached).await?;
        several::must_be_of_several(&urls, &connection.client).await?;
        let standing = schema::migrate(&mut connection.client, making.as_ref()).await?;
        let place = standing.place;
        if !place.is_first() {
            return Err(PgError::NotTheFirst { place });
        }
        let warnings = warnings.into_iter().map(|warning| of_place(place, &warning)).collect();
        Ok((several::targets(&urls, &connection.client, place).await?, standing, warnings))
    }));
    let (targets, standing, warnings) = made_ready.unwrap_or(Err(PgError::Closed))?;
    Ok(Made { targets, driver, standing, warnings })
}

async fn warnings_of(connection: &Connection, target: &Target) -> Result<Vec<String>, PgError> {
    let mut warnings = warnings::of_settings(&connection.client).await?;
    warnings.extend(warnings::of_pooler(&connection.client, target).await?);
    Ok(warnings)
}

/// A line about one of several databases.
fn of_place(place: DatabasePlace, line: &str) -> String {
    if place == DatabasePlace::ONLY { line.to_owned() } else { format!("{place}: {line}") }
}

/// The homes of a node that opens a store.
struct Homes {
    each: Vec<Arc<Home>>,
    /// Which of them could be reached.
    are_there: Vec<bool>,
    warnings: Vec<String>,
}

impl Made {
    /// The node's homes, one for each database, and which of these could be reached. The others are reached later,
    /// unless all have to be there.
    fn homes(self, node: &Node, is_member: bool) -> Result<Homes, PgError> {
        let Self { targets, driver, standing: Standing { founding, place }, mut warnings } = self;
        let mut first = Some(driver);
        let each = DatabasePlace::all(place.of).zip(targets).map(|(place, target)| {
            let driver = first.take().map_or_else(Driver::start, Ok)?;
            let there = several::database(target.clone(), founding, place, false);
            let database = Arc::clone(&there.database);
            let looked = (!place.is_first()).then(|| driver.run(reach(database, target, place)));
            Ok((HomeParts { driver, reached: there, founding, place, tenure_length: TENURE }, looked))
        });
        let each = each.collect::<Result<Vec<_>, PgError>>()?;
        let (parts, reached): (Vec<HomeParts>, Vec<_>) = each.into_iter().unzip();
        let homes = Home::each(parts, node, is_member);
        let driver = &homes.first().expect("a store lies in at least one database").driver;
        // Each is reached by a thread of its own.
        let reached = driver.wait(async move {
            let mut each = Vec::new();
            for reached in reached {
                each.push(match reached {
                    Some(reached) => reached.await.unwrap_or(Err(PgError::Closed)),
                    None => Ok(Vec::new()),
                });
            }
            each
        });
        let mut are_there = Vec::new();
        for reached in reached.ok_or(PgError::Closed)? {
            are_there.push(reached.is_ok());
            match reached {
                Ok(more) => warnings.extend(more),
                Err(error) if error.may_pass() && is_member => {
                    warnings.push(format!("{error}; its queues are served by other nodes until it can"));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Homes { each: homes, are_there, warnings })
    }

    /// The only home of a node, which owns a store of one shard.
    fn home(self, node: &Node, tenure_length: Duration) -> Arc<Home> {
        let Standing { founding, place } = self.standing;
        let target = self.targets.into_iter().next().expect("a store lies in at least one database");
        let reached = several::database(target, founding, place, false);
        let parts = HomeParts { driver: self.driver, reached, founding, place, tenure_length };
        Home::new(parts, node.clone(), false, None)
    }
}

/// Makes the tables of another database than the first one ready. Answers what an operator should know of it.
async fn reach(
    database: Arc<dyn Database>,
    target: Target,
    place: DatabasePlace,
) -> Result<Vec<String>, PgError> {
    let reached = async {
        // With it the tables are ready.
        drop(database.connect().await?);
        let connection = target.open().await?;
        warnings_of(&connection, &target).await
    };
    let warnings = within(OTHERS_READY_MAX, reached).await.map_err(|error| error.of(place))?;
    Ok(warnings.iter().map(|warning| of_place(place, warning)).collect())
}

/// Makes a store. One that is there already stays as it is, and is refused if it has another number of shards.
pub fn create(urls: impl Into<Urls>, founding: Founding) -> Result<(), PgError> {
    let urls = urls.into();
    match urls.given().filter(|given| given.len() > 1) {
        Some(given) => several::create(&given, founding),
        None => {
            let shards = make_ready(&urls, founding)?.standing.founding.shards;
            if shards == founding.shards {
                Ok(())
            } else {
                Err(PgError::StoreExists { shards: shards.get() })
            }
        }
    }
}

/// Becomes a node of a store, which is made if there is none, unless it is to lie in several databases. The first of
/// these has to be there, and the others may come later.
pub fn join(urls: impl Into<Urls>, node: &Node, founding: Founding) -> Result<Joined, PgError> {
    let Homes { each, are_there, warnings } = make_ready(&urls.into(), founding)?.homes(node, true)?;
    Ok(Joined { node: PgNode::live(each, &are_there)?, warnings })
}

/// Takes the shard of a store of one now, or says which node owns it. Makes the store when there is none. The node
/// lives for as long as it holds the shard.
pub fn own(url: impl Into<Urls>, shard: ShardId, node: &Node, founding: Founding) -> Result<Ready, PgError> {
    own_unless(&url.into(), shard, (node, TENURE), founding, &Ending::default())
}

/// The same for a tenure of another length than [`TENURE`], for tests that are not about its end: a machine that stands
/// still for seconds ends no long one.
#[cfg(feature = "server")]
pub fn own_for(
    tenure_length: Duration,
    url: impl Into<Urls>,
    shard: ShardId,
    node: &Node,
    founding: Founding,
) -> Result<Ready, PgError> {
    own_unless(&url.into(), shard, (node, tenure_length), founding, &Ending::default())
}

/// Takes the shard for a tenure of this length, unless the opening is to end.
fn own_unless(
    urls: &Urls,
    shard: ShardId,
    (node, tenure_length): (&Node, Duration),
    founding: Founding,
    ending: &Ending,
) -> Result<Ready, PgError> {
    let mut made = make_ready(urls, founding)?;
    let warnings = std::mem::take(&mut made.warnings);
    let shards = made.standing.founding.shards;
    if shards != ShardCount::ONE {
        // Before anything is taken: the shard may be another node's a moment later.
        return Err(PgError::ManyShards { shards: shards.get() });
    }
    if !ending.begin() {
        return Err(PgError::Closed);
    }
    let taken = take_alone(&made.home(node, tenure_length), shard);
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
    urls: impl Into<Urls>,
    node: &Node,
    (founding, wanted): (Founding, Option<ShardCount>),
) -> Result<Vec<PgDisk>, PgError> {
    let (urls, made_with) = (urls.into(), Founding { shards: wanted.unwrap_or(founding.shards), ..founding });
    if urls.given().is_some_and(|given| given.len() > 1) && (wanted.is_some() || !is_there(&urls)?) {
        create(&urls, made_with)?;
    }
    let made = make_ready(&urls, made_with)?;
    let shards = made.standing.founding.shards;
    if wanted.is_some_and(|wanted| wanted != shards) {
        return Err(PgError::StoreExists { shards: shards.get() });
    }
    let targets = made.targets.clone();
    let homes = made.homes(node, false)?.each;
    let lying: Vec<Vec<Lying>> =
        homes.iter().zip(&targets).map(|(home, target)| lying_in(home, target)).collect::<Result<_, _>>()?;
    let mut begun = vec![false; homes.len()];
    let mut disks = Vec::new();
    for shard in shards.all() {
        let taken = database_with(lying.iter().map(|lies| &**lies), shard).and_then(|database| {
            let home = &homes[database];
            let taken = home.take(shard).map_err(|error| error.of(home.place))?;
            if !std::mem::replace(&mut begun[database], true) {
                home.begin_to_renew();
            }
            Ok(taken)
        });
        match taken {
            Ok(disk) => disks.push(disk),
            Err(error) => {
                disks.iter().for_each(PgDisk::give_up);
                return Err(error);
            }
        }
    }
    Ok(disks)
}

/// Whether the first database of a store holds one.
fn is_there(urls: &Urls) -> Result<bool, PgError> {
    let (driver, target) = (Driver::start()?, Target::of(urls.first())?);
    let looked =
        driver.wait(within(TAKE_MAX, async move { schema::has_tables(&target.open().await?.client).await }));
    looked.unwrap_or(Err(PgError::Closed))
}

/// Takes a shard as soon as no other node owns it; fails with [`PgError::Closed`] when `ending` says that this ends.
/// Errors that may pass are waited out; `waits` gets each.
pub fn wait_to_own(
    url: impl Into<Urls>,
    shard: ShardId,
    (node, founding): (&Node, Founding),
    ending: &Ending,
    mut waits: impl FnMut(Waiting<'_>),
) -> Result<Ready, PgError> {
    let url = url.into();
    loop {
        match own_unless(&url, shard, (node, TENURE), founding, ending) {
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
        // The server ends the transaction after two seconds, and the machine may stand still for five: that is before
        // taking a shard is given up.
        assert!(begun.elapsed() < TAKE_MAX, "{:?}", begun.elapsed());
        assert_eq!(second.disk.tenure().epoch(), epoch + 1);
        drop(vanished);
    }
}
