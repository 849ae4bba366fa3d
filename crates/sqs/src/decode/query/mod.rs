//! The Query protocol's forms, turned into the JSON object that means the same.
//!
//! So there is one way to decode a request. A form is flat: `MessageAttribute.1.Value.StringValue=x` names a place in a
//! tree; [`table`] says which places are lists, maps, numbers or texts, and what the JSON protocol calls them;
//! [`members`] reads them. Names the table does not know are ignored, as unknown members are.

mod members;
mod table;

use std::borrow::Cow;
use std::collections::BTreeMap;

use kew_http::form::{FormError, pairs};

use crate::action::Action;
use crate::error::{Code, WireError};
use crate::limits::PAIRS_MAX;
use members::Json;

/// Parts of the longest name that means anything.
const PARTS_MAX: usize = 8;

/// The pairs of a query string and a body, as a tree.
#[derive(Debug, Default)]
pub(crate) struct Form<'a> {
    root: Node<'a>,
}

#[derive(Debug, Default)]
struct Node<'a> {
    text: Option<Cow<'a, str>>,
    below: BTreeMap<Cow<'a, str>, Node<'a>>,
}

impl<'a> Form<'a> {
    /// Reads both; of a name that comes twice the last value counts.
    pub(crate) fn read(query: &'a [u8], body: &'a [u8]) -> Result<Self, FormError> {
        let query = pairs(query, PAIRS_MAX)?;
        let body = pairs(body, PAIRS_MAX.saturating_sub(query.len()))?;
        let mut form = Self::default();
        for (name, text) in query.into_iter().chain(body) {
            form.put(name, text);
        }
        Ok(form)
    }

    fn put(&mut self, name: Cow<'a, str>, text: Cow<'a, str>) {
        if name.split('.').count() > PARTS_MAX {
            return;
        }
        let mut node = &mut self.root;
        match name {
            Cow::Borrowed(name) => {
                for part in name.split('.') {
                    node = node.below.entry(Cow::Borrowed(part)).or_default();
                }
            }
            Cow::Owned(name) => {
                for part in name.split('.') {
                    node = node.below.entry(Cow::Owned(part.to_owned())).or_default();
                }
            }
        }
        node.text = Some(text);
    }

    /// A plain parameter.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.root.below.get(name)?.text.as_deref()
    }

    /// The members of a request for `action`, as a JSON object.
    pub(crate) fn members(&self, action: Action) -> Result<Vec<u8>, WireError> {
        let mut members = members::object(&self.root, table::MEMBERS)?;
        if action == Action::CreateQueue {
            // The JSON protocol spells this one action's member with a small letter.
            for (name, _) in members.iter_mut().filter(|(name, _)| *name == "Tags") {
                *name = "tags";
            }
        }
        serde_json::to_vec(&Json::Object(members)).map_err(|error| {
            WireError::new(Code::InternalFailure).saying("The request cannot be read.").because(error)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(action: Action, form: &str) -> String {
        let json = Form::read(b"", form.as_bytes())
            .expect("a form is well formed")
            .members(action)
            .expect("the form's members are within their bounds");
        String::from_utf8(json).expect("members are written as UTF-8")
    }

    #[test]
    fn lists_maps_and_numbers_become_what_json_calls_them() {
        for (form, json) in [
            (
                "QueueUrl=http%3A%2F%2Fh%2F0%2Fq&WaitTimeSeconds=5",
                r#"{"QueueUrl":"http://h/0/q","WaitTimeSeconds":5}"#,
            ),
            ("AttributeName.2=b&AttributeName.1=a", r#"{"AttributeNames":["a","b"]}"#),
            ("AttributeName=All", r#"{"AttributeNames":["All"]}"#),
            ("AttributeNames.member.1=All", r#"{"AttributeNames":["All"]}"#),
            ("Attribute.1.Name=DelaySeconds&Attribute.1.Value=5", r#"{"Attributes":{"DelaySeconds":"5"}}"#),
            (
                "MessageBody=a+b%20c&MessageAttribute.1.Name=n&MessageAttribute.1.Value.DataType=String&MessageAttribute.1.Value.StringValue=v",
                r#"{"MessageBody":"a b c","MessageAttributes":{"n":{"StringValue":"v","DataType":"String"}}}"#,
            ),
            (
                "SendMessageBatchRequestEntry.10.Id=j&SendMessageBatchRequestEntry.9.Id=i&SendMessageBatchRequestEntry.9.DelaySeconds=1",
                r#"{"Entries":[{"Id":"i","DelaySeconds":1},{"Id":"j"}]}"#,
            ),
            ("Unknown.1.2.3.4.5.6.7.8.9.10=x&Attribute.x.Name=a", "{}"),
        ] {
            assert_eq!(members(Action::SendMessage, form), json, "{form}");
        }
    }

    #[test]
    fn tags_are_spelt_as_each_action_spells_them() {
        let form = "Tag.1.Key=k&Tag.1.Value=";
        assert_eq!(members(Action::TagQueue, form), r#"{"Tags":{"k":""}}"#);
        assert_eq!(members(Action::CreateQueue, form), r#"{"tags":{"k":""}}"#);
    }

    #[test]
    fn forms_are_well_formed_and_bounded() {
        assert!(Form::read(b"a=%zz", b"").is_err());
        assert!(Form::read(b"", b"MessageBody=%ff").is_err());
        let many = "a=1&".repeat(PAIRS_MAX);
        assert!(Form::read(many.as_bytes(), b"").is_ok());
        assert!(Form::read(many.as_bytes(), b"a=1").is_err(), "both together are bounded");
    }

    #[test]
    fn what_should_be_a_number_and_is_none_is_refused() {
        let form = Form::read(b"DelaySeconds=abc", b"").expect("a query is a well-formed form");
        assert!(form.members(Action::SendMessage).is_err());
    }

    #[test]
    fn half_a_pair_is_refused_and_one_without_a_number_is_read() {
        let one = "Attribute.Name=DelaySeconds&Attribute.Value=5";
        assert_eq!(members(Action::SetQueueAttributes, one), r#"{"Attributes":{"DelaySeconds":"5"}}"#);
        let empty = "MessageAttribute.1.Name=n";
        assert_eq!(members(Action::SendMessage, empty), r#"{"MessageAttributes":{"n":{}}}"#);
        for (form, missing) in [
            ("Tag.1.Key=k", "Tag.1.Value"),
            ("Tag.1.Key=k&Tag.1.Value=v&Tag.2.Key=l", "Tag.2.Value"),
            ("Tag.3.Value=v", "Tag.3.Key"),
            ("Tags.3.Key=k", "Tag.3.Value"),
            ("Attribute.1.Name=DelaySeconds", "Attribute.1.Value"),
            ("Attribute.1.Name=DelaySeconds&Attribute.1.Value.x=1", "Attribute.1.Value"),
            ("Attribute.Name=DelaySeconds", "Attribute.Value"),
            ("Attribute.1.Value=5", "Attribute.1.Name"),
            ("MessageAttribute.1.Value.DataType=String", "MessageAttribute.1.Name"),
        ] {
            let form = Form::read(b"", form.as_bytes()).expect("a body is a well-formed form");
            let error = form.members(Action::CreateQueue).expect_err("half a pair is missing");
            assert_eq!(error, WireError::missing(missing));
        }
    }

    // [rec] spec 5.1: the error names the first attribute that differs, so their order counts.
    #[test]
    fn pairs_keep_the_order_of_their_numbers() {
        let form = "Attribute.2.Name=A&Attribute.2.Value=1&Attribute.1.Name=V&Attribute.1.Value=2";
        assert_eq!(members(Action::CreateQueue, form), r#"{"Attributes":{"V":"2","A":"1"}}"#);
    }
}
