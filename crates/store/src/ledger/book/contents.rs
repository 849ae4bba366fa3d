//! What a queue holds, made when the first message comes. Most queues of a large store are idle, and take no room for
//! it.

use std::ops::{Deref, DerefMut};
use std::sync::LazyLock;

use kew_core::{MoveReason, QueueKey, QueueKind, Sequence, Text, Timestamp};

use super::Attempt;
use super::departures::DepartureTimes;
use super::oldest::Oldest;
use crate::ledger::alarms::Alarms;
use crate::ledger::emptied::Remains;
use crate::ledger::ends::Ends;
use crate::ledger::far::Far;
use crate::ledger::fifo::Fifo;
use crate::ledger::groups::Groups;
use crate::ledger::item::{Entry, Item};
use crate::ledger::keyed::Keyed;
use crate::ledger::near::Near;
use crate::ledger::ready::Ready;

/// What is known of messages that are in flight, or came back: most stand near their neighbours.
pub(crate) type Entries = Keyed<Sequence, Entry, Near>;

/// The messages of a queue, each in its one place, and what is known of them.
#[derive(Default, Debug)]
pub(crate) struct Contents {
    pub stored: u64,
    pub in_flight: u64,
    /// Hidden messages that have an entry.
    pub delayed: u64,
    pub body_bytes: u64,
    /// Choices that are made without looking for a quiet group, after a long look in vain.
    pub blind_choices: u32,
    /// When the oldest message was sent, as it was found at some instant.
    pub oldest: (Timestamp, Option<Timestamp>),
    /// FIFO: the shelf's mark when the settings last changed, and with them perhaps what has expired.
    pub set_at: u64,
    pub entries: Entries,
    pub oldest_entry: Oldest,
    pub alarms: Alarms,
    /// When leases end, if they end before anything else happens to their messages.
    pub ends: Ends,
    pub departures: DepartureTimes,
    pub ready: Ready,
    pub far: Far,
    pub groups: Groups,
    pub fifo: Option<Box<Fifo>>,
    pub repeatable: Keyed<Text, Attempt>,
    pub origins: Vec<(QueueKey, MoveReason)>,
}

impl Contents {
    fn of(is_fifo: bool) -> Self {
        Self { fifo: is_fifo.then(Box::default), ..Self::default() }
    }

    /// Takes everything apart, a piece each time it is asked. No piece is larger than what lies in one block, run or
    /// slab of it.
    pub(crate) fn into_remains(self) -> Remains {
        let Self { entries, alarms, ends, departures, ready, far, groups, fifo, repeatable, .. } = self;
        let entries = entries.into_pieces().map(|entry| Some(entry?.item));
        let rest = fifo.into_iter().flat_map(|fifo| fifo.into_pieces());
        let beside = alarms.into_pieces().chain(ends.into_pieces()).chain(departures.into_values().map(drop));
        let beside = beside.chain(groups.into_pieces()).chain(repeatable.into_pieces().map(drop));
        let messages = entries.chain(ready.into_pieces()).chain(far.into_pieces()).chain(rest);
        Box::new(messages.chain(beside.map(|()| None)))
    }

    /// A message has an entry from now on.
    #[inline]
    pub(crate) fn put_entry(&mut self, entry: Entry) {
        self.oldest_entry.note(entry.item.sent_at);
        self.entries.insert(entry.item.sequence, entry);
    }

    /// Takes an alarm out, of whichever kind it is.
    #[inline]
    pub(crate) fn drop_alarm(&mut self, alarm: &(Timestamp, Sequence)) {
        if !self.ends.remove(alarm) {
            self.alarms.remove(alarm);
        }
    }

    /// Takes out a message that has no entry.
    pub(crate) fn take_without_entry(&mut self, sequence: Sequence) -> Option<Item> {
        match &mut self.fifo {
            Some(fifo) => {
                let item = fifo.find_rest(sequence)?;
                fifo.remove(&mut self.groups, &item);
                Some(item)
            }
            None => self.ready.take(sequence).or_else(|| self.far.take(sequence)),
        }
    }
}

/// A queue's contents, or nothing. A look at nothing finds contents that are empty; a change makes them.
#[derive(Debug)]
pub(crate) struct MaybeContents {
    contents: Option<Box<Contents>>,
    is_fifo: bool,
}

static NOTHING: LazyLock<Contents> = LazyLock::new(|| Contents::of(false));
static NOTHING_IN_ORDER: LazyLock<Contents> = LazyLock::new(|| Contents::of(true));

impl MaybeContents {
    pub(crate) fn nothing(kind: QueueKind) -> Self {
        Self { contents: None, is_fifo: kind.is_fifo() }
    }

    /// Takes everything out.
    pub(crate) fn take(&mut self) -> Option<Box<Contents>> {
        self.contents.take()
    }

    /// Gives the room back. Said when there is nothing in it.
    pub(crate) fn let_go(&mut self) {
        self.contents = None;
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        let order = if self.is_fifo { size_of::<Fifo>() } else { 0 };
        self.contents.as_ref().map_or(0, |_| size_of::<Contents>() + order)
    }
}

impl Deref for MaybeContents {
    type Target = Contents;

    #[inline]
    fn deref(&self) -> &Contents {
        match &self.contents {
            Some(contents) => contents,
            None if self.is_fifo => &NOTHING_IN_ORDER,
            None => &NOTHING,
        }
    }
}

impl DerefMut for MaybeContents {
    #[inline]
    fn deref_mut(&mut self) -> &mut Contents {
        let is_fifo = self.is_fifo;
        self.contents.get_or_insert_with(|| Box::new(Contents::of(is_fifo)))
    }
}

#[cfg(test)]
mod tests {
    use kew_core::Policy;

    use super::super::Book;
    use super::*;
    use crate::ledger::block::tests::item;

    fn is_idle(book: &Book) -> bool {
        book.held.contents.is_none()
    }

    #[test]
    fn an_idle_queue_is_a_small_book_without_contents() {
        // A cache line; eight of its bytes count what comes and goes, for rates.
        assert!(size_of::<Book>() <= 64, "{}", size_of::<Book>());
        for policy in [Policy::standard(), Policy::fifo()] {
            let mut book = Book::of(policy);
            assert_eq!(book.counts(Timestamp(1)).stored(), 0);
            assert!(book.front().is_none() && book.first_turn().is_none());
            assert_eq!(book.next_instant(), Timestamp::NEVER);
            assert!(is_idle(&book), "looking makes nothing");
        }
    }

    #[test]
    fn contents_are_made_by_a_message_and_let_go_when_none_is_left() {
        let mut book = Book::of(Policy::standard());
        book.enter(item(1), Timestamp(1));
        book.give_back_room();
        assert!(!is_idle(&book), "a message is there");
        assert!(book.leave(Sequence(1)).is_some());
        book.give_back_room();
        assert!(is_idle(&book));
        assert_eq!(book.next_sequence, 2, "places are never given twice");
    }
}
