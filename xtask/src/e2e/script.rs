//! A library that cannot make single calls on request: a script of its own plays the scenarios of its chapter and says,
//! one line each, `PASS name` or `FAIL name: reason`. It may ask for `CLOCK milliseconds` or `CRASH` and waits for a
//! line that tells it is done.

use super::scenario::Chapter;
use super::server::Server;
use crate::Done;
use crate::programs::kill_family;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

/// All scenarios of one library.
pub const PATIENCE: Duration = Duration::from_secs(400);
/// Where it was asked to try more than usual.
pub const LONG_PATIENCE: Duration = Duration::from_secs(2 * 3_600);

/// What became of each scenario of the chapter; one that was not reported failed.
pub fn play(
    mut command: Command,
    chapter: &Chapter,
    server: &mut Server,
    (errors, patience): (&Path, Duration),
) -> Result<Vec<(String, Done)>, String> {
    let file = File::create(errors).map_err(|error| format!("{}: {error}", errors.display()))?;
    command.env("KEW_ENDPOINT", server.endpoint()).env("KEW_AZURE", server.azure());
    command.env("KEW_CLOUDFLARE", server.cloudflare());
    command.env("KEW_DIRECTORY", server.directory()).env("KEW_PROGRAM", server.program());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(file);
    let mut child = command.spawn().map_err(|error| format!("{command:?}: {error}"))?;
    let mut input = child.stdin.take().ok_or("the script has no standard input")?;
    let output = child.stdout.take().ok_or("the script has no standard output")?;
    let said = lines_of(output);
    let begun = Instant::now();
    let mut reported: BTreeMap<String, Done> = BTreeMap::new();
    while let Ok(line) = said.recv_timeout(patience.saturating_sub(begun.elapsed())) {
        match line.split_once(' ').unwrap_or((&line, "")) {
            ("PASS", name) => drop(reported.insert(name.to_owned(), Ok(()))),
            ("FAIL", rest) => {
                let (name, reason) = rest.split_once(": ").unwrap_or((rest, ""));
                reported.insert(name.to_owned(), Err(reason.to_owned()));
            }
            ("CLOCK", milliseconds) => {
                server.advance(milliseconds.parse().map_err(|_| format!("script: {line}"))?)?;
                writeln!(input, "done").map_err(|error| error.to_string())?;
            }
            ("CRASH", _) => {
                server.crash()?;
                writeln!(input, "done").map_err(|error| error.to_string())?;
            }
            _ => {}
        }
    }
    // It has said all, or has had all the time there is: then what it has started ends with it.
    kill_family(&mut child);
    Ok(results(chapter, reported, errors))
}

/// The lines of a script, from a thread that ends with them.
fn lines_of(output: ChildStdout) -> Receiver<String> {
    let (sender, said) = channel();
    thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    said
}

/// A result for each scenario of the chapter, and a failure for each that was reported and is not in it.
fn results(chapter: &Chapter, mut reported: BTreeMap<String, Done>, errors: &Path) -> Vec<(String, Done)> {
    let results = chapter.scenarios.iter().map(|scenario| {
        let result = reported.remove(&scenario.name);
        (
            scenario.name.clone(),
            result.unwrap_or_else(|| Err(format!("not reported, see {}", errors.display()))),
        )
    });
    let mut results: Vec<_> = results.collect();
    let others = reported.into_keys();
    results.extend(others.map(|name| (name, Err("is not in the list of scenarios".to_owned()))));
    results
}
