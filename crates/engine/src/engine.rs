//! The engine itself: what it is made of, how it starts and how it stops.

use std::fmt;
use std::ops::{ControlFlow, Deref, DerefMut};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use kew_core::{
    AccountId, Ask, Clock, Command, Departures, Entropy, MessageId, MoveTask, OwnerId, Queue, QueueId,
    QueueKey, ShardCount, ShardId, Tally, Timestamp, Traffic, Waits, ask,
};
use kew_store::Store;
use kew_timed::Stretch;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;

use crate::EngineError;
use crate::busy::{Busy, Work};
use crate::leap::Expiry;
use crate::notice::Notice;
use crate::options::Options;
use crate::pauses::Pauses;
use crate::snapshot::{Listing, QueueName, Snapshots, WideListing};
use crate::state::Pass;
use crate::stats::Stats;
use crate::time::{BeforeJumps, EngineClock, TimeSource};

/// A request waits this long to know all queues: that of a node that died are known again in less.
const KNOWN_WITHIN: Duration = Duration::from_secs(5);
/// How often it looks whether they are.
const LOOKS_AGAIN_AFTER: Duration = Duration::from_millis(20);

/// Commands in, outcomes out, over any store.
pub struct Engine {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<EngineClock>,
    entropy: Arc<dyn Entropy>,
    owner: OwnerId,
    pub(crate) options: Options,
    /// Guards the order of steps, the lines and the agenda: between two holders every line has been served.
    pass: Mutex<Pass>,
    pub(crate) snapshots: Snapshots,
    /// Rings for the timers when something becomes due earlier than they know.
    pub(crate) alarm: Notify,
    /// Guards the move tasks started since the mover last looked.
    pub(crate) started_moves: Mutex<Vec<Arc<MoveTask>>>,
    /// Move tasks may have left this node: one that comes back begins anew, at the pace of then.
    pub(crate) moves_left: AtomicBool,
    /// Rings for the mover when there are some, or when it should stop.
    pub(crate) moves_bell: Notify,
    /// One permit: one task at a time moves the virtual clock.
    pub(crate) moving_time: Semaphore,
    /// Brings news before the virtual clock is moved; unset where there is none.
    pub(crate) before_jumps: OnceLock<BeforeJumps>,
    pub(crate) work: Work,
    pub(crate) stats: Stats,
    /// Guards what is known of the clock while expiry is held.
    pub(crate) expiry: Mutex<Expiry>,
    pub(crate) pauses: Pauses,
}

impl Engine {
    /// An engine over `store`, with its queues loaded. Spawn [`Engine::run_timers`] and [`Engine::run_moves`] next.
    pub async fn start(
        store: Arc<dyn Store>,
        source: Arc<dyn TimeSource>,
        entropy: Arc<dyn Entropy>,
        options: Options,
    ) -> Result<Arc<Self>, EngineError> {
        let notices = Arc::clone(&options.notices);
        let newest = store.newest_instant();
        let rules = (options.clock, options.clock_leap_max);
        let clock = Arc::new(EngineClock::new(source, rules, newest, notices));
        let engine = Arc::new(Self {
            work: Work::counted(clock.is_virtual()),
            owner: OwnerId(entropy.bits()),
            store,
            clock,
            entropy,
            options,
            pass: Mutex::default(),
            snapshots: Snapshots::new(),
            alarm: Notify::new(),
            before_jumps: OnceLock::new(),
            started_moves: Mutex::default(),
            moves_left: AtomicBool::new(false),
            moves_bell: Notify::new(),
            moving_time: Semaphore::new(1),
            stats: Stats::default(),
            expiry: Mutex::default(),
            pauses: Pauses::default(),
        });
        engine.hold_expiry_at_start(newest);
        engine.load_queues().await?;
        Ok(engine)
    }

    /// The queue of this name, for a client that asks for it: an error where it cannot be said that there is none.
    pub fn find<'a>(&self, name: impl Into<QueueName<'a>>) -> Result<Option<Arc<Queue>>, EngineError> {
        self.sure_of(self.queue(name))
    }

    /// The same by its number.
    pub fn find_by_id(&self, id: QueueId) -> Result<Option<Arc<Queue>>, EngineError> {
        self.sure_of(self.queue_by_id(id))
    }

    fn sure_of(&self, found: Option<Arc<Queue>>) -> Result<Option<Arc<Queue>>, EngineError> {
        if found.is_none() {
            self.check_knows_all()?;
        }
        Ok(found)
    }

    /// Fails where not every queue is known just now: for lists, and for answers that there is none.
    pub fn check_knows_all(&self) -> Result<(), EngineError> {
        if self.store.knows_all() {
            return Ok(());
        }
        Err(EngineError::NotAllKnown)
    }

    /// Waits until every queue is known, as long as it takes others to keep the shards of a node that died; false when
    /// it took longer.
    pub async fn until_all_known(&self) -> bool {
        let until = Instant::now() + KNOWN_WITHIN;
        while !self.store.knows_all() {
            if Instant::now() >= until {
                return false;
            }
            tokio::time::sleep(LOOKS_AGAIN_AFTER).await;
        }
        true
    }

    /// The queue of this name, as far as queues are known.
    pub fn queue<'a>(&self, name: impl Into<QueueName<'a>>) -> Option<Arc<Queue>> {
        self.snapshots.by_name(name.into())
    }

    /// The queue of this number, as far as queues are known.
    pub fn queue_by_id(&self, id: QueueId) -> Option<Arc<Queue>> {
        self.snapshots.by_id(id)
    }

    /// One page of the queues of a region, sorted by name.
    pub fn queues(&self, listing: Listing<'_>) -> Vec<Arc<Queue>> {
        self.snapshots.page(listing)
    }

    /// One page of the queues of all accounts and regions, sorted by account, region and name.
    pub fn wide_page(&self, listing: WideListing<'_>) -> Vec<Arc<Queue>> {
        self.snapshots.wide_page(listing)
    }

    /// Shows the queues of one region to `look`, sorted by name, until it breaks off. Nothing is copied, and a change
    /// of any queue waits until it is over.
    pub fn look_through(
        &self,
        account: AccountId,
        region: &str,
        look: impl FnMut(&Arc<Queue>) -> ControlFlow<()>,
    ) {
        self.snapshots.look_through(account, region, look);
    }

    /// The queues of `target`'s account and region whose dead letters go to it, by name: at most `max` behind `after`.
    pub fn dead_letter_sources(&self, target: &QueueKey, after: Option<&str>, max: usize) -> Vec<Arc<Queue>> {
        self.snapshots.sources(target, after, max)
    }

    /// Looks at all of them, until one fails. There may be very many: others have their turn between some of them.
    pub async fn each_dead_letter_source<E>(
        &self,
        target: &QueueKey,
        mut look: impl FnMut(&Queue) -> Result<(), E>,
    ) -> Result<(), E> {
        const TOGETHER: usize = 100;
        let mut after: Option<Arc<str>> = None;
        loop {
            let some = self.dead_letter_sources(target, after.as_deref(), TOGETHER);
            let Some(last) = some.last() else { return Ok(()) };
            after = Some(Arc::clone(&last.key.name));
            some.iter().try_for_each(|queue| look(queue))?;
            tokio::task::yield_now().await;
        }
    }

    /// Whether this node keeps a queue. What another one keeps is that one's to push, and to move.
    pub fn keeps(&self, queue: QueueId) -> bool {
        self.store.keeps(queue)
    }

    /// Whether this node keeps what belongs to accounts and to no queue, and may act on it now. Of a fleet one does.
    pub fn keeps_accounts(&self) -> bool {
        let any = QueueId(ShardId::OF_ACCOUNTS.0.into());
        self.store.keeps(any) && self.store.may_answer_for(any)
    }

    /// Whether figures of a queue are read here: tallies, waits and traffic. Those of a queue that another process
    /// keeps are that one's to show.
    pub fn sees(&self, queue: QueueId) -> bool {
        self.store.sees(queue)
    }

    /// All queues, sorted by account, region and name.
    pub fn all_queues(&self) -> Vec<Arc<Queue>> {
        self.snapshots.all()
    }

    /// The queues that `is_wanted` wants, in no order, some at a time: each look is through some thousands of all there
    /// are. One that comes or goes between the looks may be among them or not.
    pub fn queues_in_slices(
        &self,
        is_wanted: impl Fn(QueueId) -> bool,
    ) -> impl Iterator<Item = Vec<Arc<Queue>>> {
        self.snapshots.in_slices(is_wanted)
    }

    /// How many queues each shard has, of this many shards, in order. All are counted when this is first asked.
    pub fn queues_of_each_shard(&self, count: ShardCount) -> Vec<usize> {
        self.snapshots.of_each_shard(count)
    }

    /// How many queues there are.
    pub fn queue_count(&self) -> usize {
        self.snapshots.len()
    }

    /// The present instant of engine time.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The clock, for stamping requests.
    pub fn clock(&self) -> &Arc<EngineClock> {
        &self.clock
    }

    /// A fresh message id.
    pub fn message_id(&self) -> MessageId {
        MessageId::from_chance(self.entropy.wide_bits())
    }

    /// This start of the engine, as the owner of endless leases.
    pub fn owner(&self) -> OwnerId {
        self.owner
    }

    /// Work that comes of the engine's doing and happens elsewhere: a jump of the virtual clock waits while it lives.
    pub fn begin_work(&self) -> Busy {
        self.work.begin()
    }

    /// Figures for the metrics.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Notes how many messages are on their way to other shards now.
    pub fn note_owed(&self, messages: u64) {
        self.stats.owed_messages.set(messages);
    }

    /// Notes messages that were carried to another shard.
    pub fn note_carried(&self, messages: u64) {
        self.stats.carried_messages.add(messages);
    }

    /// Tells an operator whether messages for a queue of another shard can be carried there.
    pub fn tell_of_carrying(&self, target: QueueId, failed: Option<EngineError>) {
        (self.options.notices)(match failed {
            Some(error) => Notice::NotCarried(target, error),
            None => Notice::CarriedAgain(target),
        });
    }

    /// What has happened in all queues since the store was opened.
    pub fn tally(&self) -> Tally {
        self.store.tally()
    }

    /// The same of each of these queues: at most a few hundred at once. Leases and acks begin anew after the greatest
    /// value of 32 bits.
    pub fn tallies(&self, queues: &[QueueId]) -> Vec<Tally> {
        self.store.tallies(queues)
    }

    /// How long messages of each of these queues waited for their first lease, for figures.
    pub fn waits(&self, queues: &[QueueId]) -> Vec<Waits> {
        self.store.waits(queues)
    }

    /// Messages that left their queues because they were leased too often, since it was last asked.
    pub fn take_departures(&self) -> Departures {
        self.store.take_departures()
    }

    /// What came and went in each of these queues, for figures: at most a few hundred at once.
    pub fn traffic(&self, queues: &[QueueId]) -> Vec<Traffic> {
        self.store.traffic(queues)
    }

    /// Why nothing is accepted until a restart, if so. Never waits for a disk.
    pub fn health(&self) -> Result<(), EngineError> {
        self.store.health().map_err(EngineError::from)
    }

    /// Whether what it knows may leave this process now. It is asked at the last moment, before a reply or a batch for
    /// a consumer leaves.
    pub fn may_answer(&self) -> bool {
        self.store.may_answer()
    }

    /// Whether this node keeps a queue, and what it has leased from it may leave this process now.
    pub fn may_answer_for(&self, queue: QueueId) -> bool {
        self.store.may_answer_for(queue)
    }

    /// Writes and syncs what was applied so far, on this thread, where the store leaves that to its caller.
    /// True when something was waiting. An event loop calls it at the end of each turn.
    pub fn commit(&self) -> bool {
        self.store.commit()
    }

    /// Ends all waits with an empty answer, refuses new ones, and ends the timers and the mover.
    pub fn shutdown(&self) {
        {
            let mut pass = self.pass();
            pass.closed = true;
            for queue in pass.waiters.queues() {
                self.end_line(&mut pass, queue);
            }
        }
        self.alarm.notify_one();
        self.moves_bell.notify_one();
    }

    /// Whether [`Engine::shutdown`] was called.
    pub fn is_shut_down(&self) -> bool {
        self.pass().closed
    }

    pub(crate) fn pass(&self) -> Passing<'_> {
        Passing { pass: self.pass.lock(), _stretch: Stretch::begin("a hold of the engine's lock") }
    }

    /// Shows the queues as the store has them.
    pub(crate) async fn load_queues(&self) -> Result<(), EngineError> {
        let submission = self.submit(&Command::Queues);
        // No event loop may run yet that drives a store which commits on its caller's thread.
        self.commit();
        ask::Queues::answer(submission.await?).iter().for_each(|queue| self.snapshots.put(queue));
        Ok(())
    }
}

/// What the engine keeps between steps, while this thread has it.
pub(crate) struct Passing<'a> {
    pass: MutexGuard<'a, Pass>,
    _stretch: Stretch,
}

impl Deref for Passing<'_> {
    type Target = Pass;

    #[inline]
    fn deref(&self) -> &Pass {
        &self.pass
    }
}

impl DerefMut for Passing<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Pass {
        &mut self.pass
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("options", &self.options)
            .field("stats", &self.stats)
            .finish_non_exhaustive()
    }
}
