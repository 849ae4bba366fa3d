//! Shared access signatures: what a holder of a key allows the bearer of a URL.

use std::net::{IpAddr, Ipv4Addr};

use kew_core::Timestamp;
use kew_http::date;

use super::{delegated, is_signed};
use crate::documents::{self, AccessPolicy};
use crate::error::{Code, WireError};
use crate::operation::Operation;
use crate::{Context, limits};

/// Parameters that make a signature; none may come twice.
const NAMES: [&str; 20] = [
    "sv", "ss", "srt", "sp", "se", "st", "sip", "spr", "ses", "si", "sig", "sr", "skoid", "sktid", "skt",
    "ske", "sks", "skv", "skdutid", "sduoid",
];

/// Refuses a signature that is not genuine, not for now, or not for this.
pub(super) fn check(cx: &Context<'_>) -> Result<(), WireError> {
    if let Some(name) = NAMES.iter().find(|name| cx.params.count(name) > 1) {
        return Err(WireError::not_authentic(format!("{name} is given more than once.")));
    }
    let version = cx.params.filled("sv").ok_or_else(|| WireError::not_authentic("sv is mandatory."))?;
    if version.len() != 10 || date::parse_iso(version).is_none() {
        return Err(WireError::not_authentic("sv is not a version."));
    }
    if cx.params.text("skoid").is_some() {
        delegated::check(cx, version)
    } else if cx.params.text("ss").is_some() && cx.params.text("srt").is_some() {
        of_account(cx, version)
    } else {
        of_queue(cx, version)
    }
}

pub(super) fn field<'a>(cx: &'a Context<'_>, name: &str) -> &'a str {
    cx.params.text(name).unwrap_or_default()
}

fn check_signature(cx: &Context<'_>, text: String) -> Result<(), WireError> {
    if is_signed(cx.account, [text], field(cx, "sig")) {
        Ok(())
    } else {
        Err(WireError::not_authentic("Signature did not match."))
    }
}

fn of_account(cx: &Context<'_>, version: &str) -> Result<(), WireError> {
    const WITH_ENCRYPTION_SCOPE: &str = "2020-12-06";
    let mut fields = vec![&*cx.account.name, field(cx, "sp"), field(cx, "ss"), field(cx, "srt")];
    fields.extend(["st", "se", "sip", "spr"].map(|name| field(cx, name)));
    fields.push(version);
    if version >= WITH_ENCRYPTION_SCOPE {
        fields.push(field(cx, "ses"));
    }
    let text: String = fields.iter().map(|field| format!("{field}\n")).collect();
    check_signature(cx, text)?;
    check_time(cx.now(), cx.params.filled("st"), cx.params.filled("se"))?;
    check_address(cx, field(cx, "sip"))?;
    check_protocol(cx, field(cx, "spr"))?;
    if !field(cx, "ss").contains('q') {
        return Err(Code::AuthorizationServiceMismatch.into());
    }
    let (kinds, permissions) = wanted_of_account(cx.operation);
    if !field(cx, "srt").contains(|kind| kinds.contains(kind)) {
        return Err(Code::AuthorizationResourceTypeMismatch.into());
    }
    if !field(cx, "sp").contains(|permission| permissions.contains(permission)) {
        return Err(Code::AuthorizationPermissionMismatch.into());
    }
    Ok(())
}

/// The kinds of resource and the permissions, any of which will do. No account signature reaches stored policies.
fn wanted_of_account(operation: Operation) -> (&'static str, &'static str) {
    match operation {
        Operation::ListQueues => ("s", "l"),
        Operation::GetServiceProperties | Operation::GetServiceStats => ("s", "r"),
        Operation::SetServiceProperties => ("s", "w"),
        Operation::CreateQueue => ("c", "cw"),
        Operation::DeleteQueue => ("c", "d"),
        Operation::GetQueueMetadata => ("c", "r"),
        Operation::SetQueueMetadata => ("c", "w"),
        Operation::GetUserDelegationKey => ("s", ""),
        Operation::GetQueueAcl | Operation::SetQueueAcl | Operation::Preflight => ("c", ""),
        Operation::PutMessage => ("o", "a"),
        Operation::GetMessages => ("o", "p"),
        Operation::PeekMessages => ("o", "r"),
        // The documentation names objects, tools have signed for containers.
        Operation::DeleteMessage => ("oc", "p"),
        Operation::UpdateMessage => ("oc", "u"),
        Operation::ClearMessages => ("oc", "d"),
    }
}

fn of_queue(cx: &Context<'_>, version: &str) -> Result<(), WireError> {
    const WITH_SERVICE: &str = "2015-02-21";
    const WITH_ADDRESS_AND_PROTOCOL: &str = "2015-04-05";
    let queue = cx.target.place.queue().ok_or(Code::AuthorizationFailure)?;
    let service = if version >= WITH_SERVICE { "/queue" } else { "" };
    let account = &cx.account.name;
    let text = if version >= WITH_ADDRESS_AND_PROTOCOL {
        let [sp, st, se, si, sip, spr] = ["sp", "st", "se", "si", "sip", "spr"].map(|name| field(cx, name));
        format!("{sp}\n{st}\n{se}\n{service}/{account}/{queue}\n{si}\n{sip}\n{spr}\n{version}")
    } else {
        let [sp, st, se, si] = ["sp", "st", "se", "si"].map(|name| field(cx, name));
        format!("{sp}\n{st}\n{se}\n{service}/{account}/{queue}\n{si}\n{version}")
    };
    check_signature(cx, text)?;
    let stored = stored_policy(cx, queue)?;
    let start = either(cx.params.filled("st"), stored.start.as_deref())?;
    let expiry = either(cx.params.filled("se"), stored.expiry.as_deref())?;
    let permissions = either(cx.params.filled("sp"), stored.permission.as_deref())?;
    check_time(cx.now(), start, expiry)?;
    check_address(cx, field(cx, "sip"))?;
    check_protocol(cx, field(cx, "spr"))?;
    let wanted = wanted_of_queue(cx.operation).ok_or(Code::AuthorizationFailure)?;
    if permissions.unwrap_or_default().contains(wanted) {
        Ok(())
    } else {
        Err(Code::AuthorizationPermissionMismatch.into())
    }
}

/// The permission that opens an operation; nothing where no signature of a queue does, whatever it permits.
pub(super) fn wanted_of_queue(operation: Operation) -> Option<char> {
    match operation {
        Operation::PeekMessages | Operation::GetQueueMetadata => Some('r'),
        Operation::PutMessage => Some('a'),
        Operation::UpdateMessage => Some('u'),
        Operation::GetMessages | Operation::DeleteMessage => Some('p'),
        Operation::ListQueues
        | Operation::GetServiceProperties
        | Operation::SetServiceProperties
        | Operation::GetServiceStats
        | Operation::GetUserDelegationKey
        | Operation::Preflight
        | Operation::CreateQueue
        | Operation::DeleteQueue
        | Operation::SetQueueMetadata
        | Operation::GetQueueAcl
        | Operation::SetQueueAcl
        | Operation::ClearMessages => None,
    }
}

/// The policy a signature refers to; an empty one when it refers to none.
fn stored_policy(cx: &Context<'_>, queue: &str) -> Result<AccessPolicy, WireError> {
    let Some(id) = cx.params.filled("si") else { return Ok(AccessPolicy::default()) };
    let key = kew_engine::QueueName { account: cx.account.id, region: &cx.settings.region, name: queue };
    let policies = cx.engine.find(key)?.map(|queue| documents::access_policies(&queue)).unwrap_or_default();
    let found =
        policies.into_iter().find(|policy| policy.id == id && id.len() <= limits::POLICY_ID_CHARACTERS * 4);
    found.ok_or_else(|| WireError::not_authentic("The stored access policy does not exist."))
}

/// A field stands in the signature or in the policy, not in both.
fn either<'a>(own: Option<&'a str>, stored: Option<&'a str>) -> Result<Option<&'a str>, WireError> {
    match (own, stored) {
        (Some(_), Some(_)) => Err(WireError::not_authentic(
            "A field of the stored access policy is given in the signature too.",
        )),
        (own, stored) => Ok(own.or(stored)),
    }
}

pub(super) fn check_time(now: Timestamp, start: Option<&str>, expiry: Option<&str>) -> Result<(), WireError> {
    let read = |text: &str| {
        date::parse_iso(text).ok_or_else(|| WireError::not_authentic(format!("'{text}' is not a time.")))
    };
    if let Some(start) = start
        && now < read(start)?
    {
        return Err(WireError::not_authentic(format!("Signature not valid before {start}.")));
    }
    let expiry =
        expiry.ok_or_else(|| WireError::not_authentic("The signature does not say when it expires."))?;
    if now > read(expiry)? {
        return Err(WireError::not_authentic(format!("Signature not valid after {expiry}.")));
    }
    Ok(())
}

/// One address, or the first and the last of a range.
pub(super) fn check_address(cx: &Context<'_>, allowed: &str) -> Result<(), WireError> {
    if allowed.is_empty() {
        return Ok(());
    }
    let peer = cx.request.peer.ip().to_canonical();
    let (first, last) = allowed.split_once('-').unwrap_or((allowed, allowed));
    let bounds = first.trim().parse::<Ipv4Addr>().ok().zip(last.trim().parse::<Ipv4Addr>().ok());
    match (peer, bounds) {
        (IpAddr::V4(peer), Some((first, last))) if (first..=last).contains(&peer) => Ok(()),
        _ => {
            let text = format!(
                "This request is not authorized to perform this operation using this source IP {peer}."
            );
            Err(WireError::new(Code::AuthorizationSourceIPMismatch).saying(text).with("SourceIP", peer))
        }
    }
}

pub(super) fn check_protocol(cx: &Context<'_>, allowed: &str) -> Result<(), WireError> {
    let own = if cx.request.secure { "https" } else { "http" };
    if allowed.is_empty() || allowed.split(',').any(|protocol| protocol.eq_ignore_ascii_case(own)) {
        Ok(())
    } else {
        Err(Code::AuthorizationProtocolMismatch.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_holds_from_its_start_to_its_expiry_both_included() {
        let (start, expiry) = (Some("1970-01-01T00:00:10Z"), Some("1970-01-01T00:00:20Z"));
        for (now, valid) in [(9_999, false), (10_000, true), (20_000, true), (20_001, false)] {
            assert_eq!(check_time(Timestamp(now), start, expiry).is_ok(), valid, "{now}");
        }
        assert!(check_time(Timestamp(0), None, None).is_err());
        assert!(check_time(Timestamp(0), None, Some("tomorrow")).is_err());
        assert!(check_time(Timestamp(0), None, Some("2030-01-01")).is_ok());
    }

    #[test]
    fn a_field_stands_in_one_place() {
        assert_eq!(either(Some("a"), None), Ok(Some("a")));
        assert_eq!(either(None, Some("b")), Ok(Some("b")));
        assert!(either(Some("a"), Some("b")).is_err());
    }
}
