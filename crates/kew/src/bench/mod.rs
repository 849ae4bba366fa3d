//! `kew bench`: load on a running server, with every reply and every message verified.
//!
//! One thread drives all connections, so that little is taken from the server under measurement. [`dialect`] says how a
//! request looks, [`scenario`] which requests are made, [`tally`] whether a message was lost, doubled or disordered,
//! [`figures`] what it took. The [`push`] scenario goes its own way: there the server comes to us. The floor
//! ([`floor`]) is a bare server in this process; `--compare` runs it in turn with the target and tells the ratio, which
//! is what can be compared between machines.

mod azure;
mod client;
mod cloudflare;
mod dialect;
mod figures;
mod floor;
mod plan;
mod process;
mod progress;
mod push;
mod report;
mod run;
mod scenario;
mod sign;
mod sqs;
mod tally;

use std::process::ExitCode;

use crate::exit;

pub use plan::BenchArgs;

/// What goes wrong in a measurement, printed at the terminal.
type Fault = Box<dyn std::error::Error>;

/// Measures, prints, and fails when a reply or a message was not what it should be.
pub fn run(args: &BenchArgs) -> ExitCode {
    if let Err(wrong) = args.check() {
        eprintln!("kew bench: {wrong}");
        return ExitCode::from(exit::WRONG);
    }
    match run::measure(args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(fault) => {
            eprintln!("kew bench: {fault}");
            ExitCode::FAILURE
        }
    }
}
