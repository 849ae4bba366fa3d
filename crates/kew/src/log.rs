//! What an operator reads on standard error: one line per event, as text or as JSON, from the areas and levels that are
//! asked for.

use std::fmt::Write as _;
use std::io::Write as _;

use clap::ValueEnum;
use kew_core::Timestamp;
use kew_http::{date, json};

use crate::machine;
use crate::outlet::Outlet;
use crate::telemetry::{Exporter, Record};

/// How lines are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// How much a line matters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    /// Something failed.
    Error,
    /// Somebody should look at it.
    Warn,
    /// Good to know.
    Info,
    /// Of use when something is looked for.
    Debug,
}

impl Level {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Error, Self::Warn, Self::Info, Self::Debug];

    /// Its name in settings and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
        }
    }

    /// The number that OpenTelemetry gives it.
    fn severity(self) -> u8 {
        match self {
            Self::Error => 17,
            Self::Warn => 13,
            Self::Info => 9,
            Self::Debug => 5,
        }
    }

    /// The level of this name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.name() == name)
    }
}

/// What lines are about.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Area {
    /// The start, the end, and what belongs nowhere else.
    #[default]
    Server,
    /// The store, the work beside requests, backups.
    Store,
    /// The clock, and what becomes due.
    Clock,
    /// Messages that left their queues by rule.
    Queues,
    /// Push consumers and Workers.
    Push,
    /// The host of functions.
    Functions,
    /// Alarms.
    Alarms,
    /// Changes through the admin API, and requests to it.
    Admin,
    /// Certificates and keys.
    Tls,
    /// Requests to SQS.
    Sqs,
    /// Requests to Azure Queue Storage.
    Azure,
    /// Requests to Cloudflare Queues.
    Cloudflare,
    /// Requests that no dialect took.
    Http,
    /// Requests, if `[log] access` asks for them: no level leaves them out.
    Access,
}

impl Area {
    /// All that have a level.
    pub const ALL: [Self; 13] = [
        Self::Server,
        Self::Store,
        Self::Clock,
        Self::Queues,
        Self::Push,
        Self::Functions,
        Self::Alarms,
        Self::Admin,
        Self::Tls,
        Self::Sqs,
        Self::Azure,
        Self::Cloudflare,
        Self::Http,
    ];

    /// Those whose debug lines are about requests.
    pub(crate) const OF_REQUESTS: [Self; 5] =
        [Self::Sqs, Self::Azure, Self::Cloudflare, Self::Admin, Self::Http];

    /// Its name in settings and lines.
    pub fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Store => "store",
            Self::Clock => "clock",
            Self::Queues => "queues",
            Self::Push => "push",
            Self::Functions => "functions",
            Self::Alarms => "alarms",
            Self::Admin => "admin",
            Self::Tls => "tls",
            Self::Sqs => "sqs",
            Self::Azure => "azure",
            Self::Cloudflare => "cloudflare",
            Self::Http => "http",
            Self::Access => "access",
        }
    }

    /// The area of this name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|area| area.name() == name)
    }
}

/// Which lines are written: of each area those up to a level.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Levels([Level; Area::ALL.len()]);

impl Default for Levels {
    fn default() -> Self {
        Self::up_to(Level::Info)
    }
}

impl Levels {
    /// The same level for every area.
    pub fn up_to(level: Level) -> Self {
        Self([level; Area::ALL.len()])
    }

    /// Another level for one area.
    #[must_use]
    pub fn with(mut self, area: Area, level: Level) -> Self {
        if let Some(place) = self.0.get_mut(area as usize) {
            *place = level;
        }
        self
    }

    fn of(self, area: Area) -> Level {
        self.0.get(area as usize).copied().unwrap_or(Level::Info)
    }

    /// From a text such as `warn`, `push=debug` or `warn,store=info`.
    pub fn read(text: &str) -> Option<Self> {
        let (mut usual, mut of_areas) = (None, Vec::new());
        for part in text.split(',').map(str::trim) {
            match part.split_once('=') {
                Some((area, level)) => of_areas.push((Area::of_name(area)?, Level::of_name(level)?)),
                None if usual.is_some() => return None,
                None => usual = Some(Level::of_name(part)?),
            }
        }
        let levels = Self::up_to(usual.unwrap_or(Level::Info));
        Some(of_areas.into_iter().fold(levels, |levels, (area, level)| levels.with(area, level)))
    }
}

/// Fields whose values are numbers; the values of all others are texts, whatever they look like.
const NUMBERS: [&str; 21] = [
    "acked",
    "after_seconds",
    "at_ms",
    "attempts",
    "batches",
    "bound",
    "bytes",
    "bytes_in",
    "bytes_out",
    "duration_ms",
    "files",
    "lines",
    "messages",
    "names",
    "offset",
    "since_seconds",
    "status",
    "times",
    "tries_in_vain",
    "value",
    "watched",
];

/// Writes lines.
#[derive(Clone, Copy, Debug, Default)]
pub struct Log {
    format: Format,
    levels: Levels,
    area: Area,
    /// What writes the lines, where their reader must hold nothing up; else they go to standard error as they come.
    outlet: Option<&'static Outlet>,
    /// Where lines go besides, if anywhere.
    exporter: Option<&'static Exporter>,
}

impl Log {
    /// A log in this format of these levels.
    pub fn new(format: Format, levels: Levels) -> Self {
        Self { format, levels, area: Area::Server, outlet: None, exporter: None }
    }

    /// The same for lines about an area.
    #[must_use]
    pub fn of(self, area: Area) -> Self {
        Self { area, ..self }
    }

    /// The same, with its lines written by an outlet.
    #[must_use]
    pub(crate) fn through(self, outlet: &'static Outlet) -> Self {
        Self { outlet: Some(outlet), ..self }
    }

    /// What writes its lines, if they do not go to standard error as they come.
    pub(crate) fn outlet(self) -> Option<&'static Outlet> {
        self.outlet
    }

    /// The same, with its lines exported besides.
    #[must_use]
    pub fn exported_by(self, exporter: Option<&'static Exporter>) -> Self {
        Self { exporter, ..self }
    }

    /// What exports its lines, and more.
    pub fn exporter(self) -> Option<&'static Exporter> {
        self.exporter
    }

    /// Whether lines of this level are written.
    pub fn is_asked_for(self, level: Level) -> bool {
        level <= self.levels.of(self.area)
    }

    /// Writes one line, if it is asked for.
    pub fn tell(self, level: Level, message: &str, fields: &[(&str, &str)]) {
        if level <= self.levels.of(self.area) {
            self.tell_at(machine::system_now(), level, message, fields);
        }
    }

    /// Writes one line of another clock's time, if it is asked for.
    pub fn tell_at(self, at: Timestamp, level: Level, message: &str, fields: &[(&str, &str)]) {
        if level > self.levels.of(self.area) {
            return;
        }
        let line = self.line(at, level, message, fields);
        match self.outlet {
            Some(outlet) => outlet.give(line),
            None => {
                // Nowhere to write to is no reason to stop serving.
                let _written = std::io::stderr().lock().write_all(&line);
            }
        }
        if let Some(exporter) = self.exporter {
            let own = [("area", self.area.name())];
            let attributes = own.iter().chain(fields).map(|(name, value)| ((*name).into(), (*value).into()));
            exporter.record(Record {
                at,
                severity: (level.name(), level.severity()),
                message: message.to_owned(),
                attributes: attributes.collect(),
            });
        }
    }

    /// The line that stands where this number of lines were dropped.
    pub fn line_of_dropped(self, lines: u64) -> Vec<u8> {
        let message = "lines of this log were dropped here: standard error was not read";
        self.line(machine::system_now(), Level::Warn, message, &[("lines", &lines.to_string())])
    }

    /// One line, with its end.
    pub fn line(self, at: Timestamp, level: Level, message: &str, fields: &[(&str, &str)]) -> Vec<u8> {
        match self.format {
            Format::Text => text(at, (level, self.area), message, fields),
            Format::Json => object(at, (level, self.area), message, fields),
        }
    }
}

fn text(at: Timestamp, (level, area): (Level, Area), message: &str, fields: &[(&str, &str)]) -> Vec<u8> {
    let level = match level {
        Level::Error => "ERROR",
        Level::Warn => "WARN ",
        Level::Info => "info ",
        Level::Debug => "debug",
    };
    let mut line = format!("{} {level} [{}] {message}", date::rfc3339(at), area.name());
    for (name, value) in fields {
        // Writing into a string cannot fail.
        let _written = match number(name, value) {
            Some(number) => write!(line, " {name}={number}"),
            None => write!(line, " {name}={value:?}"),
        };
    }
    line.push('\n');
    line.into_bytes()
}

fn object(at: Timestamp, (level, area): (Level, Area), message: &str, fields: &[(&str, &str)]) -> Vec<u8> {
    let time = date::rfc3339(at);
    let mut line = Vec::with_capacity(128);
    let own = [("time", time.as_str()), ("level", level.name()), ("area", area.name()), ("message", message)];
    for (place, (name, value)) in own.iter().chain(fields).enumerate() {
        line.push(if place == 0 { b'{' } else { b',' });
        json::push_string(&mut line, name);
        line.push(b':');
        match number(name, value) {
            Some(number) => line.extend_from_slice(number.as_bytes()),
            None => json::push_string(&mut line, value),
        }
    }
    line.extend_from_slice(b"}\n");
    line
}

/// The value of a field that holds a number.
fn number<'a>(name: &str, value: &'a str) -> Option<&'a str> {
    let is_number = NUMBERS.contains(&name) && serde_json::from_str::<serde_json::Number>(value).is_ok();
    is_number.then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(format: Format) -> String {
        let fields =
            [("by", "4"), ("file", "a \"b\""), ("offset", "17"), ("value", "0.5"), ("bytes", "many")];
        let log = Log::new(format, Levels::default()).of(Area::Store);
        let line = log.line(Timestamp(0), Level::Warn, "late", &fields);
        String::from_utf8(line).expect("lines are text")
    }

    #[test]
    fn lines_hold_time_level_area_message_and_fields_with_numbers_as_numbers() {
        assert_eq!(
            line(Format::Text),
            "1970-01-01T00:00:00.000Z WARN  [store] late by=\"4\" file=\"a \\\"b\\\"\" offset=17 value=0.5 bytes=\"many\"\n"
        );
        assert_eq!(
            line(Format::Json),
            "{\"time\":\"1970-01-01T00:00:00.000Z\",\"level\":\"warn\",\"area\":\"store\",\"message\":\"late\",\"by\":\"4\",\
             \"file\":\"a \\\"b\\\"\",\"offset\":17,\"value\":0.5,\"bytes\":\"many\"}\n"
        );
    }

    #[test]
    fn levels_are_of_all_areas_or_of_one() {
        let of = |text: &str, area| Levels::read(text).map(|levels| levels.of(area));
        assert_eq!(of("warn", Area::Store), Some(Level::Warn));
        assert_eq!(of("push=debug", Area::Push), Some(Level::Debug));
        assert_eq!(of("push=debug", Area::Store), Some(Level::Info));
        assert_eq!(of("store=error, warn", Area::Store), Some(Level::Error));
        assert_eq!(of("store=error, warn", Area::Push), Some(Level::Warn));
        for wrong in ["", "loud", "store", "store=loud", "cellar=warn", "warn,info", "warn,"] {
            assert_eq!(Levels::read(wrong), None, "{wrong:?}");
        }
    }
}
