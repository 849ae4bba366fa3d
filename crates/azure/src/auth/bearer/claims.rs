//! What a token says, and whether that holds here and now.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use kew_core::Timestamp;
use serde::Deserialize;

use crate::error::{Code, WireError};

/// The service, as tokens name it.
pub(super) const STORAGE: &str = "https://storage.azure.com";
/// The same by its number.
const STORAGE_ID: &str = "e406a681-f3d4-42a8-90b6-c2b029497af1";
const CLOUDS: [&str; 4] =
    ["core.windows.net", "core.chinacloudapi.cn", "core.usgovcloudapi.net", "core.cloudapi.de"];

/// What a token says of itself. Instants are seconds, maybe with a fraction.
#[derive(Deserialize, Debug)]
pub(super) struct Claims {
    exp: f64,
    nbf: Option<f64>,
    iat: Option<f64>,
    iss: String,
    aud: Audiences,
    oid: Option<String>,
    sub: Option<String>,
    tid: Option<String>,
}

/// One audience, or several.
#[derive(Deserialize, Debug)]
#[serde(untagged)]
enum Audiences {
    One(String),
    Several(Vec<String>),
}

/// Whether a token has to say since when it holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NotBefore {
    /// It has to, and also when it was issued.
    Required,
    /// It may.
    Optional,
}

/// Who a token was issued to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Holder {
    /// Their number.
    pub(crate) object: String,
    /// The number of the directory they belong to.
    pub(crate) tenant: String,
}

impl Holder {
    /// Somebody who does not say: all zeros.
    pub(crate) fn unnamed() -> Self {
        const NOBODY: &str = "00000000-0000-0000-0000-000000000000";
        Self { object: NOBODY.to_owned(), tenant: NOBODY.to_owned() }
    }
}

impl Claims {
    /// Who the token was issued to. Issuers that number neither people nor directories name a subject at least.
    pub(super) fn holder(self) -> Holder {
        let unnamed = Holder::unnamed();
        let filled = |text: Option<String>| text.filter(|text| !text.is_empty());
        Holder {
            object: filled(self.oid).or_else(|| filled(self.sub)).unwrap_or(unnamed.object),
            tenant: filled(self.tid).unwrap_or(unnamed.tenant),
        }
    }

    /// What a token says, before its signature is checked.
    pub(super) fn unverified(token: &str) -> Result<Self, WireError> {
        let mut parts = token.split('.');
        let (Some(_header), Some(payload), Some(_signature), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(Code::InvalidAuthenticationInfo.into());
        };
        let bytes = URL_SAFE_NO_PAD.decode(payload.trim_end_matches('=')).ok();
        let claims = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        claims.ok_or_else(|| Code::InvalidAuthenticationInfo.into())
    }

    /// Refuses a token whose time has not come or is over, by more than clocks may differ.
    pub(super) fn check_lifetime(
        &self,
        now: Timestamp,
        skew: Duration,
        not_before: NotBefore,
    ) -> Result<(), WireError> {
        if not_before == NotBefore::Required && (self.nbf.is_none() || self.iat.is_none()) {
            return Err(Code::InvalidAuthenticationInfo.into());
        }
        let (now, skew) = (now.0 as f64 / 1_000.0, skew.as_secs_f64());
        if self.nbf.is_some_and(|begin| now + skew < begin) {
            return Err(WireError::not_authentic("Lifetime validation failed. The token is not yet valid."));
        }
        if now - skew > self.exp {
            return Err(WireError::not_authentic("Lifetime validation failed. The token is expired."));
        }
        Ok(())
    }

    /// Refuses a token of somebody else.
    pub(super) fn check_issuer(&self, is_known: impl Fn(&str) -> bool) -> Result<(), WireError> {
        if is_known(&self.iss) { Ok(()) } else { Err(WireError::not_authentic("Invalid token issuer.")) }
    }

    /// Refuses a token for something else.
    pub(super) fn check_audience(&self, is_ours: impl Fn(&str) -> bool) -> Result<(), WireError> {
        let found = match &self.aud {
            Audiences::One(audience) => is_ours(audience),
            Audiences::Several(audiences) => audiences.iter().any(|audience| is_ours(audience)),
        };
        if found { Ok(()) } else { Err(WireError::not_authentic("Invalid token audience.")) }
    }
}

/// Whether an audience is the service, or one of its accounts in any cloud.
pub(super) fn is_storage(audience: &str, account: &str) -> bool {
    let audience = audience.strip_suffix('/').unwrap_or(audience);
    let is_own = |cloud: &&str| audience == format!("https://{account}.queue.{cloud}");
    [STORAGE, STORAGE_ID].contains(&audience) || CLOUDS.iter().any(is_own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn audiences_are_the_service_or_the_account_in_any_cloud() {
        for (audience, valid) in [
            ("https://storage.azure.com/", true),
            ("e406a681-f3d4-42a8-90b6-c2b029497af1", true),
            ("https://acc.queue.core.windows.net", true),
            ("https://other.queue.core.windows.net", false),
            ("https://vault.azure.net", false),
        ] {
            assert_eq!(is_storage(audience, "acc"), valid, "{audience}");
        }
    }

    #[test]
    fn a_lifetime_holds_at_both_its_ends_and_as_far_as_clocks_may_differ() {
        let claims: Claims =
            serde_json::from_str(r#"{"nbf":100,"iat":100,"exp":200.5,"iss":"i","aud":["a","b"]}"#)
                .expect("a token's claims are well-formed JSON");
        let judge = |millis: u64, skew: u64| {
            claims.check_lifetime(Timestamp(millis), Duration::from_secs(skew), NotBefore::Required).is_ok()
        };
        for (millis, skew, holds) in [
            (99_999, 0, false),
            (100_000, 0, true),
            (200_500, 0, true),
            (200_501, 0, false),
            (90_000, 10, true),
            (89_999, 10, false),
            (210_500, 10, true),
            (210_501, 10, false),
        ] {
            assert_eq!(judge(millis, skew), holds, "{millis} {skew}");
        }
        assert!(claims.check_audience(|audience| audience == "b").is_ok());
        assert!(claims.check_audience(|audience| audience == "c").is_err());
    }

    #[test]
    fn a_token_that_says_too_little_is_none() {
        let token = |json: &str| format!("e30.{}.x", URL_SAFE_NO_PAD.encode(json));
        let whole = r#"{"exp":2,"iss":"i","aud":"a"}"#;
        assert!(Claims::unverified(&token(whole)).is_ok());
        for json in
            [r#"{"iss":"i","aud":"a"}"#, r#"{"exp":2,"iss":"i"}"#, r#"{"exp":"2","iss":"i","aud":"a"}"#, "{"]
        {
            assert!(Claims::unverified(&token(json)).is_err(), "{json}");
        }
        for text in ["", "a", "a.b", "a.b.c.d", "e30.%.x"] {
            assert!(Claims::unverified(text).is_err(), "{text}");
        }
        let claims = Claims::unverified(&token(whole)).expect("claims with all fields are read");
        let judge = |rule| claims.check_lifetime(Timestamp(1), Duration::ZERO, rule).is_ok();
        assert_eq!((judge(NotBefore::Required), judge(NotBefore::Optional)), (false, true));
    }
}
