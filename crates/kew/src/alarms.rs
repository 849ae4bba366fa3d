//! Brings changes of alarms to webhooks: a POST for each, in order for each address, tried a few times.
//!
//! It runs on a thread of its own, so that an address that hangs delays nothing else. What is not brought is reported
//! as work beside requests that fails. What waits when the server ends is given up.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use kew_console::{AlarmChange, AlarmRule};
use kew_core::{Reports, Work};
use kew_http::client::{Client, ClientSettings, Outgoing};
use kew_http::{Drain, Droppable, Dropped, HeaderMap, HeaderValue, Method, Uri, header};
use serde_json::json;
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// Changes that wait for one address; more are given up.
const WAITING_MAX: usize = 64;
/// How long one try may take.
const WITHIN: Duration = Duration::from_secs(10);
/// The pauses between tries.
const PAUSES: [Duration; 4] =
    [Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(5), Duration::from_secs(15)];
/// Nothing of a reply counts but its status.
const REPLY_BYTES_MAX: usize = 64 << 10;

/// Posts changes of alarms.
pub(crate) struct AlarmPosts {
    lanes: BTreeMap<Arc<str>, Sender<Bytes>>,
    upkeep: Arc<dyn Reports>,
    dropped: Arc<Dropped>,
    drain: Drain,
    thread: Option<JoinHandle<()>>,
}

impl AlarmPosts {
    /// Posts for these rules; without an address among them there is no thread.
    pub(crate) fn start(rules: &[AlarmRule], reports: (Arc<dyn Reports>, Arc<Dropped>)) -> io::Result<Self> {
        Self::start_with(rules, reports, PAUSES)
    }

    fn start_with(
        rules: &[AlarmRule],
        (upkeep, dropped): (Arc<dyn Reports>, Arc<Dropped>),
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
        let reports = (Arc::clone(&upkeep), Arc::clone(&dropped));
        let mut posts = Self { lanes, upkeep, dropped, drain, thread: None };
        if ends.is_empty() {
            return Ok(posts);
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let closing = posts.drain.closing();
        let run = move || {
            let settings = ClientSettings { reply_bytes_max: REPLY_BYTES_MAX, ..ClientSettings::default() };
            let client = Arc::new(Client::new(settings));
            for (url, waiting) in ends {
                runtime.spawn(lane(Arc::clone(&client), url, waiting, reports.clone(), pauses));
            }
            // What is under way ends with the runtime.
            runtime.block_on(closing);
        };
        posts.thread = Some(std::thread::Builder::new().name("kew-alarms".into()).spawn(run)?);
        Ok(posts)
    }

    /// Posts a change, if its rule says where. Never waits.
    pub(crate) fn post(&self, change: &AlarmChange) {
        let Some(lane) = change.webhook.as_ref().and_then(|url| self.lanes.get(url)) else { return };
        if lane.try_send(body(change)).is_err() {
            self.dropped.add(Droppable::AlarmPost, 1);
            self.upkeep
                .failed(Work::Alarms, &format!("too many changes wait: that of {} is lost", change.name));
        }
    }

    /// Ends the thread.
    pub(crate) fn stop(&self) {
        self.drain.close();
    }
}

impl Drop for AlarmPosts {
    fn drop(&mut self) {
        self.drain.close();
        if let Some(thread) = self.thread.take() {
            // One that panicked has said so itself.
            let _ended = thread.join();
        }
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

/// Brings what waits for one address, one after the other.
async fn lane(
    client: Arc<Client>,
    url: Arc<str>,
    mut waiting: Receiver<Bytes>,
    (upkeep, dropped): (Arc<dyn Reports>, Arc<Dropped>),
    pauses: [Duration; 4],
) {
    let Ok(uri) = url.parse::<Uri>() else { return };
    while let Some(body) = waiting.recv().await {
        let mut pauses = pauses.iter();
        loop {
            match try_once(&client, &uri, &body).await {
                Ok(()) => {
                    upkeep.succeeded(Work::Alarms);
                    break;
                }
                Err(why) => match pauses.next() {
                    Some(pause) => tokio::time::sleep(*pause).await,
                    None => {
                        dropped.add(Droppable::AlarmPost, 1);
                        // The path may hold a secret.
                        let host = uri.host().unwrap_or_default();
                        upkeep.failed(Work::Alarms, &format!("posting to the webhook at {host}: {why}"));
                        break;
                    }
                },
            }
        }
    }
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
    use parking_lot::Mutex;

    #[derive(Default)]
    struct Book(Mutex<Vec<String>>);

    impl Reports for Book {
        fn failed(&self, _: Work, cause: &str) {
            self.0.lock().push(cause.to_owned());
        }

        fn succeeded(&self, _: Work) {}

        fn damaged(&self, _: &str, _: u64, _: &str) {}

        fn scrubbed(&self, _: u64) {}

        fn scrub_ended(&self, _: Timestamp) {}
    }

    #[test]
    fn changes_beyond_those_that_may_wait_for_an_address_are_counted_and_reported() {
        // It accepts connections and never answers.
        let hook = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let url: Arc<str> =
            format!("http://{}/", hook.local_addr().expect("a bound socket has an address")).into();
        let rule = AlarmRule {
            name: "many".into(),
            queue: "*".into(),
            metric: AlarmMetric::Visible,
            above: 0.0,
            lasting: Duration::ZERO,
            webhook: Some(Arc::clone(&url)),
        };
        let (book, dropped) = (Arc::new(Book::default()), Arc::<Dropped>::default());
        let posts = AlarmPosts::start(&[rule], (Arc::clone(&book) as _, Arc::clone(&dropped)))
            .expect("a thread can be started");
        let change = AlarmChange {
            name: "many".into(),
            queue: None,
            metric: "visible",
            is_firing: true,
            at: Timestamp(1),
            value: 1.0,
            bound: 0.0,
            webhook: Some(url),
        };
        // One more than may wait may be under way.
        (0..WAITING_MAX + 3).for_each(|_| posts.post(&change));
        let lost = dropped.count(Droppable::AlarmPost);
        assert!((2..=3).contains(&lost), "{lost}");
        assert_eq!(book.0.lock().len() as u64, lost);
        assert!(book.0.lock()[0].contains("that of many is lost"));
    }
}
