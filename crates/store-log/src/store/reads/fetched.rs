//! Contents that were read for steps that were put off, until those are taken again.

use std::collections::VecDeque;

use hashbrown::HashMap;
use kew_store::StoreError;

use super::Read;
use crate::journal::Address;

/// Bytes that are kept, unless one step needs more.
const BYTES_MAX: usize = 16 << 20;
/// Steps that contents are kept for. One that is not taken again goes when this many came after it.
const STEPS_MAX: usize = 256;
/// What a content takes beside its body and its annotations.
const ENTRY_BYTES: usize = 256;

/// What was read for each of the newest steps.
#[derive(Default)]
pub(crate) struct Fetched {
    contents: HashMap<Address, Held>,
    /// The steps' contents, the oldest step first.
    steps: VecDeque<Vec<Address>>,
    /// The number of the oldest step.
    first: u64,
    bytes: usize,
}

struct Held {
    read: Read,
    bytes: usize,
    /// The number of the newest step it was read for.
    step: u64,
}

impl Fetched {
    /// Keeps what one step needs. Past the bound what was read for the oldest step goes, and that step reads again. A
    /// transient failure is not kept, so that it is not met again when its cause has ended.
    pub fn keep(&mut self, contents: Vec<(Address, Read)>) {
        let step = self.first + self.steps.len() as u64;
        let mut addresses = Vec::with_capacity(contents.len());
        for (address, read) in contents.into_iter().filter(|(_, read)| is_lasting(read)) {
            let bytes = bytes_of(&read);
            self.bytes += bytes;
            if let Some(before) = self.contents.insert(address, Held { read, bytes, step }) {
                self.bytes -= before.bytes;
            }
            addresses.push(address);
        }
        if !addresses.is_empty() {
            self.steps.push_back(addresses);
        }
        while self.steps.len() > STEPS_MAX || (self.bytes > BYTES_MAX && self.steps.len() > 1) {
            self.forget_oldest();
        }
    }

    /// Gives a content out.
    pub fn take(&mut self, address: Address) -> Option<Read> {
        let held = self.contents.remove(&address)?;
        self.bytes -= held.bytes;
        Some(held.read)
    }

    fn forget_oldest(&mut self) {
        let Some(addresses) = self.steps.pop_front() else { return };
        for address in addresses {
            if self.contents.get(&address).is_some_and(|held| held.step == self.first) {
                drop(self.take(address));
            }
        }
        self.first += 1;
    }
}

/// Whether it would be read the same another time.
pub(crate) fn is_lasting(read: &Read) -> bool {
    matches!(read, Ok(_) | Err(StoreError::Damaged { .. }))
}

fn bytes_of(read: &Read) -> usize {
    let Ok(stored) = read else { return ENTRY_BYTES };
    ENTRY_BYTES + stored.content.body.len() + stored.content.annotations.len()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use kew_store::ledger::Stored;

    use super::*;

    fn content(bytes: usize) -> Read {
        let mut stored = Stored::on_its_way();
        stored.content.body = Bytes::from(vec![b'x'; bytes]);
        Ok(stored)
    }

    #[test]
    fn step_that_is_not_taken_again_is_forgotten_when_enough_others_came() {
        let mut fetched = Fetched::default();
        for address in 0..10_000 {
            fetched.keep(vec![(Address(address), content(0))]);
        }
        assert_eq!((fetched.contents.len(), fetched.steps.len()), (STEPS_MAX, STEPS_MAX));
        assert_eq!(fetched.bytes, STEPS_MAX * ENTRY_BYTES);
        assert!(fetched.take(Address(9_999 - STEPS_MAX as u64)).is_none());
        assert_eq!(fetched.take(Address(9_999)), Some(content(0)));
        assert_eq!(fetched.take(Address(9_999)), None, "it is given once");
    }

    #[test]
    fn bytes_have_a_bound_and_one_step_may_have_more() {
        let mut fetched = Fetched::default();
        fetched.keep(vec![(Address(1), content(BYTES_MAX)), (Address(2), content(1))]);
        assert_eq!(fetched.contents.len(), 2);
        fetched.keep(vec![(Address(2), content(1)), (Address(3), content(1))]);
        assert!(fetched.take(Address(1)).is_none());
        assert!(
            fetched.take(Address(2)).is_some() && fetched.take(Address(3)).is_some(),
            "read again for the newer step"
        );
        assert_eq!(fetched.bytes, 0);
    }

    #[test]
    fn transient_failure_is_not_remembered_and_damage_is() {
        let mut fetched = Fetched::default();
        let transient = StoreError::Unavailable { cause: "a cable".into() };
        let lasting = StoreError::Damaged { what: "a bit".into() };
        fetched.keep(vec![(Address(1), Err(transient)), (Address(2), Err(lasting.clone()))]);
        assert_eq!((fetched.take(Address(1)), fetched.take(Address(2))), (None, Some(Err(lasting))));
    }
}
