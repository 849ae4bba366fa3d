//! How values are written: what others sent is shown so that every character can be seen and none acts on the page;
//! numbers, ages and instants are short and aligned.

use std::fmt::Write as _;

use kew_core::Timestamp;
use kew_http::date;
use maud::{Markup, PreEscaped, html};

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
const UNITS: [&str; 4] = ["B", "KiB", "MiB", "GiB"];

/// A text from outside on one line: characters that control the terminal, the direction of writing or the line are
/// shown as escapes.
pub(super) fn visible(text: &str) -> Markup {
    escaped(text, |_| false)
}

/// The same for a text of several lines.
pub(super) fn visible_lines(text: &str) -> Markup {
    escaped(text, |one| matches!(one, '\n' | '\t'))
}

/// A name or a text from outside, kept apart from the direction of what stands around it.
pub(super) fn isolated(text: &str) -> Markup {
    html! { bdi { (visible(text)) } }
}

fn escaped(text: &str, stays: impl Fn(char) -> bool) -> Markup {
    let mut shown = String::with_capacity(text.len() + text.len() / 8);
    let mut is_within = false;
    for one in text.chars() {
        let is_odd = is_odd(one) && !stays(one);
        if is_odd != is_within {
            shown.push_str(if is_odd { "<span class=\"odd\">" } else { "</span>" });
            is_within = is_odd;
        }
        match one {
            _ if is_odd => escape(&mut shown, one),
            '&' => shown.push_str("&amp;"),
            '<' => shown.push_str("&lt;"),
            '>' => shown.push_str("&gt;"),
            '"' => shown.push_str("&quot;"),
            '\'' => shown.push_str("&#39;"),
            _ => shown.push(one),
        }
    }
    if is_within {
        shown.push_str("</span>");
    }
    PreEscaped(shown)
}

fn escape(shown: &mut String, one: char) {
    match one {
        '\n' => shown.push_str("\\n"),
        '\r' => shown.push_str("\\r"),
        '\t' => shown.push_str("\\t"),
        _ => {
            let _written = write!(shown, "\\u{{{:x}}}", u32::from(one));
        }
    }
}

/// Whether a character cannot be seen, or changes how others are seen.
pub(super) fn is_odd(one: char) -> bool {
    one.is_control()
        || matches!(one,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// A reason as a sentence: it begins with a capital letter and ends.
pub(super) fn sentence(text: &str) -> String {
    let mut letters = text.trim_end().chars();
    let mut sentence: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
    sentence.push_str(letters.as_str());
    if !sentence.ends_with(['.', '?', '!']) {
        sentence.push('.');
    }
    sentence
}

/// The beginning of a text, at most this number of characters, and whether there is more.
pub(super) fn beginning(text: &str, characters_max: usize) -> (&str, bool) {
    match text.char_indices().nth(characters_max) {
        Some((end, _)) => (text.get(..end).unwrap_or(text), true),
        None => (text, false),
    }
}

/// A count with its thousands apart: `1,234,567`.
pub(super) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count with the noun that it counts.
pub(super) fn counted(number: u64, noun: &str) -> String {
    let end = if number == 1 { "" } else { "s" };
    format!("{} {noun}{end}", count(number))
}

/// Something each second: `0`, `0.2`, `1,234`.
pub(super) fn rate(each_second: f64) -> String {
    if each_second <= 0.0 {
        "0".to_owned()
    } else if each_second < 10.0 {
        format!("{each_second:.1}")
    } else {
        count(each_second.round() as u64)
    }
}

/// How long something is: its two largest units.
pub(super) fn length(seconds: u64) -> String {
    match seconds {
        0..MINUTE => format!("{seconds} s"),
        MINUTE..HOUR => two((seconds / MINUTE, "min"), (seconds % MINUTE, "s")),
        HOUR..DAY => two((seconds / HOUR, "h"), (seconds % HOUR / MINUTE, "min")),
        _ => two((seconds / DAY, "d"), (seconds % DAY / HOUR, "h")),
    }
}

/// A length of milliseconds: below a second as they are.
pub(super) fn span(milliseconds: u64) -> String {
    if milliseconds < 1_000 { format!("{milliseconds} ms") } else { length(milliseconds / 1_000) }
}

fn two((large, large_unit): (u64, &str), (small, small_unit): (u64, &str)) -> String {
    if small == 0 {
        return format!("{large} {large_unit}");
    }
    format!("{large} {large_unit} {small} {small_unit}")
}

/// The age of the oldest message; a dash where there is none.
pub(super) fn age(seconds: Option<f64>) -> String {
    seconds.map_or_else(|| "–".to_owned(), |seconds| length(seconds.max(0.0) as u64))
}

/// A number of bytes: `17 B`, `1.5 KiB`.
pub(super) fn bytes(number: u64) -> String {
    let mut left = number as f64;
    let mut units = UNITS.iter();
    let mut unit = units.next().copied().unwrap_or_default();
    for next in units {
        if left < 1_024.0 {
            break;
        }
        (left, unit) = (left / 1_024.0, next);
    }
    if unit == "B" { format!("{number} B") } else { format!("{left:.1} {unit}") }
}

/// An instant of the engine's time, in UTC.
pub(super) fn instant(at_ms: u64) -> Markup {
    let exact = date::rfc3339(Timestamp(at_ms));
    let short = exact.get(..19).unwrap_or(&exact).replacen('T', " ", 1);
    html! { time datetime=(exact) title=(exact) { (short) } }
}

/// The same in a row of instants: the day only where it is another one than that of the instant before.
pub(super) fn moment(at_ms: u64, before_ms: Option<u64>) -> Markup {
    let exact = date::rfc3339(Timestamp(at_ms));
    let day_of = |text: &str| text.get(..10).map(str::to_owned);
    let is_same_day =
        before_ms.is_some_and(|before| day_of(&date::rfc3339(Timestamp(before))) == day_of(&exact));
    let from = if is_same_day { 11 } else { 0 };
    let short = exact.get(from..19).unwrap_or(&exact).replacen('T', " ", 1);
    html! { time datetime=(exact) title=(exact) { (short) } }
}

/// An instant with how long ago it was, or how long until it comes.
pub(super) fn instant_from(at_ms: u64, now_ms: u64) -> Markup {
    html! { (instant(at_ms)) " " span.quiet { "(" (distance(at_ms, now_ms)) ")" } }
}

/// How far an instant is from now, in words.
pub(super) fn distance(at_ms: u64, now_ms: u64) -> String {
    if at_ms > now_ms {
        format!("in {}", length((at_ms - now_ms).div_ceil(1_000)))
    } else {
        format!("{} ago", length((now_ms - at_ms) / 1_000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_said_once_in_a_row() {
        let shown = |at, before| moment(at, before).into_string();
        assert!(shown(86_400_000, None).ends_with(">1970-01-02 00:00:00</time>"));
        assert!(shown(86_460_000, Some(86_400_000)).ends_with(">00:01:00</time>"));
        assert!(shown(86_400_000, Some(86_399_999)).ends_with(">1970-01-02 00:00:00</time>"));
    }

    #[test]
    fn a_text_from_outside_is_seen_and_does_nothing() {
        for (text, expected) in [
            ("<b>&\"'", "&lt;b&gt;&amp;&quot;&#39;"),
            ("a\u{202e}\u{200b}b", "a<span class=\"odd\">\\u{202e}\\u{200b}</span>b"),
            ("\0\r\n", "<span class=\"odd\">\\u{0}\\r\\n</span>"),
            ("grün 日本 😀", "grün 日本 😀"),
            ("", ""),
        ] {
            assert_eq!(visible(text).into_string(), expected, "{text:?}");
        }
        assert_eq!(visible_lines("a\n\tb\r").into_string(), "a\n\tb<span class=\"odd\">\\r</span>");
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!([0, 7, 999, 1_000, 1_234_567].map(count), ["0", "7", "999", "1,000", "1,234,567"]);
        assert_eq!([0.0, 0.2, 9.96, 1_234.5].map(rate), ["0", "0.2", "10.0", "1,235"]);
        assert_eq!(
            [0, 59, 60, 61, 3_600, 90_061, 86_400].map(length),
            ["0 s", "59 s", "1 min", "1 min 1 s", "1 h", "1 d 1 h", "1 d"]
        );
        assert_eq!([0, 1_023, 1_536, 1 << 20].map(bytes), ["0 B", "1023 B", "1.5 KiB", "1.0 MiB"]);
        assert_eq!((distance(2_500, 1_000), distance(1_000, 2_500)), ("in 2 s".into(), "1 s ago".into()));
    }

    #[test]
    fn a_reason_is_a_sentence() {
        assert_eq!(sentence("there is no queue x"), "There is no queue x.");
        assert_eq!(sentence(""), ".");
    }

    #[test]
    fn the_beginning_of_a_text_ends_between_characters() {
        assert_eq!((beginning("häh", 2), beginning("häh", 3)), (("hä", true), ("häh", false)));
    }
}
