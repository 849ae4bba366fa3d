//! `/livez`: the process answers. `/readyz`: requests would be served; its body also names what has failed for long
//! beside them.

use kew_http::{Reply, StatusCode};

use crate::UpkeepReport;
use crate::board::{Board, Phase, Running};

/// It answers, so it lives.
pub(crate) fn live() -> Reply {
    Reply::text(StatusCode::OK, "live")
}

/// Whether requests would be served, else why not.
pub(crate) fn ready(board: &Board, upkeep: &UpkeepReport) -> Reply {
    let why_not = match board.phase() {
        Phase::Starting => "starting: the store is being opened".to_owned(),
        Phase::Waiting(why) => why.to_string(),
        Phase::Stopping => "stopping".to_owned(),
        Phase::Serving(running) => match running.health() {
            Ok(()) => return Reply::text(StatusCode::OK, &ready_but(&reasons(&running, upkeep))),
            Err(error) => error.to_string(),
        },
    };
    Reply::text(StatusCode::SERVICE_UNAVAILABLE, &format!("not ready: {why_not}"))
}

/// Requests are served; what has failed for long beside them stands below, a line each.
fn ready_but(reasons: &[String]) -> String {
    std::iter::once("ready").chain(reasons.iter().map(String::as_str)).collect::<Vec<_>>().join("\n")
}

/// What an operator should see to although requests are served.
fn reasons(running: &Running, upkeep: &UpkeepReport) -> Vec<String> {
    let mut reasons = upkeep.reasons();
    if let Some(held) = running.held_expiry() {
        let ends = match held.settles_in {
            Some(length) => {
                format!(
                    "it goes on by itself in about {} s if the clock runs evenly, or with",
                    length.as_secs()
                )
            }
            None => "it goes on when the clock comes back, or with".to_owned(),
        };
        let path = "/api/v1/clock/confirm";
        reasons.push(format!("the clock leapt, and no message expires: {ends} POST {path}"));
    }
    reasons
}
