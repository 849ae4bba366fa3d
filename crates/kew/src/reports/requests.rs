//! Requests that ended, as debug lines of the areas of their dialects: whether a client reaches the server at all, what
//! it asks for, and what it is refused for.
//!
//! A line holds what the access log does not hide either: never a body, a header or a secret.

use kew_http::{Exchange, Witness};

use crate::log::{Area, Level, Log};

/// Writes a line for each request of the areas whose level is debug.
pub(crate) struct RequestLines(Log);

impl RequestLines {
    /// None where no area asks for them: then nothing is noted of requests.
    pub(crate) fn start(log: Log) -> Option<Self> {
        let is_asked_for = |area: &Area| log.of(*area).is_asked_for(Level::Debug);
        Area::OF_REQUESTS.iter().any(is_asked_for).then_some(Self(log))
    }
}

impl Witness for RequestLines {
    fn note(&self, exchange: Exchange) {
        let log = self.0.of(area(exchange.subject.dialect));
        if log.is_asked_for(Level::Debug) {
            tell(log, &exchange);
        }
    }
}

/// What no dialect has taken is about HTTP.
fn area(dialect: &str) -> Area {
    let known = Area::OF_REQUESTS.into_iter().find(|area| area.name() == dialect);
    known.unwrap_or(Area::Http)
}

fn tell(log: Log, exchange: &Exchange) {
    let subject = &exchange.subject;
    let status = exchange.status.map(|status| status.to_string()).unwrap_or_default();
    let duration = format!("{:.3}", exchange.took.as_secs_f64() * 1_000.0);
    let (id, client) = (exchange.id.to_string(), exchange.client.to_string());
    let fields = [
        ("operation", subject.operation.unwrap_or("unknown")),
        ("queue", subject.queue.as_deref().unwrap_or_default()),
        ("status", &status),
        ("error", subject.error.as_deref().unwrap_or_default()),
        ("duration_ms", &duration),
        ("request_id", &id),
        ("client", &client),
        ("key_id", subject.key.as_deref().unwrap_or_default()),
    ];
    let fields: Vec<(&str, &str)> = fields.into_iter().filter(|(_, value)| !value.is_empty()).collect();
    let line = match exchange.status {
        None => "a request was given up by its client",
        Some(400..) => "a request was refused",
        Some(_) => "a request was answered",
    };
    log.tell(Level::Debug, line, &fields);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::{Format, Levels};

    #[test]
    fn requests_are_noted_where_some_area_asks_for_them_and_each_in_its_own() {
        let asked = |levels: &str| {
            let levels = Levels::read(levels).expect("the test writes levels");
            RequestLines::start(Log::new(Format::Text, levels)).is_some()
        };
        assert!(asked("debug") && asked("azure=debug") && asked("warn,http=debug"));
        assert!(!asked("info") && !asked("push=debug,store=debug"));
        assert_eq!(
            ["sqs", "azure", "cloudflare", "admin", "", "other"].map(area).map(Area::name),
            ["sqs", "azure", "cloudflare", "admin", "http", "http"]
        );
    }
}
