//! Backups of a store that is in use.

use std::sync::Arc;

use kew_http::{Reply, StatusCode};
use serde_json::json;

use super::Context;
use crate::board::Running;
use crate::error::{ApiError, answer};
use crate::sources::{BackupRefused, BackupState, Backups};

/// `POST /store/backup`.
pub(super) async fn begin(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let running = cx.running()?;
    let backups = Arc::clone(backups_of(&running)?);
    let to = cx.body.text("to").unwrap_or_default().to_owned();
    cx.target.get_or_init(|| to.clone());
    let link = cx.body.is_set("link");
    let work = move || async move { backups.begin(&to, link).map_err(ApiError::from) };
    let task = cx.console.work.run(work).await?;
    Ok(answer(StatusCode::ACCEPTED, &json!({ "task": task })))
}

/// `GET /store/backups/{task}`.
pub(super) fn show(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let running = cx.running()?;
    let id = cx.parts.first().map_or("", String::as_str);
    let task = running.backups.as_ref().and_then(|backups| backups.task(id)).ok_or_else(|| {
        let message = format!("there is no backup {id}; those of an earlier start are forgotten");
        ApiError::new(StatusCode::NOT_FOUND, "task_not_found", message)
    })?;
    let mut body = json!({ "task": id, "to": task.to, "bytes": task.bytes, "of": task.of });
    match task.state {
        BackupState::Running => body["state"] = "running".into(),
        BackupState::Done { files, linked } => {
            body["state"] = "done".into();
            body["files"] = files.into();
            body["linked"] = linked.into();
        }
        BackupState::Failed(reason) => {
            body["state"] = "failed".into();
            body["reason"] = reason.into();
        }
    }
    Ok(answer(StatusCode::OK, &body))
}

fn backups_of(running: &Running) -> Result<&Arc<dyn Backups>, ApiError> {
    running.backups.as_ref().ok_or_else(|| {
        let what = match running.place.kind {
            "postgres" => {
                "the store is in PostgreSQL: back the database up with PostgreSQL's own tools (pg_basebackup or \
                 pg_dump), or stop the server and run `kew store backup`"
            }
            "directory" => {
                "the store has several shards: stop the server and run `kew store backup`, which copies them all as of \
                 one moment"
            }
            _ => {
                "the store is in memory and has no files: start the server with --store and a directory to have \
                 backups"
            }
        };
        ApiError::conflict("no_backup_here", what)
    })
}

impl From<BackupRefused> for ApiError {
    fn from(refused: BackupRefused) -> Self {
        match refused {
            BackupRefused::Target(why) => Self::bad_request(why),
            BackupRefused::NotEmpty(why) => Self::conflict("not_empty", why),
            BackupRefused::Running(task) => {
                Self::conflict("backup_running", format!("the backup {task} is running: one runs at a time"))
            }
            BackupRefused::Unavailable(why) => Self::unavailable(why),
        }
    }
}
