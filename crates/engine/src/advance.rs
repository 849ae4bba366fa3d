//! Moving the virtual clock: through every instant at which something happens, in order.
//!
//! At each instant the due work is done, lines are served, waits end and sleepers wake; then everyone who was woken
//! gets to do its own work before time goes on. So a wait that ends at 20 s is answered before a delay that ends at
//! 30 s, however far the jump.

use std::sync::Arc;
use std::time::Duration;

use kew_core::Timestamp;

use crate::time::{BeforeJumps, ClockState, Stepping};
use crate::timers::Turn;
use crate::{Engine, EngineError};

/// Rounds without any work before everyone counts as settled.
const QUIET_ROUNDS: u32 = 4;
/// Rounds after which settling waits in real time: work hangs on a disk, or others keep the engine busy.
const ROUNDS_IN_PLACE: u32 = 256;
/// Rounds after which time goes on regardless: about a tenth of a second, so that a jump ends under any load.
const ROUNDS_MAX: u32 = ROUNDS_IN_PLACE + 100;
/// The real wait of a late round.
const LATE_ROUND: Duration = Duration::from_millis(1);

/// Time that stands still unless it is moved. Dropped, it goes on from where it was moved to.
pub struct HeldTime {
    engine: Arc<Engine>,
}

impl Drop for HeldTime {
    fn drop(&mut self) {
        self.engine.clock.release();
        // The timers look again: time runs.
        self.engine.alarm.notify_one();
    }
}

impl Engine {
    /// What the clock shows.
    pub fn clock_state(&self) -> ClockState {
        self.clock.state()
    }

    /// Has every jump of the virtual clock wait for this first. Only the first call counts.
    pub fn wait_before_jumps(&self, news: BeforeJumps) {
        let _first = self.before_jumps.set(news);
    }

    /// Moves the virtual clock ahead, through everything that happens on the way.
    ///
    /// When it returns, the next command sees all effects. Dropped early, time goes on from where it got to.
    pub async fn advance(&self, by: Duration) -> Result<ClockState, EngineError> {
        self.advance_if(by, || true).await?;
        Ok(self.clock.state())
    }

    /// The same, if `still` says so when everybody has finished at the present instant. No request is answered between
    /// that and the first step of time. Returns whether time went on.
    pub async fn advance_if(&self, by: Duration, still: impl Fn() -> bool) -> Result<bool, EngineError> {
        let _alone = self.time_mover().await?;
        if let Some(news) = self.before_jumps.get() {
            news().await;
        }
        let steps = self.clock.step();
        self.settle().await;
        if !still() {
            let from = steps.from;
            self.end_steps(steps, from);
            return Ok(false);
        }
        let target = steps.from.plus(by);
        loop {
            let next = self.next_turn();
            if next > target || next == Timestamp::NEVER {
                break;
            }
            steps.move_to(next);
            self.live_through_instant().await?;
        }
        self.end_steps(steps, target);
        Ok(true)
    }

    /// Stops the virtual clock, or lets it run again.
    pub async fn freeze(&self, frozen: bool) -> Result<ClockState, EngineError> {
        let _alone = self.time_mover().await?;
        self.clock.freeze(frozen);
        self.alarm.notify_one();
        Ok(self.clock.state())
    }

    /// Has the virtual clock stand still between jumps until what is returned is dropped: time that they take in
    /// reality does not count.
    pub fn hold_time(self: &Arc<Self>) -> HeldTime {
        self.clock.hold();
        HeldTime { engine: Arc::clone(self) }
    }

    async fn time_mover(&self) -> Result<tokio::sync::SemaphorePermit<'_>, EngineError> {
        if !self.clock.is_virtual() {
            return Err(EngineError::ClockNotVirtual);
        }
        // A permit and not a lock: it is held while others work, and nothing waits for it but other movers of time.
        self.moving_time.acquire().await.map_err(|_| EngineError::ClockNotVirtual)
    }

    /// Does all that happens at the present instant, also what comes of it at the same instant.
    async fn live_through_instant(&self) -> Result<(), EngineError> {
        loop {
            match self.turn() {
                Turn::Idle if self.work.is_idle() => return Ok(()),
                // Woken tasks run now, and may make more due at this very instant.
                Turn::Idle => self.settle().await,
                // Due work comes in slices: requests of others have their turn between them.
                Turn::Rang | Turn::Did(None) => tokio::task::yield_now().await,
                Turn::Did(Some(answer)) => drop(answer.await?),
                Turn::Failed(error) => return Err(error.into()),
            }
        }
    }

    /// Waits until no work is left at this instant, for a bounded number of rounds.
    async fn settle(&self) {
        let mut quiet = 0;
        for round in 0..ROUNDS_MAX {
            let before = self.stats.store_steps.value();
            let committed = self.commit();
            if round < ROUNDS_IN_PLACE {
                tokio::task::yield_now().await;
            } else {
                tokio::time::sleep(LATE_ROUND).await;
            }
            let at_rest = !committed && self.work.is_idle() && self.stats.store_steps.value() == before;
            quiet = if at_rest { quiet + 1 } else { 0 };
            if quiet == QUIET_ROUNDS {
                return;
            }
        }
    }

    fn end_steps(&self, steps: Stepping<'_>, target: Timestamp) {
        steps.finish(target);
        // The timers look again: what they waited for in real time is nearer now.
        self.alarm.notify_one();
    }
}
