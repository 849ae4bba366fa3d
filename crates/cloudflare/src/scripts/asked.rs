//! What calls with small bodies or queries ask for.

use std::collections::BTreeMap;
use std::time::Duration;

use kew_http::{Request, form};
use kew_push::workers::{LogPlace, Remarks};
use serde::Deserialize;

use super::unfit;
use crate::decode::object;
use crate::error::{Code, WireError};

/// The longest that a call for a Worker's log waits for the next line.
const LOG_WAIT_MAX: u64 = 30;
/// More than such a call has.
const PAIRS_MAX: usize = 10;

/// Whether a Worker has an address of its own.
#[derive(Deserialize)]
pub(super) struct Subdomain {
    pub(super) enabled: bool,
    pub(super) previews_enabled: Option<bool>,
}

/// New texts of secrets by their names; none for one that goes.
#[derive(Deserialize)]
pub(super) struct SecretChanges {
    pub(super) secrets: BTreeMap<String, Option<NewSecret>>,
}

#[derive(Deserialize)]
pub(super) struct NewSecret {
    pub(super) text: String,
}

/// A cron trigger.
#[derive(Deserialize)]
pub(super) struct Schedule {
    pub(super) cron: String,
}

/// One secret.
#[derive(Deserialize)]
pub(super) struct Secret {
    pub(super) name: String,
    pub(super) text: String,
    #[serde(rename = "type")]
    pub(super) kind: String,
}

/// What is said of a version or a deployment.
#[derive(Default, Deserialize)]
pub(super) struct Annotations {
    #[serde(rename = "workers/message")]
    message: Option<String>,
    #[serde(rename = "workers/tag")]
    tag: Option<String>,
}

impl From<Annotations> for Remarks {
    fn from(annotations: Annotations) -> Self {
        Self { message: annotations.message, tag: annotations.tag }
    }
}

#[derive(Deserialize)]
struct Deployment {
    versions: Vec<DeployedVersion>,
    annotations: Option<Annotations>,
}

#[derive(Deserialize)]
struct DeployedVersion {
    version_id: String,
    percentage: Option<f64>,
}

/// The version that shall run, and what is said of that.
pub(super) fn deployment(request: &Request) -> Result<(String, Remarks), WireError> {
    let Deployment { versions, annotations } = object(&request.body)?;
    let [DeployedVersion { version_id, percentage }] = versions.as_slice() else {
        return Err(unfit("A deployment here is of exactly one version at 100 percent"));
    };
    if percentage.is_some_and(|share| share < 100.0) {
        return Err(unfit("A deployment here is of exactly one version at 100 percent"));
    }
    Ok((version_id.clone(), annotations.unwrap_or_default().into()))
}

/// Which lines of a log are wanted: those after this place, if it is given, and how long the first may take.
pub(super) fn log(request: &Request) -> Result<(Option<LogPlace>, Duration), WireError> {
    log_query(request.uri.query().unwrap_or_default())
}

fn log_query(query: &str) -> Result<(Option<LogPlace>, Duration), WireError> {
    let wrong = |text: String| WireError::new(Code::Schema).saying(text);
    let pairs = form::pairs(query.as_bytes(), PAIRS_MAX).map_err(|error| wrong(error.to_string()))?;
    let given = |name: &'static str| form::first(&pairs, name).filter(|text| !text.is_empty());
    let whole =
        |text: &str| text.parse::<u64>().map_err(|_| wrong("wait must be a whole number from 0".to_owned()));
    let wait: u64 = given("wait").map(whole).transpose()?.unwrap_or_default().min(LOG_WAIT_MAX);
    let place = |text: &str| {
        text.parse().map_err(|_| wrong("after must be 0, or what the reply before said as last".to_owned()))
    };
    Ok((given("after").map(place).transpose()?, Duration::from_secs(wait)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_asked_for_after_a_line_and_for_a_bounded_time() {
        let secs = Duration::from_secs;
        for (query, expected) in [
            ("", (None, secs(0))),
            ("after=7&wait=5", (Some(LogPlace::Number(7)), secs(5))),
            ("after=0", (Some(LogPlace::Number(0)), secs(0))),
            ("after=n.eyJhIjo3fQ", (Some(LogPlace::Nodes([("a".to_owned(), 7)].into())), secs(0))),
            ("wait=86400&other=1", (None, secs(30))),
        ] {
            assert_eq!(log_query(query).map_err(|error| error.code()), Ok(expected), "{query}");
        }
        for query in ["after=-1", "after=last", "wait=1.5"] {
            assert_eq!(log_query(query).map_err(|error| error.code()), Err(Code::Schema), "{query}");
        }
    }
}
