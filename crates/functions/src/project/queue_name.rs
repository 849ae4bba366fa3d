//! Names of queues: how a binding's becomes one, and which poison queue goes with it.

/// What failed messages' queues end in.
const POISON: &str = "-poison";

/// What a queue's name must look like.
pub(crate) const RULE: &str = "a queue name has 3 to 63 lower-case letters, digits and single hyphens, and begins and ends with a letter or digit";

/// The queue a binding names: in lower case, if it is legal then.
pub(crate) fn read(text: &str) -> Result<String, String> {
    let name = text.to_lowercase();
    if kew_azure::client::is_queue_name(&name) {
        Ok(name)
    } else {
        Err(format!("'{text}' is not a valid queue name: {RULE}."))
    }
}

/// Where messages go that failed too often; none for a poison queue itself, and none where the name would be too long.
pub(crate) fn poison(queue: &str) -> Option<String> {
    let name = format!("{queue}{POISON}");
    (!queue.ends_with(POISON) && kew_azure::client::is_queue_name(&name)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_lowered_before_they_are_judged() {
        assert_eq!(read("Orders-1").as_deref(), Ok("orders-1"));
        for bad in ["", "ab", "a_b", "-abc", "abc-", "a--b", "a.fifo", "%X%"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    // [seed] A failed message goes to a poison queue if one is configured: by the name of its own.
    #[test]
    fn a_poison_queue_has_none_and_neither_has_a_long_name() {
        assert_eq!(poison("orders").as_deref(), Some("orders-poison"));
        assert_eq!(poison("orders-poison"), None);
        assert_eq!(poison("-poison"), None);
        assert_eq!(poison(&"q".repeat(56)).map(|name| name.len()), Some(63));
        assert_eq!(poison(&"q".repeat(57)), None);
    }
}
