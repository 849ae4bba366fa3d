//! Encrypted connections to the database.

use std::path::Path;
use std::process::Command;

use kew_log_pg::server::{PgServer, name_in};

use super::nodes::{Node, ask};
use super::refusals::refused;

/// A server with a certificate for this machine; the file of the authority that signed it is answered too.
fn encrypted(directory: &Path) -> (PgServer, String) {
    let certificates = authority(directory);
    let mut server = PgServer::start(&["fsync=off"]).expect("PostgreSQL starts");
    for (from, to) in [("server.pem", "server.crt"), ("server-key.pem", "server.key")] {
        let to = server.data().join(to);
        std::fs::copy(certificates.join(from), &to).expect("the test may write there");
        let like = server.data().join("postgresql.conf");
        let owned = Command::new("chown").arg("--reference").arg(like).arg(&to).status();
        assert!(owned.expect("the system has the program chown").success());
    }
    server.configure("ssl=on\n").expect("the test may write there");
    server.stop().expect("the server can be stopped");
    server.run().expect("the server starts again");
    (server, certificates.join("ca.pem").display().to_string())
}

/// What `kew cert` makes.
fn authority(directory: &Path) -> std::path::PathBuf {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kew"));
    let made = command.arg("cert").current_dir(directory).output();
    assert!(made.expect("the program kew is built with its tests").status.success());
    directory.join("kew-certs")
}

#[test]
fn connections_are_encrypted_and_the_certificate_is_looked_at_as_the_url_asks() {
    let directory = tempfile::tempdir().expect("the machine has a temporary directory");
    let (server, authority_file) = encrypted(directory.path());
    let url = server.database().expect("the server makes databases");
    for (mode, is_encrypted) in [
        (format!("sslmode=verify-full&sslrootcert={authority_file}"), "t"),
        (format!("sslmode=verify-ca&sslrootcert={authority_file}"), "t"),
        ("sslmode=require".to_owned(), "t"),
        ("application_name=kew&sslmode=disable".to_owned(), "f"),
    ] {
        let mut node = Node::start(&format!("{url}?{mode}"));
        node.wait_until_ready();
        assert!(ask(node.sqs, "ListQueues", "{}").is_some());
        let encrypted = "SELECT DISTINCT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
            WHERE application_name = 'kew'";
        let found = server.psql(name_in(&url), encrypted).expect("the server answers");
        assert_eq!(found, is_encrypted, "{mode}");
        node.signal("TERM");
        assert_eq!(node.exit_code(), Some(0), "{}", node.errors());
    }
}

#[test]
fn certificate_that_is_not_trusted_is_refused() {
    let directory = tempfile::tempdir().expect("the machine has a temporary directory");
    let (server, authority_file) = encrypted(directory.path());
    let url = server.database().expect("the server makes databases");
    let other = tempfile::tempdir().expect("the machine has a temporary directory");
    let strange = authority(other.path()).join("ca.pem").display().to_string();
    let elsewhere = url.replace("127.0.0.1", "localhost.localdomain");
    let elsewhere = elsewhere.replace("?", "") + "?hostaddr=127.0.0.1&";
    for (store, expected) in [
        (format!("{url}?sslmode=verify-full&sslrootcert={strange}"), "certificate"),
        (format!("{url}?sslmode=verify-ca&sslrootcert={strange}"), "certificate"),
        (format!("{elsewhere}sslmode=verify-full&sslrootcert={authority_file}"), "not valid for name"),
        (format!("{url}?sslmode=verify-full&sslrootcert=/nowhere.pem"), "sslrootcert=/nowhere.pem"),
        (format!("{url}?sslmode=always"), "sslmode=always is not disable, prefer, require"),
    ] {
        let (code, errors) = refused(&store);
        assert_eq!(code, Some(1), "{store}: {errors}");
        assert!(errors.contains(expected), "{store}: {errors}");
    }
}

#[test]
fn encryption_that_the_server_does_not_offer_is_refused_when_it_is_required() {
    let server = PgServer::start(&["fsync=off"]).expect("PostgreSQL starts");
    let url = server.database().expect("the server makes databases");
    let (code, errors) = refused(&format!("{url}?sslmode=require"));
    assert_eq!(code, Some(1), "{errors}");
    assert!(errors.contains("does not support TLS"), "{errors}");
}
