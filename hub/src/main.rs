//! The `roundhouse` binary.

fn main() {}
