//! Queues come, change, are renamed and go.

use std::sync::Arc;

use kew_core::command::{FirstReceipts, 
    Ack, CreateQueue, DeleteQueue, Extend, Identify, MoveChosen, Peek, Purge, Release, Send, StartMove, UpdateQueue,
    View, Withdraw,
};
use kew_core::{
    AccountId, Carries, Command, DeadLetterAction, DeduplicationScope, LeaseToken, Outcome, Policy, QueueId,
    QueueKey, QueueKind, ReceiptRule, RuleError, Sequence, WhenFree,
};

use super::Factory;
use super::stage::{Stage, dead_letters, expect_queue, seconds, first_receipt};

pub fn new_queue_has_version_one_and_the_instant_it_was_made(factory: &dyn Factory) {
    let stage = Stage::new(factory);
    let queue = stage.create(Stage::key("orders"), Policy::standard());
    assert_eq!((queue.version, queue.created_at, queue.modified_at), (1, stage.now(), stage.now()));
    assert_eq!((&queue.key, &queue.policy), (&Stage::key("orders"), &Policy::standard()));
    assert!(queue.documents.is_empty());
}

pub fn queues_are_listed_in_the_order_they_were_made(factory: &dyn Factory) {
    let stage = Stage::new(factory);
    let made = ["zebra", "ant", "fox"].map(|name| stage.create(Stage::key(name), Policy::standard()));
    assert_eq!(stage.queues(), made);
}

pub fn second_queue_of_a_name_is_refused_with_the_first_one(factory: &dyn Factory) {
    let stage = Stage::new(factory);
    let first = stage.create(Stage::key("orders"), Policy::standard());
    let again = CreateQueue { key: Stage::key("orders"), policy: Policy::fifo(), documents: Vec::new() };
    assert_eq!(stage.refused(Command::CreateQueue(again)), RuleError::QueueExists(first.clone()));
    assert_eq!(stage.queues(), [first]);
}

pub fn same_name_elsewhere_is_another_queue(factory: &dyn Factory) {
    let stage = Stage::new(factory);
    let keys = [(0, "here"), (0, "there"), (1, "here")]
        .map(|(account, region)| QueueKey::new(AccountId(account), region, "q"));
    let ids = keys.map(|key| stage.create(key, Policy::standard()).id);
    assert_eq!(ids.len(), stage.queues().len());
}

pub fn update_raises_the_version_and_notes_the_instant(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    let made = stage.now();
    stage.pass(seconds(5));
    let updated = stage.set_policy(queue, Policy { lease_length: seconds(7), ..Policy::standard() });
    assert_eq!((updated.version, updated.created_at, updated.modified_at), (2, made, stage.now()));
    assert_eq!(updated.policy.lease_length, seconds(7));
    assert_eq!(stage.queue(queue), updated);
}

pub fn change_on_a_condition_that_fails_changes_nothing(factory: &dyn Factory) {
    let stage = Stage::new(factory);
    let queue = stage.standard();
    let stale = UpdateQueue {
        if_version: Some(2),
        policy: Some(Policy { lease_length: seconds(7), ..Policy::standard() }),
        ..Stage::update(queue)
    };
    assert_eq!(stage.refused(Command::UpdateQueue(stale)), RuleError::VersionChanged);
    let delete = DeleteQueue { queue, if_version: Some(2) };
    assert_eq!(stage.refused(Command::DeleteQueue(delete)), RuleError::VersionChanged);
    assert_eq!((stage.queue(queue).version, stage.queue(queue).policy.lease_length), (1, seconds(30)));
    let fresh = UpdateQueue { if_version: Some(1), ..Stage::update(queue) };
    assert_eq!(expect_queue(stage.step(Command::UpdateQueue(fresh))).version, 2);
}

pub fn kind_is_for_life_but_the_scope_of_ids_is_not(factory: &dyn Factory) {
    let stage = Stage::new(factory);
    let (standard, fifo) = (stage.standard(), stage.fifo());
    for (queue, policy) in [(standard, Policy::fifo()), (fifo, Policy::standard())] {
        let update = UpdateQueue { policy: Some(policy), ..Stage::update(queue) };
        assert_eq!(stage.refused(Command::UpdateQueue(update)), RuleError::KindChange);
    }
    let kind = QueueKind::Fifo { scope: DeduplicationScope::Group, by_content: true };
    assert_eq!(stage.set_policy(fifo, Policy { kind, ..Policy::fifo() }).policy.kind, kind);
}

pub fn renamed_queue_keeps_its_messages_and_frees_its_name(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.named("old", Policy::standard());
    stage.send_text(queue, &["kept"]);
    assert_eq!(stage.rename(queue, "new").key, Stage::key("new"));
    assert_eq!(stage.leased_bodies(queue), ["kept"]);
    assert_ne!(stage.named("old", Policy::standard()), queue);
}

pub fn rules_follow_a_renamed_queue(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let target = stage.named("dead", Policy::standard());
    let rule = dead_letters("dead", 1, Carries::History);
    let source = stage.named("source", Policy { dead_letters: rule, ..Policy::standard() });
    let bystander = stage.named("bystander", Policy::standard());
    stage.pass(seconds(1));
    stage.rename(target, "buried");
    let followed = stage.queue(source);
    let rule = followed.policy.dead_letters.as_deref().expect("the rule stays");
    assert_eq!(rule.then, DeadLetterAction::MoveTo(Stage::key("buried")));
    assert_eq!((followed.version, followed.modified_at), (2, stage.now()));
    assert_eq!(stage.queue(bystander).version, 1);
    stage.send_text(source, &["lost"]);
    stage.lease(source, 1);
    stage.pass(seconds(31));
    assert_eq!(stage.leased_bodies(target), ["lost"]);
}

pub fn rule_that_names_its_own_queue_follows_it_in_the_same_version(factory: &dyn Factory) {
    let stage = Stage::new(factory);
    let rule = dead_letters("old", 1, Carries::History);
    let queue = stage.named("old", Policy { dead_letters: rule, ..Policy::standard() });
    let renamed = stage.rename(queue, "new");
    let rule = renamed.policy.dead_letters.as_deref().expect("the rule stays");
    assert_eq!(rule.then, DeadLetterAction::MoveTo(Stage::key("new")));
    assert_eq!(renamed.version, 2);
}

pub fn rename_to_a_taken_name_is_refused_and_to_its_own_is_not(factory: &dyn Factory) {
    let stage = Stage::new(factory);
    let one = stage.create(Stage::key("one"), Policy::standard());
    let two = stage.named("two", Policy::standard());
    let rename = UpdateQueue { rename: Some(Stage::key("one")), ..Stage::update(two) };
    assert_eq!(stage.refused(Command::UpdateQueue(rename)), RuleError::QueueExists(one));
    assert_eq!(stage.queue(two).key, Stage::key("two"));
    assert_eq!(stage.rename(two, "two").version, 2);
}

pub fn deleted_queue_takes_all_its_messages_and_its_name_along(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.named("orders", Policy::standard());
    let delayed = stage.message("delayed");
    stage.send(queue, kew_core::NewMessage { delay: Some(seconds(9)), ..delayed });
    stage.send_text(queue, &["leased", "ready"]);
    stage.lease(queue, 1);
    let deleted = stage.step(Command::DeleteQueue(DeleteQueue { queue, if_version: Some(1) }));
    assert_eq!(deleted, Outcome::QueueDeleted(3));
    assert!(stage.queues().is_empty());
    let again = stage.named("orders", Policy::standard());
    assert_eq!(stage.figures(again), (0, 0, 0));
}

pub fn number_of_a_deleted_queue_is_never_given_again(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.named("orders", Policy::standard());
    let sent = stage.send_text(queue, &["old"]).remove(0);
    stage.step(Command::DeleteQueue(DeleteQueue { queue, if_version: None }));
    let again = stage.named("orders", Policy::standard());
    assert!(again > queue);
    stage.send_text(again, &["new"]);
    let ack = Ack { queue: again, receipt: ReceiptRule::Any, tokens: vec![first_receipt(&sent)] };
    assert_eq!(stage.step(Command::Ack(ack)), Outcome::Acked(vec![Err(RuleError::TokenOfOtherQueue)]));
    assert_eq!(stage.leased_bodies(again), ["new"]);
}

pub fn nothing_can_be_done_in_a_queue_that_does_not_exist(factory: &dyn Factory) {
    let stage = Stage::new(factory);
    let queue = QueueId(404);
    let token = LeaseToken { queue, sequence: Sequence(1), nonce: 0, mac: 0 };
    let commands = [
        Command::UpdateQueue(Stage::update(queue)),
        Command::DeleteQueue(DeleteQueue { queue, if_version: None }),
        Command::Send(Send { queue, messages: Vec::new(), receipts: FirstReceipts::Told }),
        Command::Lease(stage.asking(queue, 1, seconds(1))),
        Command::Withdraw(Withdraw { queue, tokens: Vec::new() }),
        Command::Ack(Ack { queue, receipt: ReceiptRule::Any, tokens: Vec::new() }),
        Command::Extend(Extend {
            queue,
            receipt: ReceiptRule::Any,
            when_free: WhenFree::Ignore,
            renew: false,
            entries: Vec::new(),
        }),
        Command::Release(Release { queue, receipt: ReceiptRule::Any, entries: Vec::new() }),
        Command::Peek(Peek { max: 1, ..Stage::looking(queue, View::Ready) }),
        Command::Identify(Identify { queue, token }),
        Command::Purge(Purge { queue }),
        Command::Counts(queue),
        Command::StartMove(StartMove { source: queue, destination: None, rate_max: None, running_max: 100 }),
        Command::MoveChosen(MoveChosen { source: queue, destination: None, tokens: Vec::new() }),
    ];
    for command in commands {
        assert_eq!(stage.refused(command.clone()), RuleError::QueueNotFound, "{command:?}");
    }
}

pub fn snapshot_handed_out_does_not_change_afterwards(factory: &dyn Factory) {
    let stage = Stage::new(factory);
    let before = stage.create(Stage::key("orders"), Policy::standard());
    let held = Arc::clone(&before);
    stage.set_policy(before.id, Policy { lease_length: seconds(1), ..Policy::standard() });
    assert_eq!((held.version, held.policy.lease_length), (1, seconds(30)));
}
