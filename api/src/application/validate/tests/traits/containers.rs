//! Traits that change containers: `env`, `resource` and `sidecar`.

use super::{check, objects, one, settings, task, web, workload};
use serde_json::json;

#[test]
fn env_sets_and_unsets_variables_of_a_container() {
    let of = |name: &str| format!("spec.template.spec.containers[web].env[{name}]");
    assert_eq!(
        settings(
            &web(),
            "env",
            &json!({"env": {"C": "3", "A": "x"}, "unset": ["B", "Z"]})
        ),
        [
            format!("{} = {{\"name\":\"A\",\"value\":\"x\"}}", of("A")),
            format!("{} = {{\"name\":\"C\",\"value\":\"3\"}}", of("C")),
            format!("{} removed", of("B")),
            format!("{} removed", of("Z")),
        ]
    );
    assert_eq!(
        settings(&web(), "env", &json!({"replace": true, "env": {"A": "x"}})),
        [
            format!("{} = {{\"name\":\"A\",\"value\":\"x\"}}", of("A")),
            format!("{} removed", of("B")),
        ]
    );
    let two = objects(&[workload("Deployment", "d")]);
    assert_eq!(
        settings(
            &two,
            "env",
            &json!({"containers": [{"containerName": "main", "env": {"A": "1"}}, {"containerName": "aux", "env": {"A": "2"}}]})
        )
        .len(),
        2
    );
    for (component, properties, expected) in [
        (
            &two,
            json!({"env": {"A": "1"}}),
            ": Deployment \"d\" has several containers, and none is named like the component: set containerName to one of main, aux",
        ),
        (
            &two,
            json!({"containerName": "mian", "env": {"A": "1"}}),
            ".containerName: Deployment \"d\" has no container \"mian\"; known here: main, aux",
        ),
        (
            &two,
            json!({"containers": [{"env": {"A": "1"}}]}),
            ".containers[0].containerName: is required: name one of main, aux",
        ),
        (
            &two,
            json!({"containers": [], "env": {"A": "1"}}),
            ": has containers beside settings of one container: list that one in containers too",
        ),
        (
            &two,
            json!({"containers": []}),
            ": changes nothing: list containers, or leave the trait out",
        ),
        (
            &web(),
            json!({}),
            ": changes nothing: set env or unset, or leave the trait out",
        ),
        (
            &web(),
            json!({"env": {"A": 1}}),
            ".env.A: expected a string, found 1: put it in quotes",
        ),
        (
            &web(),
            json!({"env": {"A=": "1"}}),
            ".env[\"A=\"]: is no name of an environment variable",
        ),
        (
            &web(),
            json!({"env": {"A": "1"}, "unset": ["A"]}),
            ".unset[0]: \"A\" is set in env and unset here: say it in one of them",
        ),
        (
            &web(),
            json!({"replace": "yes"}),
            ".replace: expected true or false, found \"yes\"",
        ),
    ] {
        one(component, "env", &properties, &format!(".properties{expected}"));
    }
}

#[test]
fn resource_sets_requests_and_limits() {
    let of = |path: &str| format!("spec.template.spec.containers[web].resources.{path}");
    assert_eq!(
        settings(&web(), "resource", &json!({"cpu": 0.5, "memory": "1Gi"})),
        [
            format!("{} = \"0.5\"", of("requests.cpu")),
            format!("{} = \"0.5\"", of("limits.cpu")),
            format!("{} = \"1Gi\"", of("requests.memory")),
            format!("{} = \"1Gi\"", of("limits.memory")),
        ]
    );
    // Of several containers the first, as in KubeVela, unless one is named like the component.
    let two = objects(&[workload("Deployment", "d")]);
    assert_eq!(
        settings(
            &two,
            "resource",
            &json!({"requests": {"cpu": 1}, "limits": {"memory": "1G"}})
        ),
        [
            "spec.template.spec.containers[main].resources.requests.cpu = \"1\"",
            "spec.template.spec.containers[main].resources.limits.memory = \"1G\"",
        ]
    );
    for (properties, expected) in [
        (
            json!({}),
            ": changes nothing: set cpu or memory, or requests and limits",
        ),
        (
            json!({"cpu": 1, "limits": {"cpu": 2}}),
            ": has cpu or memory, which mean requests and limits, beside requests or limits: use one of the forms",
        ),
        (
            json!({"cpu": "lots"}),
            ".cpu: \"lots\" is not a Kubernetes quantity: write a number with an optional suffix, such as \"500m\", \"0.5\" or \"128Mi\"",
        ),
        (
            json!({"memory": 5}),
            ".memory: expected a string, found 5: put it in quotes",
        ),
        (
            json!({"requests": {"gpu": 1}}),
            ".requests.gpu: unknown field: did you mean \"cpu\"? known here: cpu, memory",
        ),
    ] {
        one(&web(), "resource", &properties, &format!(".properties{expected}"));
    }
    check(
        &web(),
        &json!([{"type": "resource", "properties": {"requests": {"cpu": "1500m"}}}]),
        ": with these, container \"web\" of Deployment \"web\" requests cpu 1500m, more than its limit 1: set both in the \
         trait resource",
    );
}

#[test]
fn a_sidecar_is_another_container() {
    let of = |path: &str| format!("spec.template.spec.containers[log].{path}");
    let probe = json!({"tcpSocket": {"port": 80}});
    assert_eq!(
        settings(
            &web(),
            "sidecar",
            &json!({"name": "log", "image": "fluentd", "cmd": ["a"], "args": ["b"], "env": [{"name": "X", "value": "1"}],
                "volumes": [{"name": "data", "path": "/data"}], "livenessProbe": probe, "readinessProbe": probe})
        ),
        [
            format!("{} = \"fluentd\"", of("image")),
            format!("{} = [\"a\"]", of("command")),
            format!("{} = [\"b\"]", of("args")),
            format!(
                "{} = [{{\"mountPath\":\"/data\",\"name\":\"data\"}}]",
                of("volumeMounts")
            ),
            format!("{} = {probe}", of("livenessProbe")),
            format!("{} = {probe}", of("readinessProbe")),
            format!("{} = {{\"name\":\"X\",\"value\":\"1\"}}", of("env[X]")),
        ]
    );
    let mut starting = workload("Deployment", "d");
    starting["spec"]["template"]["spec"]["initContainers"] = json!([{"name": "init", "image": "x"}]);
    for (component, properties, expected) in [
        (
            &web(),
            json!({"image": "x"}),
            ".name: is required: name the sidecar",
        ),
        (
            &web(),
            json!({"name": "log"}),
            ".image: is required: name a container image",
        ),
        (
            &web(),
            json!({"name": "Log", "image": "x"}),
            ".name: name of a sidecar \"Log\" is not a DNS label: use lower-case letters, digits and '-', starting and ending with a letter or digit",
        ),
        (
            &web(),
            json!({"name": "web", "image": "x"}),
            ".name: Deployment \"web\" has a container \"web\" already: give the sidecar another name",
        ),
        (
            &objects(&[starting]),
            json!({"name": "init", "image": "x"}),
            ".name: Deployment \"d\" has a container \"init\" already: give the sidecar another name",
        ),
        (
            &web(),
            json!({"name": "log", "image": "x", "volumes": [{"name": "dta", "path": "/d"}]}),
            ".volumes[0].name: Deployment \"web\" has no volume \"dta\": known here: data",
        ),
        (
            &task(),
            json!({"name": "log", "image": "x", "volumes": [{"name": "d", "path": "/d"}]}),
            ".volumes[0].name: Job \"once\" has no volume \"d\": it has none",
        ),
        (
            &web(),
            json!({"name": "log", "image": "x", "volumes": [{"name": "data"}]}),
            ".volumes[0].path: is required: say where it is mounted",
        ),
        (
            &web(),
            json!({"name": "log", "image": "x", "env": [{"name": "A"}, {"name": "A"}]}),
            ".env[1].name: environment variable \"A\" is set twice",
        ),
        (
            &web(),
            json!({"name": "log", "image": "x", "livenessProbe": {"httpget": {}}}),
            ".livenessProbe.httpget: unknown field: did you mean \"httpGet\"? known here: exec, failureThreshold, grpc, httpGet, initialDelaySeconds, periodSeconds, successThreshold, tcpSocket, terminationGracePeriodSeconds, timeoutSeconds",
        ),
        (
            &web(),
            json!({"name": "log", "image": "x", "ports": []}),
            ".ports: unknown field: known here: name, image, cmd, args, env, volumes, livenessProbe, readinessProbe",
        ),
    ] {
        one(
            component,
            "sidecar",
            &properties,
            &format!(".properties{expected}"),
        );
    }
}
