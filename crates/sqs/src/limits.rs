//! SQS's own limits, each by the name it is published under.

use std::time::Duration;

use crate::error::{Code, WireError};

/// A whole number with bounds.
pub(crate) struct IntegerRange {
    pub(crate) name: &'static str,
    pub(crate) min: i64,
    pub(crate) max: i64,
    pub(crate) reason: &'static str,
}

impl IntegerRange {
    /// The number, if it is within the bounds. What is not given is not checked.
    pub(crate) fn check(&self, given: Option<i64>) -> Result<Option<u32>, WireError> {
        let Some(number) = given else { return Ok(None) };
        if number < self.min || number > self.max {
            return Err(WireError::invalid_value(self.name, number, self.reason));
        }
        Ok(u32::try_from(number).ok())
    }

    /// The same as whole seconds.
    pub(crate) fn seconds(&self, given: Option<i64>) -> Result<Option<Duration>, WireError> {
        Ok(self.check(given)?.map(|seconds| Duration::from_secs(u64::from(seconds))))
    }
}

/// Messages of one receive.
pub(crate) const MAX_NUMBER_OF_MESSAGES: IntegerRange = IntegerRange {
    name: "MaxNumberOfMessages",
    min: 1,
    max: 10,
    reason: "Must be between 1 and 10, if provided.",
};

/// How long a receive waits.
pub(crate) const WAIT_TIME_SECONDS: IntegerRange =
    IntegerRange { name: "WaitTimeSeconds", min: 0, max: 20, reason: "Must be >= 0 and <= 20, if provided." };

/// How long a received message stays hidden.
pub(crate) const VISIBILITY_TIMEOUT: IntegerRange = IntegerRange {
    name: "VisibilityTimeout",
    min: 0,
    max: 43_200,
    reason: "Must be between 0 and 43200, if provided.",
};

/// How long a new message stays hidden.
pub(crate) const DELAY_SECONDS: IntegerRange =
    IntegerRange { name: "DelaySeconds", min: 0, max: 900, reason: "DelaySeconds must be >= 0 and <= 900." };

/// The longest a message may stay hidden by one receive, from the arrival of its request.
pub(crate) const VISIBILITY_TOTAL: Duration = Duration::from_secs(43_200);

/// Bytes of bodies in one reply to a receive; the first message always fits.
pub(crate) const RECEIVE_BODY_BYTES: u64 = 8 << 20;

/// Bytes of bodies and attributes in one batch of sends.
pub(crate) const BATCH_BYTES: usize = 1_048_576;

const ID_LENGTH: usize = 128;
/// Parameters of one query string or form: a full batch of ten messages with ten attributes each has about five
/// hundred.
pub(crate) const PAIRS_MAX: usize = 2_048;

const QUEUE_NAME_LENGTH: usize = 80;

/// The end of a FIFO queue's name, which counts in its length.
const FIFO_SUFFIX: &str = ".fifo";

/// Whether a queue of either kind may have this name.
pub(crate) fn is_queue_name(name: &str) -> bool {
    let stem = name.strip_suffix(FIFO_SUFFIX).unwrap_or(name);
    name.len() <= QUEUE_NAME_LENGTH
        && !stem.is_empty()
        && stem.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
}

/// Refuses what cannot name a queue of this kind.
pub(crate) fn check_queue_name(name: &str, fifo: bool) -> Result<(), WireError> {
    if is_queue_name(name) && name.ends_with(FIFO_SUFFIX) == fifo {
        return Ok(());
    }
    let text = if fifo {
        "The name of a FIFO queue can only include alphanumeric characters, hyphens, or underscores, must end with .fifo suffix and be 1 to 80 in length"
    } else {
        "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length"
    };
    Err(WireError::new(Code::InvalidParameterValue).saying(text))
}

/// What SQS says of characters that XML forbids.
pub(crate) const INVALID_CHARACTERS: &str = "Invalid characters found. Valid unicode characters are #x9 | #xA | #xD | #x20 to #xD7FF | #xE000 to #xFFFD | #x10000 to #x10FFFF";

/// Whether a text holds no characters outside `#x9 | #xA | #xD | #x20-#xD7FF | #xE000-#xFFFD | #x10000-#x10FFFF`.
pub(crate) fn is_legal_text(text: &str) -> bool {
    // One pass that a compiler turns into wide compares; only what looks suspicious is looked at closely.
    let suspicious = text.bytes().fold(false, |found, byte| found | (byte < 0x20) | (byte == 0xef));
    let is_legal = |c: char| match c {
        '\t' | '\n' | '\r' => true,
        c => c >= ' ' && c != '\u{fffe}' && c != '\u{ffff}',
    };
    !suspicious || text.chars().all(is_legal)
}

/// Refuses what cannot be the id of a group, of a send or of a receive attempt.
pub(crate) fn check_id(name: &str, id: &str) -> Result<(), WireError> {
    if (1..=ID_LENGTH).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(());
    }
    let reason = format!(
        "{name} can only include alphanumeric and punctuation characters. 1 to {ID_LENGTH} in length."
    );
    Err(WireError::invalid_value(name, id, &reason))
}

/// A batch whose body is not even read to its end: so large that what is in it is too long in any case.
pub(crate) fn batch_too_long() -> WireError {
    let text = format!("Batch requests cannot be longer than {BATCH_BYTES} bytes.");
    WireError::new(Code::BatchRequestTooLong).saying(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_hold_at_their_edges() {
        for (given, legal) in [(-1, false), (0, false), (1, true), (10, true), (11, false), (i64::MAX, false)]
        {
            assert_eq!(MAX_NUMBER_OF_MESSAGES.check(Some(given)).is_ok(), legal, "{given}");
        }
        assert_eq!(WAIT_TIME_SECONDS.check(None), Ok(None));
    }

    // [doc] spec 2: 1-80 of letters, digits, hyphens and underscores; the suffix of a FIFO queue counts in the 80.
    #[test]
    fn queue_names_are_letters_digits_hyphens_and_underscores() {
        let of_length = |length| "n".repeat(length);
        let fifo_of_length = |length: usize| "n".repeat(length - 5) + ".fifo";
        for (name, standard, fifo) in [
            ("a", true, false),
            ("A-b_9", true, false),
            (&of_length(80), true, false),
            ("a.fifo", false, true),
            (&fifo_of_length(80), false, true),
            (&fifo_of_length(81), false, false),
            (&of_length(81), false, false),
            (".fifo", false, false),
            ("a.FIFO", false, false),
            ("a.fifo.fifo", false, false),
            ("", false, false),
            ("a/b", false, false),
            ("ä", false, false),
        ] {
            assert_eq!(check_queue_name(name, false).is_ok(), standard, "{name}");
            assert_eq!(check_queue_name(name, true).is_ok(), fifo, "{name}");
        }
    }

    #[test]
    fn characters_xml_forbids_are_refused_and_no_others() {
        for legal in ["\t\n\r ~", "é\u{d7ff}\u{e000}\u{fffd}\u{10000}\u{10ffff}", "ﬀ\u{feff}"] {
            assert!(is_legal_text(legal), "{legal:?}");
        }
        for illegal in ["\0", "a\u{1f}", "\u{b}", "\u{fffe}", "\u{ffff}"] {
            assert!(!is_legal_text(illegal), "{illegal:?}");
        }
    }

    #[test]
    fn ids_are_printable_ascii_without_spaces() {
        let (longest, too_long) = ("i".repeat(128), "i".repeat(129));
        let punctuation = r##"!"#$%&'()*+,-./:;<=>?@[\]^_`{|}~"##;
        for legal in ["a", "Z9", punctuation, longest.as_str()] {
            assert_eq!(check_id("MessageGroupId", legal), Ok(()), "{legal}");
        }
        for illegal in ["", " ", "group 123", "é", "a\n", "\u{7f}", too_long.as_str()] {
            assert!(check_id("MessageGroupId", illegal).is_err(), "{illegal}");
        }
    }
}
