//! Durations as kubectl shows them (`k8s.io/apimachinery/pkg/util/duration.HumanDuration`).

use jiff::Timestamp;

/// How long ago `then` was, such as `5m` or `3d2h`; `<unknown>` if it is no time.
pub(crate) fn age(then: &str, now: Timestamp) -> String {
    match then.parse::<Timestamp>() {
        Ok(then) => human(now.as_second().saturating_sub(then.as_second())),
        Err(_) => "<unknown>".to_owned(),
    }
}

/// A number of seconds for people.
pub(crate) fn human(seconds: i64) -> String {
    let two = |a: i64, ua: &str, b: i64, ub: &str| {
        if b == 0 {
            format!("{a}{ua}")
        } else {
            format!("{a}{ua}{b}{ub}")
        }
    };
    let (m, h, d) = (seconds / 60, seconds / 3_600, seconds / 86_400);
    match seconds {
        s if s < -1 => "<invalid>".to_owned(),
        s if s < 0 => "0s".to_owned(),
        s if s < 120 => format!("{s}s"),
        s if m < 10 => two(m, "m", s % 60, "s"),
        _ if m < 180 => format!("{m}m"),
        _ if h < 8 => two(h, "h", m % 60, "m"),
        _ if h < 48 => format!("{h}h"),
        _ if h < 192 => two(d, "d", h % 24, "h"),
        _ if d < 730 => format!("{d}d"),
        _ if d < 2_920 => two(d / 365, "y", d % 365, "d"),
        _ => format!("{}y", d / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_kubectl() {
        let table = [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (130, "2m10s"),
            (600, "10m"),
            (10_800, "3h"),
            (11_100, "3h5m"),
            (172_000, "47h"),
            (180_000, "2d2h"),
            (86_400 * 9, "9d"),
            (86_400 * 800, "2y70d"),
        ];
        for (seconds, want) in table {
            assert_eq!(human(seconds), want);
        }
    }
}
