//! P13: one identity sees one cluster's data. An agent asks for what is its own, and is told of nothing else.

use super::{
    model::Model,
    promise::{Check, Found, Promise},
    who::{Asked, Target},
};
use crate::simulate::{HUB, trace::Object};
use bytes::Bytes;
use roundhouse_api::names::{AgentName, ClusterName};
use serde::Deserialize;

#[derive(Debug, Default)]
pub(super) struct Isolation;

impl Check for Isolation {
    fn asked(&mut self, asked: &Asked, _: &Model, found: &mut Found<'_>) {
        let (Some(cluster), Some(target)) = (asked.who.agent(), &asked.target) else {
            return;
        };
        found.judges(Promise::P13);
        let own = match &*asked.server {
            HUB => is_own(cluster, &target.table, &target.namespace, &target.name),
            server => server == cluster,
        };
        if !own {
            let expected = format!("requests about what is the cluster {cluster}'s own");
            let is = format!("{} {} by {}", asked.method, asked.path, asked.who);
            found.broke(Promise::P13, of(asked, target), expected, is);
        }
    }

    fn heard(&mut self, asked: &Asked, bytes: &Bytes, found: &mut Found<'_>) {
        let (Some(cluster), HUB, Some(target)) = (asked.who.agent(), &*asked.server, &asked.target) else {
            return;
        };
        for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let Ok(said) = serde_json::from_slice::<Said<'_>>(line) else {
                continue;
            };
            let inner = said.object.as_deref().into_iter();
            let all = std::iter::once(&said).chain(inner).chain(&said.items);
            for metadata in all.filter_map(|said| said.metadata.as_ref()) {
                let (Some(name), namespace) = (&metadata.name, metadata.namespace.as_deref()) else {
                    continue;
                };
                if !is_own(cluster, &target.table, namespace.unwrap_or_default(), name) {
                    let expected = format!("answers about what is the cluster {cluster}'s own");
                    let is = format!(
                        "{}/{name} in an answer to {}",
                        namespace.unwrap_or_default(),
                        asked.who
                    );
                    found.broke(Promise::P13, of(asked, target), expected, is);
                }
            }
        }
    }
}

/// What an answer says of objects, as far as it names them.
#[derive(Debug, Deserialize)]
struct Said<'a> {
    #[serde(borrow)]
    metadata: Option<Metadata<'a>>,
    #[serde(borrow, default)]
    items: Vec<Said<'a>>,
    /// Of an event of a watch.
    #[serde(borrow)]
    object: Option<Box<Said<'a>>>,
}

#[derive(Debug, Deserialize)]
struct Metadata<'a> {
    #[serde(borrow)]
    namespace: Option<std::borrow::Cow<'a, str>>,
    #[serde(borrow)]
    name: Option<std::borrow::Cow<'a, str>>,
}

fn is_own(cluster: &str, table: &str, namespace: &str, name: &str) -> bool {
    let Ok(cluster) = ClusterName::new(cluster) else {
        return false;
    };
    match table {
        "certificatesigningrequests.certificates.k8s.io" => {
            namespace.is_empty() && name == AgentName::request(&cluster)
        }
        _ => namespace == cluster.namespace(),
    }
}

fn of(asked: &Asked, target: &Target) -> Object {
    Object::new(&asked.server, &target.table, &target.namespace, &target.name)
}
