//! The in-memory store keeps every contract.

use std::sync::Arc;

use kew_store::contract::Factory;
use kew_store::contract::model::SeededEntropy;
use kew_store::{MemoryStore, Store};

struct Memory;

impl Factory for Memory {
    fn open(&self) -> Arc<dyn Store> {
        Arc::new(MemoryStore::new(Arc::new(SeededEntropy::new(0x6d65_6d6f_7279))))
    }
}

kew_store::contract_tests!(Memory);
