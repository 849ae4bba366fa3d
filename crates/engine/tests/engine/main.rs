//! The engine over the reference model: who waits, who is woken, what is due, and what time it is.

mod bench;
mod browse;
mod chosen;
mod crowded;
mod leaps;
mod moves;
mod operator;
mod queues;
mod remote;
mod storm;
mod time;
mod unread;
mod waiters;

const OVER: bench::Over = bench::Over::Model;
