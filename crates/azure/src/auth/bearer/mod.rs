//! Bearer tokens: worth nothing, read without checking who signed them (for development only), or verified against the
//! keys of those who issue them.
//!
//! Whatever they are worth, they are looked at over TLS only: a third party that reads one can use it.

mod claims;
mod keys;
mod verifier;

use std::sync::Arc;

use crate::error::{Code, WireError};
use crate::operation::Operation;
use crate::{Context, version};
use claims::{Claims, NotBefore};

pub(crate) use claims::Holder;
pub use keys::{KeySet, KeySetError};
pub use verifier::Verifier;

/// What bearer tokens are worth.
#[derive(Clone, Debug, Default)]
pub enum Bearer {
    /// Nothing.
    #[default]
    Off,
    /// Whatever they say is believed if it is well formed, in time and for this service; no signature is checked.
    Basic,
    /// What somebody known has signed.
    Verified(Arc<Verifier>),
}

/// Those whose tokens basic mode takes, by how their names begin.
const ISSUERS: [&str; 4] = [
    "https://sts.windows.net/",
    "https://sts.microsoftonline.de/",
    "https://sts.chinacloudapi.cn/",
    "https://sts.windows-ppe.net",
];
/// From this version on clients understand that they are asked for a token.
const CHALLENGED_SINCE: &str = "2019-12-12";
/// From this version on tokens open stored access policies, as "Authorize with Microsoft Entra ID" and the change logs
/// of the vendor's clients say.
const ACL_SINCE: &str = "2025-07-05";
/// Where clients get a token for any tenant.
const COMMON_AUTHORITY: &str = "https://login.microsoftonline.com/common/oauth2/authorize";

/// Refuses a token that does not hold, and what no token opens.
pub(super) fn check(cx: &Context<'_>, token: &str) -> Result<(), WireError> {
    let bearer = &cx.settings.bearer;
    if matches!(bearer, Bearer::Off) {
        return Err(WireError::not_authentic("Bearer tokens are not accepted by this server."));
    }
    if !cx.request.secure {
        return Err(WireError::not_authentic("Authentication scheme Bearer is not allowed with HTTP."));
    }
    hold(cx, token).map_err(|error| refused(cx, &error))?;
    match cx.operation {
        Operation::GetQueueAcl | Operation::SetQueueAcl if !version::is_since(cx.request, ACL_SINCE) => Err(
            WireError::not_authentic("Stored access policies are open to tokens from version 2025-07-05 on."),
        ),
        _ => Ok(()),
    }
}

/// Whether a token holds here and now.
fn hold(cx: &Context<'_>, token: &str) -> Result<(), WireError> {
    let now = cx.settings.machine.now();
    match &cx.settings.bearer {
        Bearer::Off => Ok(()),
        Bearer::Basic => {
            let claims = Claims::unverified(token)?;
            claims.check_lifetime(now, std::time::Duration::ZERO, NotBefore::Required)?;
            claims.check_issuer(|issuer| ISSUERS.iter().any(|known| issuer.starts_with(known)))?;
            claims.check_audience(|audience| claims::is_storage(audience, &cx.account.name))
        }
        Bearer::Verified(verifier) => verifier.check(token, &cx.account.name, now),
    }
}

/// The refusal of a token: its client is asked for another one.
fn refused(cx: &Context<'_>, error: &WireError) -> WireError {
    let text = WireError::new(Code::NoAuthenticationInformation).message().to_owned();
    let refusal = WireError::new(Code::InvalidAuthenticationInfo).saying(text);
    let refusal = error.details().iter().fold(refusal, |refusal, (name, value)| refusal.with(name, value));
    match challenge(&cx.settings.bearer) {
        Some(challenge) => refusal.challenging(challenge),
        None => refusal,
    }
}

/// Who a token was issued to, which has been checked or is believed.
pub(super) fn holder(token: &str) -> Result<Holder, WireError> {
    Claims::unverified(token).map(Claims::holder)
}

/// The refusal of a request without any credentials: one that could have had a token is asked for it.
pub(super) fn ask(cx: &Context<'_>) -> WireError {
    let understood = cx.request.secure && version::is_since(cx.request, CHALLENGED_SINCE);
    match challenge(&cx.settings.bearer).filter(|_| understood) {
        Some(challenge) => WireError::new(Code::NoAuthenticationInformation).challenging(challenge),
        None => WireError::not_authentic("The request has no credentials."),
    }
}

/// Where a token is to be had, and for what, if tokens are taken at all.
fn challenge(bearer: &Bearer) -> Option<String> {
    let authority = match bearer {
        Bearer::Off => return None,
        Bearer::Basic => COMMON_AUTHORITY.to_owned(),
        Bearer::Verified(verifier) => verifier.authority(),
    };
    Some(format!("Bearer authorization_uri={authority} resource_id={}", claims::STORAGE))
}

#[cfg(test)]
mod tests;
