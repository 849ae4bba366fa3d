//! Lists whose length is bounded while they are read: what lies beyond is counted, not kept.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// A list of which at most `MAX` entries are kept.
#[derive(Debug)]
pub(crate) struct Bounded<T, const MAX: usize> {
    /// The first entries.
    pub(crate) entries: Vec<T>,
    /// Whether there were more.
    pub(crate) is_too_long: bool,
}

impl<T, const MAX: usize> Default for Bounded<T, MAX> {
    fn default() -> Self {
        Self { entries: Vec::new(), is_too_long: false }
    }
}

impl<'de, T: Deserialize<'de>, const MAX: usize> Deserialize<'de> for Bounded<T, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Reading(PhantomData))
    }
}

struct Reading<T, const MAX: usize>(PhantomData<T>);

impl<'de, T: Deserialize<'de>, const MAX: usize> Visitor<'de> for Reading<T, MAX> {
    type Value = Bounded<T, MAX>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut read = Bounded::default();
        while read.entries.len() < MAX {
            let Some(entry) = list.next_element()? else { return Ok(read) };
            read.entries.push(entry);
        }
        while list.next_element::<IgnoredAny>()?.is_some() {
            read.is_too_long = true;
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_beyond_the_bound_are_noticed_and_not_kept() {
        let read = |json: &str| {
            let read: Bounded<u32, 2> =
                serde_json::from_str(json).expect("a JSON list within the bound is decoded");
            (read.entries, read.is_too_long)
        };
        assert_eq!(read("[]"), (vec![], false));
        assert_eq!(read("[1,2]"), (vec![1, 2], false));
        assert_eq!(read("[1,2,3,\"x\"]"), (vec![1, 2], true));
        assert!(serde_json::from_str::<Bounded<u32, 2>>("{}").is_err());
    }
}
