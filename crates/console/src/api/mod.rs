//! The admin API below `/api/v1`: a request is routed and checked by the table, its sender is known before its body is
//! looked at, and every change is in the audit log.

mod acts;
mod backups;
mod browse;
mod changes;
mod declared;
mod delayed;
mod fields;
mod filter;
mod filtered;
mod groups;
mod json;
mod leases;
mod locate;
mod message_fields;
mod messages;
mod names;
mod once;
mod openapi;
mod path;
mod processing;
mod queue_fields;
mod queues;
mod redrives;
mod routes;
mod server_fields;
mod settings;
mod shards;
mod shows;
mod table;
mod timeline;
mod wanted;
mod work;

use std::sync::{Arc, OnceLock};

use kew_engine::Engine;
use kew_http::{HeaderName, HeaderValue, Reply, Request, StatusCode};
use parking_lot::Mutex;

use crate::access::{self, Caller};
use crate::board::{Phase, Running};
use crate::error::{ApiError, answer};
use crate::{Console, clock, pushes};
use acts::Act;
use changes::Client;
use fields::Members;
use table::{Needs, Op, Route};

pub(crate) use changes::{Changes, copy_of};
pub use declared::{QueueDeclaration, QueueHome, SettingChange, is_setting, is_shown_of_queues};
pub(crate) use fields::{Field, Kind};
pub(crate) use filtered::Filtered;
pub(crate) use names::Home;
pub use names::can_name_a_queue;
pub use once::MembersOnce;
pub(crate) use path::{BASE, Found, find};
pub(crate) use settings::SETTINGS;
pub(crate) use work::{Turns, Work};

const ALLOW: HeaderName = HeaderName::from_static("allow");
/// Requests larger than this hold a message; nothing else needs so much.
const SMALL_BODY_MAX: usize = 64 << 10;

/// A request on its way through an operation.
struct Context<'a> {
    console: &'a Console,
    request: &'a Request,
    caller: &'a Caller,
    /// What stands for the parts in braces of the path.
    parts: Vec<String>,
    query: Members,
    body: Members,
    /// What the audit log names, where the path does not.
    target: OnceLock<String>,
    /// The client of a change, which goes on when that has gone.
    client: Mutex<Option<Client>>,
}

impl Console {
    /// Answers a request below the base of the API.
    pub(crate) async fn answer_api(&self, request: &Request, path: &str) -> Reply {
        if let Err(error) = access::admit(request, &self.settings) {
            return error.reply();
        }
        let caller = access::identify(request, &self.settings, &self.login);
        let found = match find(&request.method, path) {
            Ok(Found::Route(route, parts)) => (route, parts),
            // What there is, is shown to those who are known.
            other => {
                return match (caller, other) {
                    (Err(error), _) => self.challenge(request, &error),
                    (Ok(_), Err(error)) => error.reply(),
                    (Ok(_), Ok(Found::OtherMethods(methods))) => other_methods(request, &methods),
                    (Ok(_), Ok(_)) => nothing_at(request).reply(),
                };
            }
        };
        let (route, parts) = found;
        let caller = match (route.needs, caller) {
            (Needs::Nothing, Err(_)) => Caller::unknown(),
            (_, Err(error)) => return self.challenge(request, &error),
            (_, Ok(caller)) => caller,
        };
        let ended = if route.is_change() && !clock::is_follower(route.op == Op::MoveClock, &request.body) {
            let (console, request) = (self.clone(), copy_of(request));
            let change =
                |client| async move { console.change(&request, route, &caller, parts, client).await };
            self.changes.run(change).await.and_then(|ended| ended)
        } else {
            self.checked(request, route, (&caller, None), parts, &OnceLock::new()).await
        };
        ended.unwrap_or_else(|error| access::challenge(&error))
    }

    /// Makes a change and notes how it ended.
    async fn change(
        &self,
        request: &Request,
        route: &'static Route,
        caller: &Caller,
        parts: Vec<String>,
        client: Client,
    ) -> Result<Reply, ApiError> {
        let target = OnceLock::new();
        let ended = self.checked(request, route, (caller, Some(client)), parts, &target).await;
        let action = if route.op == Op::Redrive { redrives::action(&request.body) } else { route.name };
        let (at, who) = (self.now(), caller.name.as_str());
        match (&ended, target.get().map(String::as_str)) {
            // Not even a password was checked.
            (Err(_), None) if route.needs == Needs::Nothing => {}
            (Err(error), Some(user)) if caller.is_unknown() => {
                self.audit.note_unproved(at, who, action, user, error.code());
            }
            (Err(error), target) => {
                self.audit.note(at, who, action, target.unwrap_or_default(), error.code());
            }
            // It changed nothing, and pages ask for one before each redrive.
            (Ok(_), _) if action == redrives::DRY_RUN => {}
            // A request that signs in has proved by that who sent it.
            (Ok(_), Some(user)) if caller.is_unknown() => self.audit.note(at, user, action, user, "ok"),
            (Ok(_), target) => self.audit.note(at, who, action, target.unwrap_or_default(), "ok"),
        }
        ended
    }

    /// Checks what a request may do and holds, and does it.
    async fn checked(
        &self,
        request: &Request,
        route: &'static Route,
        (caller, client): (&Caller, Option<Client>),
        parts: Vec<String>,
        target: &OnceLock<String>,
    ) -> Result<Reply, ApiError> {
        if !parts.is_empty() {
            target.get_or_init(|| parts.join("/"));
        }
        if route.is_change() {
            match route.needs {
                Needs::Nothing => {}
                Needs::Known => access::check_csrf(request, caller)?,
                Needs::Operator => access::check_change(request, caller)?,
            }
            access::check_json(request)?;
            if request.body.len() > SMALL_BODY_MAX && route.op != Op::SendMessage {
                let message = format!("the body may have at most {SMALL_BODY_MAX} bytes");
                return Err(ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message));
            }
        }
        let query = Members::of_query(request.uri.query().unwrap_or_default(), route.query)?;
        let is_read_here = route.is_change() && !matches!(route.op, Op::MoveClock | Op::ConfirmClock);
        let body =
            if is_read_here { Members::of_body(&request.body, route.body)? } else { Members::default() };
        let (target_of, client) = (target.clone(), Mutex::new(client));
        let cx = Context { console: self, request, caller, parts, query, body, target: target_of, client };
        let ended = cx.perform(route.op).await;
        // Only now: what was known when it began may be old when it leaves.
        let ended = if route.op.tells_of_store() { self.while_owned(ended) } else { ended };
        if let Some(named) = cx.target.get() {
            target.get_or_init(|| named.clone());
        }
        ended
    }

    /// Where queues are that are named without an account and a region.
    fn home(&self) -> Home<'_> {
        Home { account: self.settings.account, region: &self.settings.region }
    }

    /// A reply about the store, if this node may answer for it.
    fn while_owned(&self, ended: Result<Reply, ApiError>) -> Result<Reply, ApiError> {
        match self.board.phase() {
            Phase::Serving(running) if !running.engine.may_answer() => Err(ApiError::unavailable(
                "this node may not answer for its store just now: whether a change was made is not known",
            )
            .retry_after(1)),
            _ => ended,
        }
    }

    /// Engine time, or the system's while there is no engine.
    pub(crate) fn now(&self) -> kew_core::Timestamp {
        match self.board.phase() {
            Phase::Serving(running) => running.engine.now(),
            _ => self.settings.time.system(),
        }
    }
}

impl Context<'_> {
    async fn perform(&self, op: Op) -> Result<Reply, ApiError> {
        let is_large = matches!(op, Op::ListMessages | Op::ShowQueueMessage | Op::ShowMessage);
        // Before anything is done: nothing is, for a reply that cannot be kept.
        if is_large {
            self.request.room.free().await?;
        } else if !matches!(op, Op::BeginSession | Op::ShowSession | Op::EndSession) {
            self.request.room.free_for_small().await?;
        }
        let _turn = if is_large { Some(self.console.work.large.next().await?) } else { None };
        self.run(op).await
    }

    /// The function of each operation.
    async fn run(&self, op: Op) -> Result<Reply, ApiError> {
        let text = |refused: Reply| ApiError::of_text(&refused);
        let (console, request) = (self.console, self.request);
        match op {
            Op::ListQueues => queues::list(self).await,
            Op::CreateQueue => queues::create(self).await,
            Op::ShowQueue => queues::show(self).await,
            Op::ChangeQueue => queues::change(self).await,
            Op::DeleteQueue => queues::delete(self).await,
            Op::PurgeQueue => queues::purge(self).await,
            Op::ListMessages => browse::list(self).await,
            Op::ShowQueueMessage => timeline::show_in_queue(self).await,
            Op::ShowMessage => timeline::show_anywhere(self).await,
            Op::DeleteMessage => acts::act(self, Act::Delete).await,
            Op::ReleaseMessage => acts::act(self, Act::Release).await,
            Op::ExtendMessage => acts::act(self, Act::Extend).await,
            Op::PromoteMessage => acts::act(self, Act::Promote).await,
            Op::PauseQueue => acts::set_paused(self, true).await,
            Op::ResumeQueue => acts::set_paused(self, false).await,
            Op::ShowDelayed => delayed::show(self).await,
            Op::ShowLeases => leases::show(self).await,
            Op::ShowProcessing => processing::show(self).await,
            Op::ListGroups => groups::list(self).await,
            Op::FindDeduplication => groups::deduplication(self).await,
            Op::SendMessage => messages::send(self).await,
            Op::ReceiveMessages => messages::receive(self).await,
            Op::SettleMessages => messages::settle(self).await,
            Op::Redrive => redrives::start(self).await,
            Op::ShowRedrive => redrives::show(self).await,
            Op::CancelRedrive => redrives::cancel(self).await,
            Op::ShowSamples => shows::samples(self).await,
            Op::PushAttempts => pushes::answer(&console.board, request).map_err(text),
            Op::ShowStore => shows::store(self).await,
            Op::BeginBackup => backups::begin(self).await,
            Op::ShowBackup => backups::show(self),
            Op::ShowShards => shards::list(self).await,
            Op::HandOverShard => shards::hand_over(self).await,
            Op::MoveShard => shards::move_to_database(self).await,
            Op::ListAlarms => shows::alarms(self).await,
            Op::ListNodes => shards::nodes(self).await,
            Op::ShowConfig => Ok(shows::config(self)),
            Op::ShowAudit => shows::audit(self).await,
            Op::BeginSession => self.begin_session().await,
            Op::ShowSession => Ok(shows::session(self)),
            Op::EndSession => Ok(access::end_session(&console.login, request)),
            Op::ShowClock | Op::MoveClock => {
                clock::answer(&console.board, &console.followers, request).await.map_err(text)
            }
            Op::ConfirmClock => clock::confirm(&console.board).await.map_err(text),
            Op::OpenApi => Ok(answer(StatusCode::OK, openapi::document())),
        }
    }

    async fn begin_session(&self) -> Result<Reply, ApiError> {
        let (console, tried) = (self.console, &self.target);
        let (login, settings) = (&console.login, &console.settings);
        match (self.body.text("user"), self.body.text("password"), self.body.text("token")) {
            (Some(user), Some(password), None) => {
                access::begin_session(login, settings, self.request, (user, password), tried).await
            }
            (None, None, Some(token)) => {
                access::begin_token_session(login, settings, self.request, token, tried)
            }
            _ => Err(ApiError::bad_request("give either user and password, or token")),
        }
    }

    /// What serves requests, if anything does.
    fn running(&self) -> Result<Arc<Running>, ApiError> {
        match self.console.board.phase() {
            Phase::Serving(running) => Ok(running),
            Phase::Starting | Phase::Waiting(_) | Phase::Stopping => {
                Err(ApiError::unavailable("the server is not serving"))
            }
        }
    }

    fn home(&self) -> Home<'_> {
        self.console.home()
    }

    /// The queue that the path names.
    fn queue(&self, engine: &Engine) -> Result<Arc<kew_core::Queue>, ApiError> {
        let text = self.parts.first().map_or("", String::as_str);
        self.queue_named(engine, text)
    }

    fn queue_named(&self, engine: &Engine, text: &str) -> Result<Arc<kew_core::Queue>, ApiError> {
        let key = self.home().key(text)?;
        engine.find(&key)?.ok_or_else(|| ApiError::queue_not_found(text))
    }
}

fn nothing_at(request: &Request) -> ApiError {
    let message = format!("there is nothing at {}", request.uri.path());
    ApiError::new(StatusCode::NOT_FOUND, "not_found", message)
}

fn other_methods(request: &Request, methods: &str) -> Reply {
    let message = format!("{} is not allowed here, only {methods}", request.method);
    let reply = ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message).reply();
    match HeaderValue::from_str(methods) {
        Ok(methods) => reply.with(ALLOW, methods),
        Err(_) => reply,
    }
}
