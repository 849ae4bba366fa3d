//! `--also`: one address for all dialects.

use super::program::{Kew, data_directory, http};

#[test]
fn one_more_address_serves_sqs_and_tells_what_it_does_not_know() {
    let directory = data_directory();
    let flags = ["--store", "memory", "--also", "127.0.0.1:0", "--also", "127.0.0.1:0"];
    let mut kew = Kew::start_with(directory.path(), &flags);
    let also: Vec<String> = kew.ports["also"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|port| port.as_str())
        .map(str::to_owned)
        .collect();
    assert_eq!(also.len(), 2, "{}", kew.ports);
    let target = [("X-Amz-Target", "AmazonSQS.CreateQueue")];
    let (status, body) = http(&also[0], "POST", "/", &target, r#"{"QueueName":"orders"}"#);
    assert_eq!(status, 200, "{body}");
    let (status, _) = kew.ask("GetQueueUrl", r#"{"QueueName":"orders"}"#);
    assert_eq!(status, 200, "both addresses show the same queues");
    let (status, text) = http(&also[1], "GET", "/nowhere", &[], "");
    assert_eq!(status, 404);
    for title in ["Amazon SQS", "Azure Queue Storage", "Cloudflare Queues"] {
        assert!(text.contains(title), "{text}");
    }
    assert!(kew.greeting().contains(&also[0]));
}

#[test]
fn it_may_be_the_only_address() {
    let directory = data_directory();
    let mut flags = vec!["--store", "memory", "--also", "127.0.0.1:0"];
    for listener in ["--sqs", "--azure", "--cloudflare", "--admin"] {
        flags.extend([listener, "off"]);
    }
    let mut kew = Kew::start_with(directory.path(), &flags);
    assert_eq!(kew.ports.as_object().map(serde_json::Map::len), Some(1), "{}", kew.ports);
    let also = kew.ports["also"][0].as_str().unwrap_or_default().to_owned();
    assert!(kew.greeting().contains(&format!("curl http://{also} ")), "a first command is shown");
}

/// A server whose address for all dialects is given with it.
fn with_also(flags: &[&str]) -> (tempfile::TempDir, Kew, String) {
    let directory = data_directory();
    let kew =
        Kew::start_with(directory.path(), &[&["--store", "memory", "--also", "127.0.0.1:0"], flags].concat());
    let also = kew.ports["also"][0].as_str().expect("the listener is on").to_owned();
    (directory, kew, also)
}

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

// LocalStack's documentation, "Simple Queue Service (SQS)", section "Developer endpoints": by QueueUrl or by path, in
// XML, in JSON with `Accept: application/json`, or as the endpoint of a client that asks ReceiveMessage; nothing is
// consumed.
#[test]
fn messages_are_shown_at_the_emulators_developer_endpoint_and_stay_where_they_are() {
    let (_directory, kew, also) = with_also(&[]);
    assert_eq!(kew.ask("CreateQueue", r#"{"QueueName":"orders"}"#).0, 200);
    let send = |further: &str| {
        let body = format!(r#"{{"QueueUrl":"orders"{further}}}"#);
        assert_eq!(kew.ask("SendMessage", &body).0, 200, "{body}");
    };
    send(r#","MessageBody":"leased""#);
    assert_eq!(kew.ask("ReceiveMessage", r#"{"QueueUrl":"orders"}"#).0, 200);
    send(r#","MessageBody":"hello","MessageAttributes":{"k":{"DataType":"String","StringValue":"v"}}"#);
    send(r#","MessageBody":"delayed","DelaySeconds":900"#);
    let accept = [("Accept", "application/json")];
    let url =
        format!("/_aws/sqs/messages?QueueUrl=http://sqs.us-east-1.localhost:{}/000000000000/orders", 4566);
    for _ in 0..2 {
        let (status, shown) = http(&also, "GET", &url, &accept, "");
        assert_eq!(status, 200, "{shown}");
        let shown = json(&shown);
        let messages = &shown["ReceiveMessageResponse"]["ReceiveMessageResult"]["Message"];
        assert_eq!(messages.as_array().map(Vec::len), Some(1), "{shown}");
        let message = &messages[0];
        assert_eq!(
            (&message["Body"], &message["ReceiptHandle"]),
            (&"hello".into(), &"SQS/BACKDOOR/ACCESS".into())
        );
        assert_eq!(message["MD5OfBody"], "5d41402abc4b2a76b9719d911017c592");
        assert_eq!(message["MessageAttribute"][0]["Name"], "k");
        let count = serde_json::json!({"Name": "ApproximateReceiveCount", "Value": "0"});
        assert!(message["Attribute"].as_array().is_some_and(|all| all.contains(&count)), "{message}");
        assert!(shown["ReceiveMessageResponse"]["ResponseMetadata"]["RequestId"].is_string());
    }
    let (status, xml) = http(&also, "GET", "/_aws/sqs/messages/us-east-1/000000000000/orders", &[], "");
    assert!(
        status == 200 && xml.contains("<Message><MessageId>") && xml.contains("<Body>hello</Body>"),
        "{xml}"
    );
    let target = [("X-Amz-Target", "AmazonSQS.ReceiveMessage")];
    let (_, of_client) = http(&also, "POST", "/_aws/sqs/messages", &target, r#"{"QueueUrl":"orders"}"#);
    assert_eq!(json(&of_client)["Messages"][0]["Body"], "hello", "{of_client}");
    for (also_shown, bodies) in [
        ("&ShowInvisible=true", &["leased", "hello"][..]),
        ("&ShowDelayed=true", &["hello", "delayed"]),
        ("&ShowInvisible=True&ShowDelayed=True", &["leased", "hello", "delayed"]),
    ] {
        let (_, shown) = http(&also, "GET", &format!("{url}{also_shown}"), &accept, "");
        let shown = json(&shown);
        let messages = shown["ReceiveMessageResponse"]["ReceiveMessageResult"]["Message"].as_array();
        let messages = messages.expect("the reply has a list");
        let found: Vec<&str> = messages.iter().filter_map(|message| message["Body"].as_str()).collect();
        assert_eq!(found, bodies);
        let state = |name: &str, value: &str| serde_json::json!({"Name": name, "Value": value});
        let is = |place: usize, name: &str, value: &str| {
            messages[place]["Attribute"].as_array().is_some_and(|all| all.contains(&state(name, value)))
        };
        assert_eq!(is(0, "IsVisible", "false"), bodies[0] == "leased", "{shown}");
        assert_eq!(
            is(bodies.len() - 1, "IsDelayed", "true"),
            bodies[bodies.len() - 1] == "delayed",
            "{shown}"
        );
    }
    let (status, refused) = http(&also, "GET", "/_aws/sqs/messages?QueueUrl=missing", &[], "");
    assert!(status == 400 && refused.contains("NonExistentQueue"), "{status} {refused}");
    assert!(kew.ask("ReceiveMessage", r#"{"QueueUrl":"orders"}"#).1.contains(r#""Body":"hello""#));
}

#[test]
fn in_strict_mode_the_developer_endpoint_shows_nothing_to_who_does_not_sign() {
    let directory = data_directory();
    let mut command = super::program::command();
    command.env("KEW_ADMIN_TOKEN", "hush");
    let flags = ["--store", "memory", "--also", "127.0.0.1:0", "--auth", "strict"];
    let kew = Kew::start_by(command, directory.path(), &flags);
    let also = kew.ports["also"][0].as_str().expect("the listener is on").to_owned();
    let (status, refused) = http(&also, "GET", "/_aws/sqs/messages/us-east-1/000000000000/orders", &[], "");
    assert!(status == 403 && refused.contains("MissingAuthenticationToken"), "{status} {refused}");
}

// LocalStack's documentation, "Internal endpoints": `/_localstack/health` tells services by name, edition and version.
#[test]
fn tools_that_ask_an_emulator_for_its_health_are_answered() {
    let (_directory, kew, also) = with_also(&[]);
    let (status, health) = http(&also, "GET", "/_localstack/health", &[], "");
    assert_eq!(status, 200);
    let health = json(&health);
    assert_eq!(health["services"], serde_json::json!({"sqs": "running"}));
    assert!(health["edition"].is_string() && health["version"].is_string(), "{health}");
    assert_ne!(http(&kew.sqs, "GET", "/_localstack/health", &[], "").0, 200, "only where all dialects are");
}

#[test]
fn addresses_of_ipv6_are_served_and_shown_in_brackets() {
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        eprintln!("SKIPPED: this machine has no IPv6");
        return;
    }
    for style in ["path", "standard"] {
        let directory = data_directory();
        let mut command = super::program::command();
        command.env("KEW_SQS", "[::1]:0").env("KEW_SQS_URL_STYLE", style);
        let flags = ["--store", "memory", "--also", "[::1]:0"];
        let mut kew = Kew::start_by(command, directory.path(), &flags);
        assert!(kew.sqs.starts_with("[::1]:"), "{}", kew.ports);
        let also = kew.ports["also"][0].as_str().expect("the listener is on").to_owned();
        let greeting = kew.greeting();
        for address in [&kew.sqs, &also] {
            assert!(greeting.contains(&format!("http://{address} ")), "{greeting}");
        }
        let headers = [("X-Amz-Target", "AmazonSQS.CreateQueue"), ("Host", &*also)];
        let (status, made) = http(&also, "POST", "/", &headers, r#"{"QueueName":"orders"}"#);
        assert_eq!(status, 200, "{made}");
        // No name can be put before an address in brackets, so both styles show the address itself.
        assert_eq!(json(&made)["QueueUrl"], format!("http://{also}/000000000000/orders"));
        assert!(greeting.contains(&format!("curl http://{}", kew.sqs)), "a first command works: {greeting}");
    }
}

// docs/dialects/sqs.md: web apps of `[sqs] cors_origins` may ask at `--sqs`, and nowhere else.
#[test]
fn replies_name_no_origin_where_all_dialects_are_served() {
    let directory = data_directory();
    let file = directory.path().join("kew.toml");
    let text = "[sqs]\ncors_origins = [\"http://localhost:3000\"]\n[admin]\ntoken = \"hush\"\n";
    std::fs::write(&file, text).expect("the test can write to its own directory");
    let config = file.to_str().expect("the path of a temporary directory is UTF-8");
    let flags = ["--store", "memory", "--also", "127.0.0.1:0", "--auth", "strict", "--config", config];
    let kew = Kew::start_with(directory.path(), &flags);
    let also = kew.ports["also"][0].as_str().expect("the listener is on").to_owned();
    let headers = [("Origin", "http://localhost:3000"), ("X-Amz-Target", "AmazonSQS.ListQueues")];
    for (address, is_named) in [(&kew.sqs, true), (&also, false)] {
        let reply = super::program::whole(address, "POST", "/", &headers, "{}");
        assert_eq!(reply.to_ascii_lowercase().contains("access-control-"), is_named, "{address}: {reply}");
    }
}
