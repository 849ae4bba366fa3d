//! The Kew of one client: one node, or several of a fleet behind a load balancer.

use super::front::Front;
use super::node::{Node, OFF};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where a server keeps its messages.
pub enum Store {
    /// In its own directory.
    Directory,
    /// In the database of this URL, served by this number of nodes.
    Database { url: String, nodes: usize },
}

pub struct Server {
    program: PathBuf,
    directory: PathBuf,
    nodes: Vec<Node>,
    /// What spreads requests over several nodes.
    front: Option<Front>,
    /// The node that crashes next.
    crashes_next: usize,
}

impl Server {
    /// Starts it with nothing stored, in a database or in the directory, which is emptied first.
    pub fn start(
        program: &Path,
        store: &Store,
        directory: &Path,
        flags: &[String],
        config: Option<&str>,
    ) -> Result<Self, String> {
        let _left_by_a_run_before = fs::remove_dir_all(directory);
        fs::create_dir_all(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
        let flags = flags_for(program, directory, flags, config)?;
        let mut nodes = Vec::new();
        match store {
            Store::Directory => {
                let data = directory.join("data").to_string_lossy().into_owned();
                nodes.push(Node::start(program, &data, directory, &flags)?);
            }
            Store::Database { url, nodes: 1 } => nodes.push(Node::start(program, url, directory, &flags)?),
            Store::Database { url, nodes: count } => {
                for number in 1..=*count {
                    let name = format!("node-{number}");
                    let peer = ["--node", &name, "--peer", "127.0.0.1:0"].map(str::to_owned);
                    let flags = [&flags[..], &peer].concat();
                    nodes.push(Node::start(program, url, &directory.join(&name), &flags)?);
                }
            }
        }
        let front = if nodes.len() > 1 { Some(Front::start(directory, &nodes)?) } else { None };
        Ok(Self {
            program: program.to_owned(),
            directory: directory.to_owned(),
            nodes,
            front,
            crashes_next: 0,
        })
    }

    pub fn endpoint(&self) -> String {
        self.address("--sqs")
    }

    /// Where Azure is served, if the chapter asked for that.
    pub fn azure(&self) -> String {
        self.address("--azure")
    }

    /// The same for Cloudflare.
    pub fn cloudflare(&self) -> String {
        self.address("--cloudflare")
    }

    fn address(&self, flag: &str) -> String {
        let address = match &self.front {
            Some(front) => front.address(flag),
            None => self.nodes.first().map(|node| node.address(flag)),
        };
        format!("http://{}", address.unwrap_or_default())
    }

    /// `kill -9` of one node, then a start over what is left. In a fleet the nodes take turns.
    pub fn crash(&mut self) -> Result<(), String> {
        let count = self.nodes.len();
        let other = self.nodes.get((self.crashes_next + 1) % count);
        let now_ms = if count > 1 { other.map(Node::now_ms).transpose()? } else { None };
        let node = self.nodes.get_mut(self.crashes_next).ok_or("there is no node")?;
        self.crashes_next = (self.crashes_next + 1) % count;
        node.crash()?;
        // A clock that was moved by hand begins anew with its node; those of a fleet agree.
        let behind = now_ms.map(|now_ms| node.now_ms().map(|own| now_ms.saturating_sub(own))).transpose()?;
        behind.map_or(Ok(()), |behind| node.advance(behind))
    }

    /// Returns when everything that falls due on the way has happened.
    pub fn advance(&self, milliseconds: u64) -> Result<(), String> {
        self.nodes.iter().try_for_each(|node| node.advance(milliseconds))
    }

    /// Where its data, its greeting and its errors are.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The program itself, by a path that holds in any directory.
    pub fn program(&self) -> PathBuf {
        std::path::absolute(&self.program).unwrap_or_else(|_| self.program.clone())
    }
}

/// The flags of a chapter, with those that every server of a run has.
fn flags_for(
    program: &Path,
    directory: &Path,
    flags: &[String],
    config: Option<&str>,
) -> Result<Vec<String>, String> {
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
    Ok(flags)
}
