//! What queues are called outside: URLs and ARNs.

use std::fmt;

use kew_core::{AccountId, Queue, QueueKey, is_region};
use kew_http::Request;

use crate::{Settings, UrlStyle};

/// A queue as a URL, a path, a bare name or an ARN means it. Of a URL only the last two parts matter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Address<'a> {
    /// The account, when the part before the name is one.
    pub(crate) account: Option<AccountId>,
    /// The region, which only an ARN names.
    pub(crate) region: Option<&'a str>,
    pub(crate) name: &'a str,
}

impl<'a> Address<'a> {
    /// Reads a URL. One that ends in nothing names the empty name, which no queue has.
    pub(crate) fn read(url: &'a str) -> Self {
        if let Some(arn) = url.starts_with("arn:").then(|| Arn::read(url)).flatten() {
            return Self { account: Some(arn.account), region: Some(arn.region), name: arn.name };
        }
        let trimmed = url.strip_suffix('/').unwrap_or(url);
        let (rest, name) = last_part(trimmed);
        Self { account: rest.and_then(|rest| account(last_part(rest).1)), region: None, name }
    }
}

/// What stands behind the last slash, and what before it.
fn last_part(text: &str) -> (Option<&str>, &str) {
    match memchr::memrchr(b'/', text.as_bytes()) {
        Some(slash) => (Some(&text[..slash]), &text[slash + 1..]),
        None => (None, text),
    }
}

/// An account's twelve digits.
pub(crate) fn account(text: &str) -> Option<AccountId> {
    let is_account = text.len() == 12 && text.bytes().all(|byte| byte.is_ascii_digit());
    is_account.then(|| text.parse().ok().map(AccountId)).flatten()
}

/// A queue's URL: on the host the client asked, so that it finds the way back.
pub(crate) fn url(settings: &Settings, request: &Request, queue: &Queue) -> String {
    let QueueKey { account, region, name } = &queue.key;
    if let Some(base) = &settings.external_url {
        return format!("{}/{account}/{name}", base.trim_end_matches('/'));
    }
    let target = request.uri.authority().map_or("localhost", |authority| authority.as_str());
    let host = request.header("host").unwrap_or(target);
    let scheme = if request.secure { "https" } else { "http" };
    match settings.url_style {
        // No name can be put before an address in brackets.
        UrlStyle::Standard if !host.starts_with("sqs.") && !host.starts_with('[') => {
            format!("{scheme}://sqs.{region}.{host}/{account}/{name}")
        }
        UrlStyle::Path | UrlStyle::Standard => format!("{scheme}://{host}/{account}/{name}"),
    }
}

/// The host in `sqs.<region>.<host>`.
pub(crate) fn host_within(name: &str) -> Option<&str> {
    let (service, rest) = name.split_once('.')?;
    let (region, host) = rest.split_once('.')?;
    (service.eq_ignore_ascii_case("sqs") && is_region(region)).then_some(host)
}

/// A queue's Amazon resource name, of the standard partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Arn<'a> {
    pub(crate) region: &'a str,
    pub(crate) account: AccountId,
    pub(crate) name: &'a str,
}

impl<'a> Arn<'a> {
    /// The name of this queue.
    pub(crate) fn of(key: &'a QueueKey) -> Self {
        Self { region: &key.region, account: key.account, name: &key.name }
    }

    /// `arn:<partition>:sqs:<region>:<account>:<name>`, any partition.
    pub(crate) fn read(text: &'a str) -> Option<Self> {
        let mut parts = text.split(':');
        let head = (parts.next()?, parts.next()?, parts.next()?);
        let arn = Self { region: parts.next()?, account: account(parts.next()?)?, name: parts.next()? };
        let is_whole = head.0 == "arn" && !head.1.is_empty() && head.2 == "sqs" && parts.next().is_none();
        (is_whole && !arn.region.is_empty() && !arn.name.is_empty()).then_some(arn)
    }

    /// The key of the queue it names.
    pub(crate) fn key(&self) -> QueueKey {
        QueueKey::new(self.account, self.region, self.name)
    }
}

impl fmt::Display for Arn<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "arn:aws:sqs:{}:{}:{}", self.region, self.account, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kew_core::{Policy, QueueId, Timestamp};

    #[test]
    fn only_the_last_two_parts_of_a_url_count() {
        for (url, account) in [
            ("http://localhost:9324/000000000000/orders", Some(AccountId(0))),
            ("https://sqs.eu-west-1.amazonaws.com/123456789012/orders/", Some(AccountId(123_456_789_012))),
            ("/000000000000/orders", Some(AccountId(0))),
            ("queue/orders", None),
            ("orders", None),
        ] {
            assert_eq!(Address::read(url), Address { account, region: None, name: "orders" }, "{url}");
        }
        let arn = Address::read("arn:aws:sqs:eu-west-1:123456789012:orders");
        let account = Some(AccountId(123_456_789_012));
        assert_eq!(arn, Address { account, region: Some("eu-west-1"), name: "orders" });
        assert_eq!(Address::read("http://localhost//").name, "");
    }

    #[test]
    fn urls_lead_back_the_way_the_client_came() {
        use kew_http::{HeaderValue, Headers, Method, RequestId, Uri};
        let mut request = Request {
            method: Method::POST,
            uri: Uri::from_static("/"),
            headers: Headers::from_iter([(
                kew_http::HeaderName::from_static("host"),
                HeaderValue::from_static("h:9324"),
            )]),
            body: Default::default(),
            id: RequestId::from_chance(0),
            received_at: Timestamp::ZERO,
            peer: ([127, 0, 0, 1], 1).into(),
            secure: false,
            room: Default::default(),
        };
        let queue = Queue {
            id: QueueId(1),
            key: QueueKey::new(AccountId(12), "r", "orders"),
            policy: Policy::standard(),
            documents: Default::default(),
            version: 1,
            created_at: Timestamp::ZERO,
            modified_at: Timestamp::ZERO,
        };
        let standard = Settings { url_style: UrlStyle::Standard, ..Settings::default() };
        assert_eq!(url(&Settings::default(), &request, &queue), "http://h:9324/000000000012/orders");
        assert_eq!(url(&standard, &request, &queue), "http://sqs.r.h:9324/000000000012/orders");
        request.headers.insert(kew_http::header::HOST, HeaderValue::from_static("[::1]:9324"));
        assert_eq!(url(&standard, &request, &queue), "http://[::1]:9324/000000000012/orders");
        request.headers.insert(kew_http::header::HOST, HeaderValue::from_static("sqs.r.h:9324"));
        assert_eq!(url(&standard, &request, &queue), "http://sqs.r.h:9324/000000000012/orders");
        request.headers.insert(kew_http::header::HOST, HeaderValue::from_static("h:9324"));
        request.secure = true;
        assert_eq!(url(&Settings::default(), &request, &queue), "https://h:9324/000000000012/orders");
    }

    #[test]
    fn arns_read_back_as_themselves() {
        let text = "arn:aws:sqs:us-east-1:000000000012:orders.fifo";
        let arn = Arn::read(text).expect("a well-formed ARN is read");
        assert_eq!(arn, Arn { region: "us-east-1", account: AccountId(12), name: "orders.fifo" });
        assert_eq!(arn.to_string(), text);
        for other in [
            "",
            "orders",
            "arn:aws:sns:r:000000000000:q",
            "arn:aws:sqs:r:1:q",
            "arn:aws:sqs:r:000000000000:q:x",
        ] {
            assert_eq!(Arn::read(other), None, "{other}");
        }
    }
}
