//! Kubernetes quantities (`resource.Quantity`): `500m`, `1.5Gi`, `2e3`.

const SUFFIXES: [&str; 14] = [
    "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi",
];

/// Whether Kubernetes reads `text` as a quantity that is not negative.
pub(super) fn is_quantity(text: &str) -> bool {
    let number_end = text
        .bytes()
        .position(|b| !(b.is_ascii_digit() || b == b'.'))
        .unwrap_or(text.len());
    // The end is a character boundary: everything before it is ASCII.
    let (number, suffix) = text.split_at_checked(number_end).unwrap_or((text, ""));
    let digits = number.bytes().filter(u8::is_ascii_digit).count();
    let points = number.bytes().filter(|b| *b == b'.').count();
    digits > 0 && points <= 1 && is_suffix(suffix)
}

fn is_suffix(suffix: &str) -> bool {
    if suffix.is_empty() || suffix == "Ei" || SUFFIXES.contains(&suffix) {
        return true;
    }
    let Some(exponent) = suffix.strip_prefix(['e', 'E']) else {
        return false;
    };
    let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    (1..=3).contains(&exponent.len()) && exponent.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::is_quantity;

    #[test]
    fn quantities() {
        for good in [
            "0", "1", "0.5", "500m", "1.5Gi", "128Mi", "2e3", "2E3", "1E", "1Ei", "1e-3", ".5", "1.", "100n",
        ] {
            assert!(is_quantity(good), "{good}");
        }
        for bad in [
            "", "m", ".", "1.2.3", "-1", "1 Gi", "1gb", "1GB", "1mi", "1e", "1e+", "e3", "1K", "½", "1½",
            "1Gi ",
        ] {
            assert!(!is_quantity(bad), "{bad}");
        }
    }
}
