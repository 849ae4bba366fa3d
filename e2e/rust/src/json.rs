//! JSON members to the SDK's arguments, and back.

use aws_sdk_sqs::primitives::Blob;
use aws_sdk_sqs::types::{MessageAttributeValue, MessageSystemAttributeValue};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use std::collections::HashMap;

/// A member of the input, absent or not, as the type the SDK asks for.
pub trait Given: Sized {
    fn given(value: &Value) -> Option<Self>;
}

impl Given for String {
    fn given(value: &Value) -> Option<Self> {
        value.as_str().map(str::to_owned)
    }
}

impl Given for i32 {
    fn given(value: &Value) -> Option<Self> {
        value.as_i64().and_then(|number| i32::try_from(number).ok())
    }
}

/// Lists of names, some of which the SDK has as enums.
impl<T: for<'a> From<&'a str>> Given for Vec<T> {
    fn given(value: &Value) -> Option<Self> {
        let entries = value.as_array()?;
        Some(entries.iter().filter_map(Value::as_str).map(T::from).collect())
    }
}

/// `{name: text}`, for queue attributes and tags.
pub fn texts<K: for<'a> From<&'a str> + Eq + std::hash::Hash>(value: &Value) -> Option<HashMap<K, String>> {
    let members = value.as_object()?;
    let pair = |(name, text): (&String, &Value)| Some((K::from(name.as_str()), text.as_str()?.to_owned()));
    Some(members.iter().filter_map(pair).collect())
}

pub fn attributes(value: &Value) -> Option<HashMap<String, MessageAttributeValue>> {
    let pair = |(name, given): (&String, &Value)| {
        let built = MessageAttributeValue::builder()
            .set_data_type(String::given(&given["DataType"]))
            .set_string_value(String::given(&given["StringValue"]))
            .set_binary_value(given["BinaryValue"].as_str().and_then(|text| STANDARD.decode(text).ok()).map(Blob::new));
        (name.clone(), built.build().expect("a data type is given"))
    };
    Some(value.as_object()?.iter().map(pair).collect())
}

pub fn system_attributes<K: for<'a> From<&'a str> + Eq + std::hash::Hash>(
    value: &Value,
) -> Option<HashMap<K, MessageSystemAttributeValue>> {
    let pair = |(name, given): (&String, &Value)| {
        let built = MessageSystemAttributeValue::builder()
            .set_data_type(String::given(&given["DataType"]))
            .set_string_value(String::given(&given["StringValue"]));
        (K::from(name.as_str()), built.build().expect("a data type is given"))
    };
    Some(value.as_object()?.iter().map(pair).collect())
}

/// An object of what the result has; what it has not is left out.
pub fn object<const N: usize>(members: [(&str, Value); N]) -> Value {
    let present = members.into_iter().filter(|(_, value)| !value.is_null());
    Value::Object(present.map(|(name, value)| (name.to_owned(), value)).collect())
}

pub fn text(value: Option<&str>) -> Value {
    json!(value)
}

/// A map of names and texts, `null` when the SDK has none.
pub fn map<K: AsRef<str>>(map: Option<&HashMap<K, String>>) -> Value {
    map.map_or(Value::Null, |map| {
        map.iter().map(|(name, text)| (name.as_ref().to_owned(), json!(text))).collect::<Map<_, _>>().into()
    })
}

pub fn message_attributes(map: Option<&HashMap<String, MessageAttributeValue>>) -> Value {
    let shown = |value: &MessageAttributeValue| {
        object([
            ("DataType", json!(value.data_type())),
            ("StringValue", text(value.string_value())),
            ("BinaryValue", json!(value.binary_value().map(|blob| STANDARD.encode(blob)))),
        ])
    };
    map.map_or(Value::Null, |map| {
        map.iter().map(|(name, value)| (name.clone(), shown(value))).collect::<Map<_, _>>().into()
    })
}
