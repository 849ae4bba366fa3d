//! A child at work: batches are brought to it, its handlers' notes are kept beside them, and it is watched.
//!
//! One invocation cannot be cancelled. So when one takes too long, or one keeps the processor and nothing else is
//! answered, the whole child is killed and every invocation in it is lost; what was noted of each still holds.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};
use kew_core::Timestamp;
use kew_http::client::{Answer, Client, ClientSettings, Outgoing, Reach};
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::{Notify, Semaphore};

use super::child::{Child, Plan, Runtime, StartError};
use super::dispatch;
use super::maps::Maps;
use super::notes::Notes;
use super::output::{Line, Said};
use super::script::{ModuleKind, Script};
use super::visit::{self, Visit, VisitError};
use crate::batch::{Batch, hex_text};
use crate::delivered::Delivered;
use crate::verdict::Report;

/// A child with an invocation is asked this often whether it still answers.
const ASK_EVERY: Duration = Duration::from_secs(2);
/// The most bytes of a runtime's result: a hundred ids, twice, and their delays.
const RESULT_BYTES_MAX: usize = 256 << 10;

/// How long it is waited for the words of what a handler threw; those of none that began are never said.
const THROWN_WITHIN: Duration = Duration::from_millis(100);

const TOKEN: HeaderName = HeaderName::from_static("x-kew-token");
/// The least silence that means anything: a busy machine may take a while.
const SILENCE_MIN: Duration = Duration::from_secs(3);

/// How long a Worker's code may go on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// One invocation, by the wall clock.
    pub(super) wall: Duration,
    /// Without answering anything.
    pub(super) silence: Duration,
}

/// A child and what runs in it.
pub(super) struct Live {
    child: Child,
    client: Client,
    /// For replies of `fetch` handlers, which may be longer than results of batches.
    visitors: Client,
    /// Visits there may be beside those under way.
    seats: Semaphore,
    visits: AtomicU64,
    patience: Patience,
    running: Arc<Running>,
}

#[derive(Default)]
struct Running {
    /// Guards the invocations under way, by their first message.
    table: Mutex<Table>,
    begun: Notify,
    ended: Notify,
    /// Something was noted of an invocation.
    noted: Notify,
    /// Whether its code has a queue handler, once it said so.
    handles_queues: OnceLock<bool>,
}

#[derive(Default)]
struct Table {
    notes: HashMap<String, Notes>,
    /// Takes nothing new any more.
    retired: bool,
}

impl Live {
    /// Starts a Worker; `say` hears what it says for people.
    pub(super) async fn start(
        runtime: &Runtime,
        plan: Plan<'_>,
        patience: Patience,
        say: impl Fn(Said) + Send + Sync + 'static,
    ) -> Result<Self, StartError> {
        let running: Arc<Running> = Arc::default();
        let noting = Arc::clone(&running);
        let maps = maps_of(plan.script).await;
        let child = Child::start(runtime, plan, move |line| match line {
            Line::Noted(note) => {
                if let Some(is_there) = note.handler {
                    // What it said first stands.
                    let _said_before = noting.handles_queues.set(is_there);
                }
                if let Some(notes) = noting.table.lock().notes.get_mut(&note.batch) {
                    notes.take(&note);
                    noting.noted.notify_waiters();
                }
            }
            Line::Said(said) | Line::OfRuntime(said) => {
                say(Said { text: maps.told(said.text), ..said });
            }
            Line::Listens(_) => {}
        })
        .await?;
        let settings = ClientSettings {
            reach: Reach::Private,
            reply_bytes_max: RESULT_BYTES_MAX,
            ..ClientSettings::default()
        };
        let visited = ClientSettings { reply_bytes_max: visit::VISIT_REPLY_BYTES_MAX, ..settings };
        Ok(Self {
            child,
            client: Client::new(settings),
            visitors: Client::new(visited),
            seats: Semaphore::new(visit::VISITS_MAX),
            visits: AtomicU64::new(0),
            patience,
            running,
        })
    }

    /// Whether its code has a queue handler, if that is known.
    pub(super) fn handles_queues(&self) -> Option<bool> {
        self.running.handles_queues.get().copied()
    }

    /// Brings a batch to its handler. Nothing when it was not taken: the child takes no more batches, or is not there
    /// any more, and the handler has not heard of it.
    pub(super) async fn deliver(&self, batch: &Batch) -> Option<Delivered> {
        if self.child.has_ended() {
            return None;
        }
        let invocation = self.enter(hex_text(&batch.messages.first()?.message.id.0))?;
        let outgoing = self.request(Method::POST, "/dispatch", dispatch::write(batch))?;
        let answered = tokio::select! {
            // A process that is gone refuses first, and only then is it known to have ended.
            biased;
            answered = self.client.exchange(outgoing, self.patience.wall) => answered,
            () = self.child.end() => {
                let lost = "the Worker's process ended".to_owned();
                return Some(Delivered { report: invocation.noted(), ..Delivered::failed(lost) });
            }
        };
        let error = match answered {
            Ok(answer) if answer.status == StatusCode::OK => match dispatch::judge(&answer.body) {
                Ok(judged) if judged.threw() => {
                    let thrown = invocation.thrown().await;
                    return Some(judged.saying(thrown).of(batch));
                }
                Ok(judged) => return Some(judged.of(batch)),
                Err(error) => error,
            },
            Ok(answer) => {
                let why = String::from_utf8_lossy(&answer.body);
                let failed = Delivered::failed(format!("the batch could not be handed over: {why}"));
                return Some(Delivered { report: invocation.noted(), ..failed.apart(batch) });
            }
            // The child did not get it, which harms no other batch.
            Err(error) if error.is_unreached() => return None,
            Err(error) => {
                // Whatever became of it: it cannot be called back, and its notes count only once it is over.
                self.child.kill();
                self.child.end().await;
                if error.is_out_of_time() {
                    let late = Delivered::timed_out(error.to_string());
                    return Some(Delivered { report: invocation.noted(), ..late });
                }
                error.to_string()
            }
        };
        Some(Delivered { report: invocation.noted(), ..Delivered::failed(error) })
    }

    /// Brings a request to its `fetch` handler. While it is under way the child is watched as for a batch.
    pub(super) async fn visit(&self, visit: Visit) -> Result<Answer, VisitError> {
        let _seat = self.seats.try_acquire().map_err(|_| VisitError::Busy)?;
        if self.child.has_ended() {
            return Err(VisitError::NotRunning);
        }
        let number = self.visits.fetch_add(1, Ordering::Relaxed);
        let _invocation = self.enter(format!("visit {number}")).ok_or(VisitError::NotRunning)?;
        let mut outgoing = self.request(visit.method, "/visit", visit.body).ok_or(VisitError::NotRunning)?;
        let address = HeaderValue::from_str(&visit.address).map_err(|_| VisitError::NotRunning)?;
        let ours = std::mem::replace(&mut outgoing.headers, visit.headers);
        outgoing.headers.extend(ours.into_iter().filter(|(name, _)| name.as_ref() == Some(&TOKEN)));
        outgoing.headers.insert(visit::ADDRESS, address);
        tokio::select! {
            biased;
            answer = self.visitors.exchange(outgoing, visit::VISIT_WITHIN) => visit::judged(answer?),
            () = self.child.end() => Err(VisitError::Ended),
        }
    }

    /// Calls its `scheduled` handler; or says why that failed.
    pub(super) async fn schedule(&self, cron: &str, at: Timestamp) -> Result<(), String> {
        let not_there = || "the Worker was not running".to_owned();
        let number = self.visits.fetch_add(1, Ordering::Relaxed);
        let _invocation = self.enter(format!("schedule {number}")).ok_or_else(not_there)?;
        let body = json!({ "cron": cron, "at": at.0 }).to_string().into();
        let outgoing = self.request(Method::POST, "/scheduled", body).ok_or_else(not_there)?;
        let answered = tokio::select! {
            biased;
            answered = self.client.exchange(outgoing, self.patience.wall) => answered,
            () = self.child.end() => return Err("the Worker's process ended".to_owned()),
        };
        match answered {
            Ok(answer) if answer.body == "ok" => Ok(()),
            Ok(answer) => Err(String::from_utf8_lossy(&answer.body).into_owned()),
            Err(error) => {
                if error.is_out_of_time() {
                    // It cannot be called back.
                    self.child.kill();
                    self.child.end().await;
                }
                Err(error.to_string())
            }
        }
    }

    /// Waits until it has ended. Meanwhile a child that does not answer while it works is killed.
    pub(super) async fn watch(&self) {
        tokio::select! {
            () = self.child.end() => {}
            () = self.ask_on() => {
                self.child.kill();
                self.child.end().await;
            }
        }
    }

    /// Ends it at once; what its handlers have noted stands.
    pub(super) fn kill(&self) {
        self.child.kill();
    }

    /// Takes no more batches, waits for those under way and ends. It is watched meanwhile as before.
    pub(super) async fn retire(&self) {
        tokio::select! {
            () = self.finish() => {}
            () = self.watch() => {}
        }
    }

    async fn finish(&self) {
        self.running.table.lock().retired = true;
        loop {
            let ended = self.running.ended.notified();
            if self.running.table.lock().notes.is_empty() {
                break;
            }
            tokio::select! {
                () = ended => {}
                () = self.child.end() => break,
            }
        }
        self.child.finish().await;
    }

    /// Comes back when a child with an invocation answers nothing.
    async fn ask_on(&self) {
        loop {
            let begun = self.running.begun.notified();
            if self.running.table.lock().notes.is_empty() {
                begun.await;
            }
            tokio::time::sleep(ASK_EVERY).await;
            if self.running.table.lock().notes.is_empty() {
                continue;
            }
            let Some(question) = self.request(Method::GET, "/ready", Bytes::new()) else { return };
            let silence = self.patience.silence.max(SILENCE_MIN);
            if self.client.exchange(question, silence).await.is_err_and(|error| error.is_out_of_time()) {
                return;
            }
        }
    }

    /// An invocation under way, by its first message or a visit's number; none once it takes nothing new.
    fn enter(&self, first: String) -> Option<Invocation<'_>> {
        let mut table = self.running.table.lock();
        if table.retired {
            return None;
        }
        table.notes.insert(first.clone(), Notes::default());
        drop(table);
        self.running.begun.notify_one();
        Some(Invocation { running: &self.running, first })
    }

    fn request(&self, method: Method, path: &str, body: Bytes) -> Option<Outgoing> {
        let uri: Uri = format!("http://{}{path}", self.child.address).parse().ok()?;
        let mut headers = HeaderMap::with_capacity(2);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(TOKEN, HeaderValue::from_str(&self.child.token).ok()?);
        Some(Outgoing { method, uri, headers, body })
    }
}

/// The source maps of a Worker. To read large ones keeps a thread busy for a while.
async fn maps_of(script: &Script) -> Maps {
    if !script.modules.iter().any(|module| module.kind == ModuleKind::SourceMap) {
        return Maps::default();
    }
    // Its modules are shared, not copied.
    let script = script.clone();
    tokio::task::spawn_blocking(move || Maps::read(&script)).await.unwrap_or_default()
}

/// A batch or a visit in a handler.
struct Invocation<'a> {
    running: &'a Running,
    first: String,
}

impl Invocation<'_> {
    /// What its handler threw, as far as that was read.
    fn threw(&self) -> Option<String> {
        let table = self.running.table.lock();
        table.notes.get(&self.first).and_then(Notes::threw).map(str::to_owned)
    }

    /// What its handler threw. That is said before the invocation reports, but comes another way and may be later.
    async fn thrown(&self) -> Option<String> {
        let look = async {
            loop {
                let noted = self.running.noted.notified();
                match self.threw() {
                    Some(threw) => return threw,
                    None => noted.await,
                }
            }
        };
        tokio::time::timeout(THROWN_WITHIN, look).await.ok()
    }

    /// What was noted of it.
    fn noted(&self) -> Report {
        self.running.table.lock().notes.remove(&self.first).unwrap_or_default().report()
    }
}

impl Drop for Invocation<'_> {
    fn drop(&mut self) {
        self.running.table.lock().notes.remove(&self.first);
        self.running.ended.notify_waiters();
    }
}
