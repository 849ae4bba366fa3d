//! Prometheus' text format, version 0.0.4: one line for each sample, its families announced.

use std::fmt::Write as _;

use kew_http::Distribution;

/// A label and its value.
pub(crate) type Label<'a> = (&'static str, &'a str);

/// What has been written so far.
#[derive(Default)]
pub(crate) struct Text {
    lines: String,
}

impl Text {
    /// Announces a metric; its samples follow.
    pub(crate) fn family(&mut self, name: &str, kind: &str, help: &str) {
        self.write(format_args!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
    }

    /// A count.
    pub(crate) fn sample(&mut self, name: &str, labels: &[Label<'_>], value: u64) {
        self.name(name, labels);
        self.write(format_args!(" {value}\n"));
    }

    /// A time.
    pub(crate) fn sample_seconds(&mut self, name: &str, labels: &[Label<'_>], seconds: f64) {
        self.name(name, labels);
        self.write(format_args!(" {seconds}\n"));
    }

    /// All samples of a histogram.
    pub(crate) fn histogram(&mut self, name: &str, labels: &[Label<'_>], found: &Distribution) {
        let bucket = format!("{name}_bucket");
        for (bound, count) in &found.at_most {
            let bound = bound.to_string();
            self.sample(&bucket, &[labels, &[("le", &bound)]].concat(), *count);
        }
        self.sample(&bucket, &[labels, &[("le", "+Inf")]].concat(), found.count);
        self.sample_seconds(&format!("{name}_sum"), labels, found.seconds);
        self.sample(&format!("{name}_count"), labels, found.count);
    }

    pub(crate) fn finish(self) -> String {
        self.lines
    }

    fn name(&mut self, name: &str, labels: &[Label<'_>]) {
        self.lines.push_str(name);
        for (place, (label, value)) in labels.iter().enumerate() {
            self.lines.push(if place == 0 { '{' } else { ',' });
            self.lines.push_str(label);
            self.lines.push_str("=\"");
            for character in value.chars() {
                match character {
                    '\\' => self.lines.push_str("\\\\"),
                    '"' => self.lines.push_str("\\\""),
                    '\n' => self.lines.push_str("\\n"),
                    other => self.lines.push(other),
                }
            }
            self.lines.push('"');
        }
        if !labels.is_empty() {
            self.lines.push('}');
        }
    }

    fn write(&mut self, arguments: std::fmt::Arguments<'_>) {
        // Writing into a string cannot fail.
        let _written = self.lines.write_fmt(arguments);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_carry_their_labels_escaped() {
        let mut text = Text::default();
        text.family("a_total", "counter", "What it is.");
        text.sample("a_total", &[], 1);
        text.sample("a_total", &[("queue", "a\"b\\c\nd"), ("state", "x")], 2);
        assert_eq!(
            text.finish(),
            "# HELP a_total What it is.\n# TYPE a_total counter\na_total 1\na_total{queue=\"a\\\"b\\\\c\\nd\",state=\"x\"} 2\n"
        );
    }

    #[test]
    fn a_histogram_ends_with_everything_its_sum_and_its_count() {
        let mut text = Text::default();
        let found = Distribution { at_most: vec![(0.000_05, 1), (30.0, 2)], count: 3, seconds: 40.5 };
        text.histogram("t", &[("code", "200")], &found);
        assert_eq!(
            text.finish(),
            "t_bucket{code=\"200\",le=\"0.00005\"} 1\nt_bucket{code=\"200\",le=\"30\"} 2\n\
             t_bucket{code=\"200\",le=\"+Inf\"} 3\nt_sum{code=\"200\"} 40.5\nt_count{code=\"200\"} 3\n"
        );
    }
}
