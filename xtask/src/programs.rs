//! The test programs of the workspace: built by cargo, run four at a time, each with a time limit.
//!
//! `cargo test` waits for a program that hangs without end. Here it is killed at its limit, with the programs it has
//! started, and the others still run.

use crate::output::Output;
use crate::run::{cargo, shown};
use crate::stalls::Stalls;
use crate::{Done, tools};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often a running program is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Where the output of each program is kept until its next run.
const FOLDER: &str = "target/tests";
/// How many programs run beside each other, on two cores too: many wait more than they compute.
const LANES: usize = 4;
/// Programs that take longest, the longest first. They begin first, so that none is still at work alone at the end.
const LONGEST: [&str; 13] = [
    "kew tests/postgres",
    "log-pg tests/contract",
    "store lib",
    "log-pg tests/simulated",
    "kew tests/serve",
    "store-log tests/model",
    "bench tests/postgres",
    "store-log tests/tools",
    "store tests/model",
    "bench tests/budget",
    "store-log tests/interleaved",
    "log-pg tests/model",
    "peer lib",
];

/// One program with the tests of a library, a binary or a file of `tests/`.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Program {
    /// The package and the target: `kew-store-log tests/model`, `kew-core lib`.
    pub name: String,
    path: PathBuf,
    /// The package's folder, where its tests run.
    folder: PathBuf,
}

/// Programs that start a PostgreSQL, by the beginnings of their names.
const ON_POSTGRES: [&str; 4] = ["log-pg lib", "log-pg tests/", "kew tests/postgres", "bench tests/postgres"];

/// Builds every test program of the workspace, and names those that can run here: without a PostgreSQL some cannot.
pub fn build() -> Result<Vec<Program>, String> {
    let words = ["test", "--workspace", "--lib", "--bins", "--tests", "--no-run"];
    let output = cargo(&words)
        .arg("--message-format=json-render-diagnostics")
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cannot start cargo: {error}"))?;
    if !output.status.success() {
        return Err("the tests do not build".to_owned());
    }
    let mut programs: Vec<Program> =
        String::from_utf8_lossy(&output.stdout).lines().filter_map(program).collect();
    programs.sort();
    programs.sort_by_key(|program| {
        LONGEST.iter().position(|name| program.name == *name).unwrap_or(LONGEST.len())
    });
    if !tools::has_postgres() {
        let (left_out, can_run) = programs.into_iter().partition(needs_postgres);
        programs = can_run;
        let names: Vec<String> = left_out.into_iter().map(|program| program.name).collect();
        println!("  MISSING  PostgreSQL (apt-get install postgresql): left out {}", names.join(", "));
    }
    if programs.is_empty() { Err("cargo named no test program".to_owned()) } else { Ok(programs) }
}

fn needs_postgres(program: &Program) -> bool {
    ON_POSTGRES.iter().any(|beginning| program.name.starts_with(beginning))
}

/// Runs each program once. The output of one is shown when it has ended. One that fails does not end the run.
pub fn run_all(programs: &[Program], variables: &BTreeMap<String, String>, limit: Duration) -> Done {
    let ended = Mutex::new((Vec::new(), Vec::new()));
    let stalls = Stalls::default();
    let run = || {
        side_by_side(LANES, programs, |program| {
            let begun = Instant::now();
            println!("-- {} begins", program.name);
            let path = Path::new(FOLDER).join(format!("{}.log", program.file_name()));
            let output = Output::kept(&path);
            let was_kept = output.is_ok();
            let result = output.and_then(|output| program.run(variables, limit, output));
            let took = begun.elapsed();
            // One at a time shows its output.
            let mut ended = ended.lock().unwrap_or_else(PoisonError::into_inner);
            println!("\n-- {}", program.name);
            if was_kept {
                Output::show_again(&path);
            }
            ended.0.extend(result.err().map(|error| error + &stalls.since(begun)));
            ended.1.push((took, &program.name));
        });
    };
    stalls.during(run);
    let (failed, mut took) = ended.into_inner().unwrap_or_else(PoisonError::into_inner);
    took.sort_by(|one, other| other.cmp(one));
    println!("\n-- the ten programs that took longest, of {}", took.len());
    took.iter().take(10).for_each(|(took, name)| println!("{:>12}  {name}", shown(*took)));
    if failed.is_empty() { Ok(()) } else { Err(format!("\n  {}", failed.join("\n  "))) }
}

/// Does the jobs in their order, this number at a time.
pub fn side_by_side<'a, T: Sync>(lanes: usize, jobs: &'a [T], job: impl Fn(&'a T) + Sync) {
    let next = AtomicUsize::new(0);
    let lane = || {
        while let Some(one) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            job(one);
        }
    };
    std::thread::scope(|scope| (0..lanes).for_each(|_| drop(scope.spawn(lane))));
}

/// The test program that a line of cargo's messages names, if it names one.
fn program(line: &str) -> Option<Program> {
    let message: Value = serde_json::from_str(line).ok()?;
    let is_test = message["profile"]["test"].as_bool()?;
    let path = PathBuf::from(message["executable"].as_str().filter(|_| is_test)?);
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
    let package = folder.file_name()?.to_string_lossy().into_owned();
    let (kind, target) = (message["target"]["kind"][0].as_str()?, message["target"]["name"].as_str()?);
    let name = match kind {
        "test" => format!("{package} tests/{target}"),
        kind => format!("{package} {kind}"),
    };
    Some(Program { name, path, folder })
}

impl Program {
    /// Runs its tests. Killed at its limit, it has failed. The error names the tests that failed.
    pub fn run(&self, variables: &BTreeMap<String, String>, limit: Duration, mut output: Output) -> Done {
        let mut command = Command::new(&self.path);
        command.current_dir(&self.folder).envs(variables).stdin(Stdio::null());
        output.take(&mut command)?;
        let status = within(&mut command, limit, || output.show())?;
        judged(&self.name, status, limit, &output)
    }

    /// The name as a file's name.
    pub fn file_name(&self) -> String {
        self.name.replace([' ', '/'], "-")
    }
}

/// What the end of a program says: without a status it was killed.
fn judged(name: &str, status: Option<ExitStatus>, limit: Duration, output: &Output) -> Done {
    let failed: String = output.failures().iter().map(|test| format!("\n    {test}")).collect();
    match status {
        None => Err(format!("{name}: killed after {}, it hangs{failed}", shown(limit))),
        Some(status) if status.success() => Ok(()),
        Some(status) => Err(format!("{name}: {status}{failed}")),
    }
}

/// Runs one command of tests with its output shown. The error names the tests that failed.
pub fn tests_of(name: &str, command: &mut Command, limit: Duration) -> Done {
    println!("\n== {name}");
    let mut output =
        Output::shown(&Path::new(FOLDER).join(format!("{}.log", name.replace([' ', '/'], "-"))))?;
    output.take(command)?;
    let status = within(command, limit, || output.show())?;
    judged(name, status, limit, &output)
}

/// Runs a command to its end, or kills it and what it has started at the limit: then there is no status. Calls `look`
/// every 20 ms and once after the end.
fn within(
    command: &mut Command,
    limit: Duration,
    mut look: impl FnMut(),
) -> Result<Option<ExitStatus>, String> {
    let begun = Instant::now();
    let mut child = command.spawn().map_err(|error| format!("cannot start a test program: {error}"))?;
    loop {
        let ended = child.try_wait().map_err(|error| format!("cannot wait: {error}"))?;
        let hangs = ended.is_none() && begun.elapsed() >= limit;
        if hangs {
            kill_family(&mut child);
        }
        look();
        if ended.is_some() || hangs {
            return Ok(ended);
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Kills a program and those it has started, the youngest first, so that none is left with an open output.
pub(crate) fn kill_family(child: &mut Child) {
    let mut family = vec![child.id()];
    let parents = parents();
    let mut next = 0;
    while let Some(&parent) = family.get(next) {
        family.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(id, _)| *id));
        next += 1;
    }
    for id in family.iter().skip(1).rev() {
        let mut kill = Command::new("sh");
        // One that has ended meanwhile cannot be killed.
        let _ended = kill.args(["-c", &format!("kill -9 {id}")]).stderr(Stdio::null()).status();
    }
    let _ended = child.kill();
    let _status = child.wait();
}

/// Every process of the machine with the one that has started it, as far as the system shows them.
fn parents() -> Vec<(u32, u32)> {
    let Ok(folder) = std::fs::read_dir("/proc") else { return Vec::new() };
    let of = |id: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        // The program's name stands in brackets and may hold anything; state and parent follow.
        let (_, after) = stat.rsplit_once(')')?;
        Some((id, after.split_whitespace().nth(1)?.parse().ok()?))
    };
    folder.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_programs_are_found_among_the_messages_of_cargo() {
        let line = |test: bool, kind: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/house/crates/core/Cargo.toml",
                "target":{{"kind":["{kind}"],"name":"laws"}},"profile":{{"test":{test}}},"executable":"/t/laws-1"}}"#
            )
            .replace('\n', "")
        };
        let found = |name: &str| {
            let name = name.to_owned();
            Some(Program { name, path: "/t/laws-1".into(), folder: "/house/crates/core".into() })
        };
        assert_eq!(program(&line(true, "test")), found("core tests/laws"));
        assert_eq!(program(&line(true, "lib")), found("core lib"));
        assert_eq!(program(&line(false, "bin")), None);
        assert_eq!(program("Compiling kew-core"), None);
    }

    #[test]
    fn programs_that_begin_first_are_those_of_a_folder() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for name in LONGEST {
            let (package, target) = name.split_once(' ').expect("a package and a target");
            let folder =
                if package == "bench" { root.join(package) } else { root.join("crates").join(package) };
            let target = folder.join(if target == "lib" { "src/lib" } else { target });
            assert!(target.is_dir() || target.with_extension("rs").is_file(), "{name}");
        }
    }

    #[test]
    fn program_that_hangs_is_killed_at_its_limit_with_those_it_started() {
        let file = std::env::temp_dir().join(format!("kew-hangs-{}", std::process::id()));
        let script = format!("sleep 600 & echo $! > {}; wait", file.display());
        let begun = Instant::now();
        let ended = within(Command::new("sh").args(["-c", &script]), Duration::from_secs(5), || ());
        assert_eq!(ended, Ok(None));
        assert!(begun.elapsed() < Duration::from_secs(60));
        let started = std::fs::read_to_string(&file).expect("the script wrote a process number");
        let started: u32 = started.trim().parse().expect("a process number");
        let deadline = Instant::now() + Duration::from_secs(60);
        // Killed, it is gone, or its new parent has yet to ask for its status.
        while parents().iter().any(|(id, _)| *id == started) && !is_dead(started) {
            assert!(Instant::now() < deadline, "{started} goes on");
            std::thread::sleep(LOOK_EVERY);
        }
        std::fs::remove_file(file).expect("the file is there");
    }

    fn is_dead(id: u32) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        stat.rsplit_once(')').is_none_or(|(_, after)| after.trim_start().starts_with('Z'))
    }

    #[test]
    fn program_that_ends_in_time_is_judged_by_its_status() {
        let ended = |script: &str| {
            let status = within(Command::new("sh").args(["-c", script]), Duration::from_secs(60), || ());
            status.map(|status| status.and_then(|status| status.code()))
        };
        assert_eq!(ended("exit 0"), Ok(Some(0)));
        assert_eq!(ended("exit 7"), Ok(Some(7)));
    }
}
