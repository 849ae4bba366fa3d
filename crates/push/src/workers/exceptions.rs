//! Exceptions that no handler caught, each said once.
//!
//! The runtime says most of them twice: how they were thrown, with the stack, and how they left its own code, with
//! nothing that helps the author of a Worker.

use std::collections::VecDeque;

use super::output::{Line, Said};

/// How the runtime begins what it says of an exception where it is thrown, and where it leaves.
const THROWN: &str = "uncaught exception; source = ";
const LEFT: &str = "uncaught exception; exception = ";

/// Exceptions whose second line is still expected, at the most: invocations run side by side.
const EXPECTED_MAX: usize = 16;

/// What one child said of exceptions lately.
#[derive(Debug, Default)]
pub(super) struct Exceptions {
    /// Messages of those whose second line is still expected.
    expected: VecDeque<String>,
}

impl Exceptions {
    /// A line without what the runtime has said already.
    pub(super) fn sift(&mut self, line: Line) -> Option<Line> {
        match line {
            Line::OfRuntime(said) => self.once(said).map(Line::Said),
            line => Some(line),
        }
    }

    /// What people are shown of a line of the runtime's; nothing of an exception that it has said already.
    fn once(&mut self, said: Said) -> Option<Said> {
        if let Some(thrown) = said.text.strip_prefix(THROWN) {
            let (source, what) = read(thrown);
            self.expect(message(what));
            let stack: Vec<&str> = what.lines().filter(|line| !is_ours(line)).collect();
            let text = format!("{source} {}", stack.join("\n"));
            return Some(Said { level: "error".to_owned(), text });
        }
        let Some(left) = said.text.strip_prefix(LEFT) else { return Some(said) };
        let place = self.expected.iter().position(|message| left.contains(message.as_str()));
        match place.and_then(|place| self.expected.remove(place)) {
            Some(_said_already) => None,
            None => Some(Said { level: "error".to_owned(), text: said.text }),
        }
    }

    fn expect(&mut self, message: &str) {
        if self.expected.len() == EXPECTED_MAX {
            self.expected.pop_front();
        }
        self.expected.push_back(message.to_owned());
    }
}

/// Where it was not caught, and the stack, or the text of what is no error.
fn read(thrown: &str) -> (&str, &str) {
    let split = ["; stack = ", "; exception = "].iter().find_map(|between| thrown.split_once(between));
    split.unwrap_or(("Uncaught", thrown))
}

/// The first line of an exception's message: its name is another in the second line.
fn message(what: &str) -> &str {
    let first = what.lines().next().unwrap_or_default();
    first.split_once(": ").map_or(first, |(_, message)| message)
}

/// Whether a line of a stack is about a module of ours.
fn is_ours(line: &str) -> bool {
    let place = line.trim_start();
    place.starts_with("at ") && (place.contains("(kew:") || place.starts_with("at kew:"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(exceptions: &mut Exceptions, text: &str) -> Option<(String, String)> {
        let said = Said { level: "info".to_owned(), text: text.to_owned() };
        exceptions.once(said).map(|said| (said.level, said.text))
    }

    fn error(text: &str) -> Option<(String, String)> {
        Some(("error".to_owned(), text.to_owned()))
    }

    // Each pair as workerd 2026-11-17 wrote it.
    #[test]
    fn an_exception_is_said_once_without_what_is_ours() {
        let place = "\n    at Object.queue (index.js:9:11)";
        let ours = "\n    at Object.queue (kew:notes.js:56:46)";
        for (thrown, left, shown) in [
            (
                format!("stack = TypeError: oops{place}{ours}"),
                "jsg.TypeError: oops\nstack: /bin/workerd@40dd220",
                format!("TypeError: oops{place}"),
            ),
            (
                format!("stack = Error: two\nlines{place}{ours}"),
                "jsg.Error: two\nlines",
                format!("Error: two\nlines{place}"),
            ),
            (format!("stack = Own: mine{place}"), "jsg.Error: Own: mine", format!("Own: mine{place}")),
            (
                format!("stack = AbortError: dom{place}"),
                "jsg.DOMException(AbortError): dom",
                format!("AbortError: dom{place}"),
            ),
            (format!("stack = Error{place}"), "jsg.Error", format!("Error{place}")),
            ("exception = text".to_owned(), "jsg.Error: text", "text".to_owned()),
        ] {
            let mut exceptions = Exceptions::default();
            let first = heard(&mut exceptions, &format!("{THROWN}Uncaught (in promise); {thrown}"));
            assert_eq!(first, error(&format!("Uncaught (in promise) {shown}")));
            let left = format!("{LEFT}workerd/jsg/value.h:1456: failed: {left}");
            assert_eq!(heard(&mut exceptions, &left), None, "{thrown}");
            assert_eq!(heard(&mut exceptions, &left), error(&left), "it is another one");
        }
    }

    #[test]
    fn exceptions_of_concurrent_invocations_are_distinguished() {
        let mut exceptions = Exceptions::default();
        for name in ["a-1", "b-2"] {
            assert!(heard(&mut exceptions, &format!("{THROWN}Uncaught; stack = Error: {name}")).is_some());
        }
        assert!(heard(&mut exceptions, &format!("{LEFT}jsg.Error: c-3")).is_some(), "it was not said");
        for name in ["b-2", "a-1"] {
            assert_eq!(heard(&mut exceptions, &format!("{LEFT}jsg.Error: {name}")), None);
        }
        for number in 0..100 {
            heard(&mut exceptions, &format!("{THROWN}Uncaught; stack = Error: {number}"));
        }
        assert_eq!(exceptions.expected.len(), EXPECTED_MAX);
    }

    #[test]
    fn other_lines_are_shown_as_they_are() {
        let mut exceptions = Exceptions::default();
        let line = "script has no handler";
        assert_eq!(heard(&mut exceptions, line), Some(("info".to_owned(), line.to_owned())));
    }
}
