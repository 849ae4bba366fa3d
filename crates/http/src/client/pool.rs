//! Connections that wait for their next request, by the server they lead to.

use std::collections::HashMap;
use std::fmt;
use std::time::{Duration, Instant};

use http::Uri;
use parking_lot::Mutex;

use super::{ClientError, Sender};

/// Where a connection leads.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct ServerAddress {
    pub(super) encrypted: bool,
    /// Lower case, an IPv6 address without its brackets.
    pub(super) host: String,
    pub(super) port: u16,
}

impl ServerAddress {
    pub(super) fn of(uri: &Uri) -> Result<Self, ClientError> {
        let encrypted = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            Some(_) | None => return Err(ClientError::BadAddress),
        };
        let host = uri.host().filter(|host| !host.is_empty()).ok_or(ClientError::BadAddress)?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let port = uri.port_u16().unwrap_or(if encrypted { 443 } else { 80 });
        Ok(Self { encrypted, host: host.to_ascii_lowercase(), port })
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// Kept connections.
pub(super) struct Pool {
    idle: Duration,
    idle_max: usize,
    /// Guards the kept connections, those used last at the end.
    kept: Mutex<IdleConnections>,
}

#[derive(Default)]
struct IdleConnections {
    waiting: HashMap<ServerAddress, Vec<(Sender, Instant)>>,
    swept: Option<Instant>,
}

impl Pool {
    pub(super) fn new(idle: Duration, idle_max: usize) -> Self {
        Self { idle, idle_max, kept: Mutex::default() }
    }

    /// The connection used last: the others may go.
    pub(super) fn take(&self, server: &ServerAddress) -> Option<Sender> {
        let mut kept = self.kept.lock();
        let senders = kept.waiting.get_mut(server)?;
        while let Some((sender, since)) = senders.pop() {
            if !sender.is_over() && since.elapsed() < self.idle {
                return Some(sender);
            }
        }
        None
    }

    pub(super) fn keep(&self, server: ServerAddress, sender: Sender) {
        if sender.is_over() {
            return;
        }
        let now = Instant::now();
        let mut kept = self.kept.lock();
        if kept.swept.is_none_or(|swept| now.duration_since(swept) >= self.idle) {
            self.sweep(&mut kept, now);
        }
        let senders = kept.waiting.entry(server).or_default();
        if senders.len() < self.idle_max {
            senders.push((sender, now));
        }
    }

    /// Closes idle connections, and forgets servers that are not used any more.
    fn sweep(&self, kept: &mut IdleConnections, now: Instant) {
        kept.swept = Some(now);
        kept.waiting.retain(|_, senders| {
            senders.retain(|(sender, since)| !sender.is_over() && now.duration_since(*since) < self.idle);
            !senders.is_empty()
        });
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("idle", &self.idle).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(uri: &str) -> Option<(bool, String, u16)> {
        let server = ServerAddress::of(&uri.parse().expect("the server is a URI")).ok()?;
        Some((server.encrypted, server.host, server.port))
    }

    #[test]
    fn address_of_a_server_is_scheme_host_and_port() {
        assert_eq!(server("http://A.example/x"), Some((false, "a.example".into(), 80)));
        assert_eq!(server("https://a:8443"), Some((true, "a".into(), 8443)));
        assert_eq!(server("https://[::1]/"), Some((true, "::1".into(), 443)));
        assert_eq!(server("/x"), None);
        assert_eq!(server("ftp://a/"), None);
    }
}
