//! Signatures made with a key that was issued to a user: for one queue, as long as both the key and the signature hold.

use kew_http::secret;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::bearer;
use super::delegation::{Basis, Bounds, SINCE};
use super::sas::{check_address, check_protocol, check_time, field, wanted_of_queue};
use crate::Context;
use crate::error::{Code, WireError};
use crate::sign::sign;

/// Refuses a signature that is not genuine, not for now, or not for this.
pub(super) fn check(cx: &Context<'_>, version: &str) -> Result<(), WireError> {
    let basis = Basis::of(cx.settings).ok_or_else(|| {
        WireError::not_authentic(
            "This server accepts no bearer tokens, and no keys that were issued for them.",
        )
    })?;
    if version < SINCE {
        let text = format!("User delegation signatures of queues need an sv of {SINCE} or later.");
        return Err(WireError::not_authentic(text));
    }
    if cx.params.filled("si").is_some() {
        return Err(WireError::not_authentic(
            "A user delegation signature cannot name a stored access policy.",
        ));
    }
    let queue = cx.target.place.queue().ok_or(Code::AuthorizationFailure)?;
    let bounds = bounds(cx)?;
    let key = cx.settings.delegation.find(cx.account, (&basis, bounds));
    let signature = STANDARD.decode(field(cx, "sig")).ok();
    let genuine = key.zip(signature).is_some_and(|(key, signature)| {
        secret::is_same(&sign(&key, &text(cx, queue, bounds, version)), &signature)
    });
    if !genuine {
        return Err(WireError::not_authentic("Signature did not match."));
    }
    check_time(cx.now(), Some(bounds.start), Some(bounds.expiry))?;
    check_time(cx.now(), cx.params.filled("st"), cx.params.filled("se"))?;
    check_address(cx, field(cx, "sip"))?;
    check_protocol(cx, field(cx, "spr"))?;
    check_user(cx, bounds)?;
    let wanted = wanted_of_queue(cx.operation).ok_or(Code::AuthorizationFailure)?;
    let is_permitted = field(cx, "sp").contains(wanted);
    if is_permitted { Ok(()) } else { Err(Code::AuthorizationPermissionMismatch.into()) }
}

/// What the key was issued for, as the signature names it.
fn bounds<'a>(cx: &'a Context<'_>) -> Result<Bounds<'a>, WireError> {
    let needed = |name: &str| {
        let missing = || WireError::not_authentic(format!("{name} is mandatory."));
        cx.params.filled(name).ok_or_else(missing)
    };
    Ok(Bounds {
        object: needed("skoid")?,
        tenant: needed("sktid")?,
        start: needed("skt")?,
        expiry: needed("ske")?,
        service: needed("sks")?,
        version: needed("skv")?,
        user_tenant: field(cx, "skdutid"),
    })
}

/// What is signed, as the vendor's clients write it for queues: the two lines about a named user are there in each
/// version.
fn text(cx: &Context<'_>, queue: &str, bounds: Bounds<'_>, version: &str) -> String {
    let [sp, st, se, user, sip, spr] = ["sp", "st", "se", "sduoid", "sip", "spr"].map(|name| field(cx, name));
    let resource = format!("/queue/{}/{queue}", cx.account.name);
    let Bounds { object, tenant, start, expiry, service, version: key_version, user_tenant } = bounds;
    [
        sp,
        st,
        se,
        &resource,
        object,
        tenant,
        start,
        expiry,
        service,
        key_version,
        user_tenant,
        user,
        sip,
        spr,
        version,
    ]
    .join("\n")
}

/// A signature that names a user holds only beside a token of theirs.
fn check_user(cx: &Context<'_>, bounds: Bounds<'_>) -> Result<(), WireError> {
    let Some(user) = cx.params.filled("sduoid") else { return Ok(()) };
    let token = super::bearer_token(cx).ok_or_else(|| bearer::ask(cx))?;
    bearer::check(cx, token)?;
    let holder = bearer::holder(token)?;
    let is_theirs =
        holder.object == user && (bounds.user_tenant.is_empty() || holder.tenant == bounds.user_tenant);
    if is_theirs {
        Ok(())
    } else {
        Err(WireError::not_authentic("The token is not of the user the signature names."))
    }
}
