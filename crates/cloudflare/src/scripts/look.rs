//! Looking at Workers, and seeing one off.

use kew_http::Reply;
use serde_json::{Value, json};

use super::{Context, asked, shown, unfit};
use crate::decode::object;
use crate::encode;
use crate::error::{Code, WireError};
use crate::visits::SUBDOMAIN;

/// The account's name below the domains of Workers' addresses.
pub(super) fn subdomain() -> Reply {
    encode::result(&json!({ "subdomain": SUBDOMAIN }))
}

/// Kinds of storage that are not here have nothing in them.
pub(super) fn namespaces() -> Reply {
    encode::list(Vec::new(), 1, 100, 0)
}

pub(super) fn list(cx: &Context<'_>) -> Reply {
    let all: Vec<Value> = cx.workers.list(cx.account).iter().map(shown::script).collect();
    let count = all.len();
    encode::list(all, 1, u32::try_from(count.max(1)).unwrap_or(u32::MAX), count)
}

pub(super) fn service(cx: &Context<'_>, name: &str) -> Result<Reply, WireError> {
    let found = cx.workers.describe(cx.account, name).ok_or(Code::ServiceNotFound)?;
    Ok(encode::result(&shown::service(&found)))
}

pub(super) fn worker(cx: &Context<'_>, name: &str) -> Result<Reply, WireError> {
    Ok(encode::result(&shown::worker(&cx.described(name)?)))
}

pub(super) fn settings(cx: &Context<'_>, name: &str) -> Result<Reply, WireError> {
    Ok(encode::result(&shown::settings(&cx.described(name)?)))
}

pub(super) fn script_subdomain(cx: &Context<'_>, name: &str) -> Result<Reply, WireError> {
    cx.described(name)?;
    Ok(encode::result(&json!({ "enabled": false, "previews_enabled": false })))
}

/// There is no subdomain to switch: what was asked for is said back, as clients expect.
pub(super) fn set_script_subdomain(cx: &Context<'_>, name: &str) -> Result<Reply, WireError> {
    cx.described(name)?;
    let asked: asked::Subdomain = object(&cx.request.body)?;
    let previews = asked.previews_enabled.unwrap_or(asked.enabled);
    Ok(encode::result(&json!({ "enabled": asked.enabled, "previews_enabled": previews })))
}

/// Lines of a Worker's log, or the wait for the next.
pub(super) async fn log(cx: &Context<'_>, name: &str) -> Result<Reply, WireError> {
    let (after, wait) = asked::log(cx.request)?;
    Ok(encode::result(&shown::log(&cx.workers.log(cx.account, name, after, wait).await?)))
}

/// The cron triggers of a Worker.
pub(super) fn schedules(cx: &Context<'_>, name: &str) -> Result<Reply, WireError> {
    Ok(encode::result(&shown::schedules(&cx.described(name)?.schedules)))
}

/// Cron triggers in place of those there were.
pub(super) async fn put_schedules(cx: &Context<'_>, name: &str) -> Result<Reply, WireError> {
    let asked: Vec<asked::Schedule> = serde_json::from_slice(&cx.request.body)
        .map_err(|_| unfit("The body must be a list of objects with the member cron"))?;
    let crons = asked.into_iter().map(|schedule| schedule.cron).collect();
    let kept = cx.workers.put_schedules(cx.account, name, crons).await?;
    Ok(encode::result(&shown::schedules(&kept)))
}

pub(super) async fn delete(cx: &Context<'_>, name: &str) -> Result<Reply, WireError> {
    let id = cx.described(name)?.name;
    cx.workers.delete(cx.account, name).await?;
    Ok(encode::result(&json!({ "id": id })))
}
