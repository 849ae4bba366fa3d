//! Deduplication ids on a thread of their own while a store is opened.
//!
//! They may be millions, and the queues do not need them before the first send. The thread reads no file and takes no
//! lock, and what is wrong is said only when it is asked for: the calls to the disk are the same however fast the
//! thread is. It starts with the first large piece; few ids are remembered on the spot.

use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{Builder, JoinHandle};

use bytes::Bytes;
use kew_core::Timestamp;
use kew_store::ledger::{IdsRead, Ledger, SentIds};

use super::load;
use super::shelf::LogShelf;
use super::upkeep::put_away;
use crate::checkpoint::Sidecar;
use crate::error::LogError;

/// Ids of sends behind the checkpoint that are handed on together.
const HANDED_ON: usize = 4_096;

/// A piece of fewer bytes needs no thread.
const FEW_BYTES: usize = 64 << 10;

/// Bytes of pieces that wait for the thread, beside one that is being read. A larger piece waits alone.
const WAITING_BYTES: usize = 256 << 20;

/// Ids to be remembered.
enum Piece {
    /// A generation that was put away, the file it lies in, and the file's bytes.
    PutAway(Timestamp, Sidecar, Vec<u8>),
    /// The slice of a generation, and its key.
    Slice(u64, Bytes),
    /// Sends behind the checkpoint.
    Sent(SentIds),
}

impl Piece {
    /// Bytes it holds.
    fn bytes(&self) -> usize {
        match self {
            Self::PutAway(_, _, bytes) => bytes.len(),
            Self::Slice(_, bytes) => bytes.len(),
            Self::Sent(sent) => sent.bytes(),
        }
    }

    fn remember(self, ids: &mut IdsRead) -> Result<(), LogError> {
        match self {
            Self::PutAway(start, file, bytes) => ids.add_put_away(start, put_away::heads_of(&file, &bytes)?),
            Self::Slice(key, bytes) => load::ids_slice(ids, &bytes).ok_or_else(|| load::damage(key))?,
            Self::Sent(sent) => ids.remember(sent),
        }
        Ok(())
    }
}

/// The ids of a store that is being opened.
#[derive(Default)]
pub(super) struct IdsAside {
    /// Those remembered before there was a thread.
    ids: IdsRead,
    thread: Option<Thread>,
    /// Pieces that the thread is not done with.
    waiting: usize,
    /// The bytes they hold.
    waiting_bytes: usize,
    /// The first thing that was wrong.
    wrong: Option<LogError>,
}

struct Thread {
    give: Sender<Piece>,
    /// Of each piece the bytes it held, and what was wrong with it.
    finished: Receiver<(usize, Result<(), LogError>)>,
    handle: JoinHandle<IdsRead>,
}

impl IdsAside {
    /// Slices of this many bytes will come. Said before all else.
    pub fn make_room(&mut self, bytes: usize) {
        self.ids.make_room(bytes);
    }

    /// A generation lies in this file, with these bytes.
    pub fn add_put_away(&mut self, start: Timestamp, file: &Sidecar, bytes: Vec<u8>) -> Result<(), LogError> {
        self.give(Piece::PutAway(start, file.clone(), bytes))
    }

    /// The slice of a generation.
    pub fn add_slice(&mut self, key: u64, slice: Bytes) -> Result<(), LogError> {
        self.give(Piece::Slice(key, slice))
    }

    /// Takes the ids of the sends that were replayed, when they are many.
    pub fn take_replayed(&mut self, ledger: &mut Ledger<LogShelf>) -> Result<(), LogError> {
        ledger.take_sent_ids(HANDED_ON).map_or(Ok(()), |sent| self.give(Piece::Sent(sent)))
    }

    /// Waits until all that was given is remembered. Fails when some of it was not what it should be.
    pub fn settle(&mut self) -> Result<(), LogError> {
        while self.waiting > 0 {
            self.hear();
        }
        self.wrong.take().map_or(Ok(()), Err)
    }

    /// Gives the ledger its ids.
    pub fn finish(mut self, ledger: &mut Ledger<LogShelf>) -> Result<(), LogError> {
        self.settle()?;
        let here = std::mem::take(&mut self.ids);
        ledger.set_ids(self.thread.take().map_or(here, Thread::join));
        Ok(())
    }

    fn give(&mut self, piece: Piece) -> Result<(), LogError> {
        let bytes = piece.bytes();
        if self.thread.is_none() && bytes < FEW_BYTES {
            let result = piece.remember(&mut self.ids);
            self.note(result);
            return Ok(());
        }
        while self.waiting > 0 && self.waiting_bytes + bytes > WAITING_BYTES {
            self.hear();
        }
        let thread = match &mut self.thread {
            Some(thread) => thread,
            none => none.insert(Thread::start(std::mem::take(&mut self.ids))?),
        };
        (self.waiting, self.waiting_bytes) = (self.waiting + 1, self.waiting_bytes + bytes);
        // One that is gone panicked. That is found when its answer is waited for.
        let _given = thread.give.send(piece);
        Ok(())
    }

    /// Waits until the thread is done with one piece more.
    fn hear(&mut self) {
        match self.thread.as_ref().map(|thread| thread.finished.recv()) {
            Some(Ok((bytes, result))) => {
                (self.waiting, self.waiting_bytes) = (self.waiting - 1, self.waiting_bytes - bytes);
                self.note(result);
            }
            Some(Err(_)) | None => {
                self.waiting = 0;
                drop(self.thread.take().map(Thread::join));
            }
        }
    }

    fn note(&mut self, result: Result<(), LogError>) {
        self.wrong = self.wrong.take().or(result.err());
    }
}

/// Opening failed: the thread leaves what it was given, and its ids are freed before the store is opened again.
impl Drop for IdsAside {
    fn drop(&mut self) {
        if let Some(Thread { give, finished, handle }) = self.thread.take() {
            drop((give, finished));
            // Its panic was not why opening failed, and the ids that it might have lost are not used.
            let _ended = handle.join();
        }
    }
}

impl Thread {
    /// Goes on with the ids there are.
    fn start(mut ids: IdsRead) -> Result<Self, LogError> {
        const NAME: &str = "kew-ids";
        let (give, pieces) = mpsc::channel::<Piece>();
        let (say_finished, finished) = mpsc::channel();
        let handle = Builder::new().name(NAME.into()).spawn(move || {
            for piece in pieces {
                let bytes = piece.bytes();
                if say_finished.send((bytes, piece.remember(&mut ids))).is_err() {
                    // Opening has failed.
                    break;
                }
            }
            ids
        });
        let handle =
            handle.map_err(|error| LogError::from_io(format!("starting the thread {NAME}"), &error))?;
        Ok(Self { give, finished, handle })
    }

    /// Its ids, when it is done with all pieces. A panic of it goes on here.
    fn join(self) -> IdsRead {
        drop(self.give);
        self.handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(slices: &[(u64, &'static [u8])]) -> IdsAside {
        let mut ids = IdsAside::default();
        for (key, slice) in slices {
            ids.add_slice(*key, Bytes::from_static(slice)).expect("a slice is not judged when it is given");
        }
        ids
    }

    /// Too large to be read on the spot. Its last byte is the beginning of an id only.
    static LARGE: [u8; FEW_BYTES + 9] = [0; FEW_BYTES + 9];

    #[test]
    fn the_first_thing_that_is_wrong_is_said_when_it_is_asked_for() {
        for slices in [[(7, &b"cut"[..]), (8, b"")], [(7, &LARGE), (8, b"cut")], [(7, b"cut"), (8, &LARGE)]] {
            let wrong = given(&slices).settle().expect_err("these are no slices");
            assert!(wrong.to_string().contains("key 0x7"), "{wrong}");
        }
    }

    #[test]
    fn few_ids_need_no_thread_and_many_have_one_which_ends_with_its_owner() {
        let mut few = given(&[(7, &[0; 9])]);
        few.settle().expect("a slice without ids is one");
        assert!(few.thread.is_none());
        let many = given(&[(7, &LARGE), (8, &LARGE)]);
        assert!(many.thread.is_some());
        drop(many);
    }
}
