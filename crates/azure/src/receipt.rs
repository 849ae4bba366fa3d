//! Pop receipts, and what Azure says of one that never was any.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kew_core::LeaseToken;

use crate::error::WireError;

pub(crate) use kew_http::receipt::text;

/// The token in a receipt; `None` in one that Kew never gave out. Only what is not Base64 is refused for its form: the
/// service tells of any other by the queue and the message that are asked about.
pub(crate) fn read(text: &str) -> Result<Option<LeaseToken>, WireError> {
    let token = kew_http::receipt::read(text);
    if token.is_none() && STANDARD.decode(text).is_err() {
        return Err(WireError::bad_parameter("popreceipt", text, "Invalid pop receipt format"));
    }
    Ok(token)
}
