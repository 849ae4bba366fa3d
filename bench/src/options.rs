//! What to run, how large, and where.

use std::path::PathBuf;

use crate::guard;
use crate::scenarios::{self, Context};
use crate::words::number;

const USAGE: &str = "\
usage: kew-bench [names…] [--scale FACTOR] [--rounds N] [--dir PATH] [--out FILE] [--list]

  names     scenarios to run; all when none is named
  --scale   multiplies every count; bounds are judged at 1 only (default 1)
  --rounds  alternating rounds behind each median (default 5)
  --dir     where stores are made and removed again (default: beside the build)
  --out     also writes the table to this file
  --list    names the scenarios";

/// What the command line asks for.
pub enum Wanted {
    /// To run something.
    Run(Options),
    /// To see a list of names.
    List(String),
}

/// What to run, how large, and where.
pub struct Options {
    pub names: Vec<String>,
    pub scale: f64,
    pub rounds: usize,
    pub dir: PathBuf,
    pub out: Option<PathBuf>,
    /// The part this process plays for a parent.
    pub child: Option<String>,
    /// The hot path to walk for somebody who counts instructions.
    pub guard: Option<String>,
}

impl Options {
    /// Reads the command line; what cannot be read is answered with the usage.
    pub fn parse(mut words: impl Iterator<Item = String>) -> Result<Wanted, String> {
        let mut options = Self {
            names: Vec::new(),
            scale: 1.0,
            rounds: 5,
            dir: beside_the_build(),
            out: None,
            child: None,
            guard: None,
        };
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} needs a value\n\n{USAGE}"));
            match word.as_str() {
                "--scale" => options.scale = number(&value()?, USAGE)?,
                "--rounds" => options.rounds = number(&value()?, USAGE)?,
                "--dir" => options.dir = value()?.into(),
                "--out" => options.out = Some(value()?.into()),
                "--child" => options.child = Some(value()?),
                "--guard" => options.guard = Some(value()?),
                "--guard-list" => return Ok(Wanted::List(guard::names().join("\n"))),
                "--list" => return Ok(Wanted::List(scenarios::ALL.map(|scenario| scenario.name).join("\n"))),
                name if scenarios::ALL.iter().any(|scenario| scenario.name == name) => {
                    options.names.push(word);
                }
                _ => return Err(format!("{word:?} is neither an option nor a scenario\n\n{USAGE}")),
            }
        }
        if options.scale > 0.0 && options.rounds > 0 {
            Ok(Wanted::Run(options))
        } else {
            Err(format!("the scale and the number of rounds are above zero\n\n{USAGE}"))
        }
    }

    /// What a scenario runs with.
    pub fn context(&self) -> Context {
        Context { dir: self.dir.clone(), scale: self.scale, rounds: self.rounds }
    }
}

/// `target/kew-bench`: on the file system the program was built on.
fn beside_the_build() -> PathBuf {
    let program = std::env::current_exe().unwrap_or_default();
    let target = program.ancestors().nth(2).map(PathBuf::from).unwrap_or_default();
    target.join("kew-bench-data")
}
