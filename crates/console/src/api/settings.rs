//! Settings of a queue: their names, ranges and defaults, and how they become a queue's policy and back.

use std::time::Duration;

use kew_core::{Carries, DeadLetterAction, DeadLetterRule, DeduplicationScope, Policy, QueueKey, QueueKind};
use kew_engine::Engine;
use serde_json::{Map, Value};

use super::fields::{Field, Kind, field};
use super::names::Home;
use crate::error::ApiError;

/// Leases that are allowed where a dead-letter queue is named and no number.
const ATTEMPTS_USUAL: u32 = 10;
/// The settings that are one rule together.
pub(super) const RULE: [&str; 3] = ["dead_letters_to", "max_attempts", "drop_exhausted"];
/// Who wrote a rule, in this room's own word.
const WRITER: &str = "admin";

/// All settings, each with its range and default.
pub(crate) const SETTINGS: &[Field] = &[
    field("visibility_seconds", Kind::Whole(0, 43_200), "How long a leased message is hidden")
        .default("30")
        .nullable(),
    field(
        "delay_seconds",
        Kind::Whole(0, 86_400),
        "How long a new message is hidden; on FIFO queues at most 900",
    )
    .default("0")
    .nullable(),
    field("retention_seconds", Kind::Whole(60, 1_209_600), "How long a message is kept")
        .default("345600")
        .nullable(),
    field("wait_seconds", Kind::Whole(0, 20), "How long an SQS receive waits that names no time")
        .default("0")
        .nullable(),
    field("body_bytes_max", Kind::Whole(1_024, 1_048_576), "The longest body").default("1048576").nullable(),
    field("dead_letters_to", Kind::Text(200), "The queue that messages go to after max_attempts leases")
        .default("null")
        .nullable(),
    field(
        "max_attempts",
        Kind::Whole(1, 1_000),
        "Leases of a message before it goes to dead_letters_to; 10 where only that is set, else no limit",
    )
    .default("null")
    .nullable(),
    field(
        "drop_exhausted",
        Kind::Flag,
        "Delete messages after max_attempts leases; excludes dead_letters_to",
    )
    .default("false")
    .nullable(),
    field(
        "deduplication_scope",
        Kind::Choice(&["queue", "group"]),
        "FIFO: how far a deduplication id reaches",
    )
    .default("\"queue\"")
    .nullable(),
    field("content_deduplication", Kind::Flag, "FIFO: the body's hash stands in for a missing id")
        .default("false")
        .nullable(),
];

/// What each setting of a queue is.
pub(crate) fn shown(policy: &Policy, home: &Home<'_>) -> Map<String, Value> {
    let rule = policy.dead_letters.as_deref();
    let mut shown = Map::new();
    let mut put = |name: &str, value: Value| shown.insert(name.to_owned(), value);
    put("visibility_seconds", policy.lease_length.as_secs().into());
    put("delay_seconds", policy.delay.as_secs().into());
    put("retention_seconds", policy.retention.as_secs().into());
    put("wait_seconds", policy.wait.as_secs().into());
    put("body_bytes_max", policy.body_bytes_max.into());
    put("dead_letters_to", rule.and_then(target).map_or(Value::Null, |key| home.text(key).into()));
    put("max_attempts", rule.map_or(Value::Null, |rule| rule.attempts_max.into()));
    put("drop_exhausted", rule.is_some_and(|rule| rule.then == DeadLetterAction::Drop).into());
    if let QueueKind::Fifo { scope, by_content } = policy.kind {
        let scope = match scope {
            DeduplicationScope::Queue => "queue",
            DeduplicationScope::Group => "group",
        };
        put("deduplication_scope", scope.into());
        put("content_deduplication", by_content.into());
    }
    shown
}

/// The queue that a rule moves messages to.
pub(crate) fn target(rule: &DeadLetterRule) -> Option<&QueueKey> {
    match &rule.then {
        DeadLetterAction::MoveTo(key) => Some(key),
        DeadLetterAction::Drop => None,
    }
}

/// Whether a queue that was not the dead-letter queue before may be it.
type TargetCheck<'a> = &'a dyn Fn(&QueueKey, &Policy) -> Result<(), ApiError>;

/// Puts settings on a policy; `null` stands for the default. The values are known to be within their ranges.
pub(crate) fn apply(
    policy: &mut Policy,
    settings: &Map<String, Value>,
    (source, home, engine): (&QueueKey, &Home<'_>, &Engine),
) -> Result<(), ApiError> {
    put(policy, settings, home, &|to, policy| check_target(to, source, policy, engine, home))
}

/// The same, with a check of dead-letter queues that may do without an engine.
pub(super) fn put(
    policy: &mut Policy,
    settings: &Map<String, Value>,
    home: &Home<'_>,
    check: TargetCheck<'_>,
) -> Result<(), ApiError> {
    let usual = Policy::standard();
    for (name, value) in settings {
        let seconds = |usual: Duration| value.as_u64().map_or(usual, Duration::from_secs);
        match name.as_str() {
            "visibility_seconds" => policy.lease_length = seconds(usual.lease_length),
            "delay_seconds" => policy.delay = seconds(usual.delay),
            "retention_seconds" => policy.retention = seconds(usual.retention),
            "wait_seconds" => policy.wait = seconds(usual.wait),
            "body_bytes_max" => {
                let bytes = value.as_u64().and_then(|bytes| u32::try_from(bytes).ok());
                policy.body_bytes_max = bytes.unwrap_or(usual.body_bytes_max);
            }
            "deduplication_scope" | "content_deduplication" => put_fifo(&mut policy.kind, name, value)?,
            // They make one rule together.
            _ => {}
        }
    }
    if policy.kind.is_fifo() && policy.delay > Duration::from_secs(900) {
        return Err(ApiError::bad_request(
            "delay_seconds of a FIFO queue must be a whole number from 0 to 900",
        ));
    }
    put_rule(policy, settings, home, check)
}

fn put_fifo(kind: &mut QueueKind, name: &str, value: &Value) -> Result<(), ApiError> {
    let QueueKind::Fifo { scope, by_content } = kind else {
        return Err(ApiError::bad_request(format!("{name} is a setting of FIFO queues")));
    };
    match (name, value.as_str()) {
        ("deduplication_scope", Some("group")) => *scope = DeduplicationScope::Group,
        ("deduplication_scope", _) => *scope = DeduplicationScope::Queue,
        _ => *by_content = value.as_bool().unwrap_or_default(),
    }
    Ok(())
}

/// The three settings that are one rule: what is not given stays, and a rule that stays as it is keeps who wrote it.
fn put_rule(
    policy: &mut Policy,
    settings: &Map<String, Value>,
    home: &Home<'_>,
    check: TargetCheck<'_>,
) -> Result<(), ApiError> {
    if !RULE.iter().any(|name| settings.contains_key(*name)) {
        return Ok(());
    }
    let before = policy.dead_letters.take();
    let rule = before.as_deref();
    let attempts = match settings.get("max_attempts") {
        Some(value) => value.as_u64().and_then(|attempts| u32::try_from(attempts).ok()),
        None => rule.map(|rule| rule.attempts_max),
    };
    let Some(then) = action(rule, settings, attempts, home)? else { return Ok(()) };
    match &then {
        DeadLetterAction::MoveTo(to) if rule.and_then(target) != Some(to) => {
            check(to, policy)?;
        }
        DeadLetterAction::MoveTo(_) | DeadLetterAction::Drop => {}
    }
    let attempts_max = attempts.unwrap_or(ATTEMPTS_USUAL);
    policy.dead_letters = match before {
        Some(rule) if rule.attempts_max == attempts_max && rule.then == then => Some(rule),
        Some(_) | None => Some(Box::new(DeadLetterRule {
            attempts_max,
            then,
            carries: Carries::History,
            written_by: WRITER.into(),
        })),
    };
    Ok(())
}

/// What becomes of a message after its last attempt, by the rule so far and the settings given now. `None`: no rule.
fn action(
    rule: Option<&DeadLetterRule>,
    settings: &Map<String, Value>,
    attempts: Option<u32>,
    home: &Home<'_>,
) -> Result<Option<DeadLetterAction>, ApiError> {
    let to = match settings.get("dead_letters_to") {
        Some(value) => value.as_str().map(|text| home.key(text)).transpose()?,
        None => rule.and_then(target).cloned(),
    };
    let drops = match settings.get("drop_exhausted") {
        Some(value) => value.as_bool().unwrap_or_default(),
        // A target that is given now takes the place of dropping.
        None => rule.is_some_and(|rule| rule.then == DeadLetterAction::Drop) && to.is_none(),
    };
    let given = settings.get("max_attempts").is_some_and(|value| !value.is_null());
    let refuse = |why: &str| Err(ApiError::bad_request(why));
    match (to, drops) {
        (Some(_), true) => refuse("dead_letters_to and drop_exhausted exclude each other"),
        (Some(to), false) => Ok(Some(DeadLetterAction::MoveTo(to))),
        (None, true) if attempts.is_none() => refuse("drop_exhausted needs max_attempts"),
        (None, true) => Ok(Some(DeadLetterAction::Drop)),
        (None, false) if given => {
            refuse("max_attempts needs dead_letters_to, or drop_exhausted to delete messages after it")
        }
        (None, false) => Ok(None),
    }
}

fn check_target(
    to: &QueueKey,
    source: &QueueKey,
    policy: &Policy,
    engine: &Engine,
    home: &Home<'_>,
) -> Result<(), ApiError> {
    check_pair(to, source, home)?;
    match engine.find(to)? {
        None => Err(refused_target(to, home, "there is no such queue")),
        Some(found) => check_kinds(found.policy.kind.is_fifo(), to, policy, home),
    }
}

/// Refuses a dead-letter queue that the source cannot have, whatever there is.
pub(super) fn check_pair(to: &QueueKey, source: &QueueKey, home: &Home<'_>) -> Result<(), ApiError> {
    if to == source {
        return Err(refused_target(to, home, "a queue cannot be its own dead-letter queue"));
    }
    if to.account != source.account {
        return Err(refused_target(to, home, "it must be a queue of the same account"));
    }
    Ok(())
}

/// Refuses a dead-letter queue of the other kind.
pub(super) fn check_kinds(
    is_fifo: bool,
    to: &QueueKey,
    policy: &Policy,
    home: &Home<'_>,
) -> Result<(), ApiError> {
    if is_fifo == policy.kind.is_fifo() {
        return Ok(());
    }
    Err(refused_target(to, home, "it must be of the same kind as its source, standard or FIFO"))
}

fn refused_target(to: &QueueKey, home: &Home<'_>, why: &str) -> ApiError {
    ApiError::bad_request(format!("dead_letters_to {}: {why}", home.text(to)))
}

/// The settings of `wanted` in which a queue differs from it.
pub(crate) fn differences(
    policy: &Policy,
    wanted: &Policy,
    given: &Map<String, Value>,
    home: &Home<'_>,
) -> Vec<String> {
    let (is, wanted) = (shown(policy, home), shown(wanted, home));
    let differs = |name: &&String| is.get(*name) != wanted.get(*name);
    given.keys().filter(differs).cloned().collect()
}
