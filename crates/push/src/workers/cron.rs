//! Cron expressions, as the vendor writes them: minute, hour, day of the month, month, day of the week; in UTC.
//!
//! Days of the week are 1 to 7 from Sunday on. `L` is a last day, `W` the weekday nearest to a day, `5#2` the second
//! Thursday. Where both kinds of days are given, either is enough.

use kew_core::Timestamp;
use kew_http::date::{civil, days_in};

const MINUTE: u64 = 60_000;
const DAY: u64 = 24 * 60 * MINUTE;
/// The longest text of an expression.
const BYTES_MAX: usize = 256;
/// How far ahead a day is looked for: 29 February comes again within eight years.
const DAYS_AHEAD: u64 = 366 * 8 + 31;

const MONTHS: [&str; 12] =
    ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

/// An expression, read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Cron {
    minutes: u64,
    hours: u64,
    months: u64,
    days: DaysOfMonth,
    weekdays: DaysOfWeek,
}

#[derive(Clone, Default, PartialEq, Eq, Debug)]
struct DaysOfMonth {
    is_any: bool,
    days: u64,
    last: bool,
    last_weekday: bool,
    /// The weekday nearest to each of these days.
    nearest: u64,
}

#[derive(Clone, Default, PartialEq, Eq, Debug)]
struct DaysOfWeek {
    is_any: bool,
    days: u64,
    /// The last of the month.
    last: u64,
    /// Those of a number within the month: the bits of 7 days for each of 5 weeks.
    numbered: [u64; 5],
}

impl Cron {
    /// Reads an expression; `None` when it is none.
    pub(super) fn parse(text: &str) -> Option<Self> {
        if text.len() > BYTES_MAX {
            return None;
        }
        let fields: Vec<&str> = text.split_ascii_whitespace().collect();
        let [minute, hour, day, month, weekday] = fields.as_slice() else { return None };
        Some(Self {
            minutes: bits(minute, (0, 59), &[])?,
            hours: bits(hour, (0, 23), &[])?,
            days: DaysOfMonth::parse(day)?,
            months: bits(month, (1, 12), &MONTHS)?,
            weekdays: DaysOfWeek::parse(weekday)?,
        })
    }

    /// The first minute after an instant at which it is due. None for a day that never comes, as 30 February.
    pub(super) fn next_after(&self, now: Timestamp) -> Option<Timestamp> {
        let first = now.0 / MINUTE + 1;
        let (today, minute) = (first / (DAY / MINUTE), first % (DAY / MINUTE));
        (today..today + DAYS_AHEAD).find_map(|day| {
            let from = if day == today { minute } else { 0 };
            let at = self.is_on(day).then(|| self.minute_from(from)).flatten()?;
            Some(Timestamp(day * DAY + at * MINUTE))
        })
    }

    /// The first minute of a day, from this one on.
    fn minute_from(&self, from: u64) -> Option<u64> {
        (from / 60..24).filter(|hour| has(self.hours, *hour)).find_map(|hour| {
            let first = if hour == from / 60 { from % 60 } else { 0 };
            let minute = (first..60).find(|minute| has(self.minutes, *minute))?;
            Some(hour * 60 + minute)
        })
    }

    /// Whether it is due on a day, counted from 1970 on.
    fn is_on(&self, day: u64) -> bool {
        let (year, month, of_month) = civil(day);
        // 1 January 1970 was a Thursday.
        let weekday = (day + 4) % 7;
        let length = days_in(year, month);
        let by_month = self.days.has(of_month, weekday, length);
        let by_week = self.weekdays.has(of_month, weekday, length);
        let is_day = match (self.days.is_any, self.weekdays.is_any) {
            (true, true) => true,
            (true, false) => by_week,
            (false, true) => by_month,
            (false, false) => by_month || by_week,
        };
        has(self.months, month) && is_day
    }
}

impl DaysOfMonth {
    fn parse(text: &str) -> Option<Self> {
        let mut parsed = Self { is_any: is_any(text), ..Self::default() };
        for part in text.split(',') {
            match part.to_ascii_uppercase().as_str() {
                "L" => parsed.last = true,
                "LW" | "WL" => parsed.last_weekday = true,
                part => match part.strip_suffix('W') {
                    Some(day) => parsed.nearest |= 1 << number(day, (1, 31), &[])?,
                    None => parsed.days |= range(part, (1, 31), &[])?,
                },
            }
        }
        Some(parsed)
    }

    fn has(&self, day: u64, weekday: u64, length: u64) -> bool {
        let is_nearest =
            |wanted: u64| (1..=length).contains(&wanted) && nearest(wanted, day, weekday, length);
        has(self.days, day)
            || (self.last && day == length)
            || (self.last_weekday && is_nearest(length))
            || (1..=31).any(|wanted| has(self.nearest, wanted) && is_nearest(wanted))
    }
}

/// Whether a day is the weekday nearest to a wanted one of the same month.
fn nearest(wanted: u64, day: u64, weekday: u64, length: u64) -> bool {
    // Its day of the week: seven weeks keep the sum positive.
    let of_wanted = (weekday + 49 + wanted - day) % 7;
    let found = match of_wanted {
        6 if wanted > 1 => wanted - 1,
        6 => wanted + 2,
        0 if wanted < length => wanted + 1,
        0 => wanted - 2,
        _ => wanted,
    };
    day == found
}

impl DaysOfWeek {
    fn parse(text: &str) -> Option<Self> {
        let mut parsed = Self { is_any: is_any(text), ..Self::default() };
        for part in text.split(',') {
            let part = part.to_ascii_uppercase();
            if let Some((day, week)) = part.split_once('#') {
                let week = number(week, (1, 5), &[])?;
                parsed.numbered[week as usize - 1] |= 1 << weekday(day)?;
            } else if let Some(day) = part.strip_suffix('L') {
                parsed.last |= if day.is_empty() { 1 << 6 } else { 1 << weekday(day)? };
            } else {
                // From 1 for Sunday to 0 for Sunday.
                parsed.days |= range(&part, (1, 7), &WEEKDAYS)? >> 1;
            }
        }
        Some(parsed)
    }

    fn has(&self, day: u64, weekday: u64, length: u64) -> bool {
        let week = ((day - 1) / 7) as usize;
        has(self.days, weekday)
            || (has(self.last, weekday) && day + 7 > length)
            || has(self.numbered[week], weekday)
    }
}

/// A day of the week, from 0 for Sunday.
fn weekday(text: &str) -> Option<u64> {
    number(text, (1, 7), &WEEKDAYS).map(|day| day - 1)
}

fn is_any(text: &str) -> bool {
    text == "*" || text == "?"
}

fn has(bits: u64, place: u64) -> bool {
    bits >> place & 1 == 1
}

fn bits(text: &str, bounds: (u64, u64), names: &[&str]) -> Option<u64> {
    text.split(',').try_fold(0, |all, part| Some(all | range(&part.to_ascii_uppercase(), bounds, names)?))
}

/// `*`, `5`, `5-9`, each perhaps with a step: `*/15`.
fn range(text: &str, (least, most): (u64, u64), names: &[&str]) -> Option<u64> {
    let (numbers, step) = match text.split_once('/') {
        Some((numbers, step)) => (numbers, Some(number(step, (1, most), &[])?)),
        None => (text, None),
    };
    let (first, last) = match numbers.split_once('-') {
        _ if is_any(numbers) => (least, most),
        Some((first, last)) => (number(first, (least, most), names)?, number(last, (least, most), names)?),
        None => {
            let first = number(numbers, (least, most), names)?;
            (first, if step.is_some() { most } else { first })
        }
    };
    let step = step.unwrap_or(1) as usize;
    (first <= last).then(|| (first..=last).step_by(step).fold(0, |bits, place| bits | 1 << place))
}

fn number(text: &str, (least, most): (u64, u64), names: &[&str]) -> Option<u64> {
    let named = names.iter().position(|name| *name == text).map(|place| place as u64 + least);
    let is_digits = !text.is_empty() && text.len() <= 2 && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = named.or_else(|| is_digits.then(|| text.parse().ok()).flatten())?;
    (least..=most).contains(&number).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kew_http::date::{parse_iso, rfc3339};

    /// The next instants after one.
    fn next(text: &str, after: &str, count: usize) -> Vec<String> {
        let cron = Cron::parse(text).unwrap_or_else(|| panic!("{text} is an expression"));
        let mut now = parse_iso(after).expect("the instant is in ISO 8601");
        (0..count)
            .map(|_| {
                now = cron.next_after(now).expect("the expression has a next instant");
                rfc3339(now).chars().take(16).collect()
            })
            .collect()
    }

    #[test]
    fn expressions_are_due_when_the_vendors_page_says() {
        for (text, expected) in [
            ("* * * * *", ["2026-11-23T10:01", "2026-11-23T10:02"]),
            ("*/30 * * * *", ["2026-11-23T10:30", "2026-11-23T11:00"]),
            ("45 * * * *", ["2026-11-23T10:45", "2026-11-23T11:45"]),
            ("0 17 * * sun", ["2026-11-29T17:00", "2026-12-06T17:00"]),
            ("0 17 * * 1", ["2026-11-29T17:00", "2026-12-06T17:00"]),
            ("10 7 * * mon-fri", ["2026-11-24T07:10", "2026-11-25T07:10"]),
            ("0 15 1 * *", ["2026-12-01T15:00", "2027-01-01T15:00"]),
            ("0 18 * * 6L", ["2026-11-27T18:00", "2026-12-25T18:00"]),
            ("59 23 LW * *", ["2026-11-30T23:59", "2026-12-31T23:59"]),
            ("0 0 L 2 *", ["2027-02-28T00:00", "2028-02-29T00:00"]),
            ("0 0 15W * *", ["2026-12-15T00:00", "2027-01-15T00:00"]),
            ("0 0 * * 5#2", ["2026-12-10T00:00", "2027-01-14T00:00"]),
            ("5,10-12 23 31 DEC *", ["2026-12-31T23:05", "2026-12-31T23:10"]),
            ("0 0 1 1 2", ["2027-01-01T00:00", "2027-01-04T00:00"]),
        ] {
            assert_eq!(next(text, "2026-11-23T10:00:00Z", 2), expected, "{text}");
        }
    }

    #[test]
    fn weekday_nearest_to_a_day_stays_within_the_month() {
        // 1 August 2026 is a Saturday, 31 May 2026 a Sunday.
        assert_eq!(next("0 0 1W 8 *", "2026-01-01T00:00:00Z", 1), ["2026-08-03T00:00"]);
        assert_eq!(next("0 0 LW 5 *", "2026-01-01T00:00:00Z", 1), ["2026-05-29T00:00"]);
    }

    #[test]
    fn an_instant_that_is_due_itself_is_not_the_next() {
        assert_eq!(next("0 10 * * *", "2026-11-23T10:00:00Z", 1), ["2026-11-24T10:00"]);
        assert_eq!(next("0 10 * * *", "2026-11-23T09:59:59.999Z", 1), ["2026-11-23T10:00"]);
    }

    #[test]
    fn what_is_no_expression_is_refused_and_a_day_that_never_comes_is_never_due() {
        for text in [
            "",
            "* * * *",
            "* * * * * *",
            "60 * * * *",
            "* 24 * * *",
            "* * 0 * *",
            "* * * 13 *",
            "* * * * 8",
            "* * * * 0",
            "a * * * *",
            "*/0 * * * *",
            "5-1 * * * *",
            "-1 * * * *",
            "1,,2 * * * *",
            "* * 32W * *",
            "* * * * 2#6",
            "1-2-3 * * * *",
        ] {
            assert_eq!(Cron::parse(text), None, "{text:?}");
        }
        assert_eq!(Cron::parse(&format!("{}0 * * * *", "0,".repeat(200))), None);
        let never = Cron::parse("0 0 30 2 *").expect("the expression is well formed");
        assert_eq!(never.next_after(Timestamp(0)), None);
    }
}
