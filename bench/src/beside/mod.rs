//! `make bench ARGS=neighbour`: what a neighbour on the same server feels of long operations on other queues.
//!
//! Each operation gets a `kew serve` of its own. A neighbour sends, receives and deletes small messages on its own
//! queue without a pause, first alone and then beside the operation, and between its requests a raw file is written and
//! synced on the same disk. The table shows the worst times of both, so that a slow disk is not taken for a slow
//! server. Wall times are shown and never judged by the exit code.

mod http;
mod neighbour;
mod operations;
mod plan;

use std::process::ExitCode;
use std::time::Duration;

use crate::budget::{Fault, server};
use crate::machine;
use crate::words;
use neighbour::{Neighbour, Times};
use operations::{ALL, Operation, Setting};
use plan::Plan;

/// The most a send or receive may take beside an operation beyond the neighbour's quiet worst.
const BEYOND_MAX: Duration = Duration::from_millis(10);
/// The most that 999 of 1 000 receives may take on a disk whose syncs are slow.
const SLOW_RECEIVE_MAX: Duration = Duration::from_millis(5);

/// Measures what the words say and prints the table.
pub fn run(words: &[String]) -> ExitCode {
    words::run(Plan::parse(words), measure)
}

fn measure(plan: &Plan) -> Result<bool, Fault> {
    if !plan.kew.exists() {
        let path = plan.kew.display();
        return Err(format!("{path} is not there: cargo build --release --package kew").into());
    }
    std::fs::create_dir_all(&plan.dir)?;
    let mut lines = heading(plan);
    let mut all_measured = true;
    for operation in ALL.iter().filter(|operation| plan.wants(operation.name)) {
        eprintln!("{} …", operation.name);
        let line = one(plan, operation).unwrap_or_else(|fault| {
            all_measured = false;
            format!("| {} | FAILED: {fault} |", operation.name)
        });
        eprintln!("  {line}");
        lines.push(line);
    }
    lines.push(String::new());
    lines.push(format!("Load at the end {}.", machine::load()));
    let table = lines.join("\n");
    if let Some(out) = &plan.out {
        std::fs::write(out, format!("{table}\n"))?;
    }
    println!("{table}");
    Ok(all_measured)
}

/// One operation on a server of its own.
fn one(plan: &Plan, operation: &Operation) -> Result<String, Fault> {
    let folder = server::Folder::new(&plan.dir, operation.name)?;
    let server = server::Server::start(&plan.kew, &folder.0, &["--clock", "virtual"], operation.variables)?;
    let setting = Setting { sqs: server.address("sqs"), admin: server.address("admin"), plan };
    let prepared = (operation.prepare)(&setting)?;
    let neighbour = Neighbour::open(&setting.sqs, &folder.0)?;
    let quiet = neighbour.run(|| {
        std::thread::sleep(plan.quiet);
        Ok(())
    })?;
    let said_before = server.errors().len();
    let beside = neighbour.run(|| {
        (operation.perform)(&setting, &prepared)?;
        // What the operation left to be done in the background is felt too.
        std::thread::sleep(plan.quiet);
        Ok(())
    })?;
    show_slow(&beside, server.errors().get(said_before..).unwrap_or_default());
    Ok(row(plan, operation, &quiet, &beside))
}

/// Shows what took long beside an operation, in the order of time: requests, and what a server built with
/// `kew-timed/report` wrote meanwhile.
fn show_slow(beside: &Times, said: &str) {
    let reports = said.lines().filter_map(|line| line.strip_prefix("timed "));
    let mut lines: Vec<&str> = beside.slow.iter().map(String::as_str).chain(reports).collect();
    lines.sort_unstable();
    for line in lines {
        eprintln!("    {line}");
    }
}

fn heading(plan: &Plan) -> Vec<String> {
    vec![
        format!("{}; load at the start {}.", machine::description(), machine::load()),
        format!("Stores on {}; {} messages where not said otherwise. Milliseconds; send / receive.",
            machine::file_system(&plan.dir), crate::report::count(plan.size)),
        String::new(),
        "| operation | quiet worst | worst beside it | p99.9 beside it | requests beside it | raw sync worst, quiet / beside | bound | |"
            .to_owned(),
        "|---|---|---|---|---|---|---|---|".to_owned(),
    ]
}

fn row(plan: &Plan, operation: &Operation, quiet: &Times, beside: &Times) -> String {
    let (bound, is_kept) = if operation.is_slow_disk {
        let bound = format!("receive p99.9 at most {}", millis(SLOW_RECEIVE_MAX));
        (bound, beside.receives.share(0.999) <= SLOW_RECEIVE_MAX)
    } else {
        let sends = beside.sends.worst() <= quiet.sends.worst() + BEYOND_MAX;
        let receives = beside.receives.worst() <= quiet.receives.worst() + BEYOND_MAX;
        (format!("quiet worst + {}", millis(BEYOND_MAX)), sends && receives)
    };
    let pair = |one: Duration, other: Duration| format!("{} / {}", millis(one), millis(other));
    format!(
        "| {} | {} | {} | {} | {} | {} | {bound} | {} |",
        operation.title(plan),
        pair(quiet.sends.worst(), quiet.receives.worst()),
        pair(beside.sends.worst(), beside.receives.worst()),
        pair(beside.sends.share(0.999), beside.receives.share(0.999)),
        beside.sends.count() + beside.receives.count(),
        pair(quiet.syncs.worst(), beside.syncs.worst()),
        if is_kept { "kept" } else { "MISSED" },
    )
}

fn millis(time: Duration) -> String {
    format!("{:.1}", time.as_secs_f64() * 1e3)
}
