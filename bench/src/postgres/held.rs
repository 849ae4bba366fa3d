//! Sizes and dead rows while one transaction is held open for the whole run: nothing that it might see can be vacuumed.

use std::ffi::OsStr;
use std::path::Path;
use std::time::{Duration, Instant};

use tokio_postgres::NoTls;

use super::database::Database;
use super::plan::Plan;
use super::{by_hand, judged, megabytes, shown};
use crate::budget::Fault;
use crate::budget::load::Loads;
use crate::budget::server::Server;
use crate::report::{Row, count};

/// Messages that lie in the store all the time, for each second of a round.
const BACKLOG: u64 = 60_000;
/// The run takes this number of rounds' time.
const ROUNDS: u32 = 12;
/// What the store may hold beyond twice what is alive: 256 MiB that are not yet worth a copy, 48 MiB between
/// checkpoints, and the segment of 64 MiB that is being written.
const WINDOW: u64 = 368 << 20;
const SAMPLE: Duration = Duration::from_millis(500);
const TABLES: &str = "^kew_";

/// Loads Kew, then the queue made by hand, each beside a transaction held open.
pub fn measure(plan: &Plan, dir: &Path) -> Result<Vec<Row>, Fault> {
    let database = Database::start()?;
    by_hand::make(&database.url)?;
    let server = Server::start_on(&plan.kew, OsStr::new(&database.url), &dir.join("held"), &[], &[])?;
    let loads = |seconds| Loads { kew: plan.kew.clone(), rounds: 1, seconds };
    let backlog = (BACKLOG * plan.length.as_secs()).to_string();
    eprintln!("held, {backlog} messages …");
    loads(1).once(&server, "sqs", &["--scenario", "backlog", "--backlog", &backlog, "--keep"])?;
    let live = database.size(TABLES)?;
    let held = Held::begin(&database.url)?;
    let length = plan.length * ROUNDS;
    let connections = plan.connections.to_string();
    let words = ["--scenario", "batch", "--connections", &connections];
    let (load, most) = beside(&database, TABLES, || loads(length.as_secs()).once(&server, "sqs", &words))?;
    let dead = database.dead()?;
    let hand = by_hand::round(&database.url, plan.connections, 1, plan.length * 2)?;
    let by_hand = (database.size("^by_hand$")?, database.dead()?.by_hand);
    held.end()?;
    let most_allowed = 2 * live + WINDOW;
    let messages = load.document["rounds"][0]["messages"].as_u64().unwrap_or_default();
    let figure = format!("most bytes, {} alive, {} messages through it", megabytes(live), count(messages));
    Ok(vec![
        judged(
            "held",
            &figure,
            megabytes(most),
            format!("≤ {}", megabytes(most_allowed)),
            most <= most_allowed,
        ),
        shown("held", "bytes at the end", megabytes(database.size(TABLES)?)),
        judged(
            "held",
            "dead rows of journal and checkpoints",
            count(dead.files),
            "0".into(),
            dead.files == 0,
        ),
        shown("held", "dead rows of Kew's other tables", count(dead.rest)),
        shown(
            "held",
            &format!("the queue made by hand, {} messages through it", count(hand.messages)),
            format!("{}, {} dead rows", megabytes(by_hand.0), count(by_hand.1)),
        ),
    ])
}

/// Does something and answers the largest size meanwhile.
fn beside<T: Send>(
    database: &Database,
    tables: &str,
    work: impl FnOnce() -> Result<T, Fault> + Send,
) -> Result<(T, u64), Fault> {
    std::thread::scope(|scope| {
        let works = scope.spawn(work);
        let mut most = 0;
        while !works.is_finished() {
            let begun = Instant::now();
            // A table that is dropped meanwhile makes the question fail; the next one is soon.
            most = database.size(tables).unwrap_or(0).max(most);
            std::thread::sleep(SAMPLE.saturating_sub(begun.elapsed()));
        }
        let done = works.join().map_err(|_| "the load panicked")??;
        Ok((done, most))
    })
}

/// A transaction with a snapshot, on a thread of its own.
struct Held {
    end: tokio::sync::oneshot::Sender<()>,
    thread: std::thread::JoinHandle<Result<(), Fault>>,
}

impl Held {
    fn begin(url: &str) -> Result<Self, Fault> {
        let (end, ended) = tokio::sync::oneshot::channel();
        let (say, begun) = std::sync::mpsc::channel();
        let url = url.to_owned();
        let thread = std::thread::spawn(move || -> Result<(), Fault> {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                let (client, connection) = tokio_postgres::connect(&url, NoTls).await?;
                // Its failure shows in the statement that is under way.
                tokio::spawn(async move { drop(connection.await) });
                client
                    .batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM kew_file")
                    .await?;
                say.send(())?;
                ended.await?;
                Ok(client.batch_execute("COMMIT").await?)
            })
        });
        match begun.recv() {
            Ok(()) => Ok(Self { end, thread }),
            Err(_) => match thread.join().map_err(|_| "the transaction panicked")? {
                Err(fault) => Err(fault),
                Ok(()) => Err("the transaction ended early".into()),
            },
        }
    }

    /// Commits; fails when the transaction was cut before.
    fn end(self) -> Result<(), Fault> {
        self.end.send(()).map_err(|()| "the transaction ended early")?;
        self.thread.join().map_err(|_| "the transaction panicked")?
    }
}
