//! Variables that stand above host.json: `AzureFunctionsJobHost__extensions__queues__batchSize` and so on.
//!
//! The vendor's host puts its environment behind the file in its configuration (`HostJsonFileConfigurationSource`
//! before `AddEnvironmentVariables("AzureFunctionsJobHost__")`), so what comes later counts: names of any case, `__`
//! between them, numbers for places in lists.

use serde_json::Value;

use super::app_settings::AppSettings;
use super::lenient::Object;

const PREFIX: &str = "AzureFunctionsJobHost__";

/// Writes what the settings say over what the file says.
pub(super) fn apply(file: &mut Object, settings: &AppSettings) {
    let split = |(path, value)| (str::split(path, ':').collect(), value);
    let mut all: Vec<(Vec<&str>, &str)> = settings.below(PREFIX).map(split).collect();
    // Lists grow at their end, so place 2 is written before place 10.
    all.sort_by_cached_key(|(names, _)| names.iter().copied().map(rank).collect::<Vec<_>>());
    for (names, value) in all {
        write(file, &names, value);
    }
}

/// What a part of a path is sorted by: numbers by what they count and before all names.
fn rank(name: &str) -> (usize, &str) {
    (name.parse().unwrap_or(usize::MAX), name)
}

fn write(within: &mut Object, names: &[&str], value: &str) {
    let Some((first, rest)) = names.split_first().filter(|(first, _)| !first.is_empty()) else { return };
    let known = within.keys().find(|key| key.eq_ignore_ascii_case(first)).cloned();
    let entry = within.entry(known.unwrap_or_else(|| (*first).to_owned())).or_insert(Value::Null);
    write_at(entry, rest, value);
}

fn write_at(place: &mut Value, names: &[&str], value: &str) {
    let Some((first, rest)) = names.split_first() else {
        *place = Value::from(value);
        return;
    };
    match (&mut *place, first.parse::<usize>()) {
        (Value::Array(items), Ok(index)) if index < items.len() => {
            if let Some(item) = items.get_mut(index) {
                write_at(item, rest, value);
            }
        }
        // One behind the last is a new one.
        (Value::Array(items), Ok(_)) if rest.is_empty() => items.push(Value::from(value)),
        (Value::Array(_), _) => {}
        (Value::Object(object), _) => write(object, names, value),
        (Value::Null, Ok(0)) if rest.is_empty() => *place = Value::from(vec![value]),
        (_, _) => {
            let mut object = Object::new();
            write(&mut object, names, value);
            *place = Value::Object(object);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project::lenient;

    #[test]
    fn variables_stand_above_the_file_wherever_they_point() {
        let mut settings = AppSettings::default();
        for (name, value) in [
            ("AzureFunctionsJobHost__extensions__queues__batchSize", "4"),
            ("azurefunctionsjobhost__Extensions__Queues__maxPollingInterval", "00:00:05"),
            ("AzureFunctionsJobHost:functionTimeout", "00:01:00"),
            ("AzureFunctionsJobHost__customHandler__description__arguments__0", "--first"),
            ("AzureFunctionsJobHost__customHandler__description__arguments__1", "--second"),
            ("AzureFunctionsJobHost__list__0", "a"),
            ("AzureFunctionsJobHost__", "nothing"),
            ("Other__extensions__queues__batchSize", "9"),
        ] {
            settings.insert(name, value);
        }
        let file = br#"{"version":"2.0","Extensions":{"queues":{"batchSize":16,"maxDequeueCount":3}},
            "customHandler":{"description":{"arguments":["--x"]}}}"#;
        let mut file = lenient::parse(file).expect("the file is a JSON object");
        apply(&mut file, &settings);
        let file = Value::Object(file);
        let queues = &file["Extensions"]["queues"];
        assert_eq!((&queues["batchSize"], &queues["maxDequeueCount"]), (&Value::from("4"), &Value::from(3)));
        assert_eq!(queues["maxpollinginterval"], "00:00:05");
        assert_eq!(file["functiontimeout"], "00:01:00");
        let arguments = &file["customHandler"]["description"]["arguments"];
        assert_eq!(*arguments, Value::from(vec!["--first", "--second"]));
        assert_eq!(file["list"], Value::from(vec!["a"]));
        assert_eq!(file.as_object().map(serde_json::Map::len), Some(5));
    }

    #[test]
    fn a_list_of_more_than_ten_is_whole_and_in_order() {
        let expected: Vec<String> = (0..12).map(|place| format!("--{place}")).collect();
        let mut settings = AppSettings::default();
        for (place, argument) in expected.iter().enumerate() {
            let path = "AzureFunctionsJobHost__customHandler__description__arguments";
            settings.insert(&format!("{path}__{place}"), argument);
        }
        let mut file = lenient::parse(b"{}").expect("the file is a JSON object");
        apply(&mut file, &settings);
        let file = Value::Object(file);
        assert_eq!(file["customhandler"]["description"]["arguments"], Value::from(expected));
    }
}
