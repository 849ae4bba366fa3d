//! The simulated server: transactions with row locks, commits, and what a crash and a fail-over leave of them.
//!
//! `visible` is what statements see. `standby` is what survives a fail-over. `behind` is the log between the two, in
//! the order of commits; a synchronous commit is shown only when the standby has it, or after the server has started
//! anew.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use kew_core::ShardId;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use super::faults::{Chance, Course, Fault, Hanging, Rates};
use super::locks::{Begun, Locked, Locks, Transaction};
use super::tables::{Did, Tables};
use crate::PgError;
use crate::database::{Asked, Database, Session};
use crate::map::DatabasePlace;

use super::session::SimSession;

/// The database's clock at its beginning.
const BEGINNING_MS: i64 = 1_700_000_000_000;
/// The pause before a statement that waits for a lock looks again.
const LOCK_PAUSE: Duration = Duration::from_millis(1);

/// A commit that the standby may not have.
struct Committed {
    number: u64,
    did: Vec<Did>,
    is_synced: bool,
}

pub(super) struct State {
    chance: Chance,
    pub rates: Rates,
    pub visible: Tables,
    standby: Tables,
    behind: VecDeque<Committed>,
    commits: u64,
    /// Raised when every connection is cut.
    incarnation: u64,
    up_at: Instant,
    locks: Locks,
    begun: Instant,
    clock_ahead: i64,
    /// Thousandths of the nodes' speed.
    speed: u64,
    appends: u64,
    faults: u64,
    /// New connections are never answered.
    is_silent: bool,
    /// Somebody reads every table.
    is_read: bool,
    /// Connections outlive the server.
    pub is_pooled: bool,
    /// Looks at the clock that are to be cut.
    pub looks_to_cut: u64,
    /// Statements that are never answered.
    pub hanging: Hanging,
    /// Connections there are, and may be.
    pub connections: u64,
    pub connections_max: u64,
}

/// What a server held at one moment.
pub struct Photograph(Tables);

/// A handle to the server. Clones are handles to the same one.
#[derive(Clone)]
pub struct SimDatabase(pub(super) Arc<Mutex<State>>);

impl SimDatabase {
    pub(super) fn new(seed: u64, rates: Rates, (shards, place): (u16, DatabasePlace)) -> Self {
        let mut chance = Chance::of(seed);
        let speed = 1_000 + chance.below(rates.drift + 1);
        let now = Instant::now();
        Self(Arc::new(Mutex::new(State {
            chance,
            rates,
            visible: Tables::of_shards(shards, place),
            standby: Tables::of_shards(shards, place),
            behind: VecDeque::new(),
            commits: 0,
            incarnation: 0,
            up_at: now,
            locks: Locks::default(),
            begun: now,
            clock_ahead: 0,
            speed,
            appends: 0,
            faults: 0,
            looks_to_cut: 0,
            is_silent: false,
            is_read: false,
            is_pooled: false,
            hanging: Hanging::Nothing,
            connections: 0,
            connections_max: u64::MAX,
        })))
    }

    /// The epoch of the first shard, as statements see it.
    pub fn epoch(&self) -> i64 {
        self.epoch_of(ShardId(0))
    }

    /// The epoch of a shard; 0 for one that is not there.
    pub fn epoch_of(&self, shard: ShardId) -> i64 {
        self.0.lock().visible.shard(shard.0.into()).map_or(0, |shard| shard.epoch)
    }

    /// Rows of nodes, also of those that have gone.
    pub fn node_rows(&self) -> usize {
        self.0.lock().visible.node_rows()
    }

    /// Milliseconds since 1970 by its clock.
    pub fn clock(&self) -> i64 {
        self.0.lock().clock()
    }

    /// Appends to the journal so far, and faults.
    pub fn counts(&self) -> (u64, u64) {
        let state = self.0.lock();
        (state.appends, state.faults)
    }

    /// New connections are never answered from now on, or are again.
    pub fn set_silent(&self, is_silent: bool) {
        self.0.lock().is_silent = is_silent;
    }

    /// Somebody reads every table from now on, so that none can be dropped, or does no longer.
    pub fn set_read(&self, is_read: bool) {
        self.0.lock().is_read = is_read;
    }

    pub(super) fn is_read(&self) -> bool {
        self.0.lock().is_read
    }

    /// Tables of large files.
    pub fn tables(&self) -> usize {
        self.0.lock().visible.tables()
    }

    /// What statements see now, to be failed over to: a standby that receives nothing from now on.
    pub fn photograph(&self) -> Photograph {
        Photograph(self.0.lock().visible.clone())
    }

    /// A standby takes over that has received nothing since it was photographed, though commits were reported durable:
    /// an asynchronous one.
    pub fn fail_over_to(&self, standby: Photograph) {
        let mut state = self.0.lock();
        state.standby = standby.0;
        state.start_anew(0);
    }

    /// The database's clock is set ahead, or back, by milliseconds.
    pub fn set_clock_by(&self, milliseconds: i64) {
        self.0.lock().clock_ahead += milliseconds;
    }

    /// From now on things go wrong this often.
    pub fn set_rates(&self, rates: Rates) {
        self.0.lock().rates = rates;
    }

    /// The server dies and is there again after a while.
    pub fn restart(&self, down: Duration) {
        self.0.lock().restart(down);
    }

    /// The standby takes over after a while.
    pub fn fail_over(&self, down: Duration) {
        self.0.lock().fail_over(down);
    }

    /// Rows of large files that were written in an epoch.
    pub fn rows_of(&self, epoch: i64) -> usize {
        self.0.lock().visible.rows_of(epoch)
    }

    /// What decides about a statement, which is an append to the journal or not.
    pub(super) fn course(&self, is_append: bool) -> Course {
        let mut state = self.0.lock();
        state.appends += u64::from(is_append);
        let append = is_append.then_some(state.appends);
        let State { rates, chance, .. } = &mut *state;
        let course = rates.course(chance, append);
        state.faults += u64::from(course.fault.is_some());
        course
    }

    /// Runs a transaction. `evaluate` sees the tables while the locks are held, and says what it does.
    pub(super) async fn transact<T>(
        self,
        incarnation: u64,
        course: Course,
        transaction: Transaction,
        evaluate: impl FnOnce(&Tables, i64, &[(i32, i64)]) -> Result<(T, Vec<Did>), PgError>,
    ) -> Result<T, PgError> {
        pause(course.before).await;
        let incarnation = self.clone().led_to(incarnation).await;
        let locked = loop {
            let begun = self.0.lock().begin(incarnation, &transaction)?;
            match begun {
                Some(locked) => break locked,
                None => sleep(LOCK_PAUSE).await,
            }
        };
        let transaction = &Begun { transaction, locked };
        let evaluated = {
            let state = self.0.lock();
            evaluate(&state.visible, state.clock(), &transaction.locked)
        };
        let (answer, did) = match evaluated {
            Ok(evaluated) => evaluated,
            Err(error) => {
                self.0.lock().locks.end(transaction);
                return Err(error);
            }
        };
        pause(course.during).await;
        self.fault(course.fault, Fault::RestartBefore, Fault::FailOverBefore);
        // What does nothing makes nothing durable either.
        let is_synced = transaction.transaction.is_synced && !did.is_empty();
        let number = self.0.lock().commit(incarnation, transaction, did, is_synced)?;
        if is_synced {
            pause(course.waiting).await;
            self.fault(course.fault, Fault::RestartWhileWaiting, Fault::FailOverWhileWaiting);
            if course.fault == Some(Fault::ShownAndWithdrawn) {
                self.show_and_withdraw();
            }
            self.0.lock().received(incarnation, transaction, number)?;
        }
        self.fault(course.fault, Fault::RestartAfter, Fault::FailOverAfter);
        pause(course.after).await;
        self.0.lock().is_same(incarnation)?;
        Ok(answer)
    }

    /// The server that a statement of a connection comes to. A pooler waits until there is one.
    async fn led_to(self, incarnation: u64) -> u64 {
        let (is_pooled, up_at) = {
            let state = self.0.lock();
            (state.is_pooled, state.up_at)
        };
        if !is_pooled {
            return incarnation;
        }
        tokio::time::sleep_until(up_at).await;
        self.0.lock().incarnation
    }

    fn fault(&self, planned: Option<Fault>, restarts: Fault, fails_over: Fault) {
        let mut state = self.0.lock();
        let down = Duration::from_millis(state.chance.below(300));
        if planned == Some(restarts) {
            state.restart(down);
        } else if planned == Some(fails_over) {
            state.fail_over(down);
        }
    }

    /// The server shows what it has committed, also what no standby has; a little later it is gone.
    fn show_and_withdraw(&self) {
        let lasts = {
            let mut state = self.0.lock();
            let all = state.behind.len();
            state.start_anew(all);
            Duration::from_millis(20 + state.chance.below(800))
        };
        let server = self.clone();
        tokio::spawn(async move {
            sleep(lasts).await;
            let mut state = server.0.lock();
            state.fail_over_with(0);
        });
    }
}

async fn pause(time: Duration) {
    if !time.is_zero() {
        sleep(time).await;
    }
}

pub(super) fn cut() -> PgError {
    PgError::Unreachable("the connection was cut".to_owned())
}

impl State {
    pub fn clock(&self) -> i64 {
        let passed = self.begun.elapsed().as_millis() as u64 * self.speed / 1_000;
        BEGINNING_MS + self.clock_ahead + i64::try_from(passed).unwrap_or(i64::MAX)
    }

    /// A new connection, if the server takes any.
    pub fn connect(&mut self) -> Result<u64, PgError> {
        if Instant::now() < self.up_at {
            return Err(PgError::Unreachable("the database system is starting up (57P03)".to_owned()));
        }
        let is_full = self.connections >= self.connections_max;
        if is_full || (self.rates.per_mille > 0 && self.chance.below(40) == 0) {
            return Err(PgError::Unreachable("sorry, too many clients already (53300)".to_owned()));
        }
        self.connections += 1;
        Ok(self.incarnation)
    }

    pub fn is_same(&self, incarnation: u64) -> Result<(), PgError> {
        if self.incarnation == incarnation { Ok(()) } else { Err(cut()) }
    }

    /// Takes the locks of a transaction; `None` while others hold them.
    fn begin(&mut self, incarnation: u64, transaction: &Transaction) -> Result<Option<Locked>, PgError> {
        self.is_same(incarnation)?;
        Ok(self.locks.begin(&self.visible, transaction))
    }

    /// Commits on this server.
    fn commit(
        &mut self,
        incarnation: u64,
        begun: &Begun,
        did: Vec<Did>,
        is_synced: bool,
    ) -> Result<u64, PgError> {
        self.is_same(incarnation)?;
        self.commits += 1;
        let number = self.commits;
        if !is_synced {
            did.iter().for_each(|did| self.visible.apply(did));
            self.locks.end(begun);
        }
        if is_synced || !did.is_empty() {
            self.behind.push_back(Committed { number, did, is_synced });
        }
        if self.chance.below(4) == 0 {
            let some = self.chance.below(self.behind.len() as u64 + 1);
            self.send_to_standby(some as usize);
        }
        Ok(number)
    }

    /// The standby has this commit and all before it: it is shown and answered.
    fn received(&mut self, incarnation: u64, begun: &Begun, number: u64) -> Result<(), PgError> {
        self.is_same(incarnation)?;
        if let Some(place) = self.behind.iter().position(|commit| commit.number == number) {
            let did = self.behind[place].did.clone();
            did.iter().for_each(|did| self.visible.apply(did));
            self.send_to_standby(place + 1);
        } else {
            // It was sent before; what is visible is only ever added to by commits.
            let standby = &self.standby;
            let mut visible = standby.clone();
            let shown = self.behind.iter().filter(|commit| !commit.is_synced);
            shown.flat_map(|commit| &commit.did).for_each(|did| visible.apply(did));
            self.visible = visible;
        }
        self.locks.end(begun);
        Ok(())
    }

    fn send_to_standby(&mut self, count: usize) {
        for commit in self.behind.drain(..count) {
            commit.did.iter().for_each(|did| self.standby.apply(did));
        }
    }

    /// Commits behind the last one that was synced to this server's disk may be lost.
    fn restart(&mut self, down: Duration) {
        let synced = self.behind.iter().rposition(|commit| commit.is_synced).map_or(0, |place| place + 1);
        let kept = synced as u64 + self.chance.below((self.behind.len() - synced) as u64 + 1);
        self.start_anew(kept as usize);
        self.up_at = Instant::now() + down;
    }

    /// Cuts all connections and shows this number of the commits that the standby does not have; the others are lost.
    fn start_anew(&mut self, kept: usize) {
        self.behind.truncate(kept);
        self.visible = self.standby.clone();
        for commit in &self.behind {
            commit.did.iter().for_each(|did| self.visible.apply(did));
        }
        self.incarnation += 1;
        self.connections = 0;
        self.locks = Locks::default();
    }

    fn fail_over(&mut self, down: Duration) {
        let received = self.chance.below(self.behind.len() as u64 + 1);
        self.fail_over_with(received as usize);
        self.up_at = Instant::now() + down;
    }

    /// The standby takes over, with this number of the commits that were on their way to it. Its clock is another one.
    fn fail_over_with(&mut self, received: usize) {
        self.start_anew(received);
        self.send_to_standby(received);
        let behind = self.chance.below(40);
        self.clock_ahead = 20 - i64::try_from(behind).unwrap_or(0);
    }
}

impl Database for SimDatabase {
    fn connect(&self) -> Asked<'_, Box<dyn Session>> {
        Box::pin(async move {
            sleep(Duration::from_millis(1)).await;
            let is_silent = self.0.lock().is_silent;
            if is_silent {
                std::future::pending::<()>().await;
            }
            let incarnation = self.0.lock().connect()?;
            Ok(Box::new(SimSession::new(self.clone(), incarnation)) as Box<dyn Session>)
        })
    }
}
