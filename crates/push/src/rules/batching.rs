//! When a batch leaves: the rule, as a pure function of what is known.

use std::time::Duration;

use kew_core::Timestamp;

/// What is known of a queue and its consumer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View {
    pub(crate) now: Timestamp,
    /// Messages that may be leased.
    pub(crate) eligible: u64,
    /// When the first of them became eligible.
    pub(crate) first_at: Option<Timestamp>,
    /// Messages of a full batch.
    pub(crate) batch_size: u32,
    /// How long a batch waits to fill.
    pub(crate) max_wait: Duration,
    /// Batches under way.
    pub(crate) running: u32,
    /// Batches that may be under way.
    pub(crate) allowed: u32,
    /// Whether delivery is paused.
    pub(crate) paused: bool,
    /// Before when the target wants nothing.
    pub(crate) not_before: Timestamp,
}

/// What to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// A batch leaves.
    Leave,
    /// Wait for news, or until then.
    Wait(Option<Timestamp>),
}

/// A batch leaves when it is full or when its first message has waited long enough, whichever is first. What is not
/// there is never sent.
pub(crate) fn next_step(view: &View) -> Step {
    let Some(first_at) = view.first_at.filter(|_| view.eligible > 0) else { return Step::Wait(None) };
    if view.paused || view.running >= view.allowed {
        return Step::Wait(None);
    }
    let is_full = view.eligible >= u64::from(view.batch_size);
    let leaves_at = if is_full { view.not_before } else { first_at.plus(view.max_wait).max(view.not_before) };
    if leaves_at <= view.now { Step::Leave } else { Step::Wait(Some(leaves_at)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The seed's example: thirty messages or ten seconds.
    const VIEW: View = View {
        now: Timestamp(0),
        eligible: 0,
        first_at: None,
        batch_size: 30,
        max_wait: Duration::from_secs(10),
        running: 0,
        allowed: 1,
        paused: false,
        not_before: Timestamp::ZERO,
    };

    fn waiting(eligible: u64, since: u64, now: u64) -> View {
        View { now: Timestamp(now), eligible, first_at: Some(Timestamp(since)), ..VIEW }
    }

    #[test]
    fn thirty_messages_leave_at_once() {
        assert_eq!(next_step(&waiting(30, 0, 0)), Step::Leave);
        assert_eq!(next_step(&waiting(31, 0, 0)), Step::Leave);
    }

    #[test]
    fn one_to_twenty_nine_leave_when_the_first_has_waited_ten_seconds() {
        for eligible in [1, 29] {
            assert_eq!(
                next_step(&waiting(eligible, 5, 10_004)),
                Step::Wait(Some(Timestamp(10_005))),
                "{eligible}"
            );
            assert_eq!(next_step(&waiting(eligible, 5, 10_005)), Step::Leave, "{eligible}");
        }
    }

    #[test]
    fn an_empty_batch_never_leaves() {
        assert_eq!(next_step(&VIEW), Step::Wait(None));
        assert_eq!(next_step(&View { max_wait: Duration::ZERO, ..VIEW }), Step::Wait(None));
    }

    #[test]
    fn without_a_wait_whatever_is_there_leaves_at_once() {
        let view = View { max_wait: Duration::ZERO, ..waiting(1, 7, 7) };
        assert_eq!(next_step(&view), Step::Leave);
    }

    #[test]
    fn nothing_leaves_while_paused_or_at_the_bound_of_batches_under_way() {
        assert_eq!(next_step(&View { paused: true, ..waiting(99, 0, 99_999) }), Step::Wait(None));
        assert_eq!(next_step(&View { running: 1, ..waiting(99, 0, 99_999) }), Step::Wait(None));
        assert_eq!(next_step(&View { running: 1, allowed: 2, ..waiting(99, 0, 0) }), Step::Leave);
    }

    #[test]
    fn nothing_leaves_before_the_target_wants_it() {
        let view = View { not_before: Timestamp(60_000), ..waiting(99, 0, 59_999) };
        assert_eq!(next_step(&view), Step::Wait(Some(Timestamp(60_000))));
        assert_eq!(next_step(&View { now: Timestamp(60_000), ..view }), Step::Leave);
        let view = View { not_before: Timestamp(60_000), ..waiting(1, 55_000, 60_000) };
        assert_eq!(next_step(&view), Step::Wait(Some(Timestamp(65_000))));
    }
}
