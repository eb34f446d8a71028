//! What an Application may contain: whoever may create one must not become the administrator of every member by it.
//!
//! Under [`Tenancy::Namespace`] it may contain objects in its own namespace, of kinds that are known to have one. Everything
//! else has to be on the [`AllowList`] of the hub's Namespace, whose annotations only administrators can write: nobody has
//! rights on a Namespace by rights in it. The hub cannot know whether a custom kind has a namespace in every member, so
//! custom kinds have to be on the list, too.

use crate::render::{Rendered, Variants};
use roundhouse_api::{
    application::{
        ClusterVerb, ComponentKind, NamedAccount, StepKind, ValidApplication, ValidStep, Violation,
    },
    names::annotation::{ALLOW_KINDS, ALLOW_NAMESPACES},
};
use serde_json::Value;
use std::collections::BTreeMap;

/// What Applications may contain.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tenancy {
    /// Everything.
    #[default]
    Open,
    /// Objects in the Application's own namespace, and what its Namespace allows.
    Namespace,
}

impl Tenancy {
    /// As flags and annotations have it.
    pub fn word(self) -> &'static str {
        match self {
            Tenancy::Open => "open",
            Tenancy::Namespace => "namespace",
        }
    }

    /// The tenancy of this word.
    pub fn of(word: &str) -> Option<Tenancy> {
        [Tenancy::Open, Tenancy::Namespace]
            .into_iter()
            .find(|tenancy| tenancy.word() == word)
    }
}

/// Kinds of Kubernetes that have a namespace, by group.
const NAMESPACED: [(&str, &[&str]); 13] = [
    (
        "",
        &[
            "ConfigMap",
            "Endpoints",
            "Event",
            "LimitRange",
            "PersistentVolumeClaim",
            "Pod",
            "PodTemplate",
            "ReplicationController",
            "ResourceQuota",
            "Secret",
            "Service",
            "ServiceAccount",
        ],
    ),
    (
        "apps",
        &[
            "ControllerRevision",
            "DaemonSet",
            "Deployment",
            "ReplicaSet",
            "StatefulSet",
        ],
    ),
    ("autoscaling", &["HorizontalPodAutoscaler"]),
    ("batch", &["CronJob", "Job"]),
    ("coordination.k8s.io", &["Lease"]),
    ("discovery.k8s.io", &["EndpointSlice"]),
    ("events.k8s.io", &["Event"]),
    ("extensions", &["Ingress"]),
    ("networking.k8s.io", &["Ingress", "NetworkPolicy"]),
    ("policy", &["PodDisruptionBudget"]),
    ("rbac.authorization.k8s.io", &["Role", "RoleBinding"]),
    ("resource.k8s.io", &["ResourceClaim", "ResourceClaimTemplate"]),
    ("storage.k8s.io", &["CSIStorageCapacity"]),
];

/// What the Applications of one namespace may contain beyond the rules.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct AllowList {
    kinds: Vec<String>,
    namespaces: Vec<String>,
}

impl AllowList {
    /// Reads the annotations of a Namespace.
    pub fn of(annotations: &BTreeMap<String, String>) -> AllowList {
        let entries = |key: &str| {
            let text = annotations.get(key).map(String::as_str).unwrap_or_default();
            let entries = text.split(',').map(str::trim).filter(|entry| !entry.is_empty());
            entries.map(str::to_owned).collect()
        };
        AllowList {
            kinds: entries(ALLOW_KINDS),
            namespaces: entries(ALLOW_NAMESPACES),
        }
    }

    fn kind(&self, group: &str, kind: &str) -> bool {
        self.kinds.iter().any(|entry| match entry.split_once('.') {
            Some(("*", of)) => of == group,
            Some((own, of)) => own == kind && of == group,
            None => entry == kind && group.is_empty(),
        })
    }

    fn namespace(&self, namespace: &str) -> bool {
        self.namespaces.iter().any(|entry| match entry.strip_suffix('*') {
            Some(beginning) => namespace.starts_with(beginning),
            None => entry == namespace,
        })
    }
}

/// The rules of a hub, as far as somebody has read them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rules {
    /// Its tenancy.
    pub tenancy: Tenancy,
    /// What its Namespaces allow, by name.
    pub allowed: BTreeMap<String, AllowList>,
}

impl Rules {
    /// What the hub would refuse an Application for.
    pub fn violations(
        &self,
        namespace: &str,
        application: &ValidApplication,
        rendered: &Rendered,
        variants: &Variants,
    ) -> Vec<Violation> {
        if self.tenancy == Tenancy::Open {
            return Vec::new();
        }
        let none = AllowList::default();
        let allowed = self.allowed.get(namespace).unwrap_or(&none);
        violations(namespace, application, rendered, variants, allowed)
    }
}

/// Names what an Application contains that it may not, as its clusters get it: the components, where override policies
/// change them for a step, those, and the objects that steps have in clusters.
pub fn violations(
    namespace: &str,
    application: &ValidApplication,
    rendered: &Rendered,
    variants: &Variants,
    allowed: &AllowList,
) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut look = |rendered: &Rendered, step: Option<&str>| {
        for component in &rendered.components {
            let index = application
                .components
                .iter()
                .position(|c| c.name == component.name);
            // Of a step's own form the text is in a policy.
            let objects = index.filter(|_| step.is_none()).and_then(|index| {
                match &application.components.get(index)?.kind {
                    ComponentKind::Objects(properties) => Some(properties.objects.len()),
                    _ => None,
                }
            });
            for (at, manifest) in component.manifests.iter().enumerate() {
                let Err((field, reason)) = judge(namespace, manifest, allowed) else {
                    continue;
                };
                let component = match index {
                    Some(index) => format!("spec.components[{index}]"),
                    None => "spec.components".to_owned(),
                };
                let violation = Violation {
                    path: match objects {
                        Some(count) if at < count => {
                            format!("{component}.properties.objects[{at}]{field}")
                        }
                        _ => component,
                    },
                    reason: match step {
                        Some(step) => format!("{reason} (as step {step} delivers it)"),
                        None => reason,
                    },
                };
                if !found.contains(&violation) {
                    found.push(violation);
                }
            }
        }
    };
    look(rendered, None);
    let objects = application.all_steps().filter_map(|step| match &step.kind {
        StepKind::ClusterObject(object) => Some(object),
        _ => None,
    });
    let of_steps = objects.filter_map(|object| {
        let (field, reason) = judge(namespace, &object.identity(), allowed).err()?;
        let field = match object.verb {
            ClusterVerb::Apply => format!(".value{field}"),
            ClusterVerb::Read | ClusterVerb::Delete => field.replace(".metadata", ""),
        };
        Some(Violation {
            path: format!("{}{field}", object.path),
            reason,
        })
    });
    let on_hub = application
        .all_steps()
        .filter_map(|step| runs_on_hub(namespace, step, allowed));
    let executor = application
        .executor
        .as_ref()
        .and_then(|account| acts_elsewhere(namespace, account, allowed));
    let of_steps: Vec<Violation> = of_steps.chain(on_hub).chain(executor).collect();
    for (step, variant) in variants {
        let mut differing = variant.clone();
        differing
            .components
            .retain(|component| !rendered.components.contains(component));
        look(&differing, Some(step));
    }
    found.extend(of_steps);
    found
}

/// Kinds of [`NAMESPACED`] whose objects run containers, with the rights of any ServiceAccount of their namespace.
const RUNNING: [(&str, &[&str]); 3] = [
    ("", &["Pod", "PodTemplate", "ReplicationController"]),
    (
        "apps",
        &[
            "ControllerRevision",
            "DaemonSet",
            "Deployment",
            "ReplicaSet",
            "StatefulSet",
        ],
    ),
    ("batch", &["CronJob", "Job"]),
];

/// Why a step may not write its object on the hub itself: kinds that run containers there, and kinds that nothing is known
/// of, which may do so as well.
fn runs_on_hub(own: &str, step: &ValidStep, allowed: &AllowList) -> Option<Violation> {
    let StepKind::Act(act) = &step.kind else {
        return None;
    };
    if step.type_ != "apply-object" {
        return None;
    }
    let keys = step.inputs.iter().filter_map(|input| input.key.as_ref());
    let settled = ["/value", "/value/apiVersion", "/value/kind"];
    if let Some(key) = keys
        .into_iter()
        .find(|key| settled.contains(&key.pointer().as_str()))
    {
        return Some(Violation {
            path: format!("{}.{}", act.path, key.as_str()),
            reason: "under the tenancy of this hub it has to be known what an object is before an input is there: write its \
                     apiVersion and kind, and let inputs go below"
                .to_owned(),
        });
    }
    let text = |pointer: &str| act.properties.pointer(pointer).and_then(Value::as_str);
    let (api_version, kind) = (text("/value/apiVersion")?, text("/value/kind")?);
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    if (is_among(&NAMESPACED, group, kind) && !is_among(&RUNNING, group, kind)) || allowed.kind(group, kind) {
        return None;
    }
    let named = kind_of_group(group, kind);
    Some(Violation {
        path: format!("{}.value.kind", act.path),
        reason: format!(
            "a step writes {kind} on the hub, where it may run with rights that its author does not have; deliver it to \
             clusters (clusters: …), or an administrator may add {named} to the annotation {ALLOW_KINDS} of Namespace {own}"
        ),
    })
}

/// Why agents may not write on behalf of an account: it is not of the application's own namespace, and may be more than its author.
fn acts_elsewhere(own: &str, account: &NamedAccount, allowed: &AllowList) -> Option<Violation> {
    let namespace = account
        .namespace
        .as_deref()
        .filter(|namespace| *namespace != own)?;
    (!allowed.namespace(namespace)).then(|| Violation {
        path: format!("{}.namespace", account.path),
        reason: format!(
            "service account {} is in namespace {namespace:?}, and the tenancy of this hub admits those of namespace {own:?} \
             only; an administrator may add {namespace} to the annotation {ALLOW_NAMESPACES} of Namespace {own}",
            account.name
        ),
    })
}

/// Whether a list of kinds by group has this one.
fn is_among(list: &[(&str, &[&str])], group: &str, kind: &str) -> bool {
    list.iter()
        .any(|(of, kinds)| *of == group && kinds.contains(&kind))
}

/// As the annotation has it.
fn kind_of_group(group: &str, kind: &str) -> String {
    match group {
        "" => kind.to_owned(),
        group => format!("{kind}.{group}"),
    }
}

/// Whether one manifest may be contained.
///
/// # Errors
/// The field that is in the way, and what to do.
fn judge(own: &str, manifest: &Value, allowed: &AllowList) -> Result<(), (&'static str, String)> {
    let text = |pointer: &str| manifest.pointer(pointer).and_then(Value::as_str);
    let (Some(api_version), Some(kind)) = (text("/apiVersion"), text("/kind")) else {
        return Err((
            "",
            "has no apiVersion and kind: under the tenancy of this hub it has to be known what an object is"
                .to_owned(),
        ));
    };
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    let title = format!("{kind} {}", text("/metadata/name").unwrap_or_default());
    let title = title.trim_end();
    if !is_among(&NAMESPACED, group, kind) && !allowed.kind(group, kind) {
        let named = kind_of_group(group, kind);
        return Err((
            ".kind",
            format!(
                "{title} is not known to have a namespace, and the tenancy of this hub admits objects in namespace {own:?} \
                 only; an administrator may add {named} to the annotation {ALLOW_KINDS} of Namespace {own}"
            ),
        ));
    }
    // Rendering has put it in where none was written.
    match manifest.pointer("/metadata/namespace") {
        None | Some(Value::Null) => Ok(()),
        Some(Value::String(namespace)) if namespace == own || allowed.namespace(namespace) => Ok(()),
        Some(Value::String(namespace)) => Err((
            ".metadata.namespace",
            format!(
                "{title} is in namespace {namespace:?}, and the tenancy of this hub admits objects in namespace {own:?} only; \
                 an administrator may add {namespace} to the annotation {ALLOW_NAMESPACES} of Namespace {own}"
            ),
        )),
        Some(_) => Err((
            ".metadata.namespace",
            format!("the namespace of {title} is no text: leave it out"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render;
    use roundhouse_api::application::validate;
    use serde_json::json;

    fn lines(spec: &Value, annotations: &[(&str, &str)]) -> Vec<String> {
        let valid = validate(spec).unwrap();
        let rendered = render::render("team-a", "web", &valid);
        let variants = render::variants("team-a", "web", &valid);
        let annotations = annotations
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let allowed = AllowList::of(&annotations.collect());
        let found = violations("team-a", &valid, &rendered, &variants, &allowed);
        found.iter().map(ToString::to_string).collect()
    }

    fn objects(objects: &Value) -> Value {
        json!({"components": [
                {"name": "web", "type": "webservice", "properties": {"image": "x", "ports": [{"port": 80, "expose": true}]}},
                {"name": "more", "type": "k8s-objects", "properties": {"objects": objects}}],
            "policies": [{"name": "all", "type": "placement", "properties": {"placement": [{}]}}]})
    }

    fn object(api_version: &str, kind: &str, namespace: Option<&str>) -> Value {
        let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}});
        if let Some(namespace) = namespace {
            object["metadata"]["namespace"] = json!(namespace);
        }
        object
    }

    #[test]
    fn what_is_in_the_own_namespace_is_admitted() {
        let admitted = json!([
            object("v1", "ConfigMap", None),
            object("v1", "Secret", Some("team-a")),
            object("rbac.authorization.k8s.io/v1", "Role", None),
            object("networking.k8s.io/v1", "Ingress", Some("")),
        ]);
        assert_eq!(lines(&objects(&admitted), &[]), [""; 0]);
    }

    #[test]
    fn what_is_elsewhere_is_refused_by_name() {
        let refused = json!([
            object("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", None),
            object("v1", "Namespace", None),
            object("v1", "ConfigMap", Some("kube-system")),
            object("example.org/v1", "ConfigMap", None),
            {"kind": "ConfigMap", "metadata": {"name": "y"}},
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "y", "namespace": 3}},
        ]);
        assert_eq!(
            lines(&objects(&refused), &[]),
            [
                "spec.components[1].properties.objects[0].kind: ClusterRoleBinding x is not known to have a namespace, and the \
                 tenancy of this hub admits objects in namespace \"team-a\" only; an administrator may add \
                 ClusterRoleBinding.rbac.authorization.k8s.io to the annotation roundhouse.dev/allow-kinds of Namespace team-a",
                "spec.components[1].properties.objects[1].kind: Namespace x is not known to have a namespace, and the tenancy \
                 of this hub admits objects in namespace \"team-a\" only; an administrator may add Namespace to the annotation \
                 roundhouse.dev/allow-kinds of Namespace team-a",
                "spec.components[1].properties.objects[2].metadata.namespace: ConfigMap x is in namespace \"kube-system\", and \
                 the tenancy of this hub admits objects in namespace \"team-a\" only; an administrator may add kube-system to \
                 the annotation roundhouse.dev/allow-namespaces of Namespace team-a",
                "spec.components[1].properties.objects[3].kind: ConfigMap x is not known to have a namespace, and the tenancy \
                 of this hub admits objects in namespace \"team-a\" only; an administrator may add ConfigMap.example.org to the \
                 annotation roundhouse.dev/allow-kinds of Namespace team-a",
                "spec.components[1].properties.objects[4]: has no apiVersion and kind: under the tenancy of this hub it has to \
                 be known what an object is",
                "spec.components[1].properties.objects[5].metadata.namespace: the namespace of ConfigMap y is no text: leave it \
                 out",
            ]
        );
    }

    #[test]
    fn what_administrators_allow_is_admitted() {
        let spec = objects(&json!([
            object("rbac.authorization.k8s.io/v1", "ClusterRole", None),
            object("v1", "Namespace", None),
            object("v1", "ConfigMap", Some("shared")),
            object("v1", "ConfigMap", Some("team-b")),
            object("example.org/v1", "Gadget", None),
            object("example.org/v2", "Widget", None),
        ]));
        let kinds = (
            ALLOW_KINDS,
            " ClusterRole.rbac.authorization.k8s.io , Namespace,*.example.org,",
        );
        assert_eq!(
            lines(&spec, &[kinds, (ALLOW_NAMESPACES, "shared, team-*")]),
            [""; 0]
        );
        // Each entry is for what it says.
        let left = lines(
            &spec,
            &[
                (ALLOW_KINDS, "*,ClusterRole,Gadget.example.org,Namespace.v1"),
                (ALLOW_NAMESPACES, "share"),
            ],
        );
        let places: Vec<&str> = left.iter().filter_map(|line| line.split(": ").next()).collect();
        assert_eq!(
            places,
            [
                "spec.components[1].properties.objects[0].kind",
                "spec.components[1].properties.objects[1].kind",
                "spec.components[1].properties.objects[2].metadata.namespace",
                "spec.components[1].properties.objects[3].metadata.namespace",
                "spec.components[1].properties.objects[5].kind",
            ]
        );
    }

    #[test]
    fn what_runs_on_the_hub_is_not_written_by_a_step() {
        let apply = |value: Value| json!({"type": "apply-object", "properties": {"value": value}});
        let mut open = apply(object("v1", "ConfigMap", None));
        open["inputs"] = json!([{"from": "context.name", "parameterKey": "value[\"kind\"]"}]);
        let mut named = apply(object("v1", "ConfigMap", None));
        named["inputs"] = json!([{"from": "context.name", "parameterKey": "value.data.app"}]);
        let mut spec = objects(&json!([]));
        spec["components"].as_array_mut().unwrap().pop();
        spec["workflow"] = json!({"steps": [
            {"type": "deploy", "properties": {"policies": ["all"]}},
            named,
            apply(object("v1", "Pod", None)),
            {"name": "g", "type": "step-group", "subSteps": [apply(object("batch/v1", "Job", None))]},
            apply(object("example.org/v1", "Runner", None)),
            open,
            {"type": "read-object", "properties": {"apiVersion": "v1", "kind": "Pod", "name": "x"}},
        ]});
        let refused = |annotations: &[(&str, &str)]| -> Vec<String> {
            let lines = lines(&spec, annotations);
            lines
                .iter()
                .filter_map(|line| Some(line.split_once(": ")?.0.to_owned()))
                .collect()
        };
        assert_eq!(
            refused(&[]),
            [
                "spec.workflow.steps[2].properties.value.kind",
                "spec.workflow.steps[3].subSteps[0].properties.value.kind",
                "spec.workflow.steps[4].properties.value.kind",
                "spec.workflow.steps[5].properties.value[\"kind\"]",
            ]
        );
        assert_eq!(
            refused(&[(ALLOW_KINDS, "Pod,Job.batch,*.example.org")]),
            ["spec.workflow.steps[5].properties.value[\"kind\"]"]
        );
        let why = lines(&spec, &[]).swap_remove(0);
        assert!(
            why.ends_with(
                "a step writes Pod on the hub, where it may run with rights that its author does not have; deliver it to \
                 clusters (clusters: …), or an administrator may add Pod to the annotation roundhouse.dev/allow-kinds of \
                 Namespace team-a"
            ),
            "{why}"
        );
    }

    #[test]
    fn agents_act_on_behalf_of_accounts_of_the_own_namespace() {
        let spec = |properties: Value| {
            let mut spec = objects(&json!([object("v1", "ConfigMap", None)]));
            let policy = json!({"name": "who", "type": "executor", "properties": properties});
            spec["policies"].as_array_mut().unwrap().push(policy);
            spec
        };
        for own in [
            json!({"serviceAccount": "deployer"}),
            json!({"serviceAccount": "deployer", "namespace": "team-a"}),
        ] {
            assert_eq!(lines(&spec(own), &[]), [""; 0]);
        }
        let elsewhere = spec(json!({"serviceAccount": "admin", "namespace": "kube-system"}));
        assert_eq!(
            lines(&elsewhere, &[]),
            [
                "spec.policies[1].properties.namespace: service account admin is in namespace \"kube-system\", and the tenancy \
                 of this hub admits those of namespace \"team-a\" only; an administrator may add kube-system to the annotation \
                 roundhouse.dev/allow-namespaces of Namespace team-a"
            ]
        );
        assert_eq!(lines(&elsewhere, &[(ALLOW_NAMESPACES, "kube-system")]), [""; 0]);
    }

    #[test]
    fn objects_of_steps_in_clusters_are_judged_too() {
        let value = |object: Value| json!({"type": "apply-object", "properties": {"clusters": ["c1"], "value": object}});
        let read = |namespace: &str| {
            json!({"type": "read-object", "properties": {"clusters": {}, "apiVersion": "v1", "kind": "ConfigMap",
                "name": "x", "namespace": namespace}})
        };
        let mut spec = objects(&json!([object("v1", "ConfigMap", None)]));
        spec["workflow"] = json!({"steps": [
            {"type": "deploy", "properties": {"policies": ["all"]}},
            value(object("v1", "ConfigMap", None)),
            value(object("v1", "Namespace", None)),
            {"name": "g", "type": "step-group", "subSteps": [value(object("v1", "ConfigMap", Some("kube-system")))]},
            read("team-a"),
            read("kube-system"),
        ]});
        let shared = (ALLOW_NAMESPACES, "kube-system");
        let own = lines(&spec, &[]);
        let places: Vec<&str> = own.iter().filter_map(|line| line.split(": ").next()).collect();
        assert_eq!(
            places,
            [
                "spec.workflow.steps[2].properties.value.kind",
                "spec.workflow.steps[3].subSteps[0].properties.value.metadata.namespace",
                "spec.workflow.steps[5].properties.namespace",
            ]
        );
        assert_eq!(lines(&spec, &[shared]).len(), 1);
    }

    #[test]
    fn what_a_step_delivers_instead_is_judged_too() {
        let spec = objects(&json!([object("v1", "ConfigMap", None)]));
        let valid = validate(&spec).unwrap();
        let rendered = render::render("team-a", "web", &valid);
        let mut other = rendered.clone();
        other.components[1].manifests[0]["metadata"]["namespace"] = json!("kube-system");
        let variants = Variants::from([("east".to_owned(), other)]);
        let found = violations("team-a", &valid, &rendered, &variants, &AllowList::default());
        let lines: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(
            lines[0].starts_with("spec.components[1]: ConfigMap x is in namespace \"kube-system\"")
                && lines[0].ends_with("(as step east delivers it)"),
            "{lines:?}"
        );
    }
}
