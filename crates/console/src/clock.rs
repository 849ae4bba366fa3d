//! `/api/v1/clock`: the virtual clock, moved by tests.

use std::time::Duration;

use kew_engine::{ClockState, Engine, EngineError};
use kew_http::{HeaderValue, Method, Reply, Request, StatusCode};
use serde_json::{Map, Value, json};

use crate::access;
use crate::board::{Board, Phase};

/// The longest jump: ten years.
const ADVANCE_MAX_MS: u64 = 3_653 * 86_400_000;
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// What may be done to the clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Change {
    Advance(Duration),
    Freeze(bool),
}

/// Shows the clock, or moves it first.
pub(crate) async fn answer(board: &Board, request: &Request) -> Result<Reply, Reply> {
    let Phase::Serving(running) = board.phase() else {
        return Err(Reply::text(StatusCode::SERVICE_UNAVAILABLE, "the server is not serving"));
    };
    if !running.engine.clock().is_virtual() {
        return Err(Reply::text(
            StatusCode::NOT_FOUND,
            "the clock is the system's; start the server with --clock virtual to move it",
        ));
    }
    match request.method {
        Method::GET | Method::HEAD => Ok(shown(running.engine.clock_state())),
        Method::POST => {
            access::check_json(request).map_err(|refused| *refused)?;
            let change = read(&request.body).map_err(|why| Reply::text(StatusCode::BAD_REQUEST, &why))?;
            let engine = running.engine.clone();
            // On the engine's own loop: a jump lets everybody there finish before time goes on.
            let moved = running.home.spawn(async move { apply(&engine, change).await }).await;
            match moved {
                Ok(Ok(state)) => Ok(shown(state)),
                Ok(Err(error)) => Err(Reply::text(StatusCode::SERVICE_UNAVAILABLE, &error.to_string())),
                Err(_) => Err(Reply::text(StatusCode::SERVICE_UNAVAILABLE, "the server is stopping")),
            }
        }
        _ => Err(access::not_allowed(&request.method, "GET, HEAD, POST")),
    }
}

async fn apply(engine: &Engine, change: Change) -> Result<ClockState, EngineError> {
    match change {
        Change::Advance(by) => engine.advance(by).await,
        Change::Freeze(frozen) => engine.freeze(frozen).await,
    }
}

fn read(body: &[u8]) -> Result<Change, String> {
    let expected = "expected {\"advance_ms\":N} or {\"freeze\":true|false}";
    let members: Map<String, Value> =
        serde_json::from_slice(body).map_err(|error| format!("{expected}: {error}"))?;
    let mut members = members.iter();
    match (members.next(), members.next()) {
        (Some((name, value)), None) if name == "advance_ms" => {
            let millis = value.as_u64().filter(|millis| *millis <= ADVANCE_MAX_MS);
            let allowed = || {
                format!("advance_ms must be a whole number from 0 to {ADVANCE_MAX_MS}: time never runs back")
            };
            millis.map(|millis| Change::Advance(Duration::from_millis(millis))).ok_or_else(allowed)
        }
        (Some((name, value)), None) if name == "freeze" => {
            value.as_bool().map(Change::Freeze).ok_or_else(|| "freeze must be true or false".to_owned())
        }
        (_, _) => Err(expected.to_owned()),
    }
}

fn shown(state: ClockState) -> Reply {
    let body = json!({ "now_ms": state.now.0, "offset_ms": state.offset_millis, "frozen": state.frozen });
    Reply::new(StatusCode::OK, JSON, body.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_well_formed_change_is_taken() {
        assert_eq!(read(br#"{"advance_ms":600000}"#), Ok(Change::Advance(Duration::from_secs(600))));
        assert_eq!(read(br#"{"advance_ms":0}"#), Ok(Change::Advance(Duration::ZERO)));
        assert_eq!(read(br#"{"freeze":true}"#), Ok(Change::Freeze(true)));
        for wrong in [
            r#"{"advance_ms":-1}"#,
            r#"{"advance_ms":1.5}"#,
            r#"{"advance_ms":"1"}"#,
            r#"{"advance_ms":18446744073709551615}"#,
            r#"{"freeze":1}"#,
            r#"{"freeze":true,"advance_ms":1}"#,
            r#"{"back":1}"#,
            "{}",
            "[]",
            "",
            "{",
        ] {
            assert!(read(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
