//! What is to be measured beside which operations.

use std::path::PathBuf;
use std::time::Duration;

use crate::words::{self, number};

use super::operations::ALL;

const USAGE: &str = "\
usage: kew-bench neighbour [operations…] [--size N] [--quiet-seconds N] [--threads N] [--kew FILE] [--dir PATH] [--out FILE] [--list]

  operations       beside which a neighbour is measured; all when none is named
  --size           messages of the large queues (default 2 000 000; delays and leases take half of it; at most 10 000 000)
  --quiet-seconds  how long the neighbour works alone first, and on after each operation (default 3)
  --threads        connections that fill the queues (default 4)
  --kew            the program (default: beside this one)
  --dir            where stores are made and removed again (default: beside the build)
  --out            also writes the table to this file
  --list           names the operations";

/// The most messages of a queue.
const SIZE_MAX: u64 = 10_000_000;

/// The words, read.
#[derive(Debug)]
pub struct Plan {
    operations: Vec<String>,
    pub size: u64,
    pub quiet: Duration,
    pub threads: u64,
    pub kew: PathBuf,
    pub dir: PathBuf,
    pub out: Option<PathBuf>,
}

impl Plan {
    /// Reads the words; what cannot be read is answered with the usage.
    pub fn parse(words: &[String]) -> Result<Self, String> {
        let program = std::env::current_exe().unwrap_or_default();
        let mut plan = Self {
            operations: Vec::new(),
            size: 2_000_000,
            quiet: Duration::from_secs(3),
            threads: 4,
            kew: program.with_file_name("kew"),
            dir: program.ancestors().nth(2).map(PathBuf::from).unwrap_or_default().join("kew-neighbour-data"),
            out: None,
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} needs a value\n\n{USAGE}"));
            match word.as_str() {
                "--size" => plan.size = number(value()?, USAGE)?,
                "--quiet-seconds" => plan.quiet = Duration::from_secs(number(value()?, USAGE)?),
                "--threads" => plan.threads = number(value()?, USAGE)?,
                "--kew" => plan.kew = value()?.into(),
                "--dir" => plan.dir = value()?.into(),
                "--out" => plan.out = Some(value()?.into()),
                "--list" => return Err(ALL.map(|operation| operation.name).join("\n")),
                name if ALL.iter().any(|operation| operation.name == name) => {
                    plan.operations.push(word.clone());
                }
                _ => return Err(format!("{word:?} is neither an option nor an operation\n\n{USAGE}")),
            }
        }
        if !(20..=SIZE_MAX).contains(&plan.size) || plan.threads == 0 {
            return Err(format!("the size is from 20 to {SIZE_MAX}, and there is a thread\n\n{USAGE}"));
        }
        Ok(plan)
    }

    pub fn wants(&self, operation: &str) -> bool {
        words::wants(&self.operations, operation)
    }
}
