//! How much a value weighs.

use serde_json::Value;

/// How many bytes a value has as compact JSON; they are counted, not kept.
pub fn weight(value: &Value) -> usize {
    struct Counted(usize);
    impl std::io::Write for Counted {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut counted = Counted(0);
    // Nothing can fail: keys are strings, and counting takes everything.
    serde_json::to_writer(&mut counted, value).map_or(0, |()| counted.0)
}
