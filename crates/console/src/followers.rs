//! Programs that follow the virtual clock: each change is sent to them at once, and a jump stops wherever one of them
//! has something due, until it says that this has been done.
//!
//! A follower asks again and again: which change it heard of last, and when something is due next. Having heard of a
//! change says that everything due by then has been done. One that stays away is forgotten after a moment of real time.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use kew_core::Timestamp;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// A follower that was answered comes back within this, having done what was due; else it is gone.
const BACK_WITHIN: Duration = Duration::from_secs(3);
/// One that broke its request off asks another at once, or is gone.
const AGAIN_WITHIN: Duration = Duration::from_millis(500);
/// A follower that is there but does not say that it is done is not waited for any longer.
const DONE_WITHIN: Duration = Duration::from_secs(5);
/// An answer is held at most so long.
const HELD_MAX: Duration = Duration::from_secs(2);
/// Maximum followers of one clock.
const FOLLOWERS_MAX: usize = 1_000;

/// Those who follow a clock.
pub(crate) struct Followers {
    /// Guards what is known of them.
    book: Mutex<Book>,
    /// Notified at each change of the clock, and whenever a follower asks or goes.
    news: Notify,
    /// Held while the clock moves: one move at a time.
    moving: tokio::sync::Mutex<()>,
}

/// What a follower hears.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct News {
    /// The newest change of the clock.
    pub(crate) change: u64,
    /// Whether requests may have been answered here since the change before.
    pub(crate) answered: bool,
}

struct Book {
    /// Counts the changes of the clock; those who know of none begin at zero.
    change: u64,
    /// The last change at which requests may have been answered.
    answered: u64,
    followers: HashMap<String, Follower>,
}

struct Follower {
    /// The last change it heard of.
    heard: u64,
    /// When something is due next.
    due: Option<Timestamp>,
    /// Requests of it that are being held.
    asking: u32,
    /// Without one, it is gone from here on.
    gone_at: Instant,
}

impl Default for Followers {
    fn default() -> Self {
        let book = Book { change: 1, answered: 1, followers: HashMap::new() };
        Self { book: Mutex::new(book), news: Notify::new(), moving: tokio::sync::Mutex::new(()) }
    }
}

impl Followers {
    /// Holds a follower's request until the clock has changed since the change it heard of; `None` when there are too
    /// many followers.
    pub(crate) async fn hear(&self, id: &str, heard: u64, due: Option<Timestamp>) -> Option<News> {
        let mut asking = self.sit(id, heard, due)?;
        let changed = async {
            loop {
                let news = self.news.notified();
                let change = self.book.lock().change;
                if change != heard {
                    return change;
                }
                news.await;
            }
        };
        let change = tokio::time::timeout(HELD_MAX, changed).await.unwrap_or(heard);
        asking.back_within = BACK_WITHIN;
        let answered = self.book.lock().answered > heard;
        Some(News { change, answered })
    }

    /// Held while the clock moves.
    pub(crate) async fn begin(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.moving.lock().await
    }

    /// The first instant at which one of them has something due, or `own` if that is earlier; none without followers.
    pub(crate) fn first_due(&self, own: impl FnOnce() -> Timestamp) -> Option<Timestamp> {
        let due: Vec<Timestamp> = {
            let mut book = self.book.lock();
            book.forget_gone();
            book.followers.values().map(|follower| follower.due.unwrap_or(Timestamp::NEVER)).collect()
        };
        due.into_iter().min().map(|due| due.min(own()))
    }

    /// Tells that the clock has changed and whether requests may have been answered with that, and waits until
    /// everybody has done what was due by then.
    pub(crate) async fn tell(&self, answered: bool) {
        let change = {
            let mut book = self.book.lock();
            book.change += 1;
            if answered {
                book.answered = book.change;
            }
            book.change
        };
        let begun = Instant::now();
        self.news.notify_waiters();
        loop {
            let news = self.news.notified();
            {
                let mut book = self.book.lock();
                book.forget_gone();
                if begun.elapsed() > DONE_WITHIN {
                    book.followers.retain(|_, follower| follower.heard >= change);
                }
                if book.followers.values().all(|follower| follower.heard >= change) {
                    return;
                }
            }
            // Whether one has gone is looked at now and then.
            let _news = tokio::time::timeout(AGAIN_WITHIN / 10, news).await;
        }
    }

    fn sit(&self, id: &str, heard: u64, due: Option<Timestamp>) -> Option<Asking<'_>> {
        let mut book = self.book.lock();
        book.forget_gone();
        if !book.followers.contains_key(id) && book.followers.len() >= FOLLOWERS_MAX {
            return None;
        }
        let new = Follower { heard, due, asking: 0, gone_at: Instant::now() };
        let follower = book.followers.entry(id.to_owned()).or_insert(new);
        (follower.heard, follower.due) = (heard, due);
        follower.asking += 1;
        drop(book);
        self.news.notify_waiters();
        Some(Asking { followers: self, id: id.to_owned(), back_within: AGAIN_WITHIN })
    }
}

impl Book {
    fn forget_gone(&mut self) {
        self.followers.retain(|_, follower| follower.asking > 0 || Instant::now() < follower.gone_at);
    }
}

/// A follower's request that is being held.
struct Asking<'a> {
    followers: &'a Followers,
    id: String,
    /// How long it may stay away afterwards.
    back_within: Duration,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        if let Some(follower) = self.followers.book.lock().followers.get_mut(&self.id) {
            follower.asking = follower.asking.saturating_sub(1);
            follower.gone_at = Instant::now() + self.back_within;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[tokio::test]
    async fn a_change_is_sent_to_followers_at_once_and_awaits_their_answers() {
        let followers = Arc::new(Followers::default());
        let first = followers
            .hear("a", 0, Some(Timestamp(5)))
            .await
            .expect("the first follower finds a free place")
            .change;
        assert_eq!(followers.first_due(|| Timestamp::NEVER), Some(Timestamp(5)));
        assert_eq!(followers.first_due(|| Timestamp(4)), Some(Timestamp(4)));
        let telling = tokio::spawn({
            let followers = Arc::clone(&followers);
            async move { followers.tell(true).await }
        });
        let second =
            followers.hear("a", first, Some(Timestamp(7))).await.expect("a known follower keeps its place");
        assert_eq!(second, News { change: first + 1, answered: true });
        let second = second.change;
        assert!(!telling.is_finished(), "it has not been said that everything due is done");
        let held = tokio::spawn({
            let followers = Arc::clone(&followers);
            async move { followers.hear("a", second, Some(Timestamp(9))).await }
        });
        telling.await.expect("the task that sends the news does not panic");
        assert_eq!(followers.first_due(|| Timestamp::NEVER), Some(Timestamp(9)));
        held.abort();
    }

    #[tokio::test]
    async fn a_follower_that_went_away_is_not_waited_for() {
        let followers = Followers::default();
        drop(followers.sit("a", 1, Some(Timestamp(5))));
        assert_eq!(
            followers.first_due(|| Timestamp::NEVER),
            Some(Timestamp(5)),
            "it may have broken off to ask another"
        );
        let begun = Instant::now();
        followers.tell(true).await;
        assert!(begun.elapsed() < BACK_WITHIN, "its silence is not waited for");
        assert_eq!(followers.first_due(|| Timestamp::NEVER), None);
    }
}
