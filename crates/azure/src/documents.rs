//! What Azure keeps with a queue and with an account: metadata, stored access policies, service properties.
//!
//! Each is a JSON document of this room; one that cannot be read, which only another program can have written, counts
//! as absent.

use bytes::Bytes;
use kew_core::command::Documents;
use kew_core::{AccountId, DocumentKey, Queue};
use kew_engine::Engine;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::Account;
use crate::error::WireError;

const OWNER: &str = "azure";
const METADATA: &str = "metadata";
const ACCESS_POLICIES: &str = "acl";
const SERVICE_PROPERTIES: &str = "service-properties";
const DELEGATION_SECRET: &str = "delegation-secret";

/// A document and what becomes of it.
pub(crate) type Change = (DocumentKey, Option<Bytes>);

/// Names and values, in the order and with the case they were first written.
pub(crate) type Metadata = Vec<(String, String)>;

/// A queue's metadata.
pub(crate) fn metadata(queue: &Queue) -> Metadata {
    read(queue, METADATA).unwrap_or_default()
}

/// Replaces it.
pub(crate) fn put_metadata(metadata: &Metadata) -> Change {
    change(METADATA, (!metadata.is_empty()).then_some(metadata))
}

/// A stored access policy: its fields as they were written, each of which may be missing.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct AccessPolicy {
    pub(crate) id: String,
    pub(crate) start: Option<String>,
    pub(crate) expiry: Option<String>,
    pub(crate) permission: Option<String>,
}

/// A queue's stored access policies.
pub(crate) fn access_policies(queue: &Queue) -> Vec<AccessPolicy> {
    read(queue, ACCESS_POLICIES).unwrap_or_default()
}

/// Replaces them.
pub(crate) fn put_access_policies(policies: &Vec<AccessPolicy>) -> Change {
    change(ACCESS_POLICIES, (!policies.is_empty()).then_some(policies))
}

/// An account's settings of this service.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct ServiceProperties {
    pub(crate) logging: Logging,
    pub(crate) hour_metrics: Metrics,
    pub(crate) minute_metrics: Metrics,
    pub(crate) cors: Vec<CorsRule>,
}

/// What is logged; kept and shown, without effect.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Logging {
    pub(crate) delete: bool,
    pub(crate) read: bool,
    pub(crate) write: bool,
    /// Days that logs are kept, if they are ever deleted.
    pub(crate) retention_days: Option<u32>,
}

/// What is counted; kept and shown, without effect.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Metrics {
    pub(crate) enabled: bool,
    pub(crate) include_apis: Option<bool>,
    pub(crate) retention_days: Option<u32>,
}

/// Which web pages may do what.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct CorsRule {
    pub(crate) origins: String,
    pub(crate) methods: String,
    pub(crate) headers: String,
    pub(crate) exposed: String,
    pub(crate) max_age_seconds: u32,
}

/// An account's settings of this service.
pub(crate) async fn service_properties(
    engine: &Engine,
    account: &Account,
) -> Result<ServiceProperties, WireError> {
    Ok(of_account(engine, account.id, SERVICE_PROPERTIES).await?.unwrap_or_default())
}

/// What an account's delegated keys follow from, in Base64.
pub(crate) async fn delegation_secret(
    engine: &Engine,
    account: AccountId,
) -> Result<Option<String>, WireError> {
    of_account(engine, account, DELEGATION_SECRET).await
}

/// Keeps it.
pub(crate) fn put_delegation_secret(secret: &str) -> Change {
    change(DELEGATION_SECRET, Some(&secret))
}

async fn of_account<T: DeserializeOwned>(
    engine: &Engine,
    account: AccountId,
    name: &str,
) -> Result<Option<T>, WireError> {
    let found = engine.documents(Documents { account, owner: OWNER.into() }).await?;
    let document = found.into_iter().find(|(key, _)| &*key.key == name);
    Ok(document.and_then(|(_, json)| serde_json::from_slice(&json).ok()))
}

/// Replaces them.
pub(crate) fn put_service_properties(properties: &ServiceProperties) -> Change {
    change(SERVICE_PROPERTIES, Some(properties))
}

fn read<T: DeserializeOwned>(queue: &Queue, key: &str) -> Option<T> {
    if queue.documents.is_empty() {
        return None;
    }
    serde_json::from_slice(queue.documents.get(&DocumentKey::new(OWNER, key))?).ok()
}

fn change<T: Serialize>(key: &str, value: Option<&T>) -> Change {
    let json = value.and_then(|value| serde_json::to_vec(value).ok());
    (DocumentKey::new(OWNER, key), json.map(Bytes::from))
}
