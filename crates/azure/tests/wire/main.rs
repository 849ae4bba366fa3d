//! Request bytes in; status, headers and body out. The engine below runs over the in-memory store on a virtual clock.

mod client;
mod delegation;
mod errors;
mod messages;
mod pages;
mod queues;
mod receipts;
mod server;
mod service;
mod signatures;
mod trusts;
