//! A step that another node takes: the owner of its shard is asked, whichever node that is by now.

use std::sync::Arc;
use std::time::Duration;

use kew_core::command::{ListMoves, Trace, Traced};
use kew_core::outcome::Trail;
use kew_core::{Command, MoveTask, Outcome, ShardId, Timestamp};
use kew_store::StoreError;
use tokio::time::Instant;

use crate::contracts::Lost;
use crate::inner::Inner;
use crate::places::Place;
use kew_peer::{Refusal, Reply, Request};

/// How long a step waits for its shard to have an owner. A take-over takes up to 5 s.
const PATIENCE: Duration = Duration::from_secs(8);
/// The same where the shard's database has been silent for longer than that, and no node keeps it.
const PATIENCE_WITH_SILENCE: Duration = Duration::from_secs(1);
/// The pause before the same node is asked again.
const ASKS_AGAIN: Duration = Duration::from_millis(25);
/// The longest pause of a receive that waits: thousands may wait for a shard that is handed over. A new owner ends it.
const WAITS_AGAIN_MAX: Duration = Duration::from_millis(200);

/// The outcome of a step, or of a lease, of a shard.
pub(crate) async fn outcome(
    fleet: Arc<Inner>,
    shard: ShardId,
    request: Request,
) -> Result<Outcome, StoreError> {
    match fleet.ask_owner(shard, request).await? {
        Reply::Done(outcome) => Ok(outcome),
        Reply::Queues(..) | Reply::Shown | Reply::Seen(_) => Err(away("the owner answered another request")),
    }
}

/// The outcome of a look that goes through all shards.
pub(crate) async fn around(fleet: Arc<Inner>, command: Command) -> Result<Outcome, StoreError> {
    match command {
        Command::ListMoves(list) => {
            let mut tasks: Vec<Arc<MoveTask>> = Vec::new();
            for shard in fleet.places.count.all() {
                let command = Command::ListMoves(ListMoves { source: list.source });
                let request = Request::Step { shard, command };
                let Outcome::Moves(some) = outcome(Arc::clone(&fleet), shard, request).await? else {
                    continue;
                };
                tasks.extend(some);
            }
            tasks.sort_by_key(|task| std::cmp::Reverse((task.started_at, task.id)));
            Ok(Outcome::Moves(tasks))
        }
        Command::Trace(trace) => trace_around(fleet, trace).await.map(Outcome::Traced),
        _ => Err(away("a step of one shard was taken around all")),
    }
}

/// Bits of a place in a trail that say how far the look has come in one shard; those above say which shard.
const EVENT_BITS: u32 = 48;
/// The newest event of a shard.
const NEWEST: u64 = (1 << EVENT_BITS) - 1;

/// One slice of a trail: in one shard. Where it ends the next shard begins, at its newest event.
async fn trace_around(fleet: Arc<Inner>, trace: Trace) -> Result<Trail, StoreError> {
    let count = fleet.places.count;
    let place = trace.before.unwrap_or(NEWEST);
    let shard = ShardId(u16::try_from(place >> EVENT_BITS).unwrap_or(u16::MAX));
    let before = Some(place & NEWEST).filter(|before| *before != NEWEST);
    let next_shard = shard.0.checked_add(1).filter(|next| *next < count.get());
    let next_place = next_shard.map(|next| (u64::from(next) << EVENT_BITS) | NEWEST);
    let what = match trace.what {
        Traced::Places(places) => {
            // A message that went to another shard is known there by the place between the two that it came from. That
            // is in no list of queues.
            let is_listed = |queue| fleet.engine().is_some_and(|engine| engine.queue_by_id(queue).is_some());
            let is_asked_for = |queue| count.of_queue(queue) == shard || !is_listed(queue);
            let there = places.into_iter().filter(|(queue, _)| is_asked_for(*queue));
            Traced::Places(there.collect())
        }
        id @ Traced::Id(_) => id,
        Traced::Queue(queue) if count.of_queue(queue) == shard => Traced::Queue(queue),
        Traced::Queue(_) => Traced::Places(Vec::new()),
    };
    if matches!(&what, Traced::Places(places) if places.is_empty()) {
        return Ok(Trail { events: Vec::new(), next: next_place });
    }
    let command = Command::Trace(Trace { what, before, look_max: trace.look_max });
    let answer = outcome(Arc::clone(&fleet), shard, Request::Step { shard, command }).await?;
    let Outcome::Traced(Trail { events, next }) = answer else {
        return Err(away("the owner answered another request"));
    };
    let in_shard = next.map(|next| (u64::from(shard.0) << EVENT_BITS) | next.min(NEWEST - 1));
    Ok(Trail { events, next: in_shard.or(next_place) })
}

impl Inner {
    /// Asks the owner of a shard; waits for one where there is none just now.
    pub(crate) async fn ask_owner(
        self: &Arc<Self>,
        shard: ShardId,
        request: Request,
    ) -> Result<Reply, StoreError> {
        self.try_owner(shard, request).await.map_err(|refusal| match refusal {
            Refusal::Store(error) => error,
            Refusal::NotTheOwner => away("no node keeps the shard of the queue"),
            Refusal::NameIsIn(_) => away("the name of the queue moved to another shard"),
        })
    }

    /// The same, with the refusals that say where to go on.
    pub(crate) async fn try_owner(
        self: &Arc<Self>,
        shard: ShardId,
        mut request: Request,
    ) -> Result<Reply, Refusal> {
        let is_long_silent = self.is_out_of_reach(shard, PATIENCE);
        let mut until = Instant::now() + if is_long_silent { PATIENCE_WITH_SILENCE } else { PATIENCE };
        let deadline = wait_of(&request).map(|wait| self.time().plus(wait));
        let mut changes = self.places.changes();
        let mut pause = ASKS_AGAIN;
        loop {
            changes.mark_unchanged();
            let asked = Instant::now();
            let is_refused = match self.places.of(shard) {
                Place::Here(_) => match self.serve(request.clone()).await {
                    Err(Refusal::NotTheOwner) => true,
                    answer => return answer,
                },
                Place::At(node) => match self.carrier.carry(&node, request.clone()).await {
                    Ok(Err(Refusal::NotTheOwner)) => true,
                    Ok(answer) => return answer,
                    Err(Lost::NotSent) => false,
                    Err(Lost::Unknown) if request.may_repeat() => false,
                    Err(Lost::Unknown) => {
                        return Err(Refusal::Store(away("the node that keeps the queue was lost")));
                    }
                },
                Place::Nowhere => false,
            };
            if is_refused && wait_of(&request).is_some_and(|wait| !wait.is_zero()) {
                // It may have waited there: the shard had an owner all the while.
                until += asked.elapsed();
                pause = (pause * 2).min(WAITS_AGAIN_MAX);
            }
            if Instant::now() >= until {
                return Err(Refusal::NotTheOwner);
            }
            // Whatever it says, the owner is looked up again.
            let _changed = tokio::time::timeout(pause, changes.changed()).await;
            if let (Request::Lease { wait, .. }, Some(deadline)) = (&mut request, deadline) {
                *wait = deadline.since(self.time());
            }
        }
    }

    /// Engine time; it is zero only where the node ends.
    fn time(&self) -> Timestamp {
        self.engine().map_or(Timestamp::ZERO, |engine| engine.now())
    }
}

fn wait_of(request: &Request) -> Option<Duration> {
    match request {
        Request::Lease { wait, .. } => Some(*wait),
        _ => None,
    }
}

/// The error of a step that its owner did not answer: the client may try again.
pub(crate) fn away(cause: &str) -> StoreError {
    StoreError::Unavailable { cause: cause.to_owned() }
}
