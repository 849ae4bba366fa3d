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
    let step = read::whole(&found, "step").max(1);
    let path = format!("{}/charts", queue_path(queue));
    let content = html! {
        (queue::top(visit, queue, &shown, Tab::Charts))
        nav.tabs aria-label="How far back" {
            @for (seconds, title) in SPANS {
                a href={ (path) "?seconds=" (seconds) } aria-current=[(seconds == span).then_some("page")] { (title) }
            }
        }
        @if samples.is_empty() {
            p.empty { "There are no samples. The 256 queues used last have some, from every 5 s since the server started." }
        } @else {
            div.charts { @for chart in &CHARTS { (drawn(chart, samples, step)) } }
            (figures(samples, step))
        }
    };
    Ok(visit.frame.page(StatusCode::OK, &Head::of(format!("Charts of {queue}")).at("/"), &content))
}

fn drawn(chart: &Chart, samples: &[Value], step: u64) -> Markup {
    let value = |sample: &Value, member: &str| value_of(sample, member, chart.unit, step);
    let all =
        samples.iter().flat_map(|sample| chart.lines.iter().map(move |(member, _)| value(sample, member)));
    let most = all.fold(0.0_f64, f64::max);
    let ceiling = if most > 0.0 { most } else { 1.0 };
    let at = |sample: Option<&Value>| sample.map(|sample| read::whole(sample, "at_ms")).unwrap_or_default();
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
                    polyline class={ "line-" (number) } points=(points(samples, |sample| value(sample, member) / ceiling)) {}
                }
            }
            span.most { (written(most, chart.unit)) }
            div.ends { (text::instant(at(samples.first()))) (text::instant(at(samples.last()))) }
        }
    }
}

/// A member of a sample in its unit. Traffic is of a whole step.
fn value_of(sample: &Value, member: &str, unit: Unit, step: u64) -> f64 {
    let value = read::number(sample, member).unwrap_or_default();
    if unit == Unit::PerSecond { value / step as f64 } else { value }
}

fn written(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Messages => text::count(value as u64),
        Unit::Seconds => text::length(value as u64),
        Unit::Milliseconds => format!("{} ms", text::count(value as u64)),
        Unit::PerSecond => format!("{}/s", text::rate(value)),
    }
}

/// Points of a line whose values are parts of its height.
fn points(samples: &[Value], part: impl Fn(&Value) -> f64) -> String {
    let apart = WIDTH / (samples.len().saturating_sub(1).max(1)) as f64;
    let mut points = String::with_capacity(samples.len() * 12);
    for (number, sample) in samples.iter().enumerate() {
        let (x, y) = (number as f64 * apart, HEIGHT * (1.0 - part(sample)));
        let _written = write!(points, "{x:.1},{y:.1} ");
    }
    points.pop();
    points
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

    #[test]
    fn a_line_goes_from_one_side_to_the_other() {
        let samples = [json!({ "sent": 0 }), json!({ "sent": 50 }), json!({ "sent": 100 })];
        let part = |sample: &Value| value_of(sample, "sent", Unit::PerSecond, 5) / 20.0;
        assert_eq!(points(&samples, part), "0.0,120.0 300.0,60.0 600.0,0.0");
        assert_eq!(points(&samples[2..], part), "0.0,0.0");
        assert_eq!(
            value_of(&json!({ "oldest_age_seconds": null }), "oldest_age_seconds", Unit::Seconds, 5),
            0.0
        );
    }
}
