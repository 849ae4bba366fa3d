//! Answers to questions of other nodes: one object with one member, whose answer stands under the same name.

use std::sync::Arc;

use kew_core::QueueId;
use serde_json::{Value, json};

use super::samples::Span;
use super::{Peers, QUEUES_MAX, figures, nodes, samples};
use crate::board::Running;
use crate::samples::Samples;

impl Peers {
    /// What this node answers another one. Null to what it does not understand: that one has another version.
    pub(crate) async fn answer(&self, running: &Arc<Running>, kept: &Arc<Samples>, question: &str) -> Value {
        let Ok(question) = serde_json::from_str::<Value>(question) else { return Value::Null };
        let Ok(_turn) = self.answers.acquire().await else { return Value::Null };
        let engine = &running.engine;
        let seconds = question.get("seconds").and_then(Value::as_u64).unwrap_or_default();
        if question.get("node").is_some() {
            let Some(fleet) = &running.fleet else { return Value::Null };
            return json!({ "node": nodes::show(&**fleet) });
        }
        let answer = if let Some(queues) = queues(&question, "queues") {
            let rows = figures::show(Arc::clone(engine), Arc::clone(kept), queues).await;
            json!({ "queues": rows })
        } else if let Some(queues) = queues(&question, "curves") {
            json!({ "curves": samples::show_curves(engine, kept, &queues, seconds) })
        } else if let Some(queue) = queues(&question, "samples").and_then(|queues| queues.first().copied()) {
            let step = question.get("step").and_then(Value::as_u64);
            let span = Span { queue, seconds, step };
            let shown = if engine.sees(queue) { samples::show(engine, kept, span) } else { Value::Null };
            json!({ "samples": shown })
        } else {
            Value::Null
        };
        // Only now: the shards may have been lost meanwhile.
        if engine.may_answer() { answer } else { Value::Null }
    }
}

fn queues(question: &Value, name: &str) -> Option<Vec<QueueId>> {
    let queues = question.get(name)?.as_array()?;
    Some(queues.iter().take(QUEUES_MAX).filter_map(Value::as_u64).map(QueueId).collect())
}
