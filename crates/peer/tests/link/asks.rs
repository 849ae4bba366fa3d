//! Requests, answers and cancels.

use std::time::Duration;

use bytes::Bytes;
use kew_peer::link::limits::{ASK_BYTES_MAX, ASKS_MAX, PAYLOAD_MAX};
use kew_peer::link::{LinkError, Why};
use tokio::time::timeout;

use super::support::{ask, pair, settle};

#[tokio::test(start_paused = true)]
async fn answers_come_in_any_order() {
    let (a, b) = pair().await;
    let slow = ask(&a.link, "g slow");
    b.service.wait_for(1).await;
    assert_eq!(a.link.ask(Bytes::from_static(b"e quick")).await, Ok(Bytes::from_static(b"e quick")));
    assert!(!slow.is_finished());
    b.service.open_gate();
    assert_eq!(slow.await.unwrap(), Ok(Bytes::from_static(b"g slow")));
}

#[tokio::test(start_paused = true)]
async fn both_sides_ask_over_one_connection() {
    let (a, b) = pair().await;
    let (to_b, to_a) = (ask(&a.link, "e to b"), ask(&b.link, "e to a"));
    assert_eq!(to_b.await.unwrap(), Ok(Bytes::from_static(b"e to b")));
    assert_eq!(to_a.await.unwrap(), Ok(Bytes::from_static(b"e to a")));
    assert!(b.service.has_seen(&Bytes::from_static(b"e to b")));
    assert!(a.service.has_seen(&Bytes::from_static(b"e to a")));
    assert_eq!((a.link.peer().name(), b.link.peer().name()), ("node b", "node a"));
    assert_eq!((a.link.is_dialed(), b.link.is_dialed()), (true, false));
}

#[tokio::test(start_paused = true)]
async fn an_empty_request_has_an_empty_answer() {
    let (a, _b) = pair().await;
    assert_eq!(a.link.ask(Bytes::new()).await, Ok(Bytes::new()));
}

#[tokio::test(start_paused = true)]
async fn a_dropped_request_is_dropped_on_the_other_side() {
    let (a, b) = pair().await;
    let (dropped, kept) = (ask(&a.link, "n dropped"), ask(&a.link, "n kept"));
    b.service.wait_for(2).await;
    dropped.abort();
    b.service.wait_for(1).await;
    assert_eq!(a.link.under_way(), 1);
    assert!(!kept.is_finished());
    assert_eq!(a.link.ask(Bytes::from_static(b"e")).await, Ok(Bytes::from_static(b"e")));
}

#[tokio::test(start_paused = true)]
async fn a_request_dropped_before_it_was_framed_is_not_sent() {
    let (a, b) = pair().await;
    // Polled once each, without a turn of the connection in between.
    for number in 0..1_000 {
        let request = Bytes::from(format!("n{number}"));
        let mut asked = Box::pin(a.link.ask(request));
        std::future::poll_fn(|cx| {
            assert!(asked.as_mut().poll(cx).is_pending());
            std::task::Poll::Ready(())
        })
        .await;
    }
    assert_eq!(a.link.ask(Bytes::from_static(b"e")).await, Ok(Bytes::from_static(b"e")));
    assert_eq!(b.service.seen.lock().unwrap().len(), 1);
    assert_eq!(a.link.counted().asked, 1);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_crosses_its_cancel_harms_nothing() {
    let (a, b) = pair().await;
    for _ in 0..100 {
        let asked = ask(&a.link, "g");
        b.service.wait_for(1).await;
        b.service.open_gate();
        asked.abort();
        settle().await;
        assert_eq!((a.link.ended(), b.link.ended(), b.service.open()), (None, None, 0));
        b.service.close_gate();
    }
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_requests_are_under_way_at_once() {
    let (a, b) = pair().await;
    let asked: Vec<_> = (0..10_000).map(|number| ask(&a.link, format!("g{number}"))).collect();
    b.service.wait_for(10_000).await;
    assert_eq!((a.link.under_way(), b.link.counted().serving), (10_000, 10_000));
    b.service.open_gate();
    for (number, asked) in asked.into_iter().enumerate() {
        assert_eq!(asked.await.unwrap(), Ok(Bytes::from(format!("g{number}"))));
    }
    assert_eq!((a.link.under_way(), b.service.open()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn one_request_too_many_is_refused_at_once_and_not_sent() {
    let (a, b) = pair().await;
    let asked: Vec<_> = (0..ASKS_MAX).map(|_| ask(&a.link, "n")).collect();
    b.service.wait_for(ASKS_MAX).await;
    assert_eq!(a.link.ask(Bytes::from_static(b"e")).await, Err(LinkError::NotSent(Why::Full)));
    asked.first().unwrap().abort();
    settle().await;
    assert_eq!(a.link.ask(Bytes::from_static(b"e")).await, Ok(Bytes::from_static(b"e")));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_does_not_fit_waits_until_others_have_their_answers() {
    let (a, b) = pair().await;
    let long = || {
        let mut request = vec![b'n'; ASK_BYTES_MAX / 4];
        request[1] = 0;
        request
    };
    let asked: Vec<_> = (0..4).map(|_| ask(&a.link, long())).collect();
    b.service.wait_for(4).await;
    let waits = ask(&a.link, "e waits");
    assert!(timeout(Duration::from_millis(500), b.service.wait_for(5)).await.is_err());
    assert!(!waits.is_finished());
    asked.first().unwrap().abort();
    assert_eq!(waits.await.unwrap(), Ok(Bytes::from_static(b"e waits")));
    assert_eq!((a.link.ended(), b.link.ended()), (None, None), "the other side counts alike");
}

#[tokio::test(start_paused = true)]
async fn what_is_too_long_is_refused_without_harm_to_the_link() {
    let (a, b) = pair().await;
    let bytes = PAYLOAD_MAX + 1;
    let request = Bytes::from(vec![0; bytes]);
    assert_eq!(a.link.ask(request.clone()).await, Err(LinkError::NotSent(Why::TooLong { bytes })));
    let answer = a.link.ask(Bytes::from(format!("z{bytes}"))).await;
    assert_eq!(answer, Err(LinkError::Unknown(Why::AnswerTooLong)));
    let longest = a.link.ask(Bytes::from(format!("z{PAYLOAD_MAX}"))).await;
    assert_eq!(longest.map(|answer| answer.len()), Ok(PAYLOAD_MAX));
    assert_eq!(a.link.ask(request.slice(1..)).await.map(|answer| answer.len()), Ok(PAYLOAD_MAX));
    assert_eq!(b.link.ended(), None);
}

#[tokio::test(start_paused = true)]
async fn long_payloads_in_both_directions_do_not_wait_for_each_other() {
    let (a, b) = pair().await;
    let length = 10 << 20;
    let asked: Vec<_> = (0..10_u8)
        .flat_map(|number| [&a.link, &b.link].map(|link| (number, ask(link, vec![number; length]))))
        .collect();
    for (number, asked) in asked {
        let answer = asked.await.unwrap().unwrap();
        assert!(answer.len() == length && answer.iter().all(|byte| *byte == number));
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_a_service_ends_what_is_under_way() {
    let (a, b) = pair().await;
    let other = ask(&a.link, "n");
    b.service.wait_for(1).await;
    let asked = ask(&a.link, "p");
    assert_eq!(asked.await.unwrap(), Err(LinkError::Unknown(Why::Closed)));
    assert_eq!(other.await.unwrap(), Err(LinkError::Unknown(Why::Closed)));
    assert!(b.task.await.unwrap_err().is_panic());
    assert_eq!(b.link.ended(), Some(Why::Ended));
}

#[tokio::test(start_paused = true)]
async fn a_link_that_is_ended_drops_what_it_serves_and_asks() {
    let (a, b) = pair().await;
    let (to_b, to_a) = (ask(&a.link, "n"), ask(&b.link, "n"));
    b.service.wait_for(1).await;
    a.service.wait_for(1).await;
    a.link.end();
    assert_eq!(to_b.await.unwrap(), Err(LinkError::Unknown(Why::Ended)));
    assert_eq!(to_a.await.unwrap(), Err(LinkError::Unknown(Why::Closed)));
    assert_eq!((a.task.await.unwrap(), b.task.await.unwrap()), (Why::Ended, Why::Closed));
    assert_eq!((a.service.open(), b.service.open()), (0, 0));
    assert_eq!(a.link.ask(Bytes::new()).await, Err(LinkError::NotSent(Why::Ended)));
    assert_eq!(b.link.ask(Bytes::new()).await, Err(LinkError::NotSent(Why::Closed)));
}
