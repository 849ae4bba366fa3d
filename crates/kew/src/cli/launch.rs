//! `kew launch-with-parent`: becomes another program that ends when the process that started it does.
//!
//! For Kew's own use. A server that is killed cannot end its children; so each is started through this, which asks the
//! system to end it with its parent before it becomes what it should be.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Args;

#[derive(Args, Debug)]
pub(super) struct LaunchArgs {
    /// The process that started this
    parent: i32,
    /// The program and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    program: Vec<OsString>,
}

/// Becomes the program.
pub(super) fn run(args: &LaunchArgs) -> ExitCode {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
        let asked = set_parent_process_death_signal(Some(Signal::KILL));
        // The parent may have gone before it was asked for.
        if asked.is_err() || getppid() != Pid::from_raw(args.parent) {
            return ExitCode::FAILURE;
        }
    }
    let Some((program, arguments)) = args.program.split_first() else { return ExitCode::FAILURE };
    become_program(std::process::Command::new(program).args(arguments))
}

#[cfg(unix)]
fn become_program(command: &mut std::process::Command) -> ExitCode {
    use std::os::unix::process::CommandExt;
    // It comes back only when it failed.
    let cause = command.exec();
    eprintln!("cannot run {}: {cause}", command.get_program().display());
    ExitCode::FAILURE
}
