//! Workers by the vendor's API: what `wrangler deploy`, `wrangler secret` and `wrangler delete` ask for.
//!
//! Uploading code is running code. So this part is off unless the server's settings turn it on, wants a token even
//! where everybody is let in, and answers only who is at this machine unless the settings expose it. [`call`] reads
//! paths, [`asked`] bodies, [`upload`] what comes as a form, [`shown`] says what replies look like. What is asked of
//! one Worker is in [`look`], [`versions`] and [`secrets`]; the work is `kew-push`'s.

mod asked;
mod call;
mod look;
mod multipart;
mod secrets;
mod shown;
mod upload;
mod versions;

use std::pin::Pin;
use std::sync::{Arc, OnceLock};

use kew_core::AccountId;
use kew_http::{Reply, Request};
use kew_push::workers::{Description, StartError, Then, WorkerError, Workers};

use crate::error::{Code, WireError};
use crate::{Cloudflare, auth, encode};
use call::Call;

pub use call::is_meant;

/// The Workers that are run, once they are.
#[derive(Clone, Debug, Default)]
pub struct Scripts {
    /// What runs them; empty until it is there.
    pub workers: Arc<OnceLock<Arc<Workers>>>,
    /// Whether Workers are run here, though they may not be known yet.
    pub wanted: bool,
    /// Whether other machines may upload too.
    pub exposed: bool,
}

impl Scripts {
    /// The error while nothing runs Workers. Where they are wanted, they may be starting.
    fn absent(&self) -> WireError {
        if self.wanted {
            return WireError::new(Code::Overloaded).saying("The Workers are being started: try again");
        }
        Code::WorkersRefused.into()
    }

    /// Refuses what depends on Workers until they are known.
    pub(crate) fn check_known(&self) -> Result<(), WireError> {
        if self.wanted && self.workers.get().is_none() { Err(self.absent()) } else { Ok(()) }
    }
}

/// The reply to a request about Workers on an address that serves every dialect.
pub fn refused_here() -> Reply {
    let text = "Workers are uploaded to the address of --cloudflare, not to one that serves every dialect";
    encode::error(&WireError::new(Code::WorkersRefused).saying(text))
}

/// Answers a request about Workers. In a box of its own: there must be room for the largest answer wherever there is
/// one for any. It hides its type, or all of this would be compiled again in each program.
pub(crate) fn answer<'a>(
    house: &'a Cloudflare,
    request: &'a Request,
) -> Pin<Box<dyn Future<Output = Reply> + Send + 'a>> {
    Box::pin(answer_call(house, request))
}

async fn answer_call(house: &Cloudflare, request: &Request) -> Reply {
    let (name, answer) = match Call::of(&request.method, request.uri.path()) {
        Ok((account, call)) => {
            let answer = match let_in(house, request, account, &call) {
                Ok(cx) => perform_up_to_date(&cx, &call).await,
                Err(error) => Err(error),
            };
            (call.name(), answer)
        }
        Err(error) => ("WorkersUnknown", Err(error)),
    };
    answer.unwrap_or_else(|error| house.failed(&error, request)).to(name)
}

/// The reply to a request about Workers whose head says that it will not be done, whatever its body is.
pub(crate) fn refused(house: &Cloudflare, request: &Request) -> Option<Reply> {
    match Call::of(&request.method, request.uri.path()) {
        Ok((account, call)) => {
            let error = let_in(house, request, account, &call).err()?;
            Some(house.failed(&error, request).to(call.name()))
        }
        Err(error) => Some(house.failed(&error, request).to("WorkersUnknown")),
    }
}

/// What a call works with: the Workers of one account, and what was asked.
struct Context<'a> {
    workers: Arc<Workers>,
    account: AccountId,
    request: &'a Request,
}

impl Context<'_> {
    /// What is known of a Worker that has to be there.
    fn described(&self, name: &str) -> Result<Description, WireError> {
        self.workers.describe(self.account, name).ok_or_else(|| Code::ScriptNotFound.into())
    }
}

/// Performs a call, when it is known what other nodes have changed.
async fn perform_up_to_date(cx: &Context<'_>, call: &Call<'_>) -> Result<Reply, WireError> {
    cx.workers.follow(cx.account).await?;
    perform(cx, call).await
}

/// The table of calls.
async fn perform(cx: &Context<'_>, call: &Call<'_>) -> Result<Reply, WireError> {
    match *call {
        Call::Subdomain => Ok(look::subdomain()),
        Call::Namespaces => Ok(look::namespaces()),
        Call::List => Ok(look::list(cx)),
        Call::Service { name } => look::service(cx, name),
        Call::Worker { name } => look::worker(cx, name),
        Call::Settings { name } => look::settings(cx, name),
        Call::ScriptSubdomain { name } => look::script_subdomain(cx, name),
        Call::SetScriptSubdomain { name } => look::set_script_subdomain(cx, name),
        Call::Upload { name } => versions::upload(cx, name, Then::Deploy).await,
        Call::AddVersion { name } => versions::add(cx, name).await,
        Call::Versions { name } => versions::list(cx, name),
        Call::Version { name, version } => versions::show(cx, name, version).await,
        Call::Deployments { name } => Ok(versions::deployments(cx, name)),
        Call::Deploy { name } => versions::deploy(cx, name).await,
        Call::Schedules { name } => look::schedules(cx, name),
        Call::PutSchedules { name } => look::put_schedules(cx, name).await,
        Call::Log { name } => look::log(cx, name).await,
        Call::ChangeSettings { name } => secrets::change_settings(cx, name).await,
        Call::Secrets { name } => Ok(secrets::list(cx, name)),
        Call::PutSecret { name } => secrets::put(cx, name).await,
        Call::ChangeSecrets { name } => secrets::change(cx, name).await,
        Call::DeleteSecret { name, secret } => secrets::delete(cx, name, secret).await,
        Call::Delete { name } => look::delete(cx, name).await,
    }
}

/// What runs Workers, and who asks; or why not.
fn let_in<'a>(
    house: &Cloudflare,
    request: &'a Request,
    account: &str,
    call: &Call<'_>,
) -> Result<Context<'a>, WireError> {
    let scripts = &house.settings.scripts;
    let caller = auth::check_script(&house.settings, account, call.need(), request)?;
    if !scripts.exposed && !request.peer.ip().is_loopback() {
        return Err(WireError::new(Code::WorkersRefused)
            .saying("Workers are uploaded from this machine only: start the server with --workers-expose to change that"));
    }
    let workers = scripts.workers.get().ok_or_else(|| scripts.absent())?;
    Ok(Context { workers: Arc::clone(workers), account: caller.account, request })
}

fn unfit(text: &'static str) -> WireError {
    WireError::new(Code::ScriptInvalid).saying(text)
}

impl From<WorkerError> for WireError {
    fn from(error: WorkerError) -> Self {
        let code = match error {
            WorkerError::Engine(error) => return error.into(),
            WorkerError::NotFound(_) => return Code::ScriptNotFound.into(),
            WorkerError::VersionNotFound(_) => Code::VersionNotFound,
            WorkerError::SecretNotFound(_) => Code::SecretNotFound,
            WorkerError::QueueNotFound(_) => Code::QueueNotFound,
            WorkerError::Cron(_) => Code::CronInvalid,
            // It is no fault of the code that the runtime cannot be run, and its path is not shown.
            WorkerError::NotStarted(error @ StartError::NotRun { .. }) => {
                return Self::new(Code::Internal).because(error);
            }
            WorkerError::Script(_)
            | WorkerError::NotStarted(StartError::Refused(_) | StartError::TooSlow) => Code::ScriptInvalid,
            WorkerError::ShuttingDown => Code::Overloaded,
        };
        Self::new(code).saying(error.to_string())
    }
}
