//! host.json: how the trigger behaves and which process answers, in the form with `"version": "2.0"` and in the older
//! one without a version.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use super::app_settings::AppSettings;
use super::encoding::Encoding;
use super::error::ProjectError;
use super::lenient::{Object, member};
use super::time_span;

const BATCH_SIZE_MAX: u64 = 32;
const POLLING_INTERVAL_MIN: Duration = Duration::from_millis(100);
const POLLING_INTERVAL: Duration = Duration::from_secs(60);
const POLLING_INTERVAL_OF_DEVELOPERS: Duration = Duration::from_secs(2);
const VISIBILITY_MAX: Duration = Duration::from_secs(7 * 86_400);
const RUN_WITHIN: Duration = Duration::from_secs(30 * 60);

/// How a queue trigger behaves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct QueueSettings {
    /// Messages asked for at once.
    pub(crate) batch_size: u32,
    /// Maximum messages in work at which new ones are received.
    pub(crate) new_batch_threshold: usize,
    /// The longest pause between polls.
    pub(crate) polling_interval_max: Duration,
    /// A message is tried so often, the first time included.
    pub(crate) dequeue_count_max: u32,
    /// How long a message stays hidden after a failed run.
    pub(crate) visibility_timeout: Duration,
    /// How texts are stored where a binding says nothing else.
    pub(crate) encoding: Encoding,
}

/// The handler's process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct HandlerSettings {
    pub(crate) executable: PathBuf,
    pub(crate) arguments: Vec<String>,
    pub(crate) directory: PathBuf,
}

/// What host.json says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct HostJson {
    pub(crate) queues: QueueSettings,
    pub(crate) handler: HandlerSettings,
    /// How long a run may take; `None` is as long as it likes.
    pub(crate) run_within: Option<Duration>,
    /// What its author should know.
    pub(crate) warnings: Vec<String>,
}

impl HostJson {
    /// Reads the file at `path` of the project in `root`.
    pub(crate) fn read(
        root: &Path,
        path: &Path,
        file: &Object,
        settings: &AppSettings,
        processors: usize,
    ) -> Result<Self, ProjectError> {
        let mut warnings = Vec::new();
        let reader = Reader { path, settings, processors };
        let (queues, key, form) = reader.queues(file, &mut warnings)?;
        let queues = reader.queue_settings(queues, key, form)?;
        let handler = reader.handler(root, file, &mut warnings)?;
        Ok(Self { queues, handler, run_within: reader.run_within(file)?, warnings })
    }
}

/// Which form a file has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Older,
    Current,
}

struct Reader<'a> {
    path: &'a Path,
    settings: &'a AppSettings,
    /// How many there are in this machine.
    processors: usize,
}

impl Reader<'_> {
    fn refuse(&self, key: &str, value: &Value, allowed: impl Into<String>) -> ProjectError {
        let path = self.path.to_owned();
        ProjectError::Setting { path, key: key.to_owned(), value: value.to_string(), allowed: allowed.into() }
    }

    fn shape(&self, fault: impl Into<String>) -> ProjectError {
        ProjectError::Shape { path: self.path.to_owned(), fault: fault.into() }
    }

    /// The section of queues, what it is called, and the file's form.
    fn queues<'a>(
        &self,
        file: &'a Object,
        warnings: &mut Vec<String>,
    ) -> Result<(Option<&'a Object>, &'static str, Form), ProjectError> {
        let Some(version) = member(file, "version") else {
            if member(file, "extensions").is_some() {
                let path = self.path.display();
                warnings.push(format!("{path} has no \"version\", so it is read in its older form and \"extensions\" is ignored; add \"version\": \"2.0\""));
            }
            return Ok((self.object(file, "queues", "queues")?, "queues", Form::Older));
        };
        if version.as_str() != Some("2.0") {
            return Err(self.refuse(
                "version",
                version,
                "it must be \"2.0\", or left out for the older form",
            ));
        }
        let extensions = self.object(file, "extensions", "extensions")?;
        let queues = match extensions {
            Some(extensions) => self.object(extensions, "queues", "extensions.queues")?,
            None => None,
        };
        Ok((queues, "extensions.queues", Form::Current))
    }

    fn object<'a>(
        &self,
        within: &'a Object,
        name: &str,
        key: &str,
    ) -> Result<Option<&'a Object>, ProjectError> {
        match member(within, name) {
            None => Ok(None),
            Some(Value::Object(object)) => Ok(Some(object)),
            Some(other) => Err(self.refuse(key, other, "it must be an object: { … }")),
        }
    }

    fn queue_settings(
        &self,
        queues: Option<&Object>,
        section: &str,
        form: Form,
    ) -> Result<QueueSettings, ProjectError> {
        let value = |name: &str| queues.and_then(|queues| member(queues, name));
        let key = |name: &str| format!("{section}.{name}");
        let number = |name: &str, allowed: &str, is_allowed: &dyn Fn(u64) -> bool| match value(name) {
            None => Ok(None),
            Some(written) => {
                let number =
                    whole(written).filter(|number| is_allowed(*number) && *number <= u64::from(u32::MAX));
                number.map(Some).ok_or_else(|| self.refuse(&key(name), written, allowed))
            }
        };
        let batch_size = number("batchSize", "BatchSize must be between 1 and 32.", &|number| {
            (1..=BATCH_SIZE_MAX).contains(&number)
        })?;
        let batch_size = batch_size.unwrap_or(16);
        let threshold = number("newBatchThreshold", "NewBatchThreshold must not be less than 0.", &|_| true)?;
        let dequeue =
            number("maxDequeueCount", "MaxDequeueCount must not be less than 1.", &|number| number >= 1)?;
        let interval = value("maxPollingInterval")
            .map(|written| self.polling_interval(&key("maxPollingInterval"), written, form))
            .transpose()?
            // A value that is the usual one is no choice of somebody's.
            .filter(|interval| *interval != POLLING_INTERVAL);
        let visibility = value("visibilityTimeout")
            .map(|written| self.visibility_timeout(&key("visibilityTimeout"), written));
        let encoding = value("messageEncoding").map(|written| {
            written.as_str().and_then(Encoding::read).ok_or_else(|| {
                self.refuse(&key("messageEncoding"), written, "MessageEncoding must be base64 or none.")
            })
        });
        Ok(QueueSettings {
            batch_size: u32::try_from(batch_size).unwrap_or(16),
            new_batch_threshold: threshold.map_or_else(
                || self.usual_threshold(batch_size),
                |number| usize::try_from(number).unwrap_or(usize::MAX),
            ),
            polling_interval_max: interval.unwrap_or_else(|| self.usual_polling_interval()),
            dequeue_count_max: u32::try_from(dequeue.unwrap_or(5)).unwrap_or(u32::MAX),
            visibility_timeout: visibility.transpose()?.unwrap_or_default(),
            encoding: encoding.transpose()?.unwrap_or(Encoding::Base64),
        })
    }

    fn visibility_timeout(&self, key: &str, written: &Value) -> Result<Duration, ProjectError> {
        let span = written.as_str().and_then(time_span::parse).filter(|span| *span <= VISIBILITY_MAX);
        let allowed = "VisibilityTimeout must be a time span (hh:mm:ss) between 00:00:00 and 7.00:00:00.";
        span.ok_or_else(|| self.refuse(key, written, allowed))
    }

    /// A time span; in the older form milliseconds.
    fn polling_interval(&self, key: &str, written: &Value, form: Form) -> Result<Duration, ProjectError> {
        let (interval, shape) = match form {
            Form::Current => (written.as_str().and_then(time_span::parse), "a time span (hh:mm:ss)"),
            Form::Older => (whole(written).map(Duration::from_millis), "a whole number of milliseconds"),
        };
        // A negative number of milliseconds is one that is too small.
        let is_negative = form == Form::Older && written.as_i64().is_some_and(|number| number < 0);
        match interval {
            Some(interval) if interval >= POLLING_INTERVAL_MIN => Ok(interval),
            None if !is_negative => {
                Err(self.refuse(key, written, format!("MaxPollingInterval must be {shape}.")))
            }
            _ => Err(self.refuse(key, written, "MaxPollingInterval must not be less than 00:00:00.1000000.")),
        }
    }

    /// Half a batch for each processor; for one where the plan shares its machines, as `QueuesOptions` of
    /// WebJobs.Extensions.Storage.Queues has it.
    fn usual_threshold(&self, batch_size: u64) -> usize {
        let is_shared =
            self.settings.get("WEBSITE_SKU").is_some_and(|sku| sku.eq_ignore_ascii_case("Dynamic"));
        let processors = if is_shared { 1 } else { self.processors };
        usize::try_from(batch_size / 2).unwrap_or(usize::MAX).saturating_mul(processors)
    }

    fn usual_polling_interval(&self) -> Duration {
        let environment = self.settings.get("AZURE_FUNCTIONS_ENVIRONMENT");
        if environment.is_some_and(|name| name.eq_ignore_ascii_case("Development")) {
            POLLING_INTERVAL_OF_DEVELOPERS
        } else {
            POLLING_INTERVAL
        }
    }

    fn run_within(&self, file: &Object) -> Result<Option<Duration>, ProjectError> {
        let Some(written) = member(file, "functionTimeout") else { return Ok(Some(RUN_WITHIN)) };
        if written.as_str() == Some("-1") || written.as_i64() == Some(-1) {
            return Ok(None);
        }
        let span = written.as_str().and_then(time_span::parse).filter(|span| !span.is_zero());
        span.map(Some).ok_or_else(|| {
            self.refuse(
                "functionTimeout",
                written,
                "it must be a time span (hh:mm:ss) above zero, or -1 for none.",
            )
        })
    }

    fn handler(
        &self,
        root: &Path,
        file: &Object,
        warnings: &mut Vec<String>,
    ) -> Result<HandlerSettings, ProjectError> {
        let current = self.object(file, "customHandler", "customHandler")?;
        let older = self.object(file, "httpWorker", "httpWorker")?;
        let (section, key) = match (current, older) {
            (Some(current), _) => (Some(current), "customHandler"),
            (None, Some(older)) => {
                let path = self.path.display();
                warnings.push(format!(
                    "{path}: the section \"httpWorker\" is outdated; rename it to \"customHandler\""
                ));
                (Some(older), "httpWorker")
            }
            (None, None) => (None, "customHandler"),
        };
        let description = match section {
            Some(section) => self.object(section, "description", &format!("{key}.description"))?,
            None => None,
        };
        let description = description.ok_or_else(|| {
            self.shape(format!("Missing worker Description. Functions run in a custom handler, a program of yours that answers HTTP; name it in {key}.description.defaultExecutablePath"))
        })?;
        let key = format!("{key}.description");
        let text = |name: &str| match member(description, name) {
            None => Ok(String::new()),
            Some(Value::String(text)) => Ok(self.expand(text)),
            Some(other) => Err(self.refuse(&format!("{key}.{name}"), other, "it must be a string")),
        };
        let executable = text("defaultExecutablePath")?;
        if executable.trim().is_empty() {
            return Err(self.shape("WorkerDescription DefaultExecutablePath cannot be empty"));
        }
        let mut arguments = self.texts(description, "arguments", &key)?;
        let worker = text("defaultWorkerPath")?;
        if !worker.is_empty() {
            arguments.push(in_root(root, &worker).to_string_lossy().into_owned());
        }
        arguments.extend(self.texts(description, "workerArguments", &key)?);
        let directory = root.join(text("workingDirectory")?);
        if !directory.is_dir() {
            let value = Value::from(directory.to_string_lossy().into_owned());
            return Err(self.refuse(&format!("{key}.workingDirectory"), &value, "there is no such folder"));
        }
        Ok(HandlerSettings { executable: in_root(root, &executable), arguments, directory })
    }

    fn texts(&self, within: &Object, name: &str, key: &str) -> Result<Vec<String>, ProjectError> {
        let key = format!("{key}.{name}");
        match member(within, name) {
            None => Ok(Vec::new()),
            Some(Value::Array(texts)) => texts
                .iter()
                .map(|text| match text {
                    Value::String(text) => Ok(self.expand(text)),
                    other => Err(self.refuse(&key, other, "it must be an array of strings")),
                })
                .collect(),
            Some(other) => Err(self.refuse(&key, other, "it must be an array of strings")),
        }
    }

    /// What is no setting stays as it is written.
    fn expand(&self, text: &str) -> String {
        self.settings.expand(text).unwrap_or_else(|_| text.to_owned())
    }
}

/// A file of the project where there is one of that name, else what the search path finds.
fn in_root(root: &Path, name: &str) -> PathBuf {
    let file = root.join(name);
    if Path::new(name).is_absolute() || file.is_file() { file } else { PathBuf::from(name) }
}

/// A whole number, also one that is written as a text, as app settings do.
fn whole(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project::lenient;

    const HANDLER: &str = r#""customHandler":{"description":{"defaultExecutablePath":"handler"}}"#;

    fn read_with(text: &str, settings: &[(&str, &str)]) -> Result<HostJson, String> {
        let mut known = AppSettings::default();
        for (name, value) in settings {
            known.insert(name, value);
        }
        let file = lenient::parse(text.as_bytes()).expect("the file is a JSON object");
        let root = std::env::temp_dir();
        HostJson::read(&root, Path::new("host.json"), &file, &known, 4).map_err(|error| error.to_string())
    }

    fn queues(section: &str) -> Result<QueueSettings, String> {
        let text = format!(r#"{{"version":"2.0",{HANDLER},"extensions":{{"queues":{{{section}}}}}}}"#);
        read_with(&text, &[]).map(|read| read.queues)
    }

    // [seed] host.json visibilityTimeout: standard value 00:00:00.
    #[test]
    fn defaults_are_the_documented_ones() {
        let settings = queues("").expect("nothing is wrong");
        let expected = QueueSettings {
            batch_size: 16,
            new_batch_threshold: 32,
            polling_interval_max: Duration::from_secs(60),
            dequeue_count_max: 5,
            visibility_timeout: Duration::ZERO,
            encoding: Encoding::Base64,
        };
        assert_eq!(settings, expected);
    }

    #[test]
    fn limits_hold_at_their_edges() {
        for (section, allowed) in [
            (r#""batchSize":1"#, true),
            (r#""batchSize":32"#, true),
            (r#""batchSize":0"#, false),
            (r#""batchSize":33"#, false),
            (r#""batchSize":1.5"#, false),
            (r#""newBatchThreshold":0"#, true),
            (r#""newBatchThreshold":-1"#, false),
            (r#""maxPollingInterval":"00:00:00.1""#, true),
            (r#""maxPollingInterval":"00:00:00.0999999""#, false),
            (r#""maxPollingInterval":5000"#, false),
            (r#""maxDequeueCount":1"#, true),
            (r#""maxDequeueCount":0"#, false),
            (r#""visibilityTimeout":"7.00:00:00""#, true),
            (r#""visibilityTimeout":"7.00:00:00.001""#, false),
            (r#""visibilityTimeout":"-00:00:01""#, false),
            (r#""visibilityTimeout":30"#, false),
            (r#""messageEncoding":"NONE""#, true),
            (r#""messageEncoding":"utf-8""#, false),
            (r#""MAXDEQUEUECOUNT":"7""#, true),
        ] {
            assert_eq!(queues(section).is_ok(), allowed, "{section}");
        }
    }

    #[test]
    fn refusals_are_worded_as_documented_and_name_the_place() {
        let refused = |section: &str| queues(section).expect_err("it is refused");
        assert_eq!(
            refused(r#""maxPollingInterval":"00:00:00""#),
            "host.json: extensions.queues.maxPollingInterval = \"00:00:00\": MaxPollingInterval must not be less than 00:00:00.1000000."
        );
        assert_eq!(
            refused(r#""maxDequeueCount":0"#),
            "host.json: extensions.queues.maxDequeueCount = 0: MaxDequeueCount must not be less than 1."
        );
    }

    #[test]
    fn half_a_batch_is_rounded_down_and_taken_for_each_of_four_processors() {
        for (batch, threshold, of_one) in [(1, 0, 0), (2, 4, 1), (3, 4, 1), (32, 64, 16)] {
            let section = format!(r#""batchSize":{batch}"#);
            let settings = queues(&section).expect("the batch size is allowed");
            assert_eq!(settings.new_batch_threshold, threshold, "{batch}");
            let text = format!(r#"{{"version":"2.0",{HANDLER},"extensions":{{"queues":{{{section}}}}}}}"#);
            let shared =
                read_with(&text, &[("WEBSITE_SKU", "dynamic")]).expect("the batch size is allowed").queues;
            assert_eq!(shared.new_batch_threshold, of_one, "{batch}");
        }
    }

    #[test]
    fn the_older_form_counts_milliseconds() {
        let read = |section: &str| read_with(&format!(r#"{{{HANDLER},"queues":{{{section}}}}}"#), &[]);
        let settings = read(r#""maxPollingInterval":2500,"visibilityTimeout":"00:00:30""#)
            .expect("the settings are valid")
            .queues;
        assert_eq!(settings.polling_interval_max, Duration::from_millis(2_500));
        assert_eq!(settings.visibility_timeout, Duration::from_secs(30));
        assert!(read(r#""maxPollingInterval":"00:00:02""#).is_err());
        for small in ["99", "0", "-5"] {
            let error = read(&format!(r#""maxPollingInterval":{small}"#)).expect_err("it is too small");
            assert!(error.ends_with("MaxPollingInterval must not be less than 00:00:00.1000000."), "{error}");
        }
        let ignored =
            read_with(&format!(r#"{{{HANDLER},"extensions":{{"queues":{{"batchSize":1}}}}}}"#), &[]);
        let ignored = ignored.expect("the settings are valid");
        assert_eq!((ignored.queues.batch_size, ignored.warnings.len()), (16, 1));
        assert!(read_with(&format!(r#"{{"version":"3.0",{HANDLER}}}"#), &[]).is_err());
    }

    #[test]
    fn developers_poll_every_two_seconds_unless_they_say_otherwise() {
        let development = [("AZURE_FUNCTIONS_ENVIRONMENT", "development")];
        for (interval, seconds) in
            [("", 2), (r#""maxPollingInterval":"00:01:00""#, 2), (r#""maxPollingInterval":"00:00:30""#, 30)]
        {
            let text = format!(r#"{{"version":"2.0",{HANDLER},"extensions":{{"queues":{{{interval}}}}}}}"#);
            let settings = read_with(&text, &development).expect("the settings are valid").queues;
            assert_eq!(settings.polling_interval_max.as_secs(), seconds, "{interval}");
        }
    }

    #[test]
    fn a_handler_must_be_named() {
        let read = |rest: &str| read_with(&format!(r#"{{"version":"2.0"{rest}}}"#), &[]);
        for nobody in ["", r#","customHandler":{}"#, r#","customHandler":{"description":null}"#] {
            assert!(
                read(nobody).expect_err("there is none").contains("Missing worker Description."),
                "{nobody}"
            );
        }
        for empty in [r#"{}"#, r#"{"defaultExecutablePath":""}"#] {
            let error =
                read(&format!(r#","customHandler":{{"description":{empty}}}"#)).expect_err("it is empty");
            assert!(error.contains("WorkerDescription DefaultExecutablePath cannot be empty"), "{error}");
        }
    }

    #[test]
    fn the_older_name_of_the_handler_is_read_when_the_newer_is_missing() {
        let older = r#""httpWorker":{"description":{"defaultExecutablePath":"older"}}"#;
        let read =
            read_with(&format!(r#"{{"version":"2.0",{older}}}"#), &[]).expect("the older settings are valid");
        assert_eq!((read.handler.executable.to_str(), read.warnings.len()), (Some("older"), 1));
        let both = read_with(&format!(r#"{{"version":"2.0",{older},{HANDLER}}}"#), &[])
            .expect("both kinds of settings are valid together");
        assert_eq!((both.handler.executable.to_str(), both.warnings.len()), (Some("handler"), 0));
    }

    #[test]
    fn settings_stand_in_path_and_arguments() {
        let description = r#"{"defaultExecutablePath":"%EXE%","arguments":["--x","%SETTING%","%MISSING%"],"defaultWorkerPath":"w.js","workerArguments":["last"]}"#;
        let text = format!(r#"{{"version":"2.0","customHandler":{{"description":{description}}}}}"#);
        let read =
            read_with(&text, &[("EXE", "node"), ("SETTING", "value")]).expect("the settings are valid");
        assert_eq!(read.handler.executable, Path::new("node"));
        assert_eq!(read.handler.arguments, ["--x", "value", "%MISSING%", "w.js", "last"]);
    }

    #[test]
    fn runs_take_half_an_hour_unless_said_otherwise() {
        let read = |rest: &str| read_with(&format!(r#"{{"version":"2.0",{HANDLER}{rest}}}"#), &[]);
        assert_eq!(read("").map(|read| read.run_within), Ok(Some(Duration::from_secs(1_800))));
        assert_eq!(read(r#","functionTimeout":"-1""#).map(|read| read.run_within), Ok(None));
        assert_eq!(
            read(r#","functionTimeout":"00:00:05""#).map(|read| read.run_within),
            Ok(Some(Duration::from_secs(5)))
        );
        assert!(read(r#","functionTimeout":"5 minutes""#).is_err());
    }
}
