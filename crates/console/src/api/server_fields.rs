//! What the API shows of the server itself: deliveries, store, shards, nodes, alarms, settings, sessions, the clock.

use super::fields::{Field, Kind, field};

const TEXT: Kind = Kind::Text(usize::MAX);
const COUNT: Kind = Kind::Whole(0, u64::MAX);

/// A batch that was brought to a push consumer.
pub(super) const ATTEMPT: &[Field] = &[
    field("at_ms", COUNT, "When the batch left").required(),
    field("account", TEXT, "The queue's account").required(),
    field("region", TEXT, "Its region").required(),
    field("queue", TEXT, "Its name").required(),
    field("consumer", TEXT, "The consumer's id").required(),
    field("target", TEXT, "What the consumer is").required(),
    field("batch", TEXT, "The delivery's id").required(),
    field("messages", COUNT, "Messages in it").required(),
    field("acked", COUNT, "Messages that are done").required(),
    field("outcome", Kind::Choice(&["ok", "failed", "unreached"]), "How it ended").required(),
    field("took_ms", Kind::Number, "How long it took, in real time").required(),
    field("status", COUNT, "The status of the reply").nullable().required(),
    field("error", TEXT, "What went wrong").nullable().required(),
];

/// A push consumer that cannot be reached.
pub(super) const CIRCUIT: &[Field] = &[
    field("state", Kind::Choice(&["open"]), "Nothing is leased for it").required(),
    field("account", TEXT, "The queue's account").required(),
    field("region", TEXT, "Its region").required(),
    field("queue", TEXT, "Its name").required(),
    field("consumer", TEXT, "The consumer's id").required(),
    field("target", TEXT, "What the consumer is").required(),
    field("since_ms", COUNT, "Since when").required(),
    field("tries", COUNT, "Tries that failed").required(),
    field("pause_ms", COUNT, "The pause before the next try").required(),
    field("error", TEXT, "Why the latest failed").required(),
];

/// The store.
pub(super) const STORE: &[Field] = &[
    field("kind", Kind::Choice(&["memory", "directory", "postgres"]), "What it is").required(),
    field("place", TEXT, "Where it is").required(),
    field("queues", COUNT, "Queues").required(),
    field("live_bytes", COUNT, "Bytes that messages need").required(),
    field("dead_bytes", COUNT, "Bytes that nothing needs any more").required(),
    field("sent", COUNT, "Messages sent").required(),
    field("leased", COUNT, "Leases taken").required(),
    field("acked", COUNT, "Messages deleted, by a receipt or by an operator").required(),
    field("expired", COUNT, "Messages that outlived their retention").required(),
    field("deduplicated", COUNT, "Sends that repeated an earlier one").required(),
    field("dead_lettered", COUNT, "Messages moved to a dead-letter queue").required(),
    field("dropped", COUNT, "Messages deleted because they were leased too often").required(),
    field("damaged_records", COUNT, "Stored records found damaged").required(),
];

/// A backup, running or ended.
pub(super) const BACKUP: &[Field] = &[
    field("task", TEXT, "The task").required(),
    field("to", TEXT, "The directory").required(),
    field("state", Kind::Choice(&["running", "done", "failed"]), "Where it stands").required(),
    field("bytes", COUNT, "Bytes that are in it").required(),
    field("of", COUNT, "Bytes that will be in it; 0 until that is known").required(),
    field("files", COUNT, "Its files, when it is done"),
    field("linked", COUNT, "Those of them that are the store's own under a second name"),
    field("reason", TEXT, "Why it failed, and whether something of it is left"),
];

/// A shard.
pub(super) const SHARD: &[Field] = &[
    field("shard", COUNT, "Its number").required(),
    field("database", COUNT, "The number of the database that it lies in, from 1: 1 where the store has one").required(),
    field("moving_to", COUNT, "The number of the database that it is being moved to; null where it stays")
        .nullable()
        .required(),
    field("owner", TEXT, "The node that owns it; null while none does").nullable().required(),
    field("epoch", COUNT, "Raised by every take-over").required(),
    field(
        "state",
        Kind::Choice(&["serving", "opening", "waiting", "failed", "unreachable"]),
        "Whether requests are served; `opening`: its new owner reads it; `waiting`: no node owns it; `failed`: \
         its owner may not answer just now; `unreachable`: its owner lives and does not answer this node",
    )
    .required(),
    field(
        "append_ms_p50",
        Kind::Number,
        "How long the median batch took to be durable, lately; null before the first, and where it is not known",
    )
    .nullable()
    .required(),
    field("append_ms_p99", Kind::Number, "The 99th percentile").nullable().required(),
    field("taken_over_at_ms", COUNT, "When its owner took it; null where that is not known")
        .nullable()
        .required(),
    field("reason", TEXT, "Why it is `failed`").nullable().required(),
];

/// A shard that was handed over.
pub(super) const HANDED_OVER: &[Field] = &[
    field("shard", COUNT, "Its number").required(),
    field("from", TEXT, "The node that owned it").required(),
    field("to", TEXT, "The node that owns it").required(),
    field("done", Kind::Flag, "False where it is still on its way after 5 s").required(),
];

/// A shard that is moved to another database.
pub(super) const MOVED_SHARD: &[Field] = &[
    field("shard", COUNT, "Its number").required(),
    field("from", COUNT, "The number of the database that it lay in").required(),
    field("to", COUNT, "The number of the database that it is to lie in").required(),
    field(
        "done",
        Kind::Flag,
        "False where it is still being copied after 5 s; GET /shards shows when it is there",
    )
    .required(),
];

/// A node.
pub(super) const NODE: &[Field] = &[
    field("node", TEXT, "Its name; its id where two have one name").required(),
    field("id", TEXT, "Names this run of it; null where the store has one owner").nullable().required(),
    field("address", TEXT, "Where other nodes reach it; null where there are no others")
        .nullable()
        .required(),
    field(
        "state",
        Kind::Choice(&["serving", "leaving", "failed", "unreachable"]),
        "Whether it serves requests; `leaving`: it hands its shards over and stops; `unreachable`: it lives and \
         does not answer this node",
    )
    .required(),
    field("shards", Kind::Numbers, "The shards that it owns").required(),
    field(
        "heartbeat_age_seconds",
        Kind::Number,
        "How long ago it told the database that it lives; null where it does not answer",
    )
    .nullable()
    .required(),
    field("version", TEXT, "The program's version").required(),
];

/// A rule's alarm for one queue.
pub(super) const ALARM: &[Field] = &[
    field("name", TEXT, "The rule's name").required(),
    field("queue", TEXT, "The queue; null for what belongs to none, such as the disk").nullable().required(),
    field("metric", TEXT, "What is measured").required(),
    field("state", Kind::Choice(&["ok", "firing"]), "Whether it fires").required(),
    field("since_ms", COUNT, "Since when it is so").required(),
    field("value", Kind::Number, "What was measured at the latest look").required(),
    field("bound", Kind::Number, "What the value must be above, to fire").required(),
    field("for_seconds", COUNT, "For how long").required(),
];

/// A setting.
pub(super) const CONFIG: &[Field] = &[
    field("section", TEXT, "The section of the file").required(),
    field("key", TEXT, "The key there").required(),
    field("value", TEXT, "The value; null when it is not set").nullable().required(),
    field("origin", TEXT, "Where it came from").required(),
];

/// A change, as the audit log has it.
pub(super) const AUDIT: &[Field] = &[
    field("at_ms", COUNT, "When").required(),
    field("who", TEXT, "The user; `token` for its holder, `open` where no proof is asked for").required(),
    field("action", TEXT, "The operation").required(),
    field("target", TEXT, "What it was asked of").required(),
    field("outcome", TEXT, "`ok`, or the error's code").required(),
    field(
        "times",
        COUNT,
        "How often, in the minute from then; more than 1 only for wrong passwords and tokens",
    )
    .required(),
];

/// A session that began.
pub(super) const SESSION: &[Field] = &[
    field("user", TEXT, "The user").required(),
    field("role", Kind::Choice(&["read-only", "operator"]), "What they may do").required(),
    field("csrf", TEXT, "What changes bring in X-Kew-CSRF").required(),
];

/// What a program that lives by the virtual clock has heard of it.
pub(super) const FOLLOW: &[Field] = &[
    field("id", Kind::Text(64), "Who follows").required(),
    field("change", COUNT, "The latest change that was heard of").required(),
    field("due_ms", COUNT, "When the follower has something due").nullable(),
];

/// The virtual clock.
pub(super) const CLOCK: &[Field] = &[
    field("now_ms", COUNT, "Engine time").required(),
    field("offset_ms", COUNT, "How far it is ahead of the system's").required(),
    field("frozen", Kind::Flag, "Whether it stands").required(),
];

/// The virtual clock, and what a follower hears beside.
pub(super) const CLOCK_TOLD: &[Field] = &[
    CLOCK[0],
    CLOCK[1],
    CLOCK[2],
    field("change", COUNT, "To a follower: the number of the change"),
    field("answered", Kind::Flag, "To a follower: whether receives were answered meanwhile"),
];
