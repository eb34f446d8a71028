//! Numbers, lists, fractions, taints, requirements and ties as people read them.

use crate::placement::NotChosen;
use jiff::SignedDuration;
use roundhouse_api::placement::{Operator, Requirement, Taint, Toleration, TolerationOperator};
use std::{collections::BTreeMap, fmt::Write as _, time::Duration};

/// A reduced fraction such as `7/3` with two decimals, rounded half up: `2.33`; a whole number stays whole.
pub fn decimal(fraction: &str) -> String {
    let Some((over, under)) = parts(fraction) else {
        return fraction.to_owned();
    };
    if under == 1 {
        return thousands(over);
    }
    let hundredths = (over * 200 + under) / (2 * under);
    format!("{}.{:02}", thousands(hundredths / 100), hundredths % 100)
}

/// Numerator and denominator of what a decision writes.
pub(crate) fn parts(fraction: &str) -> Option<(u128, u128)> {
    let (over, under) = fraction.split_once('/').unwrap_or((fraction, "1"));
    let under = under.parse().ok().filter(|under| *under > 0)?;
    Some((over.parse().ok()?, under))
}

/// `10,000`.
pub fn thousands(number: impl Into<u128>) -> String {
    let digits = number.into().to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// What the API server said, without its debug print.
pub fn said(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(answer) => answer.message.clone(),
        error => error.to_string(),
    }
}

/// Names in a line, `most` of them: a longer list says how many more there are.
pub fn listed(names: &[String], most: usize) -> String {
    let mut text = names.iter().take(most).cloned().collect::<Vec<_>>().join(", ");
    if names.len() > most {
        let _ = write!(text, ", {}", more(names.len() - most));
    }
    text
}

/// `… and 3 more`.
pub fn more(count: usize) -> String {
    format!("… and {} more", thousands(size(count)))
}

/// A length as a number.
fn size(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// `1 cluster`, `1,000 clusters`: of what has an s where there are several.
pub fn counted(things: usize, one: &str) -> String {
    count(size(things), one, &format!("{one}s"))
}

/// `+7`, `−4`, `0`.
pub fn signed(number: i64) -> String {
    match number {
        0 => "0".to_owned(),
        1.. => format!("+{}", thousands(number.unsigned_abs())),
        _ => format!("−{}", thousands(number.unsigned_abs())),
    }
}

/// `1 replica`, `2 replicas`.
pub fn count(number: u64, one: &str, many: &str) -> String {
    match number {
        1 => format!("1 {one}"),
        _ => format!("{} {many}", thousands(number)),
    }
}

/// A key by which `c2` comes before `c10`: numbers in names are compared as numbers.
pub fn in_order(name: &str) -> Vec<(String, u128)> {
    let mut parts: Vec<(String, u128)> = Vec::new();
    let (mut text, mut digits) = (String::new(), String::new());
    for character in name.chars() {
        // Longer numbers than that are no numbers to anybody.
        if character.is_ascii_digit() && digits.len() < 30 {
            digits.push(character);
            continue;
        }
        if !digits.is_empty() {
            parts.push((std::mem::take(&mut text), digits.parse().unwrap_or_default()));
            digits.clear();
        }
        text.push(character);
    }
    parts.push((text, digits.parse().unwrap_or_default()));
    parts
}

/// `1h30m`, as it would be written; less than a second in milliseconds, and nothing as `0s`.
pub fn time(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let parts = [
        (seconds / 3600, "h"),
        (seconds / 60 % 60, "m"),
        (seconds % 60, "s"),
    ];
    let text: String = parts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, unit)| format!("{count}{unit}"))
        .collect();
    match (text.is_empty(), duration.as_millis()) {
        (false, _) => text,
        (true, 0) => "0s".to_owned(),
        (true, milliseconds) => format!("{milliseconds}ms"),
    }
}

/// By how much a clock is off: `1h30m fast` or `1h30m slow`.
pub fn off(fast: SignedDuration) -> String {
    let which = if fast.is_negative() { "slow" } else { "fast" };
    format!("{} {which}", time(fast.unsigned_abs()))
}

/// A command on an application, as it can be typed: `resume` or `restart` with the application behind it.
pub fn command(verb: &str, namespace: &str, application: &str) -> String {
    match namespace {
        "default" => format!("roundhouse {verb} {application}"),
        namespace => format!("roundhouse {verb} {application} -n {namespace}"),
    }
}

/// `gpu=a100:NoSchedule`, as `kubectl taint` writes it.
pub fn taint(taint: &Taint) -> String {
    let mut text = taint.key.clone();
    if let Some(value) = taint.value.as_deref().filter(|value| !value.is_empty()) {
        let _ = write!(text, "={value}");
    }
    let _ = write!(text, ":{:?}", taint.effect);
    text
}

/// A toleration in one line.
pub fn toleration(toleration: &Toleration) -> String {
    let key = toleration.key.as_deref().unwrap_or_default();
    let value = toleration.value.as_deref().unwrap_or_default();
    let mut text = match toleration.operator.unwrap_or_default() {
        TolerationOperator::Exists if key.is_empty() => "every taint".to_owned(),
        TolerationOperator::Exists => format!("{key} Exists"),
        TolerationOperator::Equal => format!("{key}={value}"),
    };
    if let Some(effect) = toleration.effect {
        let _ = write!(text, ":{effect:?}");
    }
    if let Some(seconds) = toleration.toleration_seconds {
        let _ = write!(text, " for {seconds} s");
    }
    text
}

/// A requirement on a label.
pub fn requirement(requirement: &Requirement) -> String {
    let key = &requirement.key;
    match &requirement.operator {
        Operator::In(values) => format!("{key} In [{}]", values.join(", ")),
        Operator::NotIn(values) => format!("{key} NotIn [{}]", values.join(", ")),
        Operator::Exists => format!("{key} Exists"),
        Operator::DoesNotExist => format!("{key} DoesNotExist"),
    }
}

/// What a cluster has of a label.
pub fn label(labels: &BTreeMap<String, String>, key: &str) -> String {
    match labels.get(key) {
        Some(value) => format!("{key}={value}"),
        None => format!("no label {key}"),
    }
}

/// What settled a tie, in words.
pub fn tie(code: &str) -> &str {
    match code {
        "AlreadyHeld" => "equal claims: it stays with who had it",
        "LargerPrevious" => "equal claims: to the one that had more",
        "FewerSeats" => "equal claims: to the one with fewer",
        "Hash" => "equal claims: by stable hash",
        other => other,
    }
}

/// Why clusters are not chosen, in words; a reason that is new keeps its name.
pub fn not_chosen(code: &str) -> &str {
    const ALL: [(NotChosen, &str); 8] = [
        (NotChosen::NotMatched, "no rule of the step selects it"),
        (NotChosen::NotAccepted, "no administrator has accepted it"),
        (NotChosen::NotJoined, "its agent has never reported"),
        (NotChosen::Tainted, "it has a taint that is not tolerated"),
        (
            NotChosen::Unreachable,
            "its agent is out of reach and it holds nothing yet",
        ),
        (NotChosen::MaxClusters, "others come first (maxClusters)"),
        (NotChosen::Skewed, "choosing it would exceed the skew of spread"),
        (
            NotChosen::NoTopologyLabel,
            "it lacks the label that spread goes by",
        ),
    ];
    ALL.iter()
        .find(|(reason, _)| reason.as_str() == code)
        .map_or(code, |(_, words)| *words)
}

/// Why replicas have no place, in words.
pub fn unplaced(code: &str) -> &str {
    match code {
        "Unclaimed" => "no rule claims them (remainder: Hold)",
        "NoClusterMatches" => "the rule matches no cluster",
        "NoClusterEligible" => "the rule matches clusters but may use none",
        "AtCapacity" => "the clusters have no capacity left",
        "AtMaximum" => "the clusters are at perCluster.max",
        "NoAdditional" => "the clusters get nothing more (cordoned or out of reach)",
        "ZeroWeight" => "the clusters have weight 0",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_fast_or_slow() {
        for (fast, expected) in [(5400, "1h30m fast"), (-61, "1m1s slow"), (0, "0s fast")] {
            assert_eq!(off(SignedDuration::from_secs(fast)), expected);
        }
    }

    #[test]
    fn names_with_numbers_are_in_the_order_in_which_people_count() {
        let mut names = ["c10", "c2", "b", "c1", "c2a", "a-9-b", "a-10-b", "c", "7"];
        names.sort_by_cached_key(|name| in_order(name));
        assert_eq!(
            names,
            ["7", "a-9-b", "a-10-b", "b", "c", "c1", "c2", "c2a", "c10"]
        );
        assert_ne!(in_order("c1"), in_order("c01x"));
        assert_eq!(in_order(&"9".repeat(100)).len(), 4);
    }

    #[test]
    fn times_and_commands_are_as_they_would_be_typed() {
        for (milliseconds, shown) in [
            (0, "0s"),
            (250, "250ms"),
            (2_000, "2s"),
            (90_000, "1m30s"),
            (600_000, "10m"),
            (5_400_000, "1h30m"),
        ] {
            assert_eq!(time(Duration::from_millis(milliseconds)), shown);
        }
        assert_eq!(command("restart", "default", "web"), "roundhouse restart web");
        assert_eq!(
            command("restart", "shop", "web"),
            "roundhouse restart web -n shop"
        );
    }

    #[test]
    fn fractions_are_rounded_half_up() {
        for (fraction, shown) in [
            ("7/3", "2.33"),
            ("2000/3", "666.67"),
            ("1/200", "0.01"),
            ("1/201", "0.00"),
            ("199/100", "1.99"),
            ("3999/2000", "2.00"),
            ("1000", "1,000"),
            ("1234567/2", "617,283.50"),
            ("x", "x"),
            ("1/0", "1/0"),
        ] {
            assert_eq!(decimal(fraction), shown, "{fraction}");
        }
    }

    #[test]
    fn a_list_is_never_cut_silently() {
        let names: Vec<String> = (1..=10).map(|n| format!("c{n}")).collect();
        assert_eq!(listed(&names, 8), "c1, c2, c3, c4, c5, c6, c7, c8, … and 2 more");
        assert_eq!(listed(&names, 10).matches('c').count(), 10);
        assert_eq!(
            (listed(&names[..2], 8), listed(&[], 8)),
            ("c1, c2".into(), String::new())
        );
        assert_eq!(more(1_000), "… and 1,000 more");
    }

    #[test]
    fn numbers_have_signs_and_thousands() {
        assert_eq!(["0", "+7", "−4", "+10,000"], [0, 7, -4, 10_000].map(signed)[..]);
        assert_eq!(thousands(1_234_567_u64), "1,234,567");
        assert_eq!(
            (count(1, "a", "b"), count(2, "a", "b")),
            ("1 a".into(), "2 b".into())
        );
        assert_eq!(
            (counted(1, "cluster"), counted(1000, "cluster")),
            ("1 cluster".into(), "1,000 clusters".into())
        );
    }
}
