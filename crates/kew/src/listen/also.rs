//! Which dialect a request speaks, on an address that serves all of them (`--also`).
//!
//! A pure function of the request, in the order that settles every doubt: what only Cloudflare does comes first, then
//! what only Amazon's clients send, then what is left for Azure.

use kew_http::{Host, Method, Request, percent};

use super::dialect::Dialect;

/// Tells whether an Azure account of this name exists.
pub type KnownAccount = dyn Fn(&str) -> bool + Send + Sync;

/// The dialect a request speaks; `None` when it speaks none.
pub fn dialect_of(request: &Request, is_azure_account: &KnownAccount) -> Option<Dialect> {
    if is_cloudflare(request) {
        Some(Dialect::Cloudflare)
    } else if is_sqs(request) {
        Some(Dialect::Sqs)
    } else if is_azure(request, is_azure_account) {
        Some(Dialect::Azure)
    } else {
        None
    }
}

/// The REST API, or a worker's producer binding.
fn is_cloudflare(request: &Request) -> bool {
    let rest = request.uri.path().strip_prefix("/client/v4");
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        || request.headers.contains("x-kew-queue")
}

fn is_sqs(request: &Request) -> bool {
    kew_sqs::is_look(request.uri.path())
        || request.headers.contains("x-amz-target")
        || authorization(request).is_some_and(|text| text.starts_with("AWS4-"))
        || has_parameter(query(request), |name| name == "X-Amz-Credential" || name == "Action")
        || has_parameter(form(request), |name| name == "Action")
        || first_part(request).is_some_and(is_account_number)
}

fn is_azure(request: &Request, is_account: &KnownAccount) -> bool {
    let shared_key = |text: &str| text.starts_with("SharedKey ") || text.starts_with("SharedKeyLite ");
    request.headers.names_from("x-ms-").next().is_some()
        || authorization(request).is_some_and(shared_key)
        || (has_parameter(query(request), |name| name == "sv")
            && has_parameter(query(request), |name| name == "sig"))
        || request.method == Method::OPTIONS
        || first_part(request).is_some_and(|part| is_known(part, is_account))
        || host_label(request).is_some_and(|label| is_known(label, is_account))
}

/// A name with `-secondary` behind it means the same account.
fn is_known(name: &str, is_account: &KnownAccount) -> bool {
    let name = name.to_ascii_lowercase();
    is_account(name.strip_suffix("-secondary").unwrap_or(&name))
}

fn authorization(request: &Request) -> Option<&str> {
    request.header("authorization").map(str::trim_start)
}

fn query(request: &Request) -> &str {
    request.uri.query().unwrap_or_default()
}

/// A form's text; other bodies have none.
fn form(request: &Request) -> &str {
    let content_type = request.header("content-type").unwrap_or_default();
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    if request.method == Method::POST && essence.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
        std::str::from_utf8(&request.body).unwrap_or_default()
    } else {
        ""
    }
}

fn has_parameter(text: &str, is_it: impl Fn(&str) -> bool) -> bool {
    let names = text.split('&').map(|pair| pair.split('=').next().unwrap_or_default());
    names.into_iter().any(|name| percent::decode(name.as_bytes()).is_ok_and(|name| is_it(&name)))
}

fn first_part(request: &Request) -> Option<&str> {
    request.uri.path().split('/').nth(1).filter(|part| !part.is_empty())
}

fn is_account_number(part: &str) -> bool {
    part.len() == 12 && part.bytes().all(|byte| byte.is_ascii_digit())
}

/// The host's first label, where it has more than one.
fn host_label(request: &Request) -> Option<&str> {
    match request.authority()?.host {
        Host::Name(name) => name.split_once('.').map(|(label, _)| label),
        Host::Address(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kew_core::Timestamp;
    use kew_http::{HeaderName, HeaderValue, Headers, RequestId, Uri};

    fn request(method: Method, target: &str, headers: &[(&'static str, &str)], body: &str) -> Request {
        let mut map = Headers::default();
        for (name, value) in headers {
            map.append(
                HeaderName::from_static(name),
                HeaderValue::from_str(value).expect("the header's value is visible ASCII"),
            );
        }
        Request {
            method,
            uri: target.parse::<Uri>().expect("the target is a URI"),
            headers: map,
            body: body.to_owned().into(),
            id: RequestId::from_chance(0),
            received_at: Timestamp::ZERO,
            peer: ([127, 0, 0, 1], 1).into(),
            secure: false,
            room: Default::default(),
        }
    }

    fn told(method: Method, target: &str, headers: &[(&'static str, &str)], body: &str) -> Option<Dialect> {
        dialect_of(&request(method, target, headers, body), &|name| name == "devstoreaccount1")
    }

    const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded; charset=utf-8");

    #[test]
    fn each_sign_tells_its_dialect() {
        let (get, post) = (Method::GET, Method::POST);
        for (method, target, headers, body, expected) in [
            (get.clone(), "/client/v4/accounts/0/queues", &[][..], "", Dialect::Cloudflare),
            (get.clone(), "/client/v4", &[], "", Dialect::Cloudflare),
            (post.clone(), "/", &[("x-kew-queue", "q")], "", Dialect::Cloudflare),
            (post.clone(), "/", &[("x-amz-target", "AmazonSQS.ListQueues")], "{}", Dialect::Sqs),
            (
                post.clone(),
                "/",
                &[("authorization", "AWS4-HMAC-SHA256 Credential=a/b/c/sqs/aws4_request")],
                "",
                Dialect::Sqs,
            ),
            (get.clone(), "/?X-Amz-Credential=a", &[], "", Dialect::Sqs),
            (get.clone(), "/?Version=2012-11-05&Action=ListQueues", &[], "", Dialect::Sqs),
            (get.clone(), "/?%41ction=ListQueues", &[], "", Dialect::Sqs),
            (post.clone(), "/", &[FORM], "Version=2012-11-05&Action=ListQueues", Dialect::Sqs),
            (get.clone(), "/000000000000/orders", &[], "", Dialect::Sqs),
            (get.clone(), "/devstoreaccount1/orders/messages", &[], "", Dialect::Azure),
            (get.clone(), "/devstoreaccount1-secondary?comp=stats", &[], "", Dialect::Azure),
            (get.clone(), "/x?comp=list", &[("x-ms-version", "2025-01-05")], "", Dialect::Azure),
            (get.clone(), "/x", &[("authorization", "SharedKey x:y")], "", Dialect::Azure),
            (get.clone(), "/x", &[("authorization", "SharedKeyLite x:y")], "", Dialect::Azure),
            (get.clone(), "/x?sv=2025&sig=abc", &[], "", Dialect::Azure),
            (Method::OPTIONS, "/x", &[], "", Dialect::Azure),
            (
                get.clone(),
                "/orders",
                &[("host", "devstoreaccount1.queue.localhost:4566")],
                "",
                Dialect::Azure,
            ),
        ] {
            assert_eq!(told(method, target, headers, body), Some(expected), "{target} {headers:?} {body}");
        }
    }

    #[test]
    fn earlier_signs_win_over_later_ones() {
        let ms = ("x-ms-version", "1");
        let target = ("x-amz-target", "AmazonSQS.ListQueues");
        assert_eq!(told(Method::POST, "/client/v4/x", &[target, ms], ""), Some(Dialect::Cloudflare));
        assert_eq!(told(Method::POST, "/", &[("x-kew-queue", "q"), target], ""), Some(Dialect::Cloudflare));
        assert_eq!(told(Method::POST, "/devstoreaccount1", &[target, ms], ""), Some(Dialect::Sqs));
        assert_eq!(told(Method::GET, "/000000000000/q", &[ms], ""), Some(Dialect::Sqs));
    }

    #[test]
    fn what_only_resembles_a_sign_tells_nothing() {
        for (method, target, headers, body) in [
            (Method::GET, "/", &[][..], ""),
            (Method::GET, "/client/v45", &[], ""),
            (Method::GET, "/00000000000/q", &[], ""),
            (Method::GET, "/0000000000000/q", &[], ""),
            (Method::GET, "/?Actions=x", &[], ""),
            (Method::GET, "/?sv=1", &[], ""),
            (Method::POST, "/", &[("content-type", "text/plain")], "Action=ListQueues"),
            (Method::GET, "/x", &[("authorization", "Bearer t")], ""),
            (Method::GET, "/otheraccount/q", &[("host", "localhost")], ""),
            (Method::GET, "/x", &[("host", "devstoreaccount1")], ""),
        ] {
            assert_eq!(told(method, target, headers, body), None, "{target} {headers:?}");
        }
    }
}
