//! Who may ask, by the accounts that are configured: what each front-end verifies requests against.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kew_core::AccountId;
use kew_sqs::{AccessKey, KeyError, Keys};

use crate::config::{Account, ApiPermission, ApiToken, Auth, Settings};
use crate::machine::SystemClock;

/// The default account's Azure name, which every emulator of Azure's storage knows.
pub const AZURE_ACCOUNT: &str = "devstoreaccount1";
/// That account's key, which is no secret.
pub const AZURE_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// Who may ask SQS. Signatures are dated by the machine's clock, whatever time it is for queues.
pub fn sqs(settings: &Settings) -> Result<kew_sqs::Auth, KeyError> {
    match settings.server.auth {
        Auth::Open => Ok(kew_sqs::Auth::Open),
        Auth::Strict => {
            let keys = Keys::new(access_keys(&settings.accounts), Arc::new(SystemClock))?;
            Ok(kew_sqs::Auth::Strict(Arc::new(keys)))
        }
    }
}

fn access_keys(accounts: &[Account]) -> Vec<AccessKey> {
    if accounts.is_empty() {
        // Everyone knows it: such a server is bound to loopback addresses only.
        let (id, secret) = ("test".to_owned(), "test".to_owned());
        return vec![AccessKey { id, secret, account: AccountId(0), user: None }];
    }
    let keys = accounts.iter().flat_map(|account| {
        account.aws.access_keys.iter().map(|key| AccessKey {
            id: key.id.clone(),
            secret: key.secret.0.clone(),
            account: account.aws.id,
            user: key.user.clone(),
        })
    });
    keys.collect()
}

/// The token of the default account, which everyone knows.
const CLOUDFLARE_TOKEN: &str = "test";

/// The accounts whose tokens Cloudflare's clients may show in strict mode.
pub fn cloudflare(settings: &Settings) -> Vec<kew_cloudflare::Account> {
    if settings.accounts.is_empty() {
        let secret = CLOUDFLARE_TOKEN.into();
        let token = kew_cloudflare::Token { secret, permissions: kew_cloudflare::Permissions::ALL };
        return vec![kew_cloudflare::Account {
            id: AccountId(0),
            name: "0".repeat(32).into(),
            tokens: vec![token],
        }];
    }
    let accounts =
        settings.accounts.iter().filter_map(|account| Some((account.aws.id, account.cloudflare.as_ref()?)));
    let token = |token: &ApiToken| kew_cloudflare::Token {
        secret: token.token.0.as_str().into(),
        permissions: kew_cloudflare::Permissions {
            read: token.permissions.contains(&ApiPermission::QueuesRead),
            write: token.permissions.contains(&ApiPermission::QueuesWrite),
        },
    };
    accounts
        .map(|(id, cloudflare)| kew_cloudflare::Account {
            id,
            name: cloudflare.id.as_str().into(),
            tokens: cloudflare.tokens.iter().map(token).collect(),
        })
        .collect()
}

/// The accounts that Azure's clients may name. In open mode the default one is always there.
pub fn azure(settings: &Settings) -> Vec<kew_azure::Account> {
    let mut accounts: Vec<kew_azure::Account> = settings
        .accounts
        .iter()
        .filter_map(|account| Some((account.aws.id, account.azure.as_ref()?)))
        .map(|(id, azure)| kew_azure::Account {
            name: azure.name.as_str().into(),
            id,
            keys: azure.keys.iter().filter_map(|key| STANDARD.decode(&key.0).ok()).collect(),
        })
        .collect();
    let has_default = accounts.iter().any(|account| &*account.name == AZURE_ACCOUNT);
    if settings.accounts.is_empty() || (settings.server.auth == Auth::Open && !has_default) {
        let keys = STANDARD.decode(AZURE_KEY).into_iter().collect();
        accounts.push(kew_azure::Account { name: AZURE_ACCOUNT.into(), id: AccountId(0), keys });
    }
    accounts
}
