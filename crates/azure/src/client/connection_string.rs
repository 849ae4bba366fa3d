//! Connection strings: `Name=value` pairs that say where an account is and what lets a client in.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::{Credential, Endpoint};

/// The account of every development machine, with its published key.
const DEVELOPMENT_ACCOUNT: &str = "devstoreaccount1";
const DEVELOPMENT_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
const DEVELOPMENT_PORT: u16 = 10_001;
const CLOUD: &str = "core.windows.net";

/// Why a connection string is not understood. Its values are never repeated: they may be secret.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ConnectionStringError {
    /// A part has no equals sign.
    #[error("it is not a connection string: part {part} has no '='; expected Name=value;Name=value")]
    NoPairs {
        /// Which part, counted from one.
        part: usize,
    },
    /// There is no way to tell where the queues are.
    #[error("it says neither QueueEndpoint nor AccountName")]
    NoAddress,
    /// There is nothing that lets a client in.
    #[error("it has neither AccountKey nor SharedAccessSignature")]
    NoCredential,
    /// A key belongs to an account.
    #[error("AccountKey needs AccountName")]
    KeyWithoutAccount,
    /// The key is not Base64.
    #[error("AccountKey is not valid Base64")]
    BadKey,
    /// The address is none.
    #[error("'{address}' is no address beginning with http:// or https://")]
    BadAddress {
        /// What was given.
        address: String,
    },
}

impl Endpoint {
    /// The endpoint that a connection string names.
    pub fn from_connection_string(text: &str) -> Result<Self, ConnectionStringError> {
        let pairs = pairs(text)?;
        let value = |name: &str| {
            let found = pairs.iter().find(|(found, _)| found.eq_ignore_ascii_case(name));
            found.map(|(_, value)| *value).filter(|value| !value.is_empty())
        };
        if value("UseDevelopmentStorage").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            return development(value("DevelopmentStorageProxyUri"));
        }
        let account = value("AccountName");
        let address = match (value("QueueEndpoint"), account) {
            (Some(address), _) => address.to_owned(),
            (None, Some(account)) => {
                let protocol = value("DefaultEndpointsProtocol").unwrap_or("https");
                format!("{protocol}://{account}.queue.{}", value("EndpointSuffix").unwrap_or(CLOUD))
            }
            (None, None) => return Err(ConnectionStringError::NoAddress),
        };
        let credential = match (value("AccountKey"), value("SharedAccessSignature")) {
            (Some(key), _) => {
                account.ok_or(ConnectionStringError::KeyWithoutAccount)?;
                Credential::Key(STANDARD.decode(key).map_err(|_| ConnectionStringError::BadKey)?)
            }
            (None, Some(signature)) => Credential::Signature(signature.trim_start_matches('?').to_owned()),
            (None, None) => return Err(ConnectionStringError::NoCredential),
        };
        Self::new(&address, account.unwrap_or_default(), credential)
            .ok_or(ConnectionStringError::BadAddress { address })
    }
}

fn development(proxy: Option<&str>) -> Result<Endpoint, ConnectionStringError> {
    let host = proxy.unwrap_or("http://127.0.0.1").trim_end_matches('/');
    let address = format!("{host}:{DEVELOPMENT_PORT}/{DEVELOPMENT_ACCOUNT}");
    let key = STANDARD.decode(DEVELOPMENT_KEY).map_err(|_| ConnectionStringError::BadKey)?;
    Endpoint::new(&address, DEVELOPMENT_ACCOUNT, Credential::Key(key))
        .ok_or(ConnectionStringError::BadAddress { address })
}

fn pairs(text: &str) -> Result<Vec<(&str, &str)>, ConnectionStringError> {
    let parts = text.split(';').map(str::trim).enumerate().filter(|(_, part)| !part.is_empty());
    parts
        .map(|(place, part)| {
            let pair = part.split_once('=').ok_or(ConnectionStringError::NoPairs { part: place + 1 })?;
            Ok((pair.0.trim(), pair.1.trim()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base(text: &str) -> Result<String, ConnectionStringError> {
        Endpoint::from_connection_string(text).map(|endpoint| endpoint.base().to_owned())
    }

    #[test]
    fn the_development_account_is_on_this_machine() {
        for text in
            ["UseDevelopmentStorage=true", "usedevelopmentstorage=True;", " UseDevelopmentStorage = true "]
        {
            assert_eq!(base(text).as_deref(), Ok("http://127.0.0.1:10001/devstoreaccount1"), "{text}");
        }
        let proxy = "UseDevelopmentStorage=true;DevelopmentStorageProxyUri=http://kew";
        assert_eq!(base(proxy).as_deref(), Ok("http://kew:10001/devstoreaccount1"));
    }

    #[test]
    fn addresses_are_given_or_made_of_the_account() {
        let key = "AccountKey=a2V5";
        for (text, expected) in [
            ("AccountName=acc", "https://acc.queue.core.windows.net"),
            (
                "DefaultEndpointsProtocol=http;AccountName=acc;EndpointSuffix=example",
                "http://acc.queue.example",
            ),
            ("accountname=acc;QUEUEENDPOINT=http://127.0.0.1:7/acc/", "http://127.0.0.1:7/acc"),
        ] {
            assert_eq!(base(&format!("{text};{key}")).as_deref(), Ok(expected), "{text}");
        }
        let signed = "QueueEndpoint=https://acc.queue.example;SharedAccessSignature=?sv=2021&sig=a%3D";
        assert_eq!(base(signed).as_deref(), Ok("https://acc.queue.example"));
    }

    #[test]
    fn what_is_missing_or_wrong_is_named() {
        use ConnectionStringError as E;
        for (text, expected) in [
            ("AccountName=acc;AccountKey", E::NoPairs { part: 2 }),
            ("AccountKey=a2V5", E::NoAddress),
            ("", E::NoAddress),
            ("UseDevelopmentStorage=false", E::NoAddress),
            ("AccountName=acc", E::NoCredential),
            ("AccountName=acc;AccountKey=", E::NoCredential),
            ("QueueEndpoint=http://h/a;AccountKey=a2V5", E::KeyWithoutAccount),
            ("AccountName=acc;AccountKey=***", E::BadKey),
            (
                "AccountName=acc;AccountKey=a2V5;QueueEndpoint=acc.example",
                E::BadAddress { address: "acc.example".into() },
            ),
        ] {
            assert_eq!(base(text), Err(expected), "{text}");
        }
    }

    #[test]
    fn a_key_is_not_shown() {
        let endpoint = Endpoint::from_connection_string("UseDevelopmentStorage=true")
            .expect("the shortcut for development storage is read");
        assert!(!format!("{endpoint:?}").contains("104"), "{endpoint:?}");
    }
}
