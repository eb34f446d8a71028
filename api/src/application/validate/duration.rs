//! Durations as Go writes them: `30s`, `1h30m`, `1.5h`, `250ms`.

use std::time::Duration;

/// The longest one: ten years.
const MAX: Duration = Duration::from_secs(10 * 366 * 24 * 3600);

/// Reads a duration; `None` if it is none, zero, or longer than ten years.
pub(super) fn parse(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut nanos: u128 = 0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
        let (number, after) = rest.split_at_checked(end)?;
        let end = after
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(after.len());
        let (unit, after) = after.split_at_checked(end)?;
        let unit: u128 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
            return None;
        }
        let whole: u128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        nanos = nanos.checked_add(whole.checked_mul(unit)?)?;
        // Beyond nanoseconds of an hour nothing is left.
        let fraction = fraction.get(..fraction.len().min(15)).unwrap_or(fraction);
        if !fraction.is_empty() {
            let scale = 10_u128.pow(u32::try_from(fraction.len()).ok()?);
            nanos = nanos.checked_add(fraction.parse::<u128>().ok()?.checked_mul(unit)? / scale)?;
        }
        rest = after;
    }
    let duration = Duration::from_nanos(u64::try_from(nanos).ok()?);
    (!duration.is_zero() && duration <= MAX).then_some(duration)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_gos() {
        for (text, millis) in [
            ("30s", 30_000),
            ("1h30m", 5_400_000),
            ("1.5h", 5_400_000),
            ("250ms", 250),
            (".5s", 500),
            ("1m0.5s", 60_500),
            ("24h", 86_400_000),
        ] {
            assert_eq!(parse(text), Some(Duration::from_millis(millis)), "{text}");
        }
        for text in [
            "",
            "0",
            "0s",
            "1",
            "1d",
            "-1s",
            "s",
            ".s",
            "1..5s",
            "1s2",
            "999999999h",
            "1 s",
            "1e3s",
            "h1",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
