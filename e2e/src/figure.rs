//! One figure of a bench: its target, what was measured, and whether the target is met.
//!
//! A target of time or memory is for one size. A run of another size is not judged by it: a hundred clusters that stay below
//! what a thousand may take say nothing.

use serde::Serialize;

/// What has to hold.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Target {
    /// It takes time or memory: at most this much, on the machine that the targets are of.
    AtMost(f64),
    /// A ratio: at least this much.
    AtLeast(f64),
    /// It is counted, and has to be exactly this on any machine, at any size.
    Exactly(f64),
    /// It is counted, and may be at most this much on any machine, at any size.
    NoMoreThan(f64),
}

/// Whether a target is met.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It is.
    Met,
    /// It is not.
    Missed,
    /// The target is for another size than the run had.
    #[serde(rename = "not judged")]
    NotJudged,
}

/// One measure of a size: how many the run had, how many the target is for, and of what.
pub type Extent = (usize, usize, &'static str);

/// A figure.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Figure {
    scenario: &'static str,
    what: String,
    target: Option<Target>,
    /// The size that the target is for; none where it is for any.
    #[serde(skip_serializing_if = "Option::is_none")]
    target_size: Option<String>,
    measured: f64,
    unit: &'static str,
    /// None without a target.
    verdict: Option<Verdict>,
    /// What bounds it, or what else was seen.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub note: String,
}

impl Figure {
    /// What was measured, without a target.
    pub fn new(scenario: &'static str, what: impl Into<String>, measured: f64, unit: &'static str) -> Figure {
        Figure {
            scenario,
            what: what.into(),
            target: None,
            target_size: None,
            measured,
            unit,
            verdict: None,
            note: String::new(),
        }
    }

    /// It may be at most so much, where the run has the size that this is said for.
    pub fn at_most(self, most: f64, size: &[Extent]) -> Figure {
        let words = size.iter().map(|(_, full, of)| format!("{full} {of}"));
        let words = words.collect::<Vec<_>>().join(", ");
        let verdict = match size.iter().all(|(run, full, _)| run == full) {
            true => Verdict::of(self.measured <= most),
            false => Verdict::NotJudged,
        };
        Figure {
            target_size: Some(words).filter(|words| !words.is_empty()),
            ..self.judged(Target::AtMost(most), verdict)
        }
    }

    /// It has to be at least so much.
    pub fn at_least(self, least: f64) -> Figure {
        let verdict = Verdict::of(self.measured >= least);
        self.judged(Target::AtLeast(least), verdict)
    }

    /// It has to be exactly so much.
    pub fn exactly(self, exact: f64) -> Figure {
        let verdict = Verdict::of((self.measured - exact).abs() < f64::EPSILON);
        self.judged(Target::Exactly(exact), verdict)
    }

    /// It is counted, and may be at most so much.
    pub fn no_more_than(self, most: f64) -> Figure {
        let verdict = Verdict::of(self.measured <= most);
        self.judged(Target::NoMoreThan(most), verdict)
    }

    fn judged(self, target: Target, verdict: Verdict) -> Figure {
        Figure {
            target: Some(target),
            verdict: Some(verdict),
            ..self
        }
    }

    /// Says what bounds it, or what else was seen.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Figure {
        self.note = note.into();
        self
    }

    /// Whether it is missed on whatever machine.
    pub fn is_wrong(&self) -> bool {
        matches!(self.target, Some(Target::Exactly(_) | Target::NoMoreThan(_)))
            && self.verdict == Some(Verdict::Missed)
    }

    /// Scenario, figure, target, measured and verdict, as a table has them.
    pub fn row(&self) -> [String; 5] {
        let amount = |value: f64| format!("{} {}", number(value), self.unit).trim_end().to_owned();
        [
            self.scenario.to_owned(),
            self.what.clone(),
            match self.target {
                Some(Target::AtMost(value) | Target::NoMoreThan(value)) => format!("≤ {}", amount(value)),
                Some(Target::AtLeast(value)) => format!("≥ {}", amount(value)),
                Some(Target::Exactly(value)) => format!("= {}", amount(value)),
                None => "–".to_owned(),
            },
            amount(self.measured),
            match (self.verdict, &self.target_size) {
                (Some(Verdict::Met), _) => "met".to_owned(),
                (Some(Verdict::Missed), _) => "MISSED".to_owned(),
                (Some(Verdict::NotJudged), Some(size)) => format!("not judged: the target is for {size}"),
                (Some(Verdict::NotJudged), None) => "not judged".to_owned(),
                (None, _) => String::new(),
            },
        ]
    }
}

impl Verdict {
    fn of(is_met: bool) -> Verdict {
        match is_met {
            true => Verdict::Met,
            false => Verdict::Missed,
        }
    }
}

/// A number with as many digits as say something.
fn number(value: f64) -> String {
    let digits = match value.abs() {
        v if v >= 100.0 || v.fract() == 0.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 1.0 => 2,
        _ => 3,
    };
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn memory(clusters: usize, bundles: usize, measured: f64) -> Figure {
        let size = [(clusters, 1_000, "clusters"), (bundles, 10_000, "bundles")];
        Figure::new("memory", "hub", measured, "MiB").at_most(300.0, &size)
    }

    fn check(figure: &Figure, verdict: &Value, row: [&str; 3]) {
        let json = serde_json::to_value(figure).unwrap();
        // It is there where it is null, too.
        assert_eq!(json.get("verdict"), Some(verdict), "{json}");
        assert_eq!(figure.row()[2..], row);
    }

    #[test]
    fn a_target_judges_the_size_that_it_is_for() {
        check(
            &memory(1_000, 10_000, 300.0),
            &json!("met"),
            ["≤ 300 MiB", "300 MiB", "met"],
        );
        check(
            &memory(1_000, 10_000, 301.0),
            &json!("missed"),
            ["≤ 300 MiB", "301 MiB", "MISSED"],
        );
        let not = "not judged: the target is for 1000 clusters, 10000 bundles";
        // A smaller one is not met, and a larger one is not missed; as many bundles on fewer clusters are another size.
        for (clusters, bundles, measured) in [(100, 1_000, 20.0), (100, 10_000, 20.0), (1_000, 20_000, 400.0)]
        {
            let row = ["≤ 300 MiB", &format!("{measured} MiB"), not];
            check(&memory(clusters, bundles, measured), &json!("not judged"), row);
        }
    }

    #[test]
    fn what_is_counted_is_judged_at_any_size() {
        let writes = |count: f64| Figure::new("idle", "writes", count, "").exactly(0.0);
        check(&writes(0.0), &json!("met"), ["= 0", "0", "met"]);
        check(&writes(2.0), &json!("missed"), ["= 0", "2", "MISSED"]);
        assert!(!writes(0.0).is_wrong());
        assert!(writes(2.0).is_wrong());
        assert!(
            !memory(1_000, 10_000, 301.0).is_wrong(),
            "it goes with the machine"
        );

        let ratio = |times: f64| Figure::new("peers", "writes", times, "times").at_least(3.0);
        check(
            &ratio(2.5),
            &json!("missed"),
            ["≥ 3 times", "2.50 times", "MISSED"],
        );
        check(&ratio(3.0), &json!("met"), ["≥ 3 times", "3 times", "met"]);
        let pace = Figure::new("flood", "writes", 1.1, "").no_more_than(1.05);
        check(&pace, &json!("missed"), ["≤ 1.05", "1.10", "MISSED"]);
        assert!(pace.is_wrong());
    }

    #[test]
    fn without_a_target_there_is_no_verdict() {
        let figure = Figure::new("idle", "of it the kernel's", 0.012, "cores");
        check(&figure, &Value::Null, ["–", "0.012 cores", ""]);
    }

    #[test]
    fn the_json_says_what_size_a_target_is_for() {
        let text = serde_json::to_value(memory(100, 1_000, 20.0).note("why")).unwrap();
        assert_eq!(
            text,
            json!({"scenario": "memory", "what": "hub", "target": {"atMost": 300.0},
                "targetSize": "1000 clusters, 10000 bundles", "measured": 20.0, "unit": "MiB",
                "verdict": "not judged", "note": "why"})
        );
    }
}
