//! `kew admin hash`: a password for `[[admin.users]]`, read from standard input so that no shell remembers it.

use std::fmt::Display;
use std::io::{self, Read, Write};
use std::process::ExitCode;

use clap::Subcommand;

use crate::exit;

/// More than any password has.
const INPUT_BYTES_MAX: u64 = 4_096;

/// What may be asked.
#[derive(Subcommand, Debug)]
pub(super) enum AdminCommand {
    /// Read a password from standard input and print its hash, for password_hash of [[admin.users]]
    Hash,
}

/// Does it.
pub(super) fn run(command: &AdminCommand) -> ExitCode {
    let AdminCommand::Hash = command;
    match hash() {
        Ok(hash) => {
            let written = writeln!(io::stdout().lock(), "{hash}");
            if written.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err((code, error)) => {
            // With a closed output the exit code says it all.
            let _told = writeln!(io::stderr().lock(), "error: {error}");
            code
        }
    }
}

/// The hash of the password on standard input, without the end of its line; or why there is none, with the exit code
/// that says whose fault that is.
fn hash() -> Result<String, (ExitCode, String)> {
    let failed = |doing: &str, error: &dyn Display| (ExitCode::FAILURE, format!("{doing}: {error}"));
    let wrong = |why: String| (ExitCode::from(exit::WRONG), why);
    let mut password = Vec::new();
    let read = io::stdin().lock().take(INPUT_BYTES_MAX).read_to_end(&mut password);
    read.map_err(|error| failed("reading the password from standard input", &error))?;
    let end = password.strip_suffix(b"\n").unwrap_or(&password);
    let end = end.strip_suffix(b"\r").unwrap_or(end);
    if end.contains(&b'\n') {
        return Err(wrong("standard input has more than one line".to_owned()));
    }
    let mut chance = [0; 16];
    getrandom::fill(&mut chance).map_err(|error| failed("asking for random numbers", &error))?;
    kew_console::hash_password(end, u128::from_ne_bytes(chance)).map_err(wrong)
}
