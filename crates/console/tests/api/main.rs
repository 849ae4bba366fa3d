//! The admin API over a store in memory, request by request.

mod access;
mod alarms;
mod backups;
mod browse;
mod counters;
mod large;
mod messages;
mod queues;
mod redrives;
mod replies;
mod rig;
mod shows;
