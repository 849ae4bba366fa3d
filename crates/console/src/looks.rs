//! Looks at the queues every five seconds: rates and samples, counters, alarms, and messages that left by rule.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use kew_core::{AccountId, Departure, EventKind, MessageId, QueueId, QueueKey, RuleError};
use kew_engine::{Engine, EngineError, TimeSource};
use tokio::runtime::Handle;

use crate::Settings;
use crate::alarms::{Alarms, Reading};
use crate::api::Home;
use crate::board::{Board, Phase, Running};
use crate::metrics::InFlightLimits;
use crate::news::{News, NewsSink};
use crate::samples::{STEP_SECONDS, Samples};
use crate::totals::Totals;

/// How soon after requests are served the first look comes.
const BEGINS_WITHIN: Duration = Duration::from_millis(20);
/// Messages that left by rule and are reported one by one at a look.
const TOLD_MAX: usize = 10;
/// Further ones that are reported by their ids: for each the history is looked through.
const IDS_MAX: usize = 200;

/// Queues that are counted for alarms without a pause, and the pause.
const SLICE: u32 = 256;
const PAUSE: Duration = Duration::from_millis(2);

/// What is looked at.
pub(crate) struct Looks {
    pub(crate) samples: Arc<Samples>,
    pub(crate) totals: Totals,
    pub(crate) alarms: Alarms,
    limits: InFlightLimits,
    account: AccountId,
    region: Arc<str>,
    news: Arc<NewsSink>,
    time: Arc<dyn TimeSource>,
}

impl Looks {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self {
            samples: Arc::default(),
            totals: Totals::new(settings.metrics_queues),
            alarms: Alarms::new(&settings.alarms, &settings.firing),
            limits: settings.in_flight_limits,
            account: settings.account,
            region: Arc::clone(&settings.region),
            news: Arc::clone(&settings.news),
            time: Arc::clone(&settings.time),
        }
    }

    /// Looks at all queues of the server every five seconds, for as long as it is polled.
    pub(crate) async fn keep_looking(self: Arc<Self>, board: Arc<Board>) {
        loop {
            let Phase::Serving(running) = board.phase() else {
                // The first look comes soon: what happens before it is not counted.
                tokio::time::sleep(BEGINS_WITHIN).await;
                continue;
            };
            let looks = Arc::clone(&self);
            // It may wait for the engine's locks.
            let looked =
                tokio::task::spawn_blocking(move || Handle::current().block_on(looks.look(&running)));
            // A look that failed leaves a gap.
            let _looked = looked.await;
            tokio::time::sleep(Duration::from_secs(STEP_SECONDS)).await;
        }
    }

    /// One look at everything.
    pub(crate) async fn look(&self, running: &Running) {
        let engine = &running.engine;
        self.samples.look(engine, self.time.steady()).await;
        self.totals.look(engine);
        self.tell_departures(engine).await;
        self.look_for_alarms(running).await;
    }

    fn home(&self) -> Home<'_> {
        Home { account: self.account, region: &self.region }
    }

    async fn look_for_alarms(&self, running: &Running) {
        if self.alarms.rules().is_empty() {
            return;
        }
        let engine = &running.engine;
        let (mut news, mut seen) = (Vec::new(), HashSet::new());
        let queues = engine.all_queues();
        let dead: HashSet<QueueKey> = self.alarms.dead_letter_queues(&queues);
        let mut counted = 0;
        // Each alarm is one node's: that of the node which keeps its queue.
        let here = queues.iter().filter(|queue| engine.sees(queue.id));
        for queue in here.filter(|queue| self.alarms.are_for(&queue.key)) {
            let name: Arc<str> = self.home().text(&queue.key).into();
            if !self.alarms.has_room_for(&name, &mut news) {
                continue;
            }
            counted += 1;
            if counted % SLICE == 0 {
                // Others get at the store's lock in between.
                tokio::time::sleep(PAUSE).await;
            }
            let counts = match engine.counts_so_far(queue.id).await {
                Ok(counts) => counts,
                // It was deleted a moment ago, which ends its alarms.
                Err(EngineError::Rule(RuleError::QueueNotFound)) => continue,
                Err(_) => {
                    seen.extend(self.alarms.unseen(Some(&name)));
                    continue;
                }
            };
            let takes_dead_letters = dead.contains(&queue.key);
            let reading =
                Reading { queue, counts, now: engine.now(), limits: self.limits, takes_dead_letters };
            seen.extend(self.alarms.take(&reading, &name, &mut news));
        }
        match running.disk.as_ref().map(|disk| disk()) {
            Some(Some(disk)) => seen.extend(self.alarms.take_disk(disk.share(), engine.now(), &mut news)),
            Some(None) => seen.extend(self.alarms.unseen(None)),
            None => {}
        }
        self.alarms.forget_others(&seen, engine.now(), &mut news);
        if !news.is_empty() {
            (self.news)(&news);
        }
    }

    /// Tells which messages left their queues because they were leased too often.
    pub(crate) async fn tell_departures(&self, engine: &Engine) {
        let departures = engine.take_departures();
        let told = departures.first.iter().take(TOLD_MAX);
        for departure in told {
            let id = id_of(engine, departure).await;
            let queue = self.name(engine, departure.queue);
            let to = departure.to.map(|to| self.name(engine, to));
            (self.news)(&[News::Departed { queue, to, id }]);
        }
        let mut rest = std::collections::BTreeMap::<QueueId, (u64, Vec<MessageId>)>::new();
        for (number, departure) in departures.first.iter().skip(TOLD_MAX).enumerate() {
            let (messages, ids) = rest.entry(departure.queue).or_default();
            *messages += 1;
            if number < IDS_MAX {
                ids.extend(id_of(engine, departure).await);
            }
        }
        for (queue, (messages, ids)) in rest {
            (self.news)(&[News::MoreDeparted { queue: Some(self.name(engine, queue)), messages, ids }]);
        }
        if departures.more > 0 {
            let more = News::MoreDeparted { queue: None, messages: departures.more, ids: Vec::new() };
            (self.news)(&[more]);
        }
    }

    /// How a queue is called; one that was deleted, by its number.
    fn name(&self, engine: &Engine, queue: QueueId) -> String {
        match engine.queue_by_id(queue) {
            Some(queue) => self.home().text(&queue.key),
            None => format!("(deleted queue {})", queue.0),
        }
    }
}

/// The id of a message that has left its queue, if the history knows it.
async fn id_of(engine: &Engine, departure: &Departure) -> Option<MessageId> {
    let events = engine.timeline(departure.queue, departure.sequence).await.ok()?;
    // One that was moved by a task got a new id.
    events.iter().rev().filter(|event| event.at <= departure.at).find_map(|event| match event.kind {
        EventKind::Sent { id, .. } => Some(id),
        _ => None,
    })
}
