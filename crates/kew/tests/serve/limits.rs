//! Bounds that hold whichever dialect is spoken, and what each says at them.

use super::program::{self, Kew, command, data_directory, http};

const JSON: (&str, &str) = ("Content-Type", "application/json");

/// Makes a queue by each dialect; status and body.
fn sqs(kew: &Kew, region: &str, name: &str) -> (u16, String) {
    let credential = format!(
        "AWS4-HMAC-SHA256 Credential=k/20260101/{region}/sqs/aws4_request, SignedHeaders=host, Signature=0"
    );
    let headers = [("X-Amz-Target", "AmazonSQS.CreateQueue"), ("Authorization", credential.as_str())];
    http(&kew.sqs, "POST", "/", &headers, &format!(r#"{{"QueueName":"{name}"}}"#))
}

fn azure(kew: &Kew, name: &str) -> (u16, String) {
    let address = kew.ports["azure"].as_str().expect("the listener is on");
    http(address, "PUT", &format!("/devstoreaccount1/{name}"), &[("x-ms-version", "2025-01-05")], "")
}

fn cloudflare(kew: &Kew, name: &str) -> (u16, String) {
    let address = kew.ports["cloudflare"].as_str().expect("the listener is on");
    let body = format!(r#"{{"queue_name":"{name}"}}"#);
    http(address, "POST", "/client/v4/accounts/0/queues", &[JSON], &body)
}

#[test]
fn an_account_has_a_maximum_of_queues_over_all_dialects() {
    let directory = data_directory();
    let data = directory.path().join("data").to_string_lossy().into_owned();
    let mut few = command();
    few.env("KEW_LIMITS_QUEUES_MAX", "3");
    let mut kew = Kew::start_by(few, directory.path(), &["--store", &data]);
    assert_eq!(sqs(&kew, "us-east-1", "one").0, 200);
    assert_eq!(azure(&kew, "two-two").0, 201);
    assert_eq!(cloudflare(&kew, "three").0, 200);
    let refused = |kew: &Kew| {
        for region in ["us-east-1", "a-region-of-my-own"] {
            let (status, body) = sqs(kew, region, "more");
            assert!(
                status == 403 && body.contains("OverLimit") && body.contains("queues_max"),
                "{status} {body}"
            );
        }
        let (status, body) = azure(kew, "more");
        assert!(
            status == 503 && body.contains("ServerBusy") && body.contains("queues_max"),
            "{status} {body}"
        );
        let (status, body) = cloudflare(kew, "more");
        assert!(status == 429 && body.contains("10250") && body.contains("queues_max"), "{status} {body}");
    };
    refused(&kew);
    // What is there already is found, not made.
    assert_eq!(sqs(&kew, "us-east-1", "one").0, 200);
    assert_eq!(azure(&kew, "two-two").0, 204);
    kew.kill();
    let mut few = command();
    few.env("KEW_LIMITS_QUEUES_MAX", "3");
    refused(&Kew::start_by(few, directory.path(), &["--store", &data]));
}

// The service's quota: 120,000 in flight per standard queue; SQS alone has that one here (docs/operating.md).
#[test]
fn messages_in_flight_are_limited_by_each_dialects_own_setting() {
    let directory = data_directory();
    let mut few = command();
    few.env("KEW_LIMITS_IN_FLIGHT_MAX", "1").env("KEW_SQS_STANDARD_IN_FLIGHT_LIMIT", "3");
    let kew = Kew::start_by(few, directory.path(), &["--store", "memory"]);
    assert_eq!(sqs(&kew, "us-east-1", "orders").0, 200);
    for _ in 0..4 {
        assert_eq!(kew.ask("SendMessage", r#"{"QueueUrl":"orders","MessageBody":"m"}"#).0, 200);
    }
    let receive = || kew.ask("ReceiveMessage", r#"{"QueueUrl":"orders"}"#);
    let of_azure = || {
        let address = kew.ports["azure"].as_str().expect("the listener is on");
        http(address, "GET", "/devstoreaccount1/orders/messages", &[("x-ms-version", "2025-01-05")], "")
    };
    let of_cloudflare = || {
        let address = kew.ports["cloudflare"].as_str().expect("the listener is on");
        let queues = "/client/v4/accounts/0/queues";
        let (_, listed) = http(address, "GET", queues, &[], "");
        let id = super::member(&listed, "queue_id");
        http(address, "POST", &format!("{queues}/{id}/messages/pull"), &[JSON], "{}")
    };
    assert!(receive().1.contains("MessageId"));
    let limited = |kew: &Kew| {
        let (_, text) = kew.admin("GET", "/metrics", &[], "");
        assert!(text.contains(r#"queue="orders"} 1"#), "{text}");
        let line = text.lines().find_map(|line| line.strip_prefix("kew_limited_receives_total "));
        line.and_then(|value| value.parse::<u64>().ok())
    };
    assert_eq!(limited(&kew), Some(0));
    let (status, found) = of_azure();
    assert!(status == 200 && !found.contains("MessageId"), "{status} {found}");
    assert_eq!(limited(&kew), Some(1));
    let (_, found) = of_cloudflare();
    assert!(!found.contains("lease_id"), "{found}");
    for _ in 0..2 {
        let (status, found) = receive();
        assert!(status == 200 && found.contains("MessageId"), "{status} {found}");
    }
    let (status, refused) = receive();
    assert!(status == 403 && refused.contains("OverLimit"), "{status} {refused}");
}

#[test]
fn a_server_that_may_open_too_few_files_names_the_number_and_does_not_start() {
    let mut few = program::command_with_files(95);
    let output = few.args(["--store", "memory"]).output().expect("the program kew is built with its tests");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("at most 95 files may be open, and this server needs 96"), "{errors}");
}

#[test]
fn the_fewest_files_are_enough_under_more_connections_than_there_is_room_for() {
    let directory = data_directory();
    let data = directory.path().join("data").to_string_lossy().into_owned();
    let kew = Kew::start_by(program::command_with_files(96), directory.path(), &["--store", &data]);
    assert!(kew.errors().contains("few files may be open"), "{}", kew.errors());
    assert_eq!(sqs(&kew, "us-east-1", "orders").0, 200);
    let addresses = ["azure", "admin"].map(|name| kew.ports[name].as_str().expect("the listener is on"));
    let crowd: Vec<_> = addresses
        .iter()
        .flat_map(|address| std::iter::repeat_n(*address, 100))
        .map(|address| std::net::TcpStream::connect(address).expect("the backlog has room"))
        .collect();
    std::thread::sleep(std::time::Duration::from_millis(200));
    drop(crowd);
    let begun = std::time::Instant::now();
    // A connection that its client closed leaves its place within a moment.
    while kew.ask("SendMessage", r#"{"QueueUrl":"orders","MessageBody":"m"}"#).0 != 200 {
        assert!(begun.elapsed() < std::time::Duration::from_secs(10), "{}", kew.errors());
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

#[test]
fn connections_that_are_turned_away_are_counted_and_logged_once() {
    let directory = data_directory();
    let mut few = command();
    few.env("KEW_LIMITS_CONNECTIONS_MAX", "2");
    let kew = Kew::start_by(few, directory.path(), &["--store", "memory"]);
    let connect = || std::net::TcpStream::connect(&kew.sqs).expect("the backlog has room");
    let _held = [connect(), connect()];
    let azure = kew.ports["azure"].as_str().expect("the listener is on");
    let begun = std::time::Instant::now();
    let both = "kew_connections{listener=\"sqs\"} 2\n";
    while !kew.admin("GET", "/metrics", &[], "").1.contains(both) {
        assert!(begun.elapsed() < std::time::Duration::from_secs(10), "{}", kew.errors());
    }
    for _ in 0..3 {
        assert_eq!(http(azure, "GET", "/", &[], "").0, 503, "{}", kew.errors());
    }
    let (_, text) = kew.admin("GET", "/metrics", &[], "");
    for expected in [
        both,
        "kew_connections_max{listener=\"sqs\"} 2\n",
        "kew_connections_max{listener=\"admin\"} ",
        "kew_connections_refused_total{listener=\"sqs\"} 0\n",
        "kew_connections_refused_total{listener=\"azure\"} 3\n",
    ] {
        assert!(text.contains(expected), "no {expected} in {text}");
    }
    let errors = kew.errors();
    assert_eq!(errors.matches("connections are turned away").count(), 1, "{errors}");
}

#[test]
fn a_request_that_is_authorized_twice_is_refused_by_every_listener() {
    let directory = data_directory();
    let kew = Kew::start_with(directory.path(), &["--store", "memory"]);
    let address = |name: &str| kew.ports[name].as_str().expect("the listener is on").to_owned();
    let twice =
        [("Authorization", "Bearer a"), ("authorization", "Bearer b"), ("x-ms-version", "2025-01-05")];
    for (listener, path, said) in [
        ("sqs", "/", "IncompleteSignature"),
        ("azure", "/devstoreaccount1?comp=list", "InvalidAuthenticationInfo"),
        ("cloudflare", "/client/v4/accounts/0/queues", "6111"),
        ("admin", "/metrics", "more than one Authorization"),
    ] {
        let (status, body) = http(&address(listener), "GET", path, &twice, "");
        assert!(status == 400 && body.contains(said), "{listener}: {status} {body}");
    }
}

#[test]
fn metrics_are_shown_to_who_has_their_token_or_the_admin_token_where_there_is_one() {
    for (auth, admin_token) in [("open", None), ("strict", Some("everything"))] {
        let directory = data_directory();
        let mut closed = command();
        closed.env("KEW_ADMIN_METRICS_TOKEN", "figures");
        if let Some(token) = admin_token {
            closed.env("KEW_ADMIN_TOKEN", token);
        }
        let kew = Kew::start_by(closed, directory.path(), &["--store", "memory", "--auth", auth]);
        let status = |path: &str, token: &str| {
            let bearer = format!("Bearer {token}");
            kew.admin("GET", path, &[("Authorization", &bearer)], "").0
        };
        assert_eq!(kew.admin("GET", "/metrics", &[], "").0, 401, "{auth}");
        assert_eq!((status("/metrics", "wrong"), status("/metrics", "")), (401, 401), "{auth}");
        assert_eq!(status("/metrics", "figures"), 200, "{auth}");
        let bearer = admin_token.map(|token| format!("Bearer {token}"));
        let proof: Vec<(&str, &str)> =
            bearer.iter().map(|bearer| ("Authorization", bearer.as_str())).collect();
        let noted = kew.admin("GET", "/api/v1/audit", &proof, "").1;
        let entries = noted.matches("(unknown token)").count();
        assert!(
            entries == 1 && noted.contains("\"times\":2"),
            "{auth}: two wrong tokens in a minute: {noted}"
        );
        assert_eq!((status("/livez", "wrong"), kew.admin("GET", "/readyz", &[], "").0), (200, 200), "{auth}");
        if let Some(token) = admin_token {
            assert_eq!(
                (status("/metrics", token), status("/", token), status("/", "figures")),
                (200, 200, 401)
            );
        }
    }
    let (_, shown, _) = program::printed(&["--print-config"], &[("KEW_ADMIN_METRICS_TOKEN", "figures")]);
    assert!(shown.contains("metrics_token") && !shown.contains("figures"), "{shown}");
}
