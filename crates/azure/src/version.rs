//! The version of the service a request was written for: any known one and any later, echoed as it came.

use kew_http::{FieldValue, HeaderValue, Request, date};

use crate::error::WireError;

/// The version that replies to requests without one show.
pub(crate) const NEWEST: HeaderValue = HeaderValue::from_static(NEWEST_TEXT);
const NEWEST_TEXT: &str = "2026-10-06";
const OLDEST: &str = "2009-04-14";
const HEADER: &str = "x-ms-version";

/// Refuses what is no version.
pub(crate) fn check(request: &Request) -> Result<(), WireError> {
    let Some(value) = request.headers.get(HEADER) else { return Ok(()) };
    let text = value.text().unwrap_or_default();
    if text.len() == 10 && date::parse_iso(text).is_some() && text >= OLDEST {
        return Ok(());
    }
    Err(WireError::bad_header(HEADER, text))
}

/// Whether a request was written for this version or a later one.
pub(crate) fn is_since(request: &Request, version: &str) -> bool {
    request.header(HEADER).is_some_and(|named| named >= version)
}

/// The version a request was written for, which is the newest where it names none.
pub(crate) fn text(request: &Request) -> &str {
    request.header(HEADER).unwrap_or(NEWEST_TEXT)
}

/// The version a request names, if it is one.
pub(crate) fn named(request: &Request) -> Option<FieldValue<'_>> {
    request.headers.get(HEADER).filter(|_| check(request).is_ok())
}
