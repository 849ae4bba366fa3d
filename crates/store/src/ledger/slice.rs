//! A queue's part of a checkpoint, and the part that belongs to none.
