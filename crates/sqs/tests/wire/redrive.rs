//! Dead-letter policies, their sources, and the tasks that bring messages back.

use std::time::Duration;

use kew_core::{Carries, DeadLetterAction, DeadLetterRule, Policy, QueueKey};
use serde_json::{Value, json};

use super::server::{Answer, SqsAnswer, SqsServer};

const INVALID: &str = "com.amazon.coral.service#InvalidParameterValueException";

fn arn(name: &str) -> String {
    format!("arn:aws:sqs:us-east-1:000000000000:{name}")
}

fn policy(target: &str, max: u32) -> String {
    format!(r#"{{"deadLetterTargetArn":"{}","maxReceiveCount":{max}}}"#, arn(target))
}

async fn create(server: &SqsServer, name: &str, attributes: Value) -> Answer {
    server.call("CreateQueue", json!({"QueueName": name, "Attributes": attributes})).await
}

async fn set(server: &SqsServer, queue: &str, name: &str, text: &str) -> Answer {
    let attributes = json!({"QueueUrl": queue, "Attributes": {name: text}});
    server.call("SetQueueAttributes", attributes).await
}

async fn shown(server: &SqsServer, queue: &str, name: &str) -> Value {
    let get = json!({"QueueUrl": queue, "AttributeNames": [name]});
    server.call("GetQueueAttributes", get).await.json()["Attributes"][name].clone()
}

async fn visible(server: &SqsServer, queue: &str) -> String {
    let counts = shown(server, queue, "ApproximateNumberOfMessages").await;
    counts.as_str().expect("a count of messages is text").to_owned()
}

/// The texts below hold quotes, which an error's body escapes.
#[track_caller]
fn refused(answer: &Answer, message: &str) {
    let body: Value = serde_json::from_str(&answer.body).expect("a reply is JSON");
    assert_eq!(
        (answer.status, body["__type"].as_str(), body["message"].as_str()),
        (400, Some(INVALID), Some(message))
    );
    assert_eq!(answer.header("x-amzn-query-error"), Some("InvalidParameterValue;Sender"));
}

// [rec] spec 1.4: the text stands in `message`, with a small letter.
#[track_caller]
fn not_found(answer: &Answer, message: &str) {
    let kind = "com.amazonaws.sqs#ResourceNotFoundException";
    answer.is_error(404, kind, "ResourceNotFoundException;Sender", message);
}

/// A queue `orders` whose messages die into `dead` after one receive, and this number of dead messages.
async fn with_dead_letters(server: &SqsServer, messages: u32) {
    create(server, "dead", json!({})).await.ok();
    create(server, "orders", json!({"RedrivePolicy": policy("dead", 1)})).await.ok();
    die(server, "orders", messages).await;
    assert_eq!(visible(server, "dead").await, messages.to_string());
}

async fn die(server: &SqsServer, queue: &str, messages: u32) {
    for number in 0..messages {
        let message = json!({"QueueUrl": queue, "MessageBody": format!("{queue}-{number}")});
        server.call("SendMessage", message).await.ok();
        let receive = json!({"QueueUrl": queue, "VisibilityTimeout": 1});
        server.call("ReceiveMessage", receive).await.ok();
    }
    server.advance(Duration::from_millis(1_001)).await;
}

async fn start(server: &SqsServer, mut request: Value) -> Answer {
    request["SourceArn"] = json!(arn("dead"));
    server.call("StartMessageMoveTask", request).await
}

async fn tasks(server: &SqsServer, max: u32) -> Vec<Value> {
    let answer =
        server.call("ListMessageMoveTasks", json!({"SourceArn": arn("dead"), "MaxResults": max})).await;
    answer.json().get("Results").and_then(Value::as_array).cloned().unwrap_or_default()
}

// [rep] spec 8: maxReceiveCount comes back as a number, even if it was sent as a text.
#[tokio::test]
async fn a_redrive_policy_is_shown_in_its_own_words() {
    let server = SqsServer::open().await;
    create(&server, "dead", json!({})).await.ok();
    let sent = format!(r#"{{ "maxReceiveCount": "5", "deadLetterTargetArn": "{}" }}"#, arn("dead"));
    create(&server, "orders", json!({"RedrivePolicy": sent})).await.ok();
    assert_eq!(shown(&server, "orders", "RedrivePolicy").await, json!(policy("dead", 5)));
    // A policy that says the same is the same to a create.
    create(&server, "orders", json!({"RedrivePolicy": policy("dead", 5)})).await.ok();
    assert_eq!(create(&server, "orders", json!({"RedrivePolicy": policy("dead", 6)})).await.status, 400);
}

/// Vendor: API Reference, SetQueueAttributes, RedrivePolicy; the texts were recorded from the service
#[tokio::test]
async fn a_redrive_policy_needs_a_target_that_can_be_used() {
    let server = SqsServer::open().await;
    create(&server, "dead", json!({})).await.ok();
    create(&server, "dead.fifo", json!({"FifoQueue": "true"})).await.ok();
    create(&server, "orders", json!({})).await.ok();
    for (text, reason) in [
        (policy("none", 1), "Dead letter target does not exist."),
        (policy("dead.fifo", 1), "Dead-letter queue must be same type of queue as the source."),
        (
            policy("dead", 1).replace("000000000000", "111111111111"),
            "Dead-letter target owner should be same as the source.",
        ),
        (policy("dead", 1).replace("us-east-1", "eu-west-1"), "Dead letter target does not exist."),
        (
            policy("dead", 0),
            "Invalid value for maxReceiveCount: 0, valid values are from 1 to 1000 both inclusive.",
        ),
        ("{}".to_owned(), "Redrive policy does not contain mandatory attribute: maxReceiveCount."),
        ("nonsense".to_owned(), "Redrive policy is not a valid JSON map."),
    ] {
        let message = format!("Value {text} for parameter RedrivePolicy is invalid. Reason: {reason}");
        refused(&set(&server, "orders", "RedrivePolicy", &text).await, &message);
    }
    let fifo = json!({"FifoQueue": "true", "RedrivePolicy": policy("dead", 1)});
    let reason = "Dead-letter queue must be same type of queue as the source.";
    let message =
        format!("Value {} for parameter RedrivePolicy is invalid. Reason: {reason}", policy("dead", 1));
    refused(&create(&server, "orders.fifo", fifo).await, &message);
    let fifo = json!({"FifoQueue": "true", "RedrivePolicy": policy("dead.fifo", 1)});
    create(&server, "orders.fifo", fifo).await.ok();
}

// The service answers 200 to a queue as its own dead-letter target. Nothing can move then, and nothing is lost.
/// Vendor: recorded from the service: SetQueueAttributes with its own ARN as target answers 200
#[tokio::test]
async fn a_queue_that_is_its_own_dead_letter_target_keeps_its_messages() {
    let server = SqsServer::open().await;
    create(&server, "orders", json!({})).await.ok();
    set(&server, "orders", "RedrivePolicy", &policy("orders", 1)).await.ok();
    server.send_to("orders", "m", json!({})).await.ok();
    for receives in 1..=3 {
        let now = json!({"VisibilityTimeout": 0, "MessageSystemAttributeNames": ["ApproximateReceiveCount"]});
        let received = server.receive("orders", now).await;
        let count = &received.json()["Messages"][0]["Attributes"]["ApproximateReceiveCount"];
        assert_eq!(*count, json!(receives.to_string()));
    }
}

// [doc] spec 8: a source that is not allowed to use the queue cannot name it.
#[tokio::test]
async fn a_redrive_allow_policy_is_asked_when_a_source_names_the_queue() {
    let server = SqsServer::open().await;
    create(&server, "dead", json!({"RedriveAllowPolicy": r#"{"redrivePermission":"denyAll"}"#})).await.ok();
    create(&server, "orders", json!({})).await.ok();
    let reason = "The dead-letter queue's RedriveAllowPolicy does not allow this source queue.";
    let message =
        format!("Value {} for parameter RedrivePolicy is invalid. Reason: {reason}", policy("dead", 1));
    refused(&set(&server, "orders", "RedrivePolicy", &policy("dead", 1)).await, &message);
    let by_queue =
        |name: &str| format!(r#"{{"redrivePermission":"byQueue","sourceQueueArns":["{}"]}}"#, arn(name));
    set(&server, "dead", "RedriveAllowPolicy", &by_queue("others")).await.ok();
    refused(&set(&server, "orders", "RedrivePolicy", &policy("dead", 1)).await, &message);
    create(&server, "others", json!({"RedrivePolicy": policy("dead", 1)})).await.ok();
    set(&server, "dead", "RedriveAllowPolicy", &by_queue("orders")).await.ok();
    set(&server, "orders", "RedrivePolicy", &policy("dead", 1)).await.ok();
    assert_eq!(shown(&server, "dead", "RedriveAllowPolicy").await, json!(by_queue("orders")));
    let answer = set(&server, "dead", "RedriveAllowPolicy", "{}").await;
    assert!(answer.body.contains("Value {} for parameter RedriveAllowPolicy is invalid."), "{}", answer.body);
}

// Design 2: RedrivePolicy shows only a rule with a target, from whichever dialect; the empty text takes only that away.
#[tokio::test]
async fn rules_of_other_dialects_show_when_they_have_a_target() {
    let server = SqsServer::open().await;
    let rule =
        |then| DeadLetterRule { attempts_max: 4, then, carries: Carries::Nothing, written_by: "them".into() };
    let with = |then| Policy { dead_letters: Some(rule(then).into()), ..Policy::standard() };
    let target = QueueKey::new(kew_core::AccountId(0), "us-east-1", "dead");
    server.queue("moves", with(DeadLetterAction::MoveTo(target))).await;
    let drops = server.queue("drops", with(DeadLetterAction::Drop)).await;
    assert_eq!(shown(&server, "moves", "RedrivePolicy").await, json!(policy("dead", 4)));
    assert_eq!(shown(&server, "drops", "RedrivePolicy").await, Value::Null);
    for queue in ["moves", "drops"] {
        set(&server, queue, "RedrivePolicy", "").await.ok();
    }
    assert_eq!(shown(&server, "moves", "RedrivePolicy").await, Value::Null);
    let kept = server.engine.queue_by_id(drops.id).expect("the queue that drops its messages exists");
    assert_eq!(kept.policy.dead_letters, Some(rule(DeadLetterAction::Drop).into()));
}

// Spec 5.20: the JSON member is spelled with a small letter; pages as in ListQueues.
#[tokio::test]
async fn a_queue_knows_whose_dead_letters_come_to_it() {
    let server = SqsServer::open().await;
    create(&server, "dead", json!({})).await.ok();
    let ask = |request: Value| server.call("ListDeadLetterSourceQueues", request);
    assert_eq!(ask(json!({"QueueUrl": "dead"})).await.ok(), "{}");
    for name in ["c", "a", "b"] {
        create(&server, name, json!({"RedrivePolicy": policy("dead", 1)})).await.ok();
    }
    create(&server, "ab", json!({})).await.ok();
    let url = |name: &str| format!("http://kew.test/000000000000/{name}");
    let first = ask(json!({"QueueUrl": "dead", "MaxResults": 2})).await.json();
    assert_eq!(first["queueUrls"], json!([url("a"), url("b")]));
    let token = first["NextToken"].clone();
    let rest = ask(json!({"QueueUrl": "dead", "MaxResults": 2, "NextToken": token})).await.json();
    assert_eq!(rest, json!({"queueUrls": [url("c")]}));
    let form = server.query("Action=ListDeadLetterSourceQueues&QueueUrl=dead").await;
    let expected = format!(
        "<ListDeadLetterSourceQueuesResult><QueueUrl>{}</QueueUrl><QueueUrl>{}</QueueUrl><QueueUrl>{}</QueueUrl></ListDeadLetterSourceQueuesResult>",
        url("a"),
        url("b"),
        url("c")
    );
    assert!(form.ok().contains(&expected), "{}", form.body);
}

// [rec] spec 8: without DestinationArn each message returns to its own source queue, several sources are served;
// [doc] moved messages are new messages.
#[tokio::test]
async fn every_message_goes_back_to_its_own_source_as_a_new_one() {
    let server = SqsServer::open().await;
    with_dead_letters(&server, 2).await;
    create(&server, "others", json!({"RedrivePolicy": policy("dead", 1)})).await.ok();
    die(&server, "others", 1).await;
    let handle = start(&server, json!({})).await.text("TaskHandle");
    assert!(!handle.is_empty());
    server.advance(Duration::from_millis(1)).await;
    let back = json!({"QueueUrl": "orders", "MaxNumberOfMessages": 10, "AttributeNames": ["All"]});
    let back = server.call("ReceiveMessage", back).await;
    assert_eq!(back.bodies(), ["orders-0", "orders-1"]);
    assert_eq!((visible(&server, "others").await, visible(&server, "dead").await), ("1".into(), "0".into()));
    let expected = json!({
        "Status": "COMPLETED",
        "SourceArn": arn("dead"),
        "ApproximateNumberOfMessagesMoved": 3,
        "ApproximateNumberOfMessagesToMove": 3,
        "StartedTimestamp": server.now() - 1,
    });
    assert_eq!(tasks(&server, 10).await, [expected], "a task that is over has no handle");
}

// [rec] spec 8: TaskHandle only while RUNNING; cancelling leaves moved what was moved.
#[tokio::test]
async fn a_running_task_is_shown_with_its_handle_and_can_be_cancelled() {
    let server = SqsServer::open().await;
    with_dead_letters(&server, 10).await;
    create(&server, "rescue", json!({})).await.ok();
    let request = json!({"DestinationArn": arn("rescue"), "MaxNumberOfMessagesPerSecond": 2});
    let started_at = server.now();
    let handle = start(&server, request).await.text("TaskHandle");
    server.advance(Duration::from_millis(1_900)).await;
    let expected = json!({
        "TaskHandle": handle,
        "Status": "RUNNING",
        "SourceArn": arn("dead"),
        "DestinationArn": arn("rescue"),
        "MaxNumberOfMessagesPerSecond": 2,
        "ApproximateNumberOfMessagesMoved": 4,
        "ApproximateNumberOfMessagesToMove": 10,
        "StartedTimestamp": started_at,
    });
    assert_eq!(tasks(&server, 1).await, [expected]);
    refused(
        &start(&server, json!({})).await,
        "There is already a task running. Only one active task is allowed for a source queue arn at a given time.",
    );
    let cancelled = server.call("CancelMessageMoveTask", json!({"TaskHandle": handle})).await;
    assert_eq!(cancelled.ok(), r#"{"ApproximateNumberOfMessagesMoved":4}"#);
    server.advance(Duration::from_secs(60)).await;
    assert_eq!(visible(&server, "rescue").await, "4");
    let task = tasks(&server, 1).await.remove(0);
    assert_eq!((&task["Status"], task.get("TaskHandle")), (&json!("CANCELLED"), None));
    not_found(
        &server.call("CancelMessageMoveTask", json!({"TaskHandle": handle})).await,
        "Task does not exist.",
    );
}

// [rec] spec 8: a destination deleted mid-way fails the task, and says why.
#[tokio::test]
async fn a_task_whose_destination_goes_away_fails() {
    let server = SqsServer::open().await;
    with_dead_letters(&server, 4).await;
    create(&server, "rescue", json!({})).await.ok();
    let request = json!({"DestinationArn": arn("rescue"), "MaxNumberOfMessagesPerSecond": 1});
    start(&server, request).await.ok();
    server.advance(Duration::from_millis(500)).await;
    server.call("DeleteQueue", json!({"QueueUrl": "rescue"})).await.ok();
    server.advance(Duration::from_secs(10)).await;
    let task = tasks(&server, 1).await.remove(0);
    assert_eq!(task["Status"], "FAILED");
    assert_eq!(task["FailureReason"], "AWS.SimpleQueueService.NonExistentQueue");
    assert_eq!(
        (&task["ApproximateNumberOfMessagesMoved"], visible(&server, "dead").await),
        (&json!(1), "3".into())
    );
}

#[tokio::test]
async fn tasks_are_listed_newest_first() {
    let server = SqsServer::open().await;
    with_dead_letters(&server, 1).await;
    assert_eq!(tasks(&server, 10).await, [Value::Null; 0]);
    for _ in 0..12 {
        start(&server, json!({})).await.ok();
        server.advance(Duration::from_secs(1)).await;
    }
    let all = tasks(&server, 10).await;
    let started =
        |task: &Value| task["StartedTimestamp"].as_u64().expect("a task's start is a number of milliseconds");
    assert_eq!(all.len(), 10);
    assert!(all.is_sorted_by_key(|task| std::cmp::Reverse(started(task))));
    let default = server.call("ListMessageMoveTasks", json!({"SourceArn": arn("dead")})).await.json();
    assert_eq!(default["Results"], json!(all.get(..1)), "one, when the request says nothing");
    for max in [0, 11] {
        let request = json!({"SourceArn": arn("dead"), "MaxResults": max});
        assert_eq!(server.call("ListMessageMoveTasks", request).await.status, 400);
    }
}

// [rec] spec 8: the errors of a start.
#[tokio::test]
async fn a_task_needs_a_dead_letter_queue_and_a_place_to_go() {
    let server = SqsServer::open().await;
    with_dead_letters(&server, 1).await;
    create(&server, "rescue.fifo", json!({"FifoQueue": "true"})).await.ok();
    let ask = |request: Value| server.call("StartMessageMoveTask", request);
    let gone =
        |name: &str| format!("The resource that you specified for the {name} parameter doesn't exist.");
    not_found(&ask(json!({"SourceArn": arn("none")})).await, &gone("SourceArn"));
    let elsewhere = arn("dead").replace("us-east-1", "eu-west-1");
    not_found(&ask(json!({"SourceArn": elsewhere})).await, &gone("SourceArn"));
    let nowhere = json!({"SourceArn": arn("dead"), "DestinationArn": arn("none")});
    not_found(&ask(nowhere).await, &gone("DestinationArn"));
    let message = "Source queue must be configured as a Dead Letter Queue.";
    refused(&ask(json!({"SourceArn": arn("orders")})).await, message);
    let message = "You must use this format to specify the SourceArn: arn:<partition>:<service>:<region>:<account-id>:<resource-id>";
    for arn in ["dead", "arn:aws:sqs:us-east-1:0:dead", "http://kew.test/000000000000/dead"] {
        refused(&ask(json!({"SourceArn": arn})).await, message);
        refused(&server.call("ListMessageMoveTasks", json!({"SourceArn": arn})).await, message);
    }
    let kinds = json!({"SourceArn": arn("dead"), "DestinationArn": arn("rescue.fifo")});
    refused(&ask(kinds).await, "Source queue and destination queue must be of the same type.");
    for rate in [0, 501, -1] {
        let request = json!({"SourceArn": arn("dead"), "MaxNumberOfMessagesPerSecond": rate});
        assert_eq!(ask(request).await.status, 400, "{rate}");
    }
    let missing = "com.amazon.coral.service#MissingRequiredParameterException";
    for action in ["StartMessageMoveTask", "ListMessageMoveTasks"] {
        let message = "The request must contain the parameter SourceArn.";
        server.call(action, json!({})).await.is_error(400, missing, "MissingParameter;Sender", message);
    }
    assert_eq!(tasks(&server, 10).await, [Value::Null; 0], "none of these began one");
}

// [rec] spec 8: handles that cannot be read, of an unknown source, of an unknown task.
#[tokio::test]
async fn only_a_task_of_its_own_source_is_cancelled() {
    use base64::Engine as _;
    let server = SqsServer::open().await;
    with_dead_letters(&server, 3).await;
    let running = json!({"MaxNumberOfMessagesPerSecond": 1});
    let handle = start(&server, running).await.text("TaskHandle");
    let base64 = base64::engine::general_purpose::STANDARD;
    let cancel = |handle: String| server.call("CancelMessageMoveTask", json!({"TaskHandle": handle}));
    refused(&cancel("garbage".to_owned()).await, "Value for parameter TaskHandle is invalid.");
    let inside: Value = serde_json::from_slice(&base64.decode(&handle).expect("Base64")).expect("JSON");
    let forged = |member: &str, value: &str| {
        let mut other = inside.clone();
        other[member] = json!(value);
        base64.encode(other.to_string())
    };
    let gone = "The resource that you specified for the SourceArn parameter doesn't exist.";
    not_found(&cancel(forged("sourceArn", &arn("none"))).await, gone);
    not_found(&cancel(forged("sourceArn", &arn("orders"))).await, "Task does not exist.");
    let other_id = "10f57157-fc31-4232-8b50-0e2b5a3b0f56";
    not_found(&cancel(forged("taskId", other_id)).await, "Task does not exist.");
    let form =
        format!("Action=CancelMessageMoveTask&TaskHandle={}", handle.replace('+', "%2B").replace('=', "%3D"));
    let cancelled = server.query(&form).await;
    let expected = "<CancelMessageMoveTaskResult><ApproximateNumberOfMessagesMoved>1</ApproximateNumberOfMessagesMoved></CancelMessageMoveTaskResult>";
    assert!(cancelled.ok().contains(expected), "{}", cancelled.body);
}

#[tokio::test]
async fn tasks_travel_in_forms_too() {
    let server = SqsServer::open().await;
    with_dead_letters(&server, 1).await;
    let started = server
        .query(&format!(
            "Action=StartMessageMoveTask&SourceArn={}&MaxNumberOfMessagesPerSecond=500",
            arn("dead")
        ))
        .await;
    assert!(started.ok().contains("<StartMessageMoveTaskResult><TaskHandle>"), "{}", started.body);
    server.advance(Duration::from_millis(1)).await;
    let listed = server.query(&format!("Action=ListMessageMoveTasks&SourceArn={}", arn("dead"))).await;
    let expected = format!(
        "<ListMessageMoveTasksResult><ListMessageMoveTasksResultEntry><Status>COMPLETED</Status><SourceArn>{}</SourceArn><MaxNumberOfMessagesPerSecond>500</MaxNumberOfMessagesPerSecond><ApproximateNumberOfMessagesMoved>1</ApproximateNumberOfMessagesMoved>",
        arn("dead")
    );
    assert!(listed.ok().contains(&expected), "{}", listed.body);
}

// [doc] spec 8: at most 100 active tasks of an account.
#[tokio::test]
async fn an_account_runs_at_most_a_hundred_tasks() {
    let server = SqsServer::open().await;
    create(&server, "rescue", json!({})).await.ok();
    let mut last = None;
    for number in 0..101 {
        let dead = format!("dead-{number}");
        create(&server, &dead, json!({})).await.ok();
        create(&server, &format!("source-{number}"), json!({"RedrivePolicy": policy(&dead, 1)})).await.ok();
        for _ in 0..2 {
            server.call("SendMessage", json!({"QueueUrl": dead, "MessageBody": "x"})).await.ok();
        }
        let request = json!({
            "SourceArn": arn(&dead),
            "DestinationArn": arn("rescue"),
            "MaxNumberOfMessagesPerSecond": 1,
        });
        last = Some((server.call("StartMessageMoveTask", request).await, number));
        assert!(last.as_ref().is_some_and(|(answer, number)| (answer.status == 200) == (*number < 100)));
    }
    let (answer, _) = last.expect("the loop over move tasks ran at least once");
    let message = "An account can have at most 100 active message movement tasks.";
    answer.is_error(403, "com.amazonaws.sqs#OverLimit", "OverLimit;Sender", message);
    server.advance(Duration::from_secs(2)).await;
    let again = json!({"SourceArn": arn("dead-100"), "DestinationArn": arn("rescue")});
    server.call("StartMessageMoveTask", again).await.ok();
}
