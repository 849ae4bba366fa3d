//! What may not be done again for a while, as front-ends ask for it. What is remembered of it is in `pauses.rs`, which
//! the engine is built on.

use kew_core::{Pause, Timestamp};

use crate::Engine;

impl Engine {
    /// Whether this is paused.
    pub fn is_paused(&self, pause: &Pause) -> bool {
        self.pauses.runs(pause, self.now())
    }

    /// Begins a pause up to `until` on this node; false, and nothing changed, while it runs.
    pub fn begin_pause(&self, pause: &Pause, until: Timestamp) -> bool {
        self.pauses.begin(pause, (self.now(), until))
    }

    /// The same, whether or not it runs. The settings that other nodes send come here too.
    pub fn note_pause(&self, pause: &Pause, until: Timestamp) {
        self.pauses.note(pause.clone(), (self.now(), until));
    }

    /// Ends a pause on this node: what began it was not done after all.
    pub fn end_pause(&self, pause: &Pause) {
        self.pauses.forget(pause);
    }

    /// Tells the other nodes of a pause. Returns when each knows of it, or cannot be reached.
    pub async fn share_pause(&self, pause: &Pause, until: Timestamp) {
        if until > self.now()
            && let Some(told) = self.store.share(pause, until)
        {
            // One that does not hear of it allows something too early, no more.
            let _told = told.await;
        }
    }
}
