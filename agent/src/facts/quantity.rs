//! Kubernetes quantities, as far as sums over nodes need them: in thousandths, rounded up like Kubernetes does.

use std::collections::BTreeMap;

/// A quantity in thousandths; `None` if it is none.
pub(crate) fn milli(text: &str) -> Option<i128> {
    let split = text
        .find(|c: char| !matches!(c, '0'..='9' | '.' | '+' | '-'))
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at_checked(split)?;
    let (scale_up, scale_down): (i128, i128) = match suffix {
        "n" => (1, 1_000_000),
        "u" => (1, 1_000),
        "m" => (1, 1),
        "" => (1_000, 1),
        "k" => (1_000_000, 1),
        "M" => (1_000_000_000, 1),
        "G" => (1_000_000_000_000, 1),
        "T" => (1_000_000_000_000_000, 1),
        "P" => (1_000_000_000_000_000_000, 1),
        "Ki" => (1_000 << 10, 1),
        "Mi" => (1_000 << 20, 1),
        "Gi" => (1_000 << 30, 1),
        "Ti" => (1_000 << 40, 1),
        "Pi" => (1_000 << 50, 1),
        "Ei" => (1_000 << 60, 1),
        _ => {
            let exponent: u32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            (10_i128.checked_pow(exponent)?.checked_mul(1_000)?, 1)
        }
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
    let divisor = 10_i128
        .checked_pow(u32::try_from(fraction.len()).ok()?)?
        .checked_mul(scale_down)?;
    let scaled = digits.checked_mul(scale_up)?;
    let rest = i128::from(scaled.rem_euclid(divisor) != 0);
    Some(scaled.div_euclid(divisor) + rest)
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
    fn sums_are_written_whole_where_they_are() {
        let sums = BTreeMap::from([("cpu".to_owned(), 7840), ("memory".to_owned(), 1_024_000)]);
        let expected = BTreeMap::from([
            ("cpu".to_owned(), "7840m".to_owned()),
            ("memory".to_owned(), "1024".to_owned()),
        ]);
        assert_eq!(texts(&sums), expected);
    }
}
