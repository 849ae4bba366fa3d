//! How Workers are run, and who hears of them.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use kew_core::AccountId;

use super::child::Runtime;
use super::files::Outbound;
use super::output::Said;

/// How Workers are run.
#[derive(Clone)]
pub struct WorkersSettings {
    /// The runtime.
    pub runtime: Runtime,
    /// Where sends of Workers go.
    pub producers: SocketAddr,
    /// What they are let in with.
    pub producer_token: Arc<str>,
    /// What `fetch` in a Worker may reach.
    pub outbound: Outbound,
    /// How long one invocation may take by the wall clock.
    pub wall_limit: Duration,
    /// The accounts that have Workers, by the names they send under.
    pub accounts: Vec<(AccountId, Arc<str>)>,
    /// The region whose queues bindings name.
    pub region: Arc<str>,
    /// The other nodes, if there may be any.
    pub others: Option<Arc<dyn OtherNodes>>,
    /// Hears what Workers say and what becomes of them; called in passing, so it must not block.
    pub notices: Arc<WorkerNotices>,
}

impl WorkersSettings {
    /// Whether other nodes may change Workers too.
    pub(super) fn is_shared(&self) -> bool {
        self.others.is_some()
    }

    pub(super) fn account_name(&self, account: AccountId) -> &str {
        self.accounts.iter().find(|(known, _)| *known == account).map_or("", |(_, name)| name)
    }
}

/// The other nodes over this one's store: each runs the same Workers, and changes them too.
pub trait OtherNodes: Send + Sync {
    /// Those that live now.
    fn now(&self) -> Nodes;

    /// Asks one, by its id. Its own Workers answer ([`super::Workers::answer`]).
    fn ask(&self, node: &str, question: String) -> Answered;
}

/// Nodes that live.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Nodes {
    /// This one.
    pub own: NodeName,
    /// The others.
    pub others: Vec<NodeName>,
}

/// What another node answers, on its way. `None` where it does not answer.
pub type Answered = Pin<Box<dyn Future<Output = Option<String>> + Send>>;

/// A node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeName {
    /// This run of it, unlike any other.
    pub id: String,
    /// What it is called, for people.
    pub called: Arc<str>,
}

/// Hears of Workers: of which account, which one, what.
pub type WorkerNotices = dyn Fn(AccountId, &str, WorkerNotice) + Send + Sync;

/// Something an operator should know of a Worker.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WorkerNotice {
    /// A line of its own or of the runtime.
    Said(Said),
    /// Its process ended by itself, or was killed because it answered nothing.
    Ended,
    /// It could not be started.
    NotStarted(String),
}
