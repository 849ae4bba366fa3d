//! Keys that stand in for an account's: issued to who holds a token, each bound to a person, a time and a service.
//!
//! No issued key is kept. Each follows from a secret of its account, which is made once and kept in the store, and from
//! everything that its signatures name. So a key whose bounds were changed is another key, and nobody has signed with it.

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
use crate::{auth, documents};

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
        bounds: Bounds<'_>,
    ) -> Result<[u8; 32], WireError> {
        self.recall(engine, account.id).await?;
        let found = self.found_or_made(account.id);
        if !found.is_kept {
            // Two that come at the same time write the same.
            let documents = vec![documents::put_delegation_secret(&STANDARD.encode(found.secret))];
            engine.put_documents(PutDocuments { account: account.id, documents }).await?;
            self.secrets.lock().insert(account.id, Found { is_kept: true, ..found });
        }
        Ok(key(&found.secret, &account.name, bounds))
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

    /// The key with these bounds, if the account has ever issued one and its secret was recalled.
    pub(crate) fn find(&self, account: &crate::Account, bounds: Bounds<'_>) -> Option<[u8; 32]> {
        let found = self.secrets.lock().get(&account.id).copied().filter(|found| found.is_kept)?;
        Some(key(&found.secret, &account.name, bounds))
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

/// What the secret makes of the bounds. Each part is preceded by its length, so that no two bounds read the same.
fn key(secret: &Secret, account: &str, bounds: Bounds<'_>) -> [u8; 32] {
    let Bounds { object, tenant, start, expiry, service, version, user_tenant } = bounds;
    let parts = [account, object, tenant, start, expiry, service, version, user_tenant];
    let text: String = parts.iter().map(|part| format!("{}:{part}", part.len())).collect();
    auth::sign(secret, &text)
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
        let own = key(&[7; 32], "acc", bounds);
        assert_eq!(own, key(&[7; 32], "acc", bounds), "it is found again");
        let others = [
            key(&[8; 32], "acc", bounds),
            key(&[7; 32], "other", bounds),
            key(&[7; 32], "acc", Bounds { object: "p", ..bounds }),
            key(&[7; 32], "acc", Bounds { tenant: "u", ..bounds }),
            key(&[7; 32], "acc", Bounds { start: "2026-01-01T00:00:01Z", ..bounds }),
            key(&[7; 32], "acc", Bounds { expiry: "2026-01-03T00:00:00Z", ..bounds }),
            key(&[7; 32], "acc", Bounds { service: "b", ..bounds }),
            key(&[7; 32], "acc", Bounds { version: "2026-10-07", ..bounds }),
            key(&[7; 32], "acc", Bounds { user_tenant: "v", ..bounds }),
            key(&[7; 32], "acc", Bounds { object: "o1:t", tenant: "", ..bounds }),
        ];
        assert!(others.iter().all(|other| *other != own));
    }
}
