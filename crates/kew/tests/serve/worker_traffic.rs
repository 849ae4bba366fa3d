//! Workers that send to each other's queues through the server: what arrives, while versions change too. Without the
//! runtime these say so aloud and pass.

use std::time::Instant;

use serde_json::{Value, json};

use super::program::{self, Kew, data_directory};
use super::push::PATIENCE;
use super::workers::{PASSES_ON, TOKEN, consume, done, metadata, queues, send, start, upload};

/// Waits for a line of the Worker's log.
fn until_said(kew: &Kew, what: &str) {
    let begun = Instant::now();
    loop {
        let page = done(kew, "GET", "/workers/scripts/w/kew-log?after=0", &Value::Null);
        let lines = page["lines"].as_array().expect("lines is a list");
        if lines.iter().any(|line| line["text"].as_str().is_some_and(|text| text.contains(what))) {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{what} was never said: {page}");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

#[test]
fn a_map_with_a_date_arrives_as_what_it_was_when_it_was_sent() {
    let Some(runtime) = program::workerd() else { return };
    let directory = data_directory();
    let kew = start(directory.path(), &runtime);
    let (orders, results) = queues(&kew);
    let code = r#"export default { async queue(batch, env) {
      for (const { body } of batch.messages) {
        if (batch.queue === "orders") {
          await env.OUT.send(new Map([["when", new Date(7)], ["many", [1n, new Set(["a"])]]]), { contentType: "v8" });
        } else {
          const [one, [two]] = body.get("many");
          console.log(`arrived ${body instanceof Map} ${body.get("when").getTime()} ${typeof one} ${[...body.get("many")[1]]}`);
        }
      }
    } };"#;
    assert_eq!(upload(&kew, &[TOKEN], &metadata(), code).0, 200);
    consume(&kew, &orders);
    consume(&kew, &results);
    send(&kew, &orders, &json!({}));
    until_said(&kew, "arrived true 7 bigint a");
}

// Workers of 2026-03-12 and later get cause and code, older ones the reply's reason.
#[test]
fn a_send_that_is_refused_throws_what_the_runtime_makes_of_it() {
    let Some(runtime) = program::workerd() else { return };
    let directory = data_directory();
    let kew = start(directory.path(), &runtime);
    let (orders, _) = queues(&kew);
    let code = r#"export default { async queue(batch, env) {
      try {
        await env.OUT.send("x".repeat(200_000), { contentType: "text" });
      } catch (error) {
        console.log(`DATE ${error.message}`);
      }
    } };"#;
    let mut is_consumed = false;
    for (date, told) in [("2026-04-01", "(10204)"), ("2024-04-01", "Queue send failed: Payload Too Large")] {
        let mut metadata = metadata();
        metadata["compatibility_date"] = json!(date);
        assert_eq!(upload(&kew, &[TOKEN], &metadata, &code.replace("DATE", date)).0, 200);
        if !std::mem::replace(&mut is_consumed, true) {
            consume(&kew, &orders);
        }
        send(&kew, &orders, &json!({}));
        until_said(&kew, date);
        until_said(&kew, told);
    }
}

#[test]
fn deployments_under_load_lose_nothing_and_settle_nothing_twice() {
    let Some(runtime) = program::workerd() else { return };
    let directory = data_directory();
    let kew = start(directory.path(), &runtime);
    let (orders, results) = queues(&kew);
    assert_eq!(upload(&kew, &[TOKEN], &metadata(), PASSES_ON).0, 200);
    consume(&kew, &orders);
    let mut sent = 0;
    for round in 0..5 {
        for _ in 0..40 {
            send(&kew, &orders, &json!({ "number": sent }));
            sent += 1;
        }
        let code = PASSES_ON.replace("export default", &format!("// version {round}\nexport default"));
        assert_eq!(upload(&kew, &[TOKEN], &metadata(), &code).0, 200);
    }
    let begun = Instant::now();
    let count = |queue: &str| {
        let metrics = done(&kew, "GET", &format!("/queues/{queue}/metrics"), &Value::Null);
        metrics["backlog_count"].as_u64().expect("backlog_count is a number")
    };
    while count(&orders) > 0 {
        assert!(begun.elapsed() < PATIENCE, "they are not consumed: {}", kew.errors());
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert_eq!(count(&results), sent, "each was passed on once");
    let (_, metrics) = kew.admin("GET", "/metrics", &[], "");
    assert!(metrics.contains("kew_push_attempts_total{outcome=\"failed\"} 0"), "{metrics}");
    let listed = done(&kew, "GET", "/workers/scripts/w/deployments", &Value::Null);
    assert_eq!(listed["deployments"].as_array().map(Vec::len), Some(6));
}
