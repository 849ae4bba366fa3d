//! What a request's body and query may hold: one description that requests are checked by and the OpenAPI document is
//! written from.

use std::borrow::Cow;

use kew_http::{form, percent};
use serde_json::{Map, Value, json};

use super::once::MembersOnce;
use crate::error::ApiError;

/// Pairs of a query.
const PAIRS_MAX: usize = 20;

/// One member of a JSON object, or one parameter of a query.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) is_required: bool,
    /// What counts when it is not there, as JSON.
    pub(crate) default: Option<&'static str>,
    /// Whether `null` stands for the default.
    pub(crate) is_nullable: bool,
    pub(crate) help: &'static str,
}

/// What a value looks like.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// At most this number of bytes.
    Text(usize),
    /// Within these bounds.
    Whole(u64, u64),
    Flag,
    Choice(&'static [&'static str]),
    Object(&'static [Field]),
    /// An object whose members the operation checks.
    Free,
    /// An array of at most this number of texts.
    Texts(usize),
    /// Only in replies: an array of objects.
    Objects(&'static [Field]),
    /// Only in replies: a number with a fraction.
    Number,
    /// Only in replies: an array of whole numbers.
    Numbers,
}

pub(crate) const fn field(name: &'static str, kind: Kind, help: &'static str) -> Field {
    Field { name, kind, is_required: false, default: None, is_nullable: false, help }
}

impl Field {
    pub(crate) const fn required(self) -> Self {
        Self { is_required: true, ..self }
    }

    pub(crate) const fn nullable(self) -> Self {
        Self { is_nullable: true, ..self }
    }

    pub(crate) const fn default(self, default: &'static str) -> Self {
        Self { default: Some(default), ..self }
    }

    fn check(&self, value: &Value) -> Result<(), ApiError> {
        if value.is_null() && self.is_nullable {
            return Ok(());
        }
        let is_right = match self.kind {
            Kind::Text(max) => value.as_str().is_some_and(|text| text.len() <= max),
            Kind::Whole(min, max) => value.as_u64().is_some_and(|number| (min..=max).contains(&number)),
            Kind::Flag => value.is_boolean(),
            Kind::Choice(words) => value.as_str().is_some_and(|text| words.contains(&text)),
            Kind::Object(fields) => match value {
                Value::Object(members) => return check(members, fields, self.name),
                _ => false,
            },
            Kind::Free => value.is_object(),
            Kind::Texts(max) => {
                value.as_array().is_some_and(|texts| texts.len() <= max && texts.iter().all(Value::is_string))
            }
            Kind::Objects(_) | Kind::Number | Kind::Numbers => false,
        };
        if is_right { Ok(()) } else { Err(self.refuse()) }
    }

    /// The value of a text in a query.
    fn of_text(&self, text: &str) -> Result<Value, ApiError> {
        let value = match self.kind {
            Kind::Whole(..) => text.parse::<u64>().map(Value::from).map_err(|_| self.refuse())?,
            Kind::Flag => text.parse::<bool>().map(Value::from).map_err(|_| self.refuse())?,
            _ => Value::from(text),
        };
        self.check(&value)?;
        Ok(value)
    }

    fn refuse(&self) -> ApiError {
        let or_null = if self.is_nullable { ", or null for the default" } else { "" };
        ApiError::bad_request(format!("{} must be {}{or_null}", self.name, self.kind.allowed()))
    }
}

impl Kind {
    fn allowed(self) -> String {
        match self {
            Self::Text(max) => format!("a text of at most {max} bytes"),
            Self::Whole(min, max) => format!("a whole number from {min} to {max}"),
            Self::Flag => "true or false".to_owned(),
            Self::Choice(words) => format!("one of {}", words.join(", ")),
            Self::Object(_) | Self::Free => "an object".to_owned(),
            Self::Texts(max) => format!("an array of at most {max} texts"),
            Self::Objects(_) => "an array of objects".to_owned(),
            Self::Number => "a number".to_owned(),
            Self::Numbers => "an array of whole numbers".to_owned(),
        }
    }

    /// Its schema in the OpenAPI document.
    pub(crate) fn schema(self) -> Value {
        match self {
            Self::Text(max) if max < usize::MAX => json!({ "type": "string", "maxLength": max }),
            Self::Text(_) => json!({ "type": "string" }),
            Self::Whole(min, max) if max < u64::MAX => {
                json!({ "type": "integer", "minimum": min, "maximum": max })
            }
            Self::Whole(min, _) => json!({ "type": "integer", "minimum": min }),
            Self::Flag => json!({ "type": "boolean" }),
            Self::Choice(words) => json!({ "type": "string", "enum": words }),
            Self::Object(fields) => object_schema(fields),
            Self::Free => json!({ "type": "object" }),
            Self::Texts(max) => json!({ "type": "array", "maxItems": max, "items": { "type": "string" } }),
            Self::Objects(fields) => json!({ "type": "array", "items": object_schema(fields) }),
            Self::Number => json!({ "type": "number" }),
            Self::Numbers => json!({ "type": "array", "items": { "type": "integer", "minimum": 0 } }),
        }
    }
}

impl Field {
    /// Its schema in the OpenAPI document, with what it means and what counts when it is not there.
    pub(crate) fn schema(&self) -> Value {
        let mut schema = self.kind.schema();
        if let Value::Object(members) = &mut schema {
            members.insert("description".to_owned(), self.help.into());
            if let Some(default) = self.default {
                let default = serde_json::from_str(default).unwrap_or(Value::Null);
                members.insert("default".to_owned(), default);
            }
            if self.is_nullable {
                let only = members.remove("type").unwrap_or_default();
                members.insert("type".to_owned(), json!([only, "null"]));
                if let Some(Value::Array(words)) = members.get_mut("enum") {
                    words.push(Value::Null);
                }
            }
        }
        schema
    }
}

/// The schema of an object with these members and no others.
pub(crate) fn object_schema(fields: &[Field]) -> Value {
    let properties: Map<String, Value> =
        fields.iter().map(|field| (field.name.to_owned(), field.schema())).collect();
    let required: Vec<&str> =
        fields.iter().filter(|field| field.is_required).map(|field| field.name).collect();
    let mut schema = json!({ "type": "object", "properties": properties, "additionalProperties": false });
    if !required.is_empty()
        && let Value::Object(members) = &mut schema
    {
        members.insert("required".to_owned(), json!(required));
    }
    schema
}

/// Values that are known to be of their fields' kinds.
#[derive(Debug, Default)]
pub(crate) struct Members(Map<String, Value>);

impl Members {
    /// The members of a body. One without any may be empty.
    pub(crate) fn of_body(body: &[u8], fields: &'static [Field]) -> Result<Self, ApiError> {
        let is_blank = body.iter().all(u8::is_ascii_whitespace);
        let members = if is_blank {
            Map::new()
        } else {
            match serde_json::from_slice::<MembersOnce>(body) {
                Ok(MembersOnce(Value::Object(members))) => members,
                Ok(_) => return Err(ApiError::bad_request("the body must be a JSON object")),
                Err(error) => {
                    let why = format!("the body must be a JSON object: {error}");
                    return Err(ApiError::bad_request(why));
                }
            }
        };
        check(&members, fields, "the body")?;
        Ok(Self(members))
    }

    /// Members that were checked before.
    pub(crate) fn of_checked(members: Map<String, Value>) -> Self {
        Self(members)
    }

    /// The parameters of a query.
    pub(crate) fn of_query(query: &str, fields: &'static [Field]) -> Result<Self, ApiError> {
        let pairs = form::pairs(query.as_bytes(), PAIRS_MAX)
            .map_err(|error| ApiError::bad_request(format!("the query: {error}")))?;
        let mut members = Map::new();
        for (name, text) in &pairs {
            let Some(field) = fields.iter().find(|field| field.name == name) else {
                return Err(unknown(name, fields, "the query"));
            };
            if members.contains_key(field.name) {
                return Err(ApiError::bad_request(format!("{name} is given twice")));
            }
            members.insert(field.name.to_owned(), field.of_text(text)?);
        }
        Ok(Self(members))
    }

    /// A text, if it is there.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.as_str()
    }

    /// A whole number, if it is there.
    pub(crate) fn whole(&self, name: &str) -> Option<u64> {
        self.0.get(name)?.as_u64()
    }

    /// Whether a flag is there and true.
    pub(crate) fn is_set(&self, name: &str) -> bool {
        self.0.get(name).and_then(Value::as_bool).unwrap_or_default()
    }

    /// An object, if it is there.
    pub(crate) fn object(&self, name: &str) -> Option<&Map<String, Value>> {
        self.0.get(name)?.as_object()
    }

    /// An array of texts; empty where it is not there.
    pub(crate) fn texts(&self, name: &str) -> Vec<&str> {
        let texts = self.0.get(name).and_then(Value::as_array);
        texts.map(|texts| texts.iter().filter_map(Value::as_str).collect()).unwrap_or_default()
    }
}

/// Refuses members that are not of these fields.
pub(super) fn check(members: &Map<String, Value>, fields: &[Field], place: &str) -> Result<(), ApiError> {
    for (name, value) in members {
        let field = fields.iter().find(|field| field.name == name);
        field.ok_or_else(|| unknown(name, fields, place))?.check(value)?;
    }
    let missing = fields.iter().find(|field| field.is_required && !members.contains_key(field.name));
    missing.map_or(Ok(()), |field| {
        Err(ApiError::bad_request(format!("{} is missing: it must be {}", field.name, field.kind.allowed())))
    })
}

fn unknown(name: &str, fields: &[Field], place: &str) -> ApiError {
    let name: String = name.chars().take(64).collect();
    let known: Vec<&str> = fields.iter().map(|field| field.name).collect();
    let allowed = if known.is_empty() { "nothing".to_owned() } else { known.join(", ") };
    ApiError::bad_request(format!("{place} has no {name:?}; it may hold {allowed}"))
}

/// A part of a path, decoded.
pub(crate) fn decoded(part: &str) -> Result<String, ApiError> {
    let decoded = percent::decode(part.as_bytes());
    decoded.map(Cow::into_owned).map_err(|error| ApiError::bad_request(format!("the path: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const INNER: &[Field] = &[field("deep", Kind::Flag, "")];
    const FIELDS: &[Field] = &[
        field("name", Kind::Text(4), "").required(),
        field("count", Kind::Whole(1, 10), "").nullable(),
        field("kind", Kind::Choice(&["a", "b"]), ""),
        field("inner", Kind::Object(INNER), ""),
        field("all", Kind::Texts(2), ""),
    ];

    #[test]
    fn bodies_hold_what_is_described_and_nothing_else() {
        let read = |text: &str| Members::of_body(text.as_bytes(), FIELDS);
        let text = r#"{"name":"abcd","count":10,"kind":"b","inner":{"deep":true},"all":["x","y"]}"#;
        let members = read(text).expect("every member is of its kind");
        assert_eq!((members.text("name"), members.whole("count")), (Some("abcd"), Some(10)));
        assert_eq!(members.texts("all"), ["x", "y"]);
        assert!(read(r#"{"name":"","count":null}"#).is_ok_and(|members| members.whole("count").is_none()));
        for wrong in [
            "",
            "{}",
            "[]",
            "{",
            r#"{"name":"abcde"}"#,
            r#"{"name":null}"#,
            r#"{"name":"a","count":0}"#,
            r#"{"name":"a","count":11}"#,
            r#"{"name":"a","count":-1}"#,
            r#"{"name":"a","count":1.5}"#,
            r#"{"name":"a","count":"1"}"#,
            r#"{"name":"a","kind":"c"}"#,
            r#"{"name":"a","inner":{"shallow":true}}"#,
            r#"{"name":"a","inner":[]}"#,
            r#"{"name":"a","all":["x","y","z"]}"#,
            r#"{"name":"a","all":[1]}"#,
            r#"{"name":"a","other":1}"#,
            r#"{"name":"a","name":"b"}"#,
            r#"{"name":"a","inner":{"deep":true,"deep":true}}"#,
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
        assert!(read(&format!(r#"{{"name":{deep}}}"#)).is_err(), "depth is bounded");
    }

    #[test]
    fn queries_are_checked_in_the_same_way() {
        const QUERY: &[Field] = &[field("limit", Kind::Whole(1, 9), ""), field("prefix", Kind::Text(4), "")];
        let read = |text: &str| Members::of_query(text, QUERY);
        let members = read("limit=9&prefix=a%20b").expect("both parameters are of their kinds");
        assert_eq!((members.whole("limit"), members.text("prefix")), (Some(9), Some("a b")));
        for wrong in
            ["limit=0", "limit=x", "limit=", "limit=1&limit=2", "other=1", "prefix=abcde", "prefix=%zz"]
        {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
