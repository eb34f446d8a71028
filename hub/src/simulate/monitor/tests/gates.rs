//! P7: a step that suspends passes when its time is over, or when somebody says so.

use super::{
    super::{CLOCK, Note, promise::Promise},
    world::*,
};
use crate::simulate::HUB;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::advance;

const BEGINS: &str = "2026-01-01T00:00:00.000000Z";

/// The run, whose step suspends or has passed, with more of this in it.
fn run(phase: &str, more: &Value) -> Value {
    let mut run = json!({"appRevision": "web-v1", "generation": 1, "epoch": 1, "run": 1, "steps": [
        {"name": "gate", "type": "suspend", "phase": phase, "firstExecuteTime": BEGINS}]});
    run.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    application(&run)
}

/// A fleet whose application stands at a step that suspends, for this time or for a person.
fn suspending(duration: Option<&str>) -> World {
    let world = World::new();
    let hub = &world.hub;
    world.put(Some(hub), LEASE, &lease(1));
    world.put(None, APPLICATION, &application(&json!({"steps": []})));
    let mut revision = revision();
    let steps = revision.pointer_mut("/spec/application/workflow/steps").unwrap();
    let properties = duration.map_or(json!({}), |duration| json!({"duration": duration}));
    steps.as_array_mut().unwrap().insert(
        0,
        json!({"name": "gate", "type": "suspend", "properties": properties}),
    );
    world.put(Some(hub), REVISION, &revision);
    world.put(
        Some(hub),
        APPLICATION,
        &run("suspending", &json!({"suspend": true})),
    );
    world
}

fn passes(world: &World) {
    world.put(Some(&world.hub), APPLICATION, &run("succeeded", &json!({})));
}

#[tokio::test(start_paused = true)]
async fn p7_a_step_that_suspends_passes_by_nobodys_word_but_a_persons() {
    let resumed = || run("suspending", &json!({"suspend": false}));
    let paused = || run("suspending", &json!({"suspend": true, "paused": true}));
    let told = "somebody to resume the run; found step gate has passed";

    let world = suspending(None);
    passes(&world);
    world.breaks(Promise::P7, APPLICATION, told);

    let world = suspending(None);
    world.put(Some(&other()), APPLICATION, &resumed());
    passes(&world);
    world.holds();
    // Once: the next run asks anew.
    let anew = |phase: &str| {
        let mut anew = run(phase, &json!({"suspend": phase == "suspending"}));
        anew["status"]["workflow"]["steps"][0]["firstExecuteTime"] = json!("2026-01-01T00:01:00.000000Z");
        anew
    };
    world.put(Some(&world.hub), APPLICATION, &anew("suspending"));
    world.put(Some(&world.hub), APPLICATION, &anew("succeeded"));
    world.breaks(Promise::P7, APPLICATION, told);

    // That a pause is over is no approval, nor is what the hub writes itself.
    for by in [Some(other()), None] {
        let world = suspending(None);
        world.put(Some(&other()), APPLICATION, &paused());
        let by = by.unwrap_or_else(|| world.hub.clone());
        world.put(Some(&by), APPLICATION, &resumed());
        passes(&world);
        world.breaks(Promise::P7, APPLICATION, told);
    }

    // One that never suspended.
    let world = suspending(None);
    world.put(
        Some(&world.hub),
        APPLICATION,
        &application(&json!({"appRevision": "web-v1", "steps": []})),
    );
    passes(&world);
    world.breaks(Promise::P7, APPLICATION, told);
}

#[tokio::test(start_paused = true)]
async fn p7_a_step_that_suspends_for_a_time_passes_when_that_is_over() {
    for (after, wrong, told) in [
        (14, false, Some("15s to be over, or somebody to resume the run")),
        (15, false, None),
        // What time it is a wrong clock does not say.
        (1, true, None),
    ] {
        let world = suspending(Some("15s"));
        if wrong {
            world.note(&Note::Fault {
                server: HUB.into(),
                party: CLOCK.into(),
                what: "1h fast".to_owned(),
            });
        }
        advance(Duration::from_secs(after)).await;
        passes(&world);
        match told {
            Some(told) => world.breaks(Promise::P7, APPLICATION, told),
            None => world.holds(),
        }
    }
    let world = suspending(Some("15s"));
    world.put(
        Some(&other()),
        APPLICATION,
        &run("suspending", &json!({"suspend": false})),
    );
    passes(&world);
    world.holds();
}
