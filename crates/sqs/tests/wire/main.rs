//! Request bytes in; exact status, headers and body out. The engine below has a clock that stands and chance that counts,
//! so that every byte of a reply is known, over each store (`house`).

mod errors;
mod house;
mod messages;
mod queues;
mod transport;
