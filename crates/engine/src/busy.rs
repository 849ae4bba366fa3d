//! Who is still at work, for the virtual clock: a jump goes on only when everyone woken has settled.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts the work under way.
#[derive(Debug, Default)]
pub(crate) struct Work {
    /// False on the system clock, where the count is not used.
    counted: bool,
    under_way: Arc<AtomicUsize>,
}

impl Work {
    pub(crate) fn counted(counted: bool) -> Self {
        Self { counted, under_way: Arc::default() }
    }

    /// A piece of work that is under way as long as the result lives.
    pub(crate) fn begin(&self) -> Busy {
        if !self.counted {
            return Busy(None);
        }
        self.under_way.fetch_add(1, Ordering::AcqRel);
        Busy(Some(Arc::clone(&self.under_way)))
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.under_way.load(Ordering::Acquire) == 0
    }
}

/// One piece of work under way. While one lives a jump of the virtual clock waits for it.
#[derive(Debug)]
pub struct Busy(Option<Arc<AtomicUsize>>);

impl Drop for Busy {
    fn drop(&mut self) {
        if let Some(under_way) = &self.0 {
            under_way.fetch_sub(1, Ordering::AcqRel);
        }
    }
}
