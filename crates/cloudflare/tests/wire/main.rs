//! Requests in; status, headers and bodies out. The engine below has a clock that stands and chance that counts, over
//! each store (`server.rs`).

mod binding;
mod consumers;
mod dead_letters;
mod errors;
mod failures;
mod life;
mod messages;
mod other_dialects;
mod queues;
mod server;
mod settling;
mod strict;
mod workers;
