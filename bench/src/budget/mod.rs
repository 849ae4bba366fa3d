//! `make bench`: the budget table measured on the reader's machine, one Markdown page.
//!
//! [`rows`] are loads by `kew bench`, [`still`] is what lies still, [`others`] are servers to compare with, [`curves`]
//! what a message costs against the size of things. A row that fails is shown as failed, and the next one runs; the
//! page is written after each. Missed budgets do not fail the run, since machines differ; what could not be measured
//! does.

mod curves;
pub mod load;
mod null;
mod others;
mod page;
mod plan;
mod plot;
mod rows;
pub mod server;
mod still;

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use crate::machine;
use crate::words;
use load::Loads;
use page::{Page, Row, Verdict};
use plan::Plan;

pub use null::serve as serve_null;

/// What goes wrong in a measurement.
pub type Fault = Box<dyn std::error::Error + Send + Sync>;

/// What rows are measured with.
pub struct Bench {
    loads: Loads,
    dir: PathBuf,
    backlog: u64,
    /// Whether counts are small, to see that all of it works.
    quick: bool,
    number: Cell<u32>,
}

impl Bench {
    fn next_number(&self) -> u32 {
        self.number.set(self.number.get() + 1);
        self.number.get()
    }

    /// Whether curves go as far as this.
    fn reaches(&self, size: u64) -> bool {
        !self.quick || size <= 1_000
    }

    /// A count, smaller in a quick run.
    fn scaled(&self, full: u32) -> u32 {
        if self.quick { full / 100 } else { full }
    }
}

type Measure = fn(&Bench) -> Result<Vec<Row>, Fault>;

/// The parts of the table, by name.
const PARTS: [(&str, Measure); 16] = [
    ("ceiling", rows::ceiling),
    ("cycle-16", |bench| rows::cycle(bench, "16", 2.0, 16_000.0)),
    ("cycle-64", |bench| rows::cycle(bench, "64", 1.8, 28_000.0)),
    ("strict", rows::strict),
    ("batch-16", |bench| rows::batch(bench, "16", 5.5, 110_000.0)),
    ("batch-64", |bench| rows::batch(bench, "64", 4.5, 150_000.0)),
    ("slow-disk", rows::slow_disk),
    ("fifo", rows::fifo),
    ("azure", rows::azure),
    ("cloudflare", rows::cloudflare),
    ("backlog", rows::backlog),
    ("longpoll", rows::long_poll),
    ("send", rows::send_latency),
    ("memory", still::memory),
    ("connections", still::connections),
    ("start", still::start),
];

/// Measures what the words say and writes the page.
pub fn run(words: &[String]) -> ExitCode {
    words::run(Plan::parse(words), measure)
}

fn measure(plan: &Plan) -> Result<bool, Fault> {
    if !plan.kew.exists() {
        return Err(
            format!("{} is not there: cargo build --release --package kew", plan.kew.display()).into()
        );
    }
    std::fs::create_dir_all(&plan.dir)?;
    let bench = Bench {
        loads: Loads { kew: plan.kew.clone(), rounds: plan.rounds, seconds: plan.seconds },
        dir: plan.dir.clone(),
        backlog: plan.backlog,
        quick: plan.quick,
        number: Cell::new(0),
    };
    let mut page = Page { machine: about(plan), ..Page::default() };
    let begun = Instant::now();
    for (name, part) in PARTS.iter().filter(|(name, _)| plan.wants(name)) {
        measure_part(&bench, name, *part, &mut page);
        write(&plan.out, &page)?;
    }
    if plan.wants("others") {
        let (rows, missing) = others::rows(&bench, plan.install);
        missing.iter().for_each(|line| eprintln!("{line}"));
        page.others = rows;
        page.notes.extend(missing);
        write(&plan.out, &page)?;
    }
    if plan.curves && plan.wants("curves") {
        let folder = plan.out.parent().map(Path::to_path_buf).unwrap_or_default();
        curves::draw(&bench, plan.full, &folder, |curve| {
            page.curves.push(curve);
            write(&plan.out, &page)
        })?;
    }
    page.notes.push(format!("All of it took {:.0} minutes.", begun.elapsed().as_secs_f64() / 60.0));
    write(&plan.out, &page)?;
    // Fails while other runs use it too, and that is fine.
    let _in_use = std::fs::remove_dir(&plan.dir);
    println!("{}\nwritten to {}", page.text(), plan.out.display());
    let rows = page.rows.iter().all(|row| row.verdict != Verdict::Failed);
    Ok(rows && page.curves.iter().all(|curve| !curve.failed))
}

/// Measures one part; its rows and a note of the time that it took go on the page.
fn measure_part(bench: &Bench, name: &str, part: Measure, page: &mut Page) {
    let (load, since) = (machine::load(), Instant::now());
    eprintln!("{name} …");
    let found = part(bench).unwrap_or_else(|fault| vec![Row::failed(name, &fault.to_string())]);
    for row in &found {
        eprintln!("  {}: {} {:?}", row.scenario, row.measured, row.verdict);
    }
    page.rows.extend(found);
    page.notes.push(format!(
        "{name} took {:.0} s, at a load of {load} before and {} after.",
        since.elapsed().as_secs_f64(),
        machine::load()
    ));
}

fn about(plan: &Plan) -> Vec<String> {
    let version = load::bounded(std::process::Command::new(&plan.kew).arg("--version"));
    let mut lines = vec![
        machine::description(),
        format!(
            "{}, durable store on {}",
            version.unwrap_or_default().trim(),
            machine::file_system(&plan.dir)
        ),
        format!(
            "bodies of 256 bytes, medians of {} rounds of {} s that alternate with what they are compared with",
            plan.rounds, plan.seconds
        ),
        format!("load at the start {}", machine::load()),
    ];
    if plan.quick {
        lines.push("a QUICK run, to see that everything works: its figures say nothing".to_owned());
    }
    lines
}

fn write(out: &Path, page: &Page) -> Result<(), Fault> {
    if let Some(folder) = out.parent() {
        std::fs::create_dir_all(folder)?;
    }
    Ok(std::fs::write(out, page.text())?)
}

/// A figure with its digits in threes.
fn count(figure: f64) -> String {
    crate::report::count(figure.round() as u64)
}

/// Smallest to largest, also below zero.
fn spread(figures: &[f64]) -> String {
    let least = figures.iter().copied().fold(f64::INFINITY, f64::min);
    let most = figures.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    format!("{least:.2} to {most:.2}")
}
