//! Backups of a store in use, as far as the API goes: the store's own part is the program's.

use std::sync::Arc;

use kew_console::{BackupRefused, BackupState, BackupTask, Backups};

use super::rig::{self, Guarded, PASSWORD, Parts, Rig};

/// Backs nothing up: the directory says what becomes of it.
struct Pretended;

impl Backups for Pretended {
    fn begin(&self, to: &str, link: bool) -> Result<String, BackupRefused> {
        match to {
            "/full" => Err(BackupRefused::NotEmpty("/full is not empty".to_owned())),
            "/twice" => Err(BackupRefused::Running("7".to_owned())),
            "nowhere" => Err(BackupRefused::Target("`to` must be an absolute path".to_owned())),
            _ => Ok(format!("{}{link}", to.trim_start_matches('/'))),
        }
    }

    fn task(&self, task: &str) -> Option<BackupTask> {
        let state = match task {
            "begun" => BackupState::Running,
            "done" => BackupState::Done { files: 9, linked: 3 },
            "failed" => BackupState::Failed("no space left for writing".to_owned()),
            _ => return None,
        };
        Some(BackupTask { state, to: "/b".to_owned(), bytes: 5, of: 10 })
    }

    fn ended(&self) -> (u64, u64) {
        (2, 1)
    }
}

async fn pretending(guarded: Guarded) -> Rig {
    rig::rig_of(Parts { guarded, backups: Some(Arc::new(Pretended)), ..Parts::default() }).await
}

#[tokio::test]
async fn a_backup_begins_as_a_task_whose_progress_is_shown() {
    let rig = pretending(Guarded::Open).await;
    let begun = rig.post("/store/backup", r#"{"to":"/b"}"#).await;
    assert_eq!((begun.status, &begun.body["task"]), (202, &"bfalse".into()));
    let linked = rig.post("/store/backup", r#"{"to":"/b","link":true}"#).await;
    assert_eq!((linked.status, &linked.body["task"]), (202, &"btrue".into()));
    let shown = |task: &str, rest: serde_json::Value| {
        let mut all = serde_json::json!({ "task": task, "to": "/b", "bytes": 5, "of": 10 });
        let members = rest.as_object().expect("the test writes objects").clone();
        all.as_object_mut().expect("json! of braces is an object").extend(members);
        all
    };
    for (task, rest) in [
        ("begun", serde_json::json!({ "state": "running" })),
        ("done", serde_json::json!({ "state": "done", "files": 9, "linked": 3 })),
        ("failed", serde_json::json!({ "state": "failed", "reason": "no space left for writing" })),
    ] {
        assert_eq!(rig.get(&format!("/store/backups/{task}")).await.body, shown(task, rest));
    }
    assert_eq!(rig.get("/store/backups/other").await.status, 404);
    let metrics = rig.metrics().await;
    for line in ["kew_backups_total{outcome=\"done\"} 2\n", "kew_backups_total{outcome=\"failed\"} 1\n"] {
        assert!(metrics.contains(line), "{line} in {metrics}");
    }
}

#[tokio::test]
async fn what_a_backup_is_refused_for_is_told_and_audited() {
    let rig = pretending(Guarded::Open).await;
    for (body, status, code) in [
        (r#"{"to":"/full"}"#, 409, "not_empty"),
        (r#"{"to":"/twice"}"#, 409, "backup_running"),
        (r#"{"to":"nowhere"}"#, 400, "bad_request"),
        (r#"{"link":true}"#, 400, "bad_request"),
        (r#"{"to":"/b","link":"yes"}"#, 400, "bad_request"),
    ] {
        let answer = rig.post("/store/backup", body).await;
        assert_eq!((answer.status, answer.code()), (status, code), "{body}");
    }
    rig.post("/store/backup", r#"{"to":"/b"}"#).await;
    let audited = rig.audited();
    assert_eq!(audited[0], "open beginBackup /full not_empty");
    assert_eq!(audited.last().map(String::as_str), Some("open beginBackup /b ok"));
}

#[tokio::test]
async fn a_store_that_has_no_files_says_what_to_do_instead() {
    let rig = rig::open().await;
    let answer = rig.post("/store/backup", r#"{"to":"/b"}"#).await;
    assert_eq!((answer.status, answer.code()), (409, "no_backup_here"));
    let message = answer.body["error"]["message"].as_str().unwrap_or_default();
    assert!(message.contains("in memory") && message.contains("--store"), "{message}");
    assert_eq!(rig.get("/store/backups/1").await.status, 404);
}

#[tokio::test]
async fn only_an_operator_begins_a_backup() {
    let rig = pretending(Guarded::Strictly).await;
    let login = |user: &str| format!(r#"{{"user":"{user}","password":"{PASSWORD}"}}"#);
    let session = rig.post("/session", &login("bert")).await;
    let cookie = session.header("set-cookie").split(';').next().unwrap_or_default().to_owned();
    let csrf = session.body["csrf"].as_str().unwrap_or_default().to_owned();
    let headers =
        [("content-type", "application/json"), ("cookie", cookie.as_str()), ("x-kew-csrf", csrf.as_str())];
    let answer = rig.ask("POST", "/store/backup", &headers, r#"{"to":"/b"}"#).await;
    assert_eq!(answer.status, 403, "{answer:?}");
    assert_eq!(rig.ask("GET", "/store/backups/done", &headers, "").await.status, 200);
}
