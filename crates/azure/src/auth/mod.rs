//! Who asks, and what they may: account keys, shared access signatures, bearer tokens.
//!
//! In open mode everybody may do everything. In strict mode a request is signed with a key of its account, or carries a
//! signature that a holder of the key made for it, or a token.

mod bearer;
mod date;
mod delegated;
pub(crate) mod delegation;
mod sas;
mod shared_key;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kew_http::secret;

use crate::error::{Code, WireError};
use crate::operation::Operation;
use crate::sign::sign;
use crate::{Account, Context, Trust};

pub(crate) use bearer::Holder;
pub use bearer::{Bearer, KeySet, KeySetError, Verifier};
pub use delegation::DelegationKeys;

/// Refuses what is not genuine or reaches too far.
pub(crate) fn check(cx: &Context<'_>) -> Result<(), WireError> {
    if cx.settings.trust == Trust::Open {
        return Ok(());
    }
    // A signature may name who has to show a token beside it, and then it is the signature that counts.
    if cx.params.text("sduoid").is_some() && cx.params.text("sig").is_some() {
        return sas::check(cx);
    }
    match cx.request.header("authorization") {
        Some(authorization) => by_header(cx, authorization),
        None if cx.request.headers.contains("authorization") => Err(Code::InvalidAuthenticationInfo.into()),
        None if cx.params.text("sig").is_some() => sas::check(cx),
        None => Err(bearer::ask(cx)),
    }
}

/// Reads from the store what a check needs that is not known yet.
pub(crate) async fn prepare(cx: &Context<'_>) -> Result<(), WireError> {
    if cx.settings.trust == Trust::Strict && cx.params.text("skoid").is_some() {
        // Rare, so that other requests need no room for it.
        return Box::pin(cx.settings.delegation.recall(cx.engine, cx.account.id)).await;
    }
    Ok(())
}

/// Who asks, by a token that has been checked; in open mode it is believed, and needed by no request.
pub(crate) fn holder(cx: &Context<'_>) -> Result<Holder, WireError> {
    match (bearer_token(cx), cx.settings.trust) {
        (Some(token), Trust::Strict) => bearer::holder(token),
        (Some(token), Trust::Open) => Ok(bearer::holder(token).unwrap_or_else(|_| Holder::unnamed())),
        (None, _) => Ok(Holder::unnamed()),
    }
}

/// The token in a request's headers.
fn bearer_token<'a>(cx: &'a Context<'_>) -> Option<&'a str> {
    let (scheme, token) = cx.request.header("authorization")?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

fn by_header(cx: &Context<'_>, authorization: &str) -> Result<(), WireError> {
    let (scheme, credential) =
        authorization.split_once(' ').ok_or_else(|| WireError::new(Code::InvalidAuthenticationInfo))?;
    if scheme.eq_ignore_ascii_case("bearer") {
        return bearer::check(cx, credential.trim());
    }
    if cx.operation == Operation::GetUserDelegationKey {
        return Err(WireError::not_authentic("Only authentication scheme Bearer is supported."));
    }
    let kind = match scheme {
        "SharedKey" => shared_key::Kind::Full,
        "SharedKeyLite" => shared_key::Kind::Lite,
        _ => return Err(Code::InvalidAuthenticationInfo.into()),
    };
    let (account, signature) =
        credential.split_once(':').ok_or_else(|| WireError::new(Code::InvalidAuthenticationInfo))?;
    date::check(cx)?;
    let named = account.trim_end_matches("-secondary");
    if *named != *cx.account.name {
        return Err(WireError::not_authentic(
            "The account of the signature is not the account of the address.",
        ));
    }
    shared_key::check(cx, kind, signature.trim())
}

/// Whether one of the account's keys made this signature of one of these texts. All are tried, whatever is found.
fn is_signed(account: &Account, texts: impl IntoIterator<Item = String>, signature: &str) -> bool {
    let Ok(signature) = STANDARD.decode(signature) else { return false };
    let mut genuine = false;
    for text in texts {
        for key in &account.keys {
            genuine |= secret::is_same(&sign(key, &text), &signature);
        }
    }
    genuine
}
