//! What keeps a cluster as it is, whatever placement answers.

use super::{application, facts, hands::Hub};
use crate::cli::{
    explain::{arithmetic, cluster, verdicts},
    format::Format,
};
use roundhouse_api::{
    cluster::{Cluster, TAINT_UNREACHABLE},
    decision::Waiting,
    names::label,
    placement::{Taint, TaintEffect},
};
use serde_json::{Value, json};

const ALL: [&str; 5] = ["c1", "c2", "c3", "c4", "c5"];

fn hub(properties: &Value) -> Hub {
    let steps = json!([{"name": "deploy", "type": "deploy", "properties": properties}]);
    Hub::new(
        application(10, &steps),
        ALL.map(|name| facts(name, &[("region", "east")])),
    )
}

fn east() -> Value {
    json!({"placement": [{"name": "east", "replicas": "100%", "clusterSelector": {"region": "east"}}]})
}

/// As the hub writes it down when a Lease is old.
pub(super) fn lose_contact(cluster: &mut Cluster) {
    let status = cluster.status.get_or_insert_default();
    for condition in status.conditions.iter_mut().filter(|c| c.type_ == "Available") {
        condition.status = "Unknown".to_owned();
    }
    status.taints.push(Taint {
        key: TAINT_UNREACHABLE.to_owned(),
        value: None,
        effect: TaintEffect::NoSchedule,
        time_added: None,
    });
}

fn relabel(hub: Hub, names: &[&str], region: &str) -> Hub {
    names.iter().fold(hub, |hub, name| {
        hub.facing(name, |cluster| {
            let labels = cluster.metadata.labels.get_or_insert_default();
            labels.insert("region".to_owned(), region.to_owned());
        })
    })
}

fn shown(hub: &Hub, name: &str) -> String {
    let subject = hub.subject().unwrap_or_else(|failure| panic!("{failure}"));
    let verdicts = verdicts(&subject, name).unwrap();
    cluster::draw(&subject, name, &verdicts, Format::Table, false)
}

/// `c1` keeps its two replicas: the headline, and the one condition that decides.
fn check(hub: &Hub, headline: &str, about: &str) {
    let text = shown(hub, "c1");
    let expected = format!(
        "default/checkout → c1, step deploy: HELD: it keeps 2 replicas until this is mended: {headline}"
    );
    assert_eq!(text.lines().next(), Some(expected.as_str()), "{text}");
    let decisive: Vec<&str> = text.lines().filter(|line| line.ends_with("← decisive")).collect();
    let start = format!("  ✗ {about} ");
    assert!(
        matches!(decisive[..], [line] if line.starts_with(&start)),
        "{text}"
    );
    let step = &hub.explained("c1")[0];
    assert_eq!(
        (
            &step["reason"],
            &step["heldBy"],
            &step["placed"],
            &step["replicas"]
        ),
        (&json!("Held"), &json!(about), &json!(true), &json!(2)),
        "{step:#}"
    );
    assert_eq!(step["held"], json!([headline]));
    assert_eq!(step["decisive"]["about"], about);
}

#[test]
fn a_placement_that_is_missing_holds_every_step() {
    let mut hub = hub(&json!({"placementRef": {"name": "gold"}}))
        .with("gold", &east())
        .deliver();
    hub.placements.clear();
    let why = "spec.workflow.steps[0].properties.placementRef: there is no Placement \"gold\" in the application's namespace: create it, or name another one; nothing is placed anew until then";
    check(&hub, why, "placementRef");
    // Nothing that placement would answer is known, so nothing is advised.
    assert!(!shown(&hub, "c1").contains("  To "), "{}", shown(&hub, "c1"));
    let text = arithmetic::draw(&hub.subject().unwrap(), Format::Table);
    for part in [
        "default/checkout  step deploy: 5 clusters; held: this is what was decided before, and it stays in force\n",
        &format!("  HELD: {why}\n"),
        "Deployment default/checkout: 10 replicas, 10 placed here, 0 unplaced",
        "c5",
    ] {
        assert!(text.contains(part), "{part:?} is missing in\n{text}");
    }
    // Where nothing was decided there is nothing to keep.
    hub.decisions.clear();
    hub.bundles.clear();
    let failure = hub.subject().err().unwrap().to_string();
    assert_eq!(
        failure,
        format!(
            "error: application default/checkout waits for a Placement [E-UNRESOLVED]\ncause: {why}\ntry:   the Placement, in the hub or among the files of -f"
        )
    );
}

#[test]
fn the_delete_budget_holds_what_is_to_go() {
    let hub = relabel(hub(&east()).deliver(), &["c1", "c2", "c3"], "west");
    let step = &hub.explained("c1")[0];
    let why = step["held"][0].as_str().unwrap_or_else(|| panic!("{step:#}"));
    assert!(
        why.contains("that is 3 of 5") && why.contains("annotate the application with"),
        "{why}"
    );
    check(&hub, why, "removal");
    // How it would stay is named, and does it.
    assert_eq!(step["flips"]["to"], "include");
    let kept = hub.clone().take("c1", &step["flips"]["ways"][0]);
    assert!(kept.places("c1", 0));
    assert_eq!(kept.explained("c1")[0]["reason"], "Placed");
    // One cluster may go without a question.
    let hub = relabel(hub, &["c2", "c3"], "east");
    assert_eq!(hub.explained("c1")[0]["reason"], "NotMatched");
}

/// Nobody is asked for a confirmation that the hub does not know of.
#[test]
fn a_run_that_was_terminated_holds_what_would_go() {
    let mut hub = relabel(hub(&east()).deliver(), &["c1", "c2", "c3"], "west");
    hub.workflow = Some(
        json!({"appRevision": "checkout-v2", "generation": 1, "status": "failed", "finished": true,
        "terminated": true, "steps": [{"name": "deploy", "type": "deploy", "phase": "failed", "reason": "Terminate",
        "firstExecuteTime": "2026-01-01T00:00:00.000000Z"}]}),
    );
    let why = "its run has ended without success: what it placed stays as it is until it is started again";
    check(&hub, why, "run");
}

/// What the run had not come to when it ended has nothing, and is not said to be placed.
#[test]
fn what_a_run_that_was_terminated_did_not_reach_is_not_placed() {
    let rule = |region: &str| json!({"maxParallel": 1, "placement": [{"name": region, "replicas": 5, "clusterSelector": {"region": region}}]});
    let steps = json!([
        {"name": "east", "type": "deploy", "properties": rule("east")},
        {"name": "west", "type": "deploy", "properties": rule("west")}]);
    let fleet = [("e1", "east"), ("e2", "east"), ("w1", "west")];
    let fleet = fleet.map(|(name, region)| facts(name, &[("region", region)]));
    let mut hub = Hub::new(application(10, &steps), fleet).deliver();
    let revision = hub.foreseen().unwrap().revision;
    hub.decisions.retain(|decision| decision.spec.step == "east");
    for decision in &mut hub.decisions {
        decision.spec.revision.clone_from(&revision);
        decision.spec.waiting = vec![Waiting {
            revision: None,
            clusters: vec!["e2".to_owned()],
        }];
    }
    hub.bundles
        .retain(|bundle| bundle.metadata.namespace.as_deref() == Some("cluster-e1"));
    let step = |name: &str, begun: Option<&str>| json!({"name": name, "type": "deploy", "phase": "failed", "reason": "Terminate", "firstExecuteTime": begun});
    hub.workflow = Some(
        json!({"appRevision": revision, "generation": 1, "status": "failed", "finished": true,
        "terminated": true, "steps": [step("east", Some("1970-01-01T00:00:00Z")), step("west", None)]}),
    );
    let said = |cluster: &str, at: usize| {
        let step = &hub.explained(cluster)[at];
        json!([step["reason"], step["heldBy"], step["placed"], step["replicas"]])
    };
    assert_eq!(said("e1", 0), json!(["Placed", null, true, 3]));
    assert_eq!(said("e2", 0), json!(["Held", "run", false, 0]));
    assert_eq!(said("w1", 1), json!(["Held", "run", false, 0]));
    let text = shown(&hub, "w1");
    let why = "default/checkout → w1, step west: HELD: it has nothing of the step and gets nothing until this is mended: its run has ended without success";
    assert!(text.contains(why), "{text}");
    let text = arithmetic::draw(&hub.subject().unwrap(), Format::Table);
    assert!(
        text.contains("step west: 1 cluster; held: ") && text.contains("step east: 2 clusters; held: "),
        "{text}"
    );
    // What waits for its turn keeps what it runs, whatever it was to get.
    let mut earlier = hub.clone();
    earlier.decisions[0].spec.waiting[0].revision = Some("checkout-v0".to_owned());
    let mut runs = earlier.bundles[0].clone();
    runs.metadata.namespace = Some("cluster-e2".to_owned());
    runs.metadata.uid = Some("cluster-e2".to_owned());
    earlier.bundles.push(runs);
    let kept = &earlier.explained("e2")[0];
    assert_eq!(
        json!([kept["heldBy"], kept["placed"], kept["replicas"]]),
        json!(["run", true, 3])
    );
    // When the step has come to all of them, it stands.
    let mut whole = hub.clone();
    whole.decisions[0].spec.waiting.clear();
    let text = arithmetic::draw(&whole.subject().unwrap(), Format::Table);
    assert!(text.contains("step east: 2 clusters\n"), "{text}");
    // No change does anything before it goes on.
    let text = shown(&hub, "e1");
    let first = "To take it out: first start its run again, which has ended without success: roundhouse restart checkout";
    assert!(
        text.contains(first) && !text.contains("roundhouse taint"),
        "{text}"
    );
    assert_eq!(hub.explained("e1")[0]["flips"], Value::Null);
    assert_eq!(hub.explained("e1")[0]["runEnded"], true);
    // A step that had begun and decided nothing was not passed, unless what it dispatched says otherwise.
    let mut begun = hub.clone();
    begun.workflow.as_mut().unwrap()["steps"][1] = step("west", Some("1970-01-01T00:00:00Z"));
    assert_eq!(begun.foreseen().unwrap().passed, ["east"]);
    let mut runs = begun.bundles[0].clone();
    runs.metadata.namespace = Some("cluster-w1".to_owned());
    runs.metadata.uid = Some("cluster-w1".to_owned());
    let labels = runs.metadata.labels.as_mut().unwrap();
    labels.insert(label::STEP.to_owned(), "west".to_owned());
    begun.bundles.push(runs);
    assert_eq!(begun.foreseen().unwrap().passed, ["east", "west"]);
    // Nothing of this is so once it goes on.
    hub.workflow = None;
    assert_eq!(hub.explained("w1")[1]["reason"], "Placed");
    assert!(hub.explained("w1")[1]["flips"]["ways"][0].is_object());
}

#[test]
fn a_cluster_out_of_reach_is_held_as_it_is() {
    let silent = hub(&east()).deliver().facing("c1", lose_contact);
    let why = "its agent is out of reach: nothing new reaches it, and nothing is taken away";
    check(&silent, why, "reachable");
    // One that is to go cannot be told.
    let why = "its agent is out of reach: it removes the application once it answers again";
    check(&relabel(silent, &["c1"], "west"), why, "reachable");
    // One that has nothing gets nothing.
    let empty = hub(&east()).facing("c1", lose_contact);
    assert_eq!(empty.explained("c1")[0]["reason"], "Unreachable");
}
