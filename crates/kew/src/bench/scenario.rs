//! What connections do: each scenario is a loop of one connection, made of sends, receives and deletes.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::Fault;
use super::client::{BACK_WITHIN, Connection, Reply};
use super::dialect::{Dialect, Outgoing, Queue, Received, check_status};
use super::figures::Figures;
use super::plan::{BenchArgs, ScenarioName};
use super::tally::{Mark, Tally};

/// An empty answer this much before the end of a wait is still in time: clocks are read at both ends.
const EARLY: Duration = Duration::from_millis(20);
/// Seconds a waiting receive waits.
const WAIT_SECONDS: u32 = 20;

/// What all connections of a round share. One thread drives them, so no lock guards it.
pub(super) struct Round {
    pub(super) args: BenchArgs,
    pub(super) address: String,
    pub(super) dialect: Rc<dyn Dialect>,
    pub(super) queue: Queue,
    /// When connections stop to begin anything new.
    pub(super) until: Cell<Instant>,
    /// Messages sent before the round began.
    pub(super) stored_before: Cell<u64>,
    pub(super) tally: RefCell<Tally>,
    pub(super) figures: RefCell<Figures>,
    /// Senders that are done, for those who receive until then.
    pub(super) finished_senders: Cell<u32>,
    /// When messages left that somebody waits for, by sender and number.
    pub(super) on_their_way: RefCell<HashMap<(u32, u64), Instant>>,
}

impl Round {
    /// A connection to the server, waited for when the run is to survive that it goes away.
    pub(super) async fn connect(&self) -> Result<Connection, Fault> {
        let within = if self.args.survive { BACK_WITHIN } else { Duration::ZERO };
        Connection::open_within(&self.address, within).await
    }

    /// How many messages are stored, by the server's own count.
    pub(super) async fn stored(&self) -> Result<u64, Fault> {
        let request = self.dialect.count(&self.queue);
        let mut connection = self.connect().await?;
        loop {
            match connection.ask(&request).await {
                Ok(reply) => return self.dialect.counted(&reply),
                Err(_) if self.args.survive => connection.reopen(BACK_WITHIN).await?,
                Err(fault) => return Err(fault),
            }
        }
    }

    /// Notes how long a message took from its send to the receive that waited for it.
    fn note_delivery(&self, mark: Mark) {
        if let Some(begun) = self.on_their_way.borrow_mut().remove(&(mark.sender, mark.number)) {
            self.figures.borrow_mut().note("delivery", begun.elapsed());
        }
    }

    fn is_over(&self) -> bool {
        let sent = self.tally.borrow().acknowledged - self.stored_before.get();
        self.args.count.is_some_and(|count| sent >= count) || Instant::now() >= self.until.get()
    }

    /// The group of a message in a FIFO scenario: no two connections send to the same one.
    fn group(&self, mark: Mark) -> Option<u32> {
        if !self.queue.fifo {
            return None;
        }
        let own = (self.args.groups / self.args.connections).max(1);
        Some(mark.sender * own + u32::try_from(mark.number % u64::from(own)).unwrap_or_default())
    }

    fn messages_are_done(&self, count: usize) {
        self.figures.borrow_mut().messages += count as u64;
    }
}

/// One connection's work.
pub(super) async fn work(round: Rc<Round>, place: u32) -> Result<(), Fault> {
    let connection = round.connect().await?;
    let mut worker = Worker { round, place, connection };
    match worker.round.args.scenario {
        ScenarioName::Cycle | ScenarioName::Fifo | ScenarioName::Backlog | ScenarioName::IdleQueues => {
            worker.cycles(1).await
        }
        ScenarioName::Batch => {
            let batch = worker.round.dialect.batch_max();
            worker.cycles(batch).await
        }
        ScenarioName::Send => worker.sends().await,
        ScenarioName::Longpoll => worker.sends_or_waits().await,
        ScenarioName::Null => worker.requests().await,
        ScenarioName::Push => Err("the server comes to us".into()),
    }
}

struct Worker {
    round: Rc<Round>,
    place: u32,
    connection: Connection,
}

impl Worker {
    async fn cycles(&mut self, batch: u32) -> Result<(), Fault> {
        while !self.round.is_over() {
            self.send(batch).await?;
            let messages = self.receive(batch, 0).await?;
            self.delete(&messages).await?;
            self.round.messages_are_done(messages.len());
        }
        Ok(())
    }

    async fn sends(&mut self) -> Result<(), Fault> {
        while !self.round.is_over() {
            let sent = self.send(1).await?;
            self.round.messages_are_done(sent);
        }
        Ok(())
    }

    /// Even places send, odd ones wait; of one connection alone both are made.
    async fn sends_or_waits(&mut self) -> Result<(), Fault> {
        let senders = self.round.args.connections.div_ceil(2);
        if self.place.is_multiple_of(2) {
            while !self.round.is_over() {
                self.send(1).await?;
                // A pause, so that receivers wait and each message wakes one.
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            self.round.finished_senders.set(self.round.finished_senders.get() + 1);
            return Ok(());
        }
        let all_received =
            |round: &Round| round.finished_senders.get() == senders && round.tally.borrow().missing() == 0;
        while !all_received(&self.round) {
            // Near the end no message may come any more to end a long wait.
            let wait = if self.round.is_over() { 1 } else { WAIT_SECONDS.min(self.seconds_left()) };
            let messages = self.receive(1, wait).await?;
            self.delete(&messages).await?;
            self.round.messages_are_done(messages.len());
            if messages.is_empty() && Instant::now() > self.round.until.get() + Duration::from_secs(5) {
                break;
            }
        }
        Ok(())
    }

    fn seconds_left(&self) -> u32 {
        let left = self.round.until.get().saturating_duration_since(Instant::now());
        u32::try_from(left.as_secs()).unwrap_or(WAIT_SECONDS).max(1)
    }

    /// The floor gets what a send would be.
    async fn requests(&mut self) -> Result<(), Fault> {
        while !self.round.is_over() {
            let mark = self.round.tally.borrow_mut().next(self.place);
            let body = mark.body(self.round.args.body);
            let request = self.round.dialect.send(&self.round.queue, &[Outgoing { body: &body, fifo: None }]);
            self.ask("request", &request, |_, reply| check_status(reply)).await?;
            self.round.tally.borrow_mut().sent(mark);
            self.round.messages_are_done(1);
        }
        Ok(())
    }

    /// Sends new messages; how many were acknowledged.
    async fn send(&mut self, count: u32) -> Result<usize, Fault> {
        let round = Rc::clone(&self.round);
        let marks: Vec<Mark> = (0..count).map(|_| round.tally.borrow_mut().next(self.place)).collect();
        let bodies: Vec<String> = marks.iter().map(|mark| mark.body(round.args.body)).collect();
        let messages: Vec<Outgoing<'_>> = bodies
            .iter()
            .zip(&marks)
            .map(|(body, mark)| Outgoing { body, fifo: round.group(*mark).map(|group| (group, mark.number)) })
            .collect();
        let request = round.dialect.send(&round.queue, &messages);
        if round.args.scenario == ScenarioName::Longpoll {
            let begun = Instant::now();
            let mut on_their_way = round.on_their_way.borrow_mut();
            on_their_way.extend(marks.iter().map(|mark| ((mark.sender, mark.number), begun)));
        }
        let answered = self.ask("send", &request, |dialect, reply| dialect.check(reply, marks.len())).await?;
        let mut tally = round.tally.borrow_mut();
        if answered.is_none() {
            tally.unanswered += marks.len() as u64;
            return Ok(0);
        }
        marks.iter().for_each(|mark| tally.sent(*mark));
        Ok(marks.len())
    }

    async fn receive(&mut self, max: u32, wait_seconds: u32) -> Result<Vec<Received>, Fault> {
        let round = Rc::clone(&self.round);
        let request = round.dialect.receive(&round.queue, max, wait_seconds);
        let operation = if wait_seconds == 0 { "receive" } else { "wait" };
        let begun = Instant::now();
        let found = self.ask(operation, &request, |dialect, reply| dialect.received(reply)).await?;
        let answered = found.is_some() && wait_seconds > 0 && round.dialect.waits();
        let messages = found.unwrap_or_default();
        let mut tally = round.tally.borrow_mut();
        if messages.is_empty() {
            let mut figures = round.figures.borrow_mut();
            figures.empty += 1;
            let whole_wait = Duration::from_secs(wait_seconds.into()).saturating_sub(EARLY);
            // A server that was killed answers nothing, and is not early.
            figures.early += u64::from(answered && begun.elapsed() < whole_wait);
        }
        for message in &messages {
            let received = tally.received(&message.body, |mark| round.group(mark));
            received.into_iter().for_each(|mark| round.note_delivery(mark));
        }
        Ok(messages)
    }

    async fn delete(&mut self, messages: &[Received]) -> Result<(), Fault> {
        if messages.is_empty() {
            return Ok(());
        }
        let round = Rc::clone(&self.round);
        let request = round.dialect.delete(&round.queue, messages);
        let answered =
            self.ask("delete", &request, |dialect, reply| dialect.check(reply, messages.len())).await?;
        if answered.is_none() {
            round.tally.borrow_mut().unanswered += messages.len() as u64;
        } else {
            let marks = messages.iter().filter_map(|message| Mark::read(&message.body));
            marks.for_each(|mark| round.tally.borrow_mut().deleted(mark));
        }
        Ok(())
    }

    /// One request; `None` when the server went away meanwhile and the run is to survive that.
    async fn ask<T>(
        &mut self,
        operation: &'static str,
        request: &[u8],
        read: impl FnOnce(&dyn Dialect, &Reply<'_>) -> Result<T, Fault>,
    ) -> Result<Option<T>, Fault> {
        let begun = Instant::now();
        match self.connection.ask(request).await {
            Ok(reply) => {
                self.round.figures.borrow_mut().note(operation, begun.elapsed());
                let dialect = Rc::clone(&self.round.dialect);
                read(&*dialect, &reply).map(Some).map_err(|fault| format!("{operation}: {fault}").into())
            }
            Err(_) if self.round.args.survive => {
                self.round.figures.borrow_mut().interruptions += 1;
                self.connection.reopen(BACK_WITHIN).await?;
                Ok(None)
            }
            Err(fault) => Err(format!("{operation}: {fault}").into()),
        }
    }
}

/// Receives and deletes what is left, until all has come, or nothing comes for longer than a lease lasts.
pub(super) async fn drain(round: &Rc<Round>) -> Result<(), Fault> {
    let connection = round.connect().await?;
    let mut worker = Worker { round: Rc::clone(round), place: 0, connection };
    // What was received by a request that was never answered comes again when its lease ends.
    let patience = if round.args.survive { round.queue.lease_seconds * 2 } else { 1 };
    let mut quiet_since = Instant::now();
    while round.tally.borrow().missing() > 0 && quiet_since.elapsed().as_secs() <= u64::from(patience) {
        let messages = worker.receive(round.dialect.batch_max(), 1).await?;
        if !messages.is_empty() {
            quiet_since = Instant::now();
        }
        worker.delete(&messages).await?;
    }
    Ok(())
}

/// Adds this number of messages.
pub(super) async fn fill(round: Rc<Round>, place: u32, count: u64) -> Result<(), Fault> {
    let connection = round.connect().await?;
    let mut worker = Worker { round, place, connection };
    let mut left = count;
    let largest = worker.round.dialect.batch_max();
    while left > 0 {
        let batch = u32::try_from(left.min(u64::from(largest))).unwrap_or(largest);
        worker.send(batch).await?;
        left -= u64::from(batch);
    }
    Ok(())
}
