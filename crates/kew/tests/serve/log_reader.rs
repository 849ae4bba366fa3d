//! What reads the log may stand still: the server goes on and ends all the same.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;

use crate::program::{Kew, command, data_directory};

/// Lines of the log of some 200 bytes: more than a pipe takes.
const CHANGES: usize = 1_000;

#[test]
fn a_reader_of_standard_error_that_stands_still_holds_up_neither_requests_nor_the_end() {
    let directory = data_directory();
    let (reader, writer) = std::io::pipe().expect("the machine has pipes");
    let flags = ["--store", "memory", "--log", "json"];
    let mut kew = Kew::start_with_errors_to(command(), directory.path(), &flags, writer.into());
    let change = [("Content-Type", "application/json")];
    for number in 0..CHANGES {
        let queue = format!(r#"{{"name":"a-queue-with-a-name-that-makes-its-line-longer-{number:04}"}}"#);
        assert_eq!(kew.admin("POST", "/api/v1/queues", &change, &queue).0, 201, "change {number}");
    }
    kew.signal("TERM");
    assert_eq!(kew.exit_code(), Some(0));
    let mut lines = BufReader::new(reader).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains("a change through the admin API")), "what fitted is there");
}

#[test]
fn a_reader_that_comes_back_has_the_lines_that_waited() {
    let directory = data_directory();
    let (reader, writer) = std::io::pipe().expect("the machine has pipes");
    let flags = ["--store", "memory"];
    let mut kew = Kew::start_with_errors_to(command(), directory.path(), &flags, writer.into());
    let change = [("Content-Type", "application/json")];
    for number in 0..CHANGES {
        let queue = format!(r#"{{"name":"a-queue-with-a-name-that-makes-its-line-longer-{number:04}"}}"#);
        assert_eq!(kew.admin("POST", "/api/v1/queues", &change, &queue).0, 201, "change {number}");
    }
    let reading = std::thread::spawn(move || {
        let lines = BufReader::new(reader).lines().map_while(Result::ok);
        lines.filter(|line| line.contains("a change through the admin API")).count()
    });
    kew.signal("TERM");
    assert_eq!(kew.exit_code(), Some(0));
    assert_eq!(reading.join().ok(), Some(CHANGES));
}

#[test]
fn a_second_signal_ends_it_with_the_lines_that_waited() {
    let directory = data_directory();
    let (reader, writer) = std::io::pipe().expect("the machine has pipes");
    let flags = ["--store", "memory"];
    let mut kew = Kew::start_with_errors_to(command(), directory.path(), &flags, writer.into());
    let change = [("Content-Type", "application/json")];
    for number in 0..CHANGES {
        let queue = format!(r#"{{"name":"a-queue-with-a-name-that-makes-its-line-longer-{number:04}"}}"#);
        assert_eq!(kew.admin("POST", "/api/v1/queues", &change, &queue).0, 201, "change {number}");
    }
    // A request that has begun is waited for, far longer than this test.
    let mut half = TcpStream::connect(&kew.sqs).expect("the server accepts connections");
    let head =
        "POST / HTTP/1.1\r\nHost: h\r\nX-Amz-Target: AmazonSQS.ListQueues\r\nContent-Length: 9\r\n\r\n{";
    half.write_all(head.as_bytes()).expect("the server reads the request");
    // Answered behind it, so it has come in too.
    assert_eq!(kew.ask("ListQueues", "{}").0, 200);
    kew.signal("TERM");
    while kew.admin("GET", "/readyz", &[], "").0 == 200 {
        std::thread::yield_now();
    }
    kew.signal("TERM");
    let lines = BufReader::new(reader).lines().map_while(Result::ok);
    let last: Vec<String> = lines.filter(|line| line.contains("a second signal stops at once")).collect();
    assert_eq!(last.len(), 1, "{last:?}");
    assert_eq!(kew.exit_code(), Some(130));
}
