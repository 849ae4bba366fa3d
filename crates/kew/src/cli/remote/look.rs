//! `kew peek`, `kew tail` and `kew message`: messages are looked at and stay as they are.

use std::time::Duration;

use clap::{Args, Subcommand};
use kew_http::percent;
use serde_json::Value;

use super::body::Body;
use super::client::{Api, Target, of_queue};
use super::output::{self, Out};
use super::{Done, Failure};

/// Messages of one request.
const AT_ONCE: u64 = 1_000;
/// How often `tail` looks again.
const LOOKS_EVERY: Duration = Duration::from_secs(1);
/// Keys of a filter whose values are whole numbers.
const WHOLE: [&str; 2] = ["min_attempts", "older_than_seconds"];
/// Characters of a body in a line.
const BODY_MAX: usize = 80;

/// The arguments of `kew peek`.
#[derive(Args, Debug)]
pub(in crate::cli) struct PeekArgs {
    /// Into which queue
    #[arg(value_name = "QUEUE")]
    queue: String,

    /// How many messages at most
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
    max: u64,

    /// Only these: state, text, json, group, min_attempts, older_than_seconds, such as state=delayed,text=hello
    #[arg(long, value_name = "KEY=VALUE,…")]
    filter: Option<String>,

    #[command(flatten)]
    pub(super) target: Target,
}

/// The arguments of `kew tail`.
#[derive(Args, Debug)]
pub(in crate::cli) struct TailArgs {
    /// Which queue
    #[arg(value_name = "QUEUE")]
    queue: String,

    /// Only these, as in `kew peek`
    #[arg(long, value_name = "KEY=VALUE,…")]
    filter: Option<String>,

    #[command(flatten)]
    pub(super) target: Target,
}

/// What may be asked of one message.
#[derive(Subcommand, Debug)]
pub(in crate::cli) enum MessageCommand {
    /// Show a message, what happened to it, and why it was delivered again
    Show(ShowArgs),
}

/// The arguments of `kew message show`.
#[derive(Args, Debug)]
pub(in crate::cli) struct ShowArgs {
    /// The message's id
    #[arg(value_name = "ID")]
    id: String,

    #[command(flatten)]
    target: Target,
}

impl MessageCommand {
    pub(super) fn target(&self) -> &Target {
        let Self::Show(args) = self;
        &args.target
    }
}

pub(super) async fn peek(api: &Api, out: &mut Out, args: &PeekArgs) -> Done {
    let filter = query(args.filter.as_deref())?;
    let (mut left, mut cursor) = (args.max, String::new());
    while left > 0 {
        let limit = left.min(AT_ONCE);
        let page =
            api.get(&of_queue(&args.queue, &format!("/messages?limit={limit}{filter}{cursor}"))).await?;
        let messages = page["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
        if left == args.max && !messages.is_empty() && !out.json {
            out.line("ID                                    STATE      ATTEMPTS  BODY")?;
        }
        messages.iter().try_for_each(|message| line(out, message))?;
        left = left.saturating_sub(messages.len() as u64);
        let Some(next) = page["next"].as_str() else { break };
        cursor = format!("&cursor={}", percent::encode(next.as_bytes()));
    }
    if left == args.max {
        output::note("no messages");
    }
    Ok(())
}

/// Shows the messages that are there, then those that come, until the output is closed.
pub(super) async fn tail(api: &Api, out: &mut Out, args: &TailArgs) -> Done {
    let filter = query(args.filter.as_deref())?;
    let mut cursor = "0".to_owned();
    loop {
        let path = format!("/messages?limit={AT_ONCE}{filter}&cursor={}", percent::encode(cursor.as_bytes()));
        let page = api.get(&of_queue(&args.queue, &path)).await?;
        let messages = page["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
        messages.iter().try_for_each(|message| line(out, message))?;
        let last = messages.last().and_then(|message| message["sequence"].as_u64());
        if let Some(next) = page["next"].as_str() {
            cursor = next.to_owned();
            continue;
        }
        if let Some(last) = last {
            cursor = last.saturating_add(1).to_string();
        }
        tokio::time::sleep(LOOKS_EVERY).await;
    }
}

/// A filter as parameters of a query.
fn query(filter: Option<&str>) -> Result<String, Failure> {
    let pairs = pairs(filter)?;
    let encoded = |text: &str| percent::encode(text.as_bytes()).into_owned();
    Ok(pairs.iter().map(|(key, value)| format!("&{}={}", encoded(key), encoded(value))).collect())
}

/// A filter as the member of a request's body. The server says which keys there are, and what they hold.
pub(super) fn filter_of(text: &str) -> Result<Value, Failure> {
    let mut filter = serde_json::Map::new();
    for (key, value) in pairs(Some(text))? {
        let value = match value.parse::<u64>() {
            Ok(number) if WHOLE.contains(&key) => number.into(),
            _ => value.into(),
        };
        if filter.insert(key.to_owned(), value).is_some() {
            return Err(Failure::Usage(format!("--filter: {key} is given twice")));
        }
    }
    Ok(Value::Object(filter))
}

/// The pairs of a filter.
fn pairs(filter: Option<&str>) -> Result<Vec<(&str, &str)>, Failure> {
    let pair = |pair| -> Result<(&str, &str), Failure> {
        let parts = str::split_once(pair, '=');
        let parts = parts.filter(|(key, _)| !key.is_empty() && !["limit", "cursor"].contains(key));
        parts.ok_or_else(|| Failure::Usage(format!("--filter {pair}: write KEY=VALUE[,KEY=VALUE]")))
    };
    filter.into_iter().flat_map(|filter| filter.split(',')).map(pair).collect()
}

/// One message in one line.
fn line(out: &mut Out, message: &Value) -> Done {
    if out.json {
        return out.line(&message.to_string());
    }
    let text = |name: &str| message[name].as_str().unwrap_or_default().to_owned();
    let (id, state, body) = (text("id"), text("state"), Body::of(message).shown());
    let attempts = message["attempts"].to_string();
    out.line(&format!("{id}  {state:9}  {attempts:>8}  {}", short(&body)))
}

/// The beginning of a text, on one line.
fn short(text: &str) -> String {
    let mut short: String = text.chars().take(BODY_MAX).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    output::harmless(&short).replace('\n', "\\n").replace('\t', "\\t")
}

pub(super) async fn message(api: &Api, out: &mut Out, command: &MessageCommand) -> Done {
    let MessageCommand::Show(args) = command;
    let id = percent::encode(args.id.as_bytes());
    let mut cursor = String::new();
    let message = loop {
        let message = api.get(&format!("/messages/{id}{cursor}")).await?;
        match (message["state"].as_str(), message["next"].as_str()) {
            (Some("searching"), Some(next)) => {
                cursor = format!("?cursor={}", percent::encode(next.as_bytes()));
            }
            _ => break message,
        }
    };
    if out.json {
        return out.line(&message.to_string());
    }
    show(out, &message)
}

/// A message in lines: what it is, what happened to it, why it came again, and its body.
fn show(out: &mut Out, message: &Value) -> Done {
    const APART: [&str; 4] = ["timeline", "why", "body", "body_base64"];
    let members = message.as_object().into_iter().flatten();
    for (name, value) in members.filter(|(name, value)| !APART.contains(&name.as_str()) && !value.is_null()) {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        out.text(&format!("{name:16}  {value}"))?;
    }
    out.line("\ntimeline")?;
    for event in message["timeline"].as_array().into_iter().flatten() {
        out.text(&format!("  {}", event_line(event)))?;
    }
    let why = message["why"].as_array().map(Vec::as_slice).unwrap_or_default();
    if !why.is_empty() {
        out.line("\ndelivered again")?;
    }
    for again in why {
        let because = again["because"].as_str().unwrap_or_default();
        out.text(&format!("  {}  attempt {}: {because}", again["at_ms"], again["attempts"]))?;
    }
    if message["state"] == "gone" {
        return Ok(());
    }
    out.line("\nbody")?;
    out.text(&Body::of(message).shown())
}

fn event_line(event: &Value) -> String {
    let mut line = format!("{}  {:13}", event["at_ms"], event["event"].as_str().unwrap_or_default());
    for (name, before) in [("queue", "in "), ("by", "by "), ("reason", ""), ("detail", "")] {
        if let Some(text) = event[name].as_str() {
            line.push_str(&format!(" {before}{text}"));
        }
    }
    if let Some(until) = event["until_ms"].as_u64() {
        line.push_str(&format!(" until {until}"));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn filters_become_parameters() {
        assert_eq!(query(None).ok().as_deref(), Some(""));
        let given = query(Some("state=delayed,json=$.a=1 2")).ok();
        assert_eq!(given.as_deref(), Some("&state=delayed&json=%24.a%3D1%202"));
        for wrong in ["", "x", "=1", "state=any,", "limit=1", "cursor=1"] {
            assert!(matches!(query(Some(wrong)), Err(Failure::Usage(_))), "{wrong}");
        }
    }

    #[test]
    fn a_filter_is_an_object_whose_counts_are_numbers() {
        let filter = filter_of("json=$.a=17,min_attempts=3,older_than_seconds=x,text=5").ok();
        let expected = json!({ "json": "$.a=17", "min_attempts": 3, "older_than_seconds": "x", "text": "5" });
        assert_eq!(filter, Some(expected), "what is no number is refused by the server");
        for wrong in ["", "x", "text=a,text=b"] {
            assert!(matches!(filter_of(wrong), Err(Failure::Usage(_))), "{wrong}");
        }
    }

    #[test]
    fn bodies_are_short_and_on_one_line() {
        assert_eq!(short("a\nb\u{1b}"), "a\\nb\\u{1b}");
        assert_eq!(short(&"é".repeat(81)), format!("{}…", "é".repeat(80)));
    }
}
