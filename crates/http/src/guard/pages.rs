//! What web pages send: a browser says which page asked, and pages of other origins get nothing.

use http::header::{HOST, HeaderName, ORIGIN};

use crate::authority::Authority;
use crate::headers::{FieldValue, Headers};
use crate::refusal::Refusal;
use crate::request::Request;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const SEC_FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");

/// What only browsers send.
pub(super) const BROWSERS: [HeaderName; 4] = [ORIGIN, SEC_FETCH_SITE, SEC_FETCH_MODE, SEC_FETCH_DEST];

/// Who judges what web pages send.
#[derive(Clone, Copy)]
pub(super) enum Pages {
    /// Other sites' pages are refused here.
    Refused,
    /// The front-end decides.
    LeftToHandler,
}

impl Pages {
    pub(super) fn check(self, request: &Request) -> Result<(), Refusal> {
        match self {
            Self::LeftToHandler => Ok(()),
            Self::Refused => foreign_page(request).map_or(Ok(()), Err),
        }
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

/// The origin of the page that sent a request, if it is one of those listed; `*` lists all.
pub fn listed_origin<'a>(request: &'a Request, listed: &[String]) -> Option<&'a str> {
    if listed.is_empty() {
        return None;
    }
    let mut origins = request.headers.get_all(ORIGIN.as_str());
    let origin = origins.next()?.text()?;
    let is_listed = |one: &String| one == "*" || one.eq_ignore_ascii_case(origin);
    (origins.next().is_none() && listed.iter().any(is_listed)).then_some(origin)
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

/// A header's text to show: short, and nothing in it that is not plain.
fn printable(value: FieldValue<'_>) -> Box<str> {
    let plain = |byte: &u8| if byte.is_ascii_graphic() { char::from(*byte) } else { '?' };
    value.as_bytes().iter().take(100).map(plain).collect::<String>().into()
}

#[cfg(test)]
mod tests {
    use super::foreign_page;
    use crate::guard::Guard;
    use crate::guard::tests::{judged, request};
    use crate::refusal::Refusal;

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
