//! What changes a Worker: an upload, a deployment, a secret, its end.
//!
//! Each is whole or not at all. What shall run is started first, then the change is written, and only then does it take
//! over: what does not start, or cannot be kept, changes nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use kew_core::{AccountId, Entropy};
use kew_engine::QueueName;
use kew_http::hex;
use parking_lot::Mutex;

use super::error::WorkerError;
use super::history::{Deployment, Remarks, Version};
use super::keeper::{Deployed, Starts as _};
use super::log::WorkerLog;
use super::script::{BINDING_BYTES_MAX, BINDINGS_MAX, Binding, Script, ScriptError, check_binding_name};
use super::shared::Shared;
use super::stored::{self, Changes, Secrets};
use super::worker::{Known, Worker};

/// Bytes of a Worker's secrets together: they are one document.
const SECRETS_BYTES_MAX: usize = 60 << 10;
/// Workers of one account.
const WORKERS_MAX: usize = 100;

/// What is uploaded.
#[derive(Clone, Debug)]
pub struct Upload {
    /// The code and what it is bound to.
    pub script: Script,
    /// The name of its main module.
    pub main: String,
    /// Names and texts, added to those the Worker has.
    pub secrets: Vec<(String, String)>,
    /// What is said of it.
    pub remarks: Remarks,
}

/// What becomes of an upload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Then {
    /// It runs at once.
    Deploy,
    /// It is kept.
    Keep,
}

impl Shared {
    /// Whether every queue a Worker sends to is there.
    fn check_queues(&self, account: AccountId, script: &Script) -> Result<(), WorkerError> {
        let missing = script.queues().find(|queue| {
            let queue = QueueName { account, region: &self.settings.region, name: queue };
            self.engine.queue(queue).is_none()
        });
        missing.map_or(Ok(()), |queue| Err(WorkerError::QueueNotFound(queue.to_owned())))
    }

    pub(super) async fn upload(
        self: &Arc<Self>,
        account: AccountId,
        name: String,
        upload: Upload,
        then: Then,
    ) -> Result<(Version, Arc<Script>), WorkerError> {
        let Upload { script, main, secrets, remarks } = upload;
        let script = Arc::new(script.checked(&main)?);
        let _alone = self.changing.lock().await;
        self.check_queues(account, &script)?;
        let worker = self.find(account, &name);
        if worker.is_none() && self.count(account) >= WORKERS_MAX {
            return Err(ScriptError::TooMuch { what: "the number of Workers", max: WORKERS_MAX }.into());
        }
        let known = worker.as_ref().map(|worker| worker.known.lock().clone()).unwrap_or_default();
        let secrets = joined(&known.secrets, secrets, &script.bindings)?;
        let now = self.engine.now();
        let mut record = known.record;
        let mut changes = Changes::default();
        let id = uuid(&*self.entropy);
        let version = Version {
            number: record.next_number(),
            created_at: now.0,
            parts: changes.put_code(&name, &id, &script),
            id,
            remarks: remarks.bounded(),
        };
        let deployed =
            Deployed { version: version.clone(), script: Arc::clone(&script), secrets: secrets.clone() };
        let log =
            worker.as_ref().map_or_else(|| Arc::new(WorkerLog::open(now)), |worker| Arc::clone(&worker.log));
        let live = self.starter(account, &name, &log).start(&deployed).await?;
        if record.versions.is_empty() {
            record.created_at = now.0;
        }
        record.versions.push(version.clone());
        if then == Then::Deploy {
            record.deployed_now(uuid(&*self.entropy), &version.id, version.remarks.clone(), now);
        }
        record.forget_old(&mut changes, &name);
        changes.put_record(&name, Some(&record));
        changes.put_secrets(&name, &secrets);
        if let Err(error) = changes.write(&self.engine, account).await {
            live.retire().await;
            return Err(error.into());
        }
        let worker = worker.unwrap_or_else(|| {
            let worker = Arc::new(Worker { account, name: name.clone(), log, known: Mutex::default() });
            self.workers.lock().insert((account, name), Arc::clone(&worker));
            worker
        });
        {
            let mut known = worker.known.lock();
            (known.record, known.secrets) = (record, secrets);
        }
        match then {
            Then::Deploy => self.run_live(&worker, Arc::new(deployed), live).await,
            Then::Keep => live.retire().await,
        }
        Ok((version, script))
    }

    pub(super) async fn deploy(
        self: &Arc<Self>,
        account: AccountId,
        name: &str,
        id: &str,
        remarks: Remarks,
    ) -> Result<Deployment, WorkerError> {
        let _alone = self.changing.lock().await;
        let worker = self.found(account, name)?;
        let Known { mut record, secrets, .. } = worker.known.lock().clone();
        let missing = || WorkerError::VersionNotFound(id.to_owned());
        let version = record.version(id).cloned().ok_or_else(missing)?;
        let script = stored::read_code(&self.engine, account, name, &version).await?.ok_or_else(missing)?;
        let script = Arc::new(script);
        self.check_queues(account, &script)?;
        let secrets = joined(&secrets, Vec::new(), &script.bindings)?;
        let deployed = Deployed { version, script, secrets };
        let live = self.starter(account, name, &worker.log).start(&deployed).await?;
        record.deployed_now(uuid(&*self.entropy), id, remarks.bounded(), self.engine.now());
        let deployment = record.deployments.last().cloned().ok_or_else(missing)?;
        let mut changes = Changes::default();
        changes.put_record(name, Some(&record));
        if let Err(error) = changes.write(&self.engine, account).await {
            live.retire().await;
            return Err(error.into());
        }
        worker.known.lock().record = record;
        self.run_live(&worker, Arc::new(deployed), live).await;
        Ok(deployment)
    }

    pub(super) async fn put_secret(
        self: &Arc<Self>,
        account: AccountId,
        name: &str,
        secret: String,
        text: Option<String>,
    ) -> Result<(), WorkerError> {
        let _alone = self.changing.lock().await;
        let worker = self.found(account, name)?;
        let known = worker.known.lock().clone();
        let had = known.secrets.iter().any(|(known, _)| *known == secret);
        let mut secrets: Secrets = known.secrets.into_iter().filter(|(known, _)| *known != secret).collect();
        match text {
            Some(text) => {
                let running = known.running.as_ref();
                let bindings = running.map_or(&[][..], |running| &running.deployed.script.bindings);
                secrets = joined(&secrets, vec![(secret, text)], bindings)?;
            }
            None if had => {}
            None => return Err(WorkerError::SecretNotFound(secret)),
        }
        let next = known.running.map(|running| Deployed {
            version: running.deployed.version.clone(),
            script: Arc::clone(&running.deployed.script),
            secrets: secrets.clone(),
        });
        let live = match &next {
            Some(next) => Some(self.starter(account, name, &worker.log).start(next).await?),
            None => None,
        };
        let mut changes = Changes::default();
        changes.put_secrets(name, &secrets);
        if let Err(error) = changes.write(&self.engine, account).await {
            if let Some(live) = live {
                live.retire().await;
            }
            return Err(error.into());
        }
        worker.known.lock().secrets = secrets;
        if let (Some(next), Some(live)) = (next, live) {
            self.run_live(&worker, Arc::new(next), live).await;
        }
        Ok(())
    }

    pub(super) async fn delete(self: &Arc<Self>, account: AccountId, name: &str) -> Result<(), WorkerError> {
        let _alone = self.changing.lock().await;
        let worker = self.found(account, name)?;
        let mut changes = Changes::default();
        let record = worker.known.lock().record.clone();
        record.versions.iter().for_each(|version| changes.remove_code(name, version));
        changes.put_record(name, None);
        changes.put_secrets(name, &Secrets::new());
        changes.write(&self.engine, account).await?;
        self.workers.lock().remove(&(account, name.to_owned()));
        // Its handlers may take minutes to finish, and nobody else has to wait for that.
        tokio::spawn(async move { worker.stop().await });
        Ok(())
    }
}

/// Secrets with more of them, which take the place of those of the same name; none may be named as a binding is.
fn joined(
    secrets: &Secrets,
    more: Vec<(String, String)>,
    bindings: &[Binding],
) -> Result<Secrets, ScriptError> {
    let mut all: BTreeMap<String, String> = secrets.iter().cloned().collect();
    for (name, text) in more {
        check_binding_name(&name)?;
        if text.len() > BINDING_BYTES_MAX {
            return Err(ScriptError::TooMuch { what: "the bytes of a secret", max: BINDING_BYTES_MAX });
        }
        all.insert(name, text);
    }
    if all.len() > BINDINGS_MAX {
        return Err(ScriptError::TooMuch { what: "the number of secrets", max: BINDINGS_MAX });
    }
    if all.iter().map(|(name, text)| name.len() + 2 * text.len() + 8).sum::<usize>() > SECRETS_BYTES_MAX {
        return Err(ScriptError::TooMuch {
            what: "the bytes of all secrets together, written as JSON,",
            max: SECRETS_BYTES_MAX,
        });
    }
    match bindings.iter().find(|binding| all.contains_key(&binding.name)) {
        Some(binding) => Err(ScriptError::BindingTwice(binding.name.clone())),
        None => Ok(all.into_iter().collect()),
    }
}

fn uuid(entropy: &dyn Entropy) -> String {
    let mut bytes = entropy.wide_bits().to_be_bytes();
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    hex::uuid(bytes).iter().map(|letter| char::from(*letter)).collect()
}
