//! The Query protocol's forms, turned into the JSON object that means the same.
//!
//! So there is one way to decode a request. A form is flat: `MessageAttribute.1.Value.StringValue=x` names a place in a
//! tree; a table says which places are lists, maps, numbers or texts, and what the JSON protocol calls them. Names the
//! table does not know are ignored, as unknown members are. Values are texts; only what is a number in JSON is read as one.

use std::borrow::Cow;
use std::collections::BTreeMap;

use kew_http::form::{FormError, pairs};
use serde::{Serialize, Serializer};

use crate::action::Action;
use crate::error::{Code, WireError};
use crate::limits::PAIRS_MAX;

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
        let mut members = object(&self.root, MEMBERS)?;
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

/// A value of JSON. Unlike the library's own it keeps the order of the form, in which faults are told.
enum Json<'n> {
    Text(&'n str),
    Integer(i64),
    List(Vec<Json<'n>>),
    Object(Vec<(&'n str, Json<'n>)>),
}

impl Serialize for Json<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => serializer.serialize_str(text),
            Self::Integer(number) => serializer.serialize_i64(*number),
            Self::List(list) => serializer.collect_seq(list),
            Self::Object(members) => {
                serializer.collect_map(members.iter().map(|(name, value)| (name, value)))
            }
        }
    }
}

/// How a member's place in the tree is read.
enum Shape {
    Text,
    Integer,
    /// Numbered texts, or one without a number.
    Texts,
    /// Numbered pairs of a name and a text.
    Pairs {
        key: &'static str,
        value: &'static str,
    },
    /// Numbered pairs of a name and an object.
    Objects {
        key: &'static str,
        value: &'static str,
        members: &'static [Member],
    },
    /// Numbered objects.
    List(&'static [Member]),
}

/// A member: how forms spell it, what JSON calls it, what it is.
struct Member {
    spellings: &'static [&'static str],
    json: &'static str,
    shape: Shape,
}

const fn text(name: &'static [&'static str]) -> Member {
    Member { spellings: name, json: name[0], shape: Shape::Text }
}

const fn integer(name: &'static [&'static str]) -> Member {
    Member { spellings: name, json: name[0], shape: Shape::Integer }
}

const fn texts(spellings: &'static [&'static str], json: &'static str) -> Member {
    Member { spellings, json, shape: Shape::Texts }
}

const fn list(spellings: &'static [&'static str], members: &'static [Member]) -> Member {
    Member { spellings, json: "Entries", shape: Shape::List(members) }
}

const VALUE: &[Member] = &[text(&["StringValue"]), text(&["BinaryValue"]), text(&["DataType"])];

const MESSAGE_ATTRIBUTES: Member = Member {
    spellings: &["MessageAttribute", "MessageAttributes"],
    json: "MessageAttributes",
    shape: Shape::Objects { key: "Name", value: "Value", members: VALUE },
};

const MESSAGE_SYSTEM_ATTRIBUTES: Member = Member {
    spellings: &["MessageSystemAttribute", "MessageSystemAttributes"],
    json: "MessageSystemAttributes",
    shape: Shape::Objects { key: "Name", value: "Value", members: VALUE },
};

const SEND_ENTRY: &[Member] = &[
    text(&["Id"]),
    text(&["MessageBody"]),
    integer(&["DelaySeconds"]),
    text(&["MessageGroupId"]),
    text(&["MessageDeduplicationId"]),
    MESSAGE_ATTRIBUTES,
    MESSAGE_SYSTEM_ATTRIBUTES,
];

const DELETE_ENTRY: &[Member] = &[text(&["Id"]), text(&["ReceiptHandle"])];

const CHANGE_ENTRY: &[Member] = &[text(&["Id"]), text(&["ReceiptHandle"]), integer(&["VisibilityTimeout"])];

/// The members of all actions: no name means two things.
const MEMBERS: &[Member] = &[
    text(&["QueueUrl"]),
    text(&["QueueName"]),
    text(&["QueueOwnerAWSAccountId"]),
    text(&["QueueNamePrefix"]),
    text(&["NextToken"]),
    text(&["MessageBody"]),
    text(&["MessageGroupId"]),
    text(&["MessageDeduplicationId"]),
    text(&["ReceiptHandle"]),
    text(&["ReceiveRequestAttemptId"]),
    text(&["Label"]),
    text(&["SourceArn"]),
    text(&["DestinationArn"]),
    text(&["TaskHandle"]),
    integer(&["DelaySeconds"]),
    integer(&["MaxNumberOfMessages"]),
    integer(&["VisibilityTimeout"]),
    integer(&["WaitTimeSeconds"]),
    integer(&["MaxResults"]),
    integer(&["MaxNumberOfMessagesPerSecond"]),
    texts(&["AttributeName", "AttributeNames"], "AttributeNames"),
    texts(&["MessageAttributeName", "MessageAttributeNames"], "MessageAttributeNames"),
    texts(&["MessageSystemAttributeName", "MessageSystemAttributeNames"], "MessageSystemAttributeNames"),
    texts(&["TagKey", "TagKeys"], "TagKeys"),
    texts(&["AWSAccountId", "AWSAccountIds"], "AWSAccountIds"),
    texts(&["ActionName", "ActionNames", "Actions"], "Actions"),
    Member {
        spellings: &["Attribute", "Attributes"],
        json: "Attributes",
        shape: Shape::Pairs { key: "Name", value: "Value" },
    },
    Member { spellings: &["Tag", "Tags"], json: "Tags", shape: Shape::Pairs { key: "Key", value: "Value" } },
    MESSAGE_ATTRIBUTES,
    MESSAGE_SYSTEM_ATTRIBUTES,
    list(&["SendMessageBatchRequestEntry"], SEND_ENTRY),
    list(&["DeleteMessageBatchRequestEntry"], DELETE_ENTRY),
    list(&["ChangeMessageVisibilityBatchRequestEntry"], CHANGE_ENTRY),
];

fn object<'n>(node: &'n Node<'_>, members: &'static [Member]) -> Result<Vec<(&'n str, Json<'n>)>, WireError> {
    let mut object = Vec::new();
    for member in members {
        let found = member.spellings.iter().find_map(|spelling| node.below.get(*spelling));
        if let Some(value) = found.map(|node| read(node, member)).transpose()?.flatten() {
            object.push((member.json, value));
        }
    }
    Ok(object)
}

/// The value at a node; a list or map without entries is absent.
fn read<'n>(node: &'n Node<'_>, member: &'static Member) -> Result<Option<Json<'n>>, WireError> {
    Ok(match &member.shape {
        Shape::Text => node.text.as_deref().map(Json::Text),
        Shape::Integer => node.text.as_deref().map(|text| number(member.json, text)).transpose()?,
        Shape::Texts => {
            let numbered = numbered(node).filter_map(|node| node.text.as_deref());
            some_list(node.text.as_deref().into_iter().chain(numbered).map(Json::Text).collect())
        }
        Shape::Pairs { key, value } => {
            let pair = |node| Some((below(node, key)?, Json::Text(below(node, value)?)));
            some_map(numbered(node).filter_map(pair).collect())
        }
        Shape::Objects { key, value, members } => {
            let mut map = Vec::new();
            for node in numbered(node) {
                if let (Some(name), Some(value)) = (below(node, key), node.below.get(*value)) {
                    map.push((name, Json::Object(object(value, members)?)));
                }
            }
            some_map(map)
        }
        Shape::List(members) => {
            let entries = numbered(node).map(|node| object(node, members).map(Json::Object));
            some_list(entries.collect::<Result<_, _>>()?)
        }
    })
}

fn below<'n>(node: &'n Node<'_>, name: &str) -> Option<&'n str> {
    node.below.get(name)?.text.as_deref()
}

/// The entries of a list, by number; some clients put a `member` in between.
fn numbered<'n, 'a>(node: &'n Node<'a>) -> impl Iterator<Item = &'n Node<'a>> {
    let node = node.below.get("member").unwrap_or(node);
    let mut entries: Vec<(u32, &Node<'a>)> =
        node.below.iter().filter_map(|(name, node)| Some((name.parse().ok()?, node))).collect();
    entries.sort_unstable_by_key(|(number, _)| *number);
    entries.into_iter().map(|(_, node)| node)
}

fn number<'n>(name: &str, text: &str) -> Result<Json<'n>, WireError> {
    match text.trim().parse::<i64>() {
        Ok(number) => Ok(Json::Integer(number)),
        Err(_) => Err(WireError::invalid_value(name, text, "Must be an integer.")),
    }
}

fn some_list(list: Vec<Json<'_>>) -> Option<Json<'_>> {
    (!list.is_empty()).then_some(Json::List(list))
}

fn some_map<'n>(map: Vec<(&'n str, Json<'n>)>) -> Option<Json<'n>> {
    (!map.is_empty()).then_some(Json::Object(map))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(action: Action, form: &str) -> String {
        let json =
            Form::read(b"", form.as_bytes()).expect("it is well formed").members(action).expect("it is read");
        String::from_utf8(json).expect("it is text")
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
        let form = Form::read(b"DelaySeconds=abc", b"").expect("it is well formed");
        assert!(form.members(Action::SendMessage).is_err());
    }

    // [rec] spec 5.1: the first attribute that differs is told, so their order counts.
    #[test]
    fn pairs_keep_the_order_of_their_numbers() {
        let form = "Attribute.2.Name=A&Attribute.2.Value=1&Attribute.1.Name=V&Attribute.1.Value=2";
        assert_eq!(members(Action::CreateQueue, form), r#"{"Attributes":{"V":"2","A":"1"}}"#);
    }
}
