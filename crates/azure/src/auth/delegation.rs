//! Keys that stand in for an account's: issued to who holds a token, each bound to a person, a time and a service.
//!
//! No issued key is kept. Each follows from a secret of its account, which is made once and kept in the store, from
//! everything that its signatures name, and from whose word was believed when it was issued. So a key whose bounds were
//! changed is another key, and no valid signature exists for it; and keys that an open server issued open no strict
//! one.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kew_core::command::PutDocuments;
use kew_core::{AccountId, Entropy};
use kew_engine::Engine;
use parking_lot::Mutex;

use crate::error::WireError;
use crate::sign::sign;
use crate::{Bearer, documents};

/// The first version of the service in which queues know these keys.
pub(crate) const SINCE: &str = "2025-07-05";
/// The service that keys are issued for.
pub(crate) const SERVICE: &str = "q";

/// What a key is bound to, as its signatures name it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds<'a> {
    /// Who asked for it.
    pub(crate) object: &'a str,
    /// And where he belongs.
    pub(crate) tenant: &'a str,
    pub(crate) start: &'a str,
    pub(crate) expiry: &'a str,
    pub(crate) service: &'a str,
    pub(crate) version: &'a str,
    /// Where those belong who may use signatures that name a person; often empty.
    pub(crate) user_tenant: &'a str,
}

/// Whose word keys are issued on, as text that differs wherever that differs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Basis(String);

impl Basis {
    /// The server's, as it is set up; none where it believes no tokens.
    pub(crate) fn of(settings: &crate::Settings) -> Option<Self> {
        let text = match (settings.trust, &settings.bearer) {
            (crate::Trust::Open, _) => "open".to_owned(),
            (crate::Trust::Strict, Bearer::Off) => return None,
            (crate::Trust::Strict, Bearer::Basic) => "basic".to_owned(),
            (crate::Trust::Strict, Bearer::Verified(verifier)) => {
                let mut issuers: Vec<&str> = verifier.issuers().collect();
                issuers.sort_unstable();
                format!("verified:{}", with_lengths(issuers))
            }
        };
        Some(Self(text))
    }
}

type Secret = [u8; 32];

/// Issues keys for accounts, and finds them again. One serves all front-ends over a store.
pub struct DelegationKeys {
    entropy: Arc<dyn Entropy>,
    /// Guards the secrets that were read or made; held for one look.
    secrets: Mutex<HashMap<AccountId, Found>>,
}

#[derive(Clone, Copy)]
struct Found {
    secret: Secret,
    /// Whether the store has it.
    is_kept: bool,
}

impl DelegationKeys {
    /// Takes the chance in its secrets from `entropy`.
    pub fn new(entropy: Arc<dyn Entropy>) -> Self {
        Self { entropy, secrets: Mutex::default() }
    }

    /// Issues a key. The first one of an account makes its secret.
    pub(crate) async fn issue(
        &self,
        engine: &Engine,
        account: &crate::Account,
        (basis, bounds): (&Basis, Bounds<'_>),
    ) -> Result<[u8; 32], WireError> {
        self.recall(engine, account.id).await?;
        let found = self.found_or_made(account.id);
        if !found.is_kept {
            // Two that come at the same time write the same.
            let documents = vec![documents::put_delegation_secret(&STANDARD.encode(found.secret))];
            engine.put_documents(PutDocuments { account: account.id, if_is: None, documents }).await?;
            self.secrets.lock().insert(account.id, Found { is_kept: true, ..found });
        }
        Ok(key(&found.secret, &account.name, basis, bounds))
    }

    /// Reads an account's secret from the store, unless it is known or there is none.
    pub(crate) async fn recall(&self, engine: &Engine, account: AccountId) -> Result<(), WireError> {
        if self.secrets.lock().get(&account).is_some_and(|found| found.is_kept) {
            return Ok(());
        }
        let stored = documents::delegation_secret(engine, account).await?;
        let stored = stored.and_then(|text| Secret::try_from(STANDARD.decode(text).ok()?).ok());
        if let Some(secret) = stored {
            self.secrets.lock().insert(account, Found { secret, is_kept: true });
        }
        Ok(())
    }

    /// The key with these bounds on this basis, if the account has ever issued one and its secret was recalled.
    pub(crate) fn find(
        &self,
        account: &crate::Account,
        (basis, bounds): (&Basis, Bounds<'_>),
    ) -> Option<[u8; 32]> {
        let found = self.secrets.lock().get(&account.id).copied().filter(|found| found.is_kept)?;
        Some(key(&found.secret, &account.name, basis, bounds))
    }

    fn found_or_made(&self, account: AccountId) -> Found {
        *self.secrets.lock().entry(account).or_insert_with(|| {
            let mut secret = Secret::default();
            for half in secret.chunks_exact_mut(16) {
                half.copy_from_slice(&self.entropy.wide_bits().to_le_bytes());
            }
            Found { secret, is_kept: false }
        })
    }
}

/// What the secret makes of the bounds.
fn key(secret: &Secret, account: &str, basis: &Basis, bounds: Bounds<'_>) -> [u8; 32] {
    let Bounds { object, tenant, start, expiry, service, version, user_tenant } = bounds;
    let parts = [account, &basis.0, object, tenant, start, expiry, service, version, user_tenant];
    sign(secret, &with_lengths(parts))
}

/// Each part is preceded by its length, so that no two lists of parts read the same.
fn with_lengths<'a>(parts: impl IntoIterator<Item = &'a str>) -> String {
    parts.into_iter().map(|part| format!("{}:{part}", part.len())).collect()
}

impl fmt::Debug for DelegationKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DelegationKeys")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_that_differ_anywhere_make_another_key() {
        let bounds = Bounds {
            object: "o",
            tenant: "t",
            start: "2026-01-01T00:00:00Z",
            expiry: "2026-01-02T00:00:00Z",
            service: "q",
            version: "2026-10-06",
            user_tenant: "",
        };
        let open = Basis("open".to_owned());
        let own = key(&[7; 32], "acc", &open, bounds);
        assert_eq!(own, key(&[7; 32], "acc", &open, bounds), "it is found again");
        let others = [
            key(&[7; 32], "acc", &Basis("basic".to_owned()), bounds),
            key(&[8; 32], "acc", &open, bounds),
            key(&[7; 32], "other", &open, bounds),
            key(&[7; 32], "acc", &open, Bounds { object: "p", ..bounds }),
            key(&[7; 32], "acc", &open, Bounds { tenant: "u", ..bounds }),
            key(&[7; 32], "acc", &open, Bounds { start: "2026-01-01T00:00:01Z", ..bounds }),
            key(&[7; 32], "acc", &open, Bounds { expiry: "2026-01-03T00:00:00Z", ..bounds }),
            key(&[7; 32], "acc", &open, Bounds { service: "b", ..bounds }),
            key(&[7; 32], "acc", &open, Bounds { version: "2026-10-07", ..bounds }),
            key(&[7; 32], "acc", &open, Bounds { user_tenant: "v", ..bounds }),
            key(&[7; 32], "acc", &open, Bounds { object: "o1:t", tenant: "", ..bounds }),
        ];
        assert!(others.iter().all(|other| *other != own));
    }
}
