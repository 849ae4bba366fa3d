//! Pipelined requests: each gets its reply, in order, up to the one that ends the connection; and no reply on its way
//! is lost to a reset, whatever the client still sends behind it.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use kew_testing::Random;

use super::program::{Kew, command, data_directory};

/// Requests of one burst.
const BURST_MAX: u64 = 40;
/// Connections at a time.
const CLIENTS: u64 = 8;
/// A burst with its replies is over by then, also on a busy machine.
const WITHIN: Duration = Duration::from_secs(60);

/// How many requests are pipelined.
fn requests() -> u64 {
    std::env::var("KEW_PIPELINED").map_or(5_000, |count| count.parse().expect("KEW_PIPELINED is a number"))
}

/// How a burst ends its connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    /// The client closes its half behind the last request.
    HalfClosed,
    /// A request asks for it.
    Asked,
    /// A request is no HTTP.
    Broken,
    /// The length of a body is above all bounds.
    TooLong,
}

/// What is sent, and the status of each reply that must come.
struct Burst {
    bytes: Vec<u8>,
    expected: Vec<u16>,
    end: End,
    /// Requests, those behind the end too.
    requests: u64,
}

fn request(out: &mut Vec<u8>, action: &str, body: &str, more: &str) {
    let head = format!(
        "POST / HTTP/1.1\r\nHost: localhost\r\nX-Amz-Target: AmazonSQS.{action}\r\n{more}Content-Length: {}\r\n\r\n",
        body.len()
    );
    out.extend_from_slice(head.as_bytes());
    out.extend_from_slice(body.as_bytes());
}

fn one(out: &mut Vec<u8>, random: &mut Random) -> u16 {
    match random.below(5) {
        0 => request(out, "ListQueues", "{}", ""),
        1 => request(out, "ReceiveMessage", r#"{"QueueUrl":"q","MaxNumberOfMessages":10}"#, ""),
        2 => {
            // Some are longer than what is read ahead.
            let length = random.one_of(&[10, 1_000, 100_000]);
            let body = format!(r#"{{"QueueUrl":"q","MessageBody":"{}"}}"#, "m".repeat(length));
            request(out, "SendMessage", &body, "");
        }
        3 => {
            request(out, "GetQueueUrl", r#"{"QueueName":"none"}"#, "");
            return 400;
        }
        _ => request(out, "GetQueueAttributes", r#"{"QueueUrl":"q","AttributeNames":["All"]}"#, ""),
    }
    200
}

fn burst(random: &mut Random) -> Burst {
    let requests = 1 + random.below(BURST_MAX);
    let end = random.one_of(&[End::HalfClosed, End::Asked, End::Broken, End::TooLong]);
    let last = if end == End::HalfClosed { requests } else { random.below(requests) };
    let (mut bytes, mut expected) = (Vec::new(), Vec::new());
    for number in 0..requests {
        if number != last {
            let status = one(&mut bytes, random);
            if number < last {
                expected.push(status);
            }
            continue;
        }
        match end {
            End::HalfClosed => unreachable!("no request has this number"),
            End::Asked => {
                request(&mut bytes, "ListQueues", "{}", "Connection: close\r\n");
                expected.push(200);
            }
            End::Broken => {
                bytes.extend_from_slice(b"GET / HTTP/1.1\r\nno header\r\n\r\n");
                expected.push(400);
            }
            End::TooLong => {
                bytes.extend_from_slice(
                    b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 999999999999\r\n\r\n",
                );
                expected.push(413);
            }
        }
    }
    Burst { bytes, expected, end, requests }
}

/// The status of each reply in what was read; whether the last one is whole.
fn statuses(mut read: &[u8]) -> (Vec<u16>, bool) {
    let mut statuses = Vec::new();
    while !read.is_empty() {
        let Some(end) = read.windows(4).position(|window| window == b"\r\n\r\n") else {
            return (statuses, false);
        };
        let head = String::from_utf8_lossy(&read[..end]).to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length: usize =
            length.expect("each reply says its length").parse().expect("content-length is a number");
        let Some(rest) = read.get(end + 4 + length..) else { return (statuses, false) };
        statuses.push(
            head.split(' ').nth(1).expect("a reply has a status").parse().expect("a status is a number"),
        );
        read = rest;
    }
    (statuses, true)
}

/// Sends a burst from one thread while this one reads, and compares.
fn play(kew: &Kew, seed: u64) -> u64 {
    let burst = burst(&mut Random::from_seed(seed));
    let mut stream = TcpStream::connect(&kew.sqs).expect("the server accepts connections");
    stream.set_read_timeout(Some(WITHIN)).expect("the connection is open");
    let mut writer = stream.try_clone().expect("the test has free file descriptors");
    let mut read = Vec::new();
    let ended = std::thread::scope(|scope| {
        let writing = scope.spawn(|| {
            // Behind the end of the connection nothing is taken any more.
            let _sent = writer.write_all(&burst.bytes);
            // Behind a body that is too long its rest is waited for, some seconds, unless the client says that none
            // comes. A server that has closed already needs nothing more.
            if matches!(burst.end, End::HalfClosed | End::TooLong) {
                let told = writer.shutdown(Shutdown::Write);
                assert!(
                    told.is_ok() || burst.end != End::HalfClosed,
                    "a side is kept open until all is answered"
                );
            }
        });
        let ended = stream.read_to_end(&mut read);
        writing.join().expect("the writing thread does not panic");
        ended
    });
    let (found, is_whole) = statuses(&read);
    // A reset may follow the last reply, where a client goes on to send; it may not swallow one.
    let is_reset = matches!(&ended, Err(error) if error.kind() == ErrorKind::ConnectionReset);
    assert!(ended.is_ok() || is_reset, "seed {seed}: {ended:?}");
    assert!(
        found == burst.expected && is_whole,
        "seed {seed}, {:?}: {} of {} replies, the last whole: {is_whole}, then {ended:?}: {found:?}, expected {:?}",
        burst.end,
        found.len(),
        burst.expected.len(),
        burst.expected,
    );
    burst.requests
}

#[test]
fn no_reply_to_pipelined_requests_is_lost_to_a_reset() {
    let directory = data_directory();
    let mut program = command();
    program.env("KEW_SQS_PURGE_INTERVAL_SECONDS", "0");
    let kew = Kew::start_by(program, directory.path(), &["--store", "memory"]);
    assert_eq!(kew.ask("CreateQueue", r#"{"QueueName":"q"}"#).0, 200);
    let (begun, most) = (Instant::now(), requests().div_ceil(CLIENTS));
    let total: u64 = std::thread::scope(|scope| {
        let kew = &kew;
        let client = |client: u64| {
            let (mut done, mut seed) = (0, client);
            while done < most {
                done += play(kew, seed);
                seed += CLIENTS;
                // So that the queue stays short.
                if seed % (64 * CLIENTS) == client {
                    assert_eq!(kew.ask("PurgeQueue", r#"{"QueueUrl":"q"}"#).0, 200);
                }
            }
            done
        };
        let clients: Vec<_> = (0..CLIENTS).map(|number| scope.spawn(move || client(number))).collect();
        clients.into_iter().map(|client| client.join().expect("each reply came")).sum()
    });
    println!("{total} pipelined requests in {:.1} s", begun.elapsed().as_secs_f64());
}
