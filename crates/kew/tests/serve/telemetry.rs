//! Export to a collector of telemetry, which the test plays itself.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};

use super::program::{self, Kew, data_directory};
use super::push::{self, Hook};

const PATIENCE: Duration = Duration::from_secs(20);
const TRACEPARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// What a collector was posted: the path, the head, and the body.
type Post = (String, String, Value);

/// A collector; it answers each post with this status.
fn collector(status: u16) -> (String, Receiver<Post>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("a bound socket has an address");
    let (posts, received) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let posts = posts.clone();
            std::thread::spawn(move || {
                let mut reader = BufReader::new(stream.expect("the connection is accepted"));
                while let Some(post) = post(&mut reader) {
                    let reply = format!("HTTP/1.1 {status} X\r\nContent-Length: 2\r\n\r\n{{}}");
                    // The server may have gone, and the test with it.
                    if reader.get_mut().write_all(reply.as_bytes()).is_err() || posts.send(post).is_err() {
                        break;
                    }
                }
            });
        }
    });
    (format!("http://{address}"), received)
}

fn post(reader: &mut impl BufRead) -> Option<Post> {
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let begun = head.len();
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
        let line = head[begun..].trim_end().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let path = head.split(' ').nth(1)?.to_owned();
    Some((path, head, serde_json::from_slice(&body).expect("a post is JSON")))
}

fn start(directory: &std::path::Path, endpoint: &str) -> Kew {
    let mut command = program::command();
    command
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
        .env("OTEL_EXPORTER_OTLP_HEADERS", "x-api-key=secret")
        .env("OTEL_METRIC_EXPORT_INTERVAL", "200");
    Kew::start_by(command, directory, &["--store", "memory", "--log-level", "push=debug"])
}

/// The posts until all of these hold of what was posted so far.
fn until(received: &Receiver<Post>, is_enough: impl Fn(&[Post]) -> bool) -> Vec<Post> {
    let (begun, mut posts) = (Instant::now(), Vec::new());
    while !is_enough(&posts) {
        let left = PATIENCE.saturating_sub(begun.elapsed());
        posts.push(received.recv_timeout(left).unwrap_or_else(|_| panic!("too few in {posts:#?}")));
    }
    posts
}

fn spans(posts: &[Post]) -> Vec<Value> {
    let bodies = posts.iter().filter(|(path, ..)| path == "/v1/traces").map(|(.., body)| body);
    let lists = bodies.filter_map(|body| body.pointer("/resourceSpans/0/scopeSpans/0/spans")?.as_array());
    lists.flatten().cloned().collect()
}

fn metrics(posts: &[Post]) -> Vec<Value> {
    let bodies = posts.iter().filter(|(path, ..)| path == "/v1/metrics").map(|(.., body)| body);
    let lists =
        bodies.filter_map(|body| body.pointer("/resourceMetrics/0/scopeMetrics/0/metrics")?.as_array());
    lists.flatten().cloned().collect()
}

fn is_named(span: &Value, name: &str) -> bool {
    span["name"] == name
}

#[test]
fn the_send_of_a_message_and_its_delivery_are_spans_of_one_trace() {
    let directory = data_directory();
    let (endpoint, received) = collector(200);
    let kew = start(directory.path(), &endpoint);
    let hook = Hook::open();
    push::queue(&push::cloudflare(&kew), "orders", &hook, &json!({ "max_wait_time_ms": 0 }));
    let send = json!({
        "QueueUrl": "orders",
        "MessageBody": "a",
        "MessageAttributes": { "traceparent": { "DataType": "String", "StringValue": TRACEPARENT } },
    });
    let (status, reply) = kew.ask("SendMessage", &send.to_string());
    assert_eq!(status, 200, "{reply}");
    hook.until("the message is delivered", |delivered| delivered.len() == 1);
    let posts = until(&received, |posts| {
        let spans = spans(posts);
        let has = |name| spans.iter().any(|span| is_named(span, name));
        let is_counted = |metric: &Value| metric["name"] == "kew_messages_sent_total";
        has("SendMessage orders") && has("deliver orders") && metrics(posts).iter().any(is_counted)
    });
    let spans = spans(&posts);
    let of = |name| spans.iter().find(|span| is_named(span, name)).expect("a span of that name was posted");
    for (name, kind) in [("SendMessage orders", 2), ("deliver orders", 3)] {
        let span = of(name);
        assert_eq!(span["traceId"], "0af7651916cd43dd8448eb211c80319c", "{span}");
        assert_eq!((&span["parentSpanId"], &span["kind"]), (&"b7ad6b7169203331".into(), &kind.into()));
        assert_eq!(span["status"], json!({}));
        let nanoseconds = |name: &str| span[name].as_str().and_then(|text| text.parse::<u128>().ok());
        assert!(nanoseconds("startTimeUnixNano") < nanoseconds("endTimeUnixNano"), "{span}");
    }
    assert_ne!(of("SendMessage orders")["spanId"], of("deliver orders")["spanId"]);
    let (_, head, body) = posts.iter().find(|(path, ..)| path == "/v1/traces").expect("spans were posted");
    assert!(head.contains("x-api-key: secret") && head.contains("content-type: application/json"), "{head}");
    let service = body.pointer("/resourceSpans/0/resource/attributes/0/value/stringValue");
    assert_eq!(service, Some(&"kew".into()));
    assert!(kew.errors().contains("debug [push] a batch was brought to a consumer"), "{}", kew.errors());
}

#[test]
fn a_message_hands_its_trace_to_a_webhook_also_where_nothing_is_exported() {
    let directory = data_directory();
    let hook = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let url = format!("http://{}/", hook.local_addr().expect("a bound socket has an address"));
    let kew = Kew::start_with(directory.path(), &["--store", "memory"]);
    let address = push::cloudflare(&kew);
    let made = push::call(&address, "POST", "", &json!({ "queue_name": "orders" }));
    let consumers = format!("/{}/consumers", made["queue_id"].as_str().expect("a queue has an id"));
    push::call(&address, "POST", &consumers, &json!({ "type": "http_push", "url": url, "settings": {} }));
    let header = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1";
    let trace = json!({ "AWSTraceHeader": { "DataType": "String", "StringValue": header } });
    let send = json!({ "QueueUrl": "orders", "MessageBody": "a", "MessageSystemAttributes": trace });
    assert_eq!(kew.ask("SendMessage", &send.to_string()).0, 200);
    let (stream, _) = hook.accept().expect("the server posts");
    let (_, head, _) = post(&mut BufReader::new(stream)).expect("the batch is whole");
    let expected = "traceparent: 00-5759e988bd862e3fe1be46a994272793-53995c3f42cd8ad8-01";
    assert!(head.to_ascii_lowercase().contains(expected), "{head}");
}

#[test]
fn counters_say_since_when_they_count_and_that_stays_the_same() {
    let directory = data_directory();
    let (endpoint, received) = collector(200);
    let nanoseconds = || SystemTime::UNIX_EPOCH.elapsed().expect("the clock is past 1970").as_nanos();
    let before = nanoseconds();
    let kew = start(directory.path(), &endpoint);
    let after = nanoseconds();
    assert_eq!(kew.ask("CreateQueue", r#"{"QueueName":"orders"}"#).0, 200);
    assert_eq!(kew.ask("SendMessage", r#"{"QueueUrl":"orders","MessageBody":"a"}"#).0, 200);
    let points = |posts: &[Post]| -> Vec<Value> {
        let sent = metrics(posts).into_iter().filter(|metric| metric["name"] == "kew_messages_sent_total");
        sent.filter_map(|metric| metric.pointer("/sum/dataPoints/0").cloned()).collect()
    };
    let posts = until(&received, |posts| points(posts).len() >= 3);
    let times: Vec<(u128, u128)> = points(&posts)
        .iter()
        .map(|point| {
            let time = |name: &str| point[name].as_str().and_then(|text| text.parse().ok());
            time("startTimeUnixNano").zip(time("timeUnixNano")).expect("a point has both times")
        })
        .collect();
    // The server's clock is in milliseconds.
    assert!((before / 1_000_000 * 1_000_000..=after).contains(&times[0].0), "{before} {times:?} {after}");
    assert!(times.iter().all(|(began, at)| *began == times[0].0 && began <= at), "{times:?}");
    assert!(times.is_sorted_by(|one, next| one.1 < next.1), "each is a later look: {times:?}");
}

#[test]
fn the_log_is_exported_and_what_waits_is_posted_at_the_end() {
    let directory = data_directory();
    let (endpoint, received) = collector(200);
    let mut kew = start(directory.path(), &endpoint);
    kew.ask("GetQueueUrl", r#"{"QueueName":"missing"}"#);
    kew.signal("TERM");
    assert_eq!(kew.exit_code(), Some(0), "{}", kew.errors());
    let posts: Vec<Post> = received.try_iter().collect();
    let records = posts.iter().filter(|(path, ..)| path == "/v1/logs").map(|(.., body)| body.to_string());
    let records: String = records.collect();
    assert!(
        records.contains("\"stringValue\":\"stopped\"") && records.contains("\"severityNumber\":9"),
        "{records}"
    );
    let spans = spans(&posts);
    let refused = spans
        .iter()
        .find(|span| is_named(span, "GetQueueUrl missing"))
        .expect("the refused request was posted");
    assert!(refused.to_string().contains("AWS.SimpleQueueService.NonExistentQueue"), "{refused}");
    assert_eq!(refused.get("parentSpanId"), None, "a request that names no trace begins one");
}

#[test]
fn the_last_report_of_metrics_has_every_send_until_the_end() {
    let directory = data_directory();
    let (endpoint, received) = collector(200);
    let mut command = program::command();
    // No report but the first and the last.
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint).env("OTEL_METRIC_EXPORT_INTERVAL", "3600000");
    let data = directory.path().join("data").to_string_lossy().into_owned();
    let mut kew = Kew::start_by(command, directory.path(), &["--store", &data]);
    assert_eq!(kew.ask("CreateQueue", r#"{"QueueName":"orders"}"#).0, 200);
    for _ in 0..7 {
        assert_eq!(kew.ask("SendMessage", r#"{"QueueUrl":"orders","MessageBody":"a"}"#).0, 200);
    }
    kew.signal("TERM");
    assert_eq!(kew.exit_code(), Some(0), "{}", kew.errors());
    let posts: Vec<Post> = received.try_iter().collect();
    let last = posts.iter().rfind(|(path, ..)| path == "/v1/metrics").expect("metrics were posted").clone();
    let last = metrics(&[last]);
    let named = |name: &str| last.iter().find(|metric| metric["name"] == name).cloned();
    let sent = named("kew_messages_sent_total").expect("the store's figures are in the last report");
    assert_eq!(sent.pointer("/sum/dataPoints/0/asDouble"), Some(&json!(7.0)), "{sent}");
    assert!(named("kew_messages").is_some() && named("kew_store_bytes").is_some(), "{last:#?}");
}

#[test]
fn a_collector_that_takes_nothing_is_reported_once_counted_and_delays_nobody() {
    let directory = data_directory();
    let (endpoint, received) = collector(400);
    let kew = start(directory.path(), &endpoint);
    kew.ask("GetQueueUrl", r#"{"QueueName":"missing"}"#);
    until(&received, |posts| !spans(posts).is_empty() && !metrics(posts).is_empty());
    let begun = Instant::now();
    let lost = |metrics: &str| {
        let line = metrics.lines().find_map(|line| line.strip_prefix("kew_dropped_total{what=\"span\"} "));
        line.and_then(|count| count.parse::<u64>().ok()).unwrap_or_default()
    };
    while lost(&kew.admin("GET", "/metrics", &[], "").1) == 0 {
        assert!(begun.elapsed() < PATIENCE, "no span is counted as lost");
        std::thread::sleep(Duration::from_millis(10));
    }
    let reports = |what: &str| {
        let text = format!("they are lost what=\"{what}\"");
        kew.errors().matches(&text).count()
    };
    // The line follows the count.
    while reports("span") == 0 {
        assert!(begun.elapsed() < PATIENCE, "that spans are lost is not said: {}", kew.errors());
        std::thread::sleep(Duration::from_millis(10));
    }
    let counts = ["span", "metrics_report", "log_record"].map(reports);
    assert!(counts.iter().all(|count| *count <= 1), "{}", kew.errors());
    assert!(!kew.errors().contains("secret"), "headers may be secrets");
}
