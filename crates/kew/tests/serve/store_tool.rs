//! `kew store`, run as its users run it.

use std::ffi::OsStr;
use std::process::{Command, Output};

/// A command on a store.
pub fn command(store: impl AsRef<OsStr>, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kew"));
    command.env("KEW_STORE", store).arg("store").args(arguments);
    command
}

/// Runs a command on a store.
pub fn tool(store: impl AsRef<OsStr>, arguments: &[&str]) -> Output {
    command(store, arguments).output().expect("the program kew is built with its tests")
}

/// Runs one that must succeed, and says what it printed.
pub fn done(store: impl AsRef<OsStr>, arguments: &[&str]) -> String {
    let output = tool(store, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", errors(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What a command said about its failure.
pub fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
