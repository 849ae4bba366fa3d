//! Names of queues as the API writes them: `orders` for a queue of the default account and region, else
//! `account:region:name`.

use kew_core::{AccountId, QueueKey, is_region};

use crate::error::ApiError;

/// The longest name of a queue, in any dialect.
const NAME_MAX: usize = 80;
/// The longest region, account and name together.
pub(crate) const FULL_NAME_MAX: usize = 200;
const FIFO_SUFFIX: &str = ".fifo";

/// Where names without an account and a region are.
#[derive(Clone, Debug)]
pub(crate) struct Home<'a> {
    pub(crate) account: AccountId,
    pub(crate) region: &'a str,
}

impl Home<'_> {
    /// The queue that a text means.
    pub(crate) fn key(&self, text: &str) -> Result<QueueKey, ApiError> {
        let malformed = || {
            let shown: String = text.chars().take(FULL_NAME_MAX).collect();
            let message =
                format!("{shown:?} names no queue: write a name, or account:region:name with 12 digits");
            ApiError::bad_request(message)
        };
        if text.is_empty() || text.len() > FULL_NAME_MAX {
            return Err(malformed());
        }
        let parts: Vec<&str> = text.split(':').collect();
        match parts.as_slice() {
            [name] => Ok(QueueKey::new(self.account, self.region, name)),
            [account, region, name] if is_region(region) && !name.is_empty() => {
                let is_account = account.len() == 12 && account.bytes().all(|byte| byte.is_ascii_digit());
                let account = account.parse().ok().filter(|_| is_account).ok_or_else(malformed)?;
                Ok(QueueKey::new(AccountId(account), region, name))
            }
            _ => Err(malformed()),
        }
    }

    /// The shortest text that means a queue.
    pub(crate) fn text(&self, key: &QueueKey) -> String {
        if key.account == self.account && &*key.region == self.region {
            return key.name.to_string();
        }
        full(key)
    }
}

/// The text that means a queue whatever is the default.
pub(crate) fn full(key: &QueueKey) -> String {
    format!("{}:{}:{}", key.account, key.region, key.name)
}

/// Whether a name asks for a FIFO queue.
pub(crate) fn is_fifo(name: &str) -> bool {
    name.ends_with(FIFO_SUFFIX)
}

/// Whether some dialect can name a queue so, of either kind.
pub fn can_name_a_queue(name: &str) -> bool {
    check_new(name, is_fifo(name)).is_ok()
}

/// Refuses a name that a new queue of this kind cannot have in any dialect.
pub(crate) fn check_new(name: &str, fifo: bool) -> Result<(), ApiError> {
    let stem = if fifo { name.strip_suffix(FIFO_SUFFIX) } else { Some(name) };
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let is_name = |stem: &str| !stem.is_empty() && name.len() <= NAME_MAX && stem.bytes().all(is_plain);
    if stem.is_some_and(is_name) {
        return Ok(());
    }
    let ends = if fifo { ", and must end in .fifo" } else { "" };
    let message =
        format!("a queue's name has 1 to {NAME_MAX} letters, digits, hyphens and underscores{ends}");
    Err(ApiError::bad_request(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOME: Home<'_> = Home { account: AccountId(0), region: "us-east-1" };

    #[test]
    fn names_are_short_at_home_and_full_elsewhere() {
        for (text, account, region, name) in [
            ("orders", 0, "us-east-1", "orders"),
            ("000000000000:us-east-1:orders", 0, "us-east-1", "orders"),
            ("000000000007:eu-west-3:a.fifo", 7, "eu-west-3", "a.fifo"),
        ] {
            let key = HOME.key(text).expect("the text names a queue");
            assert_eq!(key, QueueKey::new(AccountId(account), region, name));
            assert_eq!(HOME.key(&HOME.text(&key)).ok(), Some(key));
        }
        assert_eq!(HOME.text(&QueueKey::new(AccountId(0), "us-east-1", "a")), "a");
        for wrong in [
            "",
            "a:b",
            "1:r:n",
            "000000000000::n",
            "000000000000:r:",
            "00000000000x:r:n",
            "a:b:c:d",
            "000000000000:a\"b:q",
            "000000000000:x\n1:q",
        ] {
            assert!(HOME.key(wrong).is_err(), "{wrong}");
        }
        assert!(HOME.key(&"a".repeat(201)).is_err());
    }

    #[test]
    fn new_names_are_those_of_some_dialect() {
        for (name, standard, fifo) in [
            ("a", true, false),
            ("A_b-9", true, false),
            ("a.fifo", false, true),
            (".fifo", false, false),
            ("", false, false),
            ("a b", false, false),
            ("a:b", false, false),
            ("é", false, false),
        ] {
            assert_eq!(
                (check_new(name, false).is_ok(), check_new(name, true).is_ok()),
                (standard, fifo),
                "{name}"
            );
        }
        let longest = "n".repeat(80);
        assert!(check_new(&longest, false).is_ok() && check_new(&format!("{longest}n"), false).is_err());
    }
}
