//! The Azure Queue Storage front-end: their words in, one command of ours; our outcome, their words out.
//!
//! `target` tells whom a URL means, [`operation`] what is asked, `auth` who asks and what they may, `ops` holds the
//! operations, `encode` what every reply has in common, [`error`] is where every refusal gets its Azure name. Checks
//! come in the service's order: version, URL, operation, authentication, authorization, parameters, body, existence.
//! [`client`] is the other side: what a client of any such service says.

mod auth;
pub mod client;
mod cors;
mod documents;
mod encode;
pub mod error;
mod leaving;
mod limits;
pub mod operation;
mod ops;
mod params;
mod receipt;
mod sign;
mod subject;
mod target;
mod version;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use kew_core::{AccountId, Clock, Entropy, Queue, QueueKey, Timestamp};
use kew_engine::{Engine, QueueName};
use kew_http::{Guard, Handler, Refusal, Reply, Request, RequestId, Standing, Subject};

use leaving::Leaving;
use operation::Operation;
use params::Params;
use target::{Place, Target};

pub use auth::{Bearer, DelegationKeys, KeySet, KeySetError, Verifier};
pub use error::{Code, WireError};

/// An account, as Azure clients know it.
#[derive(Clone, Debug)]
pub struct Account {
    /// Its name in URLs and signatures.
    pub name: Arc<str>,
    /// Its number everywhere.
    pub id: AccountId,
    /// Its keys, decoded; any of them signs.
    pub keys: Vec<Vec<u8>>,
}

/// Who is believed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trust {
    /// Everybody.
    Open,
    /// Clients that sign with a key of the account.
    Strict,
}

/// How the front-end is set up.
#[derive(Clone)]
pub struct Settings {
    /// The accounts there are.
    pub accounts: Vec<Account>,
    /// The region whose queues are shown.
    pub region: Arc<str>,
    /// Who is believed.
    pub trust: Trust,
    /// What bearer tokens are worth, in strict mode.
    pub bearer: Bearer,
    /// The keys that holders of tokens are issued; the same for all front-ends over a store.
    pub delegation: Arc<DelegationKeys>,
    /// Whether dotted host names begin with the account.
    pub host_style: bool,
    /// The parents of hosts that begin with an account, in open mode: `<account>.<parent>`, `<account>.queue.<parent>`.
    pub host_parents: Arc<[String]>,
    /// How far a request's own date may be from the machine's.
    pub skew: Duration,
    /// The machine's time, which clients date their requests by.
    pub machine: Arc<dyn Clock>,
    /// Maximum messages in flight of a queue.
    pub in_flight_max: u32,
    /// How long a deleted queue stays in the way of a new one of its name.
    pub queue_deletion_delay: Duration,
    /// Reports the causes of internal errors. Runs on the request path, must not block.
    pub failures: Arc<Failures>,
}

/// Hears of failures that are ours: which request, and why.
pub type Failures = dyn Fn(RequestId, &str) + Send + Sync;

impl Settings {
    /// An open front-end with these accounts.
    pub fn open(
        accounts: Vec<Account>,
        region: Arc<str>,
        machine: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
    ) -> Self {
        Self {
            accounts,
            region,
            trust: Trust::Open,
            bearer: Bearer::Off,
            delegation: Arc::new(DelegationKeys::new(entropy)),
            host_style: true,
            host_parents: Arc::default(),
            skew: Duration::from_secs(15 * 60),
            machine,
            in_flight_max: 120_000,
            queue_deletion_delay: Duration::ZERO,
            failures: Arc::new(|_, _| {}),
        }
    }

    fn account(&self, name: &str) -> Option<&Account> {
        self.accounts.iter().find(|account| *account.name == *name)
    }

    /// Who may reach the front-end: also who asks by an account's host, and web pages as its CORS rules say.
    pub fn guard(&self, guard: Guard) -> Guard {
        self.hosts(guard).with_pages_left_to_handler()
    }

    /// Who may reach an address that also serves this front-end: also who asks by an account's host. That is
    /// `<account>.queue.<host>` where `<host>` itself may be asked for, or a name below a parent that is listed.
    /// The owner of any other domain may have pointed such a name here for a web page of theirs.
    pub fn hosts(&self, guard: Guard) -> Guard {
        let names: Arc<[Arc<str>]> = self.accounts.iter().map(|account| Arc::clone(&account.name)).collect();
        let (accounts, parents) = (Arc::clone(&names), Arc::clone(&self.host_parents));
        guard
            .with_hosts_within(move |host| target::host_of_account(host, &names))
            .with_hosts_like(move |host| target::is_below_parent(host, &accounts, &parents))
    }
}

/// The front-end over an engine.
pub struct Azure {
    engine: Arc<Engine>,
    settings: Settings,
    leaving: Leaving,
}

impl Azure {
    /// A front-end over `engine`.
    pub fn new(engine: Arc<Engine>, settings: Settings) -> Self {
        let leaving = Leaving::new(settings.queue_deletion_delay);
        Self { engine, settings, leaving }
    }

    /// Once more, when other nodes have said what they keep; the error if that takes too long. In a box that hides its
    /// type, or each program would hold the operations twice.
    fn perform_when_known<'a>(
        &'a self,
        request: &'a Request,
        known: &'a mut Option<Operation>,
        error: WireError,
    ) -> Performing<'a> {
        Box::pin(async move {
            if self.engine.until_all_known().await { self.perform(request, known).await } else { Err(error) }
        })
    }

    /// Notes what is asked for, as soon as that is known.
    async fn perform(&self, request: &Request, known: &mut Option<Operation>) -> Result<Reply, WireError> {
        let asked = Asked::read(request, &self.settings)?;
        *known = Some(asked.operation);
        let cx = self.context(&asked, request)?;
        cx.admit().await?;
        ops::perform(&cx).await
    }

    /// What the head of a request proves of its sender; only operations for browsers ask for no proof.
    async fn judge(&self, request: &Request, known: &mut Option<Operation>) -> Result<Standing, WireError> {
        let asked = Asked::read(request, &self.settings)?;
        *known = Some(asked.operation);
        self.context(&asked, request)?.admit().await?;
        let is_proved = asked.operation != Operation::Preflight;
        Ok(if is_proved { Standing::Known } else { Standing::Unknown })
    }

    fn context<'a>(&'a self, asked: &'a Asked<'a>, request: &'a Request) -> Result<Context<'a>, WireError> {
        let account = self.settings.account(&asked.target.account).ok_or(Code::ResourceNotFound)?;
        Ok(Context {
            engine: &self.engine,
            settings: &self.settings,
            leaving: &self.leaving,
            account,
            target: &asked.target,
            params: &asked.params,
            operation: asked.operation,
            request,
        })
    }

    /// The reply to a request, dressed as all replies are.
    async fn finish(&self, request: &Request, result: Result<Reply, WireError>) -> Reply {
        let reply = result.unwrap_or_else(|error| {
            if let Some(cause) = error.cause() {
                (self.settings.failures)(request.id, cause);
            }
            encode::error(&error, request)
        });
        let reply = encode::with_common_headers(reply, request);
        match (cors::origin(request), self.account_of(request)) {
            (Some(origin), Some(account)) if request.method != kew_http::Method::OPTIONS => {
                cors::decorate(&self.engine, account, request, origin, reply).await
            }
            _ => reply,
        }
    }

    /// The account a request is for, as far as it is known.
    fn account_of(&self, request: &Request) -> Option<&Account> {
        let target = Target::read(request, self.settings.host_style).ok()?;
        self.settings.account(&target.account)
    }
}

/// A step that is under way.
type Performing<'a> = Pin<Box<dyn Future<Output = Result<Reply, WireError>> + Send + 'a>>;

impl Handler for Azure {
    async fn answer(&self, request: &Request) -> Reply {
        let mut known = None;
        let result = match self.perform(request, &mut known).await {
            Err(error) if error.is_unknown() => self.perform_when_known(request, &mut known, error).await,
            done => done,
        };
        Reply { operation: known.map(Operation::name), ..self.finish(request, result).await }
    }

    async fn standing(&self, request: &Request) -> Standing {
        if self.settings.trust == Trust::Open {
            return Standing::Known;
        }
        let mut known = None;
        match self.judge(request, &mut known).await {
            Ok(standing) => standing,
            Err(error) => {
                let reply = self.finish(request, Err(error)).await;
                Standing::Refused(Box::new(Reply { operation: known.map(Operation::name), ..reply }))
            }
        }
    }

    fn refuse(&self, refusal: &Refusal, request: &Request) -> Reply {
        let reply = encode::error(&WireError::from(refusal), request);
        encode::with_common_headers(reply, request)
    }

    fn subject(&self, request: &Request, reply: Option<&Reply>) -> Subject {
        subject::of(request, reply, &self.settings)
    }
}

/// What a request's head asks for.
struct Asked<'a> {
    target: Target<'a>,
    params: Params<'a>,
    operation: Operation,
}

impl<'a> Asked<'a> {
    fn read(request: &'a Request, settings: &Settings) -> Result<Self, WireError> {
        version::check(request)?;
        let target = Target::read(request, settings.host_style)?;
        let params = Params::read(request.uri.query().unwrap_or_default())?;
        let operation = Operation::of(&request.method, &target.place, &params)?;
        Ok(Self { target, params, operation })
    }
}

/// What an operation works with.
struct Context<'a> {
    engine: &'a Engine,
    settings: &'a Settings,
    leaving: &'a Leaving,
    account: &'a Account,
    target: &'a Target<'a>,
    params: &'a Params<'a>,
    operation: Operation,
    request: &'a Request,
}

impl Context<'_> {
    /// Refuses callers without the permission for this.
    async fn admit(&self) -> Result<(), WireError> {
        cors::admit(self).await?;
        if self.operation == Operation::Preflight {
            return Ok(());
        }
        auth::prepare(self).await?;
        auth::check(self)
    }

    /// The instant the request arrived: everything it asks for happens then.
    fn now(&self) -> Timestamp {
        self.request.received_at
    }

    /// The name of the queue that is asked about.
    fn queue_name(&self) -> Result<&str, WireError> {
        self.target.place.queue().ok_or_else(|| Code::InvalidUri.into())
    }

    /// Its full name.
    fn queue_key(&self) -> Result<QueueKey, WireError> {
        Ok(QueueKey::new(self.account.id, &self.settings.region, self.queue_name()?))
    }

    /// The queue itself.
    fn queue(&self) -> Result<Arc<Queue>, WireError> {
        self.queue_if_any()?.ok_or_else(|| Code::QueueNotFound.into())
    }

    /// The queue, if there is one; refused while one of its name is on its way out.
    fn queue_if_any(&self) -> Result<Option<Arc<Queue>>, WireError> {
        Ok(self.engine.find(self.free_name()?)?)
    }

    /// The same among the queues that this node has met. For CreateQueue, whose own step finds one that it has not met.
    fn queue_if_known(&self) -> Result<Option<Arc<Queue>>, WireError> {
        Ok(self.engine.queue(self.free_name()?))
    }

    /// The queue's name, unless one of it is on its way out.
    fn free_name(&self) -> Result<QueueName<'_>, WireError> {
        let name = self.queue_name()?;
        if self.leaving.holds(self.account.id, name, self.now()) {
            return Err(Code::QueueBeingDeleted.into());
        }
        Ok(QueueName { account: self.account.id, region: &self.settings.region, name })
    }

    /// The id of the message that is asked about.
    fn message_id(&self) -> &str {
        match &self.target.place {
            Place::Message(_, id) => id,
            Place::Service | Place::Queue(_) | Place::Messages(_) => "",
        }
    }
}
