//! The way of one queue to its consumer: it watches, decides when a batch leaves, and knows which are under way.
//!
//! A lane lives as long as its queue has a consumer that can be served, and reads what that is set to anew at each
//! turn: a change takes effect with the next batch, without anybody telling it. It goes round in turns: whatever woke
//! it is held as work until it has acted, so that the virtual clock stands still meanwhile.

use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use kew_core::command::{FirstMessage, Lease, OverLimit, Withdraw};
use kew_core::event::Tag;
use kew_core::outcome::Leased;
use kew_core::{LeaseTerms, LeaseToken, Queue, QueueId, QueueKey, Return, Timestamp};
use kew_engine::{Busy, EngineError, MessageWatch, UnansweredLease};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::alone::Alone;
use crate::batch::Batch;
use crate::consumer::{Consumer, Push};
use crate::invocation::{self, Finished, Invocation};
use crate::limits;
use crate::notice::Notice;
use crate::rules::backlog::Backlog;
use crate::rules::batching::{Step, View, next_step};
use crate::rules::circuit::{Circuit, OpenCircuit, Turn};
use crate::rules::concurrency::Concurrency;
use crate::shared::Shared;
use crate::standing::Standing;

/// The most bytes of bodies in a batch; its first message always fits.
const BATCH_BYTES_MAX: u64 = 1 << 20;
/// The pause after the store refused a lease, in real time.
const PAUSE_OF_STORE: Duration = Duration::from_secs(1);

/// One queue's way to its consumer.
pub(crate) struct Lane {
    shared: Arc<Shared>,
    queue: QueueId,
    watch: MessageWatch,
    /// Rings when a target came up or went down, where targets do that.
    targets: Option<watch::Receiver<u64>>,
    known: Option<Known>,
    backlog: Backlog,
    concurrency: Concurrency,
    running: JoinSet<Finished>,
    /// Messages that come one by one.
    alone: Alone,
    /// A place among all batches under way, taken for the next one.
    place: Option<OwnedSemaphorePermit>,
    /// Its turn for such a place, in the row of all lanes, while it waits for one.
    turn: Option<PlaceTurn>,
    /// Before when the target wants nothing, in engine time.
    not_before: Timestamp,
    /// Whether the target can be reached.
    circuit: Circuit,
    /// Whether the batch that tries an open circuit is under way.
    trying: bool,
    /// Whether what runs at the target takes no batches, and that was reported.
    is_unfit: bool,
    /// Until when the store is left alone, in real time.
    store_rests_until: Option<Instant>,
    /// Leased, though that was refused when it was to be answered: nothing ends these leases but this lane.
    unanswered: Vec<LeaseToken>,
    closing: bool,
}

type PlaceTurn = Pin<Box<dyn Future<Output = OwnedSemaphorePermit> + Send>>;

/// A queue and its consumer, as they were read last.
struct Known {
    queue: Arc<Queue>,
    consumer: Arc<Consumer>,
    push: Push,
}

/// What woke a lane.
enum Woken {
    Rung(Busy),
    Due(Busy),
    Ended(Box<Finished>),
    Placed(OwnedSemaphorePermit),
    TargetsChanged,
    Rested,
    Closing,
}

impl Lane {
    pub(crate) fn new(shared: Arc<Shared>, queue: QueueId) -> Self {
        let watch = shared.engine.watch_messages(queue);
        let targets = shared.targets.watch();
        Self {
            shared,
            queue,
            watch,
            targets,
            known: None,
            backlog: Backlog::default(),
            concurrency: Concurrency::default(),
            running: JoinSet::new(),
            alone: Alone::default(),
            place: None,
            turn: None,
            not_before: Timestamp::ZERO,
            circuit: Circuit::default(),
            trying: false,
            is_unfit: false,
            store_rests_until: None,
            unanswered: Vec::new(),
            closing: false,
        }
    }

    /// Runs until there is nothing to serve, or until the end was called, and no batch is under way.
    pub(crate) async fn run(mut self, begun: Busy) {
        let mut busy = Some(begun);
        loop {
            let is_served = self.read_consumer();
            self.give_unanswered_back().await;
            if !is_served && self.running.is_empty() && self.unanswered.is_empty() {
                self.part();
                return;
            }
            let step = if is_served { self.act().await } else { Step::Wait(None) };
            // From here on nothing is left to do at this instant.
            drop(busy.take());
            busy = match self.next(step).await {
                Woken::Rung(busy) | Woken::Due(busy) => Some(busy),
                Woken::Ended(finished) => Some(self.ended(*finished)),
                Woken::Placed(place) => {
                    (self.place, self.turn) = (Some(place), None);
                    None
                }
                Woken::TargetsChanged => None,
                Woken::Rested => {
                    self.rested(Instant::now());
                    None
                }
                Woken::Closing => {
                    self.closing = true;
                    None
                }
            };
        }
    }

    /// Reads the consumer anew where its queue has changed. Whether there is one to serve.
    fn read_consumer(&mut self) -> bool {
        // A queue whose shard has left this node has a lane at its new owner.
        let is_served = !self.is_leaving();
        let queue = self.shared.engine.queue_by_id(self.queue).filter(|_| is_served);
        let Some(queue) = queue else {
            self.known = None;
            return false;
        };
        if self.known.as_ref().is_some_and(|known| known.queue.version == queue.version) {
            return true;
        }
        let consumer = self.shared.served(&queue);
        if let (Some(known), Some(consumer)) = (&self.known, &consumer)
            && (known.consumer.id != consumer.id || !is_same_target(&known.push, consumer))
        {
            // Another target has done nothing to be waited for.
            self.concurrency = Concurrency::default();
            self.not_before = Timestamp::ZERO;
            self.forget_circuit();
        }
        self.known = consumer.and_then(|consumer| {
            let push = consumer.push()?.clone();
            Some(Known { queue, consumer: Arc::new(consumer), push })
        });
        self.known.is_some()
    }

    /// Whether the end of its work here says nothing of its consumer: somebody goes on with it later, or elsewhere.
    fn is_leaving(&self) -> bool {
        self.closing || !self.shared.engine.keeps(self.queue)
    }

    /// Sends off whatever may leave now, and says what to wait for.
    async fn act(&mut self) -> Step {
        loop {
            self.look().await;
            let is_up = self.is_up();
            let step = self.next_step(is_up);
            if step != Step::Leave || self.rests_until().is_some() {
                return step;
            }
            self.place = self.place.take().or_else(|| self.shared.free_place());
            if self.place.is_none() {
                return step;
            }
            if !self.leave().await {
                return Step::Wait(None);
            }
        }
    }

    /// Counts what may be leased.
    async fn look(&mut self) {
        let engine = &self.shared.engine;
        // What cannot be counted, because its queue is just going away, waits for the next ring.
        let eligible = engine.counts_so_far(self.queue).await.map_or(0, |counts| counts.visible);
        self.backlog.seen(engine.now(), eligible);
    }

    /// Whether a batch can be brought to the target now. A target whose code takes none is shown with those that cannot
    /// be reached, and reported once. While nothing runs there, what was reported stands.
    fn is_up(&mut self) -> bool {
        let Some(known) = &self.known else { return false };
        match self.shared.targets.standing(known.queue.key.account, &known.consumer) {
            Standing::Up => {
                let was_unfit = std::mem::take(&mut self.is_unfit);
                if was_unfit && !self.circuit.is_open() {
                    self.tell_closed();
                }
                true
            }
            Standing::Down => false,
            Standing::Unfit(why) => {
                if !self.is_unfit {
                    let open = self.show_open((&known.queue.key, &known.consumer), Instant::now(), why);
                    self.is_unfit = true;
                    (self.shared.settings.notices)(Notice::Unreached(open));
                }
                false
            }
        }
    }

    fn next_step(&self, is_up: bool) -> Step {
        let Some(known) = &self.known else { return Step::Wait(None) };
        let running = u32::try_from(self.running.len()).unwrap_or(u32::MAX);
        // One batch tries an open circuit, whatever left before it opened, and does not wait to fill.
        let (max_wait, running, allowed) = match self.circuit.is_open() {
            true => (Duration::ZERO, u32::from(self.trying), 1),
            false => (known.push.max_wait, running, self.concurrency.allowed(concurrency_max(&known.push))),
        };
        next_step(&View {
            now: self.shared.engine.now(),
            eligible: self.backlog.eligible(),
            first_at: self.backlog.first_at(),
            batch_size: known.consumer.batch_size,
            max_wait,
            running,
            allowed,
            // A Worker that is down is as good as paused: a batch would be lost on it.
            paused: known.queue.policy.paused || !is_up,
            not_before: self.not_before,
        })
    }

    /// Leases a batch and sends it off; false when there was nothing to lease after all.
    async fn leave(&mut self) -> bool {
        let (Some(known), Some(place)) = (&self.known, self.place.take()) else { return false };
        let engine = &self.shared.engine;
        let now = engine.now();
        let lease = Lease {
            max: known.consumer.batch_size,
            body_bytes_max: BATCH_BYTES_MAX,
            first: FirstMessage::AlwaysFits,
            terms: LeaseTerms {
                length: None,
                cap: None,
                lapse_delay: known.consumer.retry_delay,
                returns: Return::InPlace,
            },
            owner: Some(engine.owner()),
            in_flight_max: self.shared.settings.in_flight_max,
            over_limit: OverLimit::FindNothing,
            by: Tag::new("push"),
            ..Lease::of(self.queue, known.consumer.batch_size, now)
        };
        let messages = match engine.lease_as_owner(lease).await {
            Ok(messages) if messages.is_empty() => {
                self.backlog.found_nothing();
                return false;
            }
            Ok(messages) => messages,
            Err(UnansweredLease { error, taken }) => {
                (self.shared.settings.notices)(Notice::LeaseFailed(known.queue.key.clone(), error));
                self.store_rests_until = Some(Instant::now() + PAUSE_OF_STORE);
                self.unanswered.extend(taken);
                return false;
            }
        };
        self.backlog.took(messages.len() as u64);
        let counts = engine.counts_so_far(self.queue).await.unwrap_or_default();
        let (entropy, traces) = (&*self.shared.entropy, &self.shared.settings.traces);
        let batch = |messages: Vec<Leased>| Batch {
            id: entropy.wide_bits().to_be_bytes(),
            queue: known.queue.key.clone(),
            trace: traces.traced(&messages, entropy),
            messages,
            counts,
        };
        let batches = self.alone.part(messages).into_iter().map(batch).collect();
        let round = self.circuit.round();
        self.trying = self.circuit.is_open();
        let invocation = Invocation { consumer: Arc::clone(&known.consumer), batches, left_at: now, round };
        self.running.spawn(invocation::run(Arc::clone(&self.shared), invocation, engine.begin_work(), place));
        true
    }

    /// Withdraws leases that were taken and not answered, as soon as their store takes that, at a new owner too.
    async fn give_unanswered_back(&mut self) {
        if self.closing {
            // The next start ends all leases of this process.
            self.unanswered.clear();
        }
        if self.unanswered.is_empty() || self.store_rests_until.is_some() {
            return;
        }
        let withdraw = Withdraw { queue: self.queue, tokens: self.unanswered.clone() };
        match self.shared.engine.withdraw(withdraw).await {
            Ok(_) | Err(EngineError::Rule(_)) => self.unanswered.clear(),
            Err(_) => self.store_rests_until = Some(Instant::now() + PAUSE_OF_STORE),
        }
    }

    /// Waits for the next thing to happen.
    async fn next(&mut self, step: Step) -> Woken {
        let wants_place = step == Step::Leave && self.rests_until().is_none() && self.place.is_none();
        if wants_place {
            // Whatever wakes the lane meanwhile, it does not lose its turn.
            self.turn.get_or_insert_with(|| Box::pin(self.shared.place()));
        } else {
            // Kept only while a batch is about to leave.
            (self.place, self.turn) = (None, None);
        }
        let due = match step {
            Step::Wait(Some(at)) => Some(at),
            Step::Leave | Step::Wait(None) => None,
        };
        // What is to be given back does not wait for a target that cannot be reached.
        let gives_back_at = self.store_rests_until.filter(|_| !self.unanswered.is_empty());
        let (engine, rests_until) = (&self.shared.engine, gives_back_at.or(self.rests_until()));
        tokio::select! {
            biased;
            () = self.shared.stop.closing(), if !self.closing => Woken::Closing,
            Some(ended) = self.running.join_next(), if !self.running.is_empty() => match ended {
                Ok(finished) => Woken::Ended(Box::new(finished)),
                // A bug in a target; its messages stay leased until the next start, as after a crash.
                Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
            },
            // Before the rings, which a queue that is sent to all the time never lacks.
            place = maybe(self.turn.as_mut()) => Woken::Placed(place),
            busy = self.watch.rung() => Woken::Rung(busy),
            busy = maybe(due.map(|at| engine.wake_at(at))) => Woken::Due(busy),
            () = changed(&mut self.targets) => Woken::TargetsChanged,
            () = maybe(rests_until.map(tokio::time::sleep_until)) => Woken::Rested,
        }
    }

    /// A batch has ended; what is learned from it.
    fn ended(&mut self, finished: Finished) -> Busy {
        if finished.is_held_back {
            self.store_rests_until = Some(Instant::now() + PAUSE_OF_STORE);
        }
        self.learn(&finished);
        // A changed consumer keeps its id; what its old target answered says nothing of the new one.
        let is_of = |known: &&Known| {
            known.consumer.id == finished.consumer.id && is_same_target(&known.push, &finished.consumer)
        };
        if let Some(known) = self.known.as_ref().filter(is_of) {
            let (size, max) = (known.consumer.batch_size, concurrency_max(&known.push));
            self.alone.add(&finished.alone);
            self.concurrency.finished(finished.ending, self.backlog.eligible(), size, max);
            if let Some(hold) = finished.hold {
                self.not_before = self.not_before.max(self.shared.engine.now().plus(hold));
            }
        }
        finished.busy
    }

    /// Whether the target was reached opens its circuit or closes it, and a change is reported.
    fn learn(&mut self, finished: &Finished) {
        let round = finished.round;
        self.trying &= round != self.circuit.round();
        if finished.is_held_back {
            return;
        }
        let Some(error) = &finished.unreached else {
            if self.circuit.reached(round) == Turn::Closed && !self.is_unfit {
                self.tell_closed();
            }
            return;
        };
        let now = Instant::now();
        let turn = self.circuit.missed(round, now, self.shared.entropy.bits());
        if turn == Turn::None {
            return;
        }
        let open = self.show_open((&finished.queue, &finished.consumer), now, error.clone());
        if turn == Turn::Opened && !self.is_unfit {
            (self.shared.settings.notices)(Notice::Unreached(open));
        }
    }

    /// Shows the consumer among those that cannot be reached, for this reason.
    fn show_open(
        &self,
        (queue, consumer): (&QueueKey, &Consumer),
        now: Instant,
        error: String,
    ) -> Arc<OpenCircuit> {
        let latest = OpenCircuit {
            queue: queue.clone(),
            consumer: consumer.id,
            target: consumer.push().map(|push| push.target.to_string()).unwrap_or_default(),
            since: self.shared.engine.now(),
            tries: self.circuit.tries(),
            pause: self.circuit.rests_until().map_or(Duration::ZERO, |until| until - now),
            error,
        };
        self.shared.circuits.missed(self.queue, latest)
    }

    /// What has rested until now goes on.
    fn rested(&mut self, now: Instant) {
        self.store_rests_until = self.store_rests_until.filter(|until| *until > now);
        if self.circuit.rests_until().is_some_and(|until| until <= now) {
            self.circuit.rested();
        }
    }

    /// Until when nothing leaves, in real time.
    fn rests_until(&self) -> Option<Instant> {
        self.store_rests_until.max(self.circuit.rests_until())
    }

    /// There is another target now, or none: what is under way to the old one says nothing any more.
    fn forget_circuit(&mut self) {
        self.circuit.forget();
        (self.trying, self.is_unfit) = (false, false);
        if let Some(open) = self.shared.circuits.closed(self.queue) {
            (self.shared.settings.notices)(Notice::GoneUnreached(open));
        }
    }

    /// The lane ends. Nothing is said of a target that may be as broken as before.
    fn part(&mut self) {
        if self.is_leaving() || self.shared.stop.is_closing() {
            let _unsaid = self.shared.circuits.closed(self.queue);
        } else {
            self.forget_circuit();
        }
    }

    fn tell_closed(&self) {
        if let Some(open) = self.shared.circuits.closed(self.queue) {
            (self.shared.settings.notices)(Notice::ReachedAgain(open));
        }
    }
}

fn concurrency_max(push: &Push) -> u32 {
    push.max_concurrency.unwrap_or(limits::MAX_CONCURRENCY.max)
}

fn is_same_target(push: &Push, consumer: &Consumer) -> bool {
    consumer.push().is_some_and(|other| other.target == push.target)
}

/// Waits until something changed; for ever where nothing does.
async fn changed(targets: &mut Option<watch::Receiver<u64>>) {
    if let Some(targets) = targets
        && targets.changed().await.is_ok()
    {
        return;
    }
    pending::<()>().await;
}

async fn maybe<F: Future>(future: Option<F>) -> F::Output {
    match future {
        Some(future) => future.await,
        None => pending().await,
    }
}
