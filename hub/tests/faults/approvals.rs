//! People who approve: F31.

use crate::{
    applications::{application as status_of, bundles, deletes_are_held, runs, step_failed, step_is},
    looks::because,
    runs::{SECOND, after, at_rest, good, one},
};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use parking_lot::Mutex;
use roundhouse_api::application::{Application, ApplicationStatus, StepPhase, StepReason};
use roundhouse_hub::simulate::{
    Fleet,
    fault::Dice,
    run::{Act, Look, Script, Target, Until, application},
};
use serde_json::{Value, json};
use std::sync::Arc;

fn web() -> Value {
    application("web", 8, &[("east", "50%"), ("west", "50%")])
}

/// East, two approvals, west.
fn with_gates() -> Value {
    let mut web = web();
    let steps = web
        .pointer_mut("/spec/workflow/steps")
        .and_then(Value::as_array_mut)
        .unwrap();
    for name in ["gate-2", "gate-1"] {
        steps.insert(1, json!({"name": name, "type": "suspend"}));
    }
    web
}

fn waits_at(gate: &'static str) -> impl Fn(&ApplicationStatus) -> bool + Copy + Send + Sync + 'static {
    move |status| step_is(status, gate, StepPhase::Suspending)
}

/// Two people approve what they have both seen: one is heard, the other one is told that something has changed since.
fn two_approve() -> Look {
    Look::new(|fleet| {
        Box::pin(async move {
            let api: Api<Application> = Api::namespaced(fleet.hub_client(), "default");
            let seen = api.get("web").await.map_err(|error| error.to_string())?;
            let approval = json!({"metadata": {"resourceVersion": seen.metadata.resource_version},
                "status": {"workflow": {"suspend": false}}});
            let params = PatchParams::default();
            let patch = Patch::Merge(&approval);
            let both = futures::join!(
                api.patch_status("web", &params, &patch),
                api.patch_status("web", &params, &patch)
            );
            match both {
                (Ok(_), Err(kube::Error::Api(status))) | (Err(kube::Error::Api(status)), Ok(_))
                    if status.code == 409 =>
                {
                    Ok(())
                }
                other => Err(format!("{:?}", (other.0.map(drop), other.1.map(drop)))),
            }
        })
    })
}

#[test]
fn f31_of_two_who_approve_the_same_thing_one_is_heard_and_the_next_gate_stays_shut() {
    good(|seed| {
        let mut dice = Dice::new(seed, "f31");
        Script::of_regions(2, &["east", "west"])
            .with(with_gates())
            .then(Act::wait("the first gate", status_of("web", waits_at("gate-1"))))
            .at(
                after(&mut dice, 0, 30_000),
                Act::wait("two approve", two_approve()),
            )
            .then(Act::wait("the second gate", status_of("web", waits_at("gate-2"))))
            .at(
                SECOND * 60,
                Act::check("which nobody has approved", status_of("web", waits_at("gate-2"))),
            )
            .then(Act::wait("two approve that", two_approve()))
            .until(Until::Delivered {
                within: SECOND * 60,
                quiet: SECOND * 30,
            })
    });
}

#[test]
fn f31_an_approval_after_the_gate_has_timed_out_approves_nothing() {
    let mut gated = web();
    let steps = gated
        .pointer_mut("/spec/workflow/steps")
        .and_then(Value::as_array_mut)
        .unwrap();
    steps.insert(1, json!({"name": "gate", "type": "suspend", "timeout": "20s"}));
    let timed_out = |status: &ApplicationStatus| step_failed(status, "gate", StepReason::Timeout);
    let approval = json!({"status": {"workflow": {"suspend": false}}});
    good(|seed| {
        let late = after(&mut Dice::new(seed, "f31"), 0, 60_000);
        Script::of_regions(2, &["east", "west"])
            .with(gated.clone())
            .then(Act::wait("the gate is given up", status_of("web", timed_out)))
            .at(
                late,
                Act::PatchStatus(Target::application("web"), approval.clone()),
            )
            .at(
                SECOND * 120,
                Act::check("it stays so", status_of("web", timed_out)),
            )
            .then(Act::check("west has nothing", bundles("web", 2)))
            .until(at_rest())
    });
}

/// What the application asks to be confirmed.
async fn asked(fleet: &Fleet) -> Result<String, String> {
    let api: Api<Application> = Api::namespaced(fleet.hub_client(), "default");
    let web = api.get("web").await.map_err(|error| error.to_string())?;
    let held = web.status.and_then(|status| status.held_deletes);
    held.map(|held| held.hash)
        .ok_or_else(|| "nothing is asked".to_owned())
}

#[test]
fn f31_a_confirmation_with_a_stale_hash_confirms_nothing_and_one_with_the_present_hash_everything() {
    let label = |n: usize| Act::Label {
        cluster: format!("east-{n}"),
        key: "region".to_owned(),
        value: None,
    };
    good(|seed| {
        let mut dice = Dice::new(seed, "f31");
        let order = one(&mut dice, &[[1, 2, 3, 4], [5, 2, 4, 1], [3, 5, 1, 2]]);
        let first: Arc<Mutex<String>> = Arc::default();
        let (noted, stale) = (first.clone(), first);
        let notes = Look::new(move |fleet| {
            let noted = noted.clone();
            Box::pin(async move {
                let hash = asked(fleet).await?;
                *noted.lock() = hash;
                Ok(())
            })
        });
        // The one that was asked for before one more cluster was to go, or the present one.
        let confirms = |stale: Option<Arc<Mutex<String>>>| {
            Look::new(move |fleet| {
                let stale = stale.as_ref().map(|stale| stale.lock().clone());
                Box::pin(async move {
                    let present = asked(fleet).await?;
                    because(stale.as_ref() != Some(&present), || {
                        format!("{present} is still asked for")
                    })?;
                    let hash = stale.unwrap_or(present);
                    let patch =
                        json!({"metadata": {"annotations": {"roundhouse.dev/confirm-deletes": hash}}});
                    let api: Api<Application> = Api::namespaced(fleet.hub_client(), "default");
                    let params = PatchParams::default();
                    let patched = api.patch("web", &params, &Patch::Merge(patch)).await;
                    patched.map(drop).map_err(|error| error.to_string())
                })
            })
        };
        let mut script = Script::of_regions(5, &["east"])
            .with(application("web", 10, &[("east", "100%")]))
            .then(Act::wait("it is delivered", runs("web")));
        // At once: of those that go one by one the first ones may.
        for n in &order[..3] {
            script = script.then(label(*n));
        }
        script
            .then(Act::wait("it is asked", status_of("web", deletes_are_held)))
            .then(Act::check("the hash is noted", notes))
            .at(after(&mut dice, 0, 20_000), label(order[3]))
            .then(Act::wait("the old one is confirmed", confirms(Some(stale))))
            .at(SECOND * 120, Act::check("nothing is deleted", bundles("web", 5)))
            .then(Act::check(
                "it is still asked",
                status_of("web", deletes_are_held),
            ))
            .then(Act::check("the present one is confirmed", confirms(None)))
            .at(SECOND * 180, Act::check("they are deleted", bundles("web", 1)))
            .until(at_rest())
    });
}
