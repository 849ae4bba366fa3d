//! How traces go on from messages to their target: what a delivery names as its place in a trace.

use std::fmt;
use std::sync::Arc;

use kew_core::outcome::Leased;
use kew_core::{Content, Entropy};
use kew_http::TraceContext;

/// Messages of a batch whose traces are linked from its delivery.
const LINKS_MAX: usize = 32;

/// Which trace a message belongs to, and what is made of it.
#[derive(Clone)]
pub struct Traces {
    /// The trace that a message belongs to.
    pub of: Arc<TraceOf>,
    /// Whether each delivery is a span of its own, which somebody records.
    pub record: bool,
}

/// Reads the trace of a stored message.
pub type TraceOf = dyn Fn(&Content) -> Option<TraceContext> + Send + Sync;

impl Default for Traces {
    fn default() -> Self {
        Self { of: Arc::new(|_| None), record: false }
    }
}

impl fmt::Debug for Traces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Traces").field("record", &self.record).finish_non_exhaustive()
    }
}

/// The place of a delivery in a trace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Traced {
    /// What its target is given as the parent of its own work.
    pub own: TraceContext,
    /// The span that sent its messages, where all are of one trace.
    pub parent: Option<u64>,
    /// The places of its messages.
    pub links: Vec<TraceContext>,
}

impl Traces {
    /// The place of a delivery of these messages. Where it is not recorded, it hands on the trace that all its messages
    /// share; otherwise it is a span in that trace, or in a new one.
    pub(crate) fn traced(&self, messages: &[Leased], entropy: &dyn Entropy) -> Option<Traced> {
        let mut links: Vec<TraceContext> = Vec::new();
        let mut are_of_one = true;
        for context in messages.iter().filter_map(|leased| (self.of)(&leased.message.content)) {
            are_of_one &= links.first().is_none_or(|first| first.trace == context.trace);
            if links.len() < LINKS_MAX && !links.contains(&context) {
                links.push(context);
            }
        }
        let shared = links.first().copied().filter(|_| are_of_one);
        if !self.record {
            return shared.map(|own| Traced { own, parent: None, links });
        }
        // Zero stands for no trace and no span.
        let span = entropy.bits().max(1);
        let own = match shared {
            Some(first) => TraceContext { span, ..first },
            None => TraceContext { trace: entropy.wide_bits().max(1), span, is_sampled: true },
        };
        Some(Traced { own, parent: shared.map(|first| first.span), links })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::tests::leased;
    use kew_core::ContentType;

    struct Counting;

    impl Entropy for Counting {
        fn bits(&self) -> u64 {
            9
        }

        fn wide_bits(&self) -> u128 {
            99
        }
    }

    /// A message whose body is the number of its trace.
    fn messages(bodies: &[&'static [u8]]) -> Vec<Leased> {
        bodies.iter().map(|body| leased(ContentType::Text, body)).collect()
    }

    fn traces(record: bool) -> Traces {
        let of = |content: &Content| {
            let number = std::str::from_utf8(&content.body).ok()?.parse().ok()?;
            Some(TraceContext { trace: number, span: 5, is_sampled: false })
        };
        Traces { of: Arc::new(of), record }
    }

    fn traced(record: bool, bodies: &[&'static [u8]]) -> Option<(u128, u64, Option<u64>, usize)> {
        let traced = traces(record).traced(&messages(bodies), &Counting)?;
        Some((traced.own.trace, traced.own.span, traced.parent, traced.links.len()))
    }

    #[test]
    fn a_delivery_that_nobody_records_hands_on_the_trace_that_its_messages_share() {
        assert_eq!(traced(false, &[b"7", b"7", b"none"]), Some((7, 5, None, 1)));
        assert_eq!(traced(false, &[b"7", b"8"]), None);
        assert_eq!(traced(false, &[b"none"]), None);
    }

    #[test]
    fn a_recorded_delivery_is_a_span_in_the_shared_trace_or_in_a_new_one_with_links() {
        assert_eq!(traced(true, &[b"7"]), Some((7, 9, Some(5), 1)));
        assert_eq!(traced(true, &[b"7", b"8"]), Some((99, 9, None, 2)));
        assert_eq!(traced(true, &[b"none"]), Some((99, 9, None, 0)));
    }
}
