//! The dispatcher over the in-memory store, on the virtual clock, with webhooks that tests answer for.

mod bad_days;
mod batches;
mod dispatcher;
mod ends;
mod hook;
mod retries;
mod sharing;
mod workers;
mod workers_bad_days;
mod workers_log;
mod workers_nodes;
mod workers_runtime;
