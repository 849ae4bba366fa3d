//! One node, then three, on one PostgreSQL, beside a queue made by hand: what a message costs each part.
//!
//! All run on one machine, so that three nodes are not three times as fast. What carries over to machines of their own
//! is what each part takes for a message: Kew where the queue is its own, Kew where two of three requests are carried
//! to another node, PostgreSQL, and the bytes that a standby has to be sent.

use std::ffi::OsStr;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use super::database::Database;
use super::plan::Plan;
use super::{by_hand, judged, shown, wall};
use crate::budget::Fault;
use crate::budget::load::Loads;
use crate::budget::server::{self, Server};
use crate::report::{Row, count, median, spread};

/// Loads side by side, each on a queue of its own, spread over the nodes there are.
const LOADS: usize = 3;
/// How many messages go at a time.
const KINDS: [(&str, &str, usize); 2] = [("singles", "cycle", 1), ("tens", "batch", 10)];
/// The rate of three nodes over that of a queue made by hand.
const RATE_TIMES: f64 = 6.0;
/// Kew's CPU for a message where others carry requests to its owner, over that of one node.
const CARRIED_TIMES: f64 = 2.2;
/// The shards are spread over the nodes within this time.
const SPREAD_WITHIN: Duration = Duration::from_secs(60);
/// Nodes, and the difference between the most and the fewest shards of one.
const SPREAD: &str = "
    SELECT count(*) || ' ' || max(shards) - min(shards)
    FROM (SELECT count(*) AS shards FROM kew_shard WHERE node <> '' GROUP BY node) AS of_nodes";

/// What the rounds came to, one figure for each.
#[derive(Default)]
struct Figures {
    rate: Vec<f64>,
    /// Microseconds of a message.
    database_cpu: Vec<f64>,
    kew_cpu: Vec<f64>,
    /// Bytes of the database's write-ahead log for a message.
    logged: Vec<f64>,
}

/// Nodes on a store of their own.
struct Fleet {
    nodes: Vec<Server>,
}

impl Fleet {
    fn start(plan: &Plan, database: &Database, nodes: usize, dir: &Path) -> Result<Self, Fault> {
        let url = database.another()?;
        let mut fleet = Self { nodes: Vec::new() };
        for node in 0..nodes {
            let name = format!("node-{node}");
            let flags = ["--node", &name, "--peer", "127.0.0.1:0"];
            let dir = dir.join(format!("{name}-of-{nodes}"));
            fleet.nodes.push(Server::start_on(&plan.kew, OsStr::new(&url), &dir, &flags, &[])?);
        }
        let (begun, wanted) = (Instant::now(), [format!("{nodes} 0"), format!("{nodes} 1")]);
        while !wanted.contains(&database.ask_in(&url, SPREAD)?) {
            if begun.elapsed() > SPREAD_WITHIN {
                return Err(format!("the shards are not spread over {nodes} nodes").into());
            }
            thread::sleep(Duration::from_millis(100));
        }
        Ok(fleet)
    }

    fn cpu(&self) -> Duration {
        self.nodes.iter().map(|node| server::cpu(node.pid())).sum()
    }

    /// All loads at once; their messages, and messages a second.
    fn load(&self, loads: &Loads, words: &[&str]) -> Result<(f64, f64), Fault> {
        let all: Vec<Result<(f64, f64), String>> = thread::scope(|scope| {
            let nodes = self.nodes.iter().cycle().take(LOADS);
            let running: Vec<_> = nodes
                .map(|node| {
                    scope.spawn(move || {
                        let load = loads.once(node, "sqs", words).map_err(|fault| fault.to_string())?;
                        let messages = load.document["rounds"][0]["messages"].as_f64();
                        Ok((messages.ok_or("a load without messages")?, load.rate()))
                    })
                })
                .collect();
            running
                .into_iter()
                .map(|load| load.join().unwrap_or_else(|_| Err("a load panicked".to_owned())))
                .collect()
        });
        let mut sum = (0.0, 0.0);
        for load in all {
            let (messages, rate) = load?;
            sum = (sum.0 + messages, sum.1 + rate);
        }
        Ok(sum)
    }
}

/// All rounds of one node, three nodes and the queue made by hand, in turn.
pub fn measure(plan: &Plan, dir: &Path) -> Result<Vec<Row>, Fault> {
    let database = &Database::start()?;
    by_hand::make(&database.url)?;
    let loads = &Loads { kew: plan.kew.clone(), rounds: 1, seconds: plan.length.as_secs() };
    let fleets = [Fleet::start(plan, database, 1, dir)?, Fleet::start(plan, database, 3, dir)?];
    let mut rows = Vec::new();
    for (name, scenario, batch) in KINDS {
        let (mut one, mut three, mut hand) = (Figures::default(), Figures::default(), Vec::new());
        for round in 0..plan.rounds {
            eprintln!("nodes, {name}, round {} of {} …", round + 1, plan.rounds);
            for (fleet, figures) in fleets.iter().zip([&mut one, &mut three]) {
                round_of(plan, database, loads, fleet, scenario, figures)?;
            }
            let by_hand = by_hand::round(&database.url, plan.connections, batch, plan.length)?;
            hand.push(by_hand.messages as f64 / by_hand.elapsed.as_secs_f64());
        }
        rows.extend(rows_of(name, &one, &three, &hand));
    }
    Ok(rows)
}

fn round_of(
    plan: &Plan,
    database: &Database,
    loads: &Loads,
    fleet: &Fleet,
    scenario: &str,
    figures: &mut Figures,
) -> Result<(), Fault> {
    let (database_cpu, kew_cpu, logged) = (database.cpu()?, fleet.cpu(), database.logged()?);
    let connections = (plan.connections / LOADS).max(1).to_string();
    let (messages, rate) = fleet.load(loads, &["--scenario", scenario, "--connections", &connections])?;
    figures.rate.push(rate);
    figures.database_cpu.push(database.cpu_since(database_cpu)?.as_secs_f64() * 1e6 / messages);
    figures.kew_cpu.push((fleet.cpu() - kew_cpu).as_secs_f64() * 1e6 / messages);
    figures.logged.push((database.logged()? - logged) as f64 / messages);
    Ok(())
}

fn rows_of(kind: &str, one: &Figures, three: &Figures, hand: &[f64]) -> Vec<Row> {
    let name = &format!("nodes, {kind}");
    let micros = |figures: &[f64]| format!("{:.1} µs ({})", median(figures.to_vec()), spread(figures));
    let rate = |rates: &[f64]| count(median(rates.to_vec()) as u64);
    let over = |these: &[f64], those: &[f64]| median(these.iter().zip(those).map(|(a, b)| a / b).collect());
    let (by_hand, carried) = (over(&three.rate, hand), over(&three.kew_cpu, &one.kew_cpu));
    vec![
        wall(
            name,
            "messages a second, three nodes over the queue made by hand",
            format!("{by_hand:.1}× ({} and {})", rate(&three.rate), rate(hand)),
            format!("≥ {RATE_TIMES}×"),
            by_hand >= RATE_TIMES,
        ),
        shown(name, "messages a second, one node", rate(&one.rate)),
        judged(
            name,
            "CPU of Kew for a message, three nodes over one",
            format!("{carried:.2}× ({} and {})", micros(&three.kew_cpu), micros(&one.kew_cpu)),
            format!("≤ {CARRIED_TIMES}×"),
            carried <= CARRIED_TIMES,
        ),
        shown(name, "CPU of PostgreSQL for a message, one node", micros(&one.database_cpu)),
        shown(name, "CPU of PostgreSQL for a message, three nodes", micros(&three.database_cpu)),
        shown(
            name,
            "bytes of PostgreSQL's log for a message, three nodes",
            count(median(three.logged.clone()) as u64),
        ),
    ]
}
