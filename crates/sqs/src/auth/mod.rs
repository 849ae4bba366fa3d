//! Who asks. In open mode everybody is the default account and only the region of the credentials counts, whatever else
//! is in them; in strict mode a request is signed by an access key of the configuration, or refused before its body is
//! looked at.

mod canonical;
mod claim;
mod keys;
mod scope;
mod signing;
mod verify;

use std::fmt;
use std::sync::Arc;

use kew_core::{AccountId, is_region};
use kew_http::{Request, Standing};

use crate::Settings;
use crate::error::WireError;
use scope::Scope;

pub(crate) use keys::Principal;
pub use keys::{AccessKey, KeyError, Keys};
pub(crate) use scope::Service;

/// Who may ask.
#[derive(Clone, Default)]
pub enum Auth {
    /// Everybody, as the default account, with any credentials or none.
    #[default]
    Open,
    /// Clients that sign with one of these keys.
    Strict(Arc<Keys>),
}

impl fmt::Debug for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Open => "Open",
            Self::Strict(_) => "Strict",
        })
    }
}

/// Who asks, and in which region.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    /// The account the request acts for.
    pub(crate) account: AccountId,
    /// The region whose queues it means.
    pub(crate) region: Arc<str>,
    /// The user's id, shown as the sender of messages.
    pub(crate) sender: Arc<str>,
    /// Who signed; open mode needs no signature.
    pub(crate) principal: Option<Arc<Principal>>,
}

/// Who sent this request to a service.
pub(crate) fn caller(settings: &Settings, service: Service, request: &Request) -> Result<Caller, WireError> {
    match &settings.auth {
        Auth::Open => Ok(Caller {
            account: settings.account,
            region: region(settings, request),
            sender: Arc::clone(&settings.sender),
            principal: None,
        }),
        Auth::Strict(keys) => {
            let verified = verify::verify(keys, service, request)?;
            Ok(Caller {
                account: verified.principal.account,
                region: verified.region,
                sender: Arc::clone(&verified.principal.sender),
                principal: Some(verified.principal),
            })
        }
    }
}

/// How far the head of a request is believed whose body is still on its way.
pub(crate) fn standing(settings: &Settings, request: &Request) -> Result<Standing, WireError> {
    let Auth::Strict(keys) = &settings.auth else { return Ok(Standing::Known) };
    // Which service a form asks is in its body: here it is the one that was signed for.
    let credential = claim::credential(request);
    let is_sts = credential.is_some_and(|credential| credential.ends_with("/sts/aws4_request"));
    let service = if is_sts { Service::Sts } else { Service::Sqs };
    let is_proved = verify::is_proved_by_head(keys, service, request)?;
    Ok(if is_proved { Standing::Known } else { Standing::Claimed })
}

/// The region in the scope of the request's credentials, if there is one.
/// The id of the access key that a request shows, proved or not.
pub(crate) fn key_id(request: &Request) -> Option<String> {
    let credential = claim::credential(request)?;
    credential.split('/').next().filter(|id| !id.is_empty()).map(str::to_owned)
}

fn region(settings: &Settings, request: &Request) -> Arc<str> {
    let credential = claim::credential(request);
    if credential.as_deref().is_some_and(|credential| scope::is_within(credential, &settings.region)) {
        return Arc::clone(&settings.region);
    }
    let scope = credential.as_deref().and_then(Scope::read);
    match scope.map(|scope| scope.region) {
        Some(region) if *region != *settings.region && is_region(region) => region.into(),
        Some(_) | None => Arc::clone(&settings.region),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kew_core::Timestamp;
    use kew_http::{HeaderValue, Headers, Method, RequestId, Uri};

    fn request(authorization: &'static str, uri: &'static str) -> Request {
        let mut headers = Headers::default();
        if !authorization.is_empty() {
            headers.insert(kew_http::header::AUTHORIZATION, HeaderValue::from_static(authorization));
        }
        Request {
            method: Method::POST,
            uri: Uri::from_static(uri),
            headers,
            body: Default::default(),
            id: RequestId::from_chance(0),
            received_at: Timestamp::ZERO,
            peer: ([127, 0, 0, 1], 1).into(),
            secure: false,
            room: Default::default(),
        }
    }

    fn region_of(authorization: &'static str, uri: &'static str) -> String {
        region(&Settings::default(), &request(authorization, uri)).to_string()
    }

    #[test]
    fn the_region_comes_from_the_scope() {
        let signed = "AWS4-HMAC-SHA256 Credential=AKID/20260101/eu-west-3/sqs/aws4_request, SignedHeaders=host, Signature=0";
        assert_eq!(region_of(signed, "/"), "eu-west-3");
        let slashes =
            "AWS4-HMAC-SHA256 Credential=A/B/C/20260101/eu-west-3/sqs/aws4_request,SignedHeaders=host";
        assert_eq!(region_of(slashes, "/"), "eu-west-3");
        let url = "/?X-Amz-Credential=AKID%2F20260101%2Feu-west-3%2Fsqs%2Faws4_request";
        assert_eq!(region_of("", url), "eu-west-3");
    }

    #[test]
    fn anything_else_carries_none() {
        for other in ["", "Basic abc", "Credential=", "Credential=a/b", "Credential=k/d/<b>/sqs/aws4_request"]
        {
            assert_eq!(region_of(other, "/?X=1"), "us-east-1", "{other}");
        }
    }
}
