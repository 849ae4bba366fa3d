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
    let (status, got) = azure(&kew, "GET", "/orders/messages?visibilitytimeout=1", "");
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
    let of_deleted = got.split("<QueueMessage>").nth(2).expect("there are two").to_owned();
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

#[test]
fn one_address_serves_both_told_apart_by_request() {
    let directory = data_directory();
    let kew = Kew::start_with(directory.path(), &["--store", "memory", "--also", "127.0.0.1:0"]);
    let also = kew.ports["also"][0].as_str().unwrap_or_default().to_owned();
    let made = program::http(&also, "PUT", &format!("{ACCOUNT}/orders"), &[], "");
    assert_eq!(made.0, 201, "{}", made.1);
    let target = [("X-Amz-Target", "AmazonSQS.GetQueueUrl")];
    let (status, found) = program::http(&also, "POST", "/", &target, r#"{"QueueName":"orders"}"#);
    assert_eq!(status, 200, "{found}");
}
