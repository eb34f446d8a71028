//! Whole fleets with real agents, in numbers: how soon a step reacts to a report, and what a delivered fleet costs.
//!
//! Small ones run with every other test, on paused time. `ROUNDHOUSE_LONG=1` makes them large, and the reactions are then
//! measured in real time: `ROUNDHOUSE_LONG=1 cargo test --release -p roundhouse-hub --test fleet -- --nocapture`

#![expect(
    clippy::unwrap_used,
    reason = "the helpers of tests are tests, clippy just does not see it"
)]

mod leader;
mod line;
mod rare;
mod reaction;
mod restart;
mod rights;
mod steady;
mod tap;
mod versions;

use kube::{Api, api::PostParams};
use parking_lot::{Mutex, MutexGuard};
use roundhouse_api::{
    application::{Application, ApplicationPhase},
    names::ClusterName,
};
use roundhouse_hub::simulate::{Fleet, FleetOptions, MemberSpec, TokioClock};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

/// Time and memory are measured one after the other.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock()
}

fn is_long() -> bool {
    std::env::var("ROUNDHOUSE_LONG").is_ok_and(|value| value == "1")
}

/// Members with these labels, and a clock that goes with tokio's.
fn options(members: impl Iterator<Item = (String, Vec<(&'static str, String)>)>) -> FleetOptions {
    let member = |(name, labels): (String, Vec<(&str, String)>)| MemberSpec {
        name: ClusterName::new(&name).unwrap(),
        labels: labels
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value))
            .collect(),
    };
    let clock = TokioClock::starting_at("2026-01-01T00:00:00Z".parse().unwrap());
    FleetOptions::new(members.map(member).collect(), Arc::new(clock))
}

/// Creates an application with one Deployment of so many replicas.
async fn apply(fleet: &Fleet, name: &str, replicas: usize, steps: &[Value]) {
    let object = json!({"apiVersion": "core.oam.dev/v1beta1", "kind": "Application",
        "metadata": {"name": name, "namespace": "default"}, "spec": {
            "components": [{"name": name, "type": "worker", "properties": {"image": "nginx:1", "replicas": replicas}}],
            "workflow": {"steps": steps}}});
    let api: Api<Application> = Api::namespaced(fleet.hub_client(), "default");
    let object = serde_json::from_value(object).unwrap();
    api.create(&PostParams::default(), &object).await.unwrap();
}

/// Waits until every application is delivered and ready; looks `every` so often.
async fn until_all_run(fleet: &Fleet, every: Duration, deadline: Duration) {
    let api: Api<Application> = Api::namespaced(fleet.hub_client(), "default");
    let end = tokio::time::Instant::now() + deadline;
    loop {
        tokio::time::sleep(every).await;
        let all = api.list(&Default::default()).await.unwrap();
        let runs = |app: &&Application| {
            app.status.as_ref().and_then(|status| status.phase) == Some(ApplicationPhase::Running)
        };
        let rest: Vec<&Application> = all.iter().filter(|app| !runs(app)).collect();
        if rest.is_empty() {
            return;
        }
        assert!(
            tokio::time::Instant::now() < end,
            "{} of {} are not delivered, the first is {}",
            rest.len(),
            all.items.len(),
            serde_json::to_string_pretty(&rest[0].status).unwrap()
        );
    }
}
