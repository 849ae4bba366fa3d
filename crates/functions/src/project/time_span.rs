//! Time spans as settings write them: `[d.]hh:mm:ss[.fffffff]`.

use std::time::Duration;

/// The span a text writes; `None` when it writes none, or one that runs backwards.
pub(crate) fn parse(text: &str) -> Option<Duration> {
    let (rest, seconds) = text.trim().rsplit_once(':')?;
    let (rest, minutes) = rest.rsplit_once(':')?;
    let (days, hours) = rest.split_once('.').unwrap_or(("0", rest));
    let (seconds, fraction) = seconds.split_once('.').unwrap_or((seconds, "0"));
    let days = number(days, 8)?;
    let (hours, minutes, seconds) = (number(hours, 2)?, number(minutes, 2)?, number(seconds, 2)?);
    if hours > 23 || minutes > 59 || seconds > 59 {
        return None;
    }
    // Seven digits are tenths of a microsecond.
    let nanoseconds = number(&format!("{fraction:0<7}"), 7)?.checked_mul(100)?;
    number(fraction, 7)?;
    let seconds = ((days * 24 + hours) * 60 + minutes) * 60 + seconds;
    Some(Duration::new(seconds, u32::try_from(nanoseconds).ok()?))
}

fn number(digits: &str, digits_max: usize) -> Option<u64> {
    let is_number =
        (1..=digits_max).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { digits.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_days_before_and_fractions_behind() {
        for (text, millis) in [
            ("00:00:00", 0),
            ("00:00:30", 30_000),
            ("00:01:00", 60_000),
            ("23:59:59", 86_399_000),
            ("7.00:00:00", 604_800_000),
            ("1.02:03:04.5", 93_784_500),
            ("00:00:00.1000000", 100),
            ("00:00:00.099", 99),
            ("1:2:3", 3_723_000),
            (" 00:00:01 ", 1_000),
        ] {
            assert_eq!(parse(text), Some(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn what_is_no_span_is_none() {
        for text in [
            "",
            "5",
            "00:30",
            "24:00:00",
            "00:60:00",
            "00:00:60",
            "-00:00:01",
            "PT5M",
            "00:00:00.",
            "a:00:00",
            "00:00:00.12345678",
            ".00:00:00",
            "1..00:00:00",
            "+1:00:00",
            "00:00:001",
            "999999999.00:00:00",
        ] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }
}
