//! Reading messages that are not in memory, away from the store's lock and from the event loop.
//!
//! A step that hands messages out is applied at once, from what the ledger knows, and those that are not in memory are
//! asked for here: their segments are kept, so that none is filled anew meanwhile, and a few threads read them,
//! neighbours together. The answer waits for them as it waits for its sync. A step that needs a content to go on at all
//! is put off until it was read. A store without threads reads on the caller's, also without the lock.

mod ahead;
pub(super) mod cold;
pub(super) mod damaged;
mod fetched;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use kew_core::Sequence;
use kew_store::StoreError;
use kew_store::ledger::{Place, Stored, codec};
use parking_lot::{Condvar, Mutex};

use crate::disk::SEGMENTS_FOLDER;
use crate::error::LogError;
use crate::journal::{Address, Checksums, Frame, Segment, Segments, read_chunk};
use crate::store::gate::LogGate;
use crate::store::shelf::store_error;
use ahead::{Ahead, NEAR, READ_AHEAD};
use damaged::{DAMAGED_KIND, Damaged};
use fetched::Fetched;

/// Threads that read: a disk answers several at once, and one slow read must not stop all others.
pub(crate) const THREADS: usize = 4;
/// The least that is read at once.
const FIRST_READ: u64 = 4 << 10;
/// Maximum number of bytes of neighbours that are read together, unless one alone has more.
const RUN_BYTES_MAX: u64 = 1 << 20;
/// Runs that wait for a thread; the step that reaches this may bring more. Further ones are refused.
const WAITING_MAX: usize = 1024;

/// What a step that needs a content is refused with while that is being read.
pub(crate) const BEING_READ: StoreError =
    StoreError::Overloaded { what: "the disk that messages are read from" };

/// What the reading of a content came to.
pub(crate) type Read = Result<Stored, StoreError>;

/// A content that is not in memory.
pub(crate) struct Wanted {
    /// The message it is of, where that matters.
    pub sequence: Sequence,
    pub place: Place,
    /// Where it lies. Kept: its bytes stay readable whatever becomes of it.
    pub segment: Arc<Segment>,
}

impl Wanted {
    /// Where its record begins.
    fn address(&self) -> Address {
        self.place.address.into()
    }

    /// Where its record ends.
    fn end(&self) -> Address {
        self.address() + u64::from(self.place.bytes)
    }
}

/// Reads for one store.
pub(crate) struct Reads {
    segments: Segments,
    sums: Checksums,
    damaged: Arc<Damaged>,
    /// Guards what was read ahead.
    ahead: Mutex<Ahead>,
    /// Guards what was read for steps that were put off.
    fetched: Mutex<Fetched>,
    /// Guards what the threads read next.
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    runs: VecDeque<Run>,
    /// Whether there are threads, and how many of them did not panic.
    is_served: bool,
    readers: usize,
    is_stopped: bool,
}

/// Neighbours, read together.
struct Run {
    wanted: Vec<Wanted>,
    whole: Arc<Whole>,
}

/// All that one step asked for, on its way.
pub(crate) struct Whole {
    /// The step that asked is given up.
    is_abandoned: AtomicBool,
    /// Guards what was read so far, and who waits for the rest.
    state: Mutex<SoFar>,
    /// Opens when all is read and kept for another try of the step.
    kept: Option<Arc<LogGate>>,
}

struct SoFar {
    found: Vec<(Sequence, Read)>,
    contents: Vec<(Address, Read)>,
    /// Runs that are not read yet.
    left: usize,
    waker: Option<Waker>,
}

impl Queue {
    /// Whether more may wait. Runs of steps that were given up are dropped first.
    fn takes_more(&mut self) -> bool {
        if self.runs.len() >= WAITING_MAX {
            self.runs.retain(|run| !run.whole.is_abandoned());
        }
        self.runs.len() < WAITING_MAX
    }
}

impl Whole {
    /// The step that asked is given up: what is not read yet need not be.
    pub fn abandon(&self) {
        self.is_abandoned.store(true, Ordering::Relaxed);
    }

    fn is_abandoned(&self) -> bool {
        self.is_abandoned.load(Ordering::Relaxed)
    }
}

impl Reads {
    pub fn new(segments: Segments, sums: Checksums, damaged: Arc<Damaged>) -> Self {
        Self {
            segments,
            sums,
            damaged,
            ahead: Mutex::default(),
            fetched: Mutex::default(),
            queue: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// Records that were found damaged.
    pub fn damaged(&self) -> &Arc<Damaged> {
        &self.damaged
    }

    /// Whether the threads that read were stopped.
    pub fn is_stopped(&self) -> bool {
        self.queue.lock().is_stopped
    }

    /// A record that was read ahead.
    pub fn ahead(&self, address: Address) -> Option<Frame> {
        self.ahead.lock().frame(self.sums, address)
    }

    /// A content that was read for a step that was put off; it is given once.
    pub fn take_fetched(&self, address: Address) -> Option<Read> {
        self.fetched.lock().take(address)
    }

    /// What is to be read for a place, with its segment kept.
    pub fn wanted(&self, sequence: Sequence, place: Place) -> Result<Wanted, StoreError> {
        let address = place.address.into();
        let segment = self.segments.find(address).ok_or_else(|| {
            let what = format!("no segment holds the record at {address:#x}");
            self.failed(address, LogError::damage(SEGMENTS_FOLDER, 0, what))
        })?;
        Ok(Wanted { sequence, place, segment })
    }

    /// The content of a record.
    pub fn content(&self, frame: Frame) -> Read {
        let address = frame.address;
        let mark = (frame.kind == DAMAGED_KIND).then(|| String::from_utf8_lossy(&frame.payload).into_owned());
        codec::read_content(frame.kind, frame.payload).ok_or_else(|| {
            let segment = self.segments.find(address);
            let file = segment.as_ref().map_or(SEGMENTS_FOLDER, |segment| segment.name());
            let offset = segment.as_ref().map_or(0, |segment| segment.offset_of(address));
            let what = mark.unwrap_or_else(|| format!("the record at {address:#x} holds no message"));
            self.failed(address, LogError::damage(file, offset, what))
        })
    }

    /// Begins to read for an answer; not when too much waits by now. Without threads all of it is read here.
    pub fn begin(&self, wanted: Vec<Wanted>) -> Option<Arc<Whole>> {
        self.enqueue(wanted, Vec::new(), None)
    }

    /// Begins to read for a step that was put off, and keeps what it has by now; not when too much waits. The gate
    /// opens when it may be taken again, or says what went wrong.
    pub fn fetch(&self, wanted: Vec<Wanted>, at_hand: Vec<(Address, Read)>) -> Option<Arc<LogGate>> {
        let gate = Arc::new(LogGate::default());
        self.enqueue(wanted, at_hand, Some(Arc::clone(&gate)))?;
        Some(gate)
    }

    /// The same on this thread.
    pub fn fetch_here(&self, wanted: Vec<Wanted>, at_hand: Vec<(Address, Read)>) -> Result<(), StoreError> {
        let mut contents = at_hand;
        for run in neighbours(wanted) {
            let read = self.read_run(&run);
            contents.extend(run.iter().map(Wanted::address).zip(read));
        }
        let failure = transient_failure(&contents);
        self.fetched.lock().keep(contents);
        failure.map_or(Ok(()), Err)
    }

    /// From now on threads read.
    pub fn is_served_by(&self, readers: usize) {
        let mut queue = self.queue.lock();
        (queue.is_served, queue.readers) = (true, readers);
    }

    /// A thread that read panicked. Whether it was the last one.
    pub fn is_without_readers(&self) -> bool {
        let mut queue = self.queue.lock();
        queue.readers = queue.readers.saturating_sub(1);
        queue.readers == 0
    }

    /// Ends the threads. What they have not read is answered with a refusal, and so is whatever is asked for later.
    pub fn stop(&self) {
        let left = {
            let mut queue = self.queue.lock();
            queue.is_stopped = queue.is_served;
            std::mem::take(&mut queue.runs)
        };
        self.changed.notify_all();
        left.into_iter().for_each(|run| drop(Answering { reads: self, run }));
    }

    /// What each reading thread does until the store is closed.
    pub fn read_until_stopped(&self) {
        loop {
            let run = {
                let mut queue = self.queue.lock();
                loop {
                    if queue.is_stopped {
                        return;
                    }
                    match queue.runs.pop_front() {
                        Some(run) => break run,
                        None => self.changed.wait(&mut queue),
                    }
                }
            };
            if run.whole.is_abandoned() {
                continue;
            }
            let answering = Answering { reads: self, run };
            let read = self.read_run(&answering.run.wanted);
            answering.with(read);
        }
    }

    fn enqueue(
        &self,
        wanted: Vec<Wanted>,
        contents: Vec<(Address, Read)>,
        kept: Option<Arc<LogGate>>,
    ) -> Option<Arc<Whole>> {
        let runs = neighbours(wanted);
        let state = SoFar { found: Vec::new(), contents, left: runs.len(), waker: None };
        let whole = Arc::new(Whole { is_abandoned: AtomicBool::new(false), state: Mutex::new(state), kept });
        let mut queue = self.queue.lock();
        if !queue.takes_more() {
            return None;
        }
        let is_served = queue.is_served;
        let runs = runs.into_iter().map(|wanted| Run { wanted, whole: Arc::clone(&whole) });
        if !is_served {
            drop(queue);
            for run in runs {
                let answering = Answering { reads: self, run };
                let read = self.read_run(&answering.run.wanted);
                answering.with(read);
            }
        } else if queue.is_stopped {
            drop(queue);
            runs.for_each(|run| drop(Answering { reads: self, run }));
        } else {
            queue.runs.extend(runs);
            drop(queue);
            self.changed.notify_all();
        }
        Some(whole)
    }

    /// Reads neighbours at once; one that does not verify or cannot be read with the others once more by itself.
    fn read_run(&self, run: &[Wanted]) -> Vec<Read> {
        let Some((first, last)) = run.first().zip(run.last()) else { return Vec::new() };
        let start = first.address();
        let bytes = last.end() - start;
        let ahead = self.ahead.lock().around(start);
        let chunk = ahead.held.or_else(|| {
            let want = if ahead.is_led_to { READ_AHEAD } else { FIRST_READ };
            let read = read_chunk(&first.segment, start, first.segment.end(), bytes.max(want));
            let read = read.ok()?;
            self.ahead.lock().insert(start, read.clone());
            Some((start, read))
        });
        run.iter().map(|wanted| self.read_of(wanted, chunk.as_ref())).collect()
    }

    fn read_of(&self, wanted: &Wanted, chunk: Option<&(Address, Bytes)>) -> Read {
        let address = wanted.address();
        let found = chunk.and_then(|(start, bytes)| {
            let within = usize::try_from(address - *start).ok()?;
            self.sums.verify_shared(bytes, within, address)
        });
        let frame = match found {
            // A chunk is much larger than a message, and would stay in memory as long as that.
            Some(frame) => Frame { payload: Bytes::copy_from_slice(&frame.payload), ..frame },
            None => self.read_alone(wanted).map_err(|error| self.failed(address, error))?,
        };
        self.content(frame)
    }

    fn read_alone(&self, wanted: &Wanted) -> Result<Frame, LogError> {
        let (segment, address) = (&wanted.segment, wanted.address());
        let bytes = read_chunk(segment, address, segment.end(), u64::from(wanted.place.bytes))?;
        self.sums.verify_shared(&bytes, 0, address).ok_or_else(|| {
            let what = format!("the record at {address:#x} does not verify");
            LogError::damage(segment.name(), segment.offset_of(address), what)
        })
    }

    fn failed(&self, address: Address, error: LogError) -> StoreError {
        self.damaged.note(address, &error);
        store_error(error)
    }
}

/// A run that is being read. Dropped before it was, its messages count as unreadable for now, so that no answer waits
/// for ever.
struct Answering<'a> {
    reads: &'a Reads,
    run: Run,
}

impl Answering<'_> {
    fn with(mut self, read: Vec<Read>) {
        let wanted = std::mem::take(&mut self.run.wanted);
        self.reads.answer(&self.run.whole, wanted, read);
    }
}

impl Drop for Answering<'_> {
    fn drop(&mut self) {
        let wanted = std::mem::take(&mut self.run.wanted);
        if !wanted.is_empty() {
            let closed =
                StoreError::Unavailable { cause: "the threads that read messages were stopped".into() };
            let read = wanted.iter().map(|_| Err(closed.clone())).collect();
            self.reads.answer(&self.run.whole, wanted, read);
        }
    }
}

impl Reads {
    fn answer(&self, whole: &Whole, wanted: Vec<Wanted>, read: Vec<Read>) {
        let mut state = whole.state.lock();
        state.left -= 1;
        let read = wanted.into_iter().zip(read);
        if whole.kept.is_some() {
            state.contents.extend(read.map(|(wanted, read)| (wanted.address(), read)));
        } else {
            state.found.extend(read.map(|(wanted, read)| (wanted.sequence, read)));
        }
        if state.left > 0 {
            return;
        }
        let (contents, waker) = (std::mem::take(&mut state.contents), state.waker.take());
        drop(state);
        if let Some(gate) = &whole.kept {
            let failure = transient_failure(&contents);
            self.fetched.lock().keep(contents);
            match failure {
                None => gate.open(1),
                Some(error) => gate.fail(error),
            }
        }
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// What was read for an answer, once all is.
    pub fn poll(whole: &Whole, cx: &Context<'_>) -> Poll<Vec<(Sequence, Read)>> {
        let mut state = whole.state.lock();
        if state.left > 0 {
            state.waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(std::mem::take(&mut state.found))
    }
}

/// The first failure whose cause may have ended when the step is taken again. It is an answer to this step only.
fn transient_failure(contents: &[(Address, Read)]) -> Option<StoreError> {
    let mut failures = contents.iter().filter(|(_, read)| !fetched::is_lasting(read));
    failures.find_map(|(_, read)| read.as_ref().err().cloned())
}

/// Groups places that lie near each other, each group in order.
fn neighbours(mut wanted: Vec<Wanted>) -> Vec<Vec<Wanted>> {
    wanted.sort_unstable_by_key(|wanted| wanted.place.address);
    let mut runs: Vec<Vec<Wanted>> = Vec::new();
    for next in wanted {
        let joined = runs.last_mut().filter(|run| {
            run.first().zip(run.last()).is_some_and(|(first, last)| {
                Arc::ptr_eq(&first.segment, &next.segment)
                    && next.address() < last.end() + NEAR
                    && next.end() - first.address() <= RUN_BYTES_MAX
            })
        });
        match joined {
            Some(run) => run.push(next),
            None => runs.push(vec![next]),
        }
    }
    runs
}
