//! One running `kew serve`: started on free ports, moved through time, killed, started again on the same ports.

use serde_json::Value;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);
/// What a program writes when its port is taken.
pub const PORT_TAKEN: &str = "Address already in use";
/// What opens the admin API of a strict server.
const TOKEN: &str = "e2e";
/// Listeners that are there only where a chapter asks for them: their usual ports would be fought for.
pub const OFF: [&str; 2] = ["--azure", "--cloudflare"];

pub struct Node {
    program: PathBuf,
    /// A directory, or the URL of a database.
    store: String,
    /// Where its greeting and its errors are.
    directory: PathBuf,
    flags: Vec<String>,
    child: Child,
    sqs: String,
    /// Where the listeners are that a chapter asked for: for each flag its address.
    asked: [(&'static str, String); 2],
    admin: String,
}

impl Node {
    /// Starts it on free ports.
    pub fn start(program: &Path, store: &str, directory: &Path, flags: &[String]) -> Result<Self, String> {
        fs::create_dir_all(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
        let free = "127.0.0.1:0";
        let child = spawn(program, store, directory, flags, [free, free])?;
        let mut node = Self {
            program: program.to_owned(),
            store: store.to_owned(),
            directory: directory.to_owned(),
            flags: flags.to_vec(),
            child,
            sqs: String::new(),
            asked: OFF.map(|flag| (flag, String::new())),
            admin: String::new(),
        };
        node.wait_until_ready()?;
        Ok(node)
    }

    /// Where it listens for what the flag names; empty where it does not.
    pub fn address(&self, flag: &str) -> String {
        let asked = self.asked.iter().find(|(asked, _)| *asked == flag).map(|(_, address)| address);
        asked.unwrap_or(&self.sqs).clone()
    }

    /// `kill -9`, then a start over what is left.
    pub fn crash(&mut self) -> Result<(), String> {
        self.child.kill().and_then(|()| self.child.wait()).map_err(|error| format!("kill: {error}"))?;
        let _old = fs::remove_file(self.ports_file());
        let begun = Instant::now();
        loop {
            self.child =
                spawn(&self.program, &self.store, &self.directory, &self.flags, [&self.sqs, &self.admin])?;
            match self.wait_until_ready() {
                // A connection of somebody else has the port for the moment.
                Err(reason) if is_port_taken(&reason) && begun.elapsed() < PATIENCE => {
                    thread::sleep(Duration::from_millis(100));
                }
                ready => return ready,
            }
        }
    }

    /// Returns when everything that falls due on the way has happened.
    pub fn advance(&self, milliseconds: u64) -> Result<(), String> {
        self.clock("POST", &format!("{{\"advance_ms\":{milliseconds}}}")).map(|_| ())
    }

    /// Engine time.
    pub fn now_ms(&self) -> Result<u64, String> {
        let said = self.clock("GET", "")?;
        said["now_ms"].as_u64().ok_or_else(|| format!("clock: {said}"))
    }

    fn clock(&self, method: &str, body: &str) -> Result<Value, String> {
        let said = ask(&self.admin, (method, "/api/v1/clock"), body);
        let said = said.map_err(|error| format!("clock: {error}"))?;
        let body = said.split_once("\r\n\r\n").map(|(_, body)| body).unwrap_or_default();
        match serde_json::from_str(body) {
            Ok(answer) if said.starts_with("HTTP/1.1 200") => Ok(answer),
            _ => Err(format!("clock: {said}")),
        }
    }

    fn ports_file(&self) -> PathBuf {
        self.directory.join("ports")
    }

    /// The next start takes the same port for a listener that a chapter asked for.
    fn keep_ports(&mut self) {
        for (flag, address) in &self.asked {
            let at = self.flags.iter().position(|given| given == flag);
            if let Some(value) = at.and_then(|at| self.flags.get_mut(at + 1)).filter(|value| *value != "off")
            {
                value.clone_from(address);
            }
        }
    }

    fn wait_until_ready(&mut self) -> Result<(), String> {
        let begun = Instant::now();
        loop {
            if let Ok(text) = fs::read_to_string(self.ports_file()) {
                let ports: Value = serde_json::from_str(&text).map_err(|error| format!("ports: {error}"))?;
                let address = |name: &str| ports[name].as_str().unwrap_or_default().to_owned();
                (self.sqs, self.admin) = (address("sqs"), address("admin"));
                self.asked = OFF.map(|flag| (flag, address(flag.trim_start_matches('-'))));
                self.keep_ports();
                return Ok(());
            }
            let ended = self.child.try_wait().map_err(|error| error.to_string())?;
            if ended.is_some() || begun.elapsed() > PATIENCE {
                let errors = fs::read_to_string(self.directory.join("errors")).unwrap_or_default();
                return Err(format!("kew does not start: {}", errors.trim()));
            }
            thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Whether that is what it wrote last.
fn is_port_taken(errors: &str) -> bool {
    errors.lines().last().is_some_and(|line| line.contains(PORT_TAKEN))
}

impl Drop for Node {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ended = (self.child.kill(), self.child.wait());
    }
}

fn spawn(
    program: &Path,
    store: &str,
    directory: &Path,
    flags: &[String],
    [sqs, admin]: [&str; 2],
) -> Result<Child, String> {
    let file = |name: &str| {
        File::options()
            .create(true)
            .append(true)
            .open(directory.join(name))
            .map_err(|error| format!("{name}: {error}"))
    };
    let mut command = Command::new(program);
    if let Some(workerd) = super::workerd() {
        command.env("KEW_WORKERD", workerd);
    }
    command
        .arg("serve")
        .arg("--store")
        .arg(store)
        .args(["--sqs", sqs, "--admin", admin])
        .arg("--ports-file")
        .arg(directory.join("ports"))
        .args(flags)
        .env("KEW_ADMIN_TOKEN", TOKEN)
        .stdin(Stdio::null())
        .stdout(file("greeting")?)
        .stderr(file("errors")?)
        .spawn()
        .map_err(|error| format!("{}: {error}", program.display()))
}

fn ask(address: &str, (method, path): (&str, &str), body: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {TOKEN}\r\n\
         Content-Type: application/json\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())?;
    let mut said = String::new();
    stream.read_to_string(&mut said)?;
    Ok(said)
}
