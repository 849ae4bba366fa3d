//! The thread that posts what is to be exported, and the bounded queue before it.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::{Receiver as Told, sync_channel};
use std::time::Duration;

use bytes::Bytes;
use kew_core::{Entropy, Timestamp};
use kew_http::client::{Client, ClientSettings, Outgoing};
use kew_http::{
    Drain, Droppable, Dropped, Exchange, HeaderMap, HeaderValue, Method, TraceContext, Uri, Witness, header,
};
use kew_push::Attempt;
use kew_push::verdict::Ending;
use parking_lot::Mutex;
use serde_json::Value as Json;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};

use super::{Kind, Record, Report, Span, TelemetrySettings, Value, encode, figures};
use crate::machine;

/// Spans and lines that wait.
const WAITING_MAX: usize = 8_192;
/// Spans or lines of one post.
const POST_MAX: usize = 512;
/// How long they wait for others.
const GATHER: Duration = Duration::from_secs(1);
/// The pause before the one repetition of a post that failed.
const PAUSE: Duration = Duration::from_secs(1);
/// How long the end waits for the last posts.
const END_WITHIN: Duration = Duration::from_secs(3);
/// Nothing of a reply counts but its status.
const REPLY_BYTES_MAX: usize = 64 << 10;

/// What waits.
enum Item {
    Request(Box<Exchange>),
    Span(Box<Span>),
    Record(Box<Record>),
}

impl Item {
    fn droppable(&self) -> Droppable {
        match self {
            Self::Request(_) | Self::Span(_) => Droppable::Span,
            Self::Record(_) => Droppable::LogRecord,
        }
    }
}

/// Gives the text of `/metrics`.
type Figures = Arc<dyn Fn() -> Pin<Box<dyn Future<Output = String> + Send>> + Send + Sync>;

/// Takes what is to be exported. Nothing of it waits for the collector.
pub struct Exporter {
    items: Sender<Item>,
    dropped: Arc<Dropped>,
    /// Where the metrics come from, and since when they count; guards nothing else.
    figures: Arc<Mutex<Option<(Figures, Timestamp)>>>,
    has_traces: bool,
    has_logs: bool,
    has_metrics: bool,
    drain: Drain,
    ended: Mutex<Told<()>>,
}

impl fmt::Debug for Exporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Exporter")
    }
}

/// Starts the thread, which tells `report` what the operator should know.
pub fn start(
    settings: TelemetrySettings,
    entropy: Arc<dyn Entropy>,
    report: impl Fn(Report<'_>) + Send + 'static,
) -> io::Result<Exporter> {
    let (items, waiting) = channel(WAITING_MAX);
    let (ends, ended) = sync_channel(1);
    let (dropped, figures, drain) = (Arc::<Dropped>::default(), Arc::default(), Drain::default());
    let exporter = Exporter {
        items,
        dropped: Arc::clone(&dropped),
        figures: Arc::clone(&figures),
        has_traces: settings.traces.is_some(),
        has_logs: settings.logs.is_some(),
        has_metrics: settings.metrics.is_some(),
        drain: drain.clone(),
        ended: Mutex::new(ended),
    };
    if let Some(protocol) = &settings.other_protocol {
        report(Report::OtherProtocol(protocol));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let posts = Posts {
        client: Client::new(ClientSettings { reply_bytes_max: REPLY_BYTES_MAX, ..ClientSettings::default() }),
        resource: encode::resource(&settings.service),
        settings,
        entropy,
        dropped,
        figures,
        report: Box::new(report),
        failing: Vec::new(),
    };
    let run = move || {
        runtime.block_on(posts.run(waiting, drain));
        // The end of the program may have stopped waiting.
        let _told = ends.send(());
    };
    std::thread::Builder::new().name("kew-otlp".into()).spawn(run)?;
    Ok(exporter)
}

impl Exporter {
    /// Counts what was given up.
    pub fn dropped(&self) -> &Arc<Dropped> {
        &self.dropped
    }

    /// Whether spans are exported.
    pub fn has_traces(&self) -> bool {
        self.has_traces
    }

    /// Exports these metrics from now on: the text of `/metrics`.
    pub fn export_metrics(
        &self,
        figures: impl Fn() -> Pin<Box<dyn Future<Output = String> + Send>> + Send + Sync + 'static,
    ) {
        *self.figures.lock() = Some((Arc::new(figures), machine::system_now()));
    }

    /// Exports this text from now on: the last figures of a server whose store is being closed.
    pub fn export_last(&self, text: String) {
        if let Some((figures, _)) = &mut *self.figures.lock() {
            *figures = Arc::new(move || Box::pin(std::future::ready(text.clone())));
        }
    }

    /// Whether metrics are exported.
    pub fn has_metrics(&self) -> bool {
        self.has_metrics
    }

    /// Exports a line of the log.
    pub fn record(&self, record: Record) {
        if self.has_logs {
            self.put(Item::Record(Box::new(record)));
        }
    }

    /// Exports a batch that was brought to a push consumer, if it is recorded.
    pub fn brought(&self, attempt: &Attempt) {
        if self.has_traces
            && let Some(span) = of_attempt(attempt)
        {
            self.put(Item::Span(Box::new(span)));
        }
    }

    fn put(&self, item: Item) {
        if let Err(error) = self.items.try_send(item) {
            self.dropped.add(error.into_inner().droppable(), 1);
        }
    }

    /// Posts what waits, and ends: within a moment, whatever the collector does.
    pub fn stop(&self) {
        self.drain.close();
        // Late or gone, the program ends.
        let _ended = self.ended.lock().recv_timeout(END_WITHIN);
    }
}

/// Takes requests that ended, for their spans.
#[derive(Clone, Copy, Debug)]
pub struct Spans(pub &'static Exporter);

impl Witness for Spans {
    fn note(&self, exchange: Exchange) {
        let is_sampled = exchange.subject.trace.is_none_or(|trace| trace.is_sampled);
        // What probes and scrapers ask says nothing of anybody's messages.
        let is_probe = matches!(exchange.subject.operation, Some("Livez" | "Readyz" | "Metrics" | "Page"));
        if self.0.has_traces && is_sampled && !is_probe {
            self.0.put(Item::Request(Box::new(exchange)));
        }
    }
}

/// The thread's own.
struct Posts {
    client: Client,
    settings: TelemetrySettings,
    resource: Json,
    entropy: Arc<dyn Entropy>,
    dropped: Arc<Dropped>,
    figures: Arc<Mutex<Option<(Figures, Timestamp)>>>,
    report: Box<dyn Fn(Report<'_>) + Send>,
    /// What the latest post of was not taken.
    failing: Vec<Droppable>,
}

impl Posts {
    async fn run(mut self, mut waiting: Receiver<Item>, drain: Drain) {
        let mut metrics = interval(self.settings.metrics_every);
        metrics.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut spans, mut records) = (Vec::new(), Vec::new());
        let mut due = Instant::now() + GATHER;
        loop {
            let is_over = tokio::select! {
                biased;
                () = drain.closing() => true,
                _ = metrics.tick() => {
                    self.post_metrics().await;
                    false
                }
                () = tokio::time::sleep_until(due) => {
                    self.post(&mut spans, &mut records).await;
                    due = Instant::now() + GATHER;
                    false
                }
                Some(item) = waiting.recv() => {
                    self.gather(item, &mut spans, &mut records);
                    if spans.len() >= POST_MAX || records.len() >= POST_MAX {
                        self.post(&mut spans, &mut records).await;
                    }
                    false
                }
            };
            if is_over {
                break;
            }
        }
        while let Ok(item) = waiting.try_recv() {
            self.gather(item, &mut spans, &mut records);
        }
        let last = async {
            self.post(&mut spans, &mut records).await;
            self.post_metrics().await;
        };
        // What is not taken by then is given up with the program.
        let _in_time = timeout(END_WITHIN, last).await;
    }

    fn gather(&self, item: Item, spans: &mut Vec<Span>, records: &mut Vec<Record>) {
        match item {
            Item::Request(exchange) => spans.push(of_exchange(&exchange, &*self.entropy)),
            Item::Span(span) => spans.push(*span),
            Item::Record(record) => records.push(*record),
        }
    }

    async fn post(&mut self, spans: &mut Vec<Span>, records: &mut Vec<Record>) {
        for some in std::mem::take(spans).chunks(POST_MAX) {
            let (to, body) = (self.settings.traces.clone(), encode::spans(&self.resource, some));
            self.bring(to, &body, (Droppable::Span, some.len())).await;
        }
        for some in std::mem::take(records).chunks(POST_MAX) {
            let (to, body) = (self.settings.logs.clone(), encode::records(&self.resource, some));
            self.bring(to, &body, (Droppable::LogRecord, some.len())).await;
        }
    }

    async fn post_metrics(&mut self) {
        let figures = self.figures.lock().clone();
        let (Some((figures, began)), Some(to)) = (figures, self.settings.metrics.clone()) else { return };
        // A store that hangs must not keep spans and lines from leaving.
        let Ok(text) = timeout(self.settings.within, figures()).await else {
            self.dropped.add(Droppable::MetricsReport, 1);
            return;
        };
        let nanoseconds = |at: Timestamp| u128::from(at.0) * 1_000_000;
        let metrics = figures::metrics(&text, nanoseconds(began), nanoseconds(machine::system_now()));
        let body = encode::metrics(&self.resource, &metrics);
        self.bring(Some(to), &body, (Droppable::MetricsReport, 1)).await;
    }

    /// Posts once, and once more after a pause if that may help. What is not taken then is given up.
    async fn bring(&mut self, to: Option<Uri>, body: &Json, (what, count): (Droppable, usize)) {
        let Some(to) = to else { return };
        let body = Bytes::from(body.to_string());
        let mut ended = self.try_once(&to, &body).await;
        if matches!(ended, Err((true, _))) {
            sleep(PAUSE).await;
            ended = self.try_once(&to, &body).await;
        }
        let failed = self.failing.contains(&what);
        match ended {
            Ok(()) if failed => {
                self.failing.retain(|other| *other != what);
                (self.report)(Report::Recovered { what: what.name() });
            }
            Ok(()) => {}
            Err((_, why)) => {
                self.dropped.add(what, count as u64);
                if !failed {
                    self.failing.push(what);
                    let host = to.host().unwrap_or_default();
                    (self.report)(Report::Fails { what: what.name(), host, cause: &why });
                }
            }
        }
    }

    /// Why it failed, and whether the same may succeed later.
    async fn try_once(&self, to: &Uri, body: &Bytes) -> Result<(), (bool, String)> {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.extend(self.settings.headers.iter().cloned());
        let outgoing = Outgoing { method: Method::POST, uri: to.clone(), headers, body: body.clone() };
        let answer = self.client.exchange(outgoing, self.settings.within).await;
        let answer = answer.map_err(|error| (true, error.to_string()))?;
        if answer.status.is_success() {
            return Ok(());
        }
        let may_succeed = matches!(answer.status.as_u16(), 429 | 502..=504);
        Err((may_succeed, format!("it answered {}", answer.status)))
    }
}

/// The span of a request: in the trace that it, or the message it sends, names, or in a new one.
fn of_exchange(exchange: &Exchange, entropy: &dyn Entropy) -> Span {
    let subject = &exchange.subject;
    let trace = subject.trace.map_or_else(|| entropy.wide_bits().max(1), |context| context.trace);
    let operation = subject.operation.unwrap_or("unknown");
    let name = match &subject.queue {
        Some(queue) => format!("{operation} {queue}"),
        None => operation.to_owned(),
    };
    let mut attributes = vec![
        ("kew.dialect", Value::Text(subject.dialect.to_owned())),
        ("kew.operation", Value::Text(operation.to_owned())),
        ("kew.request_id", Value::Text(exchange.id.to_string())),
        ("client.address", Value::Text(exchange.client.to_string())),
        ("http.request.body.size", Value::Number(exchange.bytes_in)),
        ("http.response.body.size", Value::Number(exchange.bytes_out)),
    ];
    if let Some(queue) = &subject.queue {
        attributes.push(("messaging.system", Value::Text("kew".to_owned())));
        attributes.push(("messaging.destination.name", Value::Text(queue.to_string())));
    }
    if let Some(status) = exchange.status {
        attributes.push(("http.response.status_code", Value::Number(status.into())));
    }
    if let Some(error) = &subject.error {
        attributes.push(("error.type", Value::Text(error.to_string())));
    }
    let failure = match exchange.status {
        None => Some("its client went away".to_owned()),
        // A refusal is the client's failure; the span of a server fails by the server's own.
        Some(status) => (status >= 500).then(|| subject.error.as_deref().unwrap_or("a failure").to_owned()),
    };
    Span {
        own: TraceContext { trace, span: entropy.bits().max(1), is_sampled: true },
        parent: subject.trace.map(|context| context.span),
        links: Vec::new(),
        name,
        kind: Kind::Server,
        began: exchange.at,
        took: exchange.took,
        failure,
        attributes,
    }
}

/// The span of a batch that was brought, unless its trace is not recorded.
fn of_attempt(attempt: &Attempt) -> Option<Span> {
    let trace = attempt.trace.as_ref().filter(|trace| trace.own.is_sampled)?;
    let took = attempt.took;
    // By the machine's clock: the attempt itself is dated in engine time.
    let began =
        Timestamp(machine::system_now().0.saturating_sub(u64::try_from(took.as_millis()).unwrap_or(0)));
    let failure = (attempt.ending != Ending::Returned)
        .then(|| attempt.error.clone().unwrap_or_else(|| "it failed".to_owned()));
    let mut attributes = vec![
        ("messaging.system", Value::Text("kew".to_owned())),
        ("messaging.destination.name", Value::Text(attempt.queue.name.to_string())),
        ("messaging.batch.message_count", Value::Number(attempt.messages.into())),
        ("kew.acked", Value::Number(attempt.acked.into())),
        ("kew.batch", Value::Text(attempt.batch.clone())),
        ("kew.target", Value::Text(attempt.target.clone())),
    ];
    if let Some(status) = attempt.status {
        attributes.push(("http.response.status_code", Value::Number(status.into())));
    }
    Some(Span {
        own: trace.own,
        parent: trace.parent,
        links: trace.links.clone(),
        name: format!("deliver {}", attempt.queue.name),
        kind: Kind::Client,
        began,
        took,
        failure,
        attributes,
    })
}
