//! Query parameters: names without case, values decoded, in the order they were sent.

use std::borrow::Cow;

use kew_http::form;

use crate::error::{Code, WireError};

/// More than any request of this service has.
const PAIRS_MAX: usize = 100;

/// The parameters of a request.
#[derive(Debug)]
pub(crate) struct Params<'a> {
    /// Names in lower case.
    pairs: Vec<(String, Cow<'a, str>)>,
}

impl<'a> Params<'a> {
    /// Reads a query string.
    pub(crate) fn read(query: &'a str) -> Result<Self, WireError> {
        let pairs = form::pairs(query.as_bytes(), PAIRS_MAX).map_err(|_| WireError::new(Code::InvalidUri))?;
        let lower = |(name, value): (Cow<'a, str>, Cow<'a, str>)| (name.to_ascii_lowercase(), value);
        Ok(Self { pairs: pairs.into_iter().map(lower).collect() })
    }

    /// The first value of this name.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.pairs.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_ref())
    }

    /// The first value of this name, unless it is empty.
    pub(crate) fn filled(&self, name: &str) -> Option<&str> {
        self.text(name).filter(|value| !value.is_empty())
    }

    /// How often this name was given.
    pub(crate) fn count(&self, name: &str) -> usize {
        self.pairs.iter().filter(|(found, _)| found == name).count()
    }

    /// All of them, sorted by name, the values of equal names sorted too.
    pub(crate) fn sorted(&self) -> Vec<(&str, &str)> {
        let mut sorted: Vec<(&str, &str)> =
            self.pairs.iter().map(|(name, value)| (name.as_str(), value.as_ref())).collect();
        sorted.sort_unstable();
        sorted
    }

    /// A whole number, if one was given.
    pub(crate) fn integer(&self, name: &'static str) -> Result<Option<i128>, WireError> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let number = text.parse().map_err(|_| {
            WireError::bad_parameter(name, text, "Failed to parse the parameter as a whole number.")
        })?;
        Ok(Some(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_no_case_and_values_are_decoded() {
        let params = Params::read("PeekOnly=TRUE&popreceipt=a%2Bb%3D&x&comp=")
            .expect("a query within the bounds is read");
        assert_eq!(params.text("peekonly"), Some("TRUE"));
        assert_eq!(params.text("popreceipt"), Some("a+b="));
        assert_eq!((params.text("comp"), params.filled("comp")), (Some(""), None));
        assert_eq!(params.sorted()[0], ("comp", ""));
    }

    #[test]
    fn what_is_no_number_is_refused() {
        let params = Params::read("a=1&b=-7&c=x&d=").expect("a query within the bounds is read");
        assert_eq!(params.integer("a"), Ok(Some(1)));
        assert_eq!(params.integer("b"), Ok(Some(-7)));
        assert_eq!(params.integer("e"), Ok(None));
        assert!(params.integer("c").is_err() && params.integer("d").is_err());
    }
}
