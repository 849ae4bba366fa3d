//! A side that reads slowly, or not at all: what waits for it stays bounded.

use bytes::Bytes;
use kew_peer::link::limits::{OUT_ASKS_MAX, OUT_WAITING_MAX};
use tokio::io::duplex;

use super::support::{Faulty, ask, pair_over, settle};

/// What fits into the stream in memory.
const PIPE: usize = 64 << 10;
const ANSWER: usize = 100_000;

#[tokio::test(start_paused = true)]
async fn answers_are_not_made_for_a_side_that_does_not_read() {
    let (a, b) = duplex(PIPE);
    let (a, faults) = Faulty::new(a);
    let (a, b) = pair_over(a, b).await;
    faults.set(|faults| &faults.mute_reads, true);
    let asked: Vec<_> = (0..2_000).map(|_| ask(&a.link, format!("z{ANSWER}"))).collect();
    for _ in 0..10 {
        settle().await;
        let waiting = usize::try_from(b.link.counted().out_waiting).unwrap();
        assert!(waiting <= OUT_WAITING_MAX + ANSWER + 100, "{waiting} bytes wait");
        let made = b.service.made();
        assert!(made <= PIPE + OUT_WAITING_MAX + 2 * ANSWER, "{made} bytes of answers were made");
    }
    assert_eq!(b.service.seen.lock().unwrap().len(), 1, "the requests are alike");
    assert!(b.service.open() > 1_900, "the other requests were read, and wait");
    faults.set(|faults| &faults.mute_reads, false);
    for asked in asked {
        assert_eq!(asked.await.unwrap().map(|answer| answer.len()), Ok(ANSWER));
    }
}

#[tokio::test(start_paused = true)]
async fn cancels_reach_a_side_whose_answers_are_not_read() {
    let (a, b) = duplex(PIPE);
    let (a, faults) = Faulty::new(a);
    let (a, b) = pair_over(a, b).await;
    faults.set(|faults| &faults.mute_reads, true);
    let asked: Vec<_> = (0..2_000).map(|_| ask(&a.link, format!("z{ANSWER}"))).collect();
    settle().await;
    assert!(b.service.open() > 1_900);
    asked.iter().for_each(tokio::task::JoinHandle::abort);
    settle().await;
    assert_eq!(b.service.open(), 0);
    faults.set(|faults| &faults.mute_reads, false);
    assert_eq!(a.link.ask(Bytes::from_static(b"e")).await, Ok(Bytes::from_static(b"e")));
}

#[tokio::test(start_paused = true)]
async fn requests_wait_unframed_while_the_stream_takes_nothing() {
    let (a, b) = duplex(PIPE);
    let (a, faults) = Faulty::new(a);
    let (a, _b) = pair_over(a, b).await;
    faults.set(|faults| &faults.stuck_writes, true);
    let asked: Vec<_> = (0..1_000).map(|_| ask(&a.link, vec![b'e'; 10_000])).collect();
    settle().await;
    let waiting = usize::try_from(a.link.counted().out_waiting).unwrap();
    assert!(waiting > OUT_ASKS_MAX && waiting <= OUT_ASKS_MAX + 11_000, "{waiting} bytes wait");
    faults.set(|faults| &faults.stuck_writes, false);
    for asked in asked {
        assert!(asked.await.unwrap().is_ok());
    }
}

#[tokio::test(start_paused = true)]
async fn requests_made_and_dropped_while_the_stream_takes_nothing_do_not_pile_up() {
    let (a, b) = duplex(PIPE);
    let (a, faults) = Faulty::new(a);
    let (a, _b) = pair_over(a, b).await;
    faults.set(|faults| &faults.stuck_writes, true);
    for _ in 0..200 {
        let asked: Vec<_> = (0..100).map(|_| ask(&a.link, vec![b'e'; 10_000])).collect();
        tokio::task::yield_now().await;
        tokio::task::yield_now().await;
        asked.iter().for_each(tokio::task::JoinHandle::abort);
        tokio::task::yield_now().await;
        let waiting = usize::try_from(a.link.counted().out_waiting).unwrap();
        assert!(waiting <= OUT_ASKS_MAX + 30_000, "{waiting} bytes wait");
    }
    faults.set(|faults| &faults.stuck_writes, false);
    assert_eq!(a.link.ask(Bytes::from_static(b"e")).await, Ok(Bytes::from_static(b"e")));
}
