//! One Kew for one client: started on a free port over a directory of its own, moved through time, killed, started
//! again on the same port over the same data.

use serde_json::Value;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);
/// What opens the admin API of a strict server.
const TOKEN: &str = "e2e";
/// Listeners that are there only where a chapter asks for them: their usual ports would be fought for.
const OFF: [&str; 2] = ["--azure", "--cloudflare"];

pub struct Server {
    program: PathBuf,
    /// A directory, or the URL of a database.
    store: String,
    directory: PathBuf,
    flags: Vec<String>,
    child: Child,
    pub sqs: String,
    /// Where the listeners are that a chapter asked for: for each flag its address.
    asked: [(&'static str, String); 2],
    admin: String,
}

impl Server {
    /// Starts it with nothing stored, in a database or in the directory, which is emptied first.
    pub fn start(
        program: &Path,
        database: Option<String>,
        directory: &Path,
        flags: &[String],
        config: Option<&str>,
    ) -> Result<Self, String> {
        let _left_by_a_run_before = fs::remove_dir_all(directory);
        fs::create_dir_all(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
        let mut flags = flags.to_vec();
        let help = Command::new(program).args(["serve", "--help"]).output().map_err(|error| {
            let program = program.display();
            format!("{program}: {error}")
        })?;
        let help = String::from_utf8_lossy(&help.stdout).into_owned();
        let is_wanted = |flag: &str| help.contains(flag) && !flags.iter().any(|given| given == flag);
        let off: Vec<&str> = OFF.into_iter().filter(|flag| is_wanted(flag)).collect();
        for flag in off {
            flags.extend([flag.to_owned(), "off".to_owned()]);
        }
        if let Some(config) = config {
            let path = directory.join("kew.toml");
            fs::write(&path, config).map_err(|error| format!("{}: {error}", path.display()))?;
            flags.extend(["--config".to_owned(), path.to_string_lossy().into_owned()]);
        }
        flags.extend(["--clock".to_owned(), "virtual".to_owned()]);
        let free = "127.0.0.1:0";
        let store = database.unwrap_or_else(|| directory.join("data").to_string_lossy().into_owned());
        let child = spawn(program, &store, directory, &flags, [free, free])?;
        let mut server = Self {
            program: program.to_owned(),
            store,
            directory: directory.to_owned(),
            flags,
            child,
            sqs: String::new(),
            asked: OFF.map(|flag| (flag, String::new())),
            admin: String::new(),
        };
        server.wait_until_ready()?;
        Ok(server)
    }

    pub fn endpoint(&self) -> String {
        format!("http://{}", self.sqs)
    }

    /// Where Azure is served, if the chapter asked for that.
    pub fn azure(&self) -> String {
        self.asked_for("--azure")
    }

    /// The same for Cloudflare.
    pub fn cloudflare(&self) -> String {
        self.asked_for("--cloudflare")
    }

    fn asked_for(&self, flag: &str) -> String {
        let found = self.asked.iter().find(|(asked, _)| *asked == flag);
        format!("http://{}", found.map(|(_, address)| address.as_str()).unwrap_or_default())
    }

    /// `kill -9`, then a start over what is left.
    pub fn crash(&mut self) -> Result<(), String> {
        self.child.kill().and_then(|()| self.child.wait()).map_err(|error| format!("kill: {error}"))?;
        let _old = fs::remove_file(self.ports_file());
        self.child =
            spawn(&self.program, &self.store, &self.directory, &self.flags, [&self.sqs, &self.admin])?;
        self.wait_until_ready()
    }

    /// Returns when everything that falls due on the way has happened.
    pub fn advance(&self, milliseconds: u64) -> Result<(), String> {
        let body = format!("{{\"advance_ms\":{milliseconds}}}");
        let said = post(&self.admin, "/api/v1/clock", &body).map_err(|error| format!("clock: {error}"))?;
        if said.starts_with("HTTP/1.1 200") { Ok(()) } else { Err(format!("clock: {said}")) }
    }

    /// Where its data, its greeting and its errors are.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The program itself, by a path that holds in any directory.
    pub fn program(&self) -> PathBuf {
        std::path::absolute(&self.program).unwrap_or_else(|_| self.program.clone())
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

impl Drop for Server {
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

fn post(address: &str, path: &str, body: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\nConnection: close\r\n\
         Content-Length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())?;
    let mut said = String::new();
    stream.read_to_string(&mut said)?;
    Ok(said)
}
