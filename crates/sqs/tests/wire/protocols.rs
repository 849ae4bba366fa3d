//! The edges of both protocols: where a queue is named, how parameters come, what a reply looks like for each client,
//! and refusals that are made before a request is read.

use super::server::{Answer, SqsAnswer, SqsServer};

async fn send(server: &SqsServer, head: &str, body: &str) -> Answer {
    let host = if head.contains("Host: ") { "" } else { "Host: kew.test\r\n" };
    let bytes = format!("{head}\r\n{host}Content-Length: {}\r\n\r\n{body}", body.len());
    server.send(bytes.as_bytes()).await
}

async fn with_orders() -> SqsServer {
    let server = SqsServer::open().await;
    server.ask("CreateQueue", r#"{"QueueName":"orders"}"#).await.ok();
    server
}

const FORM: &str = "Content-Type: application/x-www-form-urlencoded";

#[tokio::test]
async fn query_parameters_come_in_the_url_in_the_body_or_in_both() {
    let server = with_orders().await;
    let path = "/000000000000/orders";
    for (head, body) in [
        ("GET /?Action=SendMessage&QueueUrl=orders&MessageBody=m HTTP/1.1".to_owned(), ""),
        (format!("GET {path}?Action=SendMessage&MessageBody=m HTTP/1.1"), ""),
        (format!("GET {path}/?Action=SendMessage&MessageBody=m HTTP/1.1"), ""),
        (format!("POST / HTTP/1.1\r\n{FORM}"), "Action=SendMessage&QueueUrl=orders&MessageBody=m"),
        (format!("POST {path} HTTP/1.1\r\n{FORM}"), "Action=SendMessage&MessageBody=m"),
        (format!("POST {path}?Action=SendMessage HTTP/1.1\r\n{FORM}"), "MessageBody=m"),
        (format!("POST {path}?MessageBody=m HTTP/1.1\r\n{FORM}; charset=utf-8"), "Action=SendMessage"),
        (format!("POST {path} HTTP/1.1"), "Action=SendMessage&MessageBody=m"),
        // [rec] spec 1.2: QueueUrl overrides the path.
        (
            format!("POST /000000000000/other HTTP/1.1\r\n{FORM}"),
            "Action=SendMessage&MessageBody=m&QueueUrl=http%3A%2F%2Fh%2F000000000000%2Forders",
        ),
        (
            format!("POST {path} HTTP/1.1\r\n{FORM}"),
            "Action=SendMessage&MessageBody=n&MessageBody=m&Version=1",
        ),
        (
            format!(
                "GET {path}?Action=SendMessage&MessageBody=m&X-Amz-Expires=1&X-Amz-Date=x&AWSAccessKeyId=y HTTP/1.1"
            ),
            "",
        ),
    ] {
        let answer = send(&server, &head, body).await;
        assert!(answer.ok().contains("<MD5OfMessageBody>6f8f57715090da2632453988d9a1501b<"), "{head}");
        assert_eq!(answer.header("content-type"), Some("text/xml"));
    }
}

// [rec] spec 1.1: a POST to a queue's path with the target header works, and QueueUrl in the body wins.
#[tokio::test]
async fn json_may_be_posted_to_a_queues_path() {
    let server = with_orders().await;
    for (path, content_type, body) in [
        ("/000000000000/orders", "application/x-amz-json-1.0", r#"{"MessageBody":"m"}"#),
        ("/000000000000/orders", "application/json; charset=utf-8", r#"{"MessageBody":"m"}"#),
        ("/000000000000/orders", "text/plain", r#"{"MessageBody":"m","QueueUrl":null}"#),
        ("/000000000000/other", "application/x-amz-json-1.0", r#"{"MessageBody":"m","QueueUrl":"orders"}"#),
    ] {
        let head = format!(
            "POST {path} HTTP/1.1\r\nX-Amz-Target: AmazonSQS.SendMessage\r\nX-Amzn-Query-Mode: true\r\nContent-Type: {content_type}"
        );
        let answer = send(&server, &head, body).await;
        answer.ok();
        assert_eq!(answer.header("content-type"), Some("application/x-amz-json-1.0"));
    }
    let bare = "POST / HTTP/1.1\r\nX-Amz-Target: AmazonSQS.GetQueueUrl";
    send(&server, bare, r#"{"QueueName":"orders"}"#).await.ok();
}

#[tokio::test]
async fn a_queues_path_serves_only_what_is_about_a_queue() {
    let server = with_orders().await;
    // [rec] spec 1.2: CreateQueue and ListQueues on a queue's path, and unknown actions anywhere; [rec] an empty
    // Detail.
    for (path, action) in [
        ("/000000000000/orders", "CreateQueue"),
        ("/000000000000/orders", "ListQueues"),
        ("/000000000000/orders", "FooBar"),
        ("/", "FooBar"),
        ("/", "sendmessage"),
    ] {
        let answer = send(&server, &format!("GET {path}?Action={action}&QueueName=x HTTP/1.1"), "").await;
        let told = format!(
            "<Code>InvalidAction</Code><Message>The action {action} is not valid for this endpoint.</Message><Detail/>"
        );
        assert!(answer.status == 400 && answer.body.contains(&told), "{}", answer.body);
    }
    // [rec] spec 1.2: GetQueueUrl works there.
    let head = "GET /000000000000/orders?Action=GetQueueUrl&QueueName=orders HTTP/1.1";
    assert!(send(&server, head, "").await.ok().contains("/000000000000/orders</QueueUrl>"));
    // [rec] spec 1.2: without an action 404, in XML even for those who ask for JSON.
    for accept in ["*/*", "application/json"] {
        let answer =
            send(&server, &format!("GET /000000000000/orders HTTP/1.1\r\nAccept: {accept}"), "").await;
        assert_eq!((answer.status, answer.body.as_str()), (404, "<UnknownOperationException/>\n"));
        assert_eq!(answer.header("content-type"), Some("text/xml"));
    }
}

// [rec] spec 1.2: Accept: application/json gives JSON with the key ListQueuesResponse, else XML.
/// Vendor: recorded from the service: Query requests with `Accept: application/json`
#[tokio::test]
async fn query_replies_are_json_for_those_who_ask_for_it() {
    let server = with_orders().await;
    let ask = |query: &str| format!("GET /?{query} HTTP/1.1\r\nAccept: application/json");
    let answer = send(&server, &ask("Action=ListQueues"), "").await;
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let id = answer.header("x-amzn-requestid").expect("each reply has a request id").to_owned();
    let expected = format!(
        r#"{{"ListQueuesResponse":{{"ListQueuesResult":{{"NextToken":null,"queueUrls":["http://kew.test/000000000000/orders"]}},"ResponseMetadata":{{"RequestId":"{id}"}}}}}}"#
    );
    assert_eq!(answer.ok(), expected);
    let empty = send(&server, &ask("Action=ReceiveMessage&QueueUrl=orders"), "").await;
    assert!(empty.ok().contains(r#""ReceiveMessageResult":{"messages":null}"#), "{}", empty.body);
    let done = send(&server, &ask("Action=PurgeQueue&QueueUrl=orders"), "").await;
    assert!(
        done.ok().starts_with(r#"{"PurgeQueueResponse":{"ResponseMetadata":{"RequestId":""#),
        "{}",
        done.body
    );
    // [rec] spec 1.2: to Query clients a queue that is missing is missing for this wsdl version.
    let error = send(&server, &ask("Action=PurgeQueue&QueueUrl=missing"), "").await;
    let expected = r#"{"Error":{"Type":"Sender","Code":"AWS.SimpleQueueService.NonExistentQueue","Message":"The specified queue does not exist for this wsdl version."},"RequestId":""#;
    assert!(error.status == 400 && error.body.starts_with(expected), "{}", error.body);
    assert!(
        send(&server, "GET /?Action=ListQueues HTTP/1.1\r\nAccept: */*", "").await.ok().starts_with("<?xml")
    );
}

#[tokio::test]
async fn forms_that_cannot_be_read_are_refused_whole() {
    let server = with_orders().await;
    let many = format!("Action=SendMessage&QueueUrl=orders&MessageBody=m{}", "&a=b".repeat(2_048));
    for body in [
        "Action=SendMessage&QueueUrl=orders&MessageBody=%ff",
        "Action=SendMessage&QueueUrl=orders&MessageBody=%C3%28",
        "Action=SendMessage&QueueUrl=orders&MessageBody=100%",
        "Action=SendMessage&QueueUrl=orders&MessageBody=m&%zz=1",
        many.as_str(),
    ] {
        let answer = send(&server, &format!("POST / HTTP/1.1\r\n{FORM}"), body).await;
        assert_eq!(
            (answer.status, answer.header("x-amzn-query-error")),
            (400, Some("MalformedQueryString;Sender"))
        );
        assert!(answer.body.contains("<Code>MalformedQueryString</Code>"), "{}", answer.body);
    }
    let empty = server.ask("ReceiveMessage", r#"{"QueueUrl":"orders"}"#).await;
    assert_eq!(empty.ok(), "{}");
}

#[tokio::test]
async fn what_the_listener_refuses_is_worded_in_the_requests_protocol() {
    let server = with_orders().await;
    let json = "X-Amz-Target: AmazonSQS.ListQueues";
    let large = "x".repeat((2 << 20) + 1);
    // A batch of ten messages of 1 MiB is not read to its end, and is what it would be: too long.
    let batch = "POST / HTTP/1.1\r\nHost: kew.test\r\nX-Amz-Target: AmazonSQS.SendMessageBatch";
    let answer = send(&server, batch, &large).await;
    let code = "AWS.SimpleQueueService.BatchRequestTooLong;Sender";
    assert_eq!((answer.status, answer.header("x-amzn-query-error")), (400, Some(code)), "{}", answer.body);
    for (head, body, status, code) in [
        ("Host: evil.example", "{}", 421, "MisdirectedRequest"),
        ("Host: kew.test\r\nSec-Fetch-Site: cross-site", "{}", 403, "AccessDenied"),
        ("Host: kew.test\r\nOrigin: http://evil.example", "{}", 403, "AccessDenied"),
        ("Host: a b", "{}", 400, "MalformedHttpRequest"),
        ("Host: kew.test", large.as_str(), 413, "RequestEntityTooLarge"),
    ] {
        let query_code = format!("{code};Sender");
        let answer = send(&server, &format!("POST / HTTP/1.1\r\n{json}\r\n{head}"), body).await;
        assert_eq!((answer.status, answer.header("x-amzn-query-error")), (status, Some(query_code.as_str())));
        assert!(answer.body.starts_with(r#"{"__type":"com.amazon.coral.service#"#), "{}", answer.body);
        assert!(answer.header("x-amzn-requestid").is_some());
        let answer = send(&server, &format!("POST / HTTP/1.1\r\n{FORM}\r\n{head}"), body).await;
        assert_eq!((answer.status, answer.header("x-amzn-query-error")), (status, Some(query_code.as_str())));
        assert!(answer.body.contains(&format!("<Code>{code}</Code>")), "{}", answer.body);
    }
}

// Tools ask the security token service, at the same endpoint, who they are before they begin.
/// Vendor: STS API Reference, GetCallerIdentity
#[tokio::test]
async fn the_caller_gets_its_own_identity() {
    let server = SqsServer::open().await;
    let answer = server.query("Action=GetCallerIdentity&Version=2011-06-15").await;
    let identity = "<GetCallerIdentityResult><Arn>arn:aws:iam::000000000000:root</Arn><UserId>000000000000</UserId><Account>000000000000</Account></GetCallerIdentityResult>";
    assert!(answer.ok().contains(identity), "{}", answer.body);
    assert!(answer.body.contains(r#"xmlns="https://sts.amazonaws.com/doc/2011-06-15/""#), "{}", answer.body);
    let other = server.query("Action=GetSessionToken&Version=2011-06-15").await;
    assert_eq!(other.header("x-amzn-query-error"), Some("InvalidAction;Sender"));
    // A message that only mentions it is a message.
    server.ask("CreateQueue", r#"{"QueueName":"orders"}"#).await.ok();
    let sent = server.query("Action=SendMessage&QueueUrl=orders&MessageBody=GetCallerIdentity").await;
    assert!(sent.ok().contains("<MessageId>"), "{}", sent.body);
}
