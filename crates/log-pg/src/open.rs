//! Opening a shard's log: as its owner, in wait for it, or only to look.

use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::Client;

use crate::files::{PgDisk, Shared};
use crate::pool::{Connection, Driver, Pool, Target, target};
use crate::tenure::{RENEWAL, TENURE, Tenure};
use crate::{PgError, schema};

/// The only shard of a store so far.
const SHARD: i32 = 0;
/// How often a node that waits looks whether the owner has gone.
const LOOK_PAUSE: Duration = Duration::from_millis(250);
/// The oldest PostgreSQL that is tested.
const OLDEST: i32 = 150_000;

/// A log that this node owns.
pub struct Ready {
    /// Its files.
    pub disk: PgDisk,
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

/// Takes the shard now, or says who owns it. Makes the tables when there are none.
pub fn own(url: &str, name: &str, id: &str) -> Result<Ready, PgError> {
    let target = target(url)?;
    let driver = Driver::start()?;
    let (name, id, of_pool) = (name.to_owned(), id.to_owned(), target.clone());
    let taken = driver.wait(async move {
        let mut connection = Connection::open(&target).await?;
        let warnings = warnings(&connection.client).await?;
        schema::migrate(&mut connection.client).await?;
        let tenure = Tenure::take(&mut connection.client, SHARD, &name, id).await?;
        Ok((tenure, warnings))
    });
    let (tenure, warnings) = taken.unwrap_or(Err(PgError::Closed))?;
    let tenure = Arc::new(tenure);
    let pool = Pool::new(of_pool, Arc::clone(&tenure));
    let disk = PgDisk::new(driver, pool, tenure);
    let shared = disk.shared();
    shared.driver.handle.spawn(renew(Arc::downgrade(shared), shared.pool.target().clone()));
    disk.drop_removed()?;
    Ok(Ready { disk, warnings })
}

/// Takes the shard as soon as no other node owns it, or answers `None` when `goes_on` says no. Errors that may pass are
/// waited out; `goes_on` gets each.
pub fn wait_to_own(
    url: &str,
    name: &str,
    id: &str,
    mut goes_on: impl FnMut(Waiting<'_>) -> bool,
) -> Result<Option<Ready>, PgError> {
    loop {
        let goes_on = match own(url, name, id) {
            Ok(ready) => return Ok(Some(ready)),
            Err(PgError::Owned { node, .. }) => goes_on(Waiting::For(&node)),
            Err(error) if error.may_pass() => goes_on(Waiting::Failing(&error)),
            Err(error) => return Err(error),
        };
        if !goes_on {
            return Ok(None);
        }
        std::thread::sleep(LOOK_PAUSE);
    }
}

/// Opens the files of a stopped store to look at them.
pub fn look(url: &str) -> Result<PgDisk, PgError> {
    let target = target(url)?;
    let driver = Driver::start()?;
    let of_pool = target.clone();
    let looked = driver.wait(async move {
        let connection = Connection::open(&target).await?;
        schema::verify(&connection.client).await?;
        Tenure::look(&connection.client, SHARD).await
    });
    let tenure = Arc::new(looked.unwrap_or(Err(PgError::Closed))?);
    let pool = Pool::new(of_pool, Arc::clone(&tenure));
    Ok(PgDisk::new(driver, pool, tenure))
}

/// Renews the tenure for as long as the log is open, and tells the store when it may not answer.
async fn renew(shared: std::sync::Weak<Shared>, target: Target) {
    let mut connection: Option<Connection> = None;
    let (mut answers, mut was_cut) = (true, false);
    loop {
        tokio::time::sleep(RENEWAL).await;
        let Some(shared) = shared.upgrade() else { return };
        let (tenure, journal) = (&shared.tenure, &shared.journal);
        if tenure.check().is_err() {
            return;
        }
        let renewed = tokio::time::timeout(TENURE, renew_once(&mut connection, &target, tenure)).await;
        let why = match renewed {
            Ok(Ok(())) => {
                if std::mem::replace(&mut was_cut, false) {
                    journal.look_again();
                }
                let stuck = journal.stuck().map(|why| format!("nothing can be written: {why}"));
                tenure.refuse(stuck.clone());
                let answered = std::mem::replace(&mut answers, stuck.is_none());
                match stuck {
                    None if !answered => journal.tell_again(),
                    Some(why) if answered => journal.suspend(Some(why)),
                    _ => {}
                }
                continue;
            }
            Ok(Err(error @ PgError::Fenced { .. })) => {
                journal.lose(&error.to_string());
                return;
            }
            Ok(Err(error)) => error.to_string(),
            Err(_timed_out) => "the database does not answer".to_owned(),
        };
        (connection, was_cut) = (None, true);
        if !tenure.is_held() && std::mem::replace(&mut answers, false) {
            journal.suspend(Some(format!("this node may not answer for its shard: {why}")));
        }
    }
}

async fn renew_once(slot: &mut Option<Connection>, target: &Target, tenure: &Tenure) -> Result<(), PgError> {
    let connection = match slot.take() {
        Some(connection) => connection,
        None => Connection::open(target).await?,
    };
    tenure.renew(&connection.client).await?;
    *slot = Some(connection);
    Ok(())
}

impl PgDisk {
    /// Gives the shard away, so that the next owner need not wait. Everything must be written.
    pub fn give_up(&self) {
        let shared = Arc::clone(self.shared());
        let target = shared.pool.target().clone();
        let tenure = Arc::clone(&shared.tenure);
        // If it fails the next owner waits for the end of the tenure.
        let _given_up = shared.driver.wait(async move {
            let connection = Connection::open(&target).await?;
            tenure.give_up(&connection.client).await
        });
        shared.tenure.close();
    }
}

/// What is wrong with the database's settings.
async fn warnings(client: &Client) -> Result<Vec<String>, PgError> {
    let mut warnings = Vec::new();
    let text = "SELECT current_setting('server_version_num')::int, current_setting('server_version'),
        current_setting('fsync'), current_setting('full_page_writes'),
        current_setting('synchronous_standby_names')";
    let row = client.query_one(text, &[]).await?;
    let (number, version): (i32, String) = (row.get(0), row.get(1));
    if number < OLDEST {
        warnings.push(format!("PostgreSQL {version} is older than 15, the oldest that Kew is tested with"));
    }
    for (at, setting) in [(2, "fsync"), (3, "full_page_writes")] {
        if row.get::<_, String>(at) == "off" {
            warnings.push(format!(
                "{setting} is off in PostgreSQL: a crash of its machine may lose or damage what was acknowledged"
            ));
        }
    }
    if row.get::<_, String>(4).is_empty() {
        warnings.push(
            "synchronous_standby_names is empty in PostgreSQL: a fail-over to a standby may lose what was acknowledged"
                .to_owned(),
        );
    }
    Ok(warnings)
}
