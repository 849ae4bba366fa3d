//! The commands of docs/scaling.md, as pasted.

use std::path::Path;
use std::process::Command;

use kew_log_pg::server::PgServer;

use super::nodes::{Node, ask};

const PAGE: &str = include_str!("../../../../docs/scaling.md");
/// The store of the page.
const URL: &str = "postgres://kew@127.0.0.1:5432/kew";

/// What bash prints of these commands, which must all succeed.
fn pasted(directory: &Path, commands: &str) -> String {
    let program = Path::new(env!("CARGO_BIN_EXE_kew"));
    let programs = program.parent().expect("the program lies in a folder").display().to_string();
    let path = std::env::var("PATH").unwrap_or_default();
    let mut bash = Command::new("bash");
    bash.args(["-eu", "-o", "pipefail", "-c", commands]).current_dir(directory);
    let output = bash.env("PATH", format!("{programs}:{path}")).output().expect("the system has bash");
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{commands}: {text}");
    text
}

#[test]
fn the_page_about_postgres_works_as_it_is_pasted() {
    let server = PgServer::start(&["fsync=off"]).expect("PostgreSQL starts");
    let url = server.database().expect("the server makes databases");
    let mut blocks = PAGE.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    let mut next = || blocks.next().expect("the page has four blocks of commands");
    // Two nodes, on addresses that are free here.
    assert_eq!(next().trim(), format!("kew serve --store {URL}"));
    let mut first = Node::start(&url);
    first.wait_until_ready();
    assert!(next().starts_with(&format!("kew serve --store {URL} --sqs ")));
    let mut second = Node::start(&url);
    second.wait_until_standing_by();
    ask(first.sqs, "CreateQueue", r#"{"QueueName":"orders"}"#).expect("the node serves");
    ask(first.sqs, "SendMessage", r#"{"QueueUrl":"orders","MessageBody":"hello"}"#).expect("the node serves");
    second.signal("TERM");
    assert_eq!(second.exit_code(), Some(0));
    first.signal("TERM");
    assert_eq!(first.exit_code(), Some(0), "{}", first.errors());
    let directory = tempfile::tempdir().expect("the machine has a temporary directory");
    let shown = pasted(directory.path(), &next().replace(URL, &url));
    for expected in ["holds a store already", "sound: ", "messages             1"] {
        assert!(shown.contains(expected), "{expected} is not in {shown}");
    }
    pasted(directory.path(), &next().replace(URL, &url));
    let moved = pasted(directory.path(), "kew store --store ./moved export");
    assert!(moved.contains("hello"), "{moved}");
}
