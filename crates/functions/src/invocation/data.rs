//! What is known about a message: for the handler, and for names that have places to fill in.

use std::collections::HashMap;

use kew_core::Timestamp;
use kew_http::date;
use serde_json::Value;
use serde_json::value::RawValue;

use kew_azure::client::QueueMessage;

use super::json::{self, Members};
use super::property;

/// Everything known, by name, in order.
#[derive(Debug, Default)]
pub(crate) struct BindingData {
    known: Vec<(String, Datum)>,
    /// Where each name stands, in lower case: a message may bring as many names as it has room for.
    places: HashMap<String, usize>,
}

/// One thing that is known.
#[derive(Debug)]
pub(super) enum Datum {
    Text(String),
    Number(u64),
    Instant(Timestamp),
    /// A property of a message that is an object itself, as it is written there.
    Json(Box<RawValue>),
}

impl BindingData {
    /// What is known about a message with this text. The properties of a text that is a JSON object are known too, and
    /// win over what is known anyway.
    pub(crate) fn of(message: &QueueMessage, text: Option<&str>) -> Self {
        let mut data = Self::default();
        if let Some(text) = text {
            data.set("QueueTrigger", Datum::Text(text.to_owned()));
        }
        data.set("DequeueCount", Datum::Number(message.dequeue_count.into()));
        data.set("ExpirationTime", Datum::Instant(message.expires));
        data.set("Id", Datum::Text(message.id.clone()));
        data.set("InsertionTime", Datum::Instant(message.inserted));
        data.set("NextVisibleTime", Datum::Instant(message.next_visible));
        data.set("PopReceipt", Datum::Text(message.pop_receipt.clone()));
        let object = text.filter(|text| text.trim_start().starts_with('{'));
        if let Some(Ok(Members(members))) = object.map(serde_json::from_str::<Members>) {
            for (name, value) in members {
                let is_object = value.get().starts_with('{');
                let datum = if is_object {
                    Some(Datum::Json(value))
                } else {
                    property::text(value.get()).map(Datum::Text)
                };
                if let Some(datum) = datum {
                    data.set(&name, datum);
                }
            }
        }
        data
    }

    /// Names are one in any case, and stay as they were first written.
    fn set(&mut self, name: &str, datum: Datum) {
        let end = self.known.len();
        let place = *self.places.entry(name.to_ascii_lowercase()).or_insert(end);
        match self.known.get_mut(place) {
            Some((_, known)) => *known = datum,
            None => self.known.push((name.to_owned(), datum)),
        }
    }

    fn find(&self, name: &str) -> Option<&Datum> {
        let place = *self.places.get(&name.to_ascii_lowercase())?;
        self.known.get(place).map(|(_, datum)| datum)
    }

    /// What the handler gets beside its bindings: a trigger's own value it has already.
    pub(super) fn metadata(&self) -> impl Iterator<Item = (&str, &Datum)> {
        let is_trigger = |name: &str| name.to_ascii_lowercase().ends_with("trigger");
        self.known
            .iter()
            .filter(move |(name, _)| !is_trigger(name))
            .map(|(name, datum)| (name.as_str(), datum))
    }

    /// What fills a place: a name, or a path of names into an object.
    pub(crate) fn text(&self, place: &str) -> Option<String> {
        let mut names = place.split('.');
        let first = names.next()?;
        let object = match self.find(first)? {
            Datum::Json(raw) => raw,
            known if names.next().is_none() => return Some(known.plain()),
            _ => return None,
        };
        let mut value: Value = serde_json::from_str(object.get()).ok()?;
        for name in names {
            value = value.get_mut(name)?.take();
        }
        property::text(&value.to_string())
    }
}

impl Datum {
    fn plain(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Number(number) => number.to_string(),
            Self::Instant(at) => iso(*at),
            Self::Json(raw) => raw.get().to_owned(),
        }
    }

    /// As the handler gets it: dates as dates, objects as objects, everything else as JSON text inside a string.
    pub(super) fn coded(&self) -> String {
        match self {
            Self::Text(text) => coded_text(text),
            Self::Number(number) => json::string(&number.to_string()),
            Self::Instant(at) => json::string(&iso(*at)),
            Self::Json(raw) => raw.get().to_owned(),
        }
    }
}

/// A text, as JSON text inside a string.
pub(super) fn coded_text(text: &str) -> String {
    json::string(&json::string(text))
}

/// `2030-01-08T00:00:00+00:00`
pub(super) fn iso(at: Timestamp) -> String {
    let text = date::rfc3339(at);
    let seconds = text.split('.').next().unwrap_or_default();
    format!("{seconds}+00:00")
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) fn message() -> QueueMessage {
        QueueMessage {
            id: "77ad22a3".into(),
            inserted: Timestamp(1_893_456_000_000),
            expires: Timestamp(1_894_060_800_000),
            next_visible: Timestamp(1_893_456_600_000),
            dequeue_count: 1,
            pop_receipt: "r=".into(),
            text: String::new(),
        }
    }

    #[test]
    fn values_are_coded_by_their_kind() {
        let data = BindingData::of(&message(), Some("hi"));
        let told: Vec<String> =
            data.metadata().map(|(name, datum)| format!("{name}={}", datum.coded())).collect();
        assert_eq!(
            told,
            [
                r#"DequeueCount="1""#,
                r#"ExpirationTime="2030-01-08T00:00:00+00:00""#,
                r#"Id="\"77ad22a3\"""#,
                r#"InsertionTime="2030-01-01T00:00:00+00:00""#,
                r#"NextVisibleTime="2030-01-01T00:10:00+00:00""#,
                r#"PopReceipt="\"r=\"""#,
            ]
        );
    }

    #[test]
    fn properties_of_a_json_object_are_known_too_and_win() {
        let text =
            r#" {"Id":"own","n":1.50,"o":{"b":1, "a":2},"l":[1, 2],"t":true,"nothing":null,"MyTrigger":1}"#;
        let data = BindingData::of(&message(), Some(text));
        let told: std::collections::BTreeMap<&str, String> =
            data.metadata().map(|(name, datum)| (name, datum.coded())).collect();
        assert_eq!(told["Id"], r#""\"own\"""#);
        assert_eq!(told["n"], r#""\"1.5\"""#);
        assert_eq!(told["o"], r#"{"b":1, "a":2}"#);
        assert_eq!(told["t"], r#""\"True\"""#);
        assert!(!told.contains_key("l") && !told.contains_key("nothing"), "arrays and nulls are left out");
        assert!(!told.contains_key("MyTrigger") && !told.contains_key("QueueTrigger"));
        assert_eq!(data.text("o.a").as_deref(), Some("2"));
        assert_eq!(data.text("id").as_deref(), Some("own"));
        assert_eq!(data.text("DequeueCount").as_deref(), Some("1"));
        assert_eq!((data.text("o"), data.text("gone"), data.text("o.gone")), (None, None, None));
    }

    /// Nanoseconds of the processor that this thread has used. A busy machine does not lengthen them.
    fn processor_time() -> i64 {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        time.tv_sec * 1_000_000_000 + time.tv_nsec
    }

    /// Nanoseconds to read a message with this number of properties: the least of three runs.
    fn read(count: u32) -> i64 {
        let members: Vec<String> = (0..count).map(|number| format!("\"p{number}\":{number}")).collect();
        let text = format!("{{{}}}", members.join(","));
        let last = format!("P{}", count - 1);
        let times = (0..3).map(|_| {
            let begun = processor_time();
            let data = BindingData::of(&message(), Some(&text));
            assert_eq!(
                (data.metadata().count(), data.text(&last)),
                (count as usize + 6, Some((count - 1).to_string()))
            );
            processor_time() - begun
        });
        times.min().unwrap_or_default()
    }

    #[test]
    fn the_time_a_message_takes_grows_no_faster_than_its_properties() {
        let (few, many) = (read(2_000), read(64_000));
        // Thirty-two times as many; one by one they would take a thousand times as long.
        assert!(many < few * 200, "{few} ns, {many} ns");
    }

    #[test]
    fn other_texts_have_no_properties() {
        for text in ["[1]", "\"x\"", "7", "{broken", ""] {
            assert_eq!(BindingData::of(&message(), Some(text)).metadata().count(), 6, "{text}");
        }
    }
}
