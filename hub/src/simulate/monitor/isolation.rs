//! P13: one identity sees one cluster's data. An agent asks for what is its own, and is told of nothing else.

use super::{
    answer::Named,
    model::Model,
    promise::{Check, Found, Promise},
    who::{Asked, Target},
};
use crate::simulate::{HUB, trace::Object};
use roundhouse_api::names::{AgentName, ClusterName};

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

    fn heard(&mut self, asked: &Asked, named: &[Named], found: &mut Found<'_>) {
        let (Some(cluster), HUB, Some(target)) = (asked.who.agent(), &*asked.server, &asked.target) else {
            return;
        };
        for Named { namespace, name, .. } in named {
            if !is_own(cluster, &target.table, namespace, name) {
                let expected = format!("answers about what is the cluster {cluster}'s own");
                let is = format!("{namespace}/{name} in an answer to {}", asked.who);
                found.broke(Promise::P13, of(asked, target), expected, is);
            }
        }
    }
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
