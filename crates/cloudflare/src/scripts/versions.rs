//! A Worker's code: versions that are uploaded, and the one that is deployed.

use std::time::Instant;

use kew_http::Reply;
use kew_push::workers::Then;
use serde_json::{Value, json};

use super::{Context, asked, shown};
use crate::encode;
use crate::error::WireError;

pub(super) async fn upload(cx: &Context<'_>, name: &str, then: Then) -> Result<Reply, WireError> {
    let began = Instant::now();
    let before = cx.workers.describe(cx.account, name);
    let upload = super::upload::read(cx.request, before.as_ref())?;
    let (version, script) = cx.workers.upload((cx.account, name), upload, then).await?;
    let found = cx.described(name)?;
    let took = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    Ok(encode::result(&shown::uploaded(&found, &version, &script, took)))
}

/// Keeps a version of a Worker that is there.
pub(super) async fn add(cx: &Context<'_>, name: &str) -> Result<Reply, WireError> {
    cx.described(name)?;
    upload(cx, name, Then::Keep).await
}

pub(super) fn list(cx: &Context<'_>, name: &str) -> Result<Reply, WireError> {
    let found = cx.described(name)?;
    let items: Vec<Value> = found.versions.iter().rev().map(shown::version).collect();
    Ok(encode::result(&json!({ "items": items })))
}

/// A version that is kept, and what it is made of.
pub(super) async fn show(cx: &Context<'_>, name: &str, version: &str) -> Result<Reply, WireError> {
    let (kept, script) = cx.workers.version(cx.account, name, version).await?;
    let secrets = cx.described(name)?.secrets;
    Ok(encode::result(&shown::version_with_resources(&kept, &script, &secrets)))
}

/// The newest first. A Worker that is about to be deployed for the first time is asked about too.
pub(super) fn deployments(cx: &Context<'_>, name: &str) -> Reply {
    let found = cx.workers.describe(cx.account, name).map(|found| found.deployments);
    let shown: Vec<Value> = found.iter().flatten().rev().map(shown::deployment).collect();
    encode::result(&json!({ "deployments": shown }))
}

pub(super) async fn deploy(cx: &Context<'_>, name: &str) -> Result<Reply, WireError> {
    let (version, remarks) = asked::deployment(cx.request)?;
    let deployment = cx.workers.deploy(cx.account, name, &version, remarks).await?;
    Ok(encode::result(&shown::deployment(&deployment)))
}
