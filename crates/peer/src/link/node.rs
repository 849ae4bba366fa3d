//! Which node is at the other end.

use std::fmt;
use std::sync::Arc;

/// One start of one node. No two nodes have the same, and it is never empty.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(Arc<str>);

impl NodeId {
    /// The longest id, in bytes.
    pub const LENGTH_MAX: usize = 128;

    /// The id `text`, or `None` when it is empty or longer than [`NodeId::LENGTH_MAX`].
    pub fn new(text: &str) -> Option<Self> {
        (!text.is_empty() && text.len() <= Self::LENGTH_MAX).then(|| Self(Arc::from(text)))
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// A node, as it introduces itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    /// Its id.
    pub id: NodeId,
    /// At most [`Node::NAME_MAX`] bytes.
    name: Arc<str>,
}

impl Node {
    /// The longest name, in bytes.
    pub const NAME_MAX: usize = 255;

    /// A node of this id and name, or `None` when the name is longer than [`Node::NAME_MAX`].
    pub fn new(id: NodeId, name: &str) -> Option<Self> {
        (name.len() <= Self::NAME_MAX).then(|| Self { id, name: Arc::from(name) })
    }

    /// What people call it.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.id)
    }
}
