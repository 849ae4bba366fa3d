//! The hosts of a URL, and one attempt to connect to the one that takes writes.
//!
//! A host whose machine is gone answers nothing, so an attempt does not wait for it alone: the next host is tried soon
//! after, beside it. The host that took writes last comes first. So an attempt takes little longer than the quickest
//! host that takes writes needs, whichever hosts are gone.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::net::lookup_host;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_postgres::Config;
use tokio_postgres::config::Host;

use crate::PgError;
use crate::database::NO_ANSWER;

/// The next host is tried when the one before it has not answered for this long, or has failed.
const NEXT_AFTER: Duration = Duration::from_millis(300);
/// All hosts of a URL are being tried after this, however many they are.
const ALL_AFTER: Duration = Duration::from_millis(750);
/// The port of a URL that names none.
const PORT: u16 = 5432;

/// The hosts of a URL. Clones share which of them took writes last.
#[derive(Clone)]
pub(crate) struct Hosts {
    each: Arc<[OneHost]>,
    last_good: Arc<AtomicUsize>,
    /// How long one host may take until its session can be used.
    host_max: Duration,
}

/// One host, with everything else that the URL says.
#[derive(Clone)]
struct OneHost {
    config: Config,
    /// Its name and port, for people; and what its address is looked up by, where the URL does not say it.
    name: String,
    to_look_up: Option<(String, u16)>,
}

impl Hosts {
    /// The hosts of a configuration; `host_max` is how long one of them may take.
    pub fn of(config: &Config, host_max: Duration) -> Result<Self, PgError> {
        let (names, addresses, ports) = (config.get_hosts(), config.get_hostaddrs(), config.get_ports());
        let count = names.len().max(addresses.len());
        let fits = |len: usize| len == 0 || len == count;
        if count == 0 {
            return Err(PgError::Url("it names no host".to_owned()));
        }
        if !fits(names.len()) || !fits(addresses.len()) || !(ports.len() == 1 || fits(ports.len())) {
            return Err(PgError::Url(
                "it names another number of hosts than of addresses or ports".to_owned(),
            ));
        }
        let port = |at: usize| ports.get(at).or(ports.first()).copied().unwrap_or(PORT);
        let host = |at: usize| OneHost::of(config, names.get(at), addresses.get(at).copied(), port(at));
        let each = (0..count).map(host).collect();
        Ok(Self { each, last_good: Arc::default(), host_max })
    }

    /// A session with a host that takes writes, which `open` makes with a host of one address.
    pub async fn connect<T, F>(
        &self,
        open: impl Fn(Config) -> F + Clone + Send + 'static,
    ) -> Result<T, PgError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, PgError>> + Send + 'static,
    {
        let last_good = self.last_good.load(Ordering::Relaxed);
        let others = (0..self.each.len()).filter(|at| *at != last_good);
        let order: Vec<usize> = std::iter::once(last_good).chain(others).collect();
        let attempts = order.iter().filter_map(|at| self.each.get(*at));
        let attempts = attempts.map(|host| host.clone().connect(open.clone(), self.host_max)).collect();
        match first_to_succeed(attempts).await {
            Ok((number, connection)) => {
                self.last_good.store(order.get(number).copied().unwrap_or(0), Ordering::Relaxed);
                Ok(connection)
            }
            Err(errors) => {
                let named = errors.into_iter().filter_map(|(number, error)| {
                    let host = self.each.get(*order.get(number)?)?;
                    Some((host.name.as_str(), error))
                });
                Err(all_failed(named.collect()))
            }
        }
    }
}

impl OneHost {
    fn of(all: &Config, name: Option<&Host>, address: Option<IpAddr>, port: u16) -> Self {
        let mut config = without_hosts(all);
        config.port(port);
        let shown = match name {
            Some(Host::Tcp(name)) => {
                config.host(name);
                format!("{name}:{port}")
            }
            #[cfg(unix)]
            Some(Host::Unix(path)) => {
                config.host_path(path);
                path.display().to_string()
            }
            None => address.map_or_else(String::new, |address| format!("{address}:{port}")),
        };
        let to_look_up = match (name, address) {
            (Some(Host::Tcp(name)), None) => Some((name.clone(), port)),
            _ => None,
        };
        if let Some(address) = address {
            config.hostaddr(address);
        }
        Self { config, name: shown, to_look_up }
    }

    /// A session with this host, within a time that covers everything until it can be used.
    async fn connect<T, F>(self, open: impl Fn(Config) -> F + Send, most: Duration) -> Result<T, PgError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, PgError>> + Send + 'static,
    {
        let connected = timeout(most, self.connect_to_an_address(open)).await;
        connected.unwrap_or_else(|_elapsed| Err(PgError::Unreachable(NO_ANSWER.to_owned())))
    }

    async fn connect_to_an_address<T, F>(self, open: impl Fn(Config) -> F + Send) -> Result<T, PgError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, PgError>> + Send + 'static,
    {
        let Some((name, port)) = &self.to_look_up else { return open(self.config).await };
        let found = lookup_host((name.as_str(), *port)).await;
        let found = found.map_err(|error| PgError::Unreachable(format!("looking up {name}: {error}")))?;
        let attempts: Vec<_> = found
            .map(|address| {
                let mut config = self.config.clone();
                config.hostaddr(address.ip());
                open(config)
            })
            .collect();
        match first_to_succeed(attempts).await {
            Ok((_, connection)) => Ok(connection),
            Err(errors) => Err(errors
                .into_iter()
                .last()
                .map_or_else(|| PgError::Unreachable(format!("{name} has no address")), |(_, error)| error)),
        }
    }
}

/// What a configuration says beside its hosts.
fn without_hosts(all: &Config) -> Config {
    let mut config = Config::new();
    if let Some(user) = all.get_user() {
        config.user(user);
    }
    if let Some(password) = all.get_password() {
        config.password(password);
    }
    if let Some(dbname) = all.get_dbname() {
        config.dbname(dbname);
    }
    if let Some(options) = all.get_options() {
        config.options(options);
    }
    if let Some(name) = all.get_application_name() {
        config.application_name(name);
    }
    if let Some(timeout) = all.get_connect_timeout() {
        config.connect_timeout(*timeout);
    }
    if let Some(timeout) = all.get_tcp_user_timeout() {
        config.tcp_user_timeout(*timeout);
    }
    if let Some(interval) = all.get_keepalives_interval() {
        config.keepalives_interval(interval);
    }
    if let Some(retries) = all.get_keepalives_retries() {
        config.keepalives_retries(retries);
    }
    config.keepalives(all.get_keepalives()).keepalives_idle(all.get_keepalives_idle());
    config.ssl_mode(all.get_ssl_mode()).ssl_negotiation(all.get_ssl_negotiation());
    config.channel_binding(all.get_channel_binding()).target_session_attrs(all.get_target_session_attrs());
    config
}

/// Begins one attempt after the other, without waiting long for those before it. Answers the first that succeeds with
/// its number, or why each failed.
async fn first_to_succeed<T: Send + 'static>(
    attempts: Vec<impl Future<Output = Result<T, PgError>> + Send + 'static>,
) -> Result<(usize, T), Vec<(usize, PgError)>> {
    let behind_the_first = u32::try_from(attempts.len()).unwrap_or(u32::MAX).saturating_sub(1).max(1);
    let next_after = NEXT_AFTER.min(ALL_AFTER / behind_the_first);
    let (mut to_begin, mut under_way, mut errors) =
        (attempts.into_iter().enumerate(), JoinSet::new(), Vec::new());
    loop {
        if let Some((number, attempt)) = to_begin.next() {
            under_way.spawn(async move { (number, attempt.await) });
        }
        let ended = if to_begin.len() == 0 {
            Ok(under_way.join_next().await)
        } else {
            timeout(next_after, under_way.join_next()).await
        };
        match ended {
            Err(_elapsed) => {}
            Ok(None) => return Err(errors),
            Ok(Some(Ok((number, Ok(done))))) => return Ok((number, done)),
            Ok(Some(Ok((number, Err(error))))) => errors.push((number, error)),
            Ok(Some(Err(error))) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The runtime ends.
                Err(_cancelled) => return Err(errors),
            },
        }
    }
}

/// Why no host could be used. It may pass if it may for one of them.
fn all_failed(mut errors: Vec<(&str, PgError)>) -> PgError {
    if errors.len() > 1 && errors.iter().any(|(_, error)| error.may_pass()) {
        let each: Vec<_> = errors.iter().map(|(host, error)| format!("{host}: {error}")).collect();
        return PgError::Unreachable(each.join("; "));
    }
    let last = errors.pop().map(|(_, error)| error);
    last.unwrap_or_else(|| PgError::Unreachable("no host was tried".to_owned()))
}
