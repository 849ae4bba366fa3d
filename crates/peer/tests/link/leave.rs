//! Links that are left, and end when nothing is under way any longer.

use std::task::Poll;

use bytes::Bytes;
use kew_peer::link::{LinkError, Why};

use super::support::{ask, pair, settle};

#[tokio::test(start_paused = true)]
async fn what_is_under_way_is_answered_before_a_link_that_both_left_ends() {
    let (a, b) = pair().await;
    let (to_b, to_a) = (ask(&a.link, "g to b"), ask(&b.link, "g to a"));
    b.service.wait_for(1).await;
    a.service.wait_for(1).await;
    a.link.leave();
    b.link.leave();
    settle().await;
    assert_eq!(a.link.ask(Bytes::new()).await, Err(LinkError::NotSent(Why::Leaving)));
    assert_eq!((a.link.ended(), b.link.ended()), (None, None));
    b.service.open_gate();
    assert_eq!(to_b.await.unwrap(), Ok(Bytes::from_static(b"g to b")));
    settle().await;
    assert_eq!((a.link.ended(), b.link.ended()), (None, None), "one request is still under way");
    a.service.open_gate();
    assert_eq!(to_a.await.unwrap(), Ok(Bytes::from_static(b"g to a")));
    assert_eq!((a.task.await.unwrap(), b.task.await.unwrap()), (Why::Closed, Why::Closed));
}

#[tokio::test(start_paused = true)]
async fn a_side_whose_other_side_has_left_still_asks() {
    let (a, b) = pair().await;
    a.link.leave();
    settle().await;
    assert_eq!(b.link.ask(Bytes::from_static(b"e")).await, Ok(Bytes::from_static(b"e")));
    assert!(b.link.is_open() && !a.link.is_open());
}

#[tokio::test(start_paused = true)]
async fn requests_queued_before_the_leaving_are_sent() {
    let (a, b) = pair().await;
    let mut asked: Vec<_> = (0..100).map(|_| Box::pin(a.link.ask(Bytes::from_static(b"e")))).collect();
    std::future::poll_fn(|cx| {
        assert!(asked.iter_mut().all(|asked| asked.as_mut().poll(cx).is_pending()));
        Poll::Ready(())
    })
    .await;
    a.link.leave();
    assert_eq!((a.link.under_way(), a.link.counted().asked), (100, 0), "they are queued");
    for asked in asked {
        assert_eq!(asked.await, Ok(Bytes::from_static(b"e")));
    }
    b.link.leave();
    assert_eq!((a.task.await.unwrap(), b.task.await.unwrap()), (Why::Closed, Why::Closed));
}
