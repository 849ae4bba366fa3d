//! The server's settings: a flag wins over its `KEW_*` variable, which wins over the file, which wins over the default.
//!
//! [`table`] lists every setting once. [`values`] lays the sources over each other and remembers where each value came
//! from, [`variables`] refuses what only looks like one, [`Settings`] is what the rest of the program sees: every value
//! checked and of its own type.

mod accounts;
mod alarms;
mod args;
mod check;
mod error;
mod file;
mod parse;
mod print;
mod ready;
mod table;
mod users;
mod values;
mod variables;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use kew_console::{AlarmRule, ShownSetting, User};
use kew_core::ShardCount;
use kew_engine::ClockKind;
use kew_http::{Limits, TlsFiles};
use kew_push::workers::Outbound;
use kew_store_log::Durability;

use crate::access::Access;
use crate::log::{Format, Levels};

pub use accounts::{
    AccessKey, Account, ApiPermission, ApiToken, AwsAccount, AzureAccount, CloudflareAccount, Secret,
};
pub use args::{Printed, ServeArgs};
pub use error::ConfigError;
pub(crate) use file::place;
pub use parse::{Address, KeySource, PgUrl, SHARDS_MAX, StoreChoice};
pub use parse::{base_url, postgres_url, socket_to_ask, store_choice, without_password};
pub use print::lines;
pub use ready::strict;
pub use values::{Values, urls};
pub use variables::check as check_variables;

/// Everything `kew serve` is set to.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `[server]`: listeners and flags.
    pub server: ServerSettings,
    /// `[store]`: how long a scrub of the whole store takes, if there is one.
    pub scrub: Option<Duration>,
    /// What the admin listener asks for, if anything.
    pub admin_token: Option<Secret>,
    /// `[[admin.users]]`.
    pub admin_users: Vec<User>,
    /// The rules of alarms.
    pub alarms: Vec<AlarmRule>,
    /// What `/metrics` asks for, if anything.
    pub metrics_token: Option<Secret>,
    /// `[sqs]`.
    pub sqs: SqsSettings,
    /// `[azure]`.
    pub azure: AzureSettings,
    /// `[push]`.
    pub push: PushSettings,
    /// `[workers]`, and their flags.
    pub workers: WorkerSettings,
    /// `[limits]`.
    pub limits: LimitSettings,
    /// `[[accounts]]`.
    pub accounts: Vec<Account>,
    /// `[tls]`.
    pub tls: TlsSettings,
    /// Every setting as it may be shown: secrets are hidden.
    pub shown: Vec<ShownSetting>,
}

/// `[server]`.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// Where messages are kept.
    pub store: StoreChoice,
    /// Of how many shards, where that is said.
    pub shards: Option<ShardCount>,
    /// What other nodes and operators call this one; the machine's name if it is not set.
    pub node: Option<String>,
    /// Where other nodes reach this one.
    pub peer: Address,
    /// Whether nodes speak TLS to each other.
    pub peer_tls: bool,
    /// Where SQS is served.
    pub sqs: Address,
    /// Where Azure Queue Storage is served.
    pub azure: Address,
    /// Where Cloudflare Queues is served.
    pub cloudflare: Address,
    /// Where the admin API is served.
    pub admin: Address,
    /// Where all dialects are served together.
    pub also: Vec<SocketAddr>,
    /// Whether requests are verified.
    pub auth: Auth,
    /// Whether addresses other machines reach may be served to everyone.
    pub insecure: bool,
    /// Whose time it is.
    pub clock: ClockKind,
    /// A leap of the system clock ahead by more than this holds expiry.
    pub clock_leap_max: Duration,
    /// How long the clock runs evenly before a longer gap since the last stop is believed.
    pub clock_settle: Duration,
    /// When a write counts as done.
    pub durability: Durability,
    /// Where the bound addresses are written.
    pub ports_file: Option<PathBuf>,
    /// The project whose functions run beside the server.
    pub functions: Option<PathBuf>,
    /// How standard error is written.
    pub log: Format,
    /// Which of its lines.
    pub log_levels: Levels,
    /// Which requests have a line there.
    pub access: Access,
    /// Further host names that clients may use.
    pub hosts: Vec<String>,
}

/// Who may do something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Auth {
    /// Everyone, as the default account.
    Open,
    /// Clients that prove an account.
    Strict,
}

/// `[sqs]`.
#[derive(Clone, Debug)]
pub struct SqsSettings {
    /// The region of requests that carry none.
    pub region: String,
    /// How long a deleted queue's name is held.
    pub name_hold: Duration,
    /// How long after a purge the next is refused.
    pub purge_interval: Duration,
    /// Maximum messages in flight of a standard queue for SQS.
    pub standard_in_flight_limit: u32,
    /// The same for FIFO queues.
    pub fifo_in_flight_limit: u32,
    /// How queue URLs look.
    pub url_style: UrlStyle,
    /// What queue URLs begin with, instead of the host of the request.
    pub external_url: Option<String>,
    /// Origins of web apps that may ask.
    pub cors_origins: Vec<String>,
}

/// How queue URLs look.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UrlStyle {
    /// `http://<Host of the request>/<account>/<name>`.
    Path,
    /// `http://sqs.<region>.<host>/<account>/<name>`.
    Standard,
}

/// `[azure]`.
#[derive(Clone, Debug)]
pub struct AzureSettings {
    /// Whether dotted host names begin with the account.
    pub host_style: bool,
    /// Parents of hosts that begin with the account, in open mode.
    pub host_parents: Vec<String>,
    /// What bearer tokens are worth in strict mode.
    pub bearer: Bearer,
    /// How far a request's own date may be from the machine's.
    pub skew: Duration,
    /// How long a deleted queue stays in the way of a new one of its name.
    pub queue_deletion_delay: Duration,
}

/// `[push]`.
#[derive(Clone, Copy, Debug)]
pub struct PushSettings {
    /// Batches under way at once, of all consumers.
    pub batches_max: u32,
    /// Whether webhooks may be on this machine and its networks; `None` is by who may come in.
    pub private_addresses: Option<bool>,
}

/// What bearer tokens are worth in strict mode.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Bearer {
    /// Nothing.
    Off,
    /// What they say is believed: for development only.
    Basic,
    /// What they say is believed if somebody known has signed it.
    Strict(BearerSettings),
}

/// Whose tokens are taken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BearerSettings {
    /// Where the keys are that sign them.
    pub keys: KeySource,
    /// Who issues them.
    pub issuers: Vec<String>,
    /// For whom they are; without any, for the storage service or the account.
    pub audiences: Vec<String>,
    /// How far the clocks of issuers may be off.
    pub skew: Duration,
}

/// Workers.
#[derive(Clone, Debug)]
pub struct WorkerSettings {
    /// Whether they are run.
    pub run: bool,
    /// The runtime's program, where it is named.
    pub program: Option<PathBuf>,
    /// Whether other machines may upload them.
    pub exposed: bool,
    /// What `fetch` in them may reach.
    pub outbound: Outbound,
    /// How long one invocation may take.
    pub wall_limit: Duration,
}

/// `[limits]`.
#[derive(Clone, Debug)]
pub struct LimitSettings {
    /// Of connections and requests; `connections_max` stands apart.
    pub http: Limits,
    /// Connections, where they are bounded by more than the open files.
    pub connections_max: Option<usize>,
    /// Receives that wait at once.
    pub waiters_max: u32,
    /// Receives that wait at once on one queue.
    pub waiters_per_queue_max: u32,
    /// Messages in flight per standard queue when Azure, Cloudflare or a push consumer leases one more.
    pub in_flight_max: u32,
    /// Queues of an account, by whichever dialect they are made.
    pub queues_max: u32,
    /// Deduplication ids kept in memory.
    pub dedup_ids: usize,
    /// Events kept for the history of messages.
    pub history_events: usize,
    /// Queues with metrics of their own.
    pub metrics_queues: usize,
}

/// `[tls]`, by listener.
#[derive(Clone, Debug)]
pub struct TlsSettings {
    /// For SQS.
    pub sqs: Option<TlsFiles>,
    /// For Azure.
    pub azure: Option<TlsFiles>,
    /// For Cloudflare.
    pub cloudflare: Option<TlsFiles>,
    /// For the admin listener.
    pub admin: Option<TlsFiles>,
    /// For the addresses of all dialects.
    pub also: Option<TlsFiles>,
}

impl Settings {
    /// Reads all sources. `variable` looks an environment variable up.
    pub fn read(
        args: &ServeArgs,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<(Self, Values), ConfigError> {
        let (accounts, admin_users, alarms, file) = match &args.file {
            Some(path) => {
                let contents = file::read(path)?;
                let said = Some((path.clone(), contents.said));
                (contents.accounts, contents.users, contents.alarms, said)
            }
            None => (Vec::new(), Vec::new(), Vec::new(), None),
        };
        let values = Values::overlay(&args.said, variable, file);
        let settings = Self {
            server: server(&values)?,
            admin_token: values.read_if_set("admin", "token", parse::token)?.map(Secret),
            admin_users,
            alarms,
            metrics_token: values.read_if_set("admin", "metrics_token", parse::token)?.map(Secret),
            sqs: sqs(&values)?,
            scrub: values.read("store", "scrub_days", parse::days)?,
            azure: azure(&values)?,
            push: push(&values)?,
            workers: workers(&values)?,
            limits: limits(&values)?,
            accounts,
            tls: tls(&values)?,
            shown: print::settings(&values),
        };
        check::together(&settings, &values)?;
        Ok((settings, values))
    }
}

/// Where messages are kept: as `databases` says, where that is set. Then `store` is not, or names the first of them.
fn store(values: &Values) -> Result<StoreChoice, ConfigError> {
    let section = table::SERVER;
    let store = values.read(section, "store", store_choice)?;
    let all = values.read_list(section, "databases", parse::database)?;
    let Some(all) = PgUrl::of_all(all).map(StoreChoice::Postgres) else { return Ok(store) };
    let is_said = values.at(section, "store").origin != values::Origin::Default;
    if is_said && store.to_string() != all.to_string() {
        let (told, told_store) = (values.told(section, "databases"), values.told(section, "store"));
        return Err(ConfigError::new(format!(
            "{told} and {told_store} do not go together: the first of the databases is the store's URL"
        )));
    }
    Ok(all)
}

fn server(values: &Values) -> Result<ServerSettings, ConfigError> {
    const AUTH: &[(&str, Auth)] = &[("open", Auth::Open), ("strict", Auth::Strict)];
    const CLOCK: &[(&str, ClockKind)] = &[("system", ClockKind::System), ("virtual", ClockKind::Virtual)];
    const DURABILITY: &[(&str, Durability)] = &[("sync", Durability::Sync), ("os", Durability::Os)];
    const ACCESS: &[(&str, Access)] = &[("off", Access::Off), ("on", Access::On), ("errors", Access::Errors)];
    const PEER_TLS: &[(&str, bool)] = &[("off", false), ("on", true)];
    const LOG: &[(&str, Format)] = &[("text", Format::Text), ("json", Format::Json)];
    let section = table::SERVER;
    Ok(ServerSettings {
        store: store(values)?,
        shards: values.read_if_set(section, "shards", parse::shards)?,
        node: values.read_if_set(section, "node", parse::node)?,
        peer: values.read(section, "peer", parse::address)?,
        peer_tls: values.read(section, "peer_tls", parse::one_of(PEER_TLS))?,
        sqs: values.read(section, "sqs", parse::address)?,
        azure: values.read(section, "azure", parse::address)?,
        cloudflare: values.read(section, "cloudflare", parse::address)?,
        admin: values.read(section, "admin", parse::address)?,
        also: values.read_list(section, "also", parse::socket)?,
        auth: values.read(section, "auth", parse::one_of(AUTH))?,
        insecure: values.read(section, "insecure", parse::switch)?,
        clock: values.read(section, "clock", parse::one_of(CLOCK))?,
        clock_leap_max: values.read(section, "clock_leap_max", parse::leap)?,
        clock_settle: values.read(section, "clock_settle", parse::seconds)?,
        durability: values.read(section, "durability", parse::one_of(DURABILITY))?,
        ports_file: values.read_if_set(section, "ports_file", parse::path)?,
        functions: values.read_if_set(section, "functions", parse::path)?,
        log: values.read(section, "log", parse::one_of(LOG))?,
        log_levels: values.read(section, "log_level", parse::log_levels)?,
        access: values.read("log", "access", parse::one_of(ACCESS))?,
        hosts: values.read_list(section, "hosts", parse::host)?,
    })
}

fn sqs(values: &Values) -> Result<SqsSettings, ConfigError> {
    const URL_STYLE: &[(&str, UrlStyle)] = &[("path", UrlStyle::Path), ("standard", UrlStyle::Standard)];
    let section = "sqs";
    Ok(SqsSettings {
        region: values.read(section, "region", parse::region)?,
        name_hold: values.read(section, "name_hold_seconds", parse::seconds)?,
        purge_interval: values.read(section, "purge_interval_seconds", parse::seconds)?,
        standard_in_flight_limit: values.read(
            section,
            "standard_in_flight_limit",
            parse::count(1, u32::MAX),
        )?,
        fifo_in_flight_limit: values.read(section, "fifo_in_flight_limit", parse::count(1, u32::MAX))?,
        url_style: values.read(section, "url_style", parse::one_of(URL_STYLE))?,
        external_url: values.read_if_set(section, "external_url", base_url)?,
        cors_origins: values.read_list(section, "cors_origins", parse::origin)?,
    })
}

fn azure(values: &Values) -> Result<AzureSettings, ConfigError> {
    let section = "azure";
    Ok(AzureSettings {
        host_style: values.read(section, "host_style", parse::switch)?,
        host_parents: values.read_list(section, "host_parents", parse::parent)?,
        bearer: bearer(values)?,
        skew: values.read(section, "skew_seconds", parse::seconds)?,
        queue_deletion_delay: values.read(section, "queue_deletion_delay_seconds", parse::seconds)?,
    })
}

fn push(values: &Values) -> Result<PushSettings, ConfigError> {
    let section = "push";
    Ok(PushSettings {
        batches_max: values.read(section, "batches_max", parse::count(1, 10_000))?,
        private_addresses: values.read_if_set(section, "private_addresses", parse::switch)?,
    })
}

fn bearer(values: &Values) -> Result<Bearer, ConfigError> {
    #[derive(Clone, Copy)]
    enum Word {
        Off,
        Basic,
        Strict,
    }
    const WORDS: &[(&str, Word)] = &[("off", Word::Off), ("basic", Word::Basic), ("strict", Word::Strict)];
    let section = "azure";
    let keys = values.read_if_set(section, "bearer_keys", parse::key_source)?;
    let settings = |keys| {
        Ok(BearerSettings {
            keys,
            issuers: values.read_list(section, "bearer_issuers", parse::line)?,
            audiences: values.read_list(section, "bearer_audiences", parse::line)?,
            skew: values.read(section, "bearer_skew_seconds", parse::seconds)?,
        })
    };
    match (values.read(section, "bearer", parse::one_of(WORDS))?, keys) {
        (Word::Off, _) => Ok(Bearer::Off),
        (Word::Basic, _) => Ok(Bearer::Basic),
        (Word::Strict, None) => Err(check::alone(values, (section, "bearer"), "bearer_keys")),
        (Word::Strict, Some(keys)) => match settings(keys)? {
            settings if settings.issuers.is_empty() => {
                Err(check::alone(values, (section, "bearer"), "bearer_issuers"))
            }
            settings => Ok(Bearer::Strict(settings)),
        },
    }
}

fn workers(values: &Values) -> Result<WorkerSettings, ConfigError> {
    const RUN: &[(&str, bool)] = &[("on", true), ("off", false)];
    const OUTBOUND: &[(&str, Outbound)] = &[("public", Outbound::Public), ("all", Outbound::Everything)];
    let section = table::SERVER;
    Ok(WorkerSettings {
        run: values.read(section, "workers", parse::one_of(RUN))?,
        program: values.read_if_set(section, "workerd", parse::path)?,
        exposed: values.read(section, "workers_expose", parse::switch)?,
        outbound: values.read("workers", "outbound", parse::one_of(OUTBOUND))?,
        wall_limit: values
            .read("workers", "wall_seconds", parse::count(1, 86_400))
            .map(|seconds| Duration::from_secs(seconds.into()))?,
    })
}

fn limits(values: &Values) -> Result<LimitSettings, ConfigError> {
    let section = "limits";
    Ok(LimitSettings {
        http: http_limits(values)?,
        connections_max: values.read_if_set(section, "connections_max", parse::size(1, 1_000_000))?,
        waiters_max: values.read(section, "waiters_max", parse::count(1, 10_000_000))?,
        waiters_per_queue_max: values.read(section, "waiters_per_queue_max", parse::count(1, 10_000_000))?,
        in_flight_max: values.read(section, "in_flight_max", parse::count(1, u32::MAX))?,
        queues_max: values.read(section, "queues_max", parse::count(1, u32::MAX))?,
        dedup_ids: values.read(section, "dedup_ids", parse::size(1_000, 1_000_000_000))?,
        history_events: values.read(section, "history_events", parse::size(0, 1 << 30))?,
        metrics_queues: values.read(section, "metrics_queues", parse::size(0, 1_000_000))?,
    })
}

fn http_limits(values: &Values) -> Result<Limits, ConfigError> {
    let section = "limits";
    let bytes = |key, least, most| values.read(section, key, parse::bytes(least, most));
    let count = |key, least, most| values.read(section, key, parse::count(least, most));
    let pace = |text: &str| {
        let bytes = parse::bytes(0, u32::MAX as usize)(text)?;
        Ok(u32::try_from(bytes).unwrap_or(u32::MAX))
    };
    // A time of zero would end every connection at once.
    let seconds = |key| {
        let seconds = values.read(section, key, parse::count(1, 86_400))?;
        Ok::<_, ConfigError>(Duration::from_secs(seconds.into()))
    };
    Ok(Limits {
        // The largest batch a dialect accepts must fit.
        body_bytes_max: bytes("body_bytes_max", 2 << 20, 1 << 30)?,
        bodies_bytes_max: bytes("bodies_bytes_max", 2 << 20, 1 << 40)?,
        replies_bytes_max: bytes("replies_bytes_max", 1 << 20, 1 << 40)?,
        head_bytes_max: bytes("head_bytes_max", 8 << 10, 16 << 20)?,
        headers_max: values.read(section, "headers_max", parse::size(16, 10_000))?,
        pipelined_bytes_max: bytes("pipelined_bytes_max", 1 << 10, 16 << 20)?,
        streams_max: count("streams_max", 1, 10_000)?,
        body_bytes_per_second: values.read(section, "body_bytes_per_second", pace)?,
        handshake_within: seconds("handshake_seconds")?,
        head_within: seconds("head_seconds")?,
        body_within: seconds("body_seconds")?,
        body_pace_over: seconds("body_pace_seconds")?,
        reply_stall: seconds("reply_stall_seconds")?,
        reply_within: seconds("reply_seconds")?,
        idle_within: seconds("idle_seconds")?,
        ..Limits::default()
    })
}

fn tls(values: &Values) -> Result<TlsSettings, ConfigError> {
    let all = tls_files(values, "tls")?;
    let of = |section| Ok::<_, ConfigError>(tls_files(values, section)?.or_else(|| all.clone()));
    // Health checks and scrapers reach the admin API by plain HTTP unless it has a certificate of its own.
    Ok(TlsSettings {
        sqs: of("tls.sqs")?,
        azure: of("tls.azure")?,
        cloudflare: of("tls.cloudflare")?,
        also: of("tls.also")?,
        admin: tls_files(values, "tls.admin")?,
    })
}

fn tls_files(values: &Values, section: &'static str) -> Result<Option<TlsFiles>, ConfigError> {
    let cert = values.read_if_set(section, "cert", parse::path)?;
    let key = values.read_if_set(section, "key", parse::path)?;
    match (cert, key) {
        (Some(cert), Some(key)) => Ok(Some(TlsFiles { cert, key })),
        (None, None) => Ok(None),
        (Some(_), None) => Err(check::alone(values, (section, "cert"), "key")),
        (None, Some(_)) => Err(check::alone(values, (section, "key"), "cert")),
    }
}

#[cfg(test)]
mod tests;
