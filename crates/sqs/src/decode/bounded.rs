//! Lists that keep as many entries as a request may use, and only count what is beyond.
//!
//! A list of empty objects takes three bytes each on the wire and a hundred times that in memory; so what will be
//! refused anyway is never kept.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};

/// The first `MAX` entries of a list, and how many it has.
#[derive(Debug)]
pub(crate) struct Bounded<T, const MAX: usize> {
    pub(crate) kept: Vec<T>,
    pub(crate) count: usize,
}

impl<T, const MAX: usize> Default for Bounded<T, MAX> {
    fn default() -> Self {
        Self { kept: Vec::new(), count: 0 }
    }
}

impl<'de, T: Deserialize<'de>, const MAX: usize> Deserialize<'de> for Bounded<T, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Lists<T, const MAX: usize>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>, const MAX: usize> Visitor<'de> for Lists<T, MAX> {
            type Value = Bounded<T, MAX>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
                let mut list = Bounded::default();
                while list.kept.len() < MAX {
                    let Some(entry) = entries.next_element()? else { break };
                    // Few lists of one entry come here, and entries are large to be moved about.
                    list.kept.reserve(MAX - list.kept.len());
                    list.kept.push(entry);
                }
                list.count = list.kept.len();
                while list.count >= MAX && entries.next_element::<IgnoredAny>()?.is_some() {
                    list.count += 1;
                }
                Ok(list)
            }
        }

        deserializer.deserialize_seq(Lists(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_beyond_the_bound_are_counted_and_not_kept() {
        for (json, kept, count) in
            [("[]", 0, 0), ("[1]", 1, 1), ("[1,2]", 2, 2), ("[1,2,3]", 2, 3), ("[1,2,[3],{}]", 2, 4)]
        {
            let list: Bounded<u8, 2> =
                serde_json::from_str(json).expect("a JSON list within the bound is decoded");
            assert_eq!((list.kept.len(), list.count), (kept, count), "{json}");
        }
        assert!(serde_json::from_str::<Bounded<u8, 2>>("{}").is_err());
        assert!(serde_json::from_str::<Bounded<u8, 2>>("[\"a\"]").is_err());
    }
}
