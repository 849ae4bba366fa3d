//! What stands between a host and its endpoint, and takes down every request.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::handler;
use crate::rig::{PATIENCE, Rig};

/// One request and its answer.
#[derive(Clone, Debug)]
pub struct Seen {
    /// When it came, in milliseconds of the server's clock.
    pub at: u64,
    pub method: String,
    pub target: String,
    pub head: String,
    pub body: String,
    pub status: u16,
    /// The new receipt that was answered.
    pub receipt: String,
}

impl Seen {
    /// A parameter's value, decoded.
    pub fn query(&self, name: &str) -> Option<String> {
        let (_, query) = self.target.split_once('?')?;
        let (_, value) =
            query.split('&').filter_map(|pair| pair.split_once('=')).find(|(found, _)| *found == name)?;
        Some(
            kew_http::percent::decode(value.as_bytes())
                .expect("the percent encoding is well formed")
                .into_owned(),
        )
    }

    pub fn is(&self, operation: &str) -> bool {
        let (path, query) = self.target.split_once('?').unwrap_or((&self.target, ""));
        let places = path.matches('/').count();
        match operation {
            "Get" => self.method == "GET" && query.contains("numofmessages"),
            "Metadata" => self.method == "GET" && query.contains("comp=metadata"),
            "Put" => self.method == "POST",
            "Update" => self.method == "PUT" && places == 4,
            "Create" => self.method == "PUT" && places == 2,
            "Delete" => self.method == "DELETE",
            other => panic!("{other} is not looked for"),
        }
    }
}

/// What was taken down, and whether anybody gets through.
pub struct Recorder {
    seen: Mutex<Vec<Seen>>,
    cut: AtomicBool,
}

impl Recorder {
    /// Stands between this rig's hosts and its server from now on.
    pub fn between(rig: &mut Rig) -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("a bound socket has an address").to_string();
        let recorder = Arc::new(Self { seen: Mutex::default(), cut: AtomicBool::new(false) });
        rig.endpoint = address;
        let (azure, admin) = (rig.azure.clone(), rig.kew.admin.clone());
        let taking = Arc::clone(&recorder);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, taking) = (stream.expect("connections come"), Arc::clone(&taking));
                let (azure, admin) = (azure.clone(), admin.clone());
                std::thread::spawn(move || taking.serve(stream, &azure, &admin));
            }
        });
        recorder
    }

    /// Everything of this kind, in order.
    pub fn seen(&self, operation: &str) -> Vec<Seen> {
        self.seen
            .lock()
            .expect("no thread panics while it holds the lock")
            .iter()
            .filter(|seen| seen.is(operation))
            .cloned()
            .collect()
    }

    /// Waits until this number of this kind were recorded.
    #[track_caller]
    pub fn has_seen(&self, operation: &str, times: usize) {
        let begun = Instant::now();
        while self.seen(operation).len() < times {
            assert!(begun.elapsed() < PATIENCE, "{operation}: {:?}", self.seen(operation));
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Refuses all connections, or lets all through again.
    pub fn cut(&self, cut: bool) {
        self.cut.store(cut, Ordering::SeqCst);
    }

    fn serve(&self, mut client: TcpStream, azure: &str, admin: &str) {
        client.set_nodelay(true).expect("the connection is open");
        let Ok(mut server) = TcpStream::connect(azure) else { return };
        server.set_nodelay(true).expect("the connection is open");
        let (mut asked, mut answered) = (Vec::new(), Vec::new());
        while let Some(request) = next(&mut client, &mut asked) {
            if self.cut.load(Ordering::SeqCst) {
                break;
            }
            let at = now(admin);
            if server.write_all(&request).is_err() {
                break;
            }
            let Some(reply) = next(&mut server, &mut answered) else { break };
            self.take_down(at, &request, &reply);
            if self.cut.load(Ordering::SeqCst) || client.write_all(&reply).is_err() {
                break;
            }
        }
        let _closed = (client.shutdown(Shutdown::Both), server.shutdown(Shutdown::Both));
    }

    fn take_down(&self, at: u64, request: &[u8], reply: &[u8]) {
        let request = String::from_utf8_lossy(request).into_owned();
        let (head, body) = request.split_once("\r\n\r\n").expect("a request has a head and a body");
        let mut line = head.split(' ');
        let mut part = || line.next().unwrap_or_default().to_owned();
        let (method, target) = (part(), part());
        let reply = String::from_utf8_lossy(reply);
        let status = reply.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default();
        let receipt =
            reply.lines().find_map(|line| line.strip_prefix("x-ms-popreceipt: ")).unwrap_or_default();
        let seen = Seen {
            at,
            method,
            target,
            head: head.to_owned(),
            body: body.to_owned(),
            status,
            receipt: receipt.trim().to_owned(),
        };
        self.seen.lock().expect("no thread panics while it holds the lock").push(seen);
    }
}

/// The next whole request or reply on a connection.
fn next(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> Option<Vec<u8>> {
    let mut piece = [0; 64 << 10];
    loop {
        if let Some(length) = handler::whole(bytes) {
            return Some(bytes.drain(..length).collect());
        }
        match stream.read(&mut piece) {
            Ok(0) | Err(_) => return None,
            Ok(read) => bytes.extend_from_slice(&piece[..read]),
        }
    }
}

fn now(admin: &str) -> u64 {
    let (_, reply) =
        crate::program::http(admin, "GET", "/api/v1/clock", &[("Authorization", "Bearer token")], "");
    let shown: serde_json::Value = serde_json::from_str(&reply).expect("the reply is JSON");
    shown["now_ms"].as_u64().expect("now_ms is a number")
}
