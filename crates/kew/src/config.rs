//! The server's settings: a flag wins over its `KEW_*` variable, which wins over the default.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use kew_store_log::Durability;

use crate::log::Format;

/// What `kew serve` may be told.
#[derive(Args, Clone, Debug)]
pub struct ServeArgs {
    /// Where messages are kept: a directory, or `memory` to forget everything at the end
    #[arg(long, env = "KEW_STORE", value_name = "PATH|memory", default_value = "./kew-data", value_parser = store)]
    pub store: StoreChoice,

    /// Where SQS is served
    #[arg(long, env = "KEW_SQS", value_name = "ADDR|off", default_value = "127.0.0.1:9324", value_parser = address)]
    pub sqs: Address,

    /// Write the addresses that were bound into this file, as JSON, before serving
    #[arg(long, env = "KEW_PORTS_FILE", value_name = "FILE")]
    pub ports_file: Option<PathBuf>,

    /// When a send or delete is answered: once it is on disk, or once the operating system has it
    #[arg(long, env = "KEW_DURABILITY", value_name = "sync|os", default_value = "sync")]
    pub durability: DurabilityChoice,

    /// Serve an address that other machines reach although anyone may do anything there
    #[arg(long, env = "KEW_INSECURE")]
    pub insecure: bool,

    /// How standard error is written
    #[arg(long, env = "KEW_LOG", value_name = "text|json", default_value = "text")]
    pub log: Format,
}

/// Where messages are kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StoreChoice {
    /// Nowhere: they are gone with the process.
    Memory,
    /// In this directory.
    Directory(PathBuf),
}

/// Where a front-end is served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Address {
    /// Nowhere.
    Off,
    /// There.
    At(SocketAddr),
}

/// When a write counts as done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum DurabilityChoice {
    /// Once it is on disk.
    Sync,
    /// Once the operating system has it.
    Os,
}

impl From<DurabilityChoice> for Durability {
    fn from(choice: DurabilityChoice) -> Self {
        match choice {
            DurabilityChoice::Sync => Self::Sync,
            DurabilityChoice::Os => Self::Os,
        }
    }
}

impl ServeArgs {
    /// Refuses settings that are fine by themselves and wrong together.
    pub fn check(&self) -> Result<(), String> {
        match self.sqs {
            Address::Off => Err("--sqs off leaves nothing to serve; give it an address".to_owned()),
            Address::At(address) if !address.ip().is_loopback() && !self.insecure => Err(format!(
                "--sqs {address} can be reached by other machines, and anyone may do anything there: \
                 use a loopback address such as 127.0.0.1:{}, or say --insecure",
                address.port()
            )),
            Address::At(_) => Ok(()),
        }
    }
}

fn store(text: &str) -> Result<StoreChoice, String> {
    match text {
        "" => Err("a directory, or `memory`".to_owned()),
        "memory" => Ok(StoreChoice::Memory),
        text if text.contains("://") => {
            Err("a directory, or `memory`; no other kind of store is there yet".to_owned())
        }
        path => Ok(StoreChoice::Directory(PathBuf::from(path))),
    }
}

fn address(text: &str) -> Result<Address, String> {
    if text == "off" {
        return Ok(Address::Off);
    }
    let found = text.to_socket_addrs().map_err(|error| {
        format!("{error}; an address and a port such as 127.0.0.1:9324 (port 0 picks a free one), or `off`")
    })?;
    let mut found: Vec<SocketAddr> = found.collect();
    // A name may stand for both families; clients that cannot do without IPv4 are the more common ones.
    found.sort_by_key(SocketAddr::is_ipv6);
    found.first().copied().map(Address::At).ok_or_else(|| "the name stands for no address".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        serve: ServeArgs,
    }

    fn read(flags: &[&str]) -> Result<ServeArgs, String> {
        let line = Line::try_parse_from([&["kew"], flags].concat()).map_err(|error| error.to_string())?;
        line.serve.check()?;
        Ok(line.serve)
    }

    #[test]
    fn defaults_need_no_flag() {
        let serve = read(&[]).expect("the defaults are fine");
        assert_eq!(serve.store, StoreChoice::Directory("./kew-data".into()));
        assert_eq!(serve.sqs, Address::At(([127, 0, 0, 1], 9324).into()));
        assert_eq!(serve.durability, DurabilityChoice::Sync);
    }

    #[test]
    fn wrong_values_are_refused_with_the_flag_and_what_is_allowed() {
        for (flags, expected) in [
            (["--sqs", "nowhere"], "--sqs"),
            (["--sqs", "127.0.0.1:99999"], "--sqs"),
            (["--sqs", "off"], "--sqs off"),
            (["--sqs", "0.0.0.0:0"], "--insecure"),
            (["--store", "postgres://db"], "--store"),
            (["--durability", "never"], "sync, os"),
            (["--log", "xml"], "text, json"),
        ] {
            let error = read(&flags).expect_err(flags[1]);
            assert!(error.contains(expected), "{error}");
        }
        assert!(read(&["--sqs", "0.0.0.0:0", "--insecure"]).is_ok());
    }
}
