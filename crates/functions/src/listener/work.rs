//! One message, from its receipt to its end: run or moved away, then deleted, released or left hidden.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kew_azure::client::QueueMessage;
use kew_core::time::millis;
use tokio::sync::oneshot;

use super::lease::{Lease, Renewal};
use crate::clock::{Due, Sleep};
use crate::project::{Encoding, Function};
use crate::queue::{Held, QueueError};
use crate::run;
use crate::shared::Shared;

/// A completion that cannot be done now is tried again after this, doubled each time.
const AGAIN_MIN: Duration = Duration::from_millis(500);
const AGAIN_MAX: Duration = Duration::from_secs(10);

/// Works on a message that was just received, after a pause if there is one.
pub(super) async fn work(
    shared: Arc<Shared>,
    function: Arc<Function>,
    message: QueueMessage,
    renewal: Renewal,
    pause: Option<Sleep>,
) {
    let lease = Lease::new(&shared, &function.trigger, &message);
    let worker = Worker { shared: &shared, function: &function, lease };
    if let Some(pause) = pause {
        pause.await;
    }
    // On the heap: the future of a request to the queue is large.
    Box::pin(worker.work(renewal)).await;
}

struct Worker<'a> {
    shared: &'a Shared,
    function: &'a Function,
    lease: Lease<'a>,
}

impl Worker<'_> {
    async fn work(&self, renewal: Renewal) {
        let message = self.lease.message;
        let dequeued = message.dequeue_count;
        // It was killed on its last try: its host could not move it away then.
        if dequeued > self.shared.settings.dequeue_count_max
            && let Some(poison) = &self.function.trigger.poison
        {
            self.tell_moved(poison);
            return self.complete(&End::Poison(poison), self.shared.clock.busy()).await;
        }
        let content = match self.function.trigger.encoding.unwrap_or(self.shared.settings.encoding) {
            Encoding::None => message.text.clone().into_bytes(),
            Encoding::Base64 => match STANDARD.decode(without_blanks(&message.text)) {
                Ok(content) => content,
                Err(_) => return self.unreadable().await,
            },
        };
        let (ends, ended) = oneshot::channel();
        let run = async {
            let ran = self.run(&content).await;
            // The renewal sees that it is over, and ends first.
            drop(ends);
            ran
        };
        let ((succeeded, doing), ()) = tokio::join!(run, self.lease.renew(renewal, ended));
        let Some(end) = self.end(succeeded) else { return };
        if let End::Poison(queue) = end {
            self.tell_moved(queue);
        }
        self.complete(&end, doing).await;
    }

    fn tell_moved(&self, queue: &str) {
        let count = self.shared.settings.dequeue_count_max;
        self.shared.log.warn(&format!(
            "Message has reached MaxDequeueCount of {count}. Moving message to queue '{queue}'."
        ));
    }

    /// [seed] What becomes of the message after its run: deleted after success; after failure moved away on its last
    /// try, else made visible again after `visibilityTimeout`; without a poison queue left as it is, which prevents a
    /// fast endless loop.
    fn end(&self, succeeded: bool) -> Option<End<'_>> {
        if succeeded {
            return Some(End::Delete);
        }
        let poison = self.function.trigger.poison.as_deref()?;
        let is_last = self.lease.message.dequeue_count >= self.shared.settings.dequeue_count_max;
        Some(if is_last { End::Poison(poison) } else { End::Release })
    }

    /// One run, logged from beginning to end: whether it succeeded. Before its end is logged, what follows it begins.
    async fn run(&self, content: &[u8]) -> (bool, Due) {
        let (name, queue, message) = (&self.function.name, &self.function.trigger.queue, self.lease.message);
        let log = &self.shared.log;
        let id = self.shared.id();
        log.info(&format!(
            "Executing 'Functions.{name}' (Reason='New queue message detected on '{queue}'.', Id={id})"
        ));
        log.info(&format!(
            "Trigger Details: MessageId: {}, DequeueCount: {}, InsertedOn: {}",
            message.id,
            message.dequeue_count,
            kew_http::date::rfc3339(message.inserted).replace('Z', "+00:00")
        ));
        let begun = self.shared.clock.now();
        let ran = run::run(self.shared, self.function, message, content, &id).await;
        let doing = self.shared.clock.busy();
        let duration = millis(self.shared.clock.now().since(begun));
        match ran {
            Ok(()) => {
                log.info(&format!("Executed 'Functions.{name}' (Succeeded, Id={id}, Duration={duration}ms)"));
                (true, doing)
            }
            Err(fault) => {
                log.error(&format!("Executed 'Functions.{name}' (Failed, Id={id}, Duration={duration}ms)"));
                log.tell(
                    crate::log::Level::Error,
                    &format!("Exception while executing function: Functions.{name}: {fault}"),
                    &[("invocation", &id)],
                );
                (false, doing)
            }
        }
    }

    /// A text that is not encoded as the settings say reaches no function.
    async fn unreadable(&self) {
        let (id, name) = (&self.lease.message.id, &self.function.name);
        let advice = "if senders do not encode, set \"messageEncoding\": \"none\" in the trigger's binding of function.json, or in extensions.queues of host.json for all";
        let poison = self.function.trigger.poison.as_deref();
        let then = match poison {
            Some(queue) => format!("Moving message to queue '{queue}'."),
            None => "There is no poison queue, so it stays hidden for ten minutes.".to_owned(),
        };
        self.shared.log.error(&format!(
            "Message '{id}' is not valid Base64, so 'Functions.{name}' is not run for it; {advice}. {then}"
        ));
        if let Some(poison) = poison {
            self.complete(&End::Poison(poison), self.shared.clock.busy()).await;
        }
    }

    /// Does it, again and again while the server cannot and the message is still held. It never leads to another run
    /// by this host. Time on a clock that is moved by hand waits for the first try alone: `doing` ends with it.
    async fn complete(&self, end: &End<'_>, doing: Due) {
        let mut doing = Some(doing);
        let mut put = false;
        let mut pause = AGAIN_MIN;
        let mut is_told = false;
        loop {
            let Err(error) = self.try_to(end, &mut put).await else { return self.tell_complete(end) };
            drop(doing.take());
            if error.fault.is_passing() && self.shared.clock.now() < self.lease.until() {
                if !is_told {
                    is_told = true;
                    self.shared.log.warn(&format!("{} is tried again: {error}", end.what()));
                }
                // Real time: no server answers, or the server asks for patience.
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(AGAIN_MAX);
                continue;
            }
            return self.tell_incomplete(end, &error);
        }
    }

    fn tell_complete(&self, end: &End<'_>) {
        let (id, queue) = (self.lease.message.id.as_str(), self.function.trigger.queue.as_str());
        self.shared
            .log
            .debug("what follows a run was done", &[("what", end.what()), ("id", id), ("queue", queue)]);
    }

    fn tell_incomplete(&self, end: &End<'_>, error: &QueueError) {
        let id = &self.lease.message.id;
        if error.fault.is_lost() && self.lease.is_in_doubt() {
            self.shared.log.warn(&format!(
                "Message '{id}' is no longer this host's, perhaps by a renewal that was not answered; then it is received again when its invisible time is over: {error}"
            ));
        } else if error.fault.is_lost() {
            // Another receiver has it, or it was deleted.
            self.shared.log.info(&format!("Message '{id}' is no longer this host's: {error}"));
        } else {
            let advice = match end {
                End::Poison(_) if error.fault.is_too_long() => {
                    "; its text is longer than the poison queue takes, so it stays where it is until it expires or somebody deletes it"
                }
                End::Poison(_) | End::Delete | End::Release => "",
            };
            self.shared.log.error(&format!(
                "{} failed for message '{id}', which is received again when its invisible time is over{advice}: {error}",
                end.what()
            ));
        }
    }

    async fn try_to(&self, end: &End<'_>, put: &mut bool) -> Result<(), QueueError> {
        let Shared { queues, wakes, .. } = self.shared;
        let (trigger, message, receipt) = (&self.function.trigger, self.lease.message, self.lease.receipt());
        let held = Held { message: &message.id, receipt: &receipt };
        match end {
            End::Delete => queues.delete(&trigger.account, &trigger.queue, held).await,
            End::Release => {
                let hidden = self.shared.settings.visibility_timeout;
                queues.give_back(&trigger.account, &trigger.queue, held, hidden, &self.function.name).await
            }
            End::Poison(poison) => {
                // First there, then gone here: whatever happens between leaves it in both, never in none.
                if !*put {
                    queues.put(&trigger.account, poison, &message.text).await?;
                    *put = true;
                    wakes.tell(&trigger.account, poison);
                }
                queues.delete_poison(&trigger.account, &trigger.queue, held, poison).await
            }
        }
    }
}

/// What becomes of a message.
enum End<'a> {
    Delete,
    Release,
    Poison(&'a str),
}

impl End<'_> {
    fn what(&self) -> &'static str {
        match self {
            Self::Delete => "Deleting the message",
            Self::Release => "Releasing the message",
            Self::Poison(_) => "Moving the message to its poison queue",
        }
    }
}
/// Tools wrap long Base64 into lines, and readers of it do not mind.
fn without_blanks(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_ascii_whitespace()).collect()
}
