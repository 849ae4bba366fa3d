//! `/livez`: the process answers. `/readyz`: requests would be served.

use kew_http::{Reply, StatusCode};

use crate::board::{Board, Phase};

/// It answers, so it lives.
pub(crate) fn live() -> Reply {
    Reply::text(StatusCode::OK, "live")
}

/// Whether requests would be served, else why not.
pub(crate) fn ready(board: &Board) -> Reply {
    let why_not = match board.phase() {
        Phase::Starting => "starting: the store is being opened".to_owned(),
        Phase::Stopping => "stopping".to_owned(),
        Phase::Serving(running) => match running.engine.health() {
            Ok(()) => return Reply::text(StatusCode::OK, "ready"),
            Err(error) => error.to_string(),
        },
    };
    Reply::text(StatusCode::SERVICE_UNAVAILABLE, &format!("not ready: {why_not}"))
}
