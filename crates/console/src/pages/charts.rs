//! A queue over time: counts, ages and traffic as drawings, each with its figures as a table.

use std::fmt::Write as _;

use kew_http::StatusCode;
use maud::{Markup, html};
use serde_json::Value;

use super::ask::of_queue;
use super::layout::Head;
use super::queue::{self, Tab};
use super::{PageReply, Visit, queue_path, read, text};

/// How far back a person may look: seconds, and what that is called.
const SPANS: [(&str, &str); 6] = [
    ("300", "5 minutes"),
    ("900", "15 minutes"),
    ("3600", "1 hour"),
    ("14400", "4 hours"),
    ("86400", "1 day"),
    ("604800", "7 days"),
];
const WIDTH: f64 = 600.0;
const HEIGHT: f64 = 120.0;

/// A drawing: what it is called, its lines with their names and the members they are drawn from, and its unit.
struct Chart {
    title: &'static str,
    lines: &'static [(&'static str, &'static str)],
    unit: Unit,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    Messages,
    Seconds,
    Milliseconds,
    PerSecond,
}

const CHARTS: [Chart; 4] = [
    Chart {
        title: "Messages",
        lines: &[("visible", "visible"), ("in_flight", "in flight"), ("delayed", "delayed")],
        unit: Unit::Messages,
    },
    Chart {
        title: "Age of the oldest message",
        lines: &[("oldest_age_seconds", "age")],
        unit: Unit::Seconds,
    },
    Chart {
        title: "Traffic",
        lines: &[("sent", "sent"), ("leased", "leased"), ("acked", "done")],
        unit: Unit::PerSecond,
    },
    Chart {
        title: "Wait for the first lease",
        lines: &[("p50_ms", "median"), ("p99_ms", "99th percentile")],
        unit: Unit::Milliseconds,
    },
];

/// `GET /queues/{q}/charts`.
pub(super) async fn show(visit: &Visit<'_>, queue: &str) -> PageReply {
    let shown = visit.read(&of_queue(queue, ""), &[]).await?;
    let asked = visit.asked("seconds").unwrap_or("900");
    let span = SPANS.iter().find(|(seconds, _)| *seconds == asked).unwrap_or(&SPANS[1]).0;
    let found = visit.read(&of_queue(queue, "/samples"), &[("seconds", span)]).await?;
    let samples = read::list(&found, "samples");
    let axis = Axis::of(span, read::whole(&found, "step"), visit.console.now().0);
    let path = format!("{}/charts", queue_path(queue));
    let content = html! {
        (queue::top(visit, queue, &shown, Tab::Charts).await)
        nav.tabs aria-label="How far back" {
            @for (seconds, title) in SPANS {
                a href={ (path) "?seconds=" (seconds) } aria-current=[(seconds == span).then_some("page")] { (title) }
            }
        }
        @if samples.is_empty() {
            p.empty { "There are no samples. The 256 queues used last have some, from every 5 s since the server started." }
        } @else {
            div.charts { @for chart in &CHARTS { (drawn(chart, samples, &axis)) } }
            (figures(samples, axis.step))
        }
    };
    Ok(visit.frame.page(StatusCode::OK, &Head::of(format!("Charts of {queue}")).at("/"), &content))
}

/// The time that charts show.
struct Axis {
    from_ms: u64,
    until_ms: u64,
    /// Seconds of one sample.
    step: u64,
}

impl Axis {
    fn of(span: &str, step: u64, now_ms: u64) -> Self {
        let span: u64 = span.parse().unwrap_or(900);
        Self {
            from_ms: now_ms.saturating_sub(span.saturating_mul(1_000)),
            until_ms: now_ms,
            step: step.max(1),
        }
    }

    /// How far to the right an instant stands.
    fn x(&self, at_ms: u64) -> f64 {
        let all = self.until_ms.saturating_sub(self.from_ms).max(1);
        let passed = at_ms.saturating_sub(self.from_ms).min(all);
        WIDTH * passed as f64 / all as f64
    }
}

fn drawn(chart: &Chart, samples: &[Value], axis: &Axis) -> Markup {
    let value = |sample: &Value, member: &str| value_of(sample, member, chart.unit, axis.step);
    let all = samples
        .iter()
        .flat_map(|sample| chart.lines.iter().filter_map(move |(member, _)| value(sample, member)));
    let most = all.fold(0.0_f64, f64::max);
    let ceiling = if most > 0.0 { most } else { 1.0 };
    let part = |sample: &Value, member: &str| value(sample, member).map(|value| value / ceiling);
    html! {
        figure.chart {
            figcaption {
                strong { (chart.title) }
                @for (number, (_, name)) in chart.lines.iter().enumerate() {
                    " " span class={ "key line-" (number) } { (name) }
                }
            }
            svg viewBox={ "0 -2 " (WIDTH) " " (HEIGHT + 4.0) } preserveAspectRatio="none" role="img"
                aria-label={ (chart.title) ", at most " (written(most, chart.unit)) } {
                path.grid d={ "M0 0H" (WIDTH) "M0 " (HEIGHT / 2.0) "H" (WIDTH) "M0 " (HEIGHT) "H" (WIDTH) } {}
                @for (number, (member, _)) in chart.lines.iter().enumerate() {
                    path class={ "line line-" (number) } d=(line(samples, axis, |sample| part(sample, member))) {}
                }
            }
            span.most { (written(most, chart.unit)) }
            div.ends { (text::instant(axis.from_ms)) (text::instant(axis.until_ms)) }
        }
    }
}

/// A member of a sample in its unit; nothing where there is no such value. Traffic is of a whole step.
fn value_of(sample: &Value, member: &str, unit: Unit, step: u64) -> Option<f64> {
    let value = read::number(sample, member)?;
    Some(if unit == Unit::PerSecond { value / step as f64 } else { value })
}

fn written(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Messages => text::count(value as u64),
        Unit::Seconds => text::length(value as u64),
        Unit::Milliseconds => format!("{} ms", text::count(value as u64)),
        Unit::PerSecond => format!("{}/s", text::rate(value)),
    }
}

/// A line whose values are parts of its height, each at its instant. It has a gap where a sample has no value, and
/// where samples are missing; a value alone is a dash.
fn line(samples: &[Value], axis: &Axis, part: impl Fn(&Value) -> Option<f64>) -> String {
    let apart_max_ms = axis.step.saturating_mul(2_500);
    let mut line = String::with_capacity(samples.len() * 12);
    let (mut before_ms, mut points) = (None, 0);
    for sample in samples {
        let Some(part) = part(sample) else {
            before_ms = None;
            continue;
        };
        let at_ms = read::whole(sample, "at_ms");
        let goes_on = before_ms.is_some_and(|before: u64| at_ms.saturating_sub(before) <= apart_max_ms);
        if !goes_on {
            end_of_run(&mut line, points);
            points = 0;
        }
        let (x, y) = (axis.x(at_ms), HEIGHT * (1.0 - part));
        let _written = write!(line, "{}{x:.1},{y:.1}", if goes_on { 'L' } else { 'M' });
        (before_ms, points) = (Some(at_ms), points + 1);
    }
    end_of_run(&mut line, points);
    line
}

/// A value alone is drawn as a dash around its instant: a dot would be as small as the line is thin.
fn end_of_run(line: &mut String, points: u32) {
    if points == 1 {
        line.push_str("m-3,0h6");
    }
}

fn figures(samples: &[Value], step: u64) -> Markup {
    let columns =
        ["Visible", "In flight", "Delayed", "Oldest", "Sent", "Leased", "Done", "Wait, median", "99th"];
    let members = [
        "visible",
        "in_flight",
        "delayed",
        "oldest_age_seconds",
        "sent",
        "leased",
        "acked",
        "p50_ms",
        "p99_ms",
    ];
    html! {
        details {
            summary { "The figures, in steps of " (text::length(step)) }
            div.wide tabindex="0" role="region" aria-label="Figures of the charts" {
                table {
                    thead {
                        tr { th scope="col" { "End of the step" } @for column in columns { th.number scope="col" { (column) } } }
                    }
                    tbody {
                        @for sample in samples.iter().rev() {
                            tr {
                                th scope="row" { (text::instant(read::whole(sample, "at_ms"))) }
                                @for member in members {
                                    td.number {
                                        @if member == "oldest_age_seconds" { (text::age(read::number(sample, member))) }
                                        @else if member.ends_with("_ms") { (waited(read::number(sample, member))) }
                                        @else { (text::count(read::whole(sample, member))) }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// A wait; nothing was leased for the first time in a step without one.
fn waited(ms: Option<f64>) -> String {
    ms.map_or_else(|| "–".to_owned(), |ms| format!("{} ms", text::count(ms as u64)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const AXIS: Axis = Axis { from_ms: 1_000, until_ms: 101_000, step: 5 };

    fn drawn_line(samples: &[(u64, Option<u64>)]) -> String {
        let sample = |(second, age): &(u64, Option<u64>)| json!({ "at_ms": second * 1_000, "age": age });
        let samples: Vec<Value> = samples.iter().map(sample).collect();
        line(&samples, &AXIS, |sample| value_of(sample, "age", Unit::Seconds, 5).map(|age| age / 20.0))
    }

    #[test]
    fn a_value_stands_at_its_instant() {
        assert_eq!(
            drawn_line(&[(91, Some(0)), (96, Some(10)), (101, Some(20))]),
            "M540.0,120.0L570.0,60.0L600.0,0.0"
        );
        assert_eq!(
            drawn_line(&[(0, Some(0)), (1, Some(0))]),
            "M0.0,120.0L0.0,120.0",
            "it begins at the left"
        );
    }

    #[test]
    fn a_line_has_a_gap_where_there_is_no_value_and_no_sample() {
        let parts = [(1, Some(0)), (6, Some(0)), (11, None), (16, Some(20)), (51, Some(0)), (56, Some(0))];
        assert_eq!(drawn_line(&parts), "M0.0,120.0L30.0,120.0M90.0,0.0m-3,0h6M300.0,120.0L330.0,120.0");
        assert_eq!(drawn_line(&[(1, None)]), "");
    }

    #[test]
    fn traffic_is_of_each_second() {
        assert_eq!(value_of(&json!({ "sent": 50 }), "sent", Unit::PerSecond, 5), Some(10.0));
    }
}
