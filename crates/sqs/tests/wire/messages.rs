//! SendMessage, ReceiveMessage and DeleteMessage.

use std::time::{Duration, Instant};

use kew_core::Policy;
use serde_json::json;

use super::server::{SqsAnswer, SqsServer};

// [seed] spec 7: a message stays in the queue until it is deleted.
#[tokio::test]
async fn a_message_is_sent_received_and_deleted() {
    let server = SqsServer::open().await;
    server.ask("CreateQueue", r#"{"QueueName":"orders"}"#).await.ok();
    let sent = server.ask("SendMessage", r#"{"QueueUrl":"orders","MessageBody":"hello"}"#).await;
    assert_eq!(
        sent.ok(),
        r#"{"MD5OfMessageBody":"5d41402abc4b2a76b9719d911017c592","MessageId":"00000000-0000-4005-8000-000000000006"}"#
    );
    let received =
        server.ask("ReceiveMessage", r#"{"QueueUrl":"http://kew.test/000000000000/orders"}"#).await;
    let handle = received.text("ReceiptHandle");
    assert_eq!(handle.len(), 56);
    assert_eq!(
        received.ok(),
        format!(
            r#"{{"Messages":[{{"MessageId":"00000000-0000-4005-8000-000000000006","ReceiptHandle":"{handle}","MD5OfBody":"5d41402abc4b2a76b9719d911017c592","Body":"hello"}}]}}"#
        )
    );
    let deleted =
        server.ask("DeleteMessage", &format!(r#"{{"QueueUrl":"orders","ReceiptHandle":"{handle}"}}"#)).await;
    assert_eq!((deleted.ok(), deleted.header("content-length")), ("", Some("0")));
    let again =
        server.ask("DeleteMessage", &format!(r#"{{"QueueUrl":"orders","ReceiptHandle":"{handle}"}}"#)).await;
    assert_eq!(again.ok(), "", "deleting again succeeds");
}

// [rec] spec 1.1: an empty receive carries no `Messages`.
#[tokio::test]
async fn an_empty_receive_has_no_messages_member() {
    let server = SqsServer::open().await;
    server.ask("CreateQueue", r#"{"QueueName":"orders"}"#).await.ok();
    assert_eq!(server.ask("ReceiveMessage", r#"{"QueueUrl":"orders","WaitTimeSeconds":0}"#).await.ok(), "{}");
}

#[tokio::test]
async fn bodies_come_back_byte_for_byte() {
    let server = SqsServer::open().await;
    server.ask("CreateQueue", r#"{"QueueName":"orders"}"#).await.ok();
    for body in [
        r#"plain"#,
        r#"quotes \" and \\ backslashes, \/ too"#,
        r#"lines\r\nand\ttabs, \u0009"#,
        r#"é ü 漢 😀 \u00e9 \ud83d\ude00"#,
        "&lt;not&gt; &quot;xml&quot;",
    ] {
        server.ask("SendMessage", &format!(r#"{{"QueueUrl":"orders","MessageBody":"{body}"}}"#)).await.ok();
        let received = server.ask("ReceiveMessage", r#"{"QueueUrl":"orders"}"#).await;
        let written = received.ok().split("\"Body\":").nth(1).expect("a received message has a body");
        let written = written.strip_suffix("}]}").expect("Body is the last member of the reply");
        let text =
            |json: &str| serde_json::from_str::<String>(json).expect("a body is written as a JSON string");
        assert_eq!(text(written), text(&format!("\"{body}\"")));
    }
}

// [seed] spec 7: while the timeout runs no other consumer receives the message; it is set per receive, from 0 to 12
// hours. [rec] spec 2: a receipt handle is another one for every receive.
#[tokio::test]
async fn a_received_message_is_hidden_until_its_timeout_and_zero_hides_it_for_no_time() {
    let server = SqsServer::open().await;
    server.ask("CreateQueue", r#"{"QueueName":"orders"}"#).await.ok();
    server.ask("SendMessage", r#"{"QueueUrl":"orders","MessageBody":"a"}"#).await.ok();
    let mut handles = Vec::new();
    for _ in 0..2 {
        let seen = server.ask("ReceiveMessage", r#"{"QueueUrl":"orders","VisibilityTimeout":0}"#).await;
        assert!(seen.ok().contains("\"Body\":\"a\""));
        handles.extend(seen.handles());
    }
    assert_ne!(handles[0], handles[1]);
    let taken = server.ask("ReceiveMessage", r#"{"QueueUrl":"orders","VisibilityTimeout":43200}"#).await;
    assert!(taken.ok().contains("\"Body\":\"a\""));
    assert_eq!(server.ask("ReceiveMessage", r#"{"QueueUrl":"orders"}"#).await.ok(), "{}");
}

#[tokio::test]
async fn up_to_ten_messages_come_in_the_order_they_were_sent() {
    let server = SqsServer::open().await;
    server.ask("CreateQueue", r#"{"QueueName":"orders"}"#).await.ok();
    for number in 0..12 {
        server
            .ask("SendMessage", &format!(r#"{{"QueueUrl":"orders","MessageBody":"m{number}"}}"#))
            .await
            .ok();
    }
    let first = server.ask("ReceiveMessage", r#"{"QueueUrl":"orders","MaxNumberOfMessages":10}"#).await;
    let bodies: Vec<&str> =
        first.ok().split("\"Body\":\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert_eq!(bodies, ["m0", "m1", "m2", "m3", "m4", "m5", "m6", "m7", "m8", "m9"]);
    let rest = server.ask("ReceiveMessage", r#"{"QueueUrl":"orders","MaxNumberOfMessages":10}"#).await;
    assert_eq!(rest.ok().matches("\"Body\"").count(), 2);
}

#[tokio::test]
async fn a_delayed_message_is_not_received_before_its_time() {
    let server = SqsServer::open().await;
    server.ask("CreateQueue", r#"{"QueueName":"orders"}"#).await.ok();
    server.ask("SendMessage", r#"{"QueueUrl":"orders","MessageBody":"a","DelaySeconds":900}"#).await.ok();
    assert_eq!(server.ask("ReceiveMessage", r#"{"QueueUrl":"orders"}"#).await.ok(), "{}");
}

#[tokio::test]
async fn a_long_poll_is_answered_by_the_send_it_waits_for() {
    let server = SqsServer::open().await;
    server.ask("CreateQueue", r#"{"QueueName":"orders"}"#).await.ok();
    let poll = server.ask("ReceiveMessage", r#"{"QueueUrl":"orders","WaitTimeSeconds":20}"#);
    let send = server.ask("SendMessage", r#"{"QueueUrl":"orders","MessageBody":"hello"}"#);
    let begun = Instant::now();
    let (polled, sent) = tokio::join!(poll, send);
    sent.ok();
    assert!(polled.ok().contains("\"Body\":\"hello\""));
    assert!(begun.elapsed() < Duration::from_secs(10));
}

// [rec] spec 2: a full URL with any host, a trailing slash, a bare name.
#[tokio::test]
async fn a_queue_is_named_by_any_url_that_ends_in_its_name_or_by_the_path() {
    let server = SqsServer::open().await;
    server.ask("CreateQueue", r#"{"QueueName":"orders"}"#).await.ok();
    for url in ["orders", "https://sqs.eu-west-1.amazonaws.com/123456789012/orders", "http://x/1/orders/"] {
        server.ask("ReceiveMessage", &format!(r#"{{"QueueUrl":"{url}"}}"#)).await.ok();
    }
    let by_path = "POST /000000000000/orders HTTP/1.1\r\nHost: h\r\nX-Amz-Target: AmazonSQS.ReceiveMessage\r\nContent-Length: 0\r\n\r\n";
    server.send(by_path.as_bytes()).await.ok();
}

// [rec] spec 5.8: too long, with the bound in the text; [rec] spec 4: 1 MiB is the maximum.
#[tokio::test]
async fn a_message_of_the_largest_size_passes_and_one_byte_more_does_not() {
    let server = SqsServer::open().await;
    server.ask("CreateQueue", r#"{"QueueName":"orders"}"#).await.ok();
    let send = |bytes: usize| format!(r#"{{"QueueUrl":"orders","MessageBody":"{}"}}"#, "m".repeat(bytes));
    server.ask("SendMessage", &send(1_048_576)).await.ok();
    server.ask("SendMessage", &send(1_048_577)).await.is_error(
        400,
        "com.amazon.coral.service#InvalidParameterValueException",
        "InvalidParameterValue;Sender",
        "One or more parameters are invalid. Reason: Message must be shorter than 1048576 bytes.",
    );
    let received = server.ask("ReceiveMessage", r#"{"QueueUrl":"orders"}"#).await;
    assert!(received.ok().len() > 1_048_576);
}

#[tokio::test]
async fn a_message_that_returns_after_its_timeout_goes_before_younger_ones() {
    // [rec] spec 7: best effort FIFO by send time.
    let server = SqsServer::open().await;
    server.queue("orders", Policy::standard()).await;
    for body in ["a", "b", "c"] {
        server.send_to("orders", body, json!({})).await.ok();
    }
    assert_eq!(server.receive("orders", json!({"VisibilityTimeout": 5})).await.bodies(), ["a"]);
    assert_eq!(server.receive("orders", json!({})).await.bodies(), ["b"]);
    server.advance(Duration::from_secs(5)).await;
    assert_eq!(server.receive("orders", json!({"MaxNumberOfMessages": 10})).await.bodies(), ["a", "c"]);
}

#[tokio::test]
async fn a_message_has_its_own_delay_also_none_or_the_queues() {
    // [doc] spec 7: DelaySeconds on the message, else the queue's; 0 overrides the queue's.
    let server = SqsServer::open().await;
    server.queue("orders", Policy { delay: Duration::from_secs(10), ..Policy::standard() }).await;
    for (body, further) in
        [("queue", json!({})), ("none", json!({"DelaySeconds": 0})), ("own", json!({"DelaySeconds": 5}))]
    {
        server.send_to("orders", body, further).await.ok();
    }
    for body in ["none", "own", "queue"] {
        assert_eq!(server.receive("orders", json!({"MaxNumberOfMessages": 10})).await.bodies(), [body]);
        server.advance(Duration::from_secs(5)).await;
    }
}

#[tokio::test]
async fn xml_carries_every_character_that_is_allowed() {
    // [rec] spec 1.2: bodies with carriage returns and with a literal `&quot;` come back unchanged; [rec] an empty
    // receive is an empty ReceiveMessageResult.
    let server = SqsServer::open().await;
    server.queue("orders", Policy::standard()).await;
    for (form, element) in [
        ("a%0D%0Ab%09c", "a&#xD;\nb\tc"),
        ("%26quot%3B", "&amp;quot;"),
        ("%3C%22%27%3E+x%2By", "&lt;&quot;'&gt; x+y"),
        ("%C3%A9%F0%9F%98%80%EF%BF%BD", "é\u{1f600}\u{fffd}"),
    ] {
        server.query(&format!("Action=SendMessage&QueueUrl=orders&MessageBody={form}")).await.ok();
        let received = server.query("Action=ReceiveMessage&QueueUrl=orders").await;
        assert!(received.ok().contains(&format!("<Body>{element}</Body></Message>")), "{}", received.body);
    }
    assert!(
        server.query("Action=ReceiveMessage&QueueUrl=orders").await.ok().contains("<ReceiveMessageResult/>")
    );
}

// Half of a surrogate pair is no character: the service names the characters that a message may hold.
/// Vendor: API Reference, SendMessage, error InvalidMessageContents; the text was recorded from the service
#[tokio::test]
async fn half_a_surrogate_pair_is_refused_with_the_text_of_bad_characters() {
    let server = SqsServer::open().await;
    server.ask("CreateQueue", r#"{"QueueName":"orders"}"#).await.ok();
    for half in [r"\ud800", r"\udc00", r"\ud800x", r"\ud800\n", r"\ud800A", r"\ud800\ud800"] {
        let body = format!(r#"{{"QueueUrl":"orders","MessageBody":"a{half}"}}"#);
        let answer = server.ask("SendMessage", &body).await;
        let told = answer.header("x-amzn-query-error");
        assert_eq!(
            (answer.status, told),
            (400, Some("InvalidMessageContents;Sender")),
            "{half}: {}",
            answer.body
        );
        assert!(answer.body.contains("Valid unicode characters are #x9 | #xA"), "{half}: {}", answer.body);
    }
    server.ask("SendMessage", r#"{"QueueUrl":"orders","MessageBody":"\ud83d\ude00"}"#).await.ok();
}

/// Vendor: recorded from the service: bad characters fail an entry of a batch, and are a wrong value in an attribute
#[tokio::test]
async fn half_a_surrogate_pair_is_refused_where_it_stands() {
    let server = SqsServer::open().await;
    server.ask("CreateQueue", r#"{"QueueName":"orders"}"#).await.ok();
    let body = r#"{"QueueUrl":"orders","Entries":[{"Id":"a","MessageBody":"good \ud83d\ude00"},{"Id":"b","MessageBody":"x\ud800y"}]}"#;
    let answer = server.ask("SendMessageBatch", body).await;
    answer.ok();
    let answer = answer.json();
    assert_eq!((&answer["Successful"][0]["Id"], &answer["Failed"][0]["Id"]), (&json!("a"), &json!("b")));
    assert_eq!(answer["Failed"][0]["Code"], "InvalidMessageContents");
    let body = r#"{"QueueUrl":"orders","MessageBody":"m","MessageAttributes":{"a":{"DataType":"String","StringValue":"\udc00"}}}"#;
    for (action, body) in [("SendMessage", body), ("CreateQueue", r#"{"QueueName":"g\ud800"}"#)] {
        let refused = server.ask(action, body).await;
        let code = refused.header("x-amzn-query-error");
        assert_eq!((refused.status, code), (400, Some("InvalidParameterValue;Sender")), "{action}");
    }
}

/// Vendor: recorded from the service: an ARN as QueueUrl is understood
#[tokio::test]
async fn a_queue_is_found_by_its_arn_in_its_own_region_only() {
    let server = SqsServer::open().await;
    server.ask("CreateQueue", r#"{"QueueName":"orders"}"#).await.ok();
    let send = |arn: &str| server.call("SendMessage", json!({"QueueUrl": arn, "MessageBody": "m"}));
    send("arn:aws:sqs:us-east-1:000000000000:orders").await.ok();
    let elsewhere = send("arn:aws:sqs:eu-west-1:000000000000:orders").await;
    let code = "AWS.SimpleQueueService.NonExistentQueue;Sender";
    assert_eq!((elsewhere.status, elsewhere.header("x-amzn-query-error")), (400, Some(code)));
}
