//! The SQS front-end: a request becomes one command, its outcome becomes a reply.
//!
//! It speaks AWS JSON 1.0 and AWS Query. `route` tells which protocol and which [`Action`] a request means, `auth` who
//! asks, `decode` turns a body of either protocol into the same checked request, `ops` holds one file per action,
//! `encode` writes one description of a result in either protocol, [`error`] is where every refusal gets its SQS name.

mod action;
mod attributes;
mod auth;
mod batch;
mod cors;
mod decode;
mod documents;
mod encode;
pub mod error;
mod limits;
mod listing;
mod look;
mod message;
mod names;
mod ops;
mod policy;
mod receipts;
mod route;
mod sts;
mod subject;
mod tags;
mod tasks;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use kew_core::{AccountId, Queue};
use kew_engine::{Engine, QueueName};
use kew_http::{Guard, Handler, Refusal, Reply, Request, RequestId, Standing, Subject};
use serde::Deserialize;

use auth::{Caller, Service};
use encode::Shape;
use names::Address;
use policy::Policies;
use route::{Call, Protocol};

pub use action::Action;
pub use auth::{AccessKey, Auth, KeyError, Keys};
pub use error::{Code, WireError};
pub use look::is_look;
pub use message::plain::{PlainAttribute, annotate, attributes, trace_of};

/// How the front-end is set up.
#[derive(Clone)]
pub struct Settings {
    /// Who may ask.
    pub auth: Auth,
    /// Whose queues these are in open mode, whatever account a request names.
    pub account: AccountId,
    /// The region of requests that carry none.
    pub region: Arc<str>,
    /// The sender that messages of unsigned requests show.
    pub sender: Arc<str>,
    /// The beginning of queue URLs, when it is not the host a client asked.
    pub external_url: Option<Arc<str>>,
    /// How queue URLs are built otherwise.
    pub url_style: UrlStyle,
    /// Origins of web apps that may ask; `*` is every page.
    pub cors_origins: Arc<[String]>,
    /// How long a deleted queue's name is held; zero is not at all.
    pub name_hold: Duration,
    /// How long a queue is not purged again; zero is not at all.
    pub purge_interval: Duration,
    /// Maximum messages in flight of a standard queue.
    pub standard_in_flight_limit: u32,
    /// The same for FIFO queues.
    pub fifo_in_flight_limit: u32,
    /// Reports the causes of internal errors. Runs on the request path, must not block.
    pub failures: Arc<Failures>,
}

/// How a queue's URL is built.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum UrlStyle {
    /// `http://<host>/<account>/<name>`.
    #[default]
    Path,
    /// `http://sqs.<region>.<host>/<account>/<name>`.
    Standard,
}

impl UrlStyle {
    /// Who may reach a front-end whose URLs look like this: also clients that use the host of such a URL.
    pub fn guard(self, guard: Guard) -> Guard {
        match self {
            Self::Path => guard,
            Self::Standard => guard.with_hosts_within(names::host_within),
        }
    }
}

/// Hears of failures that are ours: which request, and why.
pub type Failures = dyn Fn(RequestId, &str) + Send + Sync;

impl Default for Settings {
    fn default() -> Self {
        Self {
            auth: Auth::Open,
            account: AccountId(0),
            region: "us-east-1".into(),
            sender: "000000000000".into(),
            external_url: None,
            url_style: UrlStyle::Path,
            cors_origins: Arc::default(),
            name_hold: Duration::from_secs(60),
            purge_interval: Duration::from_secs(60),
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
    policies: Arc<Policies>,
}

impl Sqs {
    /// A front-end over `engine`.
    pub fn new(engine: Arc<Engine>, settings: Settings) -> Self {
        Self { engine, settings, policies: Arc::default() }
    }

    /// The same front-end for an address where pages of listed origins may not ask: there replies name no origin.
    pub fn without_pages(&self) -> Self {
        let settings = Settings { cors_origins: Arc::default(), ..self.settings.clone() };
        Self { engine: Arc::clone(&self.engine), settings, policies: Arc::clone(&self.policies) }
    }

    /// Who asks for what.
    fn context<'a>(&'a self, protocol: Protocol, request: &'a Request) -> Result<Context<'a>, WireError> {
        let caller = auth::caller(&self.settings, Service::Sqs, request)?;
        let call = route::call(protocol, request)?;
        let Self { engine, settings, policies } = self;
        Ok(Context { engine, settings, policies, caller, request, protocol, call })
    }

    /// The reply to what an operation came to.
    fn reply(&self, protocol: Protocol, request: &Request, result: Result<Reply, WireError>) -> Reply {
        match result {
            Ok(reply) => encode::named(reply, request),
            Err(error) => {
                if let Some(cause) = error.cause() {
                    (self.settings.failures)(request.id, cause);
                }
                encode::error(&error, protocol, request)
            }
        }
    }
}

impl Handler for Sqs {
    async fn answer(&self, request: &Request) -> Reply {
        if let Some(reply) = cors::preflight(&self.settings, request) {
            return reply;
        }
        let protocol = Protocol::of(request);
        if let Some(reply) = sts::answer(&self.settings, protocol, request) {
            return cors::shown(&self.settings, request, reply);
        }
        let mut operation = None;
        let result = match self.context(protocol, request) {
            Ok(cx) => {
                operation = Some(cx.call.action.name());
                match cx.perform().await {
                    Err(error) if error.is_unknown() => cx.perform_when_known(error).await,
                    Err(error) if error.code() == Code::Serialization => cx.perform_whole(error).await,
                    done => done,
                }
            }
            Err(error) => Err(error),
        };
        let reply = Reply { operation, ..self.reply(protocol, request, result) };
        cors::shown(&self.settings, request, reply)
    }

    async fn standing(&self, request: &Request) -> Standing {
        auth::standing(&self.settings, request).unwrap_or_else(|error| {
            let reply = encode::error(&error, Protocol::of(request), request);
            Standing::Refused(Box::new(cors::shown(&self.settings, request, reply)))
        })
    }

    fn refuse(&self, refusal: &Refusal, request: &Request) -> Reply {
        let protocol = Protocol::of(request);
        let error = match refusal {
            Refusal::BodyTooLarge { .. } if route::is_batch_of_sends(request) => limits::batch_too_long(),
            other => other.into(),
        };
        let mut reply = encode::error(&error, protocol, request);
        if error.code() != Code::BatchRequestTooLong {
            reply.status = refusal.status();
        }
        cors::shown(&self.settings, request, reply)
    }

    fn subject(&self, request: &Request, reply: Option<&Reply>) -> Subject {
        subject::of(request, reply)
    }
}

/// What an operation works with.
struct Context<'a> {
    engine: &'a Engine,
    settings: &'a Settings,
    policies: &'a Policies,
    caller: Caller,
    request: &'a Request,
    protocol: Protocol,
    call: Call,
}

/// A step that is under way.
type Performing<'a> = Pin<Box<dyn Future<Output = Result<Reply, WireError>> + Send + 'a>>;

impl<'a> Context<'a> {
    /// Once more, when other nodes have said what they keep; the error if that takes too long. In a box that hides its
    /// type, or each program would hold the operations twice.
    fn perform_when_known(&self, error: WireError) -> Performing<'_> {
        Box::pin(async move {
            if self.engine.until_all_known().await { self.perform().await } else { Err(error) }
        })
    }

    /// Once more, with what stands for halves of surrogate pairs; the error where the body has none. A body is read
    /// before anything is done.
    fn perform_whole(self, error: WireError) -> Performing<'a> {
        Box::pin(async move {
            let Some(body) = decode::without_halves(&self.call.body) else { return Err(error) };
            let cx = Context { call: Call { body, ..self.call }, ..self };
            match cx.perform().await {
                Err(error) if error.is_unknown() => cx.perform_when_known(error).await,
                done => done,
            }
        })
    }

    /// The table of operations.
    async fn perform(&self) -> Result<Reply, WireError> {
        if self.call.action.shows_settings() {
            self.request.room.free_for_small().await?;
        }
        match self.call.action {
            Action::SendMessage => ops::send_message(self).await,
            Action::ReceiveMessage => ops::receive_message(self).await,
            Action::DeleteMessage => ops::delete_message(self).await,
            Action::SendMessageBatch => ops::send_message_batch(self).await,
            Action::DeleteMessageBatch => ops::delete_message_batch(self).await,
            Action::ChangeMessageVisibility => ops::change_message_visibility(self).await,
            Action::ChangeMessageVisibilityBatch => ops::change_message_visibility_batch(self).await,
            Action::CreateQueue => ops::create_queue(self).await,
            Action::GetQueueUrl => ops::get_queue_url(self),
            Action::ListQueues => ops::list_queues(self),
            Action::GetQueueAttributes => ops::queue_attributes(self).await,
            Action::SetQueueAttributes => ops::set_queue_attributes(self).await,
            Action::DeleteQueue => ops::delete_queue(self).await,
            Action::PurgeQueue => ops::purge_queue(self).await,
            Action::ListQueueTags => ops::list_queue_tags(self),
            Action::TagQueue => ops::tag_queue(self).await,
            Action::UntagQueue => ops::untag_queue(self).await,
            Action::ListDeadLetterSourceQueues => ops::list_dead_letter_source_queues(self),
            Action::StartMessageMoveTask => ops::start_message_move_task(self).await,
            Action::ListMessageMoveTasks => ops::list_message_move_tasks(self).await,
            Action::CancelMessageMoveTask => ops::cancel_message_move_task(self).await,
            Action::AddPermission => ops::add_permission(self).await,
            Action::RemovePermission => ops::remove_permission(self).await,
        }
    }

    /// The request's members.
    fn read<'b, T: Deserialize<'b>>(&'b self) -> Result<T, WireError> {
        decode::read(&self.call.body)
    }

    /// The queue a request means: by its own words, else by the path it was sent to.
    fn queue(&self, url: Option<&str>) -> Result<Arc<Queue>, WireError> {
        let url = url.filter(|url| !url.is_empty()).or_else(|| route::queue_path(self.request));
        let url = url.ok_or_else(|| WireError::missing("QueueUrl"))?;
        self.queue_at(Address::read(url))
    }

    /// The queue at an address, if the caller may do there what is asked. In open mode every account means the
    /// caller's.
    fn queue_at(&self, address: Address<'_>) -> Result<Arc<Queue>, WireError> {
        let account = match self.settings.auth {
            Auth::Open => self.caller.account,
            Auth::Strict(_) => address.account.unwrap_or(self.caller.account),
        };
        let region = address.region.unwrap_or(&self.caller.region);
        if *region != *self.caller.region {
            return Err(Code::QueueDoesNotExist.into());
        }
        let name = QueueName { account, region, name: address.name };
        let queue = self.engine.find(name)?.ok_or(Code::QueueDoesNotExist)?;
        self.authorize(&queue)?;
        Ok(queue)
    }

    /// Refuses what neither the queue's owner nor its policy lets the caller do. Open mode refuses no caller.
    fn authorize(&self, queue: &Queue) -> Result<(), WireError> {
        self.authorize_for(self.call.action, queue)
    }

    /// The same for another action, which is part of what is asked.
    fn authorize_for(&self, action: Action, queue: &Queue) -> Result<(), WireError> {
        let Some(principal) = &self.caller.principal else { return Ok(()) };
        self.policies.allow(principal, self.request, (action, queue), self.engine.now())
    }

    /// The reply that carries a result.
    fn result(&self, shape: &impl Shape) -> Reply {
        encode::result(&self.call, self.protocol, self.request, shape)
    }

    /// The reply of an action that has none.
    fn done(&self) -> Reply {
        encode::done(&self.call, self.protocol, self.request)
    }
}
