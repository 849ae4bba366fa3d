//! ListQueueTags, TagQueue and UntagQueue.

use kew_http::Reply;
use serde::Deserialize;

use crate::attributes::{self, Change};
use crate::decode::{Names, Pairs, Text, within};
use crate::documents::{self, Tags};
use crate::encode::{KEY_VALUE, Name, Shape, Writer};
use crate::error::WireError;
use crate::{Context, tags};

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Request<'a> {
    #[serde(borrow)]
    queue_url: Option<Text<'a>>,
    #[serde(borrow)]
    tags: Option<Pairs<'a>>,
    #[serde(borrow)]
    tag_keys: Option<Names<'a>>,
}

struct Tagged(Tags);

impl Shape for Tagged {
    fn write<W: Writer>(&self, out: &mut W) {
        out.map(Name { json: "Tags", xml: "Tag" }, KEY_VALUE, &self.0);
    }
}

/// ListQueueTags.
pub(crate) fn list_queue_tags(cx: &Context<'_>) -> Result<Reply, WireError> {
    let request: Request<'_> = cx.read()?;
    let queue = cx.queue(request.queue_url.as_deref())?;
    Ok(cx.result(&Tagged(documents::tags(&queue))))
}

/// TagQueue: of a key that is there the value becomes another.
pub(crate) async fn tag_queue(cx: &Context<'_>) -> Result<Reply, WireError> {
    let request: Request<'_> = cx.read()?;
    let queue = cx.queue(request.queue_url.as_deref())?;
    let more = request.tags.filter(|tags| !tags.is_empty()).ok_or_else(|| WireError::missing("Tags"))?;
    attributes::change(cx, queue, |queue| {
        retagged(documents::tags(queue), |all| tags::add(all, &more, &queue.key.name))
    })
    .await?;
    Ok(cx.done())
}

/// UntagQueue: a key that is not there is fine.
pub(crate) async fn untag_queue(cx: &Context<'_>) -> Result<Reply, WireError> {
    let request: Request<'_> = cx.read()?;
    let queue = cx.queue(request.queue_url.as_deref())?;
    let keys = within("TagKeys", request.tag_keys.as_ref())?;
    attributes::change(cx, queue, |queue| retagged(documents::tags(queue), |all| tags::remove(all, keys)))
        .await?;
    Ok(cx.done())
}

/// The change that brings other tags; none when they stay as they are.
fn retagged(
    before: Tags,
    alter: impl FnOnce(&mut Tags) -> Result<(), WireError>,
) -> Result<Change, WireError> {
    let mut after = before.clone();
    alter(&mut after)?;
    let documents = if after == before { Vec::new() } else { documents::write_tags(&after).into() };
    Ok(Change { policy: None, documents })
}
