//! Redirects of a handler, by the rules of the vendor's HTTP client (`RedirectHandler` of .NET): 300 to 303 turn a POST
//! into a GET without a body, 307 and 308 repeat it.

use bytes::Bytes;
use kew_http::client::{Answer, Outgoing};
use kew_http::{Method, Uri};

/// Maximum number of redirects of one request.
pub(super) const REDIRECTS_MAX: u32 = 50;

/// The request that follows a reply to `asked`; none where the reply is the last word.
pub(super) fn next(asked: &Outgoing, answer: &Answer) -> Option<Outgoing> {
    let keeps_method = match answer.status.as_u16() {
        300..=303 => false,
        307 | 308 => true,
        _ => return None,
    };
    let place = answer.headers.get("location")?.to_str().ok()?;
    let uri = resolve(&asked.uri, place)?;
    let mut following = Outgoing { uri, ..asked.clone() };
    if !keeps_method && asked.method == Method::POST {
        following.method = Method::GET;
        following.body = Bytes::new();
        following.headers.remove("content-type");
    }
    Some(following)
}

/// An address as seen from another; only plain HTTP is gone to, where handlers live.
fn resolve(from: &Uri, place: &str) -> Option<Uri> {
    let authority = from.authority()?;
    let whole = if place.contains("://") {
        place.to_owned()
    } else if let Some(elsewhere) = place.strip_prefix("//") {
        format!("http://{elsewhere}")
    } else if place.starts_with('/') {
        format!("http://{authority}{place}")
    } else {
        let (folder, _) = from.path().rsplit_once('/')?;
        format!("http://{authority}{folder}/{place}")
    };
    let uri: Uri = whole.split('#').next()?.parse().ok()?;
    (uri.scheme_str() == Some("http") && uri.authority().is_some()).then_some(uri)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kew_http::{HeaderMap, HeaderValue, StatusCode};

    #[test]
    fn replies_that_point_elsewhere_are_followed_by_their_kind() {
        let asked = Outgoing {
            method: Method::POST,
            uri: "http://127.0.0.1:7/a/fn".parse().expect("the address is a URI"),
            headers: HeaderMap::from_iter([(kew_http::header::CONTENT_TYPE, HeaderValue::from_static("x"))]),
            body: Bytes::from_static(b"body"),
        };
        for (status, place, expected) in [
            (302, "/b", Some(("GET", "http://127.0.0.1:7/b", 0))),
            (301, "b?c=1#d", Some(("GET", "http://127.0.0.1:7/a/b?c=1", 0))),
            (303, "http://127.0.0.1:8/", Some(("GET", "http://127.0.0.1:8/", 0))),
            (307, "/b", Some(("POST", "http://127.0.0.1:7/b", 4))),
            (308, "//127.0.0.1:9/b", Some(("POST", "http://127.0.0.1:9/b", 4))),
            (307, "https://127.0.0.1:7/b", None),
            (307, "", Some(("POST", "http://127.0.0.1:7/a/", 4))),
            (304, "/b", None),
            (200, "/b", None),
        ] {
            let place = HeaderValue::from_str(place).expect("the place is a header value");
            let answer = Answer {
                status: StatusCode::from_u16(status).expect("the status is between 100 and 999"),
                headers: HeaderMap::from_iter([(kew_http::header::LOCATION, place.clone())]),
                body: Bytes::new(),
            };
            let next = next(&asked, &answer);
            let next = next.map(|next| (next.method.to_string(), next.uri.to_string(), next.body.len()));
            let expected = expected.map(|(method, uri, bytes)| (method.to_owned(), uri.to_owned(), bytes));
            assert_eq!(next, expected, "{status} {place:?}");
        }
    }
}
