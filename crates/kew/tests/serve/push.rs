//! Webhooks as consumers of a running server: by the virtual clock, through kills, and at its end.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::answers;
use super::program::{self, Kew, data_directory};

pub const PATIENCE: Duration = Duration::from_secs(30);
/// How often servers are killed under load; the long runs ask for more.
const KILLS: &str = "KEW_KILLS";
const KILLS_USUALLY: u32 = 4;

/// A webhook on threads of its own.
#[derive(Clone)]
pub struct Hook {
    pub url: String,
    /// The attempts of each message that was delivered, in order, by its text.
    delivered: Arc<Mutex<BTreeMap<String, Vec<u64>>>>,
    /// Whether batches are refused.
    pub refuses: Arc<AtomicBool>,
    /// Whether replies are held back.
    pub holds: Arc<AtomicBool>,
}

impl Hook {
    pub fn open() -> Self {
        let hook = Self {
            url: String::new(),
            delivered: Arc::default(),
            refuses: Arc::default(),
            holds: Arc::default(),
        };
        let serving = hook.clone();
        let address = answers::plain(move |batch| Some(serving.take(batch)));
        Self { url: format!("http://{address}/"), ..hook }
    }

    fn take(&self, batch: &Value) -> Vec<u8> {
        for message in batch["messages"].as_array().expect("a batch has messages") {
            let text = message["body"].as_str().expect("body is text").to_owned();
            let attempts = message["attempts"].as_u64().expect("attempts is a number");
            self.delivered
                .lock()
                .expect("no thread panics while it holds the lock")
                .entry(text)
                .or_default()
                .push(attempts);
        }
        while self.holds.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(2));
        }
        answers::reply(if self.refuses.load(Ordering::Relaxed) { 500 } else { 200 }, "")
    }

    pub fn delivered(&self) -> BTreeMap<String, Vec<u64>> {
        self.delivered.lock().expect("no thread panics while it holds the lock").clone()
    }

    pub fn until(&self, what: &str, is_so: impl Fn(&BTreeMap<String, Vec<u64>>) -> bool) {
        let begun = Instant::now();
        while !is_so(&self.delivered()) {
            assert!(begun.elapsed() < PATIENCE, "{what}: {:?}", self.delivered());
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// How many kills this run asks for.
pub fn kills() -> u32 {
    std::env::var(KILLS).ok().and_then(|kills| kills.parse().ok()).unwrap_or(KILLS_USUALLY)
}

pub fn cloudflare(kew: &Kew) -> String {
    kew.ports["cloudflare"].as_str().expect("the listener is on").to_owned()
}

/// One call of the Cloudflare API; its result.
pub fn call(address: &str, method: &str, path: &str, body: &Value) -> Value {
    let path = format!("/client/v4/accounts/0/queues{path}");
    let token = [("Authorization", "Bearer any")];
    let text = if body.is_null() { String::new() } else { body.to_string() };
    let (status, reply) = program::http(address, method, &path, &token, &text);
    assert_eq!(status, 200, "{method} {path} {text}: {reply}");
    let reply: Value = serde_json::from_str(&reply).expect("the reply is JSON");
    reply["result"].clone()
}

/// A queue whose consumer is this webhook.
pub fn queue(address: &str, name: &str, hook: &Hook, settings: &Value) -> String {
    let made = call(address, "POST", "", &json!({ "queue_name": name }));
    let id = made["queue_id"].as_str().expect("a queue has an id").to_owned();
    let consumer = json!({ "type": "http_push", "url": hook.url, "settings": settings });
    call(address, "POST", &format!("/{id}/consumers"), &consumer);
    id
}

pub fn send(address: &str, queue: &str, texts: &[String]) {
    let messages: Vec<Value> =
        texts.iter().map(|text| json!({ "body": text, "content_type": "text" })).collect();
    call(address, "POST", &format!("/{queue}/messages/batch"), &json!({ "messages": messages }));
}

fn backlog(address: &str, queue: &str) -> u64 {
    call(address, "GET", &format!("/{queue}/metrics"), &Value::Null)["backlog_count"]
        .as_u64()
        .expect("backlog_count is a number")
}

pub fn until_empty(address: &str, queue: &str) {
    let begun = Instant::now();
    while backlog(address, queue) > 0 {
        assert!(begun.elapsed() < PATIENCE, "it does not become empty");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn advance(kew: &Kew, seconds: u64) {
    let change = json!({ "advance_ms": seconds * 1_000 }).to_string();
    let (status, body) = kew.admin("POST", "/api/v1/clock", &[("Content-Type", "application/json")], &change);
    assert_eq!(status, 200, "{body}");
}

#[test]
fn a_webhook_gets_batches_by_size_and_by_the_virtual_clock() {
    let directory = data_directory();
    let kew = Kew::start_with(directory.path(), &["--store", "memory", "--clock", "virtual"]);
    let (address, hook) = (cloudflare(&kew), Hook::open());
    let settings = json!({ "batch_size": 5, "max_wait_time_ms": 60_000, "retry_delay": 600 });
    let queue = queue(&address, "orders", &hook, &settings);
    hook.refuses.store(true, Ordering::Relaxed);
    send(&address, &queue, &["a", "b", "c", "d", "e", "f"].map(str::to_owned));
    hook.until("a full batch leaves at once", |delivered| delivered.len() == 5);
    advance(&kew, 59);
    assert_eq!(hook.delivered().len(), 5);
    advance(&kew, 1);
    assert_eq!(hook.delivered().get("f"), Some(&vec![1]), "a jump ends when its effects are there");
    hook.refuses.store(false, Ordering::Relaxed);
    advance(&kew, 600);
    advance(&kew, 60);
    until_empty(&address, &queue);
    assert!(hook.delivered().values().all(|attempts| *attempts == [1, 2]), "{:?}", hook.delivered());
    let (_, metrics) = kew.admin("GET", "/metrics", &[], "");
    assert!(metrics.contains("kew_push_attempts_total{outcome=\"failed\"} 2"), "{metrics}");
    assert!(kew.errors().contains("a consumer failed a batch queue=\"orders\""), "{}", kew.errors());
}

#[test]
fn a_batch_under_way_finishes_before_the_server_ends() {
    let directory = data_directory();
    let mut kew = Kew::start(directory.path());
    let (address, hook) = (cloudflare(&kew), Hook::open());
    let queue = queue(&address, "orders", &hook, &json!({ "max_wait_time_ms": 0 }));
    hook.holds.store(true, Ordering::Relaxed);
    send(&address, &queue, &["a".to_owned()]);
    hook.until("it is delivered", |delivered| delivered.len() == 1);
    kew.signal("TERM");
    std::thread::sleep(Duration::from_millis(100));
    hook.holds.store(false, Ordering::Relaxed);
    assert_eq!(kew.exit_code(), Some(0), "{}", kew.errors());
    let again = Kew::start(directory.path());
    assert_eq!(backlog(&cloudflare(&again), &queue), 0, "its verdict was written");
    assert_eq!(hook.delivered().get("a"), Some(&vec![1]));
}

#[test]
fn a_batch_that_was_at_its_webhook_when_the_server_was_killed_comes_again_counted() {
    let directory = data_directory();
    let mut kew = Kew::start(directory.path());
    let (address, hook) = (cloudflare(&kew), Hook::open());
    let settings = json!({ "batch_size": 3, "max_wait_time_ms": 60_000 });
    let queue = queue(&address, "orders", &hook, &settings);
    hook.holds.store(true, Ordering::Relaxed);
    send(&address, &queue, &["a", "b", "c"].map(str::to_owned));
    hook.until("they are delivered", |delivered| delivered.len() == 3);
    kew.kill();
    hook.holds.store(false, Ordering::Relaxed);
    let again = Kew::start(directory.path());
    until_empty(&cloudflare(&again), &queue);
    let twice = vec![1, 2];
    assert!(hook.delivered().values().all(|attempts| *attempts == twice), "{:?}", hook.delivered());
}

#[test]
fn kills_under_load_lose_nothing_and_bring_nothing_back_that_was_settled() {
    let (directory, hook) = (data_directory(), Hook::open());
    let mut kew = Kew::start(directory.path());
    let settings = json!({ "batch_size": 10, "max_wait_time_ms": 0, "max_retries": 100 });
    let queue = queue(&cloudflare(&kew), "orders", &hook, &settings);
    let mut sent = Vec::new();
    let mut settled: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for round in 0..kills() {
        let address = cloudflare(&kew);
        let before: Vec<String> = (0..20).map(|number| format!("settled-{round}-{number}")).collect();
        send(&address, &queue, &before);
        until_empty(&address, &queue);
        settled.extend(hook.delivered());
        for part in 0..10 {
            let texts: Vec<String> = (0..20).map(|number| format!("m-{round}-{part}-{number}")).collect();
            send(&address, &queue, &texts);
            sent.extend(texts);
        }
        sent.extend(before);
        // At another place of the load each time.
        std::thread::sleep(Duration::from_millis(u64::from(round * 7 % 23)));
        kew.kill();
        kew = Kew::start(directory.path());
    }
    until_empty(&cloudflare(&kew), &queue);
    let delivered = hook.delivered();
    for text in &sent {
        let mut attempts = delivered.get(text).cloned().unwrap_or_else(|| panic!("{text} was lost"));
        // A delivery that was counted may have been killed before it left; none is counted twice. What a server sent
        // before it was killed may be read after what the next one sends.
        attempts.sort_unstable();
        assert!(attempts.is_sorted_by(|one, next| one < next), "{text}: {attempts:?}");
    }
    for (text, attempts) in &settled {
        assert_eq!(delivered.get(text), Some(attempts), "{text} was settled and came back");
    }
    assert_eq!(delivered.len(), sent.len());
}
