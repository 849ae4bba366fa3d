//! Web pages must not reach an open server.
//!
//! A server that accepts any credentials has one protection left: a browser says truthfully which host it was told and
//! which page asked. A name with a dot that nobody configured may have been pointed here by whoever owns it (DNS
//! rebinding), so it is refused; so is what a page of another origin sends. In strict mode everything is authenticated
//! and only what is malformed is refused.

use std::fmt;
use std::net::Ipv4Addr;
use std::sync::{Arc, OnceLock};

use http::header::{HOST, HeaderName, ORIGIN};
use http::{HeaderValue, Method, Version};

use crate::authority::{Authority, Host, is_below};
use crate::headers::{FieldValue, Headers};
use crate::refusal::Refusal;
use crate::request::Request;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const SEC_FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");

/// What only browsers send.
const BROWSERS: [HeaderName; 4] = [ORIGIN, SEC_FETCH_SITE, SEC_FETCH_MODE, SEC_FETCH_DEST];

/// Which requests reach a front-end.
#[derive(Clone)]
pub struct Guard {
    hosts: Hosts,
    pages: Pages,
    /// The first host that was let in, as it was written: nearly every request repeats it.
    usual: OnceLock<Box<[u8]>>,
}

#[derive(Clone)]
enum Hosts {
    Any,
    Known {
        /// Host names, or `*.parent`, as they were configured.
        listed: Arc<[String]>,
        recognised: Option<Arc<Recognise>>,
        /// Finds the host in names that stand for another.
        inner: Option<Inner>,
    },
}

/// The host that a name stands for, such as `host` in `service.region.host`.
type Inner = fn(&str) -> Option<&str>;

/// Tells whether a dotted host name is one of the front-end's own.
type Recognise = dyn Fn(&str) -> bool + Send + Sync;

/// Who judges what web pages send.
#[derive(Clone, Copy)]
enum Pages {
    /// Other sites' pages are refused here.
    Refused,
    /// The front-end decides.
    LeftToHandler,
}

impl Guard {
    /// For a server that accepts any credentials.
    pub fn open() -> Self {
        Self {
            hosts: Hosts::Known { listed: Arc::default(), recognised: None, inner: None },
            pages: Pages::Refused,
            usual: OnceLock::new(),
        }
    }

    /// For a server that authenticates everything.
    pub fn strict() -> Self {
        Self { hosts: Hosts::Any, pages: Pages::LeftToHandler, usual: OnceLock::new() }
    }

    /// Also accepts these host names; `*.example.com` stands for every name below `example.com`.
    pub fn with_hosts(mut self, names: impl IntoIterator<Item = String>) -> Self {
        if let Hosts::Known { listed, .. } = &mut self.hosts {
            *listed = listed.iter().cloned().chain(names).collect();
        }
        self
    }

    /// Also accepts host names that the front-end recognises, such as those of its accounts; they are given in lower
    /// case and without a port.
    pub fn with_hosts_like(mut self, known: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        if let Hosts::Known { recognised, .. } = &mut self.hosts {
            *recognised = Some(Arc::new(known));
        }
        self
    }

    /// Also accepts names that stand for another host, which is judged in their place: an address, a host everybody may
    /// use or one that is configured. A name without a dot has to be configured here: a dotted name that ends in it
    /// may be anybody's.
    pub fn with_hosts_within(mut self, found: fn(&str) -> Option<&str>) -> Self {
        if let Hosts::Known { inner, .. } = &mut self.hosts {
            *inner = Some(found);
        }
        self
    }

    /// Accepts any host name (`--insecure`); pages of other origins are still refused.
    pub fn with_any_host(mut self) -> Self {
        self.hosts = Hosts::Any;
        self
    }

    /// Leaves pages of other origins to the front-end, which has rules of its own for them and asks
    /// [`foreign_page`] where none applies.
    pub fn with_pages_left_to_handler(mut self) -> Self {
        self.pages = Pages::LeftToHandler;
        self
    }

    /// Judges a request by its head. The `Host` header is completed from the target where HTTP/2 leaves it out.
    pub(crate) fn check(&self, request: &mut Request, version: Version) -> Result<(), Refusal> {
        if request.method == Method::CONNECT {
            return Err(Refusal::MethodNotServed);
        }
        if let Some(target) = request.uri.authority() {
            agree(target.as_str(), &mut request.headers)?;
        }
        let found = Found::in_headers(&request.headers);
        match found.only_host()? {
            None if version >= Version::HTTP_11 => return Err(Refusal::HostMissing),
            None => {}
            Some(value) if self.usual.get().is_some_and(|usual| **usual == *value.as_bytes()) => {}
            Some(value) => {
                let authority = Authority::parse(value.as_bytes()).ok_or(Refusal::HostMalformed)?;
                self.check_host(&authority.host)?;
                // Whoever comes first is remembered, once: what is let in depends on nothing but the settings.
                self.usual.get_or_init(|| value.as_bytes().into());
            }
        }
        if found.is_from_browser { self.check_page(request) } else { Ok(()) }
    }

    /// Judges a request that is well formed: for a front-end of which only a part is guarded, behind a listener that
    /// lets everything in.
    pub fn admit(&self, request: &Request) -> Result<(), Refusal> {
        if let Some(authority) = request.authority() {
            self.check_host(&authority.host)?;
        }
        self.check_page(request)
    }

    fn check_page(&self, request: &Request) -> Result<(), Refusal> {
        match self.pages {
            Pages::LeftToHandler => Ok(()),
            Pages::Refused => foreign_page(request).map_or(Ok(()), Err),
        }
    }

    fn check_host(&self, host: &Host<'_>) -> Result<(), Refusal> {
        let Hosts::Known { listed, recognised, inner } = &self.hosts else { return Ok(()) };
        let Host::Name(name) = host else { return Ok(()) };
        if !name.contains('.') || is_everybodys(name) || is_listed(listed, name) {
            return Ok(());
        }
        let is_ours = |within: &str| {
            within.parse::<Ipv4Addr>().is_ok() || is_everybodys(within) || is_listed(listed, within)
        };
        if inner.and_then(|inner| inner(name)).is_some_and(is_ours)
            || recognised.as_ref().is_some_and(|known| known(&name.to_ascii_lowercase()))
        {
            return Ok(());
        }
        Err(Refusal::HostNotAllowed { host: name.to_ascii_lowercase().into() })
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hosts = match &self.hosts {
            Hosts::Any => "any".to_owned(),
            Hosts::Known { listed, .. } => format!("{listed:?}"),
        };
        let refuses_pages = matches!(self.pages, Pages::Refused);
        f.debug_struct("Guard").field("hosts", &hosts).field("refuses_pages", &refuses_pages).finish()
    }
}

/// Why a request is refused that a web page sent which is not the server's own; `None` if none did.
pub fn foreign_page(request: &Request) -> Option<Refusal> {
    let headers = &request.headers;
    // A browser always says where a request comes from, unless it is too old or the address is not a safe one.
    let cross_site = headers
        .get_all(SEC_FETCH_SITE.as_str())
        .any(|site| site.as_bytes().eq_ignore_ascii_case(b"cross-site"));
    if cross_site || is_part_of_another_page(headers) {
        return Some(Refusal::CrossSite);
    }
    let own = headers.get(HOST).and_then(|value| Authority::parse(value.as_bytes()));
    let foreign = headers.get_all(ORIGIN.as_str()).find(|origin| !is_own(*origin, own.as_ref()))?;
    Some(Refusal::ForeignOrigin { origin: printable(foreign) })
}

/// Whether a browser fetches this as an image, a script, a frame or the like for a page that is not the server's own.
/// Such a request names no origin, and a neighbour on another port counts as the same site; no other client sends it.
fn is_part_of_another_page(headers: &Headers) -> bool {
    let all = |name: &HeaderName, allowed: &[&str]| {
        headers.get_all(name.as_str()).all(|value| {
            allowed.iter().any(|allowed| value.as_bytes().eq_ignore_ascii_case(allowed.as_bytes()))
        })
    };
    let is_own = headers.contains(SEC_FETCH_SITE) && all(&SEC_FETCH_SITE, &["same-origin", "none"]);
    !is_own
        && (headers
            .get_all(SEC_FETCH_MODE.as_str())
            .any(|mode| mode.as_bytes().eq_ignore_ascii_case(b"no-cors"))
            || !all(&SEC_FETCH_DEST, &["document", "empty"]))
}

/// Whether a page of `origin` is one this server itself served: same host and port, whatever loopback is called.
/// `null` and whatever else does not parse is foreign.
fn is_own(origin: FieldValue<'_>, own: Option<&Authority<'_>>) -> bool {
    let bytes = origin.as_bytes();
    let (secure, rest) = if let Some(rest) = bytes.strip_prefix(b"https://") {
        (true, rest)
    } else if let Some(rest) = bytes.strip_prefix(b"http://") {
        (false, rest)
    } else {
        return false;
    };
    let (Some(own), Some(theirs)) = (own, Authority::parse(rest)) else { return false };
    let same_host = theirs.host.is_same(&own.host) || (theirs.host.is_loopback() && own.host.is_loopback());
    same_host && theirs.port_or_default(secure) == own.port_or_default(secure)
}

/// Makes target and `Host` say the same, or refuses.
fn agree(target: &str, headers: &mut Headers) -> Result<(), Refusal> {
    let Some(host) = Found::in_headers(headers).only_host()? else {
        let host = HeaderValue::from_str(target).map_err(|_| Refusal::HostMalformed)?;
        headers.insert(HOST, host);
        return Ok(());
    };
    let named = Authority::parse(target.as_bytes()).ok_or(Refusal::HostMalformed)?;
    let host = Authority::parse(host.as_bytes()).ok_or(Refusal::HostMalformed)?;
    let agree = named.host.is_same(&host.host) && named.port == host.port;
    if agree { Ok(()) } else { Err(Refusal::HostsDiffer) }
}

/// What a guard looks at, found in one walk over the headers: every request pays for it.
struct Found<'a> {
    host: Option<FieldValue<'a>>,
    has_more_hosts: bool,
    is_from_browser: bool,
}

impl<'a> Found<'a> {
    fn in_headers(headers: &'a Headers) -> Self {
        let mut found = Self { host: None, has_more_hosts: false, is_from_browser: false };
        for (name, value) in headers.fields() {
            let is = |other: &HeaderName| name.eq_ignore_ascii_case(other.as_str().as_bytes());
            if is(&HOST) {
                found.has_more_hosts |= found.host.replace(value).is_some();
            } else if BROWSERS.iter().any(is) {
                found.is_from_browser = true;
            }
        }
        found
    }

    fn only_host(&self) -> Result<Option<FieldValue<'a>>, Refusal> {
        if self.has_more_hosts { Err(Refusal::HostRepeated) } else { Ok(self.host) }
    }
}

/// Names that mean a machine itself, or the one below its containers, wherever they are asked for.
fn is_everybodys(name: &str) -> bool {
    is_same(name, "localhost") || is_below(name, "localhost") || is_same(name, "host.docker.internal")
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

/// A header's text to show: short, and nothing in it that is not plain.
fn printable(value: FieldValue<'_>) -> Box<str> {
    let plain = |byte: &u8| if byte.is_ascii_graphic() { char::from(*byte) } else { '?' };
    value.as_bytes().iter().take(100).map(plain).collect::<String>().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::sample;

    fn request(headers: &[(&'static str, &'static str)]) -> Request {
        let mut request = sample();
        for (name, value) in headers {
            request.headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        request
    }

    fn judged(guard: &Guard, headers: &[(&'static str, &'static str)]) -> Result<(), Refusal> {
        guard.check(&mut request(headers), Version::HTTP_11)
    }

    fn host(guard: &Guard, host: &'static str) -> Result<(), Refusal> {
        judged(guard, &[("host", host)])
    }

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
        ] {
            assert_eq!(host(&Guard::open(), name), Ok(()), "{name}");
        }
    }

    #[test]
    fn a_dotted_name_nobody_configured_is_refused_with_the_setting_that_allows_it() {
        for (name, shown) in [
            ("evil.example", "evil.example"),
            ("EVIL.example:9324", "evil.example"),
            ("evil.example.", "evil.example"),
            ("localhost.evil.example", "localhost.evil.example"),
            ("127.0.0.1.evil.example", "127.0.0.1.evil.example"),
            ("127.1", "127.1"),
            (".localhost", ".localhost"),
            ("xhost.docker.internal", "xhost.docker.internal"),
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
            .with_hosts_like(|name| name == "account.queue.core.test");
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
    }

    #[test]
    fn host_must_be_there_once_and_well_formed_in_every_mode() {
        for guard in [Guard::open(), Guard::open().with_any_host(), Guard::strict()] {
            assert_eq!(judged(&guard, &[]), Err(Refusal::HostMissing));
            assert_eq!(judged(&guard, &[("host", "a"), ("host", "a")]), Err(Refusal::HostRepeated));
            for malformed in ["me@localhost", "localhost:x", "localhost:70000", "a b", "[::1", "a/b", "a,b"] {
                assert_eq!(host(&guard, malformed), Err(Refusal::HostMalformed), "{malformed}");
            }
            assert_eq!(guard.check(&mut request(&[]), Version::HTTP_10), Ok(()), "HTTP/1.0 knew no Host");
            let mut connect = request(&[("host", "a")]);
            connect.method = Method::CONNECT;
            assert_eq!(guard.check(&mut connect, Version::HTTP_11), Err(Refusal::MethodNotServed));
        }
    }

    #[test]
    fn a_target_with_a_host_must_agree_with_the_header() {
        let check = |uri: &'static str, headers: &[(&'static str, &'static str)]| {
            let mut request = request(headers);
            request.uri = http::Uri::from_static(uri);
            Guard::open()
                .check(&mut request, Version::HTTP_11)
                .map(|()| request.header("host").map(str::to_owned))
        };
        let agreed = Ok(Some("LOCALHOST:1".to_owned()));
        assert_eq!(check("http://localhost:1/", &[("host", "LOCALHOST:1")]), agreed);
        assert_eq!(check("http://localhost:1/", &[("host", "localhost:2")]), Err(Refusal::HostsDiffer));
        assert_eq!(check("http://evil.example/", &[("host", "localhost")]), Err(Refusal::HostsDiffer));
        assert_eq!(check("http://me@localhost/", &[("host", "localhost")]), Err(Refusal::HostMalformed));
        assert_eq!(check("http://localhost:1/", &[]), Ok(Some("localhost:1".to_owned())), "as HTTP/2 has it");
        assert_eq!(check("http://me@localhost/", &[]), Err(Refusal::HostMalformed));
        assert_eq!(
            check("http://evil.example/", &[]),
            Err(Refusal::HostNotAllowed { host: "evil.example".into() })
        );
    }

    #[test]
    fn pages_of_other_origins_are_refused() {
        let page =
            |origin: &'static str| judged(&Guard::open(), &[("host", "localhost:9325"), ("origin", origin)]);
        for own in
            ["http://localhost:9325", "http://127.0.0.1:9325", "http://[::1]:9325", "https://LOCALHOST:9325"]
        {
            assert_eq!(page(own), Ok(()), "{own}");
        }
        for foreign in [
            "null",
            "",
            "http://localhost",
            "http://localhost:3000",
            "https://evil.example",
            "http://evil.example:9325",
            "http://localhost:9325/path",
            "http://me@localhost:9325",
            "localhost:9325",
            "file://",
            "chrome-extension://abc",
        ] {
            assert_eq!(page(foreign), Err(Refusal::ForeignOrigin { origin: foreign.into() }), "{foreign}");
        }
        let by_address = [("host", "10.0.0.7"), ("origin", "http://10.0.0.7")];
        assert_eq!(judged(&Guard::open(), &by_address), Ok(()), "the default port may be left out");
        let two = [("host", "a"), ("origin", "http://a"), ("origin", "http://b")];
        assert_eq!(judged(&Guard::open(), &two), Err(Refusal::ForeignOrigin { origin: "http://b".into() }));
    }

    #[test]
    fn what_a_browser_calls_cross_site_is_refused_whatever_the_origin() {
        let site = |site: &'static str| judged(&Guard::open(), &[("host", "kew"), ("sec-fetch-site", site)]);
        assert_eq!(site("cross-site"), Err(Refusal::CrossSite));
        assert_eq!(site("Cross-Site"), Err(Refusal::CrossSite));
        for fine in ["same-origin", "same-site", "none"] {
            assert_eq!(site(fine), Ok(()), "{fine}");
        }
    }

    // An image tag on a page of another port asks without an origin, and would run what its URL says.
    #[test]
    fn images_and_frames_of_neighbouring_pages_are_refused() {
        let judge = |headers: &[(&'static str, &'static str)]| {
            let headers: Vec<_> = [("host", "kew")].iter().chain(headers).copied().collect();
            [Guard::open(), Guard::open().with_any_host()].map(|guard| judged(&guard, &headers))
        };
        for refused in [
            &[("sec-fetch-site", "same-site"), ("sec-fetch-mode", "no-cors"), ("sec-fetch-dest", "image")][..],
            &[("sec-fetch-site", "same-site"), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "iframe")],
            &[("sec-fetch-mode", "No-Cors")],
            &[("sec-fetch-dest", "script")],
            &[
                ("sec-fetch-site", "same-origin"),
                ("sec-fetch-site", "same-site"),
                ("sec-fetch-dest", "image"),
            ],
        ] {
            assert_eq!(judge(refused), [Err(Refusal::CrossSite), Err(Refusal::CrossSite)], "{refused:?}");
        }
        for fine in [
            // The server's own pages, a person who follows a link, and clients that speak like a browser.
            &[("sec-fetch-site", "same-origin"), ("sec-fetch-mode", "no-cors"), ("sec-fetch-dest", "image")]
                [..],
            &[("sec-fetch-site", "none"), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")],
            &[
                ("sec-fetch-site", "same-site"),
                ("sec-fetch-mode", "navigate"),
                ("sec-fetch-dest", "document"),
            ],
            &[("sec-fetch-mode", "cors")],
            &[("sec-fetch-mode", "cors"), ("sec-fetch-dest", "empty")],
        ] {
            assert_eq!(judge(fine), [Ok(()), Ok(())], "{fine:?}");
        }
    }

    #[test]
    fn pages_are_left_to_the_front_end_where_it_asks_for_them() {
        let headers = [("host", "kew"), ("origin", "https://evil.example"), ("sec-fetch-site", "cross-site")];
        let left = Guard::open().with_pages_left_to_handler();
        assert_eq!(judged(&left, &headers), Ok(()));
        assert_eq!(judged(&Guard::open().with_any_host(), &headers), Err(Refusal::CrossSite));
        assert_eq!(foreign_page(&request(&headers)), Some(Refusal::CrossSite));
    }
}
