//! Every refusal by its exact words, and what is understood.

use crate::application::{
    ActionKind, ActionProperties, Body, Channel, HttpMethod, REQUEST_TIMEOUT, SecretKey, StatusRange,
    TextSource, check_header, check_url,
};
use serde_json::{Value, json};
use std::time::Duration;

fn lines(type_: &str, properties: &Value) -> Vec<String> {
    let read = ActionProperties::read(type_, properties);
    read.err().into_iter().flatten().map(|v| v.to_string()).collect()
}

fn understood(type_: &str, properties: &Value) -> ActionProperties {
    ActionProperties::read(type_, properties).unwrap_or_else(|refused| panic!("{properties}: {refused:?}"))
}

/// One refusal, in these words.
#[track_caller]
fn refuse(type_: &str, properties: &Value, says: &str) {
    assert_eq!(lines(type_, properties), [says], "{type_} {properties}");
}

#[test]
fn requests_are_refused_by_name() {
    let with = |field: &str, value: Value| {
        let mut properties = json!({"url": "https://example.org"});
        properties[field] = value;
        properties
    };
    for (properties, says) in [
        (
            json!({}),
            "properties.url: is required: name the address, such as https://example.org/hook",
        ),
        (
            Value::Null,
            "properties.url: is required: name the address, such as https://example.org/hook",
        ),
        (json!([]), "properties: expected a map, found a list"),
        (
            json!({"url": 3}),
            "properties.url: expected a string, found 3: put it in quotes",
        ),
        (
            json!({"url": "example.org"}),
            "properties.url: is no address: write one such as https://example.org/hook",
        ),
        (
            json!({"url": "file:///etc/passwd"}),
            "properties.url: has the scheme \"file\": only http and https are sent",
        ),
        (
            json!({"url": "https://user:pw@example.org/"}),
            "properties.url: has a user or password in it: put them into a header whose value comes from a Secret",
        ),
        (
            json!({"url": "http:///path"}),
            "properties.url: names no host: write one such as https://example.org/hook",
        ),
        (
            json!({"url": "https://example.org/a b"}),
            "properties.url: has characters that an address cannot have: encode them as %XX",
        ),
        (
            json!({"url": {}}),
            "properties.url: is empty: write value, or valueFrom: {secretKeyRef: {name, key}}",
        ),
        (
            json!({"url": {"value": "https://x", "secretRef": {"name": "s", "key": "k"}}}),
            "properties.url: value and secretRef exclude each other: keep one",
        ),
        (
            json!({"url": {"secretRef": {"name": "s"}}}),
            "properties.url.secretRef.key: is required: name the key of the Secret",
        ),
        (
            json!({"url": {"secretRef": {"name": "../s", "key": "k"}}}),
            "properties.url.secretRef.name: \"../s\" is no name of a Secret",
        ),
        (
            json!({"url": {"valueFrom": {"secretKeyRef": {"namespace": "kube-system", "name": "s", "key": "k"}}}}),
            "properties.url.valueFrom.secretKeyRef.namespace: a Secret is read in the application's namespace only: leave it out",
        ),
        (
            json!({"url": {"valueFrom": {"configMapKeyRef": {"name": "s", "key": "k"}, "secretKeyRef": {"name": "s", "key": "k"}}}}),
            "properties.url.valueFrom.configMapKeyRef: configMapKeyRef is not supported: use secretKeyRef, or write the value",
        ),
        (
            with("retries", json!(3)),
            "properties.retries: unknown field: known here: url, method, headers, header, body, timeout, expectedStatus",
        ),
        (
            with("data", json!({"a": 1})),
            "properties.data: data is webhook's: of a request write body",
        ),
        (
            with("method", json!("LIST")),
            "properties.method: \"LIST\" is not known here: known here: GET, HEAD, POST, PUT, PATCH, DELETE",
        ),
        (
            with("timeout", json!("90s")),
            "properties.timeout: \"90s\" is too long: a request may take 60 s at most; for longer work ask for its state with the next try",
        ),
        (
            with("timeout", json!("soon")),
            "properties.timeout: \"soon\" is no duration above zero: write one such as 30s, 10m or 1h30m",
        ),
        (
            with("expectedStatus", json!("ok")),
            "properties.expectedStatus: \"ok\" is no status: write a status such as 200, a class such as \"2xx\", a range such as \"200-204\", or \"any\"",
        ),
        (
            with("expectedStatus", json!([200, 99])),
            "properties.expectedStatus[1]: 99 is no status: write a status such as 200, a class such as \"2xx\", a range such as \"200-204\", or \"any\"",
        ),
        (
            with("expectedStatus", json!([])),
            "properties.expectedStatus: is empty: write a status such as 200, a class such as \"2xx\", a range such as \"200-204\", or \"any\", or leave it out for 2xx",
        ),
        (
            with("headers", json!({"a b": "x"})),
            "properties.headers[\"a b\"]: \"a b\" is no name of a header",
        ),
        (
            with("headers", json!({"Host": "x"})),
            "properties.headers.Host: is set by the hub: leave it out",
        ),
        (
            with("headers", json!({"A": "x", "a": "y"})),
            "properties.headers.a: is given twice, in another case: keep one of them",
        ),
        (
            with("headers", json!({"a": "x\r\ny: z"})),
            "properties.headers.a: has characters that a header cannot have, such as a line break",
        ),
        (
            with("headers", json!({"a": 3})),
            "properties.headers.a: expected a string, found 3: put it in quotes",
        ),
    ] {
        refuse("request", &properties, says);
    }
    refuse(
        "request",
        &json!({"url": "https://x", "headers": {"a": "b"}, "header": {"c": "d"}}),
        "properties.header: is another name of headers: keep one of them",
    );
    refuse(
        "request",
        &json!({"url": "https://x", "method": "GET", "body": {}}),
        "properties.body: a GET has no body: leave it out, or set method to POST or PUT",
    );
    refuse(
        "webhook",
        &json!({"url": "https://x", "method": "GET", "data": {}}),
        "properties.data: a GET has no body: leave it out, or leave method out",
    );
    refuse(
        "webhook",
        &json!({"url": "https://x", "body": 1, "data": {}}),
        "properties.body: is another name of data: keep one of them",
    );
    assert_eq!(
        lines("deploy", &json!({})),
        ["type: \"deploy\" is no step that acts"]
    );
}

#[test]
fn notifications_are_refused_by_name() {
    for (properties, says) in [
        (
            json!({"email": {"to": ["a@example.org"]}}),
            "properties.email: email is not supported: use slack, teams, or webhook",
        ),
        (
            json!({"dingding": {"url": {"value": "https://x"}}}),
            "properties.dingding: dingding is not supported: use slack, teams, or webhook",
        ),
        (
            json!({"lark": {"url": {"value": "https://x"}}}),
            "properties.lark: lark is not supported: use slack, teams, or webhook",
        ),
        (
            json!({"slak": {}}),
            "properties.slak: unknown field: did you mean \"slack\"? known here: message, slack, teams, webhook",
        ),
        (
            json!({"slack": {"message": {"text": "x"}}}),
            "properties.slack.url: is required: name the address, such as https://example.org/hook",
        ),
        (
            json!({"slack": {"url": {"value": "https://x"}, "message": "hello"}}),
            "properties.slack.message: expected a map, found \"hello\"",
        ),
        (
            json!({"slack": {"url": {"value": "https://x"}, "message": {"text": "x", "channel": "#general"}}}),
            "properties.slack.message.channel: unknown field: known here: text, blocks, attachments, thread_ts, mrkdwn",
        ),
        (
            json!({"slack": {"url": {"value": "https://x"}, "message": {"blocks": {}}}}),
            "properties.slack.message.blocks: expected a list, found a map",
        ),
        (
            json!({"teams": {"url": "https://x", "message": {"text": ""}}}),
            "properties.teams.message.text: is empty",
        ),
    ] {
        refuse("notification", &properties, says);
    }
}

#[test]
fn objects_are_refused_by_name() {
    let map = |kind: &str, group: &str| json!({"apiVersion": group, "kind": kind, "name": "x"});
    let value =
        |metadata: Value| json!({"value": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}});
    for (type_, properties, says) in [
        (
            "apply-object",
            json!({}),
            "properties.value: is required: write the object",
        ),
        (
            "apply-object",
            json!({"value": []}),
            "properties.value: expected a map, found a list",
        ),
        (
            "apply-object",
            json!({"value": {"apiVersion": "v1", "kind": "ConfigMap"}}),
            "properties.value.metadata: is required: name the object under metadata.name",
        ),
        (
            "apply-object",
            value(json!({})),
            "properties.value.metadata.name: is required: name the object",
        ),
        (
            "apply-object",
            value(json!({"name": "a/b"})),
            "properties.value.metadata.name: \"a/b\" is no name of an object",
        ),
        (
            "apply-object",
            value(json!({"name": "x", "namespace": ".."})),
            "properties.value.metadata.namespace: \"..\" is no name of a namespace",
        ),
        (
            "apply-object",
            value(json!({"name": "x", "finalizers": ["a"]})),
            "properties.value.metadata.finalizers: finalizers cannot be set here: leave it out",
        ),
        (
            "apply-object",
            json!({"cluster": "c1", "value": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}}),
            "properties.cluster: is not known here: write clusters: [c1, c2], or labels such as clusters: {region: east}",
        ),
        (
            "read-object",
            json!({"clusters": ["c1"], "apiVersion": "v1", "kind": "ConfigMap", "name": "x"}),
            "properties.clusters: cannot come from an input: write the clusters, or their labels",
        ),
        (
            "delete-object",
            map("ConfigMap", "v1/"),
            "properties.apiVersion: \"v1/\" is no API version: write one such as v1 or apps/v1",
        ),
        (
            "delete-object",
            map("Config/Map", "v1"),
            "properties.kind: \"Config/Map\" is no kind: write one such as ConfigMap",
        ),
        (
            "read-object",
            map("Secret", "v1"),
            "properties.kind: Secrets are not read by steps: their content would stand in the application's status; take a header of a request from one by valueFrom.secretKeyRef",
        ),
        (
            "delete-object",
            map("Secret", "v1"),
            "properties.kind: Secrets are not written by steps: they give rights that their author may not have; create it beside the application",
        ),
        (
            "delete-object",
            map("RoleBinding", "rbac.authorization.k8s.io/v1"),
            "properties.kind: RoleBindings are not written by steps: they give rights that their author may not have; create it beside the application",
        ),
        (
            "delete-object",
            map("Bundle", "roundhouse.dev/v1alpha1"),
            "properties.kind: objects of roundhouse.dev are the hub's own or its users': steps may only read them",
        ),
        (
            "delete-object",
            map("Application", "core.oam.dev/v1beta1"),
            "properties.kind: objects of core.oam.dev are the hub's own or its users': steps may only read them",
        ),
    ] {
        refuse(type_, &properties, says);
    }
    assert_eq!(lines("read-object", &json!({"kind": "ConfigMap"})).len(), 2);
    let read = understood("read-object", &map("Bundle", "roundhouse.dev/v1alpha1"));
    assert_eq!(read.step_type(), "read-object");
}

#[test]
fn requests_are_understood() {
    let ActionProperties::Request(plain) =
        understood("request", &json!({"url": "http://10.0.0.1:8080/x?y=z"}))
    else {
        panic!("no request");
    };
    assert_eq!((plain.method, &plain.body), (HttpMethod::Get, &Body::Empty));
    assert_eq!(plain.timeout, REQUEST_TIMEOUT);
    assert!(plain.expected.contains(204) && !plain.expected.contains(404));
    let secret = |name: &str, key: &str| {
        TextSource::Secret(SecretKey {
            name: name.to_owned(),
            key: key.to_owned(),
        })
    };
    let ActionProperties::Request(full) = understood(
        "request",
        &json!({"url": {"valueFrom": {"secretKeyRef": {"name": "s", "key": "url"}}}, "body": {"a": 1}, "timeout": "500ms",
            "expectedStatus": [201, "4xx"],
            "headers": {"Authorization": {"valueFrom": {"secretKeyRef": {"name": "s", "key": "token"}}}, "X-A": "b"}}),
    ) else {
        panic!("no request");
    };
    assert_eq!(
        (full.method, full.body),
        (HttpMethod::Post, Body::Json(json!({"a": 1})))
    );
    assert_eq!(
        (full.url, full.timeout),
        (secret("s", "url"), Duration::from_millis(500))
    );
    assert_eq!(
        full.headers,
        [
            ("authorization".to_owned(), secret("s", "token")),
            ("x-a".to_owned(), TextSource::Plain("b".to_owned()))
        ]
    );
    assert_eq!(
        full.expected.0,
        [StatusRange::one(201), StatusRange { from: 400, to: 499 }]
    );
    // KubeVela's forms.
    let ActionProperties::Webhook(webhook) = understood(
        "webhook",
        &json!({"url": {"secretRef": {"name": "s", "key": "url"}}}),
    ) else {
        panic!("no webhook");
    };
    assert_eq!(
        (webhook.method, webhook.body, webhook.url),
        (HttpMethod::Post, Body::Application, secret("s", "url"))
    );
    let ActionProperties::Webhook(webhook) =
        understood("webhook", &json!({"url": {"value": "https://x"}, "data": "text"}))
    else {
        panic!("no webhook");
    };
    assert_eq!(webhook.body, Body::Text("text".to_owned()));
}

#[test]
fn notifications_are_understood() {
    let ActionProperties::Notification(seed) = understood("notification", &Value::Null) else {
        panic!("no notification");
    };
    assert_eq!((seed.text, seed.channels), (None, vec![]));
    let ActionProperties::Notification(all) = understood(
        "notification",
        &json!({"message": "done", "slack": {"url": {"value": "https://s"}, "message": {"text": "x", "blocks": null, "mrkdwn": true}},
            "teams": {"url": "https://t"}, "webhook": {"url": "https://w", "message": {"text": "y"}}}),
    ) else {
        panic!("no notification");
    };
    assert_eq!(all.text.as_deref(), Some("done"));
    let plain = |url: &str| TextSource::Plain(url.to_owned());
    assert_eq!(
        all.channels,
        [
            Channel::Slack {
                url: plain("https://s"),
                message: json!({"text": "x", "mrkdwn": true}).as_object().cloned().unwrap(),
            },
            Channel::Teams {
                url: plain("https://t"),
                text: None
            },
            Channel::Webhook {
                url: plain("https://w"),
                text: Some("y".to_owned())
            },
        ]
    );
}

#[test]
fn objects_are_understood() {
    let object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x", "namespace": "n"}, "spec": {}});
    let ActionProperties::ApplyObject(apply) = understood("apply-object", &json!({"value": object})) else {
        panic!("no object");
    };
    assert_eq!(apply.value, object);
    let named = &apply.object;
    assert_eq!(
        (
            named.group(),
            named.version(),
            named.namespace.as_deref(),
            named.to_string().as_str()
        ),
        ("apps", "v1", Some("n"), "Deployment x")
    );
    for kind in ActionKind::ALL {
        assert_eq!(ActionKind::of_type(kind.as_str()), Some(kind));
    }
}

#[test]
fn what_an_input_brings_is_not_missed() {
    use crate::application::validate;
    let spec = |step: Value| {
        json!({"components": [{"name": "web", "type": "worker", "properties": {"image": "x"}}],
            "workflow": {"steps": [
                {"name": "a", "type": "deploy", "properties": {"placement": [{}]}},
                {"name": "b", "type": "export", "properties": {"value": "https://x"}, "outputs": [{"name": "u", "valueFrom": "output"}]},
                step]}})
    };
    let step = |key: &str, properties: Value| json!({"name": "c", "type": "request", "properties": properties, "inputs": [{"from": "u", "parameterKey": key}]});
    assert_eq!(
        validate(&spec(step("url", json!({"method": "POST"})))).err(),
        None
    );
    assert_eq!(validate(&spec(step("url.value", json!({})))).err(), None);
    let refused = validate(&spec(step(
        "body.a",
        json!({"url": "https://x", "headers": {"a": 1}}),
    )))
    .unwrap_err();
    let refused: Vec<String> = refused.iter().map(ToString::to_string).collect();
    assert_eq!(
        refused,
        ["spec.workflow.steps[2].properties.headers.a: expected a string, found 1: put it in quotes"]
    );
}

#[test]
fn addresses_and_headers_out_of_secrets_are_checked_without_showing_them() {
    for (url, says) in [
        ("hunter2", "is no address"),
        ("ftp://hunter2", "scheme \"ftp\""),
        ("http://hunter2@x", "user or password"),
        ("http://x/hunter2\n", "characters"),
        ("http://:80/hunter2", "names no host"),
    ] {
        let error = check_url(url).unwrap_err();
        assert!(
            error.contains(says) && !error.contains("hunter2"),
            "{url}: {error}"
        );
    }
    let long = check_url(&format!("{}://x", "é".repeat(25_000))).unwrap_err();
    let shown = format!(
        "has the scheme \"{}\"…: only http and https are sent",
        "é".repeat(20)
    );
    assert_eq!(long, shown);
    assert_eq!(check_url("HTTPS://example.org:8443/a?b=c%20d#e"), Ok(()));
    assert_eq!(check_url("http://[::1]:80/"), Ok(()));
    assert!(!check_header("hunter2\n").unwrap_err().contains("hunter2"));
    assert_eq!(check_header("Bearer a\tb"), Ok(()));
}
