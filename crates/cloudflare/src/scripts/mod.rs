//! Workers by the vendor's API: what `wrangler deploy`, `wrangler secret` and `wrangler delete` ask for.
//!
//! Uploading code is running code. So this part is off unless the server was told otherwise, wants a token even where
//! everybody is let in, and answers only who is at this machine unless it was told to be exposed. [`call`] reads paths,
//! [`asked`] bodies, [`upload`] what comes as a form, [`shown`] says what replies look like; the work is `kew-push`'s.

mod asked;
mod call;
mod multipart;
mod shown;
mod upload;

use std::sync::{Arc, OnceLock};

use kew_http::{Reply, Request};
use kew_push::workers::{Description, Then, WorkerError, Workers};
use serde_json::{Value, json};

use crate::auth::Caller;
use crate::decode::object;
use crate::error::{Code, WireError};
use crate::{Cloudflare, auth, encode};
use call::Call;

pub use call::is_meant;

/// The Workers that are run, once they are.
#[derive(Clone, Debug, Default)]
pub struct Scripts {
    /// What runs them; empty until it is there.
    pub workers: Arc<OnceLock<Arc<Workers>>>,
    /// Whether other machines may upload too.
    pub exposed: bool,
}

/// The reply to a request about Workers on an address that serves every dialect.
pub fn refused_here() -> Reply {
    let text = "Workers are uploaded to the address of --cloudflare, not to one that serves every dialect";
    encode::error(&WireError::new(Code::WorkersRefused).saying(text))
}

/// Answers a request about Workers.
pub(crate) async fn answer(house: &Cloudflare, request: &Request) -> Reply {
    let (name, answer) = match Call::of(&request.method, request.uri.path()) {
        Ok((account, call)) => (call.name(), perform(house, request, account, &call).await),
        Err(error) => ("WorkersUnknown", Err(error)),
    };
    answer.unwrap_or_else(|error| house.failed(&error, request)).to(name)
}

async fn perform(
    house: &Cloudflare,
    request: &Request,
    account: &str,
    call: &Call<'_>,
) -> Result<Reply, WireError> {
    let (workers, caller) = let_in(house, request, account, call)?;
    let here = (&*workers, caller.account);
    Ok(match *call {
        Call::Subdomain => encode::result(&json!({ "subdomain": "kew" })),
        Call::Namespaces => encode::list(Vec::new(), 1, 100, 0),
        Call::List => {
            let all: Vec<Value> = workers.list(caller.account).iter().map(shown::script).collect();
            let count = all.len();
            encode::list(all, 1, u32::try_from(count.max(1)).unwrap_or(u32::MAX), count)
        }
        Call::Service { name } => match workers.describe(caller.account, name) {
            Some(found) => encode::result(&shown::service(&found)),
            None => return Err(Code::ServiceNotFound.into()),
        },
        Call::Worker { name } => encode::result(&shown::worker(&described(here, name)?)),
        Call::Settings { name } => encode::result(&shown::settings(&described(here, name)?)),
        Call::ChangeSettings { name } => {
            described(here, name)?;
            for (secret, text) in upload::read_secrets(request)? {
                workers.put_secret(caller.account, name, &secret, Some(text)).await?;
            }
            encode::result(&shown::settings(&described(here, name)?))
        }
        Call::ScriptSubdomain { name } => {
            described(here, name)?;
            encode::result(&json!({ "enabled": false, "previews_enabled": false }))
        }
        Call::SetScriptSubdomain { name } => {
            described(here, name)?;
            // There is no subdomain to switch: what was asked for is said back, as clients expect.
            let asked: asked::Subdomain = object(&request.body)?;
            let previews = asked.previews_enabled.unwrap_or(asked.enabled);
            encode::result(&json!({ "enabled": asked.enabled, "previews_enabled": previews }))
        }
        Call::Upload { name } => upload_and(here, request, name, Then::Deploy).await?,
        Call::AddVersion { name } => {
            described(here, name)?;
            upload_and(here, request, name, Then::Keep).await?
        }
        Call::Versions { name } => {
            let found = described(here, name)?;
            let items: Vec<Value> = found.versions.iter().rev().map(shown::version).collect();
            encode::result(&json!({ "items": items }))
        }
        Call::Version { name, version } => {
            let (kept, script) = workers.version(caller.account, name, version).await?;
            let secrets = described(here, name)?.secrets;
            encode::result(&shown::version_with_resources(&kept, &script, &secrets))
        }
        Call::Deployments { name } => {
            // A Worker that is about to be deployed for the first time is asked about too.
            let found = workers.describe(caller.account, name).map(|found| found.deployments);
            let shown: Vec<Value> = found.iter().flatten().rev().map(shown::deployment).collect();
            encode::result(&json!({ "deployments": shown }))
        }
        Call::Deploy { name } => {
            let (version, remarks) = asked::deployment(request)?;
            let deployment = workers.deploy(caller.account, name, &version, remarks).await?;
            encode::result(&shown::deployment(&deployment))
        }
        Call::Log { name } => {
            let (after, wait) = asked::log(request)?;
            encode::result(&shown::log(&workers.log(caller.account, name, after, wait).await?))
        }
        Call::Secrets { name } => {
            let found = workers.describe(caller.account, name);
            let secrets = found.map(|found| shown::secrets(&found)).unwrap_or_default();
            encode::result(&Value::from(secrets))
        }
        Call::PutSecret { name } => {
            let secret: asked::Secret = object(&request.body)?;
            if secret.kind != "secret_text" {
                return Err(unfit("A secret here is of the type secret_text"));
            }
            workers.put_secret(caller.account, name, &secret.name, Some(secret.text)).await?;
            encode::result(&json!({ "name": secret.name, "type": "secret_text" }))
        }
        Call::ChangeSecrets { name } => {
            let changes: asked::SecretChanges = object(&request.body)?;
            for (secret, change) in changes.secrets {
                workers.put_secret(caller.account, name, &secret, change.map(|change| change.text)).await?;
            }
            encode::result(&Value::from(shown::secrets(&described(here, name)?)))
        }
        Call::DeleteSecret { name, secret } => {
            workers.put_secret(caller.account, name, secret, None).await?;
            encode::result(&Value::Null)
        }
        Call::Delete { name } => {
            let id = described(here, name)?.name;
            workers.delete(caller.account, name).await?;
            encode::result(&json!({ "id": id }))
        }
    })
}

/// What runs Workers, and who asks; or why not.
fn let_in<'a>(
    house: &'a Cloudflare,
    request: &Request,
    account: &str,
    call: &Call<'_>,
) -> Result<(Arc<Workers>, Caller<'a>), WireError> {
    let scripts = &house.settings.scripts;
    let caller = auth::check_script(&house.settings, account, call.need(), request)?;
    if !scripts.exposed && !request.peer.ip().is_loopback() {
        return Err(WireError::new(Code::WorkersRefused)
            .saying("Workers are uploaded from this machine only: start the server with --workers-expose to change that"));
    }
    let workers = scripts.workers.get().ok_or(Code::WorkersRefused)?;
    Ok((Arc::clone(workers), caller))
}

fn described(
    (workers, account): (&Workers, kew_core::AccountId),
    name: &str,
) -> Result<Description, WireError> {
    workers.describe(account, name).ok_or_else(|| Code::ScriptNotFound.into())
}

async fn upload_and(
    (workers, account): (&Workers, kew_core::AccountId),
    request: &Request,
    name: &str,
    then: Then,
) -> Result<Reply, WireError> {
    let began = std::time::Instant::now();
    let upload = upload::read(request, workers.describe(account, name).as_ref())?;
    let (version, script) = workers.upload((account, name), upload, then).await?;
    let found = described((workers, account), name)?;
    let took = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    Ok(encode::result(&shown::uploaded(&found, &version, &script, took)))
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
            WorkerError::Script(_) | WorkerError::NotStarted(_) => Code::ScriptInvalid,
            WorkerError::ShuttingDown => Code::Overloaded,
        };
        Self::new(code).saying(error.to_string())
    }
}
