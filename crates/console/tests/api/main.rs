//! The admin API over a store in memory, request by request.

mod access;
mod backups;
mod browse;
mod messages;
mod queues;
mod redrives;
mod replies;
mod rig;
mod shows;
