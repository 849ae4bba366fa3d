//! Samples of queues over time, whichever nodes keep them.

use std::collections::HashMap;
use std::sync::Arc;

use kew_core::{QueueId, Timestamp};
use kew_engine::Engine;
use serde_json::{Value, json};

use super::Peers;
use crate::board::Running;
use crate::samples::{Sample, Samples};

/// How many messages of a queue were visible, at some instants.
pub(crate) type Curve = Vec<(Timestamp, u32)>;

/// Which samples are asked for.
#[derive(Clone, Copy)]
pub(crate) struct Span {
    pub(crate) queue: QueueId,
    pub(crate) seconds: u64,
    pub(crate) step: Option<u64>,
}

impl Peers {
    /// The samples of a queue as they are shown. Nothing where the node that keeps it does not answer.
    pub(crate) async fn samples(
        &self,
        running: &Running,
        samples: &Samples,
        span: Span,
    ) -> Option<Arc<Value>> {
        let fleet = running.fleet.as_ref().filter(|_| !running.engine.sees(span.queue));
        let Some(fleet) = fleet else { return Some(Arc::new(show(&running.engine, samples, span))) };
        let Span { seconds, step, .. } = span;
        let ask = |queues: Vec<u64>| json!({ "samples": queues, "seconds": seconds, "step": step });
        let (answers, _silent) = self.ask_owners(fleet, &[span.queue], ask).await;
        let answer = answers.first()?.get("samples")?;
        answer.get("samples").is_some().then(|| Arc::new(answer.clone()))
    }

    /// The visible messages of queues in the last seconds.
    pub(crate) async fn curves(
        &self,
        running: &Running,
        samples: &Samples,
        queues: &[QueueId],
        seconds: u64,
    ) -> HashMap<QueueId, Curve> {
        let (here, elsewhere): (Vec<_>, Vec<_>) =
            queues.iter().copied().partition(|queue| running.engine.sees(*queue));
        let own = here.into_iter().map(|queue| (queue, curve(&running.engine, samples, queue, seconds)));
        let mut curves: HashMap<QueueId, Curve> = own.collect();
        let Some(fleet) = &running.fleet else { return curves };
        let ask = |queues: Vec<u64>| json!({ "curves": queues, "seconds": seconds });
        let (answers, _silent) = self.ask_owners(fleet, &elsewhere, ask).await;
        for answer in answers {
            let rows = answer.get("curves").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            curves.extend(rows.iter().filter_map(read_curve));
        }
        curves
    }
}

/// One sample as it is shown.
fn sample(sample: &Sample) -> Value {
    json!({
        "at_ms": sample.at.0,
        "visible": sample.counts.visible,
        "in_flight": sample.counts.in_flight,
        "delayed": sample.counts.delayed,
        "oldest_age_seconds": sample.counts.oldest_age_seconds,
        "sent": sample.traffic.sent,
        "leased": sample.traffic.leased,
        "acked": sample.traffic.acked,
        "p50_ms": sample.waited.half,
        "p99_ms": sample.waited.most,
    })
}

/// The samples of a queue that this node keeps.
pub(super) fn show(engine: &Engine, samples: &Samples, span: Span) -> Value {
    let (step, some) = samples.of(span.queue, span.seconds, span.step, engine.now());
    let some: Vec<Value> = some.iter().map(sample).collect();
    json!({ "step": step, "samples": some })
}

/// The curves of queues that this node keeps.
pub(super) fn show_curves(engine: &Engine, samples: &Samples, queues: &[QueueId], seconds: u64) -> Value {
    let written = |queue: &QueueId| {
        let points: Vec<(u64, u32)> = curve(engine, samples, *queue, seconds)
            .into_iter()
            .map(|(at, visible)| (at.0, visible))
            .collect();
        json!({ "id": queue.0, "points": points })
    };
    queues.iter().filter(|queue| engine.sees(**queue)).map(written).collect()
}

fn curve(engine: &Engine, samples: &Samples, queue: QueueId, seconds: u64) -> Curve {
    let (_, some) = samples.of(queue, seconds, None, engine.now());
    some.iter().map(|sample| (sample.at, sample.counts.visible)).collect()
}

fn read_curve(row: &Value) -> Option<(QueueId, Curve)> {
    let point = |point: &Value| {
        let visible = u32::try_from(point.get(1)?.as_u64()?).ok()?;
        Some((Timestamp(point.get(0)?.as_u64()?), visible))
    };
    let points = row.get("points")?.as_array()?.iter().map(point).collect::<Option<Curve>>()?;
    Some((QueueId(row.get("id")?.as_u64()?), points))
}
