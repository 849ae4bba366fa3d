//! Where the lines of the log go: standard error, whose reader may stand still without holding the server up.
//!
//! A line for a file, or for a pipe that has room, is written at once by the thread that logs it. Every other line
//! waits for a thread that may be blocked. What waits is bounded: further lines are dropped and counted, and the line
//! that comes after them says how many they were. No lock is held during a write.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

/// Bytes of lines that wait at most.
const WAITING_BYTES_MAX: usize = 1 << 20;
/// Bytes that wait at most when one more line waits whose thread is patient: the other half is for all others.
const PATIENT_BYTES_MAX: usize = WAITING_BYTES_MAX / 2;
/// What a waiting line takes beside its text.
const LINE_BYTES: usize = 64;
/// A pipe takes this much in one piece or not at all (`PIPE_BUF` of Linux).
const AT_ONCE_BYTES_MAX: usize = 4096;

/// What may be written to, shared by all threads.
type Target = Box<dyn AsFd + Send + Sync>;

/// Writes the line about this number of dropped lines.
type NoteOfDropped = Box<dyn Fn(u64) -> Vec<u8> + Send + Sync>;

/// The way out for lines.
pub struct Outlet {
    to: Target,
    kind: Kind,
    note: NoteOfDropped,
    /// Guards what waits; held for moments, never during a write.
    waiting: Mutex<Waiting>,
    /// Notified when a line has to wait, and when the thread may go on with those that do.
    more: Condvar,
    /// Notified when a line that waited is written.
    less: Condvar,
}

/// What kind of thing lines are written to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// A write to it waits for no reader.
    File,
    /// A pipe of which this outlet has an opening of its own, which refuses a write that would wait.
    Pipe,
    /// A terminal, a socket, or another thing of which that is not known.
    Other,
}

#[derive(Default)]
struct Waiting {
    lines: VecDeque<Vec<u8>>,
    /// What they take, the line that is being written included.
    bytes: usize,
    /// Lines dropped since the latest line that waits.
    dropped: u64,
    /// Whether a line is being written, by the thread or by the one that logs it.
    is_writing: bool,
}

impl fmt::Debug for Outlet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outlet").field("kind", &self.kind).finish_non_exhaustive()
    }
}

impl Outlet {
    /// The outlet to standard error, with its thread. `note` writes the line about a number of dropped lines.
    pub fn start(note: impl Fn(u64) -> Vec<u8> + Send + Sync + 'static) -> io::Result<Arc<Self>> {
        Self::start_to(Box::new(io::stderr()), Box::new(note))
    }

    fn start_to(to: Target, note: NoteOfDropped) -> io::Result<Arc<Self>> {
        let (to, kind) = match rustix::fs::fstat(&to).map(|stat| FileType::from_raw_mode(stat.st_mode)) {
            Ok(FileType::RegularFile) => (to, Kind::File),
            Ok(FileType::Fifo) => match opened_again(&to) {
                Ok(pipe) => (Box::new(pipe) as Target, Kind::Pipe),
                // It may belong to another user.
                Err(_) => (to, Kind::Other),
            },
            _ => (to, Kind::Other),
        };
        let (waiting, more, less) = Default::default();
        let outlet = Arc::new(Self { to, kind, note, waiting, more, less });
        let writing = Arc::clone(&outlet);
        std::thread::Builder::new().name("kew-log".into()).spawn(move || writing.write_what_waits())?;
        Ok(outlet)
    }

    /// Writes a line, now or when its turn comes. Never waits for the reader.
    pub fn give(&self, line: Vec<u8>) {
        let mut waiting = self.waiting.lock();
        if waiting.is_empty() && self.takes_at_once(line.len()) {
            waiting.is_writing = true;
            drop(waiting);
            let rest = self.write(&line).to_vec();
            self.written_at_once(rest);
            return;
        }
        if waiting.has_room_for(line.len(), WAITING_BYTES_MAX) {
            self.put(&mut waiting, line);
        } else {
            waiting.dropped += 1;
        }
        // Also of one that was dropped: nothing else may wait, and then the loss would not be logged.
        self.more.notify_one();
    }

    /// The same for a thread that may be held up by the reader: it waits until there is room, and leaves half of the
    /// room to those that do not wait.
    pub fn give_when_there_is_room(&self, lines: Vec<u8>) {
        let mut waiting = self.waiting.lock();
        while !waiting.has_room_for(lines.len(), PATIENT_BYTES_MAX) && !waiting.is_empty() {
            self.less.wait(&mut waiting);
        }
        self.put(&mut waiting, lines);
        self.more.notify_one();
    }

    /// Has a line wait, behind the one about dropped lines if there are any.
    fn put(&self, waiting: &mut MutexGuard<'_, Waiting>, line: Vec<u8>) {
        if let Some(note) = self.note_of_dropped(waiting) {
            waiting.put(note);
        }
        waiting.put(line);
    }

    /// What follows a write by the thread that logged the line: the rest of it comes before what waits by now.
    fn written_at_once(&self, rest: Vec<u8>) {
        let mut waiting = self.waiting.lock();
        waiting.is_writing = false;
        if !rest.is_empty() {
            waiting.put_first(rest);
        }
        if waiting.is_empty() {
            self.less.notify_all();
        } else {
            self.more.notify_one();
        }
    }

    /// Waits until all lines are written, for a moment at most.
    pub fn flush(&self, within: Duration) {
        let until = Instant::now() + within;
        let mut waiting = self.waiting.lock();
        while !waiting.is_empty() {
            if self.less.wait_until(&mut waiting, until).timed_out() {
                return;
            }
        }
    }

    /// The line about dropped lines, if there are any.
    fn note_of_dropped(&self, waiting: &mut MutexGuard<'_, Waiting>) -> Option<Vec<u8>> {
        let dropped = std::mem::take(&mut waiting.dropped);
        (dropped > 0).then(|| (self.note)(dropped))
    }

    fn takes_at_once(&self, bytes: usize) -> bool {
        match self.kind {
            Kind::File => true,
            Kind::Pipe => bytes <= AT_ONCE_BYTES_MAX,
            Kind::Other => false,
        }
    }

    /// Writes as much as can be written; answers the rest.
    fn write<'l>(&self, mut line: &'l [u8]) -> &'l [u8] {
        while !line.is_empty() {
            match rustix::io::write(&self.to, line) {
                Ok(written) => line = line.get(written..).unwrap_or_default(),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return line,
                // Nowhere to write to is no reason to stop serving.
                Err(_) => return &[],
            }
        }
        line
    }

    /// The work of the thread, for as long as the program runs.
    fn write_what_waits(&self) {
        loop {
            let line = self.next();
            let mut rest = line.as_slice();
            while !rest.is_empty() {
                rest = self.write(rest);
                if !rest.is_empty() {
                    // It refuses writes that would wait: so we opened it, or another process has made it.
                    let mut fds = [PollFd::new(&self.to, PollFlags::OUT)];
                    let _has_room = poll(&mut fds, None);
                }
            }
            let mut waiting = self.waiting.lock();
            waiting.bytes -= line.len() + LINE_BYTES;
            waiting.is_writing = false;
            self.less.notify_all();
        }
    }

    /// The next line that waits, once no other is being written.
    fn next(&self) -> Vec<u8> {
        let mut waiting = self.waiting.lock();
        loop {
            if waiting.lines.is_empty()
                && let Some(note) = self.note_of_dropped(&mut waiting)
            {
                waiting.put(note);
            }
            if !waiting.is_writing
                && let Some(line) = waiting.lines.pop_front()
            {
                waiting.is_writing = true;
                return line;
            }
            self.more.wait(&mut waiting);
        }
    }
}

/// A pipe opened once more: that it refuses writes that would wait is true of this opening alone, and of no other
/// process that writes to it.
fn opened_again(pipe: &Target) -> rustix::io::Result<OwnedFd> {
    let path = format!("/proc/self/fd/{}", pipe.as_fd().as_raw_fd());
    rustix::fs::open(path, OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())
}

impl Waiting {
    fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.dropped == 0 && !self.is_writing
    }

    /// Whether one more line may wait, of this much at most. Once one was dropped, half of the room must be free again.
    fn has_room_for(&self, bytes: usize, max: usize) -> bool {
        let max = if self.dropped == 0 { max } else { max.min(WAITING_BYTES_MAX / 2) };
        self.bytes + bytes + LINE_BYTES <= max
    }

    fn put(&mut self, line: Vec<u8>) {
        self.bytes += line.len() + LINE_BYTES;
        self.lines.push_back(line);
    }

    fn put_first(&mut self, line: Vec<u8>) {
        self.bytes += line.len() + LINE_BYTES;
        self.lines.push_front(line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead as _, Read as _};

    fn line(number: usize) -> Vec<u8> {
        format!("{number:07} {}\n", "x".repeat(1_000)).into_bytes()
    }

    fn note() -> NoteOfDropped {
        Box::new(|dropped| format!("lines={dropped}\n").into_bytes())
    }

    /// The numbers of lines, and what the lines about dropped ones say.
    fn read(text: &str) -> (Vec<usize>, u64) {
        let (mut numbers, mut dropped) = (Vec::new(), 0);
        for line in text.lines() {
            match line.split_once("lines=") {
                Some((_, count)) => dropped += count.parse::<u64>().expect("the line ends in a number"),
                None => numbers.push(line[..7].parse().expect("a line begins with its number")),
            }
        }
        (numbers, dropped)
    }

    #[test]
    fn a_reader_that_stands_still_holds_no_thread_up_and_hears_how_many_lines_were_dropped() {
        const GIVEN: usize = 5_000;
        let (reader, writer) = io::pipe().expect("the machine has pipes");
        let outlet = Outlet::start_to(Box::new(writer), note()).expect("a thread can be started");
        (0..GIVEN).for_each(|number| outlet.give(line(number)));
        assert!(outlet.waiting.lock().bytes <= WAITING_BYTES_MAX);
        assert!(outlet.waiting.lock().dropped > 3_000, "5 MB do not wait in 1 MiB");
        let mut text = String::new();
        let mut reader = io::BufReader::new(reader);
        while !text.contains("lines=") {
            assert_ne!(reader.read_line(&mut text).ok(), Some(0), "the outlet keeps the pipe open");
        }
        outlet.give(line(GIVEN));
        while !text.contains("\n0005000 ") {
            assert_ne!(reader.read_line(&mut text).ok(), Some(0), "the outlet keeps the pipe open");
        }
        let (numbers, dropped) = read(&text);
        assert!(numbers.is_sorted(), "lines keep their order");
        assert_eq!(numbers.len() as u64 + dropped, GIVEN as u64 + 1);
        outlet.flush(Duration::from_secs(30));
        assert!(outlet.waiting.lock().is_empty());
    }

    #[test]
    fn lines_whose_thread_waits_crowd_out_no_others() {
        const PATIENT: usize = 40;
        let (mut reader, writer) = io::pipe().expect("the machine has pipes");
        let outlet = Outlet::start_to(Box::new(writer), note()).expect("a thread can be started");
        let (giving, given) = (Arc::clone(&outlet), Arc::new(std::sync::atomic::AtomicUsize::new(0)));
        let counted = Arc::clone(&given);
        let patient = std::thread::spawn(move || {
            for _ in 0..PATIENT {
                giving.give_when_there_is_room("y".repeat(64 << 10).into_bytes());
                counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            }
        });
        // Half of the room, less one, and perhaps one that the pipe took.
        while given.load(std::sync::atomic::Ordering::Relaxed) < 7 {
            std::thread::yield_now();
        }
        (0..400).for_each(|number| outlet.give(line(number)));
        assert_eq!(outlet.waiting.lock().dropped, 0, "others have the other half");
        assert!(given.load(std::sync::atomic::Ordering::Relaxed) < 10, "the patient one waits");
        let reading = std::thread::spawn(move || {
            let mut text = String::new();
            while text.matches('y').count() < PATIENT * (64 << 10) {
                let mut some = vec![0; 64 << 10];
                let read = reader.read(&mut some).expect("the outlet keeps the pipe open");
                text.push_str(std::str::from_utf8(&some[..read]).expect("lines are ASCII"));
            }
            text
        });
        patient.join().expect("the writer goes on when its reader reads");
        let text = reading.join().expect("all of it comes");
        assert!((0..400).all(|number| text.contains(&format!("{number:07} "))));
    }

    #[test]
    fn a_line_that_is_dropped_while_nothing_waits_is_told() {
        let (reader, writer) = io::pipe().expect("the machine has pipes");
        let outlet = Outlet::start_to(Box::new(writer), note()).expect("a thread can be started");
        outlet.give(line(1));
        outlet.give(vec![b'x'; WAITING_BYTES_MAX]);
        let mut lines = io::BufReader::new(reader).lines().map_while(Result::ok);
        assert!(lines.next().is_some_and(|line| line.starts_with("0000001 ")));
        assert_eq!(lines.next().as_deref(), Some("lines=1"));
    }

    #[test]
    fn no_lock_is_held_during_a_write_and_lines_keep_their_order() {
        let (reader, writer) = io::pipe().expect("the machine has pipes");
        let theirs = writer.try_clone().expect("a pipe can be opened twice");
        let outlet = Outlet::start_to(Box::new(writer), note()).expect("a thread can be started");
        let is_nonblocking = |flags: rustix::io::Result<OFlags>| flags.map(|f| f.contains(OFlags::NONBLOCK));
        assert_eq!(is_nonblocking(rustix::fs::fcntl_getfl(&outlet.to)), Ok(true), "no write waits");
        assert_eq!(is_nonblocking(rustix::fs::fcntl_getfl(&theirs)), Ok(false), "others are not concerned");
        // As a write under way has it: of a disk that hangs, for instance.
        outlet.waiting.lock().is_writing = true;
        outlet.give(line(2));
        outlet.give(line(3));
        assert_eq!(outlet.waiting.lock().lines.len(), 2, "it holds no other line up, and none overtakes it");
        outlet.written_at_once(line(1));
        let lines: Vec<String> = io::BufReader::new(reader).lines().map_while(Result::ok).take(3).collect();
        assert_eq!(read(&lines.join("\n")), (vec![1, 2, 3], 0));
    }

    #[test]
    fn lines_for_a_file_are_there_at_once() {
        let mut file = tempfile::tempfile().expect("the machine has a temporary directory");
        let to = file.try_clone().expect("a file can be opened twice");
        let outlet = Outlet::start_to(Box::new(to), note()).expect("a thread can be started");
        (0..100).for_each(|number| outlet.give(line(number)));
        let mut text = String::new();
        io::Seek::rewind(&mut file).and_then(|()| file.read_to_string(&mut text)).expect("the file is ours");
        assert_eq!(read(&text), ((0..100).collect(), 0));
    }
}
