//! Whether a request was signed by somebody known: what it claims, its date, its scope, and then the signature itself.

use std::sync::Arc;
use std::time::Duration;

use kew_core::{Timestamp, is_region};
use kew_http::date::iso_basic;
use kew_http::form::Pair;
use kew_http::{Request, form, hex, secret};

use super::canonical;
use super::claim::{ALGORITHM, Claim, incomplete};
use super::keys::{Keys, Principal};
use super::scope::{Scope, Service};
use super::signing::SigningKey;
use crate::error::{Code, WireError};
use crate::{limits, route};

const TERMINATOR: &str = "aws4_request";
/// How far a client's clock may be off, in minutes and as a length.
const SKEW_MINUTES: u64 = 15;
const SKEW: Duration = Duration::from_secs(SKEW_MINUTES * 60);
/// More headers than this sign no honest request.
const SIGNED_HEADERS_MAX: usize = 64;

/// Somebody known, and the region they signed for.
pub(super) struct Verified {
    pub(super) principal: Arc<Principal>,
    pub(super) region: Arc<str>,
}

/// What a request's head says of its signature, in good order but not yet proved.
struct Checked<'a> {
    claim: Claim<'a>,
    scope: Scope<'a>,
    signed_headers: Vec<&'a str>,
}

impl<'a> Checked<'a> {
    /// Everything that needs no key.
    fn of(
        keys: &Keys,
        service: Service,
        request: &'a Request,
        query: &'a [Pair<'a>],
    ) -> Result<Self, WireError> {
        let claim = Claim::of(request, query)?;
        let scope = Scope::read(claim.credential).ok_or_else(|| {
            incomplete(
                "Credential must have exactly 5 slash-delimited elements, e.g. keyid/date/region/service/term.",
            )
        })?;
        check_scope(&scope, service, claim.date)?;
        let signed_headers = signed_headers(&claim, request)?;
        check_date(&claim, keys.machine.now())?;
        Ok(Self { claim, scope, signed_headers })
    }

    /// Whether the signature is the one that `key` makes of this hash of the request.
    fn is_signed(&self, key: SigningKey, service: Service, hash: &[u8]) -> bool {
        let Scope { date, region, .. } = self.scope;
        let signed_at = iso_basic(self.claim.date);
        let head = format!("{ALGORITHM}\n{signed_at}\n{date}/{region}/{}/{TERMINATOR}\n", service.name());
        let mut expected = Vec::with_capacity(64);
        hex::push(&mut expected, &key.sign(&[head.as_bytes(), hash]));
        secret::is_same(&expected, self.claim.signature.as_bytes())
    }
}

/// Who signed a request.
///
/// Everything that needs no key comes first. An unknown key is found out only after a whole signature was computed with
/// the secret of no user, so that it takes as long as a wrong one.
pub(super) fn verify(keys: &Keys, service: Service, request: &Request) -> Result<Verified, WireError> {
    let query = request.uri.query().unwrap_or_default();
    let query = form::pairs(query.as_bytes(), limits::PAIRS_MAX)?;
    let checked = Checked::of(keys, service, request, &query)?;
    let (known, is_known) = keys.find(checked.scope.key);
    let key = keys.signing.of(known, service, &checked.scope);
    let region = Arc::clone(&key.region);
    let hash = canonical::hash(request, &query, &checked.signed_headers);
    let is_right = checked.is_signed(key, service, &hash);
    if !is_known {
        return Err(Code::InvalidClientTokenId.into());
    }
    if !is_right {
        return Err(Code::SignatureDoesNotMatch.into());
    }
    check_body(request, &query)?;
    Ok(Verified { principal: Arc::clone(&known.principal), region })
}

/// Whether the head of a request proves by itself who signed it: it does when it names the body's hash, or says that
/// the body was left out. A head that names a known key and proves nothing may be genuine all the same; whatever else
/// would be refused with any body is refused.
pub(super) fn is_proved_by_head(keys: &Keys, service: Service, request: &Request) -> Result<bool, WireError> {
    let query = request.uri.query().unwrap_or_default();
    let query = form::pairs(query.as_bytes(), limits::PAIRS_MAX)?;
    let checked = Checked::of(keys, service, request, &query)?;
    let (known, is_known) = keys.find(checked.scope.key);
    if !is_known {
        return Err(Code::InvalidClientTokenId.into());
    }
    let Some(hash) = canonical::hash_of_head(request, &query, &checked.signed_headers) else {
        return Ok(false);
    };
    let key = keys.signing.of(known, service, &checked.scope);
    Ok(checked.is_signed(key, service, &hash))
}

/// A body that is not signed says all of a request or nothing: what its signed URL names, a body could override.
fn check_body(request: &Request, query: &[Pair<'_>]) -> Result<(), WireError> {
    if request.body.is_empty() || !canonical::leaves_body_out(request, query) {
        return Ok(());
    }
    let is_of_signature =
        |name: &str| name.get(..6).is_some_and(|start| start.eq_ignore_ascii_case("x-amz-"));
    if route::queue_path(request).is_none() && query.iter().all(|(name, _)| is_of_signature(name)) {
        return Ok(());
    }
    let text = "A body that is not signed must be empty where the URL names a queue or parameters.";
    Err(mismatch(text.to_owned()))
}

fn mismatch(text: String) -> WireError {
    WireError::new(Code::SignatureDoesNotMatch).saying(text)
}

fn check_scope(scope: &Scope<'_>, asked: Service, date: Timestamp) -> Result<(), WireError> {
    let Scope { date: day, region, service, terminator, .. } = scope;
    let asked = asked.name();
    let date = iso_basic(date);
    if date.get(..8) != Some(day) {
        return Err(mismatch(format!(
            "Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date from HTTP: '{day}' != '{}', from '{date}'.",
            date.get(..8).unwrap_or_default()
        )));
    }
    if !is_region(region) {
        return Err(mismatch("Credential should be scoped to a valid region.".to_owned()));
    }
    if *service != asked {
        return Err(mismatch(format!("Credential should be scoped to correct service: '{asked}'.")));
    }
    if *terminator != TERMINATOR {
        let text = format!("Credential should be scoped with a valid terminator: '{TERMINATOR}'.");
        return Err(mismatch(text));
    }
    Ok(())
}

/// The signed headers' names. The host is among them and so is whatever speaks to the service: a request must not
/// change its meaning on the way.
fn signed_headers<'c>(claim: &Claim<'c>, request: &Request) -> Result<Vec<&'c str>, WireError> {
    let names: Vec<&str> = claim.signed_headers.split(';').take(SIGNED_HEADERS_MAX + 1).collect();
    if names.len() > SIGNED_HEADERS_MAX {
        return Err(incomplete(format!("More than {SIGNED_HEADERS_MAX} signed headers are named.")));
    }
    for (place, name) in names.iter().enumerate() {
        if name.is_empty() || names.iter().take(place).any(|earlier| earlier == name) {
            return Err(incomplete("SignedHeaders must name each header once, with semicolons in between."));
        }
        if !canonical::has_header(request, name) {
            return Err(Code::SignatureDoesNotMatch.into());
        }
    }
    if !names.contains(&"host") {
        let text = "'Host' or ':authority' must be a 'SignedHeader' in the AWS Authorization.";
        return Err(mismatch(text.to_owned()));
    }
    for name in request.headers.names_from("x-amz-") {
        // Some clients send this one unsigned; it says nothing to us.
        let is_signed = names.iter().any(|signed| signed.eq_ignore_ascii_case(name));
        if !is_signed && !name.eq_ignore_ascii_case("x-amz-user-agent") {
            let name = name.to_ascii_lowercase();
            return Err(mismatch(format!("'{name}' must be a 'SignedHeader' in the AWS Authorization.")));
        }
    }
    Ok(names)
}

/// Measured with the machine's clock, whatever the engine's shows: clients date what they sign by theirs.
fn check_date(claim: &Claim<'_>, now: Timestamp) -> Result<(), WireError> {
    // Requests are dated to the second, so the clock is read to the second too.
    let now = now.minus(Duration::from_millis(now.0 % 1_000));
    let (date, latest) = (claim.date, now.plus(SKEW));
    if date > latest {
        let (date, latest, now) = (iso_basic(date), iso_basic(latest), iso_basic(now));
        return Err(mismatch(format!(
            "Signature not yet current: {date} is still later than {latest} ({now} + {SKEW_MINUTES} min.)"
        )));
    }
    if let Some(seconds) = claim.expires {
        let is_over = date.plus(Duration::from_secs(seconds)) < now;
        return if is_over { Err(Code::RequestExpired.into()) } else { Ok(()) };
    }
    let earliest = now.minus(SKEW);
    if date < earliest {
        let (date, earliest, now) = (iso_basic(date), iso_basic(earliest), iso_basic(now));
        return Err(mismatch(format!(
            "Signature expired: {date} is now earlier than {earliest} ({now} - {SKEW_MINUTES} min.)"
        )));
    }
    Ok(())
}
