//! Which account, which queue, which message: the path and the host of a request.

use std::borrow::Cow;
use std::sync::Arc;

use kew_http::{Method, Request, percent};

use crate::error::{Code, WireError};
use crate::limits;

/// How an endpoint names its account.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Style {
    /// `http://127.0.0.1:10001/account/…`
    Path,
    /// `http://account.queue.example/…`
    Host,
}

/// What a request is addressed to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Target<'a> {
    pub(crate) style: Style,
    /// The account's name, without what marks the secondary endpoint.
    pub(crate) account: Cow<'a, str>,
    pub(crate) is_secondary: bool,
    pub(crate) place: Place<'a>,
}

/// What in the account it is addressed to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Place<'a> {
    /// The service itself.
    Service,
    /// A queue.
    Queue(Cow<'a, str>),
    /// All messages of a queue.
    Messages(Cow<'a, str>),
    /// One message.
    Message(Cow<'a, str>, Cow<'a, str>),
}

impl Place<'_> {
    /// The queue it is or is in.
    pub(crate) fn queue(&self) -> Option<&str> {
        match self {
            Self::Service => None,
            Self::Queue(queue) | Self::Messages(queue) | Self::Message(queue, _) => Some(queue),
        }
    }
}

const SECONDARY: &str = "-secondary";

/// The account a dotted host name begins with; none for addresses and for names that stand for this machine.
pub(crate) fn account_of_host(host: &str) -> Option<&str> {
    let is_address = host.starts_with('[') || host.parse::<std::net::IpAddr>().is_ok();
    if is_address || host.eq_ignore_ascii_case("host.docker.internal") {
        return None;
    }
    host.split_once('.').map(|(account, _)| account).filter(|account| !account.is_empty())
}

/// The host in `<account>.queue.<host>`, for an account there is.
pub(crate) fn host_of_account<'a>(host: &'a str, accounts: &[Arc<str>]) -> Option<&'a str> {
    let (service, inner) = rest_of_account(host, accounts)?.split_once('.')?;
    service.eq_ignore_ascii_case("queue").then_some(inner)
}

/// Whether a host is an account's, and the rest of its name is one of these parents or below one.
pub(crate) fn is_below_parent(host: &str, accounts: &[Arc<str>], parents: &[String]) -> bool {
    let Some(rest) = rest_of_account(host, accounts) else { return false };
    parents.iter().any(|parent| rest.eq_ignore_ascii_case(parent) || kew_http::is_below(rest, parent))
}

/// What follows the account in a host.
fn rest_of_account<'a>(host: &'a str, accounts: &[Arc<str>]) -> Option<&'a str> {
    let (account, rest) = host.split_once('.')?;
    let is = |name: &str, known: &str| name.eq_ignore_ascii_case(known);
    let primary = account.len().checked_sub(SECONDARY.len()).and_then(|at| account.split_at_checked(at));
    let primary = primary.and_then(|(name, suffix)| is(suffix, SECONDARY).then_some(name)).unwrap_or(account);
    accounts.iter().any(|known| is(primary, known)).then_some(rest)
}

impl<'a> Target<'a> {
    /// Reads a request's address. With `host_style` off every account is looked for in the path.
    pub(crate) fn read(request: &'a Request, host_style: bool) -> Result<Self, WireError> {
        let host = request.header("host").unwrap_or_default();
        let host = host.rsplit_once(':').filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
        let host = host.map_or_else(|| request.header("host").unwrap_or_default(), |(host, _)| host);
        let path = request.uri.path().strip_prefix('/').unwrap_or_default();
        let (style, account, rest) = match account_of_host(host).filter(|_| host_style) {
            Some(account) => (Style::Host, lower(account), path),
            None => {
                let (account, rest) = path.split_once('/').unwrap_or((path, ""));
                (Style::Path, decoded(account)?, rest)
            }
        };
        // What a browser asks for a page is about the account, whatever the page is to ask for.
        let rest = if request.method == Method::OPTIONS { "" } else { rest };
        Self::parts(style, account, rest)
    }

    fn parts(style: Style, account: Cow<'a, str>, path: &'a str) -> Result<Self, WireError> {
        let secondary = account.strip_suffix(SECONDARY).map(str::to_owned);
        let is_secondary = secondary.is_some();
        let account = secondary.map_or(account, Cow::Owned);
        let mut parts = path.split('/');
        let place = match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (None | Some(""), None, ..) => Place::Service,
            (Some(queue), None | Some(""), None, _) => Place::Queue(queue_name(queue)?),
            (Some(queue), Some("messages"), None, _) => Place::Messages(queue_name(queue)?),
            // A message without an id is none, and not all of them: a deletion of it would clear the queue.
            (Some(queue), Some("messages"), Some(id), None) if !id.is_empty() => {
                Place::Message(queue_name(queue)?, decoded(id)?)
            }
            _ => return Err(Code::InvalidUri.into()),
        };
        Ok(Self { style, account, is_secondary, place })
    }
}

/// Hosts are the same in any case; accounts are lower case.
fn lower(account: &str) -> Cow<'_, str> {
    match account.bytes().any(|byte| byte.is_ascii_uppercase()) {
        true => account.to_ascii_lowercase().into(),
        false => account.into(),
    }
}

fn queue_name(part: &str) -> Result<Cow<'_, str>, WireError> {
    let name = decoded(part)?;
    limits::check_queue_name(&name)?;
    Ok(name)
}

fn decoded(part: &str) -> Result<Cow<'_, str>, WireError> {
    percent::decode(part.as_bytes()).map_err(|_| Code::InvalidUri.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(path: &str) -> Result<Place<'_>, Code> {
        let path = path.strip_prefix('/').unwrap_or(path);
        Target::parts(Style::Path, "acc".into(), path)
            .map(|target| target.place)
            .map_err(|error| error.code())
    }

    #[test]
    fn paths_lead_to_the_service_a_queue_its_messages_or_one_of_them() {
        assert_eq!(place(""), Ok(Place::Service));
        assert_eq!(place("/orders"), Ok(Place::Queue("orders".into())));
        assert_eq!(place("/orders/messages"), Ok(Place::Messages("orders".into())));
        assert_eq!(place("/orders/messages/a%2Fb"), Ok(Place::Message("orders".into(), "a/b".into())));
        for nowhere in ["/orders/other", "/orders/messages/a/b", "//messages", "/orders/messages/"] {
            assert!(place(nowhere).is_err(), "{nowhere}");
        }
        assert_eq!(place("/ab"), Err(Code::OutOfRangeInput));
        assert_eq!(place("/Pq"), Err(Code::OutOfRangeInput));
        assert_eq!(place("/Orders"), Err(Code::InvalidResourceName));
    }

    #[test]
    fn a_secondary_endpoint_is_the_same_account() {
        let target = Target::parts(Style::Path, "acc-secondary".into(), "")
            .expect("the parts of an account's target are valid");
        assert_eq!((target.account.as_ref(), target.is_secondary), ("acc", true));
    }

    #[test]
    fn accounts_stand_before_the_first_dot_of_a_host_that_is_no_address() {
        assert_eq!(account_of_host("devstoreaccount1.queue.localhost"), Some("devstoreaccount1"));
        for host in ["127.0.0.1", "[::1]", "localhost", "kew", "host.docker.internal"] {
            assert_eq!(account_of_host(host), None, "{host}");
        }
    }

    #[test]
    fn the_host_of_an_account_is_known_only_behind_the_account_and_the_service() {
        let accounts = ["devstoreaccount1".into()];
        for (host, inner) in [
            ("devstoreaccount1.queue.localhost", Some("localhost")),
            ("DevStoreAccount1-Secondary.Queue.kew.test", Some("kew.test")),
            ("devstoreaccount1.attacker.example", None),
            ("devstoreaccount1.queue", None),
            ("devstoreaccount1", None),
            ("other.queue.localhost", None),
            ("-secondary.queue.localhost", None),
        ] {
            assert_eq!(host_of_account(host, &accounts), inner, "{host}");
        }
        let parents = ["queue.core.test".to_owned()];
        for host in ["devstoreaccount1.queue.core.test", "devstoreaccount1-secondary.eu.Queue.core.test"] {
            assert!(is_below_parent(host, &accounts, &parents), "{host}");
        }
        for host in [
            "devstoreaccount1.core.test",
            "x.queue.core.test",
            "queue.core.test",
            "devstoreaccount1.xqueue.core.test",
        ] {
            assert!(!is_below_parent(host, &accounts, &parents), "{host}");
        }
    }
}
