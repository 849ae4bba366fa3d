//! Who asks. In open mode everybody is the default account; only the region of the credentials counts.

use std::sync::Arc;

use kew_core::AccountId;
use kew_http::Request;

use crate::Settings;
use crate::error::WireError;

/// Who asks, and in which region.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    /// The account the request acts for.
    pub(crate) account: AccountId,
    /// The region whose queues it means.
    pub(crate) region: Arc<str>,
    /// The user's id, shown as the sender of messages.
    pub(crate) sender: Arc<str>,
}

/// Who sent this request.
pub(crate) fn caller(settings: &Settings, request: &Request) -> Result<Caller, WireError> {
    let region = region(request).filter(|region| **region != *settings.region);
    Ok(Caller {
        account: settings.account,
        region: region.map_or_else(|| Arc::clone(&settings.region), Arc::from),
        sender: Arc::clone(&settings.sender),
    })
}

/// The region in the scope of the request's credentials:
/// `Credential=<key>/<date>/<region>/sqs/aws4_request`.
fn region(request: &Request) -> Option<&str> {
    let authorization = request.header("authorization")?;
    let (_, credential) = authorization.split_once("Credential=")?;
    let scope = credential.split([',', ' ']).next()?;
    // From the end: an access key may hold slashes.
    let mut parts = scope.rsplit('/');
    let region = parts.nth(2)?;
    let is_region = !region.is_empty()
        && region.len() <= 32
        && region.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    is_region.then_some(region)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kew_core::Timestamp;
    use kew_http::{HeaderMap, HeaderValue, Method, RequestId, Uri};

    fn request(authorization: &'static str) -> Request {
        let mut headers = HeaderMap::new();
        headers.insert("authorization", HeaderValue::from_static(authorization));
        Request {
            method: Method::POST,
            uri: Uri::from_static("/"),
            headers,
            body: Default::default(),
            id: RequestId::from_chance(0),
            received_at: Timestamp::ZERO,
            peer: ([127, 0, 0, 1], 1).into(),
            secure: false,
        }
    }

    #[test]
    fn the_region_comes_from_the_scope() {
        let signed = "AWS4-HMAC-SHA256 Credential=AKID/20260101/eu-west-3/sqs/aws4_request, SignedHeaders=host, Signature=0";
        assert_eq!(region(&request(signed)), Some("eu-west-3"));
        let slashes =
            "AWS4-HMAC-SHA256 Credential=A/B/C/20260101/eu-west-3/sqs/aws4_request,SignedHeaders=host";
        assert_eq!(region(&request(slashes)), Some("eu-west-3"));
    }

    #[test]
    fn anything_else_carries_none() {
        for other in ["", "Basic abc", "Credential=", "Credential=a/b", "Credential=k/d/<b>/sqs/aws4_request"]
        {
            assert_eq!(region(&request(other)), None, "{other}");
        }
    }
}
