//! Values of output bindings as messages.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::value::RawValue;

use super::json;
use crate::project::{DataType, Encoding};

/// What a message holds before it is encoded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Payload {
    Text(String),
    Bytes(Vec<u8>),
}

impl Payload {
    /// The messages a value makes: an array one for each element, everything else one.
    pub(crate) fn read(value: &RawValue, kind: DataType) -> Vec<Self> {
        if let Ok(text) = serde_json::from_str::<String>(value.get()) {
            return vec![Self::of_text(text, kind)];
        }
        match serde_json::from_str::<Vec<Box<RawValue>>>(value.get()) {
            Ok(elements) => elements.iter().filter_map(|element| Self::of_element(element)).collect(),
            Err(_) => Self::of_element(value).into_iter().collect(),
        }
    }

    /// A text that happens to be Base64 is decoded, as the vendor's host does, unless the binding is binary.
    fn of_text(text: String, kind: DataType) -> Self {
        match STANDARD.decode(&text) {
            Ok(bytes) if kind == DataType::Text => Self::Bytes(bytes),
            _ => Self::Text(text),
        }
    }

    fn of_element(value: &RawValue) -> Option<Self> {
        match serde_json::from_str::<String>(value.get()) {
            Ok(text) => Some(Self::Text(text)),
            Err(_) if value.get() == "null" => None,
            Err(_) => Some(Self::Text(json::compact(value.get()))),
        }
    }

    /// The text that is stored.
    pub(crate) fn encoded(&self, encoding: Encoding) -> String {
        let bytes = match self {
            Self::Text(text) => text.as_bytes(),
            Self::Bytes(bytes) => bytes,
        };
        match encoding {
            Encoding::Base64 => STANDARD.encode(bytes),
            Encoding::None => String::from_utf8_lossy(bytes).into_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(value: &str, kind: DataType) -> Vec<Payload> {
        Payload::read(serde_json::from_str::<&RawValue>(value).expect("the value of an output is JSON"), kind)
    }

    fn texts(texts: &[&str]) -> Vec<Payload> {
        texts.iter().map(|text| Payload::Text((*text).to_owned())).collect()
    }

    #[test]
    fn a_text_that_is_base64_is_mangled_unless_the_binding_is_binary() {
        assert_eq!(read("\"test\"", DataType::Text), [Payload::Bytes(vec![0xb5, 0xeb, 0x2d])]);
        assert_eq!(read("\"test\"", DataType::Binary), texts(&["test"]));
        assert_eq!(read("\"tests\"", DataType::Text), texts(&["tests"]));
        assert_eq!(read("\"a b!\"", DataType::Text), texts(&["a b!"]));
    }

    #[test]
    fn an_object_is_one_message_and_an_array_one_for_each_element() {
        assert_eq!(read("{ \"b\": 1, \"a\": [1, 2] }", DataType::Text), texts(&["{\"b\":1,\"a\":[1,2]}"]));
        assert_eq!(
            read("[ \"test\", {\"a\": 1}, 3, null, [4] ]", DataType::Text),
            texts(&["test", "{\"a\":1}", "3", "[4]"])
        );
        assert_eq!(read("[]", DataType::Text), []);
        assert_eq!(read("7", DataType::Text), texts(&["7"]));
    }

    #[test]
    fn messages_are_encoded_as_the_settings_say() {
        let bytes = Payload::Bytes(vec![0xb5, 0xeb, 0x2d]);
        assert_eq!(bytes.encoded(Encoding::Base64), "test");
        assert_eq!(Payload::Text("hi".into()).encoded(Encoding::Base64), "aGk=");
        assert_eq!(Payload::Text("hi".into()).encoded(Encoding::None), "hi");
    }
}
