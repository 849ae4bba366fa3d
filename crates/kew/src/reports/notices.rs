//! What the engine and the work beside requests have to tell an operator, in words.

use std::time::Duration;

use kew_console::{AlarmChange, AuditEntry, News, UpkeepNews};
use kew_core::{MessageId, Reports, Work};
use kew_engine::Notice;
use kew_http::Crowding;

use crate::log::{Area, Level, Log};

/// Logs that a listener begins to turn connections away, or has ceased to.
pub fn tell_crowding(log: Log, listener: &str, crowding: Crowding) {
    match crowding {
        Crowding::Begun { max } => {
            let line = "connections are turned away: as many are open as may be";
            log.tell(Level::Warn, line, &[("listener", listener), ("connections_max", &max.to_string())]);
        }
        Crowding::Ended { refused } => {
            let line = "no connection was turned away for 10 s";
            log.tell(Level::Info, line, &[("listener", listener), ("turned_away", &refused.to_string())]);
        }
    }
}

/// Logs a notice. Repeated refusals of the store are logged at the rate of the upkeep report.
pub fn tell(log: Log, upkeep: &dyn Reports, notice: Notice) {
    let clock = |level, line, by: Duration| log.tell(level, line, &[("by", &format!("{by:?}"))]);
    match notice {
        Notice::ClockBehind { by } => {
            clock(Level::Warn, "the system clock is behind; engine time runs slower until they meet", by);
        }
        Notice::ClockMet => log.tell(Level::Info, "the system clock has caught up with engine time", &[]),
        Notice::ClockJumped { by } => {
            clock(Level::Warn, "the system clock leapt ahead, which counts as time that passed", by);
        }
        Notice::ExpiryHeld { by } => {
            let line = "the clock leapt further than is believed: no message expires until it comes back or somebody \
                        confirms it by POST /api/v1/clock/confirm";
            clock(Level::Error, line, by);
        }
        Notice::ExpiryWaits { by } => {
            let line = "the store was closed for long, or the clock is wrong: no message expires until the clock has run \
                        evenly for a while, or somebody confirms it by POST /api/v1/clock/confirm";
            clock(Level::Warn, line, by);
        }
        Notice::ExpiryFollows { by } => {
            let line = "the clock came back: messages expire by it, and no longer by engine time, until the two meet";
            log.tell(Level::Warn, line, &[("engine_time_is_ahead_by", &format!("{by:?}"))]);
        }
        Notice::ExpiryGoesOn => log.tell(Level::Info, "messages expire again by engine time", &[]),
        Notice::DueFailed(error) => {
            upkeep.failed(Work::Due, &error.to_string());
        }
        Notice::MovesUnknown(error) => {
            upkeep.failed(Work::Moves, &format!("finding the tasks that ran before the start: {error}"));
        }
        Notice::MoveFailed(task, error) => {
            upkeep.failed(Work::Moves, &format!("task {}: {error}", task.0));
        }
        Notice::NotCarried(target, error) => {
            let line = "messages for a queue of another shard cannot be carried there: they stay owed until they can";
            log.tell(Level::Warn, line, &[("queue", &target.0.to_string()), ("error", &error.to_string())]);
        }
        Notice::CarriedAgain(target) => {
            let line = "messages for a queue of another shard are carried again";
            log.tell(Level::Info, line, &[("queue", &target.0.to_string())]);
        }
    }
}

/// Logs how work beside requests goes: a failure when it begins, at a bounded rate while it lasts, and its end; work
/// that is done as a debug line.
pub fn tell_upkeep(log: Log, news: &UpkeepNews) {
    match news {
        UpkeepNews::Fails { work, cause, since, times } => {
            let (since, times) = (since.as_secs().to_string(), times.to_string());
            let fields =
                [("work", work.name()), ("cause", cause), ("since_seconds", &since), ("times", &times)];
            log.tell(Level::Error, "work beside requests fails; it is tried again", &fields);
        }
        UpkeepNews::Damaged { file, offset, what } => {
            let fields = [("file", file.as_str()), ("offset", &offset.to_string()), ("cause", what)];
            log.tell(Level::Error, "a stored record is damaged: its message cannot be read", &fields);
        }
        // A checkpoint, a file made ahead: not often, and of use to who asks what the disk is busy with.
        UpkeepNews::Done { work } => {
            log.tell(Level::Debug, "work beside requests was done", &[("work", work.name())]);
        }
        UpkeepNews::Recovered { work, after } => {
            let fields = [("work", work.name()), ("after_seconds", &after.as_secs().to_string())];
            log.tell(Level::Info, "work beside requests no longer fails", &fields);
        }
    }
}

/// Logs what the looks of the console have to tell.
pub fn tell_news(log: Log, news: &News) {
    let log = match news {
        News::Departed { .. } | News::MoreDeparted { .. } => log.of(Area::Queues),
        News::Alarm(_) | News::TooManyAlarms { .. } => log.of(Area::Alarms),
    };
    match news {
        News::Departed { queue, to, id } => tell_departed(log, queue, to.as_deref(), *id),
        News::MoreDeparted { queue, messages, ids } => {
            let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
            let fields = [
                ("queue", queue.as_deref().unwrap_or("(several)")),
                ("messages", &messages.to_string()),
                ("ids", &ids.join(",")),
                ("reason", "attempts_exhausted"),
            ];
            log.tell(Level::Warn, "more messages were leased too often and left their queue", &fields);
        }
        News::Alarm(change) => tell_alarm(log, change),
        News::TooManyAlarms { watched } => {
            let fields = [("watched", watched.to_string())];
            let fields = fields.each_ref().map(|(name, value)| (*name, value.as_str()));
            let line = "the rules of alarms are for more queues than are watched: the others have no alarms";
            log.tell(Level::Error, line, &fields);
        }
    }
}

fn tell_departed(log: Log, queue: &str, to: Option<&str>, id: Option<MessageId>) {
    let id = id.map(|id| id.to_string()).unwrap_or_default();
    let mut fields = vec![("queue", queue), ("id", &id)];
    let line = match to {
        Some(to) => {
            fields.push(("to", to));
            "a message was leased too often and was moved"
        }
        None => "a message was leased too often and was deleted",
    };
    fields.push(("reason", "attempts_exhausted"));
    log.tell(Level::Warn, line, &fields);
}

/// A change of an alarm reached no webhook, and is not tried again.
pub fn tell_alarm_lost(log: Log, change: &AlarmChange, host: &str, why: &str) {
    let fields = [
        ("name", &*change.name),
        ("queue", change.queue.as_deref().unwrap_or_default()),
        ("state", if change.is_firing { "firing" } else { "ok" }),
        ("host", host),
        ("cause", why),
    ];
    log.tell(Level::Error, "a change of an alarm was given up: its webhook did not take it", &fields);
}

fn tell_alarm(log: Log, change: &AlarmChange) {
    let fields = [
        ("name", &*change.name),
        ("queue", change.queue.as_deref().unwrap_or_default()),
        ("metric", change.metric),
        ("value", &change.value.to_string()),
        ("bound", &change.bound.to_string()),
    ];
    match change.is_firing {
        true => log.tell(Level::Warn, "an alarm fires", &fields),
        false => log.tell(Level::Info, "an alarm has ended", &fields),
    }
}

/// Logs an entry of the audit log.
pub fn tell_audit(log: Log, entry: &AuditEntry) {
    let fields = [
        ("who", &*entry.who),
        ("action", entry.action),
        ("target", &entry.target),
        ("outcome", entry.outcome),
    ];
    log.tell(Level::Info, "a change through the admin API", &fields);
}
