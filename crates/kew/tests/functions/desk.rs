//! Where calls of the handler arrive in the test, and where it answers them.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;

use crate::handler;

/// When a test gives up waiting for a call.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long nothing must happen to count as nothing.
const SILENCE: Duration = Duration::from_millis(300);

/// The desk.
pub struct Desk {
    pub address: String,
    calls: Mutex<Receiver<Call>>,
}

/// One run that waits for its end.
pub struct Call {
    pub function: String,
    pub head: String,
    pub body: Value,
    stream: TcpStream,
    done: Sender<()>,
}

impl Desk {
    pub fn open() -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("a bound socket has an address").to_string();
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, sender) = (stream.expect("connections come"), sender.clone());
                stream.set_nodelay(true).expect("the connection is open");
                std::thread::spawn(move || serve(stream, &sender));
            }
        });
        Arc::new(Self { address, calls: Mutex::new(receiver) })
    }

    /// The next run.
    #[track_caller]
    pub fn next(&self) -> Call {
        self.calls
            .lock()
            .expect("no thread panics while it holds the lock")
            .recv_timeout(PATIENCE)
            .expect("a run begins")
    }

    /// The next run, if one begins soon.
    pub fn soon(&self) -> Option<Call> {
        self.calls.lock().expect("no thread panics while it holds the lock").recv_timeout(SILENCE).ok()
    }

    /// This number of runs, none of which has ended.
    #[track_caller]
    pub fn take(&self, count: usize) -> Vec<Call> {
        (0..count).map(|_| self.next()).collect()
    }

    /// No run begins.
    #[track_caller]
    pub fn is_silent(&self) {
        if let Some(call) = self.soon() {
            panic!("a run began: {}", call.body);
        }
    }
}

fn serve(mut stream: TcpStream, calls: &Sender<Call>) {
    let mut bytes = Vec::new();
    let mut piece = [0; 64 << 10];
    loop {
        if let Some(length) = handler::whole(&bytes) {
            let request: Vec<u8> = bytes.drain(..length).collect();
            let text = String::from_utf8(request).expect("requests are text");
            let (head, body) = text.split_once("\r\n\r\n").expect("a request has a head and a body");
            if head.starts_with("GET ") {
                // Any answer means that the handler is there.
                write(&mut stream, "404 Not Found", "text/plain", "");
                continue;
            }
            let function =
                head.split(' ').nth(1).expect("a request has a path").trim_start_matches('/').to_owned();
            let (done, ended) = mpsc::channel();
            let body = serde_json::from_str(body).expect("calls are JSON");
            let handed = stream.try_clone().expect("the connection is open");
            calls
                .send(Call { function, head: head.to_owned(), body, stream: handed, done })
                .expect("the desk is open");
            let _dropped = ended.recv();
            continue;
        }
        match stream.read(&mut piece) {
            Ok(0) | Err(_) => return,
            Ok(read) => bytes.extend_from_slice(&piece[..read]),
        }
    }
}

fn write(stream: &mut TcpStream, status: &str, kind: &str, body: &str) {
    let length = body.len();
    let reply =
        format!("HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n{body}");
    // The host may be gone by now.
    let _sent = stream.write_all(reply.as_bytes());
}

impl Call {
    pub fn succeed(self) {
        self.reply("200 OK", "application/json", "{}");
    }

    pub fn fail(self) {
        self.reply("500 Internal Server Error", "application/json", "{}");
    }

    pub fn reply(mut self, status: &str, kind: &str, body: &str) {
        write(&mut self.stream, status, kind, body);
        let _told = self.done.send(());
    }

    /// The connection ends without an answer.
    pub fn hang_up(self) {
        let _closed = self.stream.shutdown(Shutdown::Both);
    }

    /// The message, out of its JSON inside a string.
    pub fn text(&self) -> String {
        inner(&self.body["Data"]["item"])
    }

    /// What is known about the message.
    pub fn known(&self, name: &str) -> String {
        inner(&self.body["Metadata"][name])
    }

    pub fn tries(&self) -> String {
        self.body["Metadata"]["DequeueCount"].as_str().expect("the dequeue count is coded as text").to_owned()
    }
}

/// A text that is JSON inside a string.
fn inner(value: &Value) -> String {
    let json = value.as_str().unwrap_or_else(|| panic!("it is a string: {value}"));
    serde_json::from_str(json).unwrap_or_else(|_| panic!("there is JSON in it: {json}"))
}
