//! Nodes on one store, each a process on addresses that stay the same.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use kew_log_pg::server::free_address;
use serde_json::Value;
use tempfile::TempDir;

/// How long a test waits for a node.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a client waits for a reply. A node waits 3 s for its database, 5 s for the end of a hand-over, and 8 s
/// until a shard has an owner; and a machine may stand still.
const REPLY_MAX: Duration = Duration::from_secs(15);

/// A host of its own for a node: a network namespace, and the address in it that clients use.
pub struct Host {
    pub space: String,
    pub address: IpAddr,
}

/// A node.
pub struct Node {
    url: String,
    /// Where SQS is served while it owns the store.
    pub sqs: SocketAddr,
    pub azure: SocketAddr,
    pub cloudflare: SocketAddr,
    admin: SocketAddr,
    directory: TempDir,
    /// Variables of its process beside those of all nodes.
    variables: Vec<(String, String)>,
    /// The network namespace of its process.
    space: Option<String>,
    child: Option<Child>,
}

impl Node {
    /// Starts a node on a store.
    pub fn start(url: &str) -> Self {
        Self::start_with(url, &[])
    }

    /// The same with variables of its process.
    pub fn start_with(url: &str, variables: &[(&str, &str)]) -> Self {
        let address = Ipv4Addr::LOCALHOST.into();
        Self::start_on(url, (None, address), variables)
    }

    /// The same on a host of its own.
    pub fn start_at(url: &str, Host { space, address }: Host, variables: &[(&str, &str)]) -> Self {
        Self::start_on(url, (Some(space), address), variables)
    }

    fn start_on(url: &str, (space, address): (Option<String>, IpAddr), variables: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().expect("the machine has a temporary directory");
        let [sqs, azure, cloudflare, admin] =
            [(); 4].map(|()| SocketAddr::new(address, free_address().port()));
        let variables =
            variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let url = url.to_owned();
        let mut node = Self { url, sqs, azure, cloudflare, admin, directory, variables, space, child: None };
        node.start_again();
        node
    }

    /// Starts it again after its end.
    pub fn start_again(&mut self) {
        const PROGRAM: &str = env!("CARGO_BIN_EXE_kew");
        let mut command = match &self.space {
            // It becomes the program, so that signals reach that.
            Some(space) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", space, PROGRAM]);
                command
            }
            None => Command::new(PROGRAM),
        };
        // Settings of the user that runs the tests do not count.
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("KEW_")) {
            command.env_remove(name);
        }
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        let errors = File::options().append(true).create(true).open(self.errors_path());
        command.args(["serve", "--store", &self.url]);
        command.args(["--sqs", &self.sqs.to_string(), "--azure", &self.azure.to_string()]);
        command.args(["--cloudflare", &self.cloudflare.to_string(), "--admin", &self.admin.to_string()]);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(errors.expect("the directory is the test's own"));
        self.child = Some(command.spawn().expect("the program kew is built with its tests"));
    }

    fn errors_path(&self) -> PathBuf {
        self.directory.path().join("errors")
    }

    /// What it has logged since its first start.
    pub fn errors(&self) -> String {
        std::fs::read_to_string(self.errors_path()).unwrap_or_default()
    }

    /// The reply of `/readyz`.
    pub fn ready(&self) -> io::Result<(u16, String)> {
        request(self.admin, "GET", "/readyz", &[], "")
    }

    /// A request to the admin API below `/api/v1`; status and body of the reply.
    pub fn api(&self, method: &str, path: &str, body: &str) -> io::Result<(u16, Value)> {
        let json = ["Content-Type: application/json"];
        let (status, body) = request(self.admin, method, &format!("/api/v1{path}"), &json, body)?;
        Ok((status, serde_json::from_str(&body).unwrap_or_default()))
    }

    /// What the admin API shows at a path. It is asked again where it says that it cannot tell just now: a node may not
    /// know all queues for a moment, or not reach the owner of one.
    pub fn shows(&self, path: &str) -> Value {
        let begun = Instant::now();
        loop {
            match self.api("GET", path, "") {
                Ok((200, shown)) => return shown,
                Ok((503, _)) if begun.elapsed() < PATIENCE => std::thread::sleep(Duration::from_millis(50)),
                other => panic!("{path}: {other:?}\n{}", self.errors()),
            }
        }
    }

    /// Returns once `/readyz` says so.
    pub fn wait_until_ready(&self) {
        self.wait_until("is ready", |reply| matches!(reply, Ok((200, _))));
    }

    /// Returns once `/readyz` says that it stands by.
    pub fn wait_until_standing_by(&self) {
        self.wait_until(
            "stands by",
            |reply| matches!(reply, Ok((503, body)) if body.contains("standing by")),
        );
    }

    /// Returns once `/readyz` says why it is not ready, with this text.
    pub fn wait_until_it_says(&self, text: &str) {
        self.wait_until(text, |reply| matches!(reply, Ok((503, body)) if body.contains(text)));
    }

    /// Returns once it serves, or stands by for another node that does.
    pub fn wait_until_owned(&self) {
        self.wait_until("serves or stands by", |reply| match reply {
            Ok((200, _)) => true,
            Ok((_, body)) => body.contains("standing by"),
            Err(_) => false,
        });
    }

    /// Returns once this is so of the reply of `/readyz`.
    pub fn wait_until(&self, what: &str, is_so: impl Fn(&io::Result<(u16, String)>) -> bool) {
        let begun = Instant::now();
        loop {
            let reply = self.ready();
            if is_so(&reply) {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "no node {what}: {reply:?}\n{}", self.errors());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The number of its process.
    pub fn process(&self) -> u32 {
        self.child.as_ref().expect("the node was started").id()
    }

    pub fn signal(&self, name: &str) {
        let id = self.process().to_string();
        let sent = Command::new("kill").arg(format!("-{name}")).arg(id).status();
        assert!(sent.expect("the system has the program kill").success());
    }

    pub fn kill(&mut self) {
        let mut child = self.child.take().expect("the node was started");
        child.kill().expect("the child process can be killed");
        child.wait().expect("the child process was not waited for before");
    }

    /// Waits for its end and answers the exit code.
    pub fn exit_code(&mut self) -> Option<i32> {
        let begun = Instant::now();
        let child = self.child.as_mut().expect("the node was started");
        loop {
            if let Some(status) = child.try_wait().expect("the child process was not waited for before") {
                return status.code();
            }
            assert!(begun.elapsed() < PATIENCE, "it does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may have ended by itself.
            let _ended = (child.kill(), child.wait());
        }
    }
}

/// One action of SQS; the body of its reply, or nothing where it failed or its outcome is not known.
pub fn ask(node: SocketAddr, action: &str, json: &str) -> Option<String> {
    ask_within(node, action, json, REPLY_MAX)
}

/// The same with another limit for the reply.
pub fn ask_within(node: SocketAddr, action: &str, json: &str, within: Duration) -> Option<String> {
    let target = format!("X-Amz-Target: AmazonSQS.{action}");
    match request_within(node, "POST", "/", &[&target], json, within) {
        Ok((200, body)) => Some(body),
        _ => None,
    }
}

/// One request; status and body of the reply.
pub fn request(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[&str],
    body: &str,
) -> io::Result<(u16, String)> {
    request_within(address, method, path, headers, body, REPLY_MAX)
}

/// The same with another limit for each part of the reply.
pub fn request_within(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[&str],
    body: &str,
    within: Duration,
) -> io::Result<(u16, String)> {
    let mut stream = TcpStream::connect_timeout(&address, within)?;
    stream.set_read_timeout(Some(within))?;
    let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\n{headers}Connection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    )?;
    let mut reply = String::new();
    stream.read_to_string(&mut reply)?;
    let no_reply = || io::Error::new(io::ErrorKind::UnexpectedEof, "no whole reply");
    let (head, body) = reply.split_once("\r\n\r\n").ok_or_else(no_reply)?;
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    if length.is_some_and(|length| length != body.len()) {
        return Err(no_reply());
    }
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or_else(no_reply)?;
    Ok((status, body.to_owned()))
}
