//! Queue URLs: any host, the name at the end; or the bare name.

use crate::error::{Code, WireError};

/// The queue's name in a URL, a path or a bare name. The host and, in open mode, the account do not matter.
pub(crate) fn name(url: &str) -> Result<&str, WireError> {
    let trimmed = url.strip_suffix('/').unwrap_or(url);
    let name = trimmed.rsplit('/').next().unwrap_or(trimmed);
    if name.is_empty() {
        return Err(Code::QueueDoesNotExist.into());
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_part_counts() {
        for url in [
            "http://localhost:9324/000000000000/orders",
            "https://sqs.eu-west-1.amazonaws.com/123456789012/orders/",
            "/000000000000/orders",
            "orders",
        ] {
            assert_eq!(name(url), Ok("orders"), "{url}");
        }
        assert!(name("http://localhost//").is_err());
    }
}
