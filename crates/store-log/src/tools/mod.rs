//! Tools for people who keep a store: check, backup, export and import, figures.
//!
//! The highest layer: it may know everything below, and nothing below knows it.

mod backup;
mod backup_list;
mod backup_plan;
mod backup_source;
mod check;
mod export;
mod import;
mod lines;
mod problem;
mod stats;

pub use backup::{BackupFailed, BackupProgress, BackupReport, backup, backup_watched};
pub use backup_list::{BackedUp, verify_backup};
pub use backup_plan::{BackupPlan, Sharing};
pub use check::{CheckReport, check};
pub use export::{Export, ExportHead, ExportReport, Unreadable, export, export_readable};
pub use import::{ImportReport, import, import_into_shards, is_untouched};
pub use problem::Problem;
pub use stats::{StoreStats, stats};
