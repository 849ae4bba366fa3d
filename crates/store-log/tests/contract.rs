//! The log store keeps every contract: with the usual segments, and with tiny ones that are recycled all the time.

mod stores_with_upkeep;

use kew_store_log::LogOptions;
use kew_testing::small_log;
use stores_with_upkeep::OnSimDisk;

mod usual_segments {
    use super::{LogOptions, OnSimDisk};

    kew_store::contract_tests!(OnSimDisk::new(LogOptions::default(), 1));
}

mod tiny_segments {
    use super::{OnSimDisk, small_log};

    kew_store::contract_tests!(OnSimDisk::new(small_log(), 1));
}
