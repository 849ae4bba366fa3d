//! A measurement from beginning to end: queues made, rounds run, what is left received, queues deleted, figures
//! printed.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Instant;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kew_core::Timestamp;
use tokio::task::LocalSet;

use super::Fault;
use super::azure::Azure;
use super::cloudflare::Cloudflare;
use super::dialect::{Dialect, Queue, check_status};
use super::figures::Figures;
use super::floor::Floor;
use super::plan::{BenchArgs, DialectName, ScenarioName};
use super::process::{Process, Usage};
use super::progress::Progress;
use super::push;
use super::report::{self, Measured};
use super::scenario::{Round, drain, fill, work};
use super::sign::Signer;
use super::sqs::Sqs;
use super::tally::{Faults, Tally};
use crate::machine;

/// A lease that outlasts every round, and one that ends soon enough after a kill.
const LEASE_SECONDS: (u32, u32) = (43_200, 5);
/// Connections that prepare a queue.
const PREPARERS: u32 = 16;

/// Measures what was asked for; false when a message went astray.
pub(super) fn measure(args: &BenchArgs) -> Result<bool, Fault> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, rounds(args))
}

async fn rounds(args: &BenchArgs) -> Result<bool, Fault> {
    // Each connection is an open file here too.
    machine::raise_open_files();
    let progress = Progress::new(!args.json);
    let floor =
        if args.compare || args.scenario == ScenarioName::Null { Some(Floor::start()?) } else { None };
    let process = args.pid.map(Process::Other);
    let mut measured = Measured::default();
    // What is stored beforehand is stored once, for all rounds.
    let deep =
        if args.scenario == ScenarioName::Backlog { Some(Deep::make(args, &progress).await?) } else { None };
    for _ in 0..args.rounds {
        if let Some(floor) = &floor {
            let args = BenchArgs { scenario: ScenarioName::Null, survive: false, ..args.clone() };
            measured.floors.push(against(&args, &floor.address, Some(floor.process), &progress).await?);
        }
        match (args.scenario, &deep) {
            (ScenarioName::Null, _) => {}
            (ScenarioName::Push, _) => measured.targets.push(push::measure(args, process, &progress).await?),
            (_, Some(deep)) => {
                // Only of an undisturbed server is it worth knowing.
                if !args.survive {
                    let args = BenchArgs { scenario: ScenarioName::Cycle, ..args.clone() };
                    measured.shallow.push(against(&args, args.address(), process, &progress).await?);
                }
                measured.targets.push(deep.round(process, &progress).await?);
            }
            (_, None) => measured.targets.push(against(args, args.address(), process, &progress).await?),
        }
    }
    if let (Some(deep), Some(last)) = (deep, measured.targets.last_mut()) {
        last.faults = deep.finish().await?;
    }
    progress.clear();
    report::print(args, &measured);
    let all = measured.targets.iter().chain(&measured.shallow);
    Ok(all.into_iter().all(|figures| figures.is_right(args.survive)))
}

/// A queue with many messages in it, and rounds on it.
struct Deep(Rc<Round>);

impl Deep {
    async fn make(args: &BenchArgs, progress: &Progress) -> Result<Self, Fault> {
        let round = Rc::new(prepare(args, args.address())?);
        make(&round, std::iter::once(&round.queue)).await?;
        let drawn = tokio::task::spawn_local(draw_fill(Rc::clone(&round), progress.clone()));
        each(&round, PREPARERS.min(args.connections), fill).await?;
        drawn.abort();
        Ok(Self(round))
    }

    async fn round(&self, process: Option<Process>, progress: &Progress) -> Result<Figures, Fault> {
        self.0.stored_before.set(self.0.tally.borrow().acknowledged);
        run(&self.0, process, progress).await
    }

    /// What went wrong over all rounds, by what is stored at the end. The queue is gone then, unless it is to be kept.
    async fn finish(self) -> Result<Faults, Fault> {
        let stored = self.0.stored().await?;
        if !self.0.args.keep {
            remove(&self.0, std::iter::once(&self.0.queue)).await?;
        }
        Ok(self.0.tally.borrow().faults_beside(stored))
    }
}

/// One round against one server.
async fn against(
    args: &BenchArgs,
    address: &str,
    process: Option<Process>,
    progress: &Progress,
) -> Result<Figures, Fault> {
    let round = Rc::new(prepare(args, address)?);
    if args.scenario == ScenarioName::Null {
        return run(&round, process, progress).await;
    }
    let idle = idle_queues(&round);
    make(&round, std::iter::once(&round.queue).chain(&idle)).await?;
    let mut figures = run(&round, process, progress).await?;
    figures.faults = match args.scenario {
        ScenarioName::Send => {
            let stored = round.stored().await?;
            round.tally.borrow().faults_beside(stored)
        }
        _ => {
            drain(&round).await?;
            round.tally.borrow().faults()
        }
    };
    remove(&round, std::iter::once(&round.queue).chain(&idle)).await?;
    Ok(figures)
}

fn prepare(args: &BenchArgs, address: &str) -> Result<Round, Fault> {
    let since_1970 = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
    let run = since_1970.subsec_nanos() ^ std::process::id();
    let fifo = args.scenario == ScenarioName::Fifo || args.fifo;
    let name = format!("bench-{run:08x}{}", if fifo { ".fifo" } else { "" });
    let lease_seconds = if args.survive { LEASE_SECONDS.1 } else { LEASE_SECONDS.0 };
    let now = Timestamp(u64::try_from(since_1970.as_millis())?);
    Ok(Round {
        args: args.clone(),
        address: address.to_owned(),
        dialect: dialect(args, address, now)?,
        queue: Queue { name, fifo, lease_seconds },
        until: Cell::new(Instant::now()),
        stored_before: Cell::new(0),
        tally: RefCell::new(Tally::new(run, args.connections)),
        figures: RefCell::default(),
        finished_senders: Cell::new(0),
        on_their_way: RefCell::default(),
    })
}

fn dialect(args: &BenchArgs, address: &str, now: Timestamp) -> Result<Rc<dyn Dialect>, Fault> {
    Ok(match args.dialect {
        DialectName::Sqs => {
            let key = args.access_key.as_deref().zip(args.secret.as_deref());
            let signer = key.map(|(id, secret)| Signer::new(id, secret, &args.region, now));
            let (host, region) = (address.to_owned(), args.region.clone());
            let account = RefCell::new("0".repeat(12));
            Rc::new(Sqs { host, protocol: args.protocol, region, signer, account })
        }
        DialectName::Azure => {
            let account = args.access_key.clone().unwrap_or_else(|| "devstoreaccount1".to_owned());
            let key = args.secret.as_deref().map(|secret| STANDARD.decode(secret)).transpose()?;
            Rc::new(Azure { host: address.to_owned(), account, key, now })
        }
        DialectName::Cloudflare => Rc::new(Cloudflare {
            host: address.to_owned(),
            account: args.access_key.clone().unwrap_or_else(|| "0".repeat(32)),
            token: args.secret.clone(),
            ids: RefCell::default(),
        }),
    })
}

fn idle_queues(round: &Round) -> Vec<Queue> {
    let count = if round.args.scenario == ScenarioName::IdleQueues { round.args.queues } else { 0 };
    let name = |place| format!("{}-idle-{place}", round.queue.name);
    (0..count).map(|place| Queue { name: name(place), ..round.queue.clone() }).collect()
}

async fn make<'q>(round: &Round, queues: impl Iterator<Item = &'q Queue>) -> Result<(), Fault> {
    let mut connection = round.connect().await?;
    for queue in queues {
        let reply = connection.ask(&round.dialect.create(queue)).await?;
        check_status(&reply)?;
        if let Some(completion) = round.dialect.created(queue, &reply)? {
            check_status(&connection.ask(&completion).await?)?;
        }
    }
    Ok(())
}

async fn remove<'q>(round: &Round, queues: impl Iterator<Item = &'q Queue>) -> Result<(), Fault> {
    let mut connection = round.connect().await?;
    for queue in queues {
        check_status(&connection.ask(&round.dialect.remove(queue)).await?)?;
    }
    Ok(())
}

/// Shares the backlog among some connections and waits for them.
async fn each<F>(
    round: &Rc<Round>,
    connections: u32,
    prepare: impl Fn(Rc<Round>, u32, u64) -> F,
) -> Result<(), Fault>
where
    F: Future<Output = Result<(), Fault>> + 'static,
{
    let share = round.args.backlog.div_ceil(u64::from(connections));
    let tasks: Vec<_> = (0..connections)
        .map(|place| tokio::task::spawn_local(prepare(Rc::clone(round), place, share)))
        .collect();
    for task in tasks {
        task.await??;
    }
    Ok(())
}

/// The round itself: all connections at work until its end.
async fn run(round: &Rc<Round>, process: Option<Process>, progress: &Progress) -> Result<Figures, Fault> {
    round.figures.take();
    let before = process.map(Process::usage).transpose()?;
    let begun = Instant::now();
    round.until.set(begun + round.args.length());
    let drawn = tokio::task::spawn_local(draw(Rc::clone(round), begun, progress.clone()));
    let tasks: Vec<_> = (0..round.args.connections)
        .map(|place| tokio::task::spawn_local(work(Rc::clone(round), place)))
        .collect();
    for task in tasks {
        task.await??;
    }
    drawn.abort();
    let mut figures = round.figures.take();
    figures.elapsed = begun.elapsed();
    figures.usage = match (before, process.map(Process::usage)) {
        // A server that was killed and came back is another process.
        (Some(before), Some(Ok(after))) => Some(Usage {
            cpu_seconds: after.cpu_seconds - before.cpu_seconds,
            resident_bytes: after.resident_bytes,
            written_bytes: after.written_bytes - before.written_bytes,
        }),
        (Some(_), Some(Err(fault))) if !round.args.survive => return Err(fault),
        _ => None,
    };
    Ok(figures)
}

async fn draw(round: Rc<Round>, begun: Instant, progress: Progress) {
    let what = format!("{:?}", round.args.scenario).to_lowercase();
    loop {
        let share = begun.elapsed().as_secs_f64() / round.args.length().as_secs_f64().max(f64::EPSILON);
        progress.draw(&what, share, round.figures.borrow().messages);
        tokio::time::sleep(Progress::EVERY).await;
    }
}

async fn draw_fill(round: Rc<Round>, progress: Progress) {
    loop {
        let filled = round.tally.borrow().acknowledged;
        progress.draw("fill", filled as f64 / round.args.backlog.max(1) as f64, filled);
        tokio::time::sleep(Progress::EVERY).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use std::time::Duration;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: BenchArgs,
    }

    #[test]
    fn the_floor_answers_every_request() {
        let line = ["bench", "--scenario", "null", "--connections", "4", "--seconds", "30", "--count", "50"];
        let args = Line::parse_from(line).args;
        let begun = Instant::now();
        assert_eq!(measure(&args).ok(), Some(true));
        assert!(begun.elapsed() < Duration::from_secs(30), "the count ends it");
    }
}
