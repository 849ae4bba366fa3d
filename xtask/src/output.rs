//! What a test program prints: kept in a file, shown as it grows, and searched for the tests that failed.
//!
//! A long run is often read by its last lines alone, so they must name the test that failed and say why.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

/// How many lines of a failed test are repeated, and how many characters of each.
const LINES: usize = 6;
const CHARACTERS: usize = 300;
/// How many failed tests of one program are named.
const NAMED: usize = 10;
/// How many bytes are shown at a time.
const PIECE: u64 = 64 * 1024;

/// The output of one program.
pub struct Output {
    path: PathBuf,
    written: File,
    read: File,
    on_screen: bool,
}

impl Output {
    /// Keeps the output in this file only.
    pub fn kept(path: &Path) -> Result<Self, String> {
        let cannot = |error: io::Error| format!("cannot write {}: {error}", path.display());
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(cannot)?;
        }
        let written = File::create(path).map_err(cannot)?;
        let read = File::open(path).map_err(cannot)?;
        Ok(Self { path: path.to_owned(), written, read, on_screen: false })
    }

    /// Keeps the output in this file and shows it.
    pub fn shown(path: &Path) -> Result<Self, String> {
        Ok(Self { on_screen: true, ..Self::kept(path)? })
    }

    /// Has a command write here.
    pub fn take(&self, command: &mut Command) -> Result<(), String> {
        let copy = || self.written.try_clone().map_err(|error| format!("cannot write the output: {error}"));
        command.stdout(copy()?).stderr(copy()?);
        Ok(())
    }

    /// Shows what was written since the last call.
    pub fn show(&mut self) {
        let mut piece = Vec::new();
        while self.on_screen && (&self.read).take(PIECE).read_to_end(&mut piece).is_ok_and(|read| read > 0) {
            let mut screen = io::stdout().lock();
            // A screen that was closed changes no result.
            let _closed = screen.write_all(&piece).and_then(|()| screen.flush());
            piece.clear();
        }
    }

    /// Shows what was kept in a file.
    pub fn show_again(path: &Path) {
        let mut screen = io::stdout().lock();
        // A screen that was closed changes no result.
        let _shown = File::open(path).and_then(|mut file| io::copy(&mut file, &mut screen));
    }

    /// The tests that failed, each with the first lines it printed.
    pub fn failures(&self) -> Vec<String> {
        let bytes = std::fs::read(&self.path).unwrap_or_default();
        failures(&String::from_utf8_lossy(&bytes))
    }
}

/// Failed tests in what a program of `cargo test` printed.
fn failures(text: &str) -> Vec<String> {
    let named = |line: &str| Some(line.strip_prefix("test ")?.strip_suffix(" ... FAILED")?.to_owned());
    let mut names: Vec<String> = text.lines().filter_map(named).collect();
    // With its output shown, a test's verdict stands on a line of its own; the list at the end has the name.
    let list = text.lines().skip_while(|line| *line != "failures:").skip(1);
    names.extend(
        list.filter_map(|line| line.strip_prefix("---- ")?.strip_suffix(" stdout ----")).map(str::to_owned),
    );
    names.sort();
    names.dedup();
    names.into_iter().take(NAMED).map(|name| format!("{name}{}", reason(text, &name))).collect()
}

/// The first lines of a failed test's own output.
fn reason(text: &str, name: &str) -> String {
    let head = format!("---- {name} stdout ----");
    let section = text.lines().skip_while(|line| *line != head).skip(1);
    let section = section.take_while(|line| !line.starts_with("---- ") && *line != "failures:");
    // What it printed before it failed is in the file; the panic says why.
    let section: Vec<&str> = section.filter(|line| !line.trim().is_empty()).collect();
    let panic = section.iter().position(|line| line.contains(" panicked at ")).unwrap_or(0);
    let lines = section.iter().skip(panic).take(LINES);
    lines.map(|line| format!("\n      {}", line.chars().take(CHARACTERS).collect::<String>())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTED: &str = "\
running 3 tests
test one::passes ... ok
test one::fails ... FAILED
test two::fails_too ... FAILED

failures:

---- one::fails stdout ----
a line before

thread 'one::fails' panicked at a.rs:1:2:
3 messages, not 4
---- two::fails_too stdout ----

thread 'two::fails_too' panicked at b.rs:3:4:
late


failures:
    one::fails
    two::fails_too

test result: FAILED. 1 passed; 2 failed
";

    #[test]
    fn failed_tests_are_named_with_what_they_say() {
        assert_eq!(
            failures(PRINTED),
            [
                "one::fails\n      thread 'one::fails' panicked at a.rs:1:2:\n      3 messages, not 4",
                "two::fails_too\n      thread 'two::fails_too' panicked at b.rs:3:4:\n      late",
            ]
        );
        assert!(failures("test one::passes ... ok\n").is_empty());
    }

    #[test]
    fn test_whose_output_was_shown_is_named_by_the_list_at_the_end() {
        let shown =
            PRINTED.replace("test one::fails ... FAILED", "test one::fails ... a line before\nFAILED");
        assert_eq!(failures(&shown), failures(PRINTED));
    }

    #[test]
    fn long_reasons_are_cut() {
        let lines = "x".repeat(1_000);
        let text =
            format!("test t ... FAILED\nfailures:\n---- t stdout ----\n{}", format!("{lines}\n").repeat(100));
        let cut = failures(&text).concat();
        assert_eq!(cut.lines().count(), 1 + LINES);
        assert!(cut.lines().all(|line| line.len() <= CHARACTERS + 6), "{cut}");
    }
}
