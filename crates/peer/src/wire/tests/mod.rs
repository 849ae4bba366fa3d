//! What must hold for the forms of all types at once.

mod fixture;
mod hostile;
mod known;
mod round;
