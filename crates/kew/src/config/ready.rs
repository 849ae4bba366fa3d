//! `--print-config=strict`: a configuration of strict mode that is whole, with new secrets, and how clients are set up
//! them.
//!
//! The account is the one that open mode uses, so that its queues are there. docs/strict.md goes through it.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Bytes of an account key of Azure's.
const AZURE_KEY_BYTES: usize = 64;
/// Bytes in every other secret.
const SECRET_BYTES: usize = 24;
/// Bytes in the public half of an access key.
const ID_BYTES: usize = 8;
const CLOUDFLARE_ID: &str = "00000000000000000000000000000000";

/// The file's text. `chance` fills bytes with random bits.
pub fn strict<E>(mut chance: impl FnMut(&mut [u8]) -> Result<(), E>) -> Result<String, E> {
    let mut hex = |bytes: usize| {
        let mut filled = vec![0; bytes];
        chance(&mut filled)?;
        Ok(filled.iter().fold(String::new(), |mut text, byte| {
            let _written = write!(text, "{byte:02X}");
            text
        }))
    };
    let id = format!("KEW{}", hex(ID_BYTES)?);
    let [secret, token, admin] = [hex(SECRET_BYTES)?, hex(SECRET_BYTES)?, hex(SECRET_BYTES)?];
    let mut key = [0; AZURE_KEY_BYTES];
    chance(&mut key)?;
    let key = STANDARD.encode(key);
    Ok(format!(
        r#"# Strict mode: every request proves whose it is. The secrets below were made for this file alone: keep it
# readable by its owner (chmod 600), and start with `kew serve --config kew.toml`. More: docs/strict.md

[server]
auth = "strict"

[admin]
token = "{admin}"

# The account that open mode uses: its queues are there. More users and accounts: docs/strict.md
[[accounts]]
aws = {{ id = "000000000000", access_keys = [{{ id = "{id}", secret = "{secret}" }}] }}
azure = {{ name = "kewaccount", keys = ["{key}"] }}
cloudflare = {{ id = "{CLOUDFLARE_ID}", tokens = [{{ token = "{token}", permissions = ["queues_read", "queues_write"] }}] }}

# For clients on this machine; eval "$(sed -n 's/^# export/export/p' kew.toml)" tells a shell:
# export AWS_ACCESS_KEY_ID={id} AWS_SECRET_ACCESS_KEY={secret} AWS_DEFAULT_REGION=us-east-1
# export AZURE_STORAGE_KEY='{key}'
# export AZURE_STORAGE_CONNECTION_STRING='DefaultEndpointsProtocol=http;AccountName=kewaccount;AccountKey={key};QueueEndpoint=http://127.0.0.1:10001/kewaccount'
# export CLOUDFLARE_ACCOUNT_ID={CLOUDFLARE_ID} CLOUDFLARE_API_TOKEN={token}
# export CLOUDFLARE_API_BASE_URL=http://127.0.0.1:9326/client/v4
# export KEW_ADMIN_TOKEN={admin}
"#
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn what_is_printed_is_a_configuration_whose_secrets_all_differ() {
        let mut next = 0_u8;
        let text = strict(|bytes| {
            for byte in bytes {
                next = next.wrapping_add(1);
                *byte = next;
            }
            Ok::<(), ()>(())
        });
        let text = text.expect("the system has random numbers");
        let contents =
            super::super::file::contents(&text).expect("the configuration that was written can be read");
        let account = contents.accounts.first().expect("the configuration has one account");
        let (azure, cloudflare) = (account.azure.as_ref(), account.cloudflare.as_ref());
        let key = &account.aws.access_keys[0];
        let token = &cloudflare.expect("the account has a Cloudflare part").tokens[0];
        assert_eq!(token.permissions.len(), 2);
        let secrets =
            [&key.secret.0, &azure.expect("the account has an Azure part").keys[0].0, &token.token.0];
        let unique: BTreeSet<&String> = secrets.into_iter().collect();
        assert!(unique.len() == 3 && unique.iter().all(|secret| secret.len() >= 48), "{text}");
        for secret in secrets {
            assert_eq!(text.matches(secret.as_str()).count(), if secret.ends_with('=') { 3 } else { 2 });
        }
    }

    #[test]
    fn without_chance_there_are_no_secrets() {
        assert_eq!(strict(|_| Err("none")), Err("none"));
    }
}
