//! Connections: which setting a binding's `connection` means, and the endpoint it names.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kew_azure::client::{Credential, Endpoint};

use super::app_settings::AppSettings;

const PREFIX: &str = "AzureWebJobs";
const STORAGE: &str = "Storage";

/// An account as its functions reach it. Bindings that name the same connection share one.
#[derive(Debug)]
pub(crate) struct Account {
    pub(crate) endpoint: Endpoint,
    /// The setting it came from, for messages.
    pub(crate) setting: String,
    /// Where its bearer token comes from, if it needs one.
    pub(crate) token: Option<Token>,
    /// Whether Kew answered here: then a request may wait at the server.
    of_kew: AtomicBool,
}

/// Where a bearer token comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Token {
    /// A setting.
    Given(String),
    /// A file, read for each request, since tokens are renewed.
    File(PathBuf),
}

impl Account {
    pub(crate) fn new(endpoint: Endpoint, setting: String, token: Option<Token>) -> Arc<Self> {
        Arc::new(Self { endpoint, setting, token, of_kew: AtomicBool::new(false) })
    }

    pub(crate) fn is_of_kew(&self) -> bool {
        self.of_kew.load(Ordering::Relaxed)
    }

    pub(crate) fn note_server(&self, is_kew: bool) {
        self.of_kew.store(is_kew, Ordering::Relaxed);
    }
}

/// Everything that binding-time needs to find accounts.
pub(crate) struct Connections<'a> {
    settings: &'a AppSettings,
    known: Vec<(String, Arc<Account>)>,
}

impl<'a> Connections<'a> {
    pub(crate) fn new(settings: &'a AppSettings) -> Self {
        Self { settings, known: Vec::new() }
    }

    /// The account that a binding's `connection` names.
    pub(crate) fn find(&mut self, connection: Option<&str>) -> Result<Arc<Account>, String> {
        let name = connection.map(str::trim).filter(|name| !name.is_empty()).unwrap_or(STORAGE);
        let short = strip_prefix(name);
        let known = self.known.iter().find(|(known, _)| known.eq_ignore_ascii_case(short));
        if let Some((_, account)) = known {
            return Ok(Arc::clone(account));
        }
        let account = self.look_up(short)?;
        self.known.push((short.to_owned(), Arc::clone(&account)));
        Ok(account)
    }

    fn look_up(&self, name: &str) -> Result<Arc<Account>, String> {
        let names = [format!("{PREFIX}{name}"), name.to_owned()];
        for setting in &names {
            if let Some(text) = self.settings.connection(setting) {
                let endpoint = Endpoint::from_connection_string(text).map_err(|fault| {
                    format!("The app setting '{setting}' is no connection string: {fault}.")
                })?;
                return Ok(Account::new(endpoint, setting.clone(), None));
            }
        }
        for setting in &names {
            if let Some(account) = self.of_identity(setting)? {
                return Ok(account);
            }
        }
        let [setting, _] = names;
        Err(format!(
            "Storage account connection string '{setting}' does not exist. Make sure that it is a defined App Setting."
        ))
    }

    /// A section that names an account whose identity service would let us in: here a token does.
    fn of_identity(&self, setting: &str) -> Result<Option<Arc<Account>>, String> {
        let part = |key: &str| self.settings.get(&format!("{setting}:{key}"));
        let address = match (part("accountName"), part("queueServiceUri").or_else(|| part("serviceUri"))) {
            (Some(account), _) => format!("https://{account}.queue.core.windows.net"),
            (None, Some(address)) => address.to_owned(),
            (None, None) => return Ok(None),
        };
        let endpoint = Endpoint::new(&address, "", Credential::Token)
            .ok_or_else(|| format!("'{address}' of '{setting}' is no address beginning with https://."))?;
        if !endpoint.is_secure() {
            return Err(format!(
                "'{address}' of '{setting}' must begin with https://: a bearer token is sent there."
            ));
        }
        let token = match (part("token"), part("tokenFile")) {
            (Some(token), _) => Token::Given(token.to_owned()),
            (None, Some(file)) => Token::File(PathBuf::from(file)),
            (None, None) => {
                return Err(format!(
                    "The connection '{setting}' has no connection string, so a bearer token is needed: set '{setting}__tokenFile' to a file that holds one, or '{setting}__token' to the token. Signing in by '{setting}__credential' is not supported."
                ));
            }
        };
        Ok(Some(Account::new(endpoint, setting.to_owned(), Some(token))))
    }
}

fn strip_prefix(name: &str) -> &str {
    match name.split_at_checked(PREFIX.len()) {
        Some((prefix, rest)) if prefix.eq_ignore_ascii_case(PREFIX) && !rest.is_empty() => rest,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(settings: &[(&str, &str)], connection: Option<&str>) -> Result<String, String> {
        let mut known = AppSettings::default();
        for (name, value) in settings {
            known.insert(name, value);
        }
        let account = Connections::new(&known).find(connection)?;
        Ok(format!("{} {}", account.setting, account.endpoint.base()))
    }

    const STRING: &str = "AccountName=acc;AccountKey=a2V5;QueueEndpoint=http://h/acc";
    const OTHER: &str = "AccountName=acc;AccountKey=a2V5;QueueEndpoint=http://other/acc";

    #[test]
    fn no_name_means_the_usual_storage() {
        let settings = [("AzureWebJobsStorage", STRING)];
        for connection in
            [None, Some(""), Some("Storage"), Some("AzureWebJobsStorage"), Some("azurewebjobsSTORAGE")]
        {
            assert!(find(&settings, connection).is_ok(), "{connection:?}");
        }
    }

    #[test]
    fn the_prefixed_name_comes_first_then_the_name_then_sections() {
        let both = [("AzureWebJobsMine", STRING), ("Mine", OTHER)];
        assert_eq!(find(&both, Some("Mine")).as_deref(), Ok("AzureWebJobsMine http://h/acc"));
        assert_eq!(find(&both[1..], Some("Mine")).as_deref(), Ok("Mine http://other/acc"));
        let string = [("ConnectionStrings:Mine", OTHER)];
        assert_eq!(find(&string, Some("Mine")).as_deref(), Ok("Mine http://other/acc"));
        let section = [("Mine__queueServiceUri", "https://q.example"), ("Mine__token", "t")];
        assert_eq!(find(&section, Some("Mine")).as_deref(), Ok("Mine https://q.example"));
        let named =
            [("Mine__accountName", "acc"), ("Mine__serviceUri", "https://x"), ("Mine__tokenFile", "f")];
        assert_eq!(find(&named, Some("Mine")).as_deref(), Ok("Mine https://acc.queue.core.windows.net"));
        let plain = [named[0], named[2], ("Mine", OTHER)];
        assert_eq!(find(&plain, Some("Mine")).as_deref(), Ok("Mine http://other/acc"));
    }

    #[test]
    fn a_missing_setting_is_reported_in_the_documented_words() {
        assert_eq!(
            find(&[], None),
            Err("Storage account connection string 'AzureWebJobsStorage' does not exist. Make sure that it is a defined App Setting.".to_owned())
        );
        assert!(find(&[], Some("Mine")).is_err_and(|error| error.contains("'AzureWebJobsMine'")));
        let told = |settings: &[(&str, &str)]| find(settings, None).expect_err("it is wrong");
        assert!(told(&[("AzureWebJobsStorage", "nonsense")]).contains("is no connection string"));
        assert!(
            told(&[("AzureWebJobsStorage__accountName", "a")]).contains("AzureWebJobsStorage__tokenFile")
        );
        let plain = [
            ("AzureWebJobsStorage__serviceUri", "http://127.0.0.1:1/a"),
            ("AzureWebJobsStorage__token", "t"),
        ];
        assert!(told(&plain).contains("must begin with https://"));
    }
}
