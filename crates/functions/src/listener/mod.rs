//! One function's listener: polls its queue, and works on what it finds.

mod lease;
mod poll;
#[cfg(test)]
mod tests;
mod work;

pub(crate) use poll::{Listener, Listening};
