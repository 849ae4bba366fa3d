//! Which Workers publish to which queues: what a queue shows as its producers, and why it cannot be deleted.
//!
//! A deployed Worker is a producer of the queues its code is bound to, by their names. Of Workers that run elsewhere
//! nothing is known here.

use std::collections::HashMap;

use kew_core::{AccountId, Queue};

use crate::Settings;
use crate::error::{Code, WireError};

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

    /// Refuses to do away with the name of a queue that a Worker is bound to.
    pub(crate) fn check_none_of(&self, queue: &Queue, done: &str) -> Result<(), WireError> {
        let name = &queue.key.name;
        let Some(script) = self.of_queue(name).first() else { return Ok(()) };
        let text = format!("Queue {name} cannot be {done}: the Worker {script} is bound to it as a producer");
        Err(WireError::new(Code::QueueInUse).saying(text))
    }
}
