//! Metrics in the text format, read: sums of counters and gauges, and quantiles of histograms. Pure.

use std::collections::{BTreeMap, BTreeSet};

/// One sample: its name, its labels, and its value.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Sample<'a> {
    name: &'a str,
    labels: BTreeMap<&'a str, &'a str>,
    value: f64,
}

/// All samples of a text. What is no sample is passed over.
pub(super) fn samples(text: &str) -> Vec<Sample<'_>> {
    text.lines().filter_map(sample).collect()
}

/// What was counted since an earlier text: counters and histograms without what they had then. `None` where one of them has less
/// now: then all were begun anew in between.
pub(super) fn since<'a>(samples: &[Sample<'a>], before: &[Sample<'_>]) -> Option<Vec<Sample<'a>>> {
    let known: BTreeMap<_, f64> = before.iter().map(|s| ((s.name, &s.labels), s.value)).collect();
    let now: BTreeSet<_> = samples.iter().map(|s| (s.name, &s.labels)).collect();
    let is_gone =
        |sample: &Sample<'_>| is_counted(sample.name) && !now.contains(&(sample.name, &sample.labels));
    if before.iter().any(is_gone) {
        return None;
    }
    let less = |sample: &Sample<'a>| {
        let before = known.get(&(sample.name, &sample.labels)).copied().unwrap_or(0.0);
        let value = sample.value - before;
        let sample = Sample {
            value,
            ..sample.clone()
        };
        (value >= 0.0 || !is_counted(sample.name)).then_some(sample)
    };
    samples.iter().map(less).collect()
}

/// Whether it is of a counter or a histogram, which never have less than before.
fn is_counted(name: &str) -> bool {
    ["_total", "_count", "_sum", "_bucket"]
        .iter()
        .any(|end| name.ends_with(end))
}

fn sample(line: &str) -> Option<Sample<'_>> {
    if line.starts_with('#') {
        return None;
    }
    let (series, value) = line.rsplit_once(' ')?;
    let value = value.parse().ok()?;
    let Some((name, labels)) = series.split_once('{') else {
        return Some(Sample {
            name: series,
            labels: BTreeMap::new(),
            value,
        });
    };
    // No label of a hub has a quote or a comma in it: they are words of its own, and names of regions.
    let labels = labels.strip_suffix('}')?.split("\",");
    let labels = labels.filter_map(|label| {
        let (key, value) = label.split_once("=\"")?;
        Some((key, value.trim_end_matches('"')))
    });
    Some(Sample {
        name,
        labels: labels.collect(),
        value,
    })
}

/// The sum of what is called `name`.
pub(super) fn sum(samples: &[Sample<'_>], name: &str) -> f64 {
    let of_name = samples.iter().filter(|s| s.name == name);
    total(of_name.map(|s| s.value))
}

/// The sum of some values: that of none is 0, and not the -0 that `Iterator::sum` begins with.
pub(super) fn total(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(0.0, |sum, value| sum + value)
}

/// The sums of what is called `name`, by the value of a label.
pub(super) fn by(samples: &[Sample<'_>], name: &str, label: &str) -> BTreeMap<String, f64> {
    let mut sums = BTreeMap::new();
    for sample in samples.iter().filter(|s| s.name == name) {
        let value = sample.labels.get(label).copied().unwrap_or_default();
        *sums.entry(value.to_owned()).or_default() += sample.value;
    }
    sums
}

/// A quantile of a histogram.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Quantile {
    /// So much, as Prometheus' `histogram_quantile` has it.
    Is(f64),
    /// Above the last bound, which is this.
    Above(f64),
}

/// A quantile of a histogram, all of its series together: within its bucket as if all in it were spread evenly. `None` where
/// nothing was counted.
pub(super) fn quantile(samples: &[Sample<'_>], name: &str, quantile: f64) -> Option<Quantile> {
    let bucket = format!("{name}_bucket");
    let mut buckets: Vec<(f64, f64)> = Vec::new();
    for (bound, count) in by(samples, &bucket, "le") {
        let bound = match bound.as_str() {
            "+Inf" => f64::INFINITY,
            bound => bound.parse().ok()?,
        };
        buckets.push((bound, count));
    }
    buckets.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    let all = buckets
        .last()
        .map(|(_, count)| *count)
        .filter(|count| *count > 0.0)?;
    let rank = all * quantile;
    let (mut lower, mut below) = (0.0, 0.0);
    for (bound, count) in buckets {
        if count >= rank && count > below {
            return Some(match bound.is_finite() {
                true => Quantile::Is(lower + (bound - lower) * (rank - below) / (count - below)),
                false => Quantile::Above(lower),
            });
        }
        (lower, below) = (bound, count);
    }
    None
}
