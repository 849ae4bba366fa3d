//! A front-end on a socket whose answer depends on the path of the request.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use kew_http::{
    Guard, Handler, HeaderValue, Limits, Refusal, Reply, Request, Shared, Standing, StatusCode, Tls,
};
pub use kew_testing::{Answer, TestClient};
use kew_testing::{CountingEntropy, FixedClock, TestServer};
use tokio::sync::{Notify, mpsc};

const PLAIN: HeaderValue = HeaderValue::from_static("text/plain");

/// A bound that no test waits for.
pub const LONG: Duration = Duration::from_secs(600);
/// A bound that tests wait for.
pub const SHORT: Duration = Duration::from_millis(200);

/// When a test gives up.
const PATIENCE: Duration = Duration::from_secs(30);

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
                // The test may have ended already.
                let _sent = self.events.send(Event::Waits);
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
        let _sent = self.events.send(if self.has_answered { Event::Answered } else { Event::Dropped });
    }
}

/// The front-end on a socket.
pub struct ScriptedServer {
    server: TestServer,
    /// Lets requests to `/wait` go on.
    pub release: Arc<Notify>,
    events: mpsc::UnboundedReceiver<Event>,
}

impl Deref for ScriptedServer {
    type Target = TestServer;

    fn deref(&self) -> &TestServer {
        &self.server
    }
}

impl ScriptedServer {
    pub async fn open(limits: Limits) -> Self {
        Self::with(limits, None).await
    }

    pub async fn with(limits: Limits, tls: Option<Tls>) -> Self {
        let (sender, events) = mpsc::unbounded_channel();
        let release = Arc::new(Notify::new());
        let script = Script { events: sender, release: Arc::clone(&release) };
        let shared = Shared::new(Arc::new(FixedClock), Arc::new(CountingEntropy::default()), limits);
        let server = match tls {
            None => TestServer::start(script, Guard::open(), shared).await,
            Some(tls) => TestServer::start_tls(script, Guard::open(), shared, tls).await,
        };
        Self { server, release, events }
    }

    /// What happens next in the front-end.
    pub async fn event(&mut self) -> Event {
        let event = tokio::time::timeout(PATIENCE, self.events.recv()).await;
        event
            .expect("the event happens within the patience")
            .expect("the front-end lives as long as its server")
    }

    /// Whether no event is left that the test has not asked for.
    pub fn is_quiet(&mut self) -> bool {
        self.events.try_recv().is_err()
    }

    /// Returns when no connection is left.
    pub async fn is_left(&self) {
        let leaving = async {
            while self.shared.drain.places() > 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, leaving).await.expect("all connections end within the patience");
    }
}
