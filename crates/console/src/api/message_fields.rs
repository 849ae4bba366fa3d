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

/// What the messages of a redrive may have to fit: what a page may be asked for, but for its bounds.
pub(crate) const FILTER: &[Field] = &[
    field("state", Kind::Choice(&["visible", "any"]), "Only visible messages are moved, whichever is said")
        .default("\"visible\""),
    named(MESSAGES_QUERY, "text"),
    named(MESSAGES_QUERY, "json"),
    named(MESSAGES_QUERY, "group"),
    named(MESSAGES_QUERY, "min_attempts"),
    named(MESSAGES_QUERY, "older_than_seconds"),
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
    field("by", TEXT, "Who holds it; null where that is not remembered: pages look at the latest 200 000 events of the history").nullable().required(),
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
    field("sequence", COUNT, "Its place in the order of sends of its queue; as a cursor, pages begin there")
        .required(),
];

/// What one message may be asked for.
pub(crate) const MESSAGE_QUERY: &[Field] =
    &[field("cursor", Kind::Text(64), "`next` of a search that was not finished: it goes on from there")];

/// One message with its timeline.
pub(crate) const MESSAGE_REPLY: &[Field] = &[
    field("id", TEXT, "The message's id").required(),
    field(
        "state",
        Kind::Choice(&["visible", "in_flight", "delayed", "gone", "searching"]),
        "What it is doing; `gone` as long as the history has it, `searching` with status 202",
    )
    .required(),
    field("queue", TEXT, "The queue that it is in, or was in last; null when that is deleted").nullable(),
    field("timeline", Kind::Objects(EVENT), "What happened to it as far as is remembered, oldest first"),
    field("why", Kind::Objects(WHY), "Why it was delivered again, for each time it was"),
    field("next", TEXT, "With status 202: the cursor to go on with"),
    optional("readable"),
    optional("attempts"),
    optional("sent_at_ms"),
    optional("visible_at_ms"),
    optional("expires_at_ms"),
    optional("lease"),
    optional("group"),
    optional("deduplication_id"),
    optional("origin"),
    optional("reason"),
    optional("body"),
    optional("body_base64"),
    optional("content_type"),
    optional("attributes"),
    optional("sequence"),
];

/// A field of pages, which a message that is gone does not have.
const fn optional(name: &str) -> Field {
    Field { is_required: false, ..named(SEEN, name) }
}

/// The field of a list that has this name. Without one the table does not compile.
const fn named(fields: &[Field], name: &str) -> Field {
    let mut at = 0;
    while !is_same(fields[at].name.as_bytes(), name.as_bytes()) {
        at += 1;
    }
    fields[at]
}

const fn is_same(one: &[u8], other: &[u8]) -> bool {
    let mut at = 0;
    while at < one.len() && at < other.len() && one[at] == other[at] {
        at += 1;
    }
    at == one.len() && at == other.len()
}

const EVENT: &[Field] = &[
    field("at_ms", COUNT, "When").required(),
    field(
        "event",
        Kind::Choice(&[
            "sent",
            "leased",
            "extended",
            "lease_ended",
            "released",
            "retried",
            "failed",
            "dead_lettered",
            "dropped",
            "moved",
            "acked",
            "expired",
            "purged",
            "imported",
            "taken_over",
            "promoted",
            "rewritten",
        ]),
        "What",
    )
    .required(),
    field("queue", TEXT, "In which queue; missing when that is deleted"),
    field("by", TEXT, "Who took the lease, at most 16 bytes; the node that took the shard over"),
    field(
        "until_ms",
        COUNT,
        "The end of the lease or the delay that began; of a lease that ended by itself, when the message comes back",
    ),
    field("reason", TEXT, "Why, in a word; of `purged` it is `queue_deleted` where the queue itself went"),
    field("detail", TEXT, "What else is known, such as the other queue of a move"),
];

const WHY: &[Field] = &[
    field("at_ms", COUNT, "When it was delivered again").required(),
    field("attempts", COUNT, "How often it was leased then").required(),
    field("because", TEXT, "Why, as a sentence").required(),
];

/// What an act on a message may be asked for.
pub(crate) const ACT: &[Field] = &[field(
    "cursor",
    Kind::Text(64),
    "Where the search for the message goes on, from a refusal `search_unfinished`",
)];

/// A lease with another end.
pub(crate) const EXTEND: &[Field] =
    &[field("seconds", Kind::Whole(0, 43_200), "When its lease ends, counted from now").required(), ACT[0]];

/// A message after an act.
pub(crate) const ACTED: &[Field] = &[
    field("id", TEXT, "The message's id").required(),
    field("state", Kind::Choice(&["visible", "in_flight", "gone"]), "What it is doing now").required(),
    field("until_ms", COUNT, "When its lease ends; null without one").nullable().required(),
];

/// What a page of groups may be asked for.
pub(crate) const GROUPS_QUERY: &[Field] = &[
    field("prefix", Kind::Text(128), "Only groups whose name begins like this"),
    field("limit", Kind::Whole(1, 1_000), "Groups of one page").default("100"),
    field("cursor", Kind::Text(32), "`next` of the page before"),
];

/// A page of groups.
pub(crate) const GROUPS_REPLY: &[Field] = &[
    field("groups", Kind::Objects(GROUP), "The groups with messages, in no particular order").required(),
    field("next", TEXT, "The cursor of the next page; null on the last").nullable().required(),
];

const GROUP: &[Field] = &[
    field("group", TEXT, "Its name").required(),
    field("waiting", COUNT, "Messages in it that are not leased").required(),
    field("locked_by", TEXT, "On FIFO queues: the leased message that the others wait for")
        .nullable()
        .required(),
    field("locked_until_ms", COUNT, "When that lease ends").nullable().required(),
];

/// Which id is looked up.
pub(crate) const DEDUPLICATION_QUERY: &[Field] = &[
    field("id", Kind::Text(128), "The id, or the SHA-256 of the body in hex digits where that stands for it")
        .required(),
    field("group", Kind::Text(128), "The group, where ids count in one group; else it is ignored"),
];

/// The first send of an id.
pub(crate) const DEDUPLICATION_REPLY: &[Field] = &[
    field("ids", Kind::Objects(DEDUPLICATION), "The id, while its window is open; else none").required(),
    field("next", TEXT, "Null").nullable().required(),
];

const DEDUPLICATION: &[Field] = &[
    field("deduplication_id", TEXT, "The id").required(),
    field("group", TEXT, "The group that it counts in; null for all").nullable().required(),
    field("message", TEXT, "The message that was sent first").required(),
    field("until_ms", COUNT, "From then on the id may be sent again").required(),
];
