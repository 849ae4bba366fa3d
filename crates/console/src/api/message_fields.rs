//! What looks at messages take and answer: fields of the table.

use super::fields::{Field, Kind, field};

const TEXT: Kind = Kind::Text(usize::MAX);
const COUNT: Kind = Kind::Whole(0, u64::MAX);
const CONTENT_TYPE: Kind = Kind::Choice(&["text", "json", "bytes", "v8"]);

/// What a page of messages may be asked for.
pub(crate) const MESSAGES_QUERY: &[Field] = &[
    field("state", Kind::Choice(&["visible", "in_flight", "delayed", "any"]), "Only messages in this state")
        .default("\"any\""),
    field(
        "text",
        Kind::Text(4_096),
        "Only messages with this text in `body` or `body_base64`, letter by letter",
    ),
    field(
        "json",
        Kind::Text(4_096),
        "Only messages whose body is JSON with this value at this path: `$.order.lines[0].sku=A-1`. What is no JSON \
         value is a text; a path that is missing does not match",
    ),
    field("group", Kind::Text(128), "Only messages of this group"),
    field("min_attempts", Kind::Whole(0, u32::MAX as u64), "Only messages that were leased this often")
        .default("0"),
    field("older_than_seconds", Kind::Whole(0, 315_576_000), "Only messages that were sent so long ago"),
    field("limit", Kind::Whole(1, 1_000), "Messages of one page").default("100"),
    field("cursor", Kind::Text(32), "`next` of the page before"),
];

/// A page of messages.
pub(crate) const MESSAGES_REPLY: &[Field] = &[
    field(
        "messages",
        Kind::Objects(SEEN),
        "The messages in the order of sends; maybe none, though more follow",
    )
    .required(),
    field("next", TEXT, "The cursor of the next page; null on the last").nullable().required(),
];

const SEEN_LEASE: &[Field] = &[
    field("by", TEXT, "Who holds it; null where that is not remembered, and in pages").nullable().required(),
    field("since_ms", COUNT, "When it was taken; null where that is not known").nullable().required(),
    field("until_ms", COUNT, "When it ends; null while a push consumer keeps it").nullable().required(),
];

const SEEN: &[Field] = &[
    field("id", TEXT, "The message's id; of no meaning where it is not readable").required(),
    field("state", Kind::Choice(&["visible", "in_flight", "delayed"]), "What it is doing").required(),
    field("readable", Kind::Flag, "Whether its content could be read from the store").required(),
    field("attempts", COUNT, "How often it was leased").required(),
    field("sent_at_ms", COUNT, "When it was sent").required(),
    field("visible_at_ms", COUNT, "When its delay or its lease ends; null while it is visible")
        .nullable()
        .required(),
    field("expires_at_ms", COUNT, "When it is deleted unread; null is never").nullable().required(),
    field("lease", Kind::Object(SEEN_LEASE), "Its lease; null without one").nullable().required(),
    field("group", TEXT, "Its group").nullable().required(),
    field("deduplication_id", TEXT, "The id it was deduplicated by").nullable().required(),
    field("origin", TEXT, "The queue that it was moved from").nullable().required(),
    field("reason", Kind::Choice(&["attempts_exhausted", "redriven"]), "Why it was moved")
        .nullable()
        .required(),
    field("body", TEXT, "The body, where it is text"),
    field("body_base64", TEXT, "The body, where it is not"),
    field("content_type", CONTENT_TYPE, "How to read it").required(),
    field("attributes", Kind::Free, "Its attributes, each with type and value").required(),
];
