//! What an agent asks of its hub and of its member is what the tables of rights have, and nothing else: the charts' and the
//! hub's roles are made of them.

use crate::executor::on_behalf_of;
use crate::rights::role;
use crate::world::{Side, World, bundle, config_map, deployment, eventually, pass_time, spec};
use futures::FutureExt;
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use roundhouse_agent::identity::{Invitation, Keeper, Place, Source};
use roundhouse_agent::rights::{AS_EXECUTOR, IDENTITY_SECRET, ON_MEMBER, ON_OBJECTS};
use roundhouse_agent::{Config, SeededJitter};
use roundhouse_api::bundle::BundlePhase::{Progressing, Ready};
use roundhouse_api::clock::SystemClock;
use roundhouse_api::rights::{AGENT_ON_HUB, NAME, Right};
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A request, as RBAC sees it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Asked {
    verb: &'static str,
    group: String,
    /// With its subresource.
    resource: String,
    /// Empty: none, or all.
    name: String,
}

/// `None` for discovery.
fn asked(request: &http::Request<Body>) -> Option<Asked> {
    let parts: Vec<&str> = request.uri().path().trim_start_matches('/').split('/').collect();
    let (group, rest) = match parts.as_slice() {
        ["api", _, rest @ ..] => ("", rest),
        ["apis", group, _, rest @ ..] => (*group, rest),
        _ => return None,
    };
    let rest = match rest {
        ["namespaces", _, rest @ ..] if !rest.is_empty() => rest,
        rest => rest,
    };
    let (resource, name, subresource) = match *rest {
        [resource] => (resource, "", ""),
        [resource, name] => (resource, name, ""),
        [resource, name, subresource] => (resource, name, subresource),
        _ => return None,
    };
    let query = request.uri().query().unwrap_or_default().replace("%3D", "=");
    let only = query
        .split('&')
        .find_map(|pair| pair.strip_prefix("fieldSelector=metadata.name="));
    let verb = match (request.method().as_str(), name) {
        ("GET", "") if query.contains("watch=true") => "watch",
        ("GET", "") => "list",
        ("GET", _) => "get",
        ("POST", _) => "create",
        ("PUT", _) => "update",
        ("PATCH", _) => "patch",
        ("DELETE", _) => "delete",
        other => panic!("{other:?}"),
    };
    let slash = if subresource.is_empty() { "" } else { "/" };
    Some(Asked {
        verb,
        group: group.to_owned(),
        resource: format!("{resource}{slash}{subresource}"),
        name: only.unwrap_or(name).to_owned(),
    })
}

/// Notes what goes through a client.
#[derive(Clone, Default)]
struct Notes {
    asked: Arc<Mutex<BTreeSet<Asked>>>,
    /// The next report is in conflict with another write.
    conflict: Arc<Mutex<bool>>,
}

impl Notes {
    fn on(&self, inner: Client) -> Client {
        let notes = self.clone();
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let (inner, notes) = (inner.clone(), notes.clone());
            async move {
                let answer = notes.note(&request);
                match answer {
                    Some(answer) => Ok(answer),
                    None => inner.send(request).await,
                }
            }
            .boxed()
        });
        Client::new(service, "default")
    }

    fn note(&self, request: &http::Request<Body>) -> Option<http::Response<Body>> {
        let noted = match request.headers().get("impersonate-user") {
            // What an account may is its own.
            Some(user) => {
                let name = user.to_str().unwrap().rsplit(':').next().unwrap().to_owned();
                let (group, resource) = (String::new(), "serviceaccounts".to_owned());
                Some(Asked {
                    verb: "impersonate",
                    group,
                    resource,
                    name,
                })
            }
            None => asked(request),
        }?;
        let is_report = noted.resource == "bundles/status";
        self.asked.lock().insert(noted);
        let conflict = is_report && std::mem::take(&mut *self.conflict.lock());
        conflict.then(|| {
            let status = json!({"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": 409,
                "reason": "Conflict", "message": "changed meanwhile"});
            let body = Body::from(status.to_string().into_bytes());
            http::Response::builder().status(409).body(body).unwrap()
        })
    }
}

/// The right that a request is an exercise of: the closest one.
fn exercised<'a>(rights: &'a [Right], asked: &Asked) -> Option<&'a Right> {
    let allowing = rights
        .iter()
        .filter(|right| right.allows(asked.verb, &asked.group, &asked.resource, &asked.name));
    allowing.max_by_key(|right| right.names.len())
}

/// Compares both ways; `aside` is not judged, and `unused` is known to be.
fn compare(rights: &[Right], notes: &Notes, aside: &[(&str, &str)], unused: &[(&str, &str)]) {
    let notes = notes.asked.lock();
    let mut used = BTreeSet::new();
    for asked in notes.iter() {
        if aside.contains(&(&*asked.group, &*asked.resource)) {
            continue;
        }
        let right = exercised(rights, asked);
        let right = right.unwrap_or_else(|| panic!("no right in the table allows {asked:?}"));
        used.insert((right.resource, right.names, asked.verb));
    }
    let mut idle = BTreeSet::new();
    for right in rights {
        let verbs = right
            .verbs
            .iter()
            .filter(|verb| !used.contains(&(right.resource, right.names, **verb)));
        idle.extend(verbs.map(|verb| (*verb, right.resource)));
    }
    assert_eq!(idle, unused.iter().copied().collect(), "rights that nothing uses");
}

/// The identity of an agent that keeps it in a Secret, up to its key.
async fn keep_identity(member: Client, home: &World) {
    let invitation = |serial: u32| {
        let kubeconfig = json!({"current-context": "hub",
            "clusters": [{"name": "hub", "cluster": {"server": "https://hub.example.com"}}],
            "users": [{"name": "join", "user": {"token": "t"}}],
            "contexts": [{"name": "hub", "context": {"cluster": "hub", "user": "join", "extensions":
                [{"name": "roundhouse.dev/join", "extension": {"cluster": "c1", "serial": serial}}]}}]});
        Invitation::from_yaml(&kubeconfig.to_string()).unwrap()
    };
    let place = Place::Secret {
        client: member,
        namespace: "default".to_owned(),
        name: IDENTITY_SECRET.to_owned(),
    };
    let source = Source::Given(Box::new(invitation(1)));
    let (clock, jitter) = (Arc::new(SystemClock), Arc::new(SeededJitter::new(1)));
    let mut keeper = Keeper::new(World::config().cluster, place, source, clock, jitter);
    let hub = home.hub_client.clone();
    keeper.dial = Arc::new(move |_| std::future::ready(Ok(hub.clone())).boxed());
    let keeping = tokio::spawn(keeper.keep());
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": IDENTITY_SECRET, "namespace": "default"}});
    eventually("the key is stored", || async {
        home.live(Side::Member, &secret).await.is_some()
    })
    .await;
    keeping.abort();
}

#[tokio::test(start_paused = true)]
async fn the_tables_of_rights_are_what_an_agent_asks() {
    let world = World::embedded().await;
    let (hub, member) = (Notes::default(), Notes::default());
    let agent = |config: Config| {
        let (hub, member) = (
            hub.on(world.hub_client.clone()),
            member.on(world.member_client.clone()),
        );
        world.agent_between(config, hub, member)
    };
    let first = agent(World::config());
    let (a, web) = (config_map("a", "1"), deployment("web", "i:1", 1));
    let generation = world.bundle("plain", spec(&[a.clone(), web])).await;
    world.reported("plain", generation, Progressing).await;
    first.stop().await;
    // An older version of the definition, or somebody's hand.
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "appliedbundles.roundhouse.dev"}});
    world
        .merge(Side::Member, &definition, json!({"metadata": {"labels": null}}))
        .await;
    let agent = agent(World::config());
    for object in role("web", &["configmaps"], &["get", "create", "patch"]) {
        world.create(Side::Member, object).await;
    }
    let executed = on_behalf_of("web", spec(&[config_map("b", "1")]));
    let generation = world.bundle("executed", executed).await;
    world.reported("executed", generation, Ready).await;
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "default"}});
    let generation = world.bundle("kindless", spec(&[widget])).await;
    world.reported("kindless", generation, Progressing).await;
    // What another write is quicker than.
    *hub.conflict.lock() = true;
    let generation = world.bundle("plain", spec(&[config_map("a", "2")])).await;
    world.reported("plain", generation, Ready).await;
    // News for the ClusterReport.
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}});
    world.create(Side::Member, node).await;
    world.delete(Side::Hub, &bundle("plain")).await;
    eventually("the bundle is gone", || async {
        world.ledger("plain").await.is_none()
    })
    .await;
    pass_time(400).await;
    agent.stop().await;
    keep_identity(member.on(world.member_client.clone()), &world).await;

    let of_bundles = [("", "configmaps"), ("apps", "deployments")];
    // What is carried: each kind is asked for as the one rule on all kinds has it.
    let carried: BTreeSet<&str> = member
        .asked
        .lock()
        .iter()
        .filter(|asked| of_bundles.contains(&(&*asked.group, &*asked.resource)))
        .map(|asked| asked.verb)
        .collect();
    assert_eq!(carried, ON_OBJECTS.verbs.iter().copied().collect());
    // Open to whoever is authenticated.
    let reviews = ["selfsubjectrulesreviews", "selfsubjectaccessreviews"]
        .map(|review| ("authorization.k8s.io", review));
    let member_rights = [ON_MEMBER, &[AS_EXECUTOR]].concat();
    compare(
        &member_rights,
        &member,
        &[&of_bundles[..], &reviews].concat(),
        &[],
    );
    let on_hub: Vec<Right> = AGENT_ON_HUB
        .iter()
        .map(|right| match right.names {
            [NAME] => Right {
                names: &["c1"],
                ..*right
            },
            _ => *right,
        })
        .collect();
    // The hub gives what agents before this one used: reading a status apart, writing a status or a Lease whole; and a report is
    // its agent's to write in any way.
    let older = [
        ("get", "bundles/status"),
        ("update", "bundles/status"),
        ("update", "leases"),
        ("list", "clusterreports"),
        ("patch", "clusterreports"),
        ("watch", "clusterreports"),
    ];
    compare(&on_hub, &hub, &[], &older);
}
