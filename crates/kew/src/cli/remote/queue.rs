//! `kew queue`: queues listed, made, changed, shown, emptied and deleted.

use std::time::Duration;

use clap::{Args, Subcommand};
use kew_http::{Method, percent};
use serde_json::{Map, Value, json};

use super::client::{Api, Target, of_queue};
use super::output::{self, Out};
use super::{Done, Failure};

/// How often `top` looks again.
const LOOKS_EVERY: Duration = Duration::from_secs(2);
/// Settings that are texts, whatever they look like.
const TEXTS: [&str; 2] = ["dead_letters_to", "deduplication_scope"];

/// What may be asked of queues.
#[derive(Subcommand, Debug)]
pub(in crate::cli) enum QueueCommand {
    /// List queues
    Ls(ListArgs),
    /// Make a queue; one that is there with the same settings is fine
    Create(CreateArgs),
    /// Change settings of a queue; `KEY=default` sets a default again
    Set(SetArgs),
    /// Show a queue with its settings
    Show(OneArgs),
    /// Delete a queue with all its messages
    Delete(SureArgs),
    /// Delete all messages of a queue
    Purge(SureArgs),
    /// Stop deliveries in every dialect; sends are taken
    Pause(OneArgs),
    /// Let deliveries go on
    Resume(OneArgs),
    /// Show queues with the most messages, again and again at a terminal
    Top(TopArgs),
}

/// The arguments of `kew queue ls`.
#[derive(Args, Debug)]
pub(in crate::cli) struct ListArgs {
    /// Only queues whose name begins like this
    #[arg(value_name = "PREFIX", default_value = "")]
    prefix: String,
    #[command(flatten)]
    target: Target,
}

/// The arguments of `kew queue create`.
#[derive(Args, Debug)]
pub(in crate::cli) struct CreateArgs {
    /// Its name; of a FIFO queue it ends in .fifo
    #[arg(value_name = "QUEUE")]
    queue: String,
    /// Keep messages of a group in order
    #[arg(long)]
    fifo: bool,
    /// Settings, such as visibility_seconds=60 dead_letters_to=orders-dead max_attempts=5
    #[arg(value_name = "KEY=VALUE")]
    settings: Vec<String>,
    #[command(flatten)]
    target: Target,
}

/// The arguments of `kew queue set`.
#[derive(Args, Debug)]
pub(in crate::cli) struct SetArgs {
    /// Which queue
    #[arg(value_name = "QUEUE")]
    queue: String,
    /// Settings, such as visibility_seconds=60, or visibility_seconds=default
    #[arg(value_name = "KEY=VALUE", required = true)]
    settings: Vec<String>,
    #[command(flatten)]
    target: Target,
}

/// The arguments of commands about one queue.
#[derive(Args, Debug)]
pub(in crate::cli) struct OneArgs {
    /// Which queue
    #[arg(value_name = "QUEUE")]
    queue: String,
    #[command(flatten)]
    target: Target,
}

/// The arguments of commands that destroy.
#[derive(Args, Debug)]
pub(in crate::cli) struct SureArgs {
    /// Which queue
    #[arg(value_name = "QUEUE")]
    queue: String,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    target: Target,
}

/// The arguments of `kew queue top`.
#[derive(Args, Debug)]
pub(in crate::cli) struct TopArgs {
    /// How many queues
    #[arg(long, value_name = "N", default_value_t = 20)]
    max: usize,
    #[command(flatten)]
    target: Target,
}

impl QueueCommand {
    pub(super) fn target(&self) -> &Target {
        match self {
            Self::Ls(args) => &args.target,
            Self::Create(args) => &args.target,
            Self::Set(args) => &args.target,
            Self::Show(args) | Self::Pause(args) | Self::Resume(args) => &args.target,
            Self::Delete(args) | Self::Purge(args) => &args.target,
            Self::Top(args) => &args.target,
        }
    }
}

pub(super) async fn run(api: &Api, out: &mut Out, command: &QueueCommand) -> Done {
    match command {
        QueueCommand::Ls(args) => list(api, out, &args.prefix).await,
        QueueCommand::Create(args) => create(api, out, args).await,
        QueueCommand::Set(args) => {
            let body = json!({ "settings": settings(&args.settings)? });
            let queue = api.change(Method::PATCH, &of_queue(&args.queue, ""), &body).await?;
            show(out, &queue)
        }
        QueueCommand::Show(args) => show(out, &api.get(&of_queue(&args.queue, "")).await?),
        QueueCommand::Pause(args) => deliver(api, out, &args.queue, "pause").await,
        QueueCommand::Resume(args) => deliver(api, out, &args.queue, "resume").await,
        QueueCommand::Delete(args) => {
            let what = format!("deleting {} with all its messages", args.queue);
            output::confirmed(args.yes, &what, &args.queue)?;
            let deleted = api.change(Method::DELETE, &of_queue(&args.queue, ""), &json!({})).await?;
            out.result(&deleted, &format!("deleted {} with {} messages", args.queue, deleted["messages"]))
        }
        QueueCommand::Purge(args) => {
            output::confirmed(args.yes, &format!("deleting all messages of {}", args.queue), &args.queue)?;
            // The API wants the queue's own name, which the argument may hold behind account and region.
            let name = args.queue.rsplit(':').next().unwrap_or_default();
            let body = json!({ "confirm": name });
            let purged = api.change(Method::POST, &of_queue(&args.queue, "/purge"), &body).await?;
            out.result(&purged, &format!("deleted {} messages of {}", purged["messages"], args.queue))
        }
        QueueCommand::Top(args) => top(api, out, args.max).await,
    }
}

async fn create(api: &Api, out: &mut Out, args: &CreateArgs) -> Done {
    let mut body = json!({ "name": args.queue, "settings": settings(&args.settings)? });
    if args.fifo {
        body["kind"] = "fifo".into();
    }
    let queue = api.change(Method::POST, "/queues", &body).await?;
    out.result(&queue, queue["queue"].as_str().unwrap_or_default())
}

/// Lets deliveries of a queue go on, or stops them.
async fn deliver(api: &Api, out: &mut Out, queue: &str, act: &str) -> Done {
    let changed = api.change(Method::POST, &of_queue(queue, &format!("/{act}")), &json!({})).await?;
    out.result(&changed, &format!("deliveries of {queue}: {act}d"))
}

/// Settings from `KEY=VALUE`.
fn settings(given: &[String]) -> Result<Map<String, Value>, Failure> {
    let mut settings = Map::new();
    for text in given {
        let pair = text.split_once('=').filter(|(key, _)| !key.is_empty());
        let (key, value) = pair.ok_or_else(|| Failure::Usage(format!("{text}: write KEY=VALUE")))?;
        if settings.insert(key.to_owned(), setting(key, value)).is_some() {
            return Err(Failure::Usage(format!("{key} is given twice")));
        }
    }
    Ok(settings)
}

fn setting(key: &str, value: &str) -> Value {
    match value {
        "default" | "null" | "" => Value::Null,
        _ if TEXTS.contains(&key) => value.into(),
        "true" => true.into(),
        "false" => false.into(),
        _ => value.parse::<u64>().map_or_else(|_| value.into(), Value::from),
    }
}

fn show(out: &mut Out, queue: &Value) -> Done {
    if out.json {
        return out.object(queue);
    }
    let settings = queue["settings"].as_object();
    let rest = queue.as_object().into_iter().flatten().filter(|(name, _)| *name != "settings");
    let is_setting = |name: &&String| settings.is_some_and(|settings| settings.contains_key(*name));
    let rest = rest.filter(|(name, _)| !is_setting(name));
    let all: Vec<(&String, &Value)> = rest.chain(settings.into_iter().flatten()).collect();
    let width = all.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    for (name, value) in all {
        out.text(&format!("{name:width$}  {}", cell(value)))?;
    }
    Ok(())
}

/// All queues whose name begins with a prefix, page by page.
async fn all(api: &Api, prefix: &str) -> Result<Vec<Value>, Failure> {
    let mut queues = Vec::new();
    let mut cursor = String::new();
    loop {
        let prefix = percent::encode(prefix.as_bytes());
        let page = api.get(&format!("/queues?limit=1000&prefix={prefix}{cursor}")).await?;
        queues.extend(page["queues"].as_array().cloned().unwrap_or_default());
        for node in page["silent"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            output::note(&format!(
                "figures are missing: the node {} does not answer",
                output::harmless(node)
            ));
        }
        let Some(next) = page["next"].as_str() else { return Ok(queues) };
        cursor = format!("&cursor={}", percent::encode(next.as_bytes()));
    }
}

async fn list(api: &Api, out: &mut Out, prefix: &str) -> Done {
    let queues = all(api, prefix).await?;
    if queues.is_empty() {
        output::note("no queues; `kew queue create NAME` makes one");
    }
    rows(out, &queues)
}

fn rows(out: &mut Out, queues: &[Value]) -> Done {
    if out.json {
        return queues.iter().try_for_each(|queue| out.object(queue));
    }
    if queues.is_empty() {
        return Ok(());
    }
    const COLUMNS: [(&str, &str); 9] = [
        ("QUEUE", "queue"),
        ("KIND", "kind"),
        ("VISIBLE", "visible"),
        ("IN FLIGHT", "in_flight"),
        ("DELAYED", "delayed"),
        ("OLDEST", "oldest_age_seconds"),
        ("SENT/S", "sent_per_second"),
        ("LEASED/S", "leased_per_second"),
        ("DELETED/S", "acked_per_second"),
    ];
    let row = |queue: &Value| {
        COLUMNS.map(|(_, member)| match member {
            "oldest_age_seconds" => age(&queue[member]),
            _ => output::harmless(&cell(&queue[member])),
        })
    };
    let lines: Vec<Vec<String>> = queues.iter().map(|queue| row(queue).to_vec()).collect();
    out.table(&COLUMNS.map(|(title, _)| title), &lines)
}

/// A number of seconds in the two largest units that it fills.
fn age(seconds: &Value) -> String {
    let Some(seconds) = seconds.as_f64() else { return "-".to_owned() };
    // Ages are far below what would be cut off.
    let seconds = seconds as u64;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m {}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h {}m", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{}d {}h", seconds / 86_400, seconds / 3_600 % 24),
    }
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

async fn top(api: &Api, out: &mut Out, max: usize) -> Done {
    loop {
        let mut queues = all(api, "").await?;
        let messages = |queue: &Value| {
            let count = |name: &str| queue[name].as_u64().unwrap_or_default();
            count("visible") + count("in_flight") + count("delayed")
        };
        queues.sort_by_key(|queue| std::cmp::Reverse(messages(queue)));
        queues.truncate(max);
        let again = out.is_terminal && !out.json;
        if again {
            out.line("\u{1b}[H\u{1b}[2J")?;
        }
        rows(out, &queues)?;
        if !again {
            return Ok(());
        }
        tokio::time::sleep(LOOKS_EVERY).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_numbers_flags_texts_or_the_default() {
        let given =
            ["visibility_seconds=60", "dead_letters_to=7", "drop_exhausted=true", "delay_seconds=default"];
        let read = settings(&given.map(str::to_owned)).expect("every setting has a key and a value");
        let expected = json!({
            "visibility_seconds": 60, "dead_letters_to": "7", "drop_exhausted": true, "delay_seconds": null,
        });
        assert_eq!(Value::Object(read), expected);
        for wrong in [&["x"][..], &["=1"], &["a=1", "a=2"]] {
            let given: Vec<String> = wrong.iter().map(|text| (*text).to_owned()).collect();
            assert!(matches!(settings(&given), Err(Failure::Usage(_))), "{wrong:?}");
        }
    }

    #[test]
    fn ages_have_two_units() {
        for (seconds, expected) in [
            (json!(null), "-"),
            (json!(59.9), "59s"),
            (json!(60), "1m 0s"),
            (json!(3_599), "59m 59s"),
            (json!(3_660), "1h 1m"),
            (json!(90_000), "1d 1h"),
        ] {
            assert_eq!(age(&seconds), expected);
        }
    }
}
