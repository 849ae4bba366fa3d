//! Opening a shard's log: as its owner, in wait for it, or only to look.

use std::future::Future;
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::database::{Database, NO_ANSWER, Node, Session};
use crate::driver::Driver;
use crate::ending::Ending;
use crate::files::{PgDisk, Shared};
use crate::planted::Planted;
use crate::postgres::Target;
use crate::tenure::{RENEWAL, TENURE, Tenure};
use crate::{PgError, schema, warnings};

/// The only shard of a store so far.
const SHARD: i32 = 0;
/// How often a node that waits looks whether the owner has gone.
const LOOK_PAUSE: Duration = Duration::from_millis(250);

/// How long taking a shard may take, with the connection for it. A statement that hangs, though the server lives, is
/// given up then: whether the shard was taken is found out by taking it again.
const TAKE_MAX: Duration = Duration::from_secs(10);
/// How long a connection for a renewal may take to be made: the renewal has to fit into the tenure too.
const CONNECT_MAX: Duration = Duration::from_millis(1_500);
/// How long making the tables ready may take.
const MAKE_READY_MAX: Duration = Duration::from_secs(60);

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

/// Takes the shard now, or says which node owns it. Makes the tables when there are none.
pub fn own(url: &str, name: &str, id: &str) -> Result<Ready, PgError> {
    own_unless(url, name, id, &Ending::default())
}

/// The same, unless the opening is to end.
fn own_unless(url: &str, name: &str, id: &str, ending: &Ending) -> Result<Ready, PgError> {
    let target = Target::of(url)?;
    let driver = Driver::start()?;
    let reached = target.clone();
    let made_ready = driver.wait(within(MAKE_READY_MAX, async move {
        let mut connection = reached.open().await?;
        let mut warnings = warnings::of_settings(&connection.client).await?;
        warnings.extend(warnings::of_pooler(&connection.client, &reached).await?);
        schema::migrate(&mut connection.client).await?;
        Ok(warnings)
    }));
    let warnings = made_ready.unwrap_or(Err(PgError::Closed))?;
    let node = Node { id: id.to_owned(), name: name.to_owned() };
    if !ending.begin() {
        return Err(PgError::Closed);
    }
    let taken = take(driver, Arc::new(target), node);
    ending.tried(taken.as_ref().ok());
    Ok(Ready { disk: taken?, warnings })
}

/// Takes the shard in a database that has its tables.
pub(crate) fn take(driver: Driver, database: Arc<dyn Database>, node: Node) -> Result<PgDisk, PgError> {
    let taken = {
        let (database, steady) = (Arc::clone(&database), driver.steady());
        driver.wait(within(TAKE_MAX, async move {
            let mut session = database.connect().await?;
            let tenure = Tenure::take(&mut *session, SHARD, node, steady).await?;
            tenure.learn_clock(session, &*database).await?;
            Ok(tenure)
        }))
    };
    let tenure = Arc::new(taken.unwrap_or(Err(PgError::Closed))?);
    let disk = PgDisk::new(driver, database, tenure);
    let shared = disk.shared();
    shared.driver.spawn(renew(Arc::downgrade(shared), Arc::clone(shared.pool.database())));
    disk.begin_to_drop();
    Ok(disk)
}

/// Gives work up after a time. What its last statement does is not known then.
async fn within<T>(most: Duration, work: impl Future<Output = Result<T, PgError>>) -> Result<T, PgError> {
    match tokio::time::timeout(most, work).await {
        Ok(done) => done,
        Err(_elapsed) => Err(PgError::Unreachable(NO_ANSWER.to_owned())),
    }
}

/// Takes the shard as soon as no other node owns it; fails with [`PgError::Closed`] when `ending` says that this ends.
/// Errors that may pass are waited out; `waits` gets each.
pub fn wait_to_own(
    url: &str,
    name: &str,
    id: &str,
    ending: &Ending,
    mut waits: impl FnMut(Waiting<'_>),
) -> Result<Ready, PgError> {
    loop {
        match own_unless(url, name, id, ending) {
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

/// Opens the files of a stopped store to look at them.
pub fn look(url: &str) -> Result<PgDisk, PgError> {
    let target = Target::of(url)?;
    let driver = Driver::start()?;
    let (reached, steady) = (target.clone(), driver.steady());
    let looked = driver.wait(within(TAKE_MAX, async move {
        let mut connection = reached.open().await?;
        schema::verify(&connection.client).await?;
        Tenure::look(&mut connection, SHARD, steady).await
    }));
    let tenure = Arc::new(looked.unwrap_or(Err(PgError::Closed))?);
    Ok(PgDisk::new(driver, Arc::new(target), tenure))
}

const MAKES_NO_FILES: &str = "there is no room: the database does not let a table be made for it";

/// Renews the tenure for as long as the log is open, and tells the store when it may not answer.
async fn renew(shared: Weak<Shared>, database: Arc<dyn Database>) {
    let mut session: Option<Box<dyn Session>> = None;
    let mut was_cut = false;
    loop {
        tokio::time::sleep(RENEWAL).await;
        let Some(shared) = shared.upgrade() else { return };
        let (tenure, journal) = (&shared.tenure, &shared.journal);
        if tenure.check().is_err() {
            return;
        }
        let renewed = tokio::time::timeout(TENURE, renew_once(&mut session, &*database, tenure)).await;
        let why = match renewed {
            Ok(Ok(())) => {
                tenure.note_renewal(None);
                if std::mem::replace(&mut was_cut, false) {
                    journal.look_again();
                    if !Planted::SlicesNotLookedAt.is_there() {
                        shared.bulk.look_again();
                    }
                }
                journal.stop_if_it_hangs();
                shared.bulk.stop_if_it_hangs();
                let is_slow = shared.pool.longest_on_files() > TENURE;
                journal.suspend_room(is_slow.then_some(MAKES_NO_FILES));
                let stuck = (journal.oldest_waits() > TENURE).then(|| journal.why_stuck());
                tenure.refuse(stuck.as_deref());
                if let Some(why) = &stuck {
                    journal.suspend(why);
                } else if tenure.is_held() {
                    journal.go_on();
                }
                continue;
            }
            Ok(Err(error @ PgError::Fenced { .. })) => {
                journal.lose(&error.to_string());
                return;
            }
            Ok(Err(error)) => error.to_string(),
            Err(_timed_out) => NO_ANSWER.to_owned(),
        };
        tenure.note_renewal(Some(&why));
        (session, was_cut) = (None, true);
        if !tenure.is_held() {
            let why = format!("this node may not answer for its shard: {why}");
            journal.suspend(&why);
            journal.suspend_room(Some(&why));
        }
    }
}

async fn renew_once(
    slot: &mut Option<Box<dyn Session>>,
    database: &dyn Database,
    tenure: &Tenure,
) -> Result<(), PgError> {
    let mut session = match slot.take() {
        Some(session) => session,
        None => within(CONNECT_MAX, database.connect()).await?,
    };
    tenure.renew(&mut *session).await?;
    tenure.look_closer(&mut *session).await?;
    *slot = Some(session);
    Ok(())
}

impl PgDisk {
    /// Gives the shard away, so that the next owner need not wait. What is not written by now never is.
    pub fn give_up(&self) {
        let shared = Arc::clone(self.shared());
        shared.tenure.close();
        let database = Arc::clone(shared.pool.database());
        let tenure = Arc::clone(&shared.tenure);
        // If it fails the next owner waits for the end of the tenure.
        let _given_up = shared.driver.wait(async move {
            let given_up = async {
                let mut session = database.connect().await?;
                tenure.give_up(&mut *session).await
            };
            tokio::time::timeout(TENURE, given_up).await
        });
    }
}

#[cfg(all(test, feature = "server"))]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::server::PgServer;

    #[test]
    fn owner_that_vanished_within_a_transaction_keeps_no_other_from_taking_over() {
        let server = PgServer::start(&["fsync=off"]).unwrap();
        let url = server.database().unwrap();
        let first = own(&url, "first", &node_id("first", 1)).unwrap();
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
        let second = own(&url, "second", &node_id("second", 2)).unwrap();
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
        assert_eq!(second.disk.tenure().epoch(), epoch + 1);
        drop(vanished);
    }
}
