//! Request bytes in; exact status, headers and body out. The engine below has a clock that stands and chance that
//! counts, so that every byte of a reply is known, over each store (`server.rs`).

mod attributes;
mod batches;
mod consumers;
mod cors;
mod dead_letters;
mod errors;
mod fair_queues;
mod fifo;
mod gone_clients;
mod in_flight;
mod life;
mod long_polls;
mod look;
mod message_attributes;
mod messages;
mod other_dialects;
mod policy;
mod protocols;
mod queues;
mod redrive;
mod server;
mod storms;
mod strict;
mod system_attributes;
mod transport;
mod visibility;
