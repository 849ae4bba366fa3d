//! What runs beside the listeners and takes messages: the host of functions, push consumers, Workers.

pub mod functions;
pub mod push;
pub mod workers;
