//! Cron triggers: the `scheduled` handlers of Workers, called at their minutes of engine time.
//!
//! One task looks at all Workers' expressions and sleeps until the next minute that any of them names. A jump of the
//! virtual clock stops at each such minute until the handlers are done. Minutes that a leap of the clock, or a time
//! without a server, went over are not made up for, but the one that was being waited for.

use std::sync::Arc;

use kew_core::{AccountId, Timestamp};
use kew_engine::Busy;
use serde::{Deserialize, Serialize};
use tokio::task::{JoinHandle, JoinSet};

use super::cron::Cron;
use super::error::WorkerError;
use super::follow::crossing;
use super::live::Live;
use super::script::ScriptError;
use super::shared::Shared;
use super::stored::Changes;
use super::worker::Worker;
use super::{WAITS_FOR, Workers};

/// Expressions of one Worker.
const SCHEDULES_MAX: usize = 100;

/// A cron trigger.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Schedule {
    /// Its expression, as it was given.
    pub cron: String,
    /// When it was first given, in milliseconds.
    pub created_at: u64,
}

impl Workers {
    /// The cron triggers of a Worker take the place of those it had. They come back.
    pub async fn put_schedules(
        &self,
        account: AccountId,
        name: &str,
        crons: Vec<String>,
    ) -> Result<Vec<Schedule>, WorkerError> {
        if crons.len() > SCHEDULES_MAX {
            return Err(
                ScriptError::TooMuch { what: "the number of cron triggers", max: SCHEDULES_MAX }.into()
            );
        }
        if let Some(bad) = crons.iter().find(|cron| Cron::parse(cron).is_none()) {
            return Err(WorkerError::Cron(bad.chars().take(100).collect()));
        }
        let (shared, name) = (Arc::clone(&self.shared), name.to_owned());
        let put = move || {
            let (shared, name, crons) = (Arc::clone(&shared), name.clone(), crons.clone());
            async move { shared.put_schedules(account, &name, crons).await }
        };
        self.apart(crossing(put)).await
    }
}

impl Shared {
    async fn put_schedules(
        self: &Arc<Self>,
        account: AccountId,
        name: &str,
        crons: Vec<String>,
    ) -> Result<Vec<Schedule>, WorkerError> {
        let _alone = self.alone(account).await?;
        let worker = self.found(account, name)?;
        let mut record = worker.known.lock().record.clone();
        let now = self.engine.now().0;
        let mut schedules: Vec<Schedule> = Vec::with_capacity(crons.len());
        for cron in crons {
            if !schedules.iter().any(|known| known.cron == cron) {
                let known = record.schedules.iter().find(|known| known.cron == cron);
                let created_at = known.map_or(now, |known| known.created_at);
                schedules.push(Schedule { cron, created_at });
            }
        }
        record.schedules.clone_from(&schedules);
        let mut changes = Changes::of(name);
        changes.put_record(&record);
        self.write_changes(changes, (account, name)).await?;
        worker.known.lock().record.schedules.clone_from(&schedules);
        self.rescheduled.send_modify(|changes| *changes += 1);
        let change = *self.rescheduled.borrow();
        self.until_clock_knows(change).await;
        Ok(schedules)
    }

    /// Returns when the clock stops at the minutes of this change: a jump of the clock finds them from then on.
    pub(super) async fn until_clock_knows(&self, change: u64) {
        let mut known = self.clock_knows.subscribe();
        let knows = known.wait_for(|known| known.is_some_and(|known| known >= change));
        // The task that tells the clock may have ended with the server.
        let _in_time = tokio::time::timeout(WAITS_FOR, knows).await;
    }

    /// Calls what is due, for as long as there are Workers.
    pub(super) async fn keep_schedules(self: Arc<Self>) {
        let mut changes = self.rescheduled.subscribe();
        let mut last_minute = None;
        loop {
            let change = *changes.borrow_and_update();
            let next = self.next_schedule(self.engine.now());
            let minute = async {
                match next {
                    Some(at) => (at, self.engine.wake_at(at).await),
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                // In this order: when the second is polled, the clock knows the minute of the first.
                biased;
                (at, busy) = minute => {
                    let (calls, busy) = (self.due(at), Arc::new(busy));
                    last_minute = Some(Arc::clone(&busy));
                    // While it lives, a jump of the clock waits here.
                    tokio::spawn(async move {
                        // An error is a call that panicked.
                        let _ended = calls.await;
                        drop(busy);
                    });
                }
                () = self.tell_clock_knows(change, &mut last_minute) => {}
                // Its sender lives as long as this.
                _changed = changes.changed() => {}
            }
        }
    }

    /// Tells that the clock knows the next minute. A jump that stopped at the last one may go on to it.
    async fn tell_clock_knows(&self, change: u64, last_minute: &mut Option<Arc<Busy>>) {
        *last_minute = None;
        self.clock_knows.send_replace(Some(change));
        std::future::pending::<()>().await;
    }

    fn next_schedule(&self, now: Timestamp) -> Option<Timestamp> {
        let workers = self.workers.lock();
        let next = |worker: &Arc<Worker>| {
            let schedules = worker.schedules();
            schedules.iter().filter_map(|schedule| Cron::parse(&schedule.cron)?.next_after(now)).min()
        };
        workers.values().filter_map(next).min()
    }

    /// The calls of a minute, begun.
    fn due(self: &Arc<Self>, at: Timestamp) -> JoinHandle<()> {
        let shared = Arc::clone(self);
        tokio::spawn(async move { shared.call_all(at).await })
    }

    async fn call_all(self: &Arc<Self>, at: Timestamp) {
        // Every node of a fleet has all Workers: one of them calls.
        if !self.engine.keeps_accounts() {
            return;
        }
        self.follow_all_in_time().await;
        let mut calls = JoinSet::new();
        let just_before = Timestamp(at.0.saturating_sub(1));
        let workers: Vec<Arc<Worker>> = self.workers.lock().values().map(Arc::clone).collect();
        for worker in workers {
            for schedule in worker.schedules() {
                let next = Cron::parse(&schedule.cron).and_then(|cron| cron.next_after(just_before));
                if next == Some(at) {
                    let (shared, worker) = (Arc::clone(self), Arc::clone(&worker));
                    calls.spawn(async move { shared.call(&worker, &schedule.cron, at).await });
                }
            }
        }
        calls.join_all().await;
    }

    /// What runs of a Worker; one that is just being started is waited for.
    async fn live_soon(&self, worker: &Worker) -> Option<Arc<Live>> {
        let mut changed = self.changed.subscribe();
        let up = async {
            loop {
                if let Some(live) = worker.live() {
                    return live;
                }
                // Its sender lives as long as this.
                let _changed = changed.changed().await;
            }
        };
        tokio::time::timeout(WAITS_FOR, up).await.ok()
    }

    async fn call(self: &Arc<Self>, worker: &Worker, cron: &str, at: Timestamp) {
        let called = match self.live_soon(worker).await {
            // Another node may call it by now.
            Some(_) if !self.engine.keeps_accounts() => {
                Err("this node may not answer for its store".to_owned())
            }
            Some(live) => live.schedule(cron, at).await,
            None => Err("the Worker was not running".to_owned()),
        };
        if let Err(why) = called {
            self.say_of(worker, &format!("the cron trigger {cron:?} failed: {why}"));
        }
    }
}
