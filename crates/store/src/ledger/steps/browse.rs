//! Browsing: a page of a queue's messages, whatever they are doing, without touching one.
//!
//! A page is one bounded slice: the messages it looks at and the bytes it brings are bounded. What is asked of
//! contents is asked outside, of the page; what the ledger itself knows is asked here.

use kew_core::command::Browse;
use kew_core::outcome::{Page, Seen};
use kew_core::rules::batching;
use kew_core::{Outcome, RuleError};

use super::shown;
use crate::StoreError;
use crate::ledger::Ledger;
use crate::ledger::book::{Look, Looked};
use crate::ledger::shelf::{Shelf, Stored};

/// Bytes of records that one page reads together; the first record always fits.
const RECORD_BYTES_MAX: u64 = 4 << 20;

impl<S: Shelf> Ledger<S> {
    pub(in crate::ledger) fn browse(&mut self, command: &Browse) -> Result<Outcome, StoreError> {
        let book = self.book(command.queue)?;
        let max = usize::try_from(command.look_max).unwrap_or(usize::MAX).max(1);
        let (looked, behind) = book.look(Look { from: command.from, state: command.state, max });
        // No message is of a group that is not known.
        let group = command.group.as_ref().map(|group| book.group_slot(group));
        let is_wanted = |looked: &&Looked| {
            let item = &looked.item;
            group.is_none_or(|group| group.is_some() && item.group == group)
                && item.attempts >= command.attempts_min
                && item.sent_at <= command.sent_through
        };
        let mut page = Page { messages: Vec::new(), next: behind };
        let (mut body_bytes, mut record_bytes) = (0, 0);
        for looked in looked.iter().filter(is_wanted) {
            let (taken, item) = (page.messages.len(), &looked.item);
            let (body, record) = (u64::from(item.body_bytes), u64::from(item.record_bytes));
            let fits = batching::fits(taken, body_bytes, body, command.body_bytes_max)
                && batching::fits(taken, record_bytes, record, RECORD_BYTES_MAX);
            if taken >= command.max as usize || !fits {
                page.next = Some(item.sequence);
                break;
            }
            (body_bytes, record_bytes) = (body_bytes + body, record_bytes + record);
            page.messages.push(self.seen(command, looked)?);
        }
        Ok(Outcome::Browsed(page))
    }

    fn seen(&mut self, command: &Browse, looked: &Looked) -> Result<Seen, StoreError> {
        let item = &looked.item;
        let stored = self.shelf.fetch(item.sequence, item.place());
        let is_readable = !matches!(stored, Err(StoreError::Damaged { .. }));
        let stored = if is_readable { stored? } else { Stored::on_its_way() };
        let token = self.token(command.queue, item);
        let book = self.books.get(&command.queue).ok_or(RuleError::QueueNotFound)?;
        let message = shown(book, item, stored, looked.state);
        Ok(Seen { message, token, leased_at: looked.leased_at, is_readable })
    }
}
