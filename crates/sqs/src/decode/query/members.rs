//! From the tree of a form to the members it means, as the table says.
//!
//! Values are texts; only what is a number in JSON is read as one. A list or map without entries is absent. Half a
//! pair, a name without a value or a value without a name, is an error: nothing that was said is dropped in silence.

use serde::{Serialize, Serializer};

use super::Node;
use super::table::{Member, Shape};
use crate::error::WireError;

/// A value of JSON. Unlike the library's own it keeps the order of the form, which decides the fault that is reported.
pub(super) enum Json<'n> {
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

/// The members found below a node, in the table's order.
pub(super) fn object<'n>(
    node: &'n Node<'_>,
    members: &'static [Member],
) -> Result<Vec<(&'n str, Json<'n>)>, WireError> {
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
            let numbered = numbered(node).filter_map(|(_, node)| node.text.as_deref());
            some_list(node.text.as_deref().into_iter().chain(numbered).map(Json::Text).collect())
        }
        Shape::Pairs { key, value } => {
            let mut map = Vec::new();
            for entry in entries(node, key, value, member)? {
                let text = entry.value.and_then(|node| node.text.as_deref());
                map.push((entry.name, Json::Text(text.ok_or_else(|| half(member, entry.number, value))?)));
            }
            some_map(map)
        }
        Shape::Objects { key, value, members } => {
            let mut map = Vec::new();
            for entry in entries(node, key, value, member)? {
                // One that says nothing of its value is read as an empty one, which has a fault of its own.
                let value = entry.value.map_or(Ok(Vec::new()), |value| object(value, members))?;
                map.push((entry.name, Json::Object(value)));
            }
            some_map(map)
        }
        Shape::List(members) => {
            let entries = numbered(node).map(|(_, node)| object(node, members).map(Json::Object));
            some_list(entries.collect::<Result<_, _>>()?)
        }
    })
}

/// One of a map's pairs.
struct Entry<'n, 'a> {
    name: &'n str,
    value: Option<&'n Node<'a>>,
    /// The pair's place in the form; one without a number has none.
    number: Option<u32>,
}

/// The pairs of a map: numbered ones, or one without a number. A pair has a name, else it is half said.
fn entries<'n, 'a>(
    node: &'n Node<'a>,
    key: &str,
    value: &str,
    member: &'static Member,
) -> Result<Vec<Entry<'n, 'a>>, WireError> {
    let alone = std::iter::once((None, node));
    let mut entries = Vec::new();
    for (number, node) in alone.chain(numbered(node).map(|(number, node)| (Some(number), node))) {
        let value = node.below.get(value);
        match node.below.get(key).and_then(|node| node.text.as_deref()) {
            Some(name) => entries.push(Entry { name, value, number }),
            None if value.is_some() => return Err(half(member, number, key)),
            None => {}
        }
    }
    Ok(entries)
}

/// The error that one half of a pair is missing.
fn half(member: &Member, number: Option<u32>, half: &str) -> WireError {
    let spelling = member.spellings.first().copied().unwrap_or(member.json);
    WireError::missing(&match number {
        Some(number) => format!("{spelling}.{number}.{half}"),
        None => format!("{spelling}.{half}"),
    })
}

/// The entries of a list, by number; some clients put a `member` in between.
fn numbered<'n, 'a>(node: &'n Node<'a>) -> impl Iterator<Item = (u32, &'n Node<'a>)> {
    let node = node.below.get("member").unwrap_or(node);
    let mut entries: Vec<(u32, &Node<'a>)> =
        node.below.iter().filter_map(|(name, node)| Some((name.parse().ok()?, node))).collect();
    entries.sort_unstable_by_key(|(number, _)| *number);
    entries.into_iter()
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
