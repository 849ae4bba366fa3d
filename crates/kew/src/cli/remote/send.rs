//! `kew send`: one message, its body an argument or standard input.

use std::io::{self, IsTerminal, Read};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::{Args, ValueEnum};
use kew_http::Method;
use serde_json::{Map, Value, json};

use super::client::{Api, Target, of_queue};
use super::output::{self, Out};
use super::{Done, Failure};

/// More than any queue accepts.
const INPUT_BYTES_MAX: u64 = 2 << 20;

/// The arguments of `kew send`.
#[derive(Args, Debug)]
pub(in crate::cli) struct SendArgs {
    /// To which queue
    #[arg(value_name = "QUEUE")]
    queue: String,

    /// The body; `-`, or nothing, is standard input to its end
    #[arg(value_name = "BODY", default_value = "-", allow_hyphen_values = true)]
    body: String,

    /// The group, which keeps order on FIFO queues
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,

    /// What marks a repeat of the same send, on FIFO queues
    #[arg(long, value_name = "ID")]
    deduplication_id: Option<String>,

    /// How long the message is hidden first
    #[arg(long, value_name = "SECONDS")]
    delay: Option<u64>,

    /// How receivers read the body
    #[arg(long, value_name = "TYPE", default_value = "text")]
    content_type: ContentType,

    /// An attribute, as SQS shows them; may be repeated
    #[arg(long = "attribute", value_name = "NAME=VALUE")]
    attributes: Vec<String>,

    #[command(flatten)]
    pub(super) target: Target,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum ContentType {
    Text,
    Json,
    Bytes,
    V8,
}

impl ContentType {
    fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
            Self::Bytes => "bytes",
            Self::V8 => "v8",
        }
    }
}

pub(super) async fn run(api: &Api, out: &mut Out, args: &SendArgs) -> Done {
    let message = message(args, body(args)?)?;
    let sent = api.change(Method::POST, &of_queue(&args.queue, "/messages"), &message).await?;
    if sent["duplicate"] == true {
        output::note("the queue has this message already: nothing was added");
    }
    out.result(&sent, sent["id"].as_str().unwrap_or_default())
}

fn body(args: &SendArgs) -> Result<Vec<u8>, Failure> {
    if args.body != "-" {
        return Ok(args.body.clone().into_bytes());
    }
    let stdin = io::stdin();
    if stdin.is_terminal() {
        output::note("the body is read from here to its end (Ctrl-D)");
    }
    let mut body = Vec::new();
    let read = stdin.lock().take(INPUT_BYTES_MAX).read_to_end(&mut body);
    read.map_err(|error| Failure::Failed(format!("reading standard input: {error}")))?;
    if body.is_empty() {
        // The output of a command that failed, most likely.
        let why = "standard input is empty; for a message without a body say kew send QUEUE ''";
        return Err(Failure::Usage(why.to_owned()));
    }
    Ok(body)
}

fn message(args: &SendArgs, body: Vec<u8>) -> Result<Value, Failure> {
    let mut message = Map::new();
    message.insert("content_type".to_owned(), args.content_type.name().into());
    if matches!(args.content_type, ContentType::Bytes | ContentType::V8) {
        message.insert("body_base64".to_owned(), STANDARD.encode(&body).into());
    } else {
        let text = String::from_utf8(body)
            .map_err(|_| Failure::Usage("the body is no UTF-8: say --content-type bytes".to_owned()))?;
        message.insert("body".to_owned(), text.into());
    }
    let given = [
        ("group", args.group.clone().map(Value::from)),
        ("deduplication_id", args.deduplication_id.clone().map(Value::from)),
        ("delay_seconds", args.delay.map(Value::from)),
    ];
    let given = given.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    message.extend(given);
    let mut attributes = Map::new();
    for (name, value) in args.attributes.iter().map(|text| attribute(text)).collect::<Result<Vec<_>, _>>()? {
        if attributes.contains_key(&name) {
            return Err(Failure::Usage(format!("--attribute: {name} is given twice")));
        }
        attributes.insert(name, value);
    }
    if !attributes.is_empty() {
        message.insert("attributes".to_owned(), json!(attributes));
    }
    Ok(Value::Object(message))
}

fn attribute(text: &str) -> Result<(String, Value), Failure> {
    let pair = text.split_once('=').filter(|(name, _)| !name.is_empty());
    let (name, value) =
        pair.ok_or_else(|| Failure::Usage(format!("--attribute {text}: write NAME=VALUE")))?;
    Ok((name.to_owned(), value.into()))
}
