//! Looks at all connections now and then, and says which take too long.
//!
//! No request sets a timer. The watch remembers what it saw of each connection and since when; a connection that looks
//! the same for too long is overdue. So each bound is kept to within one look, which is an eighth of the shortest.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::bounds::limits::Limits;
use crate::bounds::room::Replies;
use crate::progress::pulse::{Overdue, Phase, Pulse, Signs};

/// Maximum connections that are checked in one step, so that other tasks of the event loop do not wait long.
const AT_ONCE: usize = 1_024;

/// A client that gives up more requests than that between two looks asks for work and not for answers.
const GIVEN_UP_MAX: u32 = 1_000;
/// While there is no room for replies, clients that take nothing of theirs are kept for so long and no longer.
const STALL_WITHOUT_ROOM: Duration = Duration::from_secs(5);

/// Bytes of a piece that is large to the allocator.
const LARGE_PIECE: usize = 1 << 20;
/// Looks, a second apart or less, after replies were dropped.
const LOOKS_AFTER: u32 = 20;

/// Watches over connections.
#[derive(Clone)]
pub(crate) struct Watch {
    /// Guards who is watched and what was seen of them.
    crowd: Arc<Mutex<Crowd>>,
    limits: Limits,
    replies: Replies,
}

#[derive(Default)]
struct Crowd {
    watched: Vec<Option<Entry>>,
    vacant: Vec<usize>,
}

struct Entry {
    pulse: Arc<Pulse>,
    seen: Option<Seen>,
    /// How many requests their client had given up at the last look.
    given_up: u32,
}

/// What was seen of one connection.
#[derive(Clone, Copy)]
struct Seen {
    signs: Signs,
    /// Since when it has been in this phase of this request.
    since: Instant,
    /// When its bytes were last taken down.
    marked_at: Instant,
    overdue: Overdue,
}

impl Watch {
    pub(crate) fn new(limits: Limits, replies: Replies) -> Self {
        Self { crowd: Arc::default(), limits, replies }
    }

    /// Watches over `pulse` until what is returned is dropped.
    pub(crate) fn over(&self, pulse: Pulse) -> Watched {
        let pulse = Arc::new(pulse);
        let entry = Entry { pulse: Arc::clone(&pulse), seen: None, given_up: 0 };
        let mut crowd = self.crowd.lock();
        let slot = crowd.vacant.pop().unwrap_or(crowd.watched.len());
        match crowd.watched.get_mut(slot) {
            Some(place) => *place = Some(entry),
            None => crowd.watched.push(Some(entry)),
        }
        drop(crowd);
        Watched { pulse, crowd: Arc::clone(&self.crowd), slot }
    }

    /// Looks at everyone again and again, for as long as it is polled.
    pub(crate) async fn keep(self) {
        let mut ticks = tokio::time::interval(self.limits.look_every());
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut left = LeftMemory::default();
        loop {
            ticks.tick().await;
            left.look(self.replies.take_most(), self.replies.held());
            let mut first = 0;
            while self.look(first, Instant::now()) {
                first += AT_ONCE;
                tokio::task::yield_now().await;
            }
        }
    }

    /// Looks at some of them; tells whether there are more behind.
    fn look(&self, first: usize, now: Instant) -> bool {
        let mut found = Vec::new();
        let mut limits = self.limits;
        if self.replies.is_full() {
            limits.reply_stall = limits.reply_stall.min(STALL_WITHOUT_ROOM);
        }
        let mut crowd = self.crowd.lock();
        for entry in crowd.watched.iter_mut().skip(first).take(AT_ONCE).flatten() {
            if let Some(overdue) = entry.look(now, &limits) {
                found.push((Arc::clone(&entry.pulse), overdue));
            }
        }
        let is_more = crowd.watched.len() > first + AT_ONCE;
        drop(crowd);
        for (pulse, overdue) in found {
            pulse.find(overdue);
        }
        is_more
    }
}

/// Memory of replies that were dropped. mimalloc gives it back to the system when it is asked for a large piece, a
/// second later at the earliest: of 155 MB that were freed all stayed resident without, and 17 MB after one piece.
#[derive(Default)]
struct LeftMemory {
    held: usize,
    looks: u32,
}

impl LeftMemory {
    /// Takes up the most that replies held since the last look, and what they hold now. Asks for a piece in the looks
    /// after that has become much less, were it between two looks.
    fn look(&mut self, most: usize, held: usize) {
        if std::mem::replace(&mut self.held, held).max(most) >= held + LARGE_PIECE {
            self.looks = LOOKS_AFTER;
        }
        if self.looks > 0 {
            self.looks -= 1;
            drop(std::hint::black_box(Vec::<u8>::with_capacity(LARGE_PIECE)));
        }
    }
}

/// A pulse that is watched over. Dropping it ends that.
pub(crate) struct Watched {
    pulse: Arc<Pulse>,
    crowd: Arc<Mutex<Crowd>>,
    slot: usize,
}

impl Watched {
    pub(crate) fn pulse(&self) -> &Arc<Pulse> {
        &self.pulse
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let mut crowd = self.crowd.lock();
        if let Some(place) = crowd.watched.get_mut(self.slot) {
            *place = None;
        }
        crowd.vacant.push(self.slot);
    }
}

impl Entry {
    /// What is overdue since the last look.
    fn look(&mut self, now: Instant, limits: &Limits) -> Option<Overdue> {
        let given_up = self.pulse.given_up();
        let since_the_last_look = given_up.wrapping_sub(std::mem::replace(&mut self.given_up, given_up));
        if since_the_last_look > GIVEN_UP_MAX {
            return Some(Overdue::Still);
        }
        let signs = self.pulse.signs();
        let same = self.seen.filter(|seen| seen.signs.phase == signs.phase && seen.signs.turn == signs.turn);
        let Some(mut seen) = same else {
            self.seen = Some(Seen { signs, since: now, marked_at: now, overdue: Overdue::Nothing });
            return None;
        };
        let found = seen.judge(signs, now, limits);
        self.seen = Some(seen);
        found
    }
}

impl Seen {
    fn judge(&mut self, signs: Signs, now: Instant, limits: &Limits) -> Option<Overdue> {
        let so_far = now.duration_since(self.since);
        let since_mark = now.duration_since(self.marked_at);
        let moved = signs.moved.wrapping_sub(self.signs.moved);
        let is_overdue = match signs.phase {
            Phase::Answer => false,
            Phase::Idle => so_far >= limits.idle_within,
            Phase::Head => so_far >= limits.head_within,
            Phase::Body => {
                let is_judged = since_mark >= limits.body_pace_over;
                let is_slow = is_judged && moved < least(limits.body_bytes_per_second, since_mark);
                if is_judged {
                    self.mark(signs, now);
                }
                is_slow || so_far >= limits.body_within
            }
            Phase::Reply => {
                if moved > 0 {
                    self.mark(signs, now);
                }
                (moved == 0 && since_mark >= limits.reply_stall) || so_far >= limits.reply_within
            }
        };
        is_overdue.then(|| self.raise(signs.phase, now))
    }

    fn mark(&mut self, signs: Signs, now: Instant) {
        self.signs = signs;
        self.marked_at = now;
    }

    /// A connection that does not end when it is signalled is signalled once more after the same time.
    fn raise(&mut self, phase: Phase, now: Instant) -> Overdue {
        self.overdue = match (phase, self.overdue) {
            (Phase::Body, _) => Overdue::Body,
            (_, Overdue::Nothing | Overdue::Body) => Overdue::Connection,
            (_, Overdue::Connection | Overdue::Still) => Overdue::Still,
        };
        (self.since, self.marked_at) = (now, now);
        self.overdue
    }
}

/// The least bytes that must come in this time.
fn least(bytes_per_second: u32, time: Duration) -> u32 {
    let least = u128::from(bytes_per_second) * time.as_millis() / 1_000;
    u32::try_from(least).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct House {
        watch: Watch,
        begun: Instant,
    }

    impl House {
        fn new() -> Self {
            let (limits, replies) = (Limits::default(), Replies::new(80));
            Self { watch: Watch::new(limits, replies), begun: Instant::now() }
        }

        fn look_at(&self, second: u64) {
            self.watch.look(0, self.begun + Duration::from_secs(second));
        }
    }

    /// Looks every second until something is overdue; the second it is, and what.
    fn overdue(house: &House, watched: &Watched, mut each_second: impl FnMut(&Pulse)) -> (u64, Overdue) {
        for second in 0..2_000 {
            house.look_at(second);
            if watched.pulse.overdue() != Overdue::Nothing {
                return (second, watched.pulse.overdue());
            }
            each_second(&watched.pulse);
        }
        (2_000, Overdue::Nothing)
    }

    #[test]
    fn memory_of_replies_that_came_and_went_between_two_looks_is_given_back() {
        let replies = Replies::new(80 << 20);
        let mut left = LeftMemory::default();
        let mut look = || {
            left.look(replies.take_most(), replies.held());
            left.looks
        };
        drop(replies.of_connection().take(LARGE_PIECE - 1));
        assert_eq!(look(), 0, "little is left");
        drop(replies.of_connection().take(LARGE_PIECE));
        assert_eq!([look(), look()], [LOOKS_AFTER - 1, LOOKS_AFTER - 2]);
        let kept = replies.of_connection().take(LARGE_PIECE);
        assert_eq!(look(), LOOKS_AFTER - 3, "it is held still");
        drop(kept);
        assert_eq!(look(), LOOKS_AFTER - 1, "what was held at the last look has gone");
    }

    #[test]
    fn a_connection_that_sends_no_whole_head_is_overdue_however_busily_it_sends() {
        for bytes in [0, 1, 1_000] {
            let house = House::new();
            let watched = house.watch.over(Pulse::default());
            assert_eq!(
                overdue(&house, &watched, |pulse| pulse.received(bytes)),
                (30, Overdue::Connection),
                "{bytes}"
            );
        }
    }

    #[test]
    fn an_idle_connection_is_kept_long_and_then_signalled_twice() {
        let house = House::new();
        let watched = house.watch.over(Pulse::of_request());
        watched.pulse.end();
        assert_eq!(overdue(&house, &watched, |_| {}), (180, Overdue::Connection));
        house.look_at(359);
        assert_eq!(watched.pulse.overdue(), Overdue::Connection);
        house.look_at(360);
        assert_eq!(watched.pulse.overdue(), Overdue::Still);
    }

    #[test]
    fn a_busy_connection_and_a_long_answer_are_never_overdue() {
        let house = House::new();
        let busy = house.watch.over(Pulse::default());
        assert_eq!(
            overdue(&house, &busy, |pulse| {
                pulse.begin();
                pulse.end();
            }),
            (2_000, Overdue::Nothing)
        );
        let poll = house.watch.over(Pulse::of_request());
        assert_eq!(overdue(&house, &poll, |_| {}), (2_000, Overdue::Nothing));
    }

    #[test]
    fn a_body_keeps_its_pace_or_is_overdue() {
        for (bytes, expected) in [(0, 20), (511, 20), (512, 300), (1 << 20, 300)] {
            let house = House::new();
            let watched = house.watch.over(Pulse::of_request());
            watched.pulse.await_body(true);
            let found = overdue(&house, &watched, |pulse| pulse.body_came(bytes));
            assert_eq!(found, (expected, Overdue::Body), "{bytes}");
        }
        let house = House::new();
        let watched = house.watch.over(Pulse::of_request());
        watched.pulse.await_body(true);
        watched.pulse.body_came(1 << 20);
        assert_eq!(overdue(&house, &watched, |_| {}), (20, Overdue::Body), "a burst buys no time");
    }

    #[test]
    fn a_reply_is_taken_bit_by_bit_or_is_overdue() {
        for (every, expected) in [(2_000, 60), (61, 60), (50, 600), (1, 600)] {
            let house = House::new();
            let watched = house.watch.over(Pulse::of_request());
            watched.pulse.await_writing();
            let mut second = 0;
            let found = overdue(&house, &watched, |pulse| {
                second += 1;
                if second % every == 0 {
                    pulse.sent(1);
                    pulse.await_writing();
                }
            });
            assert_eq!(found, (expected, Overdue::Connection), "{every}");
        }
    }

    #[test]
    fn a_reply_that_is_not_taken_is_given_up_soon_while_others_lack_room() {
        let house = House::new();
        let _kept = house.watch.replies.of_connection().take(80);
        let watched = house.watch.over(Pulse::of_request());
        watched.pulse.await_writing();
        assert_eq!(overdue(&house, &watched, |_| {}), (5, Overdue::Connection));
        let house = House::new();
        let _kept = house.watch.replies.of_connection().take(80);
        let watched = house.watch.over(Pulse::of_request());
        watched.pulse.await_writing();
        let slow = overdue(&house, &watched, |pulse| pulse.taken(1));
        assert_eq!(slow, (600, Overdue::Connection), "who takes something has as long as ever");
    }

    #[test]
    fn a_connection_on_which_very_many_requests_are_given_up_ends_at_once() {
        for (each_second, expected) in [(1_000, Overdue::Nothing), (1_001, Overdue::Still)] {
            let house = House::new();
            let watched = house.watch.over(Pulse::of_request());
            for second in 0..3 {
                (0..each_second).for_each(|_| watched.pulse.is_given_up());
                house.look_at(second);
            }
            assert_eq!(watched.pulse.overdue(), expected);
        }
    }

    #[test]
    fn a_crowd_is_looked_at_part_by_part() {
        let house = House::new();
        let crowd: Vec<_> = (0..=AT_ONCE).map(|_| house.watch.over(Pulse::default())).collect();
        for second in [0, 30] {
            let now = house.begun + Duration::from_secs(second);
            assert!(house.watch.look(0, now));
            assert!(!house.watch.look(AT_ONCE, now));
        }
        assert!(crowd.iter().all(|watched| watched.pulse.overdue() == Overdue::Connection));
    }

    #[test]
    fn slots_are_used_again() {
        let house = House::new();
        for _ in 0..3 {
            let (one, other) = (house.watch.over(Pulse::default()), house.watch.over(Pulse::default()));
            assert_ne!(one.slot, other.slot);
        }
        assert_eq!(house.watch.crowd.lock().watched.len(), 2);
    }
}
