//! The admin API over a store in memory, request by request.

use super::{fleet_rig, rig};

mod access;
mod alarms;
mod backups;
mod browse;
mod counters;
mod fleet;
mod large;
mod messages;
mod queues;
mod redrives;
mod replies;
mod shows;
