//! The latest lines that a Worker said on this node, for readers that follow it at a terminal.
//!
//! Lines are numbered one after the other, so that it is known how many a follower has missed. The numbers begin at the
//! instant the log was opened: they go on rising when the server starts again.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use kew_core::Timestamp;
use parking_lot::Mutex;
use tokio::sync::watch;

/// The most lines that are remembered, and the most bytes of their texts.
const LINES_MAX: usize = 1_000;
const BYTES_MAX: usize = 256 << 10;
/// The most bytes of texts that a node hands over at once; the first line is always among them.
const PAGE_BYTES_MAX: usize = 128 << 10;

/// The most bytes of one text; of a longer one the rest is dropped.
const TEXT_BYTES_MAX: usize = 32 << 10;

/// One line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogLine {
    /// Its number, one more than that of the line before.
    pub number: u64,
    /// When it was heard.
    pub at: Timestamp,
    /// How grave it is, in the runtime's word: `log` is the Worker's own.
    pub level: String,
    /// The text.
    pub text: String,
    /// What the node is called that heard it, where there may be several.
    pub node: Option<Arc<str>>,
}

/// Lines of this node that were asked for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct NodePage {
    /// The lines, the oldest first.
    pub(super) lines: Vec<LogLine>,
    /// The number to ask for lines after, next time.
    pub(super) last: u64,
    /// Lines before these that are not kept any more, of those that were asked for.
    pub(super) missed: u64,
    /// There will be no more lines.
    pub(super) is_over: bool,
}

/// The latest lines of one Worker.
#[derive(Debug)]
pub(super) struct WorkerLog {
    opened: u64,
    /// Guards the lines.
    kept: Mutex<KeptLines>,
    /// The number of the last line, and whether there will be no more.
    state: watch::Sender<(u64, bool)>,
}

#[derive(Debug, Default)]
struct KeptLines {
    lines: VecDeque<LogLine>,
    bytes: usize,
}

impl WorkerLog {
    /// A log without lines.
    pub(super) fn open(now: Timestamp) -> Self {
        Self { opened: now.0, kept: Mutex::default(), state: watch::Sender::new((now.0, false)) }
    }

    /// Adds a line, and drops the oldest past the bounds.
    pub(super) fn add(&self, at: Timestamp, level: &str, text: &str) {
        let text = text.get(..text.floor_char_boundary(TEXT_BYTES_MAX)).unwrap_or_default();
        let mut kept = self.kept.lock();
        let number = self.state.borrow().0 + 1;
        kept.bytes += text.len();
        kept.lines.push_back(LogLine {
            number,
            at,
            level: level.to_owned(),
            text: text.to_owned(),
            node: None,
        });
        while kept.lines.len() > LINES_MAX || kept.bytes > BYTES_MAX {
            let Some(dropped) = kept.lines.pop_front() else { break };
            kept.bytes -= dropped.text.len();
        }
        // Before the next line can be numbered.
        self.state.send_modify(|(last, _)| *last = number);
    }

    /// Ends the log: no reader waits for lines from now on.
    pub(super) fn close(&self) {
        self.state.send_modify(|(_, closed)| *closed = true);
    }

    /// The number of the last line, and no lines.
    pub(super) fn page_of_none(&self) -> NodePage {
        NodePage { last: self.state.borrow().0, ..NodePage::default() }
    }

    /// The lines after a number; where there are none, waits so long for the first.
    pub(super) async fn after(&self, number: u64, wait: Duration) -> NodePage {
        let mut state = self.state.subscribe();
        // A number that is not of this log, because it is beyond its end, is as good as none.
        let news = state.wait_for(|(last, closed)| *last != number || *closed);
        // Neither the end of the time nor that of the log changes what is there.
        // What comes back holds the state, which a writer waits for while the lines are locked.
        drop(tokio::time::timeout(wait, news).await);
        let kept = self.kept.lock();
        let (last, is_over) = *self.state.borrow();
        let after = if number > last { 0 } else { number };
        let mut bytes = 0;
        let lines: Vec<LogLine> = kept
            .lines
            .iter()
            .filter(|line| line.number > after)
            .take_while(|line| {
                let is_first = bytes == 0;
                bytes += line.text.len();
                is_first || bytes <= PAGE_BYTES_MAX
            })
            .cloned()
            .collect();
        let last = lines.last().map_or(last, |line| line.number);
        let next = after.max(self.opened) + 1;
        let missed = lines.first().map_or(0, |first| first.number.saturating_sub(next));
        NodePage { lines, last, missed, is_over }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(1_000);

    fn texts(page: &NodePage) -> Vec<&str> {
        page.lines.iter().map(|line| line.text.as_str()).collect()
    }

    #[test]
    fn lines_are_said_and_handed_over_side_by_side() {
        const LINES: u64 = 50_000;
        let log = Arc::new(WorkerLog::open(NOW));
        let saying = Arc::clone(&log);
        std::thread::spawn(move || (0..LINES).for_each(|_| saying.add(NOW, "log", "a")));
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
            runtime.expect("a runtime of one thread is built").block_on(async {
                let mut last = NOW.0;
                while last < NOW.0 + LINES {
                    last = log.after(last, Duration::from_secs(1)).await.last;
                }
            });
            tell.send(()).expect("the reader waits for the signal");
        });
        assert!(told.recv_timeout(Duration::from_secs(60)).is_ok(), "they wait for each other");
    }

    #[tokio::test]
    async fn lines_are_handed_over_once_in_their_order() {
        let log = WorkerLog::open(NOW);
        log.add(NOW, "log", "a");
        log.add(NOW, "error", "b");
        let page = log.after(NOW.0, Duration::ZERO).await;
        assert_eq!((texts(&page), page.last), (vec!["a", "b"], 1_002));
        log.add(NOW, "log", "c");
        let page = log.after(page.last, Duration::ZERO).await;
        assert_eq!((texts(&page), page.last), (vec!["c"], 1_003));
        let page = log.after(page.last, Duration::ZERO).await;
        assert_eq!((texts(&page), page.last), (vec![], 1_003));
    }

    #[tokio::test]
    async fn a_waiting_reader_gets_the_next_line_at_once_and_the_end() {
        let log = WorkerLog::open(NOW);
        let waiting = log.after(NOW.0, Duration::from_secs(3_600));
        let (page, ()) = tokio::join!(waiting, async { log.add(NOW, "log", "there") });
        assert_eq!((texts(&page), page.is_over), (vec!["there"], false));
        let waiting = log.after(page.last, Duration::from_secs(3_600));
        let (page, ()) = tokio::join!(waiting, async { log.close() });
        assert_eq!((texts(&page), page.is_over), (vec![], true));
    }

    #[tokio::test]
    async fn a_follower_that_comes_late_learns_how_many_lines_it_has_missed() {
        let log = WorkerLog::open(NOW);
        for number in 0..1_500 {
            log.add(NOW, "log", &number.to_string());
        }
        let page = log.after(NOW.0, Duration::ZERO).await;
        let first = page.lines.first().expect("the log has lines");
        assert_eq!((page.lines.len(), first.number, &*first.text), (LINES_MAX, 1_501, "500"));
        assert_eq!(page.missed, 500);
        for (after, lines, missed) in [
            (0, LINES_MAX, 500),
            (NOW.0 + 1, LINES_MAX, 499),
            (NOW.0 + 499, LINES_MAX, 1),
            (NOW.0 + 500, LINES_MAX, 0),
            (NOW.0 + 501, LINES_MAX - 1, 0),
            (NOW.0 + 1_500, 0, 0),
            // Of another log.
            (9_999_999, LINES_MAX, 500),
        ] {
            let page = log.after(after, Duration::ZERO).await;
            assert_eq!((page.lines.len(), page.missed), (lines, missed), "{after}");
        }
    }

    #[tokio::test]
    async fn long_lines_take_the_place_of_many_and_come_in_pages() {
        let log = WorkerLog::open(NOW);
        for _ in 0..20 {
            log.add(NOW, "log", &"\u{e9}".repeat(1 << 20));
        }
        let first = log.after(NOW.0, Duration::ZERO).await;
        let second = log.after(first.last, Duration::ZERO).await;
        let third = log.after(second.last, Duration::ZERO).await;
        assert_eq!((first.lines.len(), second.lines.len(), third.lines.len()), (4, 4, 0));
        assert!(first.lines.iter().all(|line| line.text.len() == TEXT_BYTES_MAX));
    }
}
