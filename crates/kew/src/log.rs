//! What an operator reads on standard error: one line per event, as text or as JSON.

use std::fmt::Write as _;
use std::io::Write as _;

use clap::ValueEnum;
use kew_core::Timestamp;
use kew_http::{date, json};

use crate::machine;

/// How lines are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// How much a line matters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Level {
    /// Good to know.
    Info,
    /// Somebody should look at it.
    Warn,
    /// Something failed.
    Error,
}

/// Writes lines.
#[derive(Clone, Copy, Debug, Default)]
pub struct Log {
    format: Format,
}

impl Log {
    /// A log in this format.
    pub fn new(format: Format) -> Self {
        Self { format }
    }

    /// Writes one line.
    pub fn tell(self, level: Level, message: &str, fields: &[(&str, &str)]) {
        self.tell_at(machine::system_now(), level, message, fields);
    }

    /// Writes one line of another clock's time.
    pub fn tell_at(self, at: Timestamp, level: Level, message: &str, fields: &[(&str, &str)]) {
        let line = self.line(at, level, message, fields);
        // Nowhere to write to is no reason to stop serving.
        let _written = std::io::stderr().lock().write_all(&line);
    }

    fn line(self, at: Timestamp, level: Level, message: &str, fields: &[(&str, &str)]) -> Vec<u8> {
        match self.format {
            Format::Text => text(at, level, message, fields),
            Format::Json => object(at, level, message, fields),
        }
    }
}

fn text(at: Timestamp, level: Level, message: &str, fields: &[(&str, &str)]) -> Vec<u8> {
    let level = match level {
        Level::Info => "info ",
        Level::Warn => "WARN ",
        Level::Error => "ERROR",
    };
    let mut line = format!("{} {level} {message}", date::rfc3339(at));
    for (name, value) in fields {
        // Writing into a string cannot fail.
        let _written = write!(line, " {name}={value:?}");
    }
    line.push('\n');
    line.into_bytes()
}

fn object(at: Timestamp, level: Level, message: &str, fields: &[(&str, &str)]) -> Vec<u8> {
    let level = match level {
        Level::Info => "info",
        Level::Warn => "warn",
        Level::Error => "error",
    };
    let time = date::rfc3339(at);
    let mut line = Vec::with_capacity(128);
    let own = [("time", time.as_str()), ("level", level), ("message", message)];
    for (place, (name, value)) in own.iter().chain(fields).enumerate() {
        line.push(if place == 0 { b'{' } else { b',' });
        json::push_string(&mut line, name);
        line.push(b':');
        json::push_string(&mut line, value);
    }
    line.extend_from_slice(b"}\n");
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(format: Format) -> String {
        let fields = [("by", "4s"), ("file", "a \"b\"")];
        let line = Log::new(format).line(Timestamp(0), Level::Warn, "late", &fields);
        String::from_utf8(line).expect("lines are text")
    }

    #[test]
    fn lines_hold_time_level_message_and_fields() {
        assert_eq!(
            line(Format::Text),
            "1970-01-01T00:00:00.000Z WARN  late by=\"4s\" file=\"a \\\"b\\\"\"\n"
        );
        assert_eq!(
            line(Format::Json),
            "{\"time\":\"1970-01-01T00:00:00.000Z\",\"level\":\"warn\",\"message\":\"late\",\"by\":\"4s\",\"file\":\"a \\\"b\\\"\"}\n"
        );
    }
}
