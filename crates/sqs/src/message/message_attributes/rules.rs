//! What the name, the type and the value of a message attribute may be.

use super::encoded::Value;
use super::number;
use crate::error::{Code, WireError};
use crate::limits;

const NAME_LENGTH: usize = 256;
const TYPE_LENGTH: usize = 256;

/// Our own bound: SQS counts the trace header towards no size.
pub(crate) const TRACE_HEADER_BYTES: usize = 4_096;

/// The attribute that carries a trace.
pub(super) const TRACE_HEADER: &str = "AWSTraceHeader";

fn refusal(text: impl Into<std::borrow::Cow<'static, str>>) -> WireError {
    WireError::new(Code::InvalidParameterValue).saying(text)
}

/// Letters, digits, `_`, `-` and `.`, no period at either end, no reserved beginning. Accented Latin letters pass
/// behind the first character: the service was recorded to take `attr.1øßä` and to refuse `öther`.
pub(super) fn check_name(name: &str) -> Result<(), WireError> {
    if name.chars().count() > NAME_LENGTH {
        return Err(refusal(format!(
            "The message attribute name '{name}' is invalid. Attribute name can be at most {NAME_LENGTH} characters long."
        )));
    }
    let is_allowed = |c: char| {
        c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.') || ('\u{c0}'..='\u{17f}').contains(&c)
    };
    // Two periods in a row pass, whatever the documentation says.
    let is_legal = name.starts_with(|c: char| c.is_ascii() && c != '.')
        && name.chars().all(is_allowed)
        && !name.ends_with('.');
    if !is_legal {
        return Err(refusal(format!(
            "The message attribute name '{name}' is invalid. Attribute name can contain A-Z, a-z, 0-9, underscore (_), hyphen (-), and period (.) characters."
        )));
    }
    if is_reserved(name) {
        return Err(refusal(format!(
            "The message attribute name '{name}' is invalid. Names that begin with AWS. or Amazon. are reserved."
        )));
    }
    Ok(())
}

fn is_reserved(name: &str) -> bool {
    let begins = |prefix: &str| {
        name.as_bytes().get(..prefix.len()).is_some_and(|head| head.eq_ignore_ascii_case(prefix.as_bytes()))
    };
    begins("AWS.") || begins("Amazon.")
}

/// The kinds of values; a label of one's own may follow a period.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    String,
    Number,
    Binary,
}

impl Kind {
    fn of(name: &str, data_type: &str) -> Result<Self, WireError> {
        if data_type.is_empty() {
            return Err(refusal(format!(
                "The message attribute '{name}' must contain a non-empty message attribute type."
            )));
        }
        let prefix = data_type.split('.').next().unwrap_or_default();
        let is_legal = data_type.chars().count() <= TYPE_LENGTH && limits::is_legal_text(data_type);
        match prefix {
            "String" if is_legal => Ok(Self::String),
            "Number" if is_legal => Ok(Self::Number),
            "Binary" if is_legal => Ok(Self::Binary),
            _ => Err(refusal(format!(
                "The message attribute '{name}' has an invalid message attribute type, the set of supported type prefixes is Binary, Number, and String."
            ))),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::String => "String",
            Self::Number => "Number",
            Self::Binary => "Binary",
        }
    }
}

/// The value, if it is of its type. Empty ones have been left out.
pub(super) fn check_value<'v>(
    name: &str,
    data_type: &str,
    text: Option<&'v str>,
    bytes: Option<&'v [u8]>,
) -> Result<Value<'v>, WireError> {
    let kind = Kind::of(name, data_type)?;
    match (kind, text, bytes) {
        (Kind::Binary, None, Some(bytes)) => Ok(Value::Binary(bytes)),
        (Kind::String | Kind::Number, Some(text), None) => check_text(name, kind, text),
        (_, None, None) => Err(empty("user", name, kind)),
        (Kind::Binary, ..) => Err(wrong_member(name, kind, "Binary")),
        (Kind::String | Kind::Number, ..) => Err(wrong_member(name, kind, "String")),
    }
}

fn check_text<'v>(name: &str, kind: Kind, text: &'v str) -> Result<Value<'v>, WireError> {
    if kind == Kind::Number && !number::is_number(text) {
        return Err(refusal(format!(
            "Can't cast the value of message (user) attribute '{name}' to a number."
        )));
    }
    if !limits::is_legal_text(text) {
        return Err(refusal(limits::INVALID_CHARACTERS));
    }
    Ok(Value::Text(text))
}

fn empty(whose: &str, name: &str, kind: Kind) -> WireError {
    let kind = kind.name();
    refusal(format!("Message ({whose}) attribute '{name}' must contain a non-empty value of type '{kind}'."))
}

fn wrong_member(name: &str, kind: Kind, member: &str) -> WireError {
    let kind = kind.name();
    refusal(format!("The message attribute '{name}' with type '{kind}' must use field '{member}'."))
}

/// The value of the one system attribute a message may be sent with.
pub(super) fn trace_header<'v>(
    name: &str,
    data_type: Option<&str>,
    text: Option<&'v str>,
    has_bytes: bool,
) -> Result<&'v str, WireError> {
    if name != TRACE_HEADER {
        return Err(refusal(format!("Message system attribute name '{name}' is invalid.")));
    }
    if data_type != Some(Kind::String.name()) || has_bytes {
        return Err(refusal(format!("Message system attribute '{name}' must be of type 'String'.")));
    }
    let text = text.filter(|text| !text.is_empty()).ok_or_else(|| empty("system", name, Kind::String))?;
    if text.len() > TRACE_HEADER_BYTES {
        return Err(refusal(format!(
            "Message system attribute '{name}' must be at most {TRACE_HEADER_BYTES} bytes long."
        )));
    }
    if !limits::is_legal_text(text) {
        return Err(refusal(limits::INVALID_CHARACTERS));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_hold_at_their_edges() {
        let (longest, too_long) = ("n".repeat(256), "n".repeat(257));
        // [rec] spec 7a: accented Latin letters and two periods in a row pass.
        for legal in ["a", "A-b_9.z", "attr.1øßä", "a..b", "AWSome", "Amazonas", "aws", longest.as_str()] {
            assert_eq!(check_name(legal), Ok(()), "{legal}");
        }
        for illegal in
            ["", ".a", "a.", "a b", "a!", "a\"", "a§", "a(", "a?", "漢", "AWS.x", "aws.x", "AMAZON.x", "aWs."]
        {
            assert!(check_name(illegal).is_err(), "{illegal}");
        }
        assert!(check_name(&too_long).is_err());
        assert_eq!(
            check_name("x y").map_err(|error| error.message().to_owned()),
            Err("The message attribute name 'x y' is invalid. Attribute name can contain A-Z, a-z, 0-9, underscore (_), hyphen (-), and period (.) characters.".to_owned())
        );
    }

    #[test]
    fn types_are_three_with_labels_up_to_their_length() {
        let longest = format!("String.{}", "l".repeat(249));
        for legal in ["String", "String.my-label", "String.", longest.as_str()] {
            assert_eq!(check_value("n", legal, Some("1"), None), Ok(Value::Text("1")), "{legal}");
        }
        let too_long = format!("{longest}l");
        for illegal in ["", "string", "Int", "Strings", "String\u{1}", ".String", too_long.as_str()] {
            assert!(check_value("n", illegal, Some("1"), None).is_err(), "{illegal}");
        }
    }

    #[test]
    fn values_are_there_and_in_the_member_of_their_type() {
        assert_eq!(check_value("n", "Number.int", Some("7"), None), Ok(Value::Text("7")));
        assert_eq!(check_value("n", "Binary", None, Some(&[0])), Ok(Value::Binary(&[0])));
        for (data_type, text, bytes, message) in [
            (
                "String",
                None,
                None,
                "Message (user) attribute 'n' must contain a non-empty value of type 'String'.",
            ),
            (
                "Binary.gif",
                None,
                None,
                "Message (user) attribute 'n' must contain a non-empty value of type 'Binary'.",
            ),
            (
                "Binary",
                Some("x"),
                None,
                "The message attribute 'n' with type 'Binary' must use field 'Binary'.",
            ),
            (
                "String",
                None,
                Some(&[1][..]),
                "The message attribute 'n' with type 'String' must use field 'String'.",
            ),
            (
                "String",
                Some("x"),
                Some(&[1][..]),
                "The message attribute 'n' with type 'String' must use field 'String'.",
            ),
            ("Number", Some("x"), None, "Can't cast the value of message (user) attribute 'n' to a number."),
            ("String", Some("\u{1}"), None, limits::INVALID_CHARACTERS),
        ] {
            let refused =
                check_value("n", data_type, text, bytes).map_err(|error| error.message().to_owned());
            assert_eq!(refused, Err(message.to_owned()));
        }
    }

    #[test]
    fn a_message_is_sent_with_a_trace_header_and_no_other_system_attribute() {
        let longest = "r".repeat(TRACE_HEADER_BYTES);
        assert_eq!(trace_header(TRACE_HEADER, Some("String"), Some(&longest), false), Ok(longest.as_str()));
        let too_long = "r".repeat(TRACE_HEADER_BYTES + 1);
        for (name, data_type, text) in [
            ("SenderId", Some("String"), Some("x")),
            (TRACE_HEADER, Some("Number"), Some("1")),
            (TRACE_HEADER, Some("String.x"), Some("x")),
            (TRACE_HEADER, None, Some("x")),
            (TRACE_HEADER, Some("String"), None),
            (TRACE_HEADER, Some("String"), Some("")),
            (TRACE_HEADER, Some("String"), Some("\u{1}")),
            (TRACE_HEADER, Some("String"), Some(too_long.as_str())),
        ] {
            assert!(trace_header(name, data_type, text, false).is_err(), "{name} {data_type:?}");
        }
        assert!(trace_header(TRACE_HEADER, Some("String"), Some("x"), true).is_err());
    }
}
