//! Encodings that front-ends share: dates, hex digits, forms, percent signs, JSON, XML, receipts, traces.
//!
//! None of them knows a request or a connection. `secret` compares what was decoded.

pub mod date;
pub mod form;
pub mod hex;
pub mod json;
pub mod percent;
pub mod receipt;
pub mod secret;
pub(crate) mod today;
pub(crate) mod trace;
pub mod xml;
