//! What happens in members beside the agent: F22 to F25.

use crate::{
    applications::{application as status_of, bundle, object, runs, step_is},
    line::{Line, Sent},
    looks::{Looked, because},
    runs::{SECOND, after, delivered_within, good, good_with_drift, one},
};
use roundhouse_api::{
    application::StepPhase,
    bundle::{Bundle, BundlePhase, FIGHTING},
};
use roundhouse_hub::simulate::{
    HUB,
    fault::{Asks, Dice, Effect, On, Parties, Rule, Side},
    monitor::Promise,
    run::{
        Act, Fault, Script, Target, Until, application, bearing, in_turns, once as applied_once, with_image,
    },
    trace::Object,
};
use serde_json::{Value, json};
use std::{collections::BTreeMap, time::Duration};

const BUNDLE: &str = "default.web";

fn fleet() -> Script {
    Script::of_regions(2, &["east"]).with(web())
}

/// The members, one of which something befalls.
const MEMBERS: [&str; 2] = ["east-1", "east-2"];

fn web() -> Value {
    application("web", 8, &[("east", "100%")])
}

fn config_map(member: &str) -> Target {
    Target {
        member: Some(member.to_owned()),
        api_version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
        namespace: "default".to_owned(),
        name: "web".to_owned(),
    }
}

const MAP: (&str, &str, &str) = ("v1", "ConfigMap", "web");
const DEPLOYMENT: (&str, &str, &str) = ("apps/v1", "Deployment", "web");

fn image(object: &Value) -> &str {
    let image = object.pointer("/spec/template/spec/containers/0/image");
    image.and_then(Value::as_str).unwrap_or_default()
}

/// An application whose objects are applied once, and then left to whoever changes them.
fn once() -> Value {
    applied_once(&application("once", 4, &[("east", "100%")]))
}

const ONCE: (&str, &str, &str) = ("v1", "ConfigMap", "once");

/// How often an agent wrote to its member: by the last two parts of the path, without what it only asked about, and without what
/// a conflict kept from being written.
fn written(sent: &[Sent], who: &str) -> BTreeMap<String, usize> {
    let mut written = BTreeMap::new();
    let own = sent
        .iter()
        .filter(|one| one.ends.who == who && one.ends.server == who);
    for one in own.filter(|one| one.writes() && one.code != 409 && !one.query.contains("dryRun")) {
        let parts: Vec<&str> = one.path.rsplitn(3, '/').take(2).collect();
        let parts: Vec<&str> = parts.into_iter().rev().collect();
        *written.entry(parts.join("/")).or_default() += 1;
    }
    written
}

/// What is older than it was delivered is written once, and what was local before the backup stays, with the content that it
/// was applied at.
fn repaired_once(sent: &[Sent], who: &str) -> Looked {
    let written = written(sent, who);
    let times = |path: &str| written.get(path).copied().unwrap_or(0);
    let twice = ["configmaps/web", "deployments/web"]
        .into_iter()
        .find(|path| times(path) != 1);
    let touched = ["configmaps/once", "deployments/once"]
        .into_iter()
        .find(|path| times(path) != 0);
    because(twice.is_none() && touched.is_none(), || {
        format!("not written once: {twice:?}, written: {touched:?}, of {written:?}")
    })?;
    // The ledgers, and nothing else: before and after an object is written, and what of it was found.
    let rest: usize = written.values().sum::<usize>() - 2;
    because(rest <= 6, || format!("{rest} more writes: {written:?}"))
}

#[test]
fn f22_a_member_that_is_restored_from_a_backup_is_put_right_once_and_apply_once_is_respected() {
    let edited = |found: &Value| found["data"]["image"] == "by hand";
    good_with_drift(|seed| {
        let mut dice = Dice::new(seed, "f22");
        let who = one(&mut dice, &MEMBERS);
        let line = Line::default();
        let mut script = fleet().with(once());
        script.wires = Some(line.wires());
        let edit = json!({"data": {"image": "by hand"}});
        let mut map = config_map(who);
        map.name = "once".to_owned();
        script
            .then(Act::wait("it is delivered", runs("web")))
            .then(Act::wait("the other one, too", runs("once")))
            .then(Act::Patch(map, edit))
            .at(
                SECOND * 20,
                Act::check("it is left alone", object(who, ONCE, edited)),
            )
            .then(Act::Backup(who.to_owned()))
            .then(Act::Apply(with_image(&web(), "web:2")))
            .at(SECOND * 21, Act::wait("the next one is delivered", runs("web")))
            .at(
                after(&mut dice, 0, 20_000),
                Act::check("from here on it is counted", line.forget()),
            )
            .then(Act::Restore(who.to_owned()))
            .then(Act::wait(
                "what is newer is there again",
                object(who, DEPLOYMENT, |found| image(found) == "web:2"),
            ))
            .until(delivered_within(SECOND * 400))
            .finally("what was local is there", object(who, ONCE, edited))
            .finally(
                "everything else was written once",
                line.look(move |sent| repaired_once(sent, who)),
            )
    });
}

#[test]
fn f22_what_a_backup_has_at_an_earlier_generation_but_is_what_the_bundle_says_is_ready() {
    let region = |cluster: &str, value: Option<&str>| Act::Label {
        cluster: cluster.to_owned(),
        key: "region".to_owned(),
        value: value.map(str::to_owned),
    };
    let has = |cluster: &str, replicas: u64| {
        let replicas = move |found: &Value| found["spec"]["replicas"] == replicas;
        Act::wait("it has its share", object(cluster, DEPLOYMENT, replicas))
    };
    let members = |seed| one(&mut Dice::new(seed, "f22"), &[MEMBERS, ["east-2", "east-1"]]);
    let outcomes = good(|seed| {
        let [who, other] = members(seed);
        let mut dice = Dice::new(seed, "f22-restore");
        fleet()
            .then(Act::wait("it is delivered", runs("web")))
            .then(Act::Backup(who.to_owned()))
            .then(region(other, None))
            .then(has(who, 8))
            .then(region(other, Some("east")))
            .then(has(who, 4))
            .then(Act::wait("it is delivered as before", runs("web")))
            .at(after(&mut dice, 0, 20_000), Act::Restore(who.to_owned()))
            .until(delivered_within(SECOND * 400))
    });
    for outcome in outcomes {
        // There is an object of the same content at an earlier generation, as it is said to be ready.
        let [who, _] = members(outcome.seed);
        let text = outcome
            .trace
            .of(&[Object::party(who, "server")], Duration::MAX, usize::MAX);
        assert!(text.contains("put back"), "{text}");
    }
}

fn is_fought(bundle: &Bundle) -> bool {
    let conditions = bundle.status.iter().flat_map(|status| &status.conditions);
    conditions
        .into_iter()
        .any(|condition| condition.reason == FIGHTING)
}

#[test]
fn f23_who_rewrites_a_field_of_ours_in_a_loop_is_fought_ever_more_rarely_and_keeps_the_other_one() {
    let whose = |seed| one(&mut Dice::new(seed, "f23"), &MEMBERS);
    let outcomes = good(|seed| {
        let (mut dice, who) = (Dice::new(seed, "times"), whose(seed));
        let mut script = fleet().then(Act::wait("it is delivered", runs("web")));
        for n in 0..120 {
            let data = json!({"data": {"image": format!("mine:{n}"), "theirs": n.to_string()}});
            let at = SECOND * n + after(&mut dice, 0, 900);
            script = script.at(at, Act::Patch(config_map(who), data));
        }
        script
            .at(
                SECOND * 121,
                Act::check("it says so", bundle(who, BUNDLE, is_fought)),
            )
            .then(Act::wait(
                "what is ours is as it was, and what is theirs is as they wrote it last",
                object(who, MAP, |found| {
                    found["data"] == json!({"image": "web:1", "theirs": "119"})
                }),
            ))
            .until(delivered_within(SECOND * 900))
    });
    for outcome in outcomes {
        // 120 writes by the other one; one by the server for each, and much fewer by the agent.
        let written = outcome.revisions[whose(outcome.seed)];
        assert!(written < 120 + 100, "{written} writes in the member\n{outcome}");
    }
}

/// What is said of the objects of a Bundle that are not as they should be.
fn reasons(bundle: &Bundle) -> Vec<&str> {
    let listed = bundle
        .status
        .iter()
        .filter_map(|status| status.resource_status.as_ref());
    let conditions = listed
        .flat_map(|listed| &listed.manifests)
        .flat_map(|m| &m.conditions);
    conditions.map(|condition| condition.reason.as_str()).collect()
}

fn counted(bundle: &Bundle) -> (u32, u32) {
    let counts = bundle
        .status
        .as_ref()
        .and_then(|status| status.counts)
        .unwrap_or_default();
    (counts.applied, counts.failed)
}

fn is_refused(bundle: &Bundle) -> bool {
    let phase = bundle.status.as_ref().and_then(|status| status.phase);
    counted(bundle) == (1, 1) && phase == Some(BundlePhase::Failed) && reasons(bundle).contains(&"Forbidden")
}

/// What only takes too long may pass by itself: it is no failure, and told by its name. A time-out says nothing of the object,
/// which may even be written; as a failure it would count against `maxFailedClusters` and stop a delivery for one slow API
/// server. Who has had enough says so with the `timeout` of the step, and reads `Timeout` beside the object.
fn is_late(bundle: &Bundle) -> bool {
    let phase = bundle.status.as_ref().and_then(|status| status.phase);
    counted(bundle) == (1, 0)
        && phase == Some(BundlePhase::Progressing)
        && reasons(bundle).contains(&"Timeout")
}

/// A member that does this to every write of one object, for five minutes.
fn gated(effect: &Effect, told: fn(&Bundle) -> bool) {
    let outcomes = good(|seed| {
        let mut dice = Dice::new(seed, "f24");
        let who = one(&mut dice, &MEMBERS);
        let gate = On::all_of(Parties::these([who]))
            .to(Side::Member)
            .that(Asks::Write)
            .at("/configmaps");
        let rule = Rule::always(gate, effect.clone());
        // At the first delivery, or at the next one.
        let next = dice.happens(500);
        let (script, wanted) = match next {
            false => (fleet(), "web:1"),
            true => (fleet().then(Act::wait("it is delivered", runs("web"))), "web:2"),
        };
        let mut script = script.then(Act::for_a_while(Fault::Network(rule), SECOND * 300));
        if next {
            let changed = Act::Apply(with_image(&web(), wanted));
            script = script.at(after(&mut dice, 0, 5_000), changed);
        }
        let there = match wanted {
            "web:1" => object(who, DEPLOYMENT, |found| image(found) == "web:1"),
            _ => object(who, DEPLOYMENT, |found| image(found) == "web:2"),
        };
        script
            .then(Act::wait("the other object is there", there))
            .then(Act::wait("that one is named, alone", bundle(who, BUNDLE, told)))
            .until(delivered_within(SECOND * 600))
    });
    for outcome in outcomes {
        let tried: u64 = outcome.seen.values().sum();
        assert!(tried < 20, "{tried} tries in 300 s\n{outcome}");
    }
}

#[test]
fn f24_an_object_that_a_webhook_of_the_member_rejects_fails_alone_and_is_tried_without_haste() {
    let forbidden = Effect::Answer {
        code: 403,
        retry_after: None,
    };
    gated(&forbidden, is_refused);
}

#[test]
fn f24_an_object_that_a_webhook_of_the_member_keeps_waiting_is_named_alone_and_tried_without_haste() {
    gated(&Effect::Stall, is_late);
}

/// The definition of a kind that no member has.
fn definition() -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.org"}, "spec": {"group": "example.org", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}})
}

#[test]
fn f25_an_object_of_a_kind_that_is_not_there_waits_and_is_applied_within_seconds_of_its_definition() {
    let with_widget = || {
        let mut web = web();
        let widget = json!({"apiVersion": "example.org/v1", "kind": "Widget", "metadata": {"name": "web"},
            "spec": {"size": 1}});
        let objects = web.pointer_mut("/spec/components/0/properties/objects").unwrap();
        objects.as_array_mut().unwrap().push(widget);
        web
    };
    let no_kind = |bundle: &Bundle| reasons(bundle).contains(&"NoKind");
    good(|seed| {
        let mut dice = Dice::new(seed, "f25");
        let mut script = Script::of_regions(2, &["east"]).with(with_widget());
        for member in MEMBERS {
            script = script.then(Act::wait("its kind is missing", bundle(member, BUNDLE, no_kind)));
            script = script.then(Act::check(
                "its siblings are there",
                object(member, DEPLOYMENT, |found| image(found) == "web:1"),
            ));
        }
        for member in MEMBERS {
            let at = after(&mut dice, 1_000, 200_000);
            script = script.at(at, Act::ApplyIn(member.to_owned(), definition()));
        }
        script.until(delivered_within(SECOND * 30))
    });
}

/// Clusters refuse it one after the other, for good, and those that are under way beside them take longer than a hub may not have heard of
/// that: who has not come to its turn by then keeps what it has, also where places become free much later.
#[test]
fn a_step_of_which_too_many_clusters_fail_goes_no_further() {
    let outcomes = good_with_drift(|seed| {
        let mut dice = Dice::new(seed, "bears");
        let web = bearing(&in_turns(&application("web", 8, &[("east", "100%")]), 4), 2);
        let forbidden = Effect::Answer {
            code: 403,
            retry_after: None,
        };
        let who = Parties::these(["east-1", "east-2", "east-6"]);
        let writes = On::all_of(who).to(Side::Member).that(Asks::Write);
        let refused = Fault::Network(Rule::always(writes.at("/deployments"), forbidden));
        let mut script = Script::of_regions(8, &["east"]).with(web.clone());
        script.model.delay = SECOND * 500..=SECOND * 550;
        let changed = SECOND * 1200;
        let ends = after(&mut dice, 0, 1_100_000);
        let away = after(&mut dice, 1_000, 60_000);
        let failed = |status: &_| step_is(status, "east", StepPhase::Failed);
        let mut script = script
            .at(changed, Act::check("it is delivered", runs("web")))
            .at(changed, Act::Begin(refused, None))
            .at(changed, Act::Apply(with_image(&web, "web:2")))
            .at(
                changed + ends,
                Act::for_a_while(Fault::Killed(HUB.to_owned()), away),
            )
            .at(
                changed + SECOND * 500,
                Act::wait("the step has failed", status_of("web", failed)),
            )
            .until(Until::Done {
                within: SECOND * 1800,
                idle: SECOND * 600,
                quiet: SECOND * 60,
            });
        for cluster in ["east-3", "east-4", "east-5"] {
            let new = object(cluster, DEPLOYMENT, |found| image(found) == "web:2");
            script = script.finally(&format!("{cluster} has it"), new);
        }
        for cluster in ["east-1", "east-2", "east-6", "east-7", "east-8"] {
            let old = object(cluster, DEPLOYMENT, |found| image(found) == "web:1");
            script = script.finally(&format!("{cluster} keeps what it has"), old);
        }
        script
    });
    for outcome in outcomes {
        let part = (Promise::P8, "maxFailedClusters");
        assert!(outcome.parts.contains(&part), "{outcome}");
    }
}
