//! The neighbour: it sends, receives and deletes one small message after the other, and notes how long each took.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::http::Client;
use super::millis;
use crate::budget::Fault;
use crate::raw::Raw;

/// Bytes of the raw file, and of what is written into it between two rounds: about what a round writes.
const RAW_FILE_BYTES: u64 = 64 << 20;
const RAW_BYTES: usize = 4 << 10;

/// A request or raw sync that took this long or longer is shown with its instant.
const SHOWN_FROM: Duration = Duration::from_millis(5);

/// How long requests of one kind took.
#[derive(Default)]
pub struct Durations(Vec<Duration>);

impl Durations {
    /// Takes it in and answers how long it took.
    fn add(&mut self, begun: Instant) -> Duration {
        let took = begun.elapsed();
        self.0.push(took);
        took
    }

    pub fn count(&self) -> usize {
        self.0.len()
    }

    pub fn worst(&self) -> Duration {
        self.0.iter().max().copied().unwrap_or_default()
    }

    /// The time within which this share of them was done.
    pub fn share(&self, share: f64) -> Duration {
        let mut all = self.0.clone();
        all.sort_unstable();
        let place = (all.len() as f64 * share).ceil() as usize;
        all.get(place.clamp(1, all.len().max(1)) - 1).copied().unwrap_or_default()
    }
}

/// What a neighbour met.
#[derive(Default)]
pub struct Times {
    pub sends: Durations,
    pub receives: Durations,
    /// Of the raw file, in turn with the requests.
    pub syncs: Durations,
    /// A line for each request and sync that took long: when it ended, in seconds since 1970, and what it was.
    pub slow: Vec<String>,
}

impl Times {
    fn note(&mut self, what: &str, took: Duration) {
        if took >= SHOWN_FROM {
            let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            self.slow.push(format!("{:.3} neighbour: {what} took {} ms", at.as_secs_f64(), millis(took)));
        }
    }
}

/// A neighbour with a queue of its own.
pub struct Neighbour {
    /// Guards its connection and its raw file: one run at a time.
    parts: Mutex<(Client, Raw)>,
    queue: String,
}

impl Neighbour {
    pub fn open(sqs: &str, dir: &Path) -> Result<Self, Fault> {
        let mut client = Client::open(sqs)?;
        let made = client.sqs("CreateQueue", r#"{"QueueName":"neighbour"}"#)?;
        let queue = made["QueueUrl"].as_str().ok_or("the queue has no URL")?.to_owned();
        Ok(Self { parts: Mutex::new((client, Raw::new(&dir.join("raw"), RAW_FILE_BYTES))), queue })
    }

    /// Works for as long as `meanwhile` takes.
    pub fn run(&self, meanwhile: impl FnOnce() -> Result<(), Fault>) -> Result<Times, Fault> {
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let works = scope.spawn(|| self.work(&is_over));
            let done = meanwhile();
            is_over.store(true, Ordering::Relaxed);
            let times = works.join().map_err(|_| "the neighbour panicked")??;
            done.map(|()| times)
        })
    }

    fn work(&self, is_over: &AtomicBool) -> Result<Times, Fault> {
        let mut parts = self.parts.lock().map_err(|_| "an earlier run panicked")?;
        let (client, raw) = &mut *parts;
        let (queue, mut times) = (&self.queue, Times::default());
        let send = format!(r#"{{"QueueUrl":"{queue}","MessageBody":"{}"}}"#, "n".repeat(256));
        let receive = format!(r#"{{"QueueUrl":"{queue}","MaxNumberOfMessages":1}}"#);
        while !is_over.load(Ordering::Relaxed) {
            let begun = Instant::now();
            client.sqs("SendMessage", &send)?;
            let took = times.sends.add(begun);
            times.note("a send", took);
            let begun = Instant::now();
            let found = client.sqs("ReceiveMessage", &receive)?;
            let took = times.receives.add(begun);
            times.note("a receive", took);
            if let Some(receipt) = found["Messages"][0]["ReceiptHandle"].as_str() {
                let delete = format!(r#"{{"QueueUrl":"{queue}","ReceiptHandle":"{receipt}"}}"#);
                client.sqs("DeleteMessage", &delete)?;
            }
            let begun = Instant::now();
            raw.append(RAW_BYTES);
            let took = times.syncs.add(begun);
            times.note("a raw sync", took);
        }
        Ok(times)
    }
}
