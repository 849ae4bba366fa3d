//! A `kew serve` in a process of its own, on a store of its own; and whatever else is started to be measured.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::Fault;

/// A server may take so long to be ready.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// A server that runs until it is dropped.
pub struct Server {
    child: Child,
    ports: Value,
    /// From the start of the process until it said it was ready.
    pub ready_after: Duration,
    /// The words it was started with, so that it can be repeated.
    pub command: String,
    /// What it writes to stderr.
    errors: PathBuf,
}

/// The account of servers that check signatures.
pub const CONFIG: &str = r#"[server]
auth = "strict"
[admin]
token = "bench"
[[accounts]]
aws = { id = "123456789012", access_keys = [{ id = "BENCH", secret = "secret" }] }
azure = { name = "bench", keys = ["a2V3LWJlbmNoLWtleS1rZXctYmVuY2gta2V5"] }
"#;
/// How a load signs for it, in SQS.
pub const SQS_KEY: [&str; 4] = ["--access-key", "BENCH", "--secret", "secret"];
/// And in Azure.
pub const AZURE_KEY: [&str; 4] =
    ["--access-key", "bench", "--secret", "a2V3LWJlbmNoLWtleS1rZXctYmVuY2gta2V5"];

impl Server {
    /// Starts it on the store in `dir` and waits until it is ready.
    pub fn start(kew: &Path, dir: &Path, flags: &[&str], variables: &[(&str, &str)]) -> Result<Self, Fault> {
        Self::start_on(kew, dir.join("data").as_os_str(), dir, flags, variables)
    }

    /// The same on any store; its other files are in `dir`.
    pub fn start_on(
        kew: &Path,
        store: &OsStr,
        dir: &Path,
        flags: &[&str],
        variables: &[(&str, &str)],
    ) -> Result<Self, Fault> {
        std::fs::create_dir_all(dir)?;
        let ports = dir.join("ports");
        let _left_over = std::fs::remove_file(&ports);
        let mut command = Command::new(kew);
        command.arg("serve").arg("--store").arg(store).arg("--ports-file").arg(&ports);
        for listener in ["--sqs", "--azure", "--cloudflare", "--admin"] {
            command.args([listener, "127.0.0.1:0"]);
        }
        command.args(flags).envs(variables.iter().copied()).stdin(Stdio::null());
        let errors = dir.join("errors");
        let begun = Instant::now();
        let mut child = command.stdout(Stdio::piped()).stderr(std::fs::File::create(&errors)?).spawn()?;
        let mut lines = BufReader::new(child.stdout.take().ok_or("it has no output")?);
        let mut line = String::new();
        while line.trim() != "Ready." {
            line.clear();
            if lines.read_line(&mut line)? == 0 || begun.elapsed() > READY_WITHIN {
                let _ended = (child.kill(), child.wait());
                let errors = std::fs::read_to_string(&errors).unwrap_or_default();
                return Err(format!("kew serve did not become ready: {errors}").into());
            }
        }
        let ready_after = begun.elapsed();
        // What it says later must not block it.
        std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
        let ports = serde_json::from_slice(&std::fs::read(&ports)?)?;
        let said: Vec<String> = variables.iter().map(|(name, value)| format!("{name}={value} ")).collect();
        let flags: String = flags.iter().map(|flag| format!(" {flag}")).collect();
        let command = format!("{}kew serve --store DIR{flags}", said.concat());
        Ok(Self { child, ports, ready_after, command, errors })
    }

    /// Where a dialect is served.
    pub fn address(&self, dialect: &str) -> String {
        self.ports[dialect].as_str().unwrap_or_default().to_owned()
    }

    /// What it has written to stderr by now.
    pub fn errors(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.errors).unwrap_or_default()).into_owned()
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Bytes resident now.
    pub fn resident(&self) -> u64 {
        resident(self.pid())
    }

    /// Of them what is the process's own, not pages of its program's file.
    pub fn anonymous(&self) -> u64 {
        kilobytes(self.pid(), "RssAnon:")
    }

    /// Ends it as a power cut for one process would.
    pub fn kill(mut self) {
        let _killed = (self.child.kill(), self.child.wait());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ended = (self.child.kill(), self.child.wait());
    }
}

/// Bytes that a process has resident.
pub fn resident(pid: u32) -> u64 {
    kilobytes(pid, "VmRSS:")
}

fn kilobytes(pid: u32, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) << 10
}

/// User and system time of a process so far.
pub fn cpu(pid: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

/// One keep-alive connection that asks SQS for small things.
pub struct Asking {
    stream: TcpStream,
    host: String,
}

impl Asking {
    pub fn open(address: &str) -> Result<Self, Fault> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        Ok(Self { stream, host: address.to_owned() })
    }

    /// One action; its reply, which must be a success.
    pub fn ask(&mut self, action: &str, json: &str) -> Result<String, Fault> {
        let request = format!(
            "POST / HTTP/1.1\r\nhost: {}\r\nx-amz-target: AmazonSQS.{action}\r\ncontent-type: application/x-amz-json-1.0\r\ncontent-length: {}\r\n\r\n{json}",
            self.host,
            json.len()
        );
        self.stream.write_all(request.as_bytes())?;
        let mut bytes = Vec::new();
        let mut piece = [0; 4096];
        loop {
            let read = self.stream.read(&mut piece)?;
            if read == 0 {
                return Err("the server closed the connection".into());
            }
            bytes.extend_from_slice(piece.get(..read).unwrap_or_default());
            let text = String::from_utf8_lossy(&bytes);
            let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
            let head = head.to_ascii_lowercase();
            let length = head.split("content-length:").nth(1).and_then(|rest| rest.lines().next());
            let length: usize = length.ok_or("a reply without a length")?.trim().parse()?;
            if body.len() < length {
                continue;
            }
            return if head.starts_with("http/1.1 200") { Ok(body.to_owned()) } else { Err(text.into()) };
        }
    }
}

/// A folder that is gone when it is dropped.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(dir: &Path, name: &str) -> Result<Self, Fault> {
        let path = dir.join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _removed = std::fs::remove_dir_all(&self.0);
    }
}
