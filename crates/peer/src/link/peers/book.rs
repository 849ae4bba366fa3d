//! Which nodes are known, and the links to each.
//!
//! A node has at most one link that requests use, its *current* one. A second one can come about, because both nodes
//! may connect at the same time or one may connect anew before the other has noticed that a link is dead. Then the
//! newer one stays, unless they were made so close together that both nodes connected at once: then the one that the
//! node with the lower id dialed. Both nodes decide alike. The other link is left, not cut: requests on it go on until
//! they end.

use std::collections::VecDeque;

use hashbrown::HashMap;
use tokio::sync::watch;
use tokio::time::Instant;

use super::super::error::Why;
use super::super::handle::Link;
use super::super::limits::{
    CONNECT_WAITING_MAX, DIAL_PAUSE, DIAL_PAUSE_MAX, GREETING_TIME_MAX, LEAVING_MAX, NODES_MAX,
};
use super::super::node::NodeId;
use super::dial::Address;

/// All nodes that are known, and those that came by themselves.
#[derive(Debug)]
pub struct Book {
    me: NodeId,
    entries: HashMap<NodeId, Entry>,
    pub is_closed: bool,
}

/// One other node.
#[derive(Debug)]
struct Entry {
    /// `None` for a node that connected and is not in the book.
    address: Option<Address>,
    current: Option<Link>,
    /// Links that were left, oldest first.
    left: VecDeque<Link>,
    /// Whether a task connects to it.
    is_dialed: bool,
    pauses: Pauses,
    /// Requests that wait for a link.
    waiting: usize,
    /// Changes with each new link and with the first request that waits. Closed when the node is forgotten.
    changes: watch::Sender<u64>,
}

/// What a request finds.
#[derive(Debug)]
pub enum Found {
    /// A link that is open.
    Link(Link),
    /// None yet: look again when this changes. The request counts as waiting until [`Book::wait_no_more`].
    Wait(watch::Receiver<u64>),
}

impl Book {
    pub fn new(me: NodeId) -> Self {
        Self { me, entries: HashMap::new(), is_closed: false }
    }

    /// Replaces the nodes of the book. Returns those that are to be connected to.
    ///
    /// A node that is no longer in it is forgotten: its link is left, requests that wait for one are refused. One that
    /// connected before it was in any book stays.
    pub fn replace(&mut self, nodes: impl IntoIterator<Item = (NodeId, Address)>) -> Vec<NodeId> {
        let mut new: HashMap<NodeId, Address> = nodes.into_iter().collect();
        new.remove(&self.me);
        self.entries.retain(|id, entry| match (new.remove(id), entry.address.is_some()) {
            (Some(address), _) => {
                entry.address = Some(address);
                true
            }
            (None, true) => {
                entry.forget();
                false
            }
            (None, false) => true,
        });
        for (id, address) in new {
            if self.entries.len() < NODES_MAX {
                self.entries.insert(id, Entry::new(Some(address)));
            }
        }
        let mut to_dial = Vec::new();
        for (id, entry) in &mut self.entries {
            if entry.begin_dialing() {
                to_dial.push(id.clone());
            }
        }
        to_dial
    }

    /// A link to a node; if there is none, the right to wait for one.
    pub fn find(&mut self, id: &NodeId) -> Result<Found, Why> {
        let entry = self.entries.get_mut(id).ok_or(Why::NoSuchNode)?;
        if let Some(link) = entry.open_link() {
            return Ok(Found::Link(link));
        }
        if entry.waiting >= CONNECT_WAITING_MAX {
            return Err(Why::TooManyWaiting);
        }
        entry.waiting += 1;
        if entry.waiting == 1 {
            // For the task that connects, which may be giving way; the others that wait need not look again.
            entry.note_change();
        }
        Ok(Found::Wait(entry.changes.subscribe()))
    }

    /// The link to a node, if there is an open one now.
    pub fn look(&self, id: &NodeId) -> Result<Option<Link>, Why> {
        Ok(self.entries.get(id).ok_or(Why::NoSuchNode)?.open_link())
    }

    /// A request waits no longer.
    pub fn wait_no_more(&mut self, id: &NodeId) {
        if let Some(entry) = self.entries.get_mut(id) {
            entry.waiting = entry.waiting.saturating_sub(1);
        }
    }

    /// The open link to each node that has one.
    pub fn links(&self) -> Vec<Link> {
        self.entries.values().filter_map(Entry::open_link).collect()
    }

    /// Whether a node is to be connected to; marks it as being so.
    pub fn begin_dialing(&mut self, id: &NodeId) -> bool {
        !self.is_closed && self.entries.get_mut(id).is_some_and(Entry::begin_dialing)
    }

    /// What a task that connects to a node is to do next. `None` ends it: there is a link, or the node is forgotten.
    pub fn next_dial(&mut self, id: &NodeId) -> Option<NextDial> {
        let is_closed = self.is_closed;
        let entry = self.entries.get_mut(id)?;
        let address = entry.address.clone().filter(|_| !is_closed && entry.open_link().is_none());
        entry.is_dialed = address.is_some();
        Some(NextDial {
            address: address?,
            not_before: entry.pauses.not_before,
            is_needed: entry.waiting > 0,
        })
    }

    /// Changes when there is news of a node. `None`: it is not known.
    pub fn changes_of(&self, id: &NodeId) -> Option<watch::Receiver<u64>> {
        Some(self.entries.get(id)?.changes.subscribe())
    }

    /// An attempt to connect has failed at `now`.
    pub fn note_failed_dial(&mut self, id: &NodeId, now: Instant) {
        if let Some(entry) = self.entries.get_mut(id) {
            entry.pauses.note_failure(now);
        }
    }

    /// Takes a new link in; false when there are too many nodes. The connection is to be polled in any case.
    pub fn adopt(&mut self, link: &Link) -> bool {
        let id = link.peer().id.clone();
        if self.is_closed || (self.entries.len() >= NODES_MAX && !self.entries.contains_key(&id)) {
            link.end();
            return false;
        }
        let is_lower = self.me < id;
        let entry = self.entries.entry(id).or_insert_with(|| Entry::new(None));
        match entry.open_link() {
            Some(old) if !stays(link, &old, is_lower) => entry.leave(link.clone()),
            Some(old) => {
                entry.current = Some(link.clone());
                entry.leave(old);
            }
            None => entry.current = Some(link.clone()),
        }
        entry.note_change();
        true
    }

    /// A link has ended at `now`.
    pub fn end(&mut self, link: &Link, now: Instant) {
        let id = &link.peer().id;
        let Some(entry) = self.entries.get_mut(id) else { return };
        entry.left.retain(|left| left.id() != link.id());
        if entry.current.as_ref().is_some_and(|current| current.id() == link.id()) {
            entry.current = None;
            entry.pauses.note_end(link.began(), now);
        }
        if entry.address.is_none() && entry.current.is_none() && entry.left.is_empty() {
            self.entries.remove(id);
        }
    }

    /// Ends all links and forgets all nodes.
    pub fn close(&mut self) {
        self.is_closed = true;
        for (_, entry) in self.entries.drain() {
            entry.left.iter().chain(&entry.current).for_each(Link::end);
        }
    }
}

/// The next step of a task that connects.
#[derive(Debug)]
pub struct NextDial {
    pub address: Address,
    /// `None`: at once.
    pub not_before: Option<Instant>,
    /// Whether a request waits.
    pub is_needed: bool,
}

/// Pauses between attempts to connect to one node.
#[derive(Debug, Default)]
struct Pauses {
    /// Failures in a row.
    failures: u32,
    not_before: Option<Instant>,
}

impl Pauses {
    fn note_failure(&mut self, now: Instant) {
        let pause = DIAL_PAUSE.saturating_mul(2_u32.saturating_pow(self.failures)).min(DIAL_PAUSE_MAX);
        self.failures = self.failures.saturating_add(1);
        self.not_before = Some(now + pause);
    }

    /// A link that ends soon counts as a failure: a node that drops each of them must not be connected to in a loop.
    fn note_end(&mut self, began: Instant, now: Instant) {
        if now.saturating_duration_since(began) < DIAL_PAUSE_MAX {
            self.note_failure(now);
        } else {
            *self = Self::default();
        }
    }
}

/// Whether `new` stays rather than `old`. `is_lower` says that this node has the lower id.
fn stays(new: &Link, old: &Link, is_lower: bool) -> bool {
    let is_crossing = new.is_dialed() != old.is_dialed()
        && new.began().saturating_duration_since(old.began()) < GREETING_TIME_MAX;
    !is_crossing || new.is_dialed() == is_lower
}

impl Entry {
    fn new(address: Option<Address>) -> Self {
        Self {
            address,
            current: None,
            left: VecDeque::new(),
            is_dialed: false,
            pauses: Pauses::default(),
            waiting: 0,
            changes: watch::Sender::new(0),
        }
    }

    fn open_link(&self) -> Option<Link> {
        self.current.clone().filter(Link::is_open)
    }

    fn begin_dialing(&mut self) -> bool {
        let is_to_begin = !self.is_dialed && self.address.is_some() && self.open_link().is_none();
        self.is_dialed |= is_to_begin;
        is_to_begin
    }

    fn note_change(&self) {
        self.changes.send_modify(|change| *change = change.wrapping_add(1));
    }

    fn leave(&mut self, link: Link) {
        link.leave();
        self.left.push_back(link);
        if self.left.len() > LEAVING_MAX
            && let Some(oldest) = self.left.pop_front()
        {
            oldest.end();
        }
    }

    fn forget(&mut self) {
        if let Some(link) = self.current.take() {
            link.leave();
        }
    }
}
