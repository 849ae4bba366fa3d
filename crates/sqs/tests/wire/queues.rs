//! CreateQueue and GetQueueUrl.

use kew_sqs::{Settings, UrlStyle};
use serde_json::json;

use super::server::{SqsAnswer, SqsServer};

#[tokio::test]
async fn a_created_queue_has_a_url_on_the_host_that_was_asked() {
    let server = SqsServer::open().await;
    let answer = server.ask("CreateQueue", r#"{"QueueName":"orders"}"#).await;
    assert_eq!(answer.ok(), r#"{"QueueUrl":"http://kew.test/000000000000/orders"}"#);
    assert_eq!(
        answer.headers_without_date(),
        [
            "content-length: 50",
            "content-type: application/x-amz-json-1.0",
            "x-amzn-requestid: 00000000-0000-4001-8000-000000000002"
        ]
    );
    let found =
        server.ask("GetQueueUrl", r#"{"QueueName":"orders","QueueOwnerAWSAccountId":"123456789012"}"#).await;
    assert_eq!(found.ok(), answer.body);
}

#[tokio::test]
async fn creating_the_same_queue_again_finds_it() {
    let server = SqsServer::open().await;
    let first = server.ask("CreateQueue", r#"{"QueueName":"orders"}"#).await;
    let again = server.ask("CreateQueue", r#"{"QueueName":"orders","Attributes":{},"tags":null}"#).await;
    assert_eq!(again.ok(), first.ok());
}

#[tokio::test]
async fn bad_names_are_refused() {
    let server = SqsServer::open().await;
    for name in ["", "a.b", "a.fifo", "a/b", "ä", &"n".repeat(81)] {
        let answer = server.ask("CreateQueue", &format!(r#"{{"QueueName":"{name}"}}"#)).await;
        answer.is_error(
            400,
            "com.amazon.coral.service#InvalidParameterValueException",
            "InvalidParameterValue;Sender",
            "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length",
        );
    }
    assert_eq!(
        server.ask("CreateQueue", &format!(r#"{{"QueueName":"{}"}}"#, "n".repeat(80))).await.status,
        200
    );
}

#[tokio::test]
async fn a_queue_that_is_not_there_has_no_url() {
    let server = SqsServer::open().await;
    server.ask("GetQueueUrl", r#"{"QueueName":"orders"}"#).await.is_error(
        400,
        "com.amazonaws.sqs#QueueDoesNotExist",
        "AWS.SimpleQueueService.NonExistentQueue;Sender",
        "The specified queue does not exist.",
    );
}

#[tokio::test]
async fn queues_of_one_region_are_not_seen_in_another() {
    let server = SqsServer::open().await;
    server.ask("CreateQueue", r#"{"QueueName":"orders"}"#).await.ok();
    let body = r#"{"QueueName":"orders"}"#;
    let elsewhere = format!(
        "POST / HTTP/1.1\r\nHost: kew.test\r\nX-Amz-Target: AmazonSQS.GetQueueUrl\r\nAuthorization: AWS4-HMAC-SHA256 Credential=k/20260101/eu-west-1/sqs/aws4_request, SignedHeaders=host, Signature=0\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    assert_eq!(server.send(elsewhere.as_bytes()).await.status, 400);
    let here = elsewhere.replace("eu-west-1", "us-east-1");
    assert_eq!(server.send(here.as_bytes()).await.status, 200);
}

#[tokio::test]
async fn urls_of_the_standard_style_lead_back_to_the_server() {
    let settings = Settings { url_style: UrlStyle::Standard, ..Settings::default() };
    let server = SqsServer::with(settings).await;
    let form = |host: &str, target: &str| {
        format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\n\r\n")
    };
    for host in ["127.0.0.1:9324", "localhost:9324", "kew.test"] {
        let created = server.send(form(host, "/?Action=CreateQueue&QueueName=orders").as_bytes()).await;
        let url = format!("http://sqs.us-east-1.{host}/000000000000/orders");
        assert!(created.ok().contains(&format!("<QueueUrl>{url}</QueueUrl>")), "{}", created.body);
        let send =
            form(&format!("sqs.us-east-1.{host}"), "/000000000000/orders?Action=SendMessage&MessageBody=m");
        server.send(send.as_bytes()).await.ok();
    }
    for host in ["sqs.us-east-1.evil.example", "sqs.evil.example", "xsqs.us-east-1.kew.test"] {
        assert_eq!(server.send(form(host, "/?Action=ListQueues").as_bytes()).await.status, 421, "{host}");
    }
}

// Properties of a CloudFormation template are members of their own there; here they would be lost.
/// Vendor: names of properties: CloudFormation reference, AWS::SQS::Queue; the text is ours
#[tokio::test]
async fn attributes_beside_attributes_are_refused_by_name() {
    let server = SqsServer::open().await;
    let properties =
        json!({"QueueName": "orders", "VisibilityTimeout": 60, "DelaySeconds": "5", "Colour": 1});
    let answer = server.call("CreateQueue", properties).await;
    let text = "DelaySeconds, VisibilityTimeout must be given in Attributes, as a map of strings, and not as members of the request.";
    let kind = "com.amazon.coral.service#InvalidParameterValueException";
    answer.is_error(400, kind, "InvalidParameterValue;Sender", text);
    server.call("CreateQueue", json!({"QueueName": "orders", "Colour": 1})).await.ok();
}
