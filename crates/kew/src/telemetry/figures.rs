//! The text of `/metrics` as metrics of OTLP: one source of names and values for scrapers and collectors.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

use super::encode;

/// What the text says of one family.
struct Family<'a> {
    kind: &'a str,
    help: &'a str,
    points: Vec<Json>,
    histograms: BTreeMap<Vec<(String, String)>, Histogram>,
}

/// A histogram that is being put together from its lines.
#[derive(Default)]
struct Histogram {
    /// Upper bounds, the last of which is above everything, with the counts up to them.
    buckets: Vec<(String, u64)>,
    sum: f64,
    count: u64,
}

/// The metrics in a text, counted since `began` and read at `now`, in nanoseconds since 1970. Lines that cannot be read
/// are left out.
pub(super) fn metrics(text: &str, began: u128, now: u128) -> Vec<Json> {
    let mut families: BTreeMap<&str, Family<'_>> = BTreeMap::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap_or((rest, ""));
            let histograms = BTreeMap::new();
            families.insert(name, Family { kind: "gauge", help, points: Vec::new(), histograms });
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' '))
        {
            let histograms = BTreeMap::new();
            let family =
                families.entry(name).or_insert(Family { kind, help: "", points: Vec::new(), histograms });
            family.kind = kind;
        } else if let Some((name, labels, value)) = sample(line) {
            take(&mut families, name, labels, value, (began, now));
        }
    }
    families.into_iter().map(|(name, family)| written(name, family, (began, now))).collect()
}

fn take(
    families: &mut BTreeMap<&str, Family<'_>>,
    name: &str,
    mut labels: Vec<(String, String)>,
    value: f64,
    (began, now): (u128, u128),
) {
    if let Some(family) = families.get_mut(name).filter(|family| family.kind != "histogram") {
        family.points.push(json!({
            "attributes": attributes(&labels),
            "startTimeUnixNano": began.to_string(),
            "timeUnixNano": now.to_string(),
            "asDouble": value,
        }));
        return;
    }
    for suffix in ["_bucket", "_sum", "_count"] {
        let Some(family) = name.strip_suffix(suffix).and_then(|base| families.get_mut(base)) else {
            continue;
        };
        let bound = labels.iter().position(|(label, _)| label == "le").map(|place| labels.remove(place).1);
        let histogram = family.histograms.entry(std::mem::take(&mut labels)).or_default();
        match (suffix, bound) {
            ("_bucket", Some(bound)) => histogram.buckets.push((bound, whole(value))),
            ("_sum", None) => histogram.sum = value,
            ("_count", None) => histogram.count = whole(value),
            _ => {}
        }
        return;
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts are whole and not negative"
)]
fn whole(value: f64) -> u64 {
    value as u64
}

fn written(name: &str, family: Family<'_>, (began, now): (u128, u128)) -> Json {
    let data = match family.kind {
        "counter" => (
            "sum",
            json!({
                "dataPoints": family.points, "aggregationTemporality": 2, "isMonotonic": true,
            }),
        ),
        "histogram" => {
            let points = family.histograms.iter().map(|(labels, histogram)| {
                let mut below = 0;
                let counts: Vec<String> = histogram
                    .buckets
                    .iter()
                    .map(|(_, up_to)| (up_to - std::mem::replace(&mut below, *up_to).min(*up_to)).to_string())
                    .collect();
                let bounds: Vec<f64> = histogram
                    .buckets
                    .iter()
                    .filter_map(|(bound, _)| bound.parse().ok().filter(|bound: &f64| bound.is_finite()))
                    .collect();
                json!({
                    "attributes": attributes(labels),
                    "startTimeUnixNano": began.to_string(),
                    "timeUnixNano": now.to_string(),
                    "count": histogram.count.to_string(),
                    "sum": histogram.sum,
                    "bucketCounts": counts,
                    "explicitBounds": bounds,
                })
            });
            ("histogram", json!({ "dataPoints": points.collect::<Vec<_>>(), "aggregationTemporality": 2 }))
        }
        _ => ("gauge", json!({ "dataPoints": family.points })),
    };
    json!({ "name": name, "description": family.help, data.0: data.1 })
}

fn attributes(labels: &[(String, String)]) -> Vec<Json> {
    labels.iter().map(|(name, value)| encode::text(name, value)).collect()
}

/// Names and values of labels.
type Labels = Vec<(String, String)>;

/// The name, labels and value in a line.
fn sample(line: &str) -> Option<(&str, Labels, f64)> {
    let name_end = line.find(['{', ' '])?;
    let (name, rest) = line.split_at_checked(name_end)?;
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(rest) => labels(rest)?,
        None => (Vec::new(), rest),
    };
    Some((name, labels, rest.trim().parse().ok()?))
}

/// The labels up to the closing brace, and what stands behind it. In a value a backslash, a quotation mark and the end
/// of a line are escaped.
fn labels(mut rest: &str) -> Option<(Labels, &str)> {
    let mut labels = Vec::new();
    loop {
        rest = rest.strip_prefix(',').unwrap_or(rest);
        if let Some(behind) = rest.strip_prefix('}') {
            return Some((labels, behind));
        }
        let (name, behind) = rest.split_once("=\"")?;
        let (mut value, mut escaped, mut end) = (String::new(), false, None);
        for (place, letter) in behind.char_indices() {
            match (escaped, letter) {
                (false, '\\') => escaped = true,
                (false, '"') => {
                    end = Some(place + 1);
                    break;
                }
                (true, 'n') => {
                    value.push('\n');
                    escaped = false;
                }
                (_, letter) => {
                    value.push(letter);
                    escaped = false;
                }
            }
        }
        labels.push((name.to_owned(), value));
        rest = behind.get(end?..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# HELP kew_a_total Some.\n# TYPE kew_a_total counter\nkew_a_total{q=\"x \\\"y\\\"\"} 3\n\
        # HELP kew_g Now.\n# TYPE kew_g gauge\nkew_g 0.5\n\
        # HELP kew_h_seconds Long.\n# TYPE kew_h_seconds histogram\nkew_h_seconds_bucket{le=\"0.1\"} 2\n\
        kew_h_seconds_bucket{le=\"+Inf\"} 5\nkew_h_seconds_sum 1.5\nkew_h_seconds_count 5\n";

    #[test]
    fn families_are_counters_gauges_and_histograms_with_counts_of_each_bucket() {
        let metrics = metrics(TEXT, 1, 2);
        let times = |point: &Json| (point["startTimeUnixNano"].clone(), point["timeUnixNano"].clone());
        let named = |name: &str| {
            metrics.iter().find(|metric| metric["name"] == name).expect("each family of the text is a metric")
        };
        let counter = &named("kew_a_total")["sum"];
        assert_eq!((&counter["isMonotonic"], &counter["aggregationTemporality"]), (&true.into(), &2.into()));
        assert_eq!(counter["dataPoints"][0]["attributes"][0]["value"]["stringValue"], "x \"y\"");
        let counted = (Json::from("1"), Json::from("2"));
        assert_eq!(times(&counter["dataPoints"][0]), counted, "since when it is counted is told");
        assert_eq!(times(&named("kew_h_seconds")["histogram"]["dataPoints"][0]), counted);
        assert_eq!(named("kew_g")["gauge"]["dataPoints"][0]["asDouble"], 0.5);
        let histogram = &named("kew_h_seconds")["histogram"]["dataPoints"][0];
        assert_eq!(histogram["bucketCounts"], json!(["2", "3"]));
        assert_eq!((&histogram["explicitBounds"], &histogram["count"]), (&json!([0.1]), &"5".into()));
    }

    #[test]
    fn lines_that_cannot_be_read_are_left_out() {
        for line in ["", "kew_a", "kew_a{", "kew_a{b=\"c} 1", "kew_a{b=\"c\"} many", "é 1"] {
            let read = sample(line);
            assert!(read.is_none() || line == "é 1", "{line}: {read:?}");
        }
    }
}
