//! What the program says of itself: its version, completions for shells, man pages.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Command};
use clap_complete::Shell;
use serde_json::json;

use crate::exit;

/// The commit it was built from, with a `+` where more may have been changed; `unknown` outside git.
const COMMIT: &str = env!("BUILT_FROM_COMMIT");
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The arguments of `kew version`.
#[derive(Args, Debug)]
pub(super) struct VersionArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The arguments of `kew completions`.
#[derive(Args, Debug)]
pub(super) struct CompletionsArgs {
    /// For which shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// The arguments of `kew man`.
#[derive(Args, Debug)]
pub(super) struct ManArgs {
    /// Of which command, such as `queue ls`; otherwise of kew itself
    #[arg(value_name = "COMMAND")]
    command: Vec<String>,

    /// Write the pages of all commands into this directory
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    dir: Option<PathBuf>,
}

/// Prints version and commit.
pub(super) fn version(args: &VersionArgs) -> ExitCode {
    let text = if args.json {
        json!({ "version": VERSION, "commit": COMMIT }).to_string()
    } else {
        format!("kew {VERSION} (commit {COMMIT})")
    };
    ended(writeln!(io::stdout().lock(), "{text}"))
}

/// Prints completions.
pub(super) fn completions(args: &CompletionsArgs, mut line: Command) -> ExitCode {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut line, "kew", &mut text);
    ended(io::stdout().lock().write_all(&text))
}

/// Prints the man page of a command, or writes those of all.
pub(super) fn man(args: &ManArgs, mut line: Command) -> ExitCode {
    line.build();
    if let Some(directory) = &args.dir {
        return ended(std::fs::create_dir_all(directory).and_then(|()| write_all(directory, &line)));
    }
    let mut command = &line;
    for name in &args.command {
        let Some(found) = command.get_subcommands().find(|inner| inner.get_name() == name) else {
            let _told = writeln!(io::stderr().lock(), "error: {} has no command {name}", command.get_name());
            return ExitCode::from(exit::WRONG);
        };
        command = found;
    }
    ended(page(command).and_then(|text| io::stdout().lock().write_all(&text)))
}

fn write_all(directory: &Path, command: &Command) -> io::Result<()> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).replace(' ', "-");
    std::fs::write(directory.join(format!("{name}.1")), page(command)?)?;
    let shown = command.get_subcommands().filter(|inner| !inner.is_hide_set());
    shown.into_iter().try_for_each(|inner| write_all(directory, inner))
}

fn page(command: &Command) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    let version = concat!("kew ", env!("CARGO_PKG_VERSION"));
    clap_mangen::Man::new(command.clone()).source(version).render(&mut text)?;
    Ok(text)
}

fn ended(written: io::Result<()>) -> ExitCode {
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // With a closed output the exit code says it all.
            let _told = writeln!(io::stderr().lock(), "error: {error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn build_script_sets_no_variable_that_the_program_would_refuse() {
        // `cargo run` hands it to the program, which refuses variables KEW_… that it does not know.
        let script = include_str!("../../build.rs");
        assert!(script.contains("cargo::rustc-env=") && !script.contains("cargo::rustc-env=KEW_"));
    }
}
