//! Get User Delegation Key: who holds a token gets a key to sign with, for at most a week.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kew_core::Timestamp;
use kew_http::xml::{self, Element};
use kew_http::{Reply, StatusCode, date};

use crate::auth::delegation::{Basis, Bounds, SERVICE, SINCE};
use crate::error::{Code, WireError};
use crate::{Context, auth, encode, limits, version};

pub(crate) async fn issue(cx: &Context<'_>) -> Result<Reply, WireError> {
    let version = version::text(cx.request);
    if version < SINCE {
        return Err(WireError::bad_header("x-ms-version", version));
    }
    let asked = Asked::read(&cx.request.body, cx.now())?;
    asked.check(cx.now(), cx.settings.skew)?;
    let holder = auth::holder(cx)?;
    let (start, expiry) = (seconds(asked.start), seconds(asked.expiry));
    let bounds = Bounds {
        object: &holder.object,
        tenant: &holder.tenant,
        start: &start,
        expiry: &expiry,
        service: SERVICE,
        version,
        user_tenant: &asked.user_tenant,
    };
    // Without a basis that this server trusts there is no valid token either.
    let basis = Basis::of(cx.settings).ok_or(Code::AuthenticationFailed)?;
    let key = cx.settings.delegation.issue(cx.engine, cx.account, (&basis, bounds)).await?;
    let mut out = encode::document();
    out.open("UserDelegationKey");
    out.element("SignedOid", bounds.object);
    out.element("SignedTid", bounds.tenant);
    out.element("SignedStart", bounds.start);
    out.element("SignedExpiry", bounds.expiry);
    out.element("SignedService", bounds.service);
    out.element("SignedVersion", bounds.version);
    if !bounds.user_tenant.is_empty() {
        out.element("SignedDelegatedUserTid", bounds.user_tenant);
    }
    out.element("Value", &STANDARD.encode(key));
    out.close("UserDelegationKey");
    Ok(encode::xml(StatusCode::OK, out, cx.request))
}

/// How long a key is asked for, and for whose users.
#[derive(Debug)]
struct Asked {
    start: Timestamp,
    expiry: Timestamp,
    user_tenant: String,
}

impl Asked {
    fn read(body: &[u8], now: Timestamp) -> Result<Self, WireError> {
        let root =
            xml::parse(body, xml::Bounds::default()).map_err(|_| WireError::new(Code::InvalidXmlDocument))?;
        if root.name != "KeyInfo" {
            return Err(Code::InvalidXmlDocument.into());
        }
        let expiry = instant(&root, "Expiry")?.ok_or(Code::InvalidXmlDocument)?;
        let user_tenant = root.child("DelegatedUserTid").map(|element| element.text.trim().to_owned());
        let start = instant(&root, "Start")?.unwrap_or(now);
        Ok(Self { start, expiry, user_tenant: user_tenant.unwrap_or_default() })
    }

    /// A key ends after it begins, and within a week from now; clocks of clients may be a little ahead.
    fn check(&self, now: Timestamp, skew: Duration) -> Result<(), WireError> {
        if self.expiry <= self.start || self.expiry <= now {
            return Err(WireError::bad_node("Expiry", &seconds(self.expiry)));
        }
        if self.expiry > now.plus(limits::DELEGATION_KEY_MAX).plus(skew) {
            return Err(WireError::bad_node("Expiry", &seconds(self.expiry)));
        }
        Ok(())
    }
}

fn instant(root: &Element, name: &str) -> Result<Option<Timestamp>, WireError> {
    let Some(text) = root.child(name).map(|element| element.text.trim()).filter(|text| !text.is_empty())
    else {
        return Ok(None);
    };
    date::parse_iso(text).map(Some).ok_or_else(|| WireError::bad_node(name, text))
}

/// An instant as signatures name it, to the second.
fn seconds(at: Timestamp) -> String {
    let text = date::rfc3339(at);
    format!("{}Z", text.split('.').next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_end_within_a_week() {
        let (now, skew) = (Timestamp(1_767_225_600_000), Duration::from_secs(900));
        for (start, expiry, holds) in [
            ("2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z", true),
            ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z", false),
            ("2026-01-01T00:00:00Z", "2026-01-08T00:15:00Z", true),
            ("2026-01-01T00:00:00Z", "2026-01-08T00:15:01Z", false),
            ("2025-12-01T00:00:00Z", "2026-01-08T00:00:00Z", true),
            ("2025-12-01T00:00:00Z", "2025-12-31T00:00:00Z", false),
            ("2026-01-03T00:00:00Z", "2026-01-02T00:00:00Z", false),
            ("", "2026-01-02T00:00:00Z", true),
        ] {
            let body = format!("<KeyInfo><Start>{start}</Start><Expiry>{expiry}</Expiry></KeyInfo>");
            let asked = Asked::read(body.as_bytes(), now).expect("a well-formed request for a key is read");
            assert_eq!(asked.check(now, skew).is_ok(), holds, "{start} {expiry}");
        }
        for wrong in [
            "",
            "<KeyInfo/>",
            "<Other><Expiry>2026-01-02</Expiry></Other>",
            "<KeyInfo><Expiry>soon</Expiry></KeyInfo>",
        ] {
            assert!(Asked::read(wrong.as_bytes(), now).is_err(), "{wrong}");
        }
    }
}
