//! Queues: listed, made, shown, changed, deleted, purged.

use std::sync::Arc;

use kew_core::command::{Browse, CreateQueue, DeleteQueue, Purge, UpdateQueue};
use kew_core::{AccountId, Counts, Policy, Queue, QueueId, QueueKey, Timestamp};
use kew_engine::{Engine, WideListing};
use kew_http::{Reply, StatusCode};
use serde_json::{Map, Value, json};

use super::Context;
use super::names::{self, Home};
use super::settings;
use super::work::render;
use crate::error::{ApiError, answer};
use crate::samples::Rates;

/// Queues of a page that does not say.
const LIMIT_USUAL: u64 = 100;
/// Messages of a queue among which dead letters are looked for, and the bytes of bodies that are read for that.
const FIRST_MESSAGES: u32 = 50;
const FIRST_BYTES: u64 = 64 << 10;

/// `GET /queues`.
pub(super) async fn list(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let running = cx.running()?;
    let begins = Beginning::of(cx.query.text("prefix").unwrap_or_default());
    let limit = usize::try_from(cx.query.whole("limit").unwrap_or(LIMIT_USUAL)).unwrap_or(usize::MAX);
    let after = cx.query.text("cursor").map(|cursor| cx.home().key(cursor)).transpose()?;
    let engine = Arc::clone(&running.engine);
    let work = move || async move {
        // One more than is shown says whether there are more.
        let max = limit.saturating_add(1);
        Ok(begins.map_or_else(Vec::new, |begins| begins.page(&engine, after, max)))
    };
    let mut found = cx.console.work.run(work).await?;
    let has_more = found.len() > limit;
    found.truncate(limit);
    let next = found.last().filter(|_| has_more).map(|queue| names::full(&queue.key));
    let gathered = cx.console.peers.figures(&running, &cx.console.looks.samples, &found).await;
    let (account, region) = (cx.console.settings.account, Arc::clone(&cx.console.settings.region));
    render(move || {
        let (home, now) = (Home { account, region: &region }, running.engine.now());
        // A queue that was deleted a moment ago has nothing to show.
        let shown = found.iter().filter(|queue| !gathered.is_gone(queue.id));
        let rows: Vec<Value> = shown
            .map(|queue| {
                let figures = gathered.of(queue.id);
                let known = (figures.map(|of| of.counts), figures.map(|of| of.rates));
                Value::Object(row(queue, known, (now, running.shard_of(queue.id)), &home))
            })
            .collect();
        json!({ "queues": rows, "next": next, "silent": gathered.silent })
    })
    .await
}

/// How a queue's name begins, or `account:region:name` of it. The part with a colon stands for that form: no name has
/// one.
struct Beginning {
    full: String,
    /// The first queue of that form that there may be.
    from: Option<QueueKey>,
    /// How the name begins, as far as the text goes.
    name: String,
}

impl Beginning {
    /// Nothing where no queue can be called so.
    fn of(text: &str) -> Option<Self> {
        let Some((account, below)) = text.split_once(':') else {
            return Some(Self { full: String::new(), from: None, name: text.to_owned() });
        };
        let account = account.parse().ok().map(AccountId)?;
        let (region, name) = below.split_once(':').unwrap_or((below, ""));
        let from = Some(QueueKey::new(account, region, ""));
        Some(Self { full: text.to_owned(), from, name: name.to_owned() })
    }

    fn page(&self, engine: &Engine, after: Option<QueueKey>, max: usize) -> Vec<Arc<Queue>> {
        let after = after.max(self.from.clone());
        let mut found = engine.wide_page(WideListing { prefix: &self.name, after: after.as_ref(), max });
        // All of one form follow each other: account, region and name are the order of queues.
        let other = found.iter().position(|queue| !names::full(&queue.key).starts_with(&self.full));
        found.truncate(other.unwrap_or(found.len()));
        found
    }
}

/// Maximum queues of the server when one is made in an account that is not the default one. Each account may have as
/// many as its own bound says, and anyone who may make queues can name another account.
const QUEUES_OF_ALL_MAX: usize = 100_000;

fn check_account(cx: &Context<'_>, key: &QueueKey) -> Result<(), ApiError> {
    let is_home = key.account == cx.home().account;
    if is_home || cx.running()?.engine.queue_count() < QUEUES_OF_ALL_MAX {
        return Ok(());
    }
    Err(ApiError::bad_request(format!(
        "there are {QUEUES_OF_ALL_MAX} queues: no other account gets one more"
    )))
}

/// `POST /queues`.
pub(super) async fn create(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let running = cx.running()?;
    let text = cx.body.text("name").unwrap_or_default();
    cx.target.get_or_init(|| text.to_owned());
    let key = cx.home().key(text)?;
    let fifo = match cx.body.text("kind") {
        Some(kind) => kind == "fifo",
        None => names::is_fifo(&key.name),
    };
    names::check_new(&key.name, fifo)?;
    check_account(cx, &key)?;
    let mut policy = if fifo { Policy::fifo() } else { Policy::standard() };
    let no_settings = Map::new();
    let given = cx.body.object("settings").unwrap_or(&no_settings);
    settings::apply(&mut policy, given, (&key, &cx.home(), &running.engine))?;
    if let Some(queue) = running.engine.queue(&key) {
        return existing(cx, &queue, &policy, given).await;
    }
    let create = CreateQueue { key: key.clone(), policy: policy.clone(), documents: Vec::new() };
    let engine = Arc::clone(&running.engine);
    let work = move || async move {
        match engine.create_queue(create).await {
            Ok(queue) => Ok(Ok(queue)),
            // It was made at the same time.
            Err(kew_engine::EngineError::Rule(kew_core::RuleError::QueueExists(queue))) => Ok(Err(queue)),
            Err(error) => Err(ApiError::from(error)),
        }
    };
    match cx.console.work.run(work).await? {
        Ok(queue) => shown(cx, StatusCode::CREATED, &queue).await,
        Err(queue) => existing(cx, &queue, &policy, given).await,
    }
}

/// A queue that is there already is answered as it is where nothing else was asked for. What is not given is not
/// compared.
async fn existing(
    cx: &Context<'_>,
    queue: &Arc<Queue>,
    wanted: &Policy,
    given: &Map<String, Value>,
) -> Result<Reply, ApiError> {
    let name = cx.home().text(&queue.key);
    if queue.policy.kind.is_fifo() != wanted.kind.is_fifo() {
        return Err(ApiError::conflict("queue_exists", format!("{name} exists and is of the other kind")));
    }
    let differences = settings::differences(&queue.policy, wanted, given, &cx.home());
    if differences.is_empty() {
        return shown(cx, StatusCode::OK, queue).await;
    }
    let message = format!("{name} exists with other settings: {}", differences.join(", "));
    Err(ApiError::conflict("queue_exists", message))
}

/// `GET /queues/{q}`.
pub(super) async fn show(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let running = cx.running()?;
    let queue = cx.queue(&running.engine)?;
    shown(cx, StatusCode::OK, &queue).await
}

/// `PATCH /queues/{q}`.
pub(super) async fn change(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let running = cx.running()?;
    let queue = cx.queue(&running.engine)?;
    let mut policy = queue.policy.clone();
    let no_settings = Map::new();
    let given = cx.body.object("settings").unwrap_or(&no_settings);
    settings::apply(&mut policy, given, (&queue.key, &cx.home(), &running.engine))?;
    let update = UpdateQueue {
        queue: queue.id,
        // What was not given is written as it was read.
        if_version: Some(queue.version),
        policy: Some(policy),
        documents: Vec::new(),
        rename: None,
    };
    let engine = Arc::clone(&running.engine);
    let changed = cx.console.work.run(move || async move { Ok(engine.update_queue(update).await?) }).await?;
    shown(cx, StatusCode::OK, &changed).await
}

/// `DELETE /queues/{q}`.
pub(super) async fn delete(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let running = cx.running()?;
    let delete = DeleteQueue { queue: cx.queue(&running.engine)?.id, if_version: None };
    let engine = Arc::clone(&running.engine);
    let messages = cx.console.work.run(move || async move { Ok(engine.delete_queue(delete).await?) }).await?;
    Ok(answer(StatusCode::OK, &json!({ "messages": messages })))
}

/// `POST /queues/{q}/purge`.
pub(super) async fn purge(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let running = cx.running()?;
    let queue = cx.queue(&running.engine)?;
    let confirm = cx.body.text("confirm").unwrap_or_default();
    if ![&*queue.key.name, &names::full(&queue.key)].contains(&confirm) {
        let message =
            format!("to delete all messages of the queue, `confirm` must be its name, {}", queue.key.name);
        return Err(ApiError::conflict("not_confirmed", message));
    }
    let (engine, purge) = (Arc::clone(&running.engine), Purge { queue: queue.id });
    let messages = cx.console.work.run(move || async move { Ok(engine.purge(purge).await?) }).await?;
    Ok(answer(StatusCode::OK, &json!({ "messages": messages })))
}

/// The reply that shows a queue with its settings.
pub(super) async fn shown(
    cx: &Context<'_>,
    status: StatusCode,
    queue: &Arc<Queue>,
) -> Result<Reply, ApiError> {
    let running = cx.running()?;
    let (engine, id) = (Arc::clone(&running.engine), queue.id);
    let key = queue.key.clone();
    let work = move || async move {
        let counts = engine.counts_so_far(id).await?;
        Ok((counts, engine.now(), takes_dead_letters(&engine, id, &key).await))
    };
    let (counts, now, takes_dead_letters) = cx.console.work.run(work).await?;
    let home = cx.home();
    // Another node's rates are as it says; its counts were just asked for, and waited for.
    let samples = &cx.console.looks.samples;
    let rates = if running.engine.sees(id) {
        Some(samples.rates(id))
    } else {
        cx.console.peers.figures(&running, samples, &[Arc::clone(queue)]).await.of(id).map(|of| of.rates)
    };
    let mut members = row(queue, (Some(counts), rates), (now, running.shard_of(id)), &home);
    members.insert("settings".to_owned(), Value::Object(settings::shown(&queue.policy, &home)));
    members.insert("takes_dead_letters".to_owned(), takes_dead_letters.into());
    members.insert("created_at_ms".to_owned(), queue.created_at.0.into());
    members.insert("modified_at_ms".to_owned(), queue.modified_at.0.into());
    Ok(answer(status, &Value::Object(members)))
}

/// Whether a queue is where the dead letters of another one go, or has some among its first messages.
async fn takes_dead_letters(engine: &Engine, id: QueueId, key: &QueueKey) -> bool {
    if !engine.dead_letter_sources(key, None, 1).is_empty() {
        return true;
    }
    let first =
        Browse { look_max: FIRST_MESSAGES, body_bytes_max: FIRST_BYTES, ..Browse::of(id, FIRST_MESSAGES) };
    // Where they cannot be read just now, nothing is said of them.
    engine
        .glance(first)
        .await
        .is_ok_and(|page| page.messages.iter().any(|seen| seen.message.origin.is_some()))
}

/// What every listing shows of a queue. Figures that another node did not tell are null.
fn row(
    queue: &Queue,
    (counts, rates): (Option<Counts>, Option<Rates>),
    (now, shard): (Timestamp, u64),
    home: &Home<'_>,
) -> Map<String, Value> {
    let rule = queue.policy.dead_letters.as_deref();
    let sent_at = counts.and_then(|counts| counts.oldest_sent_at);
    let age = sent_at.map(|sent| now.since(sent).as_millis() as f64 / 1_000.0);
    let count = |of: fn(&Counts) -> u64| Value::from(counts.as_ref().map(of));
    let rate = |of: fn(&Rates) -> f64| Value::from(rates.as_ref().map(|rates| hundredths(of(rates))));
    let mut row = Map::new();
    let mut put = |name: &str, value: Value| row.insert(name.to_owned(), value);
    put("queue", home.text(&queue.key).into());
    put("name", queue.key.name.to_string().into());
    put("account", queue.key.account.to_string().into());
    put("region", queue.key.region.to_string().into());
    put("kind", if queue.policy.kind.is_fifo() { "fifo" } else { "standard" }.into());
    put("visible", count(|counts| counts.visible));
    put("in_flight", count(|counts| counts.in_flight));
    put("delayed", count(|counts| counts.delayed));
    put("body_bytes", count(|counts| counts.body_bytes));
    put("oldest_age_seconds", age.into());
    put("sent_per_second", rate(|rates| rates.sent));
    put("leased_per_second", rate(|rates| rates.leased));
    put("acked_per_second", rate(|rates| rates.acked));
    put("dead_letters_to", rule.and_then(settings::target).map_or(Value::Null, |key| home.text(key).into()));
    put("max_attempts", rule.map_or(Value::Null, |rule| rule.attempts_max.into()));
    put("paused", queue.policy.paused.into());
    put("shard", shard.into());
    row
}

/// A number with two decimals.
fn hundredths(number: f64) -> f64 {
    (number * 100.0).round() / 100.0
}
