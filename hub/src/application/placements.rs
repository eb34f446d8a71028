//! Placements: what they say, whether it is understood, and the status that tells.
//!
//! The status says what a Placement comes to for an application that runs nowhere yet: it is placement's own answer to a
//! request without a workload.

use super::{Key, cache::Cache, fleet::Fleet};
use crate::placement::{self, NotChosen, PlacingStep, Previous, Sight};
use crate::writes;
use jiff::Timestamp;
use kube::{Api, Client, ResourceExt, api::ApiResource, core::DynamicObject};
use roundhouse_api::{
    application::{ACCEPTED, Violation, validate_placement},
    clock::SharedClock,
    condition::{self, Verdict},
    decision::Exclusion,
    hash,
    placement::{MAX_REASONS, Placement, PlacementCounts, PlacementSpec, PlacementStatus},
};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

/// At most one look in this time.
const INTERVAL: Duration = Duration::from_secs(1);
/// Pause after a write that failed, and the longest sleep: the clock may be set meanwhile.
const RETRY: Duration = Duration::from_secs(10);
const LONGEST: Duration = Duration::from_secs(600);
/// Messages are cut at this many characters.
const MAX_MESSAGE: usize = 1024;

/// A Placement as it is stored.
#[derive(Debug, Clone)]
pub(super) struct StoredPlacement {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) resource_version: String,
    generation: i64,
    deleting: bool,
    /// What it says, or why it is refused.
    pub(super) verdict: Result<PlacementSpec, Vec<Violation>>,
    /// What it looks at in a cluster.
    pub(super) sight: Sight,
    status: PlacementStatus,
    /// Canonical JSON of the whole object, unknown fields included.
    bytes: Arc<[u8]>,
}

/// The Placement resource with its fields as they are.
pub(super) fn placement_resource() -> ApiResource {
    ApiResource::erase::<Placement>(&())
}

impl StoredPlacement {
    pub(super) fn of(mut object: DynamicObject) -> StoredPlacement {
        object.metadata.managed_fields = None;
        let status = object.data.get("status").cloned().unwrap_or(Value::Null);
        let verdict = validate_placement(object.data.get("spec").unwrap_or(&Value::Null));
        let sight = match &verdict {
            Ok(spec) => Sight::of(&[PlacingStep { name: "", spec }]),
            Err(_) => Sight::default(),
        };
        StoredPlacement {
            namespace: object.namespace().unwrap_or_default(),
            name: object.name_any(),
            resource_version: object.resource_version().unwrap_or_default(),
            generation: object.metadata.generation.unwrap_or_default(),
            deleting: object.metadata.deletion_timestamp.is_some(),
            verdict,
            sight,
            // The API server has checked it against the schema; what does not read counts as absent.
            status: serde_json::from_value(status).unwrap_or_default(),
            bytes: hash::canonical(&serde_json::to_value(&object).unwrap_or_default()).into(),
        }
    }

    pub(super) fn key(&self) -> Key {
        (self.namespace.clone(), self.name.clone())
    }
}

/// The status of a Placement, and when it changes without anything happening; pure.
fn judge(
    placement: &StoredPlacement,
    applications: usize,
    fleet: &Fleet,
    now: Timestamp,
) -> (PlacementStatus, Option<Timestamp>) {
    let mut status = PlacementStatus {
        observed_generation: Some(placement.generation),
        conditions: placement.status.conditions.clone(),
        counts: PlacementCounts {
            applications: u32::try_from(applications).unwrap_or(u32::MAX),
            ..PlacementCounts::default()
        },
        ..PlacementStatus::default()
    };
    let (verdict, next) = match &placement.verdict {
        Err(violations) => (refused(violations), None),
        Ok(spec) => {
            let steps = [PlacingStep { name: "", spec }];
            describe(&mut status, placement, &steps, fleet, now);
            let accepted = Verdict {
                type_: ACCEPTED,
                status: condition::Status::True,
                reason: "Valid",
                message: String::new(),
            };
            (accepted, placement::next_change(&steps, &fleet.inventory, now))
        }
    };
    condition::set(&mut status.conditions, verdict, Some(placement.generation), now);
    (status, next)
}

fn refused(violations: &[Violation]) -> Verdict {
    let lines: Vec<String> = violations
        .iter()
        .take(MAX_REASONS)
        .map(ToString::to_string)
        .collect();
    let mut message = lines.join("; ");
    if violations.len() > MAX_REASONS {
        message.push_str(&format!("; and {} more", violations.len() - MAX_REASONS));
    }
    if let Some((end, _)) = message.char_indices().nth(MAX_MESSAGE) {
        message = format!("{}…", &message[..end]);
    }
    Verdict {
        type_: ACCEPTED,
        status: condition::Status::False,
        reason: "Invalid",
        message,
    }
}

fn describe(
    status: &mut PlacementStatus,
    placement: &StoredPlacement,
    steps: &[PlacingStep<'_>],
    fleet: &Fleet,
    now: Timestamp,
) {
    let answer = placement::place(&placement::Request {
        application: &format!("{}/{}", placement.namespace, placement.name),
        steps,
        workloads: &[],
        inventory: &fleet.inventory,
        previous: &Previous::default(),
        now,
    });
    let Some(answer) = answer.into_iter().next() else {
        return;
    };
    let is = |exclusion: &&Exclusion, reason: NotChosen| exclusion.reason == reason.as_str();
    let sum = |of: &dyn Fn(&&Exclusion) -> bool| -> u32 {
        answer
            .excluded
            .iter()
            .filter(of)
            .map(|exclusion| exclusion.count)
            .sum()
    };
    let all = u32::try_from(fleet.members.len()).unwrap_or(u32::MAX);
    let matched = all.saturating_sub(sum(&|e| is(e, NotChosen::NotMatched)));
    // A cluster that is one too many for maxClusters could be used.
    let barred = sum(&|e| !is(e, NotChosen::NotMatched) && !is(e, NotChosen::MaxClusters));
    status.satisfied = Some(answer.satisfied);
    status.counts.matched = matched;
    status.counts.eligible = matched.saturating_sub(barred);
    status.counts.excluded = placement::matched(&answer.excluded).cloned().collect();
    let more = answer.reasons.len().saturating_sub(MAX_REASONS);
    status.omitted = u32::try_from(more).ok().filter(|more| *more > 0);
    status.reasons = answer.reasons.into_iter().take(MAX_REASONS).collect();
}

/// Keeps the statuses true, for ever; writes one only when it differs.
pub(super) async fn follow(client: Client, cache: &Cache, clock: SharedClock) {
    let mut due: BTreeMap<Key, Timestamp> = BTreeMap::new();
    loop {
        let now = clock.now();
        let mut stale: BTreeSet<Key> = cache.take_stale();
        stale.extend(
            due.iter()
                .filter(|(_, at)| **at <= now)
                .map(|(key, _)| key.clone()),
        );
        let fleet = cache.fleet();
        for key in stale {
            due.remove(&key);
            let Some((placement, applications)) = cache.placement(&key) else {
                continue;
            };
            if placement.deleting {
                continue;
            }
            let (status, next) = judge(&placement, applications, &fleet, now);
            due.extend(next.map(|next| (key.clone(), next)));
            if status == placement.status {
                continue;
            }
            match write(&client, &placement, &status).await {
                Ok(()) => {}
                // The newer one makes it stale again.
                Err(kube::Error::Api(answer)) if [404, 409].contains(&answer.code) => {}
                Err(error) => {
                    let (namespace, name) = &key;
                    tracing::warn!(namespace, name, %error, "the status of a placement was not written; it is tried again");
                    let again = jiff::SignedDuration::try_from(RETRY).unwrap_or_default();
                    due.insert(key, now.checked_add(again).unwrap_or(Timestamp::MAX));
                }
            }
        }
        drop(fleet);
        tokio::time::sleep(INTERVAL).await;
        let next = due.values().min().map(|next| next.duration_since(clock.now()));
        let pause = next.map_or(LONGEST, |next| Duration::try_from(next).unwrap_or_default());
        tokio::select! {
            biased;
            () = cache.became_stale() => {}
            () = tokio::time::sleep(pause.min(LONGEST)) => {}
        }
    }
}

async fn write(
    client: &Client,
    placement: &StoredPlacement,
    status: &PlacementStatus,
) -> Result<(), kube::Error> {
    let mut object: DynamicObject =
        serde_json::from_slice(&placement.bytes).map_err(kube::Error::SerdeError)?;
    object.data["status"] = serde_json::to_value(status).map_err(kube::Error::SerdeError)?;
    let api: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), &placement.namespace, &placement_resource());
    api.replace_status(&placement.name, &writes::post(), &object)
        .await
        .map(drop)
}
