//! The log store keeps every contract: with the usual segments, and with tiny ones that are recycled all the time.

mod kept;

use kept::OnSimDisk;
use kew_store_log::LogOptions;

mod usual_segments {
    use super::{LogOptions, OnSimDisk};

    kew_store::contract_tests!(OnSimDisk::new(LogOptions::default(), 1));
}

mod tiny_segments {
    use super::{OnSimDisk, kept};

    kew_store::contract_tests!(OnSimDisk::new(kept::tiny(), 1));
}
