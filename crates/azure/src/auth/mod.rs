//! Who asks, and what they may: account keys, shared access signatures, bearer tokens.
//!
//! In open mode everybody may do everything. In strict mode a request is signed with a key of its account, or carries a
//! signature that a holder of the key made for it, or a token.

mod bearer;
mod date;
mod sas;
mod shared_key;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kew_http::secret;

use crate::error::{Code, WireError};
use crate::{Account, Context, Trust};

pub use bearer::{Bearer, KeySet, KeySetError, Verifier};

/// Refuses what is not genuine or reaches too far.
pub(crate) fn check(cx: &Context<'_>) -> Result<(), WireError> {
    if cx.settings.trust == Trust::Open {
        return Ok(());
    }
    match cx.request.header("authorization") {
        Some(authorization) => by_header(cx, authorization),
        None if cx.request.headers.contains("authorization") => Err(Code::InvalidAuthenticationInfo.into()),
        None if cx.params.text("sig").is_some() => sas::check(cx),
        None => Err(bearer::ask(cx)),
    }
}

fn by_header(cx: &Context<'_>, authorization: &str) -> Result<(), WireError> {
    let (scheme, credential) =
        authorization.split_once(' ').ok_or_else(|| WireError::new(Code::InvalidAuthenticationInfo))?;
    if scheme.eq_ignore_ascii_case("bearer") {
        return bearer::check(cx, credential.trim());
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

/// The signature of a text.
pub(crate) fn sign(key: &[u8], text: &str) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("any length of key will do");
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().into()
}
