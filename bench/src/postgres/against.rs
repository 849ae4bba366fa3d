//! Rounds of Kew on PostgreSQL, of a queue made by hand on the same database, and of Kew on a directory, in turn.

use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use super::database::Database;
use super::plan::Plan;
use super::{by_hand, judged, shown, wall};
use crate::budget::Fault;
use crate::budget::load::Loads;
use crate::budget::server::Server;
use crate::report::{Row, count, median, spread};

/// How many messages go at a time, and what is asked of them.
struct Kind {
    name: &'static str,
    batch: usize,
    scenario: &'static str,
    /// The CPU of the database for a queue made by hand, over that for Kew.
    database_times: f64,
    /// The CPU of the database for a message of Kew, at most.
    database_micros: Option<f64>,
}

const KINDS: [Kind; 2] = [
    Kind { name: "singles", batch: 1, scenario: "cycle", database_times: 10.0, database_micros: Some(12.0) },
    Kind { name: "tens", batch: 10, scenario: "batch", database_times: 20.0, database_micros: None },
];
/// Kew's rate over that of a queue made by hand.
const RATE_TIMES: f64 = 5.0;
/// Kew's CPU on PostgreSQL over that on a directory.
const KEW_TIMES: f64 = 1.5;

/// What the rounds of one contender came to, one figure for each.
#[derive(Default)]
struct Figures {
    rate: Vec<f64>,
    /// Microseconds of a message.
    database_cpu: Vec<f64>,
    kew_cpu: Vec<f64>,
}

struct Contest<'a> {
    plan: &'a Plan,
    database: &'a Database,
    loads: Loads,
    on_postgres: Server,
    in_directory: Server,
}

/// All rounds of the kinds that are wanted.
pub fn measure(plan: &Plan, dir: &Path) -> Result<Vec<Row>, Fault> {
    let kinds: Vec<&Kind> = KINDS.iter().filter(|kind| plan.wants(kind.name)).collect();
    if kinds.is_empty() {
        return Ok(Vec::new());
    }
    let database = &Database::start()?;
    by_hand::make(&database.url)?;
    let seconds = plan.length.as_secs();
    let contest = Contest {
        plan,
        database,
        loads: Loads { kew: plan.kew.clone(), rounds: 1, seconds },
        on_postgres: Server::start_on(&plan.kew, OsStr::new(&database.url), &dir.join("pg"), &[], &[])?,
        in_directory: Server::start(&plan.kew, &dir.join("directory"), &[], &[])?,
    };
    let mut rows = Vec::new();
    for kind in kinds {
        rows.extend(contest.rounds(kind)?);
    }
    let dead = database.dead()?;
    let none = dead.files == 0;
    rows.push(judged("all", "dead rows of journal and checkpoints", count(dead.files), "0".into(), none));
    rows.push(shown("all", "dead rows of Kew's other tables", count(dead.rest)));
    rows.push(shown("all", "dead rows of the queue made by hand", count(dead.by_hand)));
    Ok(rows)
}

impl Contest<'_> {
    fn rounds(&self, kind: &Kind) -> Result<Vec<Row>, Fault> {
        let (mut kew, mut hand, mut directory) = (Figures::default(), Figures::default(), Figures::default());
        for round in 0..self.plan.rounds {
            eprintln!("{}, round {} of {} …", kind.name, round + 1, self.plan.rounds);
            self.kew_round(&self.on_postgres, kind, &mut kew)?;
            self.hand_round(kind, &mut hand)?;
            self.kew_round(&self.in_directory, kind, &mut directory)?;
        }
        Ok(rows(kind, &kew, &hand, &directory))
    }

    fn kew_round(&self, server: &Server, kind: &Kind, figures: &mut Figures) -> Result<(), Fault> {
        let before = self.database.cpu()?;
        let connections = self.plan.connections.to_string();
        let words = ["--scenario", kind.scenario, "--connections", &connections];
        let load = self.loads.once(server, "sqs", &words)?;
        let messages = load.document["rounds"][0]["messages"].as_f64().ok_or("a load without messages")?;
        figures.rate.push(load.rate());
        figures.kew_cpu.push(load.cpu());
        figures.database_cpu.push(micros(self.database.cpu_since(before)?) / messages);
        Ok(())
    }

    fn hand_round(&self, kind: &Kind, figures: &mut Figures) -> Result<(), Fault> {
        let before = self.database.cpu()?;
        let round = by_hand::round(&self.database.url, self.plan.connections, kind.batch, self.plan.length)?;
        let messages = round.messages as f64;
        figures.rate.push(messages / round.elapsed.as_secs_f64());
        figures.database_cpu.push(micros(self.database.cpu_since(before)?) / messages);
        Ok(())
    }
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn rows(kind: &Kind, kew: &Figures, hand: &Figures, directory: &Figures) -> Vec<Row> {
    let name = kind.name;
    let with_spread = |figures: &[f64]| format!("{:.1} µs ({})", median(figures.to_vec()), spread(figures));
    let rate = |figures: &Figures| count(median(figures.rate.clone()) as u64);
    let times = |one: &[f64], other: &[f64]| -> f64 {
        median(one.iter().zip(other).map(|(one, other)| one / other).collect())
    };
    let database = times(&hand.database_cpu, &kew.database_cpu);
    let rates = times(&kew.rate, &hand.rate);
    let own = times(&kew.kew_cpu, &directory.kew_cpu);
    let mut rows = vec![
        wall(
            name,
            "messages a second, over the queue made by hand",
            format!("{rates:.1}× ({} and {})", rate(kew), rate(hand)),
            format!("≥ {RATE_TIMES}×"),
            rates >= RATE_TIMES,
        ),
        judged(
            name,
            "CPU of PostgreSQL for a message, by hand over Kew",
            format!("{database:.1}×"),
            format!("≥ {}×", kind.database_times),
            database >= kind.database_times,
        ),
        shown(name, "CPU of PostgreSQL for a message by hand", with_spread(&hand.database_cpu)),
    ];
    let (figure, cpu) = ("CPU of PostgreSQL for a message of Kew", median(kew.database_cpu.clone()));
    rows.push(match kind.database_micros {
        None => shown(name, figure, with_spread(&kew.database_cpu)),
        Some(most) => {
            judged(name, figure, with_spread(&kew.database_cpu), format!("≤ {most} µs"), cpu <= most)
        }
    });
    rows.extend([
        judged(
            name,
            "CPU of Kew for a message, over Kew on a directory",
            format!("{own:.2}× ({} and {})", with_spread(&kew.kew_cpu), with_spread(&directory.kew_cpu)),
            format!("≤ {KEW_TIMES}×"),
            own <= KEW_TIMES,
        ),
        shown(name, "messages a second of Kew on a directory", rate(directory)),
    ]);
    rows
}
