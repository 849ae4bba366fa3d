//! Who may sign: access keys, and the account and user behind each.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use kew_core::{AccountId, Clock};

use super::signing::SigningKeys;

/// One access key, as it is configured.
#[derive(Clone)]
pub struct AccessKey {
    /// Its public half.
    pub id: String,
    /// Its secret half.
    pub secret: String,
    /// The account it acts for.
    pub account: AccountId,
    /// The user it belongs to; none is the account itself.
    pub user: Option<String>,
}

/// Secrets do not go into logs.
impl fmt::Debug for AccessKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessKey")
            .field("id", &self.id)
            .field("account", &self.account)
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

/// Why a list of access keys is not taken.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum KeyError {
    /// Two keys of one id.
    #[error("the access key {id:?} is given twice")]
    Repeated {
        /// The id.
        id: String,
    },
    /// An id that cannot stand in a signature.
    #[error("the access key {id:?} is not 1 to 128 letters, digits or any of _-/+=.")]
    IllegalId {
        /// The id.
        id: String,
    },
    /// A secret without anything in it.
    #[error("the secret of the access key {id:?} is empty")]
    EmptySecret {
        /// The id.
        id: String,
    },
    /// An account of more than twelve digits.
    #[error("the account {account} of the access key {id:?} has more than 12 digits")]
    IllegalAccount {
        /// The id.
        id: String,
        /// The account.
        account: AccountId,
    },
    /// A user's name that no resource name can hold.
    #[error("the user {user:?} is not 1 to 64 letters, digits or any of _+=,.@-")]
    IllegalUser {
        /// The name.
        user: String,
    },
}

/// Somebody who was recognised by a signature.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Principal {
    pub(crate) account: AccountId,
    /// The user; none is the account itself.
    pub(crate) user: Option<Box<str>>,
    /// `arn:aws:iam::<account>:user/<name>`, or `:root`.
    pub(crate) arn: Box<str>,
    /// What messages show as their sender.
    pub(crate) sender: Arc<str>,
}

impl Principal {
    pub(crate) fn new(account: AccountId, user: Option<&str>) -> Self {
        let arn = match user {
            Some(user) => format!("arn:aws:iam::{account}:user/{user}"),
            None => format!("arn:aws:iam::{account}:root"),
        };
        let sender = user.map_or_else(|| account.to_string().into(), Arc::from);
        Self { account, user: user.map(Box::from), arn: arn.into(), sender }
    }
}

/// A key as requests are checked against it.
pub(super) struct Known {
    /// Its place in the list, by which its signing keys are remembered.
    pub(super) place: u32,
    pub(super) secret: Box<str>,
    pub(super) principal: Arc<Principal>,
}

/// The access keys that are known, and the machine's clock, by which clients date what they sign.
pub struct Keys {
    known: HashMap<Box<str>, Known>,
    /// What a request by an unknown key is checked against, so that it takes as long as any other.
    nobody: Known,
    pub(super) signing: SigningKeys,
    pub(super) machine: Arc<dyn Clock>,
}

impl Keys {
    /// These keys. `machine` is the machine's clock, also where the engine's is another.
    pub fn new(keys: impl IntoIterator<Item = AccessKey>, machine: Arc<dyn Clock>) -> Result<Self, KeyError> {
        let nobody = Known {
            place: 0,
            secret: "nobody signs with this, since its owner is not among the known keys".into(),
            principal: Arc::new(Principal::new(AccountId(0), None)),
        };
        let mut known = HashMap::new();
        for (place, key) in (1..).zip(keys) {
            check(&key)?;
            let principal = Arc::new(Principal::new(key.account, key.user.as_deref()));
            let entry = Known { place, secret: key.secret.into(), principal };
            if known.insert(key.id.as_str().into(), entry).is_some() {
                return Err(KeyError::Repeated { id: key.id });
            }
        }
        Ok(Self { known, nobody, signing: SigningKeys::new(), machine })
    }

    /// The key of this id, and whether there is one: if not, it is a key without a user.
    pub(super) fn find(&self, id: &str) -> (&Known, bool) {
        match self.known.get(id) {
            Some(known) => (known, true),
            None => (&self.nobody, false),
        }
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys").field("known", &self.known.len()).finish_non_exhaustive()
    }
}

fn check(key: &AccessKey) -> Result<(), KeyError> {
    let id = key.id.clone();
    if !is_word(&key.id, 128, b"_-/+=.") {
        return Err(KeyError::IllegalId { id });
    }
    if key.secret.is_empty() {
        return Err(KeyError::EmptySecret { id });
    }
    if key.account.0 > 999_999_999_999 {
        return Err(KeyError::IllegalAccount { id, account: key.account });
    }
    match &key.user {
        Some(user) if !is_word(user, 64, b"_+=,.@-") => Err(KeyError::IllegalUser { user: user.clone() }),
        Some(_) | None => Ok(()),
    }
}

fn is_word(text: &str, length: usize, also: &[u8]) -> bool {
    (1..=length).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || also.contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kew_core::Timestamp;

    struct Still;

    impl Clock for Still {
        fn now(&self) -> Timestamp {
            Timestamp::ZERO
        }
    }

    fn key(id: &str) -> AccessKey {
        AccessKey { id: id.to_owned(), secret: "s".to_owned(), account: AccountId(7), user: None }
    }

    fn keys(keys: Vec<AccessKey>) -> Result<Keys, KeyError> {
        Keys::new(keys, Arc::new(Still))
    }

    #[test]
    fn users_and_accounts_are_distinguished() {
        let anna = AccessKey { user: Some("anna".to_owned()), ..key("A") };
        let keys = keys(vec![anna, key("B")]).expect("keys with different ids are accepted");
        assert_eq!(&*keys.find("A").0.principal.arn, "arn:aws:iam::000000000007:user/anna");
        assert_eq!(&*keys.find("B").0.principal.arn, "arn:aws:iam::000000000007:root");
        assert_eq!(&*keys.find("B").0.principal.sender, "000000000007");
        assert!(!keys.find("C").1);
    }

    #[test]
    fn keys_that_could_not_sign_are_refused_with_the_reason() {
        let twice = keys(vec![key("A"), key("A")]).map(|_| ());
        assert_eq!(twice, Err(KeyError::Repeated { id: "A".to_owned() }));
        for illegal in [
            key(""),
            key("a b"),
            AccessKey { secret: String::new(), ..key("A") },
            AccessKey { account: AccountId(1_000_000_000_000), ..key("A") },
            AccessKey { user: Some("a/b".to_owned()), ..key("A") },
        ] {
            assert!(keys(vec![illegal.clone()]).is_err(), "{illegal:?}");
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        let shown = format!("{:?} {:?}", AccessKey { secret: "hidden".to_owned(), ..key("A") }, keys(vec![]));
        assert!(!shown.contains("hidden"), "{shown}");
    }
}
