//! What the API shows of a queue, of received messages, of samples and of tasks that move messages.

use super::fields::{Field, Kind, field};
use super::settings::SETTINGS;

const TEXT: Kind = Kind::Text(usize::MAX);
const COUNT: Kind = Kind::Whole(0, u64::MAX);

/// What every listing of queues shows. Figures are null where the node that keeps the queue does not answer.
pub(super) const QUEUE: &[Field] = &[
    field("queue", TEXT, "What stands for it in paths: its name, or account:region:name").required(),
    field("name", TEXT, "Its name").required(),
    field("account", TEXT, "Its account, 12 digits").required(),
    field("region", TEXT, "Its region").required(),
    field("kind", Kind::Choice(&["standard", "fifo"]), "What it keeps in order").required(),
    field(
        "visible",
        COUNT,
        "Messages that may be leased; figures are null where the node that keeps the queue does not answer",
    )
    .nullable()
    .required(),
    field("in_flight", COUNT, "Messages that are leased").nullable().required(),
    field("delayed", COUNT, "Messages hidden by a delay").nullable().required(),
    field("body_bytes", COUNT, "Bytes of all bodies").nullable().required(),
    field(
        "oldest_age_seconds",
        Kind::Number,
        "Since the oldest message was sent; null when it is empty, or not known",
    )
    .nullable()
    .required(),
    field("sent_per_second", Kind::Number, "Messages sent or moved in each second, in the last few seconds")
        .nullable()
        .required(),
    field("leased_per_second", Kind::Number, "Leases taken each second").nullable().required(),
    field("acked_per_second", Kind::Number, "Messages deleted, by a receipt or by an operator each second")
        .nullable()
        .required(),
    field("dead_letters_to", TEXT, "Where messages go after `max_attempts` leases").nullable().required(),
    field("max_attempts", COUNT, "Leases of a message that are allowed").nullable().required(),
    field("paused", Kind::Flag, "Whether deliveries are paused").required(),
    field("shard", COUNT, "The shard that it is in").required(),
];

/// A queue alone.
pub(super) const QUEUE_WHOLE: &[Field] = &[
    QUEUE[0],
    QUEUE[1],
    QUEUE[2],
    QUEUE[3],
    QUEUE[4],
    QUEUE[5],
    QUEUE[6],
    QUEUE[7],
    QUEUE[8],
    QUEUE[9],
    QUEUE[10],
    QUEUE[11],
    QUEUE[12],
    QUEUE[13],
    QUEUE[14],
    QUEUE[15],
    QUEUE[16],
    field(
        "takes_dead_letters",
        Kind::Flag,
        "Whether another queue's dead letters go to it, or some of its 50 oldest messages were moved here",
    )
    .required(),
    field("settings", Kind::Object(SETTINGS), "All its settings").required(),
    field("created_at_ms", COUNT, "When it was made").required(),
    field("modified_at_ms", COUNT, "When it was last changed").required(),
];

/// Who holds leases of a queue.
pub(super) const HOLDER: &[Field] = &[
    field("by", TEXT, "Who; null for leases of which that is not remembered").nullable().required(),
    field("leases", COUNT, "Messages that it holds").required(),
    field("since_ms", COUNT, "When it took the oldest of them; null where that is not known")
        .nullable()
        .required(),
    field("until_ms", COUNT, "When the first of them ends; null while a push consumer keeps all of them")
        .nullable()
        .required(),
];

/// A message that was received.
pub(super) const LEASED: &[Field] = &[
    field("id", TEXT, "The message's id").required(),
    field("receipt", TEXT, "What settles it").required(),
    field("body", TEXT, "The body, where it is text"),
    field("body_base64", TEXT, "The body, where it is not"),
    field("content_type", Kind::Choice(&["text", "json", "bytes", "v8"]), "How to read it").required(),
    field("attempts", COUNT, "How often it was leased, this time included").required(),
    field("sent_at_ms", COUNT, "When it was sent").required(),
    field("until_ms", COUNT, "When the lease ends").required(),
    field("group", TEXT, "Its group").nullable().required(),
    field("deduplication_id", TEXT, "The id it was deduplicated by").nullable().required(),
    field("attributes", Kind::Free, "Its attributes, each with type and value").required(),
];

/// A receipt that does not count.
pub(super) const FAILED: &[Field] = &[
    field("receipt", TEXT, "The receipt").required(),
    field("code", TEXT, "Why it does not count").required(),
];

/// A queue at the end of a step.
pub(super) const SAMPLE: &[Field] = &[
    field("at_ms", COUNT, "The end of the step").required(),
    field("visible", COUNT, "Messages that could be leased then").required(),
    field("in_flight", COUNT, "Messages that were leased then").required(),
    field("delayed", COUNT, "Messages hidden by a delay then").required(),
    field("oldest_age_seconds", COUNT, "Age of the oldest message then").nullable().required(),
    field("sent", COUNT, "Messages sent or moved in, in the step").required(),
    field("leased", COUNT, "Leases taken in the step").required(),
    field("acked", COUNT, "Messages deleted, by a receipt or by an operator in the step").required(),
    field("p50_ms", Kind::Number, "How long half of the messages that were leased for the first time in the step had waited at most, from the instant they could be leased, to within a factor of two; null when there were none").nullable().required(),
    field("p99_ms", Kind::Number, "The same of 99 %; of several steps the highest").nullable().required(),
];

/// Delayed messages that become visible in a span of time.
pub(super) const DELAYED: &[Field] = &[
    field("from_ms", COUNT, "Its beginning").required(),
    field("until_ms", COUNT, "Its end").required(),
    field("messages", COUNT, "Messages that become visible in it").required(),
];

/// How long consumers kept messages.
pub(super) const PROCESSING: &[Field] = &[
    field("messages", COUNT, "Messages that a consumer deleted, of those whose lease the history remembers").required(),
    field("lapsed", COUNT, "Leases that ran out").required(),
    field("p50_ms", COUNT, "How long half of the messages were kept at most, from the lease to the deletion; null when there were none").nullable().required(),
    field("p99_ms", COUNT, "The same of 99 %").nullable().required(),
    field("visibility_seconds", COUNT, "The visibility timeout of the queue").required(),
    field("suggested_seconds", COUNT, "The visibility timeout that would suit: twice what 99 % need, rounded up; null with fewer than 20 messages").nullable().required(),
    field("bounds_ms", Kind::Numbers, "What the counts of a slot are below, in order; the last takes all longer ones too").required(),
    field("slots", Kind::Objects(PROCESSED), "Twelve equal parts of the time in which the messages were deleted, in order").required(),
];

/// A part of that time.
const PROCESSED: &[Field] = &[
    field("from_ms", COUNT, "Its beginning").required(),
    field("until_ms", COUNT, "Its end").required(),
    field("counts", Kind::Numbers, "Messages by how long they were kept, one count for each of `bounds_ms`")
        .required(),
];

/// A task that moves messages.
pub(super) const REDRIVE: &[Field] = &[
    field("task", TEXT, "The task").required(),
    field("source", TEXT, "The queue that messages are moved from").required(),
    field("to", TEXT, "Where they go; `origin` is where each came from").required(),
    field("state", Kind::Choice(&["running", "done", "cancelled", "failed"]), "Where it stands").required(),
    field("moved", COUNT, "Messages moved").required(),
    field("left", COUNT, "Messages left of those that were counted at its beginning").required(),
    field("filter", Kind::Free, "What the messages have to fit; null where all are moved")
        .nullable()
        .required(),
    field("reason", TEXT, "Why it failed, or why messages are left").nullable(),
];
