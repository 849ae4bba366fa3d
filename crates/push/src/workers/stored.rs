//! How Workers are kept: documents of their account, in parts that fit.
//!
//! One document says what a Worker is (`workers`/name); its secrets and each version's code have owners of their own,
//! so that they are read only when they are wanted. Everything of one change is written in one step.
//!
//! Each Worker has a stamp (`worker-stamps`/name), which every change of it replaces. A node of a fleet sees by the
//! stamps that another one changed something, and changes nothing whose stamp is not the one it knows.

use std::collections::BTreeMap;

use bytes::{BufMut, Bytes, BytesMut};
use kew_core::command::{Documents, PutDocuments};
use kew_core::queue::DOCUMENT_BYTES_MAX;
use kew_core::{AccountId, DocumentKey};
use kew_engine::{Engine, EngineError};
use serde::{Deserialize, Serialize};

use super::history::{Deployment, Version};
use super::schedules::Schedule;
use super::script::Script;

const INDEX: &str = "workers";
const SECRETS: &str = "worker-secrets";
const CODE: &str = "worker-code";
const STAMPS: &str = "worker-stamps";

/// What is known of a Worker without its code.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Record {
    /// When it was first uploaded, in milliseconds.
    pub(super) created_at: u64,
    /// The versions that are kept, the oldest first.
    pub(super) versions: Vec<Version>,
    /// The id of the version that runs.
    pub(super) deployed: Option<String>,
    /// When it was deployed, in milliseconds.
    pub(super) deployed_at: u64,
    /// What ran when, the oldest first.
    pub(super) deployments: Vec<Deployment>,
    /// Its cron triggers.
    pub(super) schedules: Vec<Schedule>,
}

/// Names and texts, in order of names.
pub(super) type Secrets = Vec<(String, String)>;

/// The stamps of an account's Workers, by name.
pub(super) type Stamps = BTreeMap<String, Bytes>;

/// Changes to the documents of one Worker, to be written together.
pub(super) struct Changes {
    name: String,
    is_end: bool,
    documents: Vec<(DocumentKey, Option<Bytes>)>,
}

impl Changes {
    pub(super) fn of(name: &str) -> Self {
        Self { name: name.to_owned(), is_end: false, documents: Vec::new() }
    }

    pub(super) fn put_record(&mut self, record: &Record) {
        self.put(INDEX, None, Some(json(record)));
    }

    /// The Worker is deleted.
    pub(super) fn remove_record(&mut self) {
        self.is_end = true;
        self.put(INDEX, None, None);
    }

    pub(super) fn is_end(&self) -> bool {
        self.is_end
    }

    pub(super) fn put_secrets(&mut self, secrets: &Secrets) {
        self.put(SECRETS, None, (!secrets.is_empty()).then(|| json(secrets)));
    }

    /// Writes a version's code with the secrets that came with it and wait for its deployment; says how many documents
    /// it takes.
    pub(super) fn put_code(&mut self, id: &str, script: &Script, secrets: &Secrets) -> usize {
        let packed = packed(script, secrets);
        let parts = packed.len().div_ceil(DOCUMENT_BYTES_MAX);
        let owner = code_owner(&self.name, id);
        for part in 0..parts {
            let end = packed.len().min((part + 1) * DOCUMENT_BYTES_MAX);
            self.put(&owner, Some(part), Some(packed.slice(part * DOCUMENT_BYTES_MAX..end)));
        }
        parts
    }

    pub(super) fn remove_code(&mut self, version: &Version) {
        let owner = code_owner(&self.name, &version.id);
        for part in 0..version.parts {
            self.put(&owner, Some(part), None);
        }
    }

    /// Writes them with the `next` stamp, if the stamp is the `known` one still.
    pub(super) async fn write(
        mut self,
        engine: &Engine,
        account: AccountId,
        known: Option<Bytes>,
        next: Option<Bytes>,
    ) -> Result<(), EngineError> {
        let stamp = DocumentKey::new(STAMPS, &self.name);
        self.documents.push((stamp.clone(), next));
        let put = PutDocuments { account, if_is: Some((stamp, known)), documents: self.documents };
        engine.put_documents(put).await
    }

    /// A document of this owner: a part of it, or the one of the Worker's name.
    fn put(&mut self, owner: &str, part: Option<usize>, bytes: Option<Bytes>) {
        let key = match part {
            Some(part) => DocumentKey::new(owner, &part_key(part)),
            None => DocumentKey::new(owner, &self.name),
        };
        self.documents.push((key, bytes));
    }
}

/// The stamps of all Workers of an account. Those that were last changed before there were stamps have none.
pub(super) async fn read_stamps(engine: &Engine, account: AccountId) -> Result<Stamps, EngineError> {
    let stamps = engine.documents(Documents { account, owner: STAMPS.into() }).await?;
    Ok(stamps.into_iter().map(|(key, stamp)| (key.key.to_string(), stamp)).collect())
}

/// All Workers of an account, with their secrets.
pub(super) async fn read_all(
    engine: &Engine,
    account: AccountId,
) -> Result<Vec<(String, Record, Secrets)>, EngineError> {
    let of = |owner: &str| Documents { account, owner: owner.into() };
    let records = engine.documents(of(INDEX)).await?;
    let secrets = engine.documents(of(SECRETS)).await?;
    let secrets_of = |name: &str| {
        let found = secrets.iter().find(|(key, _)| *key.key == *name);
        found.and_then(|(_, bytes)| serde_json::from_slice(bytes).ok()).unwrap_or_default()
    };
    let read = |(key, bytes): &(DocumentKey, Bytes)| {
        let record: Record = serde_json::from_slice(bytes).ok()?;
        Some((key.key.to_string(), record.with_history(), secrets_of(&key.key)))
    };
    Ok(records.iter().filter_map(read).collect())
}

/// A version's code and the secrets that came with it, if all of it is there.
pub(super) async fn read_code(
    engine: &Engine,
    account: AccountId,
    name: &str,
    version: &Version,
) -> Result<Option<(Script, Secrets)>, EngineError> {
    let owner = code_owner(name, &version.id).into();
    let mut parts = engine.documents(Documents { account, owner }).await?;
    parts.sort_by(|one, other| one.0.key.cmp(&other.0.key));
    let mut packed = BytesMut::new();
    parts.iter().for_each(|(_, part)| packed.extend_from_slice(part));
    Ok((parts.len() == version.parts).then(|| unpacked(packed.freeze())).flatten())
}

fn code_owner(name: &str, id: &str) -> String {
    format!("{CODE}/{name}/{id}")
}

/// In the order of their numbers as texts too.
fn part_key(part: usize) -> String {
    format!("{part:05}")
}

fn json<T: Serialize + ?Sized>(value: &T) -> Bytes {
    serde_json::to_vec(value).expect("texts and numbers are JSON").into()
}

#[derive(Serialize, Deserialize)]
struct Head {
    script: Script,
    lengths: Vec<usize>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    secrets: Secrets,
}

/// A script as one text of bytes: the length of its head in four bytes, the head, the modules one after the other.
fn packed(script: &Script, secrets: &Secrets) -> Bytes {
    let lengths = script.modules.iter().map(|module| module.content.len()).collect();
    let head = json(&Head { script: script.clone(), lengths, secrets: secrets.clone() });
    let mut packed = BytesMut::new();
    packed.put_u32(u32::try_from(head.len()).expect("names and bindings are bounded"));
    packed.put_slice(&head);
    script.modules.iter().for_each(|module| packed.put_slice(&module.content));
    packed.freeze()
}

fn unpacked(mut packed: Bytes) -> Option<(Script, Secrets)> {
    let length = packed.split_to_checked(4)?;
    let length = u32::from_be_bytes(length.as_ref().try_into().ok()?);
    let head = packed.split_to_checked(usize::try_from(length).ok()?)?;
    let Head { mut script, lengths, secrets } = serde_json::from_slice(&head).ok()?;
    if lengths.len() != script.modules.len() {
        return None;
    }
    for (module, length) in script.modules.iter_mut().zip(lengths) {
        module.content = packed.split_to_checked(length)?;
    }
    packed.is_empty().then_some((script, secrets))
}

trait SplitChecked {
    /// The first bytes, this many, if there are enough.
    fn split_to_checked(&mut self, length: usize) -> Option<Bytes>;
}

impl SplitChecked for Bytes {
    fn split_to_checked(&mut self, length: usize) -> Option<Bytes> {
        (length <= self.len()).then(|| self.split_to(length))
    }
}

#[cfg(test)]
mod tests {
    use super::super::script::tests::{module, script};
    use super::*;

    #[test]
    fn code_comes_back_as_it_was_packed() {
        let script = script(vec![module("index.js", "export default {}"), module("empty.js", "")]);
        let secrets = vec![("TOKEN".to_owned(), "hush".to_owned())];
        let packed = packed(&script, &secrets);
        assert_eq!(unpacked(packed.clone()), Some((script, secrets)));
        for cut in [0, 3, 10, packed.len() - 1] {
            assert_eq!(unpacked(packed.slice(..cut)), None, "{cut}");
        }
    }
}
