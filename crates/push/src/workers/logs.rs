//! A Worker's log as clients read it: what it said on this node and, where there are others, on those too.
//!
//! Each node keeps what its own processes said. The node that a client asks reads its own log and asks the others for
//! theirs, again and again while the client waits. So it does not matter which node a client, or what stands before
//! the nodes, comes to.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use kew_core::{AccountId, Timestamp};
use kew_engine::EngineError;
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::Workers;
use super::error::WorkerError;
use super::log::{LogLine, NodePage, WorkerLog};
use super::log_place::LogPlace;
use super::script::check_name;
use super::settings::{Answered, NodeName, Nodes, OtherNodes};

/// How long another node waits for its next line before it answers that there is none.
const OTHERS_WAIT: Duration = Duration::from_millis(500);
/// How much longer its answer may take. What comes later is read with the next question.
const ANSWERS_WITHIN: Duration = Duration::from_millis(500);
/// Readers that ask other nodes at the same time. Each asks every other node twice a second.
pub(super) const READERS_MAX: usize = 64;

/// Lines that were asked for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LogPage {
    /// The lines, in the order of their instants.
    pub lines: Vec<LogLine>,
    /// The place to ask for lines after, next time.
    pub last: LogPlace,
    /// Lines before these that are not kept any more, of those that were asked for.
    pub missed: u64,
}

impl Workers {
    /// What a Worker and its runtime have said after this place; where there is nothing yet, waits so long for it.
    /// Without a place, only says which is the last. A Worker that is not there yet has said nothing, and is not waited
    /// for.
    pub async fn log(
        &self,
        account: AccountId,
        name: &str,
        after: Option<LogPlace>,
        wait: Duration,
    ) -> Result<LogPage, WorkerError> {
        check_name(name)?;
        let Some(log) = self.log_here(account, name) else {
            return Ok(LogPage { last: after.unwrap_or_default(), ..LogPage::default() });
        };
        let Some(nodes) = &self.shared.settings.others else {
            let page = read(&log, after.and_then(|place| place.number()), wait).await;
            return Ok(LogPage { lines: page.lines, last: LogPlace::Number(page.last), missed: page.missed });
        };
        let too_many = EngineError::Overloaded { what: "readers of Workers' logs" };
        let _reading = self.shared.readers.try_acquire().map_err(|_| too_many)?;
        let reader = Reader { nodes, log, account, name, handle: &self.handle };
        let until = Instant::now() + wait;
        let mut read = reader.read(after.as_ref(), Duration::ZERO).await;
        // The first answers come at once; from then on each node waits for its next line.
        while after.is_some() && read.page.lines.is_empty() && !read.is_over {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            read = reader.read(Some(&read.page.last), left.min(OTHERS_WAIT)).await;
        }
        Ok(read.page)
    }

    /// Answers what another node asks by [`OtherNodes::ask`]. `None` if the question is not about Workers.
    pub fn answer(self: &Arc<Self>, question: &str) -> Option<Answered> {
        let Question { worker_log: asked } = serde_json::from_str(question).ok()?;
        let workers = Arc::clone(self);
        // Questions arrive on the event loop that serves clients: reading a log must not hold that up.
        let answer = self.handle.spawn(async move { workers.answer_of(asked).await });
        Some(Box::pin(async move { answer.await.ok() }))
    }

    async fn answer_of(&self, asked: Asked) -> String {
        let page = match self.log_here(AccountId(asked.account), &asked.name) {
            Some(log) => {
                let wait = Duration::from_millis(asked.wait_ms).min(OTHERS_WAIT);
                read(&log, asked.after, wait).await
            }
            None => NodePage { last: asked.after.unwrap_or_default(), ..NodePage::default() },
        };
        serde_json::to_string(&WrittenPage::from(page)).expect("texts and numbers are JSON")
    }

    fn log_here(&self, account: AccountId, name: &str) -> Option<Arc<WorkerLog>> {
        self.shared.find(account, name).map(|worker| Arc::clone(&worker.log))
    }
}

/// What is asked of another node.
#[derive(Serialize, Deserialize)]
struct Question {
    worker_log: Asked,
}

/// Whose lines are asked for, after which number, and how long the first may take.
#[derive(Serialize, Deserialize)]
struct Asked {
    account: u64,
    name: String,
    after: Option<u64>,
    wait_ms: u64,
}

/// A page on its way between nodes: of each line its number, instant, level and text.
#[derive(Serialize, Deserialize)]
struct WrittenPage {
    lines: Vec<(u64, u64, String, String)>,
    last: u64,
    missed: u64,
}

impl From<NodePage> for WrittenPage {
    fn from(page: NodePage) -> Self {
        let lines = page.lines.into_iter().map(|line| (line.number, line.at.0, line.level, line.text));
        Self { lines: lines.collect(), last: page.last, missed: page.missed }
    }
}

impl From<WrittenPage> for NodePage {
    fn from(page: WrittenPage) -> Self {
        let lines = page.lines.into_iter().map(|(number, at, level, text)| LogLine {
            number,
            at: Timestamp(at),
            level,
            text,
            node: None,
        });
        Self { lines: lines.collect(), last: page.last, missed: page.missed, is_over: false }
    }
}

/// The lines of one log after a number, or only the number of the last.
async fn read(log: &WorkerLog, after: Option<u64>, wait: Duration) -> NodePage {
    match after {
        Some(number) => log.after(number, wait).await,
        None => log.page_of_none(),
    }
}

/// Reads the logs of one Worker on all nodes.
struct Reader<'a> {
    nodes: &'a Arc<dyn OtherNodes>,
    log: Arc<WorkerLog>,
    account: AccountId,
    name: &'a str,
    /// Where answers are taken apart: not where other clients are served.
    handle: &'a Handle,
}

/// What another node said: `None` if it did not answer.
type Said = (NodeName, Option<NodePage>);

impl Reader<'_> {
    /// What all nodes have now. With a wait: what the first node has that has something, or nothing if none does in
    /// time. A node that is not heard keeps its place, so nothing of it is lost.
    async fn read(&self, after: Option<&LogPlace>, wait: Duration) -> Read {
        let Nodes { own, others } = self.nodes.now();
        let mut asked = JoinSet::new();
        for node in &others {
            asked.spawn_on(self.ask(node.clone(), after, wait), self.handle);
        }
        let number = after.and_then(|place| place.on(&own.id));
        let mut own_page = pin!(read(&self.log, number, wait));
        let mut end = pin!(tokio::time::sleep(wait + ANSWERS_WITHIN));
        let (mut read, mut is_own_read) = (Read::default(), false);
        let mut places = Vec::new();
        while !is_own_read || !asked.is_empty() {
            let (node, page) = tokio::select! {
                page = &mut own_page, if !is_own_read => {
                    is_own_read = true;
                    read.is_over = page.is_over;
                    (own.clone(), page)
                }
                Some(said) = asked.join_next() => match said {
                    Ok((node, Some(page))) => (node, page),
                    // It did not answer; or this node's Workers end, and its own log says so.
                    Ok((_, None)) | Err(_) => continue,
                },
                () = &mut end => break,
            };
            places.push((node.id.clone(), page.last));
            read.take(&node, page);
            if !wait.is_zero() && (read.is_over || !read.page.lines.is_empty()) {
                break;
            }
        }
        // Engine time does not run back, so the lines of one node stay in their order.
        read.page.lines.sort_by_key(|line| line.at);
        let living: BTreeSet<String> = [own].into_iter().chain(others).map(|node| node.id).collect();
        read.page.last = LogPlace::moved_on(after, &living, places);
        read
    }

    fn ask(
        &self,
        node: NodeName,
        after: Option<&LogPlace>,
        wait: Duration,
    ) -> impl Future<Output = Said> + Send + use<> {
        let worker_log = Asked {
            account: self.account.0,
            name: self.name.to_owned(),
            after: after.and_then(|place| place.on(&node.id)),
            wait_ms: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
        };
        let question = serde_json::to_string(&Question { worker_log });
        let answer = self.nodes.ask(&node.id, question.expect("texts and numbers are JSON"));
        async move {
            let written = answer.await.and_then(|text| serde_json::from_str::<WrittenPage>(&text).ok());
            (node, written.map(NodePage::from))
        }
    }
}

/// What was read of the nodes.
#[derive(Default)]
struct Read {
    page: LogPage,
    /// The log of this node ends.
    is_over: bool,
}

impl Read {
    fn take(&mut self, node: &NodeName, page: NodePage) {
        self.page.missed += page.missed;
        let of_node = |line| LogLine { node: Some(Arc::clone(&node.called)), ..line };
        self.page.lines.extend(page.lines.into_iter().map(of_node));
    }
}
