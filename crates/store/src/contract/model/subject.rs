//! What is compared with the model: any store, or another model.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use kew_core::model::Model;
use kew_core::{Command, Outcome, QueueId, Timestamp};

use super::random::SeededEntropy;
use crate::contract::{Ending, Factory};
use crate::{Store, StoreError};

/// Keeps the second model's chance apart from all others.
const CHANCE_OF_SUBJECT: u64 = 0x7375_626a_6563_7400;

/// What a subject says to one step.
#[derive(Debug)]
pub struct Answer {
    /// Its outcome.
    pub result: Result<Outcome, StoreError>,
    /// The queues it says may offer more than before; `None` when it does not say.
    pub freed: Option<Vec<QueueId>>,
}

/// Something that claims to behave like the model.
pub trait Subject {
    /// Applies all these steps, then commits them together.
    fn steps(&mut self, batch: Vec<(Timestamp, Command)>) -> Vec<Answer>;

    /// Is ended and opened again. False when it cannot be.
    fn restart(&mut self, ending: Ending) -> bool;

    /// The next instant it says something happens by itself; the outer `None` when it does not say.
    fn next_due(&self) -> Option<Option<Timestamp>>;

    /// Whether messages that were tried too often leave in the order in which their leases ended.
    fn orders_dead_letters(&self) -> bool {
        true
    }

    /// Whether groups of a FIFO queue take their turns in the order in which they began to offer.
    fn orders_groups(&self) -> bool {
        true
    }
}

/// A store from a factory.
pub struct StoreSubject<'a> {
    factory: &'a dyn Factory,
    /// Taken out only while it is reopened.
    store: Option<Arc<dyn Store>>,
    /// Whether all slices of what is due are done before each step.
    catches_up: bool,
    orders_dead_letters: bool,
    orders_groups: bool,
}

impl<'a> StoreSubject<'a> {
    /// A new, empty store.
    pub fn new(factory: &'a dyn Factory) -> Self {
        let store = Some(factory.open());
        Self { factory, store, catches_up: false, orders_dead_letters: true, orders_groups: true }
    }

    /// A new, empty store that does what is due in slices smaller than the histories need: before each step it is asked
    /// for the next slice until nothing is due.
    pub fn in_slices(factory: &'a dyn Factory) -> Self {
        Self { catches_up: true, ..Self::new(factory) }
    }

    /// The same for a store that also sees to leases that end together in such slices.
    pub fn in_slices_of_leases(factory: &'a dyn Factory) -> Self {
        Self { orders_dead_letters: false, ..Self::in_slices(factory) }
    }

    /// The same for a store that takes messages that are over out of their groups in such slices. No slice is asked
    /// for, so that steps come between them.
    pub fn in_slices_of_groups(factory: &'a dyn Factory) -> Self {
        Self { orders_groups: false, ..Self::new(factory) }
    }

    /// Does everything that is due, slice by slice. Says what that freed.
    fn catch_up(&self, now: Timestamp) -> Vec<QueueId> {
        let (store, mut freed) = (self.store(), Vec::new());
        let now = now.max(store.newest_instant());
        // A slice that is left over is due a millisecond later, as other work may be: that one frees nothing yet.
        while self.catches_up
            && let Some(due) = store.next_due().filter(|due| *due <= now.next())
        {
            let slice = store.step(now, &Command::Due);
            freed.extend_from_slice(&slice.freed);
            if due > now && slice.freed.is_empty() {
                break;
            }
        }
        freed
    }

    fn store(&self) -> &dyn Store {
        self.store.as_deref().expect("the store is open between two calls")
    }
}

impl Subject for StoreSubject<'_> {
    fn steps(&mut self, batch: Vec<(Timestamp, Command)>) -> Vec<Answer> {
        let store = self.store();
        let step = |(now, command)| (self.catch_up(now), store.step(now, &command));
        let submissions: Vec<_> = batch.into_iter().map(step).collect();
        store.commit();
        let answer = |(mut freed, submission): (Vec<QueueId>, crate::Submission)| {
            freed.extend_from_slice(&submission.freed);
            Answer { result: block_on(submission), freed: Some(freed) }
        };
        submissions.into_iter().map(answer).collect()
    }

    fn restart(&mut self, ending: Ending) -> bool {
        if self.factory.remembers() {
            self.store = self.store.take().map(|store| self.factory.reopen(store, ending));
        }
        self.factory.remembers()
    }

    fn next_due(&self) -> Option<Option<Timestamp>> {
        Some(self.store().next_due())
    }

    fn orders_dead_letters(&self) -> bool {
        self.orders_dead_letters
    }

    fn orders_groups(&self) -> bool {
        self.orders_groups
    }
}

/// A second model with chance of its own: it shows that the comparison itself is sound.
#[derive(Debug)]
pub struct ModelSubject {
    model: Model,
}

impl ModelSubject {
    /// An empty one.
    pub fn new(seed: u64) -> Self {
        Self { model: Model::new(Box::new(SeededEntropy::new(seed ^ CHANCE_OF_SUBJECT))) }
    }
}

impl Subject for ModelSubject {
    fn steps(&mut self, batch: Vec<(Timestamp, Command)>) -> Vec<Answer> {
        let mut step = |(now, command)| {
            let result = self.model.step(now, command).map_err(StoreError::from);
            Answer { result, freed: None }
        };
        batch.into_iter().map(&mut step).collect()
    }

    fn restart(&mut self, _ending: Ending) -> bool {
        false
    }

    fn next_due(&self) -> Option<Option<Timestamp>> {
        Some(self.model.next_due())
    }
}

/// Waits on this thread for an answer.
pub fn block_on<T>(answer: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut answer = pin!(answer);
    loop {
        match answer.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}
