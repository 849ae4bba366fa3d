//! The handler's process: this program, made one by a variable.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};

/// Where calls are handed on to, or how they are answered.
pub const VARIABLE: &str = "HANDLER_OF_TEST";
/// Answer every call at once.
pub const AT_ONCE: &str = "at-once";
/// Answer once, and end as if all was well.
pub const BRIEF: &str = "brief";
/// Listen nowhere and do nothing.
pub const DEAF: &str = "deaf";

/// The arguments that make this program a handler.
pub const ARGUMENTS: [&str; 3] = ["handler::serves_when_it_is_told_to", "--exact", "--nocapture"];

#[test]
fn serves_when_it_is_told_to() {
    let Ok(told) = std::env::var(VARIABLE) else { return };
    if told == DEAF {
        loop {
            std::thread::park();
        }
    }
    if let Some(code) = told.strip_prefix("exit-") {
        eprintln!("the handler cannot go on");
        std::process::exit(code.parse().expect("the text is a number"));
    }
    let port: u16 = std::env::var("FUNCTIONS_CUSTOMHANDLER_PORT")
        .expect("the host sets it")
        .parse()
        .expect("the port of the handler is a number");
    let listener = TcpListener::bind(("127.0.0.1", port)).expect("the host chose a free port");
    for stream in listener.incoming() {
        let stream = stream.expect("connections come");
        stream.set_nodelay(true).expect("the connection is open");
        if told == BRIEF {
            answer_once(stream);
            std::process::exit(0);
        }
        let told = told.clone();
        std::thread::spawn(
            move || if told == AT_ONCE { answer_at_once(stream) } else { hand_on(stream, &told) },
        );
    }
}

/// Both ways, byte by byte.
fn hand_on(stream: TcpStream, to: &str) {
    let Ok(other) = TcpStream::connect(to) else { return };
    other.set_nodelay(true).expect("the connection is open");
    let (mut here, mut there) = (
        stream.try_clone().expect("the connection is open"),
        other.try_clone().expect("the connection is open"),
    );
    std::thread::spawn(move || copy(&mut here, &mut there));
    copy(&mut { other }, &mut { stream });
}

fn copy(from: &mut TcpStream, to: &mut TcpStream) {
    let _ended = std::io::copy(from, to);
    let _told = (to.shutdown(Shutdown::Both), from.shutdown(Shutdown::Both));
}

const REPLY: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";

fn answer_once(mut stream: TcpStream) {
    let mut piece = [0; 1_024];
    let read = stream.read(&mut piece).expect("the host sends a request");
    assert!(read > 0);
    stream.write_all(REPLY.as_bytes()).expect("the answer is waited for");
    stream.shutdown(Shutdown::Write).expect("the connection is open");
    // Until it has been read.
    let _ended = stream.read(&mut piece);
}

fn answer_at_once(mut stream: TcpStream) {
    let mut bytes = Vec::new();
    let mut piece = [0; 64 << 10];
    loop {
        while let Some(length) = whole(&bytes) {
            bytes.drain(..length);
            if stream.write_all(REPLY.as_bytes()).is_err() {
                return;
            }
        }
        match stream.read(&mut piece) {
            Ok(0) | Err(_) => return,
            Ok(read) => bytes.extend_from_slice(&piece[..read]),
        }
    }
}

/// The length of the first request, if all of it is there.
pub fn whole(bytes: &[u8]) -> Option<usize> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
    let length = head.split("content-length:").nth(1).and_then(|rest| rest.split('\r').next());
    let length = length.map_or(0, |length| length.trim().parse::<usize>().expect("the text is a number"));
    (bytes.len() >= end + length).then_some(end + length)
}
