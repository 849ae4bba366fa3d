//! What is to be measured of a store in PostgreSQL.

use std::path::PathBuf;
use std::time::Duration;

use crate::words::{self, number};

const USAGE: &str = "\
usage: kew-bench postgres      [parts…] [--rounds N] [--seconds N] [--connections N] [--kew FILE] [--dir PATH] [--out FILE]
       kew-bench postgres-open [--size N] [--kew FILE] [--dir PATH] [--out FILE]

  parts          singles, tens, held (a transaction held open), nodes (one, three, and three on two databases);
                 all when none is named
  --rounds       alternating rounds behind each median (default 5)
  --seconds      length of a round (default 5); the part held takes twelve times as long
  --connections  of the clients (default 64)
  --size         messages of the store that a new owner opens (default 10 000 000)
  --kew          the program (default: beside this one)
  --dir          where stores are made and removed again (default: beside the build)
  --out          also writes the table to this file";

/// The parts that have names.
const PARTS: [&str; 4] = ["singles", "tens", "held", "nodes"];
/// The most messages of the large store.
const SIZE_MAX: u64 = 10_000_000;

/// The words, read.
#[derive(Debug)]
pub struct Plan {
    parts: Vec<String>,
    pub rounds: usize,
    pub length: Duration,
    pub connections: usize,
    pub size: u64,
    pub kew: PathBuf,
    pub dir: PathBuf,
    pub out: Option<PathBuf>,
}

impl Plan {
    /// Reads the words; what cannot be read is answered with the usage.
    pub fn parse(words: &[String]) -> Result<Self, String> {
        let program = std::env::current_exe().unwrap_or_default();
        let mut plan = Self {
            parts: Vec::new(),
            rounds: 5,
            length: Duration::from_secs(5),
            connections: 64,
            size: SIZE_MAX,
            kew: program.with_file_name("kew"),
            dir: program.ancestors().nth(2).map(PathBuf::from).unwrap_or_default().join("kew-postgres-data"),
            out: None,
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} needs a value\n\n{USAGE}"));
            match word.as_str() {
                "--rounds" => plan.rounds = number(value()?, USAGE)?,
                "--seconds" => plan.length = Duration::from_secs(number(value()?, USAGE)?),
                "--connections" => plan.connections = number(value()?, USAGE)?,
                "--size" => plan.size = number(value()?, USAGE)?,
                "--kew" => plan.kew = value()?.into(),
                "--dir" => plan.dir = value()?.into(),
                "--out" => plan.out = Some(value()?.into()),
                name if PARTS.contains(&name) => plan.parts.push(word.clone()),
                _ => return Err(format!("{word:?} is neither an option nor a part\n\n{USAGE}")),
            }
        }
        let is_empty = plan.rounds == 0 || plan.length.is_zero() || plan.connections == 0;
        if is_empty || !(1_000..=SIZE_MAX).contains(&plan.size) {
            return Err(format!("counts are above zero, and the size is from 1000 to {SIZE_MAX}\n\n{USAGE}"));
        }
        Ok(plan)
    }

    pub fn wants(&self, part: &str) -> bool {
        words::wants(&self.parts, part)
    }
}
