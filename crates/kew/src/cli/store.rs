//! `kew store`: tools for a stopped store. A running server holds its directory, and these say so.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, Subcommand};
use kew_core::{Entropy, Timestamp};
use kew_log_pg::{PgDisk, PgError};
use kew_store_log::{
    BackupReport, CheckReport, Disk, Drive, ExportReport, IDENTITY_FILE, LogError, LogOptions, LogStore,
    MANIFEST_FILE, RealDisk, SEGMENTS_FOLDER, Sharing, StoreStats, TailReport, Unreadable, make_private,
};
use thiserror::Error;

use crate::config::{PgUrl, is_postgres};
use crate::machine::{SystemEntropy, system_now};
use crate::opening;
use crate::private;

/// The arguments of `kew store`.
#[derive(Args, Debug)]
pub(super) struct StoreArgs {
    /// The store's directory, or postgres://USER@HOST/DATABASE
    #[arg(long, global = true, env = "KEW_STORE", value_name = "PATH", default_value = "./kew-data")]
    store: PathBuf,

    #[command(subcommand)]
    tool: Tool,
}

#[derive(Subcommand, Debug)]
enum Tool {
    /// Make an empty store; one that is there is left as it is
    Create {
        /// This directory or database instead of --store's
        place: Option<PathBuf>,
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
    #[error("{} is in use by {holder}: stop that server first", path.display())]
    Locked { path: PathBuf, holder: String },
    #[error(transparent)]
    Log(LogError),
    #[error("{place}: {cause}")]
    Postgres { place: String, cause: PgError },
    #[error("{cause}; {place} holds an empty store now: {remedy} before the next import")]
    CutShort { place: String, cause: LogError, remedy: &'static str },
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

/// The exit code of an export that is good but not of everything.
const LEFT_OUT: u8 = 3;

/// Runs one tool.
pub(super) fn run(store: &StoreArgs) -> ExitCode {
    match store.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // With a closed output the exit code says it all.
            let _told = writeln!(io::stderr().lock(), "error: {error}");
            if let ToolError::LeftOut(_) = error { LEFT_OUT.into() } else { ExitCode::FAILURE }
        }
    }
}

impl StoreArgs {
    fn run(&self) -> Result<(), ToolError> {
        match &self.tool {
            Tool::Create { place } => self.create(place.as_deref()),
            Tool::Check { directory } => self.check(directory.as_deref()),
            Tool::Stats { json } => {
                let stats = kew_store_log::stats(&self.look()?);
                tell(&if *json { format!("{}\n", stats_json(&stats)) } else { stats_lines(&stats) })
            }
            Tool::Export { to, leave_out_damaged } => {
                export(&self.look()?, to.as_deref(), *leave_out_damaged)
            }
            Tool::Import { from } => self.import(from.as_deref()),
            Tool::Backup { target, verify: true, .. } => {
                let files = kew_store_log::verify_backup(target).map_err(ToolError::Log)?;
                tell(&format!("every one of {} files is as the list says\n", files.len()))
            }
            Tool::Backup { target, link, verify: false } => self.with_store(|store| {
                let sharing = if *link { Sharing::Links } else { Sharing::Nothing };
                let report = kew_store_log::backup(store, target, sharing).map_err(ToolError::Log)?;
                tell(&backup_lines(target, &report))
            }),
        }
    }

    fn create(&self, place: Option<&Path>) -> Result<(), ToolError> {
        let named = place.map(|place| Self { store: place.to_owned(), tool: Tool::Stats { json: false } });
        let this = named.as_ref().unwrap_or(self);
        let options = LogOptions { drive: Drive::Manual, ..LogOptions::default() };
        let (disk, owned) = this.disk_to_fill()?;
        let opened = LogStore::open(disk, options, entropy()?, system_now());
        let (store, report) = opened.map_err(|error| this.explain(error))?;
        store.close().map_err(ToolError::Log)?;
        if let Some(owned) = owned {
            owned.give_up();
        }
        let shown = this.shown();
        tell(&if report.created {
            format!("made an empty store in {shown}\n")
        } else {
            format!("{shown} holds a store already\n")
        })
    }

    /// The database, if that is where the store is.
    fn postgres(&self) -> Option<PgUrl> {
        self.store.to_str().filter(|text| is_postgres(text)).map(|url| PgUrl(url.to_owned()))
    }

    /// Where the store is, for people.
    fn shown(&self) -> String {
        self.postgres().map_or_else(|| self.store.display().to_string(), |url| url.to_string())
    }

    /// A place for a store that may not be there yet, to be changed. A database is owned until that is given up.
    fn disk_to_fill(&self) -> Result<(Arc<dyn Disk>, Option<PgDisk>), ToolError> {
        if let Some(url) = self.postgres() {
            let disk = self.own(&url)?;
            return Ok((Arc::new(disk.clone()), Some(disk)));
        }
        let disk = RealDisk::open(&self.store).map_err(doing(format!("making {}", self.store.display())))?;
        Ok((Arc::new(disk), None))
    }

    fn own(&self, url: &PgUrl) -> Result<PgDisk, ToolError> {
        let entropy = entropy()?;
        let node = opening::this_run("kew store", &*entropy);
        let owned = kew_log_pg::own(&url.0, opening::ONLY_SHARD, &node, opening::founding(&*entropy));
        let disk = owned.map_err(|error| self.explain_postgres(error))?.disk;
        opening::of_one_shard(&disk).map_err(|error| self.explain_postgres(error))?;
        Ok(disk)
    }

    /// The store of a URL, to be read only.
    fn look_at(&self, url: &PgUrl) -> Result<PgDisk, ToolError> {
        let looked = kew_log_pg::look(&url.0, opening::ONLY_SHARD);
        let disk = looked.map_err(|error| self.explain_postgres(error))?;
        opening::of_one_shard(&disk).map_err(|error| self.explain_postgres(error))?;
        Ok(disk)
    }

    fn explain_postgres(&self, error: PgError) -> ToolError {
        match error {
            PgError::Owned { node, .. } => {
                ToolError::Locked { path: self.shown().into(), holder: format!("the node {node}") }
            }
            PgError::NoStore => ToolError::NoStore(self.shown().into()),
            cause => ToolError::Postgres { place: self.shown(), cause },
        }
    }

    fn check(&self, directory: Option<&Path>) -> Result<(), ToolError> {
        let named = directory
            .map(|directory| Self { store: directory.to_owned(), tool: Tool::Stats { json: false } });
        let this = named.as_ref().unwrap_or(self);
        let report = kew_store_log::check(this.disk_to_look_at()?).map_err(|error| this.explain(error))?;
        tell(&check_lines(&report))?;
        if report.is_sound() { Ok(()) } else { Err(ToolError::Damaged) }
    }

    fn import(&self, from: Option<&Path>) -> Result<(), ToolError> {
        let mut lines: Box<dyn BufRead> = match from {
            Some(path) => Box::new(BufReader::new(
                File::open(path).map_err(doing(format!("opening {}", path.display())))?,
            )),
            None => Box::new(io::stdin().lock()),
        };
        let (disk, owned) = self.disk_to_fill()?;
        let was_store = holds_store(&*disk);
        let options = LogOptions { drive: Drive::Manual, ..LogOptions::default() };
        let imported =
            kew_store_log::import(&mut *lines, Arc::clone(&disk), options, entropy()?, system_now());
        let is_cut_short = imported.is_err() && !was_store && holds_store(&*disk);
        if let Some(owned) = &owned {
            owned.give_up();
        }
        let report = imported.map_err(|error| {
            if is_cut_short {
                let remedy =
                    if owned.is_some() { "drop the tables that begin with kew_" } else { "remove it" };
                ToolError::CutShort { place: self.shown(), cause: error, remedy }
            } else {
                self.explain(error)
            }
        })?;
        if owned.is_none() {
            make_private(&self.store)
                .map_err(doing(format!("closing {} to others", self.store.display())))?;
        }
        tell(&format!(
            "{} queues and {} messages, out of {} lines\n",
            report.queues, report.messages, report.lines
        ))
    }

    /// Opens the store without changing a byte of it.
    fn look(&self) -> Result<LogStore, ToolError> {
        let looked = LogStore::look(self.disk_to_look_at()?, LogOptions::default(), entropy()?);
        let (store, report) = looked.map_err(|error| self.explain(error))?;
        if let Some(tail) = &report.tail {
            // With a closed output the work goes on.
            let _told = writeln!(io::stderr().lock(), "{}", tail_line(tail));
        }
        Ok(store)
    }

    /// Opens the store, works with it, and closes it as it should be.
    fn with_store(&self, work: impl FnOnce(&LogStore) -> Result<(), ToolError>) -> Result<(), ToolError> {
        let options = LogOptions { drive: Drive::Manual, ..LogOptions::default() };
        let (disk, owned) = self.disk()?;
        let opened = LogStore::open(disk, options, entropy()?, Timestamp::ZERO);
        let (store, report) = opened.map_err(|error| self.explain(error))?;
        if let Some(tail) = &report.tail {
            let line = format!(
                "cut {} bytes of an incomplete batch off {} at offset {}\n",
                tail.bytes_dropped, tail.file, tail.offset
            );
            // With a closed output the work goes on.
            let _told = io::stderr().lock().write_all(line.as_bytes());
        }
        let worked = work(&store);
        let closed = store.close().map_err(ToolError::Log);
        if let Some(owned) = owned {
            owned.give_up();
        }
        worked.and(closed)
    }

    /// The place of a store that exists, to be changed.
    fn disk(&self) -> Result<(Arc<dyn Disk>, Option<PgDisk>), ToolError> {
        if let Some(url) = self.postgres() {
            // Looked at first: only a store that is there is owned.
            drop(self.look_at(&url)?);
            return self.disk_to_fill();
        }
        self.holds_a_store()?;
        let disk = RealDisk::open(&self.store).map_err(doing(format!("opening {}", self.store.display())))?;
        Ok((Arc::new(disk), None))
    }

    /// The same, to be read only.
    fn disk_to_look_at(&self) -> Result<Arc<dyn Disk>, ToolError> {
        if let Some(url) = self.postgres() {
            return Ok(Arc::new(self.look_at(&url)?));
        }
        self.holds_a_store()?;
        let disk = RealDisk::look(&self.store).map_err(doing(format!("opening {}", self.store.display())))?;
        Ok(Arc::new(disk))
    }

    /// Fails in a directory without a store: looking at nothing must not make one.
    fn holds_a_store(&self) -> Result<(), ToolError> {
        let holds = |name: &&str| self.store.join(name).exists();
        // A store that lost the file that names it is still to be looked at. Anything else is somebody's directory.
        if [IDENTITY_FILE, MANIFEST_FILE, SEGMENTS_FOLDER].iter().any(holds) {
            Ok(())
        } else {
            Err(ToolError::NoStore(self.store.clone()))
        }
    }

    fn explain(&self, error: LogError) -> ToolError {
        match error {
            LogError::Locked { holder } => ToolError::Locked { path: self.store.clone(), holder },
            error => ToolError::Log(error),
        }
    }
}

/// Whether a store, empty or not, is in this place.
fn holds_store(disk: &dyn Disk) -> bool {
    disk.list("").is_ok_and(|names| names.iter().any(|name| name == IDENTITY_FILE))
}

fn export(store: &LogStore, to: Option<&Path>, leaves_out: bool) -> Result<(), ToolError> {
    let report = match to {
        None => write_lines(store, &mut io::stdout().lock(), leaves_out)?,
        Some(path) => {
            let report = export_file(store, path, leaves_out)?;
            let (queues, messages) = (report.queues, report.messages);
            tell(&format!("{queues} queues and {messages} messages, in {} lines\n", report.lines))?;
            report
        }
    };
    if report.left_out == 0 { Ok(()) } else { Err(ToolError::LeftOut(report.left_out)) }
}

fn export_file(store: &LogStore, path: &Path, leaves_out: bool) -> Result<ExportReport, ToolError> {
    let file = private::make_file(path).map_err(doing(format!("making {}", path.display())))?;
    let mut buffer = BufWriter::new(file);
    let written = write_lines(store, &mut buffer, leaves_out).and_then(|report| {
        let file = buffer.into_inner().map_err(io::IntoInnerError::into_error);
        let synced = file.and_then(|file| file.sync_all());
        synced.map(|()| report).map_err(doing(format!("writing {}", path.display())))
    });
    if written.is_err() {
        // Nothing imports a part of an export, and the next attempt wants the name.
        let _removed = std::fs::remove_file(path);
    }
    written
}

/// Writes the lines; stops at a message that cannot be read, or tells it and goes on.
fn write_lines(store: &LogStore, to: &mut dyn Write, leaves_out: bool) -> Result<ExportReport, ToolError> {
    let mut stopped_at = None;
    let exported = kew_store_log::export_readable(store, to, &mut |message| {
        if leaves_out {
            // With a closed output the work goes on.
            let _told = writeln!(io::stderr().lock(), "left out {message}");
            return Ok(());
        }
        let cause = message.cause.clone();
        stopped_at = Some(message);
        Err(cause)
    });
    exported.map_err(|error| stopped_at.map_or(ToolError::Log(error), ToolError::Unreadable))
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

fn check_lines(report: &CheckReport) -> String {
    let mut lines = String::new();
    for problem in &report.problems {
        lines.push_str(&format!("DAMAGE  {problem}\n"));
    }
    if let Some(tail) = &report.tail {
        lines.push_str(&format!("tail    {}\n", tail_line(tail)));
    }
    lines.push_str(&format!(
        "{}: {} segments, {} batches after the checkpoint, {} records before it, {} slices, {} queues, {} messages\n",
        if report.is_sound() { "sound" } else { "damaged" },
        report.segments,
        report.batches,
        report.records,
        report.slices,
        report.queues,
        report.messages
    ));
    lines
}

fn tail_line(tail: &TailReport) -> String {
    format!(
        "{} at offset {}: {} bytes of an incomplete batch, which the next start cuts off ({})",
        tail.file, tail.offset, tail.bytes_dropped, tail.why
    )
}

fn stats_lines(stats: &StoreStats) -> String {
    let messages = &stats.messages;
    format!(
        "queues               {}\nmessages             {}\n  visible            {}\n  in flight          {}\n  delayed            {}\n  bytes of bodies    {}\nsegments             {} of the journal, {} of survivors, {} spare\n  bytes              {} and {} spare\n  live               {}\n  dead               {}\nmemory, about        {}\n",
        stats.queues,
        messages.stored(),
        messages.visible,
        messages.in_flight,
        messages.delayed,
        messages.body_bytes,
        stats.journal_segments,
        stats.survivor_segments,
        stats.spares,
        stats.segment_bytes,
        stats.spare_bytes,
        stats.log.live_bytes,
        stats.log.dead_bytes,
        stats.log.heap_bytes
    )
}

/// The same for programs. Names go on meaning what they mean; there may be more of them.
fn stats_json(stats: &StoreStats) -> serde_json::Value {
    let messages = &stats.messages;
    serde_json::json!({
        "queues": stats.queues,
        "messages": {
            "stored": messages.stored(),
            "visible": messages.visible,
            "in_flight": messages.in_flight,
            "delayed": messages.delayed,
            "body_bytes": messages.body_bytes,
        },
        "segments": {
            "journal": stats.journal_segments,
            "survivors": stats.survivor_segments,
            "spare": stats.spares,
            "bytes": stats.segment_bytes,
            "spare_bytes": stats.spare_bytes,
            "live_bytes": stats.log.live_bytes,
            "dead_bytes": stats.log.dead_bytes,
        },
        "memory_bytes": stats.log.heap_bytes,
    })
}

fn backup_lines(target: &Path, report: &BackupReport) -> String {
    let bytes: u64 = report.files.iter().map(|file| file.bytes).sum();
    format!(
        "{} files, {bytes} bytes, up to batch {}, in {}; {}\n",
        report.files.len(),
        report.batch,
        target.display(),
        match report.linked {
            0 => "all of them are copies".to_owned(),
            linked => format!("{linked} of them are the store's own files under a second name"),
        }
    )
}
