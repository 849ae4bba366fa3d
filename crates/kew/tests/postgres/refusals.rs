//! Databases that cannot be used: a clear error, and what to do.

use std::process::Command;

use kew_log_pg::server::{PgServer, name_in};

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
fn start_with_a_wrong_password_or_without_rights_says_what_to_do() {
    let server = PgServer::start(&["fsync=off"]).expect("PostgreSQL starts");
    let url = server.database().expect("the server makes databases");
    server.psql("postgres", "CREATE ROLE locked LOGIN PASSWORD 'right'").expect("the role is new");
    let rules = server.data().join("pg_hba.conf");
    let text = std::fs::read_to_string(&rules).expect("the server has rules of access");
    std::fs::write(&rules, format!("host all locked 127.0.0.1/32 scram-sha-256\n{text}"))
        .expect("the test may write there");
    server.psql("postgres", "SELECT pg_reload_conf()").expect("the server answers");
    for (user, expected) in [
        ("locked:wrong-one", "password authentication failed for user \"locked\""),
        ("locked", "password"),
        ("locked:right", "grant the role CREATE and USAGE on its schema"),
    ] {
        let (code, errors) = refused(&url.replace("kew@", &format!("{user}@")));
        assert_eq!(code, Some(1), "{user}: {errors}");
        assert!(errors.contains(expected), "{user}: {errors}");
        assert!(!errors.contains("wrong-one") && !errors.contains("right@"), "{errors}");
    }
    server.psql(name_in(&url), "GRANT CREATE ON SCHEMA public TO locked").expect("the role is there");
    let node = super::nodes::Node::start(&url.replace("kew@", "locked:right@"));
    node.wait_until_ready();
    assert!(!node.errors().contains("right@"), "{}", node.errors());
}

#[test]
fn start_on_tables_of_a_newer_program_names_the_newer_program() {
    let server = PgServer::start(&["fsync=off"]).expect("PostgreSQL starts");
    let url = server.database().expect("the server makes databases");
    let mut node = super::nodes::Node::start(&url);
    node.wait_until_ready();
    node.signal("TERM");
    assert_eq!(node.exit_code(), Some(0), "{}", node.errors());
    let newer = "INSERT INTO kew_migration (number, checksum) VALUES (99, 'newer')";
    server.psql(name_in(&url), newer).expect("the tables are there");
    let (code, errors) = refused(&url);
    assert_eq!(code, Some(1), "{errors}");
    assert!(errors.contains("schema version 99") && errors.contains("use the newer program"), "{errors}");
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
