//! Queues that come, change and go, and documents.

use bytes::Bytes;
use kew_core::command::{CreateQueue, DeleteQueue, Documents, Purge, PutDocuments, UpdateQueue};
use kew_core::queue::DOCUMENT_BYTES_MAX;
use kew_core::{AccountId, Command, DocumentKey};

use super::Generator;
use super::things::NAMES;
use crate::contract::model::run::Run;

impl Generator {
    pub(super) fn first_queue(&mut self, place: usize) -> Command {
        let key = Self::key(["s0", "f0", "s1", "f1"][place - 1]);
        let policy = self.policy(Self::is_fifo_name(&key));
        Command::CreateQueue(CreateQueue { key, policy, documents: Vec::new() })
    }

    pub(super) fn create_queue(&mut self, run: &Run<'_>) -> Option<Command> {
        let key = Self::key(self.random.pick(&NAMES[..6]).expect("a list with entries has a pick"));
        let taken = run.model.queues().any(|queue| queue.key == key);
        if taken && self.random.chance(80) {
            return None;
        }
        let policy = self.policy(Self::is_fifo_name(&key));
        let documents =
            if self.random.chance(30) { vec![(self.document(), self.document_bytes())] } else { Vec::new() };
        Some(Command::CreateQueue(CreateQueue { key, policy, documents }))
    }

    pub(super) fn update_queue(&mut self, run: &Run<'_>) -> Option<Command> {
        let queue = self.queue(run)?;
        let known = run.model.queues().find(|each| each.id == queue);
        let fifo = known.is_some_and(|known| known.policy.kind.is_fifo()) != self.random.chance(2);
        let mut policy = self.random.chance(85).then(|| self.policy(fifo));
        if let (Some(policy), Some(known), true) = (&mut policy, known, self.random.chance(50)) {
            // One setting at a time shows more than all at once.
            let new = policy.clone();
            *policy = known.policy.clone();
            match self.random.below(4) {
                0 => policy.delay = new.delay,
                1 => policy.retention = new.retention,
                2 => policy.dead_letters = new.dead_letters,
                _ => policy.kind = new.kind,
            }
        }
        let version = known.map_or(1, |known| known.version);
        let right = self.random.chance(85);
        let rename = self.random.chance(10).then(|| self.key_of_kind(fifo));
        let mut document = || (self.document(), self.random.chance(70).then(|| self.document_bytes()));
        let documents = vec![document(), document()];
        Some(Command::UpdateQueue(UpdateQueue {
            queue,
            if_version: self.random.chance(30).then_some(if right { version } else { version + 1 }),
            policy,
            documents: if self.random.chance(25) { documents } else { Vec::new() },
            rename,
        }))
    }

    pub(super) fn delete_queue(&mut self, run: &Run<'_>) -> Option<Command> {
        let queue = self.queue(run)?;
        let if_version = self.random.chance(20).then_some(1);
        Some(Command::DeleteQueue(DeleteQueue { queue, if_version }))
    }

    pub(super) fn purge(&mut self, run: &Run<'_>) -> Option<Command> {
        Some(Command::Purge(Purge { queue: self.queue(run)? }))
    }

    pub(super) fn document(&mut self) -> DocumentKey {
        let owners = ["sqs", "azure"];
        let keys = ["tags", "policy", "acl"];
        DocumentKey::new(
            self.random.pick(&owners).expect("a list with entries has a pick"),
            self.random.pick(&keys).expect("a list with entries has a pick"),
        )
    }

    pub(super) fn document_bytes(&mut self) -> Bytes {
        let length = match self.random.below(100) {
            0 => DOCUMENT_BYTES_MAX + 1,
            1 => DOCUMENT_BYTES_MAX,
            _ => self.random.below(30) as usize,
        };
        Bytes::from(vec![b'd'; length])
    }

    pub(super) fn put_documents(&mut self, _run: &Run<'_>) -> Option<Command> {
        let account = AccountId(self.random.below(2));
        let mut document = || (self.document(), self.random.chance(70).then(|| self.document_bytes()));
        let documents = vec![document(), document()];
        // Now and then only where the second is already what it shall be.
        let if_is = documents[0].1.is_none().then(|| documents[1].clone());
        Some(Command::PutDocuments(PutDocuments { account, if_is, documents }))
    }

    pub(super) fn documents(&mut self, _run: &Run<'_>) -> Option<Command> {
        let owner = if self.random.chance(50) { "sqs" } else { "azure" };
        Some(Command::Documents(Documents { account: AccountId(self.random.below(2)), owner: owner.into() }))
    }
}
