//! Attributes of messages for callers outside this front-end, such as the admin API: the same checks, and the same
//! bytes beside the message, as if SQS had sent it.

use bytes::Bytes;
use kew_core::Content;
use kew_http::{TRACEPARENT, TraceContext};

use crate::message::annotations::{self, Notes};
use crate::message::hash::hash;
use crate::message::message_attributes::{COUNT_MAX, Encoded, Value, check_attribute};

/// One attribute of a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlainAttribute {
    /// Its name.
    pub name: String,
    /// Its type.
    pub data_type: String,
    /// Its value: a text, or bytes.
    pub value: Result<String, Vec<u8>>,
}

/// The annotations of a message with this body and these attributes; or why SQS refuses them.
pub fn annotate(body: &str, attributes: &[PlainAttribute]) -> Result<Bytes, String> {
    if attributes.len() > COUNT_MAX {
        return Err(format!("a message has at most {COUNT_MAX} attributes"));
    }
    let mut sorted: Vec<&PlainAttribute> = attributes.iter().collect();
    sorted.sort_unstable_by(|one, other| one.name.as_bytes().cmp(other.name.as_bytes()));
    let mut encoded = Encoded::default();
    for attribute in sorted {
        let (text, binary) = match &attribute.value {
            Ok(text) => (Some(text.as_str()), None),
            Err(bytes) => (None, Some(bytes.as_slice())),
        };
        let value = check_attribute(&attribute.name, &attribute.data_type, text, binary);
        encoded.push(
            &attribute.name,
            &attribute.data_type,
            value.map_err(|error| error.message().to_owned())?,
        );
    }
    let attributes = (!attributes.is_empty()).then(|| (&encoded, encoded.hash()));
    Ok(Notes { body_hash: hash(body.as_bytes()), attributes, ..Notes::default() }.write())
}

/// The attributes of a stored message; none where another front-end sent it.
pub fn attributes(content: &Content) -> Vec<PlainAttribute> {
    let annotations = annotations::read(content);
    let Some((all, _)) = annotations.as_ref().and_then(annotations::Annotations::attributes) else {
        return Vec::new();
    };
    let plain = all.map(|attribute| PlainAttribute {
        name: attribute.name.to_owned(),
        data_type: attribute.data_type.to_owned(),
        value: match attribute.value {
            Value::Text(text) => Ok(text.to_owned()),
            Value::Binary(bytes) => Err(bytes.to_vec()),
        },
    });
    plain.collect()
}

/// The trace that a stored message belongs to: by its attribute `traceparent`, else by Amazon's trace header.
pub fn trace_of(content: &Content) -> Option<TraceContext> {
    let annotations = annotations::read(content)?;
    let own = annotations.attributes().and_then(|(mut all, _)| {
        all.find_map(|attribute| match attribute.value {
            Value::Text(text) if attribute.name == TRACEPARENT => TraceContext::of_w3c(text),
            Value::Text(_) | Value::Binary(_) => None,
        })
    });
    own.or_else(|| annotations.trace_header().and_then(TraceContext::of_amazon))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(name: &str, data_type: &str, value: Result<&str, &[u8]>) -> PlainAttribute {
        PlainAttribute {
            name: name.to_owned(),
            data_type: data_type.to_owned(),
            value: value.map(str::to_owned).map_err(<[u8]>::to_vec),
        }
    }

    #[test]
    fn attributes_are_kept_sorted_and_read_back() {
        let given = [attribute("b", "Binary", Err(&[0, 255])), attribute("a", "String", Ok("x"))];
        let annotations = annotate("hello", &given).expect("both attributes are allowed");
        let content = Content { body: Bytes::from_static(b"hello"), annotations, ..Content::default() };
        let [b, a] = given;
        assert_eq!(attributes(&content), [a, b]);
        assert_eq!(attributes(&Content::default()), []);
    }

    #[test]
    fn a_message_belongs_to_the_trace_of_its_attribute_or_of_amazons_header() {
        let w3c = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let amazon = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8";
        let content = |annotations| Content { annotations, ..Content::default() };
        let attribute = attribute(TRACEPARENT, "String", Ok(w3c));
        let own = annotate("", &[attribute]).expect("the attribute is allowed");
        assert_eq!(trace_of(&content(own)), TraceContext::of_w3c(w3c));
        let header = Notes { trace_header: Some(amazon), ..Notes::default() }.write();
        assert_eq!(trace_of(&content(header)), TraceContext::of_amazon(amazon));
        assert_eq!(trace_of(&Content::default()), None);
    }

    #[test]
    fn what_sqs_refuses_is_refused_with_its_reason() {
        for wrong in [
            attribute("AWS.x", "String", Ok("x")),
            attribute("a b", "String", Ok("x")),
            attribute("a", "Colour", Ok("red")),
            attribute("a", "Number", Ok("one")),
            attribute("a", "String", Ok("")),
            attribute("a", "Binary", Ok("x")),
        ] {
            assert!(
                annotate("hello", std::slice::from_ref(&wrong)).is_err_and(|why| !why.is_empty()),
                "{wrong:?}"
            );
        }
        let many: Vec<_> =
            (0..11).map(|number| attribute(&format!("a{number}"), "String", Ok("x"))).collect();
        assert!(annotate("hello", &many).is_err());
    }
}
