//! The report: rows of the budget table and what lies beside them, as one Markdown page.

/// Whether a row keeps its budget.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    Met,
    Missed,
    /// There is no budget, only a figure.
    Unjudged,
    /// It could not be measured.
    Failed,
}

impl Verdict {
    /// Met when all of these are.
    pub fn all(conditions: &[bool]) -> Self {
        if conditions.iter().all(|met| *met) { Self::Met } else { Self::Missed }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Met => "met",
            Self::Missed => "**missed**",
            Self::Unjudged => "",
            Self::Failed => "**not measured**",
        }
    }
}

/// One row.
#[derive(Clone, Debug)]
pub struct Row {
    pub scenario: String,
    pub budget: String,
    pub measured: String,
    pub ratio: String,
    /// What an absolute budget would be here, where null does not take 5 microseconds.
    pub scaled: String,
    pub verdict: Verdict,
    pub command: String,
}

impl Row {
    /// A row without a ratio.
    pub fn new(scenario: &str, budget: &str, measured: String, verdict: Verdict, command: &str) -> Self {
        let [scenario, budget, command] = [scenario, budget, command].map(str::to_owned);
        Self { scenario, budget, measured, ratio: String::new(), scaled: String::new(), verdict, command }
    }

    /// The same with its ratio to null.
    pub fn with_ratio(mut self, ratio: f64) -> Self {
        self.ratio = format!("{ratio:.2}");
        self
    }

    /// The same with its budget as it would be here.
    pub fn with_scaled(mut self, scaled: String) -> Self {
        self.scaled = scaled;
        self
    }

    /// What could not be measured.
    pub fn failed(scenario: &str, why: &str) -> Self {
        let line: String = why.lines().next().unwrap_or_default().chars().take(200).collect();
        Self::new(scenario, "", line, Verdict::Failed, "")
    }
}

/// The page.
#[derive(Default)]
pub struct Page {
    pub machine: Vec<String>,
    pub rows: Vec<Row>,
    pub others: Vec<Row>,
    pub notes: Vec<String>,
    /// Drawn beside it.
    pub curves: Vec<Curve>,
}

/// A curve beside the page, and its figures.
#[derive(Clone, Debug)]
pub struct Curve {
    pub file: String,
    pub title: String,
    pub table: String,
    pub failed: bool,
}

impl Page {
    /// All of it.
    pub fn text(&self) -> String {
        let mut text = String::from(
            "# Benchmark report\n\nMade by `make bench`; how to read it and repeat its parts: [performance](../performance.md).\n\n",
        );
        self.machine.iter().for_each(|line| text += &format!("- {line}\n"));
        text += "\n## Budgets\n\n";
        text += &table(&self.rows);
        text += "\nA cycle is one message sent, received and deleted, so its ratio is to three null requests. Batches have three requests for ten \
                 messages. Budgets in microseconds are made for a machine on which null takes 5; the column beside says what they would be \
                 here, and is not judged. Commands use a server that runs as `kew serve` on a fresh directory, unless they say otherwise.\n";
        if !self.others.is_empty() {
            text += "\n## Beside other servers\n\nThe same body size and connections, full cycles, the server's CPU by its process.\n\n";
            text += &table(&self.others);
        }
        if !self.curves.is_empty() {
            text += "\n## Curves\n\n";
            for Curve { file, title, table, failed } in &self.curves {
                let picture = if *failed { String::new() } else { format!("![{title}]({file})\n\n") };
                text += &format!("### {title}\n\n{picture}{table}\n");
            }
        }
        if !self.notes.is_empty() {
            text += "\n## Notes\n\n";
            self.notes.iter().for_each(|note| text += &format!("- {note}\n"));
        }
        text
    }
}

fn table(rows: &[Row]) -> String {
    let mut text = String::from(
        "| scenario | budget | measured | ratio to null | budget scaled by null | verdict | command |\n|---|---|---|---|---|---|---|\n",
    );
    for Row { scenario, budget, measured, ratio, scaled, verdict, command } in rows {
        let command = if command.is_empty() { String::new() } else { format!("`{command}`") };
        let verdict = verdict.word();
        text +=
            &format!("| {scenario} | {budget} | {measured} | {ratio} | {scaled} | {verdict} | {command} |\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_stands_in_the_table_with_its_verdict_and_command() {
        let verdict = Verdict::all(&[true, false]);
        let row = Row::new("cycle", "2.0", "2.1".into(), verdict, "kew bench").with_ratio(2.1);
        let page = Page { rows: vec![row, Row::failed("fifo", "no disk\nat all")], ..Page::default() };
        let text = page.text();
        assert!(text.contains("| cycle | 2.0 | 2.1 | 2.10 |  | **missed** | `kew bench` |"), "{text}");
        assert!(text.contains("| fifo |  | no disk |  |  | **not measured** |  |"), "{text}");
        assert_eq!(Verdict::all(&[true, true]), Verdict::Met);
    }
}
