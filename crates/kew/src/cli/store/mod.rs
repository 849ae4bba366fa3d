//! `kew store`: tools for a stopped store. A running server holds its directory, and these say so.

mod addressed;
mod backup;
mod export;
mod lines;
mod place;

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, Subcommand};
use kew_core::{Entropy, QueueKey, ShardCount, ShardId};
use kew_log_pg::PgError;
use kew_store::token::TokenKey;
use kew_store_log::{
    Drive, ImportReport, LogError, LogOptions, LogStore, StoreStats, Unreadable, make_private,
};
use thiserror::Error;

use crate::config::{self, PgUrl, SHARDS_MAX, StoreChoice};
use crate::exit;
use crate::machine::{SystemEntropy, system_now};
use crate::start_error::Occupied;
use addressed::Addressed;
use lines::{check_lines, stats_json, stats_lines, tail_line};
use place::{Filled, Place};

/// The arguments of `kew store`.
#[derive(Args, Debug)]
pub(super) struct StoreArgs {
    /// The store's directory, or postgres://USER@HOST/DATABASE [default: ./kew-data]
    #[arg(long, global = true, env = "KEW_STORE", value_name = "PATH", hide_env_values = true)]
    store: Option<PathBuf>,

    /// All databases of a store that lies in several, in their order; the first one is the store's own URL
    #[arg(long, global = true, env = "KEW_DATABASES", value_name = "URL", num_args = 1.., hide_env_values = true)]
    databases: Vec<String>,

    #[command(subcommand)]
    tool: Tool,
}

#[derive(Subcommand, Debug)]
enum Tool {
    /// Make an empty store; one that is there is left as it is
    Create {
        /// This directory or database instead of --store's
        place: Option<PathBuf>,
        /// Of this many shards, for ever: event loops of one server in a directory, parts for many nodes in PostgreSQL
        #[arg(long, value_name = "N", value_parser = shard_count)]
        shards: Option<ShardCount>,
    },
    /// Read everything and name each damage by file and offset; exit code 1 when there is any
    Check {
        /// This directory instead of --store's; a backup is compared with its list too
        directory: Option<PathBuf>,
    },
    /// Show what the store holds and what it takes
    Stats {
        /// As one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Write queues, settings and messages as JSON lines
    Export {
        /// Into this file, which must not exist yet, instead of standard output
        #[arg(long, value_name = "FILE")]
        to: Option<PathBuf>,
        /// Go on past messages that cannot be read, name each on standard error; exit code 3 when there are any
        #[arg(long)]
        leave_out_damaged: bool,
    },
    /// Make a new store out of the lines of an export
    Import {
        /// Out of this file instead of standard input
        #[arg(long, value_name = "FILE")]
        from: Option<PathBuf>,
        /// Of this many shards
        #[arg(long, value_name = "N", value_parser = shard_count)]
        shards: Option<ShardCount>,
        /// Take queues, too, whose names no client can say: no client receives from them or deletes them
        #[arg(long)]
        unaddressable: bool,
    },
    /// Make a consistent copy in an empty directory, with a list of sizes and checksums
    Backup {
        /// The directory; made when it is missing
        target: PathBuf,
        /// Give files that do not change any more a second name instead of copying them: quick, but damage to one is
        /// damage to both
        #[arg(long, conflicts_with = "verify")]
        link: bool,
        /// Compare a backup with its list instead
        #[arg(long)]
        verify: bool,
    },
}

/// Why a tool did not do its work.
#[derive(Debug, Error)]
enum ToolError {
    #[error("{} holds no store; name the directory with --store", .0.display())]
    NoStore(PathBuf),
    #[error("{0} is not allowed as a store; it must be a directory, or postgres://USER@HOST/DATABASE")]
    NoPlace(String),
    #[error(
        "a store in memory is gone with its server, and no tool sees it; a directory of that name is ./memory"
    )]
    InMemory,
    #[error(transparent)]
    Occupied(#[from] Occupied),
    #[error("{} is in use by {holder}: stop that server first", path.display())]
    Locked { path: PathBuf, holder: String },
    #[error(transparent)]
    Log(#[from] LogError),
    #[error("{place}: {cause}")]
    Postgres { place: String, cause: PgError },
    #[error("{cause}; {place} holds {left} now: {remedy} before the next import")]
    CutShort { place: String, cause: LogError, left: &'static str, remedy: &'static str },
    #[error(
        "the store in {} has {has} shards, and --shards says {wanted}: the number stays for ever; export it, and import that with --shards {wanted} into a new directory", path.display()
    )]
    OtherShards { path: PathBuf, has: u16, wanted: u16 },
    #[error("--databases needs a URL for each: postgres://USER@HOST/DATABASE")]
    NotADatabase,
    #[error(
        "--store {store} and --databases (KEW_DATABASES) do not go together: the first database is {first}, and the store's URL"
    )]
    TwoStores { store: String, first: String },
    #[error("a store in a directory has {SHARDS_MAX} shards at most")]
    TooManyShards,
    #[error("no backup can be made there: {} {why}", target.display())]
    Target { target: PathBuf, why: String },
    #[error(
        "{} is a store and has no list of a backup: one that was opened is no backup any more. `kew store check {}` reads a store", .0.display(), .0.display()
    )]
    NotABackup(PathBuf),
    #[error("{} holds no backup", .0.display())]
    NoBackupThere(PathBuf),
    #[error("{} is only a part of a backup: it was cut short", .0.display())]
    HalfABackup(PathBuf),
    #[error("{} is not empty: a backup is made in a directory of its own", .0.display())]
    NotEmpty(PathBuf),
    #[error(
        "{place} has {shards} shards, and a backup is one of a single shard: use `kew store export`, or PostgreSQL's own pg_dump or pg_basebackup while no node serves it"
    )]
    NoBackup { place: String, shards: u16 },
    #[error("{doing}: {cause}")]
    Machine { doing: String, cause: io::Error },
    /// It was done, and what it found is not good; it has been printed.
    #[error("the store is damaged")]
    Damaged,
    #[error("{0}; --leave-out-damaged exports everything else")]
    Unreadable(Unreadable),
    /// The rest was exported; each of these has been printed.
    #[error("messages left out, since they cannot be read: {0}")]
    LeftOut(u64),
}

impl ToolError {
    fn code(&self) -> ExitCode {
        match self {
            Self::LeftOut(_) => LEFT_OUT.into(),
            Self::NoPlace(_) | Self::InMemory | Self::NotADatabase | Self::TwoStores { .. } => {
                exit::WRONG.into()
            }
            _ => ExitCode::FAILURE,
        }
    }
}

/// Where a store is that nothing names.
const USUAL_STORE: &str = "./kew-data";

/// The exit code of an export that is good but not of everything.
const LEFT_OUT: u8 = 3;

/// Runs one tool.
pub(super) fn run(store: &StoreArgs) -> ExitCode {
    match store.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // With a closed output the exit code says it all.
            let _told = writeln!(io::stderr().lock(), "error: {}", lines::readable(&error.to_string()));
            error.code()
        }
    }
}

/// The store that lies in these databases, if some are named.
fn databases(urls: &[String]) -> Result<Option<PgUrl>, ToolError> {
    let urls = urls.iter().flat_map(|text| config::urls(text)).map(|url| config::postgres_url(&url));
    urls.collect::<Option<Vec<_>>>().map(PgUrl::of_all).ok_or(ToolError::NotADatabase)
}

/// The directory of a backup; a URL is none, and must not become the name of one.
fn folder(target: &Path) -> Result<&Path, ToolError> {
    match target.to_str().map(|text| (text, config::store_choice(text))) {
        None | Some((_, Ok(StoreChoice::Directory(_) | StoreChoice::Memory))) => Ok(target),
        Some((text, Ok(StoreChoice::Postgres(_)) | Err(_))) => Err(ToolError::Target {
            target: config::without_password(text).into(),
            why: "is no directory".into(),
        }),
    }
}

fn shard_count(text: &str) -> Result<ShardCount, String> {
    let count = text.parse().ok().and_then(ShardCount::new);
    count.ok_or_else(|| format!("must be a number from 1 to {}", u16::MAX))
}

impl StoreArgs {
    /// Where the store is: in the databases, where those are named. Then --store is not, or names the first of them.
    fn place(&self) -> Result<Place, ToolError> {
        let store = self.store.as_deref().map(Place::of).transpose()?;
        let Some(url) = databases(&self.databases)? else {
            return Ok(store.unwrap_or_else(|| Place::Directory(USUAL_STORE.into())));
        };
        let all = Place::Postgres(url);
        match store.map(|store| store.shown()).filter(|store| *store != all.shown()) {
            Some(store) => Err(ToolError::TwoStores { store, first: all.shown() }),
            None => Ok(all),
        }
    }

    fn run(&self) -> Result<(), ToolError> {
        let place = self.place()?;
        match &self.tool {
            Tool::Create { place: named, shards } => create(&Place::named(named, place)?, *shards),
            Tool::Check { directory } => check(&Place::named(directory, place)?),
            Tool::Stats { json } => stats(&place, *json),
            Tool::Export { to, leave_out_damaged } => export::run(&place, to.as_deref(), *leave_out_damaged),
            Tool::Import { from, shards, unaddressable } => {
                import(&place, from.as_deref(), *shards, *unaddressable)
            }
            Tool::Backup { target, verify: true, .. } => backup::verify(folder(target)?),
            Tool::Backup { target, link, verify: false } => backup::run(&place, folder(target)?, *link),
        }
    }
}

fn create(place: &Place, shards: Option<ShardCount>) -> Result<(), ToolError> {
    let mut filled = place.to_fill(shards)?;
    let made = make_shards(place, &filled).and_then(|made| filled.made().map(|()| made));
    filled.give_up();
    let shown = place.shown();
    tell(&match (made?, filled.shards().get()) {
        (false, _) => format!("{shown} holds a store already\n"),
        (true, 1) => format!("made an empty store in {shown}\n"),
        (true, shards) => {
            let databases = match place.databases() {
                1 => String::new(),
                several => format!("{several} databases, the first of them "),
            };
            format!("made an empty store of {shards} shards in {databases}{shown}\n")
        }
    })
}

/// Makes the shards that are not there; answers whether one was not.
fn make_shards(place: &Place, filled: &Filled) -> Result<bool, ToolError> {
    let entropy = entropy()?;
    let mut made = false;
    for (shard, disk) in filled.shards().all().zip(&filled.disks) {
        let options = LogOptions { key: filled.key.map(TokenKey), ..options(shard, filled.shards()) };
        let opened = LogStore::open(Arc::clone(disk), options, Arc::clone(&entropy), system_now());
        let (store, report) = opened.map_err(|error| place.explain(error))?;
        store.close()?;
        made |= report.created;
    }
    Ok(made)
}

/// How a tool opens one shard, by its number and how many there are.
fn options(shard: ShardId, of: ShardCount) -> LogOptions {
    let place = kew_core::ShardPlace { shard, of };
    LogOptions { drive: Drive::Manual, place, ..LogOptions::default() }
}

fn check(place: &Place) -> Result<(), ToolError> {
    let looked = place.look()?;
    let (shards, mut is_sound) = (looked.shards(), true);
    for shard in looked.opened()? {
        let report = kew_store_log::check(looked.disk(shard)?).map_err(|error| place.explain(error))?;
        is_sound &= report.is_sound();
        let prefix = if shards == ShardCount::ONE { String::new() } else { format!("shard {shard}: ") };
        let lines: String = check_lines(&report).lines().map(|line| format!("{prefix}{line}\n")).collect();
        tell(&lines)?;
    }
    if is_sound { Ok(()) } else { Err(ToolError::Damaged) }
}

fn stats(place: &Place, json: bool) -> Result<(), ToolError> {
    let looked = place.look()?;
    let (shards, mut sum) = (looked.shards(), StoreStats::default());
    for shard in looked.opened()? {
        let store = looked.store(shard, true)?;
        sum.add(&kew_store_log::stats(&store));
    }
    tell(&if json { format!("{}\n", stats_json(&sum, shards)) } else { stats_lines(&sum, shards) })
}

fn import(
    place: &Place,
    from: Option<&Path>,
    shards: Option<ShardCount>,
    unaddressable: bool,
) -> Result<(), ToolError> {
    let lines: Box<dyn BufRead> = match from {
        Some(path) => {
            Box::new(BufReader::new(File::open(path).map_err(doing(format!("opening {}", path.display())))?))
        }
        None => Box::new(io::stdin().lock()),
    };
    let mut lines = Addressed::of(lines, unaddressable);
    let mut filled = place.to_fill(shards)?;
    let was_store = filled.holds_store();
    let imported = import_into(&filled, &mut lines);
    let is_cut_short = imported.is_err() && !was_store && filled.holds_store();
    filled.give_up();
    let report = imported.map_err(|cause| {
        let cause = lines.refusal().unwrap_or(cause);
        if !is_cut_short {
            return place.explain(cause);
        }
        let left = if filled.disks.len() == 1 { "an empty store" } else { "a part of a store" };
        let remedy =
            if filled.owned.is_empty() { "remove it" } else { "drop the tables that begin with kew_" };
        ToolError::CutShort { place: place.shown(), cause, left, remedy }
    })?;
    filled.made()?;
    if let Place::Directory(directory) = place {
        let shards =
            filled.folders.iter().flat_map(|folders| folders.shards().all().map(|shard| folders.path(shard)));
        for path in std::iter::once(directory.clone()).chain(shards) {
            make_private(&path).map_err(doing(format!("closing {} to others", path.display())))?;
        }
    }
    let ImportReport { queues, messages, lines } = report;
    tell(&format!("{queues} queues and {messages} messages, out of {lines} lines\n"))
}

fn import_into(filled: &Filled, lines: &mut dyn BufRead) -> Result<ImportReport, LogError> {
    let entropy = entropy().map_err(|error| LogError::from_io("importing", &io::Error::other(error)))?;
    let options = LogOptions { drive: Drive::Manual, ..LogOptions::default() };
    let mut name = |shard: ShardId, keys: Vec<QueueKey>| filled.claim(shard, keys);
    kew_store_log::import_into_shards(lines, &filled.disks, options, (&entropy, system_now()), &mut name)
}

/// Says on standard error what the next start would cut off.
fn tell_tail(tail: Option<&kew_store_log::TailReport>) {
    if let Some(tail) = tail {
        // With a closed output the work goes on.
        let _told = writeln!(io::stderr().lock(), "{}", tail_line(tail));
    }
}

fn entropy() -> Result<Arc<dyn Entropy>, ToolError> {
    let entropy = SystemEntropy::new().map_err(|error| ToolError::Machine {
        doing: "asking for random numbers".into(),
        cause: io::Error::other(error),
    })?;
    Ok(Arc::new(entropy))
}

fn doing(what: String) -> impl FnOnce(io::Error) -> ToolError {
    move |cause| ToolError::Machine { doing: what, cause }
}

fn tell(lines: &str) -> Result<(), ToolError> {
    io::stdout().lock().write_all(lines.as_bytes()).map_err(doing("writing to standard output".into()))
}
