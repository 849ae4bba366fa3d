//! `kew redrive`: brings messages back, and shows how far it is until it is done.

use std::time::Duration;

use clap::Args;
use kew_http::Method;
use serde_json::{Value, json};

use super::client::{Api, Target, of_queue};
use super::look::filter_of;
use super::output::{self, Out};
use super::{Done, Failure};

/// How often it is looked how far the task is.
const LOOKS_EVERY: Duration = Duration::from_millis(200);

/// The arguments of `kew redrive`.
#[derive(Args, Debug)]
pub(in crate::cli) struct RedriveArgs {
    /// From which queue
    #[arg(value_name = "QUEUE")]
    queue: String,

    /// Where to: a queue, or `origin` for the queue that each message came from
    #[arg(long, value_name = "QUEUE", default_value = "origin")]
    to: String,

    /// Only these, each for itself: text, json, group, min_attempts, older_than_seconds, such as text=timeout. One that
    /// has no queue to go to, or is leased when its turn comes, stays
    #[arg(long, value_name = "KEY=VALUE,…")]
    filter: Option<String>,

    /// Messages a second; as fast as possible otherwise
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    rate: Option<u64>,

    /// Only count what would be moved
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    pub(super) target: Target,
}

pub(super) async fn run(api: &Api, out: &mut Out, args: &RedriveArgs) -> Done {
    let mut body = json!({ "to": args.to, "dry_run": args.dry_run });
    if let Some(filter) = &args.filter {
        body["filter"] = filter_of(filter)?;
    }
    if let Some(rate) = args.rate {
        body["per_second"] = rate.into();
    }
    let begun = api.change(Method::POST, &of_queue(&args.queue, "/redrive"), &body).await?;
    let Some(task) = begun["task"].as_str() else {
        return out.result(&begun, &foretold(&begun, args.filter.is_some()));
    };
    let path = format!("/redrives/{task}");
    loop {
        let shown = api.get(&path).await?;
        let (moved, left) = (&shown["moved"], &shown["left"]);
        let is_over = shown["state"] != "running";
        output::progress(&format!("{moved} moved, {left} left"), is_over);
        if is_over {
            return ended(out, &shown);
        }
        tokio::time::sleep(LOOKS_EVERY).await;
    }
}

/// What a dry run says. A task without a filter stops at the first message that cannot be moved.
fn foretold(counted: &Value, is_filtered: bool) -> String {
    let least = if counted["counted_all"] == false { "at least " } else { "" };
    let line = format!("{least}{} messages would be moved", counted["matched"]);
    match counted["cannot_move"].as_u64().unwrap_or_default() {
        0 => line,
        stay if is_filtered => format!("{line}; {stay} that fit have no queue to go to and would stay"),
        stay => {
            format!("{line}; {stay} have no queue to go to, and the task would stop at the first of them")
        }
    }
}

fn ended(out: &mut Out, shown: &Value) -> Done {
    let moved = shown["moved"].as_u64().unwrap_or_default();
    let line = format!(
        "{moved} messages moved, {} left: {}",
        shown["left"],
        shown["state"].as_str().unwrap_or_default()
    );
    out.result(shown, &line)?;
    let is_done = shown["state"] == "done";
    let why = match shown["reason"].as_str() {
        Some(why) => why.to_owned(),
        None if is_done => return Ok(()),
        None => "it was cancelled".to_owned(),
    };
    // A task with a filter passes over what it cannot move, and is done with the rest.
    Err(if moved > 0 || is_done { Failure::Partly(why) } else { Failure::Failed(why) })
}
