//! What is delivered: applications whose Bundles are five objects and 3.4 KB.

use roundhouse_api::{application::Application, bundle::Bundle, hash};
use serde_json::{Value, json};

/// Bytes of a Bundle's manifests, as canonical JSON; names of applications make a difference of a few.
pub(crate) const BUNDLE_BYTES: usize = 3_400;
/// Bytes of text in the ConfigMaps that make it so, with names of eight letters.
const FILLING: usize = 110;

/// The label that all clusters of a fleet have.
pub(crate) const FLEET: (&str, &str) = ("fleet", "figures");
/// The label by which a cluster is placed on alone.
pub(crate) const NUMBER: &str = "number";
/// Where the image is in an Application.
pub(crate) const IMAGE: &str =
    "/spec/components/0/properties/objects/0/spec/template/spec/containers/0/image";

/// Whether bytes have these among them.
pub(crate) fn has(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

/// The image of a version.
pub(crate) fn image(version: usize) -> String {
    format!("registry.example.org/figures/web:v{version}")
}

/// The version in an image.
fn version_of(image: &str) -> Option<usize> {
    image.rsplit_once(":v")?.1.parse().ok()
}

/// An application of five objects with so many replicas, placed on the clusters with a label.
pub(crate) fn application(name: &str, replicas: usize, (key, value): (&str, &str)) -> Application {
    let labels = json!({"app.kubernetes.io/name": name, "app.kubernetes.io/part-of": "figures"});
    let metadata = |kind: &str| json!({"name": format!("{name}{kind}"), "labels": labels});
    let probe = |path: &str| {
        json!({"httpGet": {"path": path, "port": 8080}, "periodSeconds": 10, "timeoutSeconds": 2,
            "failureThreshold": 3})
    };
    let text = |letter: char| -> String { std::iter::repeat_n(letter, FILLING / 2).collect() };
    let objects = json!([
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata(""), "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app.kubernetes.io/name": name}},
            "template": {"metadata": {"labels": labels}, "spec": {
                "serviceAccountName": name,
                "containers": [{"name": "web", "image": image(1),
                    "ports": [{"name": "http", "containerPort": 8080}],
                    "env": [{"name": "LOG_LEVEL", "value": "info"}],
                    "envFrom": [{"configMapRef": {"name": format!("{name}-settings")}}],
                    "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}},
                    "readinessProbe": probe("/ready"), "livenessProbe": probe("/live")}]}}}},
        {"apiVersion": "v1", "kind": "Service", "metadata": metadata(""), "spec": {
            "selector": {"app.kubernetes.io/name": name},
            "ports": [{"name": "http", "port": 80, "targetPort": 8080}]}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata("")},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata("-settings"), "data": {"settings": text('s')}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata("-pages"), "data": {"index.html": text('p')}},
    ]);
    let object = json!({"apiVersion": "core.oam.dev/v1beta1", "kind": "Application",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "components": [{"name": name, "type": "k8s-objects", "properties": {"objects": objects}}],
            "workflow": {"steps": [{"name": "everywhere", "type": "deploy", "properties": {"placement": [
                {"name": "all", "clusterSelector": {key: value}, "replicas": "100%"}]}}]}}});
    // The one above.
    serde_json::from_value(object).unwrap_or_else(|error| panic!("the application of the figures: {error}"))
}

/// The version of the Deployment in a Bundle.
pub(crate) fn version(bundle: &Bundle) -> Option<usize> {
    let mut manifests = bundle.spec.workload.manifests.iter();
    let deployment = manifests.find(|manifest| manifest["kind"] == "Deployment")?;
    version_of(
        deployment
            .pointer("/spec/template/spec/containers/0/image")?
            .as_str()?,
    )
}

/// The bytes of a Bundle's manifests.
pub(crate) fn weight(bundle: &Bundle) -> usize {
    hash::canonical(&Value::Array(bundle.spec.workload.manifests.clone())).len()
}
