//! The hold on one message: renewed at half time for as long as its run lasts.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kew_azure::client::QueueMessage;
use kew_core::Timestamp;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::poll::LEASE;
use crate::clock::{HostClock, Sleep};
use crate::project::Trigger;
use crate::queue::{Fault, Held};
use crate::shared::Shared;

/// Half of the lease.
const RENEW_EVERY: Duration = Duration::from_secs(300);
/// However often a renewal fails, the next is no sooner.
const RENEW_AGAIN_MIN: Duration = Duration::from_secs(60);

/// An update without an answer is given up after this: there is time for another before the lease ends, so that one
/// stuck connection does not cost it.
const RENEWED_WITHIN: Duration = Duration::from_secs(30);

/// The first renewal of a message, on its way from the moment of its receipt.
pub(super) struct Renewal(Sleep);

impl Renewal {
    pub(super) fn begin(clock: &HostClock) -> Self {
        Self(clock.sleep(RENEW_EVERY))
    }
}

/// A message that this host holds.
pub(super) struct Lease<'a> {
    shared: &'a Shared,
    trigger: &'a Trigger,
    pub(super) message: &'a QueueMessage,
    /// Guards the newest receipt, and until when the message is hidden at least.
    held: Mutex<(String, Timestamp)>,
    /// Whether a renewal was not answered: it may have been done, and its receipt is not known then.
    in_doubt: AtomicBool,
}

impl<'a> Lease<'a> {
    pub(super) fn new(shared: &'a Shared, trigger: &'a Trigger, message: &'a QueueMessage) -> Self {
        let held = (message.pop_receipt.clone(), shared.clock.now().plus(LEASE));
        Self { shared, trigger, message, held: Mutex::new(held), in_doubt: AtomicBool::new(false) }
    }

    /// The newest receipt: what the message is changed with from now on.
    pub(super) fn receipt(&self) -> String {
        self.held.lock().0.clone()
    }

    /// Whether a renewal was not answered, so that the newest receipt may not be known.
    pub(super) fn is_in_doubt(&self) -> bool {
        self.in_doubt.load(Ordering::Relaxed)
    }

    /// Until when the message is hidden from other receivers.
    pub(super) fn until(&self) -> Timestamp {
        self.held.lock().1
    }

    /// Renews until `ended`; an update that is under way then is waited for. [seed] So one message is worked on by one
    /// instance only, however long that takes.
    pub(super) async fn renew(&self, first: Renewal, mut ended: oneshot::Receiver<()>) {
        let mut pace = RENEW_EVERY;
        let mut sleep = first.0;
        loop {
            let due = tokio::select! {
                biased;
                _ = &mut ended => return,
                due = sleep => due,
            };
            match self.update().await {
                Ok(()) => pace = RENEW_EVERY,
                Err(again) if again => pace = (pace / 2).max(RENEW_AGAIN_MIN),
                // The run goes on; what it does with the message afterwards is met there.
                Err(_) => return,
            }
            sleep = self.shared.clock.sleep(pace);
            drop(due);
        }
    }

    /// One renewal; an error says whether to try again.
    async fn update(&self) -> Result<(), bool> {
        let Trigger { account, queue, .. } = self.trigger;
        let asked = self.shared.clock.now();
        let receipt = self.receipt();
        let held = Held { message: &self.message.id, receipt: &receipt };
        match self.shared.queues.hide(account, queue, held, LEASE, RENEWED_WITHIN).await {
            Ok(receipt) => {
                *self.held.lock() = (receipt, asked.plus(LEASE));
                self.in_doubt.store(false, Ordering::Relaxed);
                Ok(())
            }
            Err(error) => {
                if let Fault::NoAnswer(_) = error.fault {
                    self.in_doubt.store(true, Ordering::Relaxed);
                }
                let (id, is_passing) = (&self.message.id, error.fault.is_passing());
                let then = if is_passing { "it is tried again" } else { "another instance may run it too" };
                self.shared.log.warn(&format!("Message '{id}' could not be kept hidden; {then}: {error}"));
                Err(is_passing)
            }
        }
    }
}
