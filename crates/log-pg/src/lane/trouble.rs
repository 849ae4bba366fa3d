//! A lane in trouble: statements that hang, why rows wait, and who is refused meanwhile.

use std::time::Duration;

use super::news::News;
use super::{HANGS_AFTER, Lane, State};
use crate::PgError;

/// Why a statement failed.
pub(super) struct Failed {
    is_no_space: bool,
    text: String,
}

impl State {
    pub(super) fn note_failure(&mut self, error: &PgError) {
        let is_no_space = matches!(error, PgError::NoSpace(_));
        self.failed = Some(Failed { is_no_space, text: error.to_string() });
    }
}

impl Lane {
    /// Refuses steps that wait for a new file with a reason, or does so no longer. Each call refuses those that came
    /// since the last one.
    pub fn suspend_room(&self, why: Option<&str>) {
        let mut state = self.state.lock();
        let was_without_room = std::mem::replace(&mut state.is_without_room, why.is_some());
        if why.is_some() || was_without_room {
            self.news.pass(News::NoRoom(why.map(ToOwned::to_owned)));
        }
        if let (None, Some(suspended)) = (why, state.suspended.clone().filter(|_| was_without_room)) {
            // That is another reason, and stays.
            self.news.pass(News::Suspended(Some(suspended)));
        }
    }

    /// Other connections are answered: a statement of this lane that has been under way for too long hangs, and is
    /// given up if it goes on. Its outcome is not known then.
    pub fn stop_if_it_hangs(&self) {
        let hangs = {
            let mut state = self.state.lock();
            let hangs = !state.is_broken && state.rows.longest_statement() > HANGS_AFTER;
            if hangs {
                self.break_off(&mut state);
            }
            hangs
        };
        if hangs {
            self.broken.notify_one();
        }
    }

    /// How long a statement has been under way, or nothing was sent, at most.
    pub fn longest_statement(&self) -> Duration {
        let state = self.state.lock();
        let broken = state.broken_at.filter(|_| state.is_broken);
        let broken = broken.map_or(Duration::ZERO, |since| since.elapsed());
        state.rows.longest_statement().max(broken)
    }

    /// Why rows wait for so long, for people.
    pub fn why_stuck(&self) -> String {
        let state = self.state.lock();
        match &state.failed {
            Some(failed) if failed.is_no_space => {
                format!("nothing can be written: the database has no space left ({})", failed.text)
            }
            Some(failed) => format!("nothing can be written: the database takes no writes ({})", failed.text),
            None => "nothing can be written: the database takes no writes".to_owned(),
        }
    }
}
