//! Replies with whole messages: they are bounded, made a few at once, and never written on the admin thread.

use std::sync::Arc;
use std::thread::{self, ThreadId};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use serde_json::json;
use tokio::task::JoinSet;

use super::rig::open;

#[tokio::test]
async fn messages_are_not_written_on_the_admin_thread() {
    let rig = open().await;
    rig.done("POST", "/queues", r#"{"name":"orders"}"#).await;
    let sent = rig.done("POST", "/queues/orders/messages", r#"{"body":"x","attributes":{"a":"b"}}"#).await;
    let id = sent["id"].as_str().expect("a sent message has an id");
    let threads = Arc::<Mutex<Vec<ThreadId>>>::default();
    let heard = Arc::clone(&threads);
    rig.notes.on_read(move || heard.lock().push(thread::current().id()));
    for path in [
        "/api/v1/queues/orders/messages".to_owned(),
        format!("/api/v1/queues/orders/messages/{id}"),
        format!("/api/v1/messages/{id}"),
        "/queues/orders".to_owned(),
        format!("/queues/orders/messages/{id}"),
    ] {
        threads.lock().clear();
        assert_eq!(rig.ask_at(&path, "GET", &[], "").await.status.as_u16(), 200, "{path}");
        let used = threads.lock().clone();
        assert!(!used.is_empty() && !used.contains(&thread::current().id()), "{path}");
    }
}

#[tokio::test]
async fn lists_of_messages_are_made_a_few_at_once() {
    let rig = Arc::new(open().await);
    rig.done("POST", "/queues", r#"{"name":"orders"}"#).await;
    rig.done("POST", "/queues/orders/messages", r#"{"body":"x"}"#).await;
    for path in ["/api/v1/queues/orders/messages", "/queues/orders"] {
        let gate = Arc::new(Gate::default());
        let passed = Arc::clone(&gate);
        rig.notes.on_read(move || passed.pass());
        let mut asked = JoinSet::new();
        for _ in 0..12 {
            let rig = Arc::clone(&rig);
            asked.spawn(async move { rig.ask_at(path, "GET", &[], "").await.status.as_u16() });
        }
        assert!(asked.join_all().await.iter().all(|status| *status == 200), "{path}");
        assert!((1..=4).contains(&gate.most()), "{path}: {} at once", gate.most());
    }
}

/// Keeps those who pass until five are inside or a moment has gone by, and counts how many were inside at once. The
/// moment only decides how sure a missing bound is seen: with the bound there are never five.
#[derive(Default)]
struct Gate {
    /// How many are inside, and the most there were.
    inside: Mutex<(usize, usize)>,
    came: Condvar,
}

impl Gate {
    fn pass(&self) {
        let mut inside = self.inside.lock();
        inside.0 += 1;
        inside.1 = inside.1.max(inside.0);
        self.came.notify_all();
        let moment = Duration::from_millis(100);
        let _five = self.came.wait_while_for(&mut inside, |inside| inside.1 < 5, moment);
        inside.0 -= 1;
    }

    fn most(&self) -> usize {
        self.inside.lock().1
    }
}

#[tokio::test]
async fn a_page_counts_attributes_towards_its_bytes() {
    let rig = open().await;
    rig.done("POST", "/queues", r#"{"name":"orders"}"#).await;
    let message = json!({ "body": "x", "attributes": { "a": "v".repeat(250_000) } }).to_string();
    for _ in 0..40 {
        rig.done("POST", "/queues/orders/messages", &message).await;
    }
    let page = rig.get("/queues/orders/messages?limit=100").await.body;
    let messages = page["messages"].as_array().expect("a page has messages").len();
    assert!((20..40).contains(&messages) && page["next"].is_string(), "{messages} of 10 MB");
}
