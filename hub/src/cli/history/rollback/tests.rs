//! Which revision is meant, and a rollback on a hub on which somebody else writes in between.

use super::*;
use crate::cli::control::tests::{hub_with, overtaken, subject};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use roundhouse_api::{
    names::{annotation, label},
    revision::ApplicationRevisionSpec,
};
use serde_json::json;

#[test]
fn a_revision_is_meant_by_number_by_name_or_not_at_all() {
    let revision = |number: u64, delivered: bool| {
        let spec = ApplicationRevisionSpec {
            revision: number,
            ..ApplicationRevisionSpec::default()
        };
        let mut revision = ApplicationRevision::new(&format!("web-v{number}"), spec);
        if delivered {
            let time = format!("2026-01-01T00:00:{number:02}Z");
            revision
                .annotations_mut()
                .insert(annotation::DELIVERED.to_owned(), time);
        }
        revision
    };
    let all = [revision(10, false), revision(2, true), revision(9, true)];
    let meant = |present: &str, to: Option<&str>| {
        target(&all, present, to)
            .map(|revision| revision.spec.revision)
            .map_err(|no| no.why)
    };
    assert_eq!(meant("web-v10", None), Ok(9));
    assert_eq!(meant("web-v9", None), Ok(2));
    assert_eq!(meant("web-v10", Some("2")), Ok(2));
    assert_eq!(meant("web-v10", Some("web-v10")), Ok(10));
    assert_eq!(
        meant("web-v10", Some("3")),
        Err("the hub has no revision 3 of it; it has web-v2, web-v9, web-v10".to_owned())
    );
    let never = target(&all[..1], "web-v10", None).unwrap_err();
    assert_eq!(never.why, "no revision of it was ever delivered");
    let other = target(&all[1..2], "web-v2", None).unwrap_err();
    assert_eq!(other.why, "no other revision of it was ever delivered");
}
#[test]
fn a_rollback_is_the_one_that_was_seen_or_none() {
    let seen = Seen {
        target: "web-v2".to_owned(),
        wanted: "hash-2".to_owned(),
        generation: Some(3),
    };
    let changed = |why: &str| Meanwhile::Changed(why.to_owned());
    for (live, generation, target, expected) in [
        ("hash-3", 3, Some("web-v2"), Meanwhile::Same),
        ("hash-2", 4, Some("web-v3"), Meanwhile::Done),
        ("hash-2", 4, None, Meanwhile::Done),
        ("hash-4", 4, Some("web-v2"), changed("its spec was changed")),
        (
            "hash-3",
            3,
            Some("web-v1"),
            changed("a rollback goes to web-v1 now, and went to web-v2"),
        ),
        (
            "hash-3",
            3,
            None,
            changed("a rollback went to web-v2, and there is nothing to go back to now"),
        ),
    ] {
        let now = (live, generation, target);
        assert_eq!(
            seen.meanwhile(live, Some(generation), target),
            expected,
            "{now:?}"
        );
    }
}

fn spec(image: &str) -> Value {
    let everywhere =
        json!({"name": "everywhere", "type": "deploy", "properties": {"placement": [{"replicas": "100%"}]}});
    json!({"components": [{"name": "web", "type": "webservice", "properties": {"image": image}}],
        "workflow": {"steps": [everywhere]}})
}

/// A hub on which revisions 1 to 3 of `web` were delivered, the third of them last.
async fn hub() -> Client {
    let (client, made) = hub_with(&spec("nginx:3")).await;
    let revisions: Api<ApplicationRevision> = Api::namespaced(client.clone(), "default");
    for number in 1..=3_u64 {
        let mut revision = ApplicationRevision::new(
            &format!("web-v{number}"),
            ApplicationRevisionSpec {
                application_name: "web".to_owned(),
                revision: number,
                application: spec(&format!("nginx:{number}")),
                ..ApplicationRevisionSpec::default()
            },
        );
        revision.metadata = serde_json::from_value(json!({
            "name": revision.name_any(),
            "labels": {label::APP_NAME: "web", label::APP_NAMESPACE: "default"},
            "annotations": {annotation::DELIVERED: format!("2026-01-01T00:00:0{number}Z")},
            "ownerReferences": [{"apiVersion": "core.oam.dev/v1beta1", "kind": "Application", "name": "web", "uid": made.uid()}],
        }))
        .unwrap();
        revisions.create(&PostParams::default(), &revision).await.unwrap();
    }
    is_at(&client, 3).await;
    client
}

/// Says that this revision is the present one, as the hub does.
async fn is_at(client: &Client, number: u64) {
    let latest = json!({"name": format!("web-v{number}"), "revision": number, "revisionHash": ""});
    let patch = Patch::Merge(json!({"status": {"latestRevision": latest}}));
    let api = subject().api(client);
    api.patch_status("web", &PatchParams::default(), &patch)
        .await
        .unwrap();
}

/// Somebody applies it.
async fn apply(client: &Client, spec: &Value) {
    let patch = Patch::Merge(json!({"spec": spec}));
    let api = subject().api(client);
    api.patch("web", &PatchParams::default(), &patch).await.unwrap();
}

async fn live(client: &Client) -> Value {
    subject().api(client).get("web").await.unwrap().data["spec"].clone()
}

#[tokio::test(start_paused = true)]
async fn two_people_go_back_to_the_same() {
    let hub = hub().await;
    let behind = overtaken(&hub, |hub| async move {
        apply(&hub, &spec("nginx:2")).await;
        is_at(&hub, 2).await;
    });
    let done = go_back(&subject(), &behind, None).await.unwrap();
    assert_eq!(done, "has gone back to web-v2 already");
    assert_eq!(live(&hub).await, spec("nginx:2"));
}

#[tokio::test(start_paused = true)]
async fn what_was_applied_in_between_is_not_written_over() {
    let hub = hub().await;
    let behind = overtaken(&hub, |hub| async move { apply(&hub, &spec("nginx:4")).await });
    let refused = go_back(&subject(), &behind, None).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "error: application default/web is not rolled back [E-CONFLICT]\n\
         cause: it has changed since it was looked at: its spec was changed\n\
         try:   roundhouse history web, and rollback --to with the revision that is meant"
    );
    assert_eq!(refused.status(), 1);
    assert_eq!(live(&hub).await, spec("nginx:4"));
    // A revision that is named is meant whatever is there.
    let behind = overtaken(&hub, |hub| async move { apply(&hub, &spec("nginx:5")).await });
    let done = go_back(&subject(), &behind, Some("1")).await.unwrap();
    assert_eq!(done, "goes back to web-v1");
    assert_eq!(live(&hub).await, spec("nginx:1"));
}

#[tokio::test(start_paused = true)]
async fn what_the_hub_has_not_recorded_yet_is_gone_back_from_by_one() {
    let hub = hub().await;
    apply(&hub, &spec("nginx:4")).await;
    let done = go_back(&subject(), &hub, None).await.unwrap();
    assert_eq!(done, "goes back to web-v3");
}

#[tokio::test(start_paused = true)]
async fn a_rollback_that_the_hub_has_not_recorded_yet_is_gone_back_from_as_one_that_it_has() {
    for recorded in [false, true] {
        let hub = hub().await;
        let done = go_back(&subject(), &hub, Some("1")).await.unwrap();
        assert_eq!(done, "goes back to web-v1");
        if recorded {
            is_at(&hub, 1).await;
        }
        // Delivered last, the present one apart.
        let done = go_back(&subject(), &hub, None).await.unwrap();
        assert_eq!(done, "goes back to web-v3", "recorded: {recorded}");
        assert_eq!(live(&hub).await, spec("nginx:3"));
    }
    // That it records it in between changes nothing.
    let hub = hub().await;
    go_back(&subject(), &hub, Some("1")).await.unwrap();
    let behind = overtaken(&hub, |hub| async move { is_at(&hub, 1).await });
    let done = go_back(&subject(), &behind, None).await.unwrap();
    assert_eq!(done, "goes back to web-v3");
}

#[test]
fn of_revisions_with_one_spec_the_present_one_is_what_the_hub_takes_it_for() {
    let all: Vec<ApplicationRevision> = [(1, "nginx:1"), (2, "nginx:2"), (3, "nginx:1"), (4, "nginx:2")]
        .into_iter()
        .map(|(number, image)| {
            let of = ApplicationRevisionSpec {
                revision: number,
                application: spec(image),
                ..ApplicationRevisionSpec::default()
            };
            ApplicationRevision::new(&format!("web-v{number}"), of)
        })
        .collect();
    for (latest, image, expected) in [
        ("web-v2", "nginx:2", "web-v2"),
        ("web-v4", "nginx:2", "web-v4"),
        ("web-v4", "nginx:1", "web-v3"),
        ("web-v4", "nginx:3", ""),
        ("", "nginx:1", "web-v3"),
    ] {
        let live = hash::of_value(&spec(image));
        assert_eq!(present(&all, latest, &live), expected, "{image} after {latest}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_status_that_is_written_in_between_stops_no_rollback() {
    let hub = hub().await;
    let behind = overtaken(&hub, |hub| async move {
        let patch = Patch::Merge(json!({"status": {"phase": "workflowFailed"}}));
        let api = subject().api(&hub);
        api.patch_status("web", &PatchParams::default(), &patch)
            .await
            .unwrap();
    });
    let done = go_back(&subject(), &behind, None).await.unwrap();
    assert_eq!(done, "goes back to web-v2");
    assert_eq!(live(&hub).await, spec("nginx:2"));
}
