//! One bound for the bytes of all replies that clients have not taken yet, and a smaller one for each connection.
//!
//! A reply is counted from when it is made until the socket has its last byte. A request that is about to make a large
//! one asks for room first and waits for it, in the order of asking, so that nothing is leased for a reply that cannot
//! be kept. While there is none, clients that take nothing are given up much sooner (`watch`).
//!
//! A small reply has room of its own beyond that, so that it does not wait behind large ones that are not read.

use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use crate::refusal::Refusal;

/// A request waits so long for room: longer than clients that take nothing are kept while there is none.
const ROOM_WITHIN: Duration = Duration::from_secs(15);
/// One connection may have this part of everything.
const PART_OF_ONE: usize = 8;
/// Small replies have this part of everything beyond it: with 128 MiB, more than a usual reply may stick out.
const PART_FOR_SMALL: usize = 4;
/// Bytes of replies from which their maximum is kept. Below, each reply costs no more than counting it.
const NOTED_FROM: usize = 1 << 20;

/// The replies of all listeners that share it.
#[derive(Clone, Debug)]
pub struct Replies(Arc<All>);

#[derive(Debug)]
struct All {
    bytes_max: usize,
    held: AtomicUsize,
    /// The maximum of `held` since it was last asked for, if that was large.
    most: AtomicUsize,
    refused: AtomicU64,
    /// Those who wait, in order.
    freed: Notify,
    /// Those who wait with a small reply.
    freed_for_small: Notify,
}

/// Which room is asked for.
#[derive(Clone, Copy)]
enum Size {
    Any,
    Small,
}

/// One connection's replies. The default is one without a bound.
#[derive(Clone, Default)]
pub struct Room(Option<Arc<Own>>);

#[derive(Debug)]
struct Own {
    all: Replies,
    held: AtomicUsize,
    freed: Notify,
}

impl Replies {
    /// Maximum bytes of replies that are kept, and one more reply; a quarter more for small ones.
    pub fn new(bytes_max: usize) -> Self {
        let (held, most, refused) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicU64::new(0));
        let (freed, freed_for_small) = (Notify::new(), Notify::new());
        Self(Arc::new(All { bytes_max, held, most, refused, freed, freed_for_small }))
    }

    /// Bytes of replies that clients have not taken yet.
    pub fn held(&self) -> usize {
        self.0.held.load(Ordering::Relaxed)
    }

    /// The maximum of what was held since this was last called; 0 where it was not large.
    pub(crate) fn take_most(&self) -> usize {
        self.0.most.swap(0, Ordering::Relaxed)
    }

    /// How many requests have waited for room in vain.
    pub fn refused(&self) -> u64 {
        self.0.refused.load(Ordering::Relaxed)
    }

    /// The room of one more connection.
    pub(crate) fn of_connection(&self) -> Room {
        let own = Own { all: self.clone(), held: AtomicUsize::new(0), freed: Notify::new() };
        Room(Some(Arc::new(own)))
    }

    pub(crate) fn is_full(&self) -> bool {
        self.held() >= self.0.bytes_max
    }

    fn is_full_for_small(&self) -> bool {
        self.held() >= self.bytes_max_with_small()
    }

    fn bytes_max_with_small(&self) -> usize {
        self.0.bytes_max + self.0.bytes_max / PART_FOR_SMALL
    }
}

impl Room {
    /// Waits until there is room for one more reply.
    pub async fn free(&self) -> Result<(), Refusal> {
        match &self.0 {
            Some(own) if kew_core::Room::is_full(&**own) => Box::pin(own.free_in_time(Size::Any)).await,
            Some(_) | None => Ok(()),
        }
    }

    /// Waits until there is room for a reply that is small.
    pub async fn free_for_small(&self) -> Result<(), Refusal> {
        match &self.0 {
            Some(own) if kew_core::Room::is_full_for_small(&**own) => {
                Box::pin(own.free_in_time(Size::Small)).await
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Waits until there is room, and keeps this number of bytes of it until what is returned is dropped: for a reply
    /// whose length shows only when it is made.
    pub async fn keep(&self, bytes: usize) -> Result<KeptBytes, Refusal> {
        self.free().await?;
        Ok(self.take(bytes))
    }

    /// Counts a reply that is made, until what is returned is dropped.
    pub(crate) fn take(&self, bytes: usize) -> KeptBytes {
        if let Some(own) = &self.0 {
            kew_core::Room::take(&**own, bytes);
        }
        KeptBytes { room: self.clone(), bytes }
    }

    /// The same for a request that hands messages out.
    pub fn for_leases(&self) -> Option<Arc<dyn kew_core::Room>> {
        self.0.clone().map(|own| own as Arc<dyn kew_core::Room>)
    }
}

impl fmt::Debug for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held = self.0.as_ref().map(|own| own.held.load(Ordering::Relaxed));
        f.debug_struct("Room").field("held", &held).finish()
    }
}

impl Own {
    fn is_full_itself(&self) -> bool {
        self.held.load(Ordering::Relaxed) >= self.all.0.bytes_max / PART_OF_ONE
    }

    async fn free_in_time(&self, size: Size) -> Result<(), Refusal> {
        let freed = tokio::time::timeout(ROOM_WITHIN, self.until_free(size)).await;
        freed.map_err(|_| {
            kew_core::Room::count_refused(self);
            Refusal::RepliesTooLarge
        })
    }

    async fn until_free(&self, size: Size) {
        let line = match size {
            Size::Any => &self.all.0.freed,
            Size::Small => &self.all.0.freed_for_small,
        };
        let mut turn = None;
        loop {
            loop {
                let mut freed = pin!(self.freed.notified());
                // Before the look: another thread may give bytes back meanwhile.
                freed.as_mut().enable();
                if !self.is_full_itself() {
                    break;
                }
                turn = None;
                freed.await;
            }
            let is_full = match size {
                Size::Any => self.all.is_full(),
                Size::Small => self.all.is_full_for_small(),
            };
            if !is_full {
                // There may be room for the next in line too. Who is woken and finds none waits at the end again.
                drop(turn.unwrap_or_else(|| Turn { line, is_used: false }));
                return;
            }
            if let Some(turn) = &mut turn {
                turn.is_used = true;
            }
            line.notified().await;
            turn = Some(Turn { line, is_used: false });
            // Where clients go away by the hundred, each reply that is made for one lets the next begin at once. What
            // others have sent meanwhile is taken up first: the event loop looks at sockets when all have yielded.
            tokio::task::yield_now().await;
        }
    }
}

/// The turn of one who waits in a line. Dropped before it found the room full, it goes to the next.
struct Turn<'a> {
    line: &'a Notify,
    is_used: bool,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if !self.is_used {
            self.line.notify_one();
        }
    }
}

impl kew_core::Room for Own {
    fn is_full(&self) -> bool {
        self.is_full_itself() || self.all.is_full()
    }

    fn is_full_for_small(&self) -> bool {
        self.is_full_itself() || self.all.is_full_for_small()
    }

    fn freed(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        // Where there is none for small replies either, that comes first.
        let size = if kew_core::Room::is_full_for_small(self) { Size::Small } else { Size::Any };
        Box::pin(self.until_free(size))
    }

    fn count_refused(&self) {
        self.all.0.refused.fetch_add(1, Ordering::Relaxed);
    }

    fn take(&self, bytes: usize) {
        self.held.fetch_add(bytes, Ordering::Relaxed);
        let held = self.all.0.held.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if held >= NOTED_FROM {
            self.all.0.most.fetch_max(held, Ordering::Relaxed);
        }
    }

    fn give_back(&self, bytes: usize) {
        let (own_max, all_max) = (self.all.0.bytes_max / PART_OF_ONE, self.all.0.bytes_max);
        if self.held.fetch_sub(bytes, Ordering::Relaxed) >= own_max {
            self.freed.notify_waiters();
        }
        let held = self.all.0.held.fetch_sub(bytes, Ordering::Relaxed);
        if held >= all_max {
            self.all.0.freed.notify_one();
        }
        if held >= self.all.bytes_max_with_small() {
            self.all.0.freed_for_small.notify_one();
        }
    }
}

/// Bytes of a reply, counted until this is dropped.
#[derive(Debug)]
pub struct KeptBytes {
    room: Room,
    bytes: usize,
}

impl Drop for KeptBytes {
    fn drop(&mut self) {
        if let Some(own) = &self.room.0 {
            kew_core::Room::give_back(&**own, self.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::{Context, Waker};

    fn is_free(room: &Room) -> bool {
        is_ready(room.free())
    }

    fn is_free_for_small(room: &Room) -> bool {
        is_ready(room.free_for_small())
    }

    fn is_ready(free: impl Future<Output = Result<(), Refusal>>) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .expect("a runtime of one thread is built");
        let _entered = runtime.enter();
        pin!(free).poll(&mut cx).is_ready()
    }

    #[test]
    fn one_connection_has_an_eighth_and_all_together_have_the_whole() {
        let replies = Replies::new(80);
        let (one, other) = (replies.of_connection(), replies.of_connection());
        let first = one.take(9);
        assert!(is_free(&one), "there is one byte left");
        let second = one.take(5);
        assert!(!is_free(&one) && is_free(&other), "one reply may stick out, and no other begins");
        let third = other.take(66);
        assert_eq!(replies.held(), 80);
        assert!(!is_free(&replies.of_connection()));
        drop((first, second));
        assert!(is_free(&one) && !is_free(&other));
        drop(third);
        assert_eq!(replies.held(), 0);
        assert!(is_free(&Room::default()));
    }

    #[test]
    fn small_replies_have_a_quarter_more_but_not_for_a_connection_that_is_full_itself() {
        let replies = Replies::new(80);
        let connections: Vec<_> = (0..8).map(|_| replies.of_connection()).collect();
        let kept: Vec<_> = connections.iter().map(|each| each.take(10)).collect();
        let fresh = replies.of_connection();
        assert!(!is_free(&fresh) && is_free_for_small(&fresh));
        assert!(!is_free_for_small(&connections[0]), "it has taken none of its ten bytes");
        let small: Vec<_> = (0..3).map(|_| replies.of_connection().take(6)).collect();
        assert!(is_free_for_small(&fresh), "there are two bytes left");
        let last = fresh.take(2);
        assert!(!is_free_for_small(&replies.of_connection()));
        drop((kept, small, last));
        assert_eq!(replies.held(), 0);
        assert!(is_free(&Room::default()));
    }

    #[tokio::test(start_paused = true)]
    async fn those_who_wait_are_let_in_when_there_is_room_and_refused_when_there_is_none_for_long() {
        let replies = Replies::new(80);
        let (full, waiting) = (replies.of_connection(), replies.of_connection());
        let taken = full.take(100);
        let waits: Vec<_> = (0..3).map(|_| (waiting.clone(), full.clone())).collect();
        let waits = waits
            .into_iter()
            .map(|(waiting, full)| tokio::spawn(async move { tokio::join!(waiting.free(), full.free()) }));
        let waits: Vec<_> = waits.collect();
        tokio::time::sleep(Duration::from_secs(1)).await;
        drop(taken);
        for wait in waits {
            assert_eq!(wait.await.expect("a waiting task does not panic"), (Ok(()), Ok(())));
        }
        let _taken = full.take(100);
        assert_eq!(waiting.free().await, Err(Refusal::RepliesTooLarge));
        assert_eq!(replies.refused(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_small_reply_waits_for_small_room_alone() {
        let replies = Replies::new(80);
        let (full, more, waiting) =
            (replies.of_connection(), replies.of_connection(), replies.of_connection());
        let (_large, small) = (full.take(90), more.take(10));
        let waits = tokio::spawn(async move { tokio::join!(waiting.free_for_small(), waiting.free()) });
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(!waits.is_finished());
        drop(small);
        let begun = tokio::time::Instant::now();
        let waited = waits.await.expect("a waiting task does not panic");
        assert_eq!(waited, (Ok(()), Err(Refusal::RepliesTooLarge)));
        assert_eq!(begun.elapsed(), ROOM_WITHIN - Duration::from_secs(1), "the large one waited in vain");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_kept_for_a_reply_counts_until_it_is_made() {
        let replies = Replies::new(80);
        let room = replies.of_connection();
        let kept = room.keep(10).await.expect("ten bytes fit into the room");
        assert!(room.for_leases().expect("the room for leases is bounded").is_full());
        drop(kept);
        assert_eq!(replies.held(), 0);
    }
}
