//! The loop of a listener, strictly one step after the other: ask whether the queue is there, receive, start everything
//! that came at once, and ask again when few enough are left.

use std::sync::Arc;
use std::time::Duration;

use kew_azure::client::QueueMessage;
use tokio::task::JoinSet;

use super::lease::Renewal;
use super::work;
use crate::back_off::BackOff;
use crate::clock::Due;
use crate::project::Function;
use crate::queue::{Fault, QueueError, Received};
use crate::shared::Shared;
use crate::stop::Stopped;

/// [seed] Messages are received for a fixed time; host.json's `visibilityTimeout` plays no part in it.
pub(super) const LEASE: Duration = Duration::from_secs(600);
/// How long a server that can is asked to hold a request.
const WAIT: Duration = Duration::from_secs(20);
/// A message that comes again by a held poll is run so much later: about when a host that pauses between polls would
/// have found it, and never sooner after its first start than the lease is long.
const AGAIN_AFTER: Duration = Duration::from_millis(200);
/// A server that does not answer is asked again after real time, growing up to this.
const NO_ANSWER_MAX: Duration = Duration::from_secs(10);

/// A function's listener.
pub(crate) struct Listener {
    shared: Arc<Shared>,
    function: Arc<Function>,
    /// Whether the server has said that the queue is there.
    exists: bool,
    /// Whether a message was found since the last pause.
    found: bool,
    back_off: BackOff,
    /// The fault of the last poll, so that it is logged once.
    trouble: Option<Trouble>,
    /// Polls without an answer in a row.
    unanswered: u32,
}

/// How listening ended.
pub(crate) type Listening = Result<(), QueueError>;

/// What goes on being wrong until it does not.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trouble {
    NoQueue,
    NotLetIn,
    Failing,
}

impl Listener {
    pub(crate) fn new(shared: Arc<Shared>, function: Arc<Function>) -> Self {
        let back_off = BackOff::new(shared.settings.polling_interval_max);
        Self { shared, function, exists: false, found: false, back_off, trouble: None, unanswered: 0 }
    }

    /// Listens until the host stops or the queue refuses, and returns when everything in work has been completed.
    pub(crate) async fn listen(mut self, stopped: Stopped) -> Listening {
        let mut running = JoinSet::new();
        let ended = self.poll(&stopped, &mut running).await;
        while running.join_next().await.is_some() {}
        ended
    }

    async fn poll(&mut self, stopped: &Stopped, running: &mut JoinSet<()>) -> Listening {
        let mut due = None;
        loop {
            tokio::select! {
                // No message is received without a free place for its run.
                answers = self.shared.handler.answers() => if !answers { return Ok(()) },
                () = stopped.wait() => return Ok(()),
            }
            let doing = due.take().unwrap_or_else(|| self.shared.clock.busy());
            let Some(received) = self.receive(doing, &mut due, stopped).await else { return Ok(()) };
            let pause = match received {
                Ok(Received { messages, held, .. }) if !messages.is_empty() => {
                    self.take_up(messages, held, running).await;
                    drop(due.take());
                    while running.len() > self.shared.settings.new_batch_threshold {
                        running.join_next().await;
                    }
                    continue;
                }
                Ok(Received { waited: true, .. }) => {
                    self.recovered();
                    continue;
                }
                Ok(_) => {
                    self.recovered();
                    self.pause()
                }
                Err(error) => self.trouble(error)?,
            };
            if stopped.is_told() {
                return Ok(());
            }
            // Those that have ended are forgotten, so that a quiet queue holds on to nothing.
            while running.try_join_next().is_some() {}
            if self.rest(pause, &mut due, stopped).await.is_none() {
                return Ok(());
            }
        }
    }

    /// Begins to run messages that came.
    async fn take_up(&mut self, messages: Vec<QueueMessage>, held: bool, running: &mut JoinSet<()>) {
        self.recovered();
        self.found = true;
        self.shared.clock.catch_up().await;
        for message in messages {
            let (shared, function) = (Arc::clone(&self.shared), Arc::clone(&self.function));
            let renewal = Renewal::begin(&shared.clock);
            let is_again = held && message.dequeue_count > 1;
            let pause = is_again.then(|| shared.clock.sleep(AGAIN_AFTER));
            running.spawn(work::work(shared, function, message, renewal, pause));
        }
    }

    /// Waits before the next poll; `None` when the host stops meanwhile.
    async fn rest(&self, pause: Pause, due: &mut Option<Due>, stopped: &Stopped) -> Option<()> {
        let wake = self.shared.wakes.of(&self.function.trigger.account, &self.function.trigger.queue);
        match pause {
            Pause::Of(length) => {
                let sleep = self.shared.clock.sleep(length);
                drop(due.take());
                tokio::select! {
                    woken = sleep => *due = Some(woken),
                    () = wake.notified() => {}
                    () = stopped.wait() => return None,
                }
            }
            Pause::Real(length) => {
                drop(due.take());
                tokio::select! {
                    () = tokio::time::sleep(length) => {}
                    () = stopped.wait() => return None,
                }
            }
        }
        Some(())
    }

    /// One poll; `None` when a wait was cut short by the end. `doing` is kept in `due` unless the server holds the
    /// poll: then time may go on.
    async fn receive(
        &mut self,
        doing: Due,
        due: &mut Option<Due>,
        stopped: &Stopped,
    ) -> Option<Result<Received, QueueError>> {
        *due = Some(doing);
        let shared = Arc::clone(&self.shared);
        let function = Arc::clone(&self.function);
        let trigger = &function.trigger;
        if !self.exists {
            if let Err(error) = shared.queues.exists(&trigger.account, &trigger.queue).await {
                return Some(Err(error));
            }
            self.exists = true;
        }
        if stopped.is_told() {
            return None;
        }
        let batch = shared.settings.batch_size;
        if !(shared.waits && trigger.account.is_of_kew()) {
            // What is on its way is not given up: its messages would be hidden for ten minutes without a run.
            return Some(shared.queues.receive(&trigger.account, &trigger.queue, batch, LEASE).await);
        }
        drop(due.take());
        let held = shared.clock.hold();
        let (account, queue) = (&trigger.account, &trigger.queue);
        let received = shared.queues.receive_held(account, queue, batch, LEASE, WAIT, stopped.wait()).await?;
        *due = Some(shared.clock.busy());
        drop(held);
        Some(received)
    }

    fn pause(&mut self) -> Pause {
        let length = self.back_off.next(self.found, self.shared.chance());
        self.found = false;
        Pause::Of(length)
    }

    /// What an error means: a pause, or the end.
    fn trouble(&mut self, error: QueueError) -> Result<Pause, QueueError> {
        // On any error the queue may be gone.
        self.exists = false;
        let trouble = match &error.fault {
            Fault::QueueNotFound | Fault::QueueBeingDeleted => Trouble::NoQueue,
            // A key, a role or a clock that is set right later.
            Fault::NotLetIn(_) => Trouble::NotLetIn,
            Fault::Busy { .. } | Fault::Unreached(_) | Fault::NoAnswer(_) => Trouble::Failing,
            Fault::MessageNotFound | Fault::ReceiptMismatch | Fault::Refused { .. } => return Err(error),
        };
        if self.trouble != Some(trouble) {
            self.trouble = Some(trouble);
            let (name, queue) = (&self.function.name, &self.function.trigger.queue);
            self.shared.log.warn(&match trouble {
                Trouble::NoQueue => format!("Function '{name}' waits for its queue '{queue}', which does not exist; the trigger does not create it, so create it or put a first message there ({error})"),
                Trouble::NotLetIn => format!("Function '{name}' is not let in to poll its queue just now and goes on trying: {error}"),
                Trouble::Failing => format!("Function '{name}' cannot poll its queue just now and goes on trying: {error}"),
            });
        }
        if let Fault::Unreached(_) | Fault::NoAnswer(_) = error.fault {
            self.unanswered = self.unanswered.saturating_add(1);
            let longest = NO_ANSWER_MAX.min(self.shared.settings.polling_interval_max);
            let doubled = Duration::from_millis(100).saturating_mul(1 << (self.unanswered - 1).min(16));
            return Ok(Pause::Real(doubled.min(longest)));
        }
        self.unanswered = 0;
        Ok(self.pause())
    }

    fn recovered(&mut self) {
        self.unanswered = 0;
        if self.trouble.take().is_some() {
            let (name, queue) = (&self.function.name, &self.function.trigger.queue);
            self.shared.log.info(&format!("Function '{name}' polls its queue '{queue}' again"));
        }
    }
}

/// How long until the next poll.
enum Pause {
    /// By the service's time, and shorter when a message was put there from here.
    Of(Duration),
    /// By the machine's: no server answered.
    Real(Duration),
}
