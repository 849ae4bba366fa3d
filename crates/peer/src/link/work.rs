//! Requests of the other side that are being served.
//!
//! The connection's own task polls them: a task of the runtime for each would cost more than most requests take. A
//! request is polled when it arrives and whenever its waker was woken; the places of those that are over are used
//! again, with their wakers.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use bytes::Bytes;
use hashbrown::HashMap;
use parking_lot::Mutex;

use super::connection::Serving;
use super::error::Why;
use super::frame::Number;
use super::limits::{ASK_BYTES_MAX, ASKS_MAX};

pub struct Work {
    places: Vec<WorkSlot>,
    free: Vec<usize>,
    numbers: HashMap<Number, usize>,
    /// Bytes of the requests that are being served.
    bytes: usize,
    /// Places that are to be polled, in the order in which they became due.
    due: VecDeque<usize>,
    bells: Arc<Bells>,
}

/// Room for one request.
struct WorkSlot {
    request: Option<Request>,
    bell: Arc<Bell>,
    waker: Waker,
}

struct Request {
    number: Number,
    bytes: usize,
    serving: Serving,
}

impl Work {
    pub fn new() -> Self {
        Self {
            places: Vec::new(),
            free: Vec::new(),
            numbers: HashMap::new(),
            bytes: 0,
            due: VecDeque::new(),
            bells: Arc::default(),
        }
    }

    /// How many requests are being served.
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Whether nothing is being served.
    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// Whether one more request of that many bytes keeps the bounds that both sides know.
    pub fn admits(&self, number: Number, bytes: usize) -> Result<(), Why> {
        if self.numbers.contains_key(&number) {
            return Err(Why::Protocol("two requests have one number"));
        }
        if self.len() >= ASKS_MAX || self.bytes.saturating_add(bytes) > ASK_BYTES_MAX {
            return Err(Why::Protocol("more requests are under way than may be"));
        }
        Ok(())
    }

    /// Adds a request that was admitted.
    pub fn add(&mut self, number: Number, bytes: usize, serving: Serving) {
        let at = self.free.pop().unwrap_or_else(|| self.new_place());
        let place = self.places.get_mut(at).expect("a free place exists");
        place.request = Some(Request { number, bytes, serving });
        self.numbers.insert(number, at);
        self.bytes += bytes;
        if !place.bell.is_rung.swap(true, Ordering::SeqCst) {
            self.due.push_back(at);
        }
    }

    fn new_place(&mut self) -> usize {
        let at = self.places.len();
        let bell = Arc::new(Bell { at, is_rung: AtomicBool::new(false), bells: Arc::clone(&self.bells) });
        let waker = Waker::from(Arc::clone(&bell));
        self.places.push(WorkSlot { request: None, bell, waker });
        at
    }

    /// Drops a request, if it is still being served.
    pub fn cancel(&mut self, number: Number) {
        if let Some(at) = self.numbers.get(&number).copied() {
            drop(self.end(at));
        }
    }

    /// Empties the place of a request that is over.
    fn end(&mut self, at: usize) -> Option<Request> {
        let request = self.places.get_mut(at)?.request.take()?;
        self.numbers.remove(&request.number);
        self.bytes -= request.bytes;
        self.free.push(at);
        Some(request)
    }

    /// Makes due what was woken since the last call.
    pub fn gather(&mut self) {
        self.bells.take(&mut self.due);
    }

    /// Whether a request is due to be polled.
    pub fn is_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// Polls what is due until one is answered, `polls` of them at most.
    pub fn next_answer(&mut self, polls: &mut usize) -> Option<(Number, Bytes)> {
        while *polls > 0 {
            let at = self.due.pop_front()?;
            let place = self.places.get_mut(at)?;
            place.bell.is_rung.store(false, Ordering::SeqCst);
            let Some(request) = &mut place.request else { continue };
            *polls -= 1;
            if let Poll::Ready(answer) = request.serving.as_mut().poll(&mut Context::from_waker(&place.waker))
            {
                let number = request.number;
                drop(self.end(at));
                return Some((number, answer));
            }
        }
        None
    }

    /// Has `waker` woken at the next request that is woken; false when one was woken already.
    pub fn sleep(&self, waker: &Waker) -> bool {
        self.bells.sleep(waker)
    }
}

/// What was woken since the last look, and who is to look.
#[derive(Default)]
struct Bells {
    rung: Mutex<Rung>,
}

#[derive(Default)]
struct Rung {
    places: VecDeque<usize>,
    sleeper: Option<Waker>,
    is_asleep: bool,
}

impl Bells {
    fn ring(&self, at: usize) {
        let sleeper = {
            let mut rung = self.rung.lock();
            rung.places.push_back(at);
            if std::mem::take(&mut rung.is_asleep) { rung.sleeper.clone() } else { None }
        };
        if let Some(sleeper) = sleeper {
            sleeper.wake();
        }
    }

    /// Adds what was woken to `due`. Until the next sleep no wake is needed.
    fn take(&self, due: &mut VecDeque<usize>) {
        let mut rung = self.rung.lock();
        rung.is_asleep = false;
        if due.is_empty() {
            std::mem::swap(&mut rung.places, due);
        } else {
            due.append(&mut rung.places);
        }
    }

    fn sleep(&self, waker: &Waker) -> bool {
        let mut rung = self.rung.lock();
        if !rung.places.is_empty() {
            return false;
        }
        if !rung.sleeper.as_ref().is_some_and(|sleeper| sleeper.will_wake(waker)) {
            rung.sleeper = Some(waker.clone());
        }
        rung.is_asleep = true;
        true
    }
}

/// Wakes one place.
struct Bell {
    at: usize,
    /// Whether it is among those that are due: a place is never there twice.
    is_rung: AtomicBool,
    bells: Arc<Bells>,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_rung.swap(true, Ordering::SeqCst) {
            self.bells.ring(self.at);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    /// Answers once its flag is set; leaves its waker.
    #[derive(Default)]
    struct Flag {
        is_set: AtomicBool,
        waker: Mutex<Option<Waker>>,
        polls: AtomicUsize,
    }

    impl Flag {
        fn serving(self: &Arc<Self>) -> Serving {
            let flag = Arc::clone(self);
            Box::pin(std::future::poll_fn(move |cx| {
                flag.polls.fetch_add(1, Ordering::SeqCst);
                *flag.waker.lock() = Some(cx.waker().clone());
                if flag.is_set.load(Ordering::SeqCst) {
                    Poll::Ready(Bytes::from_static(b"done"))
                } else {
                    Poll::Pending
                }
            }))
        }

        fn set(&self) {
            self.is_set.store(true, Ordering::SeqCst);
            self.waker.lock().clone().expect("the request was polled").wake();
        }

        fn polls(&self) -> usize {
            self.polls.load(Ordering::SeqCst)
        }
    }

    fn answers(work: &mut Work) -> Vec<u64> {
        work.gather();
        let mut polls = usize::MAX;
        std::iter::from_fn(|| work.next_answer(&mut polls)).map(|(number, _)| number.0).collect()
    }

    #[test]
    fn requests_are_answered_in_the_order_in_which_they_are_woken() {
        let (mut work, flags) = (Work::new(), [(); 3].map(|()| Arc::new(Flag::default())));
        for (number, flag) in (0..).zip(&flags) {
            work.add(Number(number), 1, flag.serving());
        }
        assert_eq!(answers(&mut work), []);
        for at in [2, 0, 1] {
            flags[at].set();
        }
        assert_eq!(answers(&mut work), [2, 0, 1]);
        assert!(work.is_empty());
    }

    #[test]
    fn only_what_was_woken_is_polled() {
        let (mut work, flags) = (Work::new(), [(); 2].map(|()| Arc::new(Flag::default())));
        for (number, flag) in (0..).zip(&flags) {
            work.add(Number(number), 1, flag.serving());
        }
        assert_eq!(answers(&mut work), []);
        flags[1].set();
        assert_eq!(answers(&mut work), [1]);
        assert_eq!((flags[0].polls(), flags[1].polls()), (1, 2));
    }

    #[test]
    fn a_cancelled_request_is_dropped_and_a_late_wake_harms_not_the_next_in_its_place() {
        let (mut work, old, new) = (Work::new(), Arc::new(Flag::default()), Arc::new(Flag::default()));
        work.add(Number(1), 5, old.serving());
        assert_eq!(answers(&mut work), []);
        work.cancel(Number(1));
        assert_eq!(Arc::strong_count(&old), 1, "the future is dropped");
        assert!(work.is_empty() && work.bytes == 0);
        work.add(Number(2), 5, new.serving());
        assert_eq!(answers(&mut work), []);
        old.set();
        assert_eq!(answers(&mut work), []);
        new.set();
        assert_eq!(answers(&mut work), [2]);
    }

    #[test]
    fn a_wake_after_falling_asleep_wakes_the_connection_and_one_before_forbids_it() {
        let (mut work, flag) = (Work::new(), Arc::new(Flag::default()));
        work.add(Number(1), 1, flag.serving());
        assert_eq!(answers(&mut work), []);
        let woken = Arc::new(Woken::default());
        assert!(work.sleep(&Waker::from(Arc::clone(&woken))));
        flag.set();
        assert_eq!(woken.0.load(Ordering::SeqCst), 1);
        assert!(!work.sleep(&Waker::from(Arc::clone(&woken))), "a request is due");
    }

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn more_bytes_or_requests_than_both_sides_agreed_on_are_refused() {
        let mut work = Work::new();
        let never = || -> Serving { Box::pin(std::future::pending()) };
        assert!(work.admits(Number(0), ASK_BYTES_MAX).is_ok());
        assert!(work.admits(Number(0), ASK_BYTES_MAX + 1).is_err());
        for number in 0..ASKS_MAX as u64 {
            assert!(work.admits(Number(number), 1).is_ok());
            work.add(Number(number), 1, never());
        }
        assert!(work.admits(Number(u64::MAX), 1).is_err());
        work.cancel(Number(7));
        assert!(work.admits(Number(8), 1).is_err(), "number 8 is being served");
        assert!(work.admits(Number(u64::MAX), ASK_BYTES_MAX - ASKS_MAX + 1).is_ok());
        assert!(work.admits(Number(u64::MAX), ASK_BYTES_MAX - ASKS_MAX + 2).is_err());
    }
}
