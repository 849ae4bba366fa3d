//! The in-memory store equals the model over random histories, and the histories notice planted bugs in it.

use std::sync::Arc;

use kew_store::contract::model::{SeededEntropy, StoreSubject, Subject, histories};
use kew_store::contract::{Factory, mutants};
use kew_store::{MemoryStore, Store};

struct Memory;

impl Factory for Memory {
    fn open(&self) -> Arc<dyn Store> {
        Arc::new(MemoryStore::new(Arc::new(SeededEntropy::new(0x6d65_6d6f_7279))))
    }
}

#[test]
fn memory_store_equals_the_model() {
    histories(&Memory);
}

#[test]
fn every_planted_bug_is_noticed_within_sixty_histories() {
    let make = |_| Box::new(StoreSubject::new(&Memory)) as Box<dyn Subject>;
    for bug in mutants::ALL {
        assert!(mutants::first_seed_that_notices(bug, 60, &make).is_some(), "{bug:?} goes unnoticed");
    }
}
