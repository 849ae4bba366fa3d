//! Says which nodes this one has no connection to, and why: a firewall, an address that leads nowhere, TLS at one end
//! only.

use std::collections::BTreeMap;
use std::time::Duration;

use kew_log_pg::{Node, PgNode};
use kew_peer::link::{HandshakeError, Peers, Refused};
use tokio::time::Instant;

use crate::log::{Level, Log};

/// How often it is looked.
const LOOKS: Duration = Duration::from_secs(1);
/// A node is named when it has had no connection for this long. One that died is no node of the fleet before that.
const NAMED_AFTER: Duration = Duration::from_secs(5);
/// It is named again this long after that.
const NAMED_AGAIN: Duration = Duration::from_secs(60);

/// Looks for as long as the node runs.
pub(super) async fn watch(node: PgNode, peers: Peers, log: Log) {
    let mut unlinked = Unlinked::default();
    loop {
        tokio::time::sleep(LOOKS).await;
        let maps: Vec<_> = (0..node.databases()).filter_map(|database| node.map(database)).collect();
        let all: BTreeMap<_, _> =
            maps.iter().flat_map(|map| &map.nodes).map(|node| (&node.id, node)).collect();
        let others = all.into_values().filter(|other| other.id != node.node().id);
        let links = peers.links();
        let is_linked = |id: &str| links.iter().any(|link| link.peer().id.as_str() == id);
        for news in unlinked.look(Instant::now(), others, is_linked, &peers.refused()) {
            news.tell(log);
        }
    }
}

/// Nodes without a connection, by their ids.
#[derive(Default)]
struct Unlinked {
    nodes: BTreeMap<String, Since>,
    /// Connections that came to nothing until the last look.
    refused: Refused,
    /// Why one of them did, since all nodes had a connection.
    cause: Option<HandshakeError>,
}

struct Since {
    at: Instant,
    named: Option<Named>,
}

struct Named {
    at: Instant,
    with_reason: bool,
}

#[derive(PartialEq, Eq, Debug)]
enum News {
    Missing { node: String, address: String, cause: String },
    Back { node: String },
}

impl Unlinked {
    fn look<'a>(
        &mut self,
        now: Instant,
        others: impl Iterator<Item = &'a Node>,
        is_linked: impl Fn(&str) -> bool,
        refused: &Refused,
    ) -> Vec<News> {
        self.note_cause(refused);
        let (mut before, mut news) = (std::mem::take(&mut self.nodes), Vec::new());
        for other in others {
            let since = before.remove(&other.id);
            if is_linked(&other.id) {
                let was_named = since.is_some_and(|since| since.named.is_some());
                news.extend(was_named.then(|| News::Back { node: other.name.clone() }));
                continue;
            }
            let mut since = since.unwrap_or(Since { at: now, named: None });
            let with_reason = self.cause.as_ref().is_some_and(HandshakeError::is_reason);
            let is_due = match &since.named {
                None => now - since.at >= NAMED_AFTER,
                // The reason may be found only after that.
                Some(named) => now - named.at >= NAMED_AGAIN || (with_reason && !named.with_reason),
            };
            if is_due {
                since.named = Some(Named { at: now, with_reason });
                news.push(self.missing(other));
            }
            self.nodes.insert(other.id.clone(), since);
        }
        if self.nodes.is_empty() {
            self.cause = None;
        }
        news
    }

    /// Keeps the newest reason. Without one, that the last connection came to nothing.
    fn note_cause(&mut self, refused: &Refused) {
        let before = std::mem::replace(&mut self.refused, refused.clone());
        if refused.explained != before.explained {
            self.cause.clone_from(&refused.reason);
        } else if refused.count != before.count && self.cause.is_none() {
            self.cause.clone_from(&refused.last);
        }
    }

    fn missing(&self, node: &Node) -> News {
        let cause = match &self.cause {
            Some(HandshakeError::NotAlike) => {
                "only one of two nodes speaks TLS: --peer-tls must be alike".to_owned()
            }
            Some(cause) => cause.to_string(),
            None => "no connection was tried yet".to_owned(),
        };
        News::Missing { node: node.name.clone(), address: node.peer.clone().unwrap_or_default(), cause }
    }
}

impl News {
    fn tell(&self, log: Log) {
        match self {
            Self::Missing { node, address, cause } => {
                let line = "there is no connection to another node, which lives";
                log.tell(Level::Warn, line, &[("name", node), ("address", address), ("cause", cause)]);
            }
            Self::Back { node } => {
                log.tell(Level::Info, "there is a connection to the node again", &[("name", node)]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(id: &str) -> Node {
        Node { peer: Some(format!("{id}:9330")), ..Node::alone(id, &id.to_uppercase()) }
    }

    fn missing(id: &str, cause: &str) -> News {
        let (node, address, cause) = (id.to_uppercase(), format!("{id}:9330"), cause.to_owned());
        News::Missing { node, address, cause }
    }

    fn refused(errors: &[HandshakeError]) -> Refused {
        let mut refused = Refused::default();
        errors.iter().for_each(|error| refused.note(error.clone()));
        refused
    }

    const NOT_ALIKE: &str = "only one of two nodes speaks TLS: --peer-tls must be alike";

    #[test]
    fn node_is_named_when_it_has_no_connection_for_a_while_and_when_it_has_one_again() {
        let (mut unlinked, begun, nodes) = (Unlinked::default(), Instant::now(), [node("a"), node("b")]);
        let not_listening = refused(&[HandshakeError::Io(std::io::ErrorKind::ConnectionRefused)]);
        let mut look = |seconds: u64, links: &[&str]| {
            let now = begun + Duration::from_secs(seconds);
            unlinked.look(now, nodes.iter(), |id| links.contains(&id), &not_listening)
        };
        let cause = "the connection failed during the handshake: connection refused";
        assert_eq!(look(0, &["a"]), []);
        assert_eq!(look(4, &["a"]), []);
        assert_eq!(look(5, &["a"]), [missing("b", cause)]);
        assert_eq!(look(64, &["a"]), []);
        assert_eq!(look(65, &["a"]), [missing("b", cause)]);
        assert_eq!(look(66, &["a", "b"]), [News::Back { node: "B".to_owned() }]);
        assert_eq!(look(67, &["b"]), [], "a moment without one is not told");
        assert_eq!(look(68, &["a", "b"]), []);
    }

    #[test]
    fn node_that_is_gone_is_not_named() {
        let (mut unlinked, begun, only) = (Unlinked::default(), Instant::now(), [node("a")]);
        let none = Refused::default();
        assert_eq!(unlinked.look(begun, only.iter(), |_| false, &none), []);
        let later = begun + NAMED_AFTER;
        assert_eq!(unlinked.look(later, [].iter(), |_| false, &none), []);
        assert_eq!(unlinked.look(later, only.iter(), |_| false, &none), [], "it is another while");
    }

    #[test]
    fn reason_is_kept_until_all_have_a_connection() {
        let (mut unlinked, mut now, only) = (Unlinked::default(), Instant::now(), [node("a")]);
        // Between two looks, the reason is not the last that happened.
        let (one, two) = (
            refused(&[HandshakeError::NotAlike, HandshakeError::Closed]),
            refused(&[HandshakeError::NotAlike, HandshakeError::Closed, HandshakeError::Closed]),
        );
        unlinked.look(now, only.iter(), |_| false, &one);
        now += NAMED_AFTER;
        assert_eq!(unlinked.look(now, only.iter(), |_| false, &two), [missing("a", NOT_ALIKE)]);
        unlinked.look(now, only.iter(), |_| true, &two);
        let mut three = two;
        three.note(HandshakeError::Closed);
        unlinked.look(now, only.iter(), |_| false, &three);
        now += NAMED_AFTER;
        let named = unlinked.look(now, only.iter(), |_| false, &three);
        assert_eq!(named, [missing("a", &HandshakeError::Closed.to_string())]);
    }

    #[test]
    fn node_is_named_once_more_when_the_reason_is_found_late() {
        let (mut unlinked, mut now, only) = (Unlinked::default(), Instant::now(), [node("a")]);
        let mut all = refused(&[HandshakeError::Closed]);
        let mut look = |now, all: &Refused| unlinked.look(now, only.iter(), |_| false, all);
        look(now, &all);
        now += NAMED_AFTER;
        assert_eq!(look(now, &all), [missing("a", &HandshakeError::Closed.to_string())]);
        all.note(HandshakeError::NotAlike);
        now += LOOKS;
        assert_eq!(look(now, &all), [missing("a", NOT_ALIKE)]);
        all.note(HandshakeError::NotAlike);
        now += LOOKS;
        assert_eq!(look(now, &all), [], "the reason was logged");
    }
}
