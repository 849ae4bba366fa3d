//! The threads of a store: one commits, one does the upkeep, a few read, one makes spares. Which of them run says
//! [`Drive`](super::options::Drive).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

use kew_core::Work;

use super::inner::Inner;
use super::upkeep::reporting::Retry;
use crate::error::LogError;

pub(super) fn spawn(
    name: &str,
    inner: Arc<Inner>,
    run: impl FnOnce(&Inner) + Send + 'static,
) -> Result<JoinHandle<()>, LogError> {
    std::thread::Builder::new()
        .name(name.into())
        .spawn(move || run(&inner))
        .map_err(|error| LogError::from_io(format!("starting the thread {name}"), &error))
}

impl Inner {
    pub(super) fn commit_until_stopped(&self) {
        while self.work.wait_for(None, |wanted| std::mem::take(&mut wanted.commit)) {
            // The gate passes a failure to the answers that wait for the batch.
            let _committed = self.commit();
        }
    }

    pub(super) fn keep_up_until_stopped(&self) {
        let _watch =
            PanicWatch(self, Work::Upkeep, "the thread panicked; nothing is reclaimed until a restart");
        let mut retry = Retry::new(self.options.retry_after);
        let mut pause = retry.after(self.reports.is_failing());
        while self.work.wait_for(pause, |wanted| std::mem::take(&mut wanted.upkeep)) {
            // Each part of a round reports its own failure; what failed is tried again after a pause.
            let _kept_up = self.keep_up();
            pause = retry.after(self.reports.is_failing());
        }
    }

    pub(crate) fn keep_up(&self) -> Result<(), LogError> {
        // Without a spare there is soon no room, and the next sends are refused; a checkpoint may free some.
        let prepared = self.segments.prepare_wanted();
        self.reports.report(Work::Spare, &prepared);
        let is_starved = prepared.is_err();
        let mut upkeep = self.upkeep.lock();
        if self.segments.kept().is_short() {
            upkeep.keep_room(self);
        }
        upkeep.round(self, is_starved)
    }

    pub(super) fn read_until_stopped(&self) {
        let _watch = ReaderWatch(self);
        self.reads.read_until_stopped();
    }

    pub(super) fn make_spares_until_stopped(&self) {
        let _watch =
            PanicWatch(self, Work::Upkeep, "the thread panicked; nothing is reclaimed until a restart");
        while self.work.wait_for(None, |wanted| std::mem::take(&mut wanted.spares)) {
            loop {
                let turn = self.makes_begun.fetch_add(1, Ordering::AcqRel) + 1;
                let made = self.segments.prepare_one();
                self.made.open(turn);
                let goes_on = made.as_ref().is_ok_and(|is_made| *is_made);
                let made = made.map(|_| ());
                self.reports.report(Work::Spare, &made);
                if made.is_err() {
                    // A checkpoint may free some space; upkeep also tries again after a pause.
                    self.work.want(|wanted| wanted.upkeep = true);
                }
                if !goes_on {
                    break;
                }
            }
        }
    }
}

/// Says so when a thread of the store ends by a panic: which work is not done from then on.
pub(crate) struct PanicWatch<'a>(pub &'a Inner, pub Work, pub &'static str);

impl Drop for PanicWatch<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.reports.failed(self.1, self.2);
        }
    }
}

/// Says so when a thread that reads ends by a panic. With the last of them the store stops: no read would be answered.
struct ReaderWatch<'a>(&'a Inner);

impl Drop for ReaderWatch<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        self.0.reports.failed(Work::Upkeep, "a thread that reads messages panicked");
        if self.0.reads.is_without_readers() {
            let cause = "all threads that read messages panicked".to_owned();
            self.0.stop_for(&LogError::FailStopped { cause });
            self.0.reads.stop();
        }
    }
}
