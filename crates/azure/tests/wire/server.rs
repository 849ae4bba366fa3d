//! The Azure front-end on a socket, and requests as its clients write them.
#![allow(dead_code, reason = "each topic uses its own part")]

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kew_azure::{Account, Azure, Settings, Trust};
use kew_core::{AccountId, Clock};
use kew_engine::{Engine, Options};
use kew_http::{Guard, Limits, Shared};
pub use kew_testing::{Answer, NOW};
use kew_testing::{CountingEntropy, FixedClock, TestServer, TestStore, advance, start_engine};

/// [`NOW`] as requests write it.
pub const DATE: &str = "Thu, 01 Jan 2026 00:00:00 GMT";
/// The well-known key of the well-known account.
pub const KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// An Azure front-end that serves, over the store in memory.
pub struct AzureServer {
    server: TestServer,
    pub engine: Arc<Engine>,
}

impl Deref for AzureServer {
    type Target = TestServer;

    fn deref(&self) -> &TestServer {
        &self.server
    }
}

/// Open, with the well-known account.
pub fn settings() -> Settings {
    let key = STANDARD.decode(KEY).expect("the well-known key is Base64");
    let account =
        Account { name: "devstoreaccount1".into(), id: AccountId(0), keys: vec![b"other".to_vec(), key] };
    Settings::open(
        vec![account],
        "us-east-1".into(),
        Arc::new(FixedClock),
        Arc::new(CountingEntropy::default()),
    )
}

/// The same for those who sign.
pub fn strict() -> Settings {
    Settings { trust: Trust::Strict, ..settings() }
}

impl AzureServer {
    pub async fn open() -> Self {
        Self::with(settings()).await
    }

    pub async fn with(settings: Settings) -> Self {
        let entropy = Arc::new(CountingEntropy::default());
        let engine = start_engine(&TestStore::memory(), entropy, Options::default()).await;
        Self::over(engine, settings).await
    }

    /// Another front-end over the same store.
    pub async fn beside(&self, settings: Settings) -> Self {
        Self::over(Arc::clone(&self.engine), settings).await
    }

    async fn over(engine: Arc<Engine>, settings: Settings) -> Self {
        let clock = Arc::clone(engine.clock()) as Arc<dyn Clock>;
        let shared = Shared::new(clock, Arc::new(CountingEntropy::default()), Limits::default());
        let guard = if settings.trust == Trust::Open { Guard::open() } else { Guard::strict() };
        let guard = settings.guard(guard);
        let server = TestServer::start(Azure::new(Arc::clone(&engine), settings), guard, shared).await;
        Self { server, engine }
    }

    /// Moves time ahead, through everything that happens on the way.
    pub async fn advance(&self, seconds: u64) {
        advance(&self.engine, Duration::from_secs(seconds)).await;
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
        self.request((method, path), "127.0.0.1:10001", headers, body.as_bytes()).await
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

/// What the tests ask of a reply of Azure.
pub trait AzureAnswer {
    /// The text of the first element of this name.
    fn element(&self, name: &str) -> String;

    /// The texts of all elements of this name, empty ones too.
    fn elements(&self, name: &str) -> Vec<String>;

    /// An error of this status and code, named in the header and in the body.
    fn is_error(&self, status: u16, code: &str);
}

impl AzureAnswer for Answer {
    fn element(&self, name: &str) -> String {
        self.elements(name).into_iter().next().unwrap_or_else(|| panic!("no {name} in {}", self.body))
    }

    fn elements(&self, name: &str) -> Vec<String> {
        let (open, empty) = (format!("<{name}>"), format!("<{name}/>"));
        let body = self.body.replace(&empty, &format!("<{name}></{name}>"));
        body.split(&open)
            .skip(1)
            .filter_map(|rest| rest.split_once(&format!("</{name}>")))
            .map(|(text, _)| text.to_owned())
            .collect()
    }

    #[track_caller]
    fn is_error(&self, status: u16, code: &str) {
        assert_eq!((self.status, self.header("x-ms-error-code")), (status, Some(code)), "{}", self.body);
        if !self.body.is_empty() {
            assert_eq!(self.element("Code"), code);
            assert_eq!(self.header("content-type"), Some("application/xml"));
        }
    }
}
