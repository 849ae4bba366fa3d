//! The SQS front-end: their words in, one command of ours; our outcome, their words out.
//!
//! It speaks AWS JSON 1.0. [`route`] tells which [`Action`] a request means; `decode` turns a body into a checked
//! request, `ops` holds one file per action, `encode` writes replies, [`error`] is where every refusal gets its SQS
//! name. An action that has no file yet is answered `UnknownOperation`, a parameter that has no effect yet is refused:
//! nothing is accepted and then ignored.

mod annotations;
mod auth;
mod decode;
mod encode;
pub mod error;
mod limits;
mod ops;
mod route;

use std::sync::Arc;

use kew_core::{AccountId, Queue};
use kew_engine::{Engine, QueueName};
use kew_http::{Handler, Reply, Request, RequestId};

pub use error::{Code, WireError};
pub use route::Action;

/// How the front-end is set up.
#[derive(Clone)]
pub struct Settings {
    /// Whose queues these are, whatever account a request names.
    pub account: AccountId,
    /// The region of requests that carry none.
    pub region: Arc<str>,
    /// At most so many messages of a standard queue are in flight.
    pub standard_in_flight_limit: u32,
    /// The same for FIFO queues.
    pub fifo_in_flight_limit: u32,
    /// Who is told the cause of a failure that is ours; called in passing, so it must not block.
    pub failures: Arc<Failures>,
}

/// Hears of failures that are ours: which request, and why.
pub type Failures = dyn Fn(RequestId, &str) + Send + Sync;

impl Default for Settings {
    fn default() -> Self {
        Self {
            account: AccountId(0),
            region: "us-east-1".into(),
            standard_in_flight_limit: 120_000,
            fifo_in_flight_limit: 20_000,
            failures: Arc::new(|_, _| {}),
        }
    }
}

/// The front-end over an engine.
pub struct Sqs {
    engine: Arc<Engine>,
    settings: Settings,
}

impl Sqs {
    /// A front-end over `engine`.
    pub fn new(engine: Arc<Engine>, settings: Settings) -> Self {
        Self { engine, settings }
    }

    /// The table of operations.
    async fn perform(&self, request: &Request) -> Result<Reply, WireError> {
        let action = route::action(request)?;
        let region = auth::region(request).unwrap_or(&self.settings.region);
        let cx = Context { engine: &self.engine, settings: &self.settings, region, request };
        match action {
            Action::CreateQueue => ops::create_queue(&cx).await,
            Action::GetQueueUrl => ops::get_queue_url(&cx),
            Action::SendMessage => ops::send_message(&cx).await,
            Action::ReceiveMessage => ops::receive_message(&cx).await,
            Action::DeleteMessage => ops::delete_message(&cx).await,
        }
    }
}

impl Handler for Sqs {
    async fn answer(&self, request: Request) -> Reply {
        match self.perform(&request).await {
            Ok(reply) => encode::named(reply, &request),
            Err(error) => {
                if let Some(cause) = error.cause() {
                    (self.settings.failures)(request.id, cause);
                }
                encode::error(&error, &request)
            }
        }
    }
}

/// What an operation works with.
struct Context<'a> {
    engine: &'a Engine,
    settings: &'a Settings,
    region: &'a str,
    request: &'a Request,
}

impl Context<'_> {
    /// The queue of this name, as it is now.
    fn queue_named(&self, name: &str) -> Result<Arc<Queue>, WireError> {
        let name = QueueName { account: self.settings.account, region: self.region, name };
        self.engine.queue(name).ok_or_else(|| Code::QueueDoesNotExist.into())
    }

    /// The queue a request means: by its own words, else by the path it was sent to.
    fn queue(&self, url: Option<&str>) -> Result<Arc<Queue>, WireError> {
        let url = url.filter(|url| !url.is_empty()).or_else(|| route::queue_path(self.request));
        let url = url.ok_or_else(|| WireError::missing("QueueUrl"))?;
        self.queue_named(decode::queue_url::name(url)?)
    }
}
