//! `cargo xtask e2e`: the vendors' real clients against the real program.
//!
//! `e2e/scenarios.md` holds the one list of scenarios (`scenario` reads it, `play` plays it, `pattern` compares);
//! `clients` knows the clients, `agent` and `script` talk to them, `server` runs one Kew for each, over a directory or,
//! with `--store postgres`, over a database of its own on a PostgreSQL that `databases` starts; with `--nodes 3` it is
//! three of them (`node`), and a load balancer (`front`) sends each request to one at random.

mod agent;
mod clients;
mod databases;
mod front;
mod node;
mod packages;
mod pattern;
mod play;
mod scenario;
mod script;
mod server;

use crate::Done;
use agent::Agent;
pub use clients::Absent;
use clients::{CLIENTS, Client};
pub use clients::{node_packages, workerd};
use databases::Databases;
use play::Stage;
use scenario::Chapter;
use serde_json::Value;
use server::{Server, Store};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

const SCENARIOS: &str = "e2e/scenarios.md";
/// Clients at work at the same time: each is mostly waiting for the others' processor.
const AT_ONCE: usize = 2;

/// What is about one node: the commands of the documents, and a server that the fuzzer starts itself.
const OF_ONE_NODE: [&str; 2] = ["documents", "openapi"];

/// What one client's run came to.
#[derive(Default)]
struct Tally {
    passed: usize,
    left_out: Vec<String>,
    failed: Vec<String>,
    /// Nothing could be run, and why.
    absent: Option<String>,
}

/// What the clients are played against.
struct Kew {
    program: PathBuf,
    /// Where its stores are; without one each is in a directory.
    databases: Option<Databases>,
    /// How many nodes serve one client; more than one are a fleet on one database.
    nodes: usize,
    /// How many cases are made up for each operation that is fuzzed; the script's own number without it.
    cases: Option<String>,
}

/// Fuzzes the admin API with this number of cases for each operation.
pub fn fuzz(cases: &str) -> Done {
    run(&["--cases", cases, "openapi"])
}

/// Plays all scenarios with the named clients, or with all of them.
pub fn run(words: &[&str]) -> Done {
    let (cases, words) = match words {
        ["--cases", cases, words @ ..] => (Some((*cases).to_owned()), words),
        words => (None, words),
    };
    let (on_postgres, words) = match words {
        ["--store", "postgres", words @ ..] => (true, words),
        ["--store", other, ..] => return Err(format!("--store {other}: only postgres can be named")),
        words => (false, words),
    };
    let (nodes, names) = match words {
        ["--nodes", count, names @ ..] if on_postgres => (number_of_nodes(count)?, names),
        ["--nodes", ..] => return Err("--nodes: several nodes need --store postgres before it".to_owned()),
        names => (1, names),
    };
    let mut chosen = chosen(names)?;
    chosen.retain(|client| nodes == 1 || names.contains(&client.name) || !OF_ONE_NODE.contains(&client.name));
    let text = fs::read_to_string(SCENARIOS).map_err(|error| format!("{SCENARIOS}: {error}"))?;
    let chapters = scenario::parse(&text).map_err(|reason| format!("{SCENARIOS}: {reason}"))?;
    let program = build(on_postgres)?;
    let starts = program.with_file_name("examples").join(databases::PROGRAM);
    let databases = on_postgres.then(|| Databases::start(&starts)).transpose()?;
    let store = match (on_postgres, nodes) {
        (false, _) => String::new(),
        (true, 1) => " over PostgreSQL".to_owned(),
        (true, nodes) => format!(", {nodes} nodes over PostgreSQL"),
    };
    println!("\n== e2e: {} clients against {}{store}", chosen.len(), program.display());
    let kew = Kew { program, databases, nodes, cases };
    let next = AtomicUsize::new(0);
    let tallies = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(client) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let begun = Instant::now();
                    let tally = run_client(client, &chapters, &kew);
                    report(client, &tally, begun);
                    tallies.lock().unwrap_or_else(PoisonError::into_inner).push(tally);
                }
            });
        }
    });
    conclude(&tallies.into_inner().unwrap_or_else(PoisonError::into_inner))
}

fn number_of_nodes(count: &str) -> Result<usize, String> {
    count.parse().ok().filter(|count| (1..=9).contains(count)).ok_or(format!("--nodes {count}: 1 to 9"))
}

fn chosen(names: &[&str]) -> Result<Vec<&'static Client>, String> {
    let known = |name: &str| CLIENTS.iter().any(|client| client.name == name);
    if let Some(unknown) = names.iter().find(|name| !known(name)) {
        let all: Vec<&str> = CLIENTS.iter().map(|client| client.name).collect();
        return Err(format!("no client {unknown}; there are {}", all.join(", ")));
    }
    Ok(CLIENTS.iter().filter(|client| names.is_empty() || names.contains(&client.name)).collect())
}

/// Installs and builds the packages of every client, those of the Workers' runtime first.
///
/// What cannot be had is said by the step that needs it, which tries again.
pub fn install_packages() {
    let _said_later = node_packages("cloudflare");
    let _said_later = node_packages("console");
    for client in CLIENTS {
        let _said_later = client.prepare();
    }
}

/// Where the program is; built the first time. Steps that run beside each other do not wait for another's build then.
pub fn build(with_postgres: bool) -> Result<PathBuf, String> {
    static BUILT: Mutex<[Option<PathBuf>; 2]> = Mutex::new([None, None]);
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    let place = usize::from(with_postgres);
    if built[place].is_none() {
        let program = make(with_postgres)?;
        // With the one the other is there too.
        built[..=place].fill(Some(program));
    }
    built[place].clone().ok_or_else(|| "the program was not built".to_owned())
}

/// Builds the program as the tests do, and says where it is; `KEW_E2E_PROGRAM` is one that is there already.
fn make(with_postgres: bool) -> Result<PathBuf, String> {
    if let Some(program) = std::env::var_os("KEW_E2E_PROGRAM") {
        return Ok(program.into());
    }
    let cargo = || Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let build = |arguments: &[&str]| {
        let status =
            cargo().args(arguments).status().map_err(|error| format!("cannot start cargo: {error}"))?;
        if status.success() { Ok(()) } else { Err(format!("cargo {} failed", arguments.join(" "))) }
    };
    // A test of the package makes cargo build the program with the features the tests have built already.
    build(&["test", "--quiet", "--workspace", "--test", "serve", "--no-run"])?;
    if with_postgres {
        // Only `build` puts an example where its name finds it; `test` makes a test of it.
        build(&["build", "--quiet", "--workspace", "--example", databases::PROGRAM])?;
    }
    let output = cargo()
        .args(["metadata", "--format-version", "1", "--no-deps"])
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cannot start cargo: {error}"))?;
    let metadata: Value =
        serde_json::from_slice(&output.stdout).map_err(|error| format!("cargo metadata: {error}"))?;
    let target = metadata["target_directory"].as_str().ok_or("cargo metadata names no target directory")?;
    Ok(Path::new(target).join("debug").join("kew"))
}

fn run_client(client: &Client, chapters: &[Chapter], kew: &Kew) -> Tally {
    let mut tally = Tally::default();
    for chapter in chapters.iter().filter(|chapter| plays(client, chapter, chapters)) {
        // Once per chapter: a command starts one process, and only the first time installs anything.
        let command = match client.prepare() {
            Ok(command) => command,
            Err(Absent::Missing(tool)) => {
                tally.absent = Some(tool);
                return tally;
            }
            Err(Absent::Failed(reason)) => {
                tally.failed.push(format!("packages: {reason}"));
                return tally;
            }
        };
        let directory = Path::new("e2e/.cache/run").join(client.name);
        if let Err(reason) = play_chapter(client, command, chapter, kew, &directory, &mut tally) {
            tally.failed.push(format!("{}: {reason}", chapter.title));
        }
    }
    tally
}

/// A chapter named after a client is that client's alone, and its only one.
fn plays(client: &Client, chapter: &Chapter, chapters: &[Chapter]) -> bool {
    let owner = |chapter: &Chapter| chapter.title.split(':').next().unwrap_or_default().to_owned();
    let owns = |chapter: &Chapter, client: &Client| owner(chapter) == client.name;
    if chapters.iter().any(|other| owns(other, client)) {
        return owns(chapter, client);
    }
    !CLIENTS.iter().any(|other| owns(chapter, other))
}

fn play_chapter(
    client: &Client,
    command: Command,
    chapter: &Chapter,
    kew: &Kew,
    directory: &Path,
    tally: &mut Tally,
) -> Done {
    let store = match &kew.databases {
        Some(databases) => Store::Database { url: databases.url()?, nodes: kew.nodes },
        None => Store::Directory,
    };
    let config = chapter.config.as_deref();
    let mut server = Server::start(&kew.program, &store, directory, &chapter.flags, config)?;
    let errors = directory.join("client-errors");
    if chapter.title.starts_with(&format!("{}:", client.name)) {
        let patience = if kew.cases.is_some() { script::LONG_PATIENCE } else { script::PATIENCE };
        let mut command = command;
        command.envs(kew.cases.as_ref().map(|cases| ("KEW_OPENAPI_CASES", cases)));
        for (name, result) in script::play(command, chapter, &mut server, (&errors, patience))? {
            tally.count(&name, result);
        }
        return Ok(());
    }
    let mut agent = Agent::start(command, &errors)?;
    let mut stage = Stage::new(&mut agent, &mut server, client.classes);
    for (index, scenario) in chapter.scenarios.iter().enumerate() {
        if !wanted(&scenario.name) {
            continue;
        }
        let left_out = scenario.left_out_by.iter().find(|(name, _)| name == client.name);
        match left_out {
            Some((_, reason)) => tally.left_out.push(format!("{}: {reason}", scenario.name)),
            None => tally.count(&scenario.name, stage.play(scenario, &format!("scenario-{index}"))),
        }
    }
    Ok(())
}

/// `KEW_E2E_ONLY` is part of the names of the scenarios to play.
fn wanted(name: &str) -> bool {
    std::env::var("KEW_E2E_ONLY").map_or(true, |part| name.contains(&part))
}

impl Tally {
    fn count(&mut self, name: &str, result: Done) {
        match result {
            Ok(()) => self.passed += 1,
            Err(reason) => self.failed.push(format!("{name}: {reason}")),
        }
    }
}

fn report(client: &Client, tally: &Tally, begun: Instant) {
    let (name, what) = (client.name, client.what);
    if let Some(tool) = &tally.absent {
        println!("  MISSING  {name}: {tool}");
        return;
    }
    let verdict = if tally.failed.is_empty() { "passed" } else { "FAILED" };
    let mut lines = format!(
        "  {verdict}   {name} ({what}): {} passed, {} failed, {} left out, {:.1} s\n",
        tally.passed,
        tally.failed.len(),
        tally.left_out.len(),
        begun.elapsed().as_secs_f64()
    );
    for reason in &tally.left_out {
        lines.push_str(&format!("           left out  {reason}\n"));
    }
    for reason in &tally.failed {
        lines.push_str(&format!("           FAILED    {reason}\n"));
    }
    print!("{lines}");
}

fn conclude(tallies: &[Tally]) -> Done {
    let sum = |of: fn(&Tally) -> usize| tallies.iter().map(of).sum::<usize>();
    let (passed, failed) = (sum(|tally| tally.passed), sum(|tally| tally.failed.len()));
    let skipped = sum(|tally| tally.left_out.len());
    println!("e2e: {passed} passed, {failed} failed, {skipped} skipped");
    match failed {
        0 if passed > 0 => Ok(()),
        0 => Err("e2e: no client ran".to_owned()),
        _ => {
            let reasons = tallies.iter().flat_map(|tally| &tally.failed);
            Err(reasons.fold(format!("e2e: {failed} scenarios failed"), |all, one| format!("{all}\n  {one}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scenario::What;
    use std::collections::BTreeSet;

    const ACTIONS: [&str; 23] = [
        "AddPermission",
        "CancelMessageMoveTask",
        "ChangeMessageVisibility",
        "ChangeMessageVisibilityBatch",
        "CreateQueue",
        "DeleteMessage",
        "DeleteMessageBatch",
        "DeleteQueue",
        "GetQueueAttributes",
        "GetQueueUrl",
        "ListDeadLetterSourceQueues",
        "ListMessageMoveTasks",
        "ListQueueTags",
        "ListQueues",
        "PurgeQueue",
        "ReceiveMessage",
        "RemovePermission",
        "SendMessage",
        "SendMessageBatch",
        "SetQueueAttributes",
        "StartMessageMoveTask",
        "TagQueue",
        "UntagQueue",
    ];

    fn written() -> Vec<Chapter> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(SCENARIOS);
        scenario::parse(&fs::read_to_string(path).unwrap()).unwrap()
    }

    #[test]
    fn the_list_of_scenarios_asks_for_every_action_and_names_nothing_twice() {
        let chapters = written();
        let scenarios = || chapters.iter().flat_map(|chapter| &chapter.scenarios);
        let calls = scenarios().flat_map(|scenario| &scenario.steps).filter_map(|step| match &step.what {
            What::Call { call, .. } | What::Start { call, .. } => Some(call.action.as_str()),
            _ => None,
        });
        assert_eq!(calls.collect::<BTreeSet<_>>(), BTreeSet::from(ACTIONS));
        let names: BTreeSet<&str> = scenarios().map(|scenario| scenario.name.as_str()).collect();
        assert_eq!(names.len(), scenarios().count());
    }

    #[test]
    fn clients_that_leave_something_out_exist_and_give_a_reason() {
        for scenario in written().iter().flat_map(|chapter| &chapter.scenarios) {
            for (name, reason) in &scenario.left_out_by {
                assert!(CLIENTS.iter().any(|client| client.name == name), "{}: {name}", scenario.name);
                assert!(!reason.is_empty(), "{}", scenario.name);
            }
        }
    }

    #[test]
    fn every_client_has_a_chapter_and_a_library_only_its_own() {
        let chapters = written();
        for client in CLIENTS {
            let played: Vec<&Chapter> =
                chapters.iter().filter(|chapter| plays(client, chapter, &chapters)).collect();
            assert!(!played.is_empty(), "{}", client.name);
            let scripted = played.iter().any(|chapter| chapter.title.starts_with(client.name));
            assert!(!scripted || played.len() == 1, "{}", client.name);
        }
    }
}
