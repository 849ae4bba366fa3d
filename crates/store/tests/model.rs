//! The in-memory store equals the model over random histories, and the histories notice planted bugs in it.

use std::sync::Arc;

use kew_store::contract::model::{
    SeededEntropy, StoreSubject, Subject, histories, histories_in_slices, histories_in_slices_of_groups,
    histories_in_slices_of_leases,
};
use kew_store::contract::{Factory, mutants};
use kew_store::ledger::Bounds;
use kew_store::{MemoryStore, Store};

/// Messages of a step, less than the histories have due at one instant.
const SMALL_SLICE: usize = 3;

struct Memory;

struct InSlices;

struct InSlicesOfLeases;

struct InSlicesOfGroups;

impl Factory for Memory {
    fn open(&self) -> Arc<dyn Store> {
        Arc::new(MemoryStore::new(Arc::new(SeededEntropy::new(0x6d65_6d6f_7279))))
    }
}

impl Factory for InSlices {
    fn open(&self) -> Arc<dyn Store> {
        let bounds = Bounds { slice: SMALL_SLICE, ..Bounds::default() };
        Arc::new(MemoryStore::with_bounds(Arc::new(SeededEntropy::new(0x6d65_6d6f_7279)), bounds))
    }
}

impl Factory for InSlicesOfLeases {
    fn open(&self) -> Arc<dyn Store> {
        let bounds = Bounds { slice: SMALL_SLICE, lapses: SMALL_SLICE, ..Bounds::default() };
        Arc::new(MemoryStore::with_bounds(Arc::new(SeededEntropy::new(0x6d65_6d6f_7279)), bounds))
    }
}

impl Factory for InSlicesOfGroups {
    fn open(&self) -> Arc<dyn Store> {
        let bounds = Bounds { expired_in_groups: 1, ..Bounds::default() };
        Arc::new(MemoryStore::with_bounds(Arc::new(SeededEntropy::new(0x6d65_6d6f_7279)), bounds))
    }
}

#[test]
fn memory_store_equals_the_model() {
    histories(&Memory);
}

#[test]
fn memory_store_that_works_in_small_slices_equals_the_model() {
    histories_in_slices(&InSlices);
}

#[test]
fn memory_store_that_sees_to_few_leases_at_a_time_equals_the_model() {
    histories_in_slices_of_leases(&InSlicesOfLeases);
}

#[test]
fn memory_store_that_takes_few_expired_messages_out_of_groups_at_a_time_equals_the_model() {
    histories_in_slices_of_groups(&InSlicesOfGroups);
}

#[test]
fn every_planted_bug_is_noticed_within_sixty_histories() {
    let make = |_| Box::new(StoreSubject::new(&Memory)) as Box<dyn Subject>;
    for bug in mutants::ALL {
        assert!(mutants::first_seed_that_notices(bug, 60, &make).is_some(), "{bug:?} goes unnoticed");
    }
}
