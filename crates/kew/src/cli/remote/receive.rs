//! `kew receive`: messages are printed, then deleted; what cannot be printed is not lost.
//!
//! A body that is no text is written as it is where one message is asked for and standard output is a file or a pipe.
//! Elsewhere it is Base64 behind a mark, and standard error says so.

use std::time::Duration;

use clap::Args;
use kew_http::Method;
use serde_json::{Value, json};

use super::body::Body;
use super::client::{Api, Target, of_queue};
use super::output::{self, Out};
use super::{Done, Failure};

/// Messages of one request.
const AT_ONCE: u64 = 100;
/// An answer comes so long after the wait at the latest.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);

/// The arguments of `kew receive`.
#[derive(Args, Debug)]
pub(in crate::cli) struct ReceiveArgs {
    /// From which queue
    #[arg(value_name = "QUEUE")]
    queue: String,

    /// How many messages at most
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    max: u64,

    /// Leave the messages in the queue: they are there again at once, with one more attempt counted, which may be the
    /// last one the queue allows
    #[arg(long)]
    keep: bool,

    /// How long to wait when there is no message
    #[arg(long, value_name = "SECONDS", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=20))]
    wait: u64,

    #[command(flatten)]
    pub(super) target: Target,
}

/// Said when a body that is no text is printed as text: its message is deleted then.
const IN_BASE64: &str = "note: a body that is no text is printed in Base64, behind \"base64:\"; --json has it as body_base64, and \
     --max 1 writes it to a file or a pipe byte for byte";

/// How long messages that are kept are hidden, unless they are given back before.
const KEPT_HIDDEN_SECONDS: u64 = 60;

pub(super) async fn run(api: &Api, out: &mut Out, args: &ReceiveArgs) -> Done {
    let mut kept: Vec<String> = Vec::new();
    let printed = print_all(api, out, args, &mut kept).await;
    // Given back only now: else the next request would find them again.
    let mut released = Ok(());
    for receipts in kept.chunks(100) {
        released = released.and(settle(api, args, &json!({ "release": receipts })).await);
    }
    printed.and(released)
}

async fn print_all(api: &Api, out: &mut Out, args: &ReceiveArgs, kept: &mut Vec<String>) -> Done {
    let mut left = args.max;
    let mut wait = args.wait;
    while left > 0 {
        let mut body = json!({ "max": left.min(AT_ONCE), "wait_seconds": wait });
        if args.keep {
            // Hidden until all are printed, also in a queue that hides for no time: none is received twice.
            body["visibility_seconds"] = json!(KEPT_HIDDEN_SECONDS);
        }
        let within = ANSWER_WITHIN + Duration::from_secs(wait);
        let path = of_queue(&args.queue, "/receive");
        let found = api.ask(Method::POST, &path, Some(&body), within).await?;
        let messages = found["messages"].as_array().cloned().unwrap_or_default();
        if messages.is_empty() {
            break;
        }
        left = left.saturating_sub(messages.len() as u64);
        wait = 0;
        print(api, out, args, &messages, kept).await?;
    }
    if left == args.max {
        output::note("no messages");
    }
    Ok(())
}

/// Prints messages and deletes those that were printed; the others are given back.
async fn print(
    api: &Api,
    out: &mut Out,
    args: &ReceiveArgs,
    messages: &[Value],
    kept: &mut Vec<String>,
) -> Done {
    let mut printed = Vec::new();
    let mut closed = Ok(());
    for message in messages {
        let receipt = message["receipt"].as_str().unwrap_or_default().to_owned();
        closed = closed.and_then(|()| show(out, args, message));
        match closed.is_ok() && !args.keep {
            true => printed.push(receipt),
            false => kept.push(receipt),
        }
    }
    if !printed.is_empty() {
        settle(api, args, &json!({ "delete": printed })).await?;
    }
    closed
}

fn show(out: &mut Out, args: &ReceiveArgs, message: &Value) -> Done {
    if out.json {
        return out.object(message);
    }
    let body = Body::of(message);
    match body.bytes().filter(|_| args.max == 1 && !out.is_terminal) {
        // Just these: a line's end would be one more byte.
        Some(bytes) => out.bytes(&bytes),
        None => out.text(&body.shown()).map(|()| {
            if body.is_base64() {
                out.say_once(IN_BASE64);
            }
        }),
    }
}

async fn settle(api: &Api, args: &ReceiveArgs, body: &Value) -> Done {
    let settled = api.change(Method::POST, &of_queue(&args.queue, "/settle"), body).await?;
    let failed = settled["failed"].as_array().map_or(0, Vec::len);
    if failed == 0 {
        return Ok(());
    }
    let why = format!("{failed} messages were printed and not settled: their leases ended meanwhile");
    Err(Failure::Partly(why))
}
