//! `kew`: everything is in the library beside this file.

use std::process::ExitCode;

fn main() -> ExitCode {
    kew::cli::run()
}
