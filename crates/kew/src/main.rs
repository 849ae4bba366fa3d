//! `kew`: everything is in the library beside this file.

use std::process::ExitCode;

/// A request makes some thirty small allocations, all on one thread.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    kew::cli::run()
}
