//! Pop receipts, and what Azure says of one that never was any.

use kew_core::LeaseToken;

use crate::error::WireError;

pub(crate) use kew_http::receipt::text;

/// The token in a receipt.
pub(crate) fn read(text: &str) -> Result<LeaseToken, WireError> {
    let token = kew_http::receipt::read(text);
    token.ok_or_else(|| WireError::bad_parameter("popreceipt", text, "Invalid pop receipt format."))
}
