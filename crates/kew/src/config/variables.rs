//! Variables that look like settings and are none: a misspelled one is an error instead of having no effect.
//!
//! Known are the settings' own, those of other commands and of tests, and what Kubernetes puts into every container of
//! a namespace that has a service named `kew` or `kew-…`.

use super::error::ConfigError;
use super::table::{SETTINGS, Setting};

const BEGINNING: &str = "KEW_";

/// Those of the command line, of other commands, and of slow disks (`slow_disk`).
const OF_COMMANDS: [&str; 11] = [
    "KEW_CONFIG",
    "KEW_ADMIN_URL",
    "KEW_ADMIN_CA",
    "KEW_HEALTH_CA",
    "KEW_HEALTH_NAME",
    "KEW_FUNCTIONS_ROOT",
    "KEW_FUNCTIONS_CLOCK",
    "KEW_FUNCTIONS_WAIT",
    "KEW_FUNCTIONS_DRAIN_SECONDS",
    crate::slow_disk::SYNCS,
    crate::slow_disk::READS,
];

/// Those of docs/testing.md and of the plays there. A server that a test starts has them from the test.
const OF_TESTS: [&str; 23] = [
    "KEW_MODEL_HISTORIES",
    "KEW_MODEL_SEED",
    "KEW_CRASH",
    "KEW_CRASH_SEED",
    "KEW_INTERLEAVED",
    "KEW_INTERLEAVED_SEED",
    "KEW_SEEDS_AFTER",
    "KEW_KILLS",
    "KEW_PIPELINED",
    "KEW_UNREAD",
    "KEW_TEST_STORE",
    "KEW_WORKERD_NEEDED",
    "KEW_CHROMIUM",
    "KEW_CHROMIUM_NEEDED",
    "KEW_CURL_NEEDED",
    "KEW_LONG",
    "KEW_E2E_ONLY",
    "KEW_E2E_PROGRAM",
    "KEW_AZURITE",
    "KEW_ENDPOINT",
    "KEW_DIRECTORY",
    "KEW_PROGRAM",
    "KEW_PYTHON",
];

/// Refuses variables that are named like settings and are not known. Their values, which may be secrets, are not shown.
pub fn check(variables: impl IntoIterator<Item = (String, String)>) -> Result<(), ConfigError> {
    let known = known();
    let is_known = |name: &str| known.iter().any(|known| known == name);
    let mut unknown: Vec<String> = variables
        .into_iter()
        .filter(|(name, value)| name.starts_with(BEGINNING) && !is_known(name) && !is_of_service(name, value))
        .map(|(name, _)| name)
        .collect();
    unknown.sort_unstable();
    if unknown.is_empty() {
        return Ok(());
    }
    let sentences: Vec<String> = unknown.iter().map(|name| told(name, &known)).collect();
    Err(ConfigError::new(sentences.join("; ")))
}

fn known() -> Vec<String> {
    let others = OF_COMMANDS.into_iter().chain(OF_TESTS).map(str::to_owned);
    SETTINGS.iter().flat_map(Setting::variables).chain(others).collect()
}

fn told(name: &str, known: &[String]) -> String {
    // Who leaves the end out means what begins so.
    let is_beginning = |known: &str| name.len() > BEGINNING.len() + 3 && known.starts_with(name);
    let far = |known: &str| if is_beginning(known) { 1 } else { distance(name, known) };
    let nearest = known.iter().min_by_key(|known| far(known));
    // What shares less than half of its letters is no help.
    match nearest.filter(|known| far(known) * 2 <= name.len()) {
        Some(nearest) => format!("{name} is not a known variable; the nearest is {nearest}"),
        None => format!("{name} is not a known variable; --print-config shows every setting"),
    }
}

/// Whether Kubernetes has made it of a service: `KEW_SERVICE_HOST`, `KEW_PORT_9324_TCP` and such, and the same with
/// more words of the service's name behind the first.
fn is_of_service(name: &str, value: &str) -> bool {
    let is_link = || ["tcp://", "udp://", "sctp://"].iter().any(|scheme| value.starts_with(scheme));
    let words: Vec<&str> = name.split('_').skip(1).collect();
    (0..words.len()).any(|begin| match &words[begin..] {
        ["PORT"] | ["PORT", _, "TCP" | "UDP" | "SCTP"] => is_link(),
        ["PORT", number, "TCP" | "UDP" | "SCTP", "PROTO" | "PORT" | "ADDR"] => number.parse::<u16>().is_ok(),
        ["SERVICE", "HOST"] => true,
        ["SERVICE", "PORT", ..] => value.parse::<u16>().is_ok(),
        _ => false,
    })
}

/// How many letters have to be put in, left out or changed to make one of the other.
fn distance(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (line, letter) in one.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = line + 1;
        for (column, found) in other.bytes().enumerate() {
            let changed = diagonal + usize::from(letter != found);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(row[column] + 1).min(diagonal + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(variables: &[(&str, &str)]) -> Option<String> {
        let owned = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        check(owned).err().map(|error| error.to_string())
    }

    #[test]
    fn a_misspelled_variable_is_reported_with_the_nearest_name_and_without_its_value() {
        for (name, nearest) in [
            ("KEW_SQS_NAME_HOLD", "KEW_SQS_NAME_HOLD_SECONDS"),
            ("KEW_STROE", "KEW_STORE"),
            ("KEW_ADMIN_TOKEN_", "KEW_ADMIN_TOKEN"),
            ("KEW_SERVER_AUT", "KEW_SERVER_AUTH"),
        ] {
            let expected = format!("{name} is not a known variable; the nearest is {nearest}");
            assert_eq!(refused(&[(name, "hush"), ("HOME", "/")]), Some(expected));
        }
        let told = refused(&[("KEW_SOMETHING_ELSE_ALTOGETHER", "1"), ("KEW_", "2")]).unwrap_or_default();
        assert!(told.starts_with("KEW_ is not a known variable; "), "all of them: {told}");
        assert!(told.contains("KEW_SOMETHING_ELSE_ALTOGETHER is not a known"), "{told}");
    }

    #[test]
    fn every_variable_of_a_setting_of_a_command_and_of_the_tests_is_known() {
        let all: Vec<(String, String)> = known().into_iter().map(|name| (name, String::new())).collect();
        assert!(all.len() > 80 && check(all).is_ok());
        let page = include_str!("../../../../docs/testing.md");
        let rows = page.lines().filter_map(|line| line.strip_prefix("| `KEW_")?.split('`').next());
        let names: Vec<String> = rows.map(|rest| format!("KEW_{rest}")).collect();
        assert!(names.len() > 10, "{names:?}");
        assert_eq!(check(names.into_iter().map(|name| (name, "1".to_owned()))), Ok(()));
    }

    // Kubernetes, "Service", section "Environment variables": the name in capitals, hyphens as underscores.
    #[test]
    fn what_kubernetes_makes_of_services_is_no_setting() {
        for name in ["KEW", "KEW_SQS", "KEW_SQS_TEST"] {
            let variables = [
                ("SERVICE_HOST", "10.0.0.11"),
                ("SERVICE_PORT", "9324"),
                ("SERVICE_PORT_ADMIN_HTTP", "9325"),
                ("PORT", "tcp://10.0.0.11:9324"),
                ("PORT_9324_TCP", "tcp://10.0.0.11:9324"),
                ("PORT_9324_TCP_PROTO", "tcp"),
                ("PORT_9324_TCP_PORT", "9324"),
                ("PORT_9324_TCP_ADDR", "10.0.0.11"),
                ("PORT_53_UDP", "udp://10.0.0.11:53"),
            ];
            for (rest, value) in variables {
                assert_eq!(refused(&[(&format!("{name}_{rest}"), value)]), None, "{name}_{rest}");
            }
        }
        for (name, value) in [
            ("KEW_PORT", "9324"),
            ("KEW_SQS_PORT", "9324"),
            ("KEW_SERVICE_PORT", "high"),
            ("KEW_PORT_SQS_TCP_PORT", "9324"),
            ("KEW_SERVICE", "x"),
        ] {
            assert!(refused(&[(name, value)]).is_some(), "{name}={value}");
        }
    }
}
