//! The table of the hub's rights against what hubs ask for: everything that is asked for is in it, and everything in it is
//! asked for.

use crate::{
    apply,
    line::{Lines, Sent},
    options, rare, until_all_run,
};
use http::Method;
use k8s_openapi::{
    ByteString,
    api::{certificates::v1::CertificateSigningRequest, coordination::v1::Lease, core::v1::ConfigMap},
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, DynamicObject, ListParams, ObjectMeta, Patch, PatchParams, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use roundhouse_api::{
    application::Application,
    cluster::{Cluster, ClusterSpec},
    decision::Decision,
    names::{AGENT_LEASE, CLIENT_SIGNER, HUB_LEASE, annotation},
    rights::{Right, Scope},
};
use roundhouse_apiserver::Server;
use roundhouse_hub::{
    leader::{Election, NAMESPACE, Standing, Timing},
    restored,
    rights::{OF_STEPS, ON_HUB},
    run,
    simulate::{Fleet, FleetOptions, HUB},
    tenancy::Tenancy,
};
use serde_json::{Value, json};
use std::{collections::BTreeSet, time::Duration};
use tokio::time::sleep;

/// Kubernetes lets nobody give what he has not.
const HANDED_OUT: &str = "handed out to agents: cluster/join/rights.rs";

/// What this test does not bring about: the right, and where it is used.
const ELSEWHERE: [(&str, &str, &str, &str); 10] = [
    ("roundhouse.dev", "bundles/status", "get", HANDED_OUT),
    ("roundhouse.dev", "bundles/status", "patch", HANDED_OUT),
    ("roundhouse.dev", "bundles/status", "update", HANDED_OUT),
    ("roundhouse.dev", "clusterreports", "create", HANDED_OUT),
    ("roundhouse.dev", "clusterreports", "patch", HANDED_OUT),
    ("roundhouse.dev", "clusterreports", "update", HANDED_OUT),
    (
        "certificates.k8s.io",
        "certificatesigningrequests",
        "create",
        HANDED_OUT,
    ),
    ("", "serviceaccounts/token", "create", HANDED_OUT),
    (
        "certificates.k8s.io",
        "signers",
        "approve",
        "asked by the API server when a request is approved: cluster/pass.rs",
    ),
    (
        "apiextensions.k8s.io",
        "customresourcedefinitions",
        "watch",
        "the embedded API server serves a definition at once: run/definitions.rs",
    ),
];

/// What steps do is theirs, and not in the table.
const OF_STEP: &str = "of-a-step";

/// A request as rights know it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Asked {
    verb: &'static str,
    group: String,
    /// With its subresource.
    resource: String,
    namespace: String,
    /// Also of a list that is confined to one name, as the API server has it.
    name: String,
}

fn asked(sent: &Sent) -> Option<Asked> {
    let mut words = sent.path.split('/').filter(|word| !word.is_empty());
    let group = match words.next()? {
        "api" => String::new(),
        "apis" => words.next()?.to_owned(),
        _ => return None,
    };
    words.next()?;
    let mut rest: Vec<&str> = words.collect();
    let mut namespace = String::new();
    if rest.first() == Some(&"namespaces") && rest.len() > 2 && rest[2] != "status" {
        namespace = rest[1].to_owned();
        rest.drain(..2);
    }
    let (resource, name) = (*rest.first()?, rest.get(1).copied().unwrap_or_default());
    let resource = match rest.get(2) {
        Some(sub) => format!("{resource}/{sub}"),
        None => resource.to_owned(),
    };
    let watches = sent.query.contains("watch=");
    let verb = match sent.method {
        Method::GET if watches => "watch",
        Method::GET if name.is_empty() => "list",
        Method::GET => "get",
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => return None,
    };
    let field = "fieldSelector=metadata.name%3D";
    let confined = sent.query.split('&').find_map(|part| part.strip_prefix(field));
    let name = if name.is_empty() {
        confined.unwrap_or_default()
    } else {
        name
    };
    Some(Asked {
        verb,
        group,
        resource,
        namespace,
        name: name.to_owned(),
    })
}

fn allows(right: &Right, asked: &Asked) -> bool {
    let here = right.scope == Scope::Cluster || (right.scope == Scope::Own && asked.namespace == NAMESPACE);
    here && right.allows(asked.verb, &asked.group, &asked.resource, &asked.name)
}

async fn make(fleet: &Fleet, object: Value) -> Api<DynamicObject> {
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    let types = object.types.clone().unwrap();
    let (group, version) = types.api_version.split_once('/').unwrap();
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &types.kind));
    let namespace = object.metadata.namespace.clone().unwrap();
    let api = Api::namespaced_with(fleet.hub_client(), &namespace, &resource);
    api.create(&PostParams::default(), &object).await.unwrap();
    api
}

/// Installs the definitions as a hub does, for the first time and as a newer version: the harness has done it before its hubs do.
async fn install(lines: &Lines, options: &FleetOptions) {
    let server = Server::builder().build();
    let client = lines.through().0(HUB, Client::new(server.service(), "default"));
    for tenancy in [Tenancy::Open, Tenancy::Namespace] {
        let mut options = options.hub.clone();
        options.application.tenancy = tenancy;
        run::install(&client, &options).await.unwrap();
    }
}

/// A cluster is invited, asks, is let in, is invited again, shut out, and leaves.
async fn join(fleet: &Fleet) {
    let clusters: Api<Cluster> = Api::all(fleet.hub_client());
    let until = "2026-01-02T00:00:00Z";
    let change = async |spec: Value| {
        let patch = Patch::Merge(json!({"spec": spec}));
        clusters
            .patch("j1", &PatchParams::default(), &patch)
            .await
            .unwrap();
        sleep(Duration::from_secs(5)).await;
    };
    clusters
        .create(
            &PostParams::default(),
            &Cluster::new("j1", ClusterSpec::default()),
        )
        .await
        .unwrap();
    change(json!({"serial": 1, "joinUntil": until, "accepted": true})).await;
    rare::account(fleet, "j1").await;
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params
        .distinguished_name
        .push(DnType::CommonName, "roundhouse:agent:j1:1");
    let pem = params
        .serialize_request(&KeyPair::generate().unwrap())
        .unwrap()
        .pem()
        .unwrap();
    let request: CertificateSigningRequest = serde_json::from_value(json!({
        "metadata": {"name": "roundhouse-agent-j1"}, "spec": {
            "request": ByteString(pem.into_bytes()), "signerName": CLIENT_SIGNER, "usages": ["client auth"]}}))
    .unwrap();
    let requests: Api<CertificateSigningRequest> = Api::all(fleet.hub_client());
    requests.create(&PostParams::default(), &request).await.unwrap();
    sleep(Duration::from_secs(5)).await;
    let denied = requests.get("roundhouse-agent-j1").await.unwrap().status.unwrap();
    assert_eq!(denied.conditions.unwrap()[0].type_, "Denied");
    change(json!({"serial": 2})).await;
    change(json!({"accepted": false, "joinUntil": null})).await;
    change(json!({"accepted": true, "serial": 3})).await;
    clusters.delete("j1", &DeleteParams::default()).await.unwrap();
    sleep(Duration::from_secs(10)).await;
    assert!(clusters.get_opt("j1").await.unwrap().is_none(), "it has left");
}

/// The events that the hub's API server keeps: a watch that was away for more of them begins with a list.
const HISTORY: usize = 500;

/// A hub whose watches were away finds lists that lack what it holds, and asks for that by name.
async fn lists_that_lack(fleet: &Fleet, lines: &Lines, held: [Api<DynamicObject>; 3]) {
    for hub in [HUB, "b"] {
        lines.hold(hub);
    }
    fleet.hub_server().unwrap().close_watches();
    for api in held {
        let there = api.list(&ListParams::default()).await.unwrap().items;
        assert_eq!(there.len(), 1, "there is one object of each kind");
        let object = &there[0];
        api.delete(&object.name_any(), &DeleteParams::default())
            .await
            .unwrap();
    }
    let maps: Api<ConfigMap> = Api::namespaced(fleet.hub_client(), "default");
    let map = ConfigMap {
        metadata: ObjectMeta {
            name: Some("noise".to_owned()),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    };
    maps.create(&PostParams::default(), &map).await.unwrap();
    for n in 0..HISTORY {
        let noise = Patch::Merge(json!({"data": {"n": n.to_string()}}));
        maps.patch("noise", &PatchParams::default(), &noise)
            .await
            .unwrap();
    }
    for hub in [HUB, "b"] {
        lines.let_go(hub);
    }
    sleep(Duration::from_secs(60)).await;
}

/// An application whose steps have an object on the hub.
async fn steps(fleet: &Fleet, deploy: &Value) {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": OF_STEP}});
    let named = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": OF_STEP});
    let step = |name: &str, type_: &str, properties: &Value| json!({"name": name, "type": type_, "properties": properties});
    let steps = [
        step("make", "apply-object", &json!({"value": object})),
        step("look", "read-object", &named),
        step("unmake", "delete-object", &named),
        deploy.clone(),
    ];
    apply(fleet, "acting", 2, &steps).await;
    until_all_run(fleet, Duration::from_millis(100), Duration::from_secs(120)).await;
    let applications: Api<Application> = Api::namespaced(fleet.hub_client(), "default");
    applications
        .delete("acting", &DeleteParams::default())
        .await
        .unwrap();
    sleep(Duration::from_secs(30)).await;
}

/// A life of some applications under two hubs.
async fn live(lines: &Lines) {
    let mut options = options((1..=2).map(|n| (format!("c{n}"), vec![("number", n.to_string())])));
    options.hub.election = Election {
        timing: Some(Timing::default()),
        ..Election::default()
    };
    options.hub.application.tenancy = Tenancy::Namespace;
    options.hub.application.revision_limit = 0;
    options.through = Some(lines.through());
    options.limits.history_events = HISTORY;
    install(lines, &options).await;
    let mut fleet = Fleet::start(options).await.unwrap();
    fleet.start_hub_called("b");
    let placements = make(
        &fleet,
        json!({"apiVersion": "roundhouse.dev/v1alpha1", "kind": "Placement",
        "metadata": {"name": "all", "namespace": "default"}, "spec": {"rules": [{}]}}),
    )
    .await;
    let workload = json!({"definition": {"apiVersion": "example.org/v1", "kind": "Server"}});
    let definitions = make(
        &fleet,
        json!({"apiVersion": "core.oam.dev/v1beta1", "kind": "ComponentDefinition",
        "metadata": {"name": "server", "namespace": "default"}, "spec": {"workload": workload}}),
    )
    .await;
    let rule = |n: usize| json!({"clusterSelector": {"number": n.to_string()}, "replicas": 1});
    let rules: Vec<Value> = (1..=2).map(rule).collect();
    let deploy = json!({"name": "all", "type": "deploy", "properties": {"placement": rules}});
    apply(&fleet, "web", 2, std::slice::from_ref(&deploy)).await;
    until_all_run(&fleet, Duration::from_millis(100), Duration::from_secs(60)).await;
    let decisions = ApiResource::erase::<Decision>(&());
    let decisions = Api::namespaced_with(fleet.hub_client(), "default", &decisions);
    lists_that_lack(&fleet, lines, [placements, definitions, decisions]).await;
    let applications: Api<Application> = Api::namespaced(fleet.hub_client(), "default");
    let patch = async |name: &str, patch: Value| {
        let patch = Patch::Json::<()>(serde_json::from_value(patch).unwrap());
        applications
            .patch(name, &PatchParams::default(), &patch)
            .await
            .unwrap();
        sleep(Duration::from_secs(30)).await;
    };
    let image =
        |image: &str| json!({"op": "replace", "path": "/spec/components/0/properties/image", "value": image});
    for version in ["nginx:2", "nginx:3"] {
        patch("web", json!([image(version)])).await;
    }
    // A run that goes back, and a step that is gone.
    let back = json!([deploy, {"name": "fail", "type": "rollback"}]);
    patch(
        "web",
        json!([image("nginx:4"), {"op": "replace", "path": "/spec/workflow/steps", "value": back}]),
    )
    .await;
    let renamed = json!([{"name": "other", "type": "deploy", "properties": {"placement": rules}}]);
    patch(
        "web",
        json!([image("nginx:5"), {"op": "replace", "path": "/spec/workflow/steps", "value": renamed}]),
    )
    .await;
    applications
        .delete("web", &DeleteParams::default())
        .await
        .unwrap();
    steps(&fleet, &deploy).await;
    rare::application(&fleet).await;
    join(&fleet).await;
    // An agent whose Lease has lost the id of its hub, and a hub that finds that it was restored.
    let leases: Api<Lease> = Api::namespaced(fleet.hub_client(), "cluster-c1");
    let unmarked = Patch::Merge(json!({"metadata": {"annotations": {annotation::HUB_ID: null}}}));
    leases
        .patch(AGENT_LEASE, &PatchParams::default(), &unmarked)
        .await
        .unwrap();
    let marks: Api<ConfigMap> = Api::namespaced(fleet.hub_client(), restored::NAMESPACE);
    let mark = restored::mark("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z");
    marks.create(&PostParams::default(), &mark).await.unwrap();
    fleet.start_hub_called("c");
    sleep(Duration::from_secs(10)).await;
    assert_eq!(fleet.standing("c"), Some(Standing::Starting), "it waits");
    let confirmed = Patch::Merge(json!({"data": {restored::EPOCH: "1000"}}));
    marks
        .patch(restored::NAME, &PatchParams::default(), &confirmed)
        .await
        .unwrap();
    sleep(Duration::from_secs(60)).await;
    assert_eq!(fleet.standing("c"), Some(Standing::Following));
    fleet.stop_hub_called(HUB).await;
    sleep(Duration::from_secs(5)).await;
    let leads = |name: &str| match fleet.standing(name) {
        Some(Standing::Leading(term)) => Some(term.epoch),
        _ => None,
    };
    let epoch = leads("b").or(leads("c"));
    assert_eq!(
        epoch,
        Some(1_001),
        "above what the restored hub was confirmed with"
    );
    fleet.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_hub_asks_for_what_its_table_says_and_for_nothing_else() {
    let lines = Lines::default();
    Box::pin(live(&lines)).await;
    let hubs = |sent: &Sent| [HUB, "b", "c"].contains(&sent.who.as_str());
    let sent: Vec<Sent> = lines.sent().into_iter().filter(hubs).collect();
    let (of_steps, all): (BTreeSet<Asked>, BTreeSet<Asked>) = sent
        .iter()
        .filter_map(asked)
        .partition(|asked| asked.name == OF_STEP);
    let mut verbs: BTreeSet<&str> = of_steps.iter().map(|asked| asked.verb).collect();
    // By applying: the API server asks for it where there is none yet.
    verbs.insert("create");
    let known = OF_STEPS.iter().flat_map(|(_, verbs)| verbs.iter().copied());
    assert_eq!(verbs, known.collect());
    let lacking: Vec<&Asked> = all
        .iter()
        .filter(|asked| !ON_HUB.iter().any(|right| allows(right, asked)))
        .collect();
    let mut idle = Vec::new();
    for right in ON_HUB {
        for verb in right.verbs {
            let used = all
                .iter()
                .any(|asked| asked.verb == *verb && allows(right, asked));
            let reason = ELSEWHERE.iter().any(|(group, resource, of, _)| {
                (*group, *resource, *of) == (right.group, right.resource, *verb)
            });
            if used == reason {
                idle.push((
                    right.group,
                    right.resource,
                    *verb,
                    if used {
                        "used, and listed as idle"
                    } else {
                        "not used"
                    },
                ));
            }
        }
    }
    assert!(
        lacking.is_empty() && idle.is_empty(),
        "not in the table: {lacking:#?}\nin the table: {idle:#?}"
    );
    // Nothing else than the Lease of the hubs is asked for by name in their namespace.
    let own: BTreeSet<&str> = all
        .iter()
        .filter(|a| a.namespace == NAMESPACE)
        .map(|a| a.name.as_str())
        .collect();
    assert_eq!(own, BTreeSet::from(["", HUB_LEASE]));
}
