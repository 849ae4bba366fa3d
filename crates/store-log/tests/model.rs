//! The log store equals the model over random histories, with tiny segments, eager checkpoints and copying forward,
//! clean stops and kills.

mod stores_with_upkeep;

use kew_store::contract::model::{
    histories, histories_in_slices, histories_in_slices_of_groups, histories_in_slices_of_leases,
};
use kew_store::ledger::Bounds;
use kew_store_log::LogOptions;
use kew_testing::small_log;
use stores_with_upkeep::OnSimDisk;

/// Commits from one upkeep to the next: a checkpoint is made and survivors are copied.
const COMMITS_PER_UPKEEP: u32 = 3;

/// Messages of a step, less than the histories have due at one instant.
const SMALL_SLICE: usize = 3;

#[test]
fn log_store_that_works_in_small_slices_equals_the_model() {
    let bounds = Bounds { deduplication_ids: 2, slice: SMALL_SLICE, ..Bounds::default() };
    let factory = OnSimDisk::new(LogOptions { bounds, ..small_log() }, COMMITS_PER_UPKEEP);
    histories_in_slices(&factory);
    assert!(factory.tally.checkpoints.into_inner() > 0, "the histories never reached the upkeep");
}

#[test]
fn log_store_that_sees_to_few_leases_at_a_time_equals_the_model() {
    let bounds = Bounds { lapses: SMALL_SLICE, deduplication_ids: 2, ..Bounds::default() };
    let factory = OnSimDisk::new(LogOptions { bounds, ..small_log() }, COMMITS_PER_UPKEEP);
    histories_in_slices_of_leases(&factory);
}

#[test]
fn log_store_that_takes_few_expired_messages_out_of_groups_at_a_time_equals_the_model() {
    let bounds = Bounds { expired_in_groups: 1, deduplication_ids: 2, ..Bounds::default() };
    let factory = OnSimDisk::new(LogOptions { bounds, ..small_log() }, COMMITS_PER_UPKEEP);
    histories_in_slices_of_groups(&factory);
}

#[test]
fn log_store_equals_the_model() {
    let bounds = Bounds { deduplication_ids: 2, ..Bounds::default() };
    let factory = OnSimDisk::new(LogOptions { bounds, ..small_log() }, COMMITS_PER_UPKEEP);
    histories(&factory);
    let tally = factory.tally;
    let (checkpoints, copied) = (tally.checkpoints.into_inner(), tally.copied_bytes.into_inner());
    println!("{checkpoints} checkpoints were made and {copied} bytes of survivors copied on the way");
    let away = tally.put_away.into_inner();
    println!("{away} generations of deduplication ids were put away");
    assert!(checkpoints > 0 && copied > 0 && away > 0, "the histories never reached the upkeep");
}
