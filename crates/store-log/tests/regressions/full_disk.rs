//! A disk that somebody else fills.

use kew_core::{LeaseToken, Policy, QueueId};
use kew_store::StoreError;
use kew_store_log::{Disk, Drive, LogOptions, SegmentOptions, SimDisk};

use crate::small_store::{Asked, options};
use crate::{acking, opened};

fn small_segments() -> LogOptions {
    let segments = SegmentOptions {
        first_bytes: 16 << 10,
        largest_bytes: 16 << 10,
        reserve_spares: 2,
        spares_max: 4,
        open_max: 4,
    };
    LogOptions { segments, checkpoint_bytes: 16 << 10, slack_bytes: 1 << 20, ..options() }
}

/// A store that takes no more messages, on a disk of which another program takes all but `left` bytes.
fn full(capacity: u64, left: u64) -> (SimDisk, Asked, QueueId, Vec<LeaseToken>) {
    let disk = SimDisk::new();
    disk.set_capacity(Some(capacity));
    let asked = opened(&disk, small_segments());
    let queue = asked.queue("plain", Policy::standard());
    let body = "x".repeat(500);
    let mut tokens = Vec::new();
    loop {
        match asked.try_send(queue, asked.message(&body)) {
            Ok(sent) => tokens.extend(sent.token),
            Err(error) => {
                assert_eq!(error, StoreError::NoSpace);
                break;
            }
        }
        if tokens.len().is_multiple_of(20) {
            // Without space for a checkpoint it fails, and is tried again.
            let _kept_up = asked.store.keep_up();
        }
    }
    let free = disk.free_space().unwrap();
    disk.create("of another program").unwrap().allocate(free.saturating_sub(left)).unwrap();
    (disk, asked, queue, tokens)
}

/// In which order messages are deleted.
#[derive(Clone, Copy, Debug)]
enum Order {
    AsSent,
    /// So that every segment keeps some for long.
    Scattered,
}

fn in_order(tokens: &[LeaseToken], order: Order) -> Vec<LeaseToken> {
    let stride = if matches!(order, Order::AsSent) { 1 } else { 17 };
    (0..stride).flat_map(|first| tokens.iter().skip(first).step_by(stride).copied()).collect()
}

/// Acks everything and looks; every ack is taken, and when all is gone messages are.
fn comes_back(asked: &Asked, queue: QueueId, tokens: &[LeaseToken], by_hand: bool, what: &str) {
    let mut stored = tokens.len() as u64;
    for tokens in tokens.chunks(10) {
        asked.try_ask(acking(queue, tokens.to_vec())).unwrap_or_else(|error| panic!("{what}: {error}"));
        stored -= tokens.len() as u64;
        assert_eq!(crate::stored(asked, queue), stored, "{what}");
        if by_hand {
            let _kept_up = asked.store.keep_up();
        }
    }
    asked.store.keep_up().unwrap_or_else(|error| panic!("{what}: {error}"));
    asked.try_send(queue, asked.message("again")).unwrap_or_else(|error| panic!("{what}: {error}"));
}

/// Sizes of small disks, and bytes that are left of them when the store is full.
fn sizes() -> impl Iterator<Item = (u64, u64)> {
    let left = [0, 50, 100, 500, 1_000, 1_500, 2_000, 2_500, 3 << 10];
    let capacities = (180_000..400_000).step_by(13_511).chain([267_638, 282_748]);
    capacities.flat_map(move |capacity| left.map(|left| (capacity, left)))
}

#[test]
fn small_store_on_a_disk_filled_by_another_program_comes_back_after_acks() {
    for (order, (capacity, left)) in
        [Order::AsSent, Order::Scattered].into_iter().flat_map(|order| sizes().map(move |size| (order, size)))
    {
        let (_disk, asked, queue, tokens) = full(capacity, left);
        let what = format!("{left} of {capacity} bytes are left, acked {order:?}");
        comes_back(&asked, queue, &in_order(&tokens, order), true, &what);
    }
}

#[test]
fn small_store_on_a_disk_filled_by_another_program_comes_back_with_threads_of_its_own() {
    for (capacity, left) in sizes().step_by(3) {
        let (disk, asked, queue, tokens) = full(capacity, left);
        drop(asked);
        let again = opened(&disk, LogOptions { drive: Drive::Threads, ..small_segments() });
        let what = format!("{left} of {capacity} bytes are left");
        comes_back(&again, queue, &tokens, false, &what);
    }
}

#[test]
fn small_store_on_a_disk_filled_by_another_program_comes_back_after_it_was_opened_again() {
    for (capacity, left) in sizes() {
        let (disk, asked, queue, tokens) = full(capacity, left);
        drop(asked);
        let disk = disk.reopen_process_crash();
        let again = opened(&disk, small_segments());
        comes_back(&again, queue, &tokens, true, &format!("{left} of {capacity} bytes are left"));
        again.store.close().unwrap();
        drop(again);
        opened(&disk.snapshot(), small_segments()).send(queue, "and again");
    }
}
