//! Kubernetes quantities (`resource.Quantity`) as exact numbers: `500m`, `1.5Gi`, `2e3`.

/// The quantity in units of its resource (bytes, pieces), rounded up as Kubernetes' `Value()` does; `None` if it is none,
/// negative, or above 2^64-1.
pub fn units(text: &str) -> Option<u64> {
    scaled(text, 0)
}

/// The whole units of the quantity: rounded down, 0 if it is negative, 2^64-1 at most; `None` if it is no quantity.
pub fn whole(text: &str) -> Option<u64> {
    let (negative, text) = match text.strip_prefix('-') {
        Some(magnitude) if !magnitude.starts_with('+') => (true, magnitude),
        Some(_) => return None,
        None => (false, text),
    };
    let magnitude = Decimal::parse(text)?;
    Some(if negative { 0 } else { magnitude.floor() })
}

/// The quantity in thousandths (millicores), rounded up as Kubernetes' `MilliValue()` does; `None` as for [`units`].
pub fn thousandths(text: &str) -> Option<u64> {
    scaled(text, 3)
}

/// The quantity times `10^decimals`, rounded up.
fn scaled(text: &str, decimals: i32) -> Option<u64> {
    let Decimal {
        digits,
        tens,
        doublings,
    } = Decimal::parse(text)?;
    if digits.is_empty() {
        return Some(0);
    }
    let mantissa: u128 = digits.parse().ok()?;
    let doubled = mantissa.checked_mul(1_u128 << doublings)?;
    let tens = tens + decimals;
    let value = match u32::try_from(tens) {
        Ok(up) => doubled.checked_mul(10_u128.checked_pow(up)?)?,
        Err(_) => match 10_u128.checked_pow(tens.unsigned_abs()) {
            Some(divisor) => doubled.div_ceil(divisor),
            // Smaller than any unit, and not zero.
            None => 1,
        },
    };
    u64::try_from(value).ok()
}

/// Digits without leading zeros, times powers of ten and of two.
struct Decimal {
    digits: String,
    tens: i32,
    doublings: u32,
}

impl Decimal {
    /// Reads a quantity without a minus.
    fn parse(text: &str) -> Option<Decimal> {
        let text = text.strip_prefix('+').unwrap_or(text);
        let end = text
            .bytes()
            .position(|b| !(b.is_ascii_digit() || b == b'.'))
            .unwrap_or(text.len());
        let (number, suffix) = text.split_at_checked(end)?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
            return None;
        }
        let fraction = fraction.trim_end_matches('0');
        let digits = format!("{whole}{fraction}");
        let (tens, doublings) = suffix_scale(suffix)?;
        Some(Decimal {
            digits: digits.trim_start_matches('0').to_owned(),
            tens: tens.checked_sub(i32::try_from(fraction.len()).ok()?)?,
            doublings,
        })
    }

    /// Rounded down, `u64::MAX` at most.
    fn floor(&self) -> u64 {
        /// As many as 2^64 has; times 2^60 they fit into 128 bits.
        const DIGITS: usize = 20;
        let kept = self.digits.get(..DIGITS).unwrap_or(&self.digits);
        let cut = i32::try_from(self.digits.len() - kept.len()).unwrap_or(i32::MAX);
        let tens = self.tens.saturating_add(cut);
        let doubled = kept.parse::<u128>().unwrap_or(0) << self.doublings;
        let value = match u32::try_from(tens) {
            Ok(up) => 10_u128
                .checked_pow(up)
                .and_then(|scale| doubled.checked_mul(scale)),
            Err(_) => Some(match 10_u128.checked_pow(tens.unsigned_abs()) {
                Some(divisor) => doubled / divisor,
                None => 0,
            }),
        };
        match value {
            // Zero times what cannot be counted.
            None if doubled == 0 => 0,
            value => value
                .and_then(|value| u64::try_from(value).ok())
                .unwrap_or(u64::MAX),
        }
    }
}

/// Powers of ten and of two that a suffix stands for.
fn suffix_scale(suffix: &str) -> Option<(i32, u32)> {
    Some(match suffix {
        "n" => (-9, 0),
        "u" => (-6, 0),
        "m" => (-3, 0),
        "" => (0, 0),
        "k" => (3, 0),
        "M" => (6, 0),
        "G" => (9, 0),
        "T" => (12, 0),
        "P" => (15, 0),
        "E" => (18, 0),
        "Ki" => (0, 10),
        "Mi" => (0, 20),
        "Gi" => (0, 30),
        "Ti" => (0, 40),
        "Pi" => (0, 50),
        "Ei" => (0, 60),
        _ => {
            let exponent = suffix.strip_prefix(['e', 'E'])?;
            let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
            let legal = (1..=3).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
            (legal.then(|| exponent.parse().ok())??, 0)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_exact_and_rounded_up() {
        for (text, milli, whole) in [
            ("0", 0, 0),
            ("4", 4000, 4),
            ("3920m", 3920, 4),
            ("1.5", 1500, 2),
            ("0.0001", 1, 1),
            ("100n", 1, 1),
            ("16Ki", 16_384_000, 16_384),
            ("0.5Ki", 512_000, 512),
            ("1.5Gi", 1_610_612_736_000, 1_610_612_736),
            ("1k", 1_000_000, 1000),
            ("2e3", 2_000_000, 2000),
            ("2E-3", 2, 1),
            ("+5", 5000, 5),
            (".5", 500, 1),
            ("1.", 1000, 1),
            ("1e-999", 1, 1),
            ("0e999", 0, 0),
            ("9007199254740993m", 9_007_199_254_740_993, 9_007_199_254_741),
        ] {
            assert_eq!(thousandths(text), Some(milli), "{text}");
            assert_eq!(units(text), Some(whole), "{text}");
        }
        assert_eq!(units("1E"), Some(1_000_000_000_000_000_000));
        assert_eq!(units("15Ei"), Some(15 << 60));
        assert_eq!(units("18446744073709551615"), Some(u64::MAX));
    }

    #[test]
    fn whole_units_are_rounded_down_and_bounded() {
        for (text, expected) in [
            ("4", 4),
            ("10.0", 10),
            ("10.9", 10),
            ("9999m", 9),
            ("0.9999", 0),
            ("100n", 0),
            ("1e-999", 0),
            ("0e999", 0),
            ("1k", 1000),
            ("1e3", 1000),
            ("0.5Ki", 512),
            ("2.999999999999999999999999999999999999999999", 2),
            ("18446744073709551615", u64::MAX),
            ("18446744073709551616", u64::MAX),
            ("16Ei", u64::MAX),
            ("1e999", u64::MAX),
            ("99999999999999999999999999999999999999999", u64::MAX),
            ("-1", 0),
            ("-1e999", 0),
        ] {
            assert_eq!(whole(text), Some(expected), "{text}");
        }
        for text in ["", "x", "-", "--1", "-+1", "+-1", "1K", "1e"] {
            assert_eq!(whole(text), None, "{text:?}");
        }
    }

    #[test]
    fn what_is_no_quantity_is_none() {
        for text in [
            "",
            "x",
            "-1",
            "4q",
            "m",
            ".",
            "1.2.3",
            "1 Gi",
            "1GB",
            "1e",
            "1e+",
            "1K",
            "½",
            "1½",
            "18446744073709551616",
            "16Ei",
            "1e999",
            "99999999999999999999999999999999999999999",
        ] {
            assert_eq!(units(text), None, "{text:?}");
        }
    }
}
