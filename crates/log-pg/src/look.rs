//! Opening a store only to look at it: nothing is written, and no shard is owned.

use std::sync::Arc;

use kew_core::{ShardCount, ShardId};

use crate::database::within;
use crate::driver::Driver;
use crate::map::{DatabasePlace, Node};
use crate::node::{Home, HomeParts, PgDisk, TAKE_MAX};
use crate::postgres::{Lying, Target, lying};
use crate::schema::Standing;
use crate::tenure::{TENURE, Tenure};
use crate::urls::Urls;
use crate::{PgError, schema, several};

/// Opens the files of a shard that no node owns to look at them.
pub fn look(urls: impl Into<Urls>, shard: ShardId) -> Result<PgDisk, PgError> {
    Look::open(urls)?.disk(shard)
}

/// A store that is looked at: no node serves it.
pub struct Look {
    /// One for each database, with the shards that lay in it at the beginning.
    each: Vec<LookedAt>,
}

/// One of the databases.
struct LookedAt {
    home: Arc<Home>,
    target: Target,
    lying: Vec<Lying>,
}

impl Look {
    /// Begins to look at a store.
    pub fn open(urls: impl Into<Urls>) -> Result<Self, PgError> {
        let (urls, driver) = (urls.into(), Driver::start()?);
        let reached = Target::of(urls.first())?;
        let looked = driver.wait(within(TAKE_MAX, async move {
            let connection = reached.open().await?;
            schema::verify(&connection.client).await?;
            let standing = schema::standing(&connection.client).await?;
            let place = standing.place;
            if !place.is_first() {
                return Err(PgError::NotTheFirst { place });
            }
            Ok((several::targets(&urls, &connection.client, place).await?, standing))
        }));
        let (targets, Standing { founding, place }) = looked.unwrap_or(Err(PgError::Closed))?;
        let places = DatabasePlace::all(place.of);
        let parts = places.zip(&targets).map(|(place, target)| {
            let reached = several::database(target.clone(), founding, place, true);
            Ok(HomeParts { driver: Driver::start()?, reached, founding, place, tenure_length: TENURE })
        });
        let parts = parts.collect::<Result<Vec<_>, PgError>>()?;
        let homes = Home::each(parts, &Node::alone("", ""), false);
        let looked_at = |(home, target): (Arc<Home>, Target)| {
            let lying = lying_in(&home, &target)?;
            Ok(LookedAt { home, target, lying })
        };
        Ok(Self { each: homes.into_iter().zip(targets).map(looked_at).collect::<Result<_, PgError>>()? })
    }

    /// How many shards the store has.
    pub fn shards(&self) -> ShardCount {
        self.each.first().map_or(ShardCount::ONE, |first| first.home.shards())
    }

    /// The files of a shard that no node owns.
    pub fn disk(&self, shard: ShardId) -> Result<PgDisk, PgError> {
        let number = self.each.first().ok_or(PgError::NoStore)?.home.number(shard)?;
        let lies = database_with(self.each.iter().map(|each| &*each.lying), shard)?;
        let home = &self.each[lies].home;
        let (looks, steady) = (Arc::clone(home), home.driver.steady());
        let looked = home.driver.wait(within(TAKE_MAX, async move {
            let mut session = looks.pool.database().connect().await?;
            Tenure::look(&mut *session, number, steady).await
        }));
        let tenure = looked.unwrap_or(Err(PgError::Closed)).map_err(|error| error.of(home.place))?;
        Ok(PgDisk::new(Arc::clone(home), Arc::new(tenure)))
    }

    /// Fails when a node has taken a shard since the beginning: what was read of several shards is of no one moment.
    pub fn end(self) -> Result<(), PgError> {
        for LookedAt { home, target, lying: before } in self.each {
            let now = lying_in(&home, &target)?;
            if let Some(lies) = before.iter().find(|lies| !now.contains(lies)) {
                return Err(PgError::TakenMeanwhile { shard: lies.shard });
            }
        }
        Ok(())
    }
}

/// The shards that lie in a database, in order; fails where it is another database than it should be.
pub(crate) fn lying_in(home: &Arc<Home>, target: &Target) -> Result<Vec<Lying>, PgError> {
    let (looks, target) = (Arc::clone(home), target.clone());
    let lies = home.driver.wait(within(TAKE_MAX, async move {
        drop(looks.pool.database().connect().await?);
        lying(&target.open().await?.client).await
    }));
    lies.unwrap_or(Err(PgError::Closed)).map_err(|error| error.of(home.place))
}

/// The number of the database that a shard lies in, by the shards that lie in each.
pub(crate) fn database_with<'a>(
    each: impl Iterator<Item = &'a [Lying]>,
    shard: ShardId,
) -> Result<usize, PgError> {
    let found = each.enumerate().filter_map(|(database, lying)| {
        let lies = lying.iter().find(|lies| lies.shard == shard)?;
        Some((lies.moves, database))
    });
    found.max().map(|(_, database)| database).ok_or(PgError::BetweenDatabases { shard })
}
