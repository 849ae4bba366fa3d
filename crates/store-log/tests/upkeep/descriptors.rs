//! Open files: a store of many segments holds few of them open, and one that the process cannot open is no damage.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use kew_core::command::Purge;
use kew_core::{Command, Policy, QueueId};
use kew_store::StoreError;
use kew_store_log::{Disk, LogStore, SEGMENTS_FOLDER, ScrubPace, SimDisk, WatchedDisk};

use crate::open_files::OpenFiles;
use crate::refusing_disk::{Doing, RefusingDisk};
use crate::small_store::{Asked, START, entropy, options};

const MESSAGES: usize = 600;

fn opened(disk: Arc<dyn Disk>) -> Asked {
    Asked::of(LogStore::open(disk, options(), entropy(1), START).unwrap().0)
}

fn filled(asked: &Asked) -> QueueId {
    let queue = asked.queue("plain", Policy::standard());
    for number in 0..MESSAGES {
        asked.send(queue, &format!("message {number} {}", "x".repeat(700)));
    }
    queue
}

/// Leases everything; whether each message is there, with its body.
fn receives_all(asked: &Asked, queue: QueueId) {
    let mut found = 0;
    loop {
        let leased = asked.lease(queue, 10);
        if leased.is_empty() {
            break;
        }
        for leased in leased {
            let body = String::from_utf8_lossy(&leased.message.content.body).into_owned();
            assert!(body.starts_with(&format!("message {found} ")), "message {found}: {}", &body[..16]);
            found += 1;
        }
    }
    assert_eq!(found, MESSAGES);
}

#[test]
fn a_store_of_many_segments_holds_few_files_open() {
    let disk = SimDisk::new();
    let files = Arc::new(OpenFiles::default());
    let watched = || Arc::new(WatchedDisk::new(disk.clone(), Arc::clone(&files))) as Arc<dyn Disk>;
    let segments = options().segments;
    // Those of the bound, spares, the one that is written and the next one, one that is being read or looked at.
    let bound = i64::try_from(segments.open_max + segments.spares_max + 4).unwrap();
    let asked = opened(watched());
    let queue = filled(&asked);
    let in_use = asked.store.segments().list().len();
    assert!(in_use as i64 > 5 * bound, "{in_use} segments say nothing about a bound of {bound}");
    asked.store.checkpoint().unwrap();
    drop(asked);
    assert_eq!(files.open(), 0, "a store that is closed holds nothing open");

    let mut asked = opened(watched());
    receives_all(&asked, queue);
    let mut scrub =
        asked.store.scrub(ScrubPace { cycle: Duration::from_millis(1), bytes_per_second_max: 1 << 30 });
    scrub.turn(Duration::from_secs(1), START);
    drop(scrub);
    asked.later(Duration::from_secs(3_600));
    asked.ask(Command::Purge(Purge { queue }));
    for _ in 0..10 {
        asked.churn(queue, 30);
        asked.store.keep_up().unwrap();
    }
    assert!(asked.store.segments().list().len() < in_use / 2, "segments come back");
    let most = files.most();
    assert!(most <= bound, "{most} files open at a time, at most {bound}");
    drop(asked);
    assert_eq!(files.open(), 0);
}

#[test]
fn a_file_that_cannot_be_opened_for_lack_of_descriptors_takes_the_place_of_another() {
    let disk = RefusingDisk::of(&SimDisk::new());
    let asked = opened(Arc::new(disk.clone()));
    let queue = filled(&asked);
    // Each second attempt meets a process without descriptors: one that is closed makes the next succeed.
    let attempts = AtomicU32::new(0);
    disk.refuse(move |doing, name| {
        let counts = doing == Doing::Open && name.starts_with(SEGMENTS_FOLDER);
        (counts && attempts.fetch_add(1, Ordering::Relaxed).is_multiple_of(2))
            .then(|| io::Error::from_raw_os_error(24))
    });
    receives_all(&asked, queue);
}

#[test]
fn lack_of_descriptors_or_of_a_connection_is_answered_as_passing_and_no_message_is_set_aside() {
    let errors: [fn() -> io::Error; 3] = [
        || io::Error::from_raw_os_error(23),
        || io::Error::from_raw_os_error(24),
        || io::ErrorKind::NotConnected.into(),
    ];
    for error in errors {
        let disk = RefusingDisk::of(&SimDisk::new());
        let asked = opened(Arc::new(disk.clone()));
        let queue = filled(&asked);
        let refuses = Arc::new(AtomicBool::new(true));
        let refusing = Arc::clone(&refuses);
        disk.refuse(move |doing, name| {
            let counts = doing == Doing::Open && name.starts_with(SEGMENTS_FOLDER);
            (counts && refusing.load(Ordering::Relaxed)).then(error)
        });
        let refused = asked.try_lease(queue, 10).unwrap_err();
        assert!(matches!(refused, StoreError::Overloaded { .. }), "{refused:?}");
        assert_eq!(asked.store.stats().damaged_records, 0);
        refuses.store(false, Ordering::Relaxed);
        receives_all(&asked, queue);
    }
}
