//! A front-end whose answers are told by the path, on a socket, and a client that speaks bytes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kew_core::{Clock, Entropy, Timestamp};
use kew_http::{
    Guard, Handler, HeaderValue, Limits, Listener, Refusal, Reply, Request, Shared, Standing, StatusCode, Tls,
};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc};

const PLAIN: HeaderValue = HeaderValue::from_static("text/plain");

/// A bound that no test waits for.
pub const LONG: Duration = Duration::from_secs(600);
/// A bound that tests wait for.
pub const SHORT: Duration = Duration::from_millis(200);

/// When a test gives up.
const PATIENCE: Duration = Duration::from_secs(30);

struct Still;

impl Clock for Still {
    fn now(&self) -> Timestamp {
        Timestamp(1_767_225_600_000)
    }
}

#[derive(Default)]
struct Counting(AtomicU64);

impl Entropy for Counting {
    fn bits(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

/// What the front-end is asked and what becomes of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// A request that waits has begun.
    Waits,
    /// It was answered.
    Answered,
    /// It was dropped.
    Dropped,
}

/// Answers by the path of the request.
struct Script {
    events: mpsc::UnboundedSender<Event>,
    release: Arc<Notify>,
}

impl Handler for Script {
    async fn answer(&self, request: &Request) -> Reply {
        let text = match request.uri.path() {
            "/wait" => {
                let mut waiting = Waiting { events: &self.events, has_answered: false };
                // Whoever has gone does not matter here.
                let _told = self.events.send(Event::Waits);
                self.release.notified().await;
                waiting.has_answered = true;
                "waited".to_owned()
            }
            "/big" => "x".repeat(64 << 20),
            "/some" => "x".repeat(256 << 10),
            "/room" => match request.room.free().await {
                Ok(()) => "x".repeat(1 << 20),
                Err(refusal) => return self.refuse(&refusal, request),
            },
            "/from" => format!("{} {}", request.peer.ip(), request.secure),
            "/host" => format!("{:?} {:?}", request.header("host"), request.header("content-length")),
            _ => format!("{} {} {}", request.method, request.uri.path(), request.body.len()),
        };
        Reply::new(StatusCode::OK, PLAIN, text)
    }

    async fn standing(&self, request: &Request) -> Standing {
        match request.uri.path() {
            "/unknown" => Standing::Unknown,
            "/claimed" => Standing::Claimed,
            "/unsigned" => {
                Standing::Refused(Box::new(Reply::text(StatusCode::FORBIDDEN, "answered by its head")))
            }
            _ => Standing::Known,
        }
    }

    fn refuse(&self, refusal: &Refusal, request: &Request) -> Reply {
        Reply::text(refusal.status(), &format!("refused {}: {refusal}", request.uri.path()))
    }
}

struct Waiting<'a> {
    events: &'a mpsc::UnboundedSender<Event>,
    has_answered: bool,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let _told = self.events.send(if self.has_answered { Event::Answered } else { Event::Dropped });
    }
}

/// A front-end that serves.
pub struct House {
    pub address: SocketAddr,
    pub shared: Shared,
    pub release: Arc<Notify>,
    events: mpsc::UnboundedReceiver<Event>,
}

impl House {
    pub async fn open(limits: Limits) -> Self {
        Self::with(limits, None).await
    }

    pub async fn with(limits: Limits, tls: Option<Tls>) -> Self {
        let (events, told) = mpsc::unbounded_channel();
        let release = Arc::new(Notify::new());
        let script = Script { events, release: Arc::clone(&release) };
        let shared = Shared::new(Arc::new(Still), Arc::new(Counting::default()), limits);
        let listener = Listener::new(script, Guard::open(), &shared);
        let socket = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = socket.local_addr().expect("it is bound");
        match tls {
            None => tokio::spawn(listener.accept(socket)),
            Some(tls) => tokio::spawn(listener.accept_tls(socket, tls)),
        };
        Self { address, shared, release, events: told }
    }

    /// What happens next in the front-end.
    pub async fn event(&mut self) -> Event {
        let event = tokio::time::timeout(PATIENCE, self.events.recv()).await;
        event.expect("it happens in time").expect("the front-end is there")
    }

    /// Whether nothing has happened that was not asked for.
    pub fn is_quiet(&mut self) -> bool {
        self.events.try_recv().is_err()
    }

    /// Returns when nobody is connected.
    pub async fn is_left(&self) {
        let leaving = async {
            while self.shared.drain.places() > 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, leaving).await.expect("it happens in time");
    }

    pub async fn client(&self) -> Client<TcpStream> {
        Client(TcpStream::connect(self.address).await.expect("it listens"))
    }

    /// Bytes in on a new connection, and all that comes back until it is closed.
    pub async fn all(&self, bytes: impl AsRef<[u8]>) -> String {
        let mut client = self.client().await;
        client.send(bytes).await;
        client.rest().await
    }
}

/// One connection.
pub struct Client<S>(pub S);

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.write_all(bytes.as_ref()).await.expect("it is taken");
    }

    pub async fn get(&mut self, path: &str) -> Answer {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")).await;
        self.answer().await
    }

    /// The next answer, of a known length.
    pub async fn answer(&mut self) -> Answer {
        let mut bytes = Vec::new();
        while !bytes.ends_with(b"\r\n\r\n") {
            bytes.push(self.0.read_u8().await.expect("it answers"));
        }
        let head = String::from_utf8(bytes).expect("it is text").to_ascii_lowercase();
        let length = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next());
        let length = length.map_or(0, |length| length.parse().expect("it is a number"));
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).await.expect("it is all there");
        let status = head.get(9..12).and_then(|status| status.parse().ok()).expect("it has a status");
        Answer { status, head, body: String::from_utf8(body).expect("it is text") }
    }

    /// All that comes until the connection is closed; being reset is an end too.
    pub async fn rest(&mut self) -> String {
        let mut rest = Vec::new();
        let mut space = [0; 4096];
        while let Ok(1..) =
            self.0.read(&mut space).await.inspect(|read| rest.extend_from_slice(&space[..*read]))
        {}
        String::from_utf8(rest).expect("it is text")
    }
}

/// A reply.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    /// In lower case.
    pub head: String,
    pub body: String,
}
