//! A message that this host puts into a queue it listens to is looked for at once.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::project::Account;

/// Whom to wake, by queue.
#[derive(Debug, Default)]
pub(crate) struct Wakes {
    /// Guards the queues that are known. There are as many as there are triggers.
    by_queue: Mutex<HashMap<(String, String), Arc<Notify>>>,
}

impl Wakes {
    /// What the listener of this queue waits on.
    pub(crate) fn of(&self, account: &Account, queue: &str) -> Arc<Notify> {
        let place = (account.endpoint.base().to_owned(), queue.to_owned());
        Arc::clone(self.by_queue.lock().entry(place).or_default())
    }

    /// There is a message in this queue.
    pub(crate) fn tell(&self, account: &Account, queue: &str) {
        let place = (account.endpoint.base().to_owned(), queue.to_owned());
        if let Some(listener) = self.by_queue.lock().get(&place) {
            listener.notify_one();
        }
    }
}
