//! The shards of one process: each has an event loop of its own, and the loops are nodes of a fleet to each other.
//!
//! Nothing here comes, leaves or is cut off. Which loop keeps which shard is settled before the loops run. What a loop
//! asks another one is a task on that one's thread: one crossing there, one back. Names are kept in memory; they are
//! read from the shards' ledgers, which alone say which queues there are.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, OnceLock, Weak};

use kew_core::command::ListMoves;
use kew_core::{Ask as _, MoveTask, Queue};
use kew_core::{Command, Outcome, QueueId, QueueKey, ShardCount, ShardId, TaskState, ask};
use kew_engine::{Brought, Engine};
use kew_peer::Request;
use kew_store::Store;
use parking_lot::Mutex;
use tokio::task::{AbortHandle, JoinError, JoinSet};

use crate::carrying::Others;
use crate::contracts::{Agreed, Carried, Carrier, Lost, Names};
use crate::fleet::Fleet;
use crate::inner::Inner;
use crate::map::{FleetMap, MapPart, NodeId, NodeRow, ShardRow};
use crate::places::{Here, Place};

/// The store under the engine of one loop of a process: its own shard, and the way to the others.
pub struct LoopStore {
    fleet: Arc<Fleet>,
    shard: ShardId,
    brought: Brought,
}

/// The loops of a process, one for each of its shards in order, before they run. An error says which queue is in a
/// shard where it cannot be.
pub fn loops_of_process(stores: Vec<Arc<dyn Store>>) -> Result<Vec<LoopStore>, String> {
    let count = u16::try_from(stores.len()).ok().and_then(ShardCount::new);
    let count = count.expect("a process keeps at least one shard, and as many as 16 bits count");
    let all: Here = count.all().zip(stores).collect();
    let names = Arc::new(KnownNames::default());
    let brought = all.iter().map(|(shard, store)| {
        let brought = look_through(*shard, &**store)?;
        brought.queues.iter().try_for_each(|queue| names.note(count, *shard, queue)).map(|()| brought)
    });
    let brought: Vec<Brought> = brought.collect::<Result<_, _>>()?;
    let links = Arc::new(LoopLinks::default());
    let map = Arc::new(map_of(count));
    let fleets: Vec<Arc<Fleet>> = all
        .iter()
        .map(|(shard, store)| {
            let reach = (Arc::clone(&links) as Arc<dyn Carrier>, Arc::clone(&names) as Arc<dyn Names>);
            let fleet = Fleet::of(loop_of(*shard), count, reach, Some(Arc::clone(&all)));
            for other in count.all().filter(|other| other != shard) {
                fleet.0.places.set(other, Place::At(loop_of(other)));
            }
            fleet.0.places.set(*shard, Place::Here(Arc::clone(store)));
            *fleet.0.map.write() = Arc::clone(&map);
            store.know_others(Arc::new(Others(Arc::downgrade(&fleet.0))));
            Arc::new(fleet)
        })
        .collect();
    let loops = count.all().zip(&fleets).map(|(shard, fleet)| (loop_of(shard), Arc::downgrade(&fleet.0)));
    let is_first = links.loops.set(loops.collect()).is_ok();
    assert!(is_first, "the links between loops are set once");
    let stores = count.all().zip(fleets).zip(brought);
    Ok(stores.map(|((shard, fleet), brought)| LoopStore { fleet, shard, brought }).collect())
}

impl LoopStore {
    /// The store that the loop's engine stands on.
    pub fn store(&self) -> Arc<Fleet> {
        Arc::clone(&self.fleet)
    }

    /// Begins to serve with an engine, on the engine's event loop. The tasks go on for as long as they are kept.
    pub fn begin(self, engine: &Arc<Engine>) -> JoinSet<()> {
        let Self { fleet, shard, brought } = self;
        let count = fleet.0.places.count;
        fleet.serve_with(engine);
        engine.shard_came(&brought, |queue: QueueId| count.of_queue(queue) == shard);
        fleet.0.note_renames(shard, &brought.queues);
        let mut tasks = JoinSet::new();
        tasks.spawn(Arc::clone(&fleet.0).stay_informed());
        tasks.spawn(Arc::clone(&fleet.0).release_later());
        tasks.spawn(Arc::clone(&fleet.0).carry_owed());
        tasks
    }
}

/// What a shard brings along. Dead letters that leave meanwhile change none of it.
fn look_through(shard: ShardId, store: &dyn Store) -> Result<Brought, String> {
    let at = store.newest_instant();
    // With a shard that does not say its queues a name could be made a second time.
    let unknown = || format!("shard {shard} does not say which queues and tasks it has");
    let queues = match store.step(at, &Command::Queues).peek() {
        Some(Outcome::Queues(queues)) => queues.clone(),
        _ => return Err(unknown()),
    };
    let list = ask::ListMoves::command(ListMoves { source: None });
    let mut tasks: Vec<Arc<MoveTask>> = match store.step(at, &list).peek() {
        Some(Outcome::Moves(tasks)) => tasks.clone(),
        _ => return Err(unknown()),
    };
    tasks.retain(|task| task.state == TaskState::Running);
    Ok(Brought { queues, tasks, hold: None })
}

fn loop_of(shard: ShardId) -> NodeId {
    NodeId(format!("loop-{shard}").into())
}

/// Every loop keeps the shard of its number.
fn map_of(count: ShardCount) -> FleetMap {
    let node = |shard: ShardId| NodeRow {
        id: loop_of(shard),
        name: loop_of(shard).0,
        address: "".into(),
        version: "".into(),
    };
    let row = |shard| ShardRow {
        shard,
        epoch: 1,
        owner: Some(loop_of(shard)),
        wanted: None,
        moves: 0,
        wanted_in: None,
    };
    let (nodes, shards) = (count.all().map(node).collect(), count.all().map(row).collect());
    MapPart { nodes, shards, ..MapPart::default() }.into()
}

/// The way from each loop to the others.
#[derive(Default)]
struct LoopLinks {
    loops: OnceLock<BTreeMap<NodeId, Weak<Inner>>>,
}

impl Carrier for LoopLinks {
    fn carry(&self, node: &NodeId, request: Request) -> Carried {
        let other = self.loops.get().and_then(|loops| loops.get(node)).and_then(Weak::upgrade);
        Box::pin(async move {
            let asked = other.ok_or(Lost::NotSent)?;
            // A loop that has not begun yet is asked again.
            let event_loop = asked.event_loop().cloned().ok_or(Lost::NotSent)?;
            // A notice must arrive even if the loop that sends it does not wait any longer: no loop is ever cut off,
            // so none would ask for it.
            let is_notice = matches!(request, Request::Show(_) | Request::Hide(_) | Request::Pause { .. });
            let answer = event_loop.spawn(async move { asked.serve(request).await });
            let _cancelled = (!is_notice).then(|| Cancels(answer.abort_handle()));
            answer.await.map_err(fallen)
        })
    }

    fn heard_in(&self, _node: &NodeId) -> Option<u64> {
        Some(0)
    }
}

/// A loop that panicked ends the process; one that ends answers nothing more.
fn fallen(_ended: JoinError) -> Lost {
    Lost::Unknown
}

/// A request whose asker goes away is given up.
struct Cancels(AbortHandle);

impl Drop for Cancels {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Names that are remembered although no queue has them any more; the oldest goes.
const FREE_MAX: usize = 10_000;

/// The names of all queues, each with the shard that has it.
#[derive(Default)]
struct KnownNames {
    /// Guards them; held for a moment.
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    shards: HashMap<QueueKey, ShardId>,
    /// Names whose queues are gone. A new queue of such a name is made in the same shard, so that the end of the one
    /// and the beginning of the other lie in one journal: whatever a crash forgets, no name is in two shards. A queue
    /// that is renamed cannot go there. A name is released when the end of its queue was answered: with `--durability
    /// os` alone can a power cut forget that and not the rename.
    free: HashMap<QueueKey, Freed>,
    /// The order in which they became free. Of a name that was taken again meanwhile an entry stays behind.
    order: VecDeque<(u64, QueueKey)>,
    /// How often a name became free.
    times: u64,
}

/// A name without a queue.
#[derive(Clone, Copy)]
struct Freed {
    shard: ShardId,
    /// The number of its entry in the order.
    entry: u64,
}

impl Known {
    /// The shard that a name belongs to: this one, if nothing is known of it.
    fn claim(&mut self, shard: ShardId, key: &QueueKey) -> ShardId {
        let freed = self.free.get(key).map(|freed| freed.shard).filter(|owner| *owner != shard);
        freed.unwrap_or_else(|| self.claim_for_rename(shard, key))
    }

    /// The same, also where the name is free and was another shard's.
    fn claim_for_rename(&mut self, shard: ShardId, key: &QueueKey) -> ShardId {
        if let Some(owner) = self.shards.get(key) {
            return *owner;
        }
        self.free.remove(key);
        self.shards.insert(key.clone(), shard);
        shard
    }

    fn release(&mut self, shard: ShardId, key: &QueueKey) {
        if self.shards.get(key) != Some(&shard) {
            return;
        }
        self.shards.remove(key);
        self.times += 1;
        self.free.insert(key.clone(), Freed { shard, entry: self.times });
        self.order.push_back((self.times, key.clone()));
        while self.free.len() > FREE_MAX {
            self.forget_oldest();
        }
        // Entries that stayed behind are as many as the others at most.
        if self.order.len() > 2 * FREE_MAX {
            let Self { free, order, .. } = self;
            order.retain(|(entry, key)| free.get(key).is_some_and(|freed| freed.entry == *entry));
        }
    }

    fn forget_oldest(&mut self) {
        let Some((entry, key)) = self.order.pop_front() else { return };
        if self.free.get(&key).is_some_and(|freed| freed.entry == entry) {
            self.free.remove(&key);
        }
    }
}

impl KnownNames {
    /// Notes a queue that is in a shard as the process begins.
    fn note(&self, count: ShardCount, shard: ShardId, queue: &Queue) -> Result<(), String> {
        let name = &queue.key.name;
        if count.of_queue(queue.id) != shard {
            return Err(format!(
                "the queue {name} has the number {}, which no queue of shard {shard} has",
                queue.id.0
            ));
        }
        match self.known.lock().shards.insert(queue.key.clone(), shard) {
            None => Ok(()),
            Some(other) => Err(format!("the queue {name} is in shard {other} and in shard {shard}")),
        }
    }
}

impl Names for KnownNames {
    fn claim(&self, shard: ShardId, key: &QueueKey) -> Agreed<ShardId> {
        let owner = self.known.lock().claim(shard, key);
        Box::pin(std::future::ready(Ok(owner)))
    }

    fn claim_for_rename(&self, shard: ShardId, key: &QueueKey) -> Agreed<ShardId> {
        let owner = self.known.lock().claim_for_rename(shard, key);
        Box::pin(std::future::ready(Ok(owner)))
    }

    fn release(&self, shard: ShardId, key: &QueueKey) -> Agreed<()> {
        self.known.lock().release(shard, key);
        Box::pin(std::future::ready(Ok(())))
    }

    fn settle(&self, _shard: ShardId, _keys: Vec<QueueKey>) -> Agreed<()> {
        // They were read from the ledgers.
        Box::pin(std::future::ready(Ok(())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kew_core::AccountId;

    fn key(name: &str) -> QueueKey {
        QueueKey::new(AccountId(0), "r", name)
    }

    #[test]
    fn name_belongs_to_the_shard_that_claims_it_first_and_comes_back_to_it() {
        let mut known = Known::default();
        assert_eq!(known.claim(ShardId(1), &key("a")), ShardId(1));
        assert_eq!(known.claim(ShardId(2), &key("a")), ShardId(1));
        known.release(ShardId(2), &key("a"));
        assert_eq!(known.claim(ShardId(1), &key("a")), ShardId(1), "another shard releases nothing");
        known.release(ShardId(1), &key("a"));
        assert_eq!(
            known.claim(ShardId(2), &key("a")),
            ShardId(1),
            "its end lies in the journal of that shard"
        );
        assert_eq!(known.claim(ShardId(1), &key("a")), ShardId(1));
        assert_eq!(known.free.len(), 0);
    }

    #[test]
    fn free_name_goes_to_the_shard_of_a_queue_that_is_renamed_to_it() {
        let mut known = Known::default();
        assert_eq!(known.claim(ShardId(1), &key("a")), ShardId(1));
        assert_eq!(known.claim_for_rename(ShardId(2), &key("a")), ShardId(1), "a queue has it");
        known.release(ShardId(1), &key("a"));
        assert_eq!(known.claim_for_rename(ShardId(2), &key("a")), ShardId(2));
        assert_eq!(known.claim(ShardId(1), &key("a")), ShardId(2));
        assert_eq!(known.free.len(), 0);
    }

    #[test]
    fn free_names_are_remembered_up_to_a_bound() {
        let mut known = Known::default();
        for number in 0..FREE_MAX + 10 {
            let key = key(&number.to_string());
            known.claim(ShardId(1), &key);
            known.release(ShardId(1), &key);
        }
        assert_eq!((known.free.len(), known.order.len(), known.shards.len()), (FREE_MAX, FREE_MAX, 0));
        assert_eq!(known.claim(ShardId(2), &key("0")), ShardId(2), "the oldest was forgotten");
        assert_eq!(known.claim(ShardId(2), &key("10")), ShardId(1));
    }

    #[test]
    fn names_that_come_and_go_push_out_no_other() {
        let mut known = Known::default();
        for name in ["first", "a", "b"] {
            known.claim(ShardId(1), &key(name));
            known.release(ShardId(1), &key(name));
        }
        for _ in 0..3 * FREE_MAX {
            for name in ["a", "b"] {
                assert_eq!(known.claim(ShardId(1), &key(name)), ShardId(1));
                known.release(ShardId(1), &key(name));
            }
            assert!(known.order.len() <= 2 * FREE_MAX);
        }
        for name in ["first", "a", "b"] {
            assert_eq!(known.claim(ShardId(2), &key(name)), ShardId(1), "{name}");
        }
    }
}
