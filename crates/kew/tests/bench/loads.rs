//! Every scenario in every dialect that has words for it, small.

use serde_json::Value;

use super::program::{Kew, data_directory, workerd};
use super::{bench, document};

/// Runs one load to its end and answers with what it printed.
fn run(kew: &Kew, dialect: &str, words: &[&str]) -> Value {
    let endpoint = format!("http://{}", kew.ports[dialect].as_str().expect("the listener is on"));
    let pid = kew.id().to_string();
    let mut all =
        vec!["--dialect", dialect, "--endpoint", &endpoint, "--json", "--seconds", "20", "--pid", &pid];
    all.extend(words);
    document(&bench(&all).wait_with_output().expect("the load can be waited for"), &all.join(" "))
}

fn is_verified(document: &Value, operations: &[&str]) {
    for round in document["rounds"].as_array().expect("the document has rounds") {
        for fault in ["lost", "duplicated", "resurrected", "disordered", "strange", "early_empty_receives"] {
            assert_eq!(round[fault], 0, "{fault}: {document}");
        }
        assert!(round["messages"].as_u64().expect("a count") > 0, "{document}");
        assert!(round["cpu_us_per_message"].is_number(), "{document}");
        assert!(round["resident_bytes"].as_u64().expect("a size") > 1 << 20, "{document}");
        for operation in operations {
            let latency = &round["latency"][operation];
            let at =
                |share: &str| latency[share].as_u64().unwrap_or_else(|| panic!("{operation}: {document}"));
            assert!(at("p50_us") > 0 && at("p50_us") <= at("p99_us") && at("p99_us") <= at("p999_us"));
        }
    }
}

#[test]
fn every_sqs_load_is_verified_in_both_protocols() {
    let directory = data_directory();
    let kew = Kew::start(directory.path());
    let cycle: &[&str] = &["send", "receive", "delete"];
    for protocol in ["json", "query"] {
        for (scenario, more, operations) in [
            ("cycle", &["--count", "300"][..], cycle),
            ("send", &["--count", "300"], &["send"]),
            ("batch", &["--count", "1000"], cycle),
            ("fifo", &["--count", "300", "--groups", "8"], cycle),
            ("backlog", &["--count", "300", "--backlog", "500", "--rounds", "2"], cycle),
            ("backlog", &["--count", "300", "--backlog", "500", "--fifo", "--groups", "50"], cycle),
            ("longpoll", &["--count", "40", "--connections", "4"], &["send", "wait", "delivery", "delete"]),
            ("idle-queues", &["--count", "300", "--queues", "20"], cycle),
        ] {
            let mut words = vec!["--protocol", protocol, "--scenario", scenario];
            words.extend(more);
            is_verified(&run(&kew, "sqs", &words), operations);
        }
    }
}

#[test]
fn a_backlog_is_compared_with_an_empty_queue_in_turn() {
    let directory = data_directory();
    let kew = Kew::start(directory.path());
    let words = ["--scenario", "backlog", "--backlog", "2000", "--count", "3000", "--rounds", "3"];
    let printed = run(&kew, "sqs", &words);
    assert_eq!(printed["rounds"].as_array().map(Vec::len), Some(3), "{printed}");
    assert_eq!(printed["shallow"].as_array().map(Vec::len), Some(3), "{printed}");
    assert!(printed["ratio_to_shallow"].as_f64().is_some_and(|ratio| ratio > 0.0), "{printed}");
}

#[test]
fn azure_and_cloudflare_loads_are_verified() {
    let directory = data_directory();
    let kew = Kew::start(directory.path());
    let cycle: &[&str] = &["send", "receive", "delete"];
    for (dialect, scenario, more, operations) in [
        ("azure", "cycle", &["--count", "300"][..], cycle),
        ("azure", "send", &["--count", "300"], &["send"]),
        ("azure", "backlog", &["--count", "300", "--backlog", "500"], cycle),
        ("azure", "idle-queues", &["--count", "300", "--queues", "20"], cycle),
        ("cloudflare", "cycle", &["--count", "300"], cycle),
        ("cloudflare", "send", &["--count", "300"], &["send"]),
        ("cloudflare", "batch", &["--count", "1000"], cycle),
        ("cloudflare", "backlog", &["--count", "300", "--backlog", "500"], cycle),
        ("cloudflare", "idle-queues", &["--count", "300", "--queues", "20"], cycle),
        ("cloudflare", "push", &["--backlog", "2000"], &["to handler"]),
    ] {
        let mut words = vec!["--scenario", scenario];
        words.extend(more);
        is_verified(&run(&kew, dialect, &words), operations);
    }
}

#[test]
fn signed_loads_pass_a_strict_server() {
    const KEY: &str = "a2V3LWJlbmNoLWtleS1rZXctYmVuY2gta2V5";
    let directory = data_directory();
    let config = directory.path().join("kew.toml");
    let text = format!(
        r#"
[server]
auth = "strict"
[admin]
token = "hush"
[[accounts]]
aws = {{ id = "123456789012", access_keys = [{{ id = "BENCH", secret = "secret" }}] }}
azure = {{ name = "bench", keys = ["{KEY}"] }}
"#
    );
    std::fs::write(&config, text).expect("the directory is ours");
    let (config, data) = (config.to_string_lossy(), directory.path().join("data"));
    let kew = Kew::start_with(directory.path(), &["--config", &config, "--store", &data.to_string_lossy()]);
    for protocol in ["json", "query"] {
        let key = ["--access-key", "BENCH", "--secret", "secret", "--count", "200", "--protocol", protocol];
        is_verified(&run(&kew, "sqs", &key), &["send", "receive", "delete"]);
    }
    let key = ["--access-key", "bench", "--secret", KEY, "--count", "200"];
    is_verified(&run(&kew, "azure", &key), &["send", "receive", "delete"]);
    let wrong = ["--endpoint", &format!("http://{}", kew.sqs), "--access-key", "BENCH", "--secret", "wrong"];
    let refused = bench(&wrong).wait_with_output().expect("the load can be waited for");
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
}

#[test]
fn compared_runs_alternate_with_the_floor_and_tell_the_ratio() {
    let directory = data_directory();
    let kew = Kew::start(directory.path());
    let printed = run(&kew, "sqs", &["--compare", "--rounds", "2", "--count", "4000"]);
    assert_eq!(printed["floor"].as_array().map(Vec::len), Some(2), "{printed}");
    assert!(printed["ratio"].as_f64().is_some_and(|ratio| ratio > 0.0), "{printed}");
}

#[test]
fn a_scenario_that_a_dialect_has_no_words_for_is_refused() {
    for words in [
        ["--dialect", "azure", "--scenario", "fifo"],
        ["--dialect", "azure", "--scenario", "batch"],
        ["--dialect", "cloudflare", "--scenario", "longpoll"],
        ["--dialect", "sqs", "--scenario", "push"],
    ] {
        let output = bench(&words).wait_with_output().expect("the load can be waited for");
        assert!(!output.status.success());
        assert!(String::from_utf8_lossy(&output.stderr).contains("has no"), "{output:?}");
    }
}

#[test]
fn a_worker_is_brought_every_message_once() {
    let Some(workerd) = workerd() else { return };
    let directory = data_directory();
    let config = directory.path().join("kew.toml");
    std::fs::write(&config, "[workers]\noutbound = \"all\"\n").expect("the directory is ours");
    let config = config.to_str().expect("the path of a temporary directory is UTF-8");
    let kew = Kew::start_with(
        directory.path(),
        &["--store", "memory", "--workers", "on", "--workerd", &workerd, "--config", config],
    );
    let words = ["--scenario", "push", "--worker", "--backlog", "2000"];
    is_verified(&run(&kew, "cloudflare", &words), &["to handler"]);
}
