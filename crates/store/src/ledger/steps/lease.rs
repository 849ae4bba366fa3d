//! Leasing: choosing messages, and claiming them.

use kew_core::command::{Lease, OverLimit};
use kew_core::event::Tag;
use kew_core::outcome;
use kew_core::rules::{delivery, fairness, visibility};
use kew_core::{LeaseToken, Outcome, QueueId, Return, RuleError, Sequence, State, Text, Timestamp};
use smallvec::SmallVec;
use std::time::Duration;

use super::shown;
use crate::StoreError;
use crate::ledger::Ledger;
use crate::ledger::apply::lease_one;
use crate::ledger::book::Book;
use crate::ledger::change::{Change, Leased};
use crate::ledger::groups::GroupSlot;
use crate::ledger::item::{self, Item};
use crate::ledger::shelf::Shelf;

/// Entries of an answer that room is made for at once.
const LEASED_AT_ONCE: usize = 10;

/// How long a message that cannot be read stays hidden at least, also in queues whose leases end at once.
const SET_ASIDE_MIN: Duration = Duration::from_secs(1);
/// How long a damaged message stays hidden in a queue without a dead-letter rule: no receive is refused for it over
/// and over, and after a repair of the disk it is found sound at last.
const DAMAGED_SET_ASIDE: Duration = Duration::from_secs(24 * 3_600);

/// What a lease has taken so far.
struct Taking<'a> {
    command: &'a Lease,
    terms: Leased<'a>,
    /// Whether a message whose attempts are used up departs.
    has_dead_letters: bool,
    room: usize,
    /// Whether it ended because no more messages may leave in this step.
    cut_short: bool,
    body_bytes: u64,
    leased: Vec<outcome::Leased>,
    /// The same messages with their nonces.
    taken: SmallVec<[(Sequence, u64); 2]>,
}

impl Taking<'_> {
    /// What was taken before stays taken and is answered. Without any the lease is refused.
    fn stopped_by(&self, error: impl Into<StoreError>) -> Result<Next, StoreError> {
        if self.leased.is_empty() { Err(error.into()) } else { Ok(Next::Stop) }
    }
}

/// Whether the taking goes on after one message was looked at.
#[derive(PartialEq, Eq)]
enum Next {
    GoOn,
    Stop,
}

impl<S: Shelf> Ledger<S> {
    /// Leases messages. The one step that makes its change true before it is recorded: it claims while it chooses, for
    /// each claim decides what is offered next. A replay makes the change true by the same [`lease_one`] and
    /// [`Ledger::end_lease`].
    pub(in crate::ledger) fn lease(
        &mut self,
        now: Timestamp,
        command: &Lease,
    ) -> Result<Outcome, StoreError> {
        let book = self.book_mut(command.queue)?;
        if !delivery::is_open(&book.queue.policy) {
            return Ok(Outcome::Leased(Vec::new()));
        }
        let is_fifo = book.queue.policy.kind.is_fifo();
        let attempt = command.attempt.as_ref().filter(|_| is_fifo);
        if let Some(sequences) = attempt.and_then(|id| book.attempt(id, now)) {
            return self.repeat(now, command, &sequences);
        }
        let Some(mut taking) = begin(book, now, command, attempt)? else {
            return Ok(Outcome::Leased(Vec::new()));
        };
        if is_fifo {
            self.take_from_groups(now, &mut taking)?;
        } else {
            self.take_in_order(now, &mut taking)?;
        }
        if taking.leased.is_empty() {
            if taking.cut_short {
                self.note_cut_short(command.queue, now);
            }
            return Ok(Outcome::Leased(Vec::new()));
        }
        let Taking { terms, leased, taken, .. } = taking;
        let change = Change::Leased(Leased { taken: &taken, ..terms });
        if let Change::Leased(terms) = &change {
            self.end_lease(now, terms);
        }
        self.record(now, &change);
        Ok(Outcome::Leased(leased))
    }

    fn take_in_order(&mut self, now: Timestamp, taking: &mut Taking<'_>) -> Result<(), StoreError> {
        while taking.leased.len() < taking.room {
            let Some(item) = choose(self.book_mut(taking.command.queue)?, now) else { break };
            if self.take_or_depart(now, taking, &item)? == Next::Stop {
                break;
            }
        }
        Ok(())
    }

    fn take_from_groups(&mut self, now: Timestamp, taking: &mut Taking<'_>) -> Result<(), StoreError> {
        while taking.leased.len() < taking.room {
            let Some(group) = self.first_turn(taking.command.queue) else { break };
            if self.take_from_group(now, taking, group)? == Next::Stop {
                break;
            }
        }
        Ok(())
    }

    /// Takes what one group offers. Its first leased message blocks it, so what it offers is read once.
    fn take_from_group(
        &mut self,
        now: Timestamp,
        taking: &mut Taking<'_>,
        group: GroupSlot,
    ) -> Result<Next, StoreError> {
        let leaves = self.leaving(taking.command.queue)?;
        let room = taking.room - taking.leased.len();
        let leaving_max = self.pace.left.departures;
        let offered = self.book(taking.command.queue)?.offered_by(group, room, leaving_max, leaves);
        for item in &offered {
            // One that was to leave is taken after all where there is no room for dead letters.
            if taking.leased.len() == taking.room {
                break;
            }
            if self.take_or_depart(now, taking, item)? == Next::Stop {
                return Ok(Next::Stop);
            }
        }
        Ok(Next::GoOn)
    }

    /// Claims one message, or lets it go where dead letters go.
    fn take_or_depart(
        &mut self,
        now: Timestamp,
        taking: &mut Taking<'_>,
        item: &Item,
    ) -> Result<Next, StoreError> {
        let queue = taking.command.queue;
        let departed = match taking.has_dead_letters {
            true => self.depart_if_exhausted(now, queue, item.sequence),
            false => Ok(false),
        };
        let departed = match departed {
            Ok(departed) => departed,
            Err(error) => return taking.stopped_by(error),
        };
        if departed {
            self.pace.left.departures = self.pace.left.departures.saturating_sub(1);
            taking.cut_short = self.pace.left.departures == 0;
            return Ok(if taking.cut_short { Next::Stop } else { Next::GoOn });
        }
        let bytes = u64::from(item.body_bytes);
        if !taking.command.fits(taking.leased.len(), taking.body_bytes, bytes) {
            return taking.stopped_by(RuleError::FirstTooLarge);
        }
        let stored = match self.shelf.fetch(item.sequence, item.place()) {
            Ok(stored) => stored,
            // What was claimed before stays claimed and is answered; the next lease meets the damage first.
            Err(_) if !taking.leased.is_empty() => return Ok(Next::Stop),
            Err(error) => {
                self.set_aside(now, queue, item.sequence, &error)?;
                return Err(error);
            }
        };
        let nonce = self.new_nonce();
        let token = self.key.seal(queue, item.sequence, nonce);
        let book = self.books.get_mut(&queue).ok_or(RuleError::QueueNotFound)?;
        let (history, sealed) = (&mut self.history, Some(token.into()));
        let leased = lease_one(book, history, now, &taking.terms, item.sequence, nonce, sealed);
        let Some(item) = leased else { return Ok(Next::Stop) };
        taking.body_bytes += bytes;
        taking.taken.push((item.sequence, nonce));
        if taking.leased.is_empty() {
            // Entries are large: left to grow by itself, a list of one would ask for room for four.
            taking.leased = Vec::with_capacity(taking.room.min(LEASED_AT_ONCE));
        }
        let until = taking.terms.until;
        let message = shown(book, &item, stored, State::Leased { until });
        taking.leased.push(outcome::Leased { message, token, until });
        Ok(Next::GoOn)
    }

    /// A message that cannot be read is hidden as if its receiver had died: it does not stand before all others,
    /// is tried again, and at last goes where its queue's dead letters go.
    pub(super) fn set_aside(
        &mut self,
        now: Timestamp,
        queue: QueueId,
        sequence: Sequence,
        why: &StoreError,
    ) -> Result<(), StoreError> {
        let nonce = self.new_nonce();
        let book = self.books.get_mut(&queue).ok_or(RuleError::QueueNotFound)?;
        let policy = &book.queue.policy;
        let length = match why {
            StoreError::Damaged { .. } if policy.dead_letters.is_none() => DAMAGED_SET_ASIDE,
            _ => policy.lease_length.max(SET_ASIDE_MIN),
        };
        let terms = Leased {
            queue,
            until: visibility::lease_until(now, length),
            received_at: now,
            cap: None,
            lapse_delay: Duration::ZERO,
            returns: Return::InPlace,
            owner: None,
            attempt: None,
            by: Tag::new("unreadable"),
            taken: &[(sequence, nonce)],
        };
        if book.find(sequence).is_some() {
            self.enact(now, &Change::Leased(terms));
        }
        Ok(())
    }

    /// The same messages again, with the same receipts and a fresh end.
    fn repeat(
        &mut self,
        now: Timestamp,
        command: &Lease,
        sequences: &[Sequence],
    ) -> Result<Outcome, StoreError> {
        let book = self.book(command.queue)?;
        let length = command.terms.length.unwrap_or(book.queue.policy.lease_length);
        // All leases of one receive have the same terms; an owner's has no end, and no cap is stretched.
        let until = match sequences.first().and_then(|first| book.running_lease(*first)) {
            Some(item::Lease { owner: Some(_), .. }) => Timestamp::NEVER,
            Some(item::Lease { cap: Some(cap), received_at, .. }) => {
                visibility::lease_until(now, length).min(received_at.plus(*cap)).max(now)
            }
            _ => visibility::lease_until(now, length),
        };
        let items: Vec<Item> =
            sequences.iter().filter_map(|sequence| Some(book.find(*sequence)?.0)).collect();
        let mut leased = Vec::with_capacity(items.len());
        for item in &items {
            let stored = self.shelf.fetch(item.sequence, item.place())?;
            let message = shown(self.book(command.queue)?, item, stored, State::Leased { until });
            leased.push(outcome::Leased { message, token: self.token(command.queue, item), until });
        }
        self.enact(now, &Change::Repeated { queue: command.queue, until, sequences });
        Ok(Outcome::Leased(leased))
    }

    /// The newest receipt of a message.
    pub(super) fn token(&self, queue: QueueId, item: &Item) -> LeaseToken {
        self.key.seal(queue, item.sequence, self.newest_nonce(queue, item))
    }
}

/// The terms and bounds of a lease; `None` when too many run already and the caller wants silence.
fn begin<'a>(
    book: &mut Book,
    now: Timestamp,
    command: &'a Lease,
    attempt: Option<&'a Text>,
) -> Result<Option<Taking<'a>>, StoreError> {
    let room = u64::from(command.in_flight_max).saturating_sub(book.in_flight());
    let wanted = u64::from(command.max);
    book.limited |= room < wanted;
    if room == 0 {
        return match command.over_limit {
            OverLimit::Refuse => Err(RuleError::TooManyInFlight.into()),
            OverLimit::FindNothing => Ok(None),
        };
    }
    let length = command.terms.length.unwrap_or(book.queue.policy.lease_length);
    let until = match command.owner {
        Some(_) => Timestamp::NEVER,
        None => visibility::lease_until(now, length),
    };
    let terms = Leased {
        queue: command.queue,
        until,
        received_at: command.received_at,
        cap: command.terms.cap,
        lapse_delay: command.terms.lapse_delay,
        returns: command.terms.returns,
        owner: command.owner,
        attempt,
        by: command.by,
        taken: &[],
    };
    let room = usize::try_from(room.min(wanted)).unwrap_or(usize::MAX);
    let has_dead_letters = book.queue.policy.dead_letters.is_some();
    let (leased, taken) = (Vec::new(), SmallVec::new());
    let taking =
        Taking { command, terms, has_dead_letters, room, cut_short: false, body_bytes: 0, leased, taken };
    Ok(Some(taking))
}

/// The message a standard queue gives next: the first, unless its group is noisy and another waits.
fn choose(book: &mut Book, now: Timestamp) -> Option<Item> {
    let first = book.front()?;
    let stands_back = first.group.is_some_and(|group| {
        book.has_noisy_leases(group)
            || (book.has_noisy_backlog(group) && !fairness::is_turn_of_the_front(now, book.in_flight()))
    });
    if !stands_back || book.is_all_noise() || book.has_looked_in_vain() {
        return Some(first);
    }
    let is_quiet = |item: &Item| {
        item.group.is_none_or(|group| !(book.has_noisy_leases(group) || book.has_noisy_backlog(group)))
    };
    let mut looked = 0;
    let quiet = book.ready_items().take(fairness::LOOK_AHEAD).inspect(|_| looked += 1).find(is_quiet);
    if quiet.is_none() && looked == fairness::LOOK_AHEAD {
        book.look_again_after(fairness::LOOK_AGAIN_AFTER);
    }
    Some(quiet.unwrap_or(first))
}

#[cfg(test)]
mod tests {
    use kew_core::command::Lease;
    use kew_core::rules::dead_letters;
    use kew_core::{
        AccountId, Carries, Command, DeadLetterAction, DeadLetterRule, Outcome, Policy, QueueId, QueueKey,
        Timestamp,
    };

    use crate::ledger::Bounds;
    use crate::ledger::scene::{NOW, Scene};

    fn leased(scene: &mut Scene, at: Timestamp, lease: Lease) -> usize {
        match scene.step(at, &Command::Lease(lease)) {
            Outcome::Leased(leased) => leased.len(),
            other => panic!("leases are expected: {other:?}"),
        }
    }

    /// A group of 20 messages of which 10 were leased as often as allowed, and when they may leave.
    fn exhausted_group(bounds: Bounds) -> (Scene, QueueId, Timestamp) {
        let mut scene = Scene::new(bounds);
        scene.queue("dead", Policy::fifo());
        let rule = DeadLetterRule {
            attempts_max: 1,
            then: DeadLetterAction::MoveTo(QueueKey::new(AccountId(0), "r", "dead")),
            carries: Carries::History,
            written_by: "test".into(),
        };
        let queue = scene.queue("q", Policy { dead_letters: Some(Box::new(rule)), ..Policy::fifo() });
        (0..20).for_each(|_| scene.send_to(queue, Some("group")));
        assert_eq!(leased(&mut scene, NOW, Lease::of(queue, 10, NOW)), 10);
        let end = NOW.plus(Policy::fifo().lease_length);
        (scene, queue, dead_letters::leaves_at(end))
    }

    #[test]
    fn receive_reads_no_more_of_a_group_than_it_may_take_and_send_off() {
        let (mut scene, queue, over) = exhausted_group(Bounds { departures: 3, ..Bounds::default() });
        scene.ledger.shelf.is_full = true;
        scene.step(over, &Command::Due);
        let leaves = scene.ledger.leaving(queue).expect("the queue was made by this test");
        let group = scene.ledger.first_turn(queue).expect("a group offers something");
        let book = scene.ledger.book(queue).expect("the queue was made by this test");
        let read = |max, leaving_max| book.offered_by(group, max, leaving_max, &leaves).len();
        // Ten may leave, and ten stay.
        assert_eq!([read(0, 3), read(1, 0), read(1, 3), read(2, 3)], [0, 1, 4, 5]);
        assert_eq!([read(1, 9), read(1, 10), read(1, 1_000), read(20, 1_000)], [10, 11, 11, 20]);
        assert_eq!(read(usize::MAX, usize::MAX), 20);
    }

    #[test]
    fn receive_gets_all_it_asked_for_where_few_dead_letters_may_leave_and_none_has_room() {
        let (mut scene, queue, over) = exhausted_group(Bounds { departures: 1, ..Bounds::default() });
        scene.ledger.shelf.is_full = true;
        assert_eq!(leased(&mut scene, over, Lease::of(queue, 10, over)), 10);
    }

    #[test]
    fn receive_gets_no_more_than_it_asked_for_where_there_is_no_room_for_dead_letters() {
        for (max, in_flight_max, expected) in [(1, 100, 1), (10, 3, 3), (12, 100, 12), (20, 100, 20)] {
            let (mut scene, queue, over) = exhausted_group(Bounds::default());
            scene.ledger.shelf.is_full = true;
            let lease = Lease { in_flight_max, ..Lease::of(queue, max, over) };
            assert_eq!(leased(&mut scene, over, lease), expected);
            assert_eq!(scene.figures(queue), (20 - expected as u64, expected as u64, 0));
            assert_eq!(scene.ledger.miscounts(), Vec::<String>::new());
        }
    }
}
