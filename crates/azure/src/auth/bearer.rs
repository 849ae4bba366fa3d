//! Bearer tokens: off, or read without checking who signed them, for development only.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;

use crate::Context;
use crate::error::{Code, WireError};
use crate::operation::Operation;

/// What bearer tokens are worth.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Bearer {
    /// Nothing.
    #[default]
    Off,
    /// Whatever they say is believed if it is well formed, in time and for this service; nobody's signature is checked.
    Basic,
}

const ISSUERS: [&str; 4] = [
    "https://sts.windows.net/",
    "https://sts.microsoftonline.de/",
    "https://sts.chinacloudapi.cn/",
    "https://sts.windows-ppe.net",
];
const AUDIENCES: [&str; 2] = ["https://storage.azure.com", "e406a681-f3d4-42a8-90b6-c2b029497af1"];
const CLOUDS: [&str; 4] =
    ["core.windows.net", "core.chinacloudapi.cn", "core.usgovcloudapi.net", "core.cloudapi.de"];

/// What a token says.
#[derive(Deserialize)]
struct Claims {
    nbf: u64,
    exp: u64,
    #[serde(rename = "iat")]
    _issued_at: u64,
    iss: String,
    aud: String,
}

/// Refuses a token that does not hold.
pub(super) fn check(cx: &Context<'_>, token: &str) -> Result<(), WireError> {
    if cx.settings.bearer == Bearer::Off {
        return Err(WireError::not_authentic("Bearer tokens are not accepted by this server."));
    }
    if !cx.request.secure {
        return Err(WireError::not_authentic("Authentication scheme Bearer is not allowed with HTTP."));
    }
    let claims = read(token).ok_or_else(|| WireError::new(Code::InvalidAuthenticationInfo))?;
    let now = cx.settings.machine.now().0 / 1_000;
    if now < claims.nbf {
        return Err(WireError::not_authentic("Lifetime validation failed."));
    }
    if now > claims.exp {
        return Err(WireError::not_authentic("Lifetime validation failed. The token is expired."));
    }
    if !ISSUERS.iter().any(|issuer| claims.iss.starts_with(issuer)) {
        return Err(WireError::not_authentic("Invalid token issuer."));
    }
    if !is_audience(&claims.aud, &cx.account.name) {
        return Err(WireError::not_authentic("Invalid token audience."));
    }
    match cx.operation {
        Operation::GetQueueAcl | Operation::SetQueueAcl => Err(Code::AuthorizationFailure.into()),
        _ => Ok(()),
    }
}

fn read(token: &str) -> Option<Claims> {
    let mut parts = token.split('.');
    let (_header, payload, _signature) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() {
        return None;
    }
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload.trim_end_matches('=')).ok()?).ok()
}

fn is_audience(audience: &str, account: &str) -> bool {
    let audience = audience.strip_suffix('/').unwrap_or(audience);
    let is_own = |cloud: &&str| audience == format!("https://{account}.queue.{cloud}");
    AUDIENCES.contains(&audience) || CLOUDS.iter().any(is_own)
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
            assert_eq!(is_audience(audience, "acc"), valid, "{audience}");
        }
    }
}
