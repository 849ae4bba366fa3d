//! The parent: one process per scenario, one table of them all.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{ExitCode, Stdio};
use std::time::Instant;

use crate::machine;
use crate::options::Options;
use crate::report::{self, Row, Verdict};
use crate::scenarios::{self, Scenario};

/// Runs what was asked for and prints the table. Fails when a bound is broken or a scenario could not end.
pub fn run(options: &Options) -> ExitCode {
    let mut rows = Vec::new();
    let mut notes = vec![format!("{}; scale {}.", machine::description(), options.scale)];
    let mut failed = false;
    let chosen = scenarios::ALL.iter().filter(|scenario| {
        options.names.is_empty() || options.names.iter().any(|name| name == scenario.name)
    });
    for scenario in chosen {
        let dir = options.dir.join(format!("{}-{}", scenario.name, std::process::id()));
        std::fs::create_dir_all(&dir).expect("the directory can be made");
        let (begun, load) = (Instant::now(), machine::load());
        let problem =
            lacks_space(scenario, options, &dir).or_else(|| run_one(scenario, options, &dir, &mut rows));
        std::fs::remove_dir_all(&dir).expect("the directory can be removed");
        if let Some(problem) = problem {
            failed = true;
            rows.push(not_run(scenario, &problem));
        }
        let (seconds, after) = (begun.elapsed().as_secs_f64(), machine::load());
        eprintln!("{}: {seconds:.1} s, load {load} before and {after} after", scenario.name);
        notes.push(format!("{} took {seconds:.0} s at a load of {load} to {after}.", scenario.name));
    }
    // Fails while other runs use it too, and that is fine.
    let _in_use = std::fs::remove_dir(&options.dir);
    let text = format!("{}\n{}\n", report::table(&rows), notes.join("\n"));
    println!("{text}");
    if let Some(out) = &options.out {
        std::fs::write(out, text).expect("the table can be written where it was asked for");
    }
    let broken = failed || rows.iter().any(|row| row.verdict == Verdict::Broken);
    if broken { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn lacks_space(scenario: &Scenario, options: &Options, dir: &Path) -> Option<String> {
    let needs = (scenario.gigabytes * options.scale * 1e9) as u64;
    let free = machine::free_space(dir);
    (needs > free)
        .then(|| format!("needs {} GB of disk, {} are free", needs / 1_000_000_000, free / 1_000_000_000))
}

fn run_one(scenario: &Scenario, options: &Options, dir: &Path, rows: &mut Vec<Row>) -> Option<String> {
    let mut child = scenarios::part(scenario.name, options.scale, options.rounds, dir)
        .stdout(Stdio::piped())
        .spawn()
        .expect("the bench can start itself again");
    let lines = BufReader::new(child.stdout.take().expect("the child's output is piped")).lines();
    for line in lines.map_while(Result::ok) {
        match Row::read(&line) {
            Some(row) => {
                eprintln!("  {}: {} {} {}", row.figure, row.measured, row.bound, row.verdict.word());
                rows.push(row);
            }
            None => eprintln!("  {line}"),
        }
    }
    let status = child.wait().expect("the child is ours");
    (!status.success()).then(|| format!("did not end well ({status})"))
}

fn not_run(scenario: &Scenario, problem: &str) -> Row {
    Row {
        scenario: scenario.name.into(),
        figure: problem.into(),
        measured: String::new(),
        bound: String::new(),
        verdict: Verdict::Broken,
    }
}
