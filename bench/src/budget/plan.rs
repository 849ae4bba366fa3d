//! What `kew-bench budget` is to measure.

use std::path::PathBuf;

use crate::words::{self, number};

const USAGE: &str = "\
usage: kew-bench budget [parts…] [--rounds N] [--seconds N] [--backlog N] [--kew FILE] [--dir PATH] [--out FILE]
                        [--no-curves] [--full] [--install] [--quick] [--list]

  parts       of the page; all when none is named
  --rounds    alternating rounds behind each median (default 5)
  --seconds   length of a round (default 3)
  --backlog   messages of the deep queue (default 10 000 000)
  --kew       the program (default: beside this one)
  --dir       where stores are made and removed again (default: beside the build)
  --out       the page (default docs/bench/report.md); curves are drawn beside it
  --no-curves leaves the curves out
  --full      curves as far as 20 million messages
  --install   installs servers to compare with, where the system's packages have them
  --quick     everything small, to see that it works
  --list      names the parts";

/// Parts of the page beside the table.
const BESIDE: [&str; 2] = ["others", "curves"];

fn names() -> impl Iterator<Item = &'static str> {
    super::PARTS.iter().map(|(name, _)| *name).chain(BESIDE)
}

/// The words, read.
#[derive(Debug)]
pub struct Plan {
    pub parts: Vec<String>,
    pub rounds: usize,
    pub seconds: u64,
    pub backlog: u64,
    pub kew: PathBuf,
    pub dir: PathBuf,
    pub out: PathBuf,
    pub curves: bool,
    pub full: bool,
    pub install: bool,
    pub quick: bool,
}

impl Plan {
    /// Reads the words; what cannot be read is answered with the usage.
    pub fn parse(words: &[String]) -> Result<Self, String> {
        let program = std::env::current_exe().unwrap_or_default();
        let mut plan = Self {
            parts: Vec::new(),
            rounds: 5,
            seconds: 3,
            backlog: 10_000_000,
            kew: program.with_file_name("kew"),
            dir: program.ancestors().nth(2).map(PathBuf::from).unwrap_or_default().join("kew-budget-data"),
            out: "docs/bench/report.md".into(),
            curves: true,
            full: false,
            install: false,
            quick: false,
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} needs a value\n\n{USAGE}"));
            match word.as_str() {
                "--rounds" => plan.rounds = number(value()?, USAGE)?,
                "--seconds" => plan.seconds = number(value()?, USAGE)?,
                "--backlog" => plan.backlog = number(value()?, USAGE)?,
                "--kew" => plan.kew = value()?.into(),
                "--dir" => plan.dir = value()?.into(),
                "--out" => plan.out = value()?.into(),
                "--no-curves" => plan.curves = false,
                "--full" => plan.full = true,
                "--install" => plan.install = true,
                "--quick" => plan.quick = true,
                "--list" => return Err(names().collect::<Vec<_>>().join("\n")),
                part if names().any(|name| name == part) => plan.parts.push(word.clone()),
                _ => return Err(format!("{word:?} is neither an option nor a part\n\n{USAGE}")),
            }
        }
        if plan.quick {
            (plan.rounds, plan.seconds, plan.backlog) = (1, 1, plan.backlog.min(2_000));
        }
        if plan.rounds == 0 || plan.seconds == 0 || plan.backlog == 0 {
            return Err(format!("rounds, seconds and the backlog are above zero\n\n{USAGE}"));
        }
        Ok(plan)
    }

    /// Whether a part is to be measured.
    pub fn wants(&self, part: &str) -> bool {
        words::wants(&self.parts, part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Plan, String> {
        Plan::parse(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn without_names_everything_is_wanted_and_with_names_only_these() {
        let all = parse("--rounds 7").expect("the arguments are valid");
        assert!(all.wants("azure") && all.wants("curves") && all.rounds == 7);
        let some = parse("azure curves").expect("the arguments are valid");
        assert!(some.wants("azure") && some.wants("curves") && !some.wants("fifo"));
    }

    #[test]
    fn what_cannot_be_read_is_answered_with_the_usage() {
        for text in ["azur", "--rounds", "--rounds many", "--rounds 0"] {
            assert!(parse(text).expect_err(text).contains("usage: kew-bench budget"), "{text}");
        }
    }
}
