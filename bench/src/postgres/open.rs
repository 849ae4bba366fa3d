//! How long a new owner takes to open a large store after the old one was killed.

use std::ffi::OsStr;
use std::path::Path;
use std::time::{Duration, Instant};

use super::database::Database;
use super::plan::Plan;
use super::{megabytes, shown, wall};
use crate::budget::Fault;
use crate::budget::load::Loads;
use crate::budget::server::{Asking, Server, cpu, resident};
use crate::report::{Row, count};

/// How long opening may take.
const SECONDS: f64 = 5.0;
/// After this an owner that was killed owns nothing any more.
const TENURE_OVER: Duration = Duration::from_secs(3);
/// A node that was started stands by after this.
const STANDS_BY: Duration = Duration::from_secs(1);

/// A kind of queue to fill.
const KINDS: [(&str, &[&str]); 2] = [("standard", &[]), ("FIFO", &["--fifo", "--groups", "100000"])];

/// All messages are sent within one deduplication window.
const VARIABLES: &[(&str, &str)] = &[("KEW_LIMITS_DEDUP_IDS", "20000000")];

/// Fills a store of each kind, on a PostgreSQL of its own, and has new owners open it.
pub fn measure(plan: &Plan, dir: &Path) -> Result<Vec<Row>, Fault> {
    let mut rows = Vec::new();
    for (name, words) in KINDS {
        rows.extend(one(plan, &Database::start()?, &dir.join(name), name, words)?);
    }
    Ok(rows)
}

fn one(plan: &Plan, database: &Database, dir: &Path, name: &str, words: &[&str]) -> Result<Vec<Row>, Fault> {
    eprintln!("{name}, {} messages …", count(plan.size));
    let start = |dir: &str, folder: &Path| {
        Server::start_on(&plan.kew, OsStr::new(&database.url), &folder.join(dir), &[], VARIABLES)
    };
    let loads = Loads { kew: plan.kew.clone(), rounds: 1, seconds: 1 };
    let (size, connections) = (plan.size.to_string(), plan.connections.to_string());
    let fill = ["--scenario", "backlog", "--backlog", &size, "--keep", "--connections", &connections];
    let owner = start("owner", dir)?;
    let begun = Instant::now();
    loads.once(&owner, "sqs", &[&fill, words].concat())?;
    let filled = begun.elapsed();
    owner.kill();
    std::thread::sleep(TENURE_OVER);
    let before = database.cpu()?;
    let next = start("next", dir)?;
    let of_database = database.cpu_since(before)?;
    let (opened, of_kew, memory) = (next.ready_after.as_secs_f64(), cpu(next.pid()), resident(next.pid()));
    check(&next, plan.size)?;
    let taken = std::thread::scope(|scope| {
        let stands_by = scope.spawn(|| start("standby", dir));
        std::thread::sleep(STANDS_BY);
        let killed = Instant::now();
        next.kill();
        let standby = stands_by.join().map_err(|_| "the node that stood by panicked")??;
        let took = killed.elapsed();
        check(&standby, plan.size)?;
        Ok::<_, Fault>(took)
    })?;
    let figure = format!("a new owner opens {} messages after a kill", count(plan.size));
    let seconds = |time: Duration| format!("{:.2} s", time.as_secs_f64());
    Ok(vec![
        wall(name, &figure, format!("{opened:.2} s"), format!("≤ {SECONDS} s"), opened <= SECONDS),
        shown(
            name,
            "CPU of it, Kew and PostgreSQL",
            format!("{} and {}", seconds(of_kew), seconds(of_database)),
        ),
        shown(name, "memory of it", megabytes(memory)),
        shown(name, "from a kill until a node that stood by serves", seconds(taken)),
        shown(
            name,
            "filled in",
            format!("{}, {} of tables", seconds(filled), megabytes(database.size("^kew_")?)),
        ),
    ])
}

/// All messages are there.
fn check(server: &Server, size: u64) -> Result<(), Fault> {
    let mut asking = Asking::open(&server.address("sqs"))?;
    let listed: serde_json::Value = serde_json::from_str(&asking.ask("ListQueues", "{}")?)?;
    let url = listed["QueueUrls"][0].as_str().ok_or("the queue is gone")?;
    let request = format!(r#"{{"QueueUrl":"{url}","AttributeNames":["ApproximateNumberOfMessages"]}}"#);
    let found: serde_json::Value = serde_json::from_str(&asking.ask("GetQueueAttributes", &request)?)?;
    let found = found["Attributes"]["ApproximateNumberOfMessages"].as_str().unwrap_or_default().to_owned();
    // Some connections fill a message more than their share.
    if found.parse::<u64>().is_ok_and(|found| found >= size) {
        return Ok(());
    }
    Err(format!("{found} of {size} messages are there").into())
}
