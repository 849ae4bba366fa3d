//! What the killed process reported, and whether the store keeps to it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use kew_core::command::{FirstReceipts, Lease, Send};
use kew_core::{
    Command, DeduplicationId, GroupId, LeaseTerms, MessageId, NewMessage, Outcome, QueueId, Text, Timestamp,
};
use kew_store::Store;
use kew_store::contract::model::subject::block_on;
use kew_store_log::{LogStore, export};
use serde_json::Value;

use crate::child::ATTEMPTS_MAX;

/// Leases of one message that one round may have taken without a report.
const UNREPORTED_MAX: u64 = 2;

/// What became of one message, as far as it was reported.
#[derive(Clone, Copy, Default)]
struct Fate {
    acknowledged: bool,
    deleting: bool,
    deleted: bool,
    attempts: u32,
    /// The end of its newest lease; zero when it may have been given up.
    until: u64,
}

#[derive(Default)]
pub struct Reported {
    plain: BTreeMap<String, Fate>,
    /// Messages in rows: by sequence, with group and deduplication id.
    row: BTreeMap<u64, (Fate, String, String)>,
    /// The newest receive on the row, while nothing it took was touched.
    attempt: Option<(String, Vec<(u64, u64)>)>,
}

impl fmt::Display for Reported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sent = |fates: &mut dyn Iterator<Item = &Fate>| fates.filter(|fate| fate.acknowledged).count();
        let (plain, row) =
            (sent(&mut self.plain.values()), sent(&mut self.row.values().map(|(fate, ..)| fate)));
        let deleted = self.plain.values().filter(|fate| fate.deleted).count();
        write!(f, "{plain} sends, {row} in rows, {deleted} deletes acknowledged and held")
    }
}

impl Reported {
    pub fn add(&mut self, lines: &[String]) {
        for line in lines.iter().filter_map(|line| line.trim_end().strip_prefix('@')) {
            let mut words = line.split(' ');
            let mut word = || words.next().unwrap_or_default().to_owned();
            let (what, name) = (word(), word());
            match what.as_str() {
                "sent" => self.plain.entry(name).or_default().acknowledged = true,
                "leased" => {
                    let fate = self.plain.entry(name).or_default();
                    let (attempts, until) = (word().parse().unwrap(), word().parse().unwrap());
                    // Two threads may tell in another order than they leased.
                    if attempts > fate.attempts {
                        (fate.attempts, fate.until) = (attempts, until);
                    }
                }
                "releasing" => self.plain.entry(name).or_default().until = 0,
                "acking" => {
                    let fate = self.plain.entry(name).or_default();
                    (fate.deleting, fate.until) = (true, 0);
                }
                "acked" => self.plain.entry(name).or_default().deleted = true,
                "row" => {
                    let (sequence, group) = (word().parse().unwrap(), word());
                    let (fate, in_group, id) = self.row.entry(sequence).or_default();
                    fate.acknowledged = true;
                    (*in_group, *id) = (group, name);
                }
                "attempt" => {
                    let taken = line.split(' ').skip(2).filter_map(|pair| pair.split_once(':'));
                    let taken =
                        taken.map(|(one, two)| (one.parse().unwrap(), two.parse().unwrap())).collect();
                    self.attempt = Some((name, taken));
                }
                "row-acking" => {
                    self.attempt = None;
                    self.row.entry(name.parse().unwrap()).or_default().0.deleting = true;
                }
                "row-acked" => self.row.entry(name.parse().unwrap()).or_default().0.deleted = true,
                _ => {}
            }
        }
    }

    /// Compares the store with everything reported so far.
    pub fn check(&mut self, store: &LogStore, now: Timestamp) -> Result<(), String> {
        // What became due while no process ran comes first.
        ask(store, now, Command::Due)?;
        let mut text = Vec::new();
        export(store, &mut text).map_err(|error| error.to_string())?;
        let text = String::from_utf8(text).unwrap();
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let id_of = |name: &str| {
            let queues = lines.iter().map(|line| &line["queue"]);
            queues.filter(|queue| queue["name"] == name).find_map(|queue| queue["id"].as_u64())
        };
        let messages: Vec<&Value> =
            lines.iter().map(|line| &line["message"]).filter(|m| !m.is_null()).collect();
        let (Some(plain), Some(dead), Some(row)) = (id_of("plain"), id_of("dead"), id_of("row.fifo")) else {
            return Err("a queue is gone".into());
        };
        self.hold_plain(&messages, plain, dead, store.newest_instant())?;
        self.hold_row(&messages, row)?;
        for queue in [plain, dead, row] {
            add_up(store, &messages, queue, now)?;
        }
        self.repeat_the_receive(store, QueueId(row), now)?;
        self.send_again(store, QueueId(row), now)
    }

    /// Laws 1, 2, 3 and 7.
    fn hold_plain(
        &mut self,
        messages: &[&Value],
        plain: u64,
        dead: u64,
        now: Timestamp,
    ) -> Result<(), String> {
        let mut found: BTreeMap<&str, &Value> = BTreeMap::new();
        for message in messages.iter().filter(|m| m["queue"] == plain || m["queue"] == dead) {
            let body = message["body"]["text"].as_str().unwrap_or_default();
            let name = body.split(' ').next().unwrap_or_default();
            if found.insert(name, message).is_some() {
                return Err(format!("{name} is there twice"));
            }
        }
        for (name, fate) in &mut self.plain {
            let message = found.get(name.as_str());
            if fate.deleted && message.is_some() {
                return Err(format!("law 3: {name} came back: {message:?}"));
            }
            if fate.acknowledged && !fate.deleting && message.is_none() {
                return Err(format!("law 1: {name} is lost"));
            }
            let Some(message) = message else { continue };
            let attempts = message["attempts"].as_u64().unwrap_or_default();
            let reported = u64::from(fate.attempts);
            let is_dead = message["queue"] == dead;
            let max = u64::from(ATTEMPTS_MAX);
            // A receiver may die before it reports, and another one that was slower to report may have had it before.
            if attempts < reported || attempts > reported + UNREPORTED_MAX || attempts > max && !is_dead {
                return Err(format!("law 7: {name} was leased {reported} times: {message}"));
            }
            if is_dead && attempts < max {
                return Err(format!("law 7: {name} died too early: {message}"));
            }
            let is_running = fate.until > now.0 && attempts == reported;
            if is_running && message["state"]["leased_until_ms"] != fate.until {
                return Err(format!("law 2: {name} is leased until {}: {message}", fate.until));
            }
            fate.attempts = u32::try_from(attempts).unwrap();
        }
        Ok(())
    }

    /// Law 4: what is left of a group is the end of what was sent to it, in order, without a gap.
    fn hold_row(&self, messages: &[&Value], row: u64) -> Result<(), String> {
        let found: BTreeSet<u64> =
            messages.iter().filter(|m| m["queue"] == row).filter_map(|m| m["sequence"].as_u64()).collect();
        let mut kept_of: BTreeMap<&str, u64> = BTreeMap::new();
        for (sequence, (fate, group, _)) in &self.row {
            let is_found = found.contains(sequence);
            if fate.deleted && is_found {
                return Err(format!("law 3: {sequence} of {group} came back"));
            }
            if fate.acknowledged && !fate.deleting && !is_found {
                return Err(format!("law 1: {sequence} of {group} is lost"));
            }
            if is_found {
                kept_of.insert(group, *sequence);
            } else if kept_of.contains_key(group.as_str()) {
                return Err(format!(
                    "law 4: {sequence} left {group} before {:?}",
                    kept_of.get(group.as_str())
                ));
            }
        }
        Ok(())
    }

    /// Law 6: the newest receive can be asked again and gives the same messages with the same receipts.
    fn repeat_the_receive(&mut self, store: &LogStore, row: QueueId, now: Timestamp) -> Result<(), String> {
        let Some((attempt, taken)) = self.attempt.take().filter(|(_, taken)| !taken.is_empty()) else {
            return Ok(());
        };
        let terms = LeaseTerms { length: Some(Duration::from_millis(1)), ..LeaseTerms::default() };
        let lease = Lease { terms, attempt: Some(Text::from(attempt.clone())), ..Lease::of(row, 3, now) };
        let Outcome::Leased(again) = ask(store, now, Command::Lease(lease))? else {
            return Err("no lease".into());
        };
        let again: Vec<(u64, u64)> =
            again.iter().map(|each| (each.message.sequence.0, each.token.nonce)).collect();
        // What was leased after it by a receive that was never reported is another matter: then this one is too.
        if again != taken {
            return Err(format!("law 6: {attempt} took {taken:?}, and again {again:?}"));
        }
        Ok(())
    }

    /// Law 5: the newest ids are remembered.
    fn send_again(&self, store: &LogStore, row: QueueId, now: Timestamp) -> Result<(), String> {
        let sent = self.row.values().rev().filter(|(fate, ..)| fate.acknowledged);
        for (_, group, id) in sent.step_by(7).take(20) {
            let message = NewMessage {
                group: Some(GroupId(Text::from(group.as_str()))),
                deduplication: Some(DeduplicationId(Text::from(id.as_str()))),
                ..NewMessage::text(MessageId::from_chance(1), "again")
            };
            let send =
                Command::Send(Send { queue: row, messages: vec![message], receipts: FirstReceipts::Told });
            match ask(store, now, send)? {
                Outcome::Sent(sent) if sent[0].duplicate => {}
                other => return Err(format!("law 5: {id} was forgotten: {other:?}")),
            }
        }
        Ok(())
    }
}

fn ask(store: &LogStore, now: Timestamp, command: Command) -> Result<Outcome, String> {
    let answer = store.step(now, &command);
    store.commit();
    block_on(answer).map_err(|error| error.to_string())
}

/// Law 8.
fn add_up(store: &LogStore, messages: &[&Value], queue: u64, now: Timestamp) -> Result<(), String> {
    let Outcome::Counts(counts) = ask(store, now, Command::Counts(QueueId(queue)))? else {
        return Err("no counts".into());
    };
    let found = messages.iter().filter(|message| message["queue"] == queue).count() as u64;
    if counts.stored() == found {
        return Ok(());
    }
    Err(format!("law 8: queue {queue} counts {counts:?}, but {found} are found"))
}
