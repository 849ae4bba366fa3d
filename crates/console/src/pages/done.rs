//! What a form did, as the next page says it once.
//!
//! It travels in a cookie that the next page takes away, and not in the address: an address that is loaded again, kept
//! or sent to a colleague says nothing that did not happen.

use kew_http::{Reply, Request};

use super::Visit;
use super::cookies;
use super::layout::see;

const COOKIE: &str = "kew_done";
/// How long the next page may take.
const LASTS_SECONDS: u32 = 60;

/// All that can be said. The cookie holds the word before a sentence.
const SENTENCES: &[(&str, &str)] = &[
    ("made", "The queue was made."),
    ("was_there", "There was such a queue already."),
    ("saved", "The settings were saved."),
    ("paused", "Deliveries are paused. Sends are taken."),
    ("resumed", "Deliveries go on."),
    ("purged", "All messages were deleted."),
    ("sent", "The message was sent."),
    (
        "repeated",
        "Nothing new was sent: the deduplication id stands for an earlier message, which is shown here. A message \
         that it was to stand for stays where it is.",
    ),
    (
        "sent_beside",
        "The message was sent. The one that it stands for could not be deleted and may still be there.",
    ),
    ("deleted", "The message was deleted."),
    ("released", "The lease was ended."),
    ("extended", "The lease ends at another time now."),
    ("promoted", "The delay was ended."),
    ("removed", "The queue was deleted."),
    ("handed_over", "The shard was handed over."),
    ("hands_over", "The shard is on its way to its new node."),
    ("moved_shard", "The shard lies in its new database."),
    ("moves_shard", "The shard is being copied to its new database, and is served meanwhile."),
    ("stays_shard", "The shard stays where it lies."),
];

/// What the form before did, if this page is the first since.
pub(super) fn of(request: &Request) -> Option<&'static str> {
    let word = cookies::value(request, COOKIE)?;
    SENTENCES.iter().find(|(known, _)| *known == word).map(|(_, sentence)| *sentence)
}

/// Leads on to an address, whose page says what was done.
pub(super) fn see_done(visit: &Visit<'_>, address: &str, word: &'static str) -> Reply {
    cookies::set(see(address), (COOKIE, word), LASTS_SECONDS, visit.request.secure)
}

/// The page that has said it.
pub(super) fn said(page: Reply) -> Reply {
    cookies::set(page, (COOKIE, ""), 0, false)
}
