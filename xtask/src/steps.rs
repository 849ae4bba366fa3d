//! What `check`, `test`, `test-long` and `bench` consist of.
//!
//! The three test runs are the same steps; the counts differ, and the larger two also run the vendors' clients. A step
//! that fails does not end a run; the end lists every step with its time and its failure. The counts are environment
//! variables that the tests read (docs/testing.md). A variable that is already set wins, so one run can be made smaller
//! or larger.

use crate::run::{Run, Work, cargo, step};
use crate::{Done, circles, compatibility, console, e2e, guard, layers, lines, programs, repeat, tools};
use std::collections::BTreeMap;
use std::env;
use std::process::{Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::Duration;

type Counts = &'static [(&'static str, &'static str)];

const CHECK: Counts = &[("KEW_MODEL_HISTORIES", "200")];
const TEST: Counts = &[
    ("KEW_MODEL_HISTORIES", "500"),
    ("KEW_INTERLEAVED", "500"),
    ("KEW_KILLS", "20"),
    ("KEW_UNREAD", "1000"),
    ("KEW_PIPELINED", "20000"),
];
const LONG: Counts = &[
    ("KEW_MODEL_HISTORIES", "20000"),
    ("KEW_CRASH", "every"),
    ("KEW_INTERLEAVED", "20000"),
    ("KEW_KILLS", "200"),
    ("KEW_UNREAD", "10000"),
    ("KEW_PIPELINED", "1000000"),
    ("KEW_LONG", "1"),
];

/// Clients that play over PostgreSQL in a short run, one of each dialect.
const ON_POSTGRES: &[&str] = &["boto3", "azure-python", "cloudflare-typescript"];

/// Clients that play over three nodes in a short run: one of each dialect, all dialects on one queue, and Workers.
const ON_NODES: &[&str] = &["boto3", "azure-python", "cloudflare-typescript", "dialects", "wrangler-deploy"];

/// Cases that are made up for each operation of the admin API in a long run.
const FUZZED_CASES: &str = "300";

/// How long one test program may take; the longest takes seven minutes on two cores.
const LIMIT: Duration = Duration::from_secs(20 * 60);
const LONG_LIMIT: Duration = Duration::from_secs(12 * 3_600);

/// Format, lints, layers, then every test with small counts.
pub fn check() -> Done {
    let mut run = Run::begin();
    house(&mut run);
    tests(&mut run, CHECK, Needed::default(), LIMIT, None);
    run.conclude()
}

/// What CI runs: says what the machine brings, then a check with larger counts.
pub fn test() -> Done {
    tools::report()?;
    let mut run = Run::begin();
    everything(&mut run, TEST, LIMIT, [ON_POSTGRES, ON_NODES]);
    run.conclude()
}

/// The full counts, the clients, then the benches.
pub fn test_long() -> Done {
    tools::report()?;
    // Where they are missing their test is left out, and says so.
    let _has_patroni = tools::patroni();
    let mut run = Run::begin();
    everything(&mut run, LONG, LONG_LIMIT, [&[], &[]]);
    run.step("the admin API fuzzed at length", || e2e::fuzz(FUZZED_CASES));
    run.step("every test 50 times", || repeat::command(&["50"]));
    run.step("bench of the engine", || bench(&["engine"]));
    run.step("the budget table", || bench(&[]));
    run.conclude()
}

/// All tests and clients; those named, or all, play over PostgreSQL too, and over three nodes on it.
fn everything(run: &mut Run, counts: Counts, limit: Duration, [on_postgres, on_nodes]: [&[&str]; 2]) {
    // Where one is missing its tests are left out, and this says so.
    let needed = Needed { curl: tools::curl(), browser: tools::browser() };
    let has_postgres = tools::postgres();
    let has_nginx = tools::nginx();
    let has_promtool = tools::promtool();
    guard::find_valgrind();
    // Builds wait for no network, and installations for little else. The system installs one package at a time, so
    // nothing else may install before these have ended.
    let packages = thread::spawn(e2e::install_packages);
    house(run);
    tests(run, counts, needed, limit, Some(packages));
    run.step("wire tests over the embedded store", wire_tests_over_the_log);
    if has_promtool {
        run.step("alert rules", alert_rules);
    }
    run.step("the program for clients", || e2e::build(has_postgres).map(drop));
    // Clients and browsers wait often, and leave the cores to the guard, which counts instructions and no time.
    let mut clients: Vec<Work<'_>> = vec![("the vendors' clients", Box::new(|| e2e::run(&[])))];
    if has_postgres {
        let words = [&["--store", "postgres"], on_postgres].concat();
        clients.push(("clients over PostgreSQL", Box::new(move || e2e::run(&words))));
    }
    if has_postgres && has_nginx {
        let words = [&["--store", "postgres", "--nodes", "3"], on_nodes].concat();
        clients.push(("clients over three nodes", Box::new(move || e2e::run(&words))));
    }
    let guard: Vec<Work<'_>> = vec![("guard of hot paths", Box::new(|| guard::run(&[])))];
    let console: Vec<Work<'_>> = vec![("console in a browser", Box::new(|| console::run(&[])))];
    run.lanes(vec![clients, guard, console]);
}

/// Checks the alert rules, and that each fires when it should and only then.
pub fn alert_rules() -> Done {
    let folder = "deploy/prometheus";
    let promtool = |words: &[&str]| {
        let mut command = Command::new("promtool");
        command.args(words).current_dir(folder).stdin(Stdio::null());
        command
    };
    step("promtool check rules", &mut promtool(&["check", "rules", "kew-alerts.yml"]))?;
    step("promtool test rules", &mut promtool(&["test", "rules", "kew-alerts.test.yml"]))
}

/// What takes ten minutes because it is about ten minutes, and the trigger host with the vendor's emulator.
pub fn test_slow() -> Done {
    const EMULATOR: &str = "azurite@3.37.0";
    let room = "e2e/.cache/emulator";
    let mut install = Command::new("npm");
    install.args([
        "install",
        "--prefix",
        room,
        "--no-save",
        "--no-audit",
        "--no-fund",
        "--ignore-scripts",
        EMULATOR,
    ]);
    step("the emulator", &mut install)?;
    let program = env::current_dir().map_err(|error| format!("where are we? {error}"))?;
    let program = program.join(room).join("node_modules/.bin/azurite-queue");
    let mut command = cargo(&["test", "--package", "kew", "--test", "functions", "--", "--ignored"]);
    step("slow tests", command.env("KEW_AZURITE", program))
}

/// Compares the manifests with the table of layers, and looks for circles within each crate.
pub fn layers() -> Done {
    let output = cargo(&["metadata", "--format-version", "1", "--no-deps"])
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cannot start cargo: {error}"))?;
    if !output.status.success() {
        return Err("cargo metadata failed".to_owned());
    }
    let metadata = serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("cannot read what cargo metadata says: {error}"))?;
    let edges = layers::compare(&metadata)?;
    let circles = circles::compare(&metadata)?;
    println!("layers: {}", circles.summary);
    if edges.violations.is_empty() && circles.violations.is_empty() {
        println!("layers: {} edges between crates, each in the table", edges.edges);
        return Ok(());
    }
    Err(format!("layers:\n  {}", [edges.violations, circles.violations].concat().join("\n  ")))
}

/// Builds the program and the bench program for release and measures: the budget table and its page, unless the words
/// name scenarios of the engine (`engine` is all of them).
pub fn bench(arguments: &[&str]) -> Done {
    let words: Vec<&str> = match arguments {
        [] => vec!["budget"],
        ["engine", rest @ ..] => rest.to_vec(),
        given => given.to_vec(),
    };
    step("the program", &mut cargo(&["build", "--release", "--package", "kew"]))?;
    let mut command = cargo(&["run", "--release", "--package", "kew-bench", "--"]);
    step("bench", command.args(words))
}

fn house(run: &mut Run) {
    run.step("format", || step("format", &mut cargo(&["fmt", "--all", "--check"])));
    run.step("lints", || {
        let lints = ["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"];
        step("lints", &mut cargo(&lints))?;
        // The workspace turns on what tests need, and that keeps this one out.
        let report =
            ["clippy", "--package", "kew-timed", "--features", "report", "--quiet", "--", "-D", "warnings"];
        step("lints", &mut cargo(&report))
    });
    run.step("layers", || {
        println!("\n== layers");
        layers()
    });
    run.step("lines", || {
        println!("\n== lines");
        lines::compare()
    });
    run.step("compatibility", || {
        println!("\n== compatibility");
        compatibility::compare()
    });
}

/// Programs that are here: none of the tests that need one may be left out.
#[derive(Clone, Copy, Default)]
struct Needed {
    curl: bool,
    browser: bool,
}

/// All is built at once, so that no core waits for the end of a smaller build before; the examples in documents need
/// nothing more. The tests wait for the packages that are being installed: the runtime of Workers is one.
fn tests(run: &mut Run, counts: Counts, needed: Needed, limit: Duration, packages: Option<JoinHandle<()>>) {
    let mut programs = Err("the tests were not built".to_owned());
    run.step("build of the tests", || {
        programs = programs::build();
        programs.as_ref().map(drop).map_err(Clone::clone)
    });
    run.step("examples in documents", || {
        step("examples in documents", &mut cargo(&["test", "--workspace", "--doc", "--quiet"]))
    });
    let mut variables: BTreeMap<String, String> =
        counts.iter().map(|&(name, value)| (name.to_owned(), chosen(name, value))).collect();
    let shown: Vec<String> = variables.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let mut need = |name: &str| variables.insert(name.to_owned(), "1".to_owned());
    if needed.browser {
        need("KEW_CHROMIUM_NEEDED");
    }
    if needed.curl {
        need("KEW_CURL_NEEDED");
    }
    if let Some(packages) = packages {
        run.step("packages of the clients", || {
            packages.join().map_err(|_| "their installation panicked".to_owned())
        });
        variables.extend(runtime_of_workers());
    }
    run.step("tests", || {
        println!("\n== tests with {}", shown.join(" "));
        programs::run_all(&programs?, &variables, limit)
    });
}

/// Has the tests of Workers run in the real runtime, which comes with the packages of the vendor's command line: then
/// none of them may be left out.
fn runtime_of_workers() -> Vec<(String, String)> {
    let Some(program) = e2e::workerd() else {
        println!(
            "\n== Workers: MISSING  the program workerd (npm brings it): tests in the real runtime are left out"
        );
        return Vec::new();
    };
    let program = program.display().to_string();
    vec![("KEW_WORKERD".to_owned(), program), ("KEW_WORKERD_NEEDED".to_owned(), "1".to_owned())]
}

/// The front-ends' wire tests once more: what they show over the in-memory store must hold over the embedded one.
///
/// It is `--workspace`: with `--package` the dependencies have other features, and dozens of crates that
/// the step before has built would be built again.
fn wire_tests_over_the_log() -> Done {
    let mut command = cargo(&["test", "--workspace", "--test", "wire", "--no-fail-fast"]);
    programs::tests_of("wire tests over the embedded store", command.env("KEW_TEST_STORE", "log"), LONG_LIMIT)
}

fn chosen(name: &str, value: &str) -> String {
    env::var(name).unwrap_or_else(|_| value.to_owned())
}
