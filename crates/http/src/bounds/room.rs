//! One bound for the bytes of all replies that clients have not taken yet, and a smaller one for each connection.
//!
//! A reply is counted from when it is made until the socket has its last byte. A request that is about to make a large
//! one asks for room first and waits for it, in the order of asking, so that nothing is leased for a reply that cannot
//! be kept. While there is none, clients that take nothing are given up much sooner (`watch`).

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use crate::refusal::Refusal;

/// A request waits so long for room: longer than clients that take nothing are kept while there is none.
const ROOM_WITHIN: Duration = Duration::from_secs(15);
/// One connection may have this part of everything.
const PART_OF_ONE: usize = 8;

/// The replies of all listeners that share it.
#[derive(Clone, Debug)]
pub struct Replies(Arc<All>);

#[derive(Debug)]
struct All {
    bytes_max: usize,
    held: AtomicUsize,
    refused: AtomicU64,
    /// Those who wait, in order.
    freed: Notify,
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
    /// Maximum bytes of replies that are kept, and one more reply.
    pub fn new(bytes_max: usize) -> Self {
        let (held, refused) = (AtomicUsize::new(0), AtomicU64::new(0));
        Self(Arc::new(All { bytes_max, held, refused, freed: Notify::new() }))
    }

    /// Bytes of replies that clients have not taken yet.
    pub fn held(&self) -> usize {
        self.0.held.load(Ordering::Relaxed)
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
}

impl Room {
    /// Waits until there is room for one more reply.
    pub async fn free(&self) -> Result<(), Refusal> {
        match &self.0 {
            Some(own) if kew_core::Room::is_full(&**own) => Box::pin(own.free_in_time()).await,
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

    async fn free_in_time(&self) -> Result<(), Refusal> {
        let freed = tokio::time::timeout(ROOM_WITHIN, self.until_free()).await;
        freed.map_err(|_| {
            self.all.0.refused.fetch_add(1, Ordering::Relaxed);
            Refusal::RepliesTooLarge
        })
    }

    async fn until_free(&self) {
        loop {
            while self.is_full_itself() {
                self.freed.notified().await;
            }
            if !self.all.is_full() {
                // There may be room for the next in line too. Who is woken and finds none waits at the end again.
                return self.all.0.freed.notify_one();
            }
            self.all.0.freed.notified().await;
            if self.is_full_itself() {
                self.all.0.freed.notify_one();
            }
        }
    }
}

impl kew_core::Room for Own {
    fn is_full(&self) -> bool {
        self.is_full_itself() || self.all.is_full()
    }

    fn take(&self, bytes: usize) {
        self.held.fetch_add(bytes, Ordering::Relaxed);
        self.all.0.held.fetch_add(bytes, Ordering::Relaxed);
    }

    fn give_back(&self, bytes: usize) {
        let (own_max, all_max) = (self.all.0.bytes_max / PART_OF_ONE, self.all.0.bytes_max);
        if self.held.fetch_sub(bytes, Ordering::Relaxed) >= own_max {
            self.freed.notify_waiters();
        }
        if self.all.0.held.fetch_sub(bytes, Ordering::Relaxed) >= all_max {
            self.all.0.freed.notify_one();
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
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Waker};

    fn is_free(room: &Room) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .expect("a runtime of one thread is built");
        let _entered = runtime.enter();
        pin!(room.free()).poll(&mut cx).is_ready()
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
    async fn what_is_kept_for_a_reply_counts_until_it_is_made() {
        let replies = Replies::new(80);
        let room = replies.of_connection();
        let kept = room.keep(10).await.expect("ten bytes fit into the room");
        assert!(room.for_leases().expect("the room for leases is bounded").is_full());
        drop(kept);
        assert_eq!(replies.held(), 0);
    }
}
