//! Lists of queues in pages, by name.
//!
//! A page goes on behind the last name of the one before, so queues that come and go in between move nothing. The token
//! says no more than that name; it is opaque and bounded.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kew_core::Queue;

use crate::encode::{Name, Shape, Writer};
use crate::error::{Code, WireError};
use crate::limits::{self, IntegerRange};

/// What tells our tokens from anything else in Base64.
const VERSION: u8 = 1;
/// The longest text that may be a token.
const TOKEN_LENGTH: usize = 112;
/// Queues in one reply.
const PAGE: u32 = 1_000;

const MAX_RESULTS: IntegerRange = IntegerRange {
    name: "MaxResults",
    min: 1,
    max: PAGE as i64,
    reason: "MaxResults must be an integer between 1 and 1000.",
};

/// The page a request asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Page {
    /// Only names behind this one.
    pub(crate) after: Option<String>,
    /// Maximum entries of a page.
    pub(crate) max: u32,
    /// Whether the reply says where to go on: only when the request bounded the page itself.
    says_next: bool,
}

impl Page {
    pub(crate) fn read(max_results: Option<i64>, token: Option<&str>) -> Result<Self, WireError> {
        let max = MAX_RESULTS.check(max_results)?;
        let after = token.filter(|token| !token.is_empty()).map(read_token).transpose()?;
        Ok(Self { after, max: max.unwrap_or(PAGE), says_next: max.is_some() })
    }

    /// How many queues to look for: one more than are shown tells whether there are more.
    pub(crate) fn reach(&self) -> u32 {
        self.max + 1
    }
}

/// A page of queues, ready to be written.
pub(crate) struct Listed {
    name: Name,
    urls: Vec<String>,
    next: Option<String>,
}

impl Listed {
    /// The page with what [`Page::reach`] found.
    pub(crate) fn new(name: Name, page: &Page, found: &[Arc<Queue>], url: impl Fn(&Queue) -> String) -> Self {
        let shown = found.get(..page.max as usize).unwrap_or(found);
        let has_more = page.says_next && found.len() > shown.len();
        let next = shown.last().filter(|_| has_more).map(|queue| token(&queue.key.name));
        Self { name, urls: shown.iter().map(|queue| url(queue)).collect(), next }
    }
}

impl Shape for Listed {
    fn write<W: Writer>(&self, out: &mut W) {
        out.texts(self.name, &self.urls);
        if let Some(next) = &self.next {
            out.text("NextToken", next);
        }
    }

    fn size_hint(&self) -> usize {
        self.urls.iter().map(|url| url.len() + 32).sum::<usize>() + 256
    }
}

fn token(name: &str) -> String {
    let mut bytes = vec![VERSION];
    bytes.extend_from_slice(name.as_bytes());
    STANDARD.encode(bytes)
}

fn read_token(token: &str) -> Result<String, WireError> {
    let bytes = (token.len() <= TOKEN_LENGTH).then(|| STANDARD.decode(token).ok()).flatten();
    let name = bytes.and_then(|bytes| match bytes.split_first() {
        Some((&VERSION, name)) => String::from_utf8(name.to_vec()).ok(),
        _ => None,
    });
    name.filter(|name| limits::is_queue_name(name))
        .ok_or_else(|| WireError::new(Code::InvalidParameterValue).saying("Invalid or expired next token."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_go_on_behind_a_name() {
        let longest = "n".repeat(75) + ".fifo";
        for name in ["a", "orders.fifo", &longest] {
            let page = Page::read(Some(10), Some(&token(name)));
            assert_eq!(page, Ok(Page { after: Some(name.to_owned()), max: 10, says_next: true }));
        }
    }

    #[test]
    fn anything_else_is_no_token() {
        for text in ["a", "AQ==", "AmE=", "!!!!", &STANDARD.encode("\u{1}a/b"), &"A".repeat(10_000)] {
            let error = Page::read(None, Some(text)).expect_err(text);
            assert_eq!(error.code(), Code::InvalidParameterValue);
        }
        assert_eq!(Page::read(None, Some("")), Ok(Page { after: None, max: 1_000, says_next: false }));
    }

    #[test]
    fn pages_hold_one_to_a_thousand() {
        for (max, legal) in [(-1, false), (0, false), (1, true), (1_000, true), (1_001, false)] {
            assert_eq!(Page::read(Some(max), None).is_ok(), legal, "{max}");
        }
    }
}
