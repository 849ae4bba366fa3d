//! `kew init` against the program as it is run: queues made and changed as a file says.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;

use serde_json::{Value, json};

use super::admin_api::{Ran, memory, printed, run};
use super::program::{Kew, data_directory};

const FILE: &str = r#"
[[queues]]
name = "orders"
settings = { visibility_seconds = 60, dead_letters_to = "orders-dead", max_attempts = 5 }

[[queues]]
name = "orders-dead"

[[queues]]
name = "steps.fifo"
kind = "fifo"
[queues.settings]
content_deduplication = true
"#;

fn from_input(kew: &Kew, more: &[&str], text: &str) -> Ran {
    run(kew, &[&["init", "--from", "-"], more].concat(), text)
}

/// What a run that succeeds prints.
fn done(kew: &Kew, more: &[&str], text: &str) -> String {
    let (code, output, errors) = from_input(kew, more, text);
    assert_eq!((code, errors.as_str()), (0, ""), "{output}");
    output
}

fn objects(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("lines are JSON")).collect()
}

fn settings(kew: &Kew, queue: &str) -> Value {
    let shown = objects(&printed(kew, &["queue", "show", queue, "--json"]));
    shown[0]["settings"].clone()
}

#[test]
fn a_file_is_done_once_and_a_second_run_changes_nothing() {
    let (directory, kew) = memory();
    let file = directory.path().join("queues.toml").to_string_lossy().into_owned();
    std::fs::write(&file, FILE).expect("the directory is ours");
    let foretold = printed(&kew, &["init", "--from", &file, "--dry-run"]);
    let expected = "orders-dead: would be created\norders: would be created\nsteps.fifo: would be created\n\
                    3 to create, 0 to change, 0 unchanged: nothing was done\n";
    assert_eq!(foretold, expected);
    assert_eq!(printed(&kew, &["queue", "ls"]), "", "a dry run changes nothing");
    let made = printed(&kew, &["init", "--from", &file]);
    let expected =
        "orders-dead: created\norders: created\nsteps.fifo: created\n3 created, 0 changed, 0 unchanged\n";
    assert_eq!(made, expected);
    let orders = settings(&kew, "orders");
    assert_eq!([&orders["visibility_seconds"], &orders["max_attempts"]], [60, 5]);
    assert_eq!(orders["dead_letters_to"], "orders-dead");
    assert_eq!(settings(&kew, "steps.fifo")["content_deduplication"], true);

    let before = kew.admin("GET", "/api/v1/audit", &[], "");
    let expected = "orders: unchanged\norders-dead: unchanged\nsteps.fifo: unchanged\n0 created, 0 changed, 3 unchanged\n";
    assert_eq!(printed(&kew, &["init", "--from", &file]), expected);
    assert_eq!(kew.admin("GET", "/api/v1/audit", &[], ""), before, "nothing was even asked for");

    printed(&kew, &["queue", "set", "orders", "visibility_seconds=7", "wait_seconds=20"]);
    printed(&kew, &["queue", "create", "others"]);
    let foretold = printed(&kew, &["init", "--from", &file, "--dry-run"]);
    assert!(foretold.starts_with("orders: would change visibility_seconds 7→60\n"), "{foretold}");
    assert_eq!(settings(&kew, "orders")["visibility_seconds"], 7);
    let changed = objects(&printed(&kew, &["init", "--from", &file, "--json"]));
    let changes = json!({ "visibility_seconds": { "from": 7, "to": 60 } });
    let expected = json!({ "queue": "orders", "outcome": "changed", "changes": changes, "dry_run": false });
    assert_eq!(changed[0], expected);
    let summary = json!({ "created": 0, "changed": 1, "unchanged": 2, "failed": 0, "dry_run": false });
    assert_eq!((changed.len(), &changed[3]), (4, &summary));
    let orders = settings(&kew, "orders");
    assert_eq!([&orders["visibility_seconds"], &orders["wait_seconds"]], [60, 20], "what is not named stays");
    assert!(printed(&kew, &["queue", "ls"]).contains("\nothers "), "nothing is deleted");
    let back = "[[queues]]\nname = \"orders\"\n\
                settings = { visibility_seconds = \"default\", dead_letters_to = \"\", max_attempts = \"default\" }\n";
    let expected =
        "orders: changed visibility_seconds 60→30, dead_letters_to orders-dead→none, max_attempts 5→none\n";
    assert!(done(&kew, &[], back).starts_with(expected));
    assert!(done(&kew, &[], back).starts_with("orders: unchanged\n"));
}

#[test]
fn queues_whose_dead_letters_go_in_a_circle_are_all_made_first() {
    let (_directory, kew) = memory();
    let circle = r#"{"queues":[
        {"name":"ping","settings":{"dead_letters_to":"pong","max_attempts":2}},
        {"name":"pong","settings":{"dead_letters_to":"ping","delay_seconds":3}}]}"#;
    assert_eq!(done(&kew, &[], circle), "ping: created\npong: created\n2 created, 0 changed, 0 unchanged\n");
    let (ping, pong) = (settings(&kew, "ping"), settings(&kew, "pong"));
    assert_eq!((&ping["dead_letters_to"], &ping["max_attempts"]), (&"pong".into(), &2.into()));
    assert_eq!((&pong["dead_letters_to"], &pong["delay_seconds"]), (&"ping".into(), &3.into()));
    assert!(done(&kew, &[], circle).ends_with("0 created, 0 changed, 2 unchanged\n"));
}

#[test]
fn what_the_api_prints_of_queues_makes_them_again_on_another_server() {
    let ((_first, kew), (_second, other)) = (memory(), memory());
    done(&kew, &[], FILE);
    printed(&kew, &["queue", "create", "strict", "max_attempts=3", "drop_exhausted=true"]);
    printed(&kew, &["queue", "create", "000000000007:eu-west-3:far"]);
    printed(&kew, &["send", "orders", "hello"]);
    let listed = printed(&kew, &["queue", "ls", "--json"]);
    let names: Vec<String> = objects(&listed)
        .iter()
        .map(|row| row["queue"].as_str().expect("a queue has a name").to_owned())
        .collect();
    let shown: String = names.iter().map(|name| printed(&kew, &["queue", "show", name, "--json"])).collect();
    for text in [&listed, &shown, &kew.admin("GET", "/api/v1/queues", &[], "").1] {
        assert!(done(&kew, &[], text).ends_with("0 created, 0 changed, 5 unchanged\n"), "{text}");
    }
    assert!(done(&other, &[], &shown).ends_with("5 created, 0 changed, 0 unchanged\n"));
    for name in &names {
        assert_eq!(settings(&other, name), settings(&kew, name), "{name}");
    }
}

#[test]
fn a_wrong_file_changes_nothing_and_is_named_by_its_place() {
    let (directory, kew) = memory();
    let good = "[[queues]]\nname = \"good\"\n";
    for (wrong, expected) in [
        ("[[queues]]\nname = \"a\"\ncolour = 1\n", "line 3, queues[1] \"a\": \"colour\" is not known"),
        (
            "[[queues]]\nname = \"a\"\nsettings = { wait_seconds = 21 }\n",
            "wait_seconds must be a whole number from 0 to 20",
        ),
        (
            "[[queues]]\nname = \"good\"\n",
            "line 3, queues[1] \"good\": the queue is there already, as line 1",
        ),
        ("[[queues]]\nname = \"000000000000:us-east-1:good\"\n", "the queue is there already"),
        ("[[queues]]\nname = \"a\"\nkind = \"fifo\"\n", "must end in .fifo"),
        ("[[queues]]\nname = \"a\n", "line 4, column 10"),
        ("[[queus]]\n", "line 3: queus is not known"),
    ] {
        let (code, output, errors) = from_input(&kew, &[], &format!("{good}{wrong}"));
        assert_eq!((code, output.as_str()), (2, ""), "{errors}");
        assert!(errors.starts_with("error: standard input: ") && errors.contains(expected), "{errors}");
    }
    let path = |name: &str| directory.path().join(name).to_string_lossy().into_owned();
    let large = path("large.toml");
    std::fs::write(&large, "#".repeat((4 << 20) + 1)).expect("the directory is ours");
    for (file, expected) in [(&large, "longer than 4194304 bytes"), (&path("none"), "cannot read it")] {
        let (code, _, errors) = run(&kew, &["init", "--from", file], "");
        assert!(code == 2 && errors.contains(expected), "{errors}");
    }
    assert_eq!(run(&kew, &["init"], good).0, 2, "the file is not said");
    assert_eq!(printed(&kew, &["queue", "ls"]), "");
}

#[test]
fn one_queue_that_cannot_be_made_stops_no_other() {
    let (_directory, kew) = memory();
    let lonely = "[[queues]]\nname = \"lonely\"\nsettings = { dead_letters_to = \"nowhere\" }\n";
    let why = "dead_letters_to nowhere: there is no such queue, nor does the file have it";
    let (code, output, errors) = from_input(&kew, &[], lonely);
    assert_eq!(
        (code, output),
        (1, format!("lonely: failed: {why}\n0 created, 0 changed, 0 unchanged, 1 failed\n"))
    );
    assert!(errors.contains("1 of 1 queues did not become what standard input says"), "{errors}");
    let both = format!("{lonely}[[queues]]\nname = \"good\"\n");
    assert_eq!(from_input(&kew, &["--dry-run"], &both).0, 3);
    for outcome in ["created", "unchanged"] {
        let (code, output, _) = from_input(&kew, &["--json"], &both);
        let objects = objects(&output);
        assert_eq!((code, &objects[1]["outcome"]), (3, &outcome.into()));
        assert_eq!((&objects[0]["outcome"], &objects[0]["reason"]), (&"failed".into(), &why.into()));
    }
}

#[test]
fn a_server_that_is_away_or_asks_for_a_token_is_said() {
    let directory = data_directory();
    let mut kew = with_token(directory.path());
    let (code, _, errors) = from_input(&kew, &[], FILE);
    assert!(code == 1 && errors.contains("--token"), "{errors}");
    assert!(done(&kew, &["--token", "hush"], FILE).ends_with("3 created, 0 changed, 0 unchanged\n"));
    kew.kill();
    let (code, _, errors) = from_input(&kew, &["--token", "hush"], FILE);
    assert!(code == 1 && errors.contains("is the server running?"), "{errors}");
    let (code, _, errors) = from_input(&kew, &[], "[[queues]]\n");
    assert!(code == 2 && errors.contains("it has no name"), "a wrong file needs no server: {errors}");
}

fn with_token(directory: &Path) -> Kew {
    let mut command = super::program::command();
    command.env("KEW_ADMIN_TOKEN", "hush");
    Kew::start_by(command, directory, &["--store", "memory"])
}

#[test]
fn when_the_server_stops_answering_the_rest_is_not_tried() {
    let (_directory, kew) = memory();
    let listener = TcpListener::bind("127.0.0.1:0").expect("the machine has a free port");
    let port = listener.local_addr().expect("the listener is bound").port().to_string();
    let config = json!({ "settings": [{ "section": "sqs", "key": "region", "value": "us-east-1" }] });
    let missing = json!({ "error": { "code": "queue_not_found", "message": "there is no queue" } });
    let server = std::thread::spawn(move || {
        let mut changes = 0;
        while changes < 2 {
            let (mut stream, _) = listener.accept().expect("the listener is open");
            let request = request(&mut stream);
            match request.split(' ').next() {
                Some("GET") if request.contains("/config") => answer(&mut stream, "200 OK", &config),
                Some("GET") => answer(&mut stream, "404 Not Found", &missing),
                _ => {
                    changes += 1;
                    if changes == 1 {
                        answer(&mut stream, "201 Created", &json!({}));
                    }
                }
            }
        }
    });
    let (code, output, errors) = from_input(&kew, &["--admin", &port], FILE);
    server.join().expect("the server of the test does not panic");
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!((code, lines[0]), (3, "orders-dead: created"), "{output} {errors}");
    assert!(lines[1].starts_with("orders: failed: whether it was done is not known: no answer"), "{output}");
    assert_eq!(lines[2], "steps.fifo: failed: not tried, since the server did not answer");
    assert_eq!(lines[3], "1 created, 0 changed, 0 unchanged, 2 failed");
}

/// The head of a request, whose body was read too.
fn request(stream: &mut TcpStream) -> String {
    let (mut bytes, mut part) = (Vec::new(), [0; 4_096]);
    loop {
        let length = stream.read(&mut part).expect("the client sends its request");
        bytes.extend_from_slice(&part[..length]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let head = head.to_ascii_lowercase();
        let wanted = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let wanted: usize = wanted.and_then(|text| text.parse().ok()).unwrap_or_default();
        if length == 0 || body.len() >= wanted {
            return text;
        }
    }
}

fn answer(stream: &mut TcpStream, status: &str, body: &Value) {
    let body = body.to_string();
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    stream.write_all(format!("{head}{body}").as_bytes()).expect("the client reads the answer");
}
