//! The access log of a running server.

use std::io::Write as _;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::program::{self, Kew, data_directory};

const PATIENCE: Duration = Duration::from_secs(20);

/// The lines of the access log, once the server has ended: all are written then.
fn lines(mut kew: Kew) -> Vec<Value> {
    kew.signal("TERM");
    assert_eq!(kew.exit_code(), Some(0), "{}", kew.errors());
    let errors = kew.errors();
    let all = errors.lines().map(|line| serde_json::from_str::<Value>(line).expect("each line is JSON"));
    all.filter(|line| line["area"] == "access").collect()
}

fn start(directory: &std::path::Path, access: &str) -> Kew {
    let mut command = program::command();
    command.env("KEW_LOG_ACCESS", access);
    // No level leaves out what was asked for.
    Kew::start_by(command, directory, &["--store", "memory", "--log", "json", "--log-level", "warn"])
}

fn ask_each_dialect(kew: &Kew) {
    kew.ask("CreateQueue", r#"{"QueueName":"orders"}"#);
    kew.ask("SendMessage", r#"{"QueueUrl":"http://x/000000000000/orders","MessageBody":"secret"}"#);
    kew.ask("GetQueueUrl", r#"{"QueueName":"missing"}"#);
    let form = "Action=SendMessage&QueueUrl=orders&MessageBody=secret";
    let typed = [("Content-Type", "application/x-www-form-urlencoded")];
    program::http(&kew.sqs, "POST", "/", &typed, form);
    let azure = kew.ports["azure"].as_str().expect("Azure is served");
    program::http(azure, "GET", "/devstoreaccount1/absent/messages", &[], "");
    let cloudflare = kew.ports["cloudflare"].as_str().expect("Cloudflare is served");
    program::http(
        cloudflare,
        "GET",
        "/client/v4/accounts/0/queues",
        &[("Authorization", "Bearer secret")],
        "",
    );
    // A Worker sends, and one is visited that is not deployed.
    let binding = [("X-Kew-Queue", "orders"), ("X-Msg-Fmt", "text")];
    program::http(cloudflare, "POST", "/message", &binding, "secret");
    let visited = [("Host", "absent.workers.localhost"), ("X-Api-Key", "secret")];
    program::http(cloudflare, "POST", "/path?token=secret", &visited, "secret");
    kew.admin("GET", "/api/v1/queues/orders", &[], "");
    kew.admin("GET", "/api/v1/queues/absent", &[], "");
    // Refused before any front-end is asked.
    program::http(&kew.sqs, "POST", "/", &[("Host", "evil.example")], "{}");
}

#[test]
fn each_request_of_every_dialect_and_the_admin_api_has_one_line_without_secrets() {
    let directory = data_directory();
    let kew = start(directory.path(), "on");
    ask_each_dialect(&kew);
    let (_, metrics) = kew.admin("GET", "/metrics", &[], "");
    assert!(metrics.contains("kew_dropped_total{what=\"access_line\"} 0\n"), "{metrics}");
    let lines = lines(kew);
    let told: Vec<String> = lines
        .iter()
        .map(|line| {
            let text = |name: &str| line[name].as_str().unwrap_or("-").to_owned();
            let status = &line["status"];
            format!("{} {} {} {status} {}", text("dialect"), text("operation"), text("queue"), text("error"))
        })
        .collect();
    // Each dialect has its own loop or thread, so only the order within one is certain.
    for expected in [
        "sqs CreateQueue orders 200 -",
        "sqs SendMessage orders 200 -",
        "sqs GetQueueUrl missing 400 AWS.SimpleQueueService.NonExistentQueue",
        "azure GetMessages absent 404 QueueNotFound",
        "cloudflare ListQueues - 200 -",
        "admin showQueue orders 200 -",
        "admin showQueue absent 404 queue_not_found",
        "admin Metrics - 200 -",
    ] {
        assert!(told.iter().any(|line| line == expected), "no {expected} in {told:#?}");
    }
    let sends = told.iter().filter(|line| *line == "sqs SendMessage orders 200 -").count();
    assert_eq!(sends, 2, "one for each protocol");
    assert!(told.iter().any(|line| line.starts_with("sqs unknown - 421")), "{told:#?}");
    assert_eq!(lines.len(), 12, "{told:#?}");
    assert!(lines.iter().all(|line| !line.to_string().contains("secret")), "{lines:#?}");
    let send = lines
        .iter()
        .find(|line| line["operation"] == "SendMessage")
        .expect("a SendMessage line was counted above");
    assert!(send["bytes_in"].is_u64() && send["duration_ms"].is_f64() && send["at_ms"].is_u64(), "{send}");
    assert_eq!((&send["client"], send["request_id"].as_str().map(str::len)), (&"127.0.0.1".into(), Some(36)));
}

#[test]
fn a_long_poll_that_its_client_gives_up_is_noted_with_its_operation() {
    let directory = data_directory();
    let kew = start(directory.path(), "on");
    kew.ask("CreateQueue", r#"{"QueueName":"orders"}"#);
    let json = kew.begin("ReceiveMessage", r#"{"QueueUrl":"orders","WaitTimeSeconds":20}"#);
    let form = "Action=ReceiveMessage&QueueUrl=orders&WaitTimeSeconds=20";
    let head = "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded";
    let mut query = TcpStream::connect(&kew.sqs).expect("the server listens");
    let asked = write!(query, "{head}\r\nContent-Length: {}\r\n\r\n{form}", form.len());
    asked.expect("the server takes the request");
    let waiting = || kew.admin("GET", "/metrics", &[], "").1.contains("kew_waiting_receives 2\n");
    let begun = Instant::now();
    while !waiting() {
        assert!(begun.elapsed() < PATIENCE, "both wait");
        std::thread::sleep(Duration::from_millis(10));
    }
    drop((json, query));
    while !kew.admin("GET", "/metrics", &[], "").1.contains("kew_waiting_receives 0\n") {
        assert!(begun.elapsed() < PATIENCE, "both are given up");
        std::thread::sleep(Duration::from_millis(10));
    }
    let lines = lines(kew);
    let given_up = |line: &&Value| line["dialect"] == "sqs" && line["status"].is_null();
    let given_up: Vec<&Value> = lines.iter().filter(given_up).collect();
    assert_eq!(given_up.len(), 2, "{lines:#?}");
    for line in given_up {
        assert_eq!((&line["operation"], &line["queue"]), (&"ReceiveMessage".into(), &"orders".into()));
    }
}

#[test]
fn errors_alone_have_a_line_where_that_is_asked_for_and_nothing_has_by_default() {
    let directory = data_directory();
    let kew = start(directory.path(), "errors");
    ask_each_dialect(&kew);
    assert!(lines(kew).iter().all(|line| line["status"].as_u64() >= Some(400)));
    let kew = start(directory.path(), "off");
    ask_each_dialect(&kew);
    assert_eq!(lines(kew), Vec::<Value>::new());
}

#[test]
fn debug_lines_tell_of_requests_in_the_areas_of_their_dialects_without_secrets() {
    let directory = data_directory();
    let flags =
        ["--store", "memory", "--log-level", "warn,sqs=debug,azure=debug,cloudflare=debug,http=debug"];
    let also = ["--also", "127.0.0.1:0"];
    let mut kew = Kew::start_with(directory.path(), &[&flags[..], &also[..]].concat());
    ask_each_dialect(&kew);
    let also = kew.ports["also"][0].as_str().unwrap_or_default().to_owned();
    program::http(&also, "GET", "/nobodys?token=secret", &[], "secret");
    kew.signal("TERM");
    assert_eq!(kew.exit_code(), Some(0), "{}", kew.errors());
    let errors = kew.errors();
    for expected in [
        "debug [sqs] a request was answered operation=\"SendMessage\" queue=\"orders\" status=200",
        "debug [sqs] a request was refused operation=\"GetQueueUrl\" queue=\"missing\" status=400",
        "debug [azure] a request was refused operation=\"GetMessages\" queue=\"absent\" status=404 error=\"QueueNotFound\"",
        "debug [cloudflare] a request was answered operation=\"ListQueues\" status=200",
        "debug [http] a request was refused operation=\"unknown\" status=404",
    ] {
        assert!(errors.contains(expected), "no {expected} in {errors}");
    }
    assert!(!errors.contains("secret") && !errors.contains("[admin]"), "{errors}");
}
