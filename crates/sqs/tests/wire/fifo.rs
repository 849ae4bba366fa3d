//! FIFO queues: groups, order, locks, deduplication, receive attempts.

use std::time::Duration;

use kew_core::command::Purge;
use kew_core::{DeduplicationScope, Policy, QueueKind};
use serde_json::json;

use super::server::{Answer, SqsAnswer, SqsServer};

const SECOND: Duration = Duration::from_secs(1);

async fn with_queue(policy: Policy) -> SqsServer {
    let server = SqsServer::open().await;
    server.queue("orders", policy).await;
    server
}

fn by_content(scope: DeduplicationScope) -> Policy {
    Policy { kind: QueueKind::Fifo { scope, by_content: true }, ..Policy::fifo() }
}

/// A queue that deduplicates by content, with these messages; of each the part before the hyphen is its group.
async fn with_messages(bodies: &[&str]) -> SqsServer {
    let server = with_queue(by_content(DeduplicationScope::Queue)).await;
    for body in bodies {
        send(&server, body).await.ok();
    }
    server
}

async fn send(server: &SqsServer, body: &str) -> Answer {
    let group = body.split('-').next().unwrap_or_default();
    server.send_to("orders", body, json!({"MessageGroupId": group})).await
}

async fn take(server: &SqsServer, max: u32) -> Answer {
    server.receive("orders", json!({"MaxNumberOfMessages": max})).await
}

const EXPIRED: &str = "The receipt handle has expired.";

fn expired(handle: &str) -> String {
    format!("Value {handle} for parameter ReceiptHandle is invalid. Reason: {EXPIRED}")
}

#[tokio::test]
async fn a_receive_takes_all_it_can_of_one_group_and_goes_on_with_the_next() {
    // [seed] spec 8a: first as many of one group as possible, then other groups, each in order;
    // [rec] spec 8a: the example of sends g1-m1, g2-m1, g1-m2, g1-m3.
    let server = with_messages(&["g1-m1", "g2-m1", "g1-m2", "g1-m3"]).await;
    assert_eq!(take(&server, 10).await.bodies(), ["g1-m1", "g1-m2", "g1-m3", "g2-m1"]);
}

#[tokio::test]
async fn a_group_is_locked_until_all_its_messages_in_flight_are_deleted() {
    // [rec] spec 8a: partial deletion keeps it locked, deleting all unlocks it at once; [seed] other groups go on.
    let server = with_messages(&["g1-m1", "g1-m2", "g1-m3", "g2-m1"]).await;
    let handles = take(&server, 2).await.handles();
    assert_eq!(take(&server, 10).await.bodies(), ["g2-m1"]);
    server.delete("orders", &handles[0]).await.ok();
    assert_eq!(take(&server, 10).await.ok(), "{}");
    server.delete("orders", &handles[1]).await.ok();
    assert_eq!(take(&server, 10).await.bodies(), ["g1-m3"]);
}

#[tokio::test]
async fn each_message_has_its_own_timeout_and_the_first_one_hidden_blocks() {
    // [rec] spec 8a: three received; the second extended: the first alone returns; the first extended: none.
    for (extended, returned) in [(1, &["g-1"][..]), (0, &[][..])] {
        let server = with_messages(&["g-1", "g-2", "g-3"]).await;
        let handles = take(&server, 3).await.handles();
        server.change("orders", &handles[extended], 600).await.ok();
        server.advance(SECOND * 30).await;
        assert_eq!(take(&server, 10).await.bodies(), returned);
    }
    // [rec] spec 8a: the head made visible while the second is in flight: only the head.
    let server = with_messages(&["g-1", "g-2", "g-3"]).await;
    let handles = take(&server, 2).await.handles();
    server.change("orders", &handles[0], 0).await.ok();
    assert_eq!(take(&server, 10).await.bodies(), ["g-1"]);
}

#[tokio::test]
async fn a_group_that_was_served_goes_to_the_back() {
    // [rec] spec 8a: group rotation with VisibilityTimeout 0.
    let server = with_messages(&["g1-m1", "g1-m2", "g2-m1", "g2-m2", "g3-m1"]).await;
    let taken = server.receive("orders", json!({"MaxNumberOfMessages": 3, "VisibilityTimeout": 0})).await;
    assert_eq!(taken.bodies(), ["g1-m1", "g1-m2", "g2-m1"]);
    assert_eq!(take(&server, 10).await.bodies(), ["g3-m1", "g1-m1", "g1-m2", "g2-m1", "g2-m2"]);
}

#[tokio::test]
async fn a_handle_is_good_through_the_millisecond_its_timeout_ends_in() {
    // [seed] spec 8a: delete after the timeout fails; [rec] its text; an extension in time keeps the handle good.
    let server = with_messages(&["g-1"]).await;
    let handle = take(&server, 1).await.handles().remove(0);
    server.advance(SECOND * 30 + Duration::from_millis(1)).await;
    server.delete("orders", &handle).await.is_invalid(&expired(&handle));
    server.change("orders", &handle, 30).await.is_invalid(&expired(&handle));
    let handle = take(&server, 1).await.handles().remove(0);
    server.advance(SECOND * 20).await;
    server.change("orders", &handle, 30).await.ok();
    server.advance(SECOND * 30).await;
    server.delete("orders", &handle).await.ok();
    server.delete("orders", &handle).await.ok();
    assert_eq!(take(&server, 1).await.ok(), "{}", "deleting again succeeds, too");
}

#[tokio::test]
async fn an_older_handle_has_expired_once_the_message_was_received_again() {
    let server = with_messages(&["g-1"]).await;
    let taken = server.receive("orders", json!({"VisibilityTimeout": 0})).await;
    let old = taken.handles().remove(0);
    let new = take(&server, 1).await.handles().remove(0);
    server.delete("orders", &old).await.is_invalid(&expired(&old));
    server.change("orders", &old, 0).await.is_invalid(&expired(&old));
    server.delete("orders", &new).await.ok();
}

#[tokio::test]
async fn a_message_needs_a_group_and_something_to_tell_repeats_by() {
    // [seed] spec 8a: without a group the send fails; [rec] codes and texts.
    let server = with_queue(Policy::fifo()).await;
    server.send_to("orders", "m", json!({"MessageDeduplicationId": "1"})).await.is_error(
        400,
        "com.amazon.coral.service#MissingRequiredParameterException",
        "MissingParameter;Sender",
        "The request must contain the parameter MessageGroupId.",
    );
    server.send_to("orders", "m", json!({"MessageGroupId": "g"})).await.is_invalid(
        "The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided explicitly",
    );
    let reason = |name: &str| {
        format!(
            "Reason: {name} can only include alphanumeric and punctuation characters. 1 to 128 in length."
        )
    };
    for (group, id, message) in [
        (
            "group 123",
            "1",
            format!("Value group 123 for parameter MessageGroupId is invalid. {}", reason("MessageGroupId")),
        ),
        ("", "1", format!("Value  for parameter MessageGroupId is invalid. {}", reason("MessageGroupId"))),
        (
            "g",
            "",
            format!(
                "Value  for parameter MessageDeduplicationId is invalid. {}",
                reason("MessageDeduplicationId")
            ),
        ),
        (
            "g",
            "é",
            format!(
                "Value é for parameter MessageDeduplicationId is invalid. {}",
                reason("MessageDeduplicationId")
            ),
        ),
    ] {
        let ids = json!({"MessageGroupId": group, "MessageDeduplicationId": id});
        server.send_to("orders", "m", ids).await.is_invalid(&message);
    }
    assert_eq!(take(&server, 1).await.ok(), "{}");
}

#[tokio::test]
async fn a_message_has_no_delay_of_its_own_and_zero_is_the_queues() {
    // [rec] spec 8a: text (sic); 0 is accepted and the queue's delay still applies.
    let server = with_queue(Policy { delay: SECOND * 10, ..by_content(DeduplicationScope::Queue) }).await;
    server.send_to("orders", "m", json!({"MessageGroupId": "g", "DelaySeconds": 2})).await.is_invalid(
        "Value 2 for parameter DelaySeconds is invalid. Reason: The request include parameter that is not valid for this queue type.",
    );
    server.send_to("orders", "g-1", json!({"MessageGroupId": "g", "DelaySeconds": 0})).await.ok();
    server.advance(SECOND * 9).await;
    assert_eq!(take(&server, 1).await.ok(), "{}");
    server.advance(SECOND).await;
    assert_eq!(take(&server, 1).await.bodies(), ["g-1"]);
}

#[tokio::test]
async fn a_repeat_is_accepted_with_the_first_ones_reply_and_not_delivered() {
    // [seed] spec 8a: a producer may retry any number of times; [doc, rec] the window is five minutes from the first
    // send, also after the message was deleted.
    let server = with_queue(Policy::fifo()).await;
    let ids = json!({"MessageGroupId": "g", "MessageDeduplicationId": "1"});
    let first = server.send_to("orders", "a", ids.clone()).await;
    assert_eq!(first.text("SequenceNumber").len(), 20);
    let handle = take(&server, 1).await.handles().remove(0);
    server.delete("orders", &handle).await.ok();
    server.advance(SECOND * 300 - Duration::from_millis(1)).await;
    let repeat = server.send_to("orders", "b", ids.clone()).await;
    for member in ["MessageId", "SequenceNumber"] {
        assert_eq!(first.text(member), repeat.text(member));
    }
    assert_eq!(take(&server, 1).await.ok(), "{}");
    server.advance(Duration::from_millis(1)).await;
    let second = server.send_to("orders", "c", ids).await;
    assert!(second.text("SequenceNumber") > first.text("SequenceNumber"));
    assert_eq!(take(&server, 1).await.bodies(), ["c"]);
}

#[tokio::test]
async fn ids_reach_over_the_queue_or_over_one_group() {
    // [rec] spec 8a: scope `queue` and scope `messageGroup`.
    for (scope, bodies) in
        [(DeduplicationScope::Queue, &["a"][..]), (DeduplicationScope::Group, &["a", "b"][..])]
    {
        let server =
            with_queue(Policy { kind: QueueKind::Fifo { scope, by_content: false }, ..Policy::fifo() }).await;
        for (group, body) in [("g1", "a"), ("g2", "b")] {
            let ids = json!({"MessageGroupId": group, "MessageDeduplicationId": "1"});
            server.send_to("orders", body, ids).await.ok();
        }
        assert_eq!(take(&server, 10).await.bodies(), bodies);
    }
}

/// Vendor: recorded from the service: DeduplicationScope changed to messageGroup on a queue with traffic
#[tokio::test]
async fn ids_used_before_a_change_of_scope_reach_as_far_as_they_did() {
    // [rec] issue 18 and spec 8a: a change holds for new sends, but the service was recorded to deduplicate over the
    // queue an id that was used before the change to `messageGroup`. Nothing public says what becomes of ids on the way
    // back: an id repeats in its own group.
    let scope = DeduplicationScope::Queue;
    let server =
        with_queue(Policy { kind: QueueKind::Fifo { scope, by_content: false }, ..Policy::fifo() }).await;
    let send = async |group: &str, id: &str, body: &str| {
        let ids = json!({"MessageGroupId": group, "MessageDeduplicationId": id});
        server.send_to("orders", body, ids).await.text("MessageId")
    };
    let change = async |scope: &str| {
        let attributes = json!({"DeduplicationScope": scope});
        server.call("SetQueueAttributes", json!({"QueueUrl": "orders", "Attributes": attributes})).await.ok();
    };
    let first = send("g1", "1", "a").await;
    change("messageGroup").await;
    assert_eq!(send("g2", "1", "b").await, first);
    let second = send("g1", "2", "c").await;
    assert_ne!(send("g2", "2", "d").await, second);
    change("queue").await;
    assert_eq!(send("g1", "2", "e").await, second);
    assert_ne!(send("g3", "2", "f").await, second);
    server.advance(Duration::from_secs(300)).await;
    assert_ne!(send("g2", "1", "g").await, first);
    let mut bodies = take(&server, 10).await.bodies();
    bodies.sort();
    assert_eq!(bodies, ["a", "c", "d", "f", "g"]);
}

#[tokio::test]
async fn the_bodys_hash_stands_in_for_an_id_and_attributes_do_not_count() {
    // [doc] spec 8a: SHA-256 of the body, shown as MessageDeduplicationId; an explicit id wins.
    let server = with_queue(by_content(DeduplicationScope::Queue)).await;
    let attributes = json!({"k": {"DataType": "String", "StringValue": "x"}});
    server.send_to("orders", "hello", json!({"MessageGroupId": "g"})).await.ok();
    server
        .send_to("orders", "hello", json!({"MessageGroupId": "g", "MessageAttributes": attributes}))
        .await
        .ok();
    server
        .send_to("orders", "hello", json!({"MessageGroupId": "g", "MessageDeduplicationId": "own"}))
        .await
        .ok();
    let received =
        server.receive("orders", json!({"MaxNumberOfMessages": 10, "AttributeNames": ["All"]})).await;
    let ids: Vec<_> = received
        .messages()
        .iter()
        .map(|message| message["Attributes"]["MessageDeduplicationId"].clone())
        .collect();
    assert_eq!(ids, ["2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824", "own"]);
    let first = &received.messages()[0]["Attributes"];
    assert_eq!(first["MessageGroupId"], "g");
    assert_eq!(first["SequenceNumber"].as_str().map(str::len), Some(20));
}

#[tokio::test]
async fn a_purge_forgets_the_ids() {
    // [rec] spec 5.7: an id used before the purge delivers again after it; handles turn into no-ops.
    let server = with_messages(&["g-1"]).await;
    let handle = take(&server, 1).await.handles().remove(0);
    let queue = server.engine.all_queues().remove(0).id;
    server.engine.purge(Purge { queue }).await.expect("the queue that is purged exists");
    server.delete("orders", &handle).await.ok();
    send(&server, "g-1").await.ok();
    assert_eq!(take(&server, 1).await.bodies(), ["g-1"]);
}

/// Vendor: API Reference, ReceiveMessage, ReceiveRequestAttemptId
#[tokio::test]
async fn a_receive_that_is_tried_again_gets_the_same_messages_and_handles() {
    // [seed] spec 8a: a consumer may retry without affecting order; [doc] within five minutes, with fresh timeouts; no
    // further count.
    let server = with_messages(&["g1-1", "g1-2", "g2-1"]).await;
    let attempt = json!({"MaxNumberOfMessages": 2, "ReceiveRequestAttemptId": "try-1", "AttributeNames": ["ApproximateReceiveCount"]});
    let first = server.receive("orders", attempt.clone()).await;
    assert_eq!(first.bodies(), ["g1-1", "g1-2"]);
    server.advance(SECOND * 20).await;
    let again = server.receive("orders", attempt.clone()).await;
    assert_eq!(again.ok(), first.ok());
    server.advance(SECOND * 20).await;
    assert_eq!(take(&server, 10).await.bodies(), ["g2-1"], "the repeat began the timeouts anew");
    server.delete("orders", &first.handles()[0]).await.ok();
    let fresh = server.receive("orders", attempt).await;
    assert_eq!(fresh.ok(), "{}", "one of them was deleted, so it is a fresh receive");
}

#[tokio::test]
async fn attempt_ids_are_checked_on_fifo_queues_and_say_nothing_elsewhere() {
    let server = with_queue(Policy::fifo()).await;
    server.receive("orders", json!({"ReceiveRequestAttemptId": "a b"})).await.is_invalid(
        "Value a b for parameter ReceiveRequestAttemptId is invalid. Reason: ReceiveRequestAttemptId can only include alphanumeric and punctuation characters. 1 to 128 in length.",
    );
    server.queue("standard", Policy::standard()).await;
    for body in ["a", "b"] {
        server.send_to("standard", body, json!({})).await.ok();
    }
    for body in ["a", "b"] {
        let received = server.receive("standard", json!({"ReceiveRequestAttemptId": "try 1"})).await;
        assert_eq!(received.bodies(), [body]);
    }
}

#[tokio::test]
async fn a_timeout_of_zero_leaves_the_millisecond_of_the_receive_to_delete_in() {
    // [seed] spec 8a: deleted within the same millisecond, or it counts as abandoned.
    let server = with_messages(&["g-1", "g-2"]).await;
    let taken = server.receive("orders", json!({"VisibilityTimeout": 0})).await;
    server.delete("orders", &taken.handles()[0]).await.ok();
    let taken = server.receive("orders", json!({"VisibilityTimeout": 0})).await;
    assert_eq!(taken.bodies(), ["g-2"]);
    server.advance(Duration::from_millis(1)).await;
    server.delete("orders", &taken.handles()[0]).await.is_invalid(&expired(&taken.handles()[0]));
}

#[tokio::test]
async fn messages_behind_a_lock_count_as_visible() {
    // [rec] spec 8a: 5 sent, 4 received: 1 is visible.
    let server = with_messages(&["g-1", "g-2", "g-3", "g-4", "g-5"]).await;
    take(&server, 4).await.ok();
    let names = json!(["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]);
    let shown =
        server.call("GetQueueAttributes", json!({"QueueUrl": "orders", "AttributeNames": names})).await;
    let counts = json!({"ApproximateNumberOfMessages": "1", "ApproximateNumberOfMessagesNotVisible": "4"});
    assert_eq!(shown.json()["Attributes"], counts);
}
