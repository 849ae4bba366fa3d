//! One run of a function: the handler is called, its log lines printed, its outputs written.

use std::time::Duration;

use bytes::Bytes;
use kew_azure::client::QueueMessage;
use kew_http::{HeaderMap, HeaderName, HeaderValue};
use tokio::time::Instant;

use crate::handler::Unanswered;
use crate::invocation::{self, BindingData, Identity, Payload, Reply};
use crate::log::Level;
use crate::project::{self, Function, Output};
use crate::queue::{Fault, QueueError};
use crate::shared::Shared;

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// How long an output's server that is not there is waited for, and the pauses in between.
const REACHED_WITHIN: Duration = Duration::from_secs(60);
const AGAIN_MIN: Duration = Duration::from_millis(100);
const AGAIN_MAX: Duration = Duration::from_secs(5);
/// Time without end.
const FOR_EVER: Duration = Duration::from_secs(10 * 365 * 86_400);

/// Runs a function for a message with this content; else why it failed.
pub(crate) async fn run(
    shared: &Shared,
    function: &Function,
    message: &QueueMessage,
    content: &[u8],
    id: &str,
) -> Result<(), String> {
    let known = BindingData::of(message, std::str::from_utf8(content).ok());
    let reply = ask(shared, function, content, &known, id).await?;
    for line in &reply.logs {
        shared.log.tell(Level::Info, line, &[("invocation", id)]);
    }
    for output in &function.outputs {
        write(shared, output, &reply, &known).await?;
    }
    Ok(())
}

async fn ask(
    shared: &Shared,
    function: &Function,
    content: &[u8],
    known: &BindingData,
    id: &str,
) -> Result<Reply, String> {
    shared.handler.answers().await;
    let random = shared.id();
    let identity = Identity {
        function: &function.name,
        binding: &function.trigger.name,
        now: shared.clock.now(),
        random: &random,
    };
    let body = invocation::body(identity, content, function.trigger.data_type, known);
    let within = shared.run_within.unwrap_or(FOR_EVER);
    match shared.handler.ask(&function.name, &headers(id)?, &Bytes::from(body), within).await {
        Ok(answer) => Reply::read(&answer),
        Err(Unanswered::TimedOut) => {
            Err(format!("Timeout value of {within:?} exceeded by function: Functions.{}", function.name))
        }
        Err(Unanswered::Gone) => Err("the handler has ended and is not started again".to_owned()),
        Err(Unanswered::Failed(error)) => Err(format!("the handler did not answer: {error}")),
    }
}

fn headers(id: &str) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::with_capacity(4);
    for (name, value) in [
        (HeaderName::from_static("content-type"), "application/json; charset=utf-8"),
        (HeaderName::from_static("x-azure-functions-invocationid"), id),
        (HeaderName::from_static("x-azure-functions-hostversion"), VERSION),
        (HeaderName::from_static("user-agent"), concat!("Azure-Functions-Host/", env!("CARGO_PKG_VERSION"))),
    ] {
        let value = HeaderValue::try_from(value).map_err(|error| error.to_string())?;
        headers.insert(name, value);
    }
    Ok(headers)
}

/// Puts what the reply holds for an output into its queue.
async fn write(shared: &Shared, output: &Output, reply: &Reply, known: &BindingData) -> Result<(), String> {
    let Some(value) = reply.value(&output.name) else { return Ok(()) };
    let fill = |place: &str| {
        if place.eq_ignore_ascii_case("rand-guid") { Some(shared.id()) } else { known.text(place) }
    };
    let queue = output.queue.fill(fill).map_err(|place| {
        format!(
            "the queue of output '{}' has a place {{{place}}}, for which this message has no value",
            output.name
        )
    })?;
    let queue = project::read_queue_name(&queue)?;
    let encoding = output.encoding.unwrap_or(shared.settings.encoding);
    for payload in Payload::read(value, output.data_type) {
        let text = payload.encoded(encoding);
        put(shared, output, &queue, &text)
            .await
            .map_err(|error| format!("output '{}' could not be written: {error}", output.name))?;
        shared.wakes.tell(&output.account, &queue);
    }
    Ok(())
}

/// Puts one message. While the server is not reached nothing is put, so it can be tried again: a server that is just
/// being started anew costs no try of the message that is worked on.
async fn put(shared: &Shared, output: &Output, queue: &str, text: &str) -> Result<(), QueueError> {
    let begun = Instant::now();
    let mut pause = AGAIN_MIN;
    loop {
        let put = shared.queues.put(&output.account, queue, text).await;
        match put {
            Err(QueueError { fault: Fault::Unreached(_), .. }) if begun.elapsed() < REACHED_WITHIN => {
                // Real time: the server is not reached.
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(AGAIN_MAX);
            }
            put => return put,
        }
    }
}
