//! What commands print: tables and lines for people, objects for scripts; nothing in a body moves a terminal.

use std::io::{self, BufRead, IsTerminal, Write};

use serde_json::Value;

use super::{Done, Failure};

/// Where results go.
pub(super) struct Out {
    pub(super) json: bool,
    /// Whether a person looks at it.
    pub(super) is_terminal: bool,
    /// What was said once on standard error.
    said: Vec<&'static str>,
}

impl Out {
    pub(super) fn new(json: bool) -> Self {
        Self { json, is_terminal: io::stdout().is_terminal(), said: Vec::new() }
    }

    /// One line.
    pub(super) fn line(&mut self, text: &str) -> Done {
        let mut stdout = io::stdout().lock();
        writeln!(stdout, "{text}").and_then(|()| stdout.flush()).map_err(|_| Failure::Closed)
    }

    /// A result: the object with `--json`, else the line.
    pub(super) fn result(&mut self, value: &Value, line: &str) -> Done {
        if self.json { self.object(value) } else { self.line(line) }
    }

    /// An object: as it is to a file or a pipe; to a terminal with escapes for what would move it.
    pub(super) fn object(&mut self, value: &Value) -> Done {
        let text = value.to_string();
        if self.is_terminal { self.line(&harmless_json(&text)) } else { self.line(&text) }
    }

    /// A text of somebody else's, such as a body: as it is to a file or a pipe, without control to a terminal.
    pub(super) fn text(&mut self, text: &str) -> Done {
        if self.is_terminal { self.line(&harmless(text)) } else { self.line(text) }
    }

    /// Bytes as they are, with nothing behind them.
    pub(super) fn bytes(&mut self, bytes: &[u8]) -> Done {
        let mut stdout = io::stdout().lock();
        stdout.write_all(bytes).and_then(|()| stdout.flush()).map_err(|_| Failure::Closed)
    }

    /// Says something on standard error, also where that is no terminal: once, however often it is so.
    pub(super) fn say_once(&mut self, text: &'static str) {
        if !self.said.contains(&text) {
            self.said.push(text);
            let _told = writeln!(io::stderr().lock(), "{text}");
        }
    }

    /// Rows under their titles, as wide as they need.
    pub(super) fn table(&mut self, titles: &[&str], rows: &[Vec<String>]) -> Done {
        for line in table(titles, rows) {
            self.line(&line)?;
        }
        Ok(())
    }
}

/// The lines of a table: the first column to the left, the others, which hold numbers, to the right.
fn table(titles: &[&str], rows: &[Vec<String>]) -> Vec<String> {
    let width = |column: usize, title: &str| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain([title.chars().count()]).max().unwrap_or_default()
    };
    let widths: Vec<usize> = titles.iter().enumerate().map(|(column, title)| width(column, title)).collect();
    let line = |cells: Vec<&str>| {
        let padded = cells.iter().zip(&widths).enumerate().map(|(column, (cell, width))| match column {
            0 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let titles = line(titles.to_vec());
    let rows = rows.iter().map(|row| line(row.iter().map(String::as_str).collect()));
    std::iter::once(titles).chain(rows).collect()
}

/// Whether a character turns the direction of what follows.
fn turns(character: char) -> bool {
    matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// JSON in which such characters are escapes, so that it stays the same JSON.
fn harmless_json(text: &str) -> String {
    let mut harmless = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() || turns(character) {
            // All of them are of the basic plane.
            harmless.push_str(&format!("\\u{:04x}", u32::from(character)));
        } else {
            harmless.push(character);
        }
    }
    harmless
}

/// A text without characters that move a terminal or turn the direction of what follows.
pub(in crate::cli) fn harmless(text: &str) -> String {
    let mut harmless = String::with_capacity(text.len());
    for character in text.chars() {
        let is_control = character.is_control() && !matches!(character, '\n' | '\t');
        if is_control || turns(character) {
            harmless.extend(character.escape_unicode());
        } else {
            harmless.push(character);
        }
    }
    harmless
}

/// Says why something failed.
pub(super) fn error(why: &str) {
    // With a closed output the exit code says it all.
    let _told = writeln!(io::stderr().lock(), "error: {}", harmless(why));
}

/// A note for a person; nothing without a terminal.
pub(super) fn note(text: &str) {
    let stderr = io::stderr();
    if stderr.is_terminal() {
        let _told = writeln!(stderr.lock(), "{}", harmless(text));
    }
}

/// How far something is, in a line that the next one replaces; nothing without a terminal.
pub(super) fn progress(text: &str, is_last: bool) {
    let stderr = io::stderr();
    if stderr.is_terminal() {
        let end = if is_last { "\n" } else { "" };
        let mut stderr = stderr.lock();
        let _told = write!(stderr, "\r\u{1b}[K{text}{end}").and_then(|()| stderr.flush());
    }
}

/// Whether something that destroys is wanted: said with `--yes`, or by typing the name at a terminal.
pub(super) fn confirmed(yes: bool, what: &str, name: &str) -> Done {
    if yes {
        return Ok(());
    }
    let (stdin, stderr) = (io::stdin(), io::stderr());
    if !stdin.is_terminal() || !stderr.is_terminal() {
        return Err(Failure::Usage(format!("{what} needs --yes without a terminal")));
    }
    let _asked = write!(stderr.lock(), "{what}. Type the queue's name to go on: ");
    let mut typed = String::new();
    stdin.lock().read_line(&mut typed).map_err(|error| Failure::Failed(error.to_string()))?;
    if typed.trim() == name {
        Ok(())
    } else {
        Err(Failure::Failed("not confirmed: nothing was done".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [vec!["orders".to_owned(), "7".to_owned()], vec!["a".to_owned(), "12345".to_owned()]];
        assert_eq!(table(&["QUEUE", "N"], &rows), ["QUEUE       N", "orders      7", "a       12345"]);
    }

    #[test]
    fn json_at_a_terminal_is_the_same_json_and_moves_nothing() {
        let value = serde_json::json!({ "body": "a\u{9b}2J\u{202e}\u{7f}é" });
        let shown = harmless_json(&value.to_string());
        assert!(shown.chars().all(|character| !character.is_control() && !turns(character)), "{shown}");
        assert_eq!(serde_json::from_str::<Value>(&shown).expect("harmless JSON is JSON"), value);
    }

    #[test]
    fn nothing_in_a_body_moves_a_terminal() {
        assert_eq!(harmless("a\u{1b}[2J\u{202e}b\r\né\t"), "a\\u{1b}[2J\\u{202e}b\\u{d}\né\t");
    }
}
