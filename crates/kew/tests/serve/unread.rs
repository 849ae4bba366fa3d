//! Clients that ask and do not read: the server lives within its memory, and serves the others at once.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use super::program::{Kew, command, data_directory, http, member_of_status, reply};

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

/// Resident memory, once it is less than this or 10 s are over.
fn settled(kew: &Kew, kib: u64) -> u64 {
    let begun = Instant::now();
    loop {
        served(kew, "ListQueues", "{}");
        let resident = member_of_status(kew.id(), "VmRSS");
        if resident < kib || begun.elapsed() > Duration::from_secs(10) {
            return resident;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// How long a request took, and its reply.
fn served(kew: &Kew, action: &str, json: &str) -> (Duration, String) {
    let begun = Instant::now();
    let (status, body) = kew.ask(action, json);
    assert_eq!(status, 200, "{action}: {body}");
    (begun.elapsed(), body)
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
    let (mut worst, mut most, mut fullest) = (Duration::ZERO, 0, 0);
    for number in 0..20 {
        let send = format!(r#"{{"QueueUrl":"good","MessageBody":"{number}"}}"#);
        worst = worst.max(served(&kew, "SendMessage", &send).0);
        let (took, got) = served(&kew, "ReceiveMessage", r#"{"QueueUrl":"good"}"#);
        assert!(got.contains(&format!(r#""Body":"{number}""#)), "{got}");
        worst = worst.max(took);
        let receipt = super::member(&got, "ReceiptHandle");
        served(&kew, "DeleteMessage", &format!(r#"{{"QueueUrl":"good","ReceiptHandle":"{receipt}"}}"#));
        most = most.max(member_of_status(kew.id(), "VmRSS"));
        let unread = metric(&kew, "kew_reply_bytes");
        assert!(unread <= 160 << 20);
        fullest = fullest.max(unread);
    }
    assert!(fullest >= 128 << 20, "there was room all the time: {fullest} bytes");
    assert!(kew.is_running(), "{}", kew.errors());
    let peak = member_of_status(kew.id(), "VmHWM");
    drop(clients);
    // A client that closed its connection may still read: the replies are made, each of 8 MB, and then dropped.
    let patience =
        Duration::from_secs(60) + Duration::from_millis(30) * u32::try_from(count).unwrap_or(u32::MAX);
    let begun = Instant::now();
    while metric(&kew, "kew_reply_bytes") > 0 {
        assert!(begun.elapsed() < patience, "replies of clients that went away are still held");
        std::thread::sleep(Duration::from_millis(10));
    }
    let gone = begun.elapsed();
    let most_of_it_back = before + (peak - before) * 3 / 4;
    let after = settled(&kew, most_of_it_back);
    let refused = metric(&kew, "kew_replies_refused_total");
    println!(
        "{count} unread: resident {before} KiB before, {most} KiB meanwhile, {peak} KiB at most, {after} KiB after; \
         a good client's request took {worst:?} at most; {refused} refused; {ADDRESSES_KIB} KiB of addresses allowed; \
         the last reply went {gone:?} after the clients"
    );
    assert!(peak < RESIDENT_KIB, "{peak} KiB");
    assert!(after < most_of_it_back, "{after} KiB are held after all replies");
    // Behind the large replies each would wait until clients are given up, which takes 5 s or more.
    assert!(worst < Duration::from_secs(5), "{worst:?}");
    assert_eq!(kew.ask("ListQueues", "{}").0, 200);
}

#[test]
fn small_replies_of_all_dialects_do_not_wait_behind_large_ones() {
    let directory = data_directory();
    let mut tight = command();
    tight.env("KEW_LIMITS_REPLIES_BYTES_MAX", "7 MiB");
    let kew = Kew::start_by(tight, directory.path(), &["--store", "memory"]);
    let sqs = |action: &str, json: &str| {
        let (status, body) = kew.ask(action, json);
        assert_eq!(status, 200, "{action}: {body}");
        body
    };
    sqs("CreateQueue", r#"{"QueueName":"big"}"#);
    sqs("CreateQueue", r#"{"QueueName":"small"}"#);
    sqs("CreateQueue", r#"{"QueueName":"later"}"#);
    for _ in 0..MESSAGES {
        let body = "x".repeat(BODY);
        sqs("SendMessage", &format!(r#"{{"QueueUrl":"big","MessageBody":"{body}"}}"#));
    }
    let azure = kew.ports["azure"].as_str().expect("Azure's API is served").to_owned();
    let azure = |method: &str, path: &str, body: &str| {
        let (status, body) = http(&azure, method, &format!("/devstoreaccount1/letters{path}"), &[], body);
        assert!(status < 300, "{method} {path}: {status} {body}");
        body
    };
    let cloudflare = kew.ports["cloudflare"].as_str().expect("Cloudflare's API is served").to_owned();
    let cloudflare = |method: &str, path: &str, body: &str| {
        let path = format!("/client/v4/accounts/{}/queues{path}", "0".repeat(32));
        let (status, body) = http(&cloudflare, method, &path, &[], body);
        assert_eq!(status, 200, "{method} {path}: {body}");
        body
    };
    azure("PUT", "", "");
    let made = cloudflare("POST", "", r#"{"queue_name":"parcels"}"#);
    let parcels = format!("/{}", super::member(&made, "queue_id"));
    cloudflare("POST", &format!("{parcels}/consumers"), r#"{"type":"http_pull"}"#);
    let waiting = kew.begin("ReceiveMessage", r#"{"QueueUrl":"later","WaitTimeSeconds":20}"#);

    // Each has 5 s before it is given up, and then the next one's reply takes all the room.
    let unread: Vec<TcpStream> = (0..4).map(|_| http1(&kew)).collect();
    let begun = Instant::now();
    while metric(&kew, "kew_reply_bytes") < 7 << 20 {
        assert!(begun.elapsed() < Duration::from_secs(30), "the large reply is not made");
        std::thread::sleep(Duration::from_millis(5));
    }
    let large = kew.begin("ReceiveMessage", RECEIVE);
    sqs("SendMessage", r#"{"QueueUrl":"small","MessageBody":"hello"}"#);
    sqs("GetQueueAttributes", r#"{"QueueUrl":"small","AttributeNames":["All"]}"#);
    assert!(sqs("ReceiveMessage", r#"{"QueueUrl":"small"}"#).contains("hello"));
    assert_eq!(sqs("ReceiveMessage", r#"{"QueueUrl":"small"}"#), "{}", "an empty queue says so");
    sqs("SendMessage", r#"{"QueueUrl":"later","MessageBody":"hello"}"#);
    assert!(reply(waiting).1.contains("hello"), "who waits is served");
    azure("POST", "/messages", "<QueueMessage><MessageText>hello</MessageText></QueueMessage>");
    azure("GET", "?comp=metadata", "");
    assert!(azure("GET", "/messages", "").contains("hello"));
    cloudflare("POST", &format!("{parcels}/messages"), r#"{"body":"hello","content_type":"text"}"#);
    cloudflare("GET", &parcels, "");
    assert!(cloudflare("POST", &format!("{parcels}/messages/pull"), "{}").contains("hello"));
    assert!(metric(&kew, "kew_reply_bytes") >= 7 << 20, "there was no room all the time");
    large.set_nonblocking(true).expect("the connection is open");
    let unanswered = large.peek(&mut [0]).map_err(|error| error.kind());
    assert_eq!(unanswered, Err(ErrorKind::WouldBlock), "what is large waits");
    large.set_nonblocking(false).expect("the connection is open");
    drop(unread);
    assert_eq!(reply(large).0, 200);
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
    assert!(reply(waiting).1.contains("kept"));
    let (_, shown) = kew.ask("GetQueueAttributes", counts);
    assert!(shown.contains(r#""ApproximateNumberOfMessagesNotVisible":"1""#), "{shown}");
}
