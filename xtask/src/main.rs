//! The house's scripts: one command line for what a contributor, `make` and CI run.
//!
//! `layers` decides which crate may import which, `circles` looks for circles within each, `lines` bounds the length of
//! lines of prose, `counts` counts what makes code hard to read, `steps` lists what a check consists of, `run` times
//! steps and sums up, `programs` runs the tests, `repeat` runs them many times, `tools` what the machine must bring,
//! `e2e` how the vendors' clients are run, `console` the web console in a browser.

mod circles;
mod compatibility;
mod console;
mod counts;
mod e2e;
mod guard;
mod layers;
mod lines;
mod output;
mod programs;
mod repeat;
mod run;
mod stalls;
mod steps;
mod tools;

use std::env;
use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "\
cargo xtask check         format, lints, layers, lines, tests with 200 model histories
cargo xtask compatibility  write docs/dialects/compatibility.md from the wire tests
cargo xtask layers        compare who imports whom with the table in xtask/src/layers.rs; circles within crates
cargo xtask lines         lines of prose have at most 120 characters
cargo xtask counts [ROW]  what makes code hard to read, a row for each crate; every place of one row
cargo xtask test          check with 500 model histories, 20 kills, the guard of hot paths, all clients
cargo xtask test-slow     what is about ten minutes, in real time; functions at the vendor's emulator
cargo xtask test-long     the full counts, long sets, then the benches
cargo xtask repeat N [PART…]  every test program N times over, or those with a part in their names
cargo xtask e2e [--store postgres [--nodes 3]] [CLIENT…]  the vendors' own clients against a real Kew
cargo xtask e2e --cases N openapi  the admin API fuzzed, N cases for each operation
cargo xtask console [PART]  the console in a browser; or the tests with this part in their names
cargo xtask guard [--write]  instructions of hot paths against bench/guard.txt
cargo xtask bench [ARGS]  the budget table, as docs/bench/report.md; or engine and names of its scenarios;
                          postgres, postgres-open and neighbour are runs of their own";

/// A script goes on, or stops with a sentence for the person in front of it.
type Done = Result<(), String>;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match enter_root().and_then(|()| run(&arguments)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("xtask: {reason}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[&str]) -> Done {
    match arguments {
        ["check"] => steps::check(),
        ["compatibility"] => compatibility::write(),
        ["layers"] => steps::layers(),
        ["lines"] => lines::compare(),
        ["counts"] => counts::print(None),
        ["counts", row] => counts::print(Some(row)),
        ["test"] => steps::test(),
        ["test-slow"] => steps::test_slow(),
        ["test-long"] => steps::test_long(),
        ["repeat", rest @ ..] => repeat::command(rest),
        ["e2e", clients @ ..] => e2e::run(clients),
        ["console", parts @ ..] => console::run(parts),
        ["guard", rest @ ..] => guard::run(rest),
        ["bench", rest @ ..] => steps::bench(rest),
        _ => Err(format!("which script?\n{USAGE}")),
    }
}

/// Makes the workspace root the working directory, so that `cargo xtask` works from any room.
fn enter_root() -> Done {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("xtask has no directory above it")?;
    env::set_current_dir(root).map_err(|error| format!("cannot enter {}: {error}", root.display()))
}
