//! A signed request says when it was made; one that is too old may have been overheard.

use kew_http::date;

use crate::Context;
use crate::error::WireError;

/// Refuses a request whose own date is too far from the machine's time, or that has none.
pub(super) fn check(cx: &Context<'_>) -> Result<(), WireError> {
    let text = cx.request.header("x-ms-date").or_else(|| cx.request.header("date"));
    let text = text.ok_or_else(|| WireError::not_authentic("The request has no date."))?;
    let at = date::parse_http_date(text).ok_or_else(|| {
        WireError::not_authentic(format!("The date is not written as RFC 1123 has it: '{text}'"))
    })?;
    let now = cx.settings.machine.now();
    if now.since(at) > cx.settings.skew {
        return Err(WireError::not_authentic(format!("Request date header too old: '{text}'")));
    }
    if at.since(now) > cx.settings.skew {
        return Err(WireError::not_authentic(format!("Request date header too far in the future: '{text}'")));
    }
    Ok(())
}
