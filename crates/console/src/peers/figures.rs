//! Figures of queues, whichever nodes keep them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use kew_core::{Counts, Queue, QueueId, RuleError, Timestamp};
use kew_engine::{Engine, EngineError};
use serde_json::{Value, json};
use tokio::runtime::Handle;

use super::{Peers, QUEUES_MAX};
use crate::board::Running;
use crate::fleet::Fleet;
use crate::samples::{Rates, Samples};

/// What is known of a queue.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Figures {
    pub(crate) counts: Counts,
    pub(crate) rates: Rates,
}

/// Figures of some queues.
#[derive(Default)]
pub(crate) struct Gathered {
    /// Of each that is known.
    known: HashMap<QueueId, Figures>,
    /// Queues that are not there any more.
    gone: BTreeSet<QueueId>,
    /// What nodes are called that did not answer.
    pub(crate) silent: BTreeSet<String>,
}

impl Gathered {
    /// What is known of a queue; nothing where its node is silent.
    pub(crate) fn of(&self, queue: QueueId) -> Option<Figures> {
        self.known.get(&queue).copied()
    }

    /// Whether a queue has gone meanwhile.
    pub(crate) fn is_gone(&self, queue: QueueId) -> bool {
        self.gone.contains(&queue)
    }
}

impl Peers {
    /// The figures of queues: this node's own, and those of others as they answer.
    pub(crate) async fn figures(
        &self,
        running: &Arc<Running>,
        samples: &Arc<Samples>,
        queues: &[Arc<Queue>],
    ) -> Gathered {
        let ids = queues.iter().map(|queue| queue.id);
        let (here, elsewhere): (Vec<_>, Vec<_>) = ids.partition(|queue| running.engine.sees(*queue));
        let own = own_figures(Arc::clone(&running.engine), Arc::clone(samples), here);
        let mut gathered = match &running.fleet {
            None => own.await,
            Some(fleet) => {
                let (mut own, others) = tokio::join!(own, self.of_others(fleet, &elsewhere));
                own.known.extend(others.known);
                own.silent = others.silent;
                own
            }
        };
        gathered.gone.retain(|queue| running.engine.queue_by_id(*queue).is_none());
        gathered
    }

    /// Asks the nodes that keep these queues, all at once.
    async fn of_others(&self, fleet: &Arc<dyn Fleet>, queues: &[QueueId]) -> Gathered {
        let ask = |queues: Vec<u64>| json!({ "queues": queues });
        let (answers, silent) = self.ask_owners(fleet, queues, ask).await;
        let mut gathered = Gathered { silent, ..Gathered::default() };
        for answer in answers {
            let rows = answer.get("queues").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            gathered.known.extend(rows.iter().filter_map(read));
        }
        gathered
    }

    /// Asks the owner of each queue something about all of those that it keeps. Answers what came, and who is silent.
    pub(super) async fn ask_owners(
        &self,
        fleet: &Arc<dyn Fleet>,
        queues: &[QueueId],
        question: impl Fn(Vec<u64>) -> Value,
    ) -> (Vec<Arc<Value>>, BTreeSet<String>) {
        let now = fleet.now();
        let mut by_owner: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
        for queue in queues {
            let shard = fleet.shard_of(*queue);
            let row = now.shards.iter().find(|row| row.shard == shard);
            // A shard that no node keeps just now, or that came here a moment ago, shows nothing for that moment.
            if let Some(owner) = row.and_then(|row| row.owner.as_deref()).filter(|owner| *owner != now.me) {
                by_owner.entry(owner).or_default().push(queue.0);
            }
        }
        let questions = by_owner.into_iter().flat_map(|(owner, queues)| {
            queues.chunks(QUEUES_MAX).map(|some| (owner, question(some.to_vec()))).collect::<Vec<_>>()
        });
        let questions: Vec<(String, Value)> =
            questions.map(|(owner, question)| (owner.to_owned(), question)).collect();
        let (mut answers, mut silent) = (Vec::new(), BTreeSet::new());
        for (owner, answer) in self.ask_all(fleet, questions).await {
            match answer {
                Some(answer) => answers.push(answer),
                None => {
                    silent.insert(now.called(&owner));
                }
            }
        }
        (answers, silent)
    }
}

/// The figures of queues that this node keeps.
async fn own_figures(engine: Arc<Engine>, samples: Arc<Samples>, queues: Vec<QueueId>) -> Gathered {
    let gather = move || {
        let mut gathered = Gathered::default();
        for queue in queues {
            match Handle::current().block_on(engine.counts_so_far(queue)) {
                Ok(counts) => {
                    let figures = Figures { counts, rates: samples.rates(queue) };
                    gathered.known.insert(queue, figures);
                }
                Err(EngineError::Rule(RuleError::QueueNotFound)) => {
                    gathered.gone.insert(queue);
                }
                // It is shown without figures.
                Err(_) => {}
            }
        }
        gathered
    };
    // It may wait for a lock of the engine.
    tokio::task::spawn_blocking(gather).await.unwrap_or_default()
}

/// What this node shows of queues that it keeps.
pub(super) async fn show(engine: Arc<Engine>, samples: Arc<Samples>, queues: Vec<QueueId>) -> Value {
    let kept = queues.into_iter().filter(|queue| engine.sees(*queue)).collect();
    let gathered = own_figures(engine, samples, kept).await;
    gathered.known.iter().map(|(queue, figures)| written(*queue, figures)).collect()
}

fn written(queue: QueueId, Figures { counts, rates }: &Figures) -> Value {
    json!({
        "id": queue.0,
        "visible": counts.visible,
        "in_flight": counts.in_flight,
        "delayed": counts.delayed,
        "body_bytes": counts.body_bytes,
        "oldest_sent_at_ms": counts.oldest_sent_at.map(|at| at.0),
        "sent": rates.sent,
        "leased": rates.leased,
        "acked": rates.acked,
    })
}

fn read(row: &Value) -> Option<(QueueId, Figures)> {
    let whole = |name: &str| row.get(name).and_then(Value::as_u64);
    let number = |name: &str| row.get(name).and_then(Value::as_f64);
    let counts = Counts {
        visible: whole("visible")?,
        in_flight: whole("in_flight")?,
        delayed: whole("delayed")?,
        body_bytes: whole("body_bytes")?,
        oldest_sent_at: whole("oldest_sent_at_ms").map(Timestamp),
    };
    let rates = Rates { sent: number("sent")?, leased: number("leased")?, acked: number("acked")? };
    Some((QueueId(whole("id")?), Figures { counts, rates }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_as_they_were_written_and_what_is_none_is_none() {
        let counts = Counts { visible: 1, in_flight: 2, delayed: 3, body_bytes: 4, ..Counts::default() };
        let rates = Rates { sent: 0.5, leased: 1.5, acked: 2.5 };
        for oldest_sent_at in [None, Some(Timestamp(7))] {
            let figures = Figures { counts: Counts { oldest_sent_at, ..counts }, rates };
            assert_eq!(read(&written(QueueId(9), &figures)), Some((QueueId(9), figures)));
        }
        assert_eq!(read(&json!({ "id": 9 })), None);
    }
}
