//! Pop receipts: the bytes of a lease token in Base64.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kew_core::LeaseToken;

use crate::error::WireError;

/// Its text.
pub(crate) fn text(token: LeaseToken) -> String {
    STANDARD.encode(token.to_bytes())
}

/// The token in a receipt.
pub(crate) fn read(text: &str) -> Result<LeaseToken, WireError> {
    let bytes = STANDARD.decode(text).ok();
    let token = bytes.and_then(|bytes| LeaseToken::from_bytes(&bytes));
    token.ok_or_else(|| WireError::bad_parameter("popreceipt", text, "Invalid pop receipt format."))
}
