//! Delays that end, many at once: messages are shown in slices.

use std::time::Duration;

use kew_core::command::{DeleteQueue, Lease, Peek, Purge, UpdateQueue, View};
use kew_core::{Command, LeaseTerms, Outcome, Policy, QueueId, Sequence, Timestamp};

use crate::ledger::Bounds;
use crate::ledger::scene::{NOW, Scene};

const SLICE: usize = 10;
/// Hidden messages that a queue keeps at hand.
const AT_HAND: usize = 1_024;
const DELAY: Duration = Duration::from_secs(600);

fn bounds() -> Bounds {
    Bounds { slice: SLICE, ..Bounds::default() }
}

impl Scene {
    /// A queue with this number of messages beside those at hand, all of which show at one instant.
    fn with_hidden(beside: usize) -> (Self, QueueId) {
        let mut scene = Self::new(bounds());
        let queue = scene.queue("q", Policy { delay: DELAY, ..Policy::standard() });
        (0..AT_HAND + beside).for_each(|_| scene.send(queue));
        // What comes near is dealt out ahead, a little each millisecond.
        while let Some(due) = scene.ledger.next_due().filter(|due| *due < NOW.plus(DELAY)) {
            scene.step(due, &Command::Due);
        }
        (scene, queue)
    }

    /// A FIFO queue with this number of messages, each in a group of its own, all of which show at one instant.
    fn with_groups(messages: usize) -> (Self, QueueId) {
        let mut scene = Self::new(bounds());
        let queue = scene.queue("q", Policy { delay: DELAY, ..Policy::fifo() });
        (0..messages).for_each(|number| scene.send_to(queue, Some(&format!("g{number}"))));
        (scene, queue)
    }

    fn lease_some(&mut self, at: Timestamp, queue: QueueId, max: u32) -> usize {
        let terms = LeaseTerms { length: Some(Duration::from_secs(900)), ..LeaseTerms::default() };
        match self.step(at, &Command::Lease(Lease { terms, ..Lease::of(queue, max, at) })) {
            Outcome::Leased(leased) => leased.len(),
            other => panic!("leases are expected: {other:?}"),
        }
    }

    /// The messages a peek shows, in order.
    fn peeked(&mut self, at: Timestamp, queue: QueueId) -> Vec<u64> {
        let peek = Peek { queue, view: View::Ready, skip: 0, max: u32::MAX, body_bytes_max: u64::MAX };
        match self.step(at, &Command::Peek(peek)) {
            Outcome::Peeked(messages) => messages.iter().map(|(message, _)| message.sequence.0).collect(),
            other => panic!("messages are expected: {other:?}"),
        }
    }

    /// Does the slices that are left. Returns how many there were.
    fn show_all(&mut self, from: Timestamp) -> usize {
        let (mut at, mut slices) = (from, 0);
        while !self.ledger.showing.is_empty() {
            at = at.next();
            assert_eq!(self.ledger.next_due(), Some(at));
            self.step(at, &Command::Due);
            slices += 1;
        }
        slices
    }
}

#[test]
fn delays_that_end_together_are_handed_over_a_slice_at_each_millisecond() {
    for beside in [0, 1, SLICE - 1, SLICE, SLICE + 1, 300] {
        let (mut scene, queue) = Scene::with_hidden(beside);
        let all = AT_HAND + beside;
        assert_eq!((scene.figures(queue), scene.offered(queue)), ((0, 0, all as u64), 0));
        let mut at = NOW.plus(DELAY);
        scene.step(at, &Command::Due);
        assert_eq!(scene.figures(queue), (all as u64, 0, 0), "all are counted at their instant");
        let mut left = beside.saturating_sub(SLICE);
        while left > 0 {
            let offered = scene.offered(queue);
            assert_eq!((offered, scene.ledger.next_due()), (all - left, Some(at.next())));
            assert_eq!(scene.ledger.take_freed()[..], [queue], "a receive that waits is served");
            scene.step(at, &Command::Queues);
            assert_eq!(scene.offered(queue), offered, "steps of others hand nothing over");
            at = at.next();
            scene.step(at, &Command::Due);
            left = left.saturating_sub(SLICE);
            assert_eq!(scene.figures(queue), (all as u64, 0, 0));
        }
        assert_eq!(scene.offered(queue), all);
        assert!(scene.ledger.next_due().is_none_or(|due| due > at.next()), "nothing is left to do");
    }
}

#[test]
fn a_receive_finds_messages_while_any_is_counted_as_visible() {
    let (mut scene, queue) = Scene::with_hidden(700);
    let (at, all) = (NOW.plus(DELAY), AT_HAND + 700);
    let mut leased = 0;
    while leased < all {
        let taken = scene.lease_some(at, queue, 10);
        assert!(taken > 0, "{leased} of {all}");
        leased += taken;
        assert_eq!(scene.figures(queue), ((all - leased) as u64, leased as u64, 0));
    }
    assert_eq!(scene.lease_some(at, queue, 10), 0);
}

#[test]
fn a_neighbour_is_served_between_slices() {
    let (mut scene, queue) = Scene::with_hidden(300);
    let other = scene.queue("other", Policy::standard());
    scene.send(other);
    let at = NOW.plus(DELAY);
    assert_eq!((scene.lease_some(at, other, 10), scene.offered(queue)), (1, AT_HAND + SLICE));
    assert_eq!(scene.figures(queue), (AT_HAND as u64 + 300, 0, 0));
}

#[test]
fn a_purge_or_deletion_between_slices_leaves_nothing_due() {
    let delete = |queue| Command::DeleteQueue(DeleteQueue { queue, if_version: None });
    for empty in [&(|queue| Command::Purge(Purge { queue })) as &dyn Fn(QueueId) -> Command, &delete] {
        let (mut scene, queue) = Scene::with_hidden(300);
        let mut at = NOW.plus(DELAY);
        scene.step(at, &Command::Due);
        scene.step(at, &empty(queue));
        for _ in 0..AT_HAND + 300 {
            at = at.next();
            scene.step(at, &Command::Due);
        }
        assert!(scene.ledger.showing.is_empty());
        assert!(scene.ledger.next_due().is_none_or(|due| due > at.next()), "nothing is left to do");
        assert_eq!(scene.ledger.shelf.kept(), 0);
    }
}

#[test]
fn groups_of_a_fifo_queue_whose_delays_end_together_get_their_turns_slice_by_slice() {
    for messages in [1, SLICE - 1, SLICE, SLICE + 1, 300] {
        let (mut scene, queue) = Scene::with_groups(messages);
        let at = NOW.plus(DELAY);
        assert_eq!(scene.figures(queue), (0, 0, messages as u64));
        scene.step(at, &Command::Queues);
        assert_eq!(scene.figures(queue), (messages as u64, 0, 0), "all are counted at their instant");
        assert!(scene.peeked(at, queue).into_iter().eq(1..=messages as u64), "and each is seen in its place");
        assert_eq!(scene.show_all(at), messages.saturating_sub(SLICE).div_ceil(SLICE));
        assert!(scene.peeked(at, queue).into_iter().eq(1..=messages as u64));
        assert_eq!(scene.figures(queue), (messages as u64, 0, 0));
    }
}

#[test]
fn a_receive_between_slices_takes_the_groups_of_a_fifo_queue_in_their_turns() {
    let (mut scene, queue) = Scene::with_groups(700);
    let at = NOW.plus(DELAY);
    scene.step(at, &Command::Queues);
    for turn in 0..70 {
        let order = scene.peeked(at, queue);
        assert!(order.into_iter().eq(10 * turn + 1..=700));
        assert_eq!(scene.lease_some(at, queue, 10), 10);
    }
    assert_eq!((scene.lease_some(at, queue, 10), scene.figures(queue)), (0, (0, 700, 0)));
}

#[test]
fn a_shorter_delay_of_a_fifo_queue_shows_its_messages_in_slices() {
    let (mut scene, queue) = Scene::with_groups(300);
    let policy = Some(Policy { delay: Duration::ZERO, ..Policy::fifo() });
    let update = UpdateQueue { queue, policy, rename: None, documents: Vec::new(), if_version: None };
    scene.step(NOW, &Command::UpdateQueue(update));
    assert_eq!(scene.figures(queue), (300, 0, 0));
    assert_eq!(scene.show_all(NOW), 300 / SLICE - 1, "the change did the first");
    assert!(scene.peeked(NOW, queue).into_iter().eq(1..=300));
}

#[test]
fn a_checkpoint_between_slices_has_every_group_in_its_turn() {
    let (mut scene, queue) = Scene::with_groups(300);
    let at = NOW.plus(DELAY);
    scene.step(at, &Command::Queues);
    scene.lease_some(at, queue, 10);
    assert!(!scene.ledger.showing.is_empty(), "it is in the middle of them");
    let mut bytes = Vec::new();
    let image = scene.ledger.image(queue.0).expect("the queue is there");
    image.write(&mut |piece| bytes.extend_from_slice(piece));
    let mut again = Scene::new(bounds());
    again.ledger.load_slice(queue.0, &bytes.into()).expect("just written");
    assert!(again.ledger.showing.is_empty());
    let order = |scene: &Scene| -> Vec<Sequence> {
        let book = scene.ledger.book(queue).expect("the queue is there");
        book.offered().map(|item| item.sequence).collect()
    };
    assert!(order(&again).into_iter().eq((11..=300).map(Sequence)));
    assert_eq!((order(&again), again.figures(queue)), (order(&scene), scene.figures(queue)));
    scene.show_all(at);
    assert_eq!((order(&again), again.figures(queue)), (order(&scene), scene.figures(queue)));
}
