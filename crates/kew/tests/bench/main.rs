//! `kew bench` against a real `kew serve`: what it verifies and prints, and that kills in the middle lose nothing.

mod kills;
mod loads;
#[path = "../serve/program.rs"]
#[allow(dead_code, reason = "the tests of the server use the rest")]
mod program;

use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// `kew bench` with these words, started.
fn bench(words: &[&str]) -> std::process::Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kew"));
    command.arg("bench").args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("the program kew is built with its tests")
}

/// What it printed as JSON, once it is over; it must have found nothing wrong.
fn document(output: &Output, what: &str) -> Value {
    let (said, told) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{what}: {}\n{said}\n{told}", output.status);
    serde_json::from_str(&said).unwrap_or_else(|error| panic!("{what}: {error} in {said}"))
}
