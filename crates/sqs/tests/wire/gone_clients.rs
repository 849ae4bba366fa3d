//! What a request leaves behind when its client does not wait for the answer, or the store refuses it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use kew_core::command::DeleteQueue;
use kew_core::{Command, Timestamp};
use kew_sqs::Settings;
use kew_store::{BatchNumber, Gate, MemoryStore, Store, StoreError, Submission};
use kew_testing::{Wrap, Wrapped};
use serde_json::json;

use super::server::{CountingEntropy, SqsAnswer, SqsServer};

/// A store whose deletions of queues are applied and never answered, or not done at all.
type Slow = Wrapped<MemoryStore, Deletions>;

struct Deletions {
    refuses: AtomicBool,
}

/// A gate that stays shut.
struct Shut;

impl Gate for Shut {
    fn poll_open(&self, _: u64, _: &mut Context<'_>) -> Poll<Result<(), StoreError>> {
        Poll::Pending
    }
}

impl Wrap<MemoryStore> for Deletions {
    fn step(&self, store: &MemoryStore, now: Timestamp, command: &Command) -> Submission {
        let Command::DeleteQueue(_) = command else { return store.step(now, command) };
        if self.refuses.load(Ordering::Relaxed) {
            return Submission::settled(Err(StoreError::NoSpace));
        }
        let submission = store.step(now, command);
        let outcome = submission.peek().expect("memory answers at once").clone();
        Submission::applied(outcome, BatchNumber::FIRST, Arc::new(Shut))
    }
}

async fn server() -> (SqsServer, Arc<Slow>) {
    let store = MemoryStore::new(Arc::new(CountingEntropy::default()));
    let store = Arc::new(Slow { store, wrap: Deletions { refuses: AtomicBool::new(false) } });
    let server = SqsServer::over(Arc::clone(&store) as Arc<dyn Store>, Settings::default()).await;
    server.call("CreateQueue", json!({"QueueName": "orders"})).await.ok();
    (server, store)
}

#[tokio::test]
async fn the_name_of_a_queue_is_held_although_the_client_that_deleted_it_left() {
    let (server, _) = server().await;
    let body = r#"{"QueueUrl":"orders"}"#;
    let mut client = server.client().await;
    let request = format!(
        "POST / HTTP/1.1\r\nHost: h\r\nX-Amz-Target: AmazonSQS.DeleteQueue\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    client.send(request.as_bytes()).await;
    while server.call("GetQueueUrl", json!({"QueueName": "orders"})).await.status == 200 {}
    drop(client);
    let again = server.call("CreateQueue", json!({"QueueName": "orders"})).await;
    assert_eq!(
        again.header("x-amzn-query-error"),
        Some("AWS.SimpleQueueService.QueueDeletedRecently;Sender")
    );
}

#[tokio::test]
async fn a_deletion_that_was_not_done_holds_no_name() {
    let (server, store) = server().await;
    store.wrap.refuses.store(true, Ordering::Relaxed);
    assert_eq!(server.call("DeleteQueue", json!({"QueueUrl": "orders"})).await.status, 503);
    store.wrap.refuses.store(false, Ordering::Relaxed);
    // Gone in another way than SQS's, which holds no name.
    let key = kew_core::QueueKey::new(kew_core::AccountId(0), "us-east-1", "orders");
    let queue = server.engine.queue(&key).expect("the queue `orders` exists").id;
    let engine = Arc::clone(&server.engine);
    let deletion =
        tokio::spawn(async move { engine.delete_queue(DeleteQueue { queue, if_version: None }).await });
    while server.call("GetQueueUrl", json!({"QueueName": "orders"})).await.status == 200 {}
    deletion.abort();
    server.call("CreateQueue", json!({"QueueName": "orders"})).await.ok();
}
