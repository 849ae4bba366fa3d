//! Which message attributes a receive wants back.

use crate::decode::{Bounded, Text};
use crate::error::{Code, WireError};

/// Names in one request: our own bound. No message has more than ten attributes.
const NAMES_MAX: usize = 1_000;

/// The names as they come.
pub(crate) type Names<'a> = Bounded<Text<'a>, NAMES_MAX>;

/// Refuses a list beyond the bound.
pub(crate) fn within<'n, 'a>(
    member: &str,
    names: Option<&'n Names<'a>>,
) -> Result<&'n [Text<'a>], WireError> {
    match names {
        Some(names) if names.count > NAMES_MAX => {
            let text = format!("{member} holds {} names; at most {NAMES_MAX} are allowed.", names.count);
            Err(WireError::new(Code::InvalidParameterValue).saying(text))
        }
        Some(names) => Ok(&names.kept),
        None => Ok(&[]),
    }
}

/// What is wanted: nothing, everything, or some names and beginnings of names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filter<'n, 'a> {
    names: &'n [Text<'a>],
    everything: bool,
}

impl<'n, 'a> Filter<'n, 'a> {
    /// The filter these names describe. Names no attribute can have are no error: they match nothing.
    pub(crate) fn of(names: Option<&'n Names<'a>>) -> Result<Self, WireError> {
        let names = within("MessageAttributeNames", names)?;
        let everything = names.iter().any(|name| matches!(&**name, "All" | ".*" | "*"));
        Ok(Self { names, everything })
    }

    /// Whether it wants none, whatever there is.
    pub(crate) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Whether it wants this one.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.everything || self.names.iter().any(|wanted| matches(wanted, name))
    }
}

/// `prefix.*` is every name that begins with `prefix`, whether a period follows there or not.
fn matches(wanted: &str, name: &str) -> bool {
    wanted.strip_suffix(".*").map_or(wanted == name, |prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(names: &str, name: &str) -> bool {
        let names: Names<'_> = serde_json::from_str(names).expect("it is a list");
        Filter::of(Some(&names)).expect("it is within the bound").wants(name)
    }

    #[test]
    fn all_has_three_spellings_and_a_prefix_needs_no_period() {
        // [rec] spec 7a: All, .* and * are everything; Hel.* matches Hello and Help.Me.
        for (names, name, is_wanted) in [
            (r#"["All"]"#, "x", true),
            (r#"[".*"]"#, "x", true),
            (r#"["*"]"#, "x", true),
            ("[]", "x", false),
            (r#"["x"]"#, "x", true),
            (r#"["x"]"#, "X", false),
            (r#"["x"]"#, "xy", false),
            (r#"["Hel.*"]"#, "Hello", true),
            (r#"["Hel.*"]"#, "Help.Me", true),
            (r#"["Hel.*"]"#, "hello", false),
            (r#"["all"]"#, "x", false),
            (r#"["AWS.", "..foo", "", "AWS.*"]"#, "x", false),
            (r#"["a", "x"]"#, "x", true),
        ] {
            assert_eq!(wanted(names, name), is_wanted, "{names} {name}");
        }
    }

    #[test]
    fn more_names_than_the_bound_are_refused() {
        let list = |count: usize| format!("[{}]", vec!["\"a\""; count].join(","));
        let filter = |json: &str| {
            let names: Names<'_> = serde_json::from_str(json).expect("it is a list");
            Filter::of(Some(&names)).map(|_| ())
        };
        assert_eq!(filter(&list(NAMES_MAX)), Ok(()));
        assert!(filter(&list(NAMES_MAX + 1)).is_err());
    }
}
