//! The account's settings of this service, and how far its secondary endpoint is.

use kew_core::command::PutDocuments;
use kew_http::xml::{self, Element, Writer};
use kew_http::{Reply, StatusCode};

use crate::documents::{self, CorsRule, Logging, Metrics};
use crate::error::{Code, WireError};
use crate::{Context, encode, limits};

pub(crate) async fn properties(cx: &Context<'_>) -> Result<Reply, WireError> {
    let properties = documents::service_properties(cx.engine, cx.account).await?;
    let mut out = encode::document();
    out.open("StorageServiceProperties");
    push_logging(&mut out, &properties.logging);
    push_metrics(&mut out, "HourMetrics", &properties.hour_metrics);
    push_metrics(&mut out, "MinuteMetrics", &properties.minute_metrics);
    push_cors(&mut out, &properties.cors);
    out.close("StorageServiceProperties");
    Ok(encode::xml(StatusCode::OK, out, cx.request))
}

/// What the body leaves out stays as it is.
pub(crate) async fn set_properties(cx: &Context<'_>) -> Result<Reply, WireError> {
    let root = xml::parse(&cx.request.body, xml::Bounds::default())
        .map_err(|_| WireError::new(Code::InvalidXmlDocument))?;
    if root.name != "StorageServiceProperties" {
        return Err(Code::InvalidXmlDocument.into());
    }
    let mut properties = documents::service_properties(cx.engine, cx.account).await?;
    for part in &root.children {
        match part.name.as_str() {
            "Logging" => properties.logging = read_logging(part)?,
            "HourMetrics" => properties.hour_metrics = read_metrics(part)?,
            "MinuteMetrics" => properties.minute_metrics = read_metrics(part)?,
            "Cors" => properties.cors = read_cors(part)?,
            _ => {}
        }
    }
    let documents = vec![documents::put_service_properties(&properties)];
    cx.engine.put_documents(PutDocuments { account: cx.account.id, if_is: None, documents }).await?;
    Ok(encode::empty(StatusCode::ACCEPTED))
}

pub(crate) fn stats(cx: &Context<'_>) -> Result<Reply, WireError> {
    if !cx.target.is_secondary {
        let reason = "Only the secondary endpoint has statistics.";
        return Err(WireError::bad_parameter("comp", "stats", reason));
    }
    let mut out = encode::document();
    out.open("StorageServiceStats");
    out.open("GeoReplication");
    out.element("Status", "live");
    out.element("LastSyncTime", &encode::http_date(cx.now()));
    out.close("GeoReplication");
    out.close("StorageServiceStats");
    Ok(encode::xml(StatusCode::OK, out, cx.request))
}

fn push_logging(out: &mut Writer, logging: &Logging) {
    out.open("Logging");
    out.element("Version", "1.0");
    out.element("Delete", word(logging.delete));
    out.element("Read", word(logging.read));
    out.element("Write", word(logging.write));
    push_retention(out, logging.retention_days);
    out.close("Logging");
}

fn push_metrics(out: &mut Writer, name: &str, metrics: &Metrics) {
    out.open(name);
    out.element("Version", "1.0");
    out.element("Enabled", word(metrics.enabled));
    if let Some(include) = metrics.include_apis.filter(|_| metrics.enabled) {
        out.element("IncludeAPIs", word(include));
    }
    push_retention(out, metrics.retention_days);
    out.close(name);
}

fn push_retention(out: &mut Writer, days: Option<u32>) {
    out.open("RetentionPolicy");
    out.element("Enabled", word(days.is_some()));
    if let Some(days) = days {
        out.element("Days", &days.to_string());
    }
    out.close("RetentionPolicy");
}

fn push_cors(out: &mut Writer, rules: &[CorsRule]) {
    if rules.is_empty() {
        out.empty("Cors");
        return;
    }
    out.open("Cors");
    for rule in rules {
        out.open("CorsRule");
        out.element("AllowedOrigins", &rule.origins);
        out.element("AllowedMethods", &rule.methods);
        out.element("AllowedHeaders", &rule.headers);
        out.element("ExposedHeaders", &rule.exposed);
        out.element("MaxAgeInSeconds", &rule.max_age_seconds.to_string());
        out.close("CorsRule");
    }
    out.close("Cors");
}

fn word(flag: bool) -> &'static str {
    if flag { "true" } else { "false" }
}

fn text<'e>(element: &'e Element, name: &str) -> Result<&'e str, WireError> {
    element.child(name).map(|child| child.text.trim()).ok_or_else(|| Code::InvalidXmlDocument.into())
}

fn read_flag(element: &Element, name: &'static str) -> Result<bool, WireError> {
    match text(element, name)?.to_ascii_lowercase().as_str() {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        other => Err(WireError::bad_node(name, other)),
    }
}

fn read_logging(element: &Element) -> Result<Logging, WireError> {
    text(element, "Version")?;
    Ok(Logging {
        delete: read_flag(element, "Delete")?,
        read: read_flag(element, "Read")?,
        write: read_flag(element, "Write")?,
        retention_days: read_retention(element)?,
    })
}

fn read_metrics(element: &Element) -> Result<Metrics, WireError> {
    text(element, "Version")?;
    let enabled = read_flag(element, "Enabled")?;
    let include_apis = match element.child("IncludeAPIs") {
        Some(_) => Some(read_flag(element, "IncludeAPIs")?),
        None if enabled => return Err(Code::InvalidXmlDocument.into()),
        None => None,
    };
    Ok(Metrics { enabled, include_apis, retention_days: read_retention(element)? })
}

/// Days are asked for when something is deleted at all.
fn read_retention(element: &Element) -> Result<Option<u32>, WireError> {
    let Some(policy) = element.child("RetentionPolicy") else { return Ok(None) };
    if !read_flag(policy, "Enabled")? {
        return Ok(None);
    }
    let days = text(policy, "Days")?;
    match days.parse() {
        Ok(number) if limits::RETENTION_DAYS.contains(&number) => Ok(Some(number)),
        Ok(_) | Err(_) => Err(WireError::bad_node("Days", days)),
    }
}

fn read_cors(element: &Element) -> Result<Vec<CorsRule>, WireError> {
    let rules: Vec<CorsRule> = element.children.iter().map(read_rule).collect::<Result<_, _>>()?;
    if rules.len() > limits::CORS_RULES { Err(Code::InvalidXmlDocument.into()) } else { Ok(rules) }
}

fn read_rule(element: &Element) -> Result<CorsRule, WireError> {
    const METHODS: [&str; 8] = ["DELETE", "GET", "HEAD", "MERGE", "POST", "OPTIONS", "PUT", "PATCH"];
    if element.name != "CorsRule" {
        return Err(Code::InvalidXmlDocument.into());
    }
    let methods = text(element, "AllowedMethods")?;
    let is_method = |word: &str| METHODS.contains(&word.trim().to_ascii_uppercase().as_str());
    if methods.is_empty() || !methods.split(',').all(is_method) {
        return Err(WireError::bad_node("AllowedMethods", methods));
    }
    let origins = text(element, "AllowedOrigins")?;
    if origins.is_empty() {
        return Err(WireError::bad_node("AllowedOrigins", origins));
    }
    let age = text(element, "MaxAgeInSeconds")?;
    let list = |name: &str| element.child(name).map(|child| child.text.trim().to_owned()).unwrap_or_default();
    Ok(CorsRule {
        origins: origins.to_owned(),
        methods: methods.to_owned(),
        headers: list("AllowedHeaders"),
        exposed: list("ExposedHeaders"),
        max_age_seconds: age.parse().map_err(|_| WireError::bad_node("MaxAgeInSeconds", age))?,
    })
}
