//! "Why was this delivered again?", asked of the running program after each of its causes.

use std::sync::atomic::Ordering;
use std::time::Instant;

use serde_json::{Value, json};

use super::program::{self, Kew, data_directory};
use super::push::{self, Hook, PATIENCE, cloudflare};
use super::store_tool::done;
use super::workers;
use super::{body, member};

const JSON: (&str, &str) = ("Content-Type", "application/json");
const VIRTUAL: [&str; 4] = ["--store", "memory", "--clock", "virtual"];

/// Moves the server's clock.
fn advance(kew: &Kew, seconds: u64) {
    let change = json!({ "advance_ms": seconds * 1_000 }).to_string();
    let (status, answer) = kew.admin("POST", "/api/v1/clock", &[JSON], &change);
    assert_eq!(status, 200, "{answer}");
}

/// What the admin API answers.
fn shown(kew: &Kew, path: &str) -> Value {
    let (status, text) = kew.admin("GET", &format!("/api/v1{path}"), &[], "");
    assert_eq!(status, 200, "{path}: {text}");
    serde_json::from_str(&text).expect("the reply is JSON")
}

/// The reasons of a message's deliveries after the first.
fn reasons(kew: &Kew, id: &str) -> Vec<String> {
    let message = shown(kew, &format!("/messages/{id}"));
    let why = message["why"].as_array().expect("why is a list");
    why.iter().map(|again| again["because"].as_str().expect("because is text").to_owned()).collect()
}

/// The events of a message's timeline.
fn events(kew: &Kew, id: &str) -> Vec<String> {
    let message = shown(kew, &format!("/messages/{id}"));
    let timeline = message["timeline"].as_array().expect("timeline is a list");
    timeline.iter().map(|event| event["event"].as_str().expect("event is text").to_owned()).collect()
}

/// The id of the only message of a queue.
fn only(kew: &Kew, queue: &str) -> String {
    let page = shown(kew, &format!("/queues/{queue}/messages"));
    page["messages"][0]["id"].as_str().expect("the queue holds a message").to_owned()
}

/// Waits until a message was delivered again for this reason.
fn wait_for_reason(kew: &Kew, id: &str, reason: &str) {
    let begun = Instant::now();
    while !reasons(kew, id).iter().any(|known| known == reason) {
        assert!(begun.elapsed() < PATIENCE, "{:?}", shown(kew, &format!("/messages/{id}")));
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

fn send(kew: &Kew, queue: &str) -> String {
    let sent = body(kew, "SendMessage", &json!({ "QueueUrl": queue, "MessageBody": "m" }).to_string());
    member(&sent, "MessageId")
}

/// Leases the first message for 30 s; its receipt.
fn receive(kew: &Kew, queue: &str) -> String {
    let wanted = json!({ "QueueUrl": queue, "VisibilityTimeout": 30 }).to_string();
    member(&body(kew, "ReceiveMessage", &wanted), "ReceiptHandle")
}

fn hide(kew: &Kew, queue: &str, receipt: &str, seconds: u32) {
    let change = json!({ "QueueUrl": queue, "ReceiptHandle": receipt, "VisibilityTimeout": seconds });
    body(kew, "ChangeMessageVisibility", &change.to_string());
}

#[test]
fn leases_that_ran_out_were_given_up_or_were_extended() {
    let directory = data_directory();
    let kew = Kew::start_with(directory.path(), &VIRTUAL);
    body(&kew, "CreateQueue", r#"{"QueueName":"orders"}"#);
    let id = send(&kew, "orders");
    receive(&kew, "orders");
    advance(&kew, 30);
    let receipt = receive(&kew, "orders");
    hide(&kew, "orders", &receipt, 0);
    let receipt = receive(&kew, "orders");
    hide(&kew, "orders", &receipt, 100);
    advance(&kew, 100);
    receive(&kew, "orders");
    let expected = [
        "Its lease (of 127.0.0.1) ran out after 30 s.",
        "Its lease (of 127.0.0.1) was released.",
        "Its lease (of 127.0.0.1) was extended and then ran out.",
    ];
    assert_eq!(reasons(&kew, &id), expected);
    let told = events(&kew, &id);
    let leases = ["lease_ended", "released", "extended", "lease_ended"].map(str::to_owned);
    let between: Vec<String> =
        told.into_iter().filter(|event| event != "sent" && event != "leased").collect();
    assert_eq!(between, leases, "each end of a lease has one event");
    assert_eq!(shown(&kew, &format!("/messages/{id}"))["lease"]["by"], "127.0.0.1");
}

#[test]
fn a_consumer_is_called_by_the_name_it_gives_itself() {
    let directory = data_directory();
    let kew = Kew::start_with(directory.path(), &VIRTUAL);
    body(&kew, "CreateQueue", r#"{"QueueName":"orders"}"#);
    let id = send(&kew, "orders");
    let headers = [("X-Amz-Target", "AmazonSQS.ReceiveMessage"), ("X-Kew-Consumer", "billing-7")];
    let (status, answer) = program::http(&kew.sqs, "POST", "/", &headers, r#"{"QueueUrl":"orders"}"#);
    assert_eq!(status, 200, "{answer}");
    assert_eq!(shown(&kew, &format!("/messages/{id}"))["lease"]["by"], "billing-7");
}

#[test]
fn a_webhook_refused_it_and_then_could_not_be_reached() {
    let directory = data_directory();
    let kew = Kew::start_with(directory.path(), &VIRTUAL);
    let (address, hook) = (cloudflare(&kew), Hook::open());
    hook.refuses.store(true, Ordering::Relaxed);
    let settings = json!({ "batch_size": 1, "max_wait_time_ms": 0, "retry_delay": 60, "max_retries": 50 });
    let queue = push::queue(&address, "orders", &hook, &settings);
    push::send(&address, &queue, &["m".to_owned()]);
    hook.until("it is refused once", |delivered| delivered.len() == 1);
    let id = only(&kew, "orders");
    advance(&kew, 60);
    wait_for_reason(&kew, &id, "The webhook answered 500; it was retried after 1 min.");
    // Nothing listens there.
    let consumers = push::call(&address, "GET", &format!("/{queue}/consumers"), &Value::Null);
    let consumer = consumers[0]["consumer_id"].as_str().expect("a consumer has an id").to_owned();
    let gone = json!({ "type": "http_push", "url": "http://127.0.0.1:1/", "settings": settings });
    push::call(&address, "PUT", &format!("/{queue}/consumers/{consumer}"), &gone);
    advance(&kew, 60);
    advance(&kew, 60);
    let unreachable = "The target could not be reached: cannot connect to 127.0.0.1:1: Connection refused (os error 111); \
                       the delivery does not count as an attempt.";
    wait_for_reason(&kew, &id, unreachable);
}

#[test]
fn a_webhook_took_too_long() {
    let directory = data_directory();
    let kew = Kew::start(directory.path());
    let (address, hook) = (cloudflare(&kew), Hook::open());
    hook.holds.store(true, Ordering::Relaxed);
    let settings = json!({
        "batch_size": 1, "max_wait_time_ms": 0, "retry_delay": 0, "max_retries": 50, "timeout_ms": 1_000,
    });
    let queue = push::queue(&address, "orders", &hook, &settings);
    push::send(&address, &queue, &["m".to_owned()]);
    hook.until("it is delivered twice", |delivered| {
        delivered.get("m").is_some_and(|attempts| attempts.len() >= 2)
    });
    let id = only(&kew, "orders");
    wait_for_reason(&kew, &id, "The consumer timed out: no whole reply within 1s.");
    let timeline = shown(&kew, &format!("/messages/{id}"))["timeline"].clone();
    let failed = timeline.as_array().into_iter().flatten().find(|event| event["event"] == "failed");
    let failed = failed.unwrap_or_else(|| panic!("it failed: {timeline}"));
    assert_eq!(
        (&failed["reason"], &failed["detail"]),
        (&json!("timed_out"), &json!("no whole reply within 1s"))
    );
    hook.holds.store(false, Ordering::Relaxed);
}

#[test]
fn the_server_that_held_it_for_a_webhook_was_killed() {
    let directory = data_directory();
    let mut kew = Kew::start(directory.path());
    let (address, hook) = (cloudflare(&kew), Hook::open());
    hook.holds.store(true, Ordering::Relaxed);
    let settings = json!({ "batch_size": 1, "max_wait_time_ms": 0 });
    let queue = push::queue(&address, "orders", &hook, &settings);
    push::send(&address, &queue, &["m".to_owned()]);
    hook.until("it is delivered", |delivered| delivered.len() == 1);
    let id = only(&kew, "orders");
    kew.kill();
    let again = Kew::start(directory.path());
    wait_for_reason(&again, &id, "The server that held its lease ended, or another node took its place.");
    assert!(events(&again, &id).contains(&"taken_over".to_owned()));
    hook.holds.store(false, Ordering::Relaxed);
}

#[test]
fn it_was_moved_to_a_dead_letter_queue_and_back() {
    let directory = data_directory();
    let kew = Kew::start_with(directory.path(), &VIRTUAL);
    body(&kew, "CreateQueue", r#"{"QueueName":"dead"}"#);
    let policy =
        r#"{\"deadLetterTargetArn\":\"arn:aws:sqs:us-east-1:000000000000:dead\",\"maxReceiveCount\":1}"#;
    let made = format!(r#"{{"QueueName":"orders","Attributes":{{"RedrivePolicy":"{policy}"}}}}"#);
    body(&kew, "CreateQueue", &made);
    let id = send(&kew, "orders");
    receive(&kew, "orders");
    advance(&kew, 30);
    assert!(!body(&kew, "ReceiveMessage", r#"{"QueueUrl":"orders"}"#).contains("Body"));
    receive(&kew, "dead");
    let dead = "It was leased as often as its queue allows and came here as a dead letter.";
    assert_eq!(reasons(&kew, &id), [dead]);
    advance(&kew, 30);
    let redrive = json!({ "to": "origin" }).to_string();
    let (status, answer) = kew.admin("POST", "/api/v1/queues/dead/redrive", &[JSON], &redrive);
    assert_eq!(status, 200, "{answer}");
    let begun = Instant::now();
    while shown(&kew, "/queues/orders")["visible"] != 1 {
        assert!(begun.elapsed() < PATIENCE, "{}", shown(&kew, "/queues/orders"));
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    receive(&kew, "orders");
    assert_eq!(reasons(&kew, &id), [dead, "It was moved here from another queue."]);
}

/// Runs `kew store` on a directory.
#[test]
fn it_had_been_delivered_before_it_was_imported() {
    let (directory, other) = (data_directory(), data_directory());
    let mut kew = Kew::start(directory.path());
    body(&kew, "CreateQueue", r#"{"QueueName":"orders"}"#);
    let id = send(&kew, "orders");
    let receipt = receive(&kew, "orders");
    hide(&kew, "orders", &receipt, 0);
    kew.signal("TERM");
    assert_eq!(kew.exit_code(), Some(0), "{}", kew.errors());
    let lines = directory.path().join("lines").to_string_lossy().into_owned();
    done(directory.path().join("data"), &["export", "--to", &lines]);
    done(other.path().join("data"), &["import", "--from", &lines]);
    let kew = Kew::start(other.path());
    assert_eq!(events(&kew, &id), ["imported"]);
    receive(&kew, "orders");
    let imported = "It had been delivered before it was imported, or since then before the history begins.";
    assert_eq!(reasons(&kew, &id), [imported]);
    // What is sent afterwards was not imported.
    let later = send(&kew, "orders");
    assert_eq!(events(&kew, &later), ["sent"]);
}

/// Throws at the first attempt, asks for a delay at the second, takes the third.
const THROWS_AND_RETRIES: &str = r#"
export default {
  async queue(batch, env) {
    for (const message of batch.messages) {
      if (message.attempts === 1) throw new TypeError("no order");
      if (message.attempts === 2) { message.retry({ delaySeconds: 2 }); continue; }
      await env.OUT.send({ got: message.body });
    }
  },
};
"#;

#[test]
fn a_worker_threw_and_then_asked_for_it_again() {
    let Some(runtime) = program::workerd() else { return };
    let directory = data_directory();
    let kew = workers::start(directory.path(), &runtime);
    let (orders, results) = workers::queues(&kew);
    let (status, reply) = workers::upload(&kew, &[workers::TOKEN], &workers::metadata(), THROWS_AND_RETRIES);
    assert_eq!(status, 200, "{reply}");
    workers::send(&kew, &orders, &json!({ "number": 1 }));
    let id = only(&kew, "orders");
    workers::consume(&kew, &orders);
    workers::wait_for(&kew, &results, |body| body["got"]["number"] == 1);
    let reasons = reasons(&kew, &id);
    assert_eq!(reasons.len(), 2, "{reasons:?}");
    assert!(reasons[0].starts_with("The handler failed: TypeError: no order"), "{reasons:?}");
    assert_eq!(reasons[1], "The consumer asked for it again; it was retried after 2 s.");
}
