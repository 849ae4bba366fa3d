//! Web pages must not reach an open server.
//!
//! A server that accepts any credentials has one protection left: a browser says truthfully which host it was given and
//! which page asked. A name with a dot that is not configured may have been pointed here by its owner (DNS
//! rebinding), so it is refused; so is what a page of another origin sends. In strict mode everything is authenticated
//! and only what is malformed is refused.

mod hosts;
mod pages;

use std::fmt;
use std::sync::{Arc, OnceLock};

use http::header::{AUTHORIZATION, HOST, HeaderName};
use http::{HeaderValue, Method, Version};

use crate::authority::Authority;
use crate::headers::{FieldValue, Headers};
use crate::refusal::Refusal;
use crate::request::Request;
use hosts::Hosts;
use pages::{BROWSERS, Pages};

pub use pages::{foreign_page, listed_origin};

/// Which requests reach a front-end.
#[derive(Clone)]
pub struct Guard {
    hosts: Hosts,
    pages: Pages,
    /// Other origins whose pages are let in.
    origins: Arc<[String]>,
    /// The first host that was let in, as it was written: nearly every request repeats it.
    usual: OnceLock<Box<[u8]>>,
}

impl Guard {
    /// For a server that accepts any credentials.
    pub fn open() -> Self {
        Self {
            hosts: Hosts::Known { listed: Arc::default(), recognised: None, inner: Vec::new() },
            pages: Pages::Refused,
            origins: Arc::default(),
            usual: OnceLock::new(),
        }
    }

    /// For a server that authenticates everything.
    pub fn strict() -> Self {
        let (hosts, pages) = (Hosts::Any, Pages::LeftToHandler);
        Self { hosts, pages, origins: Arc::default(), usual: OnceLock::new() }
    }

    /// Also accepts these host names; `*.example.com` stands for every name below `example.com`.
    pub fn with_hosts(mut self, names: impl IntoIterator<Item = String>) -> Self {
        if let Hosts::Known { listed, .. } = &mut self.hosts {
            *listed = listed.iter().cloned().chain(names).collect();
        }
        self
    }

    /// Also accepts host names that the operator configured at the front-end; they are given in the case they were sent
    /// and without a port. A name that a front-end merely understands may be anybody's, and is not one of these.
    pub fn with_hosts_like(mut self, known: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        if let Hosts::Known { recognised, .. } = &mut self.hosts {
            *recognised = Some(Arc::new(known));
        }
        self
    }

    /// Also accepts names that stand for another host, which is judged in their place: an address, a host everybody may
    /// use or one that is configured. A name without a dot has to be configured here: a dotted name that ends in it
    /// may be anybody's. Several of these add up.
    pub fn with_hosts_within(mut self, found: impl Fn(&str) -> Option<&str> + Send + Sync + 'static) -> Self {
        if let Hosts::Known { inner, .. } = &mut self.hosts {
            inner.push(Arc::new(found));
        }
        self
    }

    /// Accepts any host name (`--insecure`); pages of other origins are still refused.
    pub fn with_any_host(mut self) -> Self {
        self.hosts = Hosts::Any;
        self
    }

    /// Also lets in pages of these origins, `http://localhost:3000` for one; `*` is every page.
    pub fn with_origins(mut self, origins: &Arc<[String]>) -> Self {
        self.origins = Arc::clone(origins);
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
                self.hosts.check(&authority.host)?;
                // The first accepted host is remembered, once: what is let in depends on nothing but the settings.
                self.usual.get_or_init(|| value.as_bytes().into());
            }
        }
        if found.authorizations > 1 {
            return Err(Refusal::AuthorizationRepeated);
        }
        if found.is_from_browser && listed_origin(request, &self.origins).is_none() {
            return self.pages.check(request);
        }
        Ok(())
    }

    /// Judges a request that is well formed: for a front-end of which only a part is guarded, behind a listener that
    /// lets everything in.
    pub fn admit(&self, request: &Request) -> Result<(), Refusal> {
        if let Some(authority) = request.authority() {
            self.hosts.check(&authority.host)?;
        }
        self.pages.check(request)
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
    authorizations: u32,
    is_from_browser: bool,
}

impl<'a> Found<'a> {
    fn in_headers(headers: &'a Headers) -> Self {
        let mut found = Self { host: None, has_more_hosts: false, authorizations: 0, is_from_browser: false };
        for (name, value) in headers.fields() {
            let is = |other: &HeaderName| name.eq_ignore_ascii_case(other.as_str().as_bytes());
            if is(&HOST) {
                found.has_more_hosts |= found.host.replace(value).is_some();
            } else if is(&AUTHORIZATION) {
                found.authorizations += 1;
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

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::request::sample;

    pub(super) fn request(headers: &[(&'static str, &'static str)]) -> Request {
        let mut request = sample();
        for (name, value) in headers {
            request.headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        request
    }

    pub(super) fn judged(guard: &Guard, headers: &[(&'static str, &'static str)]) -> Result<(), Refusal> {
        guard.check(&mut request(headers), Version::HTTP_11)
    }

    pub(super) fn host(guard: &Guard, host: &'static str) -> Result<(), Refusal> {
        judged(guard, &[("host", host)])
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
    fn pages_of_listed_origins_are_let_in() {
        let guard = Guard::open().with_origins(&["http://app.test:3000".to_owned()].into());
        let page = |origin: &'static str| {
            let cross_site = ("sec-fetch-site", "cross-site");
            judged(&guard, &[("host", "localhost"), cross_site, ("origin", origin)])
        };
        assert_eq!(page("http://app.test:3000"), Ok(()));
        for other in ["http://app.test", "http://app.test:3001", "https://app.test:3000", "null", ""] {
            assert_eq!(page(other), Err(Refusal::CrossSite), "{other}");
        }
        let twice = [("host", "localhost"), ("origin", "http://app.test:3000"), ("origin", "null")];
        assert!(judged(&guard, &twice).is_err(), "one request has one origin");
        let image = [("host", "localhost"), ("sec-fetch-site", "cross-site")];
        assert_eq!(judged(&guard, &image), Err(Refusal::CrossSite), "no origin is not a listed one");
        let any = Guard::open().with_origins(&["*".to_owned()].into());
        assert_eq!(judged(&any, &[("host", "localhost"), ("origin", "http://evil.example")]), Ok(()));
    }

    #[test]
    fn a_request_is_authorized_once_in_every_mode() {
        for guard in [Guard::open(), Guard::open().with_any_host(), Guard::strict()] {
            let one = ("authorization", "Bearer a");
            assert_eq!(judged(&guard, &[("host", "a"), one]), Ok(()));
            assert_eq!(judged(&guard, &[("host", "a"), one, one]), Err(Refusal::AuthorizationRepeated));
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
}
