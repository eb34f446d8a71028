//! What the process takes of the machine's memory, as Linux tells it.

/// Resident memory in bytes; `None` where `/proc` does not say.
pub(super) fn resident() -> Option<i64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    kibibytes(&status).map(|kib| kib.saturating_mul(1024))
}

fn kibibytes(status: &str) -> Option<i64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_resident_memory_is_read() {
        assert_eq!(kibibytes("Name:\tx\nVmRSS:\t   1044 kB\n"), Some(1044));
        assert_eq!(kibibytes("Name:\tx\n"), None);
        if cfg!(target_os = "linux") {
            assert!(resident().unwrap() > 1 << 20);
        }
    }
}
