//! The load balancer before the nodes of a fleet: nginx, which sends each request to one of them at random.

use super::node::{Node, OFF, PORT_TAKEN};
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(10);
/// How often it is started; somebody else may take a free port before it does.
const STARTS: usize = 5;

pub struct Front {
    child: Child,
    /// For each flag of a listener the address before it.
    addresses: Vec<(&'static str, String)>,
}

impl Front {
    /// Starts it in the directory, before all listeners that the nodes have.
    pub fn start(directory: &Path, nodes: &[Node]) -> Result<Self, String> {
        for _ in 1..STARTS {
            match Self::start_on_free_ports(directory, nodes) {
                Err(reason) if reason.contains(PORT_TAKEN) => {}
                started => return started,
            }
        }
        Self::start_on_free_ports(directory, nodes)
    }

    fn start_on_free_ports(directory: &Path, nodes: &[Node]) -> Result<Self, String> {
        let mut addresses = Vec::new();
        let mut servers = String::new();
        for flag in ["--sqs"].into_iter().chain(OFF) {
            let behind: Vec<String> =
                nodes.iter().map(|node| node.address(flag)).filter(|address| !address.is_empty()).collect();
            if !behind.is_empty() {
                let address = free_address()?;
                servers.push_str(&server(flag.trim_start_matches('-'), &address, &behind));
                addresses.push((flag, address));
            }
        }
        let config = directory.join("nginx.conf");
        fs::write(&config, whole(&servers)).map_err(|error| format!("{}: {error}", config.display()))?;
        let child = spawn(directory, &config)?;
        let mut front = Self { child, addresses };
        front.wait_until_ready(directory)?;
        Ok(front)
    }

    /// Where the listener of this flag is reached.
    pub fn address(&self, flag: &str) -> Option<String> {
        self.addresses.iter().find(|(known, _)| *known == flag).map(|(_, address)| address.clone())
    }

    fn wait_until_ready(&mut self, directory: &Path) -> Result<(), String> {
        let begun = Instant::now();
        while !self.addresses.iter().all(|(_, address)| TcpStream::connect(address).is_ok()) {
            let ended = self.child.try_wait().map_err(|error| error.to_string())?;
            if ended.is_some() || begun.elapsed() > PATIENCE {
                let errors = fs::read_to_string(directory.join("nginx-errors")).unwrap_or_default();
                return Err(format!("nginx does not start: {}", errors.trim()));
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ended = (self.child.kill(), self.child.wait());
    }
}

fn spawn(directory: &Path, config: &Path) -> Result<Child, String> {
    let directory = std::path::absolute(directory).map_err(|error| error.to_string())?;
    let errors = directory.join("nginx-errors");
    let file = fs::File::create(&errors).map_err(|error| format!("{}: {error}", errors.display()))?;
    let config: PathBuf = std::path::absolute(config).map_err(|error| error.to_string())?;
    Command::new("nginx")
        .arg("-p")
        .arg(&directory)
        .arg("-c")
        .arg(config)
        .args(["-e", "stderr"])
        .env("PATH", path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(file)
        .spawn()
        .map_err(|error| format!("nginx: {error}"))
}

/// The path, with the folder in which Debian keeps nginx.
fn path() -> String {
    format!("{}:/usr/sbin", std::env::var("PATH").unwrap_or_default())
}

/// An address that was free a moment ago.
fn free_address() -> Result<String, String> {
    let found = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    found.map(|address| address.to_string()).map_err(|error| format!("no free port: {error}"))
}

/// All requests of one listener, each to a node at random, as it came.
fn server(name: &str, address: &str, behind: &[String]) -> String {
    let nodes: String = behind.iter().map(|node| format!("    server {node} max_fails=0;\n")).collect();
    format!(
        "  upstream {name} {{\n    random;\n{nodes}    keepalive 8;\n  }}\n  \
         server {{\n    listen {address};\n    location / {{ proxy_pass http://{name}; }}\n  }}\n"
    )
}

fn whole(servers: &str) -> String {
    format!(
        "daemon off;\nmaster_process off;\npid nginx.pid;\nevents {{ worker_connections 1024; }}\nhttp {{\n  \
         access_log off;\n  client_body_temp_path nginx-body;\n  proxy_temp_path nginx-proxy;\n  \
         fastcgi_temp_path nginx-unused;\n  uwsgi_temp_path nginx-unused;\n  scgi_temp_path nginx-unused;\n  \
         client_max_body_size 0;\n  proxy_buffering off;\n  proxy_request_buffering off;\n  \
         underscores_in_headers on;\n  ignore_invalid_headers off;\n  large_client_header_buffers 8 64k;\n  \
         proxy_http_version 1.1;\n  proxy_set_header Connection \"\";\n  \
         proxy_set_header Host $http_host;\n{servers}}}\n"
    )
}
