//! Patterns: `*` is any run of characters, `?` any one.

/// Whether all of `text` is what `pattern` means.
pub(super) fn matches(pattern: &str, text: &str) -> bool {
    let (mut pattern, mut text) = (pattern.chars(), text.chars());
    // Where to go on when what follows the last star does not fit: the star then takes one character more.
    let mut retry: Option<(std::str::Chars<'_>, std::str::Chars<'_>)> = None;
    loop {
        let (rest, expected, found) = (text.clone(), pattern.next(), text.next());
        let fits = match (expected, found) {
            (Some('*'), _) => {
                text = rest;
                retry = Some((pattern.clone(), text.clone()));
                continue;
            }
            (None, None) => return true,
            (Some('?'), Some(_)) => true,
            (expected, found) => expected == found,
        };
        if fits {
            continue;
        }
        let Some((after_star, mut longer)) = retry.take() else { return false };
        if longer.next().is_none() {
            return false;
        }
        pattern = after_star.clone();
        text = longer.clone();
        retry = Some((after_star, longer));
    }
}

/// The same without regard to case, for ASCII.
pub(super) fn matches_any_case(pattern: &str, text: &str) -> bool {
    matches(&pattern.to_ascii_lowercase(), &text.to_ascii_lowercase())
}

/// Whether an ARN is what a pattern of one means: part by part, so that no star reaches over a colon but the last.
pub(super) fn matches_arn(pattern: &str, arn: &str) -> bool {
    let (mut patterns, mut parts) = (pattern.splitn(6, ':'), arn.splitn(6, ':'));
    loop {
        match (patterns.next(), parts.next()) {
            (None, None) => return true,
            (Some(pattern), Some(part)) if matches(pattern, part) => {}
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_take_any_run_and_question_marks_one_character() {
        for (pattern, text, fits) in [
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("*", "anything", true),
            ("a*", "abc", true),
            ("*c", "abc", true),
            ("*c", "abcd", false),
            ("a*b*c", "a12b34c", true),
            ("a*b*c", "a12c34b", false),
            ("a**c", "ac", true),
            ("?", "", false),
            ("?", "é", true),
            ("a?c", "abc", true),
            ("*aab", "aaaaab", true),
            ("ab", "abc", false),
            ("Ab", "ab", false),
        ] {
            assert_eq!(matches(pattern, text), fits, "{pattern} {text}");
        }
        assert!(matches_any_case("SQS:Send*", "sqs:sendmessage"));
    }

    #[test]
    fn stars_in_an_arn_stay_within_their_part() {
        let arn = "arn:aws:sqs:us-east-1:000000000001:orders";
        for (pattern, fits) in [
            (arn, true),
            ("arn:aws:sqs:*:000000000001:ord*", true),
            ("arn:*:*:*:*:*", true),
            ("arn:aws:sqs:*:orders", false),
            ("arn:*", false),
            ("*", false),
        ] {
            assert_eq!(matches_arn(pattern, arn), fits, "{pattern}");
        }
    }
}
