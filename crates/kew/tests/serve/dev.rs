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
    command(folder, kew).arg("--once").output().expect("the program kew is built with its tests")
}

fn command(folder: &Path, kew: &Kew) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kew"));
    command.args(["workers", "dev", "--cloudflare"]).arg(format!("http://{}", address(kew)));
    command.env_remove("CLOUDFLARE_API_TOKEN").env_remove("CLOUDFLARE_ACCOUNT_ID").current_dir(folder);
    command
}

/// What it says of a deployment that works.
pub fn deployed(folder: &Path, kew: &Kew) -> String {
    let output = dev(folder, kew);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn address(kew: &Kew) -> &str {
    kew.ports["cloudflare"].as_str().expect("the listener is on")
}

fn call(kew: &Kew, method: &str, path: &str, body: &Value) -> Value {
    let path = format!("/client/v4/accounts/0/queues{path}");
    let text = if body.is_null() { String::new() } else { body.to_string() };
    let (status, reply) =
        program::http(address(kew), method, &path, &[("Authorization", "Bearer any")], &text);
    assert_eq!(status, 200, "{method} {path}: {reply}");
    let reply: Value = serde_json::from_str(&reply).expect("the reply is JSON");
    reply["result"].clone()
}

fn queue(kew: &Kew, name: &str) -> Value {
    call(kew, "GET", &format!("?name={name}"), &Value::Null)[0].clone()
}

fn path(queue: &Value) -> String {
    format!("/{}", queue["queue_id"].as_str().expect("a queue has an id"))
}

fn retry_delay(kew: &Kew) -> u64 {
    queue(kew, "my-queue")["consumers"][0]["settings"]["retry_delay"]
        .as_u64()
        .expect("the consumer has a retry delay")
}

fn project() -> tempfile::TempDir {
    let folder = data_directory();
    std::fs::write(folder.path().join("wrangler.toml"), CONFIG).expect("the directory is ours");
    std::fs::write(folder.path().join("index.js"), CODE).expect("the directory is ours");
    folder
}

#[test]
fn an_address_that_is_none_is_a_wrong_call() {
    let folder = project();
    let mut command = Command::new(env!("CARGO_BIN_EXE_kew"));
    command.args(["workers", "dev", "--once", "--cloudflare", "http://no host"]).current_dir(folder.path());
    let output = command.output().expect("the program kew is built with its tests");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && errors.contains("http://no host"), "{errors}");
}

#[test]
fn a_missing_file_is_reported() {
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
    let Some(workerd) = program::workerd() else { return };
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

/// Says what it gets, and fails where the message says so.
const TALKS: &str = "export default { async queue(batch) {
  for (const message of batch.messages) {
    console.log(`VERSION got ${message.body.order}`);
    if (message.body.fails) throw new Error('of order ' + message.body.order);
  }
} };";

#[test]
fn what_the_worker_says_is_shown_at_the_terminal_through_deployments_and_a_restart_of_its_process() {
    let Some(workerd) = program::workerd() else { return };
    let (directory, folder) = (data_directory(), project());
    let kew = Kew::start_with(
        directory.path(),
        &["--store", "memory", "--clock", "virtual", "--workers", "on", "--workerd", &workerd],
    );
    let write = |version: &str| {
        let code = TALKS.replace("VERSION", version);
        std::fs::write(folder.path().join("index.js"), code).expect("the directory is ours");
    };
    write("first");
    // Logged before anybody followed: not shown.
    deployed(folder.path(), &kew);
    let source = path(&queue(&kew, "my-queue"));
    let send = |body: &Value| {
        call(&kew, "POST", &format!("{source}/messages"), &json!({ "body": body }));
    };
    send(&json!({ "order": 1 }));
    let metrics = || call(&kew, "GET", &format!("{source}/metrics"), &Value::Null)["backlog_count"].clone();
    let begun = Instant::now();
    while metrics() != 0 {
        assert!(begun.elapsed() < PATIENCE, "{}", kew.errors());
        std::thread::sleep(Duration::from_millis(5));
    }
    let shown = directory.path().join("shown");
    let mut command = command(folder.path(), &kew);
    let output = std::fs::File::create(&shown).expect("the directory is ours");
    let mut dev = Followed(command.stdout(output).spawn().expect("the program kew is built with its tests"));
    let text = || std::fs::read_to_string(&shown).unwrap_or_default();
    let until = |what: &str| {
        let begun = Instant::now();
        while !text().contains(what) {
            assert!(begun.elapsed() < PATIENCE, "{what} is not shown: {} {}", text(), kew.errors());
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    until("deployed orders");
    send(&json!({ "order": 2 }));
    until("[log] first got 2");
    send(&json!({ "order": 3, "fails": true }));
    until("of order 3");
    write("second");
    send(&json!({ "order": 4 }));
    until("got 4");
    let begun = Instant::now();
    while text().matches("deployed orders").count() < 2 {
        assert!(begun.elapsed() < PATIENCE, "a change is deployed: {}", text());
        std::thread::sleep(Duration::from_millis(5));
    }
    send(&json!({ "order": 5 }));
    until("[log] second got 5");
    let own = kew.id().to_string();
    let killed = Command::new("pkill").args(["-9", "-P", &own, "workerd"]).status();
    assert!(killed.expect("the system has the program pkill").success());
    until("its process ended");
    send(&json!({ "order": 6 }));
    until("[log] second got 6");
    assert!(!text().contains("got 1"), "what was said before it began is not shown: {}", text());
    let id = dev.0.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-TERM", &id])
            .status()
            .expect("the system has the program kill")
            .success()
    );
    assert_eq!(dev.0.wait().expect("the child process was not waited for before").code(), Some(0));
}

/// A process that is not left behind.
struct Followed(std::process::Child);

impl Drop for Followed {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ended = (self.0.kill(), self.0.wait());
    }
}

#[test]
fn a_log_is_shown_to_clients_with_a_token_and_ends_with_the_server() {
    let Some(workerd) = program::workerd() else { return };
    let (directory, folder) = (data_directory(), project());
    let mut kew =
        Kew::start_with(directory.path(), &["--store", "memory", "--workers", "on", "--workerd", &workerd]);
    deployed(folder.path(), &kew);
    let place = "/client/v4/accounts/0/workers/scripts/orders/kew-log";
    let ask = |query: &str, headers: &[(&str, &str)]| {
        program::http(address(&kew), "GET", &format!("{place}{query}"), headers, "")
    };
    assert_eq!(ask("", &[]).0, 403, "without a token");
    let (status, text) = ask("", &[("Authorization", "Bearer any")]);
    let page: Value = serde_json::from_str(&text).expect("the reply is JSON");
    assert_eq!((status, &page["result"]["lines"]), (200, &json!([])), "{text}");
    assert_eq!(ask("?after=yesterday", &[("Authorization", "Bearer any")]).0, 400);
    let last = page["result"]["last"].as_u64().expect("last is a number");
    let (address, path) = (address(&kew).to_owned(), format!("{place}?after={last}&wait=30"));
    let begun = Instant::now();
    let waits = std::thread::spawn(move || {
        (program::http(&address, "GET", &path, &[("Authorization", "Bearer any")], ""), begun.elapsed())
    });
    std::thread::sleep(Duration::from_millis(300));
    kew.signal("TERM");
    assert_eq!(kew.exit_code(), Some(0), "{}", kew.errors());
    let ((status, text), took) = waits.join().expect("the waiting request does not panic");
    let waited = Duration::from_millis(200)..Duration::from_secs(15);
    assert!(status == 200 && waited.contains(&took), "{status} {text} after {took:?}");
}
