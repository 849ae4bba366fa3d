//! The Cloudflare Queues front-end: their words in, one command of ours; our outcome, their words out.
//!
//! [`route`] tells which [`Operation`] a path means, `auth` who asks and what they may, `decode` turns bodies into
//! checked requests, `ops` holds one file per operation, `encode` what replies look like, [`error`] is where every
//! refusal gets its number. `binding` is the other door: the protocol in which a Worker's producer binding speaks.
//! `scripts` is the vendor's API for Workers: what uploads code. `visits` leads from a Worker's own address to its
//! `fetch` handler.

mod auth;
mod binding;
mod consumers;
mod decode;
mod documents;
mod encode;
pub mod error;
mod limits;
mod notes;
mod ops;
mod producers;
mod receipt;
pub mod route;
mod scripts;
mod subject;
mod visits;

use std::ops::ControlFlow;
use std::sync::Arc;

use bytes::Bytes;
use kew_core::command::UpdateQueue;
use kew_core::{AccountId, DocumentKey, Policy, Queue, QueueId, QueueKey, RuleError, Timestamp};
use kew_engine::{Engine, EngineError, QueueName};
use kew_http::{Handler, Refusal, Reply, Request, RequestId, Standing, Subject};

use auth::Caller;
use consumers::Consumers;
use producers::Producers;
use route::Route;

pub use auth::{Account, Permissions, Token, Trust};
pub use error::{Code, WireError};
pub use route::Operation;
pub use scripts::{Scripts, is_meant as is_about_workers, refused_here};
pub use visits::is_workers_host;

/// Changes of one queue that may cross before a request about it gives up.
const CROSSINGS_MAX: u32 = 16;

/// How the front-end is set up.
#[derive(Clone)]
pub struct Settings {
    /// The accounts there are, in strict mode.
    pub accounts: Vec<Account>,
    /// The region whose queues are shown.
    pub region: Arc<str>,
    /// Who is believed.
    pub trust: Trust,
    /// What the Workers that this server runs show when they publish.
    pub inner_token: Option<Arc<str>>,
    /// What runs Workers, if anything does.
    pub scripts: Scripts,
    /// Maximum messages in flight of a queue.
    pub in_flight_max: u32,
    /// Reports the causes of internal errors. Runs on the request path, must not block.
    pub failures: Arc<Failures>,
}

/// Hears of failures that are ours: which request, and why.
pub type Failures = dyn Fn(RequestId, &str) + Send + Sync;

impl Settings {
    /// An open front-end, over the queues of this region.
    pub fn open(region: Arc<str>) -> Self {
        Self {
            accounts: Vec::new(),
            region,
            trust: Trust::Open,
            inner_token: None,
            scripts: Scripts::default(),
            in_flight_max: 120_000,
            failures: Arc::new(|_, _| {}),
        }
    }
}

/// The front-end over an engine.
pub struct Cloudflare {
    engine: Arc<Engine>,
    settings: Settings,
    consumers: Consumers,
}

impl Cloudflare {
    /// A front-end over `engine`.
    pub fn new(engine: Arc<Engine>, settings: Settings) -> Self {
        Self { engine, settings, consumers: Consumers::default() }
    }

    async fn perform(&self, request: &Request) -> Reply {
        let route = match Route::of(&request.method, request.uri.path()) {
            Ok(route) => route,
            Err(error) => return self.failed(&error, request),
        };
        let answer = match auth::check(&self.settings, &route, request) {
            Ok(caller) => {
                let cx = Context {
                    engine: &self.engine,
                    settings: &self.settings,
                    consumers: &self.consumers,
                    caller,
                    route: &route,
                    request,
                };
                match ops::perform(&cx).await {
                    // Once more, when other nodes have said what they keep.
                    Err(error) if error.is_unknown() && self.engine.until_all_known().await => {
                        ops::perform_again(&cx).await
                    }
                    done => done,
                }
            }
            Err(error) => Err(error),
        };
        let reply = answer.unwrap_or_else(|error| self.failed_at(&route, error, request));
        reply.to(route.operation.name())
    }

    /// The reply to a request whose head says that it will not be done, whatever its body is.
    fn refused(&self, request: &Request) -> Option<Reply> {
        match Route::of(&request.method, request.uri.path()) {
            Ok(route) => {
                let error = auth::check(&self.settings, &route, request).err()?;
                Some(self.failed_at(&route, error, request).to(route.operation.name()))
            }
            Err(error) => Some(self.failed(&error, request)),
        }
    }

    fn failed_at(&self, route: &Route<'_>, error: WireError, request: &Request) -> Reply {
        let error = if route.operation.is_about_messages() { error.about_messages() } else { error };
        self.failed(&error, request)
    }

    fn failed(&self, error: &WireError, request: &Request) -> Reply {
        self.tell(error, request);
        encode::error(error)
    }

    /// Somebody should know of a failure that is ours.
    fn tell(&self, error: &WireError, request: &Request) {
        if let Some(cause) = error.cause() {
            (self.settings.failures)(request.id, cause);
        }
    }
}

impl Handler for Cloudflare {
    async fn answer(&self, request: &Request) -> Reply {
        if !route::is_rest(request.uri.path()) && binding::is_meant(request) {
            return binding::answer(self, request).await;
        }
        if scripts::is_meant(request.uri.path()) {
            return scripts::answer(self, request).await;
        }
        self.perform(request).await
    }

    async fn standing(&self, request: &Request) -> Standing {
        if self.settings.trust == Trust::Open {
            return Standing::Known;
        }
        let refused = if !route::is_rest(request.uri.path()) && binding::is_meant(request) {
            let checked = auth::check_binding(&self.settings, request);
            checked.err().map(|error| binding::failed(self, error, request))
        } else if scripts::is_meant(request.uri.path()) {
            scripts::refused(self, request)
        } else {
            self.refused(request)
        };
        refused.map_or(Standing::Known, |reply| Standing::Refused(Box::new(reply)))
    }

    fn refuse(&self, refusal: &Refusal, request: &Request) -> Reply {
        let error = WireError::from(refusal);
        if binding::is_meant(request) { binding::error(&error) } else { encode::error(&error) }
    }

    fn subject(&self, request: &Request, reply: Option<&Reply>) -> Subject {
        subject::of(self, request, reply)
    }
}

/// What is changed of a queue; nothing of it is a change too.
#[derive(Default)]
struct QueueChange {
    policy: Option<Policy>,
    documents: Vec<(DocumentKey, Option<Bytes>)>,
    rename: Option<QueueKey>,
}

/// What an operation works with.
struct Context<'a> {
    engine: &'a Engine,
    settings: &'a Settings,
    consumers: &'a Consumers,
    caller: Caller<'a>,
    route: &'a Route<'a>,
    request: &'a Request,
}

impl Context<'_> {
    /// The instant the request arrived: everything it asks for happens then.
    fn now(&self) -> Timestamp {
        self.request.received_at
    }

    /// The queue that the path names.
    fn queue(&self) -> Result<Arc<Queue>, WireError> {
        let id = self.route.queue_id()?.ok_or(Code::QueueNotFound)?;
        let queue = self.engine.find_by_id(id)?.filter(|queue| self.is_shown(queue));
        queue.ok_or_else(|| Code::QueueNotFound.into())
    }

    /// The queue of this name.
    fn queue_named(&self, name: &str) -> Option<Arc<Queue>> {
        find_queue(self.engine, self.settings, self.caller.account, name)
    }

    /// Learns what other nodes have changed of Workers, where this server runs any.
    async fn follow_workers(&self) -> Result<(), WireError> {
        match self.settings.scripts.workers.get() {
            Some(workers) => Ok(workers.follow(self.caller.account).await?),
            None => Ok(()),
        }
    }

    /// The Workers that publish to the caller's queues.
    fn producers(&self) -> Producers {
        Producers::of(self.settings, self.caller.account)
    }

    /// Shows the caller's queues to `look`, sorted by name, until it breaks off.
    fn look_through(&self, mut look: impl FnMut(&Arc<Queue>) -> ControlFlow<()>) {
        self.engine.look_through(self.caller.account, &self.settings.region, |queue| {
            if limits::is_queue_name(&queue.key.name) { look(queue) } else { ControlFlow::Continue(()) }
        });
    }

    /// Whether a queue is one of the caller's, here.
    fn is_shown(&self, queue: &Queue) -> bool {
        let key = &queue.key;
        key.account == self.caller.account
            && key.region == self.settings.region
            && limits::is_queue_name(&key.name)
    }

    /// Changes a queue by what it is now; asked again when somebody else changed it in between.
    async fn update(
        &self,
        id: QueueId,
        change: impl Fn(&Queue) -> Result<QueueChange, WireError>,
    ) -> Result<Arc<Queue>, WireError> {
        let mut crossed = 0;
        loop {
            let queue = self.engine.find_by_id(id)?.ok_or(Code::QueueNotFound)?;
            let QueueChange { policy, documents, rename } = change(&queue)?;
            let if_version = Some(queue.version);
            let update = UpdateQueue { queue: id, if_version, policy, documents, rename };
            match self.engine.update_queue(update).await {
                Err(EngineError::Rule(RuleError::VersionChanged)) if crossed < CROSSINGS_MAX => crossed += 1,
                answer => return Ok(answer?),
            }
        }
    }
}

/// The queue of this name, if it is one here.
fn find_queue(engine: &Engine, settings: &Settings, account: AccountId, name: &str) -> Option<Arc<Queue>> {
    if !limits::is_queue_name(name) {
        return None;
    }
    engine.queue(QueueName { account, region: &settings.region, name })
}
