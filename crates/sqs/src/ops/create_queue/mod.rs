//! CreateQueue: makes a queue, or finds the one of this name when nothing that is given says otherwise.

use kew_core::command::CreateQueue;
use kew_core::{Pause, Policy, Queue, QueueKey, RuleError};
use kew_engine::EngineError;
use kew_http::Reply;
use serde::Deserialize;

use crate::attributes::{self, Attribute, Draft, Occasion, Setting};
use crate::decode::{Pairs, Text};
use crate::documents::{self, Tags, Write};
use crate::error::{Code, WireError};
use crate::{Context, limits, tags};

mod misplaced;

use misplaced::Misplaced;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Request<'a> {
    #[serde(borrow)]
    queue_name: Option<Text<'a>>,
    #[serde(borrow)]
    attributes: Option<Pairs<'a>>,
    #[serde(borrow, rename = "tags")]
    tags: Option<Pairs<'a>>,
}

pub(crate) async fn create_queue(cx: &Context<'_>) -> Result<Reply, WireError> {
    let request: Request<'_> = cx.read()?;
    cx.read::<Misplaced>()?.check()?;
    let name = request.queue_name.as_deref().ok_or_else(|| WireError::missing("QueueName"))?;
    let given = request.attributes.unwrap_or_default();
    let fifo = attributes::wants_fifo(&given);
    limits::check_queue_name(name, fifo)?;
    let settings = attributes::read(&given, Occasion::Create { fifo })?;
    let key = QueueKey::new(cx.caller.account, &cx.caller.region, name);
    let known = cx.engine.queue(&key);
    let draft = new_draft(known.as_deref(), fifo, &settings)?;
    let writes = tag_writes(request.tags.as_ref(), name)?;
    if known.is_none() {
        check_name_hold(cx, &key)?;
        check_targets(cx, &key, fifo, &settings)?;
    }
    // Asked of the store even when the queue is there: it tells of a queue once that is durable.
    let queue = match cx.engine.create_queue(command(key, draft, fifo, writes)).await {
        Err(EngineError::Rule(RuleError::QueueExists(queue))) => {
            check_same(&queue, &settings)?;
            queue
        }
        created => created?,
    };
    Ok(super::queue_url(cx, &queue))
}

fn defaults(fifo: bool) -> Policy {
    if fifo { Policy::fifo() } else { Policy::standard() }
}

/// What is to be made. Settings that need others beside them find those in the queue of this name, if there is one.
fn new_draft(
    known: Option<&Queue>,
    fifo: bool,
    settings: &[(Attribute, Setting)],
) -> Result<Draft, WireError> {
    let on = |mut draft: Draft| draft.apply(settings).map(|()| draft);
    let fresh = on(Draft::new(defaults(fifo)));
    match known {
        Some(queue) => fresh.or_else(|_| on(Draft::of(queue))),
        None => fresh,
    }
}

fn tag_writes(given: Option<&Pairs<'_>>, name: &str) -> Result<Vec<Write>, WireError> {
    let Some(given) = given else { return Ok(Vec::new()) };
    let mut all = Tags::new();
    tags::add(&mut all, given, name)?;
    Ok(documents::write_tags(&all).into())
}

fn command(key: QueueKey, draft: Draft, fifo: bool, tags: Vec<Write>) -> CreateQueue {
    let writes = draft.writes(&Draft::new(defaults(fifo))).into_iter().chain(tags);
    let documents = writes.filter_map(|(key, bytes)| Some((key, bytes?))).collect();
    CreateQueue { key, policy: draft.policy, documents }
}

fn check_name_hold(cx: &Context<'_>, key: &QueueKey) -> Result<(), WireError> {
    if !cx.engine.is_paused(&Pause::Name(key.clone())) {
        return Ok(());
    }
    let seconds = cx.settings.name_hold.as_secs();
    let text = format!(
        "You must wait {seconds} seconds after deleting a queue before you can create another with the same name."
    );
    Err(WireError::new(Code::QueueDeletedRecently).saying(text))
}

fn check_targets(
    cx: &Context<'_>,
    key: &QueueKey,
    fifo: bool,
    settings: &[(Attribute, Setting)],
) -> Result<(), WireError> {
    for (_, setting) in settings {
        if let Setting::RedrivePolicy(Some(policy)) = setting {
            policy.check_target(cx.engine, key, fifo)?;
        }
    }
    Ok(())
}

/// What is not given is not compared, and tags never are.
fn check_same(queue: &Queue, settings: &[(Attribute, Setting)]) -> Result<(), WireError> {
    let Some(attribute) = Draft::of(queue).first_difference(settings) else { return Ok(()) };
    let name = attribute.name();
    let text =
        format!("A queue already exists with the same name and a different value for attribute {name}");
    Err(WireError::new(Code::QueueNameExists).saying(text))
}
