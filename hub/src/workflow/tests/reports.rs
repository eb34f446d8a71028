//! Random dispatches, reads and reports, from the Bundles to the steps: whatever agents have read and say, a step passes on
//! reports of its own content only.

use super::*;
use crate::dispatch::{
    Observed,
    content::{Divided, Part},
    evidence::cluster_evidence,
    plan::{Todo, Wanted},
};
use proptest::prelude::*;
use roundhouse_api::bundle::{BundlePhase, BundleSpec, BundleStatus};
use std::sync::Arc;

const STEPS: usize = 3;
const CLUSTERS: usize = 2;

/// Uid, generation and hash of a Bundle as somebody saw it.
type Sight = (u32, i64, &'static str);

/// A cluster's Bundle, and what its agent knows.
#[derive(Debug, Clone, Default)]
struct Member {
    /// Whether the Bundle is there.
    exists: bool,
    uid: u32,
    generation: i64,
    hash: &'static str,
    /// The hash and the generation that the stored report is of, and what it says.
    report: Option<(&'static str, i64, BundlePhase)>,
    /// What the agent has read last.
    read: Option<Sight>,
    /// What the agent last said something of, and whether that was ready.
    said: Option<(Sight, bool)>,
}

impl Member {
    fn sight(&self) -> Sight {
        (self.uid, self.generation, self.hash)
    }

    fn make(&mut self, hash: &'static str) {
        self.uid += 1;
        (self.exists, self.generation, self.hash, self.report) = (true, 1, hash, None);
    }

    fn write(&mut self, hash: &'static str) {
        self.generation += 1;
        self.hash = hash;
    }

    fn happens(&mut self, event: u8, wanted: &'static str) {
        match event {
            0..=2 if !self.exists => self.make(wanted),
            0..=2 if self.hash != wanted => self.write(wanted),
            // Somebody else writes, or deletes it, or deletes it and makes it again.
            3 if self.exists => self.write("other"),
            4 => self.exists = false,
            5 if self.exists => self.make(self.hash),
            6..=8 if self.exists => self.read = Some(self.sight()),
            9..=13 => {
                let phase = match event {
                    9 => BundlePhase::Failed,
                    10 => BundlePhase::Progressing,
                    _ => BundlePhase::Ready,
                };
                // It goes to the Bundle that was read, not to one that was made since.
                let read = self.read.filter(|(uid, ..)| self.exists && *uid == self.uid);
                if let Some(read) = read {
                    self.report = Some((read.2, read.1, phase));
                    self.said = Some((read, phase == BundlePhase::Ready));
                }
            }
            _ => {}
        }
    }

    fn observed(&self) -> Option<Observed> {
        self.exists.then(|| Observed {
            name: "default.app".to_owned(),
            uid: self.uid.to_string(),
            generation: self.generation,
            spec: Arc::new(spec_of(self.hash)),
            status: self.report.map(|(hash, generation, phase)| {
                Arc::new(BundleStatus {
                    hash: Some(hash.to_owned()),
                    observed_generation: Some(generation),
                    phase: Some(phase),
                    ..BundleStatus::default()
                })
            }),
            ..Observed::default()
        })
    }

    fn evidence(&self, name: &str, hash: &'static str) -> ClusterEvidence {
        let observed = self.observed().map(Arc::new);
        let todo = match &observed {
            None => Todo::Create,
            Some(_) if self.hash == hash => Todo::Nothing,
            Some(_) => Todo::Replace,
        };
        let part = Part {
            manifests: Vec::new(),
            hash: hash.to_owned(),
        };
        let wanted = Wanted {
            namespace: format!("cluster-{name}"),
            name: "default.app".to_owned(),
            step: String::new(),
            steps: None,
            part: 0,
            divided: Arc::new(Divided { parts: vec![part] }),
            spec: spec_of(hash),
            todo,
        };
        cluster_evidence(name, &[wanted], observed.as_slice(), None)
    }
}

fn spec_of(hash: &str) -> BundleSpec {
    BundleSpec {
        hash: Some(hash.to_owned()),
        ..BundleSpec::default()
    }
}

/// The spec of this number: the content goes A, B, A, B, ….
fn revision(number: i64) -> (Spec, &'static str) {
    let mut spec = spec(
        (0..STEPS)
            .map(|n| deploy(&format!("s{n}"), WaitFor::Ready))
            .collect(),
    );
    (spec.revision, spec.generation) = (format!("app-v{number}"), number);
    (spec, if number % 2 == 0 { "b" } else { "a" })
}

fn evidence_of(members: &[Vec<Member>], hash: &'static str) -> Evidence {
    let steps = members.iter().enumerate().map(|(step, own)| {
        let shown = own.iter().enumerate();
        let clusters = shown.map(|(n, member)| member.evidence(&format!("c{step}-{n}"), hash));
        let placed = StepEvidence::Placed {
            unsatisfied: vec![],
            clusters: clusters.collect(),
        };
        (format!("s{step}"), placed)
    });
    Evidence {
        steps: steps.collect(),
        ..Evidence::default()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_step_passes_only_on_reports_of_its_own_hash_generation_and_bundle(
        events in prop::collection::vec((0..STEPS, 0..CLUSTERS, 0..14_u8, 0..40_u8), 1..200),
    ) {
        let mut members = vec![vec![Member::default(); CLUSTERS]; STEPS];
        let (mut number, mut now, mut status) = (1, t0(), Status::default());
        for (step, cluster, event, other) in events {
            // Now and then there is another content, and one time in two the one before the last.
            number += i64::from(other == 0);
            let (spec, hash) = revision(number);
            members[step][cluster].happens(event, hash);
            now += SignedDuration::from_secs(1);
            let before = status.workflow.clone().unwrap_or_default();
            status = advance(&spec, &status, &evidence_of(&members, hash), now).0;
            for (step, own) in members.iter().enumerate() {
                let name = format!("s{step}");
                let is_new = before.app_revision.as_ref() != Some(&spec.revision);
                let was = before.step(&name).filter(|_| !is_new).map(|step| step.phase);
                let is = workflow(&status).step(&name).map(|step| step.phase);
                if is != Some(StepPhase::Succeeded) || was == is {
                    continue;
                }
                for member in own {
                    prop_assert!(member.exists && member.hash == hash, "{name} passed on {member:?}");
                    prop_assert_eq!(member.said, Some((member.sight(), true)), "{} passed", name);
                }
            }
        }
        // And it does pass on those.
        let (spec, hash) = revision(number + 1);
        for round in 0..20 {
            for member in members.iter_mut().flatten() {
                for event in [0, 6, 13] {
                    member.happens(event, hash);
                }
            }
            now += SignedDuration::from_secs(1);
            status = advance(&spec, &status, &evidence_of(&members, hash), now).0;
            if workflow(&status).finished {
                break;
            }
            prop_assert!(round < 19, "{:#?}", workflow(&status));
        }
        prop_assert_eq!(workflow(&status).status, Some(StepPhase::Succeeded));
    }
}
