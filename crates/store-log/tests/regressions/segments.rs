//! Which segments are used again, copied from and given back.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kew_core::Policy;
use kew_store_log::{Disk, LogOptions, LogStore, SegmentKind, SegmentOptions, SimDisk, WatchedDisk, Watcher};

use crate::small_store::{Asked, START, bytes_of, entropy, options};
use crate::{acking, opened, pass_through, send_many, stored};

/// The flag in a segment's header that says its file held only zeros before.
const FLAGS: usize = 13;

#[test]
fn segments_freed_by_a_checkpoint_are_recycled() {
    let disk = SimDisk::new();
    // Larger ones than these are made for what needs them, and not kept.
    let segments = SegmentOptions { spares_max: 3, largest_bytes: 8 << 10, ..options().segments };
    let asked = opened(&disk, LogOptions { segments, ..options() });
    let busy = asked.queue("busy", Policy::standard());
    let (mut seen, mut recycled) = (BTreeSet::new(), 0);
    for round in 0..200 {
        pass_through(&asked, busy, ["x".repeat(600)]);
        if round % 3 == 0 {
            asked.store.keep_up().unwrap();
        }
        for name in disk.list("segments").unwrap().into_iter().filter(|name| name.ends_with(".seg")) {
            let is_recycled = bytes_of(&disk, &format!("segments/{name}"))[FLAGS] & 1 == 0;
            recycled += usize::from(seen.insert(name) && is_recycled);
        }
    }
    assert!(seen.len() > 20 && recycled * 4 > seen.len() * 3, "{recycled} of {}", seen.len());
}

#[test]
fn queue_that_is_emptied_as_fast_as_it_fills_goes_round_in_the_same_files() {
    // A thousandth of what a store is run with.
    let usual = LogOptions::default();
    let segments = SegmentOptions { first_bytes: 64 << 10, largest_bytes: 64 << 10, ..usual.segments };
    let checkpoint_bytes = usual.checkpoint_bytes >> 10;
    let disk = SimDisk::new();
    let asked = opened(&disk, LogOptions { segments, checkpoint_bytes, ..options() });
    let busy = asked.queue("busy", Policy::standard());
    let (mut seen, mut fresh) = (BTreeSet::new(), 0);
    while seen.len() < 40 {
        pass_through(&asked, busy, ["x".repeat(600)]);
        let newest =
            asked.store.segments().list().into_iter().next_back().expect("the journal has a segment");
        if seen.insert(newest.number()) {
            fresh += usize::from(bytes_of(&disk, newest.name())[FLAGS] & 1);
            // As the store's own thread would.
            asked.store.keep_up().unwrap();
        }
    }
    let most = usual.segments.spares_max + 1;
    assert!(fresh <= most, "{fresh} files were filled for {} segments", seen.len());
}

/// Counts reads of some files.
struct Reads {
    of: Vec<String>,
    count: AtomicUsize,
}

impl Watcher for Reads {
    type File = bool;

    fn opened(&self, name: &str) -> bool {
        self.of.iter().any(|of| of == name)
    }

    fn reads(&self, is_counted: &bool) {
        self.count.fetch_add(usize::from(*is_counted), Ordering::Relaxed);
    }
}

#[test]
fn opening_reads_nothing_of_survivors_that_the_last_checkpoint_lists() {
    let segments = SegmentOptions { first_bytes: 16 << 20, largest_bytes: 16 << 20, ..options().segments };
    let options = LogOptions { segments, ..options() };
    let disk = SimDisk::new();
    let asked = opened(&disk, options);
    let queue = asked.queue("plain", Policy::standard());
    for _ in 0..60 {
        let sent = send_many(&asked, queue, (0..100).map(|_| "x".repeat(10_000)));
        let most = sent.iter().skip(20).filter_map(|sent| sent.token).collect();
        asked.ask(acking(queue, most));
        asked.store.keep_up().unwrap();
    }
    asked.store.keep_up().unwrap();
    asked.store.checkpoint().unwrap();
    let survivors: Vec<_> = asked.store.segments().list();
    let survivors = survivors.iter().filter(|segment| segment.kind() == SegmentKind::Survivor);
    let (names, used): (Vec<String>, Vec<u64>) =
        survivors.map(|segment| (segment.name().to_owned(), segment.used())).unzip();
    assert!(used.iter().sum::<u64>() > 5 << 20, "little was copied: {used:?}");
    let held = stored(&asked, queue);
    drop(asked);
    let reads = Arc::new(Reads { of: names, count: AtomicUsize::new(0) });
    let disk = WatchedDisk::new(disk.reopen_process_crash(), Arc::clone(&reads));
    let again = Asked::of(LogStore::open(Arc::new(disk), options, entropy(1), START).unwrap().0);
    // Its header, and a look at what may lie behind that.
    let (count, files) = (reads.count.load(Ordering::Relaxed), reads.of.len());
    assert!(count <= 3 * files, "{count} reads of {files} files");
    assert_eq!(stored(&again, queue), held);
}

#[test]
fn living_backlog_of_small_bodies_is_not_copied_forward() {
    let segments = SegmentOptions {
        first_bytes: 64 << 10,
        largest_bytes: 64 << 10,
        reserve_spares: 1,
        spares_max: 4,
        open_max: 4,
    };
    let kept = LogOptions {
        segments,
        recent_bytes: 64 << 10,
        checkpoint_bytes: 64 << 10,
        slack_bytes: 256 << 10,
        ..options()
    };
    let asked = opened(&SimDisk::new(), kept);
    let cold = asked.queue("cold", Policy::standard());
    let busy = asked.queue("busy", Policy::standard());
    for _ in 0..200 {
        send_many(&asked, cold, (0..100).map(|_| "abcdefgh".to_owned()));
    }
    for _ in 0..6 {
        for _ in 0..10 {
            pass_through(&asked, busy, (0..10).map(|_| "x".repeat(6_000)));
        }
        asked.store.keep_up().unwrap();
    }
    let stats = asked.store.stats();
    assert!(stats.checkpoints >= 6 && stats.live_bytes > 20_000 * 40, "{stats:?}");
    assert_eq!(stats.copied_bytes, 0, "they all live where they are");
}

#[test]
fn segments_in_which_only_empty_bodies_live_are_given_back() {
    let disk = SimDisk::new();
    let asked = opened(&disk, options());
    let (busy, cold) = (asked.queue("busy", Policy::standard()), asked.queue("cold", Policy::standard()));
    for round in 0..200 {
        if round % 8 == 0 {
            asked.send(cold, "");
        }
        pass_through(&asked, busy, ["x".repeat(600)]);
        if round % 3 == 0 {
            asked.store.keep_up().unwrap();
        }
    }
    let segments = asked.store.segments().list().len();
    assert!(segments <= 6, "{segments} segments for 25 empty messages");
    assert_eq!(asked.lease(cold, 100).len(), 25);
}
