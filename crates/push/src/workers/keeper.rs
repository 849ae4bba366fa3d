//! Keeps one Worker running: starts it again when its process ends, and changes to the next version without a gap.
//!
//! A child that ran well is started again at once; one that keeps failing is given ever longer rests. While none is up
//! no batches are leased for it, so a broken deployment costs no message an attempt.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use super::WorkerNotice;
use super::history::Version;
use super::live::Live;
use super::script::Script;
use super::stored::Secrets;

/// The rest after a second failure in a row; it doubles.
const REST_MIN: Duration = Duration::from_millis(100);
const REST_MAX: Duration = Duration::from_secs(10);
/// A child that ran so long did start; its end is no failure of starting.
const STARTED_AFTER: Duration = Duration::from_secs(1);
/// A child that ran so long has shown that all is well.
const PROVEN_AFTER: Duration = Duration::from_secs(60);

/// A version with everything it needs to run.
pub(super) struct Deployed {
    pub(super) version: Version,
    pub(super) script: Arc<Script>,
    pub(super) secrets: Secrets,
}

/// An order to a keeper.
pub(super) enum Order {
    /// Run this from now on; it is up already.
    Run(Arc<Deployed>, Arc<Live>),
    /// Stop, and say when it has stopped.
    Stop(oneshot::Sender<()>),
}

/// Starts a version, and tells an operator what happens to it.
pub(super) trait Starts: Send + Sync + 'static {
    fn start(&self, deployed: &Deployed) -> impl Future<Output = Result<Live, super::StartError>> + Send;
    /// A child takes batches from now on.
    fn began(&self, live: &Arc<Live>);
    fn notice(&self, notice: WorkerNotice);
}

/// Rests between starts.
#[derive(Default)]
struct Rests {
    next: Duration,
}

impl Rests {
    /// A child ended that had run for so long.
    fn after(&mut self, ran: Duration) -> Duration {
        if ran >= PROVEN_AFTER {
            self.next = Duration::ZERO;
        }
        if ran >= STARTED_AFTER {
            return Duration::ZERO;
        }
        let rest = self.next;
        self.next = (rest * 2).clamp(REST_MIN, REST_MAX);
        rest
    }
}

/// Keeps a Worker running until an order to stop, or until all senders of orders are gone.
pub(super) async fn keep(
    starts: Arc<impl Starts>,
    mut deployed: Arc<Deployed>,
    mut live: Option<Arc<Live>>,
    up: watch::Sender<Option<Arc<Live>>>,
    mut orders: mpsc::Receiver<Order>,
) {
    let mut rests = Rests::default();
    let mut rest = Duration::ZERO;
    loop {
        let began = Instant::now();
        up.send_replace(live.clone());
        match next_event(&mut orders, live.as_deref(), start(&*starts, &deployed, rest)).await {
            Event::Ended => {
                live = None;
                rest = rests.after(began.elapsed());
                starts.notice(WorkerNotice::Ended);
            }
            Event::Started(Ok(started)) => {
                starts.began(&started);
                live = Some(started);
            }
            Event::Started(Err(error)) => {
                rest = rests.after(Duration::ZERO);
                starts.notice(WorkerNotice::NotStarted(error.to_string()));
            }
            Event::Order(Some(Order::Run(next, running))) => {
                let old = live.replace(running);
                deployed = next;
                rests = Rests::default();
                if let Some(old) = old {
                    tokio::spawn(async move { old.retire().await });
                }
            }
            Event::Order(Some(Order::Stop(stopped))) => {
                up.send_replace(None);
                if let Some(old) = live.take() {
                    old.retire().await;
                }
                // The receiver may have gone.
                let _sent = stopped.send(());
                return;
            }
            Event::Order(None) => return,
        }
    }
}

/// What happens to a Worker that is kept.
enum Event {
    /// An order, or that no more will come.
    Order(Option<Order>),
    /// Its process has ended.
    Ended,
    /// Its process was started, or could not be.
    Started(Result<Arc<Live>, super::StartError>),
}

/// What happens next to a Worker that runs, or to one that is started as this says.
async fn next_event(
    orders: &mut mpsc::Receiver<Order>,
    running: Option<&Live>,
    start: impl Future<Output = Result<Live, super::StartError>>,
) -> Event {
    match running {
        Some(running) => tokio::select! {
            order = orders.recv() => Event::Order(order),
            () = running.watch() => Event::Ended,
        },
        None => tokio::select! {
            order = orders.recv() => Event::Order(order),
            started = start => Event::Started(started.map(Arc::new)),
        },
    }
}

async fn start(starts: &impl Starts, deployed: &Deployed, rest: Duration) -> Result<Live, super::StartError> {
    tokio::time::sleep(rest).await;
    starts.start(deployed).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_restart_is_at_once_and_failures_are_given_longer_and_longer() {
        let mut rests = Rests::default();
        let found: Vec<u128> = (0..10).map(|_| rests.after(Duration::from_millis(900)).as_millis()).collect();
        assert_eq!(found, [0, 100, 200, 400, 800, 1_600, 3_200, 6_400, 10_000, 10_000]);
        assert_eq!(rests.after(STARTED_AFTER), Duration::ZERO, "it did start");
        assert_eq!(rests.after(Duration::ZERO), REST_MAX, "but it has not shown that all is well");
        assert_eq!(rests.after(PROVEN_AFTER), Duration::ZERO);
        assert_eq!(rests.after(Duration::ZERO), Duration::ZERO, "now it has");
    }
}
