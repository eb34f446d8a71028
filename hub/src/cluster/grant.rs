//! The rights of one cluster's agent, made as they should be.

use super::{ClusterError, join::rights::Rights, objects::Kept};
use k8s_openapi::api::core::v1::{ResourceQuota, ServiceAccount};
use kube::{Api, Client, ResourceExt};
use roundhouse_api::names::{AGENT_ROLE, JOIN_ACCOUNT};

/// Rights that are as they should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Settled {
    /// The rights.
    pub(super) rights: Rights,
    /// The uid of the account whose tokens invite, while somebody is invited.
    pub(super) invited: Option<String>,
}

/// Makes the rights what they should be: what is to end first.
pub(super) async fn put_rights(client: &Client, rights: Rights) -> Result<Settled, ClusterError> {
    let (cluster, serial, namespace) = (rights.cluster.as_str(), rights.serial, rights.cluster.namespace());
    let accounts = Kept {
        api: Api::<ServiceAccount>::namespaced(client.clone(), &namespace),
        cluster,
        what: "its ServiceAccount",
        serial,
    };
    // A token is good as long as its account is the same object: another serial is another account.
    for (name, wanted) in [
        (JOIN_ACCOUNT, rights.join_account()),
        (AGENT_ROLE, rights.agent_account()),
    ] {
        let found = accounts.find(name).await?;
        let other = |there: &&ServiceAccount| {
            let wanted = wanted.as_ref();
            wanted.is_none_or(|wanted| there.annotations() != wanted.annotations())
        };
        if let Some(there) = found.as_ref().filter(other) {
            accounts.delete(there).await?;
        }
    }
    let quotas = Kept {
        api: Api::<ResourceQuota>::namespaced(client.clone(), &namespace),
        cluster,
        what: "its ResourceQuota",
        serial,
    };
    quotas.put(&rights.quota()).await?;
    let roles = Kept {
        api: Api::namespaced(client.clone(), &namespace),
        cluster,
        what: "its Role",
        serial,
    };
    roles.put(&rights.role()).await?;
    let bindings = Kept {
        api: Api::namespaced(client.clone(), &namespace),
        cluster,
        what: "its RoleBinding",
        serial,
    };
    for binding in [rights.role_binding(), rights.token_role_binding()] {
        let nobody = binding.subjects.as_ref().is_none_or(Vec::is_empty);
        if !nobody && binding.name_any() == JOIN_ACCOUNT {
            roles.put(&rights.token_role()).await?;
        }
        bindings.bind(&binding, nobody).await?;
    }
    let binding = rights.request_role_binding();
    let fleet_bindings = Kept {
        api: Api::all(client.clone()),
        cluster,
        what: "its ClusterRoleBinding",
        serial,
    };
    let nobody = binding.subjects.as_ref().is_none_or(Vec::is_empty);
    if !nobody {
        let fleet_roles = Kept {
            api: Api::all(client.clone()),
            cluster,
            what: "its ClusterRole",
            serial,
        };
        fleet_roles.put(&rights.request_role()).await?;
    }
    fleet_bindings.bind(&binding, nobody).await?;
    if let Some(account) = rights.agent_account() {
        accounts.put(&account).await?;
    }
    let invited = match rights.join_account() {
        Some(account) => {
            accounts.put(&account).await?;
            accounts
                .find(JOIN_ACCOUNT)
                .await?
                .and_then(|account| account.uid())
        }
        None => None,
    };
    Ok(Settled { rights, invited })
}
