//! Workers through the program: uploaded by the vendor's API, run, killed, started again. Without the runtime's program
//! most of these say so aloud and pass; where `KEW_WORKERD` names it, they run.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::program::{self, Kew, data_directory};

const ACCOUNT: &str = "/client/v4/accounts/00000000000000000000000000000000";
const PATIENCE: Duration = Duration::from_secs(20);

/// Passes on what it gets, with the attempt.
pub const PASSES_ON: &str = r#"
export default {
  async queue(batch, env) {
    for (const message of batch.messages) {
      if (message.body.slow) await new Promise((wake) => setTimeout(wake, 2_000));
      await env.OUT.send({ got: message.body, attempt: message.attempts, token: env.TOKEN ?? null });
      message.ack();
    }
  },
};
"#;

/// A server that runs Workers.
pub fn start(directory: &Path, runtime: &str) -> Kew {
    let data = directory.join("data").to_string_lossy().into_owned();
    Kew::start_with(directory, &["--store", &data, "--workers", "on", "--workerd", runtime])
}

pub fn address(kew: &Kew) -> String {
    kew.ports["cloudflare"].as_str().expect("the listener is on").to_owned()
}

/// One call; its status and the JSON it is answered.
pub fn call(kew: &Kew, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let headers = [("Authorization", "Bearer any"), ("Content-Type", "application/json")];
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let (status, text) = program::http(&address(kew), method, &format!("{ACCOUNT}{path}"), &headers, &body);
    (status, serde_json::from_str(&text).unwrap_or_else(|_| panic!("{path}: {status} {text}")))
}

pub fn done(kew: &Kew, method: &str, path: &str, body: &Value) -> Value {
    let (status, mut reply) = call(kew, method, path, body);
    assert_eq!(status, 200, "{method} {path}: {reply}");
    reply["result"].take()
}

/// Uploads a Worker as `wrangler` does.
pub fn upload(kew: &Kew, headers: &[(&str, &str)], metadata: &Value, code: &str) -> (u16, Value) {
    upload_to(kew, ("PUT", "/workers/scripts/w"), headers, metadata, code)
}

/// The same to a path of the test's own.
pub fn upload_to(
    kew: &Kew,
    (method, path): (&str, &str),
    headers: &[(&str, &str)],
    metadata: &Value,
    code: &str,
) -> (u16, Value) {
    let part = |name: &str, kind: &str, text: &str| {
        format!(
            "--XX\r\nContent-Disposition: form-data; name=\"{name}\"; filename=\"{name}\"\r\nContent-Type: {kind}\r\n\r\n{text}\r\n"
        )
    };
    let metadata = part("metadata", "application/json", &metadata.to_string());
    let body = format!("{metadata}{}--XX--\r\n", part("./index.js", "application/javascript+module", code));
    let mut all = vec![("Content-Type", "multipart/form-data; boundary=XX")];
    all.extend_from_slice(headers);
    let (status, text) = program::http(&address(kew), method, &format!("{ACCOUNT}{path}"), &all, &body);
    (status, serde_json::from_str(&text).unwrap_or_else(|_| panic!("{status} {text}")))
}

pub const TOKEN: (&str, &str) = ("Authorization", "Bearer any");

pub fn metadata() -> Value {
    json!({
        "main_module": "index.js",
        "compatibility_date": "2026-04-01",
        "bindings": [{ "type": "queue", "name": "OUT", "queue_name": "results" }],
    })
}

/// Queues `orders`, consumed by the Worker, and `results`; their ids.
pub fn queues(kew: &Kew) -> (String, String) {
    let id = |name: &str| done(kew, "POST", "/queues", &json!({ "queue_name": name }))["queue_id"].clone();
    let [orders, results] =
        ["orders", "results"].map(|name| id(name).as_str().expect("a queue has an id").to_owned());
    (orders, results)
}

pub fn consume(kew: &Kew, orders: &str) {
    let consumer = json!({
        "type": "worker", "script_name": "w",
        "settings": { "batch_size": 1, "max_wait_time_ms": 0, "max_retries": 5, "retry_delay": 0 },
    });
    done(kew, "POST", &format!("/queues/{orders}/consumers"), &consumer);
}

pub fn send(kew: &Kew, queue: &str, body: &Value) {
    let message = json!({ "body": body, "content_type": "json" });
    done(kew, "POST", &format!("/queues/{queue}/messages"), &message);
}

/// Waits for a message in a queue and takes nothing.
pub fn wait_for(kew: &Kew, queue: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    use base64::Engine as _;
    let begun = Instant::now();
    loop {
        let found =
            done(kew, "POST", &format!("/queues/{queue}/messages/peek"), &json!({ "batch_size": 100 }));
        for message in found["messages"].as_array().expect("messages is a list") {
            let text = message["body"].as_str().expect("body is text");
            let bytes = base64::engine::general_purpose::STANDARD.decode(text).expect("the text is Base64");
            let body: Value = serde_json::from_slice(&bytes).expect("the body of a message is JSON");
            if wanted(&body) {
                return body;
            }
        }
        assert!(begun.elapsed() < PATIENCE, "it never came; {found} {}", kew.errors());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn an_uploaded_worker_consumes_and_produces_and_is_there_after_a_kill() {
    let Some(runtime) = program::workerd() else { return };
    let directory = data_directory();
    let mut kew = start(directory.path(), &runtime);
    let (orders, results) = queues(&kew);
    let (status, reply) = upload(&kew, &[TOKEN], &metadata(), PASSES_ON);
    assert_eq!(status, 200, "{reply}");
    consume(&kew, &orders);
    send(&kew, &orders, &json!({ "number": 1 }));
    let passed = wait_for(&kew, &results, |body| body["got"]["number"] == 1);
    assert_eq!((&passed["attempt"], &passed["token"]), (&json!(1), &Value::Null));
    let secret = json!({ "name": "TOKEN", "text": "s3cret", "type": "secret_text" });
    done(&kew, "PUT", "/workers/scripts/w/secrets", &secret);
    let shown = done(&kew, "GET", "/workers/scripts/w/secrets", &Value::Null);
    assert_eq!(shown, json!([{ "name": "TOKEN", "type": "secret_text" }]), "its text is shown to nobody");
    // One that is in the handler when everything is killed, and one behind it.
    send(&kew, &orders, &json!({ "slow": true }));
    send(&kew, &orders, &json!({ "number": 2 }));
    // The first takes two seconds.
    std::thread::sleep(Duration::from_millis(700));
    kew.kill();

    let again = start(directory.path(), &runtime);
    send(&again, &orders, &json!({ "number": 3 }));
    let passed = wait_for(&again, &results, |body| body["got"]["number"] == 3);
    assert_eq!(passed["token"], "s3cret");
    let slow = wait_for(&again, &results, |body| body["got"]["slow"] == true);
    assert_eq!(slow["attempt"], 2, "the delivery that was cut off counted");
    wait_for(&again, &results, |body| body["got"]["number"] == 2);
    let path = format!("/queues/{results}/messages/peek");
    let all = done(&again, "POST", &path, &json!({ "batch_size": 100 }));
    assert_eq!(all["messages"].as_array().map(Vec::len), Some(4), "each once: {all}");
}

#[test]
fn a_handler_that_runs_when_the_server_is_stopped_finishes_and_what_it_sends_arrives() {
    let Some(runtime) = program::workerd() else { return };
    let directory = data_directory();
    let mut kew = start(directory.path(), &runtime);
    let (orders, results) = queues(&kew);
    assert_eq!(upload(&kew, &[TOKEN], &metadata(), PASSES_ON).0, 200);
    consume(&kew, &orders);
    send(&kew, &orders, &json!({ "slow": true }));
    std::thread::sleep(Duration::from_millis(700));
    kew.signal("TERM");
    assert_eq!(kew.exit_code(), Some(0), "{}", kew.errors());
    let again = start(directory.path(), &runtime);
    let slow = wait_for(&again, &results, |body| body["got"]["slow"] == true);
    assert_eq!(slow["attempt"], 1, "{}", kew.errors());
    let left = done(&again, "GET", &format!("/queues/{orders}/metrics"), &Value::Null);
    assert_eq!(left["backlog_count"], 0);
}

#[test]
fn a_deployment_may_inherit_what_the_one_before_was_bound_to() {
    let Some(runtime) = program::workerd() else { return };
    let directory = data_directory();
    let kew = start(directory.path(), &runtime);
    let (orders, results) = queues(&kew);
    let mut inheriting = metadata();
    inheriting["bindings"] = json!([{ "type": "inherit", "name": "OUT" }]);
    let (status, reply) = upload(&kew, &[TOKEN], &inheriting, PASSES_ON);
    assert_eq!(status, 400, "there is nothing yet: {reply}");
    assert_eq!(upload(&kew, &[TOKEN], &metadata(), PASSES_ON).0, 200);
    let (status, reply) = upload(&kew, &[TOKEN], &inheriting, PASSES_ON);
    assert_eq!(status, 200, "{reply}");
    consume(&kew, &orders);
    send(&kew, &orders, &json!({ "number": 1 }));
    wait_for(&kew, &results, |body| body["got"]["number"] == 1);
}

#[test]
fn its_processes_do_not_outlive_a_server_that_is_killed() {
    let Some(runtime) = program::workerd() else { return };
    let directory = data_directory();
    let mut kew = start(directory.path(), &runtime);
    queues(&kew);
    assert_eq!(upload(&kew, &[TOKEN], &metadata(), PASSES_ON).0, 200);
    let children = || {
        let children = std::process::Command::new("pgrep").args(["-P", &kew.id().to_string()]).output();
        let text =
            String::from_utf8_lossy(&children.expect("the system has the program pgrep").stdout).into_owned();
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let children = children();
    assert!(!children.is_empty(), "it has a process of its own");
    kew.kill();
    let begun = Instant::now();
    let is_gone = |id: &String| {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        stat.is_empty() || stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z'))
    };
    while !children.iter().all(is_gone) {
        assert!(begun.elapsed() < Duration::from_secs(2), "{children:?} live on");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn what_cannot_be_run_is_refused_with_its_reason() {
    let Some(runtime) = program::workerd() else { return };
    let directory = data_directory();
    let kew = start(directory.path(), &runtime);
    queues(&kew);
    let mut of_kv = metadata();
    of_kv["bindings"] = json!([{ "type": "kv_namespace", "name": "KV", "namespace_id": "1" }]);
    let mut of_nowhere = metadata();
    of_nowhere["bindings"][0]["queue_name"] = json!("nowhere");
    for (metadata, code, number, reason) in [
        (metadata(), "export default { async queue(batch { } };", 10_021, "SyntaxError"),
        (metadata(), "throw new Error('at the top');", 10_021, "at the top"),
        (of_kv, PASSES_ON, 10_021, "kv_namespace"),
        (of_nowhere, PASSES_ON, 11_000, "nowhere"),
        (json!({ "main_module": "other.js" }), PASSES_ON, 10_021, "other.js"),
        (json!({ "body_part": "script" }), PASSES_ON, 10_021, "service-worker"),
        (json!([]), PASSES_ON, 10_021, "metadata"),
    ] {
        let (_, reply) = upload(&kew, &[TOKEN], &metadata, code);
        let (found, text) =
            (&reply["errors"][0]["code"], reply["errors"][0]["message"].as_str().unwrap_or_default());
        assert!(found == number && text.contains(reason), "{metadata}: {reply}");
    }
    for (method, path) in [
        ("GET", "/workers/services/w"),
        ("GET", "/workers/scripts/w/settings"),
        ("DELETE", "/workers/scripts/w"),
        ("POST", "/workers/scripts/w/deployments"),
    ] {
        let body = json!({ "versions": [{ "version_id": "1", "percentage": 100 }] });
        assert_eq!(call(&kew, method, path, &body).0, 404, "{method} {path}");
    }
    let body = json!({ "versions": [{ "version_id": "1", "percentage": 50 }, { "version_id": "2", "percentage": 50 }] });
    assert_eq!(call(&kew, "POST", "/workers/scripts/w/deployments", &body).0, 400);
    assert_eq!(done(&kew, "GET", "/workers/scripts", &Value::Null), json!([]), "nothing of it was kept");
}

#[test]
fn code_is_taken_only_where_that_was_switched_on_and_from_who_shows_a_token() {
    let directory = data_directory();
    let data = directory.path().join("data").to_string_lossy().into_owned();
    let off = Kew::start_with(directory.path(), &["--store", &data, "--also", "127.0.0.1:0"]);
    let (status, reply) = upload(&off, &[TOKEN], &metadata(), PASSES_ON);
    assert_eq!(status, 403);
    assert!(reply.to_string().contains("--workers on"), "{reply}");
    let (status, reply) = upload(&off, &[], &metadata(), PASSES_ON);
    assert_eq!((status, &reply["errors"][0]["code"]), (403, &json!(10_000)), "even in open mode");
    let also = off.ports["also"][0].as_str().expect("the listener is on").to_owned();
    let path = format!("{ACCOUNT}/workers/subdomain");
    let (status, text) = program::http(&also, "GET", &path, &[TOKEN], "");
    assert_eq!(status, 403, "{text}");
    assert!(text.contains("every dialect"), "{text}");
}

#[test]
fn a_runtime_that_is_not_there_is_said_at_the_start() {
    let directory = data_directory();
    let data = directory.path().join("data").to_string_lossy().into_owned();
    let (code, errors) =
        program::fail(&["--store", &data, "--workers", "on", "--workerd", "/nowhere/workerd"]);
    assert_eq!(code, Some(2));
    assert!(errors.contains("/nowhere/workerd") && errors.contains("npm install"), "{errors}");
    assert!(!Path::new(&data).exists(), "nothing was opened");
}
