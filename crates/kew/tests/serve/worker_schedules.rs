//! Cron triggers of Workers, through the program and the real runtime, on a clock that is moved.

use std::path::Path;

use serde_json::{Value, json};

use crate::program::{self, Kew, data_directory};
use crate::workers::{TOKEN, address, call, done, metadata, queues, upload, upload_to, wait_for};

const SCHEDULES: &str = "/workers/scripts/w/schedules";
const SAYS_WHEN: &str = r#"
export default {
  async scheduled(controller, env) {
    if (controller.cron === "59 * * * *") throw new Error("on purpose");
    await env.OUT.send({ cron: controller.cron, at: controller.scheduledTime });
  },
  async queue() {},
};
"#;

fn start(directory: &Path, runtime: &str) -> Kew {
    let data = directory.join("data").to_string_lossy().into_owned();
    let flags = ["--store", &data, "--workers", "on", "--workerd", runtime, "--clock", "virtual"];
    Kew::start_with(directory, &flags)
}

fn clock(kew: &Kew, body: &Value) -> u64 {
    let admin = kew.ports["admin"].as_str().expect("the listener is on");
    let headers = [("Content-Type", "application/json")];
    let (status, text) = program::http(admin, "POST", "/api/v1/clock", &headers, &body.to_string());
    assert_eq!(status, 200, "{text}");
    let reply: Value = serde_json::from_str(&text).expect("the reply is JSON");
    reply["now_ms"].as_u64().expect("now_ms is a number")
}

fn crons(kept: &Value) -> Vec<&str> {
    let kept = kept["schedules"].as_array().expect("schedules is a list");
    kept.iter().filter_map(|schedule| schedule["cron"].as_str()).collect()
}

#[test]
fn a_workers_cron_triggers_ring_at_their_minutes_and_are_kept() {
    let Some(runtime) = program::workerd() else { return };
    let directory = data_directory();
    let mut kew = start(directory.path(), &runtime);
    let (_orders, results) = queues(&kew);
    assert_eq!(upload(&kew, &[TOKEN], &metadata(), SAYS_WHEN).0, 200);
    assert_eq!(done(&kew, "GET", SCHEDULES, &Value::Null), json!({ "schedules": [] }));
    let now = clock(&kew, &json!({ "freeze": true }));
    let asked = json!([{ "cron": "*/10 * * * *" }, { "cron": "*/10 * * * *" }, { "cron": "59 * * * *" }]);
    let kept = done(&kew, "PUT", SCHEDULES, &asked);
    assert_eq!(crons(&kept), ["*/10 * * * *", "59 * * * *"]);

    clock(&kew, &json!({ "advance_ms": 3_600_000 }));
    let path = format!("/queues/{results}/messages/peek");
    let found = done(&kew, "POST", &path, &json!({ "batch_size": 100 }));
    let first = now / 600_000 + 1;
    let messages = found["messages"].as_array().expect("messages is a list");
    assert_eq!(messages.len(), 6, "one for each of six minutes: {found}");
    for number in 0..6 {
        let at = (first + number) * 600_000;
        wait_for(&kew, &results, |body| *body == json!({ "cron": "*/10 * * * *", "at": at }));
    }
    let log = done(&kew, "GET", "/workers/scripts/w/kew-log?after=0", &Value::Null).to_string();
    assert!(log.contains("the cron trigger \\\"59 * * * *\\\" failed"), "{log}");

    kew.kill();
    let again = start(directory.path(), &runtime);
    assert_eq!(done(&again, "GET", SCHEDULES, &Value::Null), kept);
    let now = clock(&again, &json!({ "freeze": true }));
    clock(&again, &json!({ "advance_ms": 600_000 }));
    let at = (now / 600_000 + 1) * 600_000;
    wait_for(&again, &results, |body| body["at"] == at);
}

#[test]
fn cron_triggers_that_are_none_are_refused_whole() {
    let Some(runtime) = program::workerd() else { return };
    let directory = data_directory();
    let kew = start(directory.path(), &runtime);
    queues(&kew);
    let (status, reply) = call(&kew, "PUT", SCHEDULES, &json!([{ "cron": "* * * * *" }]));
    assert_eq!((status, &reply["errors"][0]["code"]), (404, &json!(10_007)), "there is no Worker yet");
    assert_eq!(upload(&kew, &[TOKEN], &metadata(), SAYS_WHEN).0, 200);
    for (asked, code) in [
        (json!([{ "cron": "* * * * *" }, { "cron": "61 * * * *" }]), 10_100),
        (json!([{ "cron": "every day" }]), 10_100),
        (json!({ "cron": "* * * * *" }), 10_021),
        (json!([{ "crons": [] }]), 10_021),
        (Value::from(vec![json!({ "cron": "* * * * *" }); 101]), 10_021),
    ] {
        let (status, reply) = call(&kew, "PUT", SCHEDULES, &asked);
        assert_eq!((status, &reply["errors"][0]["code"]), (400, &json!(code)), "{asked}: {reply}");
    }
    assert_eq!(done(&kew, "GET", SCHEDULES, &Value::Null), json!({ "schedules": [] }));
}

#[test]
fn a_trigger_of_a_worker_without_the_handler_is_a_line_of_its_log() {
    let Some(runtime) = program::workerd() else { return };
    let directory = data_directory();
    let kew = start(directory.path(), &runtime);
    queues(&kew);
    let path = ("PUT", "/workers/scripts/w");
    assert_eq!(upload_to(&kew, path, &[TOKEN], &metadata(), "export default { async queue() {} };").0, 200);
    done(&kew, "PUT", SCHEDULES, &json!([{ "cron": "* * * * *" }]));
    clock(&kew, &json!({ "advance_ms": 60_000 }));
    let log = done(&kew, "GET", "/workers/scripts/w/kew-log?after=0", &Value::Null).to_string();
    assert!(log.contains("the cron trigger \\\"* * * * *\\\" failed"), "{log} {}", address(&kew));
}
