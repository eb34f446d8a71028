//! Sums of Kubernetes quantities over nodes, in thousandths.

use std::collections::BTreeMap;

/// Thousandths as quantities.
pub(super) fn texts(sums: &BTreeMap<String, u64>) -> BTreeMap<String, String> {
    let text = |milli: u64| {
        if milli.is_multiple_of(1000) {
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
    fn sums_are_written_whole_where_they_are() {
        let sums = BTreeMap::from([("cpu".to_owned(), 7840), ("memory".to_owned(), 1_024_000)]);
        let expected = BTreeMap::from([
            ("cpu".to_owned(), "7840m".to_owned()),
            ("memory".to_owned(), "1024".to_owned()),
        ]);
        assert_eq!(texts(&sums), expected);
    }
}
