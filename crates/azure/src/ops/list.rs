//! List Queues: one page, sorted by name, that goes on behind the last name of the page before.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use kew_core::Queue;
use kew_engine::Listing;
use kew_http::{Reply, StatusCode};
use std::sync::Arc;

use crate::error::{Code, WireError};
use crate::target::Style;
use crate::{Context, documents, encode, limits};

pub(crate) fn list_queues(cx: &Context<'_>) -> Result<Reply, WireError> {
    let prefix = cx.params.text("prefix").unwrap_or_default();
    let asked = limits::MAX_RESULTS.read(cx.params)?;
    let marker = cx.params.filled("marker");
    let after = marker.map(read_marker).transpose()?;
    let includes = cx.params.text("include").unwrap_or_default();
    let with_metadata = includes.split(',').any(|word| word.trim().eq_ignore_ascii_case("metadata"));
    let max = asked.unwrap_or(limits::PAGE).min(limits::PAGE);
    cx.engine.check_knows_all()?;
    let (queues, more) = page(cx, prefix, after.as_deref(), max);

    let mut out = encode::document();
    out.open_with("EnumerationResults", &[("ServiceEndpoint", &endpoint(cx))]);
    if !prefix.is_empty() {
        out.element("Prefix", prefix);
    }
    if let Some(marker) = marker {
        out.element("Marker", marker);
    }
    if let Some(asked) = asked {
        out.element("MaxResults", &asked.to_string());
    }
    out.open("Queues");
    for queue in &queues {
        out.open("Queue");
        out.element("Name", &queue.key.name);
        if with_metadata {
            out.open("Metadata");
            for (name, value) in documents::metadata(queue) {
                out.element(&name, &value);
            }
            out.close("Metadata");
        }
        out.close("Queue");
    }
    out.close("Queues");
    match queues.last().filter(|_| more) {
        Some(last) => out.element("NextMarker", &URL_SAFE_NO_PAD.encode(last.key.name.as_bytes())),
        None => out.empty("NextMarker"),
    }
    out.close("EnumerationResults");
    Ok(encode::xml(StatusCode::OK, out, cx.request))
}

/// The next queues whose names are names here, and whether there are more.
fn page(cx: &Context<'_>, prefix: &str, after: Option<&str>, max: u32) -> (Vec<Arc<Queue>>, bool) {
    let mut found: Vec<Arc<Queue>> = Vec::new();
    let mut after = after.map(str::to_owned);
    let wanted = max as usize + 1;
    loop {
        let listing = Listing {
            account: cx.account.id,
            region: &cx.settings.region,
            prefix,
            after: after.as_deref(),
            max: max.saturating_add(1),
        };
        let queues = cx.engine.queues(listing);
        let is_last = queues.len() < wanted;
        after = queues.last().map(|queue| queue.key.name.to_string());
        let is_shown = |queue: &Arc<Queue>| {
            limits::is_queue_name(&queue.key.name)
                && !cx.leaving.holds(cx.account.id, &queue.key.name, cx.now())
        };
        found.extend(queues.into_iter().filter(is_shown));
        if is_last || found.len() >= wanted {
            break;
        }
    }
    let more = found.len() >= wanted;
    found.truncate(max as usize);
    (found, more)
}

/// A marker names the last queue that was shown, so that queues that come and go between two pages change nothing else.
fn read_marker(marker: &str) -> Result<String, WireError> {
    let name = URL_SAFE_NO_PAD.decode(marker).ok().and_then(|name| String::from_utf8(name).ok());
    name.filter(|name| limits::is_queue_name(name)).ok_or_else(|| Code::InvalidMarker.into())
}

fn endpoint(cx: &Context<'_>) -> String {
    let scheme = if cx.request.secure { "https" } else { "http" };
    let host = cx.request.header("host").unwrap_or("localhost");
    match cx.target.style {
        Style::Host => format!("{scheme}://{host}/"),
        Style::Path => {
            let secondary = if cx.target.is_secondary { "-secondary" } else { "" };
            format!("{scheme}://{host}/{}{secondary}", cx.account.name)
        }
    }
}
