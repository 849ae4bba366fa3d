//! Errors of a command, with everything that led to them: they are logged nowhere else.

/// What is said where the answer is not one of plain HTTP.
pub(super) const NOT_PLAIN: &str =
    "it does not speak plain HTTP; over TLS it is asked with --ca FILE or --admin https://…";

/// An error with everything that led to it.
pub(super) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let line = error.to_string();
        if !text.contains(&line) {
            text.push_str(&format!(": {line}"));
        }
        cause = error.source();
    }
    text
}
