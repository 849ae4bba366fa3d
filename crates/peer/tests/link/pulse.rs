//! Signs of life and silence.

use std::time::Duration;

use kew_peer::link::limits::{BEAT_EVERY, CUT_OFF_AFTER, SILENCE_MAX};
use kew_peer::link::{LinkError, Why};
use tokio::io::duplex;
use tokio::time::{Instant, sleep};

use super::support::{Faulty, ask, pair, pair_over, settle};

#[tokio::test(start_paused = true)]
async fn an_idle_link_stays() {
    let (a, b) = pair().await;
    for _ in 0..600 {
        sleep(Duration::from_millis(100)).await;
        for link in [&a.link, &b.link] {
            assert_eq!(link.ended(), None);
            assert!(link.heard().elapsed() <= BEAT_EVERY + Duration::from_millis(2));
            assert!(link.surely_heard().elapsed() <= BEAT_EVERY + Duration::from_millis(2));
        }
    }
    assert!(a.link.counted().writes < 60 * 9, "a beat and an echo four times a second");
}

#[tokio::test(start_paused = true)]
async fn the_other_side_surely_holds_a_link_only_after_its_first_echo() {
    let (a, b) = pair().await;
    assert!(a.link.surely_heard() + SILENCE_MAX <= a.link.began());
    settle().await;
    for link in [&a.link, &b.link] {
        assert!(link.surely_heard() >= link.began());
    }
}

#[tokio::test(start_paused = true)]
async fn a_link_cut_in_both_directions_ends_after_a_second_on_both_sides() {
    let (a, b) = duplex(64 << 10);
    let ((a, faults_a), (b, faults_b)) = (Faulty::new(a), Faulty::new(b));
    let (a, b) = pair_over(a, b).await;
    let (to_b, to_a) = (ask(&a.link, "n"), ask(&b.link, "n"));
    settle().await;
    faults_a.set(|faults| &faults.lost_writes, true);
    faults_b.set(|faults| &faults.lost_writes, true);
    let cut = Instant::now();
    assert_eq!(to_b.await.unwrap(), Err(LinkError::Unknown(Why::Silent)));
    assert!(cut.elapsed() <= SILENCE_MAX + Duration::from_millis(2), "it took {:?}", cut.elapsed());
    assert!(matches!(to_a.await.unwrap(), Err(LinkError::Unknown(Why::Silent | Why::Closed))));
    assert!(cut.elapsed() <= SILENCE_MAX + Duration::from_millis(2));
    assert_eq!(a.task.await.unwrap(), Why::Silent);
}

#[tokio::test(start_paused = true)]
async fn a_link_cut_in_one_direction_ends_on_both_sides() {
    let (a, b) = duplex(64 << 10);
    let (a, faults) = Faulty::new(a);
    let (a, b) = pair_over(a, b).await;
    settle().await;
    faults.set(|faults| &faults.lost_writes, true);
    let cut = Instant::now();
    let asked = ask(&a.link, "e");
    // The side that hears nothing closes; the other sees that at once.
    assert_eq!(b.task.await.unwrap(), Why::Silent);
    assert_eq!(asked.await.unwrap(), Err(LinkError::Unknown(Why::Closed)));
    assert!(cut.elapsed() <= SILENCE_MAX + Duration::from_millis(2), "it took {:?}", cut.elapsed());
}

#[tokio::test(start_paused = true)]
async fn no_echo_is_a_sign_that_the_other_side_heard_nothing() {
    let (a, b) = duplex(64 << 10);
    let (a, faults) = Faulty::new(a);
    let (a, _b) = pair_over(a, b).await;
    sleep(Duration::from_millis(600)).await;
    faults.set(|faults| &faults.lost_writes, true);
    let cut = Instant::now();
    sleep(Duration::from_millis(900)).await;
    assert!(a.link.heard().elapsed() <= BEAT_EVERY, "the other side's beats arrive");
    assert!(a.link.surely_heard() <= cut);
}

#[tokio::test(start_paused = true)]
async fn a_link_that_was_silent_for_too_long_goes_on_as_another_conversation() {
    let (a, b) = duplex(64 << 10);
    let (a, faults) = Faulty::new(a);
    let (a, _b) = pair_over(a, b).await;
    sleep(BEAT_EVERY * 4).await;
    let before = a.link.conversation();
    for (silent, is_another) in [(CUT_OFF_AFTER - BEAT_EVERY * 2, false), (CUT_OFF_AFTER + BEAT_EVERY, true)]
    {
        faults.set(|faults| &faults.mute_reads, true);
        sleep(silent).await;
        faults.set(|faults| &faults.mute_reads, false);
        sleep(BEAT_EVERY * 4).await;
        assert_eq!(a.link.ended(), None);
        assert!(a.link.surely_heard().elapsed() < CUT_OFF_AFTER);
        assert_eq!(a.link.conversation() != before, is_another, "after {silent:?}");
    }
    let other = pair().await.0;
    assert_ne!(other.link.conversation(), a.link.conversation());
}

#[tokio::test(start_paused = true)]
async fn bytes_of_a_long_frame_are_a_sign_of_life() {
    let (a, b) = duplex(1 << 10);
    let (a, b) = pair_over(Slow::new(a), b).await;
    // Half a MiB at 64 KiB a second.
    let began = Instant::now();
    let answer = b.link.ask(format!("z{}", 512 << 10).into()).await;
    assert_eq!(answer.map(|answer| answer.len()), Ok(512 << 10));
    assert!(began.elapsed() > SILENCE_MAX * 3);
    assert_eq!(a.link.ended(), None);
}

/// Takes 1 KiB in 16 milliseconds.
struct Slow {
    stream: tokio::io::DuplexStream,
    next: std::pin::Pin<Box<tokio::time::Sleep>>,
}

impl Slow {
    fn new(stream: tokio::io::DuplexStream) -> Self {
        Self { stream, next: Box::pin(sleep(Duration::ZERO)) }
    }
}

impl tokio::io::AsyncRead for Slow {
    fn poll_read(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
        buf: &mut tokio::io::ReadBuf<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        std::pin::Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl tokio::io::AsyncWrite for Slow {
    fn poll_write(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
        from: &[u8],
    ) -> std::task::Poll<std::io::Result<usize>> {
        std::task::ready!(self.next.as_mut().poll(cx));
        let from = &from[..from.len().min(1 << 10)];
        let taken = std::task::ready!(std::pin::Pin::new(&mut self.stream).poll_write(cx, from));
        self.next.as_mut().reset(Instant::now() + Duration::from_millis(16));
        std::task::Poll::Ready(taken)
    }

    fn poll_flush(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn poll_shutdown(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        std::pin::Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
