//! Bad days of Workers: bodies that do not decode, processes that die.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use bytes::Bytes;
use kew_core::ContentType;
use kew_push::Consumer;
use kew_push::verdict::Ending;
use serde_json::json;
use tempfile::TempDir;

use crate::dispatcher::{engine, pushing, secs, until};
use crate::hook::{Hook, Reply};
use crate::workers::{ACCOUNT, OBEDIENT, Shop, calls, worker};

/// A body that says it is v8's and is not.
const POISON: &[u8] = &[0xff, 0x0f, b'?', b'?', b'?'];

#[tokio::test]
async fn a_v8_body_that_does_not_decode_costs_the_others_one_delivery_and_then_fails_alone() {
    let Some(shop) = Shop::open().await else { return };
    shop.upload(OBEDIENT).await.expect("the Worker starts");
    let dead = shop.dispatcher.queue("dead", None).await;
    let consumer = Consumer { batch_size: 4, dead_letter_queue: Some("dead".into()), ..worker() };
    let consumer = pushing(&consumer, |push| push.max_wait = secs(60));
    let queue = shop.dispatcher.queue("a", Some(&consumer)).await;
    let json = || (ContentType::Json, Bytes::from(calls(json!([["ack"]])).to_string()));
    let poison = (ContentType::V8, Bytes::from_static(POISON));
    shop.send_contents(queue, [json(), poison, json(), json()]).await;
    shop.dispatcher.until_holds(queue, (0, 0, 4)).await;
    assert_eq!(shop.count_heard("batch of"), 0, "no handler has seen it");
    shop.dispatcher.advance(secs(300)).await;
    shop.until_heard("batch of 3 from a").await;
    shop.dispatcher.until_holds(queue, (0, 0, 1)).await;
    for _ in 0..2 {
        shop.dispatcher.advance(secs(360)).await;
        shop.dispatcher.calm().await;
    }
    shop.dispatcher.until_holds(dead, (1, 0, 0)).await;
    shop.dispatcher.until_holds(queue, (0, 0, 0)).await;
    let attempts = shop.dispatcher.attempts.latest();
    let failed = attempts.iter().filter(|attempt| attempt.ending == Ending::Failed);
    let sizes: Vec<u32> = failed.map(|attempt| attempt.messages).collect();
    assert_eq!(sizes, [1, 1, 1, 4], "the newest first");
    assert!(attempts[0].error.as_ref().is_some_and(|error| error.contains("v8")), "{:?}", attempts[0].error);
    shop.dispatcher.close().await;
}

#[tokio::test]
async fn acks_made_before_the_runtime_was_killed_hold_and_the_rest_comes_again_counted() {
    let Some(shop) = Shop::open().await else { return };
    shop.upload(OBEDIENT).await.expect("the Worker starts");
    let consumer = pushing(&worker(), |push| push.max_wait = secs(60));
    let queue = shop.dispatcher.queue("a", Some(&Consumer { batch_size: 3, ..consumer })).await;
    let said = json!({ "calls": [["say"], ["sleep", 60_000]], "say": "in the middle" });
    shop.send(queue, [calls(json!([["ack"]])), calls(json!([["retry", 7]])), said]).await;
    shop.until_heard("in the middle").await;
    kill_runtimes(&shop.directory);
    shop.dispatcher.until_holds(queue, (0, 0, 2)).await;
    assert_eq!(shop.rests(queue).await, secs(7), "the explicit retry keeps its own delay");
    let attempt = shop.dispatcher.attempts.latest().remove(0);
    assert_eq!((attempt.messages, attempt.acked, attempt.ending), (3, 1, Ending::Failed));
    let error = attempt.error.clone().unwrap_or_default();
    assert!(error.contains("process ended") || error.contains("connection broke"), "{error}");
    shop.dispatcher.close().await;
}

// A stand-in for the runtime: at first it names a port where no program listens, as one that is just dying does; when
// it is started again, one where a webhook answers as the shim would.
#[tokio::test]
async fn a_batch_that_meets_a_process_that_has_just_died_waits_for_the_next_and_costs_no_attempt() {
    let (folder, hook) = (TempDir::new().expect("the machine has a temporary directory"), Hook::open().await);
    hook.answer(|batch| {
        let acks: Vec<String> = batch.ids();
        Reply::json(&json!({ "outcome": "ok", "explicitAcks": acks }))
    });
    let port = hook.url.split([':', '/']).nth(4).expect("the URL of the hook has a port").to_owned();
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let unused = free.local_addr().expect("a bound socket has an address").port();
    drop(free);
    let (program, seen) = (folder.path().join("runtime"), folder.path().join("seen"));
    let script = format!(
        "#!/bin/sh\nport={unused} lives=1\nif [ -e {seen:?} ]; then port={port} lives=1000; fi\n: > {seen:?}\necho '{{\"event\":\"listen\",\"socket\":\"dispatch\",\"port\":'$port'}}'\nexec sleep $lives\n"
    );
    std::fs::write(&program, script).expect("the folder is ours");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755))
        .expect("the mode of the test's own file can be set");
    let shop = Shop::running(program, engine().await, secs(900)).await;
    shop.upload(OBEDIENT).await.expect("the stand-in says that it listens");
    let queue = shop.dispatcher.queue("a", Some(&Consumer { max_retries: 0, ..worker() })).await;
    shop.send(queue, [calls(json!([]))]).await;
    hook.until(1).await;
    shop.dispatcher.until_holds(queue, (0, 0, 0)).await;
    assert_eq!(hook.batches()[0].body["messages"][0]["attempts"], 1);
    until("it to be noted", || shop.dispatcher.attempts.count(Ending::Returned) == 1).await;
    assert_eq!(shop.dispatcher.attempts.count(Ending::Failed), 0, "nothing has failed");
    shop.workers.shut_down().await;
    shop.dispatcher.close().await;
}

// What an old version has acknowledged is known when the end cuts it off, although another has taken its place.
#[tokio::test]
async fn acks_of_an_old_version_that_is_cut_off_at_the_end_hold() {
    let Some(shop) = Shop::open().await else { return };
    shop.upload(OBEDIENT).await.expect("the Worker starts");
    let consumer = pushing(&worker(), |push| push.max_wait = secs(60));
    let queue = shop.dispatcher.queue("a", Some(&Consumer { batch_size: 2, ..consumer })).await;
    let sleeps = json!({ "calls": [["say"], ["sleep", 120_000]], "say": "in the middle" });
    shop.send(queue, [calls(json!([["ack"]])), sleeps]).await;
    shop.until_heard("in the middle").await;
    shop.upload("export default { async queue() {} };").await.expect("the new version starts");
    let engine = std::sync::Arc::clone(&shop.dispatcher.engine);
    // It is given half a minute to finish.
    shop.dispatcher.close().await;
    let counts = engine.counts(queue).await.expect("the queue that is counted exists");
    assert_eq!((counts.visible, counts.in_flight, counts.delayed), (0, 0, 1), "one was acknowledged");
    shop.workers.shut_down().await;
}

#[tokio::test]
async fn a_wait_for_the_log_of_a_deleted_worker_is_answered() {
    let Some(shop) = Shop::open().await else { return };
    shop.upload(OBEDIENT).await.expect("the Worker starts");
    let last = shop.workers.log(ACCOUNT, "w", None, secs(0)).await.expect("the Worker has a log").last;
    let (page, ()) = tokio::join!(shop.workers.log(ACCOUNT, "w", Some(last), secs(3_600)), async {
        shop.workers.delete(ACCOUNT, "w").await.expect("the Worker was uploaded");
    });
    assert!(page.is_ok());
    shop.dispatcher.close().await;
}

/// Kills every process that works in a directory.
fn kill_runtimes(directory: &TempDir) {
    let is_there = |process: &std::path::Path| {
        std::fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd.starts_with(directory.path()))
    };
    let processes = std::fs::read_dir("/proc").expect("Linux has /proc").flatten().map(|entry| entry.path());
    let found: Vec<_> = processes.filter(|process| is_there(process)).collect();
    assert!(!found.is_empty(), "there is one");
    for process in found {
        let id = process.file_name().expect("a directory in /proc has a name").to_owned();
        assert!(
            Command::new("kill")
                .arg("-9")
                .arg(id)
                .status()
                .expect("the system has the program kill")
                .success()
        );
    }
}
