//! Rows without load: memory of what lies still, and how soon a server listens.

use std::process::{Command, Stdio};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::page::{Row, Verdict};
use super::server::{Asking, Folder, Server, resident};
use super::{Bench, Fault, count, spread};
use crate::report::median;

/// Queues that are made before the ones measured: until then caches of recent batches and of history fill.
const QUEUES_BEFORE: u32 = 20_000;
/// Queues and connections that are made for their memory.
const QUEUES: u32 = 80_000;
const CONNECTIONS: u32 = 5_000;

/// An empty server, and idle queues in it.
pub fn memory(bench: &Bench) -> Result<Vec<Row>, Fault> {
    let (_folder, server) = bench.server(&[], &[])?;
    let mut asking = Asking::open(&server.address("sqs"))?;
    asking.ask("ListQueues", "{}")?;
    let (empty, anonymous) = (server.resident(), server.anonymous());
    let megabytes = empty as f64 / 1e6;
    let queues = bench.scaled(QUEUES);
    let make = |asking: &mut Asking, from, to| {
        (from..to).try_for_each(|number| {
            asking.ask("CreateQueue", &format!(r#"{{"QueueName":"idle-{number}"}}"#)).map(drop)
        })
    };
    let first = bench.scaled(QUEUES_BEFORE);
    make(&mut asking, 0, first)?;
    let before = server.resident();
    make(&mut asking, first, first + queues)?;
    let each = server.resident().saturating_sub(before) as f64 / f64::from(queues);
    Ok(vec![
        Row::new(
            "memory of an empty server",
            "at most 20 MB",
            format!(
                "{megabytes:.1} MB, of it {:.1} MB its own (the rest is the program's file)",
                anonymous as f64 / 1e6
            ),
            Verdict::all(&[megabytes <= 20.0]),
            "VmRSS of kew serve, one request answered",
        ),
        Row::new(
            "memory of an idle queue",
            "at most 500 B",
            format!(
                "{each:.0} B (all that grew, over {} queues after the first {})",
                count(f64::from(queues)),
                count(f64::from(first))
            ),
            Verdict::all(&[each <= 500.0]),
            "VmRSS before and after that many CreateQueue",
        ),
    ])
}

/// Idle connections, beside those of a bare hyper server.
pub fn connections(bench: &Bench) -> Result<Vec<Row>, Fault> {
    let (_folder, server) = bench.server(&[], &[])?;
    let connections = bench.scaled(CONNECTIONS).min(most_connections());
    let ours = each_connection(&server.address("sqs"), server.pid(), connections)?;
    let program = std::env::current_exe()?;
    let mut null = Command::new(program);
    let mut null = null.args(["--child", "null"]).stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let address = super::null::address_of(&mut null);
    let theirs = address.and_then(|address| each_connection(&address, null.id(), connections));
    let _ended = (null.kill(), null.wait());
    let theirs = theirs?;
    let above = ours - theirs;
    let side = if above < 0.0 { "below" } else { "above" };
    Ok(vec![Row::new(
        "memory of an idle connection",
        "at most 2 KB above hyper's own",
        format!(
            "{:.0} B {side}: {ours:.0} B, {theirs:.0} B in a bare server (over {} connections)",
            above.abs(),
            count(f64::from(connections))
        ),
        Verdict::all(&[above <= 2048.0]),
        "VmRSS before and after that many connections with one request each",
    )])
}

fn each_connection(address: &str, pid: u32, connections: u32) -> Result<f64, Fault> {
    let mut first = Asking::open(address)?;
    first.ask("ListQueues", "{}")?;
    let before = resident(pid);
    let mut open = Vec::new();
    for _ in 0..connections {
        let mut connection = Asking::open(address)?;
        connection.ask("ListQueues", "{}")?;
        open.push(connection);
    }
    Ok(resident(pid).saturating_sub(before) as f64 / f64::from(connections))
}

/// Connections this process may open, as many as it is allowed, with some files to spare.
fn most_connections() -> u32 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let most = if setrlimit(Resource::Nofile, raised).is_ok() { limit.maximum } else { limit.current };
    most.map_or(u32::MAX, |most| u32::try_from(most).unwrap_or(u32::MAX)).saturating_sub(128)
}

/// From the start of the process until it listens, on an empty store.
pub fn start(bench: &Bench) -> Result<Vec<Row>, Fault> {
    let folder = Folder::new(&bench.dir, "start")?;
    let first = Server::start(&bench.loads.kew, &folder.0, &[], &[])?.ready_after;
    let again = || {
        let started = Server::start(&bench.loads.kew, &folder.0, &[], &[])?;
        Ok(started.ready_after.as_secs_f64() * 1e3)
    };
    let rounds: Vec<f64> = (0..bench.loads.rounds).map(|_| again()).collect::<Result<_, Fault>>()?;
    let took = median(rounds.clone());
    let measured =
        format!("{took:.1} ms ({}); {:.1} ms where none is yet", spread(&rounds), first.as_secs_f64() * 1e3);
    Ok(vec![Row::new(
        "start on an empty store",
        "listening within 50 ms",
        measured,
        Verdict::all(&[took <= 50.0]),
        "kew serve --store DIR, until it says Ready.",
    )])
}
