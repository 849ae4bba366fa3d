//! How soon an empty store is open and its engine ready, and how soon the program listens.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use super::Context;
use crate::report::{Report, median};
use crate::rig::Rig;

const OPENINGS: u64 = 11;

pub fn run(context: &Context) {
    let report = Report::new("start", context.scale);
    let (mut fresh, mut again, mut process) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..context.scaled(OPENINGS, 3) {
        let dir = context.dir.join(number.to_string());
        let open = || {
            let begun = Instant::now();
            let rig = Rig::open(&dir);
            (begun.elapsed().as_secs_f64() * 1e3, rig)
        };
        let (took, rig) = open();
        fresh.push(took);
        rig.store.close().expect("the store closes");
        drop(rig);
        let (took, rig) = open();
        again.push(took);
        rig.store.close().expect("the store closes");
        drop(rig);
        let within = Context { dir, scale: context.scale, rounds: context.rounds };
        let begun = Instant::now();
        drop(within.part("start-once"));
        process.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    let fresh = median(fresh);
    report.wall(
        "opening a store that is made on the way",
        format!("{fresh:.1} ms"),
        "≤ 50 ms",
        fresh <= 50.0,
    );
    let again = median(again);
    report.wall("opening an empty store that is there", format!("{again:.1} ms"), "≤ 50 ms", again <= 50.0);
    report.note("the same as a process, from start to end", format!("{:.1} ms", median(process)));
    let listening: Vec<f64> = (0..context.scaled(OPENINGS, 3))
        .filter_map(|number| listening(&context.dir.join(format!("served-{number}"))))
        .collect();
    if listening.is_empty() {
        report.note("`kew serve` listening", "not measured: no `kew` is built beside this program");
        return;
    }
    let middle = median(listening);
    report.wall(
        "`kew serve` on no store yet, until it says Ready",
        format!("{middle:.1} ms"),
        "≤ 50 ms",
        middle <= 50.0,
    );
}

/// Starts the program that was built beside this one on a store of its own; milliseconds until it is ready.
fn listening(store: &Path) -> Option<f64> {
    let program = std::env::current_exe().ok()?.with_file_name("kew");
    let mut command = Command::new(program);
    command.args(["serve", "--sqs", "127.0.0.1:0", "--store"]).arg(store);
    command.args(["--azure", "127.0.0.1:0", "--cloudflare", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
    let begun = Instant::now();
    let mut server = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().ok()?;
    let lines = BufReader::new(server.stdout.take()?).lines().map_while(Result::ok);
    let ready = lines.into_iter().find(|line| line == "Ready.").map(|_| begun.elapsed());
    server.kill().expect("the server is ours");
    server.wait().expect("the server is ours");
    Some(ready?.as_secs_f64() * 1e3)
}

/// Opens the store and ends.
pub fn once(context: &Context) {
    drop(Rig::open(&context.dir));
}
