//! `[[admin.users]]`: people who may use the admin API with a password. Only the file can hold them.

use kew_console::{Role, User, UserError};
use toml::Value;

use super::accounts::{Entry, entries};
use super::error::ConfigError;

/// Where they stand in the file.
pub(super) const SECTION: &str = "admin";
/// The key there.
pub(super) const KEY: &str = "users";
const PLACE: &str = "admin.users";

/// Reads them.
pub(super) fn read(value: &Value) -> Result<Vec<User>, ConfigError> {
    let list = value.as_array();
    let list = list.ok_or_else(|| ConfigError::new(format!("{PLACE} must be written as [[{PLACE}]]")))?;
    let users: Vec<User> = entries(list, PLACE).map(|entry| user(&entry?)).collect::<Result<_, _>>()?;
    for (number, one) in users.iter().enumerate() {
        if users.iter().take(number).any(|other| other.name() == one.name()) {
            let name = one.name();
            return Err(ConfigError::new(format!(
                "{PLACE} name = {name:?} stands there twice, and must be unique"
            )));
        }
    }
    Ok(users)
}

fn user(entry: &Entry<'_>) -> Result<User, ConfigError> {
    entry.only(&["name", "password_hash", "role"])?;
    let name = entry.text("name", "a text", |text| Some(text.to_owned()))?;
    let hash = entry.text("password_hash", "what `kew admin hash` prints", |text| Some(text.to_owned()))?;
    let role = entry.text("role", "read-only or operator", |text| {
        Role::ALL.into_iter().find(|role| role.name() == text)
    })?;
    User::new(&name, &hash, role).map_err(|error| {
        entry.not_allowed(match error {
            UserError::Name => "name must be 1 to 64 letters, digits and ._-@+",
            UserError::Hash => {
                "password_hash must be what `kew admin hash` prints, an Argon2 hash of bounded cost"
            }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn users(text: &str) -> Result<Vec<User>, String> {
        let table: toml::Table = text.parse().expect("the text is TOML");
        let value = table.get(SECTION).and_then(|admin| admin.get(KEY)).expect("the text has users");
        read(value).map_err(|error| error.to_string())
    }

    #[test]
    fn users_have_a_name_a_hash_and_a_role() {
        let hash = kew_console::hash_password(b"secret", 1).expect("the password has an allowed length");
        let entry = |name: &str, hash: &str, role: &str| {
            format!("[[admin.users]]\nname = \"{name}\"\npassword_hash = \"{hash}\"\nrole = \"{role}\"\n")
        };
        let (anna, bert) = (entry("anna", &hash, "operator"), entry("bert", &hash, "read-only"));
        let found = users(&format!("{anna}{bert}")).expect("both users are valid");
        let found: Vec<(&str, Role)> = found.iter().map(|user| (user.name(), user.role())).collect();
        assert_eq!(found, [("anna", Role::Operator), ("bert", Role::ReadOnly)]);
        for (text, expected) in [
            (format!("{anna}{anna}"), "stands there twice"),
            (entry("", &hash, "operator"), "admin.users[0]: name must be"),
            (entry("anna", "s3cret", "operator"), "admin.users[0]: password_hash must be"),
            (entry("anna", &hash, "boss"), "must be read-only or operator"),
            ("[[admin.users]]\nname = \"anna\"\n".to_owned(), "has no password_hash"),
            ("[[admin.users]]\npassword = \"s3cret\"\n".to_owned(), "password = (hidden) is not a known key"),
            ("[admin]\nusers = \"s3cret\"\n".to_owned(), "must be written as [[admin.users]]"),
        ] {
            let told = users(&text).expect_err(&text);
            assert!(told.contains(expected) && !told.contains("s3cret"), "{told}");
        }
    }
}
