//! The admin API over a store in memory, request by request.

mod access;
mod alarms;
mod backups;
mod browse;
mod counters;
mod fleet;
mod fleet_rig;
mod large;
mod messages;
mod queues;
mod redrives;
mod replies;
mod rig;
mod shows;
