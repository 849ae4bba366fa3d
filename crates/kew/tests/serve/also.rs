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
    let (status, text) = http(&also[1], "GET", "/", &[], "");
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
