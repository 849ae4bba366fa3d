//! Clients that ask and do not read: the server lives within its memory, and serves the others.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use super::program::{Kew, command, data_directory, member_of_status};

/// What the server may take of addresses. Without a bound of its replies it would need a multiple.
const ADDRESSES_KIB: u64 = 3 << 20;
/// Of resident memory, with all of them waiting: replies, their connections, and the program.
const RESIDENT_KIB: u64 = 1 << 20;
/// Streams on one connection of HTTP/2.
const STREAMS: usize = 100;
const MESSAGES: usize = 10;
/// So that the kernel's buffers of a socket do not hold a whole reply.
const BODY: usize = 800_000;

/// How many connections of HTTP/1.1 and streams of HTTP/2 ask and do not read.
fn unread() -> usize {
    std::env::var("KEW_UNREAD").map_or(400, |count| count.parse().expect("KEW_UNREAD is a number"))
}

/// A receive of everything, which leaves everything there.
const RECEIVE: &str = r#"{"QueueUrl":"big","MaxNumberOfMessages":10,"VisibilityTimeout":0}"#;

fn http1(kew: &Kew) -> TcpStream {
    let mut stream = TcpStream::connect(&kew.sqs).expect("the server accepts connections");
    let length = RECEIVE.len();
    let head = "POST / HTTP/1.1\r\nHost: localhost\r\nX-Amz-Target: AmazonSQS.ReceiveMessage";
    write!(stream, "{head}\r\nContent-Length: {length}\r\n\r\n{RECEIVE}")
        .expect("the server reads the request");
    stream
}

/// A frame of HTTP/2.
fn frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    let length = u32::try_from(payload.len()).expect("the length fits into the integer").to_be_bytes();
    out.extend_from_slice(&length[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
}

/// One connection with this number of streams; it lets nothing through but what the protocol begins with.
fn http2(kew: &Kew, streams: usize) -> TcpStream {
    let mut headers = Vec::new();
    for (name, value) in [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", "/"),
        (":authority", "localhost"),
        ("x-amz-target", "AmazonSQS.ReceiveMessage"),
    ] {
        headers.push(0);
        for text in [name, value] {
            headers.push(u8::try_from(text.len()).expect("the length fits into the integer"));
            headers.extend_from_slice(text.as_bytes());
        }
    }
    let mut out = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    frame(&mut out, 4, 0, 0, &[]);
    for number in 0..u32::try_from(streams).expect("the number of streams fits into 32 bits") {
        let stream = 2 * number + 1;
        frame(&mut out, 1, 4, stream, &headers);
        frame(&mut out, 0, 1, stream, RECEIVE.as_bytes());
    }
    let mut stream = TcpStream::connect(&kew.sqs).expect("the server accepts connections");
    stream.write_all(&out).expect("the server reads the request");
    stream
}

fn metric(kew: &Kew, name: &str) -> u64 {
    let (status, text) = kew.admin("GET", "/metrics", &[], "");
    assert_eq!(status, 200, "{text}");
    let samples: Vec<u64> = text
        .lines()
        .filter(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' '])))
        .filter_map(|line| line.rsplit(' ').next()?.parse().ok())
        .collect();
    assert!(!samples.is_empty(), "no {name} in {text}");
    samples.iter().sum()
}

/// Asks until it is answered with 200, as an SDK does; how long that took.
fn served(kew: &Kew, action: &str, json: &str) -> (Duration, String) {
    let begun = Instant::now();
    loop {
        let (status, body) = kew.ask(action, json);
        if status == 200 {
            return (begun.elapsed(), body);
        }
        assert!(status == 503 || body.contains("RequestThrottled"), "{action}: {status} {body}");
        assert!(begun.elapsed() < Duration::from_secs(120), "{action}: {status} {body}");
    }
}

fn start(directory: &Path) -> Kew {
    let mut shell = Command::new("sh");
    let limited = format!("ulimit -v {ADDRESSES_KIB}; exec \"$0\" \"$@\"");
    shell.args(["-c", &limited, env!("CARGO_BIN_EXE_kew")]);
    let plain = command();
    shell.args(plain.get_args());
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    Kew::start_by(shell, directory, &["--store", "memory"])
}

#[test]
fn a_server_with_little_memory_lives_and_serves_others_while_clients_do_not_read() {
    kew::machine::raise_open_files();
    let directory = data_directory();
    let mut kew = start(directory.path());
    assert_eq!(kew.ask("CreateQueue", r#"{"QueueName":"big"}"#).0, 200);
    assert_eq!(kew.ask("CreateQueue", r#"{"QueueName":"good"}"#).0, 200);
    let body = "x".repeat(BODY);
    for _ in 0..MESSAGES {
        assert_eq!(kew.ask("SendMessage", &format!(r#"{{"QueueUrl":"big","MessageBody":"{body}"}}"#)).0, 200);
    }
    let before = member_of_status(kew.id(), "VmRSS");
    let count = unread();
    let mut clients: Vec<TcpStream> = (0..count / 2).map(|_| http1(&kew)).collect();
    clients.extend((0..count / 2 / STREAMS).map(|_| http2(&kew, STREAMS)));
    let begun = Instant::now();
    while metric(&kew, "kew_reply_bytes") < 100 << 20 && begun.elapsed() < Duration::from_secs(30) {
        std::thread::sleep(Duration::from_millis(10));
    }
    let (mut worst, mut most) = (Duration::ZERO, 0);
    for number in 0..20 {
        let send = format!(r#"{{"QueueUrl":"good","MessageBody":"{number}"}}"#);
        worst = worst.max(served(&kew, "SendMessage", &send).0);
        let (took, got) = served(&kew, "ReceiveMessage", r#"{"QueueUrl":"good"}"#);
        assert!(got.contains(&format!(r#""Body":"{number}""#)), "{got}");
        worst = worst.max(took);
        let receipt = super::member(&got, "ReceiptHandle");
        served(&kew, "DeleteMessage", &format!(r#"{{"QueueUrl":"good","ReceiptHandle":"{receipt}"}}"#));
        most = most.max(member_of_status(kew.id(), "VmRSS"));
        assert!(metric(&kew, "kew_reply_bytes") <= 160 << 20);
    }
    assert!(kew.is_running(), "{}", kew.errors());
    let peak = member_of_status(kew.id(), "VmHWM");
    drop(clients);
    let begun = Instant::now();
    while metric(&kew, "kew_reply_bytes") > 0 {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "replies of clients that went away are still held"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    let after = member_of_status(kew.id(), "VmRSS");
    let refused = metric(&kew, "kew_replies_refused_total");
    println!(
        "{count} unread: resident {before} KiB before, {most} KiB meanwhile, {peak} KiB at most, {after} KiB after; \
         a good client's request took {worst:?} at most; {refused} refused; {ADDRESSES_KIB} KiB of addresses allowed"
    );
    assert!(peak < RESIDENT_KIB, "{peak} KiB");
    assert_eq!(kew.ask("ListQueues", "{}").0, 200);
}

#[test]
fn a_receive_that_has_no_room_leases_nothing() {
    let directory = data_directory();
    let mut tight = command();
    tight.env("KEW_LIMITS_REPLIES_BYTES_MAX", "1 MiB");
    let kew = Kew::start_by(tight, directory.path(), &["--store", "memory"]);
    assert_eq!(kew.ask("CreateQueue", r#"{"QueueName":"big"}"#).0, 200);
    let body = "x".repeat(BODY);
    for _ in 0..MESSAGES {
        assert_eq!(kew.ask("SendMessage", &format!(r#"{{"QueueUrl":"big","MessageBody":"{body}"}}"#)).0, 200);
    }
    // Its reply alone is all there is room for, and it reads only the beginning.
    let mut first = http1(&kew);
    first.read_exact(&mut [0; 12]).expect("the server answers");
    assert_eq!(kew.ask("CreateQueue", r#"{"QueueName":"small"}"#).0, 200);
    assert_eq!(kew.ask("SendMessage", r#"{"QueueUrl":"small","MessageBody":"kept"}"#).0, 200);
    let leased = metric(&kew, "kew_messages_leased_total");
    let waiting = kew.begin("ReceiveMessage", r#"{"QueueUrl":"small"}"#);
    // What is answered behind it has come behind it.
    assert_eq!(kew.ask("CreateQueue", r#"{"QueueName":"other"}"#).0, 200);
    assert_eq!(metric(&kew, "kew_messages_leased_total"), leased);
    let counts = r#"{"QueueUrl":"small","AttributeNames":["All"]}"#;
    drop(first);
    assert!(super::program::reply(waiting).1.contains("kept"));
    let (_, shown) = kew.ask("GetQueueAttributes", counts);
    assert!(shown.contains(r#""ApproximateNumberOfMessagesNotVisible":"1""#), "{shown}");
}
