//! Rows of the table: what was measured, what it may be, and whether it is.

use std::fmt::Display;

/// Whether a figure keeps its bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It does.
    Holds,
    /// It does not, and that is a failure.
    Broken,
    /// It does not, but it is wall time, which other programs on the machine may stretch.
    Slow,
    /// It has no bound, or the run is too small to judge by.
    Unjudged,
}

impl Verdict {
    const ALL: [(Self, &'static str); 4] = [
        (Self::Holds, "holds"),
        (Self::Broken, "BROKEN"),
        (Self::Slow, "slow (not judged)"),
        (Self::Unjudged, ""),
    ];

    /// How the table shows it.
    pub fn word(self) -> &'static str {
        Self::ALL.iter().find(|(verdict, _)| *verdict == self).map_or("", |(_, word)| word)
    }

    fn of(word: &str) -> Self {
        Self::ALL.iter().find(|(_, known)| *known == word).map_or(Self::Unjudged, |(verdict, _)| *verdict)
    }
}

/// One line of the table.
#[derive(Clone, Debug)]
pub struct Row {
    pub scenario: String,
    pub figure: String,
    pub measured: String,
    pub bound: String,
    pub verdict: Verdict,
}

impl Row {
    /// Reads what [`Report`] printed.
    pub fn read(line: &str) -> Option<Self> {
        let mut parts = line.strip_prefix("row\t")?.split('\t').map(str::to_owned);
        let mut next = || parts.next();
        Some(Self {
            scenario: next()?,
            figure: next()?,
            measured: next()?,
            bound: next()?,
            verdict: Verdict::of(&next()?),
        })
    }
}

/// Prints a scenario's rows for the parent to gather.
pub struct Report {
    scenario: &'static str,
    /// Whether counts are at full size, which the bounds are made for.
    judged: bool,
}

impl Report {
    pub fn new(scenario: &'static str, scale: f64) -> Self {
        Self { scenario, judged: scale >= 1.0 }
    }

    /// A figure without a bound.
    pub fn note(&self, figure: &str, measured: impl Display) {
        self.print(figure, measured, "", Verdict::Unjudged);
    }

    /// A figure of CPU, memory or counts: past its bound the run fails.
    pub fn judge(&self, figure: &str, measured: impl Display, bound: impl Display, holds: bool) {
        self.print(figure, measured, bound, if holds { Verdict::Holds } else { Verdict::Broken });
    }

    /// A wall time: past its bound it is marked, and the run does not fail.
    pub fn wall(&self, figure: &str, measured: impl Display, bound: impl Display, holds: bool) {
        self.print(figure, measured, bound, if holds { Verdict::Holds } else { Verdict::Slow });
    }

    fn print(&self, figure: &str, measured: impl Display, bound: impl Display, verdict: Verdict) {
        let verdict = if self.judged { verdict } else { Verdict::Unjudged };
        println!("row\t{}\t{figure}\t{measured}\t{bound}\t{}", self.scenario, verdict.word());
    }
}

/// The table.
pub fn table(rows: &[Row]) -> String {
    let mut text =
        String::from("| scenario | figure | measured | bound | verdict |\n|---|---|---|---|---|\n");
    for row in rows {
        let Row { scenario, figure, measured, bound, verdict } = row;
        text += &format!("| {scenario} | {figure} | {measured} | {bound} | {} |\n", verdict.word());
    }
    text
}

/// The middle one.
pub fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_unstable_by(f64::total_cmp);
    let middle = figures.len() / 2;
    match figures.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => figures[middle],
        _ => f64::midpoint(figures[middle - 1], figures[middle]),
    }
}

/// Smallest to largest, beside a median.
pub fn spread(figures: &[f64]) -> String {
    let least = figures.iter().copied().fold(f64::INFINITY, f64::min);
    let most = figures.iter().copied().fold(0.0, f64::max);
    format!("{least:.2}–{most:.2}")
}

/// A count with its digits in threes.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_is_the_middle_or_between_the_two_middles() {
        assert!((median(vec![3.0, 1.0, 2.0]) - 2.0).abs() < 1e-9);
        assert!((median(vec![4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < 1e-9);
    }

    #[test]
    fn a_row_survives_its_line() {
        let row = Row::read("row\tcycle\tCPU\t1.2 us\t1.3 us\tholds").expect("a row");
        assert_eq!((row.scenario.as_str(), row.verdict), ("cycle", Verdict::Holds));
        assert!(Row::read("something else").is_none());
    }

    #[test]
    fn digits_come_in_threes() {
        assert_eq!([count(7), count(1_000), count(20_000_000)], ["7", "1 000", "20 000 000"]);
    }
}
