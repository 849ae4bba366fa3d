//! The whole store as plain vectors and loops: slow, obviously right, and the judge of every real one.
//!
//! Nothing is indexed, cached or postponed. What is due is found by looking at every message; what a queue holds is
//! counted by counting. Each law is asked of [`crate::rules`]; what is written here is the order in which things
//! happen. Tokens are not sealed: a genuine one has `mac` zero, and any other is forged.

mod due;
mod inspect;
mod lease;
mod moves;
mod queue;
mod receipts;
mod send;
mod settings;
mod view;

use bytes::Bytes;

use crate::rules::dedup::{self, Identity};
use crate::rules::delivery;
use crate::{
    AccountId, Command, DocumentKey, Entropy, Event, EventKind, GroupId, LeaseToken, MoveTask, Outcome,
    Queue, QueueId, QueueKey, RuleError, Sequence, State, TaskId, Timestamp,
};
use queue::{Held, ModelQueue};

/// A store that is nothing but its laws.
pub struct Model {
    entropy: Box<dyn Entropy>,
    /// In the order of their ids.
    queues: Vec<ModelQueue>,
    queues_made: u64,
    /// In the order of their ids.
    tasks: Vec<MoveTask>,
    tasks_made: u64,
    documents: Vec<(AccountId, DocumentKey, Bytes)>,
    events: Vec<Event>,
    /// Messages whose time is over after this instant do not expire for now.
    expiry_through: Timestamp,
}

impl Model {
    /// An empty store that takes its nonces and ids from `entropy`.
    pub fn new(entropy: Box<dyn Entropy>) -> Self {
        Self {
            entropy,
            queues: Vec::new(),
            queues_made: 0,
            tasks: Vec::new(),
            tasks_made: 0,
            documents: Vec::new(),
            events: Vec::new(),
            expiry_through: Timestamp::NEVER,
        }
    }

    /// Does everything that is due, then the command: all of it, or nothing.
    pub fn step(&mut self, now: Timestamp, command: Command) -> Result<Outcome, RuleError> {
        self.do_due(now);
        match command {
            Command::CreateQueue(create) => self.create_queue(now, create),
            Command::UpdateQueue(update) => self.update_queue(now, update),
            Command::DeleteQueue(delete) => self.delete_queue(delete),
            Command::Send(send) => self.send(now, send),
            Command::Lease(lease) => self.lease(now, lease),
            Command::Withdraw(withdraw) => self.withdraw(withdraw),
            Command::Ack(ack) => self.ack(now, ack),
            Command::Extend(extend) => self.extend(now, extend),
            Command::Release(release) => self.release(now, release),
            Command::ReleaseOwners(owners) => self.release_owners(now, owners),
            Command::Peek(peek) => self.peek(peek),
            Command::Browse(browse) => self.browse(&browse),
            Command::Groups(groups) => self.groups(&groups),
            Command::FirstSend(first) => self.first_send(now, first),
            Command::Trace(trace) => Ok(Outcome::Traced(self.trace(&trace))),
            Command::Note(note) => self.note_failures(now, &note),
            Command::Promote(promote) => self.promote(now, promote),
            Command::Identify(identify) => self.identify(identify),
            Command::Purge(purge) => self.purge(now, purge),
            Command::Counts(queue) => Ok(Outcome::Counts(self.queues[self.index(queue)?].counts())),
            Command::StartMove(start) => self.start_move(now, start),
            Command::ContinueMove(step) => self.continue_move(now, step),
            Command::CancelMove(task) => self.cancel_move(task),
            Command::ListMoves(list) => Ok(self.list_moves(list)),
            Command::MoveChosen(chosen) => self.move_chosen(now, chosen),
            Command::HoldExpiry(hold) => {
                self.expiry_through = hold.map_or(Timestamp::NEVER, |hold| hold.through);
                Ok(Outcome::Done)
            }
            Command::Due => Ok(Outcome::Done),
            Command::Queues => Ok(Outcome::Queues(self.queues.iter().map(ModelQueue::shown).collect())),
            Command::PutDocuments(put) => self.put_documents(put),
            Command::Documents(wanted) => Ok(self.documents_of(&wanted)),
            Command::History(wanted) => Ok(Outcome::History(self.history(wanted))),
            // The model is the only shard: nothing is owed to another.
            Command::Owing => Ok(Outcome::Owing(Vec::new())),
            Command::Carry(_) | Command::Bring(_) | Command::Settle(_) | Command::TakeBack(_) => {
                Err(RuleError::QueueNotFound)
            }
        }
    }

    /// The next instant at which something happens by itself.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.next_item().map(|item| item.at)
    }

    /// Every message a lease could be offered right now, once what is due is done.
    pub fn offered(&self) -> Vec<(QueueId, Sequence)> {
        let offers = |queue: &ModelQueue| {
            let id = queue.id();
            queue.in_lease_order().into_iter().map(move |sequence| (id, sequence)).collect::<Vec<_>>()
        };
        let open = self.queues.iter().filter(|queue| delivery::is_open(&queue.definition.policy));
        open.flat_map(offers).collect()
    }

    /// All queues in the order of their ids.
    pub fn queues(&self) -> impl Iterator<Item = &Queue> {
        self.queues.iter().map(|queue| &queue.definition)
    }

    /// All move tasks that are kept, in the order of their ids.
    pub fn tasks(&self) -> &[MoveTask] {
        &self.tasks
    }

    /// Every stored message of a queue in the order of its sends: its place, its group, what it is doing.
    pub fn messages(&self, queue: QueueId) -> Vec<(Sequence, Option<GroupId>, State)> {
        let stored = self.queues.iter().filter(|each| each.id() == queue).flat_map(|each| &each.messages);
        stored.map(|held| (held.sequence, held.group.clone(), held.state)).collect()
    }

    /// The instants a test may want to come close to: ends of leases, delays, lives and remembered ids.
    pub fn instants(&self) -> Vec<Timestamp> {
        let mut instants = Vec::new();
        for queue in &self.queues {
            instants.extend(
                queue
                    .messages
                    .iter()
                    .flat_map(|held| queue.items_of(held, self.expiry_through))
                    .map(|item| item.at),
            );
            instants.extend(queue.windows());
        }
        instants
    }

    /// Every id a FIFO queue remembers, with the instant from which it may be sent again.
    pub fn remembered(&self) -> Vec<(QueueId, Identity, Timestamp)> {
        let of_queue = |queue: &ModelQueue| {
            let id = queue.id();
            let ends = queue
                .remembered
                .iter()
                .map(|each| (each.identity.clone(), each.first_at.plus(dedup::WINDOW)));
            ends.map(|(identity, end)| (id, identity, end)).collect::<Vec<_>>()
        };
        self.queues.iter().flat_map(of_queue).collect()
    }

    /// Panics when the model itself breaks a law: what it stores must add up.
    pub fn audit(&self) {
        self.queues.iter().for_each(ModelQueue::audit);
    }

    fn index(&self, queue: QueueId) -> Result<usize, RuleError> {
        self.queues.iter().position(|each| each.id() == queue).ok_or(RuleError::QueueNotFound)
    }

    fn index_of_key(&self, key: &QueueKey) -> Option<usize> {
        self.queues.iter().position(|each| each.definition.key == *key)
    }

    fn task(&mut self, task: TaskId) -> Result<&mut MoveTask, RuleError> {
        self.tasks.iter_mut().find(|each| each.id == task).ok_or(RuleError::TaskNotFound)
    }

    fn note(&mut self, at: Timestamp, index: usize, sequence: Sequence, kind: EventKind) {
        let queue = self.queues[index].id();
        self.events.push(Event { at, queue, sequence, kind });
    }

    /// Takes a message out, whatever it is doing; its group may offer its next one now.
    fn remove(&mut self, index: usize, sequence: Sequence) -> Held {
        self.queues[index].remove(sequence)
    }

    /// Refuses tokens that name no live message of this queue.
    fn check_token(&self, index: usize, token: &LeaseToken) -> Result<&Held, RuleError> {
        if token.mac != 0 {
            return Err(RuleError::TokenForged);
        }
        let queue = &self.queues[index];
        if token.queue != queue.id() {
            return Err(RuleError::TokenOfOtherQueue);
        }
        queue.find(token.sequence).ok_or(RuleError::MessageNotFound)
    }
}

impl std::fmt::Debug for Model {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Model")
            .field("queues", &self.queues)
            .field("tasks", &self.tasks)
            .finish_non_exhaustive()
    }
}
