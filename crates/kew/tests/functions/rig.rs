//! A server on a virtual clock, a project in a folder, and hosts that run it.

use std::fs::File;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kew_core::Timestamp;
use tempfile::TempDir;

use crate::desk::{Call, Desk};
use crate::handler;
use crate::program::{self, Kew};

pub const PATIENCE: Duration = Duration::from_secs(20);
/// The well-known key of the well-known account.
const KEY: &str = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// Everything a scenario needs.
pub struct Rig {
    pub kew: Kew,
    pub desk: Arc<Desk>,
    /// Where queues are asked for by the test.
    pub azure: String,
    /// Where hosts ask for them: the same, or what stands between.
    pub endpoint: String,
    directory: TempDir,
    /// Whether hosts follow the server's clock.
    follows: bool,
    /// What the handler is to do.
    pub told: String,
}

impl Rig {
    /// A server, and a project with these settings of queues (`"batchSize":1`) and one function on one queue.
    pub fn new(settings: &str, queue: &str) -> Self {
        Self::with_clock(settings, queue, "virtual")
    }

    pub fn with_clock(settings: &str, queue: &str, clock: &str) -> Self {
        let directory = program::data_directory();
        let data = directory.path().join("data").to_string_lossy().into_owned();
        let kew = Kew::start_with(
            directory.path(),
            &["--store", &data, "--clock", clock, "--auth", "strict", "--config", &config(directory.path())],
        );
        let azure = kew.ports["azure"].as_str().expect("the listener is on").to_owned();
        let desk = Desk::open();
        let told = desk.address.clone();
        let follows = clock == "virtual";
        let rig = Self { kew, desk, endpoint: azure.clone(), azure, directory, follows, told };
        let executable = std::env::current_exe().expect("the test program has a path");
        let description =
            serde_json::json!({ "defaultExecutablePath": executable, "arguments": handler::ARGUMENTS });
        rig.file("host.json", &format!(
            r#"{{"version":"2.0","customHandler":{{"description":{description}}},"extensions":{{"queues":{{{settings}}}}}}}"#
        ));
        rig.function("fn", queue, "");
        rig.create(queue);
        rig
    }

    /// A file of the project.
    pub fn file(&self, name: &str, text: &str) {
        let path = self.root().join(name);
        std::fs::create_dir_all(path.parent().expect("a file of the project has a parent"))
            .expect("the folder is ours");
        std::fs::write(path, text).expect("the folder is ours");
    }

    /// A function on a queue, with further bindings (each with a comma before it).
    pub fn function(&self, name: &str, queue: &str, bindings: &str) {
        let trigger =
            format!(r#"{{"type":"queueTrigger","direction":"in","name":"item","queueName":"{queue}"}}"#);
        self.file(&format!("{name}/function.json"), &format!(r#"{{"bindings":[{trigger}{bindings}]}}"#));
    }

    pub fn root(&self) -> PathBuf {
        self.directory.path().join("project")
    }

    /// A host that is ready.
    pub fn host(&self) -> Host {
        self.host_with(&[])
    }

    pub fn host_with(&self, flags: &[&str]) -> Host {
        let mut host = self.begin(flags);
        host.is_ready();
        host
    }

    /// A host that has just been started.
    pub fn begin(&self, flags: &[&str]) -> Host {
        let place =
            tempfile::tempdir_in(self.directory.path()).expect("the machine has a temporary directory");
        let (out, log) = (place.path().join("out"), place.path().join("log"));
        let mut command = Command::new(env!("CARGO_BIN_EXE_kew"));
        for (name, _) in
            std::env::vars().filter(|(name, _)| name.starts_with("KEW_") || name.starts_with("AzureWebJobs"))
        {
            command.env_remove(name);
        }
        command.args(["functions", "start", "--root"]).arg(self.root()).args(flags);
        if self.follows {
            let admin = format!("http://{}", self.kew.admin);
            command.args(["--clock", &admin, "--admin-token", "token"]);
        }
        let child = command
            .env("AzureWebJobsStorage", connection(&self.endpoint))
            .env(handler::VARIABLE, &self.told)
            .stdin(Stdio::null())
            .stdout(File::create(&out).expect("the folder is ours"))
            .stderr(File::create(&log).expect("the folder is ours"))
            .spawn()
            .expect("the program kew is built with its tests");
        Host { child, out, log, _place: place }
    }

    /// One signed request to the test's own account; the whole reply.
    pub fn ask(&self, method: &str, path: &str, body: &str) -> Reply {
        ask(&self.azure, method, path, body)
    }

    pub fn create(&self, queue: &str) {
        assert_eq!(self.ask("PUT", &format!("/{queue}"), "").status, 201);
    }

    /// Puts a text as clients of functions do: in Base64.
    pub fn put(&self, queue: &str, text: &str) {
        self.put_raw(queue, &STANDARD.encode(text));
    }

    pub fn put_raw(&self, queue: &str, text: &str) {
        let body = format!("<QueueMessage><MessageText>{text}</MessageText></QueueMessage>");
        let reply = self.ask("POST", &format!("/{queue}/messages"), &body);
        assert_eq!(reply.status, 201, "{}", reply.body);
    }

    /// Puts a text by the front-end that takes the longest ones with a token alone.
    pub fn put_by_cloudflare(&self, queue: &str, text: &str) {
        let address = self.kew.ports["cloudflare"].as_str().expect("the listener is on");
        let queues = format!("/client/v4/accounts/{}/queues", "0".repeat(32));
        let headers = [("Authorization", "Bearer test"), ("Content-Type", "application/json")];
        let (status, reply) = program::http(address, "GET", &queues, &headers, "");
        assert_eq!(status, 200, "{reply}");
        let reply: serde_json::Value = serde_json::from_str(&reply).expect("the reply is JSON");
        let all = reply["result"].as_array().expect("result is a list");
        let found = all.iter().find(|shown| shown["queue_name"] == queue).expect("the queue is listed");
        let id = found["queue_id"].as_str().expect("queue_id is text");
        let body = serde_json::json!({ "body": text, "content_type": "text" }).to_string();
        let (status, reply) =
            program::http(address, "POST", &format!("{queues}/{id}/messages"), &headers, &body);
        assert_eq!(status, 200, "{reply}");
    }

    /// How many messages there are, hidden ones too; none when there is no such queue.
    pub fn count(&self, queue: &str) -> Option<u64> {
        let reply = self.ask("GET", &format!("/{queue}?comp=metadata"), "");
        reply
            .header("x-ms-approximate-messages-count")
            .map(|count| count.parse().expect("the text is a number"))
    }

    /// What can be seen of a queue: texts and how often each was received.
    pub fn peek(&self, queue: &str) -> Vec<(String, String)> {
        let reply = self.ask("GET", &format!("/{queue}/messages?peekonly=true&numofmessages=32"), "");
        reply.elements("MessageText").into_iter().zip(reply.elements("DequeueCount")).collect()
    }

    /// Waits until a queue holds this number of messages.
    #[track_caller]
    pub fn holds(&self, queue: &str, count: u64) {
        let begun = Instant::now();
        while self.count(queue) != Some(count) {
            assert!(
                begun.elapsed() < PATIENCE,
                "'{queue}' holds {:?} messages, not {count}",
                self.count(queue)
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until the server holds no poll.
    #[track_caller]
    pub fn is_not_polled(&self) {
        let begun = Instant::now();
        loop {
            let (status, text) = self.kew.admin("GET", "/metrics", &[("Authorization", "Bearer token")], "");
            assert_eq!(status, 200, "{text}");
            let waiting = text.lines().find_map(|line| line.strip_prefix("kew_waiting_receives "));
            if waiting.expect("the metric is there") == "0" {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "{waiting:?} polls are held");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Moves time ahead and returns where it landed; on the system's clock it passes.
    pub fn advance(&self, seconds: u64) -> u64 {
        if !self.follows {
            std::thread::sleep(Duration::from_secs(seconds));
            return kew::machine::system_now().0;
        }
        self.change_clock(&format!("{{\"advance_ms\":{}}}", seconds * 1_000))
    }

    /// A message with what happened to it, as an operator reads it.
    pub fn message(&self, id: &str) -> serde_json::Value {
        serde_json::from_str(&self.admin(&format!("/api/v1/messages/{id}"))).expect("the reply is JSON")
    }

    /// What is counted.
    pub fn metrics(&self) -> String {
        self.admin("/metrics")
    }

    fn admin(&self, path: &str) -> String {
        let (status, text) = self.kew.admin("GET", path, &[("Authorization", "Bearer token")], "");
        assert_eq!(status, 200, "{text}");
        text
    }

    /// Why a message was delivered again, as an operator reads it.
    pub fn reasons(&self, id: &str) -> Vec<String> {
        let message = self.message(id);
        let why = message["why"].as_array().expect("why is a list");
        why.iter().map(|again| again["because"].as_str().expect("because is text").to_owned()).collect()
    }

    /// Puts a message while time stands still, so that its first run begins at the instant of its receipt. That run.
    pub fn first_run(&self, queue: &str) -> Call {
        self.freeze(true);
        self.put(queue, "hello");
        let call = self.desk.next();
        self.freeze(false);
        call
    }

    /// Stops the clock, or has it go on, if it can be moved.
    pub fn freeze(&self, frozen: bool) {
        if !self.follows {
            return;
        }
        self.change_clock(&format!("{{\"freeze\":{frozen}}}"));
    }

    /// What the virtual clock shows.
    pub fn now_ms(&self) -> u64 {
        shown(self.clock("GET", ""))
    }

    fn change_clock(&self, body: &str) -> u64 {
        shown(self.clock("POST", body))
    }

    fn clock(&self, method: &str, body: &str) -> (u16, String) {
        let headers = [("Content-Type", "application/json"), ("Authorization", "Bearer token")];
        self.kew.admin(method, "/api/v1/clock", &headers, body)
    }
}

fn shown((status, reply): (u16, String)) -> u64 {
    assert_eq!(status, 200, "{reply}");
    let reply: serde_json::Value = serde_json::from_str(&reply).expect("the reply is JSON");
    reply["now_ms"].as_u64().expect("now_ms is a number")
}

fn config(directory: &Path) -> String {
    let path = directory.join("kew.toml");
    std::fs::write(&path, "[admin]\ntoken = \"token\"\n").expect("the folder is ours");
    path.to_string_lossy().into_owned()
}

/// The connection string of the well-known account at an address.
pub fn connection(address: &str) -> String {
    format!("AccountName=devstoreaccount1;AccountKey={KEY};QueueEndpoint=http://{address}/devstoreaccount1")
}

/// A request to the well-known account, by the client side of the dialect.
pub fn ask(address: &str, method: &str, path: &str, body: &str) -> Reply {
    use std::io::Write as _;
    let stream = TcpStream::connect(address);
    let mut stream = stream.expect("the server accepts connections");
    let length = body.len();
    let (path_only, query) = path.split_once('?').unwrap_or((path, ""));
    let date = kew_http::date::http_date(kew::machine::system_now());
    let signed = sign(method, path_only, query, length, &date);
    let request = format!(
        "{method} /devstoreaccount1{path} HTTP/1.1\r\nhost: {address}\r\nx-ms-date: {date}\r\nx-ms-version: 2021-12-02\r\nauthorization: SharedKey devstoreaccount1:{signed}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).expect("the server reads the request");
    Reply::read(stream)
}

fn sign(method: &str, path: &str, query: &str, length: usize, date: &str) -> String {
    use hmac::{Hmac, KeyInit, Mac};
    let length = if length == 0 { String::new() } else { length.to_string() };
    let mut resource = format!("/devstoreaccount1/devstoreaccount1{path}");
    let mut pairs: Vec<&str> = query.split('&').filter(|pair| !pair.is_empty()).collect();
    pairs.sort_unstable();
    for pair in pairs {
        let (name, value) = pair.split_once('=').expect("a query parameter has a value");
        let value = kew_http::percent::decode(value.as_bytes()).expect("the percent encoding is well formed");
        resource.push_str(&format!("\n{name}:{value}"));
    }
    let text = format!(
        "{method}\n\n\n{length}\n\n\n\n\n\n\n\n\nx-ms-date:{date}\nx-ms-version:2021-12-02\n{resource}"
    );
    let key = STANDARD.decode(KEY).expect("the well-known key is Base64");
    let mut mac = Hmac::<sha2::Sha256>::new_from_slice(&key).expect("any length will do");
    mac.update(text.as_bytes());
    STANDARD.encode(mac.finalize().into_bytes())
}

/// A reply, whole.
pub struct Reply {
    pub status: u16,
    head: String,
    pub body: String,
}

impl Reply {
    fn read(mut stream: TcpStream) -> Self {
        use std::io::Read as _;
        stream.set_read_timeout(Some(PATIENCE)).expect("the connection is open");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("the server answers and closes the connection");
        let (head, body) = text.split_once("\r\n\r\n").expect("a reply has a head and a body");
        let status =
            head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a reply has a status");
        Self { status, head: head.to_owned(), body: body.to_owned() }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    }

    /// The texts of all elements of this name.
    pub fn elements(&self, name: &str) -> Vec<String> {
        let (open, close) = (format!("<{name}>"), format!("</{name}>"));
        let parts = self.body.split(&open).skip(1);
        parts.filter_map(|rest| Some(rest.split_once(&close)?.0.to_owned())).collect()
    }
}

/// A host in a process of its own.
pub struct Host {
    child: Child,
    out: PathBuf,
    log: PathBuf,
    _place: TempDir,
}

impl Host {
    #[track_caller]
    pub fn is_ready(&mut self) {
        self.until(|host| std::fs::read_to_string(&host.out).is_ok_and(|out| out.ends_with("Ready.\n")));
    }

    #[track_caller]
    fn until(&mut self, is_so: impl Fn(&Self) -> bool) {
        let begun = Instant::now();
        while !is_so(self) {
            let ended = self.child.try_wait().expect("the child process was not waited for before");
            assert!(ended.is_none() && begun.elapsed() < PATIENCE, "{ended:?}: {}", self.log());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Waits until the log holds a text so often.
    #[track_caller]
    pub fn logs(&mut self, text: &str, times: usize) {
        self.logs_at_least(text, times);
        assert_eq!(self.log().matches(text).count(), times, "{text}: {}", self.log());
    }

    #[track_caller]
    pub fn logs_at_least(&mut self, text: &str, times: usize) {
        self.until(|host| host.log().matches(text).count() >= times);
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// When the runs in the log began, in milliseconds of the host's clock.
    pub fn began(&self) -> Vec<u64> {
        self.times("Executing 'Functions.")
    }

    /// When lines with this text were written.
    pub fn times(&self, text: &str) -> Vec<u64> {
        let log = self.log();
        let lines = log.lines().filter(|line| line.contains(text));
        let time = |line: &str| {
            let at = kew_http::date::parse_iso(line.split(' ').next().unwrap_or_default());
            let Timestamp(millis) = at.unwrap_or_else(|| panic!("a line begins with its time: {line}"));
            millis
        };
        lines.map(time).collect()
    }

    pub fn kill(mut self) -> Self {
        self.child.kill().expect("the child process can be killed");
        self.child.wait().expect("the child process was not waited for before");
        self
    }

    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").arg(format!("-{name}")).arg(self.child.id().to_string()).status();
        assert!(sent.expect("the system has the program kill").success());
    }

    #[track_caller]
    pub fn exit_code(&mut self, within: Duration) -> Option<i32> {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("the child process was not waited for before")
            {
                return status.code();
            }
            assert!(begun.elapsed() < within, "it does not end: {}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ended = (self.child.kill(), self.child.wait());
    }
}
