//! `/api/v1/clock`: the virtual clock, moved by tests, followed by programs that live by it; and
//! `/api/v1/clock/confirm`, where a person says that a clock that leapt is right.

use std::sync::Arc;
use std::time::{Duration, Instant};

use kew_core::Timestamp;
use kew_engine::{ClockState, Engine, EngineError};
use kew_http::{HeaderValue, Method, Reply, Request, StatusCode};
use serde_json::{Map, Value, json};

use crate::board::{Board, Phase, Running};
use crate::followers::{Followers, News};

/// The longest jump: ten years.
const ADVANCE_MAX_MS: u64 = 3_653 * 86_400_000;
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// A jump that has taken so long in real time stops for nothing that happens here any more,
const OWN_STOPS_WITHIN: Duration = Duration::from_secs(5);
/// and after this for nothing at all.
const STOPS_WITHIN: Duration = Duration::from_secs(20);
/// Maximum rounds of news to followers at one stop.
const ANSWERS_AT_A_STOP: u32 = 100;
/// Maximum times in a row that a step of time is put off because a receive was answered after the last news.
const PUT_OFF_MAX: u32 = 10;
/// Bytes of a follower's name.
const NAME_BYTES_MAX: usize = 64;

/// What may be asked of the clock.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Asked {
    Advance(Duration),
    Freeze(bool),
    /// Waits for the next change: who follows, which change was the last heard of, when something is due.
    Follow {
        id: String,
        heard: u64,
        due: Option<Timestamp>,
    },
}

/// Shows the clock, or moves it first.
pub(crate) async fn answer(board: &Board, followers: &Followers, request: &Request) -> Result<Reply, Reply> {
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
            let asked = read(&request.body).map_err(|why| Reply::text(StatusCode::BAD_REQUEST, &why))?;
            if let Asked::Follow { id, heard, due } = &asked {
                let news = followers.hear(id, *heard, *due).await;
                let too_many = || Reply::text(StatusCode::SERVICE_UNAVAILABLE, "too many follow the clock");
                return Ok(told(running.engine.clock_state(), news.ok_or_else(too_many)?));
            }
            let moved = apply(&running, followers, &asked).await;
            moved.map(shown).map_err(|why| Reply::text(StatusCode::SERVICE_UNAVAILABLE, &why))
        }
        _ => Err(Reply::text(StatusCode::METHOD_NOT_ALLOWED, "only GET, HEAD and POST are allowed here")),
    }
}

/// Whether a request only waits for the clock's next change. `is_clock` says that it was sent to the clock.
pub(crate) fn is_follower(is_clock: bool, body: &[u8]) -> bool {
    is_clock && matches!(read(body), Ok(Asked::Follow { .. }))
}

/// Lets expiry go on that a leap of the clock holds, if one does.
pub(crate) async fn confirm(board: &Board) -> Result<Reply, Reply> {
    let Phase::Serving(running) = board.phase() else {
        return Err(Reply::text(StatusCode::SERVICE_UNAVAILABLE, "the server is not serving"));
    };
    let engines: Vec<Arc<Engine>> = running.engines().cloned().collect();
    let asked = running.home.spawn(async move {
        let mut confirmed = false;
        for engine in engines {
            confirmed |= engine.confirm_clock().await?;
        }
        Ok::<_, EngineError>(confirmed)
    });
    let asked = asked.await;
    let unavailable = |why: &str| Reply::text(StatusCode::SERVICE_UNAVAILABLE, why);
    match asked {
        Ok(Ok(confirmed)) => {
            Ok(Reply::new(StatusCode::OK, JSON, json!({ "confirmed": confirmed }).to_string()))
        }
        Ok(Err(error)) => Err(unavailable(&error.to_string())),
        Err(_) => Err(unavailable("the server is stopping")),
    }
}

async fn apply(running: &Running, followers: &Followers, asked: &Asked) -> Result<ClockState, String> {
    let _moving = followers.begin().await;
    let state = match asked {
        Asked::Advance(by) => return advance(running, followers, *by).await,
        Asked::Freeze(frozen) => freeze(running, *frozen).await?,
        Asked::Follow { .. } => running.engine.clock_state(),
    };
    followers.tell(true).await;
    Ok(state)
}

/// A jump, with a stop at each instant at which a follower has something due. While there are followers, also at each
/// at which something happens here, so that they meet it then and not at the end of the jump.
async fn advance(running: &Running, followers: &Followers, by: Duration) -> Result<ClockState, String> {
    let mut left = by;
    let begun = Instant::now();
    let held = running.engine.hold_time();
    // Receives that were answered before the last news to followers.
    let mut told = step(running, Duration::ZERO, None).await?.answered;
    // Followers at work finish first, and say what is due next.
    followers.tell(true).await;
    let (mut is_quiet, mut put_off) = (true, 0);
    loop {
        let now = running.engine.clock_state().now;
        let took = begun.elapsed();
        let own = || if took < OWN_STOPS_WITHIN { running.engine.next_turn() } else { Timestamp::NEVER };
        let due = followers.first_due(own).filter(|_| took < STOPS_WITHIN);
        // Something that stays due moves on by the least there is.
        let to_due = due.map(|due| due.since(now).max(Duration::from_millis(1)));
        let length = to_due.map_or(left, |to_due| to_due.min(left));
        // A follower whose receive was answered since may have something due earlier. Time waits until it says so.
        let may_wait = due.is_some() && is_quiet && put_off < PUT_OFF_MAX;
        let stepped = step(running, length, may_wait.then_some(told)).await?;
        if stepped.moved {
            left = left.saturating_sub(length);
            put_off = 0;
        } else {
            put_off += 1;
        }
        is_quiet = tell(running, followers, &mut told, stepped.answered).await?;
        if left.is_zero() {
            break;
        }
    }
    // Now that everybody has done what was due, time runs again for all.
    drop(held);
    let state = running.engine.clock_state();
    followers.tell(false).await;
    Ok(state)
}

/// Tells the followers of a stop. A poll that one of them sends again may be answered at once: followers get that news
/// too, before time goes on. `told` is how many receives were answered before the last news. Returns whether none was
/// answered since.
async fn tell(
    running: &Running,
    followers: &Followers,
    told: &mut u64,
    mut answered: u64,
) -> Result<bool, String> {
    for _again in 0..ANSWERS_AT_A_STOP {
        followers.tell(answered != *told).await;
        *told = answered;
        // What has arrived by now is answered.
        answered = step(running, Duration::ZERO, None).await?.answered;
        if answered == *told {
            return Ok(true);
        }
    }
    Ok(false)
}

struct Stepped {
    moved: bool,
    /// How many receives were answered so far. Read on the engine's loop, where a receive is counted and its answer
    /// written in one turn: the answers have left before any news of them.
    answered: u64,
}

/// Moves time on, unless more receives than `only_at` were answered by then.
async fn step(running: &Running, by: Duration, only_at: Option<u64>) -> Result<Stepped, String> {
    let engine = Arc::clone(&running.engine);
    on_its_loop(running, async move {
        let answered = || engine.stats().answered_receives.value();
        let moved = engine.advance_if(by, || only_at.is_none_or(|told| answered() == told)).await?;
        Ok(Stepped { moved, answered: answered() })
    })
    .await
}

async fn freeze(running: &Running, frozen: bool) -> Result<ClockState, String> {
    let engine = Arc::clone(&running.engine);
    on_its_loop(running, async move { engine.freeze(frozen).await }).await
}

/// On the engine's own loop: a jump lets everybody there finish before time goes on.
async fn on_its_loop<T: Send + 'static>(
    running: &Running,
    moved: impl Future<Output = Result<T, EngineError>> + Send + 'static,
) -> Result<T, String> {
    match running.home.spawn(moved).await {
        Ok(moved) => moved.map_err(|error| error.to_string()),
        Err(_) => Err("the server is stopping".to_owned()),
    }
}

fn read(body: &[u8]) -> Result<Asked, String> {
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
            millis.map(|millis| Asked::Advance(Duration::from_millis(millis))).ok_or_else(allowed)
        }
        (Some((name, value)), None) if name == "freeze" => {
            value.as_bool().map(Asked::Freeze).ok_or_else(|| "freeze must be true or false".to_owned())
        }
        (Some((name, Value::Object(follower))), None) if name == "follow" => {
            let id = follower.get("id").and_then(Value::as_str).filter(|id| id.len() <= NAME_BYTES_MAX);
            let heard = follower.get("change").and_then(Value::as_u64);
            let due = match follower.get("due_ms") {
                None | Some(Value::Null) => Some(None),
                Some(due) => due.as_u64().map(|due| Some(Timestamp(due))),
            };
            let asked = id.zip(heard).zip(due);
            let asked = asked.map(|((id, heard), due)| Asked::Follow { id: id.to_owned(), heard, due });
            asked.ok_or_else(|| "follow must be {\"id\":text,\"change\":N,\"due_ms\":N|null}".to_owned())
        }
        (_, _) => Err(expected.to_owned()),
    }
}

fn shown(state: ClockState) -> Reply {
    let body = json!({ "now_ms": state.now.0, "offset_ms": state.offset_millis, "frozen": state.frozen });
    Reply::new(StatusCode::OK, JSON, body.to_string())
}

/// The news for a follower: for it the clock also stands between the stops of a jump.
fn told(state: ClockState, news: News) -> Reply {
    let body = json!({
        "now_ms": state.now.0,
        "offset_ms": state.offset_millis,
        "frozen": state.stands,
        "change": news.change,
        "answered": news.answered,
    });
    Reply::new(StatusCode::OK, JSON, body.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_well_formed_change_is_taken() {
        assert_eq!(read(br#"{"advance_ms":600000}"#), Ok(Asked::Advance(Duration::from_secs(600))));
        assert_eq!(read(br#"{"advance_ms":0}"#), Ok(Asked::Advance(Duration::ZERO)));
        assert_eq!(read(br#"{"freeze":true}"#), Ok(Asked::Freeze(true)));
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
