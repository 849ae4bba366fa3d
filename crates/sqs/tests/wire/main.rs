//! Request bytes in; exact status, headers and body out. The engine below runs over the in-memory store, with a clock
//! that stands and chance that counts, so that every byte of a reply is known.

mod errors;
mod house;
mod messages;
mod queues;
mod transport;
