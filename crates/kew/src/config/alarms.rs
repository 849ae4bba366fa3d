//! `[[alarms]]`: what an operator wants to hear of. Only the file can hold them.

use std::sync::Arc;
use std::time::Duration;

use kew_console::{AlarmMetric, AlarmRule};
use toml::Value;

use super::accounts::{Entry, entries};
use super::error::ConfigError;

/// Where they stand in the file.
pub(super) const SECTION: &str = "alarms";
/// `[alarms] rules = […]` says the same.
const RULES: &str = "rules";
const KEYS: [&str; 6] = ["name", "queue", "metric", "above", "for_seconds", "webhook"];
/// Rules that there may be.
const RULES_MAX: usize = 100;
/// The longest time that a metric must be above its bound: a week.
const LASTING_MAX: u64 = 604_800;
/// The longest pattern: an account, a region and a name.
const PATTERN_MAX: usize = 200;

/// Reads them.
pub(super) fn read(value: &Value) -> Result<Vec<AlarmRule>, ConfigError> {
    let list = match value {
        Value::Array(list) => list.as_slice(),
        Value::Table(table) if table.keys().all(|key| key == RULES) => match table.get(RULES) {
            None => &[][..],
            Some(Value::Array(list)) => list.as_slice(),
            Some(_) => return Err(ConfigError::new(format!("{SECTION}: {RULES} must be a list"))),
        },
        _ => return Err(ConfigError::new(format!("{SECTION} must be written as [[{SECTION}]]"))),
    };
    if list.len() > RULES_MAX {
        return Err(ConfigError::new(format!("{SECTION}: there may be at most {RULES_MAX} rules")));
    }
    let rules: Vec<AlarmRule> =
        entries(list, SECTION).map(|entry| rule(&entry?)).collect::<Result<_, _>>()?;
    for (number, one) in rules.iter().enumerate() {
        if rules.iter().take(number).any(|other| other.name == one.name) {
            let name = &one.name;
            return Err(ConfigError::new(format!(
                "{SECTION} name = {name:?} stands there twice, and must be unique"
            )));
        }
    }
    Ok(rules)
}

fn rule(entry: &Entry<'_>) -> Result<AlarmRule, ConfigError> {
    entry.only(&KEYS)?;
    let name = entry.text("name", "a text of 1 to 64 letters, digits and ._-", name)?;
    let known: Vec<&str> = AlarmMetric::ALL.iter().map(|metric| metric.name()).collect();
    let metric = entry.text("metric", &format!("one of {}", known.join(", ")), metric)?;
    let queue = match (metric.is_of_queues(), entry.has("queue")) {
        (false, false) => "".into(),
        (false, true) => return Err(entry.not_allowed("disk_share is not of a queue: leave `queue` out")),
        (true, _) => entry.text(
            "queue",
            "a queue's name, or account:region:name; * stands for any letters",
            pattern,
        )?,
    };
    let (allowed, most) = match metric {
        AlarmMetric::DiskShare => ("a number from 0 to below 1", 1.0),
        _ => ("a number, 0 or more", f64::INFINITY),
    };
    let above = entry.number("above", allowed, |number| {
        // A bound that is never passed would be an alarm that cannot fire.
        (number >= 0.0 && number < most).then_some(number)
    })?;
    let seconds = if entry.has("for_seconds") {
        let allowed = format!("a whole number of seconds from 0 to {LASTING_MAX}");
        entry.number("for_seconds", &allowed, whole_seconds)?
    } else {
        0
    };
    let webhook = if entry.has("webhook") {
        Some(entry.text("webhook", "an http or https URL", webhook)?)
    } else {
        None
    };
    Ok(AlarmRule { name, queue, metric, above, lasting: Duration::from_secs(seconds), webhook })
}

fn name(text: &str) -> Option<Arc<str>> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    ((1..=64).contains(&text.len()) && text.bytes().all(is_plain)).then(|| text.into())
}

fn metric(text: &str) -> Option<AlarmMetric> {
    AlarmMetric::ALL.into_iter().find(|metric| metric.name() == text)
}

fn pattern(text: &str) -> Option<Arc<str>> {
    let is_plain =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-' | b'*' | b':');
    let colons = text.bytes().filter(|byte| *byte == b':').count();
    let is_whole = (1..=PATTERN_MAX).contains(&text.len()) && (colons == 0 || colons == 2);
    (is_whole && text.bytes().all(is_plain)).then(|| text.into())
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it is whole and within the bounds"
)]
fn whole_seconds(number: f64) -> Option<u64> {
    let is_whole = number >= 0.0 && number <= LASTING_MAX as f64 && number.fract() == 0.0;
    is_whole.then_some(number as u64)
}

fn webhook(text: &str) -> Option<Arc<str>> {
    let uri: kew_http::Uri = text.parse().ok()?;
    let is_web = matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some();
    is_web.then(|| text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(text: &str) -> Result<Vec<AlarmRule>, String> {
        let table: toml::Table = text.parse().expect("the text is TOML");
        read(table.get(SECTION).expect("the text has alarms")).map_err(|error| error.to_string())
    }

    #[test]
    fn a_rule_has_a_name_queues_a_metric_and_a_bound() {
        let text = r#"
            [[alarms]]
            name = "old"
            queue = "orders*"
            metric = "oldest_age_seconds"
            above = 600
            for_seconds = 60
            webhook = "https://example.com/hook"
            [[alarms]]
            name = "disk"
            metric = "disk_share"
            above = 0.9
        "#;
        let found = rules(text).expect("both rules are valid");
        let expected = AlarmRule {
            name: "old".into(),
            queue: "orders*".into(),
            metric: AlarmMetric::OldestAge,
            above: 600.0,
            lasting: Duration::from_secs(60),
            webhook: Some("https://example.com/hook".into()),
        };
        assert_eq!(found[0], expected);
        assert_eq!(
            (found[1].metric, found[1].above, found[1].lasting.as_secs()),
            (AlarmMetric::DiskShare, 0.9, 0)
        );
        let short = "[alarms]\nrules = [{ name = \"a\", queue = \"*\", metric = \"visible\", above = 1 }]\n";
        assert_eq!(rules(short).map(|rules| rules.len()), Ok(1));
    }

    #[test]
    fn a_bad_rule_is_refused_with_what_is_allowed() {
        let rule = |lines: &str| format!("[[alarms]]\nname = \"a\"\n{lines}");
        let with = |line: &str| rule(&format!("queue = \"*\"\nmetric = \"visible\"\nabove = 1\n{line}"));
        for (text, expected) in [
            (rule(""), "alarms[0] has no metric"),
            (rule("metric = \"depth\"\n"), "must be one of oldest_age_seconds, visible"),
            (rule("metric = \"visible\"\nabove = 1\n"), "alarms[0] has no queue"),
            (rule("metric = \"visible\"\nqueue = \"a:b\"\n"), "account:region:name"),
            (rule("metric = \"visible\"\nqueue = \"*\"\n"), "has no above"),
            (rule("metric = \"disk_share\"\nqueue = \"*\"\nabove = 1\n"), "leave `queue` out"),
            (rule("metric = \"disk_share\"\nabove = 1\n"), "must be a number from 0 to below 1"),
            (rule("metric = \"visible\"\nqueue = \"*\"\nabove = -1\n"), "above = -1 is not allowed"),
            (rule("metric = \"visible\"\nqueue = \"*\"\nabove = \"much\"\n"), "must be a number"),
            (with("for_seconds = 0.5\n"), "a whole number of seconds"),
            (with("for_seconds = 604801\n"), "from 0 to 604800"),
            (with("webhook = \"ftp://x\"\n"), "an http or https URL"),
            (with("colour = \"red\"\n"), "is not a known key; allowed are name, queue"),
            (format!("{}{}", with(""), with("")), "stands there twice"),
            ("[alarms]\nname = \"a\"\n".to_owned(), "must be written as [[alarms]]"),
            ("[[alarms]]\nname = \"a b\"\n".to_owned(), "letters, digits"),
        ] {
            let told = rules(&text).expect_err(&text);
            assert!(told.contains(expected), "{text}: {told}");
        }
    }
}
