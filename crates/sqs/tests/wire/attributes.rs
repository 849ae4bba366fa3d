//! Queue attributes: what a create and a set accept, and what is shown.

use std::time::Duration;

use serde_json::{Value, json};

use super::server::{Answer, SqsAnswer, SqsServer};

async fn create(server: &SqsServer, name: &str, attributes: Value) -> Answer {
    server.call("CreateQueue", json!({"QueueName": name, "Attributes": attributes})).await
}

async fn set(server: &SqsServer, queue: &str, attributes: Value) -> Answer {
    server.call("SetQueueAttributes", json!({"QueueUrl": queue, "Attributes": attributes})).await
}

async fn shown(server: &SqsServer, queue: &str, names: &[&str]) -> Value {
    let answer = server.call("GetQueueAttributes", json!({"QueueUrl": queue, "AttributeNames": names})).await;
    answer.json().get("Attributes").cloned().unwrap_or(Value::Null)
}

#[track_caller]
fn refused(answer: &Answer, code: &str, message: &str) {
    let kind = match code {
        "InvalidParameterValue" => "com.amazon.coral.service#InvalidParameterValueException".to_owned(),
        "MissingParameter" => "com.amazon.coral.service#MissingRequiredParameterException".to_owned(),
        "QueueAlreadyExists" => "com.amazonaws.sqs#QueueNameExists".to_owned(),
        _ => format!("com.amazonaws.sqs#{code}"),
    };
    answer.is_error(400, &kind, &format!("{code};Sender"), message);
}

/// A policy that lets everybody send.
fn access_policy() -> &'static str {
    r#"{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":"*","Action":"sqs:SendMessage","Resource":"*"}]}"#
}

const NOW_SECONDS: &str = "1767225600";

fn fresh(name: &str) -> Value {
    json!({
        "ApproximateNumberOfMessages": "0",
        "ApproximateNumberOfMessagesDelayed": "0",
        "ApproximateNumberOfMessagesNotVisible": "0",
        "CreatedTimestamp": NOW_SECONDS,
        "DelaySeconds": "0",
        "LastModifiedTimestamp": NOW_SECONDS,
        "MaximumMessageSize": "1048576",
        "MessageRetentionPeriod": "345600",
        "QueueArn": format!("arn:aws:sqs:us-east-1:000000000000:{name}"),
        "ReceiveMessageWaitTimeSeconds": "0",
        "SqsManagedSseEnabled": "true",
        "VisibilityTimeout": "30",
    })
}

// [rec] spec 4: `All` on a fresh standard queue returns exactly these; [seed] VisibilityTimeout's default is 30;
// [rec] MaximumMessageSize is 1 MiB by default.
/// Vendor: recorded from the service; API Reference, GetQueueAttributes
#[tokio::test]
async fn all_attributes_of_a_fresh_standard_queue_are_exactly_these() {
    let server = SqsServer::open().await;
    create(&server, "orders", json!({})).await.ok();
    assert_eq!(shown(&server, "orders", &["All"]).await, fresh("orders"));
    assert_eq!(shown(&server, "orders", &["All", "DelaySeconds", "Policy"]).await, fresh("orders"));
}

// [rec] spec 4: FIFO adds four attributes.
/// Vendor: recorded from the service; API Reference, GetQueueAttributes
#[tokio::test]
async fn a_fifo_queue_has_four_attributes_more() {
    let server = SqsServer::open().await;
    create(&server, "orders.fifo", json!({"FifoQueue": "TRUE"})).await.ok();
    let mut expected = fresh("orders.fifo");
    expected["ContentBasedDeduplication"] = json!("false");
    expected["DeduplicationScope"] = json!("queue");
    expected["FifoQueue"] = json!("true");
    expected["FifoThroughputLimit"] = json!("perQueue");
    assert_eq!(shown(&server, "orders.fifo", &["All"]).await, expected);
}

// [doc] spec 5.4: no names, no attributes; [rec] spec 1.1: the member is absent, not empty.
#[tokio::test]
async fn nothing_is_shown_when_nothing_is_asked_for() {
    let server = SqsServer::open().await;
    create(&server, "orders", json!({})).await.ok();
    assert_eq!(server.call("GetQueueAttributes", json!({"QueueUrl": "orders"})).await.ok(), "{}");
    assert_eq!(shown(&server, "orders", &[]).await, Value::Null);
    // [rec] spec 4: Policy, RedrivePolicy, RedriveAllowPolicy and Kms* appear only when set.
    let unset = ["Policy", "RedrivePolicy", "RedriveAllowPolicy", "KmsMasterKeyId"];
    assert_eq!(shown(&server, "orders", &unset).await, Value::Null);
    assert_eq!(shown(&server, "orders", &["VisibilityTimeout"]).await, json!({"VisibilityTimeout": "30"}));
}

/// Vendor: API Reference, SetQueueAttributes and GetQueueAttributes
#[tokio::test]
async fn every_attribute_that_is_set_is_shown_as_it_was_set() {
    let server = SqsServer::open().await;
    let attributes = json!({
        "DelaySeconds": "900",
        "MaximumMessageSize": "1024",
        "MessageRetentionPeriod": "60",
        "ReceiveMessageWaitTimeSeconds": "20",
        "VisibilityTimeout": "43200",
        "Policy": format!(" {}", access_policy()),
        "RedriveAllowPolicy": "{\"redrivePermission\" : \"denyAll\"}",
        "KmsMasterKeyId": "alias/orders",
        "KmsDataKeyReusePeriodSeconds": "86400",
        "SqsManagedSseEnabled": "false",
    });
    create(&server, "made", attributes.clone()).await.ok();
    create(&server, "set", json!({})).await.ok();
    assert_eq!(set(&server, "set", attributes.clone()).await.ok(), "");
    let names: Vec<&str> = attributes.as_object().expect("a map").keys().map(String::as_str).collect();
    for queue in ["made", "set"] {
        assert_eq!(shown(&server, queue, &names).await, attributes);
    }
}

#[tokio::test]
async fn a_change_is_seen_at_once_and_dated() {
    let server = SqsServer::open().await;
    create(&server, "orders", json!({})).await.ok();
    server.advance(Duration::from_millis(61_999)).await;
    set(&server, "orders", json!({"VisibilityTimeout": "5"})).await.ok();
    let names = ["CreatedTimestamp", "LastModifiedTimestamp", "VisibilityTimeout"];
    let expected = json!({
        "CreatedTimestamp": NOW_SECONDS,
        "LastModifiedTimestamp": "1767225661",
        "VisibilityTimeout": "5",
    });
    assert_eq!(shown(&server, "orders", &names).await, expected);
}

#[tokio::test]
async fn the_three_counts_tell_visible_in_flight_and_delayed() {
    let server = SqsServer::open().await;
    create(&server, "orders", json!({})).await.ok();
    for delay in [0, 0, 0, 60, 60] {
        let message = json!({"QueueUrl": "orders", "MessageBody": "x", "DelaySeconds": delay});
        server.call("SendMessage", message).await.ok();
    }
    server.call("ReceiveMessage", json!({"QueueUrl": "orders"})).await.ok();
    let names = [
        "ApproximateNumberOfMessages",
        "ApproximateNumberOfMessagesNotVisible",
        "ApproximateNumberOfMessagesDelayed",
    ];
    let counts = shown(&server, "orders", &names).await;
    assert_eq!(names.map(|name| counts[name].clone()), ["2", "1", "2"]);
}

// [rec] spec 4: unknown names on create, set and get; read-only ones in a set; stray spaces make a name unknown.
#[tokio::test]
async fn unknown_attributes_are_refused_wherever_they_are_named() {
    let server = SqsServer::open().await;
    create(&server, "orders", json!({})).await.ok();
    for name in ["Foobar", "", "VisibilityTimeout ", "visibilityTimeout"] {
        let message = format!("Unknown Attribute {name}.");
        refused(&create(&server, "others", json!({name: "1"})).await, "InvalidAttributeName", &message);
        refused(&set(&server, "orders", json!({name: "1"})).await, "InvalidAttributeName", &message);
        let get = json!({"QueueUrl": "orders", "AttributeNames": ["All", name]});
        refused(&server.call("GetQueueAttributes", get).await, "InvalidAttributeName", &message);
    }
    for name in ["QueueArn", "ApproximateNumberOfMessages", "CreatedTimestamp", "All"] {
        let message = format!("Unknown Attribute {name}.");
        refused(&set(&server, "orders", json!({name: "1"})).await, "InvalidAttributeName", &message);
    }
    assert_eq!(server.call("GetQueueUrl", json!({"QueueName": "others"})).await.status, 400, "none was made");
}

// [rec] spec 4: FIFO's attributes on a standard queue.
#[tokio::test]
async fn a_standard_queue_has_no_fifo_attributes() {
    let server = SqsServer::open().await;
    create(&server, "orders", json!({})).await.ok();
    for (name, value, message) in [
        ("FifoQueue", "false", "Unknown Attribute FifoQueue."),
        ("ContentBasedDeduplication", "true", "Unknown Attribute ContentBasedDeduplication."),
        (
            "DeduplicationScope",
            "queue",
            "You can specify the DeduplicationScope only when FifoQueue is set to true.",
        ),
        (
            "FifoThroughputLimit",
            "perQueue",
            "You can specify the FifoThroughputLimit only when FifoQueue is set to true.",
        ),
    ] {
        refused(&create(&server, "others", json!({name: value})).await, "InvalidAttributeName", message);
        refused(&set(&server, "orders", json!({name: value})).await, "InvalidAttributeName", message);
    }
    refused(
        &set(&server, "orders", json!({"FifoQueue": "true"})).await,
        "InvalidAttributeName",
        "Unknown Attribute FifoQueue.",
    );
    let get = json!({"QueueUrl": "orders", "AttributeNames": ["FifoQueue"]});
    let answer = server.call("GetQueueAttributes", get).await;
    refused(&answer, "InvalidAttributeName", "Unknown Attribute FifoQueue.");
}

// [rec] spec 4: FifoQueue=true on a FIFO queue is accepted, false is refused.
#[tokio::test]
async fn a_fifo_queue_stays_one() {
    let server = SqsServer::open().await;
    create(&server, "orders.fifo", json!({"FifoQueue": "true"})).await.ok();
    set(&server, "orders.fifo", json!({"FifoQueue": "true"})).await.ok();
    refused(
        &set(&server, "orders.fifo", json!({"FifoQueue": "false"})).await,
        "InvalidAttributeValue",
        "Invalid value for the parameter FifoQueue. Reason: Modifying queue type is not supported.",
    );
}

// [rec] spec 4: True and False in any case are accepted and returned lower-case.
#[tokio::test]
async fn flags_come_back_in_small_letters() {
    let server = SqsServer::open().await;
    let attributes =
        json!({"FifoQueue": "True", "ContentBasedDeduplication": "TRUE", "SqsManagedSseEnabled": "False"});
    create(&server, "orders.fifo", attributes).await.ok();
    let names = ["FifoQueue", "ContentBasedDeduplication", "SqsManagedSseEnabled"];
    let expected =
        json!({"FifoQueue": "true", "ContentBasedDeduplication": "true", "SqsManagedSseEnabled": "false"});
    assert_eq!(shown(&server, "orders.fifo", &names).await, expected);
}

// Spec 4: perMessageGroupId is allowed only with the messageGroup scope, whichever of the two is set later.
#[tokio::test]
async fn the_throughput_limit_of_groups_needs_their_scope() {
    let server = SqsServer::open().await;
    create(&server, "orders.fifo", json!({"FifoQueue": "true"})).await.ok();
    let message = "Invalid value for the parameter FifoThroughputLimit. Reason: The perMessageGroupId value is allowed only when the value for DeduplicationScope is messageGroup.";
    let alone = json!({"FifoThroughputLimit": "perMessageGroupId"});
    refused(&set(&server, "orders.fifo", alone.clone()).await, "InvalidAttributeValue", message);
    let both = json!({"FifoThroughputLimit": "perMessageGroupId", "DeduplicationScope": "messageGroup"});
    set(&server, "orders.fifo", both.clone()).await.ok();
    assert_eq!(shown(&server, "orders.fifo", &["FifoThroughputLimit", "DeduplicationScope"]).await, both);
    refused(
        &set(&server, "orders.fifo", json!({"DeduplicationScope": "queue"})).await,
        "InvalidAttributeValue",
        message,
    );
    let back = json!({"FifoThroughputLimit": "perQueue", "DeduplicationScope": "queue"});
    set(&server, "orders.fifo", back.clone()).await.ok();
    assert_eq!(shown(&server, "orders.fifo", &["FifoThroughputLimit", "DeduplicationScope"]).await, back);
}

// Spec 5.5: all validated before any is applied.
#[tokio::test]
async fn a_set_with_one_bad_value_changes_nothing() {
    let server = SqsServer::open().await;
    create(&server, "orders", json!({})).await.ok();
    refused(
        &set(&server, "orders", json!({"DelaySeconds": "7", "VisibilityTimeout": "43201"})).await,
        "InvalidAttributeValue",
        "Invalid value for the parameter VisibilityTimeout.",
    );
    let policy = json!({
        "DelaySeconds": "7",
        "RedrivePolicy":
            "{\"deadLetterTargetArn\":\"arn:aws:sqs:us-east-1:000000000000:none\",\"maxReceiveCount\":1}",
    });
    assert_eq!(set(&server, "orders", policy).await.status, 400);
    assert_eq!(shown(&server, "orders", &["All"]).await, fresh("orders"));
    let none = server.call("SetQueueAttributes", json!({"QueueUrl": "orders"})).await;
    refused(&none, "MissingParameter", "The request must contain the parameter Attributes.");
}

// [rec] spec 4: an empty text deletes the Policy and the RedrivePolicy.
#[tokio::test]
async fn an_empty_text_takes_a_policy_away() {
    let server = SqsServer::open().await;
    create(&server, "dead", json!({})).await.ok();
    let set_to = |redrive: &str, policy: &str, allow: &str| json!({"RedrivePolicy": redrive, "Policy": policy, "RedriveAllowPolicy": allow});
    let redrive =
        "{\"deadLetterTargetArn\":\"arn:aws:sqs:us-east-1:000000000000:dead\",\"maxReceiveCount\":3}";
    let given = set_to(redrive, access_policy(), "{\"redrivePermission\":\"allowAll\"}");
    create(&server, "orders", given.clone()).await.ok();
    let names = ["RedrivePolicy", "Policy", "RedriveAllowPolicy"];
    assert_eq!(shown(&server, "orders", &names).await, given);
    set(&server, "orders", set_to("", "", "")).await.ok();
    assert_eq!(shown(&server, "orders", &names).await, Value::Null);
}

// [rec] spec 4 and 11: one kind of encryption at a time; the one clears the other.
#[tokio::test]
async fn a_queue_has_one_kind_of_encryption() {
    let server = SqsServer::open().await;
    create(&server, "orders", json!({"KmsMasterKeyId": "alias/k"})).await.ok();
    let names = ["SqsManagedSseEnabled", "KmsMasterKeyId"];
    let by_key = json!({"SqsManagedSseEnabled": "false", "KmsMasterKeyId": "alias/k"});
    assert_eq!(shown(&server, "orders", &names).await, by_key);
    refused(
        &set(&server, "orders", json!({"SqsManagedSseEnabled": "true", "KmsMasterKeyId": "alias/k"})).await,
        "InvalidAttributeName",
        "You can use one type of server-side encryption (SSE) at one time. You can either enable KMS SSE or SQS SSE.",
    );
    set(&server, "orders", json!({"SqsManagedSseEnabled": "true"})).await.ok();
    assert_eq!(shown(&server, "orders", &names).await, json!({"SqsManagedSseEnabled": "true"}));
    set(&server, "orders", by_key.clone()).await.ok();
    assert_eq!(shown(&server, "orders", &names).await, by_key);
    // [rep] spec 11: an empty key and a reuse period of 300 vanish from `All`.
    set(&server, "orders", json!({"KmsMasterKeyId": "", "KmsDataKeyReusePeriodSeconds": "300"})).await.ok();
    let all = shown(&server, "orders", &["All"]).await;
    assert_eq!((all.get("KmsMasterKeyId"), all.get("KmsDataKeyReusePeriodSeconds")), (None, None));
    set(&server, "orders", json!({"KmsMasterKeyId": "alias/k", "KmsDataKeyReusePeriodSeconds": "60"}))
        .await
        .ok();
    assert_eq!(shown(&server, "orders", &["All"]).await["KmsDataKeyReusePeriodSeconds"], "60");
}

// [rec] spec 5.1: the same name with equal or no attributes is the same queue; a different value is refused by name.
#[tokio::test]
async fn a_create_is_repeated_only_with_the_same_attributes() {
    let server = SqsServer::open().await;
    let attributes = json!({
        "DelaySeconds": "1",
        "SqsManagedSseEnabled": "false",
        "Policy": access_policy(),
    });
    let url = create(&server, "orders", attributes).await;
    for same in [
        json!({}),
        json!({"DelaySeconds": "01"}),
        json!({"SqsManagedSseEnabled": "FALSE", "VisibilityTimeout": "30"}),
        json!({"Policy": format!("  {}\n", access_policy().replace(':', ": ").replace("sqs: ", "sqs:"))}),
        json!({"KmsDataKeyReusePeriodSeconds": "300", "RedrivePolicy": ""}),
    ] {
        assert_eq!(create(&server, "orders", same).await.ok(), url.ok());
    }
    for (other, name) in [
        (r#"{"DelaySeconds":"2"}"#, "DelaySeconds"),
        (r#"{"VisibilityTimeout":"31","DelaySeconds":"2"}"#, "VisibilityTimeout"),
        (
            r#"{"DelaySeconds":"1","MaximumMessageSize":"1024","VisibilityTimeout":"31"}"#,
            "MaximumMessageSize",
        ),
        (r#"{"SqsManagedSseEnabled":"true"}"#, "SqsManagedSseEnabled"),
        (r#"{"KmsMasterKeyId":"k"}"#, "KmsMasterKeyId"),
        (r#"{"Policy":""}"#, "Policy"),
    ] {
        // In the order of the request, so its bytes count.
        let answer =
            server.ask("CreateQueue", &format!(r#"{{"QueueName":"orders","Attributes":{other}}}"#)).await;
        let message =
            format!("A queue already exists with the same name and a different value for attribute {name}");
        refused(&answer, "QueueAlreadyExists", &message);
    }
    let group = json!({"FifoQueue": "true", "DeduplicationScope": "messageGroup", "FifoThroughputLimit": "perMessageGroupId"});
    let fast = create(&server, "fast.fifo", group).await;
    let part = json!({"FifoQueue": "true", "FifoThroughputLimit": "perMessageGroupId"});
    assert_eq!(create(&server, "fast.fifo", part).await.ok(), fast.ok(), "what is not given is not compared");
    // Tags are not compared.
    let tagged = json!({"QueueName": "orders", "tags": {"team": "shop"}});
    assert_eq!(server.call("CreateQueue", tagged).await.ok(), url.ok());
    assert_eq!(server.call("ListQueueTags", json!({"QueueUrl": "orders"})).await.ok(), "{}");
    let bad = create(&server, "orders", json!({"DelaySeconds": "901"})).await;
    refused(&bad, "InvalidAttributeValue", "Invalid value for the parameter DelaySeconds.");
}

// [rep] spec 2: the texts for names of either kind.
#[tokio::test]
async fn names_and_kinds_belong_together() {
    let server = SqsServer::open().await;
    let fifo = "The name of a FIFO queue can only include alphanumeric characters, hyphens, or underscores, must end with .fifo suffix and be 1 to 80 in length";
    let standard = "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length";
    for (name, attributes, message) in [
        ("orders", json!({"FifoQueue": "true"}), fifo),
        ("or/ders.fifo", json!({"FifoQueue": "true"}), fifo),
        ("orders.fifo", json!({}), standard),
        ("orders.fifo", json!({"FifoQueue": "false"}), standard),
    ] {
        refused(&create(&server, name, attributes).await, "InvalidParameterValue", message);
    }
    let longest = "n".repeat(75) + ".fifo";
    create(&server, &longest, json!({"FifoQueue": "true"})).await.ok();
}

#[tokio::test]
async fn attributes_travel_in_forms_too() {
    let server = SqsServer::open().await;
    let made = server
        .query("Action=CreateQueue&QueueName=orders.fifo&Attribute.1.Name=FifoQueue&Attribute.1.Value=true&Attribute.2.Name=DelaySeconds&Attribute.2.Value=5&Tag.1.Key=team&Tag.1.Value=a%26b")
        .await;
    assert!(
        made.ok().contains("<QueueUrl>http://kew.test/000000000000/orders.fifo</QueueUrl>"),
        "{}",
        made.body
    );
    server
        .query("Action=SetQueueAttributes&QueueUrl=orders.fifo&Attribute.1.Name=VisibilityTimeout&Attribute.1.Value=7")
        .await
        .ok();
    let shown = server
        .query("Action=GetQueueAttributes&QueueUrl=orders.fifo&AttributeName.1=VisibilityTimeout&AttributeName.2=DelaySeconds&AttributeName.3=FifoQueue")
        .await;
    let expected = "<GetQueueAttributesResult><Attribute><Name>DelaySeconds</Name><Value>5</Value></Attribute><Attribute><Name>FifoQueue</Name><Value>true</Value></Attribute><Attribute><Name>VisibilityTimeout</Name><Value>7</Value></Attribute></GetQueueAttributesResult>";
    assert!(shown.ok().contains(expected), "{}", shown.body);
    let tags = server.query("Action=ListQueueTags&QueueUrl=orders.fifo").await;
    let expected =
        "<ListQueueTagsResult><Tag><Key>team</Key><Value>a&amp;b</Value></Tag></ListQueueTagsResult>";
    assert!(tags.ok().contains(expected), "{}", tags.body);
    let none = server.query("Action=GetQueueAttributes&QueueUrl=orders.fifo").await;
    assert!(none.ok().contains("<GetQueueAttributesResult/>"), "{}", none.body);
    let unknown = server.query("Action=GetQueueAttributes&QueueUrl=orders.fifo&AttributeName.1=").await;
    assert_eq!(unknown.status, 400);
    assert!(unknown.body.contains("<Message>Unknown Attribute .</Message>"), "{}", unknown.body);
}

// [doc] spec 4: another DelaySeconds reaches the stored messages of a FIFO queue, not those of a standard one.
#[tokio::test]
async fn another_delay_reaches_what_a_fifo_queue_holds() {
    let server = SqsServer::open().await;
    create(&server, "orders", json!({"DelaySeconds": "900"})).await.ok();
    create(&server, "orders.fifo", json!({"DelaySeconds": "900", "FifoQueue": "true"})).await.ok();
    server.call("SendMessage", json!({"QueueUrl": "orders", "MessageBody": "x"})).await.ok();
    server.send_to_group("orders.fifo", "g", "id").await;
    for (queue, delayed) in [("orders", "1"), ("orders.fifo", "0")] {
        set(&server, queue, json!({"DelaySeconds": "0"})).await.ok();
        let counts = shown(&server, queue, &["ApproximateNumberOfMessagesDelayed"]).await;
        assert_eq!(counts["ApproximateNumberOfMessagesDelayed"], *delayed, "{queue}");
    }
}

#[tokio::test]
async fn a_queue_that_is_not_there_has_no_attributes() {
    let server = SqsServer::open().await;
    for (action, more) in [
        ("GetQueueAttributes", json!({"AttributeNames": ["All"]})),
        ("SetQueueAttributes", json!({"Attributes": {"DelaySeconds": "1"}})),
        ("DeleteQueue", json!({})),
        ("PurgeQueue", json!({})),
        ("ListQueueTags", json!({})),
        ("TagQueue", json!({"Tags": {"a": "b"}})),
        ("UntagQueue", json!({"TagKeys": ["a"]})),
        ("ListDeadLetterSourceQueues", json!({})),
    ] {
        let mut body = more;
        refused_missing_url(&server.call(action, body.clone()).await, action);
        body["QueueUrl"] = json!("http://kew.test/000000000000/none");
        server.call(action, body).await.is_error(
            400,
            "com.amazonaws.sqs#QueueDoesNotExist",
            "AWS.SimpleQueueService.NonExistentQueue;Sender",
            "The specified queue does not exist.",
        );
    }
}

#[track_caller]
fn refused_missing_url(answer: &Answer, action: &str) {
    assert_eq!(answer.status, 400, "{action}");
    refused(answer, "MissingParameter", "The request must contain the parameter QueueUrl.");
}

#[tokio::test]
async fn lists_and_maps_without_end_are_refused() {
    let server = SqsServer::open().await;
    create(&server, "orders", json!({})).await.ok();
    let names = vec!["QueueArn"; 1_001];
    let answer =
        server.call("GetQueueAttributes", json!({"QueueUrl": "orders", "AttributeNames": names})).await;
    answer.is_invalid("AttributeNames holds 1001 names; at most 1000 are allowed.");
    let keys = vec!["k"; 1_001];
    let answer = server.call("UntagQueue", json!({"QueueUrl": "orders", "TagKeys": keys})).await;
    answer.is_invalid("TagKeys holds 1001 names; at most 1000 are allowed.");
    let many: serde_json::Map<String, Value> = (0..1_000).map(|n| (format!("k{n}"), json!("v"))).collect();
    let answer = server.call("TagQueue", json!({"QueueUrl": "orders", "Tags": many})).await;
    answer.is_invalid("Too many tags added for queue orders.");
    let answer = set(&server, "orders", json!(many)).await;
    refused(&answer, "InvalidAttributeName", "Unknown Attribute k0.");
}
