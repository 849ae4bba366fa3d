//! Bodies that are no text, at the command line: what is sent is what is received.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use super::program::{Kew, data_directory};

const BYTES: &[u8] = b"\x00\xff\x1b[2J\n\xc3";
const BASE64: &str = "AP8bWzJKCsM=";

fn run(kew: &Kew, arguments: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_kew"))
        .args(arguments)
        .env("KEW_ADMIN_URL", format!("http://{}", kew.admin))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program kew is built with its tests");
    let mut stdin = child.stdin.take().expect("standard input is a pipe");
    // A command that does not read closes it.
    let _written = stdin.write_all(input);
    drop(stdin);
    let output = child.wait_with_output().expect("the child process was not waited for before");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn queue_with_bytes(kinds: &[&str]) -> (tempfile::TempDir, Kew) {
    let directory = data_directory();
    let kew = Kew::start_with(directory.path(), &["--store", "memory"]);
    run(&kew, &["queue", "create", "orders"], b"");
    for kind in kinds {
        run(&kew, &["send", "orders", "--content-type", kind], BYTES);
    }
    (directory, kew)
}

#[test]
fn one_message_of_bytes_goes_into_a_pipe_byte_for_byte() {
    let (_directory, kew) = queue_with_bytes(&["bytes", "v8"]);
    for _ in 0..2 {
        let received = run(&kew, &["receive", "orders"], b"");
        assert_eq!((&*received.stdout, &*text(&received.stderr)), (BYTES, ""));
    }
}

#[test]
fn bytes_among_several_messages_are_marked_and_standard_error_says_so_once() {
    let (_directory, kew) = queue_with_bytes(&["bytes", "bytes"]);
    run(&kew, &["send", "orders", BASE64], b"");
    let peeked = text(&run(&kew, &["peek", "orders"], b"").stdout);
    let marked = format!("base64:{BASE64}\n");
    assert_eq!(peeked.matches(&marked).count(), 2, "{peeked}");
    let id = peeked.lines().nth(1).and_then(|line| line.split(' ').next()).unwrap_or_default();
    let shown = text(&run(&kew, &["message", "show", id], b"").stdout);
    assert!(shown.ends_with(&format!("\nbody\n{marked}")), "{shown}");
    let received = run(&kew, &["receive", "orders", "--max", "10"], b"");
    assert_eq!(text(&received.stdout), format!("{marked}{marked}{BASE64}\n"));
    let told = text(&received.stderr);
    assert!(told.starts_with("note: ") && told.contains("Base64") && told.lines().count() == 1, "{told}");
}

#[test]
fn objects_have_the_api_s_members_and_no_note() {
    let (_directory, kew) = queue_with_bytes(&["v8"]);
    let received = run(&kew, &["receive", "orders", "--json"], b"");
    let message: Value = serde_json::from_slice(&received.stdout).expect("--json prints JSON");
    assert_eq!((&message["body_base64"], &message["content_type"]), (&BASE64.into(), &"v8".into()));
    assert_eq!((message.get("body"), &*text(&received.stderr)), (None, ""));
}
