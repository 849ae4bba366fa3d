//! The URLs of a store: of its first database, which knows where the others are, or of all of them.

use std::fmt;

/// Where the databases of a store are. Not shown, since there may be passwords in it.
#[derive(Clone, PartialEq, Eq)]
pub struct Urls {
    first: String,
    /// The others, where they are given. What is given wins over what the first database says.
    others: Option<Vec<String>>,
}

impl Urls {
    /// All databases, in the order of their numbers; `None` without one.
    pub fn all(urls: impl IntoIterator<Item = String>) -> Option<Self> {
        let mut urls = urls.into_iter();
        Some(Self { first: urls.next()?, others: Some(urls.collect()) })
    }

    /// The URL of the first database.
    pub fn first(&self) -> &str {
        &self.first
    }

    /// All URLs, where they are given.
    pub fn given(&self) -> Option<Vec<&str>> {
        let others = self.others.as_ref()?;
        Some(std::iter::once(&self.first).chain(others).map(String::as_str).collect())
    }
}

impl From<&str> for Urls {
    fn from(first: &str) -> Self {
        Self { first: first.to_owned(), others: None }
    }
}

impl From<&String> for Urls {
    fn from(first: &String) -> Self {
        first.as_str().into()
    }
}

impl From<&Self> for Urls {
    fn from(urls: &Self) -> Self {
        urls.clone()
    }
}

impl fmt::Debug for Urls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Urls")
    }
}

/// A URL without its password, with all else that it says. Only what the client would take for a password is one.
pub(crate) fn without_password(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("postgres", url));
    let (who, place) = match rest.split_once('@') {
        Some((who, place)) => (who.split(':').next().map(|user| format!("{user}@")), place),
        None => (None, rest),
    };
    let (place, parameters) = place.split_once('?').unwrap_or((place, ""));
    let is_password = |parameter: &&str| parameter.split('=').next() == Some("password");
    let kept: Vec<&str> =
        parameters.split('&').filter(|each| !each.is_empty()).filter(|each| !is_password(each)).collect();
    let parameters = if kept.is_empty() { String::new() } else { format!("?{}", kept.join("&")) };
    format!("{scheme}://{}{place}{parameters}", who.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn password_is_taken_out_and_nothing_else() {
        for (url, without) in [
            ("postgres://kew@db/kew", "postgres://kew@db/kew"),
            ("postgres://kew:s3cret@db:5432,other/kew", "postgres://kew@db:5432,other/kew"),
            ("postgres://kew:s3cr?et@db/kew?sslmode=require", "postgres://kew@db/kew?sslmode=require"),
            ("postgresql://db/kew?password=secret", "postgresql://db/kew"),
            (
                "postgres://u:p@db/kew?connect_timeout=3&password=a%40b&sslrootcert=%2Fca.pem",
                "postgres://u@db/kew?connect_timeout=3&sslrootcert=%2Fca.pem",
            ),
            ("postgres://:secret@db/kew", "postgres://@db/kew"),
        ] {
            assert_eq!(without_password(url), without);
        }
    }

    #[test]
    fn first_url_alone_gives_no_list_and_all_of_them_do() {
        assert_eq!(Urls::from("a").given(), None);
        let all = Urls::all(["a".to_owned(), "b".to_owned()]);
        let all = all.expect("two URLs are a list");
        assert_eq!((all.first(), all.given()), ("a", Some(vec!["a", "b"])));
        assert!(Urls::all([]).is_none());
    }
}
