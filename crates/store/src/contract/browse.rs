//! Looking through a queue in the order of sends, whatever its messages are doing.

use std::collections::BTreeSet;

use kew_core::command::{Browse, StateKind, View};
use kew_core::outcome::{Page, Seen};
use kew_core::{Command, NewMessage, Outcome, Policy, QueueId, ReceiptRule, RuleError, Sequence, State};

use super::Factory;
use super::stage::{Stage, body, group, seconds};

/// What the pages of a browse may be about.
const STATES: [Option<StateKind>; 4] =
    [None, Some(StateKind::Visible), Some(StateKind::InFlight), Some(StateKind::Delayed)];

fn page(stage: &Stage<'_>, browse: Browse) -> Page {
    match stage.step(Command::Browse(browse)) {
        Outcome::Browsed(page) => page,
        other => panic!("a page is expected: {other:?}"),
    }
}

/// All pages of a browse, one after the other.
fn pages(stage: &Stage<'_>, browse: &Browse) -> Vec<Seen> {
    let (mut seen, mut next) = (Vec::new(), Some(browse.from));
    while let Some(from) = next {
        let page = page(stage, Browse { from, ..browse.clone() });
        assert!(page.next.is_none_or(|next| next > from || !page.messages.is_empty()), "it goes on");
        seen.extend(page.messages);
        next = page.next;
    }
    seen
}

fn bodies(seen: &[Seen]) -> Vec<String> {
    seen.iter().map(|seen| body(&seen.message)).collect()
}

/// A standard queue with messages in every state, near and far delays among them.
fn mixed(stage: &mut Stage<'_>, count: u64) -> QueueId {
    let queue = stage.standard();
    for number in 0..count {
        let message = stage.message(&number.to_string());
        let delay = match number % 5 {
            3 => Some(seconds(5 + number % 7)),
            4 => Some(seconds(40_000 + 3_600 * (number % 11))),
            _ => None,
        };
        stage.send(queue, NewMessage { delay, ..message });
    }
    for (number, leased) in stage.lease(queue, (count / 5) as u32).into_iter().enumerate() {
        if number % 4 == 0 {
            stage.release(leased.token, seconds(0)).expect("the message was leased just now");
        }
    }
    queue
}

pub fn every_message_is_seen_once_in_the_order_of_sends_whatever_it_is_doing(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = mixed(&mut stage, 60);
    let expected: Vec<String> = (0..60).map(|number| number.to_string()).collect();
    for (max, look_max) in [(1, 1), (7, 1_000), (100, 3), (100, 1_000)] {
        let seen = pages(&stage, &Browse { look_max, ..Browse::of(queue, max) });
        assert_eq!(bodies(&seen), expected, "pages of {max}, {look_max} looked at");
    }
}

pub fn pages_of_one_state_add_up_to_the_figures(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let groups = stage.named("groups", Policy { delay: seconds(100), ..Policy::fifo() });
    for number in 0..300_u32 {
        let message = stage.grouped(&format!("g{}", number % 17), &number.to_string());
        stage.send(groups, message);
        if number == 200 {
            stage.pass(seconds(100));
            stage.lease(groups, 40);
        }
    }
    let queue = mixed(&mut stage, 3_000);
    for (queue, count) in [(queue, 3_000), (groups, 300)] {
        let (visible, in_flight, delayed) = stage.figures(queue);
        assert!(visible > 0 && in_flight > 0 && delayed > 0, "{visible} {in_flight} {delayed}");
        for (state, expected) in STATES.into_iter().zip([count, visible, in_flight, delayed]) {
            let seen = pages(&stage, &Browse { state, look_max: 100, ..Browse::of(queue, 33) });
            let sequences: BTreeSet<Sequence> = seen.iter().map(|seen| seen.message.sequence).collect();
            assert_eq!((seen.len(), sequences.len() as u64), (sequences.len(), expected), "{state:?}");
            assert!(seen.is_sorted_by_key(|seen| seen.message.sequence), "{state:?}");
            let kind = |seen: &Seen| match seen.message.state {
                State::Ready => StateKind::Visible,
                State::Leased { .. } => StateKind::InFlight,
                State::Delayed { .. } => StateKind::Delayed,
            };
            assert!(seen.iter().all(|seen| state.is_none_or(|state| kind(seen) == state)));
        }
    }
}

pub fn messages_are_shown_as_a_look_shows_them_and_nothing_changes(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = mixed(&mut stage, 40);
    let before = stage.counts(queue);
    let seen = pages(&stage, &Browse::of(queue, 10));
    for view in [View::Ready, View::Delayed, View::Leased] {
        for message in stage.peek(queue, view) {
            let same = seen.iter().find(|seen| seen.message.sequence == message.sequence);
            assert_eq!(same.map(|seen| &seen.message), Some(&message));
        }
    }
    assert_eq!(pages(&stage, &Browse::of(queue, 10)), seen, "a browse changes nothing");
    assert_eq!(stage.counts(queue), before);
    let leased_at = |seen: &Seen| seen.leased_at.is_some();
    assert!(seen.iter().all(|seen| leased_at(seen) == matches!(seen.message.state, State::Leased { .. })));
    assert!(seen.iter().all(|seen| seen.is_readable));
}

pub fn only_what_is_wanted_is_seen(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    for name in ["a", "b", "a"] {
        let message = stage.message(name);
        stage.send(queue, NewMessage { group: group(name), ..message });
        stage.pass(seconds(10));
    }
    stage.lease(queue, 2);
    let all = Browse::of(queue, 10);
    let of_group = |name| Browse { group: group(name), ..all.clone() };
    assert_eq!(bodies(&pages(&stage, &of_group("a"))), ["a", "a"]);
    assert!(pages(&stage, &of_group("nobody")).is_empty());
    let tried = Browse { attempts_min: 1, ..all.clone() };
    assert_eq!(bodies(&pages(&stage, &tried)), ["a", "b"]);
    let second = page(&stage, all.clone()).messages[1].message.sent_at;
    let old = Browse { sent_through: second, ..all.clone() };
    assert_eq!(bodies(&pages(&stage, &old)), ["a", "b"]);
    let behind = Browse { from: Sequence(3), ..all };
    assert_eq!(bodies(&pages(&stage, &behind)), ["a"]);
}

pub fn page_holds_as_many_bytes_as_asked_for_and_at_least_one_message(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    stage.send_text(queue, &["aaaa", "bbbb", "c"]);
    for (body_bytes_max, expected) in [(0, 1), (7, 1), (8, 2), (9, 3)] {
        let page = page(&stage, Browse { body_bytes_max, ..Browse::of(queue, 10) });
        let next = (expected < 3).then_some(Sequence(expected + 1));
        assert_eq!((page.messages.len() as u64, page.next), (expected, next));
    }
}

pub fn page_without_a_message_says_where_the_next_one_begins(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    let bodies: Vec<String> = (0..2_000).map(|number| number.to_string()).collect();
    stage.send_text(queue, &bodies.iter().map(String::as_str).collect::<Vec<_>>());
    let nobody = Browse { attempts_min: 9, look_max: 600, ..Browse::of(queue, 10) };
    let (mut slices, mut next) = (0, Some(nobody.from));
    while let Some(from) = next {
        let page = page(&stage, Browse { from, ..nobody.clone() });
        assert!(page.messages.is_empty());
        (slices, next) = (slices + 1, page.next);
    }
    assert_eq!(slices, 4);
}

pub fn receipt_of_a_page_deletes_its_message(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = mixed(&mut stage, 10);
    for seen in pages(&stage, &Browse::of(queue, 10)) {
        assert_eq!(stage.ack_by(ReceiptRule::Any, seen.token), Ok(()));
    }
    assert_eq!(stage.counts(queue).stored(), 0);
    assert_eq!(page(&stage, Browse::of(queue, 10)), Page::default());
    assert_eq!(stage.refused(Command::Browse(Browse::of(QueueId(404), 1))), RuleError::QueueNotFound);
}
