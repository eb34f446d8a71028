//! The `roundhouse-agent` binary.

fn main() {}
