//! The rows of the table that are loads: each a server of its own, `kew bench` on it, and the budget beside.

use super::Fault;
use super::load::{Loaded, Loads};
use super::page::{Row, Verdict};
use super::server::{AZURE_KEY, CONFIG, Folder, SQS_KEY, Server};
use super::{Bench, count, spread};
use crate::raw::Raw;
use crate::report::median;

/// CPU of a null request that budgets in microseconds are made for.
const NULL_OF_THE_BUDGET: f64 = 5.0;
/// Appends of the raw ceiling in one round, and bytes of each: what one send writes.
const RAW_APPENDS: usize = 300;
const RAW_BYTES: usize = 400;
/// Events a server keeps for the history, of 56 bytes each.
const HISTORY_EVENTS: u64 = 1 << 20;

/// SQS cycles at a number of connections.
pub fn cycle(bench: &Bench, connections: &str, ratio_max: f64, rate_min: f64) -> Result<Vec<Row>, Fault> {
    let (_folder, server) = bench.server(&[], &[])?;
    let load = bench.loads.run(&server, "sqs", &["--compare", "--connections", connections])?;
    let (ratio, rate) = (load.ratio("ratio"), load.rate());
    let measured = format!(
        "{:.1} us, {} msg/s, p50/p99 send {:.0}/{:.0} us, {:.0} B written a message",
        load.cpu(),
        count(rate),
        load.latency("send", "p50_us"),
        load.latency("send", "p99_us"),
        load.written(),
    );
    let budget = format!("CPU at most {ratio_max:.1} x null; at least {} msg/s", count(rate_min));
    let verdict = Verdict::all(&[ratio <= ratio_max, rate >= rate_min]);
    let scenario = format!("SQS cycle, {connections} connections, open");
    let scaled = format!("{} msg/s", count(rate_min * NULL_OF_THE_BUDGET / load.null()));
    let null = format!("{:.1} us, {} requests/s", load.null(), count(load.null_rate()));
    let null = Row::new(
        &format!("null, {connections} connections"),
        "",
        null,
        Verdict::Unjudged,
        &format!("kew bench --scenario null --connections {connections}"),
    );
    let row = Row::new(&scenario, &budget, measured, verdict, &load.command);
    Ok(vec![null, row.with_ratio(ratio).with_scaled(scaled)])
}

/// Batches of ten.
pub fn batch(bench: &Bench, connections: &str, cpu_max: f64, rate_min: f64) -> Result<Vec<Row>, Fault> {
    let (_folder, server) = bench.server(&[], &[])?;
    let words = ["--scenario", "batch", "--compare", "--connections", connections];
    let load = bench.loads.run(&server, "sqs", &words)?;
    let (cpu, rate) = (load.cpu(), load.rate());
    let budget = format!("at most {cpu_max} us a message; at least {} msg/s", count(rate_min));
    let verdict = Verdict::all(&[cpu <= cpu_max, rate >= rate_min]);
    let scale = load.null() / NULL_OF_THE_BUDGET;
    let scaled = format!("{:.1} us, {} msg/s", cpu_max * scale, count(rate_min / scale));
    let measured = format!("{cpu:.2} us, {} msg/s", count(rate));
    let row = Row::new(
        &format!("SQS batches of 10, {connections} connections"),
        &budget,
        measured,
        verdict,
        &load.command,
    );
    Ok(vec![row.with_ratio(load.ratio("ratio")).with_scaled(scaled)])
}

/// What checking signatures adds: an open and a strict server in turn.
pub fn strict(bench: &Bench) -> Result<Vec<Row>, Fault> {
    let (_open_folder, open) = bench.server(&[], &[])?;
    let (_folder, strict) = bench.strict_server()?;
    let words = ["--connections", "16"];
    let signed: Vec<&str> = words.iter().chain(&SQS_KEY).copied().collect();
    let pairs = bench
        .alternate(|| bench.loads.once(&open, "sqs", &words), || bench.loads.once(&strict, "sqs", &signed))?;
    let (ratio, measured) = compared(&pairs);
    Ok(vec![Row::new(
        "SQS cycle, 16 connections, strict (SigV4 checked)",
        "at most 1.25 x open mode",
        format!("{ratio:.2} x open mode: {measured}"),
        Verdict::all(&[ratio <= 1.25]),
        &format!("{} against kew serve --config strict.toml", pairs[0].1.command),
    )])
}

/// FIFO of a hundred groups against plain queues.
pub fn fifo(bench: &Bench) -> Result<Vec<Row>, Fault> {
    let (_folder, server) = bench.server(&[], &[])?;
    let fifo = ["--scenario", "fifo", "--groups", "100", "--connections", "16"];
    let pairs = bench.alternate(
        || bench.loads.once(&server, "sqs", &["--connections", "16"]),
        || bench.loads.once(&server, "sqs", &fifo),
    )?;
    let (ratio, measured) = compared(&pairs);
    Ok(vec![Row::new(
        "SQS FIFO, 100 groups",
        "at most 1.2 x the plain cycle; no disorder, duplicate or loss",
        format!("{ratio:.2} x plain: {measured}; nothing lost, doubled or disordered"),
        Verdict::all(&[ratio <= 1.2]),
        &pairs[0].1.command,
    )])
}

/// The ratio of CPU of pairs, and both in words. A load that found a message astray has failed before.
fn compared(pairs: &[(Loaded, Loaded)]) -> (f64, String) {
    let ratios: Vec<f64> = pairs.iter().map(|(first, second)| second.cpu() / first.cpu()).collect();
    let all = |figure: &dyn Fn(&(Loaded, Loaded)) -> f64| median(pairs.iter().map(figure).collect());
    let words = format!(
        "{:.1} and {:.1} us, {} and {} msg/s, ratios {}",
        all(&|pair| pair.1.cpu()),
        all(&|pair| pair.0.cpu()),
        count(all(&|pair| pair.1.rate())),
        count(all(&|pair| pair.0.rate())),
        spread(&ratios),
    );
    (median(ratios), words)
}

/// A slow disk: three milliseconds more for each sync.
pub fn slow_disk(bench: &Bench) -> Result<Vec<Row>, Fault> {
    let (_folder, server) = bench.server(&[], &[("KEW_SLOW_SYNC_MS", "3")])?;
    let load = bench.loads.run(&server, "sqs", &["--connections", "16"])?;
    let receive = load.latency("receive", "p50_us");
    let measured = format!(
        "receive {:.2} ms (p99 {:.2} ms), send {:.2} ms, {} msg/s",
        receive / 1e3,
        load.latency("receive", "p99_us") / 1e3,
        load.latency("send", "p50_us") / 1e3,
        count(load.rate())
    );
    let command = format!("{} against {}", load.command, server.command);
    let verdict = Verdict::all(&[receive <= 500.0]);
    Ok(vec![Row::new(
        "slow disk, 3 ms added to each sync",
        "receive median at most 0.5 ms",
        measured,
        verdict,
        &command,
    )])
}

/// Azure with its signature checked.
pub fn azure(bench: &Bench) -> Result<Vec<Row>, Fault> {
    let (_folder, server) = bench.strict_server()?;
    let words: Vec<&str> = ["--compare", "--connections", "16"].iter().chain(&AZURE_KEY).copied().collect();
    let load = bench.loads.run(&server, "azure", &words)?;
    Ok(vec![dialect_row("Azure put-get-delete, SharedKey checked, 16 connections", 3.0, &load)])
}

/// Cloudflare.
pub fn cloudflare(bench: &Bench) -> Result<Vec<Row>, Fault> {
    let (_folder, server) = bench.server(&[], &[])?;
    let load = bench.loads.run(&server, "cloudflare", &["--compare", "--connections", "16"])?;
    Ok(vec![dialect_row("Cloudflare push-pull-ack, 16 connections", 2.7, &load)])
}

fn dialect_row(scenario: &str, ratio_max: f64, load: &Loaded) -> Row {
    let ratio = load.ratio("ratio");
    let measured = format!("{:.1} us, {} msg/s", load.cpu(), count(load.rate()));
    let budget = format!("at most {ratio_max:.1} x null");
    Row::new(scenario, &budget, measured, Verdict::all(&[ratio <= ratio_max]), &load.command)
        .with_ratio(ratio)
}

/// A deep queue against an empty one, what it takes in memory, and how soon a killed server is back with it.
///
/// Before it a tenth as many go to another queue, and at least as many as the history has room for: by then what has a
/// fixed size (history, recent batches, the allocator's stock) has it, and what grows afterwards is the messages'.
pub fn backlog(bench: &Bench) -> Result<Vec<Row>, Fault> {
    let folder = Folder::new(&bench.dir, "backlog")?;
    let server = Server::start(&bench.loads.kew, &folder.0, &[], &[])?;
    let deep = |loads: &Loads, messages: u64| {
        let depth = messages.to_string();
        let words = ["--scenario", "backlog", "--backlog", &depth, "--keep", "--connections", "16"];
        loads.run(&server, "sqs", &words)
    };
    let first = bench.backlog.div_ceil(10).max(bench.backlog.min(HISTORY_EVENTS));
    let before = deep(&Loads { rounds: 1, ..bench.loads.clone() }, first)?.resident();
    let load = deep(&bench.loads, bench.backlog)?;
    let (messages, first) = (count(bench.backlog as f64), count(first as f64));
    let (ratio, resident) = (load.ratio("ratio_to_shallow"), load.resident());
    let each = (resident - before) / bench.backlog as f64;
    let row = |scenario: &str, budget: &str, measured: String, met: bool| {
        Row::new(scenario, budget, measured, Verdict::all(&[met]), &load.command)
    };
    let mut rows = vec![
        row(
            &format!("backlog of {messages}"),
            "CPU per cycle at most 1.15 x the shallow queue",
            format!("{ratio:.2} x: {:.1} us, {} msg/s", load.cpu(), count(load.rate())),
            ratio <= 1.15,
        ),
        row(
            &format!("backlog of {messages}, memory"),
            "under 600 MB resident",
            format!("{:.0} MB, with {first} in another queue", resident / 1e6),
            resident < 600e6,
        ),
        row(
            "memory of a cold message",
            "at most 16 B",
            format!("{each:.1} B (all that grew, over {messages} messages after the first {first})"),
            each <= 16.0,
        ),
    ];
    server.kill();
    let again = Server::start(&bench.loads.kew, &folder.0, &[], &[])?;
    let took = again.ready_after.as_secs_f64();
    rows.push(Row::new(
        &format!("start with {messages} messages after a kill"),
        "listening within 3 s",
        format!("{took:.2} s, {:.0} MB resident", again.resident() as f64 / 1e6),
        Verdict::all(&[took <= 3.0]),
        "kill -9 PID; kew serve --store DIR",
    ));
    Ok(rows)
}

/// One sender, one who waits: from the send to the answer of the receive, beside the raw sync.
pub fn long_poll(bench: &Bench) -> Result<Vec<Row>, Fault> {
    let words = ["--scenario", "longpoll", "--connections", "2"];
    let (beyond, load) = beyond_the_sync(bench, &words, "delivery")?;
    let measured = format!(
        "{} (p99 of deliveries {:.0} us); no early empty reply",
        beyond.words,
        load.latency("delivery", "p99_us")
    );
    Ok(vec![Row::new(
        "long poll, one connection sending",
        "delivery median at most one disk sync + 300 us; no early empty replies",
        measured,
        Verdict::all(&[beyond.micros <= 300.0]),
        &load.command,
    )])
}

/// A single sender.
pub fn send_latency(bench: &Bench) -> Result<Vec<Row>, Fault> {
    let (beyond, load) = beyond_the_sync(bench, &["--scenario", "send", "--connections", "1"], "send")?;
    let measured = format!("{} (p99 of sends {:.0} us)", beyond.words, load.latency("send", "p99_us"));
    Ok(vec![Row::new(
        "send latency, one connection",
        "median at most one disk sync + 80 us",
        measured,
        Verdict::all(&[beyond.micros <= 80.0]),
        &load.command,
    )])
}

/// A latency less the raw append and sync of the same disk, and beside it what a request takes that does nothing.
struct Beyond {
    micros: f64,
    words: String,
}

fn beyond_the_sync(bench: &Bench, words: &[&str], operation: &str) -> Result<(Beyond, Loaded), Fault> {
    let (folder, server) = bench.server(&[], &[])?;
    let mut raw = Raw::new(&folder.0.join("raw"), 64 << 20);
    let mut last = None;
    let (mut raws, mut nulls, mut ours, mut differences) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..bench.loads.rounds {
        let sync = raw_sync(&mut raw);
        let null = bench.loads.once(&server, "sqs", &["--scenario", "null", "--connections", "1"])?;
        let load = bench.loads.once(&server, "sqs", words)?;
        let latency = load.latency(operation, "p50_us");
        raws.push(sync);
        nulls.push(null.null_latency());
        ours.push(latency);
        differences.push(latency - sync);
        last = Some(load);
    }
    let text = format!(
        "one sync + {:.0} us: {:.0} - {:.0} us, differences {}; a null request's way and back {:.0} us",
        median(differences.clone()),
        median(ours),
        median(raws),
        spread(&differences),
        median(nulls)
    );
    let load = last.ok_or("there are no rounds")?;
    Ok((Beyond { micros: median(differences), words: text }, load))
}

/// The median of raw appends with a sync, in microseconds.
fn raw_sync(raw: &mut Raw) -> f64 {
    median((0..RAW_APPENDS).map(|_| raw.append(RAW_BYTES).as_secs_f64() * 1e6).collect())
}

/// The ceiling: what the disk does with nothing around it.
pub fn ceiling(bench: &Bench) -> Result<Vec<Row>, Fault> {
    let folder = Folder::new(&bench.dir, "raw")?;
    let mut raw = Raw::new(&folder.0, 64 << 20);
    let rounds = |bytes: usize, raw: &mut Raw| {
        let rounds: Vec<f64> = (0..bench.loads.rounds)
            .map(|_| median((0..RAW_APPENDS).map(|_| raw.append(bytes).as_secs_f64() * 1e6).collect()))
            .collect();
        format!("{:.0} us ({})", median(rounds.clone()), spread(&rounds))
    };
    let measured =
        [RAW_BYTES, 4 << 10, 64 << 10].map(|bytes| format!("{bytes} B: {}", rounds(bytes, &mut raw)));
    Ok(vec![Row::new("raw append and fdatasync", "", measured.join("; "), Verdict::Unjudged, "")])
}

impl Bench {
    /// A server on an empty store.
    pub fn server(&self, flags: &[&str], variables: &[(&str, &str)]) -> Result<(Folder, Server), Fault> {
        let folder = Folder::new(&self.dir, &format!("server{}", self.next_number()))?;
        let server = Server::start(&self.loads.kew, &folder.0, flags, variables)?;
        Ok((folder, server))
    }

    /// One that checks signatures.
    pub fn strict_server(&self) -> Result<(Folder, Server), Fault> {
        let folder = Folder::new(&self.dir, &format!("strict{}", self.next_number()))?;
        let config = folder.0.join("strict.toml");
        std::fs::write(&config, CONFIG)?;
        let flags = ["--config", &config.to_string_lossy()];
        let server = Server::start(&self.loads.kew, &folder.0, &flags, &[])?;
        Ok((folder, server))
    }

    /// Two loads in turn.
    fn alternate(
        &self,
        first: impl Fn() -> Result<Loaded, Fault>,
        second: impl Fn() -> Result<Loaded, Fault>,
    ) -> Result<Vec<(Loaded, Loaded)>, Fault> {
        (0..self.loads.rounds).map(|_| Ok((first()?, second()?))).collect()
    }
}
