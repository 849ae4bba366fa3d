//! `GET /queues`: one page, by name, of all queues or of those with the given names.

use std::ops::ControlFlow;
use std::sync::Arc;

use kew_core::Queue;
use kew_http::{Reply, form};

use crate::error::{Code, WireError};
use crate::{Context, encode, limits};

/// More than any client sends: a deploy asks for the queues it names, one pair for each.
const PAIRS_MAX: usize = 1_000;

pub(crate) fn list_queues(cx: &Context<'_>) -> Result<Reply, WireError> {
    let query = Query::read(cx.request.uri.query().unwrap_or_default())?;
    cx.engine.check_knows_all()?;
    let mut page = Page::of(&query);
    if query.names.is_empty() {
        cx.look_through(|queue| {
            page.pass(queue);
            ControlFlow::Continue(())
        });
    } else {
        // Names are compared exactly, and each queue is shown once however often it is named.
        query.names.iter().filter_map(|name| cx.queue_named(name)).for_each(|queue| page.pass(&queue));
    }
    let producers = cx.producers();
    let shown = page.queues.iter().map(|queue| encode::queue::queue(queue, &producers)).collect();
    Ok(encode::list(shown, query.page, query.per_page, page.passed))
}

/// The queues of one page, kept while all of them pass.
struct Page {
    skipped: usize,
    max: usize,
    passed: usize,
    queues: Vec<Arc<Queue>>,
}

impl Page {
    fn of(query: &Query) -> Self {
        let skipped = (u64::from(query.page) - 1) * u64::from(query.per_page);
        let skipped = usize::try_from(skipped).unwrap_or(usize::MAX);
        Self { skipped, max: query.per_page as usize, passed: 0, queues: Vec::new() }
    }

    fn pass(&mut self, queue: &Arc<Queue>) {
        if self.passed >= self.skipped && self.queues.len() < self.max {
            self.queues.push(Arc::clone(queue));
        }
        self.passed += 1;
    }
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
