//! Opaque documents that live with a queue or an account.

use bytes::Bytes;
use kew_core::command::{CreateQueue, Documents, PutDocuments, UpdateQueue};
use kew_core::queue::DOCUMENT_BYTES_MAX;
use kew_core::{AccountId, Command, DocumentKey, Outcome, Policy, RuleError};

use super::Factory;
use super::stage::{Stage, expect_queue};

fn tags() -> DocumentKey {
    DocumentKey::new("front", "tags")
}

fn acl() -> DocumentKey {
    DocumentKey::new("front", "acl")
}

fn account_documents(stage: &Stage<'_>, account: u64, owner: &str) -> Vec<(DocumentKey, Bytes)> {
    match stage.step(Command::Documents(Documents { account: AccountId(account), owner: owner.into() })) {
        Outcome::Documents(documents) => documents,
        other => panic!("documents are expected: {other:?}"),
    }
}

fn put(stage: &Stage<'_>, account: u64, documents: Vec<(DocumentKey, Option<Bytes>)>) {
    let put = PutDocuments { account: AccountId(account), if_is: None, documents };
    assert_eq!(stage.step(Command::PutDocuments(put)), Outcome::Done);
}

pub fn queue_is_made_with_its_documents_in_one_step(factory: &dyn Factory) {
    let stage = Stage::new(factory);
    let documents = vec![(tags(), Bytes::from_static(b"a=1"))];
    let create = CreateQueue { key: Stage::key("q"), policy: Policy::standard(), documents };
    let queue = expect_queue(stage.step(Command::CreateQueue(create)));
    assert_eq!(queue.documents.get(&tags()), Some(&Bytes::from_static(b"a=1")));
    assert_eq!(queue.version, 1);
}

pub fn documents_are_written_and_removed_with_the_settings(factory: &dyn Factory) {
    let stage = Stage::new(factory);
    let queue = stage.standard();
    let write = vec![(tags(), Some(Bytes::from_static(b"1"))), (acl(), Some(Bytes::from_static(b"2")))];
    let update = UpdateQueue { documents: write, ..Stage::update(queue) };
    assert_eq!(expect_queue(stage.step(Command::UpdateQueue(update))).documents.len(), 2);
    let remove = vec![(tags(), None), (acl(), Some(Bytes::from_static(b"3")))];
    let update = UpdateQueue { documents: remove, ..Stage::update(queue) };
    let updated = expect_queue(stage.step(Command::UpdateQueue(update)));
    assert_eq!(updated.documents, [(acl(), Bytes::from_static(b"3"))].into());
    assert_eq!(updated.version, 3);
}

pub fn document_above_its_bound_refuses_the_whole_step(factory: &dyn Factory) {
    let stage = Stage::new(factory);
    let queue = stage.standard();
    let too_large = || Bytes::from(vec![0; DOCUMENT_BYTES_MAX + 1]);
    let refusal = RuleError::DocumentTooLarge { max: DOCUMENT_BYTES_MAX };
    let documents = vec![(acl(), Some(Bytes::new())), (tags(), Some(too_large()))];
    let update = UpdateQueue { documents: documents.clone(), ..Stage::update(queue) };
    assert_eq!(stage.refused(Command::UpdateQueue(update)), refusal);
    assert_eq!((stage.queue(queue).version, stage.queue(queue).documents.len()), (1, 0));
    let documents_of_new = vec![(tags(), too_large())];
    let create =
        CreateQueue { key: Stage::key("q"), policy: Policy::standard(), documents: documents_of_new };
    assert_eq!(stage.refused(Command::CreateQueue(create)), refusal);
    assert_eq!(stage.queues().len(), 1);
    let put = PutDocuments { account: AccountId(0), if_is: None, documents };
    assert_eq!(stage.refused(Command::PutDocuments(put)), refusal);
    assert!(account_documents(&stage, 0, "front").is_empty());
}

pub fn document_at_its_bound_is_kept_byte_for_byte(factory: &dyn Factory) {
    let stage = Stage::new(factory);
    let queue = stage.standard();
    let bytes = Bytes::from((0..DOCUMENT_BYTES_MAX).map(|place| place as u8).collect::<Vec<_>>());
    let update = UpdateQueue { documents: vec![(tags(), Some(bytes.clone()))], ..Stage::update(queue) };
    stage.step(Command::UpdateQueue(update));
    assert_eq!(stage.queue(queue).documents.get(&tags()), Some(&bytes));
}

pub fn account_keeps_documents_for_each_owner_apart(factory: &dyn Factory) {
    let stage = Stage::new(factory);
    let other = DocumentKey::new("other", "tags");
    put(&stage, 0, vec![(tags(), Some(Bytes::from_static(b"1"))), (acl(), Some(Bytes::from_static(b"2")))]);
    put(&stage, 0, vec![(other.clone(), Some(Bytes::from_static(b"3")))]);
    put(&stage, 1, vec![(tags(), Some(Bytes::from_static(b"4")))]);
    let in_order = [(acl(), Bytes::from_static(b"2")), (tags(), Bytes::from_static(b"1"))];
    assert_eq!(account_documents(&stage, 0, "front"), in_order);
    assert_eq!(account_documents(&stage, 0, "other"), [(other, Bytes::from_static(b"3"))]);
    assert_eq!(account_documents(&stage, 1, "front"), [(tags(), Bytes::from_static(b"4"))]);
    assert!(account_documents(&stage, 2, "front").is_empty());
}

pub fn account_document_is_replaced_and_removed(factory: &dyn Factory) {
    let stage = Stage::new(factory);
    put(&stage, 0, vec![(tags(), Some(Bytes::from_static(b"1")))]);
    put(&stage, 0, vec![(tags(), Some(Bytes::from_static(b"2")))]);
    assert_eq!(account_documents(&stage, 0, "front"), [(tags(), Bytes::from_static(b"2"))]);
    put(&stage, 0, vec![(tags(), None), (acl(), None)]);
    assert!(account_documents(&stage, 0, "front").is_empty());
}

/// Of two callers who read one state, the first to write wins, and the other one learns of it.
pub fn account_documents_are_written_only_over_what_the_caller_knows(factory: &dyn Factory) {
    let stage = Stage::new(factory);
    let bytes = |text: &'static str| Some(Bytes::from_static(text.as_bytes()));
    let change = |known: Option<Bytes>, next: &'static str| {
        let documents = vec![(tags(), bytes(next)), (acl(), bytes(next))];
        Command::PutDocuments(PutDocuments { account: AccountId(0), if_is: Some((tags(), known)), documents })
    };
    let both = |text: &'static str| [(acl(), Bytes::from_static(text.as_bytes())), (tags(), Bytes::from_static(text.as_bytes()))];
    assert_eq!(stage.refused(change(bytes("1"), "2")), RuleError::VersionChanged, "there is none");
    assert!(account_documents(&stage, 0, "front").is_empty());
    assert_eq!(stage.step(change(None, "1")), Outcome::Done);
    assert_eq!(stage.refused(change(None, "2")), RuleError::VersionChanged, "there is one");
    assert_eq!(stage.refused(change(bytes("0"), "2")), RuleError::VersionChanged, "it is another");
    assert_eq!(account_documents(&stage, 0, "front"), both("1"));
    assert_eq!(stage.step(change(bytes("1"), "2")), Outcome::Done);
    assert_eq!(account_documents(&stage, 0, "front"), both("2"));
    put(&stage, 1, vec![(tags(), bytes("3"))]);
    assert_eq!(stage.refused(change(bytes("3"), "4")), RuleError::VersionChanged, "that is another account's");
}
