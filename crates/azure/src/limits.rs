//! The service's own limits, each by the name it is published under.

use std::time::Duration;

use kew_core::Expiry;
use kew_http::Request;

use crate::error::{Code, WireError};
use crate::params::Params;

/// Asks Kew to hold a Get Messages; servers that do not know it answer at once. It is not signed, since its name does
/// not begin with `x-ms-`.
pub const WAIT_HEADER: &str = "x-kew-wait";

/// A whole number with bounds, in a query parameter.
pub(crate) struct IntegerRange {
    name: &'static str,
    min: i64,
    max: i64,
}

impl IntegerRange {
    /// The number, if one was given and it is within the bounds.
    pub(crate) fn read(&self, params: &Params<'_>) -> Result<Option<u32>, WireError> {
        let Some(number) = params.integer(self.name)? else { return Ok(None) };
        if number < i128::from(self.min) || number > i128::from(self.max) {
            return Err(WireError::out_of_range(self.name, number, self.min, self.max));
        }
        Ok(u32::try_from(number).ok())
    }

    /// The same as whole seconds.
    pub(crate) fn seconds(&self, params: &Params<'_>) -> Result<Option<Duration>, WireError> {
        Ok(self.read(params)?.map(|seconds| Duration::from_secs(u64::from(seconds))))
    }
}

const WEEK_SECONDS: i64 = 604_800;

/// The longest a Get Messages is held.
const WAIT_MAX: Duration = Duration::from_secs(20);

/// Messages of one Get Messages or Peek Messages.
pub(crate) const NUM_OF_MESSAGES: IntegerRange = IntegerRange { name: "numofmessages", min: 1, max: 32 };
/// How long Get Messages hides what it returns.
pub(crate) const GET_VISIBILITY: IntegerRange =
    IntegerRange { name: "visibilitytimeout", min: 1, max: WEEK_SECONDS };
/// How long Put Message and Update Message hide a message.
pub(crate) const PUT_VISIBILITY: IntegerRange =
    IntegerRange { name: "visibilitytimeout", min: 0, max: WEEK_SECONDS };
/// Queues of one page of List Queues; more than a page holds is asked for in vain.
pub(crate) const MAX_RESULTS: IntegerRange =
    IntegerRange { name: "maxresults", min: 1, max: i32::MAX as i64 };
/// Queues a page holds.
pub(crate) const PAGE: u32 = 5_000;

/// How long Get Messages hides what it returns when it does not say.
pub(crate) const GET_VISIBILITY_DEFAULT: Duration = Duration::from_secs(30);
/// How long a message is kept that does not say.
pub(crate) const TIME_TO_LIVE_DEFAULT: u32 = 604_800;
/// How long from now a key that stands in for an account's may hold.
pub(crate) const DELEGATION_KEY_MAX: Duration = Duration::from_secs(604_800);
/// Bytes of a message's text, after XML is decoded.
pub(crate) const TEXT_BYTES: usize = 65_536;
/// Bytes of a request's body: every character of the longest text escaped, and what is around it.
pub(crate) const BODY_BYTES: usize = 6 * TEXT_BYTES + 1_024;
/// Bytes of bodies in one reply; the first message always fits.
pub(crate) const REPLY_BODY_BYTES: u64 = 8 << 20;
/// Room that is kept for messages that are peeked at until their reply is made.
pub(crate) const PEEKED_BYTES: usize = 1 << 20;
/// Bytes of all names and values of a queue's metadata.
pub(crate) const METADATA_BYTES: usize = 8 << 10;
/// Stored access policies of a queue.
pub(crate) const POLICIES: usize = 5;
/// Characters of a stored access policy's id.
pub(crate) const POLICY_ID_CHARACTERS: usize = 64;
/// Rules of a service's CORS settings.
pub(crate) const CORS_RULES: usize = 5;
/// Days logs and metrics are kept.
pub(crate) const RETENTION_DAYS: std::ops::RangeInclusive<u32> = 1..=365;

/// A message's time to live: `-1` is for ever, and so is what ends after the year 9999.
pub(crate) fn time_to_live(params: &Params<'_>) -> Result<Expiry, WireError> {
    const NAME: &str = "messagettl";
    let Some(seconds) = params.integer(NAME)? else {
        return Ok(Expiry::After { seconds: TIME_TO_LIVE_DEFAULT });
    };
    match seconds {
        -1 => Ok(Expiry::Never),
        1.. => match u32::try_from(seconds) {
            Ok(seconds) if seconds < u32::MAX => Ok(Expiry::After { seconds }),
            // A century and more: as good as for ever.
            Ok(_) | Err(_) => Ok(Expiry::Never),
        },
        _ => Err(WireError::bad_parameter(
            NAME,
            seconds,
            "Value must be greater than or equal to 1, or -1 to indicate an infinite TTL.",
        )),
    }
}

/// How long a Get Messages may be held until there are messages: an extension that only clients who know Kew ask for.
/// It is never a reason to refuse.
pub(crate) fn wait(request: &Request) -> Duration {
    let seconds = request.header(WAIT_HEADER).and_then(|text| text.trim().parse::<u64>().ok());
    Duration::from_secs(seconds.unwrap_or_default()).min(WAIT_MAX)
}

/// Refuses what cannot name a queue; its length is judged first.
pub(crate) fn check_queue_name(name: &str) -> Result<(), WireError> {
    if !(3..=63).contains(&name.chars().count()) {
        return Err(Code::OutOfRangeInput.into());
    }
    if is_queue_name(name) { Ok(()) } else { Err(Code::InvalidResourceName.into()) }
}

/// Whether a queue of this name is one here: other dialects have names that are not.
pub(crate) fn is_queue_name(name: &str) -> bool {
    let is_legal = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (3..=63).contains(&name.len())
        && name.bytes().all(is_legal)
        && !name.starts_with('-')
        && !name.ends_with('-')
        && !name.contains("--")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_hold_at_their_edges() {
        for (text, legal) in [("0", false), ("1", true), ("32", true), ("33", false), ("-1", false)] {
            let query = format!("numofmessages={text}");
            let params = Params::read(&query).expect("a query within the bounds is read");
            assert_eq!(NUM_OF_MESSAGES.read(&params).is_ok(), legal, "{text}");
        }
    }

    #[test]
    fn times_to_live_are_a_number_of_seconds_or_for_ever() {
        for (query, expected) in [
            ("", Some(Expiry::After { seconds: 604_800 })),
            ("messagettl=1", Some(Expiry::After { seconds: 1 })),
            ("messagettl=-1", Some(Expiry::Never)),
            ("messagettl=9007199254740991", Some(Expiry::Never)),
            ("messagettl=0", None),
            ("messagettl=-2", None),
            ("messagettl=x", None),
        ] {
            let params = Params::read(query).expect("a query within the bounds is read");
            assert_eq!(time_to_live(&params).ok(), expected, "{query}");
        }
    }

    #[test]
    fn queue_names_are_short_lower_case_words_with_single_hyphens() {
        let longest = "a".repeat(63);
        for (name, legal) in [
            ("abc", true),
            ("a-1", true),
            (longest.as_str(), true),
            ("ab", false),
            ("-ab", false),
            ("ab-", false),
            ("a--b", false),
            ("Abc", false),
            ("a_b", false),
            ("a.fifo", false),
        ] {
            assert_eq!(check_queue_name(name).is_ok(), legal, "{name}");
        }
    }
}
