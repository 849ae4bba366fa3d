//! Which message attributes a receive wants back.

use crate::decode::{Names, Text, within};
use crate::error::WireError;

/// What is wanted: nothing, everything, or some names and beginnings of names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filter<'n, 'a> {
    names: &'n [Text<'a>],
    everything: bool,
}

impl<'n, 'a> Filter<'n, 'a> {
    /// Everything.
    pub(crate) const EVERYTHING: Self = Self { names: &[], everything: true };

    /// The filter these names describe. Names no attribute can have are no error: they match nothing.
    pub(crate) fn of(names: Option<&'n Names<'a>>) -> Result<Self, WireError> {
        let names = within("MessageAttributeNames", names)?;
        let everything = names.iter().any(|name| matches!(&**name, "All" | ".*" | "*"));
        Ok(Self { names, everything })
    }

    /// Whether it wants none, whatever there is.
    pub(crate) fn is_empty(&self) -> bool {
        self.names.is_empty() && !self.everything
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
        let names: Names<'_> = serde_json::from_str(names).expect("a JSON list is decoded into names");
        Filter::of(Some(&names)).expect("a single list of names is within the bound").wants(name)
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
}
