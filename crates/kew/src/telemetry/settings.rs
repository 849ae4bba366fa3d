//! Where to export to, from the variables that OpenTelemetry names.

use std::time::Duration;

use kew_http::{HeaderName, HeaderValue, Uri, percent};

/// How often metrics are exported, unless said otherwise.
const METRICS_EVERY: Duration = Duration::from_secs(60);
/// How long one post may take, unless said otherwise.
const WITHIN: Duration = Duration::from_secs(10);

/// Where and how.
#[derive(Clone, Debug)]
pub struct TelemetrySettings {
    /// Where spans are posted, if anywhere.
    pub(super) traces: Option<Uri>,
    /// Where metrics are.
    pub(super) metrics: Option<Uri>,
    /// Where lines of the log are.
    pub(super) logs: Option<Uri>,
    /// Headers of each post; their values may be secrets.
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    /// What this server is called.
    pub(super) service: String,
    /// How often metrics are exported.
    pub(super) metrics_every: Duration,
    /// How long one post may take.
    pub(super) within: Duration,
    /// A protocol that was asked for and is not spoken.
    pub(super) other_protocol: Option<String>,
}

/// A variable that says nothing.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the variable {name} must be {allowed}")]
pub struct TelemetryError {
    name: &'static str,
    allowed: &'static str,
}

impl TelemetrySettings {
    /// The settings, if an endpoint is set. `variable` looks an environment variable up.
    pub fn read(variable: &dyn Fn(&str) -> Option<String>) -> Result<Option<Self>, TelemetryError> {
        let set = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        let base = set("OTEL_EXPORTER_OTLP_ENDPOINT");
        if set("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            return Ok(None);
        }
        let of = |own: &'static str, exporter: &str, path: &str| {
            if set(exporter).is_some_and(|value| value == "none") {
                return Ok(None);
            }
            match (set(own), &base) {
                (Some(whole), _) => uri(&whole, own).map(Some),
                (None, Some(base)) => {
                    let text = format!("{}/v1/{path}", base.trim_end_matches('/'));
                    uri(&text, "OTEL_EXPORTER_OTLP_ENDPOINT").map(Some)
                }
                (None, None) => Ok(None),
            }
        };
        let traces = of("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_TRACES_EXPORTER", "traces")?;
        let metrics = of("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "OTEL_METRICS_EXPORTER", "metrics")?;
        let logs = of("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "OTEL_LOGS_EXPORTER", "logs")?;
        if traces.is_none() && metrics.is_none() && logs.is_none() {
            return Ok(None);
        }
        let protocol = set("OTEL_EXPORTER_OTLP_PROTOCOL");
        Ok(Some(Self {
            traces,
            metrics,
            logs,
            headers: headers(&set("OTEL_EXPORTER_OTLP_HEADERS").unwrap_or_default())?,
            service: set("OTEL_SERVICE_NAME").unwrap_or_else(|| "kew".to_owned()),
            metrics_every: millis(
                set("OTEL_METRIC_EXPORT_INTERVAL"),
                METRICS_EVERY,
                "OTEL_METRIC_EXPORT_INTERVAL",
            )?,
            within: millis(set("OTEL_EXPORTER_OTLP_TIMEOUT"), WITHIN, "OTEL_EXPORTER_OTLP_TIMEOUT")?,
            other_protocol: protocol.filter(|protocol| protocol != "http/json"),
        }))
    }
}

fn uri(text: &str, name: &'static str) -> Result<Uri, TelemetryError> {
    let uri: Option<Uri> = text.parse().ok();
    let is_web = |uri: &Uri| matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some();
    uri.filter(is_web).ok_or(TelemetryError { name, allowed: "an http or https URL" })
}

/// `name=value,name=value`, the values percent-encoded.
fn headers(text: &str) -> Result<Vec<(HeaderName, HeaderValue)>, TelemetryError> {
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=')?;
        let value = percent::decode(value.trim().as_bytes()).ok()?;
        let mut value = HeaderValue::from_str(&value).ok()?;
        value.set_sensitive(true);
        Some((name.trim().parse().ok()?, value))
    };
    let pairs = text.split(',').filter(|text| !text.trim().is_empty()).map(pair);
    let all: Option<Vec<_>> = pairs.collect();
    all.ok_or(TelemetryError {
        name: "OTEL_EXPORTER_OTLP_HEADERS",
        allowed: "name=value, several with commas between",
    })
}

fn millis(text: Option<String>, usual: Duration, name: &'static str) -> Result<Duration, TelemetryError> {
    let Some(text) = text else { return Ok(usual) };
    let millis = text.trim().parse::<u64>().ok().filter(|millis| (1..=86_400_000).contains(millis));
    let millis =
        millis.ok_or(TelemetryError { name, allowed: "a number of milliseconds from 1 to 86400000" })?;
    Ok(Duration::from_millis(millis))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Option<TelemetrySettings>, String> {
        let variable = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        TelemetrySettings::read(&variable).map_err(|error| error.to_string())
    }

    #[test]
    fn without_an_endpoint_nothing_is_exported() {
        assert!(read(&[]).is_ok_and(|settings| settings.is_none()));
        assert!(read(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "")]).is_ok_and(|settings| settings.is_none()));
        let off = [("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318"), ("OTEL_SDK_DISABLED", "true")];
        assert!(read(&off).is_ok_and(|settings| settings.is_none()));
    }

    #[test]
    fn an_endpoint_is_for_all_signals_unless_one_has_its_own_or_none() {
        let settings = read(&[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318/base/"),
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://t/all"),
            ("OTEL_LOGS_EXPORTER", "none"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%20b, x=y"),
            ("OTEL_METRIC_EXPORT_INTERVAL", "250"),
        ]);
        let settings = settings.expect("the variables are valid").expect("an endpoint is set");
        let text = |uri: &Option<Uri>| uri.as_ref().map(ToString::to_string);
        assert_eq!(text(&settings.traces).as_deref(), Some("https://t/all"));
        assert_eq!(text(&settings.metrics).as_deref(), Some("http://c:4318/base/v1/metrics"));
        assert_eq!((settings.logs, settings.metrics_every), (None, Duration::from_millis(250)));
        assert_eq!(settings.headers[0].1, "a b");
        assert!(!format!("{:?}", settings.headers).contains("a b"), "a header may be a secret");
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        for (name, value) in [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "secret"),
            ("OTEL_METRIC_EXPORT_INTERVAL", "soon"),
        ] {
            let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c");
            let told = read(&[(name, value), endpoint]).expect_err("the value is refused");
            assert!(told.contains(name) && !told.contains(value), "{told}");
        }
    }
}
