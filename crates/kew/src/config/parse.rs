//! Texts to values. What is not accepted comes back as a phrase of what would be.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::Duration;

use kew_core::ShardCount;
use kew_log_pg::Urls;

use crate::log::{Area, Level, Levels};

/// A year, beyond which no hold or interval makes sense.
const SECONDS_MAX: u64 = 366 * 86_400;
/// The slowest scrub.
const DAYS_MAX: u64 = 365;

/// Where messages are kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StoreChoice {
    /// Nowhere: they are gone with the process.
    Memory,
    /// In this directory.
    Directory(PathBuf),
    /// In the PostgreSQL of this URL.
    Postgres(PgUrl),
}

impl StoreChoice {
    /// The directory, where it is one.
    pub fn directory(&self) -> Option<&Path> {
        match self {
            Self::Directory(path) => Some(path),
            Self::Memory | Self::Postgres(_) => None,
        }
    }
}

/// Shards of one process: each has a thread and files of its own.
pub const SHARDS_MAX: u16 = 256;

pub(super) fn shards(text: &str) -> Result<ShardCount, String> {
    let count = text.parse().ok().filter(|count| *count <= SHARDS_MAX).and_then(ShardCount::new);
    count.ok_or_else(|| format!("a number from 1 to {SHARDS_MAX}"))
}

/// Where a store in PostgreSQL is: the URL of its first database, or of all. It is shown by the first one, without the
/// password.
#[derive(Clone, PartialEq, Eq)]
pub struct PgUrl(pub Urls);

impl PgUrl {
    /// The store whose first database has this URL.
    pub fn of(first: &str) -> Self {
        Self(first.into())
    }

    /// The store that lies in these databases; `None` without one.
    pub fn of_all(urls: Vec<String>) -> Option<Self> {
        Urls::all(urls).map(Self)
    }
}

impl fmt::Display for PgUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = self.0.first();
        let (scheme, rest) = url.split_once("://").unwrap_or(("postgres", url));
        let (user, place) = user_and_place(rest);
        if user.is_empty() { write!(f, "{scheme}://{place}") } else { write!(f, "{scheme}://{user}@{place}") }
    }
}

impl fmt::Debug for PgUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for StoreChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str("memory"),
            Self::Directory(path) => write!(f, "{}", path.display()),
            Self::Postgres(url) => write!(f, "{url}"),
        }
    }
}

/// Where something is served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Address {
    /// Nowhere.
    Off,
    /// There.
    At(SocketAddr),
}

impl Address {
    /// The address, if there is one.
    pub fn socket(self) -> Option<SocketAddr> {
        match self {
            Self::Off => None,
            Self::At(address) => Some(address),
        }
    }
}

/// A directory, `memory`, or a URL of PostgreSQL.
pub fn store_choice(text: &str) -> Result<StoreChoice, String> {
    const ALLOWED: &str = "a directory, `memory`, or postgres://USER@HOST/DATABASE";
    match (text, postgres_url(text)) {
        ("memory", _) => Ok(StoreChoice::Memory),
        (_, Some(url)) => Ok(StoreChoice::Postgres(PgUrl::of(&url))),
        // A URL that is written wrong must not become the name of a directory.
        (text, None)
            if text.is_empty()
                || text.contains("://")
                || begins_like_postgres(text)
                || has_parameters(text) =>
        {
            Err(ALLOWED.to_owned())
        }
        (path, None) => Ok(StoreChoice::Directory(PathBuf::from(path))),
    }
}

/// The URL of a database.
pub fn database(text: &str) -> Result<String, String> {
    postgres_url(text).ok_or_else(|| "postgres://USER@HOST/DATABASE, for each".to_owned())
}

/// A text as it may be shown: of the URL of a database the password is left out, and of any other URL, or of what is
/// almost one, the user too.
pub fn without_password(text: &str) -> String {
    if is_postgres(text) {
        return PgUrl::of(text).to_string();
    }
    if !text.contains("://") && !begins_like_postgres(text) && has_parameters(text) {
        return "parameters of a database".to_owned();
    }
    let rest = match (text.split_once("://"), text.split_once(':')) {
        (Some((_, rest)), _) => rest,
        (None, Some((_, rest))) if begins_like_postgres(text) => rest.trim_start_matches('/'),
        (None, _) => return text.to_owned(),
    };
    let scheme = text.strip_suffix(rest).unwrap_or_default();
    let has_credentials = rest.contains('@') || rest.to_ascii_lowercase().contains("password");
    format!("{scheme}{}", if has_credentials { user_and_place(rest).1 } else { rest })
}

/// The user and the place, without parameters, of a URL behind its scheme: a password may be in either.
fn user_and_place(rest: &str) -> (&str, &str) {
    // A question mark behind a path begins parameters, and so does one before a password that is named.
    let begins_parameters = |(before, behind): &(&str, &str)| {
        before.contains('/') || behind.to_ascii_lowercase().contains("password")
    };
    let rest = rest.split_once('?').filter(begins_parameters).map_or(rest, |(before, _)| before);
    // The credentials end at the last @, also if the password holds one, or a question mark.
    let (who, place) = rest.rsplit_once('@').unwrap_or(("", rest));
    let user = who.split([':', '@', '/', '?']).next().unwrap_or_default();
    (user, place.split_once('?').map_or(place, |(place, _)| place))
}

/// A URL of PostgreSQL, its scheme in the small letters that the client knows; `None` for any other text.
pub fn postgres_url(text: &str) -> Option<String> {
    let (scheme, rest) = text.split_once("://").filter(|_| begins_like_postgres(text))?;
    Some(format!("{}://{rest}", scheme.to_ascii_lowercase()))
}

/// Whether a text is a URL of PostgreSQL.
pub fn is_postgres(text: &str) -> bool {
    postgres_url(text).is_some()
}

/// Whether a text begins with a scheme of PostgreSQL, in whatever letters, though it may be no URL.
fn begins_like_postgres(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    let rest = ["postgresql", "postgres"].iter().find_map(|scheme| text.strip_prefix(scheme));
    rest.is_some_and(|rest| rest.starts_with(':') || rest.starts_with("//"))
}

/// Whether a text is made of parameters of a database, as PostgreSQL's own tools take them in place of a URL.
fn has_parameters(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    ["host=", "hostaddr=", "dbname=", "user=", "service="].iter().any(|name| text.starts_with(name))
        || text.contains("password=")
}

/// An address with a port. A port alone is one of this machine's loopback address.
pub fn socket(text: &str) -> Result<SocketAddr, String> {
    socket_or(text, "an address and a port such as 127.0.0.1:9324, or a port alone (port 0 picks a free one)")
}

/// The same of a server that is asked.
pub fn socket_to_ask(text: &str) -> Result<SocketAddr, String> {
    socket_or(text, "an address and a port such as 127.0.0.1:9325, or a port alone")
}

fn socket_or(text: &str, allowed: &str) -> Result<SocketAddr, String> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        let port: u16 = text.parse().map_err(|_| format!("{allowed}; ports end at {}", u16::MAX))?;
        return Ok((Ipv4Addr::LOCALHOST, port).into());
    }
    let found = text.to_socket_addrs().map_err(|error| format!("{allowed} ({error})"))?;
    let mut found: Vec<SocketAddr> = found.collect();
    // A name may stand for both families; clients that cannot do without IPv4 are the more common ones.
    found.sort_by_key(SocketAddr::is_ipv6);
    found.first().copied().ok_or_else(|| format!("{allowed}; the name stands for no address"))
}

/// An address with a port, or `off`.
pub fn address(text: &str) -> Result<Address, String> {
    if text == "off" {
        return Ok(Address::Off);
    }
    socket(text).map(Address::At).map_err(|allowed| format!("`off` or {allowed}"))
}

/// True or false, in the usual words.
pub fn switch(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "1" => Ok(true),
        "false" | "no" | "off" | "0" => Ok(false),
        _ => Err("true or false".to_owned()),
    }
}

/// Which lines of the log are written.
pub fn log_levels(text: &str) -> Result<Levels, String> {
    Levels::read(text).ok_or_else(|| {
        let levels = Level::ALL.map(Level::name).join(", ");
        let areas = Area::ALL.map(Area::name).join(", ");
        format!("one of {levels}, and area=level behind commas; areas are {areas}")
    })
}

/// One of several words.
pub fn one_of<T: Copy>(words: &'static [(&'static str, T)]) -> impl Fn(&str) -> Result<T, String> {
    move |text| {
        let found = words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
        found.ok_or_else(|| {
            let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            format!("one of {}", words.join(", "))
        })
    }
}

/// A whole number of 32 bits between two bounds.
pub fn count(least: u32, most: u32) -> impl Fn(&str) -> Result<u32, String> {
    move |text| {
        let number = text.parse().ok().filter(|number| (least..=most).contains(number));
        number.ok_or_else(|| format!("a whole number from {least} to {most}"))
    }
}

/// The same for sizes in memory.
pub fn size(least: usize, most: usize) -> impl Fn(&str) -> Result<usize, String> {
    move |text| {
        let number = text.parse().ok().filter(|number| (least..=most).contains(number));
        number.ok_or_else(|| format!("a whole number from {least} to {most}"))
    }
}

/// Bytes: a number, or one with a unit such as `128 MiB`.
pub fn bytes(least: usize, most: usize) -> impl Fn(&str) -> Result<usize, String> {
    const UNITS: [(&str, usize); 4] = [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("", 1)];
    move |text| {
        let split = UNITS.iter().find_map(|(unit, bytes)| Some((text.strip_suffix(unit)?.trim_end(), bytes)));
        let bytes = split.and_then(|(number, unit)| number.parse::<usize>().ok()?.checked_mul(*unit));
        let allowed = || format!("bytes from {least} to {most}, such as `{least}` or `16 MiB`");
        bytes.filter(|bytes| (least..=most).contains(bytes)).ok_or_else(allowed)
    }
}

/// Seconds; 0 turns off what they are for.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds| *seconds <= SECONDS_MAX);
    let allowed = || format!("a whole number of seconds from 0 (off) to {SECONDS_MAX}");
    seconds.map(Duration::from_secs).ok_or_else(allowed)
}

/// Whole days; none for 0, which turns off what they are for.
pub fn days(text: &str) -> Result<Option<Duration>, String> {
    let days: Option<u64> = text.parse().ok().filter(|days| *days <= DAYS_MAX);
    let allowed = || format!("a whole number of days from 0 (off) to {DAYS_MAX}");
    days.map(|days| (days > 0).then(|| Duration::from_secs(days * 86_400))).ok_or_else(allowed)
}

/// How far a clock may leap, in seconds. Less than a minute would be met by clocks that are only set.
pub fn leap(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds| (60..=SECONDS_MAX).contains(seconds));
    seconds
        .map(Duration::from_secs)
        .ok_or_else(|| format!("a whole number of seconds from 60 to {SECONDS_MAX}"))
}

/// A region's name.
pub fn region(text: &str) -> Result<String, String> {
    if kew_core::is_region(text) {
        Ok(text.to_owned())
    } else {
        Err("1 to 32 letters, digits and hyphens".to_owned())
    }
}

/// A host's name, without a port; `*.parent` stands for every name below `parent`.
pub fn host(text: &str) -> Result<String, String> {
    let name = text.strip_prefix("*.").unwrap_or(text);
    let is_host = (1..=253).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_'));
    if is_host {
        Ok(text.to_ascii_lowercase())
    } else {
        Err("host names without a port, or *.parent".to_owned())
    }
}

/// The name of a node.
pub fn node(text: &str) -> Result<String, String> {
    let is_name = (1..=64).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_'));
    let allowed = || "1 to 64 letters, digits, -, . and _, such as queue-1".to_owned();
    if is_name { Ok(text.to_owned()) } else { Err(allowed()) }
}

/// A domain that hosts stand below. One label alone may be a domain in which anybody can have a name.
pub fn parent(text: &str) -> Result<String, String> {
    let is_parent = !text.starts_with("*.") && (text.contains('.') || text.eq_ignore_ascii_case("localhost"));
    let allowed = || "domains such as queue.example.com, without *. and without a port".to_owned();
    if is_parent { host(text).map_err(|_| allowed()) } else { Err(allowed()) }
}

/// An origin of web pages, or all of them.
pub fn origin(text: &str) -> Result<String, String> {
    let allowed = || "origins such as http://localhost:3000, without a path, or * for every page".to_owned();
    if text == "*" {
        return Ok(text.to_owned());
    }
    let origin = base_url(text).map_err(|_| allowed())?;
    let has_path = origin.split_once("://").is_none_or(|(_, host)| host.contains('/'));
    if has_path { Err(allowed()) } else { Ok(origin) }
}

/// The beginning of a URL that others see: scheme and host, maybe a port and a path.
pub fn base_url(text: &str) -> Result<String, String> {
    let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://")).unwrap_or_default();
    let host = rest.split('/').next().unwrap_or_default();
    let is_clean = !text.contains(|character: char| {
        character.is_whitespace()
            || character.is_control()
            || matches!(character, '?' | '#' | '"' | '\\' | '@')
    });
    if host.is_empty() || !is_clean {
        return Err("a URL such as https://queues.example.com, without query or fragment".to_owned());
    }
    Ok(text.trim_end_matches('/').to_owned())
}

/// Where keys are that sign tokens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum KeySource {
    /// In this file.
    File(PathBuf),
    /// Behind this URL.
    Url(String),
}

/// A file's path, or a URL whose answers cannot be changed on the way.
pub fn key_source(text: &str) -> Result<KeySource, String> {
    let allowed = || "a file, an https:// URL, or an http:// URL of a loopback address".to_owned();
    if let Some(rest) = text.strip_prefix("http://") {
        let host = rest.split(['/', '?']).next().unwrap_or_default();
        let host = host.rsplit_once(':').map_or(host, |(host, _)| host);
        let is_loopback = host == "localhost" || host == "[::1]" || host.parse().is_ok_and(is_loopback);
        return if is_loopback { Ok(KeySource::Url(text.to_owned())) } else { Err(allowed()) };
    }
    if text.starts_with("https://") {
        return base_url(text).map(|_| KeySource::Url(text.to_owned())).map_err(|_| allowed());
    }
    if text.is_empty() || text.contains("://") { Err(allowed()) } else { Ok(KeySource::File(text.into())) }
}

fn is_loopback(address: Ipv4Addr) -> bool {
    address.is_loopback()
}

/// A text of one line that is not empty.
pub fn line(text: &str) -> Result<String, String> {
    let is_line =
        !text.is_empty() && !text.chars().any(|character| character.is_control() || character == ' ');
    if is_line { Ok(text.to_owned()) } else { Err("texts without spaces".to_owned()) }
}

/// A file's path.
pub fn path(text: &str) -> Result<PathBuf, String> {
    if text.is_empty() { Err("a path".to_owned()) } else { Ok(PathBuf::from(text)) }
}

/// A secret that may stand in a header.
pub fn token(text: &str) -> Result<String, String> {
    let is_token = (1..=1024).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
    if is_token { Ok(text.to_owned()) } else { Err("1 to 1024 visible ASCII characters".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_of_postgres_is_shown_without_its_password() {
        for (url, shown) in [
            ("postgres://kew@db/kew", "postgres://kew@db/kew"),
            ("postgres://kew:s3cr?et@db/kew", "postgres://kew@db/kew"),
            ("postgres://kew:a@b@db:5432,other/kew?sslmode=require", "postgres://kew@db:5432,other/kew"),
            ("postgresql://db/kew?password=secret", "postgresql://db/kew"),
            ("postgres://:secret@db/kew", "postgres://db/kew"),
            ("postgres://db/kew?user=u&password=s3c@ret", "postgres://db/kew"),
            ("postgres://db?password=s3c@ret", "postgres://db"),
        ] {
            assert_eq!(PgUrl::of(url).to_string(), shown);
        }
        for (text, shown) in [
            ("mysql://u:s3cret@db/kew?password=s3c@ret", "mysql://db/kew"),
            ("mysql://db/kew?password=s3c@ret", "mysql://db/kew"),
            ("host=db password=s3cret", "parameters of a database"),
            ("postgres//u:s3cret@db/kew", "postgres//u:db/kew"),
            ("./data", "./data"),
        ] {
            assert_eq!(without_password(text), shown);
        }
    }

    #[test]
    fn parameters_of_a_database_are_no_directory() {
        for text in
            ["host=db user=kew", "dbname=kew PASSWORD=s3cret", "x password=s3cret", "postgres//u:p@h/d"]
        {
            assert!(store_choice(text).is_err(), "{text}");
        }
        for path in ["data", "postgres/data", "postgres", "./host=db", "/var/lib/kew"] {
            assert!(matches!(store_choice(path), Ok(StoreChoice::Directory(_))), "{path}");
        }
    }

    #[test]
    fn a_url_that_is_written_wrong_is_no_directory_and_is_shown_without_its_password() {
        for text in ["Postgres://u:s3cret@h/d", "POSTGRESQL://u:s3cret@h/d", "postgres://u:s3cret@h/d"] {
            let choice = store_choice(text).expect("the schemes of PostgreSQL are known in any case");
            let StoreChoice::Postgres(url) = choice else { panic!("{text} is a database") };
            assert!(url.0.first().starts_with("postgres") && url.0.first().contains("s3cret"));
            assert_eq!(database(text).as_deref(), Ok(url.0.first()));
        }
        for (text, shown) in [
            ("mysql://u:s3cret@h/d", "mysql://h/d"),
            ("mysql://h/d?user=u&Password=s3cret", "mysql://h/d"),
            ("postgres:/u:s3cret@h/d", "postgres:/h/d"),
            ("Postgresql:u:s3cret@h/d?password=s3cret", "Postgresql:h/d"),
            ("postgres:", "postgres:"),
        ] {
            assert!(store_choice(text).is_err() && database(text).is_err(), "{text}");
            assert_eq!(without_password(text), shown);
        }
        for path in ["./postgres:/d", "postgres", "a:b", "/var/lib/kew"] {
            assert_eq!(store_choice(path), Ok(StoreChoice::Directory(path.into())));
            assert_eq!(without_password(path), path);
        }
        assert_eq!(without_password("https://h/keys?tenant=1"), "https://h/keys?tenant=1");
        assert!(store_choice("").is_err());
    }

    #[test]
    fn bounds_hold_at_their_edges() {
        let parse = count(1, 10);
        assert_eq!((parse("1"), parse("10")), (Ok(1), Ok(10)));
        for wrong in ["0", "11", "-1", "1.0", "", " 1", "99999999999999999999"] {
            assert_eq!(parse(wrong), Err("a whole number from 1 to 10".to_owned()), "{wrong}");
        }
        assert_eq!(seconds("0"), Ok(Duration::ZERO));
        assert_eq!(days("0"), Ok(None));
        assert_eq!(days("7"), Ok(Some(Duration::from_secs(604_800))));
        assert!(days("366").is_err_and(|told| told.contains("from 0 (off) to 365")));
        let parse = bytes(1, 1 << 30);
        for (text, read) in [("1", 1), ("128 MiB", 128 << 20), ("2KiB", 2 << 10), ("1 GiB", 1 << 30)] {
            assert_eq!(parse(text), Ok(read), "{text}");
        }
        for wrong in ["0", "2 GiB", "1 MB", "MiB", "-1 KiB", "1.5 MiB", "", "99999999999999999999 GiB"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        assert!(seconds("31622401").is_err() && seconds("31622400").is_ok());
    }

    #[test]
    fn addresses_are_numbers_or_names_or_off() {
        assert_eq!(address("off"), Ok(Address::Off));
        assert_eq!(address("127.0.0.1:0"), Ok(Address::At(([127, 0, 0, 1], 0).into())));
        assert_eq!(
            address("[::1]:1"),
            Ok(Address::At("[::1]:1".parse().expect("the address with brackets is a socket address")))
        );
        assert_eq!(address("9324"), Ok(Address::At(([127, 0, 0, 1], 9324).into())));
        assert_eq!(socket("0"), Ok(([127, 0, 0, 1], 0).into()));
        for wrong in ["", "127.0.0.1", "127.0.0.1:99999", "99999", "-1", "+1", " 1", "OFF"] {
            assert!(address(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn keys_come_only_over_connections_that_protect_them() {
        assert_eq!(key_source("keys.json"), Ok(KeySource::File("keys.json".into())));
        for url in [
            "https://login.example/keys",
            "http://127.0.0.1:8080/k?x=1",
            "http://[::1]:1/k",
            "http://localhost/",
        ] {
            assert_eq!(key_source(url), Ok(KeySource::Url(url.to_owned())), "{url}");
        }
        for wrong in
            ["", "http://login.example/keys", "http://127.0.0.1.evil.example/", "ftp://h/k", "https://"]
        {
            assert!(key_source(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn urls_hosts_and_regions_are_checked_for_what_would_break_a_reply() {
        assert_eq!(
            base_url("https://q.example.com:8443/sqs/"),
            Ok("https://q.example.com:8443/sqs".to_owned())
        );
        for wrong in
            ["", "q.example.com", "ftp://q", "http://", "http:///x", "http://q?x", "http://q x", "http://a@b"]
        {
            assert!(base_url(wrong).is_err(), "{wrong}");
        }
        assert!(host("Kew.Example").is_ok_and(|host| host == "kew.example"));
        assert!(host("*.kew.example").is_ok() && host("*").is_err());
        assert!(host("kew.example:1").is_err() && host("").is_err());
        assert!(parent("Queue.example.com").is_ok_and(|parent| parent == "queue.example.com"));
        assert!(["com", "*.example.com", "a.example:1", ""].iter().all(|wrong| parent(wrong).is_err()));
        assert!(region("eu-west-3").is_ok() && region("eu west").is_err() && region("").is_err());
        assert!(token("a b").is_err() && token("").is_err() && token("a!b").is_ok());
    }
}
