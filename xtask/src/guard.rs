//! The guard of hot paths: instructions of each, counted under valgrind, against the counts the repository expects.
//!
//! Wall times and CPU times move with the machine's mood; instructions hardly do. `bench/guard.txt` holds what each hot
//! path may take. More than the tolerance above that fails; less is printed, so that the count is lowered with the
//! change.

use crate::run::{cargo, step};
use crate::{Done, programs};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

const EXPECTED: &str = "bench/guard.txt";
/// What is collected: the functions that the parts that count run in (`bench/src/guard`). One pattern: of two with one
/// beginning valgrind finds neither.
const COUNTED: &str = "--toggle-collect=*guard::counted_*";
/// How many are counted beside each other: that changes times, and no count.
const LANES: usize = 2;
/// The counts are those of this kind of processor.
const PROCESSOR: &str = "x86_64";

/// One hot path and how many instructions it takes each time.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Count {
    name: String,
    instructions: u64,
}

/// What the file expects.
#[derive(PartialEq, Debug)]
struct Expected {
    /// In hundredths.
    tolerance: f64,
    counts: Vec<Count>,
}

/// Counts every hot path and compares; or writes what was counted.
pub fn run(arguments: &[&str]) -> Done {
    let write = match arguments {
        [] => false,
        ["--write"] => true,
        _ => return Err("guard takes no argument, or --write".to_owned()),
    };
    if std::env::consts::ARCH != PROCESSOR {
        println!(
            "\n== guard: MISSING  counts for this kind of processor; they are {PROCESSOR}'s: not guarded"
        );
        return Ok(());
    }
    if !find_valgrind() {
        println!(
            "\n== guard: MISSING  valgrind, which counts instructions, and it cannot be installed (apt-get install valgrind): hot paths are not guarded"
        );
        return Ok(());
    }
    let program = build()?;
    println!("\n== guard: instructions of hot paths");
    let names = names(&program)?;
    let counted = Mutex::new(BTreeMap::new());
    programs::side_by_side(LANES, &names, |name| {
        let instructions = count(&program, name);
        counted.lock().unwrap_or_else(PoisonError::into_inner).insert(name.clone(), instructions);
    });
    let mut counted = counted.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut counts = Vec::new();
    for name in names {
        let instructions = counted.remove(&name).expect("every path was counted")?;
        counts.push(Count { name, instructions });
    }
    let expected = fs::read_to_string(EXPECTED).map_err(|error| format!("{EXPECTED}: {error}"))?;
    let expected = Expected::read(&expected)?;
    if write {
        let text = Expected { counts, ..expected }.text();
        fs::write(EXPECTED, &text).map_err(|error| format!("{EXPECTED}: {error}"))?;
        println!("{text}");
        return Ok(());
    }
    let (lines, broken) = compare(&expected, &counts);
    lines.iter().for_each(|line| println!("  {line}"));
    if broken == 0 {
        return Ok(());
    }
    Err(format!(
        "{broken} hot paths take more than {EXPECTED} allows, or are not in it: find out why (docs/performance.md), or say so with `cargo xtask guard --write`"
    ))
}

/// A line for each hot path, and how many of them are not as expected.
fn compare(expected: &Expected, counts: &[Count]) -> (Vec<String>, usize) {
    let mut broken = 0;
    let mut lines = Vec::new();
    for Count { name, instructions } in counts {
        let Some(before) = expected.counts.iter().find(|count| count.name == *name) else {
            broken += 1;
            lines.push(format!("UNKNOWN   {name}: {instructions}"));
            continue;
        };
        let change = (*instructions as f64 / before.instructions as f64 - 1.0) * 100.0;
        let allowed = before.instructions as f64 * (1.0 + expected.tolerance / 100.0);
        let word = if *instructions as f64 > allowed {
            broken += 1;
            "EXCEEDED"
        } else if change < -expected.tolerance {
            "less    "
        } else {
            "holds   "
        };
        lines.push(format!(
            "{word}  {name}: {instructions}, expected {} ({change:+.1} %)",
            before.instructions
        ));
    }
    for Count { name, .. } in &expected.counts {
        if !counts.iter().any(|count| count.name == *name) {
            broken += 1;
            lines.push(format!("GONE      {name}"));
        }
    }
    (lines, broken)
}

impl Expected {
    fn read(text: &str) -> Result<Self, String> {
        let mut expected = Self { tolerance: 0.0, counts: Vec::new() };
        let lines = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
        for line in lines {
            let wrong = || format!("{EXPECTED}: {line:?} is not a name and a number");
            let (name, number) = line.split_once(char::is_whitespace).ok_or_else(wrong)?;
            let number = number.trim();
            if name == "tolerance" {
                expected.tolerance = number.trim_end_matches(" %").parse().map_err(|_| wrong())?;
            } else {
                let instructions = number.parse().map_err(|_| wrong())?;
                expected.counts.push(Count { name: name.to_owned(), instructions });
            }
        }
        Ok(expected)
    }

    fn text(&self) -> String {
        let mut text = format!(
            "# Instructions that each hot path takes once, built with opt-level 1 on {PROCESSOR}.\n\
             # Compared by `cargo xtask guard`, rewritten by `cargo xtask guard --write` (docs/performance.md).\n\
             tolerance               {} %\n\n",
            self.tolerance
        );
        for Count { name, instructions } in &self.counts {
            text += &format!("{name:<23} {instructions}\n");
        }
        text
    }
}

/// Whether there is a valgrind; installed when it is missing and may be.
pub fn find_valgrind() -> bool {
    let there = || quiet(Command::new("valgrind").arg("--version"));
    there()
        || (quiet(Command::new("apt-get").args(["install", "--yes", "--no-install-recommends", "valgrind"]))
            && there())
}

fn quiet(command: &mut Command) -> bool {
    let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Built by itself, optimised, without the features that tests add to the store: what is counted is the program that
/// people run.
/// Never incrementally: the smaller units of such a build inline less, and each path takes up to a quarter more.
///
/// It is `--workspace`, with the features that bring the tests' signer and their runtime: then twenty crates of others,
/// the TLS library among them, have the features that the tests were built with, and are not built again.
fn build() -> Result<PathBuf, String> {
    let features = "kew-testing/signer,kew-testing/same-runtime";
    let words = ["build", "--workspace", "--bin", "kew-bench", "--features", features];
    let mut command = cargo(&words);
    let manifest = fs::read_to_string("Cargo.toml").map_err(|error| format!("Cargo.toml: {error}"))?;
    for name in not_optimised(&manifest) {
        command.args(["--config", &format!("profile.dev.package.{name}.opt-level=1")]);
    }
    step("the walker of hot paths", command.env("CARGO_INCREMENTAL", "0"))?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    Ok(target.join("debug/kew-bench"))
}

/// Crates of the house that tests build without optimising them. What is counted is optimised.
fn not_optimised(manifest: &str) -> impl Iterator<Item = &str> {
    let packages = manifest.lines().skip_while(|line| *line != "[profile.dev.package]").skip(1);
    packages
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| line.strip_suffix(" = { opt-level = 0 }"))
}

/// The hot paths there are.
fn names(program: &Path) -> Result<Vec<String>, String> {
    let said = Command::new(program).arg("--guard-list").output();
    let said = said.map_err(|error| format!("{}: {error}", program.display()))?;
    Ok(String::from_utf8_lossy(&said.stdout).lines().map(str::to_owned).collect())
}

/// Instructions of one hot path, each time.
fn count(program: &Path, name: &str) -> Result<u64, String> {
    let folder = program.with_file_name("guard");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let out = folder.join(format!("{name}.callgrind"));
    let mut command = Command::new("valgrind");
    command.arg(format!("--callgrind-out-file={}", out.display()));
    command.args(["--tool=callgrind", COUNTED]);
    command.arg(program).args(["--guard", name, "--dir"]).arg(&folder);
    let said = command.stdin(Stdio::null()).output().map_err(|error| format!("valgrind: {error}"))?;
    if !said.status.success() {
        return Err(format!("{name} under valgrind:\n{}", String::from_utf8_lossy(&said.stderr)));
    }
    let figure = |text: &str, before: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(before).map(str::trim).map(str::to_owned));
        line.and_then(|number| number.parse::<u64>().ok())
    };
    let counted = fs::read_to_string(&out).map_err(|error| format!("{}: {error}", out.display()))?;
    let total = figure(&counted, "totals:").or_else(|| figure(&counted, "summary:"));
    let times = figure(&String::from_utf8_lossy(&said.stdout), "walked");
    match total.zip(times) {
        Some((total, times)) if total > 0 && times > 0 => Ok(total / times),
        _ => Err(format!("{name}: nothing was counted in {}", out.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(name: &str, instructions: u64) -> Count {
        Count { name: name.to_owned(), instructions }
    }

    fn expected() -> Expected {
        Expected { tolerance: 5.0, counts: vec![count("send", 1_000), count("receive", 2_000)] }
    }

    #[test]
    fn crates_that_tests_do_not_optimise_are_found_in_the_manifest() {
        let manifest = "[profile.dev]\nkew = { opt-level = 0 }\n[profile.dev.package]\n\
            kew-sqs = { opt-level = 0 }\nkew-core = { opt-level = 2 }\nkew-push = { opt-level = 0 }\n\n\
            [profile.release]\nkew-http = { opt-level = 0 }\n";
        assert_eq!(not_optimised(manifest).collect::<Vec<_>>(), ["kew-sqs", "kew-push"]);
        let own = fs::read_to_string("../Cargo.toml").expect("the workspace has a manifest");
        assert!(not_optimised(&own).any(|name| name == "kew-sqs"), "the manifest is laid out as it is read");
    }

    #[test]
    fn counts_within_the_tolerance_hold() {
        let (lines, broken) = compare(&expected(), &[count("send", 1_050), count("receive", 1_900)]);
        assert_eq!(broken, 0, "{lines:?}");
    }

    #[test]
    fn a_count_beyond_the_tolerance_is_broken_and_named() {
        let (lines, broken) = compare(&expected(), &[count("send", 1_051), count("receive", 2_000)]);
        assert_eq!(broken, 1, "{lines:?}");
        assert!(lines[0].starts_with("EXCEEDED  send: 1051, expected 1000 (+5.1 %)"), "{lines:?}");
    }

    #[test]
    fn less_is_told_and_not_broken() {
        let (lines, broken) = compare(&expected(), &[count("send", 900), count("receive", 2_000)]);
        assert_eq!(broken, 0);
        assert!(lines[0].starts_with("less"), "{lines:?}");
    }

    #[test]
    fn a_path_that_is_new_or_gone_is_broken() {
        let (lines, broken) = compare(&expected(), &[count("send", 1_000), count("pull", 1)]);
        assert_eq!(broken, 2, "{lines:?}");
    }

    #[test]
    fn what_is_written_reads_back() {
        assert_eq!(Expected::read(&expected().text()), Ok(expected()));
        assert!(Expected::read("send many\n").is_err());
    }

    #[test]
    fn the_repository_expects_something_of_every_part() {
        let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(EXPECTED));
        let expected =
            Expected::read(&text.expect("the file of counts exists")).expect("the file of counts is valid");
        assert!(expected.tolerance > 0.0 && expected.tolerance <= 10.0);
        for part in ["engine", "sqs-json", "sqs-signed", "azure", "cloudflare"] {
            assert!(expected.counts.iter().any(|count| count.name.starts_with(part)), "{part}");
        }
    }
}
