//! A whole front-end on a socket, and a client that speaks bytes.
#![allow(dead_code, reason = "each topic uses its own part")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kew_azure::{Account, Azure, Settings, Trust};
use kew_core::{AccountId, Clock, Entropy, Timestamp};
use kew_engine::{ClockKind, Engine, Options, TimeSource};
use kew_http::{Guard, Limits, Listener, Shared};
use kew_store::MemoryStore;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// 2026-01-01, and it stays that until a test moves it.
pub const NOW: Timestamp = Timestamp(1_767_225_600_000);
/// The same as requests write it.
pub const DATE: &str = "Thu, 01 Jan 2026 00:00:00 GMT";
/// The well-known key of the well-known account.
pub const KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// Chance that counts: every number once, in order.
#[derive(Default)]
struct Counting(AtomicU64);

impl Entropy for Counting {
    fn bits(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

struct Standing;

impl TimeSource for Standing {
    fn system(&self) -> Timestamp {
        NOW
    }

    fn steady(&self) -> Duration {
        Duration::ZERO
    }
}

impl Clock for Standing {
    fn now(&self) -> Timestamp {
        NOW
    }
}

/// A front-end that serves.
pub struct House {
    pub address: String,
    pub engine: Arc<Engine>,
}

/// Open, with the well-known account.
pub fn settings() -> Settings {
    let key = STANDARD.decode(KEY).expect("it is Base64");
    let account =
        Account { name: "devstoreaccount1".into(), id: AccountId(0), keys: vec![b"other".to_vec(), key] };
    Settings::open(vec![account], "us-east-1".into(), Arc::new(Standing), Arc::new(Counting::default()))
}

/// The same for those who sign.
pub fn strict() -> Settings {
    Settings { trust: Trust::Strict, ..settings() }
}

impl House {
    pub async fn open() -> Self {
        Self::with(settings()).await
    }

    pub async fn with(settings: Settings) -> Self {
        let store = Arc::new(MemoryStore::new(Arc::new(Counting::default())));
        let entropy: Arc<dyn Entropy> = Arc::new(Counting::default());
        let options = Options { clock: ClockKind::Virtual, ..Options::default() };
        let engine = Engine::start(store, Arc::new(Standing), Arc::clone(&entropy), options);
        let engine = engine.await.expect("an empty store opens");
        let timers = Arc::clone(&engine);
        tokio::spawn(async move { timers.run_timers().await });
        Self::over(engine, settings).await
    }

    /// Another front-end over the same store.
    pub async fn beside(&self, settings: Settings) -> Self {
        Self::over(Arc::clone(&self.engine), settings).await
    }

    async fn over(engine: Arc<Engine>, settings: Settings) -> Self {
        let entropy: Arc<dyn Entropy> = Arc::new(Counting::default());
        let socket = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = socket.local_addr().expect("it is bound").to_string();
        let clock = Arc::clone(engine.clock()) as Arc<dyn Clock>;
        let shared = Shared::new(clock, entropy, Limits::default());
        let guard = if settings.trust == Trust::Open { Guard::open() } else { Guard::strict() };
        let guard = settings.guard(guard);
        let azure = Azure::new(Arc::clone(&engine), settings);
        tokio::spawn(Listener::new(azure, guard, &shared).accept(socket));
        Self { address, engine }
    }

    /// Moves time ahead, through everything that happens on the way.
    pub async fn advance(&self, seconds: u64) {
        self.engine.advance(Duration::from_secs(seconds)).await.expect("the clock is virtual");
    }

    /// One request to the well-known account: method, path behind the account, body.
    pub async fn ask(&self, method: &str, path: &str, body: &str) -> Answer {
        self.ask_with(method, path, &[], body).await
    }

    /// The same with headers.
    pub async fn ask_with(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        self.raw(method, &format!("/devstoreaccount1{path}"), headers, body).await
    }

    /// The same with the whole path.
    pub async fn raw(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut request = format!("{method} {path} HTTP/1.1\r\n");
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            request.push_str("Host: 127.0.0.1:10001\r\n");
        }
        for (name, value) in headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        request.push_str(&format!("Content-Length: {}\r\n\r\n{body}", body.len()));
        self.bytes(&request, method == "HEAD").await
    }

    /// Bytes in, a reply out.
    pub async fn bytes(&self, request: &str, is_head: bool) -> Answer {
        let mut stream = TcpStream::connect(&self.address).await.expect("it listens");
        stream.write_all(request.as_bytes()).await.expect("it reads");
        let mut bytes = Vec::new();
        loop {
            if let Some(answer) = Answer::whole(&bytes, is_head) {
                return answer;
            }
            let read = stream.read_buf(&mut bytes).await.expect("it answers");
            assert!(read > 0, "the connection ended: {}", String::from_utf8_lossy(&bytes));
        }
    }

    /// A queue that is not there yet.
    pub async fn queue(&self, name: &str) {
        assert_eq!(self.ask("PUT", &format!("/{name}"), "").await.status, 201);
    }

    /// A message; its id and its first receipt.
    pub async fn put(&self, queue: &str, query: &str, text: &str) -> (String, String) {
        let answer = self.ask("POST", &format!("/{queue}/messages{query}"), &message(text)).await;
        assert_eq!(answer.status, 201, "{}", answer.body);
        (answer.element("MessageId"), answer.element("PopReceipt"))
    }

    /// The texts that a get with this query brings.
    pub async fn texts(&self, queue: &str, query: &str) -> Vec<String> {
        self.ask("GET", &format!("/{queue}/messages{query}"), "").await.elements("MessageText")
    }
}

/// A message's document; the text is taken as it is.
pub fn message(text: &str) -> String {
    format!("<QueueMessage><MessageText>{text}</MessageText></QueueMessage>")
}

/// A receipt as it stands in a URL.
pub fn encoded(receipt: &str) -> String {
    receipt.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D")
}

/// A reply, taken apart.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Answer {
    fn whole(bytes: &[u8], is_head: bool) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        let (head, body) = text.split_once("\r\n\r\n")?;
        let mut lines = head.split("\r\n");
        let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
        let headers: Vec<(String, String)> = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let length = headers.iter().find(|(name, _)| name == "content-length");
        let length: usize = length.map_or(0, |(_, length)| length.parse().expect("lengths are numbers"));
        (is_head || body.len() == length).then(|| Self { status, headers, body: body.to_owned() })
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// The text of the first element of this name.
    pub fn element(&self, name: &str) -> String {
        self.elements(name).into_iter().next().unwrap_or_else(|| panic!("no {name} in {}", self.body))
    }

    /// The texts of all elements of this name, empty ones too.
    pub fn elements(&self, name: &str) -> Vec<String> {
        let (open, empty) = (format!("<{name}>"), format!("<{name}/>"));
        let body = self.body.replace(&empty, &format!("<{name}></{name}>"));
        body.split(&open)
            .skip(1)
            .filter_map(|rest| rest.split_once(&format!("</{name}>")))
            .map(|(text, _)| text.to_owned())
            .collect()
    }

    /// An error of this status and code, told in the header and in the body.
    #[track_caller]
    pub fn is_error(&self, status: u16, code: &str) {
        assert_eq!((self.status, self.header("x-ms-error-code")), (status, Some(code)), "{}", self.body);
        if !self.body.is_empty() {
            assert_eq!(self.element("Code"), code);
            assert_eq!(self.header("content-type"), Some("application/xml"));
        }
    }
}
