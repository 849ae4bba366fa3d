//! A property of a JSON message as binding data: the text that the vendor's host makes of it.
//!
//! There a message is parsed and each property that is no object is cast to a string (`Utility.ApplyBindingData` and
//! `ConvertPropertyValue` of azure-functions-host), by the rules of its JSON library: truth is `True`, numbers have
//! their shortest form, dates that it recognises become dates of the invariant culture, arrays and nulls are left out.

use kew_core::Timestamp;
use kew_http::date;
use serde_json::Value;

/// The text of a property that is neither an object nor an array, from how it is written.
pub(super) fn text(raw: &str) -> Option<String> {
    match serde_json::from_str(raw).ok()? {
        Value::String(text) => Some(as_date(&text).unwrap_or(text)),
        Value::Bool(true) => Some("True".to_owned()),
        Value::Bool(false) => Some("False".to_owned()),
        // Parsed once more: the JSON library's own reading may be off by the last digit.
        Value::Number(_) => whole(raw).or_else(|| Some(shortest(raw.trim().parse().ok()?))),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// A whole number as it is written.
fn whole(raw: &str) -> Option<String> {
    let raw = raw.trim();
    let digits = raw.strip_prefix('-').unwrap_or(raw);
    let is_whole = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_whole.then(|| if digits == "0" { "0".to_owned() } else { raw.to_owned() })
}

/// The shortest text that reads back as this number; with an exponent from 1E+15 on and below 0.0001.
fn shortest(number: f64) -> String {
    let scientific = format!("{number:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-5..15).contains(&exponent) && exponent != -5 {
        return number.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}E{sign}{:02}", exponent.unsigned_abs())
}

/// A text that is recognised as a date: `2030-01-31T23:59:59`, perhaps with a fraction and a zone. Shown in UTC, which
/// is the zone of hosts in the cloud.
fn as_date(text: &str) -> Option<String> {
    const SECONDS: usize = "2030-01-31T23:59:59".len();
    const LONGEST: usize = 40;
    let bytes = text.as_bytes();
    if !(SECONDS..=LONGEST).contains(&bytes.len()) || bytes.get(10) != Some(&b'T') || !text.is_ascii() {
        return None;
    }
    let (seconds, rest) = text.split_at(SECONDS);
    let fraction =
        rest.strip_prefix('.').map_or(0, |rest| rest.bytes().take_while(u8::is_ascii_digit).count());
    let zone = rest.get(if fraction > 0 { fraction + 1 } else { 0 }..)?;
    let at = date::parse_iso(&format!("{seconds}Z"))?;
    let at = match zone {
        "" | "Z" => at,
        _ => shifted(at, zone)?,
    };
    let shown = date::rfc3339(at);
    let (day, time) = (shown.get(..10)?, shown.get(11..19)?);
    let mut parts = day.split('-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    Some(format!("{month}/{day}/{year} {time}"))
}

/// An instant written in a zone like `+02:00`.
fn shifted(at: Timestamp, zone: &str) -> Option<Timestamp> {
    let (hours, minutes) = zone.get(1..)?.split_once(':')?;
    let is_number = |text: &str| text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(hours) || !is_number(minutes) {
        return None;
    }
    let millis = (hours.parse::<u64>().ok()? * 60 + minutes.parse::<u64>().ok()?) * 60_000;
    match zone.as_bytes().first()? {
        b'+' => at.0.checked_sub(millis).map(Timestamp),
        b'-' => at.0.checked_add(millis).map(Timestamp),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_are_texts_as_the_vendors_host_makes_them() {
        for (raw, expected) in [
            ("true", Some("True")),
            ("false", Some("False")),
            ("null", None),
            ("[1,2]", None),
            ("7", Some("7")),
            ("-0", Some("0")),
            ("123456789012345678901234567890", Some("123456789012345678901234567890")),
            ("1.50", Some("1.5")),
            ("1.0", Some("1")),
            ("-2.500", Some("-2.5")),
            ("1e3", Some("1000")),
            ("0.0001", Some("0.0001")),
            ("0.00001", Some("1E-05")),
            ("123456789012345.5", Some("123456789012345.5")),
            ("1e15", Some("1E+15")),
            ("1.25e300", Some("1.25E+300")),
            (r#""text""#, Some("text")),
            (r#""2030-01-31T23:59:59Z""#, Some("01/31/2030 23:59:59")),
            (r#""2030-01-31T23:59:59.1234567""#, Some("01/31/2030 23:59:59")),
            (r#""2030-01-31T23:59:59+02:00""#, Some("01/31/2030 21:59:59")),
            (r#""2030-01-31T23:59:59.5-01:30""#, Some("02/01/2030 01:29:59")),
            (r#""2030-01-31""#, Some("2030-01-31")),
            (r#""2030-01-31 23:59:59""#, Some("2030-01-31 23:59:59")),
            (r#""2030-13-31T23:59:59Z""#, Some("2030-13-31T23:59:59Z")),
            (r#""2030-01-31T23:59:59 noon""#, Some("2030-01-31T23:59:59 noon")),
        ] {
            assert_eq!(text(raw).as_deref(), expected, "{raw}");
        }
    }
}
