//! Databases that cannot be used: a clear error, and what to do.

use std::process::Command;

use kew_log_pg::server::PgServer;

/// Exit code and errors of a start that does not work.
pub fn refused(store: &str) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kew"));
    command.args([
        "serve",
        "--sqs",
        "127.0.0.1:0",
        "--admin",
        "off",
        "--azure",
        "off",
        "--cloudflare",
        "off",
    ]);
    let output = command.args(["--store", store]).output().expect("the program kew is built with its tests");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn start_on_a_database_that_cannot_be_used_says_why_without_the_password() {
    let server = PgServer::start(&["fsync=off"]).expect("PostgreSQL starts");
    server.psql("postgres", "CREATE ROLE locked LOGIN PASSWORD 'right'").expect("the role is new");
    let port = server.port();
    for (store, expected) in [
        (format!("postgres://kew@127.0.0.1:{port}/nowhere"), "database \"nowhere\" does not exist"),
        (format!("postgres://nobody:secret@127.0.0.1:{port}/postgres"), "role \"nobody\" does not exist"),
        (format!("postgres://kew@127.0.0.1:{port}/postgres?colour=red"), "colour"),
    ] {
        let (code, errors) = refused(&store);
        assert_eq!(code, Some(1), "{errors}");
        assert!(errors.contains(expected), "{errors}");
        assert!(!errors.contains("secret"), "{errors}");
    }
}

#[test]
fn start_warns_of_settings_that_lose_messages() {
    let server = PgServer::start(&["fsync=off", "full_page_writes=off"]).expect("PostgreSQL starts");
    let url = server.database().expect("the server makes databases");
    let node = super::nodes::Node::start(&url);
    node.wait_until_ready();
    for setting in ["synchronous_standby_names", "fsync", "full_page_writes"] {
        assert!(node.errors().contains(setting), "no warning of {setting}: {}", node.errors());
    }
}
