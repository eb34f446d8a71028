//! What has to be accepted, and how it is understood.

use super::{set, valid};
use crate::{
    application::{ComponentKind, StepKind, ValidApplication, WaitFor, check_application_name, validate},
    bundle::{Affect, ApplyOnce, ApplyOnceRule, ApplyOnceSelector, ApplyOnceStrategy},
    placement::{Remainder, ReplicaShare},
};
use serde_json::{Value, json};

fn accept(spec: &Value) -> ValidApplication {
    validate(spec).unwrap_or_else(|violations| panic!("{violations:#?}"))
}

#[test]
fn the_seeds_example_is_accepted_as_it_stands() {
    let application = accept(&json!({
        "components": [{"name": "web", "type": "webservice", "properties": {"image": "nginx", "replicas": 10}}],
        "workflow": {"steps": [{"type": "open-cluster-management", "properties": {"placement": [
            {"clusterSelector": {"region": "east"}, "replicas": "70%"},
            {"clusterSelector": {"region": "west"}, "replicas": "20%"}]}}]}
    }));
    let [step] = application.steps.as_slice() else {
        panic!("{application:?}")
    };
    assert_eq!(
        (step.name.as_str(), step.type_.as_str()),
        ("step-0", "open-cluster-management")
    );
    let StepKind::Deploy(deploy) = &step.kind else {
        panic!("{step:?}")
    };
    assert_eq!(
        (deploy.wait, deploy.placement.remainder),
        (WaitFor::Ready, Remainder::Hold)
    );
    let [east, west] = deploy.placement.placement.as_slice() else {
        panic!("{deploy:?}")
    };
    assert!(matches!(east.replicas, Some(ReplicaShare::Percent(p)) if p.milli() == 70_000));
    let labels = &west.cluster_selector.as_ref().unwrap().match_labels;
    assert_eq!(labels.get("region").map(String::as_str), Some("west"));
    assert_eq!(application.apply_once, None);
}

#[test]
fn without_a_workflow_each_placement_policy_is_a_step() {
    for workflow in [
        None,
        Some(Value::Null),
        Some(json!({})),
        Some(json!({"steps": []})),
    ] {
        let mut spec = json!({
            "components": [{"name": "web", "type": "worker", "properties": {"image": "nginx"}}],
            "policies": [
                {"name": "east", "type": "placement", "properties": {"placement": [{"replicas": "60%"}]}},
                {"name": "once", "type": "apply-once", "properties": {"enable": true}},
                {"name": "west", "type": "placement", "properties": {"placement": [{"replicas": "40%"}]}},
            ]
        });
        if let Some(workflow) = workflow {
            set(&mut spec, "/workflow", workflow);
        }
        let application = accept(&spec);
        let names: Vec<&str> = application.steps.iter().map(|step| step.name.as_str()).collect();
        assert_eq!(names, ["east", "west"]);
        assert!(application.steps.iter().all(|step| step.type_ == "deploy"));
        assert_eq!(application.apply_once, Some(ApplyOnce::Once));
    }
}

#[test]
fn a_step_joins_the_rules_of_the_policies_that_it_names() {
    let placement = |name: &str, rule: Value| {
        json!({"name": name, "type": "placement",
        "properties": {"placement": [rule], "remainder": "Spread"}})
    };
    let mut spec = valid();
    set(
        &mut spec,
        "/policies",
        json!([
            placement("a", json!({"replicas": 3})),
            placement("b", json!({"name": "b"}))
        ]),
    );
    set(
        &mut spec,
        "/workflow/steps",
        json!([{"type": "suspend", "properties": {"message": "look first"}},
            {"type": "deploy", "properties": {"policies": ["b", "a"], "wait": "applied", "auto": true}},
            {"type": "deploy", "properties": {"policies": ["b"], "auto": false}}]),
    );
    let application = accept(&spec);
    assert!(
        matches!(&application.steps[0].kind, StepKind::Suspend(s) if s.message.as_deref() == Some("look first"))
    );
    let StepKind::Deploy(deploy) = &application.steps[1].kind else {
        panic!("{application:?}")
    };
    let names: Vec<String> = deploy
        .placement
        .placement
        .iter()
        .enumerate()
        .map(|(i, r)| r.name_or_index(i))
        .collect();
    assert_eq!(names, ["b", "rule-1"]);
    assert_eq!(
        (deploy.wait, deploy.placement.remainder),
        (WaitFor::Applied, Remainder::Spread)
    );
}

#[test]
fn apply_once_for_the_whole_application_or_by_rules() {
    let kept = json!([{"strategy": {"path": ["spec.replicas"]}}]);
    for (properties, mode, rules) in [
        (json!({"enable": false}), Some(ApplyOnce::Never), 0),
        (json!({"enable": false, "rules": kept}), Some(ApplyOnce::Never), 0),
        (json!({"enable": true}), Some(ApplyOnce::Once), 0),
        (json!({"enable": true, "rules": []}), Some(ApplyOnce::Once), 0),
        (
            json!({"enable": true, "mode": "Force"}),
            Some(ApplyOnce::Force),
            0,
        ),
        // With rules only the rules count.
        (json!({"enable": true, "rules": kept}), None, 1),
    ] {
        let mut spec = valid();
        set(
            &mut spec,
            "/policies/-",
            json!({"name": "once", "type": "apply-once", "properties": properties}),
        );
        let application = accept(&spec);
        assert_eq!(application.apply_once, mode, "{properties}");
        assert_eq!(application.apply_once_rules.len(), rules, "{properties}");
    }
}

#[test]
fn the_rules_of_a_kubevela_policy_are_read_as_they_stand() {
    let mut spec = valid();
    set(
        &mut spec,
        "/policies/-",
        json!({"name": "once", "type": "apply-once", "properties": {"enable": true, "rules": [
            {"selector": {"componentNames": ["web"], "componentTypes": ["webservice"], "traitTypes": ["scaler"],
                "resourceTypes": ["Deployment"], "resourceNames": ["web"]},
             "strategy": {"path": ["spec.replicas", "spec.template.spec.containers[0].image"], "affect": "onUpdate"}},
            {"strategy": {"path": ["*"], "affect": ""}}]}}),
    );
    let rules = accept(&spec).apply_once_rules;
    let words = |list: &[&str]| list.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    assert_eq!(
        rules,
        [
            ApplyOnceRule {
                selector: Some(ApplyOnceSelector {
                    component_names: words(&["web"]),
                    component_types: words(&["webservice"]),
                    trait_types: words(&["scaler"]),
                    resource_types: words(&["Deployment"]),
                    resource_names: words(&["web"]),
                }),
                strategy: ApplyOnceStrategy {
                    path: words(&["spec.replicas", "spec.template.spec.containers[0].image"]),
                    affect: Affect::OnUpdate,
                },
            },
            ApplyOnceRule {
                selector: None,
                strategy: ApplyOnceStrategy {
                    path: words(&["*"]),
                    affect: Affect::Always,
                },
            },
        ]
    );
}

#[test]
fn bad_manifests_are_for_the_agent_to_refuse() {
    let objects = json!([null, 7, "x", [], {}, {"kind": 3}, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": 5},
        {"apiVersion": "x/v1", "kind": "AllowList", "spec": {}}]);
    let mut spec = valid();
    set(
        &mut spec,
        "/components/0",
        json!({"name": "o", "type": "k8s-objects", "properties": {"objects": objects}}),
    );
    let application = accept(&spec);
    assert!(
        matches!(&application.components[0].kind, ComponentKind::Objects(o) if json!(o.objects) == objects)
    );
}

#[test]
fn volumes_in_any_form_mean_the_same() {
    let kubernetes = json!({"image": "nginx",
        "volumes": [{"name": "conf", "configMap": {"name": "cm", "defaultMode": 420}}, {"name": "tmp", "emptyDir": {}}],
        "volumeMounts": [{"name": "conf", "mountPath": "/conf"}, {"name": "tmp", "mountPath": "/tmp"}]});
    let by_type = json!({"image": "nginx", "volumeMounts": {
        "configMap": [{"name": "conf", "mountPath": "/conf", "cmName": "cm"}],
        "emptyDir": [{"name": "tmp", "mountPath": "/tmp"}]}});
    let old = json!({"image": "nginx", "volumes": [
        {"name": "conf", "mountPath": "/conf", "type": "configMap", "cmName": "cm"},
        {"name": "tmp", "mountPath": "/tmp", "type": "emptyDir"}]});
    let read = |properties: Value| {
        let mut spec = valid();
        set(&mut spec, "/components/0/properties", properties);
        accept(&spec).components
    };
    let expected = read(kubernetes);
    assert!(matches!(&expected[0].kind, ComponentKind::Webservice(w) if w.worker.volume_mounts.len() == 2));
    assert_eq!(read(by_type), expected);
    assert_eq!(read(old), expected);
}

#[test]
fn kubevelas_properties_are_known() {
    let mut spec = valid();
    set(
        &mut spec,
        "/components/0/properties",
        json!({
            "image": "nginx:1", "imagePullPolicy": "IfNotPresent", "imagePullSecrets": ["regcred"],
            "cmd": ["nginx"], "args": ["-g", "daemon off;"], "cpu": "0.5", "memory": "128Mi", "replicas": 3,
            "env": [{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}],
            "ports": [{"port": 80, "expose": true}, {"port": 53, "protocol": "UDP", "name": "dns"},
                {"port": 53}, {"port": 443, "containerPort": 8443, "nodePort": 30443, "expose": true}],
            "exposeType": "NodePort",
            "labels": {"team": "a"}, "annotations": {"x/y": ""},
            "livenessProbe": {"httpGet": {"path": "/", "port": 80}, "initialDelaySeconds": 3},
            "readinessProbe": {"tcpSocket": {"port": "http"}, "timeoutSeconds": null},
            "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["db"]}],
            "volumeMounts": {
                "pvc": [{"name": "d", "mountPath": "/d", "claimName": "c"}, {"name": "d", "mountPath": "/e", "claimName": "c", "subPath": "e"}],
                "secret": [{"name": "s", "mountPath": "/s", "secretName": "s", "items": [{"key": "a", "path": "b"}]}],
                "hostPath": [{"name": "h", "mountPath": "/h", "path": "/var"}],
                "emptyDir": [{"name": "m", "mountPath": "/m", "medium": "Memory"}]}
        }),
    );
    let application = accept(&spec);
    let ComponentKind::Webservice(web) = &application.components[0].kind else {
        panic!("{application:?}")
    };
    assert_eq!((web.worker.volumes.len(), web.worker.volume_mounts.len()), (4, 5));
    let names: Vec<_> = web.ports.iter().map(|p| p.name.as_deref().unwrap()).collect();
    assert_eq!(names, ["port-80", "dns", "port-53", "port-443"]);
    assert_eq!(
        (web.ports[3].container_port, web.ports[3].node_port),
        (8443, Some(30443))
    );
}

#[test]
fn what_asks_for_nothing_is_no_reason_to_refuse() {
    let mut spec = valid();
    set(&mut spec, "/components/0/traits", json!([]));
    set(&mut spec, "/components/0/dependsOn", Value::Null);
    set(&mut spec, "/components/0/properties/env", Value::Null);
    set(&mut spec, "/workflow/steps/0/inputs", json!([]));
    set(&mut spec, "/workflow/steps/0/properties/tolerations", Value::Null);
    accept(&spec);
}

#[test]
fn application_names() {
    assert!(check_application_name(&"a".repeat(50)).is_ok());
    let error = check_application_name(&"a".repeat(51)).unwrap_err().to_string();
    assert!(
        error.contains("application name") && error.contains("1 to 50"),
        "{error}"
    );
    assert!(check_application_name("my.app").is_err());
}
