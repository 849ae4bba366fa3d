//! The push scenario: a backlog brought to a webhook of ours as fast as the server can, then messages one at a time.
//! With `--worker` it is brought to a Worker of ours in the server's own runtime, which tells the webhook what came.
//!
//! Messages are stored while delivery is paused. The clock runs from when it goes on until the last message has
//! arrived, each is verified to come once. Then each next message is sent when the one before has arrived, and what
//! counts is the time from its send to our handler.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use super::Fault;
use super::client::{BACK_WITHIN, Connection};
use super::dialect::check_status;
use super::figures::Figures;
use super::plan::BenchArgs;
use super::process::{Process, Usage};
use super::progress::Progress;
use super::tally::{Mark, Tally};

/// Messages of one batch, to the server and from it.
const BATCH: u64 = 100;
/// Bytes of bodies in one batch to the server.
const BATCH_BYTES: u64 = 240_000;
/// Nothing arriving for so long is the end; longer when the server may be killed and come back.
const PATIENCE: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(60));
/// Messages sent one at a time.
const SINGLES: u64 = 500;

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

/// What has arrived.
struct Hook {
    tally: RefCell<Tally>,
    /// Messages that have come, each once.
    arrived: RefCell<u64>,
    bell: Notify,
    patience: Duration,
}

/// A batch, as far as anybody here looks at it.
#[derive(Deserialize)]
struct Batch<'a> {
    #[serde(borrow)]
    messages: Vec<Message<'a>>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    body: &'a str,
}

/// One round.
pub(super) async fn measure(
    args: &BenchArgs,
    process: Option<Process>,
    progress: &Progress,
) -> Result<Figures, Fault> {
    let run = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.subsec_nanos();
    let run = run ^ std::process::id();
    let hook = Rc::new(Hook {
        tally: RefCell::new(Tally::new(run, 1)),
        arrived: RefCell::new(0),
        bell: Notify::new(),
        patience: if args.survive { PATIENCE.1 } else { PATIENCE.0 },
    });
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/", listener.local_addr()?);
    let serving = tokio::task::spawn_local(serve(Rc::clone(&hook), listener));
    let mut api = Api {
        address: args.address().to_owned(),
        connection: Connection::open(args.address()).await?,
        survive: args.survive,
        interruptions: 0,
    };
    let made = api.call("POST", "", &json!({ "queue_name": format!("bench-{run:08x}") })).await?;
    let queue = made["queue_id"].as_str().ok_or("a queue without an id")?.to_owned();
    let settings = json!({ "batch_size": BATCH, "max_wait_time_ms": 0 });
    let worker = args.worker.then(|| format!("bench-{run:08x}"));
    let consumer = match &worker {
        Some(name) => {
            api.upload(name, &url).await?;
            json!({ "type": "worker", "script_name": name, "settings": settings })
        }
        None => json!({ "type": "http_push", "url": url, "settings": settings }),
    };
    api.call("POST", &format!("/{queue}/consumers"), &consumer).await?;
    let mut figures = backlog(&mut api, &hook, &queue, args, process, progress).await?;
    singles(&mut api, &hook, &queue, args, &mut figures).await?;
    hook.until_all().await?;
    figures.interruptions = api.interruptions;
    figures.faults = hook.tally.borrow().faults();
    api.call("DELETE", &format!("/{queue}"), &Value::Null).await?;
    if let Some(name) = worker {
        api.ask("DELETE", &format!("/workers/scripts/{name}"), "application/json", "").await?;
    }
    serving.abort();
    Ok(figures)
}

/// What was stored, delivered.
async fn backlog(
    api: &mut Api,
    hook: &Hook,
    queue: &str,
    args: &BenchArgs,
    process: Option<Process>,
    progress: &Progress,
) -> Result<Figures, Fault> {
    let pause = |paused: bool| json!({ "settings": { "delivery_paused": paused } });
    let path = format!("/{queue}");
    api.call("PATCH", &path, &pause(true)).await?;
    let each = (BATCH_BYTES / u64::from(args.body)).clamp(1, BATCH);
    let mut left = args.backlog;
    while left > 0 {
        let count = left.min(each);
        left -= api.send(hook, queue, args.body, count).await?;
        progress.draw("fill", 1.0 - left as f64 / args.backlog as f64, args.backlog - left);
    }
    let before = process.map(Process::usage).transpose()?;
    let begun = Instant::now();
    api.call("PATCH", &path, &pause(false)).await?;
    hook.until(args.backlog).await?;
    let elapsed = begun.elapsed();
    let usage = match (before, process.map(Process::usage)) {
        // A server that was killed and came back is another process.
        (Some(before), Some(Ok(after))) => Some(Usage {
            cpu_seconds: after.cpu_seconds - before.cpu_seconds,
            resident_bytes: after.resident_bytes,
            written_bytes: after.written_bytes - before.written_bytes,
        }),
        (Some(_), Some(Err(fault))) if !args.survive => return Err(fault),
        _ => None,
    };
    Ok(Figures { messages: args.backlog, elapsed, usage, ..Figures::default() })
}

/// Messages one at a time, from send to handler.
async fn singles(
    api: &mut Api,
    hook: &Hook,
    queue: &str,
    args: &BenchArgs,
    figures: &mut Figures,
) -> Result<(), Fault> {
    for _ in 0..SINGLES {
        let expected = *hook.arrived.borrow() + 1;
        let begun = Instant::now();
        // The message may be there before its send is answered.
        let (sent, arrived) = tokio::join!(api.send(hook, queue, args.body, 1), async {
            hook.until(expected).await.map(|()| begun.elapsed())
        });
        sent?;
        figures.note("to handler", arrived?);
    }
    Ok(())
}

impl Hook {
    /// Waits until this number have arrived.
    async fn until(&self, count: u64) -> Result<(), Fault> {
        while *self.arrived.borrow() < count {
            if !self.news().await {
                let arrived = *self.arrived.borrow();
                return Err(format!("{arrived} of {count} messages arrived, and no more come").into());
            }
        }
        Ok(())
    }

    /// Waits until everything has arrived that was acknowledged, or nothing comes any more.
    async fn until_all(&self) -> Result<(), Fault> {
        while self.tally.borrow().missing() > 0 && self.news().await {}
        Ok(())
    }

    /// Whether something came, within the time it may take.
    async fn news(&self) -> bool {
        tokio::time::timeout(self.patience, self.bell.notified()).await.is_ok()
    }

    fn take(&self, body: &[u8]) -> Result<(), Fault> {
        let batch: Batch<'_> = serde_json::from_slice(body)?;
        let mut tally = self.tally.borrow_mut();
        for message in &batch.messages {
            *self.arrived.borrow_mut() += u64::from(!tally.has_come(message.body));
            tally.received(message.body, |_| None);
        }
        self.bell.notify_one();
        Ok(())
    }
}

async fn serve(hook: Rc<Hook>, listener: TcpListener) {
    while let Ok((stream, _)) = listener.accept().await {
        let hook = Rc::clone(&hook);
        tokio::task::spawn_local(async move {
            // The server closes connections it needs no more.
            let _closed = converse(&hook, stream).await;
        });
    }
}

async fn converse(hook: &Hook, mut stream: TcpStream) -> Result<(), Fault> {
    stream.set_nodelay(true)?;
    let mut buffer: Vec<u8> = Vec::with_capacity(256 << 10);
    loop {
        let end = loop {
            if let Some(at) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                break at + 4;
            }
            if stream.read_buf(&mut buffer).await? == 0 {
                return Ok(());
            }
        };
        let head = std::str::from_utf8(buffer.get(..end).unwrap_or_default())?.to_ascii_lowercase();
        let length = head.split("\r\n").find_map(|line| line.strip_prefix("content-length:"));
        let length: usize = length.ok_or("a batch without a length")?.trim().parse()?;
        while buffer.len() < end + length {
            if stream.read_buf(&mut buffer).await? == 0 {
                return Err("half a batch".into());
            }
        }
        hook.take(buffer.get(end..end + length).unwrap_or_default())?;
        buffer.drain(..end + length);
        stream.write_all(OK).await?;
    }
}

/// The REST calls it makes.
struct Api {
    address: String,
    connection: Connection,
    survive: bool,
    /// Calls that were never answered.
    interruptions: u64,
}

impl Api {
    async fn call(&mut self, method: &str, path: &str, body: &Value) -> Result<Value, Fault> {
        let text = if body.is_null() { String::new() } else { body.to_string() };
        self.ask(method, &format!("/queues{path}"), "application/json", &text).await
    }

    /// Uploads a Worker that passes on what it is given.
    async fn upload(&mut self, name: &str, url: &str) -> Result<(), Fault> {
        let metadata = json!({ "main_module": "worker.js", "compatibility_date": "2025-01-01" });
        let code = format!(
            "export default {{ async queue(batch) {{ const messages = batch.messages.map(({{ body }}) => ({{ body }})); await fetch({url:?}, {{ method: \"POST\", body: JSON.stringify({{ messages }}) }}); }} }};"
        );
        let form = format!(
            "--bench\r\nContent-Disposition: form-data; name=\"metadata\"\r\nContent-Type: application/json\r\n\r\n{metadata}\r\n--bench\r\nContent-Disposition: form-data; name=\"worker.js\"; filename=\"worker.js\"\r\nContent-Type: application/javascript+module\r\n\r\n{code}\r\n--bench--\r\n"
        );
        let place = format!("/workers/scripts/{name}");
        self.ask("PUT", &place, "multipart/form-data; boundary=bench", &form).await.map(drop)
    }

    async fn ask(&mut self, method: &str, place: &str, kind: &str, text: &str) -> Result<Value, Fault> {
        let request = format!(
            "{method} /client/v4/accounts/0{place} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer bench\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n{text}",
            self.address,
            text.len()
        );
        loop {
            match self.connection.ask(request.as_bytes()).await {
                Ok(reply) => {
                    check_status(&reply)?;
                    return Ok(serde_json::from_slice::<Value>(reply.body)?["result"].take());
                }
                // Calls may be made twice; of a send only the second copy counts as a duplicate.
                Err(_) if self.survive => {
                    self.interruptions += 1;
                    self.connection.reopen(BACK_WITHIN).await?;
                }
                Err(fault) => return Err(fault),
            }
        }
    }

    /// Sends this number of new messages.
    async fn send(&mut self, hook: &Hook, queue: &str, bytes: u32, count: u64) -> Result<u64, Fault> {
        let marks: Vec<Mark> = (0..count).map(|_| hook.tally.borrow_mut().next(0)).collect();
        let messages: Vec<Value> =
            marks.iter().map(|mark| json!({ "body": mark.body(bytes), "content_type": "text" })).collect();
        let path = format!("/{queue}/messages/batch");
        self.call("POST", &path, &json!({ "messages": messages })).await?;
        marks.into_iter().for_each(|mark| hook.tally.borrow_mut().sent(mark));
        Ok(count)
    }
}
