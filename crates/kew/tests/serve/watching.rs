//! What pages that watch live figures cost the server while the figures that they show change. With `KEW_LONG=1` it is
//! measured for a minute and not for ten seconds.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::program::{Kew, data_directory};

const QUEUES: usize = 5_000;
/// Queues of the page that is watched.
const SHOWN: usize = 50;
const WATCHERS: usize = 10;
/// So often each of the queues that are shown gets a message: between two looks, so that each look has news.
const SENT_EVERY: Duration = Duration::from_secs(2);
/// Of the time of one processor. The event loop has one to itself when it is busy, so this is the most that messages
/// can lose, also where all threads share it.
const SHARE_MAX: f64 = 0.01;
const TRIES: usize = 3;

#[test]
fn ten_pages_that_watch_take_at_most_a_hundredth_of_a_processor() {
    let directory = data_directory();
    let kew = Kew::start_with(directory.path(), &["--store", "memory"]);
    for number in 0..QUEUES {
        let name = format!(r#"{{"QueueName":"queue-{number:04}"}}"#);
        assert_eq!(kew.ask("CreateQueue", &name).0, 200);
    }
    send_to_all(&kew);
    let is_long = std::env::var("KEW_LONG").is_ok_and(|value| value == "1");
    let window = Duration::from_secs(if is_long { 60 } else { 10 });
    let share = || {
        let (quiet, _) = watched(&kew, 0, window);
        let (busy, events) = watched(&kew, WATCHERS, window);
        let share = busy.saturating_sub(quiet).as_secs_f64() / window.as_secs_f64();
        println!(
            "{WATCHERS} pages, {events} events in {window:?}: {share:.4} of a processor ({quiet:?}, then {busy:?})"
        );
        assert!(events >= WATCHERS as u64, "each page has an event at every look: {events}");
        share
    };
    // What runs beside it costs a window more, by chance; pages that cost too much do so in each.
    let mut shares = Vec::new();
    let is_little = |shares: &[f64]| shares.last().is_some_and(|share| *share <= SHARE_MAX);
    while shares.len() < TRIES && !is_little(&shares) {
        shares.push(share());
    }
    assert!(is_little(&shares), "of a processor, in each try: {shares:?}");
}

/// Sends a message to each queue that is shown.
fn send_to_all(kew: &Kew) {
    for number in 0..SHOWN {
        let send = format!(r#"{{"QueueUrl":"queue-{number:04}","MessageBody":"x"}}"#);
        assert_eq!(kew.ask("SendMessage", &send).0, 200);
    }
}

/// The processor time of the server while this number of pages watch, and the events that they had. The same messages
/// are sent whether or not somebody watches.
fn watched(kew: &Kew, pages: usize, window: Duration) -> (Duration, u64) {
    let (is_over, events) = (AtomicBool::new(false), AtomicU64::new(0));
    let spent = thread::scope(|scope| {
        for _ in 0..pages {
            scope.spawn(|| {
                let (mut seen, mut figures) = (String::new(), String::new());
                while !is_over.load(Ordering::Relaxed) {
                    let headers = [("Last-Event-ID", seen.as_str())];
                    let headers = if seen.is_empty() { &[][..] } else { &headers[..] };
                    let (status, event) = kew.admin("GET", "/live/queues", headers, "");
                    assert!(status == 200 && event.contains("queue-0049/visible"), "{status}: {event}");
                    events.fetch_add(1, Ordering::Relaxed);
                    let data = event.split("data: ").nth(1).unwrap_or_default().to_owned();
                    assert_ne!(data, figures, "the figures of each look are new");
                    figures = data;
                    seen = event
                        .split("id: ")
                        .nth(1)
                        .and_then(|rest| rest.lines().next())
                        .unwrap_or("")
                        .to_owned();
                }
            });
        }
        let begun = kew.processor_time();
        // The looks come in real time, every five seconds.
        let until = Instant::now() + window;
        while Instant::now() < until {
            send_to_all(kew);
            thread::sleep(SENT_EVERY.min(until.saturating_duration_since(Instant::now())));
        }
        let spent = kew.processor_time().saturating_sub(begun);
        is_over.store(true, Ordering::Relaxed);
        spent
    });
    (spent, events.into_inner())
}
