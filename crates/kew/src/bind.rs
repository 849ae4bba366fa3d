//! Binds every address that was asked for, before anything is opened: a typing error there should not cost a recovery.

use std::io::{self, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;

use serde_json::{Map, Value, json};

use crate::config::ServerSettings;
use crate::listen::{BACKLOG, Dialect, Serves};
use crate::private;
use crate::start_error::StartError;

/// Every socket of a server.
pub struct Sockets {
    /// Those of dialects, in the order they are shown.
    pub entrances: Vec<(Serves, TcpListener)>,
    /// That of the admin API.
    pub admin: Option<TcpListener>,
}

/// The addresses that were bound.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Bound {
    /// Of each dialect that has a listener of its own.
    pub dialects: Vec<(Dialect, SocketAddr)>,
    /// Of all dialects together.
    pub also: Vec<SocketAddr>,
    /// Of the admin API.
    pub admin: Option<SocketAddr>,
}

/// Binds all of them.
pub fn bind(server: &ServerSettings) -> Result<(Sockets, Bound), StartError> {
    let mut bound = Bound::default();
    let entrances = bind_entrances(server, &mut bound)?;
    let admin = server.admin.socket().map(|address| listen("admin", address)).transpose()?;
    let (admin, address) = admin.unzip();
    bound.admin = address;
    Ok((Sockets { entrances, admin }, bound))
}

/// Binds those of dialects, and notes where.
pub fn bind_entrances(
    server: &ServerSettings,
    bound: &mut Bound,
) -> Result<Vec<(Serves, TcpListener)>, StartError> {
    (bound.dialects, bound.also) = (Vec::new(), Vec::new());
    // One row for each dialect.
    let dialects = [
        (Dialect::Sqs, server.sqs),
        (Dialect::Azure, server.azure),
        (Dialect::Cloudflare, server.cloudflare),
    ];
    let mut entrances = Vec::new();
    for (dialect, address) in dialects {
        if let Some(address) = address.socket() {
            let (socket, address) = listen(dialect.name(), address)?;
            bound.dialects.push((dialect, address));
            entrances.push((Serves::Only(dialect), socket));
        }
    }
    for address in &server.also {
        let (socket, address) = listen("also", *address)?;
        bound.also.push(address);
        entrances.push((Serves::All, socket));
    }
    Ok(entrances)
}

/// Binds the address where other nodes reach this one.
pub fn bind_peer(address: SocketAddr) -> Result<TcpListener, StartError> {
    listen("peer", address).map(|(socket, _)| socket)
}

fn listen(name: &'static str, address: SocketAddr) -> Result<(TcpListener, SocketAddr), StartError> {
    let failed = |cause| StartError::Bind { name, address, cause };
    let socket = TcpListener::bind(address).map_err(failed)?;
    // The standard library asks for 128, which a burst of new clients overruns. The system takes what is asked again.
    rustix::net::listen(&socket, BACKLOG).map_err(|error| failed(error.into()))?;
    let address = socket.local_addr().map_err(failed)?;
    Ok((socket, address))
}

impl Bound {
    /// Writes them down, for the owner alone. A reader that waits for the file never sees half of it.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let mut beside = path.as_os_str().to_owned();
        beside.push(".tmp");
        match std::fs::remove_file(&beside) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            // A file that was left there would keep its own mode.
            _ => {}
        }
        private::make_file(beside.as_ref())?.write_all(format!("{}\n", self.json()).as_bytes())?;
        std::fs::rename(&beside, path)
    }

    fn json(&self) -> Value {
        let dialects = self.dialects.iter().map(|(dialect, address)| (dialect.name(), *address));
        let mut ports: Map<String, Value> = dialects
            .chain(self.admin.map(|address| ("admin", address)))
            .map(|(name, address)| (name.to_owned(), json!(address.to_string())))
            .collect();
        if !self.also.is_empty() {
            ports.insert("also".to_owned(), self.also.iter().map(SocketAddr::to_string).collect());
        }
        ports.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Clients beyond the backlog wait a second for their handshake to be tried again.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_burst_of_clients_connects_before_any_is_accepted() {
        use std::time::Duration;

        let allowed = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap_or_default();
        if allowed.trim().parse::<u32>().is_ok_and(|allowed| allowed < 512) {
            println!("not checked: net.core.somaxconn is {allowed}");
            return;
        }
        let (_socket, address) =
            listen("sqs", SocketAddr::from(([127, 0, 0, 1], 0))).expect("a port is free");
        let connect = || std::net::TcpStream::connect_timeout(&address, Duration::from_millis(900));
        let clients: Vec<_> = (0..300).map(|_| connect()).collect();
        assert!(clients.iter().all(Result::is_ok), "{:?}", clients.iter().filter(|c| c.is_err()).count());
    }

    #[test]
    fn ports_are_listed_by_listener() {
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let mut bound = Bound { dialects: vec![(Dialect::Sqs, address(1))], ..Bound::default() };
        assert_eq!(bound.json().to_string(), r#"{"sqs":"127.0.0.1:1"}"#);
        bound.admin = Some(address(2));
        bound.also = vec![address(3), address(4)];
        assert_eq!(
            bound.json(),
            json!({ "sqs": "127.0.0.1:1", "admin": "127.0.0.1:2", "also": ["127.0.0.1:3", "127.0.0.1:4"] })
        );
    }
}
