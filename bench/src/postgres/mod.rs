//! `make bench ARGS=postgres`: Kew on PostgreSQL beside a queue made by hand on the same database, and beside Kew on a
//! directory; `make bench ARGS=postgres-open`: how long a new owner takes to open a large store.
//!
//! Each part starts PostgreSQL servers of its own. [`against`] alternates short rounds of the three, [`held`] watches
//! sizes while a transaction is held open, [`nodes`] compares one node with three and one database with two, [`open`]
//! fills a store and kills its owner. Bounds on CPU, sizes and counts decide the exit code; rates and wall times are
//! shown and not judged.

mod against;
mod by_hand;
mod database;
mod held;
mod nodes;
mod open;
mod plan;

use std::process::ExitCode;
use std::time::Instant;

use kew_log_pg::server::PgServer;

use crate::budget::{Fault, server};
use crate::machine;
use crate::report::{self, Row, Verdict};
use crate::words;
use database::Database;
use plan::Plan;

/// Measures what the words say and prints the table.
pub fn run(name: &str, words: &[String]) -> ExitCode {
    words::run(Plan::parse(words), |plan| measure(name, plan))
}

fn measure(name: &str, plan: &Plan) -> Result<bool, Fault> {
    if !plan.kew.exists() {
        let path = plan.kew.display();
        return Err(format!("{path} is not there: cargo build --release --package kew").into());
    }
    if !PgServer::is_installed() {
        return Err("PostgreSQL is not installed: apt-get install postgresql".into());
    }
    let folder = server::Folder::new(&plan.dir, name)?;
    let (begun, load) = (Instant::now(), machine::load());
    let mut rows = Vec::new();
    if name == "postgres-open" {
        rows.extend(open::measure(plan, &folder.0)?);
    } else {
        rows.extend(against::measure(plan, &folder.0)?);
        if plan.wants("held") {
            rows.extend(held::measure(plan, &folder.0)?);
        }
        if plan.wants("nodes") {
            rows.extend(nodes::measure(plan, &folder.0)?);
        }
    }
    let version = Database::start()?.ask("SELECT current_setting('server_version')")?;
    let text = format!(
        "{}, PostgreSQL {version} on {}; bodies of 256 bytes, {} connections, {} rounds of {} s; {:.0} s at a load of \
         {load} before and {} after.\n\n{}",
        machine::description(),
        machine::file_system(&std::env::temp_dir()),
        plan.connections,
        plan.rounds,
        plan.length.as_secs(),
        begun.elapsed().as_secs_f64(),
        machine::load(),
        report::table(&rows)
    );
    println!("{text}");
    if let Some(out) = &plan.out {
        std::fs::write(out, text)?;
    }
    Ok(rows.iter().all(|row| row.verdict != Verdict::Broken))
}

/// A figure without a bound.
fn shown(scenario: &str, figure: &str, measured: String) -> Row {
    row(scenario, figure, measured, String::new(), Verdict::Unjudged)
}

/// A figure of CPU, memory or counts: past its bound the run fails.
fn judged(scenario: &str, figure: &str, measured: String, bound: String, holds: bool) -> Row {
    row(scenario, figure, measured, bound, if holds { Verdict::Holds } else { Verdict::Broken })
}

/// A wall time or rate: past its bound it is shown, and the run does not fail.
fn wall(scenario: &str, figure: &str, measured: String, bound: String, holds: bool) -> Row {
    row(scenario, figure, measured, bound, if holds { Verdict::Holds } else { Verdict::Slow })
}

fn row(scenario: &str, figure: &str, measured: String, bound: String, verdict: Verdict) -> Row {
    eprintln!("  {scenario}, {figure}: {measured} {bound} {}", verdict.word());
    Row { scenario: scenario.to_owned(), figure: figure.to_owned(), measured, bound, verdict }
}

fn megabytes(bytes: u64) -> String {
    format!("{} MB", report::count(bytes / 1_000_000))
}
