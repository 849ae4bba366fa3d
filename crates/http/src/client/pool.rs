//! Connections that wait for their next request, by the place they lead to.

use std::collections::HashMap;
use std::fmt;
use std::time::{Duration, Instant};

use http::Uri;
use parking_lot::Mutex;

use super::{ClientError, Sender};

/// Where a connection leads.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Place {
    pub(super) encrypted: bool,
    /// Lower case, an IPv6 address without its brackets.
    pub(super) host: String,
    pub(super) port: u16,
}

impl Place {
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

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// Kept connections.
pub(super) struct Pool {
    idle: Duration,
    idle_max: usize,
    /// Guards the kept connections, those used last at the end.
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    places: HashMap<Place, Vec<(Sender, Instant)>>,
    swept: Option<Instant>,
}

impl Pool {
    pub(super) fn new(idle: Duration, idle_max: usize) -> Self {
        Self { idle, idle_max, kept: Mutex::default() }
    }

    /// The connection used last: the others may go.
    pub(super) fn take(&self, place: &Place) -> Option<Sender> {
        let mut kept = self.kept.lock();
        let waiting = kept.places.get_mut(place)?;
        while let Some((sender, since)) = waiting.pop() {
            if !sender.is_over() && since.elapsed() < self.idle {
                return Some(sender);
            }
        }
        None
    }

    pub(super) fn keep(&self, place: Place, sender: Sender) {
        if sender.is_over() {
            return;
        }
        let now = Instant::now();
        let mut kept = self.kept.lock();
        if kept.swept.is_none_or(|swept| now.duration_since(swept) >= self.idle) {
            self.sweep(&mut kept, now);
        }
        let waiting = kept.places.entry(place).or_default();
        if waiting.len() < self.idle_max {
            waiting.push((sender, now));
        }
    }

    /// Closes idle connections, and forgets places that are not used any more.
    fn sweep(&self, kept: &mut Kept, now: Instant) {
        kept.swept = Some(now);
        kept.places.retain(|_, waiting| {
            waiting.retain(|(sender, since)| !sender.is_over() && now.duration_since(*since) < self.idle);
            !waiting.is_empty()
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

    fn place(uri: &str) -> Option<(bool, String, u16)> {
        let place = Place::of(&uri.parse().expect("the place is a URI")).ok()?;
        Some((place.encrypted, place.host, place.port))
    }

    #[test]
    fn places_are_scheme_host_and_port() {
        assert_eq!(place("http://A.example/x"), Some((false, "a.example".into(), 80)));
        assert_eq!(place("https://a:8443"), Some((true, "a".into(), 8443)));
        assert_eq!(place("https://[::1]/"), Some((true, "::1".into(), 443)));
        assert_eq!(place("/x"), None);
        assert_eq!(place("ftp://a/"), None);
    }
}
