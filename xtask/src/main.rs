//! The house's scripts.

fn main() {}
