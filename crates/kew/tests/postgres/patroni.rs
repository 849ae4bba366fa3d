//! PostgreSQL kept by Patroni and etcd, from the distribution's packages: the server that takes writes is killed under
//! load again and again, and Patroni makes the other one take them.

use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use kew_log_pg::server::{binaries, free_address};
use tempfile::TempDir;

use super::fleet::wait_until_it_knows_all;
use super::load::Load;
use super::nodes::{Node, request_within};
use super::takeover::{judge, kills};

/// Served again this long after a promotion.
const BACK_MAX: Duration = Duration::from_secs(10);
/// How long Patroni may take to begin, or to give a killed server back.
const PATIENCE: Duration = Duration::from_secs(90);
/// How long one look at Patroni may take: the other server is looked at then, and may have been promoted.
const LOOK_MAX: Duration = Duration::from_secs(2);
const NAMES: [&str; 2] = ["anna", "bert"];
/// Ends the program, in order, when the one who started it has gone: then nothing holds the other end of its input.
const KEEPER: &str = r#""$@" </dev/null & child=$!
cat >/dev/null
kill -TERM $child; wait $child"#;

/// How often the database fails over.
fn fail_overs() -> usize {
    if kills() > 50 { kills() / 2 } else { 2 }
}

/// A server that Patroni keeps.
struct Member {
    data: PathBuf,
    port: u16,
    api: SocketAddr,
    _process: Kept,
}

/// Patroni's servers, and the etcd in which they agree. Dropped in this order.
struct Cluster {
    members: Vec<Member>,
    _etcd: Kept,
    _folder: TempDir,
}

/// A process that ends in order when it is dropped.
struct Kept(Child);

impl Kept {
    fn start(folder: &Path, program: &str, words: &[&str], log: &str) -> Self {
        let log = std::fs::File::create(folder.join(log)).expect("the folder is the test's own");
        let errors = log.try_clone().expect("a file can be opened twice");
        let mut command = if is_root() {
            let mut command = Command::new("setpriv");
            command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups", "--"]);
            command.args(["sh", "-c", KEEPER, "sh", program]);
            command
        } else {
            let mut command = Command::new("sh");
            command.args(["-c", KEEPER, "sh", program]);
            command
        };
        command.args(words).current_dir(folder).stdin(Stdio::piped()).stdout(log).stderr(errors);
        Self(command.spawn().expect("the system has a shell"))
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ended = self.0.wait();
    }
}

impl Member {
    /// Whether Patroni says so of this server.
    fn is(&self, what: &str) -> bool {
        matches!(request_within(self.api, "GET", what, &[], "", LOOK_MAX), Ok((200, _)))
    }

    fn kill(&self) -> io::Result<()> {
        let process = std::fs::read_to_string(self.data.join("postmaster.pid"))?;
        let process = process.lines().next().unwrap_or_default().to_owned();
        Command::new("kill").args(["-KILL", &process]).status().map(|_| ())
    }
}

impl Cluster {
    /// Nothing where the packages are missing.
    fn start() -> Option<Self> {
        let has = |program: &str| {
            Command::new(program).arg("--version").output().is_ok_and(|it| it.status.success())
        };
        let servers = binaries().filter(|_| has("patroni") && has("etcd"))?;
        let folder = tempfile::Builder::new()
            .prefix("kew-patroni-")
            .tempdir()
            .expect("the machine has a temporary directory");
        if is_root() {
            let owned = Command::new("chown").arg("postgres").arg(folder.path()).status();
            assert!(owned.is_ok_and(|status| status.success()), "the user postgres comes with PostgreSQL");
        }
        let [clients, peers] = [(); 2].map(|()| format!("http://{}", free_address()));
        let etcd = Kept::start(
            folder.path(),
            "etcd",
            &[
                "--data-dir",
                "etcd",
                "--listen-client-urls",
                &clients,
                "--advertise-client-urls",
                &clients,
                "--listen-peer-urls",
                &peers,
                "--initial-advertise-peer-urls",
                &peers,
                "--initial-cluster",
                &format!("default={peers}"),
            ],
            "etcd.log",
        );
        let etcd_at = clients.trim_start_matches("http://");
        let members = NAMES.map(|name| member(folder.path(), &servers, name, etcd_at)).into();
        let cluster = Self { members, _etcd: etcd, _folder: folder };
        cluster.wait_until_whole();
        Some(cluster)
    }

    fn url(&self) -> String {
        let hosts: Vec<String> =
            self.members.iter().map(|member| format!("127.0.0.1:{}", member.port)).collect();
        format!("postgres://kew@{}/postgres", hosts.join(","))
    }

    fn primary(&self) -> Option<usize> {
        self.members.iter().position(|member| member.is("/primary"))
    }

    /// Returns once one server takes writes and the other one follows it synchronously.
    fn wait_until_whole(&self) {
        let begun = Instant::now();
        while self.primary().is_none() || !self.members.iter().any(|member| member.is("/sync")) {
            assert!(begun.elapsed() < PATIENCE, "Patroni's servers are not whole: {}", self.logs());
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Kills the server that takes writes, and returns once the other one does.
    fn fail_over(&self) {
        let killed = self.primary().expect("the servers are whole");
        self.members[killed].kill().expect("the server runs");
        let begun = Instant::now();
        while self.primary().is_none_or(|primary| primary == killed) {
            assert!(begun.elapsed() < PATIENCE, "Patroni promoted nobody: {}", self.logs());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// What Patroni logged last.
    fn logs(&self) -> String {
        let log = |name: &&str| {
            let text =
                std::fs::read_to_string(self._folder.path().join(format!("{name}.log"))).unwrap_or_default();
            let lines: Vec<&str> = text.lines().rev().take(30).collect();
            lines.into_iter().rev().collect::<Vec<_>>().join("\n")
        };
        NAMES.iter().map(log).collect::<Vec<_>>().join("\n--\n")
    }
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// Starts one of Patroni's servers.
fn member(folder: &Path, servers: &Path, name: &str, etcd: &str) -> Member {
    let (data, api, port) = (folder.join(name), free_address(), free_address().port());
    let config = format!(
        "scope: kew\n\
         name: {name}\n\
         restapi: {{listen: '{api}', connect_address: '{api}'}}\n\
         etcd3: {{hosts: '{etcd}'}}\n\
         bootstrap:\n  \
           dcs:\n    \
             ttl: 20\n    \
             loop_wait: 1\n    \
             retry_timeout: 3\n    \
             master_start_timeout: 0\n    \
             synchronous_mode: true\n    \
             postgresql: {{use_pg_rewind: true, parameters: {{max_connections: 200}}}}\n  \
           initdb: [{{encoding: UTF8}}, {{locale: C}}]\n\
         postgresql:\n  \
           listen: 127.0.0.1:{port}\n  \
           connect_address: 127.0.0.1:{port}\n  \
           data_dir: {data}\n  \
           bin_dir: {servers}\n  \
           pgpass: {folder}/{name}.pass\n  \
           remove_data_directory_on_rewind_failure: true\n  \
           remove_data_directory_on_diverged_timelines: true\n  \
           authentication:\n    \
             superuser: {{username: kew}}\n    \
             replication: {{username: kew}}\n    \
             rewind: {{username: kew}}\n  \
           pg_hba: ['host all all 127.0.0.1/32 trust', 'host replication all 127.0.0.1/32 trust']\n  \
           parameters: {{unix_socket_directories: '{folder}'}}\n",
        data = data.display(),
        servers = servers.display(),
        folder = folder.display(),
    );
    let file = folder.join(format!("{name}.yml"));
    std::fs::write(&file, config).expect("the folder is the test's own");
    let process = Kept::start(folder, "patroni", &[&file.to_string_lossy()], &format!("{name}.log"));
    Member { data, port, api, _process: process }
}

#[test]
fn database_that_patroni_fails_over_is_followed_with_nothing_lost_or_disordered() {
    let Some(cluster) = Cluster::start() else {
        println!("SKIPPED  Patroni or etcd is missing (apt-get install patroni etcd-server)");
        return;
    };
    let url = cluster.url();
    let nodes = [(); 3].map(|()| Node::start_with(&url, &[("KEW_PEER", "127.0.0.1:0")]));
    nodes.iter().for_each(wait_until_it_knows_all);
    // The leases of the last moments may be forgotten.
    let load = Load::begin(&nodes.iter().map(|node| node.sqs).collect::<Vec<_>>(), true);
    let mut took = Vec::new();
    for _ in 0..fail_overs() {
        std::thread::sleep(Duration::from_millis(500));
        cluster.fail_over();
        took.push(load.time_to_serve());
        cluster.wait_until_whole();
    }
    let sum = load.end();
    println!("{} sent, {} deleted", sum.sent, sum.deleted);
    judge("database failed over by Patroni", took, BACK_MAX);
}
