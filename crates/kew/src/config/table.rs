//! Every setting there is: its place in the file, its flag, its variable, its default.
//!
//! Flags, variables, the file's keys, `--print-config` and the lists in error messages all come from this table. A new
//! dialect adds the row of its listener to [`SETTINGS`], and its settings below.

/// One setting.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// The section of the file it stands in.
    pub section: &'static str,
    /// Its key there.
    pub key: &'static str,
    /// What it looks like.
    pub kind: Kind,
    /// The default.
    pub default: Option<&'static str>,
    /// Its flag, if it has one: how the flag's value is shown, and what it does.
    pub flag: Option<Flag>,
    /// Whether its value is never shown.
    pub secret: bool,
}

/// A setting on the command line.
#[derive(Clone, Copy, Debug)]
pub struct Flag {
    /// Its name, without the hyphens before it: the key's, with hyphens in it.
    pub name: &'static str,
    /// How its value is shown in the help.
    pub value: &'static str,
    /// What it does.
    pub help: &'static str,
}

/// What a value looks like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A text.
    Text,
    /// An address: a text, or a whole number that is a port.
    Address,
    /// A whole number.
    Whole,
    /// A number of bytes: a whole number, or a text with a unit.
    Bytes,
    /// True or false; as a flag it stands alone.
    Switch,
    /// Several texts: an array in the file, separated by commas in a variable, a repeated flag.
    List,
    /// Several addresses, in the same way.
    Addresses,
    /// Several URLs of databases, in the same way; one flag may have several of them.
    Urls,
}

/// The section of listeners and of everything that has a flag.
pub const SERVER: &str = "server";

/// All settings but accounts, which only the file can hold.
pub const SETTINGS: &[Setting] = &[
    server("store", Kind::Text, Some("./kew-data")).flag(
        "PATH|memory|URL",
        "Where messages are kept: a directory, `memory` to forget everything at the end, or a PostgreSQL (postgres://…)",
    ),
    server("databases", Kind::Urls, None).flag(
        "URL",
        "All databases of a store that lies in several, in their order: only where the first one, --store, does not say itself how the others are reached",
    ),
    server("shards", Kind::Whole, None).flag(
        "N",
        "How many shards, each with an event loop and a thread: of a new store in a directory, for ever, or of one in memory; 1 otherwise",
    ),
    server("node", Kind::Text, None)
        .flag("NAME", "What other nodes and operators call this one, on PostgreSQL; the machine's name otherwise"),
    server("peer", Kind::Address, Some("off")).flag(
        "ADDR|off",
        "Where the other nodes of a store in PostgreSQL reach this one; every node serves every queue",
    ),
    server("peer_tls", Kind::Text, Some("off")).flag_named(
        "peer-tls",
        "on|off",
        "Whether nodes encrypt what they say to each other; alike on all nodes, and without certificates to hand out",
    ),
    // The listeners: one row for each dialect.
    server("sqs", Kind::Address, Some("127.0.0.1:9324")).flag("ADDR|off", "Where SQS is served"),
    server("azure", Kind::Address, Some("127.0.0.1:10001"))
        .flag("ADDR|off", "Where Azure Queue Storage is served"),
    server("cloudflare", Kind::Address, Some("127.0.0.1:9326"))
        .flag("ADDR|off", "Where Cloudflare Queues is served"),
    server("admin", Kind::Address, Some("127.0.0.1:9325"))
        .flag("ADDR|off", "Where health checks, metrics and the admin API are served"),
    server("also", Kind::Addresses, None)
        .flag("ADDR", "One more address for all dialects, told apart by request; may be repeated"),
    server("auth", Kind::Text, Some("open"))
        .flag("open|strict", "Accept any credentials, or verify every request against the accounts"),
    server("insecure", Kind::Switch, Some("false"))
        .flag("", "Serve addresses that other machines reach although anyone may do anything there"),
    server("clock", Kind::Text, Some("system")).flag(
        "system|virtual",
        "Whose time it is: the system's, or for tests one that can be moved through the admin API",
    ),
    server("durability", Kind::Text, Some("sync")).flag(
        "sync|os",
        "When a send or delete is answered: once it is on disk, or once the operating system has it",
    ),
    server("ports_file", Kind::Text, None).flag_named(
        "ports-file",
        "FILE",
        "Write the addresses that were bound into this file, as JSON, before serving",
    ),
    server("functions", Kind::Text, None)
        .flag("DIR", "Also run the queue-triggered functions of this project (see `kew functions start`)"),
    server("log", Kind::Text, Some("text")).flag("text|json", "How standard error is written"),
    server("log_level", Kind::Text, Some("info")).flag_named(
        "log-level",
        "LEVEL|AREA=LEVEL,…",
        "What is written there: error, warn, info or debug, for everything or for one area, such as warn,push=debug",
    ),
    server("workers", Kind::Text, Some("off"))
        .flag("on|off", "Whether Workers are run and may be uploaded, which means running their code"),
    server("workerd", Kind::Text, None)
        .flag("PATH", "The program that runs Workers; the one on the path otherwise"),
    server("workers_expose", Kind::Switch, Some("false")).flag_named(
        "workers-expose",
        "",
        "Let other machines upload Workers too, with a token",
    ),
    server("hosts", Kind::List, None),
    server("clock_leap_max", Kind::Whole, Some("3600")),
    server("clock_settle", Kind::Whole, Some("600")),
    of("log", "access", Kind::Text, Some("off")),
    of("store", "scrub_days", Kind::Whole, Some("7")),
    of("admin", "token", Kind::Text, None).hidden(),
    of("admin", "metrics_token", Kind::Text, None).hidden(),
    of("sqs", "region", Kind::Text, Some("us-east-1")),
    of("sqs", "name_hold_seconds", Kind::Whole, Some("60")),
    of("sqs", "purge_interval_seconds", Kind::Whole, Some("60")),
    of("sqs", "standard_in_flight_limit", Kind::Whole, Some("120000")),
    of("sqs", "fifo_in_flight_limit", Kind::Whole, Some("20000")),
    of("sqs", "url_style", Kind::Text, Some("path")),
    of("sqs", "external_url", Kind::Text, None),
    of("sqs", "cors_origins", Kind::List, None),
    of("azure", "host_style", Kind::Switch, Some("true")),
    of("azure", "host_parents", Kind::List, None),
    of("azure", "bearer", Kind::Text, Some("off")),
    of("azure", "bearer_keys", Kind::Text, None),
    of("azure", "bearer_issuers", Kind::List, None),
    of("azure", "bearer_audiences", Kind::List, None),
    of("azure", "bearer_skew_seconds", Kind::Whole, Some("300")),
    of("azure", "skew_seconds", Kind::Whole, Some("900")),
    of("azure", "queue_deletion_delay_seconds", Kind::Whole, Some("0")),
    of("push", "batches_max", Kind::Whole, Some("256")),
    of("push", "private_addresses", Kind::Switch, None),
    of("workers", "outbound", Kind::Text, Some("public")),
    of("workers", "wall_seconds", Kind::Whole, Some("900")),
    of("limits", "body_bytes_max", Kind::Bytes, Some("8388608")),
    of("limits", "head_bytes_max", Kind::Bytes, Some("65536")),
    of("limits", "headers_max", Kind::Whole, Some("100")),
    of("limits", "bodies_bytes_max", Kind::Bytes, Some("536870912")),
    of("limits", "replies_bytes_max", Kind::Bytes, Some("128 MiB")),
    of("limits", "pipelined_bytes_max", Kind::Bytes, Some("65536")),
    of("limits", "connections_max", Kind::Whole, None),
    of("limits", "streams_max", Kind::Whole, Some("128")),
    of("limits", "handshake_seconds", Kind::Whole, Some("10")),
    of("limits", "head_seconds", Kind::Whole, Some("30")),
    of("limits", "body_seconds", Kind::Whole, Some("300")),
    of("limits", "body_bytes_per_second", Kind::Bytes, Some("512")),
    of("limits", "body_pace_seconds", Kind::Whole, Some("20")),
    of("limits", "reply_stall_seconds", Kind::Whole, Some("60")),
    of("limits", "reply_seconds", Kind::Whole, Some("600")),
    of("limits", "idle_seconds", Kind::Whole, Some("180")),
    of("limits", "waiters_max", Kind::Whole, Some("100000")),
    of("limits", "waiters_per_queue_max", Kind::Whole, Some("50000")),
    of("limits", "in_flight_max", Kind::Whole, Some("120000")),
    of("limits", "queues_max", Kind::Whole, Some("100000")),
    of("limits", "dedup_ids", Kind::Whole, Some("4000000")),
    of("limits", "history_events", Kind::Whole, Some("1048576")),
    of("limits", "metrics_queues", Kind::Whole, Some("1000")),
    // Certificates: for every dialect, then for each listener.
    of("tls", "cert", Kind::Text, None),
    of("tls", "key", Kind::Text, None),
    of("tls.sqs", "cert", Kind::Text, None),
    of("tls.sqs", "key", Kind::Text, None),
    of("tls.azure", "cert", Kind::Text, None),
    of("tls.azure", "key", Kind::Text, None),
    of("tls.cloudflare", "cert", Kind::Text, None),
    of("tls.cloudflare", "key", Kind::Text, None),
    of("tls.admin", "cert", Kind::Text, None),
    of("tls.admin", "key", Kind::Text, None),
    of("tls.also", "cert", Kind::Text, None),
    of("tls.also", "key", Kind::Text, None),
];

const fn server(key: &'static str, kind: Kind, default: Option<&'static str>) -> Setting {
    of(SERVER, key, kind, default)
}

const fn of(section: &'static str, key: &'static str, kind: Kind, default: Option<&'static str>) -> Setting {
    Setting { section, key, kind, default, flag: None, secret: false }
}

impl Setting {
    const fn flag(self, value: &'static str, help: &'static str) -> Self {
        Self { flag: Some(Flag { name: self.key, value, help }), ..self }
    }

    const fn flag_named(self, name: &'static str, value: &'static str, help: &'static str) -> Self {
        Self { flag: Some(Flag { name, value, help }), ..self }
    }

    const fn hidden(self) -> Self {
        Self { secret: true, ..self }
    }

    /// The setting at this place.
    pub fn at(section: &str, key: &str) -> Option<&'static Self> {
        SETTINGS.iter().find(|setting| setting.section == section && setting.key == key)
    }

    /// Its flag's name; the key's where it has none.
    pub fn flag_name(&self) -> &'static str {
        self.flag.map_or(self.key, |flag| flag.name)
    }

    /// Its variables, the usual one first. What has a flag is named like the flag.
    pub fn variables(&self) -> Vec<String> {
        let full = format!("KEW_{}_{}", self.section.replace('.', "_"), self.key).to_uppercase();
        if self.section == SERVER {
            vec![format!("KEW_{}", self.key).to_uppercase(), full]
        } else {
            vec![full]
        }
    }
}

/// The sections of the file that hold settings, in order.
pub fn sections() -> Vec<&'static str> {
    let mut sections: Vec<&'static str> = SETTINGS.iter().map(|setting| setting.section).collect();
    sections.dedup();
    sections
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_two_settings_share_a_place_a_flag_or_a_variable() {
        let (mut places, mut flags, mut variables) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for setting in SETTINGS {
            assert!(places.insert((setting.section, setting.key)), "{setting:?}");
            assert!(setting.flag.is_none() || flags.insert(setting.flag_name()), "{setting:?}");
            for variable in setting.variables() {
                assert!(variables.insert(variable), "{setting:?}");
            }
        }
    }

    #[test]
    fn variables_are_named_like_flags_or_like_section_and_key() {
        let names = |section, key| Setting::at(section, key).map(Setting::variables).unwrap_or_default();
        assert_eq!(names("server", "ports_file"), ["KEW_PORTS_FILE", "KEW_SERVER_PORTS_FILE"]);
        assert_eq!(names("sqs", "name_hold_seconds"), ["KEW_SQS_NAME_HOLD_SECONDS"]);
        assert_eq!(names("tls.sqs", "cert"), ["KEW_TLS_SQS_CERT"]);
    }

    #[test]
    fn settings_of_a_section_stand_together() {
        let unique: BTreeSet<&str> = sections().into_iter().collect();
        assert_eq!(unique.len(), sections().len());
    }
}
