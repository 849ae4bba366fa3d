//! Stored access policies: shown as they were written, replaced as a whole.

use std::borrow::Cow;
use std::collections::HashSet;

use kew_core::command::UpdateQueue;
use kew_http::xml::{self, Element};
use kew_http::{Reply, StatusCode, date};

use crate::documents::{self, AccessPolicy};
use crate::error::{Code, WireError};
use crate::{Context, encode, limits};

pub(crate) fn show(cx: &Context<'_>) -> Result<Reply, WireError> {
    let queue = cx.queue()?;
    let mut out = encode::document();
    out.open("SignedIdentifiers");
    for policy in documents::access_policies(&queue) {
        out.open("SignedIdentifier");
        out.element("Id", &policy.id);
        let time = |text: &Option<String>| text.as_deref().map(|text| shown_time(text).into_owned());
        let (start, expiry) = (time(&policy.start), time(&policy.expiry));
        let fields = [("Start", start), ("Expiry", expiry), ("Permission", policy.permission)];
        if fields.iter().any(|(_, value)| value.is_some()) {
            out.open("AccessPolicy");
            for (name, value) in fields {
                if let Some(value) = value {
                    out.element(name, &value);
                }
            }
            out.close("AccessPolicy");
        }
        out.close("SignedIdentifier");
    }
    out.close("SignedIdentifiers");
    Ok(encode::xml(StatusCode::OK, out, cx.request))
}

/// A policy's time as clients can read it: as it was written, if that has seconds and is in UTC.
fn shown_time(text: &str) -> Cow<'_, str> {
    const WITH_SECONDS: usize = "2030-01-01T00:00:00Z".len();
    match date::parse_iso(text) {
        Some(time) if text.len() < WITH_SECONDS || !text.ends_with('Z') => {
            Cow::Owned(encode::seven_decimals(time))
        }
        _ => Cow::Borrowed(text),
    }
}

pub(crate) async fn set(cx: &Context<'_>) -> Result<Reply, WireError> {
    let policies = read(&cx.request.body)?;
    let update = UpdateQueue {
        queue: cx.queue()?.id,
        if_version: None,
        policy: None,
        documents: vec![documents::put_access_policies(&policies)],
        rename: None,
    };
    cx.engine.update_queue(update).await?;
    Ok(encode::empty(StatusCode::NO_CONTENT))
}

/// A body that is empty clears them as an empty list does.
fn read(body: &[u8]) -> Result<Vec<AccessPolicy>, WireError> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Ok(Vec::new());
    }
    let root =
        xml::parse(body, xml::Bounds::default()).map_err(|_| WireError::new(Code::InvalidXmlDocument))?;
    if root.name != "SignedIdentifiers" {
        return Err(Code::InvalidXmlDocument.into());
    }
    let policies = root.children.iter().map(read_policy).collect::<Result<Vec<_>, _>>()?;
    let ids: HashSet<&str> = policies.iter().map(|policy| policy.id.as_str()).collect();
    if policies.len() > limits::POLICIES || ids.len() < policies.len() {
        return Err(Code::InvalidXmlDocument.into());
    }
    Ok(policies)
}

fn read_policy(element: &Element) -> Result<AccessPolicy, WireError> {
    let id = element.child("Id").map(|id| id.text.trim().to_owned()).unwrap_or_default();
    let is_id = (1..=limits::POLICY_ID_CHARACTERS).contains(&id.chars().count());
    if element.name != "SignedIdentifier" || !is_id {
        return Err(Code::InvalidXmlDocument.into());
    }
    let field = |name: &str| {
        let text = element.child("AccessPolicy")?.child(name)?.text.trim().to_owned();
        (!text.is_empty()).then_some(text)
    };
    let policy =
        AccessPolicy { id, start: field("Start"), expiry: field("Expiry"), permission: field("Permission") };
    let is_date = |text: &Option<String>| text.as_deref().is_none_or(|text| date::parse_iso(text).is_some());
    let is_permission =
        policy.permission.as_deref().is_none_or(|text| text.chars().all(|c| "raup".contains(c)));
    if is_date(&policy.start) && is_date(&policy.expiry) && is_permission {
        Ok(policy)
    } else {
        Err(Code::InvalidXmlDocument.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(inside: &str) -> String {
        format!("<SignedIdentifiers><SignedIdentifier>{inside}</SignedIdentifier></SignedIdentifiers>")
    }

    #[test]
    fn every_field_of_a_policy_may_be_missing_but_its_id() {
        for (inside, legal) in [
            ("<Id>a</Id>", true),
            ("<Id>a</Id><AccessPolicy/>", true),
            ("<Id>a</Id><AccessPolicy><Permission>raup</Permission></AccessPolicy>", true),
            ("<Id>a</Id><AccessPolicy><Expiry>2030-01-01T00:00:00.1234567Z</Expiry></AccessPolicy>", true),
            ("<Id>a</Id><AccessPolicy><Permission>rw</Permission></AccessPolicy>", false),
            ("<Id>a</Id><AccessPolicy><Start>soon</Start></AccessPolicy>", false),
            ("<Id></Id>", false),
            ("<AccessPolicy/>", false),
        ] {
            assert_eq!(read(policy(inside).as_bytes()).is_ok(), legal, "{inside}");
        }
        assert_eq!(read(b"").ok(), Some(Vec::new()));
        assert_eq!(read(b"<SignedIdentifiers/>").ok(), Some(Vec::new()));
        assert!(read(b"<Other/>").is_err() && read(b"<SignedIdentifiers>").is_err());
    }

    #[test]
    fn times_are_shown_as_written_or_else_in_a_form_that_every_client_reads() {
        for (written, shown) in [
            ("2030-01-01T00:00:00Z", "2030-01-01T00:00:00Z"),
            ("2030-01-01T00:00:00.1234567Z", "2030-01-01T00:00:00.1234567Z"),
            ("2030-01-01", "2030-01-01T00:00:00.0000000Z"),
            ("2030-01-01T23:59Z", "2030-01-01T23:59:00.0000000Z"),
            ("2030-01-01T00:00:00+01:00", "2029-12-31T23:00:00.0000000Z"),
            ("2030-01-01T00:00:00.5-00:30", "2030-01-01T00:30:00.5000000Z"),
        ] {
            assert_eq!(shown_time(written), shown);
        }
    }

    #[test]
    fn five_policies_with_ids_of_their_own_are_the_most() {
        let of = |ids: &[&str]| {
            let each: String =
                ids.iter().map(|id| format!("<SignedIdentifier><Id>{id}</Id></SignedIdentifier>")).collect();
            read(format!("<SignedIdentifiers>{each}</SignedIdentifiers>").as_bytes()).is_ok()
        };
        assert!(of(&["a", "b", "c", "d", "e"]));
        assert!(!of(&["a", "b", "c", "d", "e", "f"]));
        assert!(!of(&["a", "a"]));
        assert!(of(&["i".repeat(64).as_str()]) && !of(&["i".repeat(65).as_str()]));
    }
}
