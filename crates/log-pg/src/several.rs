//! A store whose shards are spread over several databases: how it is made, and how each database is known again.
//!
//! Shard s lies in database s % n until it is moved. The first database knows where the others are, and has the names
//! of all queues. Each says which one it is, of how many, and by a mark of which store. That is looked at on every
//! connection: a URL that leads elsewhere since yesterday is an error, and no second store.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio_postgres::Client;

use crate::PgError;
use crate::database::{Asked, Database, Session, within};
use crate::driver::Driver;
use crate::map::{DatabasePlace, Founding};
use crate::postgres::{Connection, Target};
use crate::schema::{self, Making, Standing};
use crate::urls::{Urls, without_password};

/// How long making a store may take.
const MAKE_MAX: Duration = Duration::from_secs(60);

/// One database of a store that has several. A connection is a session with that one, or an error.
pub(crate) struct OneOfSeveral {
    target: Target,
    whole: Founding,
    place: DatabasePlace,
    /// Its tables are of this program's version.
    is_ready: AtomicBool,
}

impl OneOfSeveral {
    /// The database at a place of a store. Its tables are brought up to date at the first connection, unless they are
    /// only looked at.
    pub fn new(target: Target, whole: Founding, place: DatabasePlace, only_looks: bool) -> Self {
        Self { target, whole, place, is_ready: AtomicBool::new(only_looks) }
    }

    /// A connection with the database that it should be.
    pub async fn open(&self) -> Result<Connection, PgError> {
        self.open_checked().await.map_err(|error| error.of(self.place))
    }

    async fn open_checked(&self) -> Result<Connection, PgError> {
        let mut connection = self.target.open().await?;
        if !self.is_ready.load(Ordering::Acquire) {
            // Before its tables are touched.
            match There::of(&connection.client).await? {
                There::Nothing => return Err(PgError::NoStore),
                There::Older => return Err(of_one_database(self.place)),
                There::Store(standing) => is_it(&standing, &self.whole, self.place)?,
            }
            schema::migrate(&mut connection.client, None).await?;
        }
        let standing = schema::standing(&connection.client).await?;
        is_it(&standing, &self.whole, self.place)?;
        self.is_ready.store(true, Ordering::Release);
        Ok(connection)
    }
}

impl Database for OneOfSeveral {
    fn connect(&self) -> Asked<'_, Box<dyn Session>> {
        Box::pin(async move { Ok(Box::new(self.open().await?) as Box<dyn Session>) })
    }
}

/// Fails unless a database is the one at a place of a store.
fn is_it(standing: &Standing, whole: &Founding, place: DatabasePlace) -> Result<(), PgError> {
    let other = |what: String| Err(PgError::OtherDatabase { place, what });
    let found = standing.place;
    if standing.founding.secret.mark() != whole.secret.mark() {
        return other("it belongs to another store".to_owned());
    }
    if found.of != place.of {
        return other(format!("it belongs to a store of {} databases", found.of));
    }
    if found != place {
        return other(format!("it is {found} of the same store; the order of the URLs counts"));
    }
    if standing.founding.shards != whole.shards {
        return other(format!("its store has {} shards", standing.founding.shards.get()));
    }
    Ok(())
}

/// What a database holds before anything is done to it.
enum There {
    Nothing,
    /// A store of a version before several databases.
    Older,
    Store(Standing),
}

impl There {
    async fn of(client: &Client) -> Result<Self, PgError> {
        if !schema::has_tables(client).await? {
            return Ok(Self::Nothing);
        }
        if !schema::tells_databases(client).await? {
            return Ok(Self::Older);
        }
        schema::standing(client).await.map(Self::Store)
    }
}

fn of_one_database(place: DatabasePlace) -> PgError {
    PgError::OtherDatabase { place, what: "it holds a store of one database".to_owned() }
}

/// Refuses a store of a version before several databases where several are named, before it is brought up to date.
pub(crate) async fn must_be_of_several(urls: &Urls, client: &Client) -> Result<(), PgError> {
    let given = urls.given().map_or(1, |given| given.len());
    if given > 1 && schema::has_tables(client).await? && !schema::tells_databases(client).await? {
        return Err(PgError::OtherNumber { given, of: 1 });
    }
    Ok(())
}

/// Where the databases of a store are: as they are given, or as the first one says. It has no list where the store lies
/// in one database.
pub(crate) async fn targets(
    urls: &Urls,
    client: &Client,
    place: DatabasePlace,
) -> Result<Vec<Target>, PgError> {
    let of = usize::from(place.of);
    let is_it =
        |given: usize| if given == of { Ok(()) } else { Err(PgError::OtherNumber { given, of: place.of }) };
    if let Some(given) = urls.given() {
        is_it(given.len())?;
        return all(&given);
    }
    if place == DatabasePlace::ONLY {
        return all(&[urls.first()]);
    }
    let mut listed = schema::urls(client).await?;
    is_it(listed.len())?;
    if let Some(first) = listed.first_mut() {
        // It leads there as it is, with its password.
        urls.first().clone_into(first);
    }
    all(&listed.iter().map(String::as_str).collect::<Vec<_>>())
}

/// The databases of these URLs. A user who has a password in the first one has it in the others too, unless they say
/// another one.
fn all(urls: &[&str]) -> Result<Vec<Target>, PgError> {
    let first = urls.first().copied().unwrap_or_default();
    let of = u16::try_from(urls.len()).unwrap_or(u16::MAX);
    let each = DatabasePlace::all(of).zip(urls);
    each.map(|(place, url)| Target::like(url, first).map_err(|error| error.of(place))).collect()
}

/// Makes a store in several databases. One that is there in part is made whole, and one that is there stays as it is,
/// with these URLs in its list. A database that holds anything else is refused before anything is changed.
pub(crate) fn create(urls: &[&str], founding: Founding) -> Result<(), PgError> {
    let (shards, databases) = (founding.shards.get(), urls.len());
    let of = u16::try_from(databases).ok().filter(|of| *of <= shards);
    let of = of.ok_or(PgError::TooFewShards { shards, databases })?;
    let targets: Vec<_> = DatabasePlace::all(of).zip(all(urls)?).collect();
    let shown: Vec<String> = urls.iter().map(|url| without_password(url)).collect();
    let driver = Driver::start()?;
    let made = driver.wait(within(MAKE_MAX, async move { make(targets, founding, shown).await }));
    made.unwrap_or(Err(PgError::Closed))
}

async fn make(
    targets: Vec<(DatabasePlace, Target)>,
    founding: Founding,
    urls: Vec<String>,
) -> Result<(), PgError> {
    let mut there = Vec::new();
    for (place, target) in targets {
        let look = async {
            let connection = target.open().await?;
            let there = There::of(&connection.client).await?;
            Ok((connection, there))
        };
        let (connection, found) = look.await.map_err(|error: PgError| error.of(place))?;
        there.push((place, connection, found));
    }
    let begun = there.iter().find_map(|(place, _, found)| match found {
        There::Store(standing) if standing.place.of == place.of => Some(standing.founding),
        _ => None,
    });
    // One that was cut short goes on with the secret that it began with.
    let founding = match begun {
        Some(begun) if begun.shards != founding.shards => {
            return Err(PgError::StoreExists { shards: begun.shards.get() });
        }
        Some(begun) => begun,
        None => founding,
    };
    for (place, _, found) in &there {
        match found {
            There::Nothing => {}
            There::Older => return Err(of_one_database(*place)),
            There::Store(standing) if standing.place == DatabasePlace::ONLY => {
                return Err(of_one_database(*place));
            }
            There::Store(standing) => is_it(standing, &founding, *place)?,
        }
    }
    are_different(&there, &founding).await?;
    // The first database is made last: nodes look for the store in it, and find none before.
    for (place, mut connection, _) in there.into_iter().rev() {
        let urls = if place.is_first() { urls.clone() } else { Vec::new() };
        let making = Making { founding, place, urls };
        let made = async {
            let standing = schema::migrate(&mut connection.client, Some(&making)).await?;
            // Somebody else may have made another one meanwhile.
            is_it(&standing, &founding, place)?;
            schema::note_urls(&connection.client, &making.urls).await
        };
        made.await.map_err(|error| error.of(place))?;
    }
    Ok(())
}

/// Fails where two URLs lead to the same database: a lock that is held in it is seen over the other one too.
async fn are_different(
    there: &[(DatabasePlace, Connection, There)],
    founding: &Founding,
) -> Result<(), PgError> {
    // Unlike that of another store.
    let key = founding.secret.mark().first_chunk().copied().map_or(0, i64::from_be_bytes);
    let mut others = there.iter();
    while let Some((earlier, connection, _)) = others.next() {
        let holds = Holds::of(&connection.client, key).await.map_err(|error| error.of(*earlier))?;
        for (place, connection, _) in others.clone() {
            let is_free = Holds::is_free(&connection.client, key).await;
            if !is_free.map_err(|error| error.of(*place))? {
                let what = format!("it is the same as {earlier}");
                return Err(PgError::OtherDatabase { place: *place, what });
            }
        }
        holds.end().await.map_err(|error| error.of(*earlier))?;
    }
    Ok(())
}

/// A lock of a database, held in a transaction: a pooler gives the same session for as long as that lasts.
struct Holds<'a>(&'a Client);

impl<'a> Holds<'a> {
    async fn of(client: &'a Client, key: i64) -> Result<Self, PgError> {
        client.batch_execute(&format!("BEGIN; SELECT pg_advisory_xact_lock({key})")).await?;
        Ok(Self(client))
    }

    async fn is_free(client: &Client, key: i64) -> Result<bool, PgError> {
        let text = format!("SELECT pg_try_advisory_xact_lock({key})");
        Ok(client.query_one(&text, &[]).await?.get(0))
    }

    async fn end(self) -> Result<(), PgError> {
        Ok(self.0.batch_execute("COMMIT").await?)
    }
}

/// The database of a store as a node reaches it.
pub(crate) struct Reached {
    pub database: Arc<dyn Database>,
    /// The same, if it is one of several: a shard may be moved from it to another one.
    pub several: Option<Arc<OneOfSeveral>>,
}

/// The database of a store that has one as its client reaches it, or one of several.
pub(crate) fn database(target: Target, whole: Founding, place: DatabasePlace, only_looks: bool) -> Reached {
    if place == DatabasePlace::ONLY {
        return Reached { database: Arc::new(target), several: None };
    }
    let one = Arc::new(OneOfSeveral::new(target, whole, place, only_looks));
    Reached { database: Arc::clone(&one) as _, several: Some(one) }
}
