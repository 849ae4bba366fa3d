//! What a child process writes: that it listens, notes of handlers, and everything meant for people.

use serde::Deserialize;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

use super::notes::Note;

/// The longest line that is looked at; of a longer one the rest is dropped.
const LINE_BYTES_MAX: usize = 64 << 10;

/// One line of a child's output.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Line {
    /// It takes requests on this port.
    Listens(u16),
    /// A handler said what becomes of a message.
    Noted(Note),
    /// Something for people, from the Worker.
    Said(Said),
    /// The same from the runtime itself.
    OfRuntime(Said),
}

/// A line for people.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Said {
    /// How grave it is, in the runtime's word: `log` is the Worker's own.
    pub level: String,
    /// The text.
    pub text: String,
}

#[derive(Deserialize)]
struct Raw {
    event: Option<String>,
    port: Option<u16>,
    level: Option<String>,
    source: Option<String>,
    message: Option<String>,
}

impl Line {
    /// Reads a line. `note_token` begins the notes, and only our own module knows it.
    pub(super) fn read(bytes: &[u8], note_token: &str) -> Option<Self> {
        let text = String::from_utf8_lossy(bytes);
        let text = text.trim_end();
        if text.is_empty() {
            return None;
        }
        let Ok(raw) = serde_json::from_str::<Raw>(text) else {
            return Some(Self::Said(Said { level: "info".to_owned(), text: text.to_owned() }));
        };
        if let (Some("listen"), Some(port)) = (raw.event.as_deref(), raw.port) {
            return Some(Self::Listens(port));
        }
        let message = raw.message.unwrap_or_default();
        let note = message.strip_prefix(note_token).filter(|_| raw.source.is_none());
        if let Some(note) = note {
            // One that cannot be read is not shown either: the token in it must stay secret.
            return serde_json::from_str(note).ok().map(Self::Noted);
        }
        let said = Said { level: raw.level.unwrap_or_default(), text: message };
        Some(if raw.source.is_some() { Self::OfRuntime(said) } else { Self::Said(said) })
    }
}

/// Hands on the lines of a stream until it ends.
pub(super) async fn lines(stream: impl AsyncRead + Unpin, mut take: impl FnMut(&[u8])) {
    let mut reader = BufReader::new(stream);
    let mut line: Vec<u8> = Vec::new();
    loop {
        // A stream that breaks has ended.
        let Ok(read) = reader.fill_buf().await else { return };
        if read.is_empty() {
            if !line.is_empty() {
                take(&line);
            }
            return;
        }
        let end = read.iter().position(|byte| *byte == b'\n');
        let part = read.get(..end.unwrap_or(read.len())).unwrap_or_default();
        let room = LINE_BYTES_MAX.saturating_sub(line.len());
        line.extend_from_slice(part.get(..part.len().min(room)).unwrap_or_default());
        let used = part.len() + usize::from(end.is_some());
        if end.is_some() {
            take(&line);
            line.clear();
        }
        reader.consume(used);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Option<Line> {
        Line::read(line.as_bytes(), "SECRET ")
    }

    fn said(level: &str, text: &str) -> Option<Line> {
        Some(Line::Said(Said { level: level.to_owned(), text: text.to_owned() }))
    }

    #[test]
    fn lines_are_distinguished() {
        assert_eq!(
            read(r#"{"event":"listen","socket":"dispatch","port":34583}"#),
            Some(Line::Listens(34_583))
        );
        assert_eq!(read(r#"{"timestamp":1,"level":"log","message":"hello"}"#), said("log", "hello"));
        let of_runtime = Said { level: "info".to_owned(), text: "hello".to_owned() };
        assert_eq!(
            read(r#"{"timestamp":"1","level":"info","source":"io.c++:1","message":"hello"}"#),
            Some(Line::OfRuntime(of_runtime))
        );
        assert_eq!(read("plain text\n"), said("info", "plain text"));
        assert_eq!(read(""), None);
        let noted =
            read(r#"{"timestamp":1,"level":"log","message":"SECRET {\"batch\":\"b\",\"ackAll\":true}"}"#);
        assert!(matches!(noted, Some(Line::Noted(note)) if note.batch == "b"));
    }

    #[test]
    fn a_worker_cannot_pass_for_the_runtime_by_what_it_says() {
        let quoted = r#"{"timestamp":1,"level":"log","message":"{\"event\":\"listen\",\"port\":1}"}"#;
        assert_eq!(read(quoted), said("log", "{\"event\":\"listen\",\"port\":1}"));
        let not_a_note = r#"{"timestamp":1,"level":"log","message":"SECRET not json"}"#;
        assert_eq!(read(not_a_note), None, "the token is shown to nobody");
    }

    #[tokio::test]
    async fn long_lines_are_cut_and_the_next_one_is_whole() {
        let mut found: Vec<usize> = Vec::new();
        let mut text = vec![b'x'; LINE_BYTES_MAX * 3];
        text.extend_from_slice(b"\nshort\nlast");
        lines(&text[..], |line| found.push(line.len())).await;
        assert_eq!(found, [LINE_BYTES_MAX, 5, 4]);
    }
}
