//! `kew workers dev`: a project brought to a running server. Without the runtime most of it says so aloud and passes;
//! where `KEW_WORKERD` names it, it runs.

use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::program::{self, Kew, data_directory};

const PATIENCE: Duration = Duration::from_secs(30);

// [seed] The producer's delivery_delay and the consumer's retry_delay, as its file prints them.
const CONFIG: &str = r#"
name = "orders"
main = "index.js"
compatibility_date = "2026-04-01"

[[queues.producers]]
binding = "OUT"
queue = "next"
delivery_delay = 60 # every message waits a minute

[[queues.consumers]]
queue = "my-queue"
max_batch_timeout = 0
retry_delay = 300 # a retried message waits five minutes
"#;

const CODE: &str = "export default { async queue(batch, env) {
  for (const message of batch.messages) await env.OUT.send(message.body);
} };";

fn dev(folder: &Path, kew: &Kew) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kew"));
    command.args(["workers", "dev", "--once", "--cloudflare"]).arg(format!("http://{}", address(kew)));
    command.env_remove("CLOUDFLARE_API_TOKEN").env_remove("CLOUDFLARE_ACCOUNT_ID");
    command.current_dir(folder).output().expect("it was built")
}

/// What it says of a deployment that works.
pub fn deployed(folder: &Path, kew: &Kew) -> String {
    let output = dev(folder, kew);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn address(kew: &Kew) -> &str {
    kew.ports["cloudflare"].as_str().expect("it is served")
}

fn call(kew: &Kew, method: &str, path: &str, body: &Value) -> Value {
    let path = format!("/client/v4/accounts/0/queues{path}");
    let text = if body.is_null() { String::new() } else { body.to_string() };
    let (status, reply) =
        program::http(address(kew), method, &path, &[("Authorization", "Bearer any")], &text);
    assert_eq!(status, 200, "{method} {path}: {reply}");
    let reply: Value = serde_json::from_str(&reply).expect("it is JSON");
    reply["result"].clone()
}

fn queue(kew: &Kew, name: &str) -> Value {
    call(kew, "GET", &format!("?name={name}"), &Value::Null)[0].clone()
}

fn path(queue: &Value) -> String {
    format!("/{}", queue["queue_id"].as_str().expect("it has an id"))
}

fn retry_delay(kew: &Kew) -> u64 {
    queue(kew, "my-queue")["consumers"][0]["settings"]["retry_delay"].as_u64().expect("it has one")
}

fn project() -> tempfile::TempDir {
    let folder = data_directory();
    std::fs::write(folder.path().join("wrangler.toml"), CONFIG).expect("the directory is ours");
    std::fs::write(folder.path().join("index.js"), CODE).expect("the directory is ours");
    folder
}

#[test]
fn what_is_missing_is_told() {
    let (directory, empty) = (data_directory(), data_directory());
    let kew = Kew::start_with(directory.path(), &["--store", "memory"]);
    let output = dev(empty.path(), &kew);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && errors.contains("wrangler.toml here"), "{errors}");
    let output = dev(project().path(), &kew);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && errors.contains("--workers on"), "{errors}");
}

#[test]
fn a_project_is_deployed_and_the_newest_writer_of_its_settings_wins() {
    let Ok(workerd) = std::env::var("KEW_WORKERD") else {
        eprintln!("SKIPPED: KEW_WORKERD does not name the program workerd");
        return;
    };
    let (directory, folder) = (data_directory(), project());
    let flags = ["--store", "memory", "--clock", "virtual", "--workers", "on", "--workerd", &workerd];
    let kew = Kew::start_with(directory.path(), &flags);
    let told = deployed(folder.path(), &kew);
    assert!(told.contains("made the queue my-queue") && told.contains("orders consumes my-queue"), "{told}");
    assert_eq!(queue(&kew, "next")["settings"]["delivery_delay"], 60);
    assert_eq!(retry_delay(&kew), 300);

    let source = path(&queue(&kew, "my-queue"));
    call(&kew, "POST", &format!("{source}/messages"), &json!({ "body": { "order": 7 } }));
    let metrics = format!("{}/metrics", path(&queue(&kew, "next")));
    let begun = Instant::now();
    while call(&kew, "GET", &metrics, &Value::Null)["delayed_count"] != 1 {
        assert!(begun.elapsed() < PATIENCE, "the Worker sent nothing: {}", kew.errors());
        std::thread::sleep(Duration::from_millis(5));
    }

    // A call after the file: it holds, also when the same file is deployed again.
    let consumer = queue(&kew, "my-queue")["consumers"][0]["consumer_id"].as_str().expect("an id").to_owned();
    let change = json!({ "type": "worker", "script_name": "orders", "settings": { "retry_delay": 5 } });
    call(&kew, "PUT", &format!("{source}/consumers/{consumer}"), &change);
    deployed(folder.path(), &kew);
    assert_eq!(retry_delay(&kew), 5, "an unchanged file is not applied again");
    // The file after the call.
    let changed = CONFIG.replace("retry_delay = 300", "retry_delay = 30");
    std::fs::write(folder.path().join("wrangler.toml"), changed).expect("the directory is ours");
    deployed(folder.path(), &kew);
    assert_eq!(retry_delay(&kew), 30);

    std::fs::write(folder.path().join("index.js"), "export default {").expect("the directory is ours");
    let output = dev(folder.path(), &kew);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && errors.contains("SyntaxError"), "{errors}");
}
