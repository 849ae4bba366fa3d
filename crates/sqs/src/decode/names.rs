//! Lists of names: of attributes that are wanted, of tags that go.

use super::{Bounded, Text};
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_names_than_the_bound_are_refused() {
        let list = |count: usize| format!("[{}]", vec!["\"a\""; count].join(","));
        let kept = |json: &str| {
            let names: Names<'_> = serde_json::from_str(json).expect("a JSON list is decoded into names");
            within("Names", Some(&names)).map(<[_]>::len)
        };
        assert_eq!(kept(&list(NAMES_MAX)), Ok(NAMES_MAX));
        assert!(kept(&list(NAMES_MAX + 1)).is_err());
        assert_eq!(within("Names", None).map(<[_]>::len), Ok(0));
    }
}
