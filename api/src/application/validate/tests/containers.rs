//! One row per rule on the properties of a webservice; a worker's are the same but for ports.

use super::{check, refused, set, valid};
use serde_json::{Value, json};

/// Changes one property of the webservice.
fn property(name: &str, value: Value, start: &str, part: &str) {
    let start = format!("spec.components[0].properties{start}");
    check(&format!("/components/0/properties/{name}"), value, &start, part);
}

#[test]
fn containers() {
    for (name, value, start, part) in [
        (
            "image",
            Value::Null,
            ".image: ",
            "is required: name a container image",
        ),
        ("image", json!(" "), ".image: ", "is empty"),
        (
            "image",
            json!(["nginx"]),
            ".image: ",
            "expected a string, found a list",
        ),
        ("cmd", json!("nginx"), ".cmd: ", "expected a list"),
        (
            "args",
            json!(["a", 1]),
            ".args[1]: ",
            "expected a string, found 1: put it in quotes",
        ),
        (
            "cpu",
            json!("half"),
            ".cpu: ",
            "\"half\" is not a Kubernetes quantity",
        ),
        (
            "cpu",
            json!(0.5),
            ".cpu: ",
            "expected a string, found 0.5: put it in quotes",
        ),
        (
            "memory",
            json!("128mb"),
            ".memory: ",
            "\"128mb\" is not a Kubernetes quantity",
        ),
        (
            "replicas",
            json!("3"),
            ".replicas: ",
            "expected an integer from 0 to 2147483647, found \"3\"",
        ),
        ("replicas", json!(-1), ".replicas: ", "expected an integer"),
        (
            "replicas",
            json!(3_000_000_000_u64),
            ".replicas: ",
            "expected an integer",
        ),
        (
            "imagePullPolicy",
            json!("always"),
            ".imagePullPolicy: ",
            "did you mean \"Always\"?",
        ),
        (
            "imagePullSecrets",
            json!([""]),
            ".imagePullSecrets[0]: ",
            "is empty",
        ),
        (
            "addRevisionLabel",
            json!(true),
            ".addRevisionLabel: ",
            "restarts the pods",
        ),
        (
            "labels",
            json!({"a": 1}),
            ".labels.a: ",
            "expected a string, found 1",
        ),
        (
            "labels",
            json!({"app.oam.dev/x": "1"}),
            ".labels[\"app.oam.dev/x\"]: ",
            "written by the hub",
        ),
        ("annotations", json!("x"), ".annotations: ", "expected a map"),
        ("env", json!({"A": "1"}), ".env: ", "expected a list, found a map"),
        (
            "env",
            json!([{"name": "A", "val": "1"}]),
            ".env[0].val: ",
            "unknown field: did you mean \"value\"?",
        ),
        (
            "env",
            json!([{"name": "A", "value": 1}]),
            ".env[0].value: ",
            "expected a string, found 1: put it in quotes",
        ),
        ("env", json!([{"value": "1"}]), ".env[0].name: ", "is required"),
        ("env", json!([{"name": ""}]), ".env[0].name: ", "is empty"),
        (
            "env",
            json!([{"name": "A"}, {"name": "A"}]),
            ".env[1].name: ",
            "\"A\" is set twice",
        ),
        (
            "env",
            json!([{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "kee": "k", "key": "k"}}}]),
            ".env[0].valueFrom.secretKeyRef.kee: ",
            "did you mean \"key\"?",
        ),
        (
            "livenessProbe",
            json!({"httpGet": {"port": 80, "pth": "/"}}),
            ".livenessProbe.httpGet.pth: ",
            "did you mean \"path\"?",
        ),
        (
            "livenessProbe",
            json!({"httpGet": {"path": "/"}}),
            ".livenessProbe.httpGet.port: ",
            "is required",
        ),
        (
            "readinessProbe",
            json!({"tcpSocket": {"port": 1.5}}),
            ".readinessProbe.tcpSocket.port: ",
            "expected an integer or a string",
        ),
        (
            "readinessProbe",
            json!({"exec": {"command": "ls"}}),
            ".readinessProbe.exec.command: ",
            "expected a list",
        ),
        (
            "readinessProbe",
            json!({"periodSeconds": "10"}),
            ".readinessProbe.periodSeconds: ",
            "expected an integer",
        ),
        (
            "hostAliases",
            json!([{"hostnames": []}]),
            ".hostAliases[0].ip: ",
            "is required",
        ),
    ] {
        property(name, value, start, part);
    }
}

#[test]
fn ports() {
    for (value, start, part) in [
        (
            json!([{"port": 0}]),
            "[0].port: ",
            "expected an integer from 1 to 65535, found 0",
        ),
        (
            json!([{"port": 65_536}]),
            "[0].port: ",
            "expected an integer from 1 to 65535",
        ),
        (json!([{"port": "80"}]), "[0].port: ", "expected an integer"),
        (json!([{"name": "http"}]), "[0].port: ", "is required"),
        (
            json!([{"port": 80, "containerPort": -1}]),
            "[0].containerPort: ",
            "expected an integer",
        ),
        (
            json!([{"port": 80}, {"port": 80, "name": "b"}]),
            "[1]: ",
            "port 80/TCP is listed twice",
        ),
        (
            json!([{"port": 80, "name": "a"}, {"port": 81, "name": "a"}]),
            "[1]: ",
            "port name \"a\" is used twice",
        ),
        (
            json!([{"port": 80, "name": "HTTP"}]),
            "[0].name: ",
            "is not a port name",
        ),
        (
            json!([{"port": 80, "name": "a-name-of-sixteen"}]),
            "[0].name: ",
            "at most 15",
        ),
        (
            json!([{"port": 80, "name": "80"}]),
            "[0].name: ",
            "at least one letter",
        ),
        (
            json!([{"port": 80, "protocol": "HTTP"}]),
            "[0].protocol: ",
            "known here: TCP, UDP, SCTP",
        ),
        (
            json!([{"port": 80, "expose": "yes"}]),
            "[0].expose: ",
            "expected true or false",
        ),
        (
            json!([{"port": 80, "expose": true, "nodePort": 30_000}]),
            "[0].nodePort: ",
            "needs exposeType",
        ),
        (
            json!([{"port": 80, "targetPort": 8080}]),
            "[0].targetPort: ",
            "unknown field",
        ),
    ] {
        property("ports", value, &format!(".ports{start}"), part);
    }
    property(
        "exposeType",
        json!("ExternalName"),
        ".exposeType: ",
        "known here: ClusterIP, NodePort, LoadBalancer",
    );
    property("port", json!(0), ".port: ", "expected an integer from 1 to 65535");
    let mut spec = valid();
    set(
        &mut spec,
        "/components/0/properties",
        json!({"image": "x", "port": 80, "ports": [{"port": 80, "nodePort": 30_000}], "exposeType": "NodePort"}),
    );
    assert_eq!(
        refused(&spec),
        [
            "spec.components[0].properties.port: cannot be used beside ports: list it there",
            "spec.components[0].properties.ports[0].nodePort: needs expose: true",
        ]
    );
    set(
        &mut spec,
        "/components/0",
        json!({"name": "w", "type": "worker", "properties": {"image": "x", "ports": [{}]}}),
    );
    assert_eq!(
        refused(&spec),
        ["spec.components[0].properties.ports: a worker has no ports: use the type webservice"]
    );
}

#[test]
fn volumes() {
    for (name, value, start, part) in [
        (
            "volumes",
            json!([{"name": "a", "emptydir": {}}]),
            ".volumes[0].emptydir: ",
            "did you mean \"emptyDir\"?",
        ),
        (
            "volumes",
            json!([{"emptyDir": {}}]),
            ".volumes[0].name: ",
            "is required",
        ),
        (
            "volumes",
            json!([{"name": "a", "configMap": {"name": "c", "items": [{"key": "k"}]}}]),
            ".volumes[0].configMap.items[0].path: ",
            "is required",
        ),
        (
            "volumes",
            json!([{"name": "a", "mountPath": "/a", "type": "nfs"}]),
            ".volumes[0].type: ",
            "known here: pvc, configMap",
        ),
        (
            "volumes",
            json!([{"name": "a", "mountPath": "/a", "type": "pvc"}]),
            ".volumes[0].claimName: ",
            "is required",
        ),
        (
            "volumes",
            json!([{"name": "a", "mountPath": "/a", "type": "emptyDir", "claimName": "c"}]),
            ".volumes[0].claimName: ",
            "unknown field",
        ),
        (
            "volumes",
            json!([{"name": "a", "emptyDir": {}}, {"name": "a", "emptyDir": {}}]),
            ": ",
            "volume \"a\" is defined twice",
        ),
        (
            "volumeMounts",
            json!([{"name": "a", "mountPath": "/a"}]),
            ": ",
            "volumeMounts names volume \"a\"",
        ),
        ("volumeMounts", json!("x"), ".volumeMounts: ", "expected a list"),
        (
            "volumeMounts",
            json!({"pvcs": []}),
            ".volumeMounts.pvcs: ",
            "did you mean \"pvc\"?",
        ),
        (
            "volumeMounts",
            json!({"pvc": [{"name": "a", "claimName": "c"}]}),
            ".volumeMounts.pvc[0].mountPath: ",
            "is required",
        ),
        (
            "volumeMounts",
            json!({"configMap": [{"name": "a", "mountPath": "/a", "cmName": "c", "defaultMode": 512}]}),
            ".volumeMounts.configMap[0].defaultMode: ",
            "from 0 to 511",
        ),
        (
            "volumeMounts",
            json!({"secret": [{"name": "a", "mountPath": "/a", "secretName": "s", "items": [{"key": "k", "path": "p", "mod": 1}]}]}),
            ".volumeMounts.secret[0].items[0].mod: ",
            "did you mean \"mode\"?",
        ),
        (
            "volumeMounts",
            json!({"emptyDir": [{"name": "a", "mountPath": "/a", "medium": "Disk"}]}),
            ".volumeMounts.emptyDir[0].medium: ",
            "Memory",
        ),
    ] {
        property(name, value, start, part);
    }
    let mut spec = valid();
    set(
        &mut spec,
        "/components/0/properties",
        json!({"image": "x", "volumeMounts": {"emptyDir": [{"name": "a", "mountPath": "/a"}]}, "volumes": [{"name": "a", "emptyDir": {}}]}),
    );
    assert_eq!(
        refused(&spec),
        [
            "spec.components[0].properties.volumes: cannot be used beside volumeMounts by type: move its entries there"
        ]
    );
}
