//! Bad days of the database while a node serves: clients of all dialects get the error that says "try again", in
//! bounded time, and all comes back by itself.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use kew_log_pg::server::{PgServer, name_in};
use tempfile::TempDir;

use super::nodes::{Node, ask, request_within};

/// How long an answer may take, whatever the database does: 3 s, and more where the machine stands still.
const ANSWER_MAX: Duration = Duration::from_secs(8);
/// Served again this long after the database can be used again.
const BACK_MAX: Duration = Duration::from_secs(10);
/// A client waits this long: an answer that does not come until then never comes.
const PATIENCE: Duration = Duration::from_secs(40);
/// Every client sends again after this.
const PAUSE: Duration = Duration::from_millis(30);
/// Long enough that a few messages need new space.
const BODY: usize = 20_000;
const DIALECTS: [Dialect; 3] = [Dialect::Sqs, Dialect::Azure, Dialect::Cloudflare];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Dialect {
    Sqs,
    Azure,
    Cloudflare,
}

/// What an answer says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Says {
    Done,
    TryAgain,
}

struct Answer {
    dialect: Dialect,
    at: Instant,
    took: Duration,
    says: Result<Says, String>,
}

/// One client of each dialect, sending without an end.
struct Clients<'a> {
    node: &'a Node,
    /// The queue's path in Cloudflare's API.
    queue: String,
    answers: Mutex<Vec<Answer>>,
    is_over: AtomicBool,
}

impl Clients<'_> {
    fn of(node: &Node) -> Clients<'_> {
        ask(node.sqs, "CreateQueue", r#"{"QueueName":"orders"}"#).expect("the node serves");
        let listed = request_within(
            node.cloudflare,
            "GET",
            "/client/v4/accounts/0/queues?name=orders",
            &[],
            "",
            PATIENCE,
        );
        let listed: serde_json::Value =
            serde_json::from_str(&listed.expect("the node serves").1).expect("the reply is JSON");
        let id = listed["result"][0]["queue_id"].as_str().expect("the queue is listed");
        let queue = format!("/client/v4/accounts/0/queues/{id}");
        Clients { node, queue, answers: Mutex::default(), is_over: AtomicBool::new(false) }
    }

    fn send(&self, dialect: Dialect) -> std::io::Result<(u16, String)> {
        let (text, node) = ("m".repeat(BODY), self.node);
        let (address, path, header, body) = match dialect {
            Dialect::Sqs => {
                let body = format!(r#"{{"QueueUrl":"orders","MessageBody":"{text}"}}"#);
                (node.sqs, "/".to_owned(), "X-Amz-Target: AmazonSQS.SendMessage", body)
            }
            Dialect::Azure => {
                let body = format!("<QueueMessage><MessageText>{text}</MessageText></QueueMessage>");
                let path = "/devstoreaccount1/orders/messages".to_owned();
                (node.azure, path, "x-ms-version: 2025-01-05", body)
            }
            Dialect::Cloudflare => {
                let body = format!(r#"{{"body":"{text}"}}"#);
                let path = format!("{}/messages", self.queue);
                (node.cloudflare, path, "Content-Type: application/json", body)
            }
        };
        request_within(address, "POST", &path, &[header], &body, PATIENCE)
    }

    fn work(&self, dialect: Dialect) {
        while !self.is_over.load(Ordering::Relaxed) {
            let at = Instant::now();
            let reply = self.send(dialect);
            let says = says(dialect, &reply).ok_or_else(|| format!("{reply:?}"));
            let answer = Answer { dialect, at, took: at.elapsed(), says };
            self.answers.lock().expect("a client does not panic with the answers").push(answer);
            std::thread::sleep(PAUSE);
        }
    }

    /// Returns once each client has got such an answer to a request that begins from now on.
    fn wait_for(&self, expected: Says, most: Duration) -> Duration {
        let begun = Instant::now();
        loop {
            let (missing, last) = self.missing(expected, begun);
            if missing.is_empty() {
                return begun.elapsed();
            }
            assert!(
                begun.elapsed() < most,
                "no {expected:?} for {missing:?}: {last}\n{}",
                self.node.errors()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The dialects without such an answer to a request that began since then, and the last answers of all.
    fn missing(&self, expected: Says, since: Instant) -> (Vec<Dialect>, String) {
        let answers = self.answers.lock().expect("a client does not panic with the answers");
        let got = |dialect: &Dialect| {
            let is_it = |answer: &&Answer| answer.dialect == *dialect && answer.at >= since;
            answers.iter().filter(is_it).any(|answer| answer.says == Ok(expected))
        };
        let missing = DIALECTS.into_iter().filter(|dialect| !got(dialect)).collect();
        let last: Vec<_> = answers.iter().rev().take(6).map(|answer| (&answer.says, answer.took)).collect();
        (missing, format!("{last:?}"))
    }

    /// Every answer came in time and was one of the two, and what was acknowledged is stored.
    fn judge(&self, what: &str) {
        let answers = self.answers.lock().expect("a client does not panic with the answers");
        for answer in answers.iter() {
            let Answer { dialect, took, says, .. } = answer;
            assert!(says.is_ok() && *took < ANSWER_MAX, "{what}: {dialect:?} after {took:?}: {says:?}");
        }
        let count = |wanted| answers.iter().filter(|answer| answer.says == Ok(wanted)).count();
        let (sent, refused) = (count(Says::Done), count(Says::TryAgain));
        let longest = answers.iter().map(|answer| answer.took).max().unwrap_or_default();
        println!("{what}: {sent} sent, {refused} to be tried again, longest answer {longest:?}");
        let json = r#"{"QueueUrl":"orders","AttributeNames":["ApproximateNumberOfMessages"]}"#;
        let counted = ask(self.node.sqs, "GetQueueAttributes", json).expect("the node serves");
        let counted: serde_json::Value = serde_json::from_str(&counted).expect("the reply is JSON");
        let stored = counted["Attributes"]["ApproximateNumberOfMessages"]
            .as_str()
            .expect("the reply holds the count that was asked for");
        let stored: usize = stored.parse().expect("a count is a number");
        // One that is to be tried again may have happened.
        assert!((sent..=sent + refused).contains(&stored), "{what}: {stored} stored");
    }
}

/// What a reply says in its dialect; nothing where it is neither.
fn says(dialect: Dialect, reply: &std::io::Result<(u16, String)>) -> Option<Says> {
    let (status, body) = reply.as_ref().ok()?;
    match (dialect, status) {
        (Dialect::Sqs | Dialect::Cloudflare, 200) | (Dialect::Azure, 201) => Some(Says::Done),
        (Dialect::Sqs, 503) if body.contains("ServiceUnavailable") => Some(Says::TryAgain),
        (Dialect::Sqs, 403) if body.contains("RequestThrottled") => Some(Says::TryAgain),
        (Dialect::Azure, 503) if body.contains("ServerBusy") => Some(Says::TryAgain),
        (Dialect::Cloudflare, 429) if body.contains("1025") => Some(Says::TryAgain),
        _ => None,
    }
}

/// A day on which the database cannot be used between two moments.
fn bad_day(what: &str, node: &Node, breaks: impl FnOnce(), mends: impl FnOnce()) {
    let clients = Clients::of(node);
    std::thread::scope(|scope| {
        for dialect in DIALECTS {
            scope.spawn({
                let clients = &clients;
                move || clients.work(dialect)
            });
        }
        let day = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            clients.wait_for(Says::Done, BACK_MAX);
            breaks();
            clients.wait_for(Says::TryAgain, 2 * ANSWER_MAX);
            mends();
            let back = clients.wait_for(Says::Done, BACK_MAX);
            println!("{what}: served again after {back:?}");
        }));
        clients.is_over.store(true, Ordering::Relaxed);
        if let Err(panic) = day {
            std::panic::resume_unwind(panic);
        }
    });
    clients.judge(what);
}

fn database() -> (PgServer, String) {
    let server = PgServer::start(&["fsync=off"]).expect("PostgreSQL starts");
    let url = server.database().expect("the server makes databases");
    (server, url)
}

fn run(server: &PgServer, database: &str, statements: &[&str]) {
    for statement in statements {
        server.psql(database, statement).expect("the server answers");
    }
}

/// Cuts every connection to a database.
fn cut(server: &PgServer, name: &str) {
    let cut =
        format!("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = '{name}'");
    server.psql("postgres", &cut).expect("the server answers");
}

#[test]
fn database_that_becomes_read_only_is_used_again_when_it_takes_writes() {
    let (server, url) = database();
    let node = Node::start(&url);
    node.wait_until_ready();
    let set = |value| {
        let set = format!("ALTER SYSTEM SET default_transaction_read_only = {value}");
        run(
            &server,
            "postgres",
            &["SET default_transaction_read_only = off", &set, "SELECT pg_reload_conf()"],
        );
    };
    bad_day("read-only", &node, || set("on"), || set("off"));
}

#[test]
fn database_without_free_connections_is_used_again_when_there_are_some() {
    let (server, url) = database();
    let name = name_in(&url);
    // A role that gets none of those reserved for superusers.
    run(&server, "postgres", &["CREATE ROLE app LOGIN", &format!("ALTER DATABASE {name} OWNER TO app")]);
    let url = url.replace("kew@", "app@");
    let limit = |most: i32| {
        run(&server, "postgres", &[&format!("ALTER DATABASE {name} CONNECTION LIMIT {most}")]);
    };
    limit(0);
    let node = Node::start(&url);
    node.wait_until_it_says("too many connections for database");
    limit(-1);
    node.wait_until_ready();
    let none = || {
        limit(0);
        cut(&server, name);
    };
    bad_day("out of connections", &node, none, || limit(-1));
}

#[test]
fn database_that_stands_still_for_five_seconds_holds_no_client_up() {
    let (server, url) = database();
    let node = Node::start(&url);
    node.wait_until_ready();
    let text = std::fs::read_to_string(server.data().join("postmaster.pid")).expect("the server runs");
    let postmaster =
        text.lines().next().expect("the first line of postmaster.pid is a process id").to_owned();
    let signal = |name: &str| {
        let sent = Command::new("pkill").args([&format!("-{name}"), "-P", &postmaster]).status();
        assert!(sent.expect("the system has the program pkill").success());
    };
    let stopped = std::cell::Cell::new(Instant::now());
    let stop = || {
        signal("STOP");
        stopped.set(Instant::now());
    };
    let go_on = || {
        std::thread::sleep(Duration::from_secs(5).saturating_sub(stopped.get().elapsed()));
        signal("CONT");
    };
    bad_day("slow by 5 s", &node, stop, go_on);
}

#[test]
fn database_that_only_reads_is_waited_for_until_it_is_promoted() {
    let (server, url) = database();
    let standby = server.standby("other", None).expect("the standby starts");
    let url = url.replace(&format!(":{}", server.port()), &format!(":{}", standby.port()));
    let node = Node::start(&url);
    node.wait_until_it_says("the database cannot be used yet");
    standby.promote().expect("the standby can be promoted");
    node.wait_until_ready();
}

/// A file system of a few megabytes for the server's tables; gone when it is dropped.
struct Small {
    directory: TempDir,
}

impl Small {
    /// Nothing where this user may not mount one.
    fn mount(server: &PgServer) -> Option<Self> {
        let directory =
            tempfile::Builder::new().prefix("kew-small-").tempdir().expect("a directory can be made");
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=64m", "tmpfs"])
            .arg(directory.path())
            .output()
            .ok()?;
        if !mount.status.success() {
            return None;
        }
        let small = Self { directory };
        let tables = small.directory.path().join("tables");
        std::fs::create_dir(&tables).expect("the file system is empty");
        for path in [small.directory.path(), &tables] {
            let like = server.data().join("postgresql.conf");
            let owned = Command::new("chown").arg("--reference").arg(like).arg(path).status();
            assert!(owned.expect("the system has the program chown").success());
        }
        let create = format!("CREATE TABLESPACE small LOCATION '{}'", tables.display());
        run(server, "postgres", &[&create, "CREATE DATABASE small TABLESPACE small STRATEGY file_copy"]);
        Some(small)
    }

    fn filler(&self) -> PathBuf {
        self.directory.path().join("filler")
    }

    /// Takes all the space that is left.
    fn fill(&self) {
        let mut file = File::create(self.filler()).expect("the file system is the test's own");
        for piece in [vec![0; 1 << 20], vec![0; 4 << 10]] {
            while file.write_all(&piece).is_ok() {}
        }
    }

    fn free(&self) {
        std::fs::remove_file(self.filler()).expect("the filler is there");
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        // Lazily: the server may still run.
        let _unmounted = Command::new("umount").arg("-l").arg(self.directory.path()).status();
    }
}

#[test]
fn database_without_disk_space_is_used_again_when_there_is_some() {
    let (server, url) = database();
    let Some(small) = Small::mount(&server) else {
        println!("SKIPPED: this user may not mount a small file system");
        return;
    };
    let node = Node::start(&url.replace(name_in(&url), "small"));
    node.wait_until_ready();
    let free = || {
        node.wait_until_it_says("no space left");
        small.free();
    };
    bad_day("disk full", &node, || small.fill(), free);
    let begun = Instant::now();
    while !node.errors().contains("requests are answered again") {
        assert!(begun.elapsed() < BACK_MAX, "{}", node.errors());
        std::thread::sleep(Duration::from_millis(50));
    }
    let errors = node.errors();
    assert!(errors.contains("no space left"), "{errors}");
    let lines = errors.lines().filter(|line| line.contains("ERROR")).count();
    assert!(lines <= 20, "each refused request is a line, or nearly so: {lines}\n{errors}");
}
