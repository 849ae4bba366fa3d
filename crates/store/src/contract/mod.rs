//! The behaviour every store must show.
//!
//! A back-end gives a [`Factory`] and adds one line, [`crate::contract_tests!`]: each contract then runs as a test of its
//! own name. [`model`] compares a store with the reference model over random histories; [`mutants`] are planted bugs
//! that show the histories would notice.

pub mod model;
pub mod mutants;

use std::sync::Arc;

use crate::Store;

/// How a store is ended before it is opened again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// It is closed in order.
    Close,
    /// Its process dies: what was written stays, nothing is tidied.
    Kill,
}

/// Makes stores for the tests.
pub trait Factory {
    /// A new, empty store.
    fn open(&self) -> Arc<dyn Store>;

    /// Whether a store finds again what it held when it is reopened.
    fn remembers(&self) -> bool {
        false
    }

    /// Ends a store and opens it again. A store that forgets is handed back as it is.
    fn reopen(&self, store: Arc<dyn Store>, _ending: Ending) -> Arc<dyn Store> {
        store
    }
}
