//! Who may ask, by the accounts that are configured: what each front-end verifies requests against.

use std::sync::Arc;

use kew_core::AccountId;
use kew_sqs::{AccessKey, KeyError, Keys};

use crate::config::{Account, Auth, Settings};
use crate::machine::SystemClock;

/// The default account's Azure name, which every emulator of Azure's storage knows.
const AZURE_ACCOUNT: &str = "devstoreaccount1";

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

/// The names under which Azure's clients may know an account here.
pub fn azure_names(settings: &Settings) -> Vec<String> {
    let configured = settings.accounts.iter().filter_map(|account| account.azure.as_ref());
    let mut names: Vec<String> = configured.map(|azure| azure.name.clone()).collect();
    if names.is_empty() || settings.server.auth == Auth::Open {
        names.push(AZURE_ACCOUNT.to_owned());
    }
    names
}
