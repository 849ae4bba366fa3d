//! Where our HTTP/1 differs from hyper's on purpose.
//!
//! Each is stricter: what hyper reads in one of two possible ways is answered 400 here, and the connection ends. Not
//! compared at all is leave to go on (`100 Continue`): hyper gives it also when the body is there already.

use crate::exchange::{Exchange, Replied};
use crate::streams::{self, Stream};

/// Streams that differ, and why.
pub const EXAMPLES: [(&str, &str); 6] = [
    (
        "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        "nobody here could undo another coding, so the body would be taken for what it is not",
    ),
    (
        "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "chunks within chunks mean something else to others",
    ),
    (
        "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nContent-Length: x\r\n\r\n0\r\n\r\n",
        "a length beside chunks counts for nothing, but must be one",
    ),
    (
        "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: b\n\r\n\r\n",
        "a trailer ends in a carriage return and a line feed, like a chunk",
    ),
    (
        "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\nGET / HTTP/1.1\r\nHost: h\r\n\r\n",
        "so does the empty line behind them: hyper would take the next request for trailers",
    ),
    (
        "POST / HTTP/1.0\r\nHost: h\r\nHost: h\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\n\0\
        GET / HTTP/1.0\r\nHost: h\r\n\r\n",
        "a refused body ends a connection of the old version too",
    ),
];

/// Whether two outcomes differ only in such a thing.
pub fn is_deliberate(stream: &Stream, ours: &Exchange, theirs: &Exchange) -> bool {
    is_stricter(stream, ours, theirs) || is_about_no_head(ours, theirs) || is_old_refusal(ours, theirs)
}

/// Ours has ended with 400 where such a thing is in the stream, or may be where bytes were changed by chance.
fn is_stricter(stream: &Stream, ours: &Exchange, theirs: &Exchange) -> bool {
    let Some((last, before)) = ours.replied.split_last() else { return false };
    let has = |text: &str| {
        stream.bytes().windows(text.len()).any(|part| part.eq_ignore_ascii_case(text.as_bytes()))
    };
    let is_among_them = EXAMPLES.iter().any(|(example, _)| stream.bytes() == example.as_bytes())
        || streams::CODINGS.into_iter().any(has)
        || streams::TRAILERS.into_iter().any(has);
    (is_among_them || (!stream.is_written && has("transfer-encoding")))
        && is_fault(last)
        && ours.garbage.is_empty()
        && theirs.replied.starts_with(before)
        && theirs.asked.starts_with(&ours.asked)
}

/// A head that has no end and never will have one is judged when it ends, or before: that depends on where it is cut,
/// and on whether the empty lines in front of it count. The reply to that is not compared.
fn is_about_no_head(ours: &Exchange, theirs: &Exchange) -> bool {
    let (shorter, longer) =
        if ours.replied.len() < theirs.replied.len() { (ours, theirs) } else { (theirs, ours) };
    let Some((last, before)) = longer.replied.split_last() else { return false };
    is_fault(last) && last.body.is_empty() && shorter.replied == before && ours.asked == theirs.asked
}

/// A body that is refused ends the connection also where its client speaks HTTP/1.0 and would like to keep it.
fn is_old_refusal(ours: &Exchange, theirs: &Exchange) -> bool {
    ours.replied.last().is_some_and(|last| last.lines[0].starts_with("HTTP/1.0 4"))
        && theirs.replied.starts_with(&ours.replied)
        && theirs.asked.starts_with(&ours.asked)
}

fn is_fault(reply: &Replied) -> bool {
    reply.lines[0].starts_with("HTTP/1.1 400") && reply.lines.iter().any(|line| line == "connection: close")
}
