//! The stop of the host: begun once, seen by all its tasks.

use tokio::sync::watch;

/// Tells the end.
#[derive(Debug)]
pub(crate) struct Stop(watch::Sender<bool>);

/// Hears of it.
#[derive(Clone, Debug)]
pub(crate) struct Stopped(watch::Receiver<bool>);

impl Stop {
    pub(crate) fn new() -> (Self, Stopped) {
        let (sender, receiver) = watch::channel(false);
        (Self(sender), Stopped(receiver))
    }

    pub(crate) fn tell(&self) {
        self.0.send_replace(true);
    }
}

impl Stopped {
    pub(crate) fn is_told(&self) -> bool {
        *self.0.borrow()
    }

    /// Returns when the stop has begun, or when nothing can begin it any more.
    pub(crate) async fn wait(&self) {
        let mut receiver = self.0.clone();
        let _gone = receiver.wait_for(|told| *told).await;
    }
}
