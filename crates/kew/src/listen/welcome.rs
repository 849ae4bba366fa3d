//! What somebody sees who opens the address of a listener: what this is, what is served there, and where the admin
//! listener is. No vendor's client asks for the bare root with neither a query nor a header of its own, so no answer of
//! a dialect is taken away.

use std::net::SocketAddr;

use kew_http::{HeaderName, HeaderValue, Method, Reply, Request, StatusCode};

use super::dialect::{Dialect, Serves};

const VERSION: &str = env!("CARGO_PKG_VERSION");
const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");
const VARY: HeaderName = HeaderName::from_static("vary");
/// The page has nothing but text and a link.
const POLICY: HeaderName = HeaderName::from_static("content-security-policy");

/// Where the admin listener is.
#[derive(Clone, Copy, Debug)]
pub struct AdminPlace {
    /// Its address.
    pub address: SocketAddr,
    /// Whether it is encrypted.
    pub encrypted: bool,
}

/// Whether a request asks for nothing but what is here. Every request of a dialect's client has a path, a query, a
/// signature, or a header that no browser sends.
pub fn is_asked(request: &Request) -> bool {
    matches!(request.method, Method::GET | Method::HEAD)
        && request.uri.path() == "/"
        && request.uri.query().is_none()
        && request.body.is_empty()
        && !request.headers.contains("authorization")
        && ["x-amz-", "x-ms-", "x-kew-"]
            .iter()
            .all(|names| request.headers.names_from(names).next().is_none())
}

/// The page, for people who read HTML, or as plain text.
#[cold]
pub fn page(serves: Serves, admin: Option<AdminPlace>, request: &Request) -> Reply {
    let what = match serves {
        Serves::Only(dialect) => dialect.title().to_owned(),
        Serves::All => Dialect::ALL.map(Dialect::title).join(", "),
    };
    let place = admin.filter(|_| is_of_this_machine(request)).map(url);
    let reads_html = request.header("accept").is_some_and(|accept| accept.contains("text/html"));
    let reply = if reads_html {
        Reply::new(StatusCode::OK, HTML, html(&what, admin.is_some(), place.as_deref()))
    } else {
        Reply::text(StatusCode::OK, &text(&what, admin.is_some(), place.as_deref()))
    };
    reply
        .with(VARY, HeaderValue::from_static("Accept"))
        .with(POLICY, HeaderValue::from_static("default-src 'none'"))
}

/// Others do not learn where it is.
fn is_of_this_machine(request: &Request) -> bool {
    request.peer.ip().to_canonical().is_loopback()
}

fn url(admin: AdminPlace) -> String {
    let scheme = if admin.encrypted { "https" } else { "http" };
    let AdminPlace { mut address, .. } = admin;
    if address.ip().is_unspecified() {
        let loopback: std::net::IpAddr = if address.is_ipv4() {
            std::net::Ipv4Addr::LOCALHOST.into()
        } else {
            std::net::Ipv6Addr::LOCALHOST.into()
        };
        address.set_ip(loopback);
    }
    format!("{scheme}://{address}/")
}

fn text(what: &str, has_admin: bool, place: Option<&str>) -> String {
    let admin = match (place, has_admin) {
        (Some(place), _) => format!("Health, metrics and the admin API: {place}"),
        (None, true) => "Health, metrics and the admin API are on the admin listener (--admin).".to_owned(),
        (None, false) => "There is no admin listener (--admin off).".to_owned(),
    };
    format!("Kew {VERSION}, a message-queue server. This address serves {what}.\n{admin}")
}

fn html(what: &str, has_admin: bool, place: Option<&str>) -> String {
    let admin = match (place, has_admin) {
        (Some(place), _) => format!("Health, metrics and the admin API: <a href=\"{place}\">{place}</a>"),
        (None, true) => {
            "Health, metrics and the admin API are on the admin listener (<code>--admin</code>).".to_owned()
        }
        (None, false) => "There is no admin listener (<code>--admin off</code>).".to_owned(),
    };
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>Kew: {what}</title></head><body><h1>Kew {VERSION}</h1>\
         <p>A message-queue server. This address serves {what}.</p><p>{admin}</p></body></html>\n"
    )
}
