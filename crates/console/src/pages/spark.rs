//! A line of a queue's last minutes, small enough for a table.

use std::fmt::Write as _;

use maud::{Markup, html};

use super::text;
use crate::Console;
use crate::api::Home;
use crate::board::Phase;
use crate::samples::Sample;

/// How far it reaches back.
const SECONDS: u64 = 300;
/// The width and the height of the drawing: one unit for each step of five seconds.
const WIDTH: u32 = 59;
const HEIGHT: u32 = 16;

/// What is drawn, and what it says.
#[derive(Clone, Default)]
pub(super) struct Spark {
    /// Points of a line, as SVG has them.
    pub(super) points: String,
    pub(super) says: String,
}

/// The visible messages of a queue lately; nothing of a queue without samples.
pub(super) fn of_queue(console: &Console, queue: &str) -> Spark {
    let Phase::Serving(running) = console.board.phase() else { return Spark::default() };
    let home = Home { account: console.settings.account, region: &console.settings.region };
    let Some(found) = home.key(queue).ok().and_then(|key| running.engine.queue(&key)) else {
        return Spark::default();
    };
    let (_, samples) = console.looks.samples.of(found.id, SECONDS, None, running.engine.now());
    of_samples(&samples)
}

fn of_samples(samples: &[Sample]) -> Spark {
    let counts = || samples.iter().map(|sample| sample.counts.visible);
    let (Some(least), Some(most)) = (counts().min(), counts().max()) else { return Spark::default() };
    let begin = WIDTH.saturating_sub(u32::try_from(samples.len()).unwrap_or(WIDTH).saturating_sub(1));
    let mut points = String::with_capacity(samples.len() * 6);
    for (x, count) in (begin..).zip(counts()) {
        // From zero up: a small change of a large number is a small change.
        let height = u64::from(count) * u64::from(HEIGHT) / u64::from(most.max(1));
        let y = u64::from(HEIGHT).saturating_sub(height);
        let _written = write!(points, "{x},{y} ");
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
    use crate::samples::SmallCounts;
    use kew_core::{Timestamp, Traffic};

    fn sample(visible: u32) -> Sample {
        let counts = SmallCounts { visible, ..SmallCounts::default() };
        Sample { at: Timestamp(1), counts, traffic: Traffic::default(), waited: Default::default() }
    }

    #[test]
    fn a_line_ends_at_the_right_and_grows_from_zero() {
        assert_eq!(of_samples(&[0, 5, 10].map(sample)).points, "57,16 58,8 59,0");
        assert_eq!(of_samples(&[sample(0)]).points, "59,16");
        assert_eq!(of_samples(&[]).points, "");
        let many: Vec<Sample> = (0..200).map(sample).collect();
        assert!(of_samples(&many).points.starts_with("0,16 "));
    }
}
