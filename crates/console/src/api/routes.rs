//! Every operation of the API, a row for each.

use super::fields::{Kind, field};
use super::message_fields::{
    ACT, ACTED, DEDUPLICATION_QUERY, DEDUPLICATION_REPLY, EXTEND, FILTER, GROUPS_QUERY, GROUPS_REPLY,
    MESSAGE_QUERY, MESSAGE_REPLY, MESSAGES_QUERY, MESSAGES_REPLY,
};
use super::queue_fields::{DELAYED, FAILED, HOLDER, LEASED, PROCESSING, QUEUE, QUEUE_WHOLE, REDRIVE, SAMPLE};
use super::server_fields::{
    ALARM, ATTEMPT, AUDIT, BACKUP, CIRCUIT, CLOCK, CLOCK_TOLD, CONFIG, FOLLOW, HANDED_OVER, MOVED_SHARD,
    NODE, SESSION, SHARD, STORE,
};
use super::settings::SETTINGS;
use super::table::{Needs, Op, Route, get, post};

const TEXT: Kind = Kind::Text(usize::MAX);
const COUNT: Kind = Kind::Whole(0, u64::MAX);
/// The longest body of a message: what the largest queue accepts.
const BODY_MAX: usize = 1 << 20;
/// Base64 of the longest body.
const BASE64_MAX: usize = (BODY_MAX / 3 + 1) * 4;

const ACT_REFUSALS: &[(u16, &str)] = &[
    (404, "There is no such queue, or no such message in it"),
    (409, "The message is not leased, not delayed, or was not found so far in a long queue"),
];

/// All of them.
pub(crate) static ROUTES: &[Route] = &[
    get("/queues", Op::ListQueues, "listQueues", "Lists queues, sorted by account, region and name")
        .query(&[
            field("prefix", Kind::Text(200), "Only queues whose name, or account:region:name, begins like this"),
            field("limit", Kind::Whole(1, 1_000), "Queues of one page").default("100"),
            field("cursor", Kind::Text(600), "`next` of the page before"),
        ])
        .reply(&[
            field("queues", Kind::Objects(QUEUE), "The queues").required(),
            field("next", TEXT, "The cursor of the next page; null on the last").nullable().required(),
            field("silent", Kind::Texts(1_024), "Nodes that did not answer: the figures of their queues are null").required(),
        ]),
    post("/queues", Op::CreateQueue, "createQueue", "Makes a queue; one that is there with the same settings is answered 200")
        .body(&[
            field("name", Kind::Text(200), "The queue's name, or account:region:name").required(),
            field("kind", Kind::Choice(&["standard", "fifo"]), "What it keeps in order; FIFO names end in .fifo"),
            field("settings", Kind::Object(SETTINGS), "Settings other than their defaults"),
        ])
        .status(201)
        .reply(QUEUE_WHOLE)
        .refusals(&[(200, "It is there already, with these settings"), (409, "It is there with other settings, or there are too many queues")]),
    get("/queues/{q}", Op::ShowQueue, "showQueue", "Shows a queue with its settings")
        .reply(QUEUE_WHOLE)
        .refusals(&[(404, "There is no such queue")]),
    post("/queues/{q}", Op::ChangeQueue, "changeQueue", "Changes settings of a queue; null stands for the default")
        .as_method("PATCH")
        .body(&[field("settings", Kind::Object(SETTINGS), "Settings to change").required()])
        .reply(QUEUE_WHOLE)
        .refusals(&[(404, "There is no such queue"), (409, "The queue was changed at the same time")]),
    post("/queues/{q}", Op::DeleteQueue, "deleteQueue", "Deletes a queue with all its messages")
        .as_method("DELETE")
        .reply(&[field("messages", COUNT, "Messages that went with it").required()])
        .refusals(&[(404, "There is no such queue")]),
    post("/queues/{q}/purge", Op::PurgeQueue, "purgeQueue", "Deletes all messages of a queue")
        .body(&[field("confirm", Kind::Text(200), "The queue's name, as a person typed it")])
        .reply(&[field("messages", COUNT, "Messages that were deleted").required()])
        .refusals(&[(404, "There is no such queue"), (409, "`confirm` is not the queue's name")]),
    get("/queues/{q}/messages", Op::ListMessages, "listMessages", "Shows messages in every state without consuming any; one request looks at about 100 000 of them at most")
        .query(MESSAGES_QUERY)
        .reply(MESSAGES_REPLY)
        .refusals(&[(404, "There is no such queue")]),
    get("/queues/{q}/messages/{id}", Op::ShowQueueMessage, "showQueueMessage", "Shows a message of this queue with its timeline; one that has left the queue is `gone`")
        .query(MESSAGE_QUERY)
        .reply(MESSAGE_REPLY)
        .refusals(&[(202, "Not found so far in a long queue: ask again with `next` as the cursor"), (404, "There is no such queue or message")]),
    get("/messages/{id}", Op::ShowMessage, "showMessage", "Shows a message with its timeline, wherever it is")
        .query(MESSAGE_QUERY)
        .reply(MESSAGE_REPLY)
        .refusals(&[(202, "Not found so far among many messages: ask again with `next` as the cursor"), (404, "There is no such message")]),
    post("/queues/{q}/messages/{id}/delete", Op::DeleteMessage, "deleteMessage", "Deletes a message, whatever it is doing")
        .body(ACT)
        .reply(ACTED)
        .refusals(ACT_REFUSALS),
    post("/queues/{q}/messages/{id}/release", Op::ReleaseMessage, "releaseMessage", "Ends the lease of a message now")
        .body(ACT)
        .reply(ACTED)
        .refusals(ACT_REFUSALS),
    post("/queues/{q}/messages/{id}/extend", Op::ExtendMessage, "extendMessage", "Gives the lease of a message another end")
        .body(EXTEND)
        .reply(ACTED)
        .refusals(ACT_REFUSALS),
    post("/queues/{q}/messages/{id}/promote", Op::PromoteMessage, "promoteMessage", "Ends the delay of a message now")
        .body(ACT)
        .reply(ACTED)
        .refusals(ACT_REFUSALS),
    post("/queues/{q}/pause", Op::PauseQueue, "pauseQueue", "Stops deliveries of a queue in every dialect; sends are taken")
        .reply(QUEUE_WHOLE)
        .refusals(&[(404, "There is no such queue")]),
    post("/queues/{q}/resume", Op::ResumeQueue, "resumeQueue", "Lets deliveries of a queue go on")
        .reply(QUEUE_WHOLE)
        .refusals(&[(404, "There is no such queue")]),
    get("/queues/{q}/delayed", Op::ShowDelayed, "showDelayed", "Counts delayed messages by when they become visible; one request looks at about 100 000 of them at most")
        .query(&[field("cursor", Kind::Text(48), "`next` of the reply before")])
        .reply(&[
            field("slots", Kind::Objects(DELAYED), "By the minute to the end of the next hour, by the hour for two days or more, then by the day, in order").required(),
            field("messages", COUNT, "Messages counted").required(),
            field("next", TEXT, "Where to go on; null once all are counted").nullable().required(),
        ])
        .refusals(&[(404, "There is no such queue")]),
    get("/queues/{q}/leases", Op::ShowLeases, "showLeases", "Counts the leases of a queue by who holds them; one request looks at about 100 000 messages at most")
        .reply(&[
            field("consumers", Kind::Objects(HOLDER), "Who holds leases, those with the most first; at most 100").required(),
            field("leases", COUNT, "Leases counted, also of further consumers").required(),
            field("counted_all", Kind::Flag, "Whether all messages were looked at; of a very long queue only its beginning is").required(),
        ])
        .refusals(&[(404, "There is no such queue")]),
    get("/queues/{q}/processing", Op::ShowProcessing, "showProcessing", "Shows how long consumers kept the messages that they deleted, of the latest 50 000 events of the queue that the history remembers, and which visibility timeout would suit that")
        .reply(PROCESSING)
        .refusals(&[(404, "There is no such queue")]),
    get("/queues/{q}/groups", Op::ListGroups, "listGroups", "Shows groups with messages, and which message locks each")
        .query(GROUPS_QUERY)
        .reply(GROUPS_REPLY)
        .refusals(&[(404, "There is no such queue")]),
    get("/queues/{q}/deduplication", Op::FindDeduplication, "findDeduplication", "Looks a deduplication id up; ids are kept as hashes, so they cannot be listed")
        .query(DEDUPLICATION_QUERY)
        .reply(DEDUPLICATION_REPLY)
        .refusals(&[(404, "There is no such queue")]),
    post("/queues/{q}/messages", Op::SendMessage, "sendMessage", "Sends a message")
        .body(&[
            field("body", Kind::Text(BODY_MAX), "The body as text; or else `body_base64`. Text and bytes may be empty, on a standard queue"),
            field("body_base64", Kind::Text(BASE64_MAX), "The body as Base64, for `bytes` and `v8`"),
            field("content_type", Kind::Choice(&["text", "json", "bytes", "v8"]), "How receivers read the body").default("\"text\""),
            field("group", Kind::Text(128), "The group; a message of a FIFO queue needs one"),
            field("deduplication_id", Kind::Text(128), "What marks a repeat of the same send, on FIFO queues"),
            field("delay_seconds", Kind::Whole(0, 86_400), "How long it is hidden first; the queue's delay when missing"),
            field("attributes", Kind::Free, "At most ten; each is a text, or {\"type\",\"value\"} with type String, Number or Binary (Base64). SQS shows them"),
        ])
        .status(201)
        .reply(&[
            field("id", TEXT, "The message's id").required(),
            field("duplicate", Kind::Flag, "Whether it repeats an earlier send, whose id this is").required(),
        ])
        .refusals(&[(404, "There is no such queue"), (413, "The body is longer than the queue accepts"), (507, "No space is left")]),
    post("/queues/{q}/receive", Op::ReceiveMessages, "receiveMessages", "Leases messages: each is hidden until its lease ends or is settled")
        .body(&[
            field("max", Kind::Whole(1, 100), "Messages at most").default("1"),
            field("wait_seconds", Kind::Whole(0, 20), "How long to wait when there is none").default("0"),
            field("visibility_seconds", Kind::Whole(0, 43_200), "How long each is hidden; the queue's setting when missing"),
        ])
        .reply(&[field("messages", Kind::Objects(LEASED), "The messages").required()])
        .refusals(&[(404, "There is no such queue")]),
    post("/queues/{q}/settle", Op::SettleMessages, "settleMessages", "Ends leases: deletes messages, or shows them again")
        .body(&[
            field("delete", Kind::Texts(100), "Receipts of messages to delete"),
            field("release", Kind::Texts(100), "Receipts of messages to show again at once"),
        ])
        .reply(&[
            field("deleted", COUNT, "Messages deleted").required(),
            field("released", COUNT, "Messages shown again").required(),
            field("failed", Kind::Objects(FAILED), "Receipts that count no more, and why").required(),
        ])
        .refusals(&[(404, "There is no such queue")]),
    post("/queues/{q}/redrive", Op::Redrive, "redrive", "Moves the visible messages of a queue, all or those that fit a filter, as a task that goes on by itself. A dry run changes nothing: only one that was refused is in the audit log, as `countRedrive`")
        .body(&[
            field("to", Kind::Text(200), "A queue; `origin` returns each to the queue it came from").required(),
            field("filter", Kind::Object(FILTER), "Only messages that fit it, each for itself: one that is leased when its turn comes, or has no queue to go to, stays and keeps none behind it. Without a filter the task stops at such a message. `{}` fits all"),
            field("per_second", Kind::Whole(1, 1_000_000), "Messages a second; as fast as possible when missing"),
            field("dry_run", Kind::Flag, "Only count what would be moved").default("false"),
        ])
        .reply(&[
            field("matched", COUNT, "Visible messages now; with a filter those that fit. A dry run and a filter count those that have no queue to go to apart").required(),
            field("cannot_move", COUNT, "Of a dry run or with a filter: messages that fit beside those, and have no queue to go to. They stay; without a filter the task stops at the first of them"),
            field("counted_all", Kind::Flag, "Of a dry run or with a filter: whether all messages were counted; of a very long queue only its beginning is"),
            field("task", TEXT, "The task, unless it was a dry run").nullable(),
        ])
        .refusals(&[(404, "There is no such queue"), (409, "A task is running on this queue, the kinds differ, or 8 tasks with a filter run")]),
    get("/queues/{q}/samples", Op::ShowSamples, "showSamples", "Shows a queue over time, from looks every 5 s since it is in use; of the 256 queues used last")
        .query(&[
            field("seconds", Kind::Whole(5, 604_800), "How far to look back").default("300"),
            field("step", Kind::Whole(5, 86_400), "Seconds of one sample; the reply says what it is, which may be more"),
        ])
        .reply(&[
            field("step", COUNT, "Seconds of one sample").required(),
            field("samples", Kind::Objects(SAMPLE), "The samples, oldest first").required(),
        ])
        .refusals(&[(404, "There is no such queue")]),
    get("/redrives/{task}", Op::ShowRedrive, "showRedrive", "Shows how far a task is")
        .reply(REDRIVE)
        .refusals(&[(404, "There is no such task")]),
    post("/redrives/{task}/cancel", Op::CancelRedrive, "cancelRedrive", "Stops a task; what was moved stays moved")
        .reply(REDRIVE)
        .refusals(&[(404, "There is no such task"), (409, "It has ended: the message says how")]),
    get("/push/attempts", Op::PushAttempts, "pushAttempts", "What came of batches brought to consumers lately, newest first, and which cannot be reached")
        .query(&[
            field("queue", Kind::Text(200), "Only of this queue, by its name alone"),
            field("consumer", Kind::Text(200), "Only of this consumer"),
            field("outcome", Kind::Choice(&["ok", "failed", "unreached"]), "Only those that ended so"),
            field("max", Kind::Whole(1, 1_000), "Attempts at most").default("100"),
        ])
        .reply(&[
            field("attempts", Kind::Objects(ATTEMPT), "The attempts").required(),
            field("circuits", Kind::Objects(CIRCUIT), "Consumers that cannot be reached").required(),
        ]),
    get("/store", Op::ShowStore, "showStore", "Figures of the store since the server started").reply(STORE),
    post("/store/backup", Op::BeginBackup, "beginBackup", "Backs the store up while it is in use, as a task that goes on by itself; the backup is a store as it was at one moment")
        .body(&[
            field("to", Kind::Text(4_096), "The directory on the server's machine: an absolute path of one that is missing or empty").required(),
            field("link", Kind::Flag, "Give files that do not change any more a second name instead of copying them: quick, but damage to one is damage to both. Where the directory is on another disk they are copied").default("false"),
        ])
        .status(202)
        .reply(&[field("task", TEXT, "The task").required()])
        .refusals(&[(409, "A backup runs, the directory is not empty, or the store is no directory: the message says what to do instead")]),
    get("/store/backups/{task}", Op::ShowBackup, "showBackup", "Shows how far a backup is; the last 16 since the server started are known")
        .reply(BACKUP)
        .refusals(&[(404, "There is no such task")]),
    get("/shards", Op::ShowShards, "showShards", "Every shard of the store, and which node keeps it; in a fleet each node tells of its own")
        .reply(&[
            field("shards", Kind::Objects(SHARD), "The shards").required(),
            field("databases", COUNT, "How many databases the store lies in").required(),
        ]),
    post("/shards/{shard}/hand-over", Op::HandOverShard, "handOverShard", "Has the node that keeps a shard hand it to another one. Its queues pause for a moment; requests wait for that. It stays there until a node joins or leaves")
        .body(&[field("to", Kind::Text(200), "The node, by its name or id; the one with the fewest shards when missing")])
        .reply(HANDED_OVER)
        .refusals(&[(404, "There is no such shard"), (409, "The store has one owner, no such node lives, it is about to stop, or no node keeps the shard just now")]),
    post("/shards/{shard}/move", Op::MoveShard, "moveShard", "Moves a shard to another database of the store. Its owner copies it while it serves it, and then its queues pause for a moment. Naming the database that it lies in ends a move")
        .body(&[field("database", Kind::Whole(1, 65_535), "The number of the database, from 1").required()])
        .reply(MOVED_SHARD)
        .refusals(&[(404, "There is no such shard"), (409, "The store does not lie in several databases, or has fewer of them")]),
    get("/nodes", Op::ListNodes, "listNodes", "The nodes that live")
        .reply(&[field("nodes", Kind::Objects(NODE), "The nodes").required()]),
    get("/alarms", Op::ListAlarms, "listAlarms", "The alarms of the rules in the settings, looked at every 5 s, those that fire first; at most 10 000")
        .reply(&[field("alarms", Kind::Objects(ALARM), "One for each rule and queue it is for").required()]),
    get("/config", Op::ShowConfig, "showConfig", "Every setting with its value and where that came from; secrets are hidden")
        .reply(&[field("settings", Kind::Objects(CONFIG), "The settings").required()]),
    get("/audit", Op::ShowAudit, "showAudit", "Changes made through this API since the server started, newest first; at most 10 000 are kept")
        .query(&[
            field("limit", Kind::Whole(1, 1_000), "Entries of one page").default("100"),
            field("cursor", Kind::Text(32), "`next` of the page before"),
        ])
        .reply(&[
            field("entries", Kind::Objects(AUDIT), "The entries").required(),
            field("next", TEXT, "The cursor of the next page; null on the last").nullable().required(),
        ]),
    post("/session", Op::BeginSession, "beginSession", "Begins a session: answers the cookie `kew_session`, and the value that changes bring in X-Kew-CSRF")
        .needs(Needs::Nothing)
        .body(&[
            field("user", Kind::Text(256), "The user's name, with the password"),
            field("password", Kind::Text(4_096), "The password"),
            field("token", Kind::Text(4_096), "The admin token, in place of both"),
        ])
        .reply(SESSION)
        .refusals(&[(401, "User or password is wrong, or the token"), (429, "Too many wrong passwords; Retry-After says when to try again")]),
    get("/session", Op::ShowSession, "showSession", "Who asks")
        .reply(&[
            field("user", TEXT, "The user; `token` for its holder, `open` where no proof is asked for").required(),
            field("role", Kind::Choice(&["read-only", "operator"]), "What they may do").required(),
            field("csrf", TEXT, "What changes bring in X-Kew-CSRF; null without a session").nullable().required(),
        ]),
    post("/session", Op::EndSession, "endSession", "Ends the session of the cookie")
        .as_method("DELETE")
        .needs(Needs::Known)
        .reply(&[field("ended", Kind::Flag, "True").required()]),
    get("/clock", Op::ShowClock, "showClock", "Shows the virtual clock").reply(CLOCK).refusals(&[(404, "The clock is the system's")]),
    post("/clock", Op::MoveClock, "moveClock", "Moves or freezes the virtual clock, or waits for its next change; takes exactly one member")
        .body(&[
            field("advance_ms", Kind::Whole(0, 315_619_200_000), "Milliseconds to jump ahead"),
            field("freeze", Kind::Flag, "Whether time stands"),
            field("follow", Kind::Object(FOLLOW), "Waits for the next change, for programs that live by this clock"),
        ])
        .reply(CLOCK_TOLD)
        .refusals(&[(404, "The clock is the system's")]),
    post("/clock/confirm", Op::ConfirmClock, "confirmClock", "Says that a clock that leapt is right, so that messages expire again")
        .reply(&[field("confirmed", Kind::Flag, "Whether expiry was held").required()]),
    get("/openapi.json", Op::OpenApi, "openApi", "This document").reply(&[
        field("openapi", TEXT, "The version of OpenAPI").required(),
        field("info", Kind::Free, "What this is").required(),
        field("servers", Kind::Objects(&[field("url", TEXT, "Where it is served").required()]), "Where").required(),
        field("paths", Kind::Free, "The operations").required(),
        field("components", Kind::Free, "What they share").required(),
    ]),
];
