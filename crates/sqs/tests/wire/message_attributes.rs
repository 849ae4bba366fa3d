//! Attributes of messages: sent, checked, hashed, chosen and handed back.

use kew_core::Policy;
use serde_json::{Value, json};

use super::server::{SqsAnswer, SqsServer};

fn string(value: &str) -> Value {
    json!({"DataType": "String", "StringValue": value})
}

async fn with_queue() -> SqsServer {
    let server = SqsServer::open().await;
    server.queue("orders", Policy::standard()).await;
    server
}

#[tokio::test]
async fn attributes_come_back_as_they_were_sent_with_their_hash() {
    let server = with_queue().await;
    let attributes = json!({
        "trace.id": string("é \u{1f600}"),
        "n": {"DataType": "Number.money", "StringValue": "-007.50e3"},
        "blob": {"DataType": "Binary.gif", "BinaryValue": "AP8="},
    });
    let sent = server.send_to("orders", "m", json!({"MessageAttributes": attributes})).await;
    let received = server.receive("orders", json!({"MessageAttributeNames": ["All"]})).await;
    let message = &received.messages()[0];
    assert_eq!(message["MessageAttributes"], attributes);
    assert_eq!(message["MD5OfMessageAttributes"].as_str(), Some(&*sent.text("MD5OfMessageAttributes")));
    assert!(message.get("Attributes").is_none());
}

/// Vendor: recorded from the service; Developer Guide, "MD5 message digest calculation for message attributes"
#[tokio::test]
async fn the_hash_is_the_one_recorded_and_covers_what_is_returned() {
    // [rec] spec 7a: check values; on receive the MD5 covers the returned attributes only, absent when none are.
    let server = with_queue().await;
    let timestamp = json!({"DataType": "Number", "StringValue": "1493147359900"});
    let both = json!({"timestamp": timestamp, "k": string("x")});
    let sent = server.send_to("orders", "m", json!({"MessageAttributes": both})).await;
    let alone = server.send_to("orders", "m", json!({"MessageAttributes": {"timestamp": timestamp}})).await;
    assert_eq!(alone.text("MD5OfMessageAttributes"), "235c5c510d26fb653d073faed50ae77c");
    for (names, chosen, hash) in [
        (json!(["k"]), vec!["k"], Some("a45daa70926828a2f0a1db3418e6feb4")),
        (json!(["time.*", "x"]), vec!["timestamp"], Some("235c5c510d26fb653d073faed50ae77c")),
        (json!(["*"]), vec!["k", "timestamp"], Some(&*sent.text("MD5OfMessageAttributes"))),
        (json!([".*"]), vec!["k", "timestamp"], Some(&*sent.text("MD5OfMessageAttributes"))),
        (json!(["k", "timestamp"]), vec!["k", "timestamp"], Some(&*sent.text("MD5OfMessageAttributes"))),
        (json!(["AWS.", "..foo", "none"]), vec![], None),
        (json!([]), vec![], None),
        (json!(null), vec![], None),
    ] {
        let asked = json!({"MessageAttributeNames": names, "VisibilityTimeout": 0});
        let message = server.receive("orders", asked).await.messages().remove(0);
        let found: Vec<&str> =
            message["MessageAttributes"].as_object().into_iter().flatten().map(|(name, _)| &**name).collect();
        assert_eq!((found, message["MD5OfMessageAttributes"].as_str()), (chosen, hash), "{names}");
        assert_eq!(message.get("MessageAttributes").is_some(), hash.is_some(), "absent, not empty");
    }
}

// [rec] spec 7a: an empty value, names and types that are too long, `! " § ( ?`, periods at either end.
/// Vendor: Developer Guide, "Message attribute components"; the text was recorded from the service
#[tokio::test]
async fn attributes_that_are_not_allowed_are_refused_with_the_reason() {
    let server = with_queue().await;
    let long = "n".repeat(257);
    for (name, value, message) in [
        ("x y", string("v"), "The message attribute name 'x y' is invalid. Attribute name can contain A-Z, a-z, 0-9, underscore (_), hyphen (-), and period (.) characters.".to_owned()),
        ("timestamp", json!({"DataType": "Time", "StringValue": "v"}), "The message attribute 'timestamp' has an invalid message attribute type, the set of supported type prefixes is Binary, Number, and String.".to_owned()),
        ("ErrorDetails", string(""), "Message (user) attribute 'ErrorDetails' must contain a non-empty value of type 'String'.".to_owned()),
        ("ErrorDetails", json!({"DataType": "String"}), "Message (user) attribute 'ErrorDetails' must contain a non-empty value of type 'String'.".to_owned()),
        ("n", json!({"DataType": "Number", "StringValue": "seven"}), "Can't cast the value of message (user) attribute 'n' to a number.".to_owned()),
        ("b", json!({"DataType": "Binary", "StringValue": "v"}), "The message attribute 'b' with type 'Binary' must use field 'Binary'.".to_owned()),
        ("s", json!({"DataType": "String", "BinaryValue": "AA=="}), "The message attribute 's' with type 'String' must use field 'String'.".to_owned()),
        // [rec] spec 5.8: forbidden characters in an attribute value are an InvalidParameterValue.
        ("s", string("\u{1}"), "Invalid characters found. Valid unicode characters are #x9 | #xA | #xD | #x20 to #xD7FF | #xE000 to #xFFFD | #x10000 to #x10FFFF".to_owned()),
        (&long, string("v"), format!("The message attribute name '{long}' is invalid. Attribute name can be at most 256 characters long.")),
    ] {
        let sent = server.send_to("orders", "m", json!({"MessageAttributes": {name: value}})).await;
        sent.is_invalid(&message);
    }
    let eleven: serde_json::Map<String, Value> = (0..11).map(|n| (format!("a{n}"), string("v"))).collect();
    let sent = server.send_to("orders", "m", json!({"MessageAttributes": eleven})).await;
    sent.is_invalid("Number of message attributes [11] exceeds the allowed maximum [10].");
    let sent = server
        .send_to(
            "orders",
            "m",
            json!({"MessageAttributes": {"b": {"DataType": "Binary", "BinaryValue": "*"}}}),
        )
        .await;
    assert_eq!(sent.header("x-amzn-query-error"), Some("SerializationException;Sender"));
    assert_eq!(server.receive("orders", json!({})).await.ok(), "{}", "nothing of it was sent");
}

/// Vendor: recorded from the service: an accented first letter is refused, one further on is not
#[tokio::test]
async fn accented_names_and_two_periods_in_a_row_pass() {
    // [rec] spec 7a: `attr.1øßä` passes, `..` in the middle was not rejected.
    let server = with_queue().await;
    let attributes = json!({"attr.1øßä": string("v"), "a..b": string("w")});
    server.send_to("orders", "m", json!({"MessageAttributes": attributes})).await.ok();
    let received = server.receive("orders", json!({"MessageAttributeNames": ["attr.1øßä", "a.*"]})).await;
    assert_eq!(received.messages()[0]["MessageAttributes"], attributes);
    // An accented first letter was recorded to be refused.
    let attributes = json!({"öther": string("v")});
    let refused = server.send_to("orders", "m", json!({"MessageAttributes": attributes})).await;
    assert_eq!(refused.status, 400);
    let text = "The message attribute name 'öther' is invalid. Attribute name can contain A-Z, a-z, 0-9, underscore (_), hyphen (-), and period (.) characters.";
    assert!(refused.body.contains(text), "{}", refused.body);
}

#[tokio::test]
async fn attributes_count_towards_the_size_of_a_message() {
    // [rec] spec 7: size is the body and name, type and value of each attribute; system attributes do not count.
    let server = SqsServer::open().await;
    server.queue("orders", Policy { body_bytes_max: 1_024, ..Policy::standard() }).await;
    let attributes = json!({"MessageAttributes": {"k": string("x")}});
    server.send_to("orders", &"m".repeat(1_016), attributes.clone()).await.ok();
    server
        .send_to("orders", &"m".repeat(1_017), attributes)
        .await
        .is_invalid("One or more parameters are invalid. Reason: Message must be shorter than 1024 bytes.");
    let traced = json!({"MessageSystemAttributes": {"AWSTraceHeader": string("Root=1")}});
    server.send_to("orders", &"m".repeat(1_024), traced).await.ok();
}

#[tokio::test]
async fn a_trace_header_comes_from_the_request_or_from_its_http_header() {
    // [rec] spec 7a: check value of the system MD5; it never influences MD5OfMessageAttributes; the HTTP header counts
    // when no attribute was given.
    let server = with_queue().await;
    let trace = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1";
    let given = json!({"MessageAttributes": {"k": string("x")}, "MessageSystemAttributes": {"AWSTraceHeader": string(trace)}});
    let sent = server.send_to("orders", "m", given).await;
    assert_eq!(sent.text("MD5OfMessageSystemAttributes"), "5ae4d5d7636402d80f4eb6d213245a88");
    assert_eq!(sent.text("MD5OfMessageAttributes"), "a45daa70926828a2f0a1db3418e6feb4");
    let asked = json!({"MessageSystemAttributeNames": ["AWSTraceHeader"]});
    let received = server.receive("orders", asked.clone()).await;
    assert_eq!(received.messages()[0]["Attributes"], json!({"AWSTraceHeader": trace}));
    assert!(received.messages()[0].get("MD5OfMessageAttributes").is_none());

    let plain = json!({"QueueUrl": "orders", "MessageBody": "m"});
    let explicit = json!({"QueueUrl": "orders", "MessageBody": "m", "MessageSystemAttributes": {"AWSTraceHeader": string("Root=own")}});
    for (body, found) in [(plain, "Root=http"), (explicit, "Root=own")] {
        let body = body.to_string();
        let request = format!(
            "POST / HTTP/1.1\r\nHost: kew.test\r\nX-Amz-Target: AmazonSQS.SendMessage\r\nX-Amzn-Trace-Id: Root=http\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let sent = server.send(request.as_bytes()).await;
        assert_eq!(sent.ok().contains("MD5OfMessageSystemAttributes"), found == "Root=own");
        let received = server.receive("orders", asked.clone()).await;
        assert_eq!(received.messages()[0]["Attributes"], json!({"AWSTraceHeader": found}));
    }
    let wrong = json!({"MessageSystemAttributes": {"SenderId": string("me")}});
    server
        .send_to("orders", "m", wrong)
        .await
        .is_invalid("Message system attribute name 'SenderId' is invalid.");
}

#[tokio::test]
async fn the_query_protocol_says_the_same_in_forms_and_elements() {
    let server = with_queue().await;
    let sent = server
        .query("Action=SendMessage&QueueUrl=orders&MessageBody=a%3Cb&MessageAttribute.1.Name=k&MessageAttribute.1.Value.DataType=String&MessageAttribute.1.Value.StringValue=x&MessageAttribute.2.Name=b&MessageAttribute.2.Value.DataType=Binary&MessageAttribute.2.Value.BinaryValue=AP8%3D")
        .await;
    let hash = sent.body.split("<MD5OfMessageAttributes>").nth(1).and_then(|rest| rest.split('<').next());
    let hash = hash.expect("attributes were sent").to_owned();
    let received = server
        .query("Action=ReceiveMessage&QueueUrl=orders&MessageAttributeName.1=All&VisibilityTimeout=0")
        .await;
    let elements = format!(
        "<Body>a&lt;b</Body><MD5OfMessageAttributes>{hash}</MD5OfMessageAttributes><MessageAttribute><Name>b</Name><Value><BinaryValue>AP8=</BinaryValue><DataType>Binary</DataType></Value></MessageAttribute><MessageAttribute><Name>k</Name><Value><StringValue>x</StringValue><DataType>String</DataType></Value></MessageAttribute></Message></ReceiveMessageResult>"
    );
    assert!(received.ok().contains(&elements), "{}", received.body);
    let one = server.query("Action=ReceiveMessage&QueueUrl=orders&MessageAttributeName.1=k").await;
    assert!(
        one.ok()
            .contains("<MD5OfMessageAttributes>a45daa70926828a2f0a1db3418e6feb4</MD5OfMessageAttributes>")
    );
}
