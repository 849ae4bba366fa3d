//! The future that reads, serves and writes for one side of a link.
//!
//! In a turn it reads what has arrived, polls the requests that are due, frames what is queued, and then writes all of
//! it at once. It reads always, also while the other side does not: both sides keep bounds on what they have under way,
//! so nothing that was read can grow without end, and no two sides wait for each other. What it does not do while
//! too much waits to be written is to work on answers.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

use super::asks::Standing;
use super::error::{LinkError, Why};
use super::figures::Counted;
use super::frame::{self, Beat, Frame, Number};
use super::handle::Link;
use super::inbox::Inbox;
use super::limits::{OUT_ASKS_MAX, OUT_WAITING_MAX, PAYLOAD_MAX};
use super::outbox::Outbox;
use super::pulse::Pulse;
use super::work::Work;

/// The answer to one request, in the making. It is dropped when the other side cancels the request, and when the link
/// ends.
pub type Serving = Pin<Box<dyn Future<Output = Bytes> + Send>>;

/// Answers what other nodes ask.
pub trait Serve: Send + Sync {
    /// Begins to serve a request that came over `link`. The future is polled by the link's connection, so it must not
    /// compute for long.
    fn serve(&self, link: &Link, request: Bytes) -> Serving;
}

/// Reads in one turn, before what was read is served.
const READS_IN_TURN: usize = 4;
/// Requests that are polled in one turn.
const POLLS_IN_TURN: usize = 256;
/// Turns in one poll, before other tasks of the runtime have theirs.
const TURNS_IN_POLL: usize = 4;

/// The future of one side of a link: it ends when the link does, and says why. Dropping it ends the link.
pub struct Connection<S> {
    stream: S,
    link: Link,
    serve: Arc<dyn Serve>,
    inbox: Inbox,
    outbox: Outbox,
    work: Work,
    pulse: Pulse,
    /// The latest beat of the other side that has no echo yet.
    beat: Option<Beat>,
    /// Whether the other side asks no more.
    peer_has_left: bool,
    has_sent_leave: bool,
    writing: Writing,
    counted: Counted,
    /// Answers that were read in this turn.
    answers: Vec<(Number, Result<Bytes, LinkError>)>,
    /// Empty between turns, like the next.
    wakers: Vec<Waker>,
    cancels: Vec<Number>,
}

impl<S> std::fmt::Debug for Connection<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Connection of {:?}", self.link)
    }
}

impl<S> Connection<S> {
    pub(super) fn new(stream: S, link: Link, serve: Arc<dyn Serve>) -> Self {
        Self {
            stream,
            pulse: Pulse::new(link.began()),
            link,
            serve,
            inbox: Inbox::default(),
            outbox: Outbox::default(),
            work: Work::new(),
            beat: None,
            peer_has_left: false,
            has_sent_leave: false,
            writing: Writing::Open,
            counted: Counted::default(),
            answers: Vec::new(),
            wakers: Vec::new(),
            cancels: Vec::new(),
        }
    }
}

impl<S> Drop for Connection<S> {
    fn drop(&mut self) {
        self.link.close(&Why::Ended, self.outbox.taken());
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Future for Connection<S> {
    type Output = Why;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Why> {
        let this = &mut *self;
        let result = this.turns(cx);
        this.note_figures();
        match result {
            Ok(()) => Poll::Pending,
            Err(why) => {
                this.link.close(&why, this.outbox.taken());
                Poll::Ready(why)
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    /// Takes turns until there is nothing to do. An error is the end of the link.
    fn turns(&mut self, cx: &mut Context<'_>) -> Result<(), Why> {
        for _ in 0..TURNS_IN_POLL {
            if self.turn(cx)? == Turn::Last && self.sleep(cx) {
                return Ok(());
            }
        }
        cx.waker().wake_by_ref();
        Ok(())
    }

    fn turn(&mut self, cx: &mut Context<'_>) -> Result<Turn, Why> {
        let has_more = self.read(cx)?;
        if let Some(now) = self.pulse.beat(cx)? {
            self.send_beat(now);
        }
        self.send_asks();
        self.send_answers();
        self.send_leave()?;
        let written = self.write(cx)?;
        let may_go_on = has_more || (written.is_ready() && self.has_more_to_send());
        Ok(if may_go_on { Turn::NotLast } else { Turn::Last })
    }

    /// Reads what is there, or a part of it. Says whether more may be there.
    fn read(&mut self, cx: &mut Context<'_>) -> Result<bool, Why> {
        let mut result = Ok(true);
        for _ in 0..READS_IN_TURN {
            let Poll::Ready(read) = self.inbox.poll_read(&mut self.stream, cx) else {
                result = Ok(false);
                break;
            };
            result = match read {
                Ok(0) => Err(Why::Closed),
                Ok(_) => self.take_frames().map(|()| true),
                Err(error) => Err(Why::Io(error.kind())),
            };
            if result.is_err() {
                break;
            }
        }
        // What was answered before the end is an answer.
        self.link.asks().answer(&mut self.answers, &mut self.wakers)?;
        result
    }

    fn take_frames(&mut self) -> Result<(), Why> {
        let now = Instant::now();
        self.pulse.note_heard(now);
        self.link.note_heard(now);
        self.counted.reads += 1;
        while let Some(frame) = self.inbox.next()? {
            self.take_frame(frame, now)?;
        }
        Ok(())
    }

    fn take_frame(&mut self, frame: Frame, now: Instant) -> Result<(), Why> {
        match frame {
            Frame::Ask(number, request) => self.begin(number, request)?,
            Frame::Answer(number, answer) => self.answers.push((number, Ok(answer))),
            Frame::Failed(number) => {
                self.answers.push((number, Err(LinkError::Unknown(Why::AnswerTooLong))));
            }
            Frame::Cancel(number) => self.work.cancel(number),
            Frame::Beat(beat) => self.beat = Some(beat),
            Frame::Echo(beat) => {
                if !self.link.note_echo(beat, now) {
                    return Err(Why::Protocol("an echo of no beat"));
                }
            }
            Frame::Leave => self.peer_has_left = true,
        }
        Ok(())
    }

    fn begin(&mut self, number: Number, request: Bytes) -> Result<(), Why> {
        if self.peer_has_left {
            return Err(Why::Protocol("a request after the last one"));
        }
        let bytes = request.len();
        self.work.admits(number, bytes)?;
        self.work.add(number, bytes, self.serve.serve(&self.link, request));
        Ok(())
    }

    /// A beat waits behind nothing: bytes that wait are a sign of life as good as a beat.
    fn send_beat(&mut self, now: Instant) {
        if self.has_room() && self.writing == Writing::Open {
            let beat = self.link.beat(now);
            self.outbox.add(|out| frame::beat(out, beat));
        }
    }

    /// Cancels are before requests: the other side counts what is under way.
    fn send_asks(&mut self) {
        self.link.asks().take_cancels(&mut self.cancels);
        for number in self.cancels.drain(..) {
            self.outbox.add(|out| frame::cancel(out, number));
        }
        self.counted.asked += self.link.asks().frame_queued(&mut self.outbox);
        if let Some(beat) = self.beat
            && self.has_room()
            && self.writing == Writing::Open
        {
            self.outbox.add(|out| frame::echo(out, beat));
            self.beat = None;
        }
    }

    fn send_answers(&mut self) {
        self.work.gather();
        let mut polls = POLLS_IN_TURN;
        while self.has_room() {
            let Some((number, answer)) = self.work.next_answer(&mut polls) else { break };
            self.counted.answered += 1;
            if answer.len() > PAYLOAD_MAX {
                self.outbox.add(|out| frame::failed(out, number));
            } else {
                self.outbox.add_with(answer, |out, length| frame::answer_head(out, number, length));
            }
        }
    }

    /// Informs the other side that this one has left the link, once its last request is framed.
    fn send_leave(&mut self) -> Result<(), Why> {
        let standing = self.link.asks().standing();
        if let Some(why) = standing.ended {
            return Err(why);
        }
        if standing.is_left && !standing.is_queued && !self.has_sent_leave {
            self.has_sent_leave = true;
            self.outbox.add(frame::leave);
        }
        if self.writing == Writing::Open && self.is_done(&standing) {
            self.writing = Writing::Shutting;
        }
        Ok(())
    }

    /// Whether both sides have left the link and nothing is under way in either direction.
    fn is_done(&self, standing: &Standing) -> bool {
        let have_left = self.has_sent_leave && self.peer_has_left;
        have_left && standing.is_idle && self.work.is_empty() && self.outbox.waiting() == 0
    }

    /// Writes what waits. A side that is done shuts its half of the stream and reads on until the other has, too: to
    /// close with something unread would take back what was written.
    fn write(&mut self, cx: &mut Context<'_>) -> Result<Poll<()>, Why> {
        let written = match self.writing {
            Writing::Open => self.outbox.poll_write(&mut self.stream, cx),
            Writing::Shutting => Pin::new(&mut self.stream).poll_shutdown(cx),
            Writing::Shut => return Ok(Poll::Ready(())),
        };
        match written {
            Poll::Pending => return Ok(Poll::Pending),
            Poll::Ready(Err(error)) => return Err(Why::Io(error.kind())),
            Poll::Ready(Ok(())) => {}
        }
        if self.writing == Writing::Shutting {
            self.writing = Writing::Shut;
        }
        Ok(Poll::Ready(()))
    }

    fn has_room(&self) -> bool {
        self.outbox.waiting() < OUT_WAITING_MAX
    }

    /// Whether a further turn would frame something, or shut the stream.
    fn has_more_to_send(&self) -> bool {
        let standing = self.link.asks().standing();
        let has_leave = standing.is_left && !self.has_sent_leave;
        let is_to_shut = self.is_done(&standing);
        self.writing == Writing::Open
            && (self.work.is_due() || self.beat.is_some() || standing.is_queued || has_leave || is_to_shut)
    }

    /// Waits for something to do; false when there is something already.
    fn sleep(&self, cx: &Context<'_>) -> bool {
        // While too much waits, the stream wakes this task when it takes more.
        let may_frame = self.outbox.waiting() < OUT_ASKS_MAX;
        self.link.asks().sleep(cx.waker(), may_frame) && (!self.has_room() || self.work.sleep(cx.waker()))
    }

    fn note_figures(&mut self) {
        self.counted.writes = self.outbox.writes();
        self.counted.out_waiting = u64::try_from(self.outbox.waiting()).unwrap_or(u64::MAX);
        self.counted.serving = u64::try_from(self.work.len()).unwrap_or(u64::MAX);
        self.link.figures().set(&self.counted);
    }
}

/// What becomes of bytes that wait.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Writing {
    /// They are written.
    Open,
    /// There are none: both sides are done, and the stream is being shut.
    Shutting,
    /// The stream is shut.
    Shut,
}

/// Whether a turn is the last of its poll.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    Last,
    NotLast,
}
