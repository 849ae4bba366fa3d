//! The whole of a store as plain vectors and loops: slow, obviously right, the reference.
