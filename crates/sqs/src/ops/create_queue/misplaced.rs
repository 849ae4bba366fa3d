//! Queue attributes given beside `Attributes`, as a template of CloudFormation has them. Ignored in silence they would
//! make a queue with other settings than the caller wrote, so they are refused by name.

use std::collections::BTreeSet;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};

use crate::attributes::Attribute;
use crate::decode::Text;
use crate::error::{Code, WireError};

/// Names of attributes among the members of a request.
pub(super) struct Misplaced(BTreeSet<&'static str>);

impl Misplaced {
    /// Refuses the request if it has any.
    pub(super) fn check(self) -> Result<(), WireError> {
        if self.0.is_empty() {
            return Ok(());
        }
        let names: Vec<&str> = self.0.into_iter().collect();
        let text = format!(
            "{} must be given in Attributes, as a map of strings, and not as members of the request.",
            names.join(", ")
        );
        Err(WireError::new(Code::InvalidParameterValue).saying(text))
    }
}

impl<'de> Deserialize<'de> for Misplaced {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = Misplaced;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Misplaced, A::Error> {
                let mut misplaced = BTreeSet::new();
                while let Some((name, IgnoredAny)) = members.next_entry::<Text<'de>, IgnoredAny>()? {
                    misplaced.extend(Attribute::named(&name).map(Attribute::name));
                }
                Ok(Misplaced(misplaced))
            }
        }

        deserializer.deserialize_map(Members)
    }
}
