//! Counts for the metrics: durations by fixed bounds, and what was given up.

pub(crate) mod connections;
pub(crate) mod dropped;
pub(crate) mod durations;
pub(crate) mod histogram;
