//! Attributes of messages, which front-ends keep in bytes of their own: the program gives the console a way to write
//! and read them.

use bytes::Bytes;
use kew_core::Content;

/// One attribute of a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attribute {
    /// Its name.
    pub name: String,
    /// `String`, `Number` or `Binary`, perhaps with a label behind a dot.
    pub data_type: String,
    /// Its value.
    pub value: AttributeValue,
}

/// An attribute's value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AttributeValue {
    /// A text, or a number written as one.
    Text(String),
    /// Bytes.
    Binary(Vec<u8>),
}

/// Writes and reads attributes in the form of the front-end that shows them.
pub trait MessageNotes: Send + Sync {
    /// The annotations of a message with this body and these attributes; or why they are not allowed.
    fn write(&self, body: &str, attributes: &[Attribute]) -> Result<Bytes, String>;

    /// The attributes of a stored message.
    fn read(&self, content: &Content) -> Vec<Attribute>;
}
