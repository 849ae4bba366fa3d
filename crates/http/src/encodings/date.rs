//! Instants as dates, and dates as instants, in UTC.
//!
//! What is read is checked to its last digit: a date that no calendar has is no date. Instants count from 1970; an
//! earlier date is read as the first instant there is, since all it is asked is whether it has passed.

use std::fmt::Write as _;

use kew_core::Timestamp;

const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const MILLIS_PER_DAY: u64 = 86_400_000;

/// An instant as RFC 3339 has it, to the millisecond: `2026-01-31T23:59:59.999Z`.
pub fn rfc3339(at: Timestamp) -> String {
    let Civil { year, month, day, hour, minute, second, millis } = Civil::of(at);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

/// An instant as HTTP headers have it: `Sun, 06 Nov 1994 08:49:37 GMT`.
pub fn http_date(at: Timestamp) -> String {
    let Civil { year, month, day, hour, minute, second, .. } = Civil::of(at);
    let weekday = name(&DAYS, (at.0 / MILLIS_PER_DAY) % 7);
    let month = name(&MONTHS, month.saturating_sub(1));
    format!("{weekday}, {day:02} {month} {year:04} {hour:02}:{minute:02}:{second:02} GMT")
}

/// Reads what [`http_date`] writes; the name of the day is not compared with the date.
pub fn parse_http_date(text: &str) -> Option<Timestamp> {
    let mut read = Reading(text.as_bytes());
    read.one_of(&DAYS)?;
    read.exactly(b", ")?;
    let day = read.digits(2)?;
    read.exactly(b" ")?;
    let month = read.one_of(&MONTHS)? + 1;
    read.exactly(b" ")?;
    let year = read.digits(4)?;
    read.exactly(b" ")?;
    let (hour, minute, second) = read.time()?;
    read.exactly(b" GMT")?;
    read.ends()?;
    Civil { year, month, day, hour, minute, second, millis: 0 }.timestamp()
}

/// An instant as AWS signatures have it: `20260131T235959Z`.
pub fn iso_basic(at: Timestamp) -> String {
    let Civil { year, month, day, hour, minute, second, .. } = Civil::of(at);
    let mut text = String::with_capacity(16);
    // Writing into a string cannot fail.
    let _written = write!(text, "{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z");
    text
}

/// Reads what [`iso_basic`] writes.
pub fn parse_iso_basic(text: &str) -> Option<Timestamp> {
    let mut read = Reading(text.as_bytes());
    let (year, month, day) = (read.digits(4)?, read.digits(2)?, read.digits(2)?);
    read.exactly(b"T")?;
    let (hour, minute, second) = (read.digits(2)?, read.digits(2)?, read.digits(2)?);
    read.exactly(b"Z")?;
    read.ends()?;
    Civil { year, month, day, hour, minute, second, millis: 0 }.timestamp()
}

/// Reads `2026-01-31`, or with `T23:59`, `T23:59:59` or `T23:59:59.9999999` and a zone: `Z`, `+01:00` or `-01:00`.
pub fn parse_iso(text: &str) -> Option<Timestamp> {
    let mut read = Reading(text.as_bytes());
    let year = read.digits(4)?;
    read.exactly(b"-")?;
    let month = read.digits(2)?;
    read.exactly(b"-")?;
    let day = read.digits(2)?;
    let date = Civil { year, month, day, hour: 0, minute: 0, second: 0, millis: 0 };
    if read.0.is_empty() {
        return date.timestamp();
    }
    read.exactly(b"T")?;
    let hour = read.digits(2)?;
    read.exactly(b":")?;
    let minute = read.digits(2)?;
    let (mut second, mut millis) = (0, 0);
    if read.exactly(b":").is_some() {
        second = read.digits(2)?;
        millis = read.fraction()?;
    }
    let zone = read.zone()?;
    read.ends()?;
    let local = Civil { hour, minute, second, millis, ..date }.millis()?;
    u64::try_from(local.checked_sub(zone.checked_mul(60_000)?)?.max(0)).ok().map(Timestamp)
}

/// A date and a time of day.
#[derive(Clone, Copy)]
struct Civil {
    year: u64,
    month: u64,
    day: u64,
    hour: u64,
    minute: u64,
    second: u64,
    millis: u64,
}

impl Civil {
    fn of(at: Timestamp) -> Self {
        let (days, millis) = (at.0 / MILLIS_PER_DAY, at.0 % MILLIS_PER_DAY);
        let (year, month, day) = civil(days);
        let (seconds, millis) = (millis / 1_000, millis % 1_000);
        Self {
            year,
            month,
            day,
            hour: seconds / 3_600,
            minute: seconds / 60 % 60,
            second: seconds % 60,
            millis,
        }
    }

    fn timestamp(self) -> Option<Timestamp> {
        u64::try_from(self.millis()?.max(0)).ok().map(Timestamp)
    }

    /// Milliseconds since 1970, if there is such a date. Its year has at most four digits, so nothing overflows.
    fn millis(self) -> Option<i64> {
        let is_date =
            (1..=12).contains(&self.month) && self.day >= 1 && self.day <= days_in(self.year, self.month);
        let is_time = self.hour < 24 && self.minute < 60 && self.second < 60 && self.millis < 1_000;
        if !is_date || !is_time {
            return None;
        }
        let seconds = (self.hour * 60 + self.minute) * 60 + self.second;
        let of_day = i64::try_from(seconds * 1_000 + self.millis).ok()?;
        days_since_1970(self.year, self.month, self.day)?.checked_mul(86_400_000)?.checked_add(of_day)
    }
}

/// The days of a month.
pub fn days_in(year: u64, month: u64) -> u64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => 29,
        2 => 28,
        _ => 31,
    }
}

/// The date this number of days after 1970-01-01. Years are counted from March, so that a leap day is a year's last.
pub fn civil(days: u64) -> (u64, u64, u64) {
    let from_march_0 = days.saturating_add(719_468);
    let era = from_march_0 / 146_097;
    let day_of_era = from_march_0 % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let months_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * months_from_march + 2) / 5 + 1;
    let month = if months_from_march < 10 { months_from_march + 3 } else { months_from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

/// The other way round, for a date that exists, also before 1970.
fn days_since_1970(year: u64, month: u64, day: u64) -> Option<i64> {
    let before_march = month <= 2;
    // A year is added so that January of the year 0 needs no negative number; 400 years are 146 097 days.
    let year = year + 400 - u64::from(before_march);
    let (era, year_of_era) = (year / 400, year % 400);
    let months_from_march = if before_march { month + 9 } else { month - 3 };
    let day_of_year = (153 * months_from_march + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    let days = i64::try_from(era * 146_097 + day_of_era).ok()?;
    Some(days - 719_468 - 146_097)
}

fn name(names: &[&'static str], at: u64) -> &'static str {
    usize::try_from(at).ok().and_then(|at| names.get(at)).copied().unwrap_or_default()
}

/// What is left of a text that is being read.
struct Reading<'a>(&'a [u8]);

impl Reading<'_> {
    fn exactly(&mut self, text: &[u8]) -> Option<()> {
        self.0 = self.0.strip_prefix(text)?;
        Some(())
    }

    fn ends(&self) -> Option<()> {
        self.0.is_empty().then_some(())
    }

    /// A number with this many digits, four at most.
    fn digits(&mut self, count: usize) -> Option<u64> {
        let (digits, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        digits.iter().try_fold(0, |number, digit| {
            digit.is_ascii_digit().then(|| number * 10 + u64::from(digit - b'0'))
        })
    }

    fn one_of(&mut self, names: &[&str]) -> Option<u64> {
        let at = names.iter().position(|name| self.0.starts_with(name.as_bytes()))?;
        self.0 = self.0.get(3..)?;
        u64::try_from(at).ok()
    }

    fn time(&mut self) -> Option<(u64, u64, u64)> {
        let hour = self.digits(2)?;
        self.exactly(b":")?;
        let minute = self.digits(2)?;
        self.exactly(b":")?;
        Some((hour, minute, self.digits(2)?))
    }

    /// Up to seven digits behind a point, as milliseconds; finer ones are cut off. Without a point there are none.
    fn fraction(&mut self) -> Option<u64> {
        if self.exactly(b".").is_none() {
            return Some(0);
        }
        let count = self.0.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if !(1..=7).contains(&count) {
            return None;
        }
        let (digits, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        let padded = digits.iter().chain(b"00").take(3);
        Some(padded.fold(0, |millis, digit| millis * 10 + u64::from(digit - b'0')))
    }

    /// Minutes ahead of UTC.
    fn zone(&mut self) -> Option<i64> {
        if self.exactly(b"Z").is_some() {
            return Some(0);
        }
        let ahead = if self.exactly(b"+").is_some() { 1 } else { self.exactly(b"-").map(|()| -1)? };
        let hours = self.digits(2)?;
        self.exactly(b":")?;
        let minutes = self.digits(2)?;
        let offset = i64::try_from(hours * 60 + minutes).ok()?;
        (hours < 24 && minutes < 60).then_some(ahead * offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LAST: u64 = 253_402_300_799_999;

    #[test]
    fn dates_hold_at_leap_days_and_year_ends() {
        for (millis, date, http) in [
            (0, "1970-01-01T00:00:00.000Z", "Thu, 01 Jan 1970 00:00:00 GMT"),
            (784_111_777_000, "1994-11-06T08:49:37.000Z", "Sun, 06 Nov 1994 08:49:37 GMT"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z", "Tue, 29 Feb 2000 00:00:00 GMT"),
            (951_868_799_999, "2000-02-29T23:59:59.999Z", "Tue, 29 Feb 2000 23:59:59 GMT"),
            (951_868_800_000, "2000-03-01T00:00:00.000Z", "Wed, 01 Mar 2000 00:00:00 GMT"),
            (1_767_225_599_000, "2025-12-31T23:59:59.000Z", "Wed, 31 Dec 2025 23:59:59 GMT"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z", "Mon, 01 Mar 2100 00:00:00 GMT"),
            (LAST, "9999-12-31T23:59:59.999Z", "Fri, 31 Dec 9999 23:59:59 GMT"),
        ] {
            assert_eq!(rfc3339(Timestamp(millis)), date);
            assert_eq!(http_date(Timestamp(millis)), http);
        }
        assert_eq!(iso_basic(Timestamp(1_767_225_599_999)), "20251231T235959Z");
    }

    #[test]
    fn dates_that_no_calendar_has_are_none() {
        for text in [
            "20260229T000000Z",
            "21000229T000000Z",
            "20261301T000000Z",
            "20260001T000000Z",
            "20260100T000000Z",
            "20260101T240000Z",
            "20260101T006000Z",
            "20260101T000060Z",
            "20260101T000000",
            "20260101T000000Zz",
            "2026-01-01T00:00:00Z",
            "20260101t000000z",
            "+2260101T000000Z",
            "",
        ] {
            assert_eq!(parse_iso_basic(text), None, "{text}");
        }
        assert!(parse_iso_basic("20240229T000000Z").is_some());
        assert!(parse_iso_basic("20000229T000000Z").is_some());
    }

    #[test]
    fn http_dates_are_read_in_their_one_form() {
        let instant = Some(Timestamp(784_111_777_000));
        assert_eq!(parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT"), instant);
        assert_eq!(parse_http_date("Mon, 06 Nov 1994 08:49:37 GMT"), instant);
        for text in [
            "Sun, 6 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
            "Sun, 06 Nov 1994 08:49:37 UTC",
            "Sun, 06 Nov 1994 08:49:37 GMT ",
            "Sun, 31 Nov 1994 08:49:37 GMT",
            "Xxx, 06 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nox 1994 08:49:37 GMT",
            "Sun",
            "",
        ] {
            assert_eq!(parse_http_date(text), None, "{text}");
        }
    }

    #[test]
    fn iso_dates_have_many_forms() {
        for (text, millis) in [
            ("1970-01-01", 0),
            ("2025-12-31", 1_767_139_200_000),
            ("2025-12-31T23:59Z", 1_767_225_540_000),
            ("2025-12-31T23:59:59Z", 1_767_225_599_000),
            ("2025-12-31T23:59:59.5Z", 1_767_225_599_500),
            ("2025-12-31T23:59:59.05Z", 1_767_225_599_050),
            ("2025-12-31T23:59:59.1234567Z", 1_767_225_599_123),
            ("2026-01-01T01:59:59+02:00", 1_767_225_599_000),
            ("2025-12-31T18:29:59-05:30", 1_767_225_599_000),
            ("0000-01-01", 0),
            ("1601-01-01T00:00:00.0000000Z", 0),
            ("1970-01-01T00:00Z", 0),
            ("1970-01-01T00:30+01:00", 0),
        ] {
            assert_eq!(parse_iso(text), Some(Timestamp(millis)), "{text}");
        }
        for text in [
            "2025-12-31T",
            "2025-12-31Z",
            "2025-12-31T23Z",
            "2025-12-31T23:59",
            "2025-12-31T23:59:59.Z",
            "2025-12-31T23:59:59.12345678Z",
            "2025-12-31T23:59.5Z",
            "2025-12-31 23:59:59Z",
            "2025-02-29",
            "2025-1-1",
            "12025-01-01",
            "2025-12-31T23:59+24:00",
            "2025-12-31T23:59+0100",
            "2025-12-31T23:59ZZ",
            "-025-12-31",
        ] {
            assert_eq!(parse_iso(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_instant_survives_every_form(millis in 0..=LAST) {
            let (at, second) = (Timestamp(millis), Timestamp(millis - millis % 1_000));
            prop_assert_eq!(parse_iso(&rfc3339(at)), Some(at));
            prop_assert_eq!(parse_iso_basic(&iso_basic(at)), Some(second));
            prop_assert_eq!(parse_http_date(&http_date(at)), Some(second));
        }

        #[test]
        fn no_text_is_too_odd_to_judge(text in "\\PC{0,40}|[0-9TZ:+. -]{0,30}") {
            let _judged = (parse_iso(&text), parse_iso_basic(&text), parse_http_date(&text));
        }
    }
}
