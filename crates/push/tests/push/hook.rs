//! A webhook whose replies the test gives: it notes every batch it is sent.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{Semaphore, SemaphorePermit};

/// One batch as it arrived.
#[derive(Clone, Debug)]
pub struct Arrived {
    /// Its headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The request line.
    pub line: String,
    /// Its body, parsed.
    pub body: Value,
    /// Its body, as it was sent.
    pub raw: Vec<u8>,
}

impl Arrived {
    /// Its messages' texts and attempts.
    pub fn messages(&self) -> Vec<(String, u64)> {
        let messages = self.body["messages"].as_array().expect("a batch has messages");
        messages
            .iter()
            .map(|message| {
                let body = message["body"].as_str().expect("the body of a message is text").to_owned();
                (body, message["attempts"].as_u64().expect("each message has its attempts"))
            })
            .collect()
    }

    /// The ids of its messages.
    pub fn ids(&self) -> Vec<String> {
        let messages = self.body["messages"].as_array().expect("a batch has messages");
        messages
            .iter()
            .map(|message| message["id"].as_str().expect("each message has an id").to_owned())
            .collect()
    }

    /// The id of the message with this text.
    pub fn id_of(&self, text: &str) -> String {
        let place = self
            .messages()
            .iter()
            .position(|(body, _)| body == text)
            .expect("a message with this text is in the batch");
        self.ids().swap_remove(place)
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// What the hook does with a batch.
#[derive(Clone, Debug)]
pub enum Reply {
    /// A whole reply.
    Whole { status: u16, headers: String, body: String },
    /// These bytes, and the end of the connection.
    Raw(Vec<u8>),
    /// Nothing, for ever.
    Silence,
    /// The end of the connection.
    Hangup,
}

impl Reply {
    pub fn ok() -> Self {
        Self::status(200, "")
    }

    pub fn status(status: u16, body: impl Into<String>) -> Self {
        Self::Whole { status, headers: String::new(), body: body.into() }
    }

    pub fn json(body: &Value) -> Self {
        Self::status(200, body.to_string())
    }
}

type Answers = dyn Fn(&Arrived) -> Reply + Send + Sync;

/// A port that refuses connections, and that no other program can take meanwhile.
pub struct Down(TcpSocket);

impl Down {
    pub fn new() -> Self {
        let socket = TcpSocket::new_v4().expect("the system gives a socket");
        socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a port is free");
        Self(socket)
    }

    pub fn url(&self) -> String {
        format!("http://{}/hook?a=b", self.0.local_addr().expect("a bound socket has an address"))
    }
}

/// A webhook that listens.
#[derive(Clone)]
pub struct Hook {
    pub url: String,
    inner: Arc<Inner>,
}

struct Inner {
    arrived: Mutex<Vec<Arrived>>,
    answers: Mutex<Arc<Answers>>,
    /// What each reply waits for; closed when nothing waits.
    gate: Semaphore,
    now: AtomicUsize,
    most: AtomicUsize,
    connections: AtomicUsize,
}

impl Hook {
    /// A hook that acknowledges everything.
    pub async fn open() -> Self {
        let gate = Semaphore::new(0);
        gate.close();
        Self::with_gate(gate).await
    }

    /// The same at a place that was down until now.
    pub fn open_at(down: Down) -> Self {
        let gate = Semaphore::new(0);
        gate.close();
        Self::listen(down.0.listen(1_024).expect("no other socket listens on the port"), gate)
    }

    async fn with_gate(gate: Semaphore) -> Self {
        Self::listen(TcpListener::bind("127.0.0.1:0").await.expect("a port is free"), gate)
    }

    fn listen(listener: TcpListener, gate: Semaphore) -> Self {
        let url =
            format!("http://{}/hook?a=b", listener.local_addr().expect("a bound socket has an address"));
        let answers: Arc<Answers> = Arc::new(|_| Reply::ok());
        let inner = Arc::new(Inner {
            arrived: Mutex::default(),
            answers: Mutex::new(answers),
            gate,
            now: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
            connections: AtomicUsize::new(0),
        });
        let hook = Self { url, inner };
        let serving = hook.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                serving.inner.connections.fetch_add(1, Ordering::Relaxed);
                let hook = serving.clone();
                tokio::spawn(async move { hook.serve(stream).await });
            }
        });
        hook
    }

    /// A hook that answers like this.
    pub async fn answering(answers: impl Fn(&Arrived) -> Reply + Send + Sync + 'static) -> Self {
        let hook = Self::open().await;
        hook.answer(answers);
        hook
    }

    /// A hook whose replies wait until they are let through.
    pub async fn gated() -> Self {
        Self::with_gate(Semaphore::new(0)).await
    }

    /// From now on it answers like this.
    pub fn answer(&self, answers: impl Fn(&Arrived) -> Reply + Send + Sync + 'static) {
        *self.inner.answers.lock() = Arc::new(answers);
    }

    /// The batches that arrived.
    pub fn batches(&self) -> Vec<Arrived> {
        self.inner.arrived.lock().clone()
    }

    /// The messages of all batches that arrived.
    pub fn messages(&self) -> Vec<(String, u64)> {
        self.batches().iter().flat_map(Arrived::messages).collect()
    }

    /// The sizes of all batches that arrived.
    pub fn sizes(&self) -> Vec<usize> {
        self.batches().iter().map(|batch| batch.ids().len()).collect()
    }

    /// How many batches were there at the same time at most.
    pub fn most_at_once(&self) -> usize {
        self.inner.most.load(Ordering::Relaxed)
    }

    /// How many connections were made.
    pub fn connections(&self) -> usize {
        self.inner.connections.load(Ordering::Relaxed)
    }

    /// Waits until this number of batches have arrived.
    pub async fn until(&self, batches: usize) {
        super::dispatcher::until(&format!("{batches} batches"), || {
            self.inner.arrived.lock().len() >= batches
        })
        .await;
    }

    async fn serve(&self, mut stream: TcpStream) {
        let mut buffer = Vec::new();
        while let Some(arrived) = read_request(&mut stream, &mut buffer).await {
            let now = self.inner.now.fetch_add(1, Ordering::Relaxed) + 1;
            self.inner.most.fetch_max(now, Ordering::Relaxed);
            self.inner.arrived.lock().push(arrived.clone());
            let answers = Arc::clone(&self.inner.answers.lock());
            let reply = answers(&arrived);
            // Closed or not: a closed gate is an open one.
            let _passed = self.inner.gate.acquire().await.map(SemaphorePermit::forget);
            // Batches that come at the same time are seen at the same time.
            tokio::time::sleep(Duration::from_millis(2)).await;
            self.inner.now.fetch_sub(1, Ordering::Relaxed);
            match reply {
                Reply::Whole { status, headers, body } => {
                    let text = format!(
                        "HTTP/1.1 {status} Said\r\nContent-Length: {}\r\n{headers}\r\n{body}",
                        body.len()
                    );
                    if stream.write_all(text.as_bytes()).await.is_err() {
                        return;
                    }
                }
                Reply::Raw(bytes) => {
                    let _written = stream.write_all(&bytes).await;
                    return;
                }
                Reply::Silence => std::future::pending().await,
                Reply::Hangup => return,
            }
        }
    }

    /// Lets this number of replies of a gated hook through.
    pub fn let_through(&self, replies: usize) {
        self.inner.gate.add_permits(replies);
    }
}

async fn read_request(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<Arrived> {
    let head_end = loop {
        if let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
        read_more(stream, buffer).await?;
    };
    let head = String::from_utf8(buffer.drain(..head_end + 4).collect()).expect("a head is text");
    let mut lines = head.trim_end().split("\r\n");
    let line = lines.next().expect("a request has a first line").to_owned();
    let headers: Vec<(String, String)> = lines
        .map(|line| line.split_once(':').expect("a header has a colon"))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length =
        headers.iter().find(|(name, _)| name == "content-length").expect("a batch has a content-length");
    let length: usize = length.1.parse().expect("content-length is a number");
    while buffer.len() < length {
        read_more(stream, buffer).await?;
    }
    let raw: Vec<u8> = buffer.drain(..length).collect();
    let body = serde_json::from_slice(&raw).expect("a batch is JSON");
    Some(Arrived { headers, line, body, raw })
}

async fn read_more(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<()> {
    match stream.read_buf(buffer).await {
        Ok(0) | Err(_) => None,
        Ok(_) => Some(()),
    }
}
