//! Thousands of requests that were legal once, and were then changed at random: whatever comes, the answer is a
//! well-formed one in the request's protocol, and the fault is never the server's.

use std::time::Duration;

use kew_http::xml;
use kew_testing::Random;
use serde_json::Value;

use super::server::{Answer, SqsAnswer, SqsServer};
use super::strict::{key, server, signer};
use kew_testing::PlainRequest;

const JSON: &[(&str, &str)] = &[
    (
        "SendMessage",
        r#"{"QueueUrl":"orders","MessageBody":"m","DelaySeconds":0,"MessageAttributes":{"a":{"DataType":"String","StringValue":"v"}}}"#,
    ),
    (
        "SendMessage",
        r#"{"QueueUrl":"orders.fifo","MessageBody":"m","MessageGroupId":"g","MessageDeduplicationId":"d"}"#,
    ),
    (
        "SendMessageBatch",
        r#"{"QueueUrl":"orders","Entries":[{"Id":"a","MessageBody":"m"},{"Id":"b","MessageBody":"n"}]}"#,
    ),
    (
        "ReceiveMessage",
        r#"{"QueueUrl":"orders","MaxNumberOfMessages":10,"VisibilityTimeout":30,"AttributeNames":["All"],"MessageAttributeNames":["a.*"]}"#,
    ),
    ("ReceiveMessage", r#"{"QueueUrl":"orders.fifo","ReceiveRequestAttemptId":"x"}"#),
    ("DeleteMessage", r#"{"QueueUrl":"orders","ReceiptHandle":"AAAA"}"#),
    ("DeleteMessageBatch", r#"{"QueueUrl":"orders","Entries":[{"Id":"a","ReceiptHandle":"AAAA"}]}"#),
    ("ChangeMessageVisibility", r#"{"QueueUrl":"orders","ReceiptHandle":"AAAA","VisibilityTimeout":5}"#),
    (
        "ChangeMessageVisibilityBatch",
        r#"{"QueueUrl":"orders","Entries":[{"Id":"a","ReceiptHandle":"AAAA","VisibilityTimeout":5}]}"#,
    ),
    ("CreateQueue", r#"{"QueueName":"q1","Attributes":{"DelaySeconds":"5"},"tags":{"k":"v"}}"#),
    ("GetQueueUrl", r#"{"QueueName":"orders","QueueOwnerAWSAccountId":"000000000000"}"#),
    ("ListQueues", r#"{"QueueNamePrefix":"o","MaxResults":1,"NextToken":"x"}"#),
    ("GetQueueAttributes", r#"{"QueueUrl":"orders","AttributeNames":["All"]}"#),
    (
        "SetQueueAttributes",
        r#"{"QueueUrl":"orders","Attributes":{"RedrivePolicy":"{\"deadLetterTargetArn\":\"arn:aws:sqs:us-east-1:000000000000:q1\",\"maxReceiveCount\":\"3\"}"}}"#,
    ),
    (
        "SetQueueAttributes",
        r#"{"QueueUrl":"orders","Attributes":{"Policy":"{\"Statement\":[{\"Effect\":\"Allow\",\"Principal\":\"*\",\"Action\":\"sqs:*\",\"Resource\":\"*\"}]}"}}"#,
    ),
    ("DeleteQueue", r#"{"QueueUrl":"q1"}"#),
    ("PurgeQueue", r#"{"QueueUrl":"orders"}"#),
    ("TagQueue", r#"{"QueueUrl":"orders","Tags":{"k":"v"}}"#),
    ("UntagQueue", r#"{"QueueUrl":"orders","TagKeys":["k"]}"#),
    ("ListQueueTags", r#"{"QueueUrl":"orders"}"#),
    ("ListDeadLetterSourceQueues", r#"{"QueueUrl":"q1","MaxResults":5}"#),
    (
        "StartMessageMoveTask",
        r#"{"SourceArn":"arn:aws:sqs:us-east-1:000000000000:q1","MaxNumberOfMessagesPerSecond":5}"#,
    ),
    ("ListMessageMoveTasks", r#"{"SourceArn":"arn:aws:sqs:us-east-1:000000000000:q1","MaxResults":5}"#),
    ("CancelMessageMoveTask", r#"{"TaskHandle":"eyJ0YXNrSWQiOiJ4In0="}"#),
    (
        "AddPermission",
        r#"{"QueueUrl":"orders","Label":"l","AWSAccountIds":["000000000001"],"Actions":["SendMessage"]}"#,
    ),
    ("RemovePermission", r#"{"QueueUrl":"orders","Label":"l"}"#),
];

const FORMS: &[&str] = &[
    "Action=SendMessage&QueueUrl=orders&MessageBody=m&MessageAttribute.1.Name=a&MessageAttribute.1.Value.DataType=Binary&MessageAttribute.1.Value.BinaryValue=AAE%3D",
    "Action=SendMessageBatch&QueueUrl=orders&SendMessageBatchRequestEntry.1.Id=a&SendMessageBatchRequestEntry.1.MessageBody=m",
    "Action=ReceiveMessage&QueueUrl=orders&AttributeName.1=All&MaxNumberOfMessages=2",
    "Action=CreateQueue&QueueName=q2&Attribute.1.Name=VisibilityTimeout&Attribute.1.Value=5&Tag.1.Key=k&Tag.1.Value=v",
    "Action=SetQueueAttributes&QueueUrl=orders&Attribute.Name=DelaySeconds&Attribute.Value=0",
    "Action=ListQueues&QueueNamePrefix=o&MaxResults=3",
    "Action=GetQueueAttributes&QueueUrl=orders&AttributeName.1=QueueArn",
    "Action=AddPermission&QueueUrl=orders&Label=m&AWSAccountId.1=000000000001&ActionName.1=*",
    "Action=DeleteMessageBatch&QueueUrl=orders&DeleteMessageBatchRequestEntry.1.Id=a&DeleteMessageBatchRequestEntry.1.ReceiptHandle=x",
    "Action=UntagQueue&QueueUrl=orders&TagKey.1=k",
];

/// What is put in place of something legal.
const ODD: &[&str] = &[
    "",
    "null",
    "true",
    "-1",
    "0",
    "1e999",
    "99999999999999999999",
    "0.5",
    "[]",
    "{}",
    "[[[[[[[[",
    "\"\"",
    "\"\\ud800\"",
    "\"\\u0000\"",
    "\u{0}",
    "\u{7f}",
    "\u{fffe}",
    "é",
    "😀",
    "%",
    "%00",
    "%ff",
    "%2e%2e",
    "+",
    "&",
    "=",
    ".",
    "..",
    ";",
    "<",
    "<![CDATA[",
    "&amp;",
    "'",
    "\\",
    "/",
    "//",
    "*",
    "${aws:username}",
    "arn:aws:sqs:::",
];

/// A legal request, and then some changes.
fn request(random: &mut Random) -> PlainRequest {
    let mut plain = if random.below(2) == 0 {
        let (action, body) = random.one_of(JSON);
        PlainRequest::json(action, body)
    } else if random.below(2) == 0 {
        PlainRequest::form(
            random.one_of(&["/", "/000000000000/orders", "/000000000000/missing"]),
            random.one_of(FORMS),
        )
    } else {
        PlainRequest::get(&format!("/?{}", random.one_of(FORMS)))
    };
    for _ in 0..random.below(4) {
        change(&mut plain, random);
    }
    plain
}

fn change(plain: &mut PlainRequest, random: &mut Random) {
    match random.below(9) {
        0..=3 => plain.body = spliced(&plain.body, random),
        4 => plain.target = format!("/{}", legal_target(&spliced(&plain.target, random))),
        5 => {
            let (_, other) = random.one_of(JSON);
            plain.body = other.to_owned();
        }
        6 => {
            let place = random.place(plain.headers.len() + 1);
            match plain.headers.get_mut(place) {
                Some(header) => header.1 = legal_header(&spliced(&header.1, random)),
                None => plain.set("accept", "application/json"),
            }
        }
        7 => plain.method = random.one_of(&["GET", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"]),
        _ => plain.set(
            random.one_of(&["x-amz-target", "x-amz-date", "authorization", "x-amzn-query-mode"]),
            "AmazonSQS.SendMessage",
        ),
    }
}

/// A piece of a text doubled, left out, or replaced by something odd.
fn spliced(text: &str, random: &mut Random) -> String {
    let chars: Vec<char> = text.chars().collect();
    let from = random.place(chars.len() + 1);
    let to = (from + random.place(12)).min(chars.len());
    let (head, piece, tail) = (&chars[..from], &chars[from..to], &chars[to..]);
    let piece: String = piece.iter().collect();
    let piece = match random.below(4) {
        0 => String::new(),
        1 => piece.repeat(2 + random.place(40)),
        _ => random.one_of(ODD).to_owned(),
    };
    head.iter().collect::<String>() + &piece + &tail.iter().collect::<String>()
}

fn legal_target(text: &str) -> String {
    text.chars()
        .filter(|c| c.is_ascii_graphic() && !"<>\"\\^`{|}#".contains(*c))
        .collect::<String>()
        .trim_start_matches('/')
        .to_owned()
}

fn legal_header(text: &str) -> String {
    text.chars().filter(|c| c.is_ascii_graphic() || *c == ' ').collect()
}

fn is_well_formed(answer: &Answer, plain: &PlainRequest) {
    assert!(answer.status < 500, "{plain:?}: {answer:?}");
    assert!(answer.header("x-amzn-requestid").is_some(), "{plain:?}: {answer:?}");
    let told = answer.header("x-amzn-query-error");
    assert_eq!(
        answer.status >= 400,
        told.is_some_and(|told| told.ends_with(";Sender")),
        "{plain:?}: {answer:?}"
    );
    match answer.header("content-type") {
        Some("application/x-amz-json-1.0") if answer.body.is_empty() => assert_eq!(answer.status, 200),
        Some("application/x-amz-json-1.0") => {
            let body: Value =
                serde_json::from_str(&answer.body).expect("an answer of the JSON protocol is JSON");
            let is_error =
                body["__type"].as_str().is_some_and(|kind| kind.contains('#')) && body["message"].is_string();
            assert_eq!(answer.status >= 400, is_error, "{plain:?}: {answer:?}");
        }
        Some("application/json") => {
            let body: Value =
                serde_json::from_str(&answer.body).expect("an answer of the JSON protocol is JSON");
            assert_eq!(answer.status >= 400, body["Error"]["Code"].is_string(), "{plain:?}: {answer:?}");
        }
        Some("text/xml") => {
            let body = xml::parse(answer.body.as_bytes(), xml::Bounds::default())
                .expect("an answer of the Query protocol is XML");
            let is_error = ["ErrorResponse", "UnknownOperationException"].contains(&body.name.as_str());
            assert_eq!(answer.status >= 400, is_error, "{plain:?}: {answer:?}");
        }
        other => panic!("{other:?} is no content type of SQS: {plain:?}: {answer:?}"),
    }
}

async fn storm(server: &SqsServer, requests: usize, random: &mut Random, sign: bool) -> usize {
    let mut served = 0;
    let mut client = server.client().await;
    for _ in 0..requests {
        let mut plain = request(random);
        if sign && random.below(8) > 0 {
            plain = signer("AKID").sign(&plain);
            if random.below(3) == 0 {
                change(&mut plain, random);
            }
        }
        client.send(&plain.bytes()).await;
        // Time stands, so a receive that was made to wait would wait for ever.
        let Ok(answer) = tokio::time::timeout(Duration::from_secs(5), client.next_answer()).await else {
            assert!(plain.body.contains("Wait") || plain.target.contains("Wait"), "no answer to {plain:?}");
            client = server.client().await;
            continue;
        };
        let answer = answer.unwrap_or_else(|| panic!("closed after {plain:?}"));
        is_well_formed(&answer, &plain);
        served += usize::from(answer.status == 200);
        if answer.header("connection") == Some("close") {
            client = server.client().await;
        }
    }
    served
}

#[tokio::test]
async fn changed_requests_get_a_well_formed_answer_in_open_mode() {
    let server = SqsServer::open().await;
    server.ask("CreateQueue", r#"{"QueueName":"orders"}"#).await.ok();
    server.ask("CreateQueue", r#"{"QueueName":"orders.fifo","Attributes":{"FifoQueue":"true"}}"#).await.ok();
    let served = storm(&server, 6_000, &mut Random::from_seed(0x9e37_79b9_7f4a_7c15), false).await;
    assert!(served > 300, "only {served} were legal: the storm tests nothing");
}

#[tokio::test]
async fn changed_requests_get_a_well_formed_answer_in_strict_mode() {
    let server = server([key("AKID", 0, None)]).await;
    let create = PlainRequest::json("CreateQueue", r#"{"QueueName":"orders"}"#);
    server.send(&signer("AKID").sign(&create).bytes()).await.ok();
    let served = storm(&server, 3_000, &mut Random::from_seed(0x2545_f491_4f6c_dd1d), true).await;
    assert!(served > 150, "only {served} were legal: the storm tests nothing");
}
