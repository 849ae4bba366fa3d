//! A PostgreSQL server of its own, for tests and measurements: made from the system's binaries in a temporary
//! directory, reached through a port of the loopback address, gone with the process that started it.
//!
//! Only with the feature `server`.

mod folder;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use folder::Folder;

/// Where Debian keeps the binaries of each version.
const DEBIAN: &str = "/usr/lib/postgresql";
/// How long a server may take to start.
const START_MAX: Duration = Duration::from_secs(30);
/// How often another port is tried.
const PORTS_TRIED: usize = 5;
/// What the server writes when its port is taken.
const PORT_TAKEN: &str = "could not create any TCP/IP sockets";
/// Ends the server when the one who started it has gone: then nothing holds the other end of its input.
const KEEPER: &str = r#""$@" </dev/null & server=$!
cat >/dev/null
kill -INT $server; wait $server
kill -0 "$PARENT" || printf '%s' "$FOLDERS" | while read -r folder; do rm -rf "$folder"; done"#;

/// Kills a process and its children, and waits until they are gone: they hold on to the server's memory until then.
/// The process is stopped first, so that it makes no child between the look at its children and its end.
const KILL: &str = r#"kill -STOP "$1" || exit
while ! grep -q "^State:.[TZ]" "/proc/$1/status"; do sleep 0.01; done
children=$(pgrep -P "$1"); kill -KILL $children "$1"
for child in $children; do while grep -q . "/proc/$child/cmdline" 2>/dev/null; do sleep 0.01; done; done"#;

/// A server.
pub struct PgServer {
    folder: Folder,
    port: u16,
    child: Option<Child>,
    databases: AtomicU32,
}

impl PgServer {
    /// Whether the binaries are there.
    pub fn is_installed() -> bool {
        binaries().is_some()
    }

    /// Makes a server with settings, each as `name=value`, and starts it.
    pub fn start(settings: &[&str]) -> io::Result<Self> {
        let folder = Folder::with_cluster(settings)?;
        let placed = folder.settings();
        let server = Self { folder, port: 0, child: None, databases: AtomicU32::new(0) };
        let mut lines = format!(
            "listen_addresses='127.0.0.1'\nunix_socket_directories=''\nmax_connections=300\n{placed}"
        );
        for setting in settings {
            lines.push_str(setting);
            lines.push('\n');
        }
        server.configure(&lines)?;
        server.run_on_a_free_port()
    }

    /// A server that follows this one as a hot standby: made from a base backup, known to this one by a name, on a port
    /// that is given or free.
    pub fn standby(&self, name: &str, port: Option<u16>) -> io::Result<Self> {
        let folder = self.folder.for_a_follower()?;
        let from = format!("host=127.0.0.1 port={} user=kew application_name={name}", self.port);
        let words = ["--wal-method=stream", "--checkpoint=fast", "--no-sync", "--write-recovery-conf", "-d"];
        run(as_server("pg_basebackup")?.args(words).arg(from).arg("-D").arg(folder.data()))?;
        let mut server =
            Self { folder, port: port.unwrap_or_default(), child: None, databases: AtomicU32::new(0) };
        if port.is_none() {
            return server.run_on_a_free_port();
        }
        server.configure(&format!("port={}\n", server.port))?;
        server.run().map(|()| server)
    }

    /// Makes a standby a server of its own; returns when it takes writes.
    pub fn promote(&self) -> io::Result<()> {
        self.psql("postgres", "SELECT pg_promote()").map(drop)
    }

    fn run_on_a_free_port(mut self) -> io::Result<Self> {
        for _ in 0..PORTS_TRIED {
            // Somebody else may take the port before the server does.
            self.port = free_address().port();
            self.configure(&format!("port={}\n", self.port))?;
            match self.run() {
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => self.reap(),
                other => return other.map(|()| self),
            }
        }
        Err(io::ErrorKind::AddrInUse.into())
    }

    /// Adds lines to the settings; they hold from the next start on.
    pub fn configure(&self, lines: &str) -> io::Result<()> {
        let path = self.data().join("postgresql.conf");
        let text = std::fs::read_to_string(&path)?;
        std::fs::write(path, text + lines)
    }

    /// Starts it, and waits until it answers.
    pub fn run(&mut self) -> io::Result<()> {
        let log = std::fs::File::create(self.folder.path().join("log"))?;
        let mut child = Command::new("sh");
        child.args(["-c", KEEPER, "keeper"]);
        let server = as_server("postgres")?;
        child.arg(server.get_program()).args(server.get_args()).arg("-D").arg(self.data());
        let folders: String = self.folder.all().iter().map(|path| format!("{}\n", path.display())).collect();
        child.env("PARENT", std::process::id().to_string()).env("FOLDERS", folders);
        child.stdin(Stdio::piped()).stdout(log.try_clone()?).stderr(log).current_dir("/");
        self.child = Some(child.spawn()?);
        self.wait_until_ready()
    }

    fn wait_until_ready(&self) -> io::Result<()> {
        let begun = Instant::now();
        loop {
            if self.log()?.contains(PORT_TAKEN) {
                return Err(io::ErrorKind::AddrInUse.into());
            }
            let mut psql = Command::new(binary("psql")?);
            psql.args([
                "-h",
                "127.0.0.1",
                "-p",
                &self.port.to_string(),
                "-U",
                "kew",
                "-d",
                "postgres",
                "-c",
                "SELECT 1",
            ]);
            if psql.stdout(Stdio::null()).stderr(Stdio::null()).status()?.success() {
                return Ok(());
            }
            if begun.elapsed() > START_MAX {
                return Err(io::Error::other(format!("PostgreSQL did not start: {}", self.log()?)));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn log(&self) -> io::Result<String> {
        std::fs::read_to_string(self.folder.path().join("log"))
    }

    /// Ends it at once, as a power cut of its machine's processes would: nothing is written on the way out.
    pub fn kill(&mut self) -> io::Result<()> {
        let pid = std::fs::read_to_string(self.data().join("postmaster.pid"))?;
        let pid = pid.lines().next().unwrap_or_default().to_owned();
        run(Command::new("sh").args(["-c", KILL, "kill", &pid]))?;
        self.reap();
        Ok(())
    }

    /// Ends it in order, with every connection cut.
    pub fn stop(&mut self) -> io::Result<()> {
        run(as_server("pg_ctl")?.args(["stop", "-m", "fast", "-w", "-D"]).arg(self.data()))?;
        self.reap();
        Ok(())
    }

    fn reap(&mut self) {
        if let Some(mut child) = self.child.take() {
            drop(child.stdin.take());
            // It was asked to end, or has ended.
            let _ended = child.wait();
        }
    }

    /// Makes a new database and answers its URL.
    pub fn database(&self) -> io::Result<String> {
        let name = format!("kew{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.psql("postgres", &format!("CREATE DATABASE {name} STRATEGY file_copy"))?;
        Ok(format!("postgres://kew@127.0.0.1:{}/{name}", self.port))
    }

    /// Runs statements in a database and answers what they print, columns divided by `|`.
    pub fn psql(&self, database: &str, statements: &str) -> io::Result<String> {
        let mut psql = Command::new(binary("psql")?);
        psql.args(["-h", "127.0.0.1", "-p", &self.port.to_string(), "-U", "kew", "-d", database]);
        psql.args(["-X", "-q", "-t", "-A", "-v", "ON_ERROR_STOP=1", "-c", statements]);
        let output = psql.output()?;
        if !output.status.success() {
            return Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()));
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// Does something while a session of a database holds the locks of a statement.
    pub fn while_held<T>(&self, database: &str, statement: &str, work: impl FnOnce() -> T) -> io::Result<T> {
        let hold = format!("BEGIN; {statement}; SELECT pg_sleep(600)");
        let sleeps = "FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'";
        std::thread::scope(|scope| {
            let holds = scope.spawn(|| self.psql(database, &hold));
            while self.psql(database, &format!("SELECT count(*) {sleeps}"))? == "0" {
                if holds.is_finished() {
                    return Err(io::Error::other(format!("the locks were not taken: {statement}")));
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            // Also when it panics: otherwise the session would be waited for.
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
            self.psql(database, &format!("SELECT count(pg_terminate_backend(pid)) {sleeps}"))?;
            done.or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The directory of its data.
    pub fn data(&self) -> PathBuf {
        self.folder.data()
    }
}

impl Drop for PgServer {
    fn drop(&mut self) {
        self.reap();
    }
}

/// The database's name in a URL.
pub fn name_in(url: &str) -> &str {
    url.rsplit('/').next().unwrap_or_default()
}

/// An address that nothing listens on, and that the system gives to no client: a node that stands by listens on it
/// later.
pub fn free_address() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Below the ports of clients. Test programs that run at once begin at different ones.
    let (first, count) = (12_000, 20_000);
    let begin = u16::try_from(std::process::id() * 131 % u32::from(count)).unwrap_or_default();
    for _ in 0..count {
        let port = first + (begin + NEXT.fetch_add(1, Ordering::Relaxed)) % count;
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        if TcpListener::bind(address).is_ok() {
            return address;
        }
    }
    panic!("no port is free from {first} on");
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0)
}

/// A command of the server, which refuses to run as root.
fn as_server(name: &str) -> io::Result<Command> {
    let path = binary(name)?;
    if !is_root() {
        return Ok(Command::new(path));
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups", "--"]).arg(path).current_dir("/");
    Ok(command)
}

fn binary(name: &str) -> io::Result<PathBuf> {
    let folder = binaries().ok_or_else(|| {
        io::Error::new(io::ErrorKind::NotFound, "PostgreSQL is not installed (apt-get install postgresql)")
    })?;
    Ok(folder.join(name))
}

/// Where the newest version's binaries are.
pub fn binaries() -> Option<PathBuf> {
    let versions = std::fs::read_dir(DEBIAN).into_iter().flatten().flatten();
    let newest = versions
        .filter_map(|entry| entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()))
        .max()
        .map(|version| Path::new(DEBIAN).join(version.to_string()).join("bin"));
    let in_path = || {
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path).find(|folder| folder.join("initdb").exists())
    };
    newest.filter(|folder| folder.join("initdb").exists()).or_else(in_path)
}

fn run(command: &mut Command) -> io::Result<()> {
    let output = command.output()?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("{command:?}: {text}")))
}
