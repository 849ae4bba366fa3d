//! Brings changes of alarms to webhooks: a POST for each, in order for each address, tried a few times.
//!
//! It runs on a thread of its own, so that an address that hangs delays nothing else. Each change that is not brought
//! is a line of the log and is counted. What waits when the server ends is given up. Only what has arrived is noted in
//! the file of alarms that fire: what is lost here is posted after the next start, if it is still so.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use kew_console::{AlarmChange, AlarmRule};
use kew_http::client::{Client, ClientSettings, Outgoing};
use kew_http::{Drain, Droppable, Dropped, HeaderMap, HeaderValue, Method, Uri, header};
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::firing::FiringAlarms;

/// Changes that wait for one address; more are given up.
const WAITING_MAX: usize = 64;
/// How long one try may take.
const WITHIN: Duration = Duration::from_secs(10);
/// The pauses between tries.
const PAUSES: [Duration; 4] =
    [Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(5), Duration::from_secs(15)];
/// Nothing of a reply counts but its status.
const REPLY_BYTES_MAX: usize = 64 << 10;

/// Hears of a change that is given up: which, the host of its webhook, and why.
pub(crate) type Lost = dyn Fn(&AlarmChange, &str, &str) + Send + Sync;

/// Posts changes of alarms.
pub(crate) struct AlarmPosts {
    lanes: BTreeMap<Arc<str>, Sender<AlarmChange>>,
    given_up: GivenUp,
    firing: Arc<FiringAlarms>,
    drain: Drain,
    /// Taken by the one who waits for its end.
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl AlarmPosts {
    /// Posts for these rules; without an address among them there is no thread.
    pub(crate) fn start(
        rules: &[AlarmRule],
        (lost, dropped): (Arc<Lost>, Arc<Dropped>),
        firing: Arc<FiringAlarms>,
    ) -> io::Result<Self> {
        Self::start_with(rules, GivenUp { lost, dropped }, firing, PAUSES)
    }

    fn start_with(
        rules: &[AlarmRule],
        given_up: GivenUp,
        firing: Arc<FiringAlarms>,
        pauses: [Duration; 4],
    ) -> io::Result<Self> {
        let drain = Drain::default();
        let (mut lanes, mut ends) = (BTreeMap::new(), Vec::new());
        for url in rules.iter().filter_map(|rule| rule.webhook.as_ref()) {
            if !lanes.contains_key(url) {
                let (sender, receiver) = channel(WAITING_MAX);
                lanes.insert(Arc::clone(url), sender);
                ends.push((Arc::clone(url), receiver));
            }
        }
        let lane_parts = LaneParts { given_up: given_up.clone(), firing: Arc::clone(&firing), pauses };
        let posts = Self { lanes, given_up, firing, drain, thread: Mutex::default() };
        if ends.is_empty() {
            return Ok(posts);
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let closing = posts.drain.closing();
        let run = move || {
            let settings = ClientSettings { reply_bytes_max: REPLY_BYTES_MAX, ..ClientSettings::default() };
            let client = Arc::new(Client::new(settings));
            for (url, waiting) in ends {
                runtime.spawn(lane(Arc::clone(&client), url, waiting, lane_parts.clone()));
            }
            runtime.block_on(closing);
            // What is under way ends with the runtime; a look-up of a name may hang for long.
            runtime.shutdown_background();
        };
        *posts.thread.lock() = Some(std::thread::Builder::new().name("kew-alarms".into()).spawn(run)?);
        Ok(posts)
    }

    /// Posts a change, if its rule says where; says whether it does. Never waits.
    pub(crate) fn post(&self, change: &AlarmChange) -> bool {
        let Some(url) = &change.webhook else { return false };
        let Some(lane) = self.lanes.get(url) else { return false };
        if lane.try_send(change.clone()).is_err() {
            let uri = url.parse::<Uri>().unwrap_or_default();
            self.given_up.take(change, &uri, "too many changes wait for it");
        }
        true
    }

    /// Ends the thread, and keeps what it posted. The store's directory must still be ours.
    pub(crate) fn stop(&self) {
        self.end();
        self.firing.save();
    }

    fn end(&self) {
        self.drain.close();
        if let Some(thread) = self.thread.lock().take() {
            // One that panicked has said so itself.
            let _ended = thread.join();
        }
    }
}

impl Drop for AlarmPosts {
    fn drop(&mut self) {
        self.end();
    }
}

fn body(change: &AlarmChange) -> Bytes {
    let body = json!({
        "name": &*change.name,
        "queue": change.queue,
        "metric": change.metric,
        "state": if change.is_firing { "firing" } else { "ok" },
        "at_ms": change.at.0,
        "value": change.value,
        "bound": change.bound,
    });
    body.to_string().into()
}

/// Where it is said that a change was given up.
#[derive(Clone)]
struct GivenUp {
    lost: Arc<Lost>,
    dropped: Arc<Dropped>,
}

impl GivenUp {
    fn take(&self, change: &AlarmChange, uri: &Uri, why: &str) {
        self.dropped.add(Droppable::AlarmPost, 1);
        // The path may hold a secret.
        (self.lost)(change, uri.host().unwrap_or_default(), why);
    }
}

/// What the lanes share.
#[derive(Clone)]
struct LaneParts {
    given_up: GivenUp,
    firing: Arc<FiringAlarms>,
    pauses: [Duration; 4],
}

/// Brings what waits for one address, one after the other.
async fn lane(client: Arc<Client>, url: Arc<str>, mut waiting: Receiver<AlarmChange>, parts: LaneParts) {
    let Ok(uri) = url.parse::<Uri>() else { return };
    while let Some(change) = waiting.recv().await {
        if let Err(why) = bring(&client, &uri, &body(&change), &parts.pauses).await {
            parts.given_up.take(&change, &uri, &why);
            continue;
        }
        parts.firing.note(&change);
        // At once: the next one may fail for long, and the server may end.
        parts.firing.save();
    }
}

/// Tries it as often as there are pauses, and once more.
async fn bring(client: &Client, uri: &Uri, body: &Bytes, pauses: &[Duration]) -> Result<(), String> {
    for pause in pauses {
        if try_once(client, uri, body).await.is_ok() {
            return Ok(());
        }
        tokio::time::sleep(*pause).await;
    }
    try_once(client, uri, body).await
}

async fn try_once(client: &Client, uri: &Uri, body: &Bytes) -> Result<(), String> {
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let outgoing = Outgoing { method: Method::POST, uri: uri.clone(), headers, body: body.clone() };
    let answer = client.exchange(outgoing, WITHIN).await.map_err(|error| error.to_string())?;
    if answer.status.is_success() { Ok(()) } else { Err(format!("it answered {}", answer.status)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kew_console::AlarmMetric;
    use kew_core::Timestamp;
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::path::Path;

    /// What was given up: the alarm, its queue, the host and why.
    type Book = Arc<Mutex<Vec<[String; 4]>>>;

    fn noting(book: &Book) -> Arc<Lost> {
        let book = Arc::clone(book);
        Arc::new(move |change, host, why| {
            let queue = change.queue.clone().unwrap_or_default();
            book.lock().push([change.name.to_string(), queue, host.to_owned(), why.to_owned()]);
        })
    }

    /// A rule whose changes are posted there.
    fn rule(url: &Arc<str>) -> AlarmRule {
        AlarmRule {
            name: "many".into(),
            queue: "*".into(),
            metric: AlarmMetric::Visible,
            above: 0.0,
            lasting: Duration::ZERO,
            webhook: Some(Arc::clone(url)),
        }
    }

    fn begins(queue: Option<&str>, url: &Arc<str>) -> AlarmChange {
        AlarmChange {
            name: "many".into(),
            queue: queue.map(str::to_owned),
            metric: "visible",
            is_firing: true,
            at: Timestamp(1),
            value: 1.0,
            bound: 0.0,
            webhook: Some(Arc::clone(url)),
        }
    }

    fn hook() -> (TcpListener, Arc<str>) {
        let hook = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let url = format!("http://{}/", hook.local_addr().expect("a bound socket has an address"));
        (hook, url.into())
    }

    fn firing(directory: &Path, url: &Arc<str>) -> Arc<FiringAlarms> {
        Arc::new(FiringAlarms::read(Some(directory), &[rule(url)], Box::new(|_| {})))
    }

    #[test]
    fn a_change_that_was_posted_is_kept_although_the_next_one_cannot_be() {
        let (hook, url) = hook();
        let directory = tempfile::tempdir().expect("the machine has a temporary directory");
        let firing_alarms = firing(directory.path(), &url);
        let (book, dropped) = (Book::default(), Arc::<Dropped>::default());
        let given_up = GivenUp { lost: noting(&book), dropped: Arc::clone(&dropped) };
        let no_pauses = [Duration::ZERO; 4];
        let posts = AlarmPosts::start_with(&[rule(&url)], given_up, firing_alarms, no_pauses)
            .expect("a thread can be started");
        for queue in ["a", "b", "c"] {
            assert!(posts.post(&begins(Some(queue), &url)), "its rule has an address");
        }
        // All tries of the second one are refused.
        for status in [200, 500, 500, 500, 500, 500, 200] {
            let (mut stream, _) = hook.accept().expect("the change is posted");
            let _head = stream.read(&mut [0; 4096]).expect("the client writes a request");
            let reply = format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            stream.write_all(reply.as_bytes()).expect("the client reads the reply");
        }
        let kept: Vec<Option<String>> =
            firing(directory.path(), &url).all().into_iter().map(|firing| firing.queue).collect();
        assert_eq!(kept.first(), Some(&Some("a".to_owned())), "before the server has ended");
        // The third one arrived, and hides nothing.
        let lost = ["many", "b", "127.0.0.1", "it answered 500 Internal Server Error"].map(str::to_owned);
        assert_eq!((&book.lock()[..], dropped.count(Droppable::AlarmPost)), (&[lost][..], 1));
    }

    #[test]
    fn changes_beyond_those_that_may_wait_for_an_address_are_counted_and_reported() {
        // It accepts connections and never answers.
        let (_hook, url) = hook();
        let (book, dropped) = (Book::default(), Arc::<Dropped>::default());
        let directory = tempfile::tempdir().expect("the machine has a temporary directory");
        let firing = firing(directory.path(), &url);
        let reports = (noting(&book), Arc::clone(&dropped));
        let posts = AlarmPosts::start(&[rule(&url)], reports, Arc::clone(&firing));
        let posts = posts.expect("a thread can be started");
        let change = begins(None, &url);
        // One more than may wait may be under way.
        for _ in 0..WAITING_MAX + 3 {
            assert!(posts.post(&change), "its rule has an address");
        }
        let lost = dropped.count(Droppable::AlarmPost);
        assert!((2..=3).contains(&lost), "{lost}");
        assert_eq!(book.lock().len() as u64, lost);
        assert_eq!(book.lock()[0][3], "too many changes wait for it");
        assert_eq!(firing.all(), [], "what has not arrived is not kept as posted");
        assert!(
            !posts.post(&AlarmChange { webhook: None, ..change }),
            "without an address nothing is posted"
        );
    }
}
