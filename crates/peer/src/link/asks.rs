//! Requests of this side: from the call until the answer.
//!
//! A request is *queued* until the connection has put it into a frame, and *framed* from then on. Until the stream has
//! taken the last byte of its frame the other side cannot have all of it: a request whose link ends before that was not
//! sent.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use hashbrown::HashMap;
use parking_lot::Mutex;

use super::error::{LinkError, Why};
use super::frame::{self, Number};
use super::limits::OUT_ASKS_MAX;
use super::outbox::Outbox;

/// Requests without an answer. Handles of the link put them in, its connection takes them out and answers them.
#[derive(Default)]
pub struct Asks {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    last: u64,
    open: HashMap<Number, Ask>,
    /// Those to be framed, in order; also dropped ones, until there are many of these.
    queue: VecDeque<Number>,
    dropped_in_queue: usize,
    /// Dropped after they were framed.
    cancels: Vec<Number>,
    is_left: bool,
    ended: Option<Why>,
    /// The connection's waker.
    connection: Option<Waker>,
    is_asleep: bool,
}

struct Ask {
    stage: Stage,
    waker: Option<Waker>,
}

enum Stage {
    Queued(Bytes),
    /// Its last byte is before this one of the link.
    Framed {
        end: u64,
    },
    Over(Result<Bytes, LinkError>),
}

/// What handles do.
impl Asks {
    /// Queues a request. Its answer is waited for with what this returns.
    pub fn begin(&self, request: Bytes) -> Result<Answer<'_>, LinkError> {
        self.change(|state| {
            if let Some(why) = &state.ended {
                return Err(LinkError::NotSent(why.clone()));
            }
            if state.is_left {
                return Err(LinkError::NotSent(Why::Leaving));
            }
            state.last += 1;
            let number = Number(state.last);
            state.open.insert(number, Ask { stage: Stage::Queued(request), waker: None });
            state.queue.push_back(number);
            Ok(Answer { asks: self, number })
        })
    }

    /// Takes no more requests.
    pub fn leave(&self) {
        self.change(|state| state.is_left = true);
    }

    /// Has the connection end the link.
    pub fn end(&self) {
        self.change(|state| {
            state.ended.get_or_insert(Why::Ended);
        });
    }

    /// Why the link has ended, if it has.
    pub fn ended(&self) -> Option<Why> {
        self.state.lock().ended.clone()
    }

    /// Whether requests are taken.
    pub fn is_open(&self) -> bool {
        let state = self.state.lock();
        state.ended.is_none() && !state.is_left
    }

    /// Changes the requests, and wakes the connection.
    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let (result, connection) = {
            let mut state = self.state.lock();
            let result = change(&mut state);
            (result, state.sleeper())
        };
        if let Some(connection) = connection {
            connection.wake();
        }
        result
    }
}

/// What the connection does.
impl Asks {
    /// Takes the cancels that are to be sent.
    pub fn take_cancels(&self, cancels: &mut Vec<Number>) {
        let mut state = self.state.lock();
        state.is_asleep = false;
        std::mem::swap(&mut state.cancels, cancels);
    }

    /// Frames queued requests while `outbox` has room for them. Returns how many they were.
    pub fn frame_queued(&self, outbox: &mut Outbox) -> u64 {
        let mut state = self.state.lock();
        let mut framed = 0;
        while outbox.waiting() < OUT_ASKS_MAX {
            let Some(number) = state.queue.pop_front() else { break };
            let Some(ask) = state.open.get_mut(&number) else {
                state.dropped_in_queue = state.dropped_in_queue.saturating_sub(1);
                continue;
            };
            let Stage::Queued(request) = &mut ask.stage else { continue };
            outbox.add_with(std::mem::take(request), |out, length| frame::ask_head(out, number, length));
            ask.stage = Stage::Framed { end: outbox.end() };
            framed += 1;
        }
        framed
    }

    /// Gives answers to those who wait for them. `wakers` is only lent.
    pub fn answer(
        &self,
        answers: &mut Vec<(Number, Result<Bytes, LinkError>)>,
        wakers: &mut Vec<Waker>,
    ) -> Result<(), Why> {
        if answers.is_empty() {
            return Ok(());
        }
        let mut result = Ok(());
        let mut state = self.state.lock();
        for (number, answer) in answers.drain(..) {
            match state.answer(number, answer) {
                Ok(waker) => wakers.extend(waker),
                Err(why) => result = Err(why),
            }
        }
        drop(state);
        wakers.drain(..).for_each(Waker::wake);
        result
    }

    /// How this side stands with the link.
    pub fn standing(&self) -> Standing {
        let state = self.state.lock();
        Standing {
            is_queued: !state.queue.is_empty(),
            is_left: state.is_left,
            is_idle: state.open.is_empty() && state.cancels.is_empty(),
            ended: state.ended.clone(),
        }
    }

    /// Has `waker` woken at the next change; false when a change waits already. Requests in the queue count only when
    /// `may_frame`.
    pub fn sleep(&self, waker: &Waker, may_frame: bool) -> bool {
        let mut state = self.state.lock();
        if !state.cancels.is_empty() || state.ended.is_some() || (may_frame && !state.queue.is_empty()) {
            return false;
        }
        if !state.connection.as_ref().is_some_and(|connection| connection.will_wake(waker)) {
            state.connection = Some(waker.clone());
        }
        state.is_asleep = true;
        true
    }

    /// Ends all that is under way. The stream has taken `taken` bytes of the link.
    pub fn close(&self, why: &Why, taken: u64) {
        let wakers: Vec<Waker> = {
            let mut state = self.state.lock();
            state.ended.get_or_insert_with(|| why.clone());
            state.queue = VecDeque::new();
            state.cancels = Vec::new();
            state.connection = None;
            state.open.values_mut().filter_map(|ask| ask.close(why, taken)).collect()
        };
        wakers.into_iter().for_each(Waker::wake);
    }
}

/// How this side stands with the link.
pub struct Standing {
    /// Requests wait to be framed.
    pub is_queued: bool,
    /// This side asks no more.
    pub is_left: bool,
    /// This side has no requests without an answer.
    pub is_idle: bool,
    /// The link is to end.
    pub ended: Option<Why>,
}

impl State {
    /// Keeps the answer to a request; the one to be woken for it. Answers to dropped requests are dropped.
    fn answer(&mut self, number: Number, answer: Result<Bytes, LinkError>) -> Result<Option<Waker>, Why> {
        if number.0 > self.last {
            return Err(Why::Protocol("an answer to no request"));
        }
        let Some(ask) = self.open.get_mut(&number) else { return Ok(None) };
        if !matches!(ask.stage, Stage::Framed { .. }) {
            return Err(Why::Protocol("an answer before its request, or a second one"));
        }
        ask.stage = Stage::Over(answer);
        Ok(ask.waker.take())
    }

    /// Drops a request whose future was dropped; the one to be woken, if the other side is to be informed.
    fn drop_ask(&mut self, number: Number) -> Option<Waker> {
        match self.open.remove(&number)?.stage {
            Stage::Queued(_) => self.forget_in_queue(),
            Stage::Framed { .. } => {
                self.cancels.push(number);
                return self.sleeper();
            }
            Stage::Over(_) => {}
        }
        // A link that was left ends once nothing is under way.
        if self.is_left && self.open.is_empty() { self.sleeper() } else { None }
    }

    /// A queued request was dropped. The queue is swept when most of it is such: each costs a few steps in the end.
    fn forget_in_queue(&mut self) {
        self.dropped_in_queue += 1;
        if self.dropped_in_queue > 64 + self.queue.len() / 2 {
            let open = &self.open;
            self.queue.retain(|number| open.contains_key(number));
            self.dropped_in_queue = 0;
        }
    }

    /// The connection's waker, if it sleeps.
    fn sleeper(&mut self) -> Option<Waker> {
        if std::mem::take(&mut self.is_asleep) { self.connection.clone() } else { None }
    }
}

impl Ask {
    /// Ends it without an answer, unless it has one; the one to be woken for it.
    fn close(&mut self, why: &Why, taken: u64) -> Option<Waker> {
        let error = match &self.stage {
            Stage::Framed { end } if *end <= taken => LinkError::Unknown(why.clone()),
            Stage::Queued(_) | Stage::Framed { .. } => LinkError::NotSent(why.clone()),
            Stage::Over(_) => return None,
        };
        self.stage = Stage::Over(Err(error));
        self.waker.take()
    }
}

/// Waits for the answer to one request.
pub struct Answer<'a> {
    asks: &'a Asks,
    number: Number,
}

impl Future for Answer<'_> {
    type Output = Result<Bytes, LinkError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.asks.state.lock();
        let ask = state.open.get_mut(&self.number).expect("a request is open until its future has ended");
        match &mut ask.stage {
            Stage::Over(answer) => Poll::Ready(std::mem::replace(answer, Ok(Bytes::new()))),
            Stage::Queued(_) | Stage::Framed { .. } => {
                if !ask.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
                    ask.waker = Some(cx.waker().clone());
                }
                Poll::Pending
            }
        }
    }
}

impl Drop for Answer<'_> {
    fn drop(&mut self) {
        let connection = self.asks.state.lock().drop_ask(self.number);
        if let Some(connection) = connection {
            connection.wake();
        }
    }
}
