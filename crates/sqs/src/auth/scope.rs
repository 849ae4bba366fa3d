//! The scope of a signature: `<access key>/<date>/<region>/<service>/aws4_request`.

/// A service that requests are signed for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Service {
    /// The queues.
    Sqs,
    /// Who the caller is, which tools ask before they begin.
    Sts,
}

impl Service {
    /// Its name in a scope.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Sqs => "sqs",
            Self::Sts => "sts",
        }
    }
}

/// What the credential of a request names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Scope<'a> {
    pub(super) key: &'a str,
    /// `YYYYMMDD`.
    pub(super) date: &'a str,
    pub(super) region: &'a str,
    pub(super) service: &'a str,
    pub(super) terminator: &'a str,
}

impl<'a> Scope<'a> {
    /// Reads a credential, from its end: an access key may hold slashes.
    pub(super) fn read(credential: &'a str) -> Option<Self> {
        let (rest, terminator) = cut(credential)?;
        let (rest, service) = cut(rest)?;
        let (rest, region) = cut(rest)?;
        let (key, date) = cut(rest)?;
        Some(Self { key, date, region, service, terminator })
    }
}

/// Whether a credential is one of this region, by its end alone: most are.
pub(super) fn is_within(credential: &str, region: &str) -> bool {
    let rest = credential.strip_suffix("/sqs/aws4_request").and_then(|rest| rest.strip_suffix(region));
    rest.is_some_and(|rest| rest.ends_with('/'))
}

/// What stands before and behind the last slash.
fn cut(text: &str) -> Option<(&str, &str)> {
    let slash = memchr::memrchr(b'/', text.as_bytes())?;
    Some((&text[..slash], &text[slash + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_are_read_from_their_end() {
        let scope = Scope::read("A/B/20260101/eu-west-3/sqs/aws4_request")
            .expect("a scope with all its parts is read");
        assert_eq!((scope.key, scope.date, scope.region), ("A/B", "20260101", "eu-west-3"));
        assert_eq!((scope.service, scope.terminator), ("sqs", "aws4_request"));
        for short in ["", "AKID", "20260101/eu-west-3/sqs/aws4_request"] {
            assert_eq!(Scope::read(short), None, "{short}");
        }
    }

    #[test]
    fn a_region_is_known_by_the_end_of_a_credential() {
        for (credential, is_within_it) in [
            ("AKID/20260101/r-1/sqs/aws4_request", true),
            ("AKID/20260101/xr-1/sqs/aws4_request", false),
            ("AKID/20260101/r-1/sqs/aws4_request/", false),
            ("AKID/20260101/r-1/sns/aws4_request", false),
            ("r-1/sqs/aws4_request", false),
            ("", false),
        ] {
            assert_eq!(is_within(credential, "r-1"), is_within_it, "{credential}");
        }
    }
}
