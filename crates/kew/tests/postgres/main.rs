//! `kew serve` and `kew store` on a real PostgreSQL: nodes killed, stopped and continued, the database killed, all
//! under load; the commands; what is refused.
//!
//! `KEW_KILLS` says how many nodes are killed; a quarter as many databases are, and as many owners are stopped and
//! continued; a tenth as often the database fails over to its standby.

mod bad_days;
mod clocks;
mod commands;
mod cuts;
mod databases;
mod documents;
mod failover;
mod fleet;
mod hangs;
mod load;
mod moving;
mod network;
mod nodes;
mod opening;
mod operator;
mod patroni;
mod proxy;
mod refusals;
mod standby;
#[path = "../serve/store_tool.rs"]
mod store_tool;
mod takeover;
mod tls;
mod workers;
