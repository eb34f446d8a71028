//! Kubernetes quantities: in thousandths, rounded up like Kubernetes does, for sums over nodes; and compared exactly.

use std::collections::BTreeMap;

/// A quantity in thousandths; `None` if it is none.
pub(super) fn milli(text: &str) -> Option<i128> {
    let (numerator, denominator) = fraction(text)?;
    let scaled = numerator.checked_mul(1_000)?;
    let rest = i128::from(scaled.rem_euclid(denominator) != 0);
    Some(scaled.div_euclid(denominator) + rest)
}

/// Whether two texts are the same quantity, exactly: nothing is rounded.
pub(crate) fn same_quantity(one: &str, other: &str) -> bool {
    let same = |(one, per): (i128, i128), (other, by): (i128, i128)| {
        Some(one.checked_mul(by)? == other.checked_mul(per)?)
    };
    let fractions = fraction(one).zip(fraction(other));
    fractions.and_then(|(one, other)| same(one, other)) == Some(true)
}

/// A quantity as numerator and (positive) denominator; `None` if it is none.
fn fraction(text: &str) -> Option<(i128, i128)> {
    let split = text
        .find(|c: char| !matches!(c, '0'..='9' | '.' | '+' | '-'))
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at_checked(split)?;
    let (scale_up, scale_down): (i128, i128) = match suffix {
        "n" => (1, 1_000_000_000),
        "u" => (1, 1_000_000),
        "m" => (1, 1_000),
        "" => (1, 1),
        "k" => (1_000, 1),
        "M" => (1_000_000, 1),
        "G" => (1_000_000_000, 1),
        "T" => (1_000_000_000_000, 1),
        "P" => (1_000_000_000_000_000, 1),
        "Ki" => (1 << 10, 1),
        "Mi" => (1 << 20, 1),
        "Gi" => (1 << 30, 1),
        "Ti" => (1 << 40, 1),
        "Pi" => (1 << 50, 1),
        "Ei" => (1 << 60, 1),
        _ => {
            let exponent: u32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            (10_i128.checked_pow(exponent)?, 1)
        }
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
    let denominator = 10_i128
        .checked_pow(u32::try_from(fraction.len()).ok()?)?
        .checked_mul(scale_down)?;
    Some((digits.checked_mul(scale_up)?, denominator))
}

/// Thousandths as quantities.
pub(super) fn texts(sums: &BTreeMap<String, i128>) -> BTreeMap<String, String> {
    let text = |milli: i128| {
        if milli % 1000 == 0 {
            (milli / 1000).to_string()
        } else {
            format!("{milli}m")
        }
    };
    sums.iter()
        .map(|(resource, &milli)| (resource.clone(), text(milli)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_become_thousandths() {
        for (text, expected) in [
            ("4", Some(4000)),
            ("3920m", Some(3920)),
            ("1.5", Some(1500)),
            ("16Ki", Some(16 * 1024 * 1000)),
            ("1G", Some(1_000_000_000_000)),
            ("2e3", Some(2_000_000)),
            ("100n", Some(1)),
            ("0.5Ki", Some(512_000)),
            ("1E", None),
            ("", None),
            ("x", None),
            ("4q", None),
        ] {
            assert_eq!(milli(text), expected, "{text:?}");
        }
    }

    #[test]
    fn quantities_are_compared_without_rounding() {
        for (one, other, expected) in [
            ("1000m", "1", true),
            ("1024Mi", "1Gi", true),
            ("1.10", "1.1", true),
            ("1e3", "1k", true),
            ("100n", "200n", false),
            ("1n", "1m", false),
            ("0.5", "499999999n", false),
            ("", "0", false),
            ("x", "x", false),
        ] {
            assert_eq!(same_quantity(one, other), expected, "{one} {other}");
        }
    }

    #[test]
    fn sums_are_written_whole_where_they_are() {
        let sums = BTreeMap::from([("cpu".to_owned(), 7840), ("memory".to_owned(), 1_024_000)]);
        let expected = BTreeMap::from([
            ("cpu".to_owned(), "7840m".to_owned()),
            ("memory".to_owned(), "1024".to_owned()),
        ]);
        assert_eq!(texts(&sums), expected);
    }
}
