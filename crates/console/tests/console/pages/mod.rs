//! The console's pages over a store in memory, as a browser without scripts asks for them.

use super::{fleet_rig, rig};

mod acts;
mod browser;
mod delayed;
mod fleet;
mod guards;
mod leases;
mod messages;
mod queues;
mod sessions;
mod undo;
mod workbench;
