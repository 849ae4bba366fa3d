//! The console's pages over a store in memory, as a browser without scripts asks for them.

#[allow(dead_code, reason = "the tests of the API use the rest of it")]
#[path = "../api/rig.rs"]
mod rig;

#[allow(dead_code, reason = "the tests of the API use the rest of it")]
#[path = "../api/fleet_rig.rs"]
mod fleet_rig;

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
