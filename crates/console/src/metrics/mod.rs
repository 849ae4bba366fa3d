//! `/metrics`: figures in Prometheus' text format, under the names the design promises.
//!
//! They are of this node: of the shards that it keeps and their queues, and of the requests that it took.
//!
//! Counters and gauges are read from where they are kept anyway; only queues are asked one by one, on a thread that may
//! wait: neither health checks nor the event loop wait for a scrape.

mod queues;
mod shards;
mod text;

use std::sync::Arc;

use kew_engine::{Counter, Stats};
use kew_http::{Droppable, HeaderValue, ListenerCount, Reply, StatusCode};
use tokio::runtime::Handle;

use crate::Console;
use crate::board::{Phase, Running};
use crate::peers::own_shards;
use crate::sources::DiskSpace;
use text::Text;

pub(crate) use queues::Census;

const CONTENT_TYPE: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

/// How many messages may be in flight before some dialect's receives find none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InFlightLimits {
    /// Of a standard queue.
    pub standard: u32,
    /// Of a FIFO queue.
    pub fifo: u32,
}

/// A figure of a listener.
type Connected = fn(&ListenerCount) -> u64;

/// One scrape at a time: more would only do the same work side by side.
#[derive(Default)]
pub(crate) struct Scrapes {
    running: tokio::sync::Mutex<()>,
}

impl Console {
    pub(crate) async fn metrics(&self) -> Reply {
        match self.board.phase() {
            Phase::Serving(running) => self.metrics_of(Some(running)).await,
            Phase::Starting | Phase::Waiting(_) | Phase::Stopping => self.metrics_of(None).await,
        }
    }

    /// The figures, with those of a store where there is one.
    pub(crate) async fn metrics_of(&self, running: Option<Arc<Running>>) -> Reply {
        let _alone = self.scrapes.running.lock().await;
        let mut text = Text::default();
        text.family("kew_build_info", "gauge", "The program that runs.");
        text.sample("kew_build_info", &[("version", self.settings.version)], 1);
        self.write_requests(&mut text);
        self.write_connections(&mut text);
        self.write_upkeep(&mut text);
        if let Some(running) = running {
            match self.ask(&running).await {
                Some((census, bytes, disk)) => {
                    census.write_counters(&mut text);
                    write_receives(&mut text, &running);
                    write_clock(&mut text, &running);
                    write_pushes(&mut text, &running);
                    write_backups(&mut text, &running);
                    let own = own_shards(&running, &self.settings.store_syncs);
                    shards::write(&mut text, &running, &own);
                    census.write(&mut text);
                    write_store_bytes(&mut text, bytes);
                    write_disk(&mut text, disk);
                    self.write_alarms(&mut text);
                }
                None => {
                    return Reply::text(StatusCode::SERVICE_UNAVAILABLE, "the figures cannot be read now");
                }
            }
        }
        Reply::new(StatusCode::OK, CONTENT_TYPE, text.finish())
    }

    /// Everything that may have to wait for a lock.
    async fn ask(&self, running: &Arc<Running>) -> Option<(Census, (u64, u64), Option<DiskSpace>)> {
        let (running, looks) = (Arc::clone(running), Arc::clone(&self.looks));
        let limits = self.settings.in_flight_limits;
        let asked = tokio::task::spawn_blocking(move || {
            let look = looks.totals.look(&running.engine);
            let census = Handle::current().block_on(Census::take(&running.engine, look, limits));
            let bytes = running.store_bytes.as_ref().map_or((census.body_bytes(), 0), |bytes| bytes());
            (census, bytes, running.disk.as_ref().and_then(|disk| disk()))
        });
        asked.await.ok()
    }

    /// Alarms up to the bound of series, those that fire first; how many others fire is one series.
    fn write_alarms(&self, text: &mut Text) {
        let alarms = self.looks.alarms.all();
        if self.looks.alarms.rules().is_empty() {
            return;
        }
        let name = "kew_alarm_firing";
        text.family(name, "gauge", "1 while an alarm fires, else 0.");
        let max = self.settings.metrics_queues;
        for alarm in alarms.iter().take(max) {
            let labels = [("name", &*alarm.rule.name), ("queue", alarm.queue.as_deref().unwrap_or_default())];
            text.sample(name, &labels, u64::from(alarm.is_firing));
        }
        if alarms.len() > max {
            let firing = alarms.iter().skip(max).filter(|alarm| alarm.is_firing).count();
            text.sample(name, &[("name", queues::OTHERS), ("queue", queues::OTHERS)], firing as u64);
        }
    }

    fn write_requests(&self, text: &mut Text) {
        let name = "kew_request_duration_seconds";
        text.family(name, "histogram", "How long requests took, long polls with their waiting.");
        for (key, distribution) in self.settings.durations.all() {
            let code = key.code.to_string();
            let labels = [("dialect", key.dialect), ("operation", key.operation), ("code", code.as_str())];
            text.histogram(name, &labels, &distribution);
        }
        let name = "kew_reply_bytes";
        text.family(name, "gauge", "Bytes of replies that clients have not taken yet.");
        text.sample(name, &[], self.settings.replies.held() as u64);
        let name = "kew_replies_refused_total";
        text.family(name, "counter", "Requests that waited in vain for room for their reply.");
        text.sample(name, &[], self.settings.replies.refused());
        let name = "kew_dropped_total";
        text.family(
            name,
            "counter",
            "What was given up because its bounded queue was full or its reader failed.",
        );
        for what in Droppable::ALL {
            text.sample(name, &[("what", what.name())], self.settings.dropped.count(what));
        }
        let name = "kew_store_sync_seconds";
        text.family(name, "histogram", "How long the store took to write and sync a batch.");
        text.histogram(name, &[], &self.settings.store_syncs.distribution());
    }

    fn write_connections(&self, text: &mut Text) {
        let all = self.settings.connections.all();
        let figures: [(&str, &str, &str, Connected); 3] = [
            ("kew_connections", "gauge", "Connections that are open.", ListenerCount::open),
            ("kew_connections_max", "gauge", "Connections that may be open.", ListenerCount::max),
            (
                "kew_connections_refused_total",
                "counter",
                "Connections that were turned away because as many were open as may be.",
                ListenerCount::refused,
            ),
        ];
        for (name, kind, help, figure) in figures {
            text.family(name, kind, help);
            for count in &all {
                text.sample(name, &[("listener", count.name())], figure(count));
            }
        }
    }

    fn write_upkeep(&self, text: &mut Text) {
        let all = self.settings.upkeep.figures();
        let name = "kew_upkeep_failures_total";
        text.family(name, "counter", "Failures of work that is done beside requests.");
        for figures in &all {
            text.sample(name, &[("work", figures.work.name())], figures.failures);
        }
        let name = "kew_store_damaged_records";
        text.family(name, "gauge", "Stored records found damaged since the start.");
        text.sample(name, &[], self.settings.upkeep.damaged_records());
        let (bytes, ended) = self.settings.upkeep.scrubbed();
        let name = "kew_scrub_bytes_total";
        text.family(name, "counter", "Stored bytes read by the scrub to find damage.");
        text.sample(name, &[], bytes);
        let name = "kew_scrub_last_pass_timestamp_seconds";
        text.family(name, "gauge", "When the last whole pass of the scrub ended; 0 when none has.");
        text.sample(name, &[], ended);
        let name = "kew_upkeep_failing";
        text.family(name, "gauge", "1 while such work fails, else 0.");
        for figures in &all {
            text.sample(name, &[("work", figures.work.name())], u64::from(figures.is_failing));
        }
    }
}

fn write_receives(text: &mut Text, running: &Running) {
    let sum = |figure: fn(&Stats) -> &Counter| {
        running.engines().map(|engine| figure(engine.stats()).value()).sum::<u64>()
    };
    text.family("kew_empty_receives_total", "counter", "Receives that were answered without a message.");
    text.sample("kew_empty_receives_total", &[], sum(|stats| &stats.empty_receives));
    let limited = "Receives that found as many messages in flight as there may be.";
    text.family("kew_limited_receives_total", "counter", limited);
    text.sample("kew_limited_receives_total", &[], sum(|stats| &stats.limited_receives));
    text.family("kew_waiting_receives", "gauge", "Receives that wait for a message now.");
    text.sample("kew_waiting_receives", &[], sum(|stats| &stats.waiting_receives));
    let owed = "Messages that left queues of this node for queues of another shard, and have not arrived.";
    text.family("kew_owed_messages", "gauge", owed);
    text.sample("kew_owed_messages", &[], sum(|stats| &stats.owed_messages));
    let carried = "Messages that were carried from queues of this node to queues of another shard.";
    text.family("kew_carried_messages_total", "counter", carried);
    text.sample("kew_carried_messages_total", &[], sum(|stats| &stats.carried_messages));
}

fn write_clock(text: &mut Text, running: &Running) {
    let name = "kew_clock_leap_held";
    text.family(name, "gauge", "1 while no message expires because the clock leapt.");
    text.sample(name, &[], u64::from(running.held_expiry().is_some()));
}

fn write_pushes(text: &mut Text, running: &Running) {
    let name = "kew_push_attempts_total";
    text.family(name, "counter", "Batches brought to push consumers.");
    for (outcome, count) in (running.push_attempts)() {
        text.sample(name, &[("outcome", outcome)], count);
    }
    let name = "kew_push_circuits_open";
    text.family(name, "gauge", "Push consumers whose targets cannot be reached.");
    text.sample(name, &[], (running.open_circuits)().len() as u64);
}

fn write_disk(text: &mut Text, disk: Option<DiskSpace>) {
    let Some(disk) = disk else { return };
    let name = "kew_store_disk_free_bytes";
    text.family(name, "gauge", "Bytes that may still be written to the disk of the store.");
    text.sample(name, &[], disk.free);
    let name = "kew_store_disk_bytes";
    text.family(name, "gauge", "Bytes of the disk of the store.");
    text.sample(name, &[], disk.all);
}

fn write_backups(text: &mut Text, running: &Running) {
    let Some(backups) = &running.backups else { return };
    let name = "kew_backups_total";
    text.family(name, "counter", "Backups of the running store that have ended.");
    let (done, failed) = backups.ended();
    text.sample(name, &[("outcome", "done")], done);
    text.sample(name, &[("outcome", "failed")], failed);
}

fn write_store_bytes(text: &mut Text, (live, dead): (u64, u64)) {
    let name = "kew_store_bytes";
    text.family(name, "gauge", "Bytes stored: needed by messages, or waiting to be reclaimed.");
    text.sample(name, &[("kind", "live")], live);
    text.sample(name, &[("kind", "dead")], dead);
}
