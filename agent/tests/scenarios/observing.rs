//! Readiness, conditions by rules, feedback and completion. The tables of D10 stand beside the pure code
//! (`observe::workload`, `observe::builtin`); here is what of it reaches the hub.

use crate::world::{
    Side, World, config_map, deployment, eventually, eventually_with, pass_time, reason, spec,
};
use roundhouse_api::bundle::BundlePhase::{Failed, Progressing, Ready};
use roundhouse_api::bundle::{BundleStatus, MAX_FEEDBACK, ManifestCondition};
use roundhouse_api::condition;
use serde_json::{Value, json};

/// A manifestConfig for the objects of this resource and name.
fn config(group: &str, resource: &str, name: &str, rules: Value) -> Value {
    let mut config = json!({"resourceIdentifier": {"group": group, "resource": resource, "namespace": "default",
        "name": name}});
    if let Value::Object(rules) = rules {
        config.as_object_mut().unwrap().extend(rules);
    }
    config
}

fn configured(manifests: &[Value], configs: &[Value]) -> Value {
    let mut spec = spec(manifests);
    spec["manifestConfigs"] = json!(configs);
    spec
}

fn cel(condition: &str, expression: &str) -> Value {
    json!({"condition": condition, "type": "CEL", "celExpressions": [expression]})
}

fn paths(paths: &[(&str, &str)]) -> Value {
    let paths: Vec<_> = paths
        .iter()
        .map(|(name, path)| json!({"name": name, "path": path}))
        .collect();
    json!({"feedbackRules": [{"type": "JSONPaths", "jsonPaths": paths}]})
}

fn job(name: &str) -> Value {
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": "default"},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "i:1"}]}}}})
}

fn finished(type_: &str) -> Value {
    // A real server refuses a finished Job without these.
    let before = if type_ == "Complete" {
        "SuccessCriteriaMet"
    } else {
        "FailureTarget"
    };
    let at = "2026-01-01T00:00:00Z";
    let condition = |type_: &str| {
        json!({"type": type_, "status": "True", "reason": "R", "message": "said",
        "lastTransitionTime": at})
    };
    let mut status = json!({"conditions": [condition(before), condition(type_)], "startTime": at});
    if type_ == "Complete" {
        status["completionTime"] = json!(at);
        status["succeeded"] = json!(1);
    }
    status
}

fn manifest<'a>(status: &'a BundleStatus, name: &str) -> Option<&'a ManifestCondition> {
    let resources = status.resource_status.as_ref()?;
    resources
        .manifests
        .iter()
        .find(|manifest| manifest.resource_meta.name == name)
}

/// `Type=Status Reason` of every condition of a manifest.
fn conditions(status: &BundleStatus, name: &str) -> Vec<String> {
    let conditions = manifest(status, name).map(|manifest| &manifest.conditions);
    let show = |c: &k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition| {
        format!("{}={} {}", c.type_, c.status, c.reason)
    };
    conditions.into_iter().flatten().map(show).collect()
}

/// `name=value` of all feedback of a manifest.
fn feedback(status: &BundleStatus, name: &str) -> Vec<String> {
    let feedback = manifest(status, name).and_then(|manifest| manifest.status_feedback.as_ref());
    let values = feedback.into_iter().flat_map(|feedback| &feedback.values);
    values
        .map(|value| {
            let field = serde_json::to_value(&value.field_value).unwrap();
            let value_of = ["integer", "string", "boolean", "jsonRaw"]
                .iter()
                .find_map(|key| field.get(*key));
            format!("{}={}", value.name, value_of.unwrap())
        })
        .collect()
}

async fn reported(world: &World, what: &str, holds: impl Fn(&BundleStatus) -> bool) -> BundleStatus {
    eventually_with(what, || world.status("b"), holds).await
}

async fn made(world: &World, object: &Value) {
    eventually("the object is made", || async {
        world.live(Side::Member, object).await.is_some()
    })
    .await;
}

fn is_true(status: &BundleStatus, type_: &str) -> bool {
    condition::is_true(&status.conditions, type_)
}

#[tokio::test(start_paused = true)]
async fn d01_well_known_values_are_reported_for_known_kinds_and_none_for_others() {
    let world = World::new().await;
    let agent = world.agent();
    let web = deployment("web", "i:1", 2);
    let map = config_map("map", "1");
    let plain = config_map("plain", "1");
    let well_known = json!({"feedbackRules": [{"type": "WellKnownStatus"}]});
    let configs = [
        config("apps", "deployments", "web", well_known.clone()),
        config("", "configmaps", "map", well_known),
    ];
    world
        .bundle("b", configured(&[web.clone(), map, plain], &configs))
        .await;
    made(&world, &web).await;
    world.roll_out(&web).await;
    let status = reported(&world, "the values of the Deployment", |status| {
        feedback(status, "web") == ["ReadyReplicas=2", "Replicas=2", "AvailableReplicas=2"]
    })
    .await;
    assert_eq!(
        conditions(&status, "web"),
        [
            "Applied=True Applied",
            "Available=True Ready",
            "StatusFeedbackSynced=True StatusFeedbackSynced"
        ]
    );
    assert_eq!(
        conditions(&status, "map"),
        [
            "Applied=True Applied",
            "Available=True Ready",
            "StatusFeedbackSynced=False StatusFeedbackSyncFailed"
        ]
    );
    assert!(
        manifest(&status, "plain").is_none(),
        "healthy and not asked for: counted only"
    );
    assert_eq!(status.phase, Some(Ready));
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn d02_values_by_path_are_kept_when_another_path_is_wrong() {
    let world = World::new().await;
    let agent = world.agent();
    let web = deployment("web", "i:1", 2);
    let mut rules = paths(&[
        ("image", ".spec.template.spec.containers[0].image"),
        ("wrong", ".spec["),
        ("old", ".spec"),
    ]);
    rules["feedbackRules"][0]["jsonPaths"][2]["version"] = json!("v1beta1");
    let configs = [config("apps", "deployments", "web", rules)];
    world.bundle("b", configured(&[web.clone()], &configs)).await;
    let status = reported(&world, "one value", |status| {
        feedback(status, "web") == [r#"image="i:1""#]
    })
    .await;
    let entry = manifest(&status, "web").unwrap();
    let synced = entry
        .conditions
        .iter()
        .find(|c| c.type_ == "StatusFeedbackSynced")
        .unwrap();
    assert_eq!(synced.status, "False");
    assert!(
        synced.message.contains("wrong: ") && synced.message.contains("v1beta1"),
        "{}",
        synced.message
    );
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn d03_structures_come_as_json_up_to_a_size_and_filters_select() {
    let world = World::new().await;
    let agent = world.agent();
    let mut map = config_map("map", "1");
    map["metadata"]["annotations"] = json!({"a": "x".repeat(1100)});
    map["metadata"]["labels"] = json!({"l": "1"});
    let web = deployment("web", "i:1", 2);
    let configs = [
        config(
            "",
            "configmaps",
            "map",
            paths(&[("labels", ".metadata.labels"), ("large", ".metadata.annotations")]),
        ),
        config(
            "apps",
            "deployments",
            "web",
            paths(&[(
                "image",
                ".spec.template.spec.containers[?(@.name==\"main\")].image",
            )]),
        ),
    ];
    world.bundle("b", configured(&[map, web], &configs)).await;
    let status = reported(&world, "values", |status| !feedback(status, "web").is_empty()).await;
    assert_eq!(feedback(&status, "web"), [r#"image="i:1""#]);
    assert_eq!(feedback(&status, "map"), [r#"labels="{\"l\":\"1\"}""#]);
    assert!(
        conditions(&status, "map")
            .contains(&"StatusFeedbackSynced=False StatusFeedbackSyncFailed".to_owned())
    );
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn d04_a_wildcard_matches_all_and_of_several_configs_the_first_wins() {
    let world = World::new().await;
    let agent = world.agent();
    let (a, b) = (config_map("a", "1"), config_map("b", "2"));
    let configs = [
        config("", "configmaps", "a", paths(&[("first", ".data.key")])),
        config("*", "*", "*", paths(&[("any", ".data.key")])),
    ];
    world.bundle("b", configured(&[a, b], &configs)).await;
    let status = reported(&world, "both", |status| !feedback(status, "b").is_empty()).await;
    assert_eq!(feedback(&status, "a"), [r#"first="1""#]);
    assert_eq!(feedback(&status, "b"), [r#"any="2""#]);
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn d05_objects_without_a_namespace_and_objects_of_others_are_looked_at_as_well() {
    let world = World::new().await;
    let theirs = config_map("theirs", "1");
    world.create(Side::Member, theirs.clone()).await;
    let agent = world.agent();
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "labels": {"l": "1"}}});
    let mut cluster_scoped = config(
        "",
        "namespaces",
        "shop",
        paths(&[("label", ".metadata.labels.l")]),
    );
    cluster_scoped["resourceIdentifier"]["namespace"] = json!("");
    let mut read_only = config("", "configmaps", "theirs", paths(&[("value", ".data.key")]));
    read_only["updateStrategy"] = json!({"type": "ReadOnly"});
    let wanted = config_map("theirs", "not theirs");
    world
        .bundle(
            "b",
            configured(&[namespace, wanted], &[cluster_scoped, read_only]),
        )
        .await;
    let status = reported(&world, "values", |status| {
        feedback(status, "theirs") == [r#"value="1""#]
    })
    .await;
    assert_eq!(feedback(&status, "shop"), [r#"label="1""#]);
    world
        .merge(Side::Member, &theirs, json!({"data": {"key": "2"}}))
        .await;
    reported(&world, "the change", |status| {
        feedback(status, "theirs") == [r#"value="2""#]
    })
    .await;
    assert_eq!(
        world.live(Side::Member, &theirs).await.unwrap()["data"]["key"],
        "2"
    );
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn d05_a_change_is_pushed_by_the_watch_and_one_that_never_rests_is_coalesced() {
    let world = World::embedded().await;
    let agent = world.agent();
    let web = deployment("web", "i:1", 1);
    let observed = paths(&[
        ("at", ".metadata.annotations.tick"),
        ("again", ".metadata.annotations.tick"),
    ]);
    let configs = [config("apps", "deployments", "web", observed)];
    world.bundle("b", configured(&[web.clone()], &configs)).await;
    made(&world, &web).await;
    world.roll_out(&web).await;
    pass_time(20).await;
    let tick = |n: u32| {
        let patch = json!({"metadata": {"annotations": {"tick": n.to_string()}}});
        world.merge(Side::Member, &web, patch)
    };
    tick(0).await;
    pass_time(1).await;
    assert_eq!(
        feedback(&world.status("b").await, "web"),
        [r#"at="0""#, r#"again="0""#],
        "at once after a rest"
    );
    let reports = || {
        world
            .hub
            .counter()
            .stored_of("bundles.roundhouse.dev", crate::world::NAMESPACE, "b")
    };
    let before = reports();
    let first = world.status("b").await;
    for n in 1..=100 {
        tick(n).await;
        pass_time(1).await;
    }
    let written = reports() - before;
    assert!(
        (8..=11).contains(&written),
        "{written} reports in 100 s of a change each second"
    );
    let status = reported(&world, "the last value", |status| {
        feedback(status, "web")[0] == r#"at="100""#
    })
    .await;
    let times = |status: &BundleStatus| {
        let manifest = manifest(status, "web").unwrap();
        manifest
            .conditions
            .iter()
            .map(|c| c.last_transition_time.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        times(&status),
        times(&first),
        "times move with a status, not with a value"
    );
    // At rest again: nothing more.
    pass_time(20).await;
    let writes = world.writes();
    pass_time(120).await;
    assert_eq!(world.writes(), writes);
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn d06_a_job_completes_its_bundle_and_a_failed_one_says_so() {
    for (type_, phase, job_says) in [
        ("Complete", Ready, "Available=True Ready"),
        ("Failed", Failed, "Available=False Failed"),
    ] {
        let world = World::new().await;
        let agent = world.agent();
        let job = job("migrate");
        let rules = json!({"conditionRules": [{"type": "WellKnownConditions", "condition": "Complete"}]});
        let configs = [config("batch", "jobs", "migrate", rules)];
        let generation = world.bundle("b", configured(&[job.clone()], &configs)).await;
        let status = world.reported("b", generation, Progressing).await;
        assert_eq!(
            conditions(&status, "migrate"),
            [
                "Applied=True Applied",
                "Available=False Progressing",
                "Complete=False ConditionRuleEvaluated"
            ]
        );
        assert_eq!(reason(&status, "Complete"), "ConditionRulesAggregated");
        assert!(!is_true(&status, "Complete"));
        world.merge_status(Side::Member, &job, finished(type_)).await;
        let status = world.reported("b", generation, phase).await;
        assert!(is_true(&status, "Complete"), "{status:#?}");
        assert!(conditions(&status, "migrate").contains(&job_says.to_owned()));
        agent.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn d07_conditions_by_cel_decide_the_readiness_and_a_poison_expression_stands_alone() {
    let world = World::new().await;
    let agent = world.agent();
    let (map, other, broken) = (
        config_map("map", "wait"),
        config_map("other", "1"),
        config_map("broken", "1"),
    );
    let mut ready = cel("Ready", "object.data.key == 'go'");
    ready["messageExpression"] = json!("'the key is ' + object.data.key");
    let poison = "['a','b','c','d','e','f','g','h'].map(a, a + a).map(a, [a, a, a, a]).map(a, [a, a, a, a]).map(a, \
                  [a, a, a, a]).map(a, [a, a, a, a]).map(a, [a, a, a, a]).map(a, [a, a, a, a]).map(a, [a, a, a, a]) == []";
    let configs = [
        config(
            "",
            "configmaps",
            "map",
            json!({"conditionRules": [ready, cel("Bad", "object.("), cel("Poison", poison),
            cel("Number", "1")]}),
        ),
        config(
            "",
            "configmaps",
            "broken",
            json!({"conditionRules": [cel("Ready", "self.x")]}),
        ),
    ];
    let generation = world
        .bundle("b", configured(&[map.clone(), other, broken], &configs))
        .await;
    let status = world.reported("b", generation, Failed).await;
    assert_eq!(
        conditions(&status, "map"),
        [
            "Applied=True Applied",
            "Available=False Progressing",
            "Ready=False ConditionRuleEvaluated",
            "Bad=False ConditionRuleInvalid",
            "Poison=False ConditionRuleEvaluationFailed",
            "Number=False ConditionRuleEvaluationFailed"
        ]
    );
    let counts = status.counts.unwrap();
    assert_eq!((counts.applied, counts.ready, counts.failed), (3, 1, 1));
    // A rule that can never hold is a failure of its object, and says what is wrong.
    assert!(conditions(&status, "broken").contains(&"Available=False Failed".to_owned()));
    let mut manifests = vec![config_map("map", "go"), config_map("other", "1")];
    let generation = world.bundle("b", configured(&manifests, &configs)).await;
    let status = world.reported("b", generation, Ready).await;
    let ready = manifest(&status, "map")
        .unwrap()
        .conditions
        .iter()
        .find(|c| c.type_ == "Ready")
        .unwrap()
        .clone();
    assert_eq!(
        (ready.status.as_str(), ready.message.as_str()),
        ("True", "the key is go")
    );
    // A live change counts as a change of the bundle does.
    manifests[0]["data"]["key"] = json!("stop");
    let generation = world.bundle("b", configured(&manifests, &configs)).await;
    world.reported("b", generation, Progressing).await;
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn d08_complete_needs_all_that_can_complete_and_a_removed_rule_prunes_its_condition() {
    let world = World::new().await;
    let agent = world.agent();
    let manifests = [config_map("a", "1"), config_map("b", "no"), config_map("c", "1")];
    let done = cel("Complete", "object.data.key == '1'");
    let rules = |rules: &[&Value]| json!({"conditionRules": rules});
    let seen = cel("Seen", "true");
    let both = [
        config("", "configmaps", "a", rules(&[&done, &seen])),
        config("", "configmaps", "b", rules(&[&done])),
    ];
    let generation = world.bundle("b", configured(&manifests, &both)).await;
    let status = world.reported("b", generation, Ready).await;
    assert!(!is_true(&status, "Complete"), "b is not complete");
    assert!(is_true(&status, "Seen"));
    // c has no rule and holds nothing up.
    let one = [config("", "configmaps", "a", rules(&[&done]))];
    let generation = world.bundle("b", configured(&manifests, &one)).await;
    let status = world.reported("b", generation, Ready).await;
    assert!(is_true(&status, "Complete"));
    assert!(
        condition::get(&status.conditions, "Seen").is_none(),
        "no rule makes it any more"
    );
    let generation = world.bundle("b", configured(&manifests, &[])).await;
    let status = world.reported("b", generation, Ready).await;
    assert!(condition::get(&status.conditions, "Complete").is_none());
    assert_eq!(status.resource_status, None);
    // Progressing and Degraded win over what else is said of an object.
    let moving = [config(
        "",
        "configmaps",
        "a",
        rules(&[&cel("Ready", "true"), &cel("Progressing", "true")]),
    )];
    let generation = world.bundle("b", configured(&manifests, &moving)).await;
    let status = world.reported("b", generation, Progressing).await;
    assert!(is_true(&status, "Progressing"));
    let degraded = [config(
        "",
        "configmaps",
        "a",
        rules(&[&cel("Ready", "true"), &cel("Degraded", "true")]),
    )];
    let generation = world.bundle("b", configured(&manifests, &degraded)).await;
    let status = world.reported("b", generation, Failed).await;
    assert!(is_true(&status, "Degraded"));
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn d09_after_completion_a_job_that_is_gone_is_not_made_again() {
    for type_ in ["Complete", "Failed"] {
        let world = World::new().await;
        let agent = world.agent();
        let (with, without) = (job("with"), job("without"));
        let rules = json!({"conditionRules": [{}]});
        let configs = [config("batch", "jobs", "with", rules)];
        let spec = configured(&[with.clone(), without.clone()], &configs);
        let generation = world.bundle("b", spec).await;
        for job in [&with, &without] {
            made(&world, job).await;
            world.merge_status(Side::Member, job, finished(type_)).await;
        }
        let phase = if type_ == "Complete" { Ready } else { Failed };
        world.reported("b", generation, phase).await;
        // As `ttlSecondsAfterFinished` does.
        for job in [&with, &without] {
            world.delete(Side::Member, job).await;
        }
        pass_time(700).await;
        assert!(
            world.live(Side::Member, &with).await.is_none(),
            "complete by its rule: it stays gone"
        );
        assert!(
            world.live(Side::Member, &without).await.is_some(),
            "applyOnce Never without a rule: made again"
        );
        let status = world.status("b").await;
        assert!(is_true(&status, "Complete"));
        // A job that failed has not become a success by being gone.
        let says = if type_ == "Complete" {
            "Available=True Ready"
        } else {
            "Available=False Failed"
        };
        assert!(
            conditions(&status, "with").contains(&says.to_owned()),
            "{status:#?}"
        );
        // Nor does a restart bring it back; another content of it does.
        agent.kill().await;
        let agent = world.agent();
        pass_time(60).await;
        assert!(world.live(Side::Member, &with).await.is_none());
        let mut changed = job("with");
        changed["spec"]["template"]["spec"]["containers"][0]["image"] = json!("i:2");
        world
            .bundle("b", configured(&[changed.clone(), without], &configs))
            .await;
        made(&world, &changed).await;
        agent.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn d10_a_deployment_whose_deadline_is_exceeded_fails_the_bundle_with_its_message_and_recovers() {
    let world = World::new().await;
    let agent = world.agent();
    let web = deployment("web", "i:1", 2);
    let generation = world.bundle("b", spec(&[web.clone()])).await;
    made(&world, &web).await;
    let live = world.live(Side::Member, &web).await.unwrap();
    let stuck = json!({"observedGeneration": live["metadata"]["generation"], "replicas": 2, "updatedReplicas": 2,
        "conditions": [{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded",
            "message": "ReplicaSet web-1 has timed out progressing."}]});
    world.merge_status(Side::Member, &web, stuck).await;
    let status = world.reported("b", generation, Failed).await;
    let entry = manifest(&status, "web").unwrap();
    assert_eq!(entry.conditions[0].reason, "Failed");
    assert_eq!(
        entry.conditions[0].message,
        "ProgressDeadlineExceeded: ReplicaSet web-1 has timed out progressing."
    );
    world
        .merge_status(Side::Member, &web, json!({"conditions": null}))
        .await;
    world.roll_out(&web).await;
    world.reported("b", generation, Ready).await;
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn feedback_of_a_bundle_is_bounded() {
    let world = World::new().await;
    let agent = world.agent();
    let maps: Vec<Value> = (0..150)
        .map(|n| config_map(&format!("m{n:03}"), &"v".repeat(500)))
        .collect();
    let configs = [config("", "configmaps", "*", paths(&[("value", ".data.key")]))];
    let generation = world.bundle("b", configured(&maps, &configs)).await;
    let status = world.reported("b", generation, Ready).await;
    let resources = status.resource_status.clone().unwrap();
    assert!(resources.feedback_truncated);
    assert_eq!(resources.manifests.len(), 100);
    let values = resources
        .manifests
        .iter()
        .filter_map(|manifest| manifest.status_feedback.as_ref());
    let weight: usize = values
        .map(|feedback| serde_json::to_vec(&feedback.values).unwrap().len())
        .sum();
    assert!(
        weight > MAX_FEEDBACK / 2 && weight < MAX_FEEDBACK + 100,
        "{weight} bytes"
    );
    assert_eq!(feedback(&status, "m000").len(), 1);
    assert!(feedback(&status, "m099").is_empty());
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_settled_bundle_with_rules_writes_nothing() {
    let world = World::embedded().await;
    let mut config_ = World::config();
    config_.resync = std::time::Duration::from_secs(10);
    let agent = world.agent_with(config_);
    let (map, job) = (config_map("map", "1"), job("job"));
    let mut rules = paths(&[("value", ".data.key"), ("wrong", ".[")]);
    rules["conditionRules"] = json!([
        cel("Ready", "true"),
        cel("Bad", "object.("),
        cel("None", "object.none")
    ]);
    let configs = [
        config("", "configmaps", "*", rules),
        config("batch", "jobs", "*", json!({"conditionRules": [{}]})),
    ];
    let generation = world.bundle("b", configured(&[map, job.clone()], &configs)).await;
    made(&world, &job).await;
    world.merge_status(Side::Member, &job, finished("Complete")).await;
    world.reported("b", generation, Ready).await;
    pass_time(30).await;
    let writes = world.writes();
    pass_time(600).await;
    assert_eq!(world.writes(), writes, "{:#?}", world.hub.counter().by_object());
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn expressions_that_cost_more_than_a_pass_allows_are_gone_through_pass_by_pass_and_other_bundles_go_on()
{
    const OBJECTS: usize = 60;
    let world = World::new().await;
    let agent = world.agent();
    // Each of them stays within its own budget of 8 MiB, all of them are more than the 256 MiB of a pass.
    let dear = "object.data.key.size() > 0 && [1, 2, 3, 4, 5, 6, 7, 8].all(a, [1, 2, 3, 4, 5, 6, 7].all(b, \
                object.data.key + object.data.key + object.data.key + object.data.key + object.data.key != ''))";
    let rules = json!({"conditionRules": [cel("Ready", dear)]});
    let manifests: Vec<_> = (0..OBJECTS)
        .map(|n| config_map(&format!("m{n}"), &"v".repeat(20_000)))
        .collect();
    let configs = [config("", "configmaps", "*", rules)];
    let generation = world.bundle("dear", configured(&manifests, &configs)).await;
    let beside = world.bundle("beside", spec(&[config_map("beside", "1")])).await;
    world.reported("beside", beside, Ready).await;
    let status = world.reported("dear", generation, Ready).await;
    assert_eq!(status.counts.unwrap().ready, u32::try_from(OBJECTS).unwrap());
    // Nothing is evaluated again as long as nothing changes, or the resyncs would never end.
    let writes = world.writes();
    pass_time(3600).await;
    assert_eq!(world.writes(), writes);
    agent.stop().await;
}
