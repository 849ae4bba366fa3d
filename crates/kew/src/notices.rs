//! What the engine has to tell an operator, in words.

use kew_engine::Notice;

use crate::log::{Level, Log};

/// Logs a notice.
pub fn tell(log: Log, notice: Notice) {
    match notice {
        Notice::ClockBehind { by } => {
            let by = format!("{by:?}");
            log.tell(
                Level::Warn,
                "the system clock is behind; engine time runs slower until they meet",
                &[("by", &by)],
            );
        }
        Notice::ClockMet => log.tell(Level::Info, "the system clock has caught up with engine time", &[]),
        Notice::ClockJumped { by } => {
            let by = format!("{by:?}");
            log.tell(
                Level::Warn,
                "the system clock leapt ahead, which counts as time that passed",
                &[("by", &by)],
            );
        }
        Notice::DueFailed(error) => {
            log.tell(Level::Error, "due work could not be done", &[("cause", &error.to_string())]);
        }
        Notice::MovesUnknown(error) => {
            log.tell(Level::Error, "running move tasks could not be found", &[("cause", &error.to_string())]);
        }
        Notice::MoveFailed(task, error) => {
            let fields = [("task", task.0.to_string()), ("cause", error.to_string())];
            let fields = fields.each_ref().map(|(name, value)| (*name, value.as_str()));
            log.tell(Level::Error, "a move task could not go on", &fields);
        }
    }
}
