//! The scenarios, and the parts of them that need a process of their own.

mod cold;
mod cycle;
mod fifo;
mod reopen;
mod shared;
mod start;
mod waiters;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};

/// How large, and where.
pub struct Context {
    pub dir: PathBuf,
    pub scale: f64,
    pub rounds: usize,
}

impl Context {
    /// A count, scaled, and at least `least`.
    pub fn scaled(&self, full: u64, least: u64) -> u64 {
        ((full as f64 * self.scale) as u64).max(least)
    }

    /// Runs a part in a process of its own, and answers what it printed.
    fn part(&self, name: &str) -> Vec<String> {
        let mut child = self.spawn(name);
        let lines = lines_of(child.stdout.take().expect("the child's output is piped"));
        assert!(child.wait().expect("the child is ours").success(), "{name} ends well");
        lines
    }

    fn spawn(&self, name: &str) -> std::process::Child {
        let mut command = part(name, self.scale, self.rounds, &self.dir);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the bench can start itself again")
    }
}

fn lines_of(output: ChildStdout) -> Vec<String> {
    BufReader::new(output).lines().map_while(Result::ok).collect()
}

type Run = fn(&Context);

/// One scenario.
pub struct Scenario {
    pub name: &'static str,
    /// Disk it takes at full size.
    pub gigabytes: f64,
    run: Run,
}

const fn scenario(name: &'static str, gigabytes: f64, run: Run) -> Scenario {
    Scenario { name, gigabytes, run }
}

/// All scenarios, in the order they run.
pub const ALL: [Scenario; 12] = [
    scenario("cycle", 2.0, cycle::shallow),
    scenario("backlog", 4.0, cycle::backlog),
    scenario("cycle-1k", 2.0, cycle::kilobyte),
    scenario("cold", 10.0, cold::one_queue),
    scenario("cold-1000", 10.0, cold::thousand_queues),
    scenario("fifo", 4.0, fifo::run),
    scenario("reopen", 6.0, reopen::run),
    scenario("reopen-fifo", 6.0, reopen::run_fifo),
    scenario("shared", 16.0, shared::run),
    scenario("waiters", 0.5, waiters::idle),
    scenario("wake", 0.5, waiters::wake),
    scenario("start", 0.5, start::run),
];

/// Parts that are not scenarios.
const PARTS: [(&str, Run); 5] = [
    ("fifo-fill", fifo::fill),
    ("reopen-fill", reopen::fill),
    ("reopen-fifo-fill", reopen::fill_fifo),
    ("start-once", start::once),
    ("null", |_| crate::budget::serve_null()),
];

/// Plays one part in this process.
pub fn run(name: &str, context: &Context) {
    let scenarios = ALL.iter().map(|scenario| (scenario.name, scenario.run));
    let found = scenarios.chain(PARTS).find(|(known, _)| *known == name);
    let (_, run) = found.unwrap_or_else(|| panic!("there is no part {name:?}"));
    run(context);
}

/// This program again, as one part of a scenario.
pub fn part(name: &str, scale: f64, rounds: usize, dir: &Path) -> Command {
    // What was printed so far must not be printed by the child again.
    std::io::stdout().flush().expect("standard output is there");
    let mut command = Command::new(std::env::current_exe().expect("the bench has a path"));
    command.args(["--child", name, "--scale", &scale.to_string(), "--rounds", &rounds.to_string()]);
    command.arg("--dir").arg(dir);
    command
}
