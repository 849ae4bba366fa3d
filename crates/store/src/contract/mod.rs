//! The behaviour every store must show (being written).
