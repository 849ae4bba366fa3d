//! Several hosts on this machine: each node in a network namespace of its own, and any two of them can be cut off from
//! each other without either noticing.
//!
//! A bridge joins the namespaces with the tests and the database. Every node has two addresses: one by which it reaches
//! the database and other nodes, and one by which clients reach it, so that a node that is cut off is still spoken to.
//! A cut gives packets to the other end a link address that no machine has: they leave and never arrive.

use std::net::{IpAddr, Ipv4Addr};
use std::process::{Command, Stdio};

/// Addresses for tests of networks (RFC 2544), the second half for clients.
const INNER: [u8; 2] = [198, 18];
const OUTER: [u8; 2] = [198, 19];
/// The last number of the address of tests and database.
const ROOT: u8 = 254;
/// A link address that no machine has.
const NOBODY: &str = "02:00:00:00:00:99";

/// One end of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    Database,
    Node(usize),
}

pub struct Network {
    name: String,
    third: u8,
    nodes: usize,
}

impl Network {
    /// A network for this number of nodes; nothing where the machine does not let this process make one.
    pub fn new(nodes: usize) -> Option<Self> {
        let process = std::process::id();
        let third = u8::try_from(process % 250).expect("the remainder is below 250");
        let network = Self { name: format!("kew{process}"), third, nodes };
        network.make().then_some(network)
    }

    /// Whether everything could be made.
    fn make(&self) -> bool {
        let bridge = self.bridge();
        let addresses = [self.address(INNER, ROOT), self.address(OUTER, ROOT)];
        let is_made = ip(&["link", "add", &bridge, "type", "bridge"])
            && ip(&["link", "set", &bridge, "up"])
            && addresses.iter().all(|address| ip(&["addr", "add", &format!("{address}/24"), "dev", &bridge]));
        is_made && (0..self.nodes).all(|node| self.add(node))
    }

    fn add(&self, node: usize) -> bool {
        let (space, link) = (self.space(node), format!("{}v{node}", self.name));
        let addresses = [self.address(INNER, last(node)), self.address(OUTER, last(node))];
        ip(&["netns", "add", &space])
            && ip(&["link", "add", &link, "type", "veth", "peer", "name", "eth0", "netns", &space])
            && ip(&["link", "set", &link, "master", &self.bridge(), "up"])
            && addresses
                .iter()
                .all(|address| ip(&["-n", &space, "addr", "add", &format!("{address}/24"), "dev", "eth0"]))
            && ip(&["-n", &space, "link", "set", "lo", "up"])
            && ip(&["-n", &space, "link", "set", "eth0", "up"])
    }

    fn bridge(&self) -> String {
        format!("{}b", self.name)
    }

    /// The name of a node's namespace.
    pub fn space(&self, node: usize) -> String {
        format!("{}n{node}", self.name)
    }

    fn address(&self, [first, second]: [u8; 2], last: u8) -> Ipv4Addr {
        Ipv4Addr::new(first, second, self.third, last)
    }

    /// Where an end of a link is reached by the other ends.
    pub fn inner(&self, end: End) -> Ipv4Addr {
        self.address(INNER, if let End::Node(node) = end { last(node) } else { ROOT })
    }

    /// Where clients reach a node.
    pub fn outer(&self, node: usize) -> IpAddr {
        self.address(OUTER, last(node)).into()
    }

    /// Loses every packet between two ends from now on.
    pub fn cut(&self, [one, other]: [End; 2]) {
        for (from, to) in [(one, other), (other, one)] {
            let (space, device) = self.device(from);
            let to = self.inner(to).to_string();
            let change = ["neigh", "replace", &to, "lladdr", NOBODY, "dev", &device, "nud", "permanent"]
                .map(str::to_owned);
            assert!(ip(&[space, change.to_vec()].concat()), "the machine lets tests cut links");
        }
    }

    /// Lets packets pass again.
    pub fn heal(&self, [one, other]: [End; 2]) {
        for (from, to) in [(one, other), (other, one)] {
            let (space, device) = self.device(from);
            let change = ["neigh", "del", &self.inner(to).to_string(), "dev", &device].map(str::to_owned);
            assert!(ip(&[space, change.to_vec()].concat()), "the machine lets tests heal links");
        }
    }

    /// Options of `ip` for the namespace of an end, and its device there.
    fn device(&self, end: End) -> (Vec<String>, String) {
        match end {
            End::Database => (Vec::new(), self.bridge()),
            End::Node(node) => (vec!["-n".to_owned(), self.space(node)], "eth0".to_owned()),
        }
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for node in 0..self.nodes {
            ip(&["netns", "del", &self.space(node)]);
        }
        ip(&["link", "del", &self.bridge()]);
    }
}

/// The last number of a node's addresses.
fn last(node: usize) -> u8 {
    u8::try_from(node + 1).expect("a test has few nodes")
}

/// Whether the program `ip` did it.
fn ip(words: &[impl AsRef<std::ffi::OsStr>]) -> bool {
    let done = Command::new("ip").args(words).stdout(Stdio::null()).stderr(Stdio::null()).status();
    done.is_ok_and(|status| status.success())
}
