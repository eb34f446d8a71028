//! What is asked of simulated clusters is no more than they run: what the plan puts on each is counted before anything starts.

use crate::{cli::Failure, plan::ApplicationPlan, simulate::workloads::MOST_REPLICAS, words::thousands};
use serde_json::Value;

/// Replicas that all clusters of a simulation run together: each is remembered.
pub(super) const MOST_IN_ALL: u64 = 1_000_000;

/// The replicas of one workload on one cluster.
struct Asked<'a> {
    application: &'a ApplicationPlan,
    cluster: &'a str,
    manifest: &'a Value,
    field: &'static str,
    replicas: u64,
}

impl Asked<'_> {
    /// `spec.replicas of Deployment default/web`
    fn title(&self) -> String {
        let text = |pointer| self.manifest.pointer(pointer).and_then(Value::as_str);
        let [kind, namespace, name] = ["/kind", "/metadata/namespace", "/metadata/name"]
            .map(|pointer| text(pointer).unwrap_or_default());
        format!("{} of {kind} {namespace}/{name}", self.field)
    }

    fn refused(&self, why: String) -> Failure {
        let ApplicationPlan { namespace, name, .. } = self.application;
        let what = format!("Application {namespace}/{name} cannot be simulated");
        Failure::new("E-REPLICAS", what).because(why)
    }
}

/// Checks that the plans of some applications put no more on the clusters than a simulation runs.
///
/// # Errors
/// They do; the message names the workload and its field.
pub(super) fn check(plans: &[ApplicationPlan]) -> Result<(), Failure> {
    let mut together = 0_u64;
    let mut largest: Option<Asked<'_>> = None;
    for asked in plans.iter().flat_map(asked) {
        together = together.saturating_add(asked.replicas);
        if largest
            .as_ref()
            .is_none_or(|so_far| so_far.replicas < asked.replicas)
        {
            largest = Some(asked);
        }
    }
    let Some(largest) = largest else {
        return Ok(());
    };
    if largest.replicas > MOST_REPLICAS.into() {
        let why = format!(
            "{} is {} on cluster {}, and a simulated cluster runs at most {} replicas of one workload",
            largest.title(),
            thousands(largest.replicas),
            largest.cluster,
            thousands(MOST_REPLICAS)
        );
        return Err(largest
            .refused(why)
            .advise("a smaller number, or more clusters to divide it among"));
    }
    if together > MOST_IN_ALL {
        let why = format!(
            "{} is {} on cluster {}, the most of what makes {} on all clusters together; a simulation runs at most {}",
            largest.title(),
            thousands(largest.replicas),
            largest.cluster,
            thousands(together),
            thousands(MOST_IN_ALL)
        );
        return Err(largest.refused(why).advise("a smaller number, or fewer clusters"));
    }
    Ok(())
}

fn asked(application: &ApplicationPlan) -> impl Iterator<Item = Asked<'_>> {
    application.bundles.iter().flat_map(move |bundle| {
        let manifests = bundle.content.iter().flat_map(|content| content.manifests());
        manifests.filter_map(move |manifest| {
            let (field, pointer) = match manifest["kind"].as_str()? {
                "Deployment" | "StatefulSet" => ("spec.replicas", "/spec/replicas"),
                "Job" => ("spec.completions", "/spec/completions"),
                _ => return None,
            };
            Some(Asked {
                application,
                cluster: &bundle.cluster,
                manifest,
                field,
                // One is the default of both.
                replicas: manifest.pointer(pointer).map_or(Some(1), Value::as_u64)?,
            })
        })
    })
}
