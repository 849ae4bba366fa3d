//! The names an open server answers to: addresses, names without a dot, its own machine's, and configured ones.

use std::net::Ipv4Addr;
use std::sync::Arc;

use crate::authority::{Host, is_below};
use crate::refusal::Refusal;

/// By which names the server may be called.
#[derive(Clone)]
pub(super) enum Hosts {
    Any,
    Known {
        /// Host names, or `*.parent`, as they were configured.
        listed: Arc<[String]>,
        recognised: Option<Arc<Recognise>>,
        /// Each finds the host in names that stand for another.
        inner: Vec<Arc<Inner>>,
    },
}

/// The host that a name stands for, such as `host` in `service.region.host`.
pub(super) type Inner = dyn Fn(&str) -> Option<&str> + Send + Sync;

/// Whether a dotted host name is configured at its front-end.
pub(super) type Recognise = dyn Fn(&str) -> bool + Send + Sync;

impl Hosts {
    pub(super) fn check(&self, host: &Host<'_>) -> Result<(), Refusal> {
        let Self::Known { listed, recognised, inner } = self else { return Ok(()) };
        let Host::Name(name) = host else { return Ok(()) };
        if !name.contains('.') || is_everybodys(name) || is_listed(listed, name) {
            return Ok(());
        }
        let is_ours = |within: &str| {
            within.parse::<Ipv4Addr>().is_ok() || is_everybodys(within) || is_listed(listed, within)
        };
        if inner.iter().any(|found| found(name).is_some_and(is_ours))
            || recognised.as_ref().is_some_and(|known| known(name))
        {
            return Ok(());
        }
        Err(Refusal::HostNotAllowed { host: name.to_ascii_lowercase().into() })
    }
}

/// Names that mean a machine itself, or the one below its containers, wherever they are asked for. The last is a public
/// name of which every name below it has the address 127.0.0.1; tools for local development use it.
fn is_everybodys(name: &str) -> bool {
    is_same(name, "localhost")
        || is_below(name, "localhost")
        || is_same(name, "host.docker.internal")
        || is_below(name, "localhost.localstack.cloud")
}

fn is_listed(listed: &[String], name: &str) -> bool {
    listed.iter().any(|entry| match entry.strip_prefix("*.") {
        Some(parent) => is_below(name, parent),
        None => is_same(name, entry),
    })
}

fn is_same(one: &str, other: &str) -> bool {
    one.eq_ignore_ascii_case(other)
}

#[cfg(test)]
mod tests {
    use crate::guard::Guard;
    use crate::guard::tests::host;
    use crate::refusal::Refusal;

    fn not_allowed(host: &str) -> Result<(), Refusal> {
        Err(Refusal::HostNotAllowed { host: host.into() })
    }

    #[test]
    fn addresses_names_without_a_dot_and_localhost_reach_an_open_server() {
        for name in [
            "localhost",
            "localhost:9324",
            "127.0.0.1:9324",
            "192.168.1.7",
            "[::1]:9324",
            "[2001:db8::7]",
            "kew",
            "kew:9324",
            "my_queue",
            "sqs.us-east-1.localhost:9324",
            "A.LocalHost",
            "Host.Docker.Internal:9324",
            "localhost.",
            "sqs.us-east-1.localhost.localstack.cloud:4566",
        ] {
            assert_eq!(host(&Guard::open(), name), Ok(()), "{name}");
        }
    }

    #[test]
    fn an_unconfigured_dotted_name_is_refused_with_the_setting_that_allows_it() {
        for (name, shown) in [
            ("evil.example", "evil.example"),
            ("EVIL.example:9324", "evil.example"),
            ("evil.example.", "evil.example"),
            ("localhost.evil.example", "localhost.evil.example"),
            ("127.0.0.1.evil.example", "127.0.0.1.evil.example"),
            ("127.1", "127.1"),
            (".localhost", ".localhost"),
            ("xhost.docker.internal", "xhost.docker.internal"),
            ("xlocalhost.localstack.cloud", "xlocalhost.localstack.cloud"),
        ] {
            assert_eq!(host(&Guard::open(), name), not_allowed(shown), "{name}");
        }
        let refusal = host(&Guard::open(), "evil.example").expect_err("it is refused");
        assert_eq!(refusal.status().as_u16(), 421);
        assert!(refusal.to_string().contains("`hosts` of [server]"), "{refusal}");
    }

    #[test]
    fn names_that_are_listed_or_recognised_pass() {
        let guard = Guard::open()
            .with_hosts(["queue.test".to_owned(), "*.corp.test".to_owned()])
            .with_hosts_like(|name| name.eq_ignore_ascii_case("account.queue.core.test"));
        for name in ["queue.test:1", "QUEUE.TEST", "a.corp.test", "a.b.corp.test", "Account.queue.core.test"]
        {
            assert_eq!(host(&guard, name), Ok(()), "{name}");
        }
        assert_eq!(host(&guard, "corp.test"), not_allowed("corp.test"));
        assert_eq!(host(&guard, "xqueue.test"), not_allowed("xqueue.test"));
        assert_eq!(host(&Guard::open().with_any_host(), "evil.example"), Ok(()));
        assert_eq!(host(&Guard::strict(), "evil.example"), Ok(()));
    }

    #[test]
    fn a_name_that_stands_for_another_host_is_judged_by_that() {
        fn found(name: &str) -> Option<&str> {
            name.strip_prefix("svc.")
        }
        let listed = ["queue.test".to_owned(), "kew".to_owned(), "*.corp.test".to_owned()];
        let guard = Guard::open().with_hosts(listed).with_hosts_within(found);
        for name in [
            "svc.10.0.0.7:1",
            "svc.localhost",
            "svc.host.docker.internal",
            "svc.queue.test",
            "svc.a.corp.test",
            "svc.kew",
        ] {
            assert_eq!(host(&guard, name), Ok(()), "{name}");
        }
        for name in ["svc.com", "svc.evil.example", "xsvc.kew", "svc.svc.kew"] {
            assert_eq!(host(&guard, name), not_allowed(name), "{name}");
        }
        let both = guard.with_hosts_within(|name| name.strip_prefix("other."));
        for name in ["svc.localhost", "svc.kew", "other.kew"] {
            assert_eq!(host(&both, name), Ok(()), "{name}");
        }
    }
}
