//! Who asks, and what they may: API tokens.
//!
//! In open mode everybody may do everything, whatever account and token they name. In strict mode a request carries a
//! token of the account in its path: as a bearer token, or in the place of the older pair of address and key.

use std::sync::Arc;

use kew_core::AccountId;
use kew_http::{Request, secret};

use crate::Settings;
use crate::error::{Code, WireError};
use crate::route::{Need, Route};

/// An account, as Cloudflare's clients know it.
#[derive(Clone, Debug)]
pub struct Account {
    /// Its number everywhere.
    pub id: AccountId,
    /// Its 32 hex digits, in lower case.
    pub name: Arc<str>,
    /// What lets its holders do something.
    pub tokens: Vec<Token>,
}

/// A token and what it allows.
#[derive(Clone)]
pub struct Token {
    /// The token.
    pub secret: Arc<str>,
    /// What it allows.
    pub permissions: Permissions,
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Token").field("permissions", &self.permissions).finish_non_exhaustive()
    }
}

/// What a token allows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Permissions {
    /// To see queues and their messages.
    pub read: bool,
    /// To change queues and to publish.
    pub write: bool,
}

impl Permissions {
    /// Everything.
    pub const ALL: Self = Self { read: true, write: true };

    fn cover(self, need: Need) -> bool {
        match need {
            Need::Token => true,
            Need::Read => self.read,
            Need::Write => self.write,
            Need::Both => self.read && self.write,
        }
    }
}

/// Who is believed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trust {
    /// Everybody.
    Open,
    /// Clients with a token of the account.
    Strict,
}

/// Every client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller<'a> {
    pub(crate) account: AccountId,
    /// The account's 32 hex digits.
    pub(crate) name: &'a str,
}

/// The account of open mode.
const DEFAULT: Caller<'static> = Caller { account: AccountId(0), name: "00000000000000000000000000000000" };

/// Tells who asks, and refuses who may not.
pub(crate) fn check<'a>(
    settings: &'a Settings,
    route: &Route<'_>,
    request: &Request,
) -> Result<Caller<'a>, WireError> {
    if settings.trust == Trust::Open {
        return Ok(DEFAULT);
    }
    let given = given(request)?.ok_or(Code::Authentication)?;
    let (account, permissions) = holder(settings, given).ok_or(Code::Authentication)?;
    if route.account.is_some_and(|named| !named.eq_ignore_ascii_case(&account.name)) {
        return Err(Code::Authentication.into());
    }
    if !permissions.cover(route.operation.need()) {
        let code =
            if route.operation.is_about_messages() { Code::NotAuthorized } else { Code::Authentication };
        return Err(code.into());
    }
    Ok(Caller { account: account.id, name: &account.name })
}

/// Tells who asks about Workers. A token has to be shown even where everybody is let in: a page of another program
/// could not.
pub(crate) fn check_script<'a>(
    settings: &'a Settings,
    account: &str,
    need: Need,
    request: &Request,
) -> Result<Caller<'a>, WireError> {
    let given = given(request)?.ok_or(Code::Authentication)?;
    if settings.trust == Trust::Open {
        return Ok(DEFAULT);
    }
    let (found, permissions) = holder(settings, given).ok_or(Code::Authentication)?;
    if !account.eq_ignore_ascii_case(&found.name) || !permissions.cover(need) {
        return Err(Code::Authentication.into());
    }
    Ok(Caller { account: found.id, name: &found.name })
}

/// Who publishes through a binding: a Worker that this server runs, for the account it says, or any client that may
/// publish.
pub(crate) fn check_binding<'a>(settings: &'a Settings, request: &Request) -> Result<Caller<'a>, WireError> {
    if settings.trust == Trust::Open {
        return Ok(DEFAULT);
    }
    let inner = settings.inner_token.as_deref();
    if let Some(shown) = request.header("x-kew-token") {
        let is_inner = inner.is_some_and(|inner| secret::is_same_text(inner, shown));
        let named = request.header("x-kew-account").unwrap_or(DEFAULT.name);
        let account = settings.accounts.iter().find(|account| account.name.eq_ignore_ascii_case(named));
        let account = account.filter(|_| is_inner).ok_or(Code::NotAuthorized)?;
        return Ok(Caller { account: account.id, name: &account.name });
    }
    let holder = given(request)?.and_then(|given| holder(settings, given));
    let (account, _) =
        holder.filter(|(_, permissions)| permissions.cover(Need::Write)).ok_or(Code::NotAuthorized)?;
    Ok(Caller { account: account.id, name: &account.name })
}

/// The token a request shows.
fn given(request: &Request) -> Result<Option<&str>, WireError> {
    if let Some(value) = request.headers.get("authorization") {
        let malformed = || {
            WireError::new(Code::InvalidHeaders).caused_by(6_111, "Invalid format for Authorization header")
        };
        let (scheme, token) =
            value.text().and_then(|text| text.trim().split_once(' ')).ok_or_else(malformed)?;
        let token = token.trim();
        let is_token = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
        if !scheme.eq_ignore_ascii_case("bearer") || !is_token {
            return Err(malformed());
        }
        return Ok(Some(token));
    }
    let has_address = request.header("x-auth-email").is_some_and(|address| !address.is_empty());
    Ok(request.header("x-auth-key").filter(|_| has_address))
}

/// Whose token it is. All are compared, whatever is found.
fn holder<'a>(settings: &'a Settings, given: &str) -> Option<(&'a Account, Permissions)> {
    let mut found = None;
    for account in &settings.accounts {
        for token in &account.tokens {
            if secret::is_same_text(&token.secret, given) {
                found = Some((account, token.permissions));
            }
        }
    }
    found
}
