//! A store that fails: what clients learn, what they do not, and what stands of a request that was done in part.

use std::sync::{Arc, Mutex, PoisonError};

use kew_cloudflare::Settings;
use kew_core::{Command, Timestamp};
use kew_engine::EngineError;
use kew_http::Guard;
use kew_store::{MemoryStore, Store, StoreError, Submission};
use kew_testing::{Wrap, Wrapped};
use serde_json::json;

use super::server::{CloudflareAnswer, CloudflareServer, CountingEntropy, settings};

/// Which steps fail, and how.
type Failure = (fn(&Command) -> bool, StoreError);

type Failing = Wrapped<MemoryStore, Failures>;

#[derive(Default)]
struct Failures {
    /// Guards what fails from now on.
    failure: Mutex<Option<Failure>>,
}

impl Failures {
    fn fail(&self, which: fn(&Command) -> bool, error: StoreError) {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some((which, error));
    }
}

impl Wrap<MemoryStore> for Failures {
    fn step(&self, store: &MemoryStore, now: Timestamp, command: &Command) -> Submission {
        match &*self.failure.lock().unwrap_or_else(PoisonError::into_inner) {
            Some((which, error)) if which(command) => Submission::settled(Err(error.clone())),
            Some(_) | None => store.step(now, command),
        }
    }
}

struct Failed {
    server: CloudflareServer,
    store: Arc<Failing>,
    /// A queue that can be pulled from, with a message.
    queue: String,
    /// The causes that were reported to the operator.
    causes: Arc<Mutex<Vec<String>>>,
}

async fn failed() -> Failed {
    let store = MemoryStore::new(Arc::new(CountingEntropy::default()));
    let store = Arc::new(Failing { store, wrap: Failures::default() });
    let causes: Arc<Mutex<Vec<String>>> = Arc::default();
    let heard = Arc::clone(&causes);
    let failures = move |_, cause: &str| {
        heard.lock().unwrap_or_else(PoisonError::into_inner).push(cause.to_owned());
    };
    let settings = Settings { failures: Arc::new(failures), ..settings() };
    let server =
        CloudflareServer::over(Arc::clone(&store) as Arc<dyn Store>, settings, Guard::strict()).await;
    let queue = server.pulled("orders", json!({})).await;
    server.push(&queue, "m", json!({})).await.result();
    Failed { server, store, queue, causes }
}

#[tokio::test]
async fn failures_have_their_numbers_and_keep_their_causes_to_us() {
    let cause = || "the disk sdz broke".to_owned();
    for (error, status, code) in [
        (StoreError::NoSpace, 429, 10_251),
        (StoreError::Overloaded { what: "the disk sdz" }, 429, 10_250),
        (StoreError::FailStopped { cause: cause() }, 429, 10_250),
        (StoreError::Unavailable { cause: cause() }, 429, 10_250),
        (StoreError::Damaged { what: cause() }, 500, 15_000),
    ] {
        let Failed { server, store, queue, causes } = failed().await;
        store.wrap.fail(|_| true, error.clone());
        let mut calls = 0;
        for (method, path, body) in [
            ("POST", "/queues".to_owned(), json!({ "queue_name": "new" })),
            ("PATCH", queue.clone(), json!({ "settings": { "delivery_delay": 1 } })),
            ("DELETE", queue.clone(), json!({})),
            ("GET", format!("{queue}/metrics"), json!({})),
            ("POST", format!("{queue}/purge"), json!({ "delete_messages_permanently": true })),
            ("POST", format!("{queue}/messages"), json!({ "body": 1 })),
            ("POST", format!("{queue}/messages/batch"), json!({ "messages": [{ "body": 1 }] })),
            ("POST", format!("{queue}/messages/pull"), json!({})),
            ("POST", format!("{queue}/messages/peek"), json!({})),
        ] {
            let told = server.call(method, &path, body).await.is_error(status, code);
            assert!(!told.contains("sdz"), "{told}");
            calls += 1;
        }
        let binding = [("Host", "fake-host"), ("X-Kew-Queue", "orders"), ("X-Msg-Fmt", "text")];
        let refused = server.raw("POST", "/message", &binding, b"m").await;
        refused.is_error(status, code);
        assert_eq!(refused.header("cf-queues-error-code"), Some(code.to_string().as_str()));
        assert_eq!(refused.reason, if status == 429 { "Too Many Requests" } else { "Internal Server Error" });
        let causes = causes.lock().unwrap_or_else(PoisonError::into_inner).clone();
        assert_eq!(causes, vec![EngineError::from(error).to_string(); calls + 1]);
    }
}

#[tokio::test]
async fn what_one_part_of_a_settling_did_stands_when_the_other_fails() {
    let Failed { server, store, queue, causes } = failed().await;
    server.push(&queue, "n", json!({})).await.result();
    let pulled = server.pull(&queue, json!({})).await;
    let [first, second] = [&pulled[0], &pulled[1]].map(|message| message["lease_id"].clone());
    store.wrap.fail(|command| matches!(command, Command::Release(_)), StoreError::NoSpace);
    let body = json!({ "acks": [{ "lease_id": first }], "retries": [{ "lease_id": second }] });
    let settled = server.settle(&queue, body).await;
    let expected = json!({
        "ackCount": 1, "retryCount": 0,
        "warnings": { second.as_str().expect("a lease id is text"): "Queue storage limit exceeded" },
    });
    assert_eq!(settled, expected);
    assert_eq!(causes.lock().unwrap_or_else(PoisonError::into_inner).len(), 1);
    // Where nothing was done, the whole is refused, and may be asked for again.
    let path = format!("{queue}/messages/ack");
    let retry = json!({ "retries": [{ "lease_id": second }] });
    server.call("POST", &path, retry.clone()).await.is_error(429, 10_251);
    // The first is gone already, which is no effect.
    let both = json!({ "acks": [{ "lease_id": first }], "retries": [{ "lease_id": second }] });
    server.call("POST", &path, both).await.is_error(429, 10_251);
    store.wrap.fail(|_| true, StoreError::FailStopped { cause: "it broke".to_owned() });
    let both = json!({ "acks": [{ "lease_id": first }], "retries": [{ "lease_id": second }] });
    server.call("POST", &path, both).await.is_error(429, 10_250);
    store.wrap.fail(|_| false, StoreError::NoSpace);
    assert_eq!(server.settle(&queue, retry).await["retryCount"], 1);
}
