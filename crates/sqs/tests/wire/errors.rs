//! What is refused, and how.

use kew_sqs::Settings;

use super::server::{SqsAnswer, SqsServer};

const INVALID: &str = "com.amazon.coral.service#InvalidParameterValueException";
const MISSING: &str = "com.amazon.coral.service#MissingRequiredParameterException";

// [rec] spec 5.10: WaitTimeSeconds of 21 and of -1.
#[tokio::test]
async fn values_out_of_range_are_refused_with_what_is_allowed() {
    let server = SqsServer::open().await;
    server.ask("CreateQueue", r#"{"QueueName":"orders"}"#).await.ok();
    for (action, member, value, reason) in [
        ("ReceiveMessage", "MaxNumberOfMessages", 0, "Must be between 1 and 10, if provided."),
        ("ReceiveMessage", "MaxNumberOfMessages", 11, "Must be between 1 and 10, if provided."),
        ("ReceiveMessage", "WaitTimeSeconds", 21, "Must be >= 0 and <= 20, if provided."),
        ("ReceiveMessage", "WaitTimeSeconds", -1, "Must be >= 0 and <= 20, if provided."),
        ("ReceiveMessage", "VisibilityTimeout", 43_201, "Must be between 0 and 43200, if provided."),
        ("SendMessage", "DelaySeconds", 901, "DelaySeconds must be >= 0 and <= 900."),
        ("SendMessage", "DelaySeconds", -1, "DelaySeconds must be >= 0 and <= 900."),
    ] {
        let body = format!(r#"{{"QueueUrl":"orders","MessageBody":"m","{member}":{value}}}"#);
        let message = format!("Value {value} for parameter {member} is invalid. Reason: {reason}");
        server.ask(action, &body).await.is_error(400, INVALID, "InvalidParameterValue;Sender", &message);
    }
}

// [rec] spec 5.8: an empty body; [rec] spec 1.1: MissingRequiredParameterException here, MissingParameter to Query
// clients.
#[tokio::test]
async fn missing_parameters_are_named() {
    let server = SqsServer::open().await;
    server.ask("CreateQueue", r#"{"QueueName":"orders"}"#).await.ok();
    for (action, body, name) in [
        ("CreateQueue", "", "QueueName"),
        ("GetQueueUrl", "{}", "QueueName"),
        ("SendMessage", r#"{"MessageBody":"m"}"#, "QueueUrl"),
        ("SendMessage", r#"{"QueueUrl":"orders"}"#, "MessageBody"),
        ("SendMessage", r#"{"QueueUrl":"orders","MessageBody":""}"#, "MessageBody"),
        ("ReceiveMessage", r#"{"QueueUrl":null}"#, "QueueUrl"),
        ("DeleteMessage", r#"{"QueueUrl":"orders"}"#, "ReceiptHandle"),
        ("ChangeMessageVisibility", r#"{"QueueUrl":"orders"}"#, "ReceiptHandle"),
        ("ChangeMessageVisibility", r#"{"QueueUrl":"orders","ReceiptHandle":"x"}"#, "VisibilityTimeout"),
    ] {
        let message = format!("The request must contain the parameter {name}.");
        server.ask(action, body).await.is_error(400, MISSING, "MissingParameter;Sender", &message);
    }
}

#[tokio::test]
async fn every_action_on_a_missing_queue_says_so() {
    let server = SqsServer::open().await;
    for action in ["SendMessage", "ReceiveMessage", "DeleteMessage"] {
        server.ask(action, r#"{"QueueUrl":"http://kew.test/000000000000/orders"}"#).await.is_error(
            400,
            "com.amazonaws.sqs#QueueDoesNotExist",
            "AWS.SimpleQueueService.NonExistentQueue;Sender",
            "The specified queue does not exist.",
        );
    }
}

// [rec] spec 7: garbage, and the handle of another queue.
#[tokio::test]
async fn receipts_that_were_never_given_out_are_refused() {
    let server = SqsServer::open().await;
    server.ask("CreateQueue", r#"{"QueueName":"other"}"#).await.ok();
    let handle = server.with_message("orders", "m").await;
    let other = if handle.as_bytes()[40] == b'A' { 'B' } else { 'A' };
    let forged = format!("{}{other}{}", &handle[..40], &handle[41..]);
    for (queue, handle) in [("orders", "garbage"), ("orders", forged.as_str()), ("other", handle.as_str())] {
        let body = format!(r#"{{"QueueUrl":"{queue}","ReceiptHandle":"{handle}"}}"#);
        let message = format!("The input receipt handle \"{handle}\" is not a valid receipt handle.");
        server.ask("DeleteMessage", &body).await.is_error(
            404,
            "com.amazonaws.sqs#ReceiptHandleIsInvalid",
            "ReceiptHandleIsInvalid;Sender",
            &message,
        );
    }
}

#[tokio::test]
async fn characters_that_sqs_forbids_are_refused() {
    let server = SqsServer::open().await;
    server.ask("CreateQueue", r#"{"QueueName":"orders"}"#).await.ok();
    for body in [r#"\u0000"#, r#"a\u0008"#, r#"\ufffe"#, r#"\uffff"#] {
        let answer =
            server.ask("SendMessage", &format!(r#"{{"QueueUrl":"orders","MessageBody":"{body}"}}"#)).await;
        answer.is_error(
            400,
            "com.amazonaws.sqs#InvalidMessageContents",
            "InvalidMessageContents;Sender",
            "Invalid characters found. Valid unicode characters are #x9 | #xA | #xD | #x20 to #xD7FF | #xE000 to #xFFFD | #x10000 to #x10FFFF",
        );
    }
}

#[tokio::test]
async fn bodies_that_are_no_json_object_of_the_right_types_are_refused() {
    let server = SqsServer::open().await;
    server.ask("CreateQueue", r#"{"QueueName":"orders"}"#).await.ok();
    for body in [
        "x",
        "[]",
        "\"orders\"",
        "{",
        r#"{"QueueUrl":7}"#,
        r#"{"QueueUrl":"orders","WaitTimeSeconds":"1"}"#,
        r#"{"QueueUrl":"orders","WaitTimeSeconds":1.5}"#,
        r#"{"QueueUrl":"orders","WaitTimeSeconds":99999999999999999999}"#,
        r#"{"QueueUrl":"orders"} x"#,
    ] {
        let answer = server.ask("ReceiveMessage", body).await;
        assert_eq!(answer.status, 400, "{body}");
        assert_eq!(answer.header("x-amzn-query-error"), Some("SerializationException;Sender"), "{body}");
        assert!(answer.body.starts_with(r#"{"__type":"com.amazon.coral.service#SerializationException","#));
    }
}

#[tokio::test]
async fn unknown_members_are_ignored_however_deep() {
    let server = SqsServer::open().await;
    let nested = format!(r#"{{"QueueName":"deep","X":{}{}}}"#, "[".repeat(10_000), "]".repeat(10_000));
    server.ask("CreateQueue", &nested).await.ok();
    server.ask("CreateQueue", r#"{"QueueName":"orders","Colour":{"deep":[1,2]}}"#).await.ok();
}

#[tokio::test]
async fn unknown_actions_and_protocols_are_refused() {
    let server = SqsServer::open().await;
    server.ask("FooBar", "{}").await.is_error(
        400,
        "com.amazon.coral.service#UnknownOperationException",
        "InvalidAction;Sender",
        "The operation AmazonSQS.FooBar is not known.",
    );
    let query = server.send(b"GET /?Action=FooBar&Version=2012-11-05 HTTP/1.1\r\nHost: h\r\n\r\n").await;
    assert_eq!((query.status, query.header("content-type")), (400, Some("text/xml")));
    let told =
        "<Code>InvalidAction</Code><Message>The action FooBar is not valid for this endpoint.</Message>";
    assert!(query.body.contains(told), "{}", query.body);
    let nothing = server.send(b"GET /000000000000/orders HTTP/1.1\r\nHost: h\r\n\r\n").await;
    assert_eq!((nothing.status, nothing.body.as_str()), (404, "<UnknownOperationException/>\n"));
    let get = server.send(b"GET / HTTP/1.1\r\nHost: h\r\nX-Amz-Target: AmazonSQS.GetQueueUrl\r\n\r\n").await;
    assert_eq!(get.status, 400);
}

#[tokio::test]
async fn too_many_messages_in_flight_stop_a_short_poll() {
    let server = SqsServer::with(Settings { standard_in_flight_limit: 1, ..Settings::default() }).await;
    server.with_message("orders", "m").await;
    server.ask("SendMessage", r#"{"QueueUrl":"orders","MessageBody":"n"}"#).await.ok();
    let answer = server.ask("ReceiveMessage", r#"{"QueueUrl":"orders"}"#).await;
    assert_eq!((answer.status, answer.header("x-amzn-query-error")), (403, Some("OverLimit;Sender")));
    let long = server.ask("ReceiveMessage", r#"{"QueueUrl":"orders","WaitTimeSeconds":0}"#).await;
    assert_eq!(long.status, 403, "an explicit zero is a short poll");
}

#[tokio::test]
async fn members_of_the_wrong_shape_are_refused_and_do_nothing() {
    let server = SqsServer::open().await;
    server.ask("CreateQueue", r#"{"QueueName":"orders"}"#).await.ok();
    for (action, member) in [
        ("SendMessage", r#""MessageBody":7"#),
        ("SendMessage", r#""MessageBody":"m","DelaySeconds":"5""#),
        ("SendMessage", r#""MessageBody":"m","MessageGroupId":{}"#),
        ("SendMessage", r#""MessageBody":"m","MessageAttributes":[]"#),
        ("SendMessage", r#""MessageBody":"m","MessageAttributes":{"a":"b"}"#),
        ("SendMessage", r#""MessageBody":"m","MessageAttributes":{"a":{"DataType":7}}"#),
        (
            "SendMessage",
            r#""MessageBody":"m","MessageAttributes":{"a":{"DataType":"Binary","BinaryValue":"!"}}"#,
        ),
        ("SendMessageBatch", r#""Entries":{}"#),
        ("SendMessageBatch", r#""Entries":[7]"#),
        ("SendMessageBatch", r#""Entries":[{"Id":"a","MessageBody":"m"},{"Id":7}]"#),
        ("DeleteMessageBatch", r#""Entries":[null]"#),
        ("ChangeMessageVisibilityBatch", r#""Entries":[[]]"#),
        ("ReceiveMessage", r#""MessageAttributeNames":"All""#),
        ("ReceiveMessage", r#""AttributeNames":[7]"#),
        ("DeleteMessage", r#""ReceiptHandle":["x"]"#),
    ] {
        let answer = server.ask(action, &format!(r#"{{"QueueUrl":"orders",{member}}}"#)).await;
        assert_eq!(answer.status, 400, "{action} {member}");
        assert_eq!(answer.header("x-amzn-query-error"), Some("SerializationException;Sender"), "{member}");
    }
    assert_eq!(server.ask("ReceiveMessage", r#"{"QueueUrl":"orders"}"#).await.ok(), "{}");
}

#[tokio::test]
async fn a_refusal_quotes_what_was_sent_only_so_far() {
    let server = SqsServer::open().await;
    server.ask("CreateQueue", r#"{"QueueName":"orders"}"#).await.ok();
    let group = "é".repeat(1_000_000 / 2);
    let body = format!(r#"{{"QueueUrl":"orders","MessageBody":"m","MessageGroupId":"{group}"}}"#);
    let answer = server.ask("SendMessage", &body).await;
    assert_eq!(
        (answer.status, answer.header("x-amzn-query-error")),
        (400, Some("InvalidParameterValue;Sender"))
    );
    assert!(answer.body.len() < 5_000, "{}", answer.body.len());
    let control = server.query("Action=SendMessage&QueueUrl=orders&MessageBody=m&MessageGroupId=%01").await;
    assert!(control.body.contains("Value \u{fffd} for parameter MessageGroupId"), "{}", control.body);
}
