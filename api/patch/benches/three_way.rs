//! Bytes to patch and result, over the recorded cases: `cargo bench -p roundhouse-patch`.

fn main() {}
