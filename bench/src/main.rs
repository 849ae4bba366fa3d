//! `kew-bench`: measures the engine and its log against their budgets, one process per scenario.
//!
//! The parent starts itself once for each scenario, so that memory and CPU figures are clean, gathers the rows they
//! print, and prints one Markdown table. Bounds on CPU, memory and counts decide the exit code; wall times are shown
//! and never judged. See `docs/benchmarks.md`. [`guard`] is what `cargo xtask guard` counts the instructions of,
//! [`budget`] measures the whole server beside its budgets and writes the report, [`beside`] what a neighbour on a
//! server feels of long operations, [`postgres`] a store in PostgreSQL.

mod answers;
mod beside;
mod budget;
mod counting;
mod guard;
mod machine;
mod options;
mod parent;
mod postgres;
mod raw;
mod report;
mod rig;
mod scenarios;
mod words;

use std::process::ExitCode;

use options::{Options, Wanted};

/// The program's own allocator, so that figures are the program's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let Some(("budget", rest)) = words.split_first().map(|(first, rest)| (first.as_str(), rest)) {
        return budget::run(rest);
    }
    if let Some(("neighbour", rest)) = words.split_first().map(|(first, rest)| (first.as_str(), rest)) {
        return beside::run(rest);
    }
    if let Some((name @ ("postgres" | "postgres-open"), rest)) =
        words.split_first().map(|(first, rest)| (first.as_str(), rest))
    {
        return postgres::run(name, rest);
    }
    let options = match Options::parse(words.into_iter()) {
        Ok(Wanted::Run(options)) => options,
        Ok(Wanted::List(names)) => {
            println!("{names}");
            return ExitCode::SUCCESS;
        }
        Err(problem) => {
            eprintln!("{problem}");
            return ExitCode::from(2);
        }
    };
    match (&options.child, &options.guard) {
        (Some(part), _) => scenarios::run(part, &options.context()),
        (None, Some(path)) => guard::run(path, &options.dir),
        (None, None) => return parent::run(&options),
    }
    ExitCode::SUCCESS
}
