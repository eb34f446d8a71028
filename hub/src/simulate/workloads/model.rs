//! How long replicas take and which of them fail: the same seed gives the same answers.

use super::Fate;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{PodSpec, PodTemplateSpec};
use roundhouse_api::hash;
use std::{collections::BTreeMap, ops::RangeInclusive, time::Duration};

/// The delay and failure model of a simulated cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Model {
    /// Seed of every delay and failure.
    pub seed: u64,
    /// How long a replica takes to become ready, and a Job's pod to end.
    pub delay: RangeInclusive<Duration>,
    /// Images that contain one of these texts are never pulled: their replicas do not become ready.
    pub failing_images: Vec<String>,
    /// Of a thousand replicas, so many crash: they never become ready; in a Job they fail.
    pub crashes_per_mille: u16,
    /// Nodes: replicas of a DaemonSet.
    pub nodes: u32,
}

impl Default for Model {
    fn default() -> Self {
        Model {
            seed: 0,
            delay: Duration::from_millis(300)..=Duration::from_millis(1500),
            failing_images: vec![":broken".to_owned()],
            crashes_per_mille: 0,
            nodes: 3,
        }
    }
}

impl Model {
    /// What becomes of one replica that is started at `now`. `object` is `<kind>/<namespace>/<name>`.
    pub(super) fn fate(&self, object: &str, template: &Template, ordinal: u32, now: Timestamp) -> Fate {
        let fails = |image: &String| {
            self.failing_images
                .iter()
                .any(|part| image.contains(part.as_str()))
        };
        if template.images.iter().any(fails) {
            return Fate::NotPulled;
        }
        let roll = |what: &str| {
            roll(
                self.seed,
                &[object, template.hash.as_str(), &ordinal.to_string(), what],
            )
        };
        let (shortest, longest) = (self.delay.start().as_millis(), self.delay.end().as_millis());
        let span = longest.saturating_sub(shortest).saturating_add(1);
        let millis = shortest.saturating_add(u128::from(roll("delay")) % span);
        let delay = SignedDuration::from_millis(i64::try_from(millis).unwrap_or(i64::MAX));
        let at = now.checked_add(delay).unwrap_or(Timestamp::MAX);
        if roll("crash") % 1000 < u64::from(self.crashes_per_mille) {
            Fate::CrashesAt(at)
        } else {
            Fate::ReadyAt(at)
        }
    }
}

/// The first ten digits of the hash of a pod template, which tell revisions apart; none if it is not known. Every replica
/// has one: it is as cheap to copy and to compare as a number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TemplateHash([u8; 10]);

impl TemplateHash {
    fn of(hash: &str) -> TemplateHash {
        let mut digits = [0; 10];
        for (digit, byte) in digits.iter_mut().zip(hash.bytes()) {
            *digit = byte;
        }
        TemplateHash(digits)
    }

    /// Its digits.
    pub fn as_str(&self) -> &str {
        let digits = self.0.split(|byte| *byte == 0).next();
        digits
            .and_then(|digits| str::from_utf8(digits).ok())
            .unwrap_or_default()
    }

    pub(super) fn is_known(self) -> bool {
        self != TemplateHash::default()
    }
}

impl std::fmt::Display for TemplateHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A pod template: its hash and its images.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Template {
    pub(super) hash: TemplateHash,
    pub(super) images: Vec<String>,
}

impl Template {
    pub(super) fn of(template: &PodTemplateSpec) -> Template {
        let template_hash = serde_json::to_value(template)
            .map(|value| hash::of_value(&value))
            .unwrap_or_default();
        Template {
            hash: TemplateHash::of(&template_hash),
            images: template.spec.as_ref().map(images).unwrap_or_default(),
        }
    }
}

/// The labels of the pods of a template.
pub(super) fn labels(template: &PodTemplateSpec) -> BTreeMap<String, String> {
    let labels = template.metadata.as_ref().and_then(|meta| meta.labels.clone());
    labels.unwrap_or_default()
}

pub(super) fn images(spec: &PodSpec) -> Vec<String> {
    let containers = spec.init_containers.iter().flatten().chain(&spec.containers);
    containers.filter_map(|c| c.image.clone()).collect()
}

/// A number from the seed and the names: FNV-1a, then the finaliser of SplitMix64.
pub(super) fn roll(seed: u64, names: &[&str]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64 ^ seed;
    for name in names {
        for byte in name.bytes().chain([0]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fates_follow_from_the_seed() {
        let template = Template {
            hash: TemplateHash::of("abc"),
            images: vec!["web:1".into()],
        };
        let model = Model {
            crashes_per_mille: 100,
            ..Model::default()
        };
        let now = Timestamp::UNIX_EPOCH;
        let fates = |model: &Model| -> Vec<Fate> {
            (0..1000)
                .map(|n| model.fate("Deployment/default/web", &template, n, now))
                .collect()
        };
        assert_eq!(fates(&model), fates(&model));
        let other = Model {
            seed: 1,
            ..model.clone()
        };
        assert_ne!(fates(&model), fates(&other));
        let crashes = fates(&model)
            .iter()
            .filter(|f| matches!(f, Fate::CrashesAt(_)))
            .count();
        assert!((60..140).contains(&crashes), "{crashes} of 1000, 100 expected");
        for fate in fates(&model) {
            let (Fate::ReadyAt(at) | Fate::CrashesAt(at)) = fate else {
                panic!("{fate:?}");
            };
            assert!((300..=1500).contains(&at.as_millisecond()), "{at}");
        }
    }

    #[test]
    fn a_failing_image_is_never_pulled() {
        let broken = Template {
            hash: TemplateHash::of("abc"),
            images: vec!["web:1".into(), "side:broken-2".into()],
        };
        let fate = Model::default().fate("Pod/default/web", &broken, 0, Timestamp::UNIX_EPOCH);
        assert_eq!(fate, Fate::NotPulled);
    }
}
