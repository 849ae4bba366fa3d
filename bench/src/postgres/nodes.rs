//! One node, three, and three on a store in two databases, beside a queue made by hand: what a message costs each part.
//!
//! All run on one machine, so that three nodes are not three times as fast, nor two databases twice. What carries over
//! to machines of their own is what each part takes for a message: Kew where the queue is its own, Kew where two of
//! three requests are carried to another node, PostgreSQL, and the bytes that a standby has to be sent.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};
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
/// The shards of a store.
const SHARDS: usize = 16;
/// The shards are spread over the nodes within this time.
const SPREAD_WITHIN: Duration = Duration::from_secs(60);
/// The owner of each shard that a database has.
const OWNERS: &str = "SELECT node FROM kew_shard WHERE node <> ''";

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

/// Nodes on a store of their own, in a database of each of these servers.
struct Fleet<'a> {
    nodes: Vec<Server>,
    servers: &'a [Database],
}

impl<'a> Fleet<'a> {
    fn start(plan: &Plan, servers: &'a [Database], nodes: usize, dir: &Path) -> Result<Self, Fault> {
        let urls: Vec<String> = servers.iter().map(Database::another).collect::<Result<_, _>>()?;
        let mut create = Command::new(&plan.kew);
        create.args(["store", "create", "--shards", &SHARDS.to_string(), "--databases"]).args(&urls);
        let created = create.stdin(Stdio::null()).output()?;
        if !created.status.success() {
            return Err(format!("no store: {}", String::from_utf8_lossy(&created.stderr)).into());
        }
        let first = urls.first().ok_or("a store needs a database")?;
        let mut fleet = Self { nodes: Vec::new(), servers };
        for node in 0..nodes {
            let name = format!("node-{node}");
            let flags = ["--node", &name, "--peer", "127.0.0.1:0"];
            let dir = dir.join(format!("{name}-of-{nodes}-on-{}", servers.len()));
            fleet.nodes.push(Server::start_on(&plan.kew, OsStr::new(first), &dir, &flags, &[])?);
        }
        let begun = Instant::now();
        while !fleet.is_spread(&urls)? {
            if begun.elapsed() > SPREAD_WITHIN {
                return Err(format!("the shards are not spread over {nodes} nodes").into());
            }
            thread::sleep(Duration::from_millis(100));
        }
        Ok(fleet)
    }

    /// Whether all shards have owners, and each node as many as another, or one more.
    fn is_spread(&self, urls: &[String]) -> Result<bool, Fault> {
        let mut shards: BTreeMap<String, usize> = BTreeMap::new();
        for (server, url) in self.servers.iter().zip(urls) {
            for node in server.ask_in(url, OWNERS)?.lines() {
                *shards.entry(node.to_owned()).or_default() += 1;
            }
        }
        let counts: Vec<usize> = shards.into_values().collect();
        let difference = counts.iter().max().zip(counts.iter().min()).map(|(most, fewest)| most - fewest);
        let is_whole = counts.iter().sum::<usize>() == SHARDS && counts.len() == self.nodes.len();
        Ok(is_whole && difference <= Some(1))
    }

    /// CPU of all databases so far.
    fn database_cpu(&self) -> Result<Vec<Duration>, Fault> {
        self.servers.iter().map(Database::cpu).collect()
    }

    /// What all of them took since then.
    fn database_cpu_since(&self, before: &[Duration]) -> Result<Duration, Fault> {
        self.servers.iter().zip(before).map(|(server, before)| server.cpu_since(*before)).sum()
    }

    /// Bytes of all logs so far.
    fn logged(&self) -> Result<u64, Fault> {
        self.servers.iter().map(Database::logged).sum()
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

/// All rounds of the three fleets and the queue made by hand, in turn, each on servers of its own.
pub fn measure(plan: &Plan, dir: &Path) -> Result<Vec<Row>, Fault> {
    let (server_of_one, server_of_three) = ([Database::start()?], [Database::start()?]);
    let two_servers = [Database::start()?, Database::start()?];
    let database = Database::start()?;
    by_hand::make(&database.url)?;
    let loads = &Loads { kew: plan.kew.clone(), rounds: 1, seconds: plan.length.as_secs() };
    let fleets = [
        Fleet::start(plan, &server_of_one, 1, dir)?,
        Fleet::start(plan, &server_of_three, 3, dir)?,
        Fleet::start(plan, &two_servers, 3, dir)?,
    ];
    let mut rows = Vec::new();
    for (name, scenario, batch) in KINDS {
        let (mut figures, mut hand) = (<[Figures; 3]>::default(), Vec::new());
        for round in 0..plan.rounds {
            eprintln!("nodes, {name}, round {} of {} …", round + 1, plan.rounds);
            for (fleet, figures) in fleets.iter().zip(&mut figures) {
                round_of(plan, loads, fleet, scenario, figures)?;
            }
            let by_hand = by_hand::round(&database.url, plan.connections, batch, plan.length)?;
            hand.push(by_hand.messages as f64 / by_hand.elapsed.as_secs_f64());
        }
        rows.extend(rows_of(name, &figures, &hand));
    }
    Ok(rows)
}

fn round_of(
    plan: &Plan,
    loads: &Loads,
    fleet: &Fleet<'_>,
    scenario: &str,
    figures: &mut Figures,
) -> Result<(), Fault> {
    let (database_cpu, kew_cpu, logged) = (fleet.database_cpu()?, fleet.cpu(), fleet.logged()?);
    let connections = (plan.connections / LOADS).max(1).to_string();
    let (messages, rate) = fleet.load(loads, &["--scenario", scenario, "--connections", &connections])?;
    figures.rate.push(rate);
    figures.database_cpu.push(fleet.database_cpu_since(&database_cpu)?.as_secs_f64() * 1e6 / messages);
    figures.kew_cpu.push((fleet.cpu() - kew_cpu).as_secs_f64() * 1e6 / messages);
    figures.logged.push((fleet.logged()? - logged) as f64 / messages);
    Ok(())
}

fn rows_of(kind: &str, [one, three, two_databases]: &[Figures; 3], hand: &[f64]) -> Vec<Row> {
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
        shown(
            name,
            "messages a second, three nodes on two databases over one database",
            format!(
                "{:.2}× ({} and {})",
                over(&two_databases.rate, &three.rate),
                rate(&two_databases.rate),
                rate(&three.rate)
            ),
        ),
        shown(name, "CPU of Kew for a message, two databases", micros(&two_databases.kew_cpu)),
        shown(
            name,
            "CPU of both PostgreSQL servers for a message, two databases",
            micros(&two_databases.database_cpu),
        ),
        shown(
            name,
            "bytes of both PostgreSQL servers' logs for a message, two databases",
            count(median(two_databases.logged.clone()) as u64),
        ),
    ]
}
