//! The runtime killed under load. Without it this says so aloud and passes; where `KEW_WORKERD` names it, it runs.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;

use super::dev;
use super::program::{self, Kew, data_directory};
use super::push::{Hook, PATIENCE, call, cloudflare, kills, queue, send, until_empty};

const CONFIG: &str = r#"
name = "forward"
main = "index.js"
compatibility_date = "2026-04-01"

[[queues.producers]]
binding = "OUT"
queue = "out"

[[queues.consumers]]
queue = "in"
max_batch_size = 10
max_batch_timeout = 0
max_retries = 100
"#;

const CODE: &str = "export default { async queue(batch, env) {
  for (const message of batch.messages) {
    await env.OUT.send(message.body, { contentType: 'text' });
    message.ack();
  }
} };";

/// Kills the children of the server that are the runtime; whether there was one.
fn kill_runtime(kew: &Kew) -> bool {
    let own = kew.id().to_string();
    let killed = Command::new("pkill").args(["-9", "-P", &own, "workerd"]).status();
    killed.expect("the system has the program pkill").success()
}

#[test]
fn kills_of_the_runtime_under_load_lose_nothing_and_what_was_acknowledged_stays_so() {
    let Some(workerd) = program::workerd() else { return };
    let (directory, folder, hook) = (data_directory(), data_directory(), Hook::open());
    std::fs::write(folder.path().join("wrangler.toml"), CONFIG).expect("the directory is ours");
    std::fs::write(folder.path().join("index.js"), CODE).expect("the directory is ours");
    let data = directory.path().join("data").to_string_lossy().into_owned();
    let kew =
        Kew::start_with(directory.path(), &["--store", &data, "--workers", "on", "--workerd", &workerd]);
    let address = cloudflare(&kew);
    queue(&address, "out", &hook, &json!({ "max_wait_time_ms": 0, "batch_size": 100 }));
    dev::deployed(folder.path(), &kew);
    let found = call(&address, "GET", "?name=in", &serde_json::Value::Null);
    let source = found[0]["queue_id"].as_str().expect("a queue has an id").to_owned();
    let mut sent = Vec::new();
    // A runtime that was killed again soon is started later and later: more would take long and show no more.
    for round in 0..kills().min(20) {
        for part in 0..3 {
            let texts: Vec<String> = (0..50).map(|number| format!("{round}-{part}-{number}")).collect();
            send(&address, &source, &texts);
            sent.extend(texts);
        }
        std::thread::sleep(Duration::from_millis(u64::from(round * 13 % 41)));
        let begun = Instant::now();
        while !kill_runtime(&kew) {
            assert!(begun.elapsed() < PATIENCE, "it does not come back: {}", kew.errors());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    until_empty(&address, &source);
    hook.until("everything arrives", |delivered| sent.iter().all(|text| delivered.contains_key(text)));
    let settled = hook.delivered();
    let begun = Instant::now();
    while !kill_runtime(&kew) {
        assert!(begun.elapsed() < PATIENCE, "it does not come back: {}", kew.errors());
    }
    send(&address, &source, &["last".to_owned()]);
    hook.until("it works again", |delivered| delivered.contains_key("last"));
    until_empty(&address, &source);
    let mut after = hook.delivered();
    after.remove("last");
    assert_eq!(after, settled, "what was acknowledged came back");
}
