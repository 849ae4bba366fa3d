//! What the measurements read from their words and make of their ends alike.

use std::fmt::Display;
use std::process::ExitCode;
use std::str::FromStr;

/// A number of the command line; anything else is answered with the usage.
pub fn number<N: FromStr>(text: &str, usage: &str) -> Result<N, String> {
    text.parse().map_err(|_| format!("{text:?} is not a number\n\n{usage}"))
}

/// Whether a part is to be measured: all are where none is named.
pub fn wants(named: &[String], part: &str) -> bool {
    named.is_empty() || named.iter().any(|name| name == part)
}

/// Measures by a plan. Words that are no plan exit with 2, a measurement that fails or misses a bound with 1.
pub fn run<P, E: Display>(plan: Result<P, String>, measure: impl FnOnce(&P) -> Result<bool, E>) -> ExitCode {
    let plan = match plan {
        Ok(plan) => plan,
        Err(problem) => {
            eprintln!("{problem}");
            return ExitCode::from(2);
        }
    };
    match measure(&plan) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(fault) => {
            eprintln!("kew-bench: {fault}");
            ExitCode::FAILURE
        }
    }
}
