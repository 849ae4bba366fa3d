//! Contents that were read for steps that were put off, until those are taken again.

use std::collections::VecDeque;

use hashbrown::HashMap;

use crate::frame::Address;
use crate::reads::Read;

/// Bytes of bodies that are kept, unless one step needs more.
const BYTES_MAX: usize = 16 << 20;

/// What was read for each of the newest steps.
#[derive(Default)]
pub(crate) struct Fetched {
    steps: VecDeque<(HashMap<Address, Read>, usize)>,
    bytes: usize,
}

impl Fetched {
    /// Keeps what one step needs. What was read for the oldest makes room: those read again.
    pub fn keep(&mut self, contents: Vec<(Address, Read)>) {
        let taken = |(_, read): &(Address, Read)| read.as_ref().map_or(0, |stored| stored.content.body.len());
        let bytes: usize = contents.iter().map(taken).sum();
        self.bytes += bytes;
        self.steps.push_back((contents.into_iter().collect(), bytes));
        while self.bytes > BYTES_MAX && self.steps.len() > 1 {
            self.bytes -= self.steps.pop_front().map_or(0, |(_, bytes)| bytes);
        }
    }

    /// Gives a content out. A step's are forgotten with the last of them.
    pub fn take(&mut self, address: Address) -> Option<Read> {
        let place = self.steps.iter().position(|(step, _)| step.contains_key(&address))?;
        let (step, bytes) = self.steps.get_mut(place)?;
        let read = step.remove(&address);
        if step.is_empty() {
            self.bytes -= *bytes;
            self.steps.remove(place);
        }
        read
    }
}
