//! What changes a Worker: an upload, a deployment, a secret, its end.
//!
//! Each is whole or not at all. What shall run is started first, then the change is written, and only then does it take
//! over: what does not start, or cannot be kept, changes nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use kew_core::{AccountId, Entropy};
use kew_engine::QueueName;
use kew_http::hex;

use super::error::WorkerError;
use super::history::{Deployment, Remarks, Version};
use super::keeper::{Deployed, Starts as _};
use super::live::Live;
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
        for queue in script.queues() {
            let name = QueueName { account, region: &self.settings.region, name: queue };
            if self.engine.find(name)?.is_none() {
                return Err(WorkerError::QueueNotFound(queue.to_owned()));
            }
        }
        Ok(())
    }

    /// Whether the account may have another Worker.
    fn check_count(&self, account: AccountId) -> Result<(), ScriptError> {
        if self.count(account) < WORKERS_MAX {
            return Ok(());
        }
        Err(ScriptError::TooMuch { what: "the number of Workers", max: WORKERS_MAX })
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
        let _alone = self.alone(account).await?;
        let _announced = (then == Then::Deploy).then(|| self.announce(account, &name, &script));
        self.check_queues(account, &script)?;
        let worker = self.find(account, &name);
        if worker.is_none() {
            self.check_count(account)?;
        }
        let Known { mut record, secrets: had, .. } =
            worker.as_ref().map(|worker| worker.known.lock().clone()).unwrap_or_default();
        // What is only kept changes nothing of what runs: its secrets lie with its code until it is deployed.
        let waiting = if then == Then::Keep { secrets.clone() } else { Secrets::new() };
        let secrets = joined(&had, secrets, &script.bindings)?;
        let now = self.engine.now();
        let mut changes = Changes::of(&name);
        let id = uuid(&*self.entropy);
        let parts = changes.put_code(&id, &script, &waiting);
        let version = record.add_version(id, parts, remarks.bounded(), now);
        let deployed =
            Deployed { version: version.clone(), script: Arc::clone(&script), secrets: secrets.clone() };
        let worker = worker.unwrap_or_else(|| Worker::new(account, name.clone(), Known::default(), now));
        let live = self.starter(account, &name, &worker.log).start(&deployed).await?;
        let secrets = match then {
            Then::Deploy => {
                record.deployed_now(uuid(&*self.entropy), &version.id, version.remarks.clone(), now);
                changes.put_secrets(&secrets);
                secrets
            }
            Then::Keep => had,
        };
        record.forget_old(&mut changes);
        changes.put_record(&record);
        self.write(changes, (account, &name), &script, &live).await?;
        self.workers.lock().entry((account, name)).or_insert_with(|| Arc::clone(&worker));
        worker.keep(record, secrets);
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
        let _alone = self.alone(account).await?;
        let worker = self.found(account, name)?;
        let Known { mut record, secrets, .. } = worker.known.lock().clone();
        let missing = || WorkerError::VersionNotFound(id.to_owned());
        let version = record.version(id).cloned().ok_or_else(missing)?;
        let kept = stored::read_code(&self.engine, account, name, &version).await?;
        let (script, waiting) = kept.ok_or_else(missing)?;
        let script = Arc::new(script);
        let _announced = self.announce(account, name, &script);
        self.check_queues(account, &script)?;
        let secrets = joined(&secrets, waiting, &script.bindings)?;
        let deployed = Deployed { version, script: Arc::clone(&script), secrets: secrets.clone() };
        let live = self.starter(account, name, &worker.log).start(&deployed).await?;
        record.deployed_now(uuid(&*self.entropy), id, remarks.bounded(), self.engine.now());
        let deployment = record.deployments.last().cloned().ok_or_else(missing)?;
        let mut changes = Changes::of(name);
        changes.put_record(&record);
        changes.put_secrets(&secrets);
        self.write(changes, (account, name), &script, &live).await?;
        worker.keep(record, secrets);
        self.run_live(&worker, Arc::new(deployed), live).await;
        Ok(deployment)
    }

    /// All of them or none, with one start and one step of the store.
    pub(super) async fn put_secrets(
        self: &Arc<Self>,
        account: AccountId,
        name: &str,
        asked: Vec<(String, Option<String>)>,
    ) -> Result<(), WorkerError> {
        let _alone = self.alone(account).await?;
        let worker = self.found(account, name)?;
        let known = worker.known.lock().clone();
        let mut secrets = known.secrets;
        let mut more = Vec::new();
        for (secret, text) in asked {
            let place = secrets.iter().position(|(had, _)| *had == secret);
            match (text, place) {
                (Some(text), _) => more.push((secret, text)),
                (None, Some(place)) => drop(secrets.remove(place)),
                (None, None) => return Err(WorkerError::SecretNotFound(secret)),
            }
        }
        let running = known.running.as_ref().map(|running| Arc::clone(&running.deployed));
        let bindings = running.as_ref().map_or(&[][..], |deployed| &deployed.script.bindings);
        let secrets = joined(&secrets, more, bindings)?;
        let mut changes = Changes::of(name);
        changes.put_secrets(&secrets);
        let Some(deployed) = running else {
            self.write_changes(changes, (account, name)).await?;
            worker.known.lock().secrets = secrets;
            return Ok(());
        };
        let script = Arc::clone(&deployed.script);
        let next = Deployed { version: deployed.version.clone(), script, secrets: secrets.clone() };
        let live = self.starter(account, name, &worker.log).start(&next).await?;
        if let Err(error) = self.write_changes(changes, (account, name)).await {
            live.retire().await;
            return Err(error.into());
        }
        worker.known.lock().secrets = secrets;
        self.run_live(&worker, Arc::new(next), live).await;
        Ok(())
    }

    /// Writes a change to code, if every queue of it is still there: its start has taken a while. Otherwise what was
    /// started for it ends.
    async fn write(
        &self,
        changes: Changes,
        (account, name): (AccountId, &str),
        script: &Script,
        live: &Live,
    ) -> Result<(), WorkerError> {
        let written = match self.check_queues(account, script) {
            Ok(()) => self.write_changes(changes, (account, name)).await.map_err(WorkerError::from),
            Err(missing) => Err(missing),
        };
        if written.is_err() {
            live.retire().await;
        }
        written
    }

    pub(super) async fn delete(self: &Arc<Self>, account: AccountId, name: &str) -> Result<(), WorkerError> {
        let _alone = self.alone(account).await?;
        let worker = self.found(account, name)?;
        let mut changes = Changes::of(name);
        let record = worker.known.lock().record.clone();
        record.versions.iter().for_each(|version| changes.remove_code(version));
        changes.remove_record();
        changes.put_secrets(&Secrets::new());
        self.write_changes(changes, (account, name)).await?;
        self.forget(worker);
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

pub(super) fn uuid(entropy: &dyn Entropy) -> String {
    let mut bytes = entropy.wide_bits().to_be_bytes();
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    hex::uuid(bytes).iter().map(|letter| char::from(*letter)).collect()
}
