//! ListQueues: the caller's queues of a region, by name.

use kew_engine::Listing;
use kew_http::Reply;
use serde::Deserialize;

use crate::decode::Text;
use crate::encode::Name;
use crate::error::WireError;
use crate::listing::{Listed, Page};
use crate::{Context, limits, names};

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Request<'a> {
    #[serde(borrow)]
    queue_name_prefix: Option<Text<'a>>,
    max_results: Option<i64>,
    #[serde(borrow)]
    next_token: Option<Text<'a>>,
}

const QUEUE_URLS: Name = Name { json: "QueueUrls", xml: "QueueUrl" };

pub(crate) fn list_queues(cx: &Context<'_>) -> Result<Reply, WireError> {
    let request: Request<'_> = cx.read()?;
    let page = Page::read(request.max_results, request.next_token.as_deref())?;
    cx.engine.check_knows_all()?;
    let mut found = Vec::new();
    let mut after = page.after.clone();
    while found.len() < page.reach() as usize {
        let listing = Listing {
            account: cx.caller.account,
            region: &cx.caller.region,
            prefix: request.queue_name_prefix.as_deref().unwrap_or_default(),
            after: after.as_deref(),
            max: page.reach(),
        };
        let more = cx.engine.queues(listing);
        let Some(last) = more.last() else { break };
        after = Some(last.key.name.to_string());
        // A queue of another dialect whose name means nothing here is not listed here.
        found.extend(more.into_iter().filter(|queue| limits::is_queue_name(&queue.key.name)));
    }
    let url = |queue: &_| names::url(cx.settings, cx.request, queue);
    Ok(cx.result(&Listed::new(QUEUE_URLS, &page, &found, url)))
}
