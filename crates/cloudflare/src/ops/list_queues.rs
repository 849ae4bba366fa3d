//! `GET /queues`: one page, by name, of all queues or of those with the given names.

use std::sync::Arc;

use kew_core::Queue;
use kew_engine::Listing;
use kew_http::{Reply, form};

use crate::error::{Code, WireError};
use crate::{Context, encode, limits};

/// More than any client sends: a deploy asks for the queues it names, one pair for each.
const PAIRS_MAX: usize = 1_000;

pub(crate) fn list_queues(cx: &Context<'_>) -> Result<Reply, WireError> {
    let query = Query::read(cx.request.uri.query().unwrap_or_default())?;
    let queues = if query.names.is_empty() { all(cx) } else { named(cx, &query.names) };
    let skipped = (u64::from(query.page) - 1) * u64::from(query.per_page);
    let skipped = usize::try_from(skipped).unwrap_or(usize::MAX);
    let page = queues.iter().skip(skipped).take(query.per_page as usize);
    let shown = page.map(|queue| encode::queue::queue(queue)).collect();
    Ok(encode::list(shown, query.page, query.per_page, queues.len()))
}

fn all(cx: &Context<'_>) -> Vec<Arc<Queue>> {
    let listing = Listing {
        account: cx.caller.account,
        region: &cx.settings.region,
        prefix: "",
        after: None,
        max: u32::MAX,
    };
    let mut queues = cx.engine.queues(listing);
    queues.retain(|queue| cx.is_shown(queue));
    queues
}

/// Names are compared exactly, and each queue is shown once however often it is named.
fn named(cx: &Context<'_>, names: &[String]) -> Vec<Arc<Queue>> {
    names.iter().filter_map(|name| cx.queue_named(name)).collect()
}

#[derive(Debug, PartialEq, Eq)]
struct Query {
    /// From 1.
    page: u32,
    /// From 1.
    per_page: u32,
    /// Sorted, each once.
    names: Vec<String>,
}

impl Query {
    fn read(query: &str) -> Result<Self, WireError> {
        let pairs = form::pairs(query.as_bytes(), PAIRS_MAX)
            .map_err(|error| WireError::new(Code::Schema).saying(error.to_string()))?;
        let number = |name: &'static str, default: u32| match form::first(&pairs, name) {
            None | Some("") => Ok(default),
            Some(text) => text.parse().ok().filter(|number| *number >= 1).ok_or_else(|| {
                WireError::new(Code::Schema).saying(format!("{name} must be a whole number from 1"))
            }),
        };
        let mut names: Vec<String> =
            pairs.iter().filter(|(name, _)| name == "name").map(|(_, value)| value.to_string()).collect();
        names.sort_unstable();
        names.dedup();
        Ok(Self {
            page: number("page", 1)?,
            per_page: number("per_page", limits::PER_PAGE)?.min(limits::PER_PAGE_MAX),
            names,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_and_names_are_read() {
        let read = |query: &str| Query::read(query).map_err(|error| error.code());
        let query = |page, per_page, names: &[&str]| {
            Ok(Query { page, per_page, names: names.iter().map(|name| (*name).to_owned()).collect() })
        };
        assert_eq!(read(""), query(1, 100, &[]));
        assert_eq!(read("page=2&per_page=7&other=x"), query(2, 7, &[]));
        assert_eq!(read("per_page=5000"), query(1, 1_000, &[]));
        assert_eq!(read("name=b&name=a&name=b"), query(1, 100, &["a", "b"]));
        for bad in ["page=0", "page=x", "per_page=-1", "page=%zz"] {
            assert_eq!(read(bad), Err(Code::Schema), "{bad}");
        }
    }
}
