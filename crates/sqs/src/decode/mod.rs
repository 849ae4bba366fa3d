//! Bodies into requests: every member read, none interpreted.
//!
//! Texts are borrowed from the body where they hold no escapes. Unknown members are ignored, `null` counts as absent.
//! A form of the Query protocol becomes such a body first ([`query`]).

mod blob;
mod bounded;
mod names;
mod pairs;
pub(crate) mod query;
mod text;

use bytes::Bytes;
use serde::Deserialize;

use crate::error::{Code, WireError};
use crate::limits;

pub(crate) use blob::Blob;
pub(crate) use bounded::Bounded;
pub(crate) use names::{Names, within};
pub(crate) use pairs::Pairs;
pub(crate) use text::Text;

/// Reads a request's body; an empty one is an empty object.
pub(crate) fn read<'a, T: Deserialize<'a>>(body: &'a Bytes) -> Result<T, WireError> {
    let json: &[u8] = if body.is_empty() { b"{}" } else { body };
    if json.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'{') {
        return Err(WireError::new(Code::Serialization).saying("The request body is not a JSON object."));
    }
    // Once for the whole body, so that none of its texts is checked again.
    let json = std::str::from_utf8(json).map_err(|error| unreadable(&error))?;
    serde_json::from_str(json).map_err(|error| {
        if is_lone_surrogate(&error) {
            return WireError::new(Code::InvalidMessageContents).saying(limits::INVALID_CHARACTERS);
        }
        unreadable(&error)
    })
}

/// Half of a surrogate pair is a character that no message may hold, not a fault of the JSON.
fn is_lone_surrogate(error: &serde_json::Error) -> bool {
    // The parser tells it by its text alone; a test holds every form against it.
    let text = error.to_string();
    ["lone leading surrogate in hex escape", "unexpected end of hex escape"]
        .iter()
        .any(|told| text.starts_with(told))
}

fn unreadable(error: &dyn std::error::Error) -> WireError {
    WireError::new(Code::Serialization).saying(format!("The request body cannot be read: {error}."))
}
