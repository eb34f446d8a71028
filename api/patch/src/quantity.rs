//! Kubernetes quantities (`resource.Quantity`) as exact numbers: `500m`, `1.5Gi`, `2e3`.

use std::cmp::Ordering;

/// The quantity in units of its resource (bytes, pieces), rounded up as Kubernetes' `Value()` does; `None` if it is none,
/// negative, or above 2^64-1.
pub fn units(text: &str) -> Option<u64> {
    scaled(text, 0)
}

/// How two quantities compare, exactly: nothing is rounded. `None` if one is none.
pub fn compare(one: &str, other: &str) -> Option<Ordering> {
    let ((below, one), (beneath, other)) = (signed(one)?, signed(other)?);
    let zero = one.digits.is_empty() && other.digits.is_empty();
    Some(match (below, beneath) {
        _ if zero => Ordering::Equal,
        (false, false) => one.compare(&other),
        (true, true) => other.compare(&one),
        // Minus nothing is nothing, which is still above what is less.
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
    })
}

/// Whether it is a quantity, as an API server takes it.
pub fn is_quantity(text: &str) -> bool {
    signed(text).is_some()
}

/// The quantity as Kubernetes writes it (`Quantity.String()`): no fraction, the suffix as large as possible, of the family
/// (binary, decimal, exponent) that it came with. What is finer than `10^finest` is rounded up, at most to nano (-9), and what
/// is above 2^63-1 is cut. `None` if it is none.
pub fn canonical(text: &str, finest: i32) -> Option<String> {
    let (negative, magnitude) = signed(text)?;
    let finest = finest.clamp(NANO, 0);
    let step = 10_u128.checked_pow(finest.abs_diff(NANO))?;
    let nanos = magnitude.nanos().div_ceil(step) * step;
    if nanos == 0 {
        return Some("0".to_owned());
    }
    let sign = if negative { "-" } else { "" };
    let units = nanos / UNIT;
    if magnitude.doublings > 0 && units >= 1024 && nanos.is_multiple_of(UNIT) {
        let (mut amount, mut suffix) = (units, "");
        for larger in ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"] {
            if !amount.is_multiple_of(1024) {
                break;
            }
            (amount, suffix) = (amount / 1024, larger);
        }
        return Some(format!("{sign}{amount}{suffix}"));
    }
    let (mut amount, mut exponent) = (nanos, NANO);
    while amount.is_multiple_of(1000) {
        (amount, exponent) = (amount / 1000, exponent + 3);
    }
    let suffix = match exponent {
        0 => String::new(),
        exponent if magnitude.exponent => format!("e{exponent}"),
        -9 => "n".to_owned(),
        -6 => "u".to_owned(),
        -3 => "m".to_owned(),
        3 => "k".to_owned(),
        6 => "M".to_owned(),
        9 => "G".to_owned(),
        12 => "T".to_owned(),
        15 => "P".to_owned(),
        _ => "E".to_owned(),
    };
    Some(format!("{sign}{amount}{suffix}"))
}

/// The finest power of ten that a quantity holds.
const NANO: i32 = -9;
/// One, in billionths.
const UNIT: u128 = 1_000_000_000;
/// The largest quantity, in billionths.
const MOST: u128 = i64::MAX.unsigned_abs() as u128 * UNIT;

/// Whether the quantity is negative, and how much it is; `None` if it is none.
fn signed(text: &str) -> Option<(bool, Decimal)> {
    let magnitude = text.strip_prefix('-').filter(|rest| !rest.starts_with('+'));
    let negative = magnitude.is_some();
    Some((negative, Decimal::parse(magnitude.unwrap_or(text))?))
}

/// The whole units of the quantity: rounded down, 0 if it is negative, 2^64-1 at most; `None` if it is no quantity.
pub fn whole(text: &str) -> Option<u64> {
    let (negative, magnitude) = signed(text)?;
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
        ..
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
    /// Written with an exponent.
    exponent: bool,
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
            exponent: suffix.len() > 1 && suffix.starts_with(['e', 'E']) && doublings == 0,
        })
    }

    /// In billionths, rounded up, [`MOST`] at most.
    fn nanos(&self) -> u128 {
        /// Times 2^60 they fit into 128 bits.
        const DIGITS: usize = 20;
        let (kept, rest) = self.digits.split_at_checked(DIGITS).unwrap_or((&self.digits, ""));
        let more = u128::from(!rest.bytes().all(|digit| digit == b'0'));
        let cut = i32::try_from(rest.len()).unwrap_or(i32::MAX);
        let tens = self.tens.saturating_add(cut).saturating_sub(NANO);
        // That digits were cut shows in the last place only, which is far below one where they are cut.
        let kept = kept.parse::<u128>().unwrap_or(0) + more;
        let doubled = kept << self.doublings;
        let value = match u32::try_from(tens) {
            _ if kept == 0 => 0,
            Ok(up) => 10_u128
                .checked_pow(up)
                .and_then(|scale| doubled.checked_mul(scale))
                .unwrap_or(MOST),
            Err(_) => match 10_u128.checked_pow(tens.unsigned_abs()) {
                Some(divisor) => doubled.div_ceil(divisor),
                None => 1,
            },
        };
        value.min(MOST)
    }

    /// How it compares with another one: the one with more digits before the point is the larger one.
    fn compare(&self, other: &Decimal) -> Ordering {
        let (ours, theirs) = (self.written(), other.written());
        let places = |digits: &str, tens: i32| {
            i64::try_from(digits.len())
                .unwrap_or(i64::MAX)
                .saturating_add(tens.into())
        };
        if ours.is_empty() || theirs.is_empty() {
            return ours.len().cmp(&theirs.len());
        }
        places(&ours, self.tens)
            .cmp(&places(&theirs, other.tens))
            // As many: digit by digit, and what only zeros follow is equal.
            .then_with(|| ours.trim_end_matches('0').cmp(theirs.trim_end_matches('0')))
    }

    /// All digits, with the powers of two multiplied out.
    fn written(&self) -> String {
        let (mut digits, mut carry) = (Vec::new(), 0_u128);
        for digit in self.digits.bytes().rev() {
            carry += u128::from(digit - b'0') << self.doublings;
            digits.push(carry % 10);
            carry /= 10;
        }
        while carry > 0 {
            digits.push(carry % 10);
            carry /= 10;
        }
        let digit = |digit: &u128| char::from_digit(u32::try_from(*digit).ok()?, 10);
        digits.iter().rev().filter_map(digit).collect()
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
    fn quantities_are_compared_without_rounding() {
        for (less, more) in [
            ("0", "1n"),
            ("-1", "0"),
            ("-2", "-1"),
            ("-1", "1n"),
            ("100n", "200n"),
            ("1n", "1m"),
            ("499999999n", "0.5"),
            ("999m", "1"),
            ("1000Mi", "1Gi"),
            ("1G", "1Gi"),
            ("9", "10"),
            ("99999999999999999999999999999999999999999", "1e42"),
            ("1e-999", "1n"),
            ("9E", "16Ei"),
        ] {
            assert_eq!(compare(less, more), Some(Ordering::Less), "{less} {more}");
            assert_eq!(compare(more, less), Some(Ordering::Greater), "{more} {less}");
        }
        for (one, same) in [
            ("1000m", "1"),
            ("1024Mi", "1Gi"),
            ("1.10", "1.1"),
            ("1e3", "1k"),
            ("0", "-0"),
            ("0.5Ki", "512"),
            ("0e999", "0"),
            ("+5", "5.0"),
        ] {
            assert_eq!(compare(one, same), Some(Ordering::Equal), "{one} {same}");
        }
        for text in [
            "", "m", ".", "1.2.3", "1 Gi", "1gb", "1GB", "1mi", "1e", "1e+", "e3", "1K", "--1", "-+1", "½",
            "1Gi ",
        ] {
            assert_eq!(compare(text, "1"), None, "{text:?}");
            assert!(!is_quantity(text), "{text:?}");
        }
    }

    /// The table of Kubernetes' own `TestQuantityParseEmit`, and more of the same.
    #[test]
    fn quantities_are_written_as_kubernetes_does() {
        for (text, expected) in [
            ("1Ki", "1Ki"),
            ("1024Mi", "1Gi"),
            ("1000M", "1G"),
            (".001Ki", "1024m"),
            (".000001Ki", "1024u"),
            (".000000001Ki", "1024n"),
            ("0.5", "500m"),
            ("1.5Gi", "1536Mi"),
            ("1.5G", "1500M"),
            ("1000m", "1"),
            ("2000Ki", "2000Ki"),
            ("0.5Ki", "512"),
            ("1023", "1023"),
            ("1.25", "1250m"),
            ("100", "100"),
            ("1000", "1k"),
            ("1e3", "1e3"),
            ("12e6", "12e6"),
            ("1e2", "100"),
            ("1E", "1E"),
            ("1E3", "1e3"),
            ("0Mi", "0"),
            ("-0", "0"),
            ("-0.5", "-500m"),
            ("+1", "1"),
            ("0.1n", "1n"),
            ("1.00000000001", "1000000001n"),
            ("99999999999999999999", "9223372036854775807"),
            ("8Ei", "9223372036854775807"),
            ("1e-999", "1e-9"),
            ("1.0000000000000000000000000000000000000000000001", "1000000001n"),
        ] {
            assert_eq!(canonical(text, NANO).as_deref(), Some(expected), "{text}");
        }
        assert_eq!(canonical("0.1m", -3).as_deref(), Some("1m"));
        assert_eq!(canonical("1500u", -3).as_deref(), Some("2m"));
        assert_eq!(canonical("1GB", NANO), None);
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
