//! Tokens that are verified: who signed them, for whom, and until when.

use std::sync::Arc;
use std::time::Duration;

use jsonwebtoken::{Header, Validation, decode, decode_header};
use kew_core::Timestamp;

use super::claims::{self, Claims, NotBefore};
use super::keys::{Key, KeySet};
use crate::error::{Code, WireError};

/// What tokens are verified against.
#[derive(Debug)]
pub struct Verifier {
    /// Whose tokens are taken, by their whole names.
    issuers: Vec<String>,
    /// For whom they have to be; without any, for the storage service or the account.
    audiences: Vec<String>,
    /// How far the clocks of issuers may be off.
    skew: Duration,
    keys: Arc<KeySet>,
}

impl Verifier {
    /// Takes tokens that one of `issuers` made with one of `keys` for one of `audiences`, or for the storage service
    /// where none are named.
    pub fn new(issuers: Vec<String>, audiences: Vec<String>, skew: Duration, keys: Arc<KeySet>) -> Self {
        Self { issuers, audiences, skew, keys }
    }

    /// Whose tokens are taken.
    pub(crate) fn issuers(&self) -> impl Iterator<Item = &str> {
        self.issuers.iter().map(String::as_str)
    }

    /// Refuses a token that is not genuine, or does not hold for this account now.
    pub(super) fn check(&self, token: &str, account: &str, now: Timestamp) -> Result<(), WireError> {
        let claims = self.genuine(token)?;
        claims.check_lifetime(now, self.skew, NotBefore::Optional)?;
        claims.check_issuer(|issuer| self.issuers.iter().any(|known| known == issuer))?;
        claims.check_audience(|audience| {
            if self.audiences.is_empty() {
                claims::is_storage(audience, account)
            } else {
                self.audiences.iter().any(|known| known == audience)
            }
        })
    }

    /// Where clients get a token, as far as the first issuer's name says.
    pub(super) fn authority(&self) -> String {
        let issuer = self.issuers.first().map_or("", String::as_str);
        let tenant = ["https://sts.windows.net/", "https://login.microsoftonline.com/"]
            .iter()
            .find_map(|start| issuer.strip_prefix(start)?.split('/').next());
        match tenant {
            Some(tenant) => format!("https://login.microsoftonline.com/{tenant}/oauth2/authorize"),
            None => issuer.to_owned(),
        }
    }

    /// What a token says, once a key of the set has verified its signature.
    ///
    /// What verifies is decided by the key, never by the token: a key takes the algorithms of its own kind only, and
    /// the keys and addresses of keys that a token brings along are not looked at.
    fn genuine(&self, token: &str) -> Result<Claims, WireError> {
        let malformed = || WireError::new(Code::InvalidAuthenticationInfo);
        if token.split('.').count() != 3 {
            return Err(malformed());
        }
        // Fails for algorithms that do not exist here too, among them `none`.
        let header = decode_header(token).map_err(|_| invalid_signature())?;
        if header.crit.is_some() {
            return Err(invalid_signature());
        }
        let keys = self.keys.keys();
        let candidates: Vec<&Key> = keys.iter().filter(|key| may_verify(key, &header)).collect();
        if candidates.is_empty() {
            self.keys.miss();
        }
        let mut rules = Validation::new(header.alg);
        // Time, issuer and audience are judged here, by the machine's clock and with Azure's words.
        rules.required_spec_claims.clear();
        (rules.validate_exp, rules.validate_nbf, rules.validate_aud) = (false, false, false);
        for key in candidates {
            match decode::<Claims>(token, &key.key, &rules) {
                Ok(token) => return Ok(token.claims),
                Err(error) if matches!(error.kind(), jsonwebtoken::errors::ErrorKind::Json(_)) => {
                    return Err(malformed());
                }
                Err(_) => {}
            }
        }
        Err(invalid_signature())
    }
}

/// Whether a key is the one a token names, and for what it is signed with. A token need not name its key.
fn may_verify(key: &Key, header: &Header) -> bool {
    let is_named = header.kid.is_none() || key.id == header.kid;
    is_named && key.algorithms.contains(&header.alg)
}

fn invalid_signature() -> WireError {
    WireError::not_authentic("Signature validation failed.")
}
