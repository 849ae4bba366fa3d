//! Every operation of the API: its method and path, who may ask for it, what it takes and what it answers.
//!
//! Requests are routed and checked by this table, and the OpenAPI document is written from it, so that neither can say
//! something else than the other.

use super::fields::{Field, Kind, field};
use super::message_fields::{
    ACT, ACTED, DEDUPLICATION_QUERY, DEDUPLICATION_REPLY, EXTEND, GROUPS_QUERY, GROUPS_REPLY, MESSAGE_QUERY,
    MESSAGE_REPLY, MESSAGES_QUERY, MESSAGES_REPLY,
};
use super::settings::SETTINGS;

/// An operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Op {
    ListQueues,
    CreateQueue,
    ShowQueue,
    ChangeQueue,
    DeleteQueue,
    PurgeQueue,
    ListMessages,
    ShowQueueMessage,
    ShowMessage,
    DeleteMessage,
    ReleaseMessage,
    ExtendMessage,
    PromoteMessage,
    PauseQueue,
    ResumeQueue,
    ListGroups,
    FindDeduplication,
    SendMessage,
    ReceiveMessages,
    SettleMessages,
    Redrive,
    ShowRedrive,
    CancelRedrive,
    ShowSamples,
    PushAttempts,
    ShowStore,
    BeginBackup,
    ShowBackup,
    ShowShards,
    ListNodes,
    ListAlarms,
    ShowConfig,
    ShowAudit,
    BeginSession,
    ShowSession,
    EndSession,
    ShowClock,
    MoveClock,
    ConfirmClock,
    OpenApi,
}

impl Op {
    /// Whether its reply tells what the store holds. Other replies are of the node itself, which may tell of itself
    /// also when another one owns the store.
    pub(crate) fn tells_of_store(self) -> bool {
        match self {
            Self::ListQueues
            | Self::CreateQueue
            | Self::ShowQueue
            | Self::ChangeQueue
            | Self::DeleteQueue
            | Self::PurgeQueue
            | Self::ListMessages
            | Self::ShowQueueMessage
            | Self::ShowMessage
            | Self::DeleteMessage
            | Self::ReleaseMessage
            | Self::ExtendMessage
            | Self::PromoteMessage
            | Self::PauseQueue
            | Self::ResumeQueue
            | Self::ListGroups
            | Self::FindDeduplication
            | Self::SendMessage
            | Self::ReceiveMessages
            | Self::SettleMessages
            | Self::Redrive
            | Self::ShowRedrive
            | Self::CancelRedrive
            | Self::ShowSamples
            | Self::ShowStore => true,
            Self::PushAttempts
            | Self::BeginBackup
            | Self::ShowBackup
            | Self::ShowShards
            | Self::ListNodes
            | Self::ListAlarms
            | Self::ShowConfig
            | Self::ShowAudit
            | Self::BeginSession
            | Self::ShowSession
            | Self::EndSession
            | Self::ShowClock
            | Self::MoveClock
            | Self::ConfirmClock
            | Self::OpenApi => false,
        }
    }
}

/// Who may ask for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Needs {
    /// Everybody who may reach the API.
    Nothing,
    /// Somebody who is known.
    Known,
    /// An operator, since it changes something.
    Operator,
}

/// One row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Route {
    pub(crate) method: &'static str,
    /// Below `/api/v1`; a part in braces stands for one part of a path.
    pub(crate) path: &'static str,
    pub(crate) op: Op,
    /// Its name in the document and in the audit log.
    pub(crate) name: &'static str,
    pub(crate) needs: Needs,
    pub(crate) help: &'static str,
    pub(crate) query: &'static [Field],
    /// Of a change; without any the body may be empty.
    pub(crate) body: &'static [Field],
    /// The status of success.
    pub(crate) status: u16,
    pub(crate) reply: &'static [Field],
    /// Refusals beside those that every operation has.
    pub(crate) refusals: &'static [(u16, &'static str)],
}

const TEXT: Kind = Kind::Text(usize::MAX);
const COUNT: Kind = Kind::Whole(0, u64::MAX);
/// The longest body of a message: what the largest queue accepts.
const BODY_MAX: usize = 1 << 20;
/// Base64 of the longest body.
const BASE64_MAX: usize = (BODY_MAX / 3 + 1) * 4;

const fn get(path: &'static str, op: Op, name: &'static str, help: &'static str) -> Route {
    Route {
        method: "GET",
        path,
        op,
        name,
        needs: Needs::Known,
        help,
        query: &[],
        body: &[],
        status: 200,
        reply: &[],
        refusals: &[],
    }
}

const fn post(path: &'static str, op: Op, name: &'static str, help: &'static str) -> Route {
    Route { method: "POST", needs: Needs::Operator, ..get(path, op, name, help) }
}

impl Route {
    const fn query(self, query: &'static [Field]) -> Self {
        Self { query, ..self }
    }

    const fn body(self, body: &'static [Field]) -> Self {
        Self { body, ..self }
    }

    const fn reply(self, reply: &'static [Field]) -> Self {
        Self { reply, ..self }
    }

    const fn refusals(self, refusals: &'static [(u16, &'static str)]) -> Self {
        Self { refusals, ..self }
    }

    const fn as_method(self, method: &'static str) -> Self {
        Self { method, ..self }
    }

    const fn needs(self, needs: Needs) -> Self {
        Self { needs, ..self }
    }

    const fn status(self, status: u16) -> Self {
        Self { status, ..self }
    }

    /// Whether it changes something.
    pub(crate) fn is_change(&self) -> bool {
        self.method != "GET"
    }
}

/// All of them.
pub(crate) static ROUTES: &[Route] = &[
    get("/queues", Op::ListQueues, "listQueues", "Lists queues, sorted by account, region and name")
        .query(&[
            field("prefix", Kind::Text(200), "Only queues whose name begins like this"),
            field("limit", Kind::Whole(1, 1_000), "Queues of one page").default("100"),
            field("cursor", Kind::Text(600), "`next` of the page before"),
        ])
        .reply(&[
            field("queues", Kind::Objects(QUEUE), "The queues").required(),
            field("next", TEXT, "The cursor of the next page; null on the last").nullable().required(),
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
            field("body", Kind::Text(BODY_MAX), "The body as text; or else `body_base64`"),
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
    post("/queues/{q}/redrive", Op::Redrive, "redrive", "Moves all visible messages of a queue, as a task that goes on by itself")
        .body(&[
            field("to", Kind::Text(200), "A queue; `origin` returns each to the queue it came from").default("\"origin\""),
            field("per_second", Kind::Whole(1, 1_000_000), "Messages a second; as fast as possible when missing"),
            field("dry_run", Kind::Flag, "Only count what would be moved").default("false"),
        ])
        .reply(&[
            field("matched", COUNT, "Visible messages now").required(),
            field("task", TEXT, "The task, unless it was a dry run").nullable(),
        ])
        .refusals(&[(404, "There is no such queue"), (409, "A task is running on this queue, or the kinds differ")]),
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
        .refusals(&[(404, "There is no such running task")]),
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
    get("/shards", Op::ShowShards, "showShards", "The shards that this server knows").reply(&[field("shards", Kind::Objects(SHARD), "The shards").required()]),
    get("/nodes", Op::ListNodes, "listNodes", "The nodes that this server knows").reply(&[field("nodes", Kind::Objects(NODE), "The nodes").required()]),
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

const ACT_REFUSALS: &[(u16, &str)] = &[
    (404, "There is no such queue, or no such message in it"),
    (409, "The message is not leased, not delayed, or was not found so far in a long queue"),
];

/// What every listing of queues shows.
const QUEUE: &[Field] = &[
    field("queue", TEXT, "What stands for it in paths: its name, or account:region:name").required(),
    field("name", TEXT, "Its name").required(),
    field("account", TEXT, "Its account, 12 digits").required(),
    field("region", TEXT, "Its region").required(),
    field("kind", Kind::Choice(&["standard", "fifo"]), "What it keeps in order").required(),
    field("visible", COUNT, "Messages that may be leased").required(),
    field("in_flight", COUNT, "Messages that are leased").required(),
    field("delayed", COUNT, "Messages hidden by a delay").required(),
    field("body_bytes", COUNT, "Bytes of all bodies").required(),
    field("oldest_age_seconds", Kind::Number, "Since the oldest message was sent; null when it is empty")
        .nullable()
        .required(),
    field("sent_per_second", Kind::Number, "Messages sent or moved in each second, in the last few seconds")
        .required(),
    field("leased_per_second", Kind::Number, "Leases taken each second").required(),
    field("acked_per_second", Kind::Number, "Messages deleted by their receivers each second").required(),
    field("dead_letters_to", TEXT, "Where messages go after `max_attempts` leases").nullable().required(),
    field("max_attempts", COUNT, "Leases of a message that are allowed").nullable().required(),
    field("paused", Kind::Flag, "Whether deliveries are paused").required(),
];

/// A queue alone.
const QUEUE_WHOLE: &[Field] = &[
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
    field("settings", Kind::Object(SETTINGS), "All its settings").required(),
    field("created_at_ms", COUNT, "When it was made").required(),
    field("modified_at_ms", COUNT, "When it was last changed").required(),
];

const LEASED: &[Field] = &[
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

const FAILED: &[Field] = &[
    field("receipt", TEXT, "The receipt").required(),
    field("code", TEXT, "Why it does not count").required(),
];

const SAMPLE: &[Field] = &[
    field("at_ms", COUNT, "The end of the step").required(),
    field("visible", COUNT, "Messages that could be leased then").required(),
    field("in_flight", COUNT, "Messages that were leased then").required(),
    field("delayed", COUNT, "Messages hidden by a delay then").required(),
    field("oldest_age_seconds", COUNT, "Age of the oldest message then").nullable().required(),
    field("sent", COUNT, "Messages sent or moved in, in the step").required(),
    field("leased", COUNT, "Leases taken in the step").required(),
    field("acked", COUNT, "Messages deleted by their receivers in the step").required(),
    field("p50_ms", Kind::Number, "How long half of the messages that were leased for the first time in the step had waited at most, from the instant they could be leased, to within a factor of two; null when there were none").nullable().required(),
    field("p99_ms", Kind::Number, "The same of 99 %; of several steps the highest").nullable().required(),
];

const REDRIVE: &[Field] = &[
    field("task", TEXT, "The task").required(),
    field("source", TEXT, "The queue that messages are moved from").required(),
    field("to", TEXT, "Where they go; `origin` is where each came from").required(),
    field("state", Kind::Choice(&["running", "done", "cancelled", "failed"]), "Where it stands").required(),
    field("moved", COUNT, "Messages moved").required(),
    field("left", COUNT, "Messages left of those that were visible at its beginning").required(),
    field("reason", TEXT, "Why it failed").nullable(),
];

const ATTEMPT: &[Field] = &[
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

const CIRCUIT: &[Field] = &[
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

const STORE: &[Field] = &[
    field("kind", Kind::Choice(&["memory", "directory", "postgres"]), "What it is").required(),
    field("place", TEXT, "Where it is").required(),
    field("queues", COUNT, "Queues").required(),
    field("live_bytes", COUNT, "Bytes that messages need").required(),
    field("dead_bytes", COUNT, "Bytes that nothing needs any more").required(),
    field("sent", COUNT, "Messages sent").required(),
    field("leased", COUNT, "Leases taken").required(),
    field("acked", COUNT, "Messages deleted by their receivers").required(),
    field("expired", COUNT, "Messages that outlived their retention").required(),
    field("deduplicated", COUNT, "Sends that repeated an earlier one").required(),
    field("dead_lettered", COUNT, "Messages moved to a dead-letter queue").required(),
    field("dropped", COUNT, "Messages deleted because they were leased too often").required(),
    field("damaged_records", COUNT, "Stored records found damaged").required(),
];

const BACKUP: &[Field] = &[
    field("task", TEXT, "The task").required(),
    field("to", TEXT, "The directory").required(),
    field("state", Kind::Choice(&["running", "done", "failed"]), "Where it stands").required(),
    field("bytes", COUNT, "Bytes that are in it").required(),
    field("of", COUNT, "Bytes that will be in it; 0 until that is known").required(),
    field("files", COUNT, "Its files, when it is done"),
    field("linked", COUNT, "Those of them that are the store's own under a second name"),
    field("reason", TEXT, "Why it failed, and whether something of it is left"),
];

const SHARD: &[Field] = &[
    field("shard", COUNT, "Its number").required(),
    field("owner", TEXT, "The node that owns it").required(),
    field("epoch", COUNT, "Raised by every take-over").required(),
    field("state", Kind::Choice(&["serving", "failed"]), "Whether requests are served").required(),
    field(
        "append_ms_p50",
        Kind::Number,
        "How long the median batch took to be durable; null before the first",
    )
    .nullable()
    .required(),
    field("append_ms_p99", Kind::Number, "The 99th percentile").nullable().required(),
    field("taken_over_at_ms", COUNT, "When its owner took it").required(),
];

const NODE: &[Field] = &[
    field("node", TEXT, "Its name").required(),
    field("address", TEXT, "Where other nodes reach it; null where there are no others")
        .nullable()
        .required(),
    field("state", Kind::Choice(&["serving", "failed"]), "Whether it serves requests").required(),
    field("shards", Kind::Numbers, "The shards that it owns").required(),
    field("heartbeat_age_seconds", Kind::Number, "When it was last heard of; 0 of the server that answers")
        .required(),
    field("version", TEXT, "The program's version").required(),
];

const ALARM: &[Field] = &[
    field("name", TEXT, "The rule's name").required(),
    field("queue", TEXT, "The queue; null for what belongs to none, such as the disk").nullable().required(),
    field("metric", TEXT, "What is measured").required(),
    field("state", Kind::Choice(&["ok", "firing"]), "Whether it fires").required(),
    field("since_ms", COUNT, "Since when it is so").required(),
    field("value", Kind::Number, "What was measured at the latest look").required(),
    field("bound", Kind::Number, "What the value must be above, to fire").required(),
    field("for_seconds", COUNT, "For how long").required(),
];

const CONFIG: &[Field] = &[
    field("section", TEXT, "The section of the file").required(),
    field("key", TEXT, "The key there").required(),
    field("value", TEXT, "The value; null when it is not set").nullable().required(),
    field("origin", TEXT, "Where it came from").required(),
];

const AUDIT: &[Field] = &[
    field("at_ms", COUNT, "When").required(),
    field("who", TEXT, "The user; `token` for its holder, `open` where no proof is asked for").required(),
    field("action", TEXT, "The operation").required(),
    field("target", TEXT, "What it was asked of").required(),
    field("outcome", TEXT, "`ok`, or the error's code").required(),
    field("times", COUNT, "How often, in the minute from then; more than 1 only for wrong passwords")
        .required(),
];

const SESSION: &[Field] = &[
    field("user", TEXT, "The user").required(),
    field("role", Kind::Choice(&["read-only", "operator"]), "What they may do").required(),
    field("csrf", TEXT, "What changes bring in X-Kew-CSRF").required(),
];

const FOLLOW: &[Field] = &[
    field("id", Kind::Text(64), "Who follows").required(),
    field("change", COUNT, "The latest change that was heard of").required(),
    field("due_ms", COUNT, "When the follower has something due").nullable(),
];

const CLOCK: &[Field] = &[
    field("now_ms", COUNT, "Engine time").required(),
    field("offset_ms", COUNT, "How far it is ahead of the system's").required(),
    field("frozen", Kind::Flag, "Whether it stands").required(),
];

const CLOCK_TOLD: &[Field] = &[
    CLOCK[0],
    CLOCK[1],
    CLOCK[2],
    field("change", COUNT, "To a follower: the number of the change"),
    field("answered", Kind::Flag, "To a follower: whether receives were answered meanwhile"),
];
