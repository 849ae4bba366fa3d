//! `[[accounts]]`: who may do what in strict mode. Only the file can hold them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use kew_core::AccountId;
use kew_http::hex;
use toml::{Table, Value};

use super::error::ConfigError;
use super::file::shown;

/// The section's name.
pub const SECTION: &str = "accounts";

/// The keys it may hold, at any depth.
pub(super) const KEYS: &[&str] = &[
    "access_keys",
    "aws",
    "azure",
    "cloudflare",
    "id",
    "keys",
    "name",
    "permissions",
    "secret",
    "token",
    "tokens",
    "user",
];

/// One account, under its names in each dialect.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Account {
    /// As Amazon knows it.
    pub aws: AwsAccount,
    /// As Azure knows it.
    pub azure: Option<AzureAccount>,
    /// As Cloudflare knows it.
    pub cloudflare: Option<CloudflareAccount>,
}

/// An account as Amazon knows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AwsAccount {
    /// Its number.
    pub id: AccountId,
    /// Its keys.
    pub access_keys: Vec<AccessKey>,
}

/// A key that signs requests.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AccessKey {
    /// Its public half.
    pub id: String,
    /// Its other half.
    pub secret: Secret,
    /// The user it belongs to; without one it is the account's own.
    pub user: Option<String>,
}

/// An account as Azure knows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AzureAccount {
    /// Its name.
    pub name: String,
    /// Its keys, in Base64.
    pub keys: Vec<Secret>,
}

/// An account as Cloudflare knows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CloudflareAccount {
    /// 32 hex digits.
    pub id: String,
    /// What lets its holders do something.
    pub tokens: Vec<ApiToken>,
}

/// A bearer token.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ApiToken {
    /// The token.
    pub token: Secret,
    /// What it allows.
    pub permissions: Vec<ApiPermission>,
}

/// Something a token may allow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ApiPermission {
    /// To see queues and their messages.
    QueuesRead,
    /// To change queues and to publish.
    QueuesWrite,
}

impl ApiPermission {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::QueuesRead, Self::QueuesWrite];

    /// Its name in the file.
    pub fn name(self) -> &'static str {
        match self {
            Self::QueuesRead => "queues_read",
            Self::QueuesWrite => "queues_write",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|permission| permission.name() == text)
    }
}

/// A text that is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(hidden)")
    }
}

/// Reads `[[accounts]]`.
pub(super) fn read(value: &Value) -> Result<Vec<Account>, ConfigError> {
    let list = value
        .as_array()
        .ok_or_else(|| ConfigError::new(format!("{SECTION} must be written as [[{SECTION}]]")))?;
    let accounts: Vec<Account> =
        entries(list, SECTION).map(|entry| account(&entry?)).collect::<Result<_, _>>()?;
    check_unique(&accounts)?;
    Ok(accounts)
}

fn account(entry: &Entry<'_>) -> Result<Account, ConfigError> {
    entry.only(&["aws", "azure", "cloudflare"])?;
    let aws = entry.inner("aws")?.ok_or_else(|| entry.missing("aws"))?;
    Ok(Account {
        aws: aws_account(&aws)?,
        azure: entry.inner("azure")?.map(|azure| azure_account(&azure)).transpose()?,
        cloudflare: entry.inner("cloudflare")?.map(|inner| cloudflare_account(&inner)).transpose()?,
    })
}

fn aws_account(entry: &Entry<'_>) -> Result<AwsAccount, ConfigError> {
    entry.only(&["id", "access_keys"])?;
    let id = entry.text("id", "12 digits", |text| {
        (text.len() == 12 && text.bytes().all(|byte| byte.is_ascii_digit()))
            .then(|| text.parse().ok())
            .flatten()
    })?;
    let access_keys = entry.list("access_keys", |entry| {
        entry.only(&["id", "secret", "user"])?;
        Ok(AccessKey {
            id: entry.text("id", "1 to 128 letters, digits and _-/+=.", |text| word(text, 128, "_-/+=."))?,
            secret: Secret(entry.text("secret", "a text that is not empty", filled)?),
            user: match entry.has("user") {
                true => {
                    Some(entry.text("user", "1 to 64 letters, digits and _+=,.@-", |text| {
                        word(text, 64, "_+=,.@-")
                    })?)
                }
                false => None,
            },
        })
    })?;
    Ok(AwsAccount { id: AccountId(id), access_keys })
}

fn azure_account(entry: &Entry<'_>) -> Result<AzureAccount, ConfigError> {
    entry.only(&["name", "keys"])?;
    let name = entry.text("name", "3 to 24 small letters and digits", |text| {
        let fits = (3..=24).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        fits.then(|| text.to_owned())
    })?;
    let keys = entry.texts("keys", "an array of keys in Base64", |text| {
        let fits = !text.is_empty()
            && text.len().is_multiple_of(4)
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'='));
        fits.then(|| Secret(text.to_owned()))
    })?;
    Ok(AzureAccount { name, keys })
}

fn cloudflare_account(entry: &Entry<'_>) -> Result<CloudflareAccount, ConfigError> {
    entry.only(&["id", "tokens"])?;
    let id =
        entry.text("id", "32 hex digits", |text| hex::sixteen(text).map(|_| text.to_ascii_lowercase()))?;
    let tokens = entry.list("tokens", |entry| {
        entry.only(&["token", "permissions"])?;
        Ok(ApiToken {
            token: Secret(entry.text("token", "a text that is not empty", filled)?),
            permissions: entry.texts(
                "permissions",
                "an array of queues_read and queues_write",
                ApiPermission::parse,
            )?,
        })
    })?;
    Ok(CloudflareAccount { id, tokens })
}

fn filled(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

fn word(text: &str, length: usize, also: &str) -> Option<String> {
    let fits = (1..=length).contains(&text.len())
        && text.chars().all(|character| character.is_ascii_alphanumeric() || also.contains(character));
    fits.then(|| text.to_owned())
}

/// A name that means two accounts means none. Of a token, which is a secret, only its places are shown.
fn check_unique(accounts: &[Account]) -> Result<(), ConfigError> {
    let mut seen: BTreeMap<(&str, Cow<'_, str>), String> = BTreeMap::new();
    for (number, account) in accounts.iter().enumerate() {
        for (kind, place, name) in names(account) {
            let place = format!("{SECTION}[{number}].{place}");
            let shown = if kind == TOKEN { "(hidden)".to_owned() } else { format!("{name:?}") };
            let Some(first) = seen.insert((kind, name), place.clone()) else { continue };
            return Err(ConfigError::new(format!(
                "{place} = {shown} stands there twice: {first} is the same, and it must be unique"
            )));
        }
    }
    Ok(())
}

const TOKEN: &str = "token";

/// Everything that tells whose an account is: what kind of name it is, its place in the account, the name.
fn names(account: &Account) -> Vec<(&'static str, String, Cow<'_, str>)> {
    let mut names = vec![("aws", "aws.id".to_owned(), account.aws.id.to_string().into())];
    for (number, key) in account.aws.access_keys.iter().enumerate() {
        names.push(("key", format!("aws.access_keys[{number}].id"), key.id.as_str().into()));
    }
    if let Some(azure) = &account.azure {
        names.push(("azure", "azure.name".to_owned(), azure.name.as_str().into()));
    }
    if let Some(cloudflare) = &account.cloudflare {
        names.push(("cloudflare", "cloudflare.id".to_owned(), cloudflare.id.as_str().into()));
        for (number, token) in cloudflare.tokens.iter().enumerate() {
            names.push((TOKEN, format!("cloudflare.tokens[{number}].token"), token.token.0.as_str().into()));
        }
    }
    names
}

/// A table within the section, with the words that lead to it.
pub(super) struct Entry<'a> {
    path: String,
    table: &'a Table,
}

pub(super) fn entries<'a>(
    list: &'a [Value],
    path: &str,
) -> impl Iterator<Item = Result<Entry<'a>, ConfigError>> {
    list.iter().enumerate().map(move |(place, value)| {
        let path = format!("{path}[{place}]");
        let table = value.as_table().ok_or_else(|| ConfigError::new(format!("{path} must be a table")))?;
        Ok(Entry { path, table })
    })
}

impl<'a> Entry<'a> {
    pub(super) fn only(&self, allowed: &[&str]) -> Result<(), ConfigError> {
        match self.table.iter().find(|(key, _)| !allowed.contains(&key.as_str())) {
            // What a mistyped key holds may be a secret, whatever it is called.
            Some((key, _)) => Err(ConfigError::new(format!(
                "{} {key} = (hidden) is not a known key; allowed are {}",
                self.path,
                allowed.join(", ")
            ))),
            None => Ok(()),
        }
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    fn missing(&self, key: &str) -> ConfigError {
        ConfigError::new(format!("{} has no {key}", self.path))
    }

    fn refused(&self, key: &str, value: &Value, allowed: &str) -> ConfigError {
        let is_secret = matches!(key, "secret" | "keys" | "token" | "password_hash" | "webhook");
        let value = if is_secret { "(hidden)".to_owned() } else { shown(value) };
        ConfigError::new(format!("{}.{key} = {value} is not allowed; it must be {allowed}", self.path))
    }

    fn inner(&self, key: &str) -> Result<Option<Entry<'a>>, ConfigError> {
        let Some(value) = self.table.get(key) else { return Ok(None) };
        let table = value.as_table().ok_or_else(|| self.refused(key, value, "a table"))?;
        Ok(Some(Entry { path: format!("{}.{key}", self.path), table }))
    }

    /// The error that says what an entry's members must be.
    pub(super) fn not_allowed(&self, why: &str) -> ConfigError {
        ConfigError::new(format!("{}: {why}", self.path))
    }

    pub(super) fn text<T>(
        &self,
        key: &str,
        allowed: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<T, ConfigError> {
        let value = self.table.get(key).ok_or_else(|| self.missing(key))?;
        value.as_str().and_then(parse).ok_or_else(|| self.refused(key, value, allowed))
    }

    /// A whole number or one with a fraction.
    #[expect(clippy::cast_precision_loss, reason = "settings are small numbers")]
    pub(super) fn number<T>(
        &self,
        key: &str,
        allowed: &str,
        parse: impl Fn(f64) -> Option<T>,
    ) -> Result<T, ConfigError> {
        let value = self.table.get(key).ok_or_else(|| self.missing(key))?;
        let number = match value {
            Value::Integer(number) => Some(*number as f64),
            Value::Float(number) => Some(*number),
            _ => None,
        };
        number.and_then(parse).ok_or_else(|| self.refused(key, value, allowed))
    }

    fn texts<T>(
        &self,
        key: &str,
        allowed: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Vec<T>, ConfigError> {
        let Some(value) = self.table.get(key) else { return Ok(Vec::new()) };
        let list = value.as_array().map(|list| list.iter().map(|entry| entry.as_str().and_then(&parse)));
        let read = list.and_then(Iterator::collect::<Option<Vec<T>>>);
        read.ok_or_else(|| self.refused(key, value, allowed))
    }

    fn list<T>(
        &self,
        key: &str,
        read: impl Fn(&Entry<'_>) -> Result<T, ConfigError>,
    ) -> Result<Vec<T>, ConfigError> {
        let Some(value) = self.table.get(key) else { return Ok(Vec::new()) };
        let list = value.as_array().ok_or_else(|| self.refused(key, value, "an array of tables"))?;
        entries(list, &format!("{}.{key}", self.path)).map(|entry| read(&entry?)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accounts(text: &str) -> Result<Vec<Account>, String> {
        let table: Table = text.parse().expect("the text is TOML");
        read(table.get(SECTION).expect("the text has a section of accounts"))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn an_account_has_its_names_and_keys_in_every_dialect() {
        let found = accounts(
            r#"
            [[accounts]]
            aws = { id = "123456789012", access_keys = [{ id = "AKIA1", secret = "s", user = "ann" }, { id = "AKIA2", secret = "t" }] }
            azure = { name = "orders", keys = ["a2V5"] }
            cloudflare = { id = "0123456789ABCDEF0123456789abcdef", tokens = [{ token = "x", permissions = ["queues_read"] }] }
            "#,
        )
        .expect("the accounts are valid");
        let account = found.first().expect("the text has one account");
        assert_eq!(account.aws.id, AccountId(123_456_789_012));
        let users: Vec<Option<&str>> =
            account.aws.access_keys.iter().map(|key| key.user.as_deref()).collect();
        assert_eq!(users, [Some("ann"), None]);
        assert_eq!(account.azure.as_ref().map(|azure| azure.name.as_str()), Some("orders"));
        let cloudflare = account.cloudflare.as_ref().expect("the account has a Cloudflare part");
        assert_eq!(cloudflare.id, "0123456789abcdef0123456789abcdef");
        assert!(!format!("{found:?}").contains("a2V5"), "secrets are not shown");
    }

    #[test]
    fn what_is_wrong_is_named_by_its_place_and_secrets_stay_hidden() {
        let with = |aws: &str| format!("[[accounts]]\naws = {aws}\n");
        let key = |key: &str| with(&format!("{{ id = \"123456789012\", access_keys = [{key}] }}"));
        for (text, expected) in [
            (with(r#"{ id = "12" }"#), "accounts[0].aws.id = \"12\" is not allowed; it must be 12 digits"),
            (with(r#"{ id = 123456789012 }"#), "must be 12 digits"),
            (
                with(r#"{ id = "123456789012", colour = 1 }"#),
                "accounts[0].aws colour = (hidden) is not a known key",
            ),
            (key(r#"{ id = "A" }"#), "accounts[0].aws.access_keys[0] has no secret"),
            (key(r#"{ id = "A b", secret = "s" }"#), "access_keys[0].id"),
            (
                key(r#"{ id = "A", secret = "s" }, { id = "A", secret = "t" }"#),
                "accounts[0].aws.access_keys[1].id = \"A\" stands there twice: accounts[0].aws.access_keys[0].id is the same",
            ),
            ("[[accounts]]\nazure = { name = \"abc\" }\n".to_owned(), "accounts[0] has no aws"),
            ("[accounts]\naws = 1\n".to_owned(), "[[accounts]]"),
            (
                format!(
                    "{}cloudflare = {{ id = \"{}\", tokens = [{{ token = \"x\", permissions = [\"all\"] }}] }}",
                    with(r#"{ id = "123456789012" }"#),
                    "0".repeat(32)
                ),
                "it must be an array of queues_read and queues_write",
            ),
        ] {
            let told = accounts(&text).expect_err(&text);
            assert!(told.contains(expected), "{told}");
        }
        assert!(!accounts(&key(r#"{ id = "A", secret = 12345 }"#)).expect_err("wrong").contains("12345"));
    }
    #[test]
    fn what_stands_in_a_wrong_place_is_not_shown() {
        for (text, expected) in [
            (
                r#"aws = { id = "123456789012", access_keys = { id = "A", secret = "s3cret" } }"#,
                "access_keys = (a table) is not allowed",
            ),
            (
                r#"aws = { id = "123456789012" }
                cloudflare = { id = "0123456789abcdef0123456789abcdef", tokens = { token = "s3cret" } }"#,
                "tokens = (a table) is not allowed",
            ),
            ("[[accounts.aws]]\nid = \"123456789012\"\nsecret = \"s3cret\"", "accounts[0].aws = (an array)"),
            (r#"AWS = { id = "123456789012", secret = "s3cret" }"#, "accounts[0] AWS = (hidden)"),
            (r#"aws = { id = "123456789012", password = "s3cret" }"#, "password = (hidden)"),
            (r#"aws = { id = ["s3cret"] }"#, "id = (an array)"),
        ] {
            let told = accounts(&format!("[[accounts]]\n{text}\n")).expect_err(text);
            assert!(told.contains(expected) && !told.contains("s3cret"), "{told}");
        }
    }

    #[test]
    fn a_token_of_two_accounts_is_refused_by_its_places_and_not_shown() {
        let account = |digit: u8, tokens: &str| {
            format!(
                "[[accounts]]\naws = {{ id = \"{}\" }}\ncloudflare = {{ id = \"{}\", tokens = [{tokens}] }}\n",
                digit.to_string().repeat(12),
                digit.to_string().repeat(32)
            )
        };
        let token = |text: &str| format!("{{ token = \"{text}\", permissions = [\"queues_read\"] }}");
        let text =
            [account(1, &token("s3cret")), account(2, &format!("{}, {}", token("other"), token("s3cret")))];
        let told = accounts(&text.concat()).expect_err("it means two accounts");
        assert!(
            told.contains("accounts[1].cloudflare.tokens[1].token = (hidden) stands there twice"),
            "{told}"
        );
        assert!(told.contains("accounts[0].cloudflare.tokens[0].token"), "{told}");
        assert!(!told.contains("s3cret"), "{told}");
        let apart = [account(1, &token("one")), account(2, &token("other"))];
        assert_eq!(accounts(&apart.concat()).map(|accounts| accounts.len()), Ok(2));
    }
}
