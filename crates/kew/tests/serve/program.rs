//! The binary in a process of its own.

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// How long a test waits for what the server does by itself. Four times what a request waits for room behind the
/// replies of clients that do not read.
const PATIENCE: Duration = Duration::from_secs(60);

/// The Workers runtime that the environment names. Without it a test says so aloud and passes, unless the environment
/// promises one.
pub fn workerd() -> Option<String> {
    let found = std::env::var("KEW_WORKERD").ok();
    if found.is_none() {
        assert!(
            std::env::var_os("KEW_WORKERD_NEEDED").is_none(),
            "KEW_WORKERD does not name the program workerd"
        );
        eprintln!("SKIPPED: KEW_WORKERD does not name the program workerd");
    }
    found
}

pub fn data_directory() -> TempDir {
    tempfile::tempdir().expect("the machine has a temporary directory")
}

pub struct Kew {
    child: Child,
    /// The addresses that were bound.
    pub ports: serde_json::Value,
    /// Where SQS is served.
    pub sqs: String,
    /// Where the admin API is served.
    pub admin: String,
    errors: PathBuf,
    greeting: PathBuf,
}

impl Kew {
    /// Serves with data in `directory/data`.
    pub fn start(directory: &Path) -> Self {
        let data = directory.join("data").to_string_lossy().into_owned();
        Self::start_with(directory, &["--store", &data])
    }

    /// Returns once it is ready.
    pub fn start_with(directory: &Path, flags: &[&str]) -> Self {
        Self::start_by(command(), directory, flags)
    }

    /// The same by a command of the test's own.
    pub fn start_by(command: Command, directory: &Path, flags: &[&str]) -> Self {
        let errors = File::create(directory.join("errors")).expect("the directory is ours");
        Self::start_with_errors_to(command, directory, flags, errors.into())
    }

    /// The same with standard error going elsewhere.
    pub fn start_with_errors_to(mut command: Command, directory: &Path, flags: &[&str], to: Stdio) -> Self {
        let (errors, greeting, ports) =
            (directory.join("errors"), directory.join("greeting"), directory.join("ports"));
        // Left by a run before.
        let _removed = std::fs::remove_file(&ports);
        let child = command
            .args(flags)
            .arg("--ports-file")
            .arg(&ports)
            .stdout(File::create(&greeting).expect("the directory is ours"))
            .stderr(to)
            .spawn()
            .expect("the program kew is built with its tests");
        // What the command holds of it is closed: the reader of a pipe hears of the end of the program.
        drop(command);
        let ports_file = ports;
        let (ports, sqs, admin) = Default::default();
        let mut kew = Self { child, ports, sqs, admin, errors, greeting };
        let begun = Instant::now();
        while !kew.greeting().ends_with("Ready.\n") {
            let ended = kew.child.try_wait().expect("the child process was not waited for before");
            assert!(ended.is_none() && begun.elapsed() < PATIENCE, "{ended:?}: {}", kew.errors());
            std::thread::sleep(Duration::from_millis(2));
        }
        let ports = std::fs::read(&ports_file).expect("the file of ports is written before the line Ready.");
        kew.ports = serde_json::from_slice(&ports).expect("the file of ports is JSON");
        let address = |name: &str| kew.ports[name].as_str().unwrap_or_default().to_owned();
        (kew.sqs, kew.admin) = (address("sqs"), address("admin"));
        kew
    }

    pub fn greeting(&mut self) -> String {
        std::fs::read_to_string(&self.greeting).unwrap_or_default()
    }

    pub fn errors(&self) -> String {
        std::fs::read_to_string(&self.errors).unwrap_or_default()
    }

    /// One action; status and body of the reply.
    pub fn ask(&self, action: &str, json: &str) -> (u16, String) {
        reply(self.begin(action, json))
    }

    /// An action that is asked for, not yet answered.
    pub fn begin(&self, action: &str, json: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.sqs).expect("the server accepts connections");
        let request = format!(
            "POST / HTTP/1.1\r\nHost: {}\r\nX-Amz-Target: AmazonSQS.{action}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{json}",
            self.sqs,
            json.len()
        );
        stream.write_all(request.as_bytes()).expect("the server reads the request");
        stream
    }

    /// One request to the admin API; status and body of the reply.
    pub fn admin(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> (u16, String) {
        http(&self.admin, method, path, headers, body)
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").arg(format!("-{name}")).arg(self.child.id().to_string()).status();
        assert!(sent.expect("the system has the program kill").success());
    }

    pub fn kill(&mut self) {
        self.child.kill().expect("the child process can be killed");
        self.child.wait().expect("the child process was not waited for before");
    }

    /// What it has used of the processor so far, in the program and in the system for it.
    pub fn processor_time(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))
            .expect("the process has a folder in /proc");
        // After the name in parentheses, which may hold spaces: state is the first, user time the twelfth.
        let fields =
            stat.rsplit(')').next().expect("the line of /proc has fields behind the name").split_whitespace();
        let ticks: u64 = fields.skip(11).take(2).map(|ticks| ticks.parse::<u64>().expect("a number")).sum();
        // The kernel counts in hundredths of a second for everyone outside it.
        Duration::from_millis(ticks * 10)
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("the child process was not waited for before").is_none()
    }

    pub fn exit_code(&mut self) -> Option<i32> {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("the child process was not waited for before")
            {
                return status.code();
            }
            assert!(begun.elapsed() < PATIENCE, "it does not end: {}", self.errors());
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Kew {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ended = (self.child.kill(), self.child.wait());
    }
}

/// One request to any address; status and body of the reply.
pub fn http(address: &str, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> (u16, String) {
    taken_apart(&whole(address, method, path, headers, body))
}

/// The same; the whole reply.
pub fn whole(address: &str, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("the server accepts connections");
    let host = if headers.iter().any(|(name, _)| *name == "Host") { "" } else { "Host: localhost\r\n" };
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\n{host}{headers}Connection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).expect("the server reads the request");
    text_of(stream)
}

/// What a run that ends by itself prints, with these variables.
pub fn printed(arguments: &[&str], variables: &[(&str, &str)]) -> (Option<i32>, String, String) {
    let mut command = command();
    let output = command
        .args(arguments)
        .envs(variables.iter().copied())
        .output()
        .expect("the program kew is built with its tests");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// Exit code and errors of a start that does not work.
pub fn fail(flags: &[&str]) -> (Option<i32>, String) {
    let output = command().args(flags).output().expect("the program kew is built with its tests");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// What the system says of a process.
pub fn status(id: u32) -> String {
    std::fs::read_to_string(format!("/proc/{id}/status")).expect("the process has a folder in /proc")
}

/// A figure of a process's status, in KiB.
pub fn member_of_status(id: u32, name: &str) -> u64 {
    let status = status(id);
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    kib.and_then(|kib| kib.parse().ok()).unwrap_or_else(|| panic!("no {name} in {status}"))
}

pub fn reply(stream: TcpStream) -> (u16, String) {
    taken_apart(&text_of(stream))
}

fn text_of(mut stream: TcpStream) -> String {
    stream.set_read_timeout(Some(PATIENCE)).expect("the connection is open");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("the server answers and closes the connection");
    text
}

fn taken_apart(text: &str) -> (u16, String) {
    let (head, body) = text.split_once("\r\n\r\n").expect("a reply has a head and a body");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a reply has a status");
    (status, body.to_owned())
}

pub fn command() -> Command {
    set_up(Command::new(env!("CARGO_BIN_EXE_kew")))
}

/// A command that ends in `kew serve` and is not disturbed by its writes failing for their size.
pub fn command_without_file_size_signal() -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_kew")]);
    set_up(shell)
}

/// A command that ends in `kew serve`, with a limit of open files.
pub fn command_with_files(max: u64) -> Command {
    let mut shell = Command::new("sh");
    let limited = format!("ulimit -n {max}; exec \"$0\" \"$@\"");
    shell.args(["-c", &limited, env!("CARGO_BIN_EXE_kew")]);
    set_up(shell)
}

/// A command that ends in `kew serve`, begun as `nohup` begins it.
pub fn command_that_ignores_hang_up() -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", "trap '' HUP; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_kew")]);
    set_up(shell)
}

/// A command that ends in `kew serve`, begun as at a terminal, also where the tests run under `nohup`.
pub fn command_that_heeds_hang_up() -> Command {
    let mut env = Command::new("env");
    env.args(["--default-signal=HUP", env!("CARGO_BIN_EXE_kew")]);
    set_up(env)
}

/// A command that ends in `kew serve`, begun with a umask that lets everybody read and write.
pub fn command_with_open_umask() -> Command {
    set_up(tool_with_open_umask())
}

/// The program alone, begun in the same way.
pub fn tool_with_open_umask() -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", "umask 000; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_kew")]);
    shell
}

fn set_up(mut command: Command) -> Command {
    // Settings of the user that runs the tests do not count.
    for (name, _) in
        std::env::vars().filter(|(name, _)| name.starts_with("KEW_") || name.starts_with("OTEL_"))
    {
        command.env_remove(name);
    }
    command
        .args(["serve"])
        .env("KEW_SQS", "127.0.0.1:0")
        .env("KEW_ADMIN", "127.0.0.1:0")
        .env("KEW_AZURE", "127.0.0.1:0")
        .env("KEW_CLOUDFLARE", "127.0.0.1:0")
        .stdin(Stdio::null());
    command
}
