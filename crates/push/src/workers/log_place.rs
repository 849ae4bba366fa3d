//! How far a reader has come in a Worker's log.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// Begins the text of a place in the logs of several nodes.
const SEVERAL: &str = "n.";

/// Stands for the number of the last line of a log that could not be asked for it.
const END: u64 = u64::MAX;
/// Nodes that a place names beside those that live. They may live again, as far as this node sees.
const OTHERS_MAX: usize = 64;

/// A place in a Worker's log: the last line that was seen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LogPlace {
    /// Its number: in the only log, or in the log of every node.
    Number(u64),
    /// Its number in the log of each node, by the nodes' ids. A node that is not named here is read from its first
    /// line.
    Nodes(BTreeMap<String, u64>),
}

impl LogPlace {
    /// The number of the last line that was seen of a node's own log. `None` for its last.
    pub(super) fn on(&self, node: &str) -> Option<u64> {
        let number = match self {
            Self::Number(number) => *number,
            Self::Nodes(nodes) => nodes.get(node).copied().unwrap_or_default(),
        };
        Some(number).filter(|number| *number != END)
    }

    /// The same where there is one log.
    pub(super) fn number(&self) -> Option<u64> {
        match self {
            Self::Number(number) => Some(*number).filter(|number| *number != END),
            // It names logs of nodes, none of which this one is.
            Self::Nodes(_) => Some(0),
        }
    }

    /// The place after some nodes were read, from `after` on. Those that were not keep theirs; one that had none is
    /// read from its end on.
    pub(super) fn moved_on(
        after: Option<&Self>,
        living: &BTreeSet<String>,
        read: impl IntoIterator<Item = (String, u64)>,
    ) -> Self {
        let of_each = |number: u64| living.iter().map(|node| (node.clone(), number)).collect();
        let mut nodes: BTreeMap<String, u64> = match after {
            Some(Self::Nodes(nodes)) => nodes.clone(),
            Some(Self::Number(number)) => of_each(*number),
            None => of_each(END),
        };
        nodes.extend(read);
        // Numbers begin with the instant at which their log was opened: nodes of long ago go first.
        let mut others: Vec<(u64, String)> = nodes
            .iter()
            .filter(|(id, _)| !living.contains(*id))
            .map(|(id, number)| (*number, id.clone()))
            .collect();
        others.sort_unstable();
        let too_many = others.len().saturating_sub(OTHERS_MAX);
        for (_, id) in others.iter().take(too_many) {
            nodes.remove(id);
        }
        Self::Nodes(nodes)
    }
}

impl Default for LogPlace {
    fn default() -> Self {
        Self::Number(0)
    }
}

/// A text that clients hand back as it is, also within a query.
impl fmt::Display for LogPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Nodes(nodes) => {
                let json = serde_json::to_vec(nodes).expect("texts and numbers are JSON");
                write!(f, "{SEVERAL}{}", URL_SAFE_NO_PAD.encode(json))
            }
        }
    }
}

/// A text that is no place in a log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoPlace;

impl FromStr for LogPlace {
    type Err = NoPlace;

    fn from_str(text: &str) -> Result<Self, NoPlace> {
        let Some(several) = text.strip_prefix(SEVERAL) else {
            return text.parse().map(Self::Number).map_err(|_| NoPlace);
        };
        let json = URL_SAFE_NO_PAD.decode(several).map_err(|_| NoPlace)?;
        serde_json::from_slice(&json).map(Self::Nodes).map_err(|_| NoPlace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_texts_that_can_be_read_again() {
        let nodes = [("one/1 & \"two\"".to_owned(), 7), (String::new(), u64::MAX)];
        for place in [
            LogPlace::Number(0),
            LogPlace::Number(u64::MAX),
            LogPlace::Nodes(BTreeMap::new()),
            LogPlace::Nodes(nodes.into()),
        ] {
            let text = place.to_string();
            assert_eq!(text.parse(), Ok(place), "{text}");
            assert!(
                text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte)),
                "{text}"
            );
        }
        for text in ["", "-1", "last", "18446744073709551616", "n.", "n.7", "n.e30=", "n.WzFd"] {
            assert_eq!(text.parse::<LogPlace>(), Err(NoPlace), "{text}");
        }
    }

    #[test]
    fn a_node_that_is_not_named_is_read_from_its_first_line() {
        let place = LogPlace::Nodes([("a".to_owned(), 7)].into());
        assert_eq!((place.on("a"), place.on("b"), place.number()), (Some(7), Some(0), Some(0)));
        let place = LogPlace::Number(7);
        assert_eq!((place.on("a"), place.on("b"), place.number()), (Some(7), Some(7), Some(7)));
    }

    #[test]
    fn a_node_that_was_not_read_keeps_its_place() {
        let living: BTreeSet<String> = ["a", "b"].map(str::to_owned).into();
        let read = |number| [("a".to_owned(), number)];
        let place = LogPlace::moved_on(None, &living, read(7));
        assert_eq!((place.on("a"), place.on("b"), place.on("c")), (Some(7), None, Some(0)));
        let place = LogPlace::moved_on(Some(&LogPlace::Number(3)), &living, read(7));
        assert_eq!((place.on("a"), place.on("b"), place.on("c")), (Some(7), Some(3), Some(0)));
        // One that is not seen for a moment.
        let alone = ["a".to_owned()].into();
        let place = LogPlace::moved_on(Some(&place), &alone, read(8));
        assert_eq!((place.on("a"), place.on("b"), place.on("c")), (Some(8), Some(3), Some(0)));
    }

    #[test]
    fn nodes_of_long_ago_are_left_out() {
        let old = (0..100).map(|number| (format!("node {number}"), 1_000 - number)).collect();
        let living = ["node 99".to_owned()].into();
        let LogPlace::Nodes(nodes) = LogPlace::moved_on(Some(&LogPlace::Nodes(old)), &living, []) else {
            panic!("it is the place of nodes");
        };
        assert_eq!(nodes.len(), OTHERS_MAX + 1);
        assert!(["node 0", "node 63", "node 99"].iter().all(|node| nodes.contains_key(*node)), "{nodes:?}");
    }
}
