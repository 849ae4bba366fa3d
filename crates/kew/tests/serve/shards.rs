//! Several shards in one directory: a thread and an event loop for each.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::program::{Kew, data_directory, fail, http, reply};
use super::push::{self, Hook};
use super::store_tool::{done, errors, tool};

const PATIENCE: Duration = Duration::from_secs(20);

fn data(directory: &Path) -> String {
    directory.join("data").to_string_lossy().into_owned()
}

fn start(directory: &Path, more: &[&str]) -> Kew {
    let data = data(directory);
    Kew::start_with(directory, &[&["--store", &data], more].concat())
}

fn asked(kew: &Kew, action: &str, body: &Value) -> Value {
    let (status, reply) = kew.ask(action, &body.to_string());
    assert_eq!(status, 200, "{action} {body}: {reply}");
    // Some actions say nothing.
    if reply.is_empty() { Value::Null } else { serde_json::from_str(&reply).expect("a reply is JSON") }
}

fn api(kew: &Kew, path: &str) -> Value {
    let (status, reply) = kew.admin("GET", &format!("/api/v1{path}"), &[], "");
    assert_eq!(status, 200, "{path}: {reply}");
    serde_json::from_str(&reply).expect("a reply is JSON")
}

fn make(kew: &Kew, name: &str) {
    asked(kew, "CreateQueue", &json!({ "QueueName": name }));
}

fn send(kew: &Kew, queue: &str, body: &str) {
    asked(kew, "SendMessage", &json!({ "QueueUrl": queue, "MessageBody": body }));
}

/// Bodies and receipts.
fn receive(kew: &Kew, queue: &str) -> Vec<(String, String)> {
    let reply = asked(kew, "ReceiveMessage", &json!({ "QueueUrl": queue, "MaxNumberOfMessages": 10 }));
    let text = |value: &Value| value.as_str().expect("the field is a text").to_owned();
    let messages = reply["Messages"].as_array().into_iter().flatten();
    messages.map(|message| (text(&message["Body"]), text(&message["ReceiptHandle"]))).collect()
}

fn delete(kew: &Kew, queue: &str, receipt: &str) {
    asked(kew, "DeleteMessage", &json!({ "QueueUrl": queue, "ReceiptHandle": receipt }));
}

/// The shard of each queue.
fn shards_of_queues(kew: &Kew) -> BTreeMap<String, u64> {
    let listed = api(kew, "/queues?limit=1000");
    let rows = listed["queues"].as_array().expect("a list of queues").iter();
    let row = |row: &Value| Some((row["name"].as_str()?.to_owned(), row["shard"].as_u64()?));
    rows.map(|found| row(found).unwrap_or_else(|| panic!("no shard in {found}"))).collect()
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "it never came to this: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn refused(store: &str, arguments: &[&str]) -> String {
    let output = tool(store, arguments);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}");
    errors(&output)
}

#[test]
fn queues_are_spread_over_the_shards_and_a_kill_loses_nothing_of_any() {
    let directory = data_directory();
    let mut kew = start(directory.path(), &["--shards", "4"]);
    let names: Vec<String> = (0..8).map(|number| format!("q{number}")).collect();
    for name in &names {
        make(&kew, name);
        (0..3).for_each(|number| send(&kew, name, &format!("{name}-{number}")));
    }
    let spread = shards_of_queues(&kew);
    let mut shards: Vec<u64> = spread.values().copied().collect();
    shards.sort_unstable();
    assert_eq!(shards, [0, 0, 1, 1, 2, 2, 3, 3]);
    let kept: BTreeMap<&String, String> = names
        .iter()
        .map(|name| {
            let (body, receipt) = receive(&kew, name).swap_remove(0);
            assert_eq!(body, format!("{name}-0"));
            (name, receipt)
        })
        .collect();
    kew.kill();

    // As many as the directory was made with, without the flag.
    let again = start(directory.path(), &[]);
    assert_eq!(shards_of_queues(&again), spread);
    for name in &names {
        delete(&again, name, &kept[name]);
        let (_, reply) = again
            .ask("GetQueueAttributes", &json!({ "QueueUrl": name, "AttributeNames": ["All"] }).to_string());
        assert!(reply.contains(r#""ApproximateNumberOfMessagesNotVisible":"2""#), "{name}: {reply}");
    }
}

#[test]
fn a_name_is_one_queue_however_many_connections_make_it_at_once() {
    let directory = data_directory();
    let mut kew = start(directory.path(), &["--shards", "3"]);
    for round in 0..5 {
        let name = format!("q{round}");
        // Each on a connection of its own, which any of the loops may have.
        let body = json!({ "QueueName": name }).to_string();
        let begun: Vec<_> = (0..12).map(|_| kew.begin("CreateQueue", &body)).collect();
        let urls = begun.into_iter().map(reply).collect::<Vec<_>>();
        assert!(urls.iter().all(|reply| *reply == urls[0] && reply.0 == 200), "{urls:?}");
    }
    assert_eq!(shards_of_queues(&kew).len(), 5);
    asked(&kew, "DeleteQueue", &json!({ "QueueUrl": "q0" }));
    assert_eq!(kew.ask("GetQueueUrl", r#"{"QueueName":"q0"}"#).0, 400);
    kew.kill();
    let again = start(directory.path(), &[]);
    assert_eq!(shards_of_queues(&again).len(), 4);
}

#[test]
fn the_name_of_a_queue_in_another_shard_is_a_conflict_for_a_rename_and_the_store_opens_again() {
    let directory = data_directory();
    let mut kew = start(directory.path(), &["--shards", "2"]);
    let address = push::cloudflare(&kew);
    let made = |name: &str| {
        let made = push::call(&address, "POST", "", &json!({ "queue_name": name }));
        made["queue_id"].as_str().expect("a queue has an id").to_owned()
    };
    let (first, second) = (made("first"), made("second"));
    assert_eq!(shards_of_queues(&kew).values().copied().collect::<BTreeSet<_>>(), BTreeSet::from([0, 1]));
    let rename = |method: &str, id: &str, name: &str| {
        let path = format!("/client/v4/accounts/0/queues/{id}");
        let body = json!({ "queue_name": name }).to_string();
        http(&address, method, &path, &[("Authorization", "Bearer any")], &body)
    };
    for method in ["PATCH", "PUT"] {
        for (id, taken) in [(&first, "second"), (&second, "first")] {
            let (status, reply) = rename(method, id, taken);
            let reply: Value = serde_json::from_str(&reply).expect("a reply is JSON");
            assert_eq!((status, &reply["errors"][0]["code"]), (409, &json!(11_009)), "{reply}");
        }
    }
    push::call(&address, "DELETE", &format!("/{second}"), &Value::Null);
    assert_eq!(rename("PATCH", &first, "second").0, 200, "the name is free");
    let again = made("first");
    kew.kill();

    let kew = start(directory.path(), &[]);
    let names: Vec<String> = shards_of_queues(&kew).into_keys().collect();
    assert_eq!(names, ["first", "second"]);
    let address = push::cloudflare(&kew);
    for (id, name) in [(&again, "first"), (&first, "second")] {
        let shown = push::call(&address, "GET", &format!("/{id}"), &Value::Null);
        assert_eq!(shown["queue_name"], name, "{shown}");
    }
}

#[test]
fn a_receive_waits_for_a_message_that_comes_in_through_another_loop() {
    let directory = data_directory();
    let kew = start(directory.path(), &["--shards", "2"]);
    for name in ["a", "b"] {
        make(&kew, name);
    }
    // Connections are spread by chance: of 16 some are of either loop.
    let body = |name: &str| json!({ "QueueUrl": name, "WaitTimeSeconds": 20 }).to_string();
    let waiting: Vec<_> =
        ["a", "b"].iter().flat_map(|name| (0..8).map(|_| kew.begin("ReceiveMessage", &body(name)))).collect();
    until("all receives wait", || metric(&kew, "kew_waiting_receives") == Some(16.0));
    for number in 0..8 {
        ["a", "b"].iter().for_each(|name| send(&kew, name, &format!("m{number}")));
    }
    let begun = Instant::now();
    let mut bodies: Vec<String> = waiting
        .into_iter()
        .map(|stream| {
            let reply: Value = serde_json::from_str(&reply(stream).1).expect("a reply is JSON");
            reply["Messages"][0]["Body"].as_str().unwrap_or("none").to_owned()
        })
        .collect();
    assert!(begun.elapsed() < Duration::from_secs(10), "they waited to the end");
    bodies.sort_unstable();
    let expected: Vec<String> = (0..16).map(|number| format!("m{}", number / 2)).collect();
    assert_eq!(bodies, expected, "one message for each");
    assert_eq!(metric(&kew, "kew_waiting_receives"), Some(0.0));
}

fn metric(kew: &Kew, name: &str) -> Option<f64> {
    let (_, text) = kew.admin("GET", "/metrics", &[], "");
    let line =
        text.lines().find(|line| line.starts_with(name) && line[name.len()..].starts_with([' ', '{']))?;
    line.rsplit(' ').next()?.parse().ok()
}

#[test]
fn dead_letters_reach_a_queue_of_another_shard_once_each_though_the_server_is_killed() {
    const MESSAGES: usize = 40;
    let directory = data_directory();
    let mut kew = start(directory.path(), &["--shards", "2"]);
    // Each in another shard: the rule comes when both are there.
    asked(&kew, "CreateQueue", &json!({ "QueueName": "source", "Attributes": { "VisibilityTimeout": "1" } }));
    make(&kew, "dead");
    let shards = shards_of_queues(&kew);
    assert_ne!(shards["source"], shards["dead"]);
    let policy =
        json!({ "deadLetterTargetArn": "arn:aws:sqs:us-east-1:000000000000:dead", "maxReceiveCount": "1" });
    let attributes = json!({ "RedrivePolicy": policy.to_string() });
    asked(&kew, "SetQueueAttributes", &json!({ "QueueUrl": "source", "Attributes": attributes }));
    (0..MESSAGES).for_each(|number| send(&kew, "source", &number.to_string()));
    let mut leased = 0;
    while leased < MESSAGES {
        leased += receive(&kew, "source").len();
    }
    std::thread::sleep(Duration::from_millis(900));
    kew.kill();

    let again = start(directory.path(), &[]);
    let mut arrived = BTreeMap::<String, u32>::new();
    until("every message is dead", || {
        // A lease that the crash forgot is taken again, and its message leaves after that.
        receive(&again, "source");
        for (body, receipt) in receive(&again, "dead") {
            delete(&again, "dead", &receipt);
            *arrived.entry(body).or_default() += 1;
        }
        arrived.len() == MESSAGES
    });
    assert_eq!(arrived.values().max(), Some(&1));
    until("nothing is on its way", || metric(&again, "kew_owed_messages") == Some(0.0));
    assert_eq!((receive(&again, "source"), receive(&again, "dead")), (vec![], vec![]));

    // And back: a move task over two shards.
    (0..MESSAGES).for_each(|number| send(&again, "dead", &number.to_string()));
    let arn = |name: &str| format!("arn:aws:sqs:us-east-1:000000000000:{name}");
    let begin = json!({ "SourceArn": arn("dead"), "DestinationArn": arn("source") });
    asked(&again, "StartMessageMoveTask", &begin);
    let mut back = 0;
    until("every message is back", || {
        let some = receive(&again, "source");
        some.iter().for_each(|(_, receipt)| delete(&again, "source", receipt));
        back += some.len();
        back == MESSAGES
    });
    let listed = asked(&again, "ListMessageMoveTasks", &json!({ "SourceArn": arn("dead") }));
    assert_eq!(listed["Results"][0]["Status"], "COMPLETED", "{listed}");
}

#[test]
fn a_push_consumer_of_any_shard_gets_its_messages() {
    let directory = data_directory();
    let kew = start(directory.path(), &["--shards", "3"]);
    let (address, hook) = (push::cloudflare(&kew), Hook::open());
    let settings = json!({ "batch_size": 1, "max_wait_time_ms": 1 });
    let queues: Vec<String> =
        ["a", "b", "c"].iter().map(|name| push::queue(&address, name, &hook, &settings)).collect();
    assert_eq!(shards_of_queues(&kew).into_values().collect::<BTreeSet<_>>(), BTreeSet::from([0, 1, 2]));
    for (number, queue) in queues.iter().enumerate() {
        push::send(&address, queue, &[number.to_string()]);
    }
    hook.until("each has come", |delivered| delivered.len() == 3);
    queues.iter().for_each(|queue| push::until_empty(&address, queue));
    assert!(hook.delivered().values().all(|attempts| *attempts == [1]), "{:?}", hook.delivered());
}

#[test]
fn operators_see_one_node_that_keeps_all_shards() {
    let directory = data_directory();
    let kew = start(directory.path(), &["--shards", "2", "--node", "here"]);
    for name in ["a", "b"] {
        make(&kew, name);
        send(&kew, name, "m");
    }
    assert_eq!(kew.admin("GET", "/readyz", &[], "").0, 200);
    let listed = api(&kew, "/shards");
    let rows: Vec<(u64, &str, &str)> = listed["shards"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|row| {
            (
                row["shard"].as_u64().unwrap_or(9),
                row["owner"].as_str().unwrap_or(""),
                row["state"].as_str().unwrap_or(""),
            )
        })
        .collect();
    assert_eq!(rows, [(0, "here", "serving"), (1, "here", "serving")], "{listed}");
    assert!(listed["shards"][1]["append_ms_p50"].as_f64().is_some(), "{listed}");
    let nodes = api(&kew, "/nodes");
    assert_eq!(nodes["nodes"].as_array().map(Vec::len), Some(1), "{nodes}");
    assert_eq!(nodes["nodes"][0]["shards"], json!([0, 1]), "{nodes}");
    let (status, reply) =
        kew.admin("POST", "/api/v1/shards/1/hand-over", &[("Content-Type", "application/json")], "{}");
    assert_eq!(status, 409, "{reply}");
    let (_, metrics) = kew.admin("GET", "/metrics", &[], "");
    for line in [
        r#"kew_shard_serving{shard="0",node="here"} 1"#,
        r#"kew_shard_serving{shard="1",node="here"} 1"#,
        "kew_fleet_nodes 1",
    ] {
        assert!(metrics.lines().any(|found| found == line), "no {line} in {metrics}");
    }
    // Queues of both shards are counted.
    for queue in ["a", "b"] {
        let shown = api(&kew, &format!("/queues/{queue}"));
        assert_eq!(shown["visible"], 1, "{shown}");
    }
    let page = kew.admin("GET", "/store", &[("Accept", "text/html")], "");
    assert_eq!(page.0, 200, "{}", page.1);
    let (status, reply) = kew.admin(
        "POST",
        "/api/v1/store/backup",
        &[("Content-Type", "application/json")],
        &json!({ "to": directory.path().join("copy") }).to_string(),
    );
    assert!(status == 409 && reply.contains("several shards"), "{status} {reply}");
}

#[test]
fn the_number_of_shards_is_the_directorys_for_ever() {
    let directory = data_directory();
    let store = data(directory.path());
    let mut kew = start(directory.path(), &["--shards", "2"]);
    make(&kew, "orders");
    let (code, errors) = fail(&["--store", &store]);
    assert!(code == Some(1) && errors.contains("is in use by"), "{errors}");
    assert!(refused(&store, &["check"]).contains("is in use by"));
    kew.signal("TERM");
    assert_eq!(kew.exit_code(), Some(0), "{}", kew.errors());
    for wanted in ["1", "3"] {
        let (code, errors) = fail(&["--store", &store, "--shards", wanted]);
        assert_eq!(code, Some(1), "{errors}");
        let expected = format!("has 2 shards, and --shards says {wanted}");
        assert!(errors.contains(&expected) && errors.contains("export --to"), "{errors}");
    }
    let (code, errors) = fail(&["--store", &store, "--clock", "virtual"]);
    assert!(code == Some(1) && errors.contains("--clock system"), "{errors}");
    let (second, aside) = (directory.path().join("data/shard-0001"), directory.path().join("aside"));
    std::fs::rename(&second, &aside).expect("the directory is ours");
    let (code, errors) = fail(&["--store", &store]);
    assert!(code == Some(1) && errors.contains("shard-0001") && errors.contains("missing"), "{errors}");
    assert!(refused(&store, &["check"]).contains("shard-0001"));
    std::fs::rename(&aside, &second).expect("the directory is ours");
    let again = start(directory.path(), &["--shards", "2"]);
    assert!(!again.errors().contains("cut short"), "{}", again.errors());
    asked(&again, "GetQueueUrl", &json!({ "QueueName": "orders" }));

    let single = data_directory();
    drop(start(single.path(), &[]));
    let (code, errors) = fail(&["--store", &data(single.path()), "--shards", "4"]);
    assert!(code == Some(1) && errors.contains("has 1 shard, and --shards says 4"), "{errors}");
    for (flags, expected) in [
        (["--store", "postgres://a@b/c", "--shards", "2"], "kew store create --shards N"),
        (["--clock", "virtual", "--shards", "2"], "do not go together"),
        (["--store", "memory", "--shards", "0"], "a number from 1 to 256"),
    ] {
        let (code, errors) = fail(&flags);
        assert!(code == Some(2) && errors.contains(expected), "{errors}");
    }
}

#[test]
fn tools_carry_a_store_from_one_shard_to_four_and_back() {
    let directory = data_directory();
    let path = |name: &str| directory.path().join(name).to_string_lossy().into_owned();
    let mut kew = start(directory.path(), &[]);
    for name in ["a", "b", "c", "d", "e"] {
        make(&kew, name);
        (0..3).for_each(|number| send(&kew, name, &format!("{name}-{number}")));
    }
    let (_, receipt) = receive(&kew, "c").swap_remove(0);
    kew.kill();
    let (one, four, back) = (data(directory.path()), path("four"), path("back"));
    done(&one, &["export", "--to", &path("lines")]);
    assert_eq!(
        done(&four, &["create", "--shards", "4"]),
        format!("made an empty store of 4 shards in {four}\n")
    );
    assert_eq!(done(&four, &["create"]), format!("{four} holds a store already\n"));
    assert!(refused(&four, &["create", "--shards", "2"]).contains("has 4 shards"));
    assert!(refused(&four, &["import", "--from", &path("lines")]).contains("holds a store already"));
    std::fs::remove_dir_all(&four).expect("the directory is ours");
    done(&four, &["import", "--shards", "4", "--from", &path("lines")]);
    let checked = done(&four, &["check"]);
    assert!((0..4).all(|shard| checked.contains(&format!("shard {shard}: sound: "))), "{checked}");
    let stats: Value = serde_json::from_str(&done(&four, &["stats", "--json"]))
        .expect("stats --json prints one JSON object");
    assert_eq!((&stats["queues"], &stats["messages"]["stored"]), (&json!(5), &json!(15)), "{stats}");

    done(&four, &["backup", &path("copy")]);
    assert!(done(&four, &["backup", "--verify", &path("copy")]).contains("is as the list says"));
    assert!(refused(&four, &["backup", &path("copy")]).contains("not empty"));
    let mut served = Kew::start_with(directory.path(), &["--store", &path("copy")]);
    delete(&served, "c", &receipt);
    assert_eq!(receive(&served, "a").len(), 3);
    let shards: BTreeSet<u64> = shards_of_queues(&served).into_values().collect();
    assert_eq!(shards.len(), 4);
    served.signal("TERM");
    assert_eq!(served.exit_code(), Some(0), "{}", served.errors());

    done(&four, &["export", "--to", &path("lines-of-four")]);
    done(&back, &["import", "--from", &path("lines-of-four")]);
    let again = Kew::start_with(directory.path(), &["--store", &back]);
    delete(&again, "c", &receipt);
    for (name, expected) in [("a", 3), ("b", 3), ("d", 3), ("e", 3)] {
        let bodies: Vec<String> = receive(&again, name).into_iter().map(|(body, _)| body).collect();
        let sent: Vec<String> = (0..expected).map(|number| format!("{name}-{number}")).collect();
        assert_eq!(bodies, sent);
    }
}

#[test]
fn memory_has_shards_too() {
    let directory = data_directory();
    let mut kew = Kew::start_with(directory.path(), &["--store", "memory", "--shards", "2"]);
    for name in ["a", "b"] {
        make(&kew, name);
        send(&kew, name, "m");
        assert_eq!(receive(&kew, name).len(), 1);
    }
    assert_eq!(shards_of_queues(&kew).values().copied().collect::<Vec<_>>(), [0, 1]);
    kew.signal("TERM");
    assert_eq!(kew.exit_code(), Some(0), "{}", kew.errors());
}
