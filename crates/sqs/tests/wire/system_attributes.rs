//! What SQS itself tells of a message.

use std::time::Duration;

use kew_core::Policy;
use kew_sqs::Settings;
use serde_json::json;

use super::server::{SqsAnswer, SqsServer};

#[tokio::test]
async fn all_of_a_plain_message_are_four_and_the_count_rises() {
    let server = SqsServer::open().await;
    server.queue("orders", Policy::standard()).await;
    let sent_at = server.now();
    server.send_to("orders", "m", json!({})).await.ok();
    server.advance(Duration::from_millis(1_234)).await;
    let first_at = server.now();
    for count in 1..4 {
        let received = server.receive("orders", json!({"AttributeNames": ["All"]})).await;
        let expected = json!({
            "SenderId": "000000000000",
            "SentTimestamp": sent_at.to_string(),
            "ApproximateReceiveCount": count.to_string(),
            "ApproximateFirstReceiveTimestamp": first_at.to_string(),
        });
        assert_eq!(received.messages()[0]["Attributes"], expected);
        server.advance(Duration::from_secs(30)).await;
    }
}

#[tokio::test]
async fn both_lists_of_names_count_and_unknown_names_are_refused() {
    // [rec] spec 5.10: the union of AttributeNames and MessageSystemAttributeNames.
    let server = SqsServer::open().await;
    server.queue("orders", Policy::standard()).await;
    server.send_to("orders", "m", json!({})).await.ok();
    let asked = json!({"AttributeNames": ["ApproximateReceiveCount", "QueueArn"], "MessageSystemAttributeNames": ["SenderId", "SequenceNumber"], "VisibilityTimeout": 0});
    let message = server.receive("orders", asked).await.messages().remove(0);
    assert_eq!(message["Attributes"], json!({"ApproximateReceiveCount": "1", "SenderId": "000000000000"}));
    let message =
        server.receive("orders", json!({"AttributeNames": ["Policy"], "VisibilityTimeout": 0})).await;
    assert!(message.messages()[0].get("Attributes").is_none(), "absent, not empty");
    server.receive("orders", json!({"MessageSystemAttributeNames": ["Colour"]})).await.is_error(
        400,
        "com.amazonaws.sqs#InvalidAttributeName",
        "InvalidAttributeName;Sender",
        "Unknown Attribute Colour.",
    );
}

#[tokio::test]
async fn the_sender_is_who_sent_it() {
    let server = SqsServer::with(Settings { sender: "AIDAEXAMPLE".into(), ..Settings::default() }).await;
    server.queue("orders", Policy::standard()).await;
    server.send_to("orders", "m", json!({})).await.ok();
    let received = server.receive("orders", json!({"AttributeNames": ["SenderId"]})).await;
    assert_eq!(received.messages()[0]["Attributes"], json!({"SenderId": "AIDAEXAMPLE"}));
}

#[tokio::test]
async fn in_xml_each_is_an_attribute_element() {
    let server = SqsServer::open().await;
    server.queue("orders", Policy::standard()).await;
    let sent_at = server.now();
    server.query("Action=SendMessage&QueueUrl=orders&MessageBody=m").await.ok();
    let received = server.query("Action=ReceiveMessage&QueueUrl=orders&AttributeName.1=SentTimestamp&AttributeName.2=ApproximateReceiveCount").await;
    let elements = format!(
        "<Attribute><Name>SentTimestamp</Name><Value>{sent_at}</Value></Attribute><Attribute><Name>ApproximateReceiveCount</Name><Value>1</Value></Attribute></Message>"
    );
    assert!(received.ok().contains(&elements), "{}", received.body);
}
