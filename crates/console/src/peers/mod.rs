//! What other nodes of the fleet show, and what this one shows to them.
//!
//! A page of queues asks each other node at most once for the figures of those that it keeps. What was answered is good
//! for a second, for everybody who watches: a watcher more costs the other nodes nothing. A node that does not answer
//! within a second is silent for a second: its figures are missing, and the reply says whose.

mod answers;
mod asked;
mod figures;
mod nodes;
mod samples;

use std::sync::Arc;

use kew_engine::TimeSource;
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::fleet::Fleet;
use asked::Asked;

pub(crate) use nodes::{Holding, Taken, own_shards};
pub(crate) use samples::Span;

/// Questions of other nodes that are answered at once. Requests of people do not wait for them, nor they for those.
const ANSWERS_AT_ONCE: usize = 8;
/// Queues that one question is about.
const QUEUES_MAX: usize = 1_000;

/// What passes between this node's console and those of others.
pub(crate) struct Peers {
    asked: Arc<Asked>,
    answers: Arc<Semaphore>,
}

impl Peers {
    pub(crate) fn new(time: Arc<dyn TimeSource>) -> Self {
        Self { asked: Arc::new(Asked::new(time)), answers: Arc::new(Semaphore::new(ANSWERS_AT_ONCE)) }
    }

    /// Asks nodes, all at once, and waits for all.
    async fn ask_all(
        &self,
        fleet: &Arc<dyn Fleet>,
        questions: Vec<(String, Value)>,
    ) -> Vec<(String, Option<Arc<Value>>)> {
        let mut asking = JoinSet::new();
        for (node, question) in questions {
            let (asked, fleet) = (Arc::clone(&self.asked), Arc::clone(fleet));
            asking.spawn(async move {
                let answer = asked.ask(&*fleet, &node, &question).await;
                (node, answer)
            });
        }
        asking.join_all().await
    }
}
