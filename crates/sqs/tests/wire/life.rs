//! Listing, deleting, purging and tagging queues.

use std::time::Duration;

use kew_core::Policy;
use kew_sqs::Settings;
use serde_json::{Value, json};

use super::server::{Answer, SqsAnswer, SqsServer};

const PURGED: &str = "AWS.SimpleQueueService.PurgeQueueInProgress;Sender";

async fn create(server: &SqsServer, names: &[&str]) {
    for name in names {
        server.call("CreateQueue", json!({"QueueName": name})).await.ok();
    }
}

/// The names in a list of queues, and the token that goes on behind it.
fn listed(answer: &Answer, member: &str) -> (Vec<String>, Option<String>) {
    let json = answer.json();
    let urls = json.get(member).and_then(Value::as_array).cloned().unwrap_or_default();
    let name =
        |url: &Value| url.as_str().and_then(|url| url.rsplit('/').next()).unwrap_or_default().to_owned();
    (urls.iter().map(name).collect(), json["NextToken"].as_str().map(str::to_owned))
}

async fn list(server: &SqsServer, request: Value) -> (Vec<String>, Option<String>) {
    listed(&server.call("ListQueues", request).await, "QueueUrls")
}

// [rec] spec 5.3: ordered by name; no match, no member.
#[tokio::test]
async fn queues_are_listed_by_name_and_prefix() {
    let server = SqsServer::open().await;
    assert_eq!(server.call("ListQueues", json!({})).await.ok(), "{}");
    create(&server, &["b-2", "a", "b-1", "B", "c"]).await;
    assert_eq!(list(&server, json!({})).await.0, ["B", "a", "b-1", "b-2", "c"]);
    assert_eq!(list(&server, json!({"QueueNamePrefix": "b"})).await.0, ["b-1", "b-2"]);
    assert_eq!(list(&server, json!({"QueueNamePrefix": ""})).await.0.len(), 5);
    assert_eq!(server.call("ListQueues", json!({"QueueNamePrefix": "x"})).await.ok(), "{}");
    let form = server.query("Action=ListQueues&QueueNamePrefix=b-&MaxResults=1").await;
    let url = "<ListQueuesResult><QueueUrl>http://kew.test/000000000000/b-1</QueueUrl><NextToken>";
    assert!(form.ok().contains(url), "{}", form.body);
}

// [doc] spec 5.3: NextToken only if MaxResults was given and more exist; pages are stable.
#[tokio::test]
async fn pages_go_on_where_the_last_one_ended() {
    let server = SqsServer::open().await;
    create(&server, &["a", "b", "d", "e"]).await;
    let (first, token) = list(&server, json!({"MaxResults": 2})).await;
    assert_eq!(first, ["a", "b"]);
    // What comes and goes in between moves nothing.
    create(&server, &["aa", "c"]).await;
    server.call("DeleteQueue", json!({"QueueUrl": "b"})).await.ok();
    let (second, token) = list(&server, json!({"MaxResults": 2, "NextToken": token})).await;
    assert_eq!(second, ["c", "d"]);
    let (third, token) = list(&server, json!({"MaxResults": 2, "NextToken": token})).await;
    assert_eq!((third, token), (vec!["e".to_owned()], None));
    let (all, token) = list(&server, json!({"MaxResults": 5})).await;
    assert_eq!((all.len(), token), (5, None), "an exact page is the last one");
    assert_eq!(list(&server, json!({})).await.1, None);
}

#[tokio::test]
async fn a_list_without_a_bound_holds_a_thousand() {
    let server = SqsServer::open().await;
    for number in 0..1_001 {
        server.queue(&format!("q{number:04}"), Policy::standard()).await;
    }
    let (all, token) = list(&server, json!({})).await;
    assert_eq!((all.len(), token), (1_000, None));
    let (page, token) = list(&server, json!({"MaxResults": 1000})).await;
    assert_eq!(page.len(), 1_000);
    assert_eq!(list(&server, json!({"MaxResults": 1000, "NextToken": token})).await.0, ["q1000"]);
}

#[tokio::test]
async fn bad_pages_are_refused() {
    let server = SqsServer::open().await;
    let kind = "com.amazon.coral.service#InvalidParameterValueException";
    for (request, message) in [
        (json!({"NextToken": "garbage"}), "Invalid or expired next token.".to_owned()),
        (json!({"NextToken": "x".repeat(100_000)}), "Invalid or expired next token.".to_owned()),
        (json!({"MaxResults": 0}), bounds(0)),
        (json!({"MaxResults": 1001}), bounds(1_001)),
    ] {
        let answer = server.call("ListQueues", request).await;
        answer.is_error(400, kind, "InvalidParameterValue;Sender", &message);
    }
}

fn bounds(given: u32) -> String {
    format!(
        "Value {given} for parameter MaxResults is invalid. Reason: MaxResults must be an integer between 1 and 1000."
    )
}

// A queue of another dialect is listed when its name is legal here.
#[tokio::test]
async fn names_that_mean_nothing_here_are_not_listed() {
    let server = SqsServer::open().await;
    for name in ["a.b", "a.c", "b", "c d", "e"] {
        server.queue(name, Policy::standard()).await;
    }
    let (page, token) = list(&server, json!({"MaxResults": 1})).await;
    assert_eq!(page, ["b"]);
    assert_eq!(
        list(&server, json!({"MaxResults": 1, "NextToken": token})).await,
        (vec!["e".to_owned()], None)
    );
}

// [rec] spec 5.1: 60 s after a deletion its name is held.
/// Vendor: API Reference, CreateQueue, error QueueDeletedRecently
#[tokio::test]
async fn the_name_of_a_deleted_queue_is_held_for_a_minute() {
    let server = SqsServer::open().await;
    create(&server, &["orders"]).await;
    assert_eq!(server.call("DeleteQueue", json!({"QueueUrl": "orders"})).await.ok(), "");
    let again = json!({"QueueName": "orders"});
    server.advance(Duration::from_millis(59_999)).await;
    server.call("CreateQueue", again.clone()).await.is_error(
        400,
        "com.amazonaws.sqs#QueueDeletedRecently",
        "AWS.SimpleQueueService.QueueDeletedRecently;Sender",
        "You must wait 60 seconds after deleting a queue before you can create another with the same name.",
    );
    create(&server, &["others"]).await;
    server.advance(Duration::from_millis(1)).await;
    server.call("CreateQueue", again).await.ok();
}

#[tokio::test]
async fn the_hold_and_the_interval_can_be_switched_off() {
    let settings =
        Settings { name_hold: Duration::ZERO, purge_interval: Duration::ZERO, ..Settings::default() };
    let server = SqsServer::with(settings).await;
    for _ in 0..3 {
        create(&server, &["orders"]).await;
        server.call("PurgeQueue", json!({"QueueUrl": "orders"})).await.ok();
        server.call("PurgeQueue", json!({"QueueUrl": "orders"})).await.ok();
        server.call("DeleteQueue", json!({"QueueUrl": "orders"})).await.ok();
    }
}

// Spec 5.6: messages are gone, waiting receivers end, a second delete finds nothing.
#[tokio::test]
async fn a_deleted_queue_takes_its_messages_and_ends_its_waits() {
    let server = SqsServer::open().await;
    create(&server, &["orders", "full"]).await;
    server.call("SendMessage", json!({"QueueUrl": "full", "MessageBody": "x"})).await.ok();
    let receive = json!({"QueueUrl": "orders", "WaitTimeSeconds": 20});
    let delete = async {
        server.until_waiting(1).await;
        server.call("DeleteQueue", json!({"QueueUrl": "orders"})).await
    };
    let (waited, deleted) = tokio::join!(server.call("ReceiveMessage", receive), delete);
    deleted.ok();
    assert_eq!(waited.ok(), "{}", "the wait ends at once, without a message");
    server.call("DeleteQueue", json!({"QueueUrl": "full"})).await.ok();
    server.advance(Duration::from_secs(60)).await;
    create(&server, &["full"]).await;
    assert_eq!(server.call("ReceiveMessage", json!({"QueueUrl": "full"})).await.ok(), "{}");
    assert_eq!(server.call("DeleteQueue", json!({"QueueUrl": "orders"})).await.status, 400);
}

// Spec 5.7: available, delayed and in-flight messages go; their handles turn into no-ops.
#[tokio::test]
async fn a_purge_takes_messages_of_every_state() {
    let server = SqsServer::open().await;
    let handle = server.with_message("orders", "in flight").await;
    for delay in [0, 60] {
        let message = json!({"QueueUrl": "orders", "MessageBody": "x", "DelaySeconds": delay});
        server.call("SendMessage", message).await.ok();
    }
    assert_eq!(server.call("PurgeQueue", json!({"QueueUrl": "orders"})).await.ok(), "");
    server.call("DeleteMessage", json!({"QueueUrl": "orders", "ReceiptHandle": handle})).await.ok();
    server.advance(Duration::from_secs(60)).await;
    assert_eq!(server.call("ReceiveMessage", json!({"QueueUrl": "orders"})).await.ok(), "{}");
}

// [rec] spec 5.7: on FIFO a purge also forgets deduplication ids.
#[tokio::test]
async fn an_id_from_before_a_purge_delivers_again_after_it() {
    let server = SqsServer::open().await;
    let fifo = json!({"QueueName": "orders.fifo", "Attributes": {"FifoQueue": "true"}});
    server.call("CreateQueue", fifo).await.ok();
    assert!(server.send_to_group("orders.fifo", "g", "id").await);
    assert!(!server.send_to_group("orders.fifo", "g", "id").await);
    server.call("PurgeQueue", json!({"QueueUrl": "orders.fifo"})).await.ok();
    assert!(server.send_to_group("orders.fifo", "g", "id").await);
}

// [rec] spec 5.7: a second purge within 60 s is refused, of that queue only.
/// Vendor: API Reference, PurgeQueue, error PurgeQueueInProgress
#[tokio::test]
async fn a_queue_is_purged_once_a_minute() {
    let server = SqsServer::open().await;
    create(&server, &["orders", "others"]).await;
    server.call("PurgeQueue", json!({"QueueUrl": "orders"})).await.ok();
    server.advance(Duration::from_millis(59_999)).await;
    server.call("PurgeQueue", json!({"QueueUrl": "orders"})).await.is_error(
        403,
        "com.amazonaws.sqs#PurgeQueueInProgress",
        PURGED,
        "Only one PurgeQueue operation on orders is allowed every 60 seconds.",
    );
    server.call("PurgeQueue", json!({"QueueUrl": "others"})).await.ok();
    server.advance(Duration::from_millis(1)).await;
    server.call("PurgeQueue", json!({"QueueUrl": "orders"})).await.ok();
    let form = server.query("Action=PurgeQueue&QueueUrl=orders").await;
    assert_eq!((form.status, form.header("x-amzn-query-error")), (403, Some(PURGED)));
}

async fn tags(server: &SqsServer) -> Value {
    server.call("ListQueueTags", json!({"QueueUrl": "orders"})).await.json()
}

// [rec] spec 10: the empty value is allowed and returned, an absent key may be removed; spec 1.1: no tags, no member.
#[tokio::test]
async fn tags_come_change_and_go() {
    let server = SqsServer::open().await;
    let tagged = json!({"QueueName": "orders", "tags": {"team": "shop", "empty": ""}});
    server.call("CreateQueue", tagged).await.ok();
    assert_eq!(tags(&server).await, json!({"Tags": {"team": "shop", "empty": ""}}));
    let more = json!({"QueueUrl": "orders", "Tags": {"team": "mail", "Team": "other"}});
    assert_eq!(server.call("TagQueue", more).await.ok(), "");
    assert_eq!(tags(&server).await, json!({"Tags": {"team": "mail", "Team": "other", "empty": ""}}));
    let form = server.query("Action=UntagQueue&QueueUrl=orders&TagKey.1=Team&TagKey.2=absent").await;
    assert!(form.ok().contains("<UntagQueueResponse"), "{}", form.body);
    let form = server.query("Action=TagQueue&QueueUrl=orders&Tag.1.Key=team&Tag.1.Value=post").await;
    assert!(!form.ok().contains("Result"), "{}", form.body);
    assert_eq!(tags(&server).await, json!({"Tags": {"team": "post", "empty": ""}}));
    let keys = json!({"QueueUrl": "orders", "TagKeys": ["team", "empty"]});
    server.call("UntagQueue", keys).await.ok();
    assert_eq!(server.call("ListQueueTags", json!({"QueueUrl": "orders"})).await.ok(), "{}");
}

#[tokio::test]
async fn tags_that_are_none_are_refused_whole() {
    let server = SqsServer::open().await;
    create(&server, &["orders"]).await;
    let missing = "com.amazon.coral.service#MissingRequiredParameterException";
    let invalid = "com.amazon.coral.service#InvalidParameterValueException";
    let key_length = "Tag keys must be between 1 and 128 characters in length.";
    for (action, body, kind, code, message) in [
        ("TagQueue", json!({}), missing, "MissingParameter", "The request must contain the parameter Tags."),
        (
            "TagQueue",
            json!({"Tags": {}}),
            missing,
            "MissingParameter",
            "The request must contain the parameter Tags.",
        ),
        ("TagQueue", json!({"Tags": {"a": "b", "": "c"}}), invalid, "InvalidParameterValue", key_length),
        ("UntagQueue", json!({}), invalid, "InvalidParameterValue", key_length),
    ] {
        let mut body = body;
        body["QueueUrl"] = json!("orders");
        server.call(action, body).await.is_error(400, kind, &format!("{code};Sender"), message);
    }
    let many: serde_json::Map<String, Value> = (0..51).map(|n| (format!("k{n}"), json!("v"))).collect();
    let answer = server.call("TagQueue", json!({"QueueUrl": "orders", "Tags": many})).await;
    let message = "Too many tags added for queue orders.";
    answer.is_error(400, invalid, "InvalidParameterValue;Sender", message);
    assert_eq!(tags(&server).await, json!({}));
}
