//! Metrics in the text format, read: sums of counters and gauges, and quantiles of histograms. Pure.

use std::collections::BTreeMap;

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

/// What was counted since an earlier text: counters and histograms without what they had then. A series that has less now was
/// begun anew in between, and is as it is.
pub(super) fn since<'a>(samples: &[Sample<'a>], before: &[Sample<'_>]) -> Vec<Sample<'a>> {
    let known: BTreeMap<_, f64> = before.iter().map(|s| ((s.name, &s.labels), s.value)).collect();
    let less = |sample: &Sample<'a>| {
        let before = known.get(&(sample.name, &sample.labels)).copied().unwrap_or(0.0);
        let value = match before <= sample.value {
            true => sample.value - before,
            false => sample.value,
        };
        Sample {
            value,
            ..sample.clone()
        }
    };
    samples.iter().map(less).collect()
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

/// A quantile of a histogram, all of its series together: within its bucket as if all in it were spread evenly, as Prometheus'
/// `histogram_quantile` has it. `None` where nothing was counted; what is above the last bound is told as that bound.
pub(super) fn quantile(samples: &[Sample<'_>], name: &str, quantile: f64) -> Option<f64> {
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
                true => lower + (bound - lower) * (rank - below) / (count - below),
                false => lower,
            });
        }
        (lower, below) = (bound, count);
    }
    None
}
