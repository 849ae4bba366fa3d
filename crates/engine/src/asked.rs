//! A step that was taken and whose outcome is on its way to its caller.
//!
//! A step that the store put off is taken again here. What a store answers from elsewhere is followed here, since
//! nothing was known of it when the step was taken.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

use kew_core::{Ask, Command, Outcome};
use kew_store::{StoreError, Submission};

use crate::busy::Busy;
use crate::pass::Pass;
use crate::{Engine, EngineError};

impl Engine {
    /// Takes a command's step; what is answered is the command's own kind of answer.
    #[inline(always)]
    pub(crate) fn answer<A: Ask>(&self, input: A::Input) -> Answering<'_, A> {
        Answering { asked: self.ask(A::command(input)), command: PhantomData }
    }

    /// Takes a step; what is answered is its outcome. A step that the store put off is taken again by itself.
    #[inline(always)]
    pub(crate) fn ask(&self, command: Command) -> Asked<'_> {
        self.ask_in(&mut self.pass(), command)
    }

    #[inline(always)]
    pub(crate) fn ask_in(&self, pass: &mut Pass, command: Command) -> Asked<'_> {
        let busy = self.work.begin();
        let submission = self.step(pass, self.now(), &command);
        let late = submission.peek().is_none();
        let again = if submission.is_put_off() { Some(PutOff::new(command)) } else { None };
        Asked { engine: self, submission, late, again, _busy: busy }
    }

    fn step_now(&self, command: &Command) -> Submission {
        self.step(&mut self.pass(), self.now(), command)
    }

    /// Follows what a store answers from elsewhere.
    #[cold]
    pub(crate) fn learn_late(&self, answer: &Result<Outcome, StoreError>) {
        match answer {
            Ok(Outcome::Queue(queue)) => {
                self.snapshots.put(queue);
                self.pass().watches.changed(queue.id, &self.work);
            }
            // Another node drives the tasks of queues that it keeps.
            Ok(Outcome::Move(task)) if self.store.keeps(task.source) => self.learn_move(task),
            _ => {}
        }
    }
}

/// How often a step that was put off is taken again. Each time a spare file was made or a batch was written meanwhile.
const TRIES_MAX: u32 = 64;

/// A step that the store put off: it changed nothing, and is taken again when what stood in its way has been worked on.
struct PutOff {
    command: Command,
    tries_left: u32,
}

impl PutOff {
    #[cold]
    fn new(command: Command) -> Box<Self> {
        Box::new(Self { command, tries_left: TRIES_MAX })
    }
}

/// A step whose outcome is on its way.
pub(crate) struct Asked<'a> {
    engine: &'a Engine,
    submission: Submission,
    /// The store answers from elsewhere: nothing was known of the outcome when the step was taken.
    late: bool,
    again: Option<Box<PutOff>>,
    _busy: Busy,
}

impl Asked<'_> {
    /// Takes a step again that was put off, unless it has been taken often enough or failed for another reason.
    #[cold]
    fn take_again(&mut self, mut again: Box<PutOff>, answer: &Result<Outcome, StoreError>) -> bool {
        if again.tries_left == 0 || !matches!(answer, Err(StoreError::Overloaded { .. })) {
            return false;
        }
        self.submission = self.engine.step_now(&again.command);
        self.late = self.submission.peek().is_none();
        if self.submission.is_put_off() {
            again.tries_left -= 1;
            self.again = Some(again);
        }
        true
    }
}

/// A step on its way, whose outcome becomes the answer of its command.
pub(crate) struct Answering<'a, A> {
    asked: Asked<'a>,
    command: PhantomData<fn() -> A>,
}

impl<A: Ask> Future for Answering<'_, A> {
    type Output = Result<A::Answer, EngineError>;

    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.asked).poll(cx).map_ok(A::answer)
    }
}

impl Future for Asked<'_> {
    type Output = Result<Outcome, EngineError>;

    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            let Poll::Ready(answer) = Pin::new(&mut self.submission).poll(cx) else { return Poll::Pending };
            if let Some(again) = self.again.take()
                && self.take_again(again, &answer)
            {
                continue;
            }
            if self.late {
                self.engine.learn_late(&answer);
            }
            return Poll::Ready(answer.map_err(EngineError::from));
        }
    }
}
