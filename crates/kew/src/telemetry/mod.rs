//! Export to an OpenTelemetry collector: spans of requests and deliveries, metrics, and the log, as OTLP in JSON over
//! HTTP. It is on when an endpoint is set in the usual `OTEL_…` variables, and then only.
//!
//! Requests and deliveries leave a span in a bounded queue, lines of the log likewise; a thread of its own posts them
//! every second. What finds a queue full, or is not taken by the collector, is given up and counted. `settings` reads
//! the variables, `encode` writes the JSON, `figures` turns the text of `/metrics` into it, `export` is the thread.

mod encode;
mod export;
mod figures;
mod settings;

pub use export::{Exporter, Spans, start};
pub use settings::{TelemetryError, TelemetrySettings};

use kew_core::Timestamp;
use kew_http::TraceContext;

/// What the operator should know of the export.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Report<'a> {
    /// A protocol was asked for that is not spoken.
    OtherProtocol(&'a str),
    /// The collector takes nothing of one kind.
    Fails {
        /// The kind, as metrics name it.
        what: &'static str,
        /// Its host.
        host: &'a str,
        /// Why.
        cause: &'a str,
    },
    /// It takes this kind again.
    Recovered {
        /// The kind, as metrics name it.
        what: &'static str,
    },
}

/// What a span was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// A request that was answered.
    Server,
    /// A batch that was brought to a target.
    Client,
}

/// A span that has ended.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Span {
    /// Its place.
    pub(crate) own: TraceContext,
    /// The span it is part of.
    pub(crate) parent: Option<u64>,
    /// Other places that it belongs to.
    pub(crate) links: Vec<TraceContext>,
    /// What it did.
    pub(crate) name: String,
    /// What it was.
    pub(crate) kind: Kind,
    /// When it began, by the machine's clock.
    pub(crate) began: Timestamp,
    /// How long it took.
    pub(crate) took: std::time::Duration,
    /// Whether it failed, and how.
    pub(crate) failure: Option<String>,
    /// More about it.
    pub(crate) attributes: Vec<(&'static str, Value)>,
}

/// The value of an attribute.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Value {
    /// A text.
    Text(String),
    /// A number.
    Number(u64),
}

/// A line of the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// When.
    pub at: Timestamp,
    /// How much it matters: its name, and OpenTelemetry's number of it.
    pub severity: (&'static str, u8),
    /// What it says.
    pub message: String,
    /// Its area and fields.
    pub attributes: Vec<(String, String)>,
}
