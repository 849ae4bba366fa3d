//! What `check`, `test`, `test-long` and `bench` consist of.
//!
//! The three test runs are the same steps; the counts differ, and the larger two also run the vendors' clients. A step
//! that fails does not end a run; the end lists every step with its time and its failure. The counts are environment
//! variables that the tests read (docs/testing.md). A variable that is already set wins, so one run can be made smaller
//! or larger.

use crate::run::{Run, cargo, step};
use crate::{Done, circles, compatibility, console, e2e, guard, layers, lines, programs, repeat, tools};
use std::env;
use std::process::{Command, Stdio};
use std::time::Duration;

type Counts = &'static [(&'static str, &'static str)];

const CHECK: Counts = &[("KEW_MODEL_HISTORIES", "200")];
const TEST: Counts = &[
    ("KEW_MODEL_HISTORIES", "2000"),
    ("KEW_CRASH", "every"),
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

/// Clients that play over three nodes in a short run: one of each dialect, and all dialects on one queue.
const ON_NODES: &[&str] = &["boto3", "azure-python", "cloudflare-typescript", "dialects"];

/// Cases that are made up for each operation of the admin API in a long run.
const FUZZED_CASES: &str = "300";

/// How long one test program may take; the longest takes four minutes on two cores.
const LIMIT: Duration = Duration::from_secs(20 * 60);
const LONG_LIMIT: Duration = Duration::from_secs(12 * 3_600);

/// Format, lints, layers, then every test with small counts.
pub fn check() -> Done {
    let mut run = Run::begin();
    house(&mut run);
    tests(&mut run, CHECK, false, LIMIT);
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
    let browser = tools::browser();
    let has_postgres = tools::postgres();
    let has_nginx = tools::nginx();
    let has_promtool = tools::promtool();
    house(run);
    tests(run, counts, browser, limit);
    run.step("wire tests over the embedded store", wire_tests_over_the_log);
    run.step("guard of hot paths", || guard::run(&[]));
    if has_promtool {
        run.step("alert rules", alert_rules);
    }
    run.step("the vendors' clients", || e2e::run(&[]));
    run.step("console in a browser", || console::run(&[]));
    if has_postgres {
        run.step("clients over PostgreSQL", || e2e::run(&[&["--store", "postgres"], on_postgres].concat()));
    }
    if has_postgres && has_nginx {
        let words = [&["--store", "postgres", "--nodes", "3"], on_nodes].concat();
        run.step("clients over three nodes", || e2e::run(&words));
    }
    run.step("Workers in the real runtime", || workers_in_the_real_runtime(counts));
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
        step("lints", &mut cargo(&lints))
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

/// Examples in documents come first, so that a run ends with the tests themselves. With a browser, none of its tests
/// may be left out.
fn tests(run: &mut Run, counts: Counts, browser: bool, limit: Duration) {
    run.step("examples in documents", || {
        step("examples in documents", &mut cargo(&["test", "--workspace", "--doc", "--quiet"]))
    });
    run.step("tests", || {
        let counts: Vec<(&str, String)> =
            counts.iter().map(|&(name, value)| (name, chosen(name, value))).collect();
        let shown: Vec<String> = counts.iter().map(|(name, value)| format!("{name}={value}")).collect();
        println!("\n== tests with {}", shown.join(" "));
        let browser = browser.then(|| ("KEW_CHROMIUM_NEEDED", "1".to_owned()));
        let variables = counts.into_iter().chain(browser).map(|(name, value)| (name.to_owned(), value));
        programs::run_all(&variables.collect(), limit)
    });
}

/// The front-ends' wire tests once more: what they show over the in-memory store must hold over the embedded one.
///
/// Here and below it is `--workspace`: with `--package` the dependencies have other features, and dozens of crates that
/// the step before has built would be built again.
fn wire_tests_over_the_log() -> Done {
    let mut command = cargo(&["test", "--workspace", "--test", "wire", "--no-fail-fast"]);
    programs::tests_of("wire tests over the embedded store", command.env("KEW_TEST_STORE", "log"), LONG_LIMIT)
}

/// Tests that need the runtime's program, which comes with the packages of the vendor's command line. Here none of them
/// may be left out.
fn workers_in_the_real_runtime(counts: Counts) -> Done {
    let Some(program) = e2e::workerd() else {
        println!(
            "\n== Workers: MISSING  the program workerd (npm brings it): tests in the real runtime are left out"
        );
        return Ok(());
    };
    for (test, names) in
        [("push", &["workers"][..]), ("serve", &["worker", "dev", "push_attempts"]), ("bench", &["worker"])]
    {
        let mut command = cargo(&["test", "--workspace", "--test", test, "--no-fail-fast", "--"]);
        command.args(names).envs(counts.iter().map(|&(name, value)| (name, chosen(name, value))));
        command.env("KEW_WORKERD", &program).env("KEW_WORKERD_NEEDED", "1");
        let name = format!("Workers of the tests {test} in the real runtime");
        programs::tests_of(&name, &mut command, LONG_LIMIT)?;
    }
    Ok(())
}

fn chosen(name: &str, value: &str) -> String {
    env::var(name).unwrap_or_else(|_| value.to_owned())
}
