//! Which Workers publish to which queues: what a queue shows as its producers, and why it cannot be deleted.
//!
//! A deployed Worker is a producer of the queues its code is bound to, by their names. Of Workers that run elsewhere
//! nothing is known here.

use std::collections::HashMap;

use kew_core::AccountId;

use crate::Settings;

/// The Workers of one account, by the queues they are bound to.
#[derive(Debug, Default)]
pub(crate) struct Producers {
    /// For each queue's name the Workers, in the order of their names.
    by_queue: HashMap<String, Vec<String>>,
}

impl Producers {
    /// Those there are now.
    pub(crate) fn of(settings: &Settings, account: AccountId) -> Self {
        let mut by_queue: HashMap<String, Vec<String>> = HashMap::new();
        let workers = settings.scripts.workers.get();
        for (script, queues) in workers.map(|workers| workers.producers(account)).unwrap_or_default() {
            for queue in queues {
                by_queue.entry(queue).or_default().push(script.clone());
            }
        }
        Self { by_queue }
    }

    /// The Workers that publish to a queue.
    pub(crate) fn of_queue(&self, name: &str) -> &[String] {
        self.by_queue.get(name).map_or(&[], Vec::as_slice)
    }
}
