//! Many senders and receivers at once on several threads, receivers going away at any moment: no message is lost,
//! none is acknowledged twice, and no client blocks another.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::task::Poll;

use kew_core::command::{Ack, FirstReceipts, Lease, Send};
use kew_core::{NewMessage, QueueId, ReceiptRule, Sequence};
use kew_engine::{Engine, Options};
use parking_lot::Mutex;

use crate::bench::{Answers, Bench, HandStore, seconds};

const SENDERS: usize = 3;
const MESSAGES_EACH: usize = 60;
const RECEIVERS: usize = 8;

async fn send_all(engine: Arc<Engine>, queue: QueueId) {
    for _ in 0..MESSAGES_EACH {
        let messages = vec![NewMessage::text(engine.message_id(), "m")];
        engine.send(Send { queue, messages, receipts: FirstReceipts::Told }).await.expect("the send is fine");
        tokio::task::yield_now().await;
    }
}

/// Polls so often, and goes away when there is no answer by then.
async fn patient_for<T>(polls: u32, future: impl Future<Output = T>) -> Option<T> {
    let mut future = std::pin::pin!(future);
    let mut left = polls;
    std::future::poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(answer) => Poll::Ready(Some(answer)),
        Poll::Pending => {
            left -= 1;
            if left == 0 { Poll::Ready(None) } else { Poll::Pending }
        }
    })
    .await
}

/// Receives and acknowledges; goes away from every other receive as soon as it may.
async fn receive_until_shutdown(engine: Arc<Engine>, queue: QueueId, done: Arc<Mutex<BTreeSet<Sequence>>>) {
    let mut turn = 0_u32;
    while !engine.is_shut_down() {
        turn += 1;
        let lease = Lease::of(queue, 1, engine.now());
        let receive = engine.lease_waiting(lease, seconds(1_000));
        let leases = match turn % 4 {
            // In line, or with a lease of its own that is not committed yet.
            1 => patient_for(1, receive).await.unwrap_or(Ok(Vec::new())),
            // Served by others, mostly before the commit.
            2 => patient_for(2, receive).await.unwrap_or(Ok(Vec::new())),
            _ => receive.await,
        };
        for leased in leases.expect("the receive is answered") {
            let ack = Ack { queue, receipt: ReceiptRule::Unexpired, tokens: vec![leased.token] };
            match engine.ack(ack).await.expect("the queue is there").as_slice() {
                [Ok(())] => assert!(done.lock().insert(leased.message.sequence), "acknowledged twice"),
                // The clock was moved between the receive and its ack; nothing else may end a lease that was given.
                _ => assert!(engine.now() >= leased.until, "the lease was taken away"),
            }
        }
        tokio::task::yield_now().await;
    }
}

async fn storm(answers: Answers) -> Bench {
    let bench = Bench::over(HandStore::new(answers), Options::default()).await;
    let queue = bench.queue("q").await;
    let done = Arc::new(Mutex::new(BTreeSet::new()));
    let committer = tokio::spawn({
        let engine = Arc::clone(&bench.engine);
        async move {
            loop {
                engine.commit();
                tokio::task::yield_now().await;
            }
        }
    });
    let receivers: Vec<_> = (0..RECEIVERS)
        .map(|_| tokio::spawn(receive_until_shutdown(Arc::clone(&bench.engine), queue, Arc::clone(&done))))
        .collect();
    let senders: Vec<_> =
        (0..SENDERS).map(|_| tokio::spawn(send_all(Arc::clone(&bench.engine), queue))).collect();
    for sender in senders {
        sender.await.expect("a sender ran to its end");
    }
    while done.lock().len() < SENDERS * MESSAGES_EACH {
        if bench.engine.stats().waiting_receives.value() == RECEIVERS as u64 {
            // All stand in line: what is left was leased for somebody who had gone, and stays so until its end.
            bench.advance(seconds(30)).await;
        } else {
            tokio::task::yield_now().await;
        }
    }
    assert_eq!(bench.engine.counts(queue).await.map(|counts| counts.stored()), Ok(0));
    bench.engine.shutdown();
    for receiver in receivers {
        receiver.await.expect("a receiver ends with the engine");
    }
    // Last of all: a receive may still be telling the store of a lease it was too late with.
    committer.abort();
    bench
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_or_done_twice_when_receives_come_and_go() {
    drop(storm(Answers::AtOnce).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_or_done_twice_when_leases_are_withdrawn_before_their_commit() {
    let bench = storm(Answers::AtCommit).await;
    assert!(bench.engine.stats().withdrawn_leases.value() > 0);
}
