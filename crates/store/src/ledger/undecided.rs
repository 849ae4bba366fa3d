//! Messages of which it is not decided whether they leave as dead letters: kept apart, and taken up again when that may
//! have changed. Their queues are listed as due in slices, and a bounded number of messages leaves in a step.

use kew_core::{QueueId, Sequence, Timestamp};

use super::Ledger;
use super::passing::list;
use super::shelf::Shelf;

impl<S: Shelf> Ledger<S> {
    /// It is not decided whether a message leaves.
    pub(super) fn leave_undecided(&mut self, queue: QueueId, departure: (Timestamp, Sequence)) {
        if let Some(book) = self.books.get_mut(&queue) {
            book.leave_undecided(departure);
            self.undecided.insert(queue);
        }
    }

    /// A queue is deleted.
    pub(super) fn forget_undecided(&mut self, queue: QueueId) {
        self.undecided.remove(&queue);
        self.taken_up.remove(&queue);
        self.overdue.remove(&queue);
    }

    /// Messages of which that is not decided are to be looked at again.
    pub(super) fn take_up_undecided(&mut self) {
        // The smaller ones go to the others.
        if self.taken_up.len() < self.undecided.len() {
            std::mem::swap(&mut self.taken_up, &mut self.undecided);
        }
        self.taken_up.extend(std::mem::take(&mut self.undecided));
        self.taken_up_at = self.newest;
        self.take_up_slice();
    }

    /// Lists a slice of their queues as due.
    pub(super) fn take_up_slice(&mut self) {
        self.list_taken_up(self.bounds.slice.max(1));
    }

    /// Lists at most `max` of them.
    pub(super) fn list_taken_up(&mut self, max: usize) {
        for _ in 0..max {
            let Some(queue) = self.taken_up.pop_first() else { return };
            self.list_as_overdue(queue);
        }
    }

    /// Lists a queue under what was undecided of it.
    pub(super) fn list_as_overdue(&mut self, queue: QueueId) {
        let Some(book) = self.books.get_mut(&queue) else { return };
        book.take_up_undecided();
        list(&mut self.due, book);
        if book.departs_by(self.taken_up_at) {
            self.overdue.insert(queue, self.taken_up_at);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use kew_core::command::{DeleteQueue, Lease, UpdateQueue};
    use kew_core::rules::dead_letters;
    use kew_core::{
        AccountId, Carries, Command, DeadLetterAction, DeadLetterRule, LeaseTerms, MessageId, Outcome,
        Policy, Queue, QueueId, QueueKey, ShardCount, ShardId, ShardPlace,
    };

    use crate::ledger::Bounds;
    use crate::ledger::scene::{NOW, Scene};
    use crate::{Elsewhere, StoreError};

    /// Queues of which one slice is listed, and messages that leave in one step.
    const SLICE: usize = 3;
    const LEASE: Duration = Duration::from_secs(30);

    /// There are no queues in other shards.
    struct Nowhere;

    impl Elsewhere for Nowhere {
        fn find(&self, _: &QueueKey) -> Result<Option<Arc<Queue>>, StoreError> {
            Ok(None)
        }
    }

    /// Leases up to ten messages. They were made in the order of these ids.
    fn leased(scene: &mut Scene, queue: QueueId) -> Vec<MessageId> {
        let terms = LeaseTerms { length: Some(LEASE), ..LeaseTerms::default() };
        let now = scene.ledger.newest.max(NOW);
        match scene.step(now, &Command::Lease(Lease { terms, ..Lease::of(queue, 10, now) })) {
            Outcome::Leased(leased) => leased.iter().map(|leased| leased.message.id).collect(),
            other => panic!("leases are expected: {other:?}"),
        }
    }

    /// Queues each with messages whose last lease is over, and which go to the queue `dead`, which is not there.
    fn undecided(queues: usize, messages: usize) -> (Scene, Vec<QueueId>) {
        undecided_of(Policy::standard(), Carries::History, queues, messages)
    }

    fn undecided_of(
        policy: Policy,
        carries: Carries,
        queues: usize,
        messages: usize,
    ) -> (Scene, Vec<QueueId>) {
        let mut scene = Scene::new(Bounds { slice: SLICE, departures: SLICE, ..Bounds::default() });
        let place = ShardPlace { shard: ShardId(0), of: ShardCount::new(2).expect("2 shards are allowed") };
        scene.ledger = scene.ledger.at(place);
        let dead = QueueKey::new(AccountId(0), "r", "dead");
        let rule = DeadLetterRule {
            attempts_max: 1,
            then: DeadLetterAction::MoveTo(dead),
            carries,
            written_by: "test".into(),
        };
        let group = policy.kind.is_fifo().then_some("group");
        let policy = Policy { dead_letters: Some(Box::new(rule)), ..policy };
        let make = |number| scene.queue(&format!("q{number}"), policy.clone());
        let ids: Vec<QueueId> = (0..queues).map(make).collect();
        for queue in &ids {
            (0..messages).for_each(|_| scene.send_to(*queue, group));
            assert_eq!(leased(&mut scene, *queue).len(), messages);
        }
        let over = dead_letters::leaves_at(NOW.plus(LEASE));
        for _ in 0..=queues * messages {
            scene.step(over, &Command::Due);
        }
        (scene, ids)
    }

    #[test]
    fn queues_are_listed_a_slice_at_a_time_when_the_others_are_known() {
        for queues in [0, 1, SLICE - 1, SLICE, SLICE + 1, 3 * SLICE] {
            let (mut scene, ids) = undecided(queues, 1);
            let dead = scene.queue("dead", Policy::standard());
            assert_eq!(scene.ledger.undecided.len(), queues);
            let left = |scene: &Scene| ids.iter().map(|queue| scene.figures(*queue).0).sum::<u64>();
            assert_eq!((left(&scene), scene.figures(dead)), (queues as u64, (0, 0, 0)));

            scene.ledger.know_others(Arc::new(Nowhere));
            let listed = |scene: &Scene| queues - scene.ledger.taken_up.len();
            assert_eq!((listed(&scene), scene.ledger.undecided.len()), (queues.min(SLICE), 0));
            for _ in 0..queues.div_ceil(SLICE) {
                let (before, now) = (listed(&scene), scene.ledger.newest);
                assert!(scene.ledger.next_due().is_some_and(|due| due <= now.next()), "it goes on at once");
                scene.step(now, &Command::Due);
                assert!(listed(&scene) <= before + SLICE);
                assert_eq!(scene.figures(dead).0, before as u64, "what is not listed stays");
            }
            assert_eq!((left(&scene), scene.figures(dead)), (0, (queues as u64, 0, 0)));
            assert!(scene.ledger.next_due().is_none_or(|due| due > scene.ledger.newest.next()));
        }
    }

    #[test]
    fn what_was_undecided_comes_before_what_is_due_later_in_its_queue() {
        let (mut scene, ids) = undecided(SLICE + 1, 1);
        let (last, retention) = (ids[SLICE], Duration::from_secs(120));
        scene.queue("dead", Policy::standard());
        let book = scene.ledger.book(last).expect("the queue was made by this test");
        let policy = Some(Policy { retention, ..book.queue.policy.clone() });
        let update =
            UpdateQueue { queue: last, if_version: None, policy, documents: Vec::new(), rename: None };
        scene.step(scene.ledger.newest, &Command::UpdateQueue(update));
        scene.ledger.know_others(Arc::new(Nowhere));
        assert!(scene.ledger.taken_up.contains(&last), "it is not listed");
        // The time of its message is over, too. Steps that ask for nothing due look at it all the same.
        for _ in 0..=ids.len() {
            scene.step(NOW.plus(2 * retention), &Command::Queues);
        }
        let tally = scene.ledger.tallies(&[last])[0];
        assert_eq!((tally.expired, tally.dead_lettered), (0, 1));
        assert!(scene.ledger.overdue.is_empty());
    }

    #[test]
    fn messages_of_one_queue_leave_a_bounded_number_in_a_step() {
        let (mut scene, ids) = undecided(1, 10);
        // A shard that is opened looks at some of them before others are known. They are undecided again.
        scene.ledger.end_replay();
        scene.step(scene.ledger.newest, &Command::Due);
        assert_eq!(scene.ledger.undecided.len(), 1);
        let dead = scene.queue("dead", Policy::standard());
        scene.ledger.know_others(Arc::new(Nowhere));
        for arrived in [3, 6, 9, 10] {
            scene.step(scene.ledger.newest, &Command::Due);
            assert_eq!(scene.figures(dead), (arrived, 0, 0));
        }
        assert_eq!(scene.figures(ids[0]), (0, 0, 0));
        assert!(scene.ledger.overdue.is_empty(), "nothing more leaves late");
        let arrived = leased(&mut scene, dead);
        assert!(
            arrived.len() == 10 && arrived.is_sorted(),
            "in the order in which their leases ended: {arrived:?}"
        );
    }

    /// What leaves late begins anew in its target, no earlier than what is newest. Until that is reached it is hidden
    /// there, and what is sent behind it, too.
    #[test]
    fn what_is_sent_behind_late_ones_on_a_fifo_queue_waits_for_its_turn() {
        let (mut scene, _) = undecided_of(Policy::fifo(), Carries::Nothing, 1, 2 * SLICE);
        let dead = scene.queue("dead", Policy::fifo());
        let later = scene.ledger.newest.plus(LEASE);
        scene.step(later, &Command::Queues);
        scene.ledger.know_others(Arc::new(Nowhere));
        // Before it is sent one slice leaves, and before it is leased the other.
        scene.send_to(dead, Some("group"));
        assert_eq!(scene.figures(dead), (0, 0, SLICE as u64 + 1));
        for _ in 0..3 {
            scene.step(later, &Command::Due);
            assert_eq!(scene.ledger.miscounts(), Vec::<String>::new());
        }
        assert_eq!(scene.figures(dead), (2 * SLICE as u64 + 1, 0, 0));
        assert_eq!(leased(&mut scene, dead).len(), 2 * SLICE + 1);
    }

    #[test]
    fn messages_that_expired_meanwhile_are_not_looked_at() {
        for policy in [Policy::standard(), Policy::fifo()] {
            let (mut scene, ids) = undecided_of(policy, Carries::History, 1, 10);
            let retention =
                scene.ledger.book(ids[0]).expect("the queue was made by this test").queue.policy.retention;
            let over = NOW.plus(retention);
            let group = scene.ledger.book(ids[0]).is_ok_and(|book| book.queue.policy.kind.is_fifo());
            scene.send_to(ids[0], group.then_some("other"));
            for _ in 0..20 {
                scene.step(over, &Command::Due);
            }
            let book = scene.ledger.book(ids[0]).expect("the queue was made by this test");
            assert_eq!(book.order().departures, []);
            assert_eq!(scene.ledger.miscounts(), Vec::<String>::new());
        }
    }

    #[test]
    fn messages_that_left_meanwhile_are_not_looked_at() {
        let (mut scene, ids) = undecided(1, 10);
        let dead = scene.queue("dead", Policy::standard());
        for left in [7, 4, 1, 0] {
            assert_eq!(leased(&mut scene, ids[0]), [], "a receive sends some of them off");
            assert_eq!((scene.figures(ids[0]).0, scene.figures(dead).0), (left, 10 - left));
            let book = scene.ledger.book(ids[0]).expect("the queue was made by this test");
            assert_eq!(book.order().departures.len() as u64, left);
        }
    }

    #[test]
    fn queues_that_are_deleted_meanwhile_are_forgotten() {
        let (mut scene, ids) = undecided(SLICE + 2, SLICE);
        let dead = scene.queue("dead", Policy::standard());
        scene.ledger.know_others(Arc::new(Nowhere));
        assert_eq!(scene.ledger.taken_up.len(), 2);
        // Before each step the messages of one listed queue leave, as long as there are any.
        for (deleted, arrived) in [(ids[1], SLICE), (ids[4], 2 * SLICE), (ids[3], 2 * SLICE)] {
            let delete = DeleteQueue { queue: deleted, if_version: None };
            scene.step(scene.ledger.newest, &Command::DeleteQueue(delete));
            assert_eq!(scene.figures(dead), (arrived as u64, 0, 0));
        }
        let ledger = &scene.ledger;
        assert!(ledger.undecided.is_empty() && ledger.taken_up.is_empty() && ledger.overdue.is_empty());
    }
}
