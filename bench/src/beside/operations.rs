//! The operations: what each needs on the server, and what it then does to it.

use std::ops::Range;
use std::time::Duration;

use serde_json::json;

use super::http::Client;
use super::plan::Plan;
use crate::budget::Fault;

/// Bytes of a large message.
const LARGE_BYTES: usize = 1 << 20;
/// Messages that are written until a checkpoint is due, and their bytes: more than the journal takes between two.
const UNTIL_CHECKPOINT: u64 = 1_024;
const FILLER_BYTES: usize = 64 << 10;
/// Messages of the queue that is read cold, their bytes, and how many receives of ten read it.
const COLD: u64 = 40_000;
const COLD_BYTES: usize = 4 << 10;
const COLD_RECEIVES: u32 = 100;
/// Groups of a FIFO queue.
const GROUPS: u64 = 1_000;
const DELAY: Duration = Duration::from_secs(900);
const LEASE: Duration = Duration::from_secs(600);

/// A server and what is measured on it.
pub struct Setting<'a> {
    pub sqs: String,
    pub admin: String,
    pub plan: &'a Plan,
}

/// The URL and the ARN of the queue an operation is about.
pub struct Prepared {
    url: String,
    arn: String,
}

/// One operation.
pub struct Operation {
    pub name: &'static str,
    says: &'static str,
    /// How its size follows from that of the plan: one of this many; 0 is a size of its own.
    part: u64,
    pub variables: &'static [(&'static str, &'static str)],
    /// Whether the disk is what is slow.
    pub is_slow_disk: bool,
    pub prepare: fn(&Setting<'_>) -> Result<Prepared, Fault>,
    pub perform: fn(&Setting<'_>, &Prepared) -> Result<(), Fault>,
}

const PLAIN: Operation = Operation {
    name: "",
    says: "",
    part: 0,
    variables: &[],
    is_slow_disk: false,
    prepare: |setting| queue(&mut setting.client()?, "other", "{}"),
    perform: |_, _| Ok(()),
};

/// All of them, in the order they are measured.
pub const ALL: [Operation; 14] = [
    Operation {
        name: "redrive-100",
        says: "redrive of 100 messages of 1 MiB",
        prepare: |setting| large_messages(setting, 100),
        perform: redrive,
        ..PLAIN
    },
    Operation {
        name: "redrive-600",
        says: "redrive of 600 messages of 1 MiB",
        prepare: |setting| large_messages(setting, 600),
        perform: redrive,
        ..PLAIN
    },
    Operation {
        name: "checkpoint-fifo",
        says: "checkpoint of a touched FIFO queue of",
        part: 1,
        prepare: |setting| filled(setting, "other.fifo", setting.plan.size, ""),
        perform: touch_and_checkpoint,
        ..PLAIN
    },
    Operation {
        name: "purge",
        says: "purge of a standard queue of",
        part: 1,
        prepare: |setting| filled(setting, "other", setting.plan.size, ""),
        perform: |setting, other| ask(setting, "PurgeQueue", &json!({ "QueueUrl": other.url })),
        ..PLAIN
    },
    Operation {
        name: "purge-fifo",
        says: "purge of a FIFO queue of",
        part: 1,
        prepare: |setting| filled(setting, "other.fifo", setting.plan.size, ""),
        perform: |setting, other| ask(setting, "PurgeQueue", &json!({ "QueueUrl": other.url })),
        ..PLAIN
    },
    Operation {
        name: "delete",
        says: "deletion of a standard queue of",
        part: 1,
        prepare: |setting| filled(setting, "other", setting.plan.size, ""),
        perform: |setting, other| ask(setting, "DeleteQueue", &json!({ "QueueUrl": other.url })),
        ..PLAIN
    },
    Operation {
        name: "delete-fifo",
        says: "deletion of a FIFO queue of",
        part: 1,
        prepare: |setting| filled(setting, "other.fifo", setting.plan.size, ""),
        perform: |setting, other| ask(setting, "DeleteQueue", &json!({ "QueueUrl": other.url })),
        ..PLAIN
    },
    Operation {
        name: "delays",
        says: "delays that end together, of",
        part: 2,
        prepare: delayed,
        perform: |setting, _| setting.advance(DELAY),
        ..PLAIN
    },
    Operation {
        name: "leases",
        says: "leases that end together, of",
        part: 2,
        variables: &[
            ("KEW_SQS_STANDARD_IN_FLIGHT_LIMIT", "10000000"),
            ("KEW_LIMITS_IN_FLIGHT_MAX", "10000000"),
        ],
        prepare: leased,
        perform: |setting, _| setting.advance(LEASE),
        ..PLAIN
    },
    Operation {
        name: "retention",
        says: "retention lowered over",
        part: 1,
        prepare: |setting| aged(setting, "other"),
        perform: lower_retention,
        ..PLAIN
    },
    Operation {
        name: "retention-fifo",
        says: "retention lowered over all of a FIFO queue of",
        part: 1,
        prepare: |setting| aged(setting, "other.fifo"),
        perform: lower_retention,
        ..PLAIN
    },
    Operation {
        name: "retention-fifo-half",
        says: "retention lowered over the older half of a FIFO queue of",
        part: 1,
        prepare: half_aged,
        perform: lower_retention,
        ..PLAIN
    },
    Operation {
        name: "cold-reads",
        says: "1 000 cold reads, 5 ms added to each",
        variables: &[("KEW_SLOW_READ_MS", "5")],
        prepare: |setting| filled_with(setting, "other", COLD, COLD_BYTES, ""),
        perform: |setting, other| {
            let mut client = setting.client()?;
            let receive = json!({ "QueueUrl": other.url, "MaxNumberOfMessages": 10 }).to_string();
            (0..COLD_RECEIVES).try_for_each(|_| client.sqs("ReceiveMessage", &receive).map(drop))
        },
        ..PLAIN
    },
    Operation {
        name: "slow-syncs",
        says: "3 ms added to each sync",
        variables: &[("KEW_SLOW_SYNC_MS", "3")],
        is_slow_disk: true,
        perform: |setting, _| {
            std::thread::sleep(setting.plan.quiet);
            Ok(())
        },
        ..PLAIN
    },
];

impl Operation {
    /// What it is, with its size.
    pub fn title(&self, plan: &Plan) -> String {
        match plan.size.checked_div(self.part) {
            Some(size) => format!("{} {}", self.says, crate::report::count(size)),
            None => self.says.to_owned(),
        }
    }
}

impl Setting<'_> {
    fn client(&self) -> Result<Client, Fault> {
        Client::open(&self.sqs)
    }

    fn advance(&self, by: Duration) -> Result<(), Fault> {
        let body = format!(r#"{{"advance_ms":{}}}"#, by.as_millis());
        Client::open(&self.admin)?.admin("/api/v1/clock", &body).map(drop)
    }

    /// Stops time, so that what is sent or leased now is due at one instant.
    fn freeze(&self) -> Result<(), Fault> {
        Client::open(&self.admin)?.admin("/api/v1/clock", r#"{"freeze":true}"#).map(drop)
    }
}

fn ask(setting: &Setting<'_>, action: &str, what: &serde_json::Value) -> Result<(), Fault> {
    setting.client()?.sqs(action, &what.to_string()).map(drop)
}

fn queue(client: &mut Client, name: &str, attributes: &str) -> Result<Prepared, Fault> {
    let made =
        client.sqs("CreateQueue", &format!(r#"{{"QueueName":"{name}","Attributes":{attributes}}}"#))?;
    let url = made["QueueUrl"].as_str().ok_or("the queue has no URL")?.to_owned();
    let wanted = json!({ "QueueUrl": url, "AttributeNames": ["QueueArn"] });
    let found = client.sqs("GetQueueAttributes", &wanted.to_string())?;
    let arn = found["Attributes"]["QueueArn"].as_str().ok_or("the queue has no ARN")?.to_owned();
    Ok(Prepared { url, arn })
}

/// A queue with `size` small messages; `more` is said of each, in JSON, with a comma before it.
fn filled(setting: &Setting<'_>, name: &str, size: u64, more: &str) -> Result<Prepared, Fault> {
    filled_with(setting, name, size, 64, more)
}

fn filled_with(
    setting: &Setting<'_>,
    name: &str,
    size: u64,
    bytes: usize,
    more: &str,
) -> Result<Prepared, Fault> {
    let is_fifo = name.ends_with(".fifo");
    let attributes = if is_fifo { r#"{"FifoQueue":"true"}"# } else { "{}" };
    let other = queue(&mut setting.client()?, name, attributes)?;
    fill(setting, &other, 0..size, bytes, more)?;
    Ok(other)
}

/// Sends the messages of these numbers.
fn fill(
    setting: &Setting<'_>,
    other: &Prepared,
    numbers: Range<u64>,
    bytes: usize,
    more: &str,
) -> Result<(), Fault> {
    let is_fifo = other.url.ends_with(".fifo");
    let (url, body) = (other.url.as_str(), "m".repeat(bytes));
    let entry = |number: u64| {
        let fifo =
            format!(r#","MessageGroupId":"g{}","MessageDeduplicationId":"d{number}""#, number % GROUPS);
        let fifo = if is_fifo { fifo.as_str() } else { "" };
        format!(r#"{{"Id":"{}","MessageBody":"{body}"{fifo}{more}}}"#, number % 10)
    };
    in_parts(setting, (numbers.end - numbers.start).div_ceil(10), |client, batch| {
        let first = numbers.start + batch * 10;
        let entries: Vec<String> = (first..numbers.end.min(first + 10)).map(entry).collect();
        let send = format!(r#"{{"QueueUrl":"{url}","Entries":[{}]}}"#, entries.join(","));
        client.sqs("SendMessageBatch", &send).map(drop)
    })
}

/// Does something a number of times, over several connections at once.
fn in_parts(
    setting: &Setting<'_>,
    times: u64,
    work: impl Fn(&mut Client, u64) -> Result<(), Fault> + Sync,
) -> Result<(), Fault> {
    let threads = setting.plan.threads;
    let part = |thread: u64| -> Result<(), Fault> {
        let mut client = setting.client()?;
        (0..times)
            .filter(|number| number % threads == thread)
            .try_for_each(|number| work(&mut client, number))
    };
    std::thread::scope(|scope| {
        let parts: Vec<_> = (0..threads).map(|thread| scope.spawn(move || part(thread))).collect();
        parts.into_iter().try_for_each(|part| part.join().map_err(|_| "a thread panicked")?)
    })
}

fn large_messages(setting: &Setting<'_>, count: u64) -> Result<Prepared, Fault> {
    let mut client = setting.client()?;
    let dead = queue(&mut client, "dead", "{}")?;
    let policy = json!({ "deadLetterTargetArn": dead.arn, "maxReceiveCount": 1 }).to_string();
    queue(&mut client, "source", &json!({ "RedrivePolicy": policy }).to_string())?;
    let send = json!({ "QueueUrl": dead.url, "MessageBody": "l".repeat(LARGE_BYTES) }).to_string();
    (0..count).try_for_each(|_| client.sqs("SendMessage", &send).map(drop))?;
    Ok(dead)
}

/// A queue whose messages were all sent two minutes ago or earlier.
fn aged(setting: &Setting<'_>, name: &str) -> Result<Prepared, Fault> {
    let other = filled(setting, name, setting.plan.size, "")?;
    setting.advance(Duration::from_secs(120)).map(|()| other)
}

/// A FIFO queue of which half the messages were sent two minutes ago, and half just now.
fn half_aged(setting: &Setting<'_>) -> Result<Prepared, Fault> {
    let size = setting.plan.size;
    let other = filled(setting, "other.fifo", size / 2, "")?;
    setting.advance(Duration::from_secs(120))?;
    fill(setting, &other, size / 2..size, 64, "")?;
    Ok(other)
}

fn lower_retention(setting: &Setting<'_>, other: &Prepared) -> Result<(), Fault> {
    let attributes = json!({ "MessageRetentionPeriod": "60" });
    ask(setting, "SetQueueAttributes", &json!({ "QueueUrl": other.url, "Attributes": attributes }))
}

fn redrive(setting: &Setting<'_>, dead: &Prepared) -> Result<(), Fault> {
    let mut client = setting.client()?;
    let target = queue(&mut client, "target", "{}")?;
    let start = json!({ "SourceArn": dead.arn, "DestinationArn": target.arn });
    client.sqs("StartMessageMoveTask", &start.to_string())?;
    let list = json!({ "SourceArn": dead.arn }).to_string();
    loop {
        let tasks = client.sqs("ListMessageMoveTasks", &list)?;
        if tasks["Results"][0]["Status"] != "RUNNING" {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn touch_and_checkpoint(setting: &Setting<'_>, other: &Prepared) -> Result<(), Fault> {
    let mut client = setting.client()?;
    client.sqs("ReceiveMessage", &json!({ "QueueUrl": other.url, "MaxNumberOfMessages": 10 }).to_string())?;
    let filler = queue(&mut client, "filler", "{}")?;
    // Smaller than those of a redrive: what is measured is the checkpoint, not the sync of a large send.
    let send = json!({ "QueueUrl": filler.url, "MessageBody": "f".repeat(FILLER_BYTES) }).to_string();
    (0..UNTIL_CHECKPOINT).try_for_each(|_| client.sqs("SendMessage", &send).map(drop))
}

fn delayed(setting: &Setting<'_>) -> Result<Prepared, Fault> {
    setting.freeze()?;
    let delay = format!(r#","DelaySeconds":{}"#, DELAY.as_secs());
    filled(setting, "other", setting.plan.size / 2, &delay)
}

fn leased(setting: &Setting<'_>) -> Result<Prepared, Fault> {
    setting.freeze()?;
    let size = setting.plan.size / 2;
    let other = filled(setting, "other", size, "")?;
    let receive =
        json!({ "QueueUrl": other.url, "MaxNumberOfMessages": 10, "VisibilityTimeout": LEASE.as_secs() });
    let receive = receive.to_string();
    in_parts(setting, size.div_ceil(10), |client, _| client.sqs("ReceiveMessage", &receive).map(drop))?;
    Ok(other)
}
