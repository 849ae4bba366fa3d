//! Bringing messages back to where they came from, or elsewhere.

use std::sync::Arc;

use kew_core::command::{
    ContinueMove, DeleteQueue, Extend, Extension, ListMoves, MoveChosen, StartMove, View,
};
use kew_core::task::TASK_TIME_MAX;
use kew_core::{
    Carries, Command, Content, MoveReason, MoveTask, NewMessage, Origin, Outcome, Policy, QueueId, RuleError,
    Sequence, TaskFailure, TaskId, TaskState,
};

use super::{Ending, Factory};
use super::stage::{Stage, dead_letters, id, seconds};

fn task(outcome: Outcome) -> Arc<MoveTask> {
    match outcome {
        Outcome::Move(task) => task,
        other => panic!("a task is expected: {other:?}"),
    }
}

fn starting(source: QueueId, to: Option<&str>) -> Command {
    starting_beside(source, to, 100)
}

fn starting_beside(source: QueueId, to: Option<&str>, running_max: u32) -> Command {
    Command::StartMove(StartMove { source, destination: to.map(Stage::key), rate_max: None, running_max })
}

fn start(stage: &Stage<'_>, source: QueueId, to: Option<&str>) -> Arc<MoveTask> {
    task(stage.step(starting(source, to)))
}

fn go_on(stage: &Stage<'_>, id: TaskId, max: u32) -> Arc<MoveTask> {
    task(stage.step(Command::ContinueMove(ContinueMove { task: id, max })))
}

fn moves(stage: &Stage<'_>, source: Option<QueueId>) -> Vec<Arc<MoveTask>> {
    match stage.step(Command::ListMoves(ListMoves { source })) {
        Outcome::Moves(tasks) => tasks,
        other => panic!("tasks are expected: {other:?}"),
    }
}

fn move_chosen(
    stage: &Stage<'_>,
    source: QueueId,
    to: Option<&str>,
    tokens: Vec<kew_core::LeaseToken>,
) -> Vec<Result<Sequence, RuleError>> {
    match stage.step(Command::MoveChosen(MoveChosen { source, destination: to.map(Stage::key), tokens })) {
        Outcome::MovedChosen(moved) => moved,
        other => panic!("moves are expected: {other:?}"),
    }
}

/// Two queues whose messages died into a third.
fn dead_letters_of_two(stage: &mut Stage<'_>) -> (QueueId, QueueId, QueueId) {
    let dead = stage.named("dead", Policy::standard());
    let mortal = || Policy { dead_letters: dead_letters("dead", 1, Carries::History), ..Policy::standard() };
    let (one, two) = (stage.named("one", mortal()), stage.named("two", mortal()));
    for (queue, bodies) in [(one, ["a", "b"]), (two, ["c", "d"])] {
        stage.send_text(queue, &bodies);
        stage.lease(queue, 10);
    }
    stage.pass(seconds(31));
    assert_eq!(stage.figures(dead), (4, 0, 0));
    (dead, one, two)
}

pub fn task_moves_at_most_a_mebibyte_in_a_step_and_one_larger_message_by_itself(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let (from, to) = (stage.named("from", Policy::standard()), stage.named("to", Policy::standard()));
    for kibibytes in [300, 300, 300, 300, 1_100, 1] {
        stage.send_text(from, &[&"b".repeat(kibibytes << 10)]);
    }
    let begun = start(&stage, from, Some("to"));
    for (moved, state) in [(3, TaskState::Running), (4, TaskState::Running), (5, TaskState::Running)] {
        let task = go_on(&stage, begun.id, 100);
        assert_eq!((task.moved, task.state), (moved, state));
    }
    assert_eq!(go_on(&stage, begun.id, 100).state, TaskState::Completed);
    assert_eq!(stage.figures(to), (6, 0, 0));
}

pub fn task_moves_what_was_visible_step_by_step(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let (from, to) = (stage.named("from", Policy::standard()), stage.named("to", Policy::standard()));
    stage.send_text(from, &["a", "b", "c", "d"]);
    stage.lease(from, 1);
    let begun = start(&stage, from, Some("to"));
    assert_eq!((begun.state, begun.to_move, begun.moved), (TaskState::Running, 3, 0));
    assert_eq!((begun.source, &begun.source_key, begun.started_at), (from, &Stage::key("from"), stage.now()));
    let half = go_on(&stage, begun.id, 2);
    assert_eq!((half.state, half.moved), (TaskState::Running, 2));
    assert_eq!(stage.peeked_bodies(to, View::Ready), ["b", "c"]);
    let done = go_on(&stage, begun.id, 2);
    assert_eq!((done.state, done.moved), (TaskState::Completed, 3));
    assert_eq!(stage.figures(from), (0, 1, 0));
    assert_eq!(moves(&stage, None), [done]);
}

pub fn moved_message_is_a_new_one(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let (from, to) = (
        stage.named("from", Policy::standard()),
        stage.named("to", Policy { delay: seconds(5), ..Policy::standard() }),
    );
    let sent = stage.send_text(from, &["a"]).remove(0);
    stage.lease_for(from, 1, seconds(0));
    stage.pass(seconds(9));
    let begun = start(&stage, from, Some("to"));
    go_on(&stage, begun.id, 10);
    assert_eq!(stage.figures(to), (0, 0, 1), "the target's delay applies");
    let origin = Origin { queue: Stage::key("from"), reason: MoveReason::Redriven, at: stage.now() };
    let moved_at = stage.now();
    stage.pass(seconds(5));
    let moved = stage.lease_one(to).message;
    assert_ne!(moved.id, sent.id);
    assert_eq!((moved.attempts, moved.sent_at, moved.origin), (1, moved_at, Some(origin)));
    assert_eq!(moved.expires_at, Some(moved_at.plus(seconds(345_600))));
}

pub fn every_message_finds_its_own_way_back(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let (dead, one, two) = dead_letters_of_two(&mut stage);
    let begun = start(&stage, dead, None);
    assert_eq!(go_on(&stage, begun.id, 100).state, TaskState::Completed);
    assert_eq!(stage.leased_bodies(one), ["a", "b"]);
    assert_eq!(stage.leased_bodies(two), ["c", "d"]);
}

pub fn message_that_came_from_nowhere_stops_the_way_back(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let (dead, one, _) = dead_letters_of_two(&mut stage);
    stage.send_text(dead, &["sent here"]);
    let begun = start(&stage, dead, None);
    let failed = go_on(&stage, begun.id, 100);
    assert_eq!(failed.state, TaskState::Failed(TaskFailure::OriginUnknown));
    assert_eq!(failed.moved, 4, "what was moved stays moved");
    assert_eq!((stage.figures(dead), stage.figures(one)), ((1, 0, 0), (2, 0, 0)));
}

pub fn message_that_a_task_brought_stops_the_way_back(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let (dead, one, _) = dead_letters_of_two(&mut stage);
    let begun = start(&stage, dead, Some("one"));
    assert_eq!(go_on(&stage, begun.id, 100).state, TaskState::Completed);
    let begun = start(&stage, one, None);
    let failed = go_on(&stage, begun.id, 100);
    assert_eq!((failed.state, failed.moved), (TaskState::Failed(TaskFailure::OriginUnknown), 0));
    assert_eq!((stage.figures(dead), stage.figures(one)), ((0, 0, 0), (4, 0, 0)));
}

pub fn task_fails_with_the_reason_it_could_not_go_on(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let from = stage.named("from", Policy::standard());
    stage.named("fifo", Policy::fifo());
    let to = stage.named("to", Policy::standard());
    stage.send_text(from, &["a"]);
    let begun = start(&stage, from, Some("fifo"));
    assert_eq!(go_on(&stage, begun.id, 1).state, TaskState::Failed(TaskFailure::KindMismatch));
    let begun = start(&stage, from, Some("to"));
    stage.step(Command::DeleteQueue(DeleteQueue { queue: to, if_version: None }));
    assert_eq!(go_on(&stage, begun.id, 1).state, TaskState::Failed(TaskFailure::DestinationMissing));
    stage.named("to", Policy::standard());
    let begun = start(&stage, from, Some("to"));
    stage.step(Command::DeleteQueue(DeleteQueue { queue: from, if_version: None }));
    assert_eq!(go_on(&stage, begun.id, 1).state, TaskState::Failed(TaskFailure::SourceMissing));
}

pub fn start_needs_both_queues_and_no_running_task(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let (from, _) = (stage.named("from", Policy::standard()), stage.named("to", Policy::standard()));
    stage.send_text(from, &["a"]);
    assert_eq!(stage.refused(starting(QueueId(404), Some("to"))), RuleError::QueueNotFound);
    assert_eq!(stage.refused(starting(from, Some("nowhere"))), RuleError::QueueNotFound);
    let begun = start(&stage, from, Some("to"));
    assert_eq!(stage.refused(starting(from, Some("to"))), RuleError::TaskRunning);
    stage.step(Command::CancelMove(begun.id));
    assert_eq!(start(&stage, from, Some("to")).state, TaskState::Running);
}

pub fn only_so_many_tasks_of_an_account_run_at_once(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queues = ["one", "two", "three"].map(|name| stage.named(name, Policy::standard()));
    queues.iter().for_each(|queue| drop(stage.send_text(*queue, &["a"])));
    let [one, two, three] = queues;
    let begun = start(&stage, one, Some("three"));
    assert_eq!(stage.refused(starting_beside(two, None, 1)), RuleError::TooManyTasks);
    assert_eq!(task(stage.step(starting_beside(two, Some("three"), 2))).state, TaskState::Running);
    assert_eq!(stage.refused(starting_beside(three, None, 2)), RuleError::TooManyTasks);
    assert_eq!(stage.refused(starting_beside(one, None, 2)), RuleError::TaskRunning, "the nearer reason is answered");
    stage.step(Command::CancelMove(begun.id));
    assert_eq!(task(stage.step(starting_beside(one, Some("three"), 2))).state, TaskState::Running);
}

pub fn task_ends_when_its_time_is_over(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let (from, to) = (stage.named("from", Policy::standard()), stage.named("to", Policy::standard()));
    stage.send_text(from, &["a", "b"]);
    let begun = start(&stage, from, Some("to"));
    stage.pass(TASK_TIME_MAX - std::time::Duration::from_millis(1));
    assert_eq!(go_on(&stage, begun.id, 1).state, TaskState::Running);
    stage.pass(std::time::Duration::from_millis(1));
    let over = go_on(&stage, begun.id, 1);
    assert_eq!((over.state, over.moved), (TaskState::Failed(TaskFailure::TookTooLong), 1));
    assert_eq!((stage.figures(from), stage.figures(to)), ((1, 0, 0), (1, 0, 0)));
    assert_eq!(moves(&stage, Some(from)), [over]);
}

pub fn nothing_to_move_is_done_at_once(factory: &dyn Factory) {
    let stage = Stage::new(factory);
    let from = stage.named("from", Policy::standard());
    let done = start(&stage, from, None);
    assert_eq!((done.state, done.to_move), (TaskState::Completed, 0));
}

pub fn cancelled_task_keeps_what_it_moved_and_goes_no_further(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let (from, to) = (stage.named("from", Policy::standard()), stage.named("to", Policy::standard()));
    stage.send_text(from, &["a", "b"]);
    let begun = start(&stage, from, Some("to"));
    go_on(&stage, begun.id, 1);
    let cancelled = task(stage.step(Command::CancelMove(begun.id)));
    assert_eq!((cancelled.state, cancelled.moved), (TaskState::Cancelled, 1));
    let again = Command::ContinueMove(ContinueMove { task: begun.id, max: 1 });
    assert_eq!(stage.refused(again), RuleError::TaskNotFound);
    assert_eq!(stage.refused(Command::CancelMove(begun.id)), RuleError::TaskNotFound);
    assert_eq!(stage.refused(Command::CancelMove(TaskId(404))), RuleError::TaskNotFound);
    assert_eq!((stage.figures(from), stage.figures(to)), ((1, 0, 0), (1, 0, 0)));
}

pub fn task_is_over_when_others_took_what_it_was_to_move(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let (from, _) = (stage.named("from", Policy::standard()), stage.named("to", Policy::standard()));
    stage.send_text(from, &["a", "b"]);
    let begun = start(&stage, from, Some("to"));
    stage.lease(from, 2);
    let done = go_on(&stage, begun.id, 10);
    assert_eq!((done.state, done.moved), (TaskState::Completed, 0));
}

pub fn task_moves_no_more_than_it_found_at_its_start(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let (from, _) = (stage.named("from", Policy::standard()), stage.named("to", Policy::standard()));
    stage.send_text(from, &["a", "b"]);
    let begun = start(&stage, from, Some("to"));
    stage.send_text(from, &["late"]);
    assert_eq!(go_on(&stage, begun.id, 10).moved, 2);
    assert_eq!(stage.leased_bodies(from), ["late"]);
}

pub fn fifo_messages_keep_their_groups_and_order(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let (from, to) = (stage.named("from", Policy::fifo()), stage.named("to", Policy::fifo()));
    stage.send_groups(from, &["g-1", "h-1", "g-2", "h-2", "g-3"]);
    let begun = start(&stage, from, Some("to"));
    go_on(&stage, begun.id, 2);
    go_on(&stage, begun.id, 100);
    let moved = stage.lease(to, 10);
    assert_eq!(super::stage::bodies(&moved), ["g-1", "g-2", "g-3", "h-1", "h-2"]);
    for leased in moved {
        assert_eq!(leased.message.deduplication, id(&leased.message.id.to_string()));
    }
}

pub fn finished_tasks_are_listed_newest_first_up_to_a_hundred(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let (one, two) = (stage.named("one", Policy::standard()), stage.named("two", Policy::standard()));
    stage.send_text(two, &["a"]);
    let running = start(&stage, two, Some("one"));
    for _ in 0..105 {
        start(&stage, one, None);
    }
    let all = moves(&stage, None);
    assert_eq!(all.len(), 101, "a hundred finished ones beside the running one");
    assert!(all.is_sorted_by_key(|task| std::cmp::Reverse(task.id)));
    assert_eq!(moves(&stage, Some(two)), [running]);
    assert_eq!(moves(&stage, Some(one)).len(), 100);
}

pub fn chosen_messages_are_moved_each_for_itself(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let (dead, one, two) = dead_letters_of_two(&mut stage);
    stage.send_text(dead, &["sent here"]);
    let leased = stage.lease_one(dead);
    let seen = stage.peek_as(Stage::looking(dead, View::Ready));
    let of = |body: &str| {
        seen.iter().find(|(message, _)| super::stage::body(message) == body).expect("the moved message is found").1
    };
    let moved = move_chosen(&stage, dead, None, vec![of("d"), leased.token, of("sent here"), of("d")]);
    assert!(matches!(moved[0], Ok(Sequence(_))));
    let refused = [RuleError::LeaseEnded, RuleError::QueueNotFound, RuleError::MessageNotFound].map(Err);
    assert_eq!(moved[1..], refused);
    assert_eq!((stage.figures(one), stage.leased_bodies(two)), ((0, 0, 0), vec!["d".to_owned()]));
}

pub fn chosen_messages_go_where_a_person_says(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let (from, to) = (stage.named("from", Policy::fifo()), stage.named("to", Policy::fifo()));
    stage.named("standard", Policy::standard());
    stage.send_groups(from, &["g-1", "g-2"]);
    let later = stage.peek_as(Stage::looking(from, View::Ready))[1].1;
    assert_eq!(move_chosen(&stage, from, Some("standard"), vec![later]), [Err(RuleError::KindChange)]);
    assert!(move_chosen(&stage, from, Some("to"), vec![later])[0].is_ok(), "any ready message of a group");
    let nowhere = MoveChosen { source: from, destination: Some(Stage::key("nowhere")), tokens: Vec::new() };
    assert_eq!(stage.refused(Command::MoveChosen(nowhere)), RuleError::QueueNotFound);
    assert_eq!(
        (stage.leased_bodies(from), stage.leased_bodies(to)),
        (vec!["g-1".to_owned()], vec!["g-2".to_owned()])
    );
}

pub fn chosen_message_that_was_leased_since_the_look_stays(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let (from, to) = (stage.named("from", Policy::standard()), stage.named("to", Policy::standard()));
    stage.send_text(from, &["a"]);
    let seen = |stage: &Stage<'_>| stage.peek_as(Stage::looking(from, View::Ready))[0].1;
    let first = seen(&stage);
    let leased = stage.lease_one(from);
    assert_eq!(move_chosen(&stage, from, Some("to"), vec![first]), [Err(RuleError::LeaseEnded)]);
    assert!(stage.release(leased.token, seconds(0)).is_ok());
    assert_eq!(move_chosen(&stage, from, Some("to"), vec![first]), [Err(RuleError::TokenStale)]);
    assert_eq!((stage.figures(from), stage.figures(to)), ((1, 0, 0), (0, 0, 0)));
    let again = seen(&stage);
    assert!(move_chosen(&stage, from, Some("to"), vec![again])[0].is_ok(), "its newest receipt counts");
    assert_eq!((stage.figures(from), stage.figures(to)), ((0, 0, 0), (1, 0, 0)));
}

pub fn chosen_message_that_was_rewritten_since_the_look_stays(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let (from, to) = (stage.named("from", Policy::standard()), stage.named("to", Policy::standard()));
    stage.send_text(from, &["old"]);
    let seen = stage.peek_as(Stage::looking(from, View::Ready))[0].1;
    let leased = stage.lease_one(from);
    let content = Content { body: "new".into(), ..Content::default() };
    let entry = Extension { token: leased.token, length: seconds(0), content: Some(content) };
    assert!(
        stage.extend_as(Extend { entries: vec![entry], ..Stage::extending(leased.token, seconds(0)) }).is_ok()
    );
    assert_eq!(move_chosen(&stage, from, Some("to"), vec![seen]), [Err(RuleError::TokenStale)]);
    assert_eq!((stage.leased_bodies(from), stage.figures(to)), (vec!["new".to_owned()], (0, 0, 0)));
}

pub fn chosen_message_is_moved_once_however_often_it_is_asked_for(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let (from, to) = (stage.named("from", Policy::standard()), stage.named("to", Policy::standard()));
    stage.send_text(from, &["a", "b", "c"]);
    let seen = stage.peek_as(Stage::looking(from, View::Ready));
    let chosen = vec![seen[0].1, seen[2].1, seen[0].1];
    let moved = move_chosen(&stage, from, Some("to"), chosen.clone());
    assert_eq!((moved[0].is_ok(), moved[1].is_ok(), &moved[2]), (true, true, &Err(RuleError::MessageNotFound)));
    let again = move_chosen(&stage, from, Some("to"), chosen);
    assert_eq!(again, [const { Err(RuleError::MessageNotFound) }; 3]);
    assert_eq!(stage.leased_bodies(from), ["b"]);
    assert_eq!(stage.leased_bodies(to), ["a", "c"]);
}

pub fn chosen_messages_are_in_one_queue_after_a_restart(factory: &dyn Factory) {
    for ending in [Ending::Close, Ending::Kill] {
        let mut stage = Stage::new(factory);
        let (dead, one, two) = dead_letters_of_two(&mut stage);
        let seen = stage.peek_as(Stage::looking(dead, View::Ready));
        let of_two = |(message, _): &&(kew_core::Message, kew_core::LeaseToken)| {
            message.origin.as_ref().is_some_and(|origin| origin.queue == Stage::key("two"))
        };
        let chosen: Vec<_> = seen.iter().filter(of_two).map(|(_, token)| *token).collect();
        assert_eq!(chosen.len(), 2);
        assert!(move_chosen(&stage, dead, None, chosen.clone()).iter().all(Result::is_ok));
        if !stage.reopen(ending) {
            return;
        }
        assert_eq!((stage.figures(dead), stage.figures(one)), ((2, 0, 0), (0, 0, 0)));
        assert_eq!(stage.peeked_bodies(two, View::Ready), ["c", "d"]);
        let again = move_chosen(&stage, dead, None, chosen);
        assert_eq!(again, [const { Err(RuleError::MessageNotFound) }; 2]);
        assert_eq!(stage.figures(two), (2, 0, 0), "the step that replay repeats moves nothing twice");
    }
}

pub fn moved_message_keeps_its_own_time_to_live(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let (from, to) = (stage.named("from", Policy::standard()), stage.named("to", Policy::standard()));
    let mortal = NewMessage { expiry: kew_core::Expiry::After { seconds: 50 }, ..stage.message("a") };
    stage.send(from, mortal);
    stage.pass(seconds(40));
    let begun = start(&stage, from, Some("to"));
    go_on(&stage, begun.id, 1);
    stage.pass(seconds(49));
    assert_eq!(stage.figures(to), (1, 0, 0));
    stage.pass(seconds(1));
    assert_eq!(stage.figures(to), (0, 0, 0));
}
