//! One call of the handler: what it gets about a message, and what its reply means.

mod data;
mod json;
mod outputs;
mod property;
mod reply;
mod request;

pub(crate) use data::BindingData;
pub(crate) use outputs::Payload;
pub(crate) use reply::Reply;
pub(crate) use request::{Identity, body};
