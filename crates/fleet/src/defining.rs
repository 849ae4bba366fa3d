//! Queues that are made, changed and deleted: all nodes agree to that before it is answered.
//!
//! A name belongs to one shard. The owner of the shard claims it, then makes the queue in the shard's ledger; whether
//! there is a queue of the name is said by that ledger. A new queue is made in the shard that has its name. One that is
//! renamed stays in its shard, which gets the name unless another shard has a queue of it. A deleted queue's name is
//! released after it is gone from the ledger, so an owner that dies in between leaves a name without a queue, which
//! its successor finds and releases. Before the answer, every node that is heard of shows the queue as it is now: also
//! where the asker went away, and where it is not clear yet whether the step will last.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use kew_core::command::{CreateQueue, DeleteQueue, PutDocuments, UpdateQueue};
use kew_core::{
    Command, DeadLetterAction, Outcome, Pause, Queue, QueueId, QueueKey, RuleError, ShardId, Timestamp,
};
use kew_engine::Engine;
use kew_store::{Store, StoreError};

use crate::asking::away;
use crate::contracts::Agreed;
use crate::inner::Inner;
use crate::places::Place;
use crate::renamed::{self, names_before};
use crate::serving::{PAGE, refusal};
use crate::times::OUTLIVES_SILENCE;
use crate::unreleased::RELEASES_AGAIN;
use kew_peer::{Refusal, Reply, Request};

/// Shards that are asked for one name at most: it moves only while it is being looked for.
const SHARDS_TRIED: usize = 4;
/// How often it is tried to rename a queue to a name that another shard has without a queue, and is to release.
const RENAMES_TRIED: usize = 3;

/// How often it is tried to have a rule follow a rename, and the pause in between.
const FOLLOWS_TRIED: usize = 8;
const FOLLOWS_AGAIN: Duration = Duration::from_millis(50);

/// A queue that was renamed, and the name it had before.
struct Renamed {
    queue: QueueId,
    old: QueueKey,
}

/// What a queue's definition comes to.
type Defined = Result<Outcome, StoreError>;

/// A shard of this node, one of whose names is being claimed or released.
struct Held {
    shard: ShardId,
    /// Its store. Another one is that of a later owner, which may be this node again.
    store: Arc<dyn Store>,
}

impl Inner {
    /// Makes, changes or deletes a queue wherever its shard is kept.
    pub(crate) async fn define(self: Arc<Self>, command: Command) -> Defined {
        let mut shard = match &command {
            Command::CreateQueue(create) => self.shard_for(create),
            Command::UpdateQueue(update) => self.places.count.of_queue(update.queue),
            Command::DeleteQueue(delete) => self.places.count.of_queue(delete.queue),
            _ => return Err(away("only queues are defined")),
        };
        for _ in 0..SHARDS_TRIED {
            let request = Request::Step { shard, command: command.clone() };
            match self.try_owner(shard, request).await {
                Ok(Reply::Done(outcome)) => return Ok(outcome),
                // Only a new queue may be in any shard. One that is there would be changed past its shard's names.
                Err(Refusal::NameIsIn(other)) if matches!(command, Command::CreateQueue(_)) => shard = other,
                Err(Refusal::NameIsIn(_)) => return Err(away("the name of the queue is in another shard")),
                Err(Refusal::Store(error)) => return Err(error),
                Ok(Reply::Queues(..) | Reply::Shown | Reply::Seen(_)) | Err(Refusal::NotTheOwner) => break,
            }
        }
        Err(away("no node keeps the shard of the queue"))
    }

    /// The same within another definition: boxed, since a future cannot hold one of its own kind.
    fn define_within(self: Arc<Self>, command: Command) -> Pin<Box<dyn Future<Output = Defined> + Send>> {
        Box::pin(self.define(command))
    }

    /// The shard of a new queue: that of its name where that is known, that of the queue its dead letters go to, or
    /// the one with the fewest queues.
    fn shard_for(&self, create: &CreateQueue) -> ShardId {
        let Some(engine) = self.engine() else { return ShardId::OF_ACCOUNTS };
        let of = |key: &QueueKey| engine.queue(key).map(|queue| self.places.count.of_queue(queue.id));
        let target = create.policy.dead_letters.as_deref().and_then(|rule| match &rule.then {
            DeadLetterAction::MoveTo(key) => of(key),
            _ => None,
        });
        let target = target.filter(|shard| !self.has_failed(*shard));
        of(&create.key).or(target).unwrap_or_else(|| self.emptiest(&engine))
    }

    fn emptiest(&self, engine: &Engine) -> ShardId {
        let count = self.places.count;
        let mut queues = engine.queues_of_each_shard(count);
        for shard in self.making.lock().values() {
            if let Some(queues) = queues.get_mut(usize::from(shard.0)) {
                *queues += 1;
            }
        }
        let fewest = count.all().zip(queues).filter(|(shard, _)| !self.has_failed(*shard));
        let fewest = fewest.min_by_key(|(_, queues)| *queues);
        fewest.map_or(ShardId::OF_ACCOUNTS, |(shard, _)| shard)
    }

    /// Whether a shard of this process has stopped, or its database is silent and no node is known to keep it: another
    /// shard takes the new queues. Where its database answers another node keeps it in a moment.
    fn has_failed(&self, shard: ShardId) -> bool {
        if self.of_one_process.is_none() && self.is_out_of_reach(shard, OUTLIVES_SILENCE) {
            return true;
        }
        let stores = self.of_one_process.iter().flat_map(|stores| stores.iter());
        stores.filter(|(other, _)| *other == shard).any(|(_, store)| store.health().is_err())
    }

    /// The same in a shard that is kept here.
    pub(crate) async fn define_here(
        self: &Arc<Self>,
        shard: ShardId,
        command: Command,
    ) -> Result<Outcome, Refusal> {
        let (queue, new_key) = match &command {
            Command::UpdateQueue(update) => (Some(update.queue), update.rename.clone()),
            Command::DeleteQueue(delete) => (Some(delete.queue), None),
            _ => (None, None),
        };
        if queue.is_some_and(|queue| self.places.count.of_queue(queue) != shard) {
            return Err(Refusal::Store(away("the queue is in another shard than the one that was asked")));
        }
        let Some(new_key) = new_key else { return self.define_in_turn(shard, command).await };
        for tried in 0..RENAMES_TRIED {
            if tried > 0 {
                tokio::time::sleep(RELEASES_AGAIN).await;
            }
            let other = match self.define_in_turn(shard, command.clone()).await {
                Err(Refusal::NameIsIn(other)) => other,
                done => return done,
            };
            let taken = self.engine().and_then(|engine| engine.queue(&new_key));
            if let Some(taken) = taken.filter(|taken| self.places.count.of_queue(taken.id) == other) {
                return Err(Refusal::Store(RuleError::QueueExists(taken).into()));
            }
            // Else its owner is just making a queue of the name, or has still to release it.
        }
        Err(Refusal::Store(away("another shard has the name, and shows no queue of it")))
    }

    /// The same, one name of the shard at a time. What has begun goes on although its asker goes away, as one does
    /// whose link is cut: the other nodes must hear of what was done.
    async fn define_in_turn(self: &Arc<Self>, shard: ShardId, command: Command) -> Result<Outcome, Refusal> {
        let one_at_a_time = self.directory.naming(shard).await;
        let store = self.places.here(shard).ok_or(Refusal::NotTheOwner)?;
        let held = Held { shard, store };
        let ends = || Refusal::Store(away("the node ends"));
        let (engine, event_loop) = (self.engine().ok_or_else(ends)?, self.event_loop().ok_or_else(ends)?);
        let fleet = Arc::clone(self);
        let defined = event_loop.spawn(async move {
            let mut renamed = None;
            let done = match command {
                Command::CreateQueue(create) => fleet.create_here(&engine, &held, create).await,
                Command::UpdateQueue(update) => fleet.update_here(&engine, &held, update, &mut renamed).await,
                Command::DeleteQueue(delete) => fleet.delete_here(&engine, &held, delete).await,
                _ => Err(Refusal::Store(away("only queues are defined"))),
            };
            drop(one_at_a_time);
            if let Some(Renamed { queue, old }) = renamed {
                if let Err(error) = fleet.rules_follow(&engine, queue, &old).await {
                    fleet.unreleased.note(shard, old, Some(queue));
                    return Err(Refusal::Store(error));
                }
                if fleet.rules_have_followed(&engine, queue, &old).await.is_err() {
                    fleet.unreleased.note(shard, old, Some(queue));
                }
            }
            done
        });
        defined.await.unwrap_or_else(|_| Err(ends()))
    }

    /// The rules of queues in other shards follow a rename to the name that the queue has now, one after the other;
    /// those of its own shard have followed it in the same step.
    async fn rules_follow(
        self: &Arc<Self>,
        engine: &Engine,
        queue: QueueId,
        old: &QueueKey,
    ) -> Result<(), StoreError> {
        let Some(renamed) = engine.queue_by_id(queue).filter(|queue| queue.key != *old) else {
            return Ok(());
        };
        let shard = self.places.count.of_queue(queue);
        let mut after: Option<Arc<str>> = None;
        loop {
            let some = engine.dead_letter_sources(old, after.as_deref(), PAGE);
            let Some(last) = some.last() else { return Ok(()) };
            after = Some(Arc::clone(&last.key.name));
            for other in some.iter().filter(|other| self.places.count.of_queue(other.id) != shard) {
                self.follow_rename(engine, other.id, old, &renamed.key).await?;
            }
        }
    }

    /// Whether a rule of a queue in another shard than this one names a queue.
    async fn is_named_elsewhere(&self, engine: &Engine, shard: ShardId, key: &QueueKey) -> bool {
        let is_here = |other: &Queue| match self.places.count.of_queue(other.id) == shard {
            true => Ok(()),
            false => Err(()),
        };
        engine.each_dead_letter_source(key, is_here).await.is_err()
    }

    /// Forgets a name that a queue had, once no rule names it so any more.
    async fn rules_have_followed(
        self: &Arc<Self>,
        engine: &Engine,
        queue: QueueId,
        old: &QueueKey,
    ) -> Result<(), StoreError> {
        for _ in 0..FOLLOWS_TRIED {
            let Some(known) = engine.queue_by_id(queue) else { return Ok(()) };
            let mut names = names_before(&known);
            if !names.contains(old) {
                return Ok(());
            }
            names.retain(|name| name != old);
            let update = UpdateQueue {
                queue,
                if_version: Some(known.version),
                policy: None,
                documents: vec![renamed::change(&names)],
                rename: None,
            };
            match Arc::clone(self).define_within(Command::UpdateQueue(update)).await {
                Ok(_) | Err(StoreError::Rule(RuleError::QueueNotFound)) => return Ok(()),
                Err(StoreError::Rule(RuleError::VersionChanged)) => tokio::time::sleep(FOLLOWS_AGAIN).await,
                Err(error) => return Err(error),
            }
        }
        Err(away("the queue is changed again and again"))
    }

    /// Rules are still to follow the renames of these queues, if their owner ended before that.
    pub(crate) fn note_renames(&self, shard: ShardId, queues: &[Arc<Queue>]) {
        for queue in queues {
            for old in names_before(queue) {
                self.unreleased.note(shard, old, Some(queue.id));
            }
        }
    }

    /// The rule of a queue in another shard follows a rename, if it names the queue.
    async fn follow_rename(
        self: &Arc<Self>,
        engine: &Engine,
        queue: QueueId,
        old: &QueueKey,
        new: &QueueKey,
    ) -> Result<(), StoreError> {
        for _ in 0..FOLLOWS_TRIED {
            let Some(known) = engine.queue_by_id(queue) else { return Ok(()) };
            let mut policy = known.policy.clone();
            match policy.dead_letters.as_deref_mut().map(|rule| &mut rule.then) {
                Some(DeadLetterAction::MoveTo(key)) if *key == *old => *key = new.clone(),
                _ => return Ok(()),
            }
            let update = UpdateQueue {
                queue,
                if_version: Some(known.version),
                policy: Some(policy),
                documents: Vec::new(),
                rename: None,
            };
            match Arc::clone(self).define_within(Command::UpdateQueue(update)).await {
                Ok(_) | Err(StoreError::Rule(RuleError::QueueNotFound)) => return Ok(()),
                // Another change came between the look and the step, and is shown in a moment.
                Err(StoreError::Rule(RuleError::VersionChanged)) => tokio::time::sleep(FOLLOWS_AGAIN).await,
                Err(error) => return Err(error),
            }
        }
        Err(away("it was renamed, but a rule of another queue still names it by its old name"))
    }

    async fn create_here(
        self: &Arc<Self>,
        engine: &Engine,
        held: &Held,
        create: CreateQueue,
    ) -> Result<Outcome, Refusal> {
        let (shard, key) = (held.shard, create.key.clone());
        self.must_reach_names_of(shard)?;
        self.is_claimed(held, &key, self.names.claim(shard, &key)).await?;
        let _making = Making::begin(self, &key, shard);
        let done = engine.carry_out(Command::CreateQueue(create)).await;
        match engine.queue(&key).filter(|queue| self.places.count.of_queue(queue.id) == shard) {
            // Also one that was there, or of which it is not known whether it will last: the others show what is shown
            // here. An earlier owner may have ended before it announced it.
            Some(queue) => self.tell_all(Request::Show(vec![queue])).await,
            None => self.release(shard, &key).await,
        }
        done.map_err(refusal)
    }

    /// A queue that surely has another name afterwards is noted in `was_renamed`.
    async fn update_here(
        self: &Arc<Self>,
        engine: &Engine,
        held: &Held,
        mut update: UpdateQueue,
        was_renamed: &mut Option<Renamed>,
    ) -> Result<Outcome, Refusal> {
        let shard = held.shard;
        let (queue, before) = (update.queue, engine.queue_by_id(update.queue));
        let renamed = update.rename.clone();
        match &renamed {
            Some(key) => {
                self.must_reach_names_of(shard)?;
                self.is_claimed(held, key, self.names.claim_for_rename(shard, key)).await?;
            }
            None => self.must_still_keep(held)?,
        }
        let leaves_its_name = |before: &&Arc<Queue>| renamed.as_ref().is_some_and(|key| *key != before.key);
        if let Some(before) = before.as_ref().filter(leaves_its_name)
            && self.is_named_elsewhere(engine, shard, &before.key).await
        {
            let mut names = names_before(before);
            names.push(before.key.clone());
            update.documents.push(renamed::change(&names));
        }
        let done = engine.carry_out(Command::UpdateQueue(update)).await;
        let after = engine.queue_by_id(queue);
        if let Some(queue) = &after {
            self.tell_all(Request::Show(vec![Arc::clone(queue)])).await;
        }
        let other_name = |before: &Arc<Queue>| after.as_ref().is_some_and(|after| after.key != before.key);
        match (before.filter(other_name), renamed) {
            (Some(before), Some(key)) => {
                let old = before.key.clone();
                self.tell_of_sources(engine, shard, &key).await;
                if done.is_ok() {
                    self.release(shard, &old).await;
                    *was_renamed = Some(Renamed { queue, old });
                } else {
                    self.unreleased.note(shard, old, Some(queue));
                }
            }
            // The ledger has the last word: a name that it did not take belongs to no queue, or to its old one.
            (None, Some(key)) if done.is_err() && engine.queue(&key).is_none() => {
                self.release(shard, &key).await;
            }
            _ => {}
        }
        done.map_err(refusal)
    }

    async fn delete_here(
        self: &Arc<Self>,
        engine: &Engine,
        held: &Held,
        delete: DeleteQueue,
    ) -> Result<Outcome, Refusal> {
        self.must_still_keep(held)?;
        let (queue, before) = (delete.queue, engine.queue_by_id(delete.queue));
        let done = engine.carry_out(Command::DeleteQueue(delete)).await;
        if engine.queue_by_id(queue).is_none() {
            self.tell_all(Request::Hide(queue)).await;
            match (&done, before) {
                (Ok(_), Some(before)) => self.release(held.shard, &before.key).await,
                (Err(_), Some(before)) => {
                    self.unreleased.note(held.shard, before.key.clone(), None);
                }
                (_, None) => {}
            }
        }
        done.map_err(refusal)
    }

    /// Whether a shard has the name that it claims, and is kept in the same store afterwards. An owner that came
    /// meanwhile has compared the shard's names, and released this one.
    async fn is_claimed(&self, held: &Held, key: &QueueKey, claim: Agreed<ShardId>) -> Result<(), Refusal> {
        match claim.await {
            Ok(owner) if owner == held.shard => {}
            Ok(owner) => return Err(Refusal::NameIsIn(owner)),
            Err(error) => {
                self.unreleased.note_unanswered(held.shard, key.clone());
                return Err(Refusal::Store(error));
            }
        }
        let keeps = self.must_still_keep(held);
        if keeps.is_err() {
            self.unreleased.note(held.shard, key.clone(), None);
        }
        keeps
    }

    /// The step of a definition goes to the store whose names are held, and to no other: it would wait there until this
    /// definition lets the names go, which waits for the step.
    fn must_still_keep(&self, held: &Held) -> Result<(), Refusal> {
        let store = self.places.here(held.shard);
        let still = store.is_some_and(|store| Arc::ptr_eq(&store, &held.store));
        if still { Ok(()) } else { Err(Refusal::NotTheOwner) }
    }

    /// Tells of the queues of a shard whose dead letters go to one that was renamed: their rules have followed it.
    async fn tell_of_sources(self: &Arc<Self>, engine: &Engine, shard: ShardId, target: &QueueKey) {
        let mut after: Option<Arc<str>> = None;
        loop {
            let mut some = engine.dead_letter_sources(target, after.as_deref(), PAGE);
            let Some(last) = some.last() else { return };
            after = Some(Arc::clone(&last.key.name));
            some.retain(|queue| self.places.count.of_queue(queue.id) == shard);
            if !some.is_empty() {
                self.tell_all(Request::Show(some)).await;
            }
        }
    }

    /// Definitions of a shard take turns: none of them waits in its turn for a database of names that is away, with
    /// those behind it that need no name.
    fn must_reach_names_of(&self, shard: ShardId) -> Result<(), Refusal> {
        match self.reaches_names_of(shard) {
            true => Ok(()),
            false => Err(Refusal::Store(away("the database of names does not answer"))),
        }
    }

    /// Takes a name from a shard that has no queue of it any more. If that cannot be done now, it is done later: until
    /// then a new queue of the name is made in the same shard.
    async fn release(&self, shard: ShardId, key: &QueueKey) {
        if !self.reaches_names_of(shard) || self.names.release(shard, key).await.is_err() {
            self.unreleased.note(shard, key.clone(), None);
        }
    }

    /// Releases what could not be released, and has rules follow renames, again and again, for as long as it is polled.
    pub(crate) async fn release_later(self: Arc<Self>) {
        loop {
            tokio::time::sleep(RELEASES_AGAIN).await;
            for (name, release) in self.unreleased.take_due() {
                let Some(engine) = self.engine() else { continue };
                let (shard, key) = &name;
                match self.release_if_gone(&engine, *shard, key, release.renamed).await {
                    // Else it is another owner's, or a queue's.
                    Ok(()) if self.places.is_here(*shard) && engine.queue(key).is_none() => {
                        self.unreleased.released(name, release);
                    }
                    Ok(()) => {}
                    Err(_) => self.unreleased.failed(name, release),
                }
            }
        }
    }

    /// Releases a name, once it is sure that no queue of the shard has it. Then rules follow the queue that had it,
    /// whichever node keeps the shard by now.
    async fn release_if_gone(
        self: &Arc<Self>,
        engine: &Engine,
        shard: ShardId,
        key: &QueueKey,
        renamed: Option<QueueId>,
    ) -> Result<(), Refusal> {
        self.must_reach_names_of(shard)?;
        let one_at_a_time = self.directory.naming(shard).await;
        if engine.queue(key).is_some() {
            drop(one_at_a_time);
            // A rule that names the queue that has the name now stays.
            return match renamed {
                Some(queue) => self.rules_have_followed(engine, queue, key).await.map_err(Refusal::Store),
                None => Ok(()),
            };
        }
        match self.places.of(shard) {
            Place::Here(_) => {
                let nothing = PutDocuments { account: key.account, if_is: None, documents: Vec::new() };
                // Answered when all that was applied before will last: also what took the name from its queue.
                let lasted = engine.look_in(shard, Command::PutDocuments(nothing));
                let lasted = tokio::time::timeout(RELEASES_AGAIN, lasted).await;
                lasted.map_err(|_elapsed| away("the shard writes nothing just now"))?.map_err(refusal)?;
                self.names.release(shard, key).await?;
            }
            // Its names are compared by its next owner, whose queues are those that have lasted.
            Place::At(node) if renamed.is_none() || self.is_known(shard, &node) => {}
            Place::Nowhere if renamed.is_none() => {}
            Place::At(_) | Place::Nowhere => {
                return Err(Refusal::Store(away("it is not known whether the rename has lasted")));
            }
        }
        drop(one_at_a_time);
        match renamed {
            Some(queue) => {
                self.rules_follow(engine, queue, key).await.map_err(Refusal::Store)?;
                self.rules_have_followed(engine, queue, key).await.map_err(Refusal::Store)
            }
            None => Ok(()),
        }
    }

    /// Tells every other node that something is paused.
    pub(crate) async fn share(
        self: Arc<Self>,
        pause: Pause,
        until: Timestamp,
    ) -> Result<Outcome, StoreError> {
        self.tell_all(Request::Pause { pause, until }).await;
        Ok(Outcome::Done)
    }
}

/// A name that is being given to a queue, while this lives.
struct Making<'a> {
    fleet: &'a Inner,
    key: &'a QueueKey,
}

impl<'a> Making<'a> {
    fn begin(fleet: &'a Inner, key: &'a QueueKey, shard: ShardId) -> Self {
        fleet.making.lock().insert(key.clone(), shard);
        Self { fleet, key }
    }
}

impl Drop for Making<'_> {
    fn drop(&mut self) {
        self.fleet.making.lock().remove(self.key);
    }
}
