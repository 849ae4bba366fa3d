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
    let (memberships, mut unlinked) = (node.subscribe(), Unlinked::default());
    loop {
        tokio::time::sleep(LOOKS).await;
        let Some(map) = memberships.borrow().map.clone() else { continue };
        let others = map.nodes.iter().filter(|other| other.id != node.node().id);
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
    refused: u64,
    /// Why one of them did, since all nodes had a connection.
    cause: Option<HandshakeError>,
}

struct Since {
    at: Instant,
    named_at: Option<Instant>,
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
                let was_named = since.is_some_and(|since| since.named_at.is_some());
                news.extend(was_named.then(|| News::Back { node: other.name.clone() }));
                continue;
            }
            let mut since = since.unwrap_or(Since { at: now, named_at: None });
            let is_due = match since.named_at {
                None => now - since.at >= NAMED_AFTER,
                Some(named_at) => now - named_at >= NAMED_AGAIN,
            };
            if is_due {
                since.named_at = Some(now);
                news.push(self.missing(other));
            }
            self.nodes.insert(other.id.clone(), since);
        }
        if self.nodes.is_empty() {
            self.cause = None;
        }
        news
    }

    /// The other end often says more than that it closed the connection, or that nothing listens there.
    fn note_cause(&mut self, refused: &Refused) {
        if refused.count == std::mem::replace(&mut self.refused, refused.count) {
            return;
        }
        let says_little = |cause: &HandshakeError| {
            matches!(cause, HandshakeError::Closed | HandshakeError::Io(_) | HandshakeError::TooSlow)
        };
        if self.cause.is_none() || refused.last.as_ref().is_some_and(|last| !says_little(last)) {
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

    fn refused(count: u64, last: HandshakeError) -> Refused {
        Refused { count, last: Some(last) }
    }

    #[test]
    fn node_is_named_when_it_has_no_connection_for_a_while_and_when_it_has_one_again() {
        let (mut unlinked, begun, nodes) = (Unlinked::default(), Instant::now(), [node("a"), node("b")]);
        let nobody = refused(3, HandshakeError::Io(std::io::ErrorKind::ConnectionRefused));
        let mut look = |seconds: u64, links: &[&str]| {
            let now = begun + Duration::from_secs(seconds);
            unlinked.look(now, nodes.iter(), |id| links.contains(&id), &nobody)
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
    fn cause_that_says_more_is_kept_until_all_have_a_connection() {
        let (mut unlinked, mut now, only) = (Unlinked::default(), Instant::now(), [node("a")]);
        unlinked.look(now, only.iter(), |_| false, &refused(1, HandshakeError::NotAlike));
        now += NAMED_AFTER;
        let named = unlinked.look(now, only.iter(), |_| false, &refused(2, HandshakeError::Closed));
        assert_eq!(named, [missing("a", "only one of two nodes speaks TLS: --peer-tls must be alike")]);
        unlinked.look(now, only.iter(), |_| true, &refused(2, HandshakeError::Closed));
        unlinked.look(now, only.iter(), |_| false, &refused(3, HandshakeError::Closed));
        now += NAMED_AFTER;
        let named = unlinked.look(now, only.iter(), |_| false, &refused(3, HandshakeError::Closed));
        assert_eq!(named, [missing("a", &HandshakeError::Closed.to_string())]);
    }
}
