//! With the feature `report`: stretches and waits that took long are written to stderr.

use std::io::Write as _;
use std::sync::LazyLock;
use std::sync::mpsc::{self, SyncSender};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::cpu::cpu_time;

/// What took longer than this is reported: a fifth of what one step may take.
const REPORTED_FROM: Duration = Duration::from_millis(2);

/// A stretch of work during which others wait: from its beginning until it is dropped.
#[derive(Debug)]
#[must_use]
pub struct Stretch {
    what: &'static str,
    begun: Instant,
    cpu_before: Duration,
}

impl Stretch {
    /// Begins one; `what` names it.
    pub fn begin(what: &'static str) -> Self {
        Self { what, begun: Instant::now(), cpu_before: cpu_time() }
    }
}

impl Drop for Stretch {
    fn drop(&mut self) {
        let took = self.begun.elapsed();
        if is_long(took) {
            let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let cpu = cpu_time().saturating_sub(self.cpu_before);
            // What cannot be written is no reason to stop, or to wait.
            let _lost = LINES.try_send(line(at, self.what, took, cpu));
        }
    }
}

/// Lines that wait to be written at most.
const LINES_MAX: usize = 1_024;

/// Lines for a thread that writes them: a lock may be held where they come from.
static LINES: LazyLock<SyncSender<String>> = LazyLock::new(|| {
    let (sender, lines) = mpsc::sync_channel::<String>(LINES_MAX);
    let writer = std::thread::Builder::new().name("kew-timed".to_owned());
    let _started = writer.spawn(move || {
        for line in lines {
            // As above.
            let _lost = std::io::stderr().write_all(line.as_bytes());
        }
    });
    sender
});

fn is_long(took: Duration) -> bool {
    took > REPORTED_FROM
}

/// The line about what took this long until `at`, which is counted from 1970.
fn line(at: Duration, what: &str, took: Duration, cpu: Duration) -> String {
    let thread = std::thread::current();
    format!(
        "timed {:.3} {}: {what} took {:.1} ms, {:.1} of CPU\n",
        at.as_secs_f64(),
        thread.name().unwrap_or("a thread"),
        millis(took),
        millis(cpu)
    )
}

/// Waits for a lock or a disk, which `what` names.
pub fn wait<T>(what: &'static str, wait: impl FnOnce() -> T) -> T {
    let _stretch = Stretch::begin(what);
    wait()
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_longer_than_the_limit_is_reported() {
        assert!(!is_long(Duration::ZERO));
        assert!(!is_long(REPORTED_FROM));
        assert!(is_long(REPORTED_FROM + Duration::from_nanos(1)));
    }

    #[test]
    fn a_line_names_the_instant_the_thread_and_both_times() {
        let thread = std::thread::Builder::new().name("a-loop".to_owned());
        let written = thread
            .spawn(|| {
                let millis = Duration::from_millis;
                line(millis(1_500), "a sync", millis(12), Duration::from_micros(340))
            })
            .expect("a thread starts")
            .join()
            .expect("it does not panic");
        assert_eq!(written, "timed 1.500 a-loop: a sync took 12.0 ms, 0.3 of CPU\n");
    }

    #[test]
    fn a_wait_passes_on_what_it_waited_for() {
        assert_eq!(wait("a test", || 7), 7);
    }
}
