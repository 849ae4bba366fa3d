//! Batches: what a request of up to ten entries must be as a whole, and how the reply reports each entry.

use crate::decode::Bounded;
use crate::encode::{Name, Shape, Writer};
use crate::error::{Code, WireError};

const ENTRIES_MAX: usize = 10;
const ID_LENGTH: usize = 80;

/// Entries as they come.
pub(crate) type Entries<T> = Bounded<T, ENTRIES_MAX>;

/// What stands in a batch.
pub(crate) trait Entry {
    /// What SQS calls it.
    const KIND: &'static str;

    /// The name the client gave it.
    fn id(&self) -> &str;
}

/// The entries, if there are one to ten of them with a good name each.
pub(crate) fn check<T: Entry>(entries: Option<Entries<T>>) -> Result<Vec<T>, WireError> {
    let entries = entries.unwrap_or_default();
    if entries.count == 0 {
        let text = format!("There should be at least one {} in the request.", T::KIND);
        return Err(WireError::new(Code::EmptyBatchRequest).saying(text));
    }
    if entries.count > ENTRIES_MAX {
        let text = format!(
            "Maximum number of entries per request are {ENTRIES_MAX}. You have sent {}.",
            entries.count
        );
        return Err(WireError::new(Code::TooManyEntriesInBatchRequest).saying(text));
    }
    let entries = entries.kept;
    if !entries.iter().all(|entry| is_id(entry.id())) {
        return Err(Code::InvalidBatchEntryId.into());
    }
    let repeats = |place: usize, id: &str| entries.iter().take(place).any(|before| before.id() == id);
    let repeated = entries.iter().enumerate().find(|(place, entry)| repeats(*place, entry.id()));
    if let Some((_, entry)) = repeated {
        let text = format!("Id {} repeated.", entry.id());
        return Err(WireError::new(Code::BatchEntryIdsNotDistinct).saying(text));
    }
    Ok(entries)
}

fn is_id(id: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=ID_LENGTH).contains(&id.len()) && id.bytes().all(is_allowed)
}

/// What became of each entry, in the order of the request.
pub(crate) struct Fates<'a, T> {
    /// What SQS calls an entry that was done.
    kind: &'static str,
    done: Vec<(&'a str, T)>,
    failed: Vec<(&'a str, WireError)>,
}

/// The result of an entry that has none beside its name.
pub(crate) struct Done;

impl Shape for Done {
    fn write<W: Writer>(&self, _: &mut W) {}
}

impl<'a, T> Fates<'a, T> {
    /// Sorts the fates of entries into those that were done and those that failed.
    pub(crate) fn of(
        kind: &'static str,
        fates: impl IntoIterator<Item = (&'a str, Result<T, WireError>)>,
    ) -> Self {
        let fates = fates.into_iter();
        let mut sorted = Self { kind, done: Vec::with_capacity(fates.size_hint().0), failed: Vec::new() };
        for (id, fate) in fates {
            match fate {
                Ok(done) => sorted.done.push((id, done)),
                Err(error) => sorted.failed.push((id, error)),
            }
        }
        sorted
    }
}

impl<T: Shape> Shape for Fates<'_, T> {
    fn write<W: Writer>(&self, out: &mut W) {
        out.list(Name { json: "Successful", xml: self.kind }, &self.done, |out, (id, done)| {
            out.text("Id", id);
            done.write(out);
        });
        let failed = Name { json: "Failed", xml: "BatchResultErrorEntry" };
        out.list(failed, &self.failed, |out, (id, error)| {
            out.text("Id", id);
            out.text("Code", error.code().short());
            out.text("Message", error.message());
            out.flag("SenderFault", error.code().is_of_sender());
        });
    }

    fn size_hint(&self) -> usize {
        256 * (self.done.len() + self.failed.len()) + 64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Entry for String {
        const KIND: &'static str = "Thing";

        fn id(&self) -> &str {
            self
        }
    }

    fn refusal(ids: &[&str]) -> Option<(Code, String)> {
        let entries = Entries {
            kept: ids.iter().take(ENTRIES_MAX).map(|id| (*id).to_owned()).collect(),
            count: ids.len(),
        };
        check(Some(entries)).err().map(|error| (error.code(), error.message().to_owned()))
    }

    #[test]
    fn a_batch_is_refused_for_the_first_thing_wrong_with_it() {
        // [rep] spec 6: the order of whole-request errors.
        let longest = "i".repeat(80);
        assert_eq!(refusal(&["a", "b", &longest]), None);
        let empty = "There should be at least one Thing in the request.";
        assert_eq!(refusal(&[]), Some((Code::EmptyBatchRequest, empty.to_owned())));
        let many = "Maximum number of entries per request are 10. You have sent 11.";
        assert_eq!(refusal(&["!"; 11]), Some((Code::TooManyEntriesInBatchRequest, many.to_owned())));
        for bad in ["", "a b", "ä", "a.b", &"i".repeat(81)] {
            assert_eq!(refusal(&["a", "a", bad]).map(|(code, _)| code), Some(Code::InvalidBatchEntryId));
        }
        let repeated = refusal(&["a", "b", "c", "b", "a"]);
        assert_eq!(repeated, Some((Code::BatchEntryIdsNotDistinct, "Id b repeated.".to_owned())));
    }
}
