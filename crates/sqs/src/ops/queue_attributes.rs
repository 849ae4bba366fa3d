//! GetQueueAttributes and SetQueueAttributes.

use std::borrow::Cow;

use kew_core::{Counts, Queue};
use kew_http::Reply;
use serde::Deserialize;

use crate::Context;
use crate::attributes::{self, Asked, Attribute, Change, Draft, Occasion, Setting};
use crate::decode::{Names, Pairs, Text, within};
use crate::encode::{NAME_VALUE, Name, Shape, Writer};
use crate::error::WireError;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct GetRequest<'a> {
    #[serde(borrow)]
    queue_url: Option<Text<'a>>,
    #[serde(borrow)]
    attribute_names: Option<Names<'a>>,
}

struct Attributes(Vec<(&'static str, Cow<'static, str>)>);

impl Shape for Attributes {
    fn write<W: Writer>(&self, out: &mut W) {
        let pairs = self.0.iter().map(|(name, text)| (name, text));
        out.map(Name { json: "Attributes", xml: "Attribute" }, NAME_VALUE, pairs);
    }
}

/// GetQueueAttributes.
pub(crate) async fn queue_attributes(cx: &Context<'_>) -> Result<Reply, WireError> {
    let request: GetRequest<'_> = cx.read()?;
    let queue = cx.queue(request.queue_url.as_deref())?;
    let names = within("AttributeNames", request.attribute_names.as_ref())?;
    let asked = Asked::read(names.iter().map(|name| &**name), queue.policy.kind.is_fifo())?;
    let counts = if asked.needs_counts() { cx.engine.counts(queue.id).await? } else { Counts::default() };
    Ok(cx.result(&Attributes(attributes::show(&queue, counts, &asked))))
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct SetRequest<'a> {
    #[serde(borrow)]
    queue_url: Option<Text<'a>>,
    #[serde(borrow)]
    attributes: Option<Pairs<'a>>,
}

/// SetQueueAttributes: all of them, or none.
pub(crate) async fn set_queue_attributes(cx: &Context<'_>) -> Result<Reply, WireError> {
    let request: SetRequest<'_> = cx.read()?;
    let queue = cx.queue(request.queue_url.as_deref())?;
    let given = request.attributes.filter(|given| !given.is_empty());
    let given = given.ok_or_else(|| WireError::missing("Attributes"))?;
    let fifo = queue.policy.kind.is_fifo();
    let settings = attributes::read(&given, Occasion::Set { fifo })?;
    attributes::change(cx, queue, |queue| plan(cx, queue, &settings)).await?;
    Ok(cx.done())
}

fn plan(cx: &Context<'_>, queue: &Queue, settings: &[(Attribute, Setting)]) -> Result<Change, WireError> {
    let before = Draft::of(queue);
    let mut after = before.clone();
    after.apply(settings)?;
    for (_, setting) in settings {
        if let Setting::RedrivePolicy(Some(policy)) = setting {
            policy.check_target(cx.engine, &queue.key, queue.policy.kind.is_fifo())?;
        }
    }
    let documents = after.writes(&before);
    Ok(Change { policy: (after.policy != before.policy).then_some(after.policy), documents })
}
