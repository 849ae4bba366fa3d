//! A message's body in several views, each a window of bounded size that can be moved through the whole.

use maud::{Markup, html};
use serde::de::IgnoredAny;

use super::text;

/// Bytes of one window of text.
const TEXT_WINDOW: usize = 32 << 10;
/// Bytes of one window of hex digits.
const HEX_WINDOW: usize = 4 << 10;
/// Spaces of one level of JSON.
const INDENT: usize = 2;
/// Levels of JSON that are set apart; deeper ones stand as the last of these.
const INDENT_MAX: usize = 16;

/// How a body is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum View {
    Json,
    Text,
    Hex,
    Base64,
}

impl View {
    pub(super) const ALL: [Self; 4] = [Self::Json, Self::Text, Self::Hex, Self::Base64];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Text => "text",
            Self::Hex => "hex",
            Self::Base64 => "base64",
        }
    }

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Json => "JSON",
            Self::Text => "Text",
            Self::Hex => "Hex",
            Self::Base64 => "Base64",
        }
    }

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|view| view.name() == name)
    }

    /// The view that suits a body that no one was asked for.
    pub(super) fn usual(body: &[u8]) -> Self {
        match std::str::from_utf8(body) {
            Ok(text) if is_structure(text) => Self::Json,
            Ok(_) => Self::Text,
            Err(_) => Self::Hex,
        }
    }
}

/// Whether a text is JSON that has a structure to show.
fn is_structure(text: &str) -> bool {
    text.trim_start().starts_with(['{', '[']) && serde_json::from_str::<IgnoredAny>(text).is_ok()
}

/// One window of a body.
pub(super) struct Window {
    pub(super) shown: Markup,
    /// What of the shown form it is: where it begins, where it ends, and the length of all.
    pub(super) begin: usize,
    pub(super) end: usize,
    pub(super) whole: usize,
    /// Bytes of a window of this view.
    pub(super) size: usize,
}

/// The window of a body that begins at `from` in a view, or why there is none.
pub(super) fn window(body: &[u8], base64: &str, view: View, from: usize) -> Result<Window, &'static str> {
    match view {
        View::Hex => Ok(hex(body, from)),
        View::Base64 => Ok(of_text(base64, from)),
        View::Text => {
            let text = std::str::from_utf8(body).map_err(|_| "the body is no text: look at it in hex")?;
            Ok(of_text(text, from))
        }
        View::Json => {
            let text = std::str::from_utf8(body).map_err(|_| "the body is no text: look at it in hex")?;
            if serde_json::from_str::<IgnoredAny>(text).is_err() {
                return Err("the body is no JSON: look at it as text");
            }
            Ok(of_text(&pretty(text), from))
        }
    }
}

fn of_text(text: &str, from: usize) -> Window {
    let begin = boundary(text, from);
    let end = boundary(text, begin.saturating_add(TEXT_WINDOW));
    let shown = text::visible_lines(text.get(begin..end).unwrap_or_default());
    Window { shown, begin, end, whole: text.len(), size: TEXT_WINDOW }
}

/// The last place at or before this one that is between two characters.
fn boundary(text: &str, at: usize) -> usize {
    let at = at.min(text.len());
    (0..=at).rev().find(|place| text.is_char_boundary(*place)).unwrap_or(0)
}

fn hex(body: &[u8], from: usize) -> Window {
    let begin = from.min(body.len()) / 16 * 16;
    let end = begin.saturating_add(HEX_WINDOW).min(body.len());
    let mut lines = String::new();
    for (row, bytes) in (begin..).step_by(16).zip(body.get(begin..end).unwrap_or_default().chunks(16)) {
        let digits: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let (left, right) = digits.split_at(digits.len().min(8));
        let drawn = |byte: &u8| if (0x20..0x7f).contains(byte) { char::from(*byte) } else { '.' };
        let letters: String = bytes.iter().map(drawn).collect();
        let digits = format!("{}  {}", left.join(" "), right.join(" "));
        lines.push_str(&format!("{row:08x}  {digits:<49} {letters}\n"));
    }
    Window { shown: html! { (lines) }, begin, end, whole: body.len(), size: HEX_WINDOW }
}

/// JSON with a line for each member. Everything but the white space between its parts stays as it was sent: the order
/// of members, the digits of numbers, escapes. The text is known to be JSON.
pub(super) fn pretty(json: &str) -> String {
    let mut out = String::with_capacity(json.len() + json.len() / 2);
    let (mut depth, mut is_in_text, mut is_escaped) = (0_usize, false, false);
    let mut rest = json.chars().peekable();
    while let Some(one) = rest.next() {
        if is_in_text {
            out.push(one);
            is_in_text = is_escaped || one != '"';
            is_escaped = !is_escaped && one == '\\';
            continue;
        }
        match one {
            ' ' | '\t' | '\n' | '\r' => {}
            '{' | '[' => {
                out.push(one);
                while rest.peek().is_some_and(char::is_ascii_whitespace) {
                    rest.next();
                }
                let is_empty = rest.peek().is_some_and(|next| matches!(next, '}' | ']'));
                if is_empty {
                    out.extend(rest.next());
                } else {
                    depth += 1;
                    new_line(&mut out, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                new_line(&mut out, depth);
                out.push(one);
            }
            ',' => {
                out.push(one);
                new_line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            '"' => {
                out.push(one);
                is_in_text = true;
            }
            _ => out.push(one),
        }
    }
    out
}

fn new_line(out: &mut String, depth: usize) {
    out.push('\n');
    out.extend(std::iter::repeat_n(' ', depth.min(INDENT_MAX) * INDENT));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_set_apart_and_otherwise_as_it_was_sent() {
        for (json, expected) in [
            (
                r#"{"b":1.0,"a":[1,2],"e":{}, "s":"a\"{,}:"}"#,
                "{\n  \"b\": 1.0,\n  \"a\": [\n    1,\n    2\n  ],\n  \"e\": {},\n  \"s\": \"a\\\"{,}:\"\n}",
            ),
            ("[ ]", "[]"),
            ("[\"\\\\\",1]", "[\n  \"\\\\\",\n  1\n]"),
            (" 17 ", "17"),
            ("12345678901234567890123", "12345678901234567890123"),
        ] {
            assert_eq!(pretty(json), expected, "{json}");
        }
        let deep = format!("{}{}", "[".repeat(100), "]".repeat(100));
        assert!(pretty(&deep).len() < 100 * 100 * 2, "depth is bounded");
    }

    #[test]
    fn a_window_moves_through_the_whole_and_never_splits_a_character() {
        let text = "ä".repeat(TEXT_WINDOW);
        let first = of_text(&text, 0);
        assert_eq!((first.begin, first.end, first.whole), (0, TEXT_WINDOW, 2 * TEXT_WINDOW));
        let odd = of_text(&text, 1);
        assert_eq!((odd.begin, odd.end), (0, TEXT_WINDOW));
        let last = of_text(&text, usize::MAX);
        assert_eq!((last.begin, last.end), (2 * TEXT_WINDOW, 2 * TEXT_WINDOW));
        let all = hex(&[0xff; HEX_WINDOW + 1], HEX_WINDOW + 7);
        assert_eq!((all.begin, all.end), (HEX_WINDOW, HEX_WINDOW + 1));
    }

    #[test]
    fn bytes_stand_in_columns() {
        let shown = hex(b"0123456789abcdef<\x00", 0).shown.into_string();
        let expected = "00000000  30 31 32 33 34 35 36 37  38 39 61 62 63 64 65 66  0123456789abcdef\n\
                        00000010  3c 00                                             &lt;.\n";
        assert_eq!(shown, expected);
    }

    #[test]
    fn the_usual_view_is_the_most_readable() {
        for (body, expected) in
            [(&b"{\"a\":1}"[..], View::Json), (b"17", View::Text), (b"{", View::Text), (b"\xff", View::Hex)]
        {
            assert_eq!(View::usual(body), expected);
        }
    }
}
