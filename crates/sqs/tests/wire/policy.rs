//! Queues of other accounts: who may use them, and what AddPermission and RemovePermission do about it. Strict mode.

use bytes::Bytes;
use kew_core::command::UpdateQueue;
use kew_core::{AccountId, DocumentKey, QueueKey};
use serde_json::{Value, json};

use super::server::{Answer, SqsAnswer, SqsServer};
use super::strict::{key, server, signer};
use kew_testing::PlainRequest;

const ORDERS: &str = "http://kew.test/000000000001/orders";
const ARN: &str = "arn:aws:sqs:us-east-1:000000000001:orders";

async fn two_accounts() -> SqsServer {
    let server = server([
        key("ROOT1", 1, None),
        key("ANNA1", 1, Some("anna")),
        key("ROOT2", 2, None),
        key("BOB2", 2, Some("bob")),
        key("ROOT3", 3, None),
    ]);
    let server = server.await;
    call(&server, "ROOT1", "CreateQueue", json!({ "QueueName": "orders" })).await.ok();
    server
}

async fn call(server: &SqsServer, id: &str, action: &str, body: Value) -> Answer {
    let plain = PlainRequest::json(action, &body.to_string());
    server.send(&signer(id).sign(&plain).bytes()).await
}

async fn send(server: &SqsServer, id: &str) -> u16 {
    call(server, id, "SendMessage", json!({ "QueueUrl": ORDERS, "MessageBody": "m" })).await.status
}

/// The policy as it is stored.
fn policy(server: &SqsServer) -> Option<Value> {
    let queue = server
        .engine
        .queue(&QueueKey::new(AccountId(1), "us-east-1", "orders"))
        .expect("the queue `orders` of account 1 exists");
    let text = queue.documents.get(&DocumentKey::new("sqs", "policy"))?;
    Some(serde_json::from_slice(text).expect("a stored policy is JSON"))
}

async fn set_policy(server: &SqsServer, policy: &str) {
    let queue = server
        .engine
        .queue(&QueueKey::new(AccountId(1), "us-east-1", "orders"))
        .expect("the queue `orders` of account 1 exists");
    let text = Bytes::copy_from_slice(policy.as_bytes());
    let update = UpdateQueue {
        queue: queue.id,
        if_version: None,
        policy: None,
        documents: vec![(DocumentKey::new("sqs", "policy"), Some(text))],
        rename: None,
    };
    server.engine.update_queue(update).await.expect("the queue that is changed exists");
}

fn add(label: &str, accounts: &[&str], actions: &[&str]) -> Value {
    json!({ "QueueUrl": ORDERS, "Label": label, "AWSAccountIds": accounts, "Actions": actions })
}

// Spec 9: other account needs a matching Allow; default deny.
#[tokio::test]
async fn another_account_is_refused_until_it_is_allowed() {
    let server = two_accounts().await;
    let refused =
        call(&server, "BOB2", "SendMessage", json!({ "QueueUrl": ORDERS, "MessageBody": "m" })).await;
    refused.is_error(
        403,
        "com.amazon.coral.service#AccessDeniedException",
        "AccessDenied;Sender",
        &format!("User: arn:aws:iam::000000000002:user/bob is not authorized to perform: sqs:sendmessage on resource: {ARN} because no resource-based policy allows the sqs:sendmessage action"),
    );
    call(&server, "ROOT1", "AddPermission", add("two", &["000000000002"], &["SendMessage"])).await.ok();
    assert_eq!(
        (send(&server, "BOB2").await, send(&server, "ROOT2").await, send(&server, "ROOT3").await),
        (200, 200, 403)
    );
    let entries = json!({ "QueueUrl": ORDERS, "Entries": [{ "Id": "a", "MessageBody": "m" }] });
    assert_ne!(call(&server, "BOB2", "SendMessageBatch", entries).await.status, 403, "batches are covered");
    let receive = json!({ "QueueUrl": ORDERS });
    assert_eq!(call(&server, "BOB2", "ReceiveMessage", receive).await.status, 403, "nothing else is");
    let form = PlainRequest::form("/000000000001/orders", "Action=SendMessage&MessageBody=m");
    server.send(&signer("BOB2").sign(&form).bytes()).await.ok();
    let bare = json!({ "QueueUrl": "orders", "MessageBody": "m" });
    assert_eq!(call(&server, "BOB2", "SendMessage", bare).await.status, 400, "a bare name is one's own");
}

#[tokio::test]
async fn a_queues_url_is_asked_for_by_its_owners_account() {
    let server = two_accounts().await;
    let find = |owner: &str| json!({ "QueueName": "orders", "QueueOwnerAWSAccountId": owner });
    assert_eq!(call(&server, "BOB2", "GetQueueUrl", find("000000000001")).await.status, 403);
    call(&server, "ROOT1", "AddPermission", add("two", &["000000000002"], &["GetQueueUrl"])).await.ok();
    assert_eq!(call(&server, "BOB2", "GetQueueUrl", find("000000000001")).await.text("QueueUrl"), ORDERS);
    for (id, owner) in [("BOB2", "000000000002"), ("BOB2", ""), ("ROOT1", "somebody"), ("ROOT1", "1")] {
        let answer = call(&server, id, "GetQueueUrl", find(owner)).await;
        assert_eq!(
            answer.header("x-amzn-query-error"),
            Some("AWS.SimpleQueueService.NonExistentQueue;Sender")
        );
    }
}

// Spec 9: cross-account never works for the owner's actions.
#[tokio::test]
async fn what_only_owners_do_no_policy_opens() {
    let server = two_accounts().await;
    set_policy(
        &server,
        &json!({
            "Version": "2012-10-17",
            "Statement": { "Effect": "Allow", "Principal": "*", "Action": "sqs:*", "Resource": "*" },
        })
        .to_string(),
    )
    .await;
    assert_eq!(send(&server, "BOB2").await, 200);
    for (action, body) in [
        ("AddPermission", add("mine", &["000000000002"], &["*"])),
        ("RemovePermission", json!({ "QueueUrl": ORDERS, "Label": "mine" })),
    ] {
        let refused = call(&server, "BOB2", action, body).await;
        assert_eq!(
            (refused.status, refused.header("x-amzn-query-error")),
            (403, Some("AccessDenied;Sender"))
        );
    }
}

// Spec 9: same account is allowed unless an explicit Deny matches.
#[tokio::test]
async fn owners_are_only_stopped_by_a_deny() {
    let server = two_accounts().await;
    let deny = json!({
        "Version": "2012-10-17",
        "Statement": {
            "Effect": "Deny",
            "Principal": { "AWS": "arn:aws:iam::000000000001:user/anna" },
            "Action": "sqs:SendMessage",
            "Resource": ARN,
        },
    });
    set_policy(&server, &deny.to_string()).await;
    assert_eq!((send(&server, "ROOT1").await, send(&server, "ANNA1").await), (200, 403));
    let refused =
        call(&server, "ANNA1", "SendMessage", json!({ "QueueUrl": ORDERS, "MessageBody": "m" })).await;
    assert!(refused.body.contains("sqs:sendmessage on resource: arn:aws:sqs:us-east-1:000000000001:orders with an explicit deny in a resource-based policy"));
    let receive = json!({ "QueueUrl": ORDERS });
    call(&server, "ANNA1", "ReceiveMessage", receive).await.ok();
    let plain = json!({
        "Statement": {
            "Effect": "Deny",
            "Principal": "*",
            "Action": "*",
            "Resource": "*",
            "Condition": { "Bool": { "aws:SecureTransport": "false" }, "IpAddress": { "aws:SourceIp": "127.0.0.0/8" } },
        },
    });
    set_policy(&server, &plain.to_string()).await;
    assert_eq!(send(&server, "ROOT1").await, 403, "facts of the connection are asked");
}

/// Vendor: Developer Guide, API permissions: a move task receives and deletes at its source, and sends to its target
#[tokio::test]
async fn a_move_task_does_nothing_that_its_caller_may_not() {
    let server = two_accounts().await;
    let arn = |name: &str| format!("arn:aws:sqs:us-east-1:000000000001:{name}");
    let url = |name: &str| format!("http://kew.test/000000000001/{name}");
    let redrive = json!({ "deadLetterTargetArn": ARN, "maxReceiveCount": 1 }).to_string();
    let source = json!({ "QueueName": "source", "Attributes": { "RedrivePolicy": redrive } });
    call(&server, "ROOT1", "CreateQueue", source).await.ok();
    call(&server, "ROOT1", "CreateQueue", json!({ "QueueName": "target" })).await.ok();
    let deny = |queue: &str, action: &str| {
        let principal = json!({ "AWS": "arn:aws:iam::000000000001:user/anna" });
        let statement =
            json!({ "Effect": "Deny", "Principal": principal, "Action": action, "Resource": arn(queue) });
        json!({ "QueueUrl": url(queue), "Attributes": { "Policy": json!({ "Statement": statement }).to_string() } })
    };
    let start = async |caller: &str, target: Option<&str>| {
        let mut start = json!({ "SourceArn": ARN });
        if let Some(target) = target {
            start["DestinationArn"] = json!(arn(target));
        }
        call(&server, caller, "StartMessageMoveTask", start).await.status
    };
    assert_eq!((start("ANNA1", Some("target")).await, start("ANNA1", None).await), (200, 200));
    for (queue, action, with_target, without) in [
        ("target", "sqs:SendMessage", 403, 200),
        ("source", "sqs:SendMessage", 200, 403),
        ("orders", "sqs:ReceiveMessage", 403, 403),
        ("orders", "sqs:DeleteMessage", 403, 403),
        ("orders", "sqs:GetQueueAttributes", 403, 403),
    ] {
        call(&server, "ROOT1", "SetQueueAttributes", deny(queue, action)).await.ok();
        let started = (start("ANNA1", Some("target")).await, start("ANNA1", None).await);
        assert_eq!(started, (with_target, without), "{action} of {queue}");
        assert_eq!(start("ROOT1", None).await, 200);
        let none = json!({ "QueueUrl": url(queue), "Attributes": { "Policy": "" } });
        call(&server, "ROOT1", "SetQueueAttributes", none).await.ok();
    }
}

#[tokio::test]
async fn an_unreadable_policy_allows_no_other_caller_and_the_owner_keeps_access() {
    let server = two_accounts().await;
    set_policy(&server, "{").await;
    assert_eq!((send(&server, "ROOT1").await, send(&server, "BOB2").await), (200, 403));
}

#[tokio::test]
async fn in_open_mode_everybody_is_the_owner_whatever_the_policy() {
    let server = SqsServer::open().await;
    server.call("CreateQueue", json!({ "QueueName": "orders" })).await.ok();
    server.call("AddPermission", json!({
        "QueueUrl": "orders", "Label": "l", "AWSAccountIds": ["000000000002"], "Actions": ["ReceiveMessage"],
    })).await.ok();
    for account in ["000000000000", "000000000001", "123456789012"] {
        let url = format!("http://kew.test/{account}/orders");
        server.call("SendMessage", json!({ "QueueUrl": url, "MessageBody": "m" })).await.ok();
    }
}

#[tokio::test]
async fn a_granted_permission_is_a_statement_of_the_policy() {
    let server = two_accounts().await;
    // [rec] spec 9: the policy AddPermission creates.
    call(&server, "ROOT1", "AddPermission", add("one", &["111111111111"], &["ReceiveMessage"])).await.ok();
    let first = json!({
        "Sid": "one",
        "Effect": "Allow",
        "Principal": { "AWS": "arn:aws:iam::111111111111:root" },
        "Action": "SQS:ReceiveMessage",
        "Resource": ARN,
    });
    let document = |statements: Vec<&Value>| json!({ "Version": "2008-10-17", "Id": format!("{ARN}/SQSDefaultPolicy"), "Statement": statements });
    assert_eq!(policy(&server), Some(document(vec![&first])));
    // [rec] spec 9: several accounts and several actions are lists, and the policy grows.
    let form = "Action=AddPermission&Label=many&AWSAccountId.1=222222222222&AWSAccountId.2=111111111111&ActionName.1=SendMessage&ActionName.2=*";
    server.send(&signer("ANNA1").sign(&PlainRequest::form("/000000000001/orders", form)).bytes()).await.ok();
    let second = json!({
        "Sid": "many",
        "Effect": "Allow",
        "Principal": { "AWS": ["arn:aws:iam::111111111111:root", "arn:aws:iam::222222222222:root"] },
        "Action": ["SQS:SendMessage", "SQS:*"],
        "Resource": ARN,
    });
    assert_eq!(policy(&server), Some(document(vec![&first, &second])));
    // [rec] spec 9: removing the last statement removes the Policy attribute.
    call(&server, "ROOT1", "RemovePermission", json!({ "QueueUrl": ORDERS, "Label": "one" })).await.ok();
    assert_eq!(policy(&server), Some(document(vec![&second])));
    call(&server, "ROOT1", "RemovePermission", json!({ "QueueUrl": ORDERS, "Label": "many" })).await.ok();
    assert_eq!(policy(&server), None);
}

#[tokio::test]
async fn permissions_that_make_no_sense_are_refused() {
    const INVALID: &str = "com.amazon.coral.service#InvalidParameterValueException";
    const MISSING: &str = "com.amazon.coral.service#MissingRequiredParameterException";
    const TWO: &[&str] = &["000000000002"];
    let server = two_accounts().await;
    call(&server, "ROOT1", "AddPermission", add("crossaccountpermission", TWO, &["*"])).await.ok();
    let before = policy(&server);
    let remove = |label: &str| json!({ "QueueUrl": ORDERS, "Label": label });
    let long = "l".repeat(81);
    for (action, body, text) in [
        // [rec] spec 9: label exists.
        (
            "AddPermission",
            add("crossaccountpermission", TWO, &["SendMessage"]),
            "Value crossaccountpermission for parameter Label is invalid. Reason: Already exists.",
        ),
        // [rec] spec 9: RemovePermission of an unknown label.
        (
            "RemovePermission",
            remove("x"),
            "Value x for parameter Label is invalid. Reason: can't find label.",
        ),
        (
            "AddPermission",
            add("l", TWO, &["Foo"]),
            "Value SQS:Foo for parameter ActionName is invalid. Reason: Please refer to the appropriate WSDL for a list of valid actions. ",
        ),
        (
            "AddPermission",
            add("l", TWO, &["SendMessage", "RemovePermission"]),
            "Value SQS:RemovePermission for parameter ActionName is invalid. Reason: Only the queue owner is allowed to invoke this action.",
        ),
        (
            "AddPermission",
            add("l", &[], &["SendMessage"]),
            "Value [] for parameter PrincipalId is invalid. Reason: Unable to verify.",
        ),
        (
            "AddPermission",
            add("l", &["000000000002", "bob"], &["SendMessage"]),
            "Value [000000000002, bob] for parameter PrincipalId is invalid. Reason: Unable to verify.",
        ),
        (
            "AddPermission",
            add(&long, TWO, &["SendMessage"]),
            &format!(
                "Value {long} for parameter Label is invalid. Reason: Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length"
            ),
        ),
    ] {
        let answer = call(&server, "ROOT1", action, body).await;
        answer.is_error(400, INVALID, "InvalidParameterValue;Sender", text);
    }
    for (action, body, name) in [
        ("AddPermission", add("l", TWO, &[]), "Actions"),
        ("AddPermission", add("", TWO, &["*"]), "Label"),
        ("RemovePermission", remove(""), "Label"),
    ] {
        let text = format!("The request must contain the parameter {name}.");
        call(&server, "ROOT1", action, body).await.is_error(400, MISSING, "MissingParameter;Sender", &text);
    }
    let eight = ["SendMessage"; 8];
    call(&server, "ROOT1", "AddPermission", add("l", TWO, &eight)).await.is_error(
        403,
        "com.amazonaws.sqs#OverLimit",
        "OverLimit;Sender",
        "8 Actions were found, maximum allowed is 7.",
    );
    assert_eq!(policy(&server), before, "what is refused changes nothing");
    for label in 1..20 {
        call(&server, "ROOT1", "AddPermission", add(&format!("l{label}"), TWO, &["*"])).await.ok();
    }
    let full = call(&server, "ROOT1", "AddPermission", add("l20", TWO, &["*"])).await;
    assert_eq!((full.status, full.header("x-amzn-query-error")), (403, Some("OverLimit;Sender")));
}

#[tokio::test]
async fn permissions_of_a_missing_queue_are_refused() {
    let server = two_accounts().await;
    for action in ["AddPermission", "RemovePermission"] {
        let mut body = add("l", &["000000000002"], &["*"]);
        body["QueueUrl"] = json!("missing");
        let answer = call(&server, "ROOT1", action, body).await;
        assert_eq!(
            answer.header("x-amzn-query-error"),
            Some("AWS.SimpleQueueService.NonExistentQueue;Sender")
        );
    }
}
