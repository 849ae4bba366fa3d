//! What the store hears of its appends, in order.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kew_store::BatchNumber;
use kew_store_log::{AppendListener, Reached};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::driver::Driver;
use crate::planted::Planted;
use crate::tenure::Tenure;

/// What the store hears of.
pub(super) enum News {
    /// Batches written and durable.
    Reached(u64, u64),
    /// Answers that wait are refused with this text, until `None`.
    Suspended(Option<String>),
    /// Steps that wait for a new file are refused with this text, until `None`.
    NoRoom(Option<String>),
    /// It is over.
    Lost(String),
}

/// Where news is passed on.
#[derive(Default)]
pub(super) struct Passing {
    sender: Mutex<Option<mpsc::UnboundedSender<News>>>,
    /// Progress was held back, because the tenure had ended before it was passed on.
    held_back: Arc<AtomicBool>,
}

impl Passing {
    /// Passes news on to `listener` from now on. The store may be slow to take it, and the lane goes on meanwhile;
    /// progress that was overtaken is left out, so that what waits stays small. A node that was stopped in between has
    /// lost its tenure when it goes on: so that is looked at again here.
    pub fn begin(
        &self,
        driver: &Driver,
        tenure: Arc<Tenure>,
        listener: Arc<dyn AppendListener>,
    ) -> io::Result<()> {
        let (news, heard) = mpsc::unbounded_channel();
        let held_back = Arc::clone(&self.held_back);
        let pass = move |news| {
            let may_answer = tenure.is_held() || Planted::ProgressAfterTenure.is_there();
            if matches!(news, News::Reached(..)) && !may_answer {
                held_back.store(true, Ordering::Release);
            } else {
                pass(&*listener, news);
            }
        };
        driver.tell(heard, move |mut next, newer| {
            while matches!(next, News::Reached(..)) {
                match newer() {
                    Some(other @ News::Reached(..)) => next = other,
                    Some(other) => {
                        pass(next);
                        next = other;
                    }
                    None => break,
                }
            }
            pass(next);
        })?;
        *self.sender.lock() = Some(news);
        Ok(())
    }

    /// Whether progress was held back since this was last asked.
    pub fn take_held_back(&self) -> bool {
        self.held_back.swap(false, Ordering::AcqRel)
    }

    pub fn pass(&self, news: News) {
        if let Some(passing) = &*self.sender.lock() {
            // The listener may be gone.
            let _passed = passing.send(news);
        }
    }
}

fn pass(listener: &dyn AppendListener, news: News) {
    match news {
        News::Reached(written, durable) => {
            listener.reached(Reached { written: BatchNumber(written), durable: BatchNumber(durable) });
        }
        News::Suspended(why) => listener.suspended(why),
        News::NoRoom(why) => listener.room_suspended(why),
        News::Lost(why) => listener.lost(why),
    }
}
