//! People who may use the admin API: names, hashes of passwords, roles; and how a password is checked.
//!
//! A check takes tens of milliseconds of a processor and megabytes of memory on purpose, so few run at once, on
//! threads that may be busy, and a name that does not exist costs as much as a wrong password.

use std::fmt;
use std::sync::Arc;

use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{CustomizedPasswordHasher, PasswordVerifier};
use argon2::{Algorithm, Argon2, Params, Version};
use tokio::sync::Semaphore;

/// Passwords that are checked at the same time.
const CHECKS_MAX: usize = 2;
/// Further checks that wait for those; more are refused.
const WAITING_MAX: usize = 16;
/// Characters of a user's name.
const NAME_MAX: usize = 64;
/// The longest password, in bytes.
pub(crate) const PASSWORD_BYTES_MAX: usize = 1_024;
/// Bounds of what one check may cost: memory in KiB, passes, lanes.
const COST_MAX: (u32, u32, u32) = (256 << 10, 16, 16);
/// Cost of new hashes: 19 MiB, two passes, one lane (what OWASP recommends for Argon2id).
const COST: (u32, u32, u32) = (19 << 10, 2, 1);
/// Bytes of salt.
const SALT_BYTES: usize = 16;

/// What a user may do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Role {
    /// See everything, change nothing.
    ReadOnly,
    /// See and change everything.
    Operator,
}

impl Role {
    /// Both of them.
    pub const ALL: [Self; 2] = [Self::ReadOnly, Self::Operator];

    /// Its name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::ReadOnly => "read-only",
            Self::Operator => "operator",
        }
    }
}

/// A person with a password.
#[derive(Clone)]
pub struct User {
    name: Arc<str>,
    /// In the form of a PHC string that can be checked within the bounds of cost.
    hash: Arc<str>,
    role: Role,
}

/// Why there can be no such user.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UserError {
    /// The name is empty, too long, or has characters that no log line should have.
    Name,
    /// The hash is no Argon2 hash, or one whose check costs too much.
    Hash,
}

impl User {
    /// A user with this name, the Argon2 hash of a password in PHC form, and a role.
    pub fn new(name: &str, hash: &str, role: Role) -> Result<Self, UserError> {
        let is_plain = |character: char| character.is_alphanumeric() || "._-@+".contains(character);
        if !(1..=NAME_MAX).contains(&name.chars().count()) || !name.chars().all(is_plain) {
            return Err(UserError::Name);
        }
        let parsed = PasswordHash::new(hash).map_err(|_| UserError::Hash)?;
        let params = Params::try_from(&parsed).map_err(|_| UserError::Hash)?;
        let cost = (params.m_cost(), params.t_cost(), params.p_cost());
        let is_bounded = cost.0 <= COST_MAX.0 && cost.1 <= COST_MAX.1 && cost.2 <= COST_MAX.2;
        let is_argon = parsed.algorithm.as_str().starts_with("argon2") && parsed.hash.is_some();
        if !is_bounded || !is_argon || parsed.salt.is_none() {
            return Err(UserError::Hash);
        }
        Ok(Self { name: name.into(), hash: hash.into(), role })
    }

    /// The user's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The user's role.
    pub fn role(&self) -> Role {
        self.role
    }
}

impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("User").field("name", &self.name).field("role", &self.role).finish_non_exhaustive()
    }
}

/// The hash of a password, as [`User::new`] takes it. `chance` is 128 unpredictable bits.
pub fn hash(password: &[u8], chance: u128) -> Result<String, String> {
    if password.is_empty() || password.len() > PASSWORD_BYTES_MAX {
        return Err(format!("a password has 1 to {PASSWORD_BYTES_MAX} bytes"));
    }
    let salt: [u8; SALT_BYTES] = chance.to_ne_bytes();
    let params = params(COST);
    let argon2 = Argon2::default();
    let hashed = argon2.hash_password_customized(password, &salt, None, None, params);
    hashed.map(|hash| hash.to_string()).map_err(|error| error.to_string())
}

fn params((memory, passes, lanes): (u32, u32, u32)) -> Params {
    Params::new(memory, passes, lanes, None).expect("the cost of new hashes is within Argon2's bounds")
}

/// Checks passwords, a few at a time.
pub(crate) struct Passwords {
    users: Arc<[User]>,
    turns: Arc<Semaphore>,
    /// Checks that run or wait.
    places: Arc<Semaphore>,
}

/// What a password showed.
pub(crate) enum Checked {
    Right(User),
    Wrong,
    /// Too many are being checked.
    Busy,
}

impl Passwords {
    pub(crate) fn new(users: Arc<[User]>) -> Self {
        let turns = Arc::new(Semaphore::new(CHECKS_MAX));
        Self { users, turns, places: Arc::new(Semaphore::new(CHECKS_MAX + WAITING_MAX)) }
    }

    pub(crate) fn has_users(&self) -> bool {
        !self.users.is_empty()
    }

    pub(crate) fn knows(&self, name: &str) -> bool {
        self.users.iter().any(|user| user.name() == name)
    }

    /// Whether this is the password of the user of this name, checked on a thread that may be busy.
    pub(crate) async fn check(&self, name: &str, password: &str) -> Checked {
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else { return Checked::Busy };
        let Ok(turn) = Arc::clone(&self.turns).acquire_owned().await else { return Checked::Busy };
        let user = self.users.iter().find(|user| user.name() == name).cloned();
        // Somebody else's hash costs what the missing one would; its result does not count.
        let hash = user.as_ref().or(self.users.first()).map(|user| Arc::clone(&user.hash));
        let password = password.to_owned();
        let checked = tokio::task::spawn_blocking(move || {
            let is_right = hash.is_some_and(|hash| is_of(&hash, password.as_bytes()));
            drop((turn, place));
            is_right
        });
        match (checked.await, user) {
            (Ok(true), Some(user)) => Checked::Right(user),
            (Ok(_), _) => Checked::Wrong,
            (Err(_), _) => Checked::Busy,
        }
    }
}

fn is_of(hash: &str, password: &[u8]) -> bool {
    let argon2 = Argon2::new(Algorithm::default(), Version::default(), params(COST));
    PasswordHash::new(hash).is_ok_and(|parsed| argon2.verify_password(password, &parsed).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_of_its_password_only() {
        let hash = hash(b"correct horse", 7).expect("the password has an allowed length");
        assert!(hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{hash}");
        assert!(is_of(&hash, b"correct horse"));
        assert!(!is_of(&hash, b"correct hors") && !is_of(&hash, b""));
        assert!(User::new("anna", &hash, Role::Operator).is_ok());
        assert!(super::hash(b"", 7).is_err() && super::hash(&[b'a'; 1_025], 7).is_err());
    }

    #[test]
    fn names_and_hashes_are_checked() {
        let hash = hash(b"secret", 7).expect("the password has an allowed length");
        for name in ["", "a b", "a\nb", &"a".repeat(65), "<b>"] {
            assert_eq!(User::new(name, &hash, Role::Operator).err(), Some(UserError::Name), "{name}");
        }
        for hash in [
            "",
            "secret",
            "$2b$10$abcdefghijklmnopqrstuv",
            "$argon2id$v=19$m=1048576,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
            "$argon2id$v=19$m=19456,t=99,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
            "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA",
        ] {
            assert_eq!(User::new("anna", hash, Role::Operator).err(), Some(UserError::Hash), "{hash}");
        }
    }
}
