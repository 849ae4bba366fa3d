//! ListDeadLetterSourceQueues: the queues whose dead letters go to this one.

use kew_http::Reply;
use serde::Deserialize;

use crate::decode::Text;
use crate::encode::Name;
use crate::error::WireError;
use crate::listing::{Listed, Page};
use crate::{Context, names};

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Request<'a> {
    #[serde(borrow)]
    queue_url: Option<Text<'a>>,
    max_results: Option<i64>,
    #[serde(borrow)]
    next_token: Option<Text<'a>>,
}

/// This one result spells its member with a small letter.
const QUEUE_URLS: Name = Name { json: "queueUrls", xml: "QueueUrl" };

pub(crate) fn list_dead_letter_source_queues(cx: &Context<'_>) -> Result<Reply, WireError> {
    let request: Request<'_> = cx.read()?;
    let queue = cx.queue(request.queue_url.as_deref())?;
    let page = Page::read(request.max_results, request.next_token.as_deref())?;
    cx.engine.check_knows_all()?;
    let found = cx.engine.dead_letter_sources(&queue.key, page.after.as_deref(), page.reach() as usize);
    let url = |queue: &_| names::url(cx.settings, cx.request, queue);
    Ok(cx.result(&Listed::new(QUEUE_URLS, &page, &found, url)))
}
