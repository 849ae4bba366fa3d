//! SendMessageBatch, DeleteMessageBatch and ChangeMessageVisibilityBatch.

use std::time::Duration;

use kew_core::{DeduplicationScope, Policy, QueueKind};
use serde_json::{Value, json};

use super::server::{Answer, SqsAnswer, SqsServer};

async fn with_queue() -> SqsServer {
    let server = SqsServer::open().await;
    server.queue("orders", Policy::standard()).await;
    server
}

async fn batch(server: &SqsServer, action: &str, entries: Value) -> Answer {
    server.call(action, json!({"QueueUrl": "orders", "Entries": entries})).await
}

fn sends(count: usize) -> Value {
    (0..count).map(|n| json!({"Id": format!("id_{n}"), "MessageBody": format!("m{n}")})).collect()
}

// [rec] spec 1.1: no `Failed` when nothing failed.
#[tokio::test]
async fn a_batch_is_sent_in_order_and_each_entry_has_a_message_id() {
    let server = with_queue().await;
    let entries = json!([
        {"Id": "b", "MessageBody": "hello", "MessageAttributes": {"k": {"DataType": "String", "StringValue": "x"}}},
        {"Id": "a", "MessageBody": "later", "DelaySeconds": 5},
        {"Id": "C-_9", "MessageBody": "world"},
    ]);
    let sent = batch(&server, "SendMessageBatch", entries).await.json();
    let ids: Vec<&str> = sent["Successful"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|entry| entry["Id"].as_str())
        .collect();
    assert_eq!(ids, ["b", "a", "C-_9"]);
    assert_eq!(sent["Successful"][0]["MD5OfMessageBody"], "5d41402abc4b2a76b9719d911017c592");
    assert_eq!(sent["Successful"][0]["MD5OfMessageAttributes"], "a45daa70926828a2f0a1db3418e6feb4");
    assert!(sent["Successful"][2].get("MD5OfMessageAttributes").is_none());
    assert!(sent.get("Failed").is_none(), "absent, not empty");
    let received = server.receive("orders", json!({"MaxNumberOfMessages": 10})).await;
    assert_eq!(received.bodies(), ["hello", "world"]);
    assert_eq!(received.messages()[1]["MessageId"], sent["Successful"][2]["MessageId"]);
    server.advance(Duration::from_secs(5)).await;
    assert_eq!(server.receive("orders", json!({})).await.bodies(), ["later"]);
}

#[tokio::test]
async fn a_batch_that_is_wrong_as_a_whole_does_nothing() {
    // [rec] spec 6: codes and texts of whole-request errors.
    let server = with_queue().await;
    let refuse = |answer: Answer, code: &str, message: &str| {
        let (kind, query) =
            (format!("com.amazonaws.sqs#{code}"), format!("AWS.SimpleQueueService.{code};Sender"));
        answer.is_error(400, &kind, &query, message);
    };
    for action in ["SendMessageBatch", "DeleteMessageBatch", "ChangeMessageVisibilityBatch"] {
        let message = format!("There should be at least one {action}RequestEntry in the request.");
        refuse(batch(&server, action, json!([])).await, "EmptyBatchRequest", &message);
        refuse(server.call(action, json!({"QueueUrl": "orders"})).await, "EmptyBatchRequest", &message);
        let too_many = "Maximum number of entries per request are 10. You have sent 20.";
        refuse(batch(&server, action, sends(20)).await, "TooManyEntriesInBatchRequest", too_many);
        let bad_id = "A batch entry id can only contain alphanumeric characters, hyphens and underscores. It can be at most 80 letters long.";
        for id in ["", "a b", "ä", &"i".repeat(81)] {
            let entries = json!([{"Id": "a", "MessageBody": "m"}, {"Id": id, "MessageBody": "m"}]);
            refuse(batch(&server, action, entries).await, "InvalidBatchEntryId", bad_id);
        }
        let entries: Value = ["id_1", "id_2", "id_3", "id_2", "id_1"]
            .iter()
            .map(|id| json!({"Id": id, "MessageBody": "m"}))
            .collect();
        refuse(batch(&server, action, entries).await, "BatchEntryIdsNotDistinct", "Id id_2 repeated.");
    }
    assert_eq!(server.receive("orders", json!({})).await.ok(), "{}");
}

/// Vendor: API Reference, SendMessageBatch, error BatchRequestTooLong; Developer Guide, "Message quotas"
#[tokio::test]
async fn a_batch_has_a_maximum_of_bytes_whatever_the_queue_allows() {
    // [rec] spec 6: bodies and attributes together, independent of MaximumMessageSize.
    let server = SqsServer::open().await;
    server.queue("orders", Policy { body_bytes_max: 1_024, ..Policy::standard() }).await;
    let entries = |last: usize| {
        let attributes = json!({"k": {"DataType": "String", "StringValue": "x"}});
        json!([
            {"Id": "a", "MessageBody": "m".repeat(524_288), "MessageAttributes": attributes},
            {"Id": "b", "MessageBody": "m".repeat(last)},
        ])
    };
    let answer = batch(&server, "SendMessageBatch", entries(524_281)).await;
    answer.is_error(
        400,
        "com.amazonaws.sqs#BatchRequestTooLong",
        "AWS.SimpleQueueService.BatchRequestTooLong;Sender",
        "Batch requests cannot be longer than 1048576 bytes. You have sent 1048577 bytes.",
    );
    let answer = batch(&server, "SendMessageBatch", entries(524_280)).await.json();
    assert_eq!(answer["Failed"].as_array().map(Vec::len), Some(2), "each is too long for this queue");
}

#[tokio::test]
async fn an_entry_that_is_wrong_fails_alone() {
    // [rec] spec 6: 200 with `Failed`, short codes, and a text of its own for the size.
    let server = SqsServer::open().await;
    server.queue("orders", Policy { body_bytes_max: 1_024, ..Policy::standard() }).await;
    let entries = json!([
        {"Id": "good", "MessageBody": "first"},
        {"Id": "long", "MessageBody": "m".repeat(1_025)},
        {"Id": "delay", "MessageBody": "m", "DelaySeconds": 901},
        {"Id": "characters", "MessageBody": "\u{1}"},
        {"Id": "empty", "MessageBody": ""},
        {"Id": "attribute", "MessageBody": "m", "MessageAttributes": {"k": {"DataType": "String"}}},
        {"Id": "repeat", "MessageBody": "m", "MessageDeduplicationId": "x"},
        {"Id": "fine", "MessageBody": "last"},
    ]);
    let sent = batch(&server, "SendMessageBatch", entries).await.json();
    assert_eq!(sent["Successful"].as_array().map(Vec::len), Some(2));
    let failed = json!([
        {"Id": "long", "Code": "InvalidParameterValue", "Message": "One or more parameters cannot be validated. Reason: Message must be shorter than 1024 bytes.", "SenderFault": true},
        {"Id": "delay", "Code": "InvalidParameterValue", "Message": "Value 901 for parameter DelaySeconds is invalid. Reason: DelaySeconds must be >= 0 and <= 900.", "SenderFault": true},
        {"Id": "characters", "Code": "InvalidMessageContents", "Message": "Invalid characters found. Valid unicode characters are #x9 | #xA | #xD | #x20 to #xD7FF | #xE000 to #xFFFD | #x10000 to #x10FFFF", "SenderFault": true},
        {"Id": "empty", "Code": "MissingParameter", "Message": "The request must contain the parameter MessageBody.", "SenderFault": true},
        {"Id": "attribute", "Code": "InvalidParameterValue", "Message": "Message (user) attribute 'k' must contain a non-empty value of type 'String'.", "SenderFault": true},
        {"Id": "repeat", "Code": "InvalidParameterValue", "Message": "Value x for parameter MessageDeduplicationId is invalid. Reason: The request includes a parameter that is not valid for this queue type.", "SenderFault": true},
    ]);
    assert_eq!(sent["Failed"], failed);
    assert_eq!(
        server.receive("orders", json!({"MaxNumberOfMessages": 10})).await.bodies(),
        ["first", "last"]
    );
}

#[tokio::test]
async fn a_fifo_batch_without_group_or_id_is_refused_as_a_whole() {
    // [rec] spec 6: InvalidParameterValue here, MissingParameter for a single send.
    let server = SqsServer::open().await;
    server.queue("orders", Policy::fifo()).await;
    let good = json!({"Id": "a", "MessageBody": "m", "MessageGroupId": "g", "MessageDeduplicationId": "1"});
    let no_group = json!({"Id": "b", "MessageBody": "m", "MessageDeduplicationId": "2"});
    batch(&server, "SendMessageBatch", json!([good, no_group]))
        .await
        .is_invalid("The request must contain the parameter MessageGroupId.");
    let no_id = json!({"Id": "b", "MessageBody": "m", "MessageGroupId": "g"});
    batch(&server, "SendMessageBatch", json!([good, no_id])).await.is_invalid(
        "The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided explicitly",
    );
    assert_eq!(server.receive("orders", json!({})).await.ok(), "{}");
}

#[tokio::test]
async fn repeats_within_a_fifo_batch_get_the_message_id_of_the_first() {
    let server = SqsServer::open().await;
    let kind = QueueKind::Fifo { scope: DeduplicationScope::Queue, by_content: true };
    server.queue("orders", Policy { kind, ..Policy::fifo() }).await;
    let entries: Value = ["a", "b", "a"]
        .iter()
        .enumerate()
        .map(|(n, body)| json!({"Id": n.to_string(), "MessageBody": body, "MessageGroupId": "g"}))
        .collect();
    let sent = batch(&server, "SendMessageBatch", entries).await.json();
    let member = |n: usize, name: &str| sent["Successful"][n][name].as_str().map(str::to_owned);
    assert_eq!(member(0, "MessageId"), member(2, "MessageId"));
    assert_eq!(member(0, "SequenceNumber"), member(2, "SequenceNumber"));
    assert!(member(0, "SequenceNumber") < member(1, "SequenceNumber"));
    assert_eq!(server.receive("orders", json!({"MaxNumberOfMessages": 10})).await.bodies(), ["a", "b"]);
}

#[tokio::test]
async fn a_batch_of_deletions_deletes_what_it_can() {
    let server = with_queue().await;
    batch(&server, "SendMessageBatch", sends(3)).await.ok();
    let handles = server.receive("orders", json!({"MaxNumberOfMessages": 10})).await.handles();
    let entries = json!([
        {"Id": "bad", "ReceiptHandle": "x"},
        {"Id": "first", "ReceiptHandle": handles[0]},
        {"Id": "none"},
        {"Id": "again", "ReceiptHandle": handles[0]},
        {"Id": "second", "ReceiptHandle": handles[1]},
    ]);
    let deleted = batch(&server, "DeleteMessageBatch", entries).await.json();
    assert_eq!(deleted["Successful"], json!([{"Id": "first"}, {"Id": "again"}, {"Id": "second"}]));
    assert_eq!(
        deleted["Failed"],
        json!([
            {"Id": "bad", "Code": "ReceiptHandleIsInvalid", "Message": "The input receipt handle \"x\" is not a valid receipt handle.", "SenderFault": true},
            {"Id": "none", "Code": "MissingParameter", "Message": "The request must contain the parameter ReceiptHandle.", "SenderFault": true},
        ])
    );
    server.advance(Duration::from_secs(30)).await;
    assert_eq!(server.receive("orders", json!({"MaxNumberOfMessages": 10})).await.bodies(), ["m2"]);
    let all_bad =
        batch(&server, "DeleteMessageBatch", json!([{"Id": "bad", "ReceiptHandle": "x"}])).await.json();
    assert!(all_bad.get("Successful").is_none() && all_bad.get("Failed").is_some());
}

#[tokio::test]
async fn a_batch_of_changes_changes_what_it_can() {
    let server = with_queue().await;
    batch(&server, "SendMessageBatch", sends(3)).await.ok();
    let handles = server.receive("orders", json!({"MaxNumberOfMessages": 10})).await.handles();
    server.delete("orders", &handles[2]).await.ok();
    let entries = json!([
        {"Id": "now", "ReceiptHandle": handles[0], "VisibilityTimeout": 0},
        {"Id": "long", "ReceiptHandle": handles[1], "VisibilityTimeout": 43_201},
        {"Id": "none", "ReceiptHandle": handles[1]},
        {"Id": "gone", "ReceiptHandle": handles[2], "VisibilityTimeout": 5},
        {"Id": "later", "ReceiptHandle": handles[1], "VisibilityTimeout": 600},
    ]);
    let changed = batch(&server, "ChangeMessageVisibilityBatch", entries).await.json();
    assert_eq!(changed["Successful"], json!([{"Id": "now"}, {"Id": "later"}]));
    let told: Vec<_> = changed["Failed"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|entry| (entry["Id"].as_str(), entry["Code"].as_str()))
        .collect();
    let invalid = Some("InvalidParameterValue");
    assert_eq!(
        told,
        [(Some("long"), invalid), (Some("none"), Some("MissingParameter")), (Some("gone"), invalid)]
    );
    assert_eq!(server.receive("orders", json!({"MaxNumberOfMessages": 10})).await.bodies(), ["m0"]);
    server.advance(Duration::from_secs(599)).await;
    assert_eq!(server.receive("orders", json!({"VisibilityTimeout": 900})).await.bodies(), ["m0"]);
    server.advance(Duration::from_secs(1)).await;
    assert_eq!(server.receive("orders", json!({})).await.bodies(), ["m1"]);
}

#[tokio::test]
async fn in_xml_entries_stand_flat_one_after_the_other() {
    let server = with_queue().await;
    let sent = server.query("Action=SendMessageBatch&QueueUrl=orders&SendMessageBatchRequestEntry.1.Id=a&SendMessageBatchRequestEntry.1.MessageBody=hello&SendMessageBatchRequestEntry.2.Id=b&SendMessageBatchRequestEntry.2.MessageBody=m&SendMessageBatchRequestEntry.2.DelaySeconds=901").await;
    for part in [
        "<SendMessageBatchResult><SendMessageBatchResultEntry><Id>a</Id><MD5OfMessageBody>5d41402abc4b2a76b9719d911017c592</MD5OfMessageBody><MessageId>",
        "</MessageId></SendMessageBatchResultEntry><BatchResultErrorEntry><Id>b</Id><Code>InvalidParameterValue</Code><Message>Value 901 for parameter DelaySeconds is invalid. Reason: DelaySeconds must be &gt;= 0 and &lt;= 900.</Message><SenderFault>true</SenderFault></BatchResultErrorEntry></SendMessageBatchResult>",
    ] {
        assert!(sent.ok().contains(part), "{}", sent.body);
    }
    let handle = server
        .receive("orders", json!({}))
        .await
        .handles()
        .remove(0)
        .replace('+', "%2B")
        .replace('/', "%2F")
        .replace('=', "%3D");
    let changed = server.query(&format!("Action=ChangeMessageVisibilityBatch&QueueUrl=orders&ChangeMessageVisibilityBatchRequestEntry.1.Id=a&ChangeMessageVisibilityBatchRequestEntry.1.ReceiptHandle={handle}&ChangeMessageVisibilityBatchRequestEntry.1.VisibilityTimeout=5")).await;
    assert!(changed.ok().contains("<ChangeMessageVisibilityBatchResultEntry><Id>a</Id></ChangeMessageVisibilityBatchResultEntry></ChangeMessageVisibilityBatchResult>"), "{}", changed.body);
    let deleted = server.query(&format!("Action=DeleteMessageBatch&QueueUrl=orders&DeleteMessageBatchRequestEntry.1.Id=a&DeleteMessageBatchRequestEntry.1.ReceiptHandle={handle}")).await;
    assert!(deleted.ok().contains("<DeleteMessageBatchResult><DeleteMessageBatchResultEntry><Id>a</Id></DeleteMessageBatchResultEntry></DeleteMessageBatchResult>"), "{}", deleted.body);
    let empty = server.query("Action=SendMessageBatch&QueueUrl=orders").await;
    assert!(empty.body.contains("<Code>AWS.SimpleQueueService.EmptyBatchRequest</Code>"), "{}", empty.body);
}
