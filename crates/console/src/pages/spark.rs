//! A line of a queue's last minutes, small enough for a table.

use std::collections::HashMap;
use std::fmt::Write as _;

use kew_core::{QueueId, Timestamp};
use maud::{Markup, html};

use super::text;
use crate::Console;
use crate::api::Home;
use crate::board::Phase;

/// How far it reaches back.
const SECONDS: u64 = 300;
/// The width and the height of the drawing: one unit for five seconds.
const WIDTH: u32 = 60;
const HEIGHT: u32 = 16;

/// What is drawn, and what it says.
#[derive(Clone, Default)]
pub(super) struct Spark {
    /// Points of a line, as SVG has them.
    pub(super) points: String,
    pub(super) says: String,
}

/// The visible messages of queues lately, by what the queues are called; nothing of one without samples.
pub(super) async fn of_queues(console: &Console, queues: &[&str]) -> HashMap<String, Spark> {
    let Phase::Serving(running) = console.board.phase() else { return HashMap::new() };
    let home = Home { account: console.settings.account, region: &console.settings.region };
    let id = |queue: &str| Some(running.engine.queue(&home.key(queue).ok()?)?.id);
    let known: Vec<(&str, QueueId)> = queues.iter().filter_map(|queue| Some((*queue, id(queue)?))).collect();
    let ids: Vec<QueueId> = known.iter().map(|(_, id)| *id).collect();
    let curves = console.peers.curves(&running, &console.looks.samples, &ids, SECONDS).await;
    let now = running.engine.now();
    let drawn = |(queue, id): (&str, QueueId)| Some((queue.to_owned(), of_curve(curves.get(&id)?, now)));
    known.into_iter().filter_map(drawn).collect()
}

/// The same of one queue.
pub(super) async fn of_queue(console: &Console, queue: &str) -> Spark {
    of_queues(console, &[queue]).await.remove(queue).unwrap_or_default()
}

/// A line that ends at the right now; each sample stands at its instant.
fn of_curve(curve: &[(Timestamp, u32)], now: Timestamp) -> Spark {
    let counts = || curve.iter().map(|(_, visible)| *visible);
    let (Some(least), Some(most)) = (counts().min(), counts().max()) else { return Spark::default() };
    let mut points = String::with_capacity(curve.len() * 6);
    for (at, visible) in curve {
        let ago = now.since(*at).as_secs_f64() / (SECONDS as f64);
        let x = f64::from(WIDTH) * (1.0 - ago.min(1.0));
        // From zero up: a small change of a large number is a small change.
        let height = u64::from(*visible) * u64::from(HEIGHT) / u64::from(most.max(1));
        let y = u64::from(HEIGHT).saturating_sub(height);
        let _written = write!(points, "{x:.1},{y} ");
    }
    points.pop();
    let (least, most) = (text::count(least.into()), text::count(most.into()));
    Spark { points, says: format!("visible messages in the last 5 minutes: {least} to {most}") }
}

/// The drawing. `key` is what live figures call it.
pub(super) fn drawn(spark: &Spark, key: &str) -> Markup {
    html! {
        svg.spark viewBox={ "0 -1 " (WIDTH) " " (HEIGHT + 2) } preserveAspectRatio="none" role="img"
            aria-label=(if spark.says.is_empty() { "no samples yet" } else { spark.says.as_str() }) {
            polyline points=(spark.points) data-points=(key) {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(second: u64, visible: u32) -> (Timestamp, u32) {
        (Timestamp(second * 1_000), visible)
    }

    fn points(curve: &[(Timestamp, u32)]) -> String {
        of_curve(curve, Timestamp(310_000)).points
    }

    #[test]
    fn a_line_grows_from_zero_and_each_sample_stands_at_its_instant() {
        let samples = [sample(10, 0), sample(160, 5), sample(310, 10)];
        assert_eq!(points(&samples), "0.0,16 30.0,8 60.0,0");
        assert_eq!(points(&samples[..1]), "0.0,16");
        assert_eq!(points(&[]), "");
    }
}
