//! One queue in several dialects, as their clients see it over the wire of one server.

use super::program::{self, Kew, data_directory};
use super::{body, member};

const ACCOUNT: &str = "/devstoreaccount1";

fn azure(kew: &Kew, method: &str, path: &str, body: &str) -> (u16, String) {
    let address = kew.ports["azure"].as_str().unwrap_or_default();
    program::http(address, method, &format!("{ACCOUNT}{path}"), &[], body)
}

/// The text of the first element of this name.
fn element(xml: &str, name: &str) -> String {
    let rest = xml.split(&format!("<{name}>")).nth(1).unwrap_or_else(|| panic!("no {name} in {xml}"));
    rest.split('<').next().unwrap_or_default().to_owned()
}

#[test]
fn a_queue_made_in_one_dialect_is_used_in_the_other() {
    let directory = data_directory();
    let kew = Kew::start(directory.path());
    body(&kew, "CreateQueue", r#"{"QueueName":"orders"}"#);
    body(&kew, "SendMessage", r#"{"QueueUrl":"orders","MessageBody":"hello <you>"}"#);
    assert!(azure(&kew, "GET", "?comp=list", "").1.contains("<Name>orders</Name>"));
    let (status, got) = azure(&kew, "GET", "/orders/messages?visibilitytimeout=60", "");
    assert_eq!((status, element(&got, "MessageText").as_str()), (200, "hello &lt;you&gt;"));
    let receipt = element(&got, "PopReceipt").replace('+', "%2B").replace('/', "%2F").replace('=', "%3D");
    let id = element(&got, "MessageId");
    let path = format!("/orders/messages/{id}?popreceipt={receipt}&visibilitytimeout=0");
    assert_eq!(azure(&kew, "PUT", &path, "").0, 204, "it is given back");
    let again =
        body(&kew, "ReceiveMessage", r#"{"QueueUrl":"orders","AttributeNames":["ApproximateReceiveCount"]}"#);
    assert!(again.contains(r#""ApproximateReceiveCount":"2""#), "{again}");
    let handle = member(&again, "ReceiptHandle");
    body(&kew, "DeleteMessage", &format!(r#"{{"QueueUrl":"orders","ReceiptHandle":"{handle}"}}"#));
    assert!(!azure(&kew, "GET", "/orders/messages", "").1.contains("MessageText"));
}

#[test]
fn what_azure_acknowledged_survives_a_kill() {
    let directory = data_directory();
    let mut kew = Kew::start(directory.path());
    assert_eq!(azure(&kew, "PUT", "/orders", "").0, 201);
    let message = |text| format!("<QueueMessage><MessageText>{text}</MessageText></QueueMessage>");
    for text in ["kept", "deleted"] {
        assert_eq!(azure(&kew, "POST", "/orders/messages", &message(text)).0, 201);
    }
    let (_, got) = azure(&kew, "GET", "/orders/messages?numofmessages=2&visibilitytimeout=600", "");
    let of_deleted = got.split("<QueueMessage>").nth(2).expect("the reply has two messages").to_owned();
    let receipt =
        element(&of_deleted, "PopReceipt").replace('+', "%2B").replace('/', "%2F").replace('=', "%3D");
    let path = format!("/orders/messages/{}?popreceipt={receipt}", element(&of_deleted, "MessageId"));
    assert_eq!(azure(&kew, "DELETE", &path, "").0, 204);
    kew.kill();
    let kew = Kew::start(directory.path());
    assert!(!azure(&kew, "GET", "/orders/messages", "").1.contains("MessageText"), "it is still hidden");
    let receipt = element(&got, "PopReceipt").replace('+', "%2B").replace('/', "%2F").replace('=', "%3D");
    let path =
        format!("/orders/messages/{}?popreceipt={receipt}&visibilitytimeout=0", element(&got, "MessageId"));
    assert_eq!(azure(&kew, "PUT", &path, "").0, 204, "its receipt holds across the restart");
    let (_, again) = azure(&kew, "GET", "/orders/messages?numofmessages=32", "");
    assert_eq!(element(&again, "MessageText"), "kept");
    assert!(!again.contains("deleted"));
}

const CLOUDFLARE: &str = "/client/v4/accounts/0/queues";

fn cloudflare(address: &str, method: &str, path: &str, body: &str) -> serde_json::Value {
    let (status, text) = program::http(address, method, &format!("{CLOUDFLARE}{path}"), &[], body);
    assert_eq!(status, 200, "{text}");
    serde_json::from_str::<serde_json::Value>(&text).expect("the reply is JSON")["result"].clone()
}

#[test]
fn one_queue_is_sent_to_received_from_and_settled_in_three_dialects() {
    let directory = data_directory();
    let mut kew = Kew::start(directory.path());
    assert_eq!(azure(&kew, "PUT", "/orders", "").0, 201);
    let address = |kew: &Kew| kew.ports["cloudflare"].as_str().unwrap_or_default().to_owned();
    let at = address(&kew);
    let listed = cloudflare(&at, "GET", "?name=orders", "");
    let queue = format!("/{}", listed[0]["queue_id"].as_str().expect("the queue is listed"));
    cloudflare(&at, "POST", &format!("{queue}/consumers"), r#"{"type":"http_pull"}"#);
    let message = "<QueueMessage><MessageText>from azure</MessageText></QueueMessage>";
    assert_eq!(azure(&kew, "POST", "/orders/messages", message).0, 201);
    body(&kew, "SendMessage", r#"{"QueueUrl":"orders","MessageBody":"from sqs"}"#);
    cloudflare(&at, "POST", &format!("{queue}/messages"), r#"{"body":{"from":"cloudflare"}}"#);
    let pull = |at: &str| cloudflare(at, "POST", &format!("{queue}/messages/pull"), r#"{"batch_size":10}"#);
    let pulled = pull(&at);
    let text =
        |place: usize, name: &str| pulled["messages"][place][name].as_str().unwrap_or_default().to_owned();
    assert_eq!((text(0, "body"), text(1, "body")), ("from azure".to_owned(), "from sqs".to_owned()));
    // What one dialect leased, the others settle: SQS deletes the first, Azure the second after a kill.
    let handle = format!(r#"{{"QueueUrl":"orders","ReceiptHandle":"{}"}}"#, text(0, "lease_id"));
    body(&kew, "DeleteMessage", &handle);
    kew.kill();
    let kew = Kew::start(directory.path());
    let id = text(1, "id");
    let parts = [(0, 8), (8, 12), (12, 16), (16, 20), (20, 32)].map(|(from, to)| id[from..to].to_owned());
    let receipt = text(1, "lease_id").replace('+', "%2B").replace('/', "%2F").replace('=', "%3D");
    let path = format!("/orders/messages/{}?popreceipt={receipt}", parts.join("-"));
    assert_eq!(azure(&kew, "DELETE", &path, "").0, 204);
    // Given up here, the third is received there as its JSON text, for the second time.
    let retry = format!(r#"{{"retries":[{{"lease_id":"{}"}}]}}"#, text(2, "lease_id"));
    let settled = cloudflare(&address(&kew), "POST", &format!("{queue}/messages/ack"), &retry);
    assert_eq!(settled["retryCount"], 1, "{settled}");
    let all =
        r#"{"QueueUrl":"orders","MaxNumberOfMessages":10,"AttributeNames":["ApproximateReceiveCount"]}"#;
    let received = body(&kew, "ReceiveMessage", all);
    assert!(received.contains(r#""ApproximateReceiveCount":"2""#), "{received}");
    assert!(received.contains(r#"{\"from\":\"cloudflare\"}"#), "{received}");
    let handle = member(&received, "ReceiptHandle");
    let acks = format!(r#"{{"acks":[{{"lease_id":"{handle}"}}]}}"#);
    let settled = cloudflare(&address(&kew), "POST", &format!("{queue}/messages/ack"), &acks);
    assert_eq!(settled["ackCount"], 1, "{settled}");
    let metrics = cloudflare(&address(&kew), "GET", &format!("{queue}/metrics"), "");
    assert_eq!(metrics["backlog_count"], 0);
}

#[test]
fn one_address_serves_all_dialects_distinguished_by_request() {
    let directory = data_directory();
    let kew = Kew::start_with(directory.path(), &["--store", "memory", "--also", "127.0.0.1:0"]);
    let also = kew.ports["also"][0].as_str().unwrap_or_default().to_owned();
    let made = program::http(&also, "PUT", &format!("{ACCOUNT}/orders"), &[], "");
    assert_eq!(made.0, 201, "{}", made.1);
    let target = [("X-Amz-Target", "AmazonSQS.GetQueueUrl")];
    let (status, found) = program::http(&also, "POST", "/", &target, r#"{"QueueName":"orders"}"#);
    assert_eq!(status, 200, "{found}");
    assert_eq!(cloudflare(&also, "GET", "?name=orders", "")[0]["queue_name"], "orders");
    let binding = [("X-Kew-Queue", "orders"), ("X-Msg-Fmt", "text")];
    let (status, sent) = program::http(&also, "POST", "/message", &binding, "from a Worker");
    assert!(status == 200 && sent.contains(r#""backlogCount":1"#), "{sent}");
}
