//! The objects that say what the agent of a cluster may on the hub, and who it is.
//!
//! All of them are owned by the Cluster: when that is gone without the hub having seen to it, the garbage collector takes them
//! away, and nobody has rights by the name of a cluster that is none. The namespace and its Bundles are not owned: absence is no
//! evidence for deletion.

use k8s_openapi::{
    api::{
        core::v1::{ResourceQuota, ResourceQuotaSpec, ServiceAccount},
        rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding, RoleRef, Subject},
    },
    apimachinery::pkg::{
        api::resource::Quantity,
        apis::meta::v1::{ObjectMeta, OwnerReference},
    },
};
use kube::Resource;
use roundhouse_api::{
    cluster::{Cluster, ClusterReport, IdentityMethod},
    names::{AGENT_ROLE, AgentName, ClusterName, JOIN_ACCOUNT, annotation, label},
    rights::{AGENT_CERTIFICATE, AGENT_ON_HUB, AGENT_TOKEN, Scope, rules_of},
};
use std::collections::BTreeMap;

const GROUP: &str = "rbac.authorization.k8s.io";

/// Everything that the rights of one cluster's agent depend on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rights {
    /// The cluster.
    pub(crate) cluster: ClusterName,
    /// The uid of its Cluster, which owns all that is made.
    pub(crate) owner: Option<String>,
    /// Its serial, above 0.
    pub(crate) serial: u32,
    /// What the agent proves itself by.
    pub(crate) method: IdentityMethod,
    /// Whether the agent of this serial is let in.
    pub(crate) accepted: bool,
    /// Whether somebody is invited to become its agent.
    pub(crate) invited: bool,
}

/// Who has which role. An empty list of subjects is no binding.
impl Rights {
    /// The user name of the agent.
    pub(crate) fn user(&self) -> String {
        match self.method {
            IdentityMethod::Certificate => AgentName::new(self.cluster.clone(), self.serial).to_string(),
            IdentityMethod::Token => {
                format!("system:serviceaccount:{}:{AGENT_ROLE}", self.cluster.namespace())
            }
        }
    }

    /// What the agent may in its namespace.
    pub(crate) fn role(&self) -> Role {
        Role {
            metadata: self.metadata(AGENT_ROLE),
            rules: Some(rules_of(AGENT_ON_HUB, Scope::OfCluster, &self.cluster)),
        }
    }

    /// How many ClusterReports it may make: the right to create cannot be confined to a name.
    pub(crate) fn quota(&self) -> ResourceQuota {
        let counted = format!(
            "count/{}.{}",
            ClusterReport::plural(&()),
            ClusterReport::group(&())
        );
        ResourceQuota {
            metadata: self.metadata(AGENT_ROLE),
            spec: Some(ResourceQuotaSpec {
                hard: Some([(counted, Quantity("1".to_owned()))].into()),
                ..ResourceQuotaSpec::default()
            }),
            status: None,
        }
    }

    /// The agent has that role: exactly the present one.
    pub(crate) fn role_binding(&self) -> RoleBinding {
        RoleBinding {
            metadata: self.metadata(AGENT_ROLE),
            role_ref: role_ref("Role", AGENT_ROLE),
            subjects: Some(self.agent().into_iter().collect()),
        }
    }

    /// Name of the ClusterRole and its binding.
    pub(crate) fn request_role_name(&self) -> String {
        AgentName::request(&self.cluster)
    }

    /// To ask for a certificate, under the one name.
    pub(crate) fn request_role(&self) -> ClusterRole {
        ClusterRole {
            metadata: self.metadata_of_fleet(&self.request_role_name()),
            rules: Some(rules_of(AGENT_CERTIFICATE, Scope::Cluster, &self.cluster)),
            aggregation_rule: None,
        }
    }

    /// Who may: the agent, and who is invited to become it.
    pub(crate) fn request_role_binding(&self) -> ClusterRoleBinding {
        let name = self.request_role_name();
        let subjects = match self.method {
            IdentityMethod::Certificate => self.agent().into_iter().chain(self.invited()).collect(),
            IdentityMethod::Token => Vec::new(),
        };
        ClusterRoleBinding {
            role_ref: role_ref("ClusterRole", &name),
            metadata: self.metadata_of_fleet(&name),
            subjects: Some(subjects),
        }
    }

    /// To get tokens of the agent's account.
    pub(crate) fn token_role(&self) -> Role {
        Role {
            metadata: self.metadata(JOIN_ACCOUNT),
            rules: Some(rules_of(AGENT_TOKEN, Scope::OfCluster, &self.cluster)),
        }
    }

    /// Who may: once this invitation is accepted, the agent itself and who is invited to become it.
    pub(crate) fn token_role_binding(&self) -> RoleBinding {
        let subjects = match self.method {
            IdentityMethod::Token if self.accepted => {
                self.agent().into_iter().chain(self.invited()).collect()
            }
            IdentityMethod::Token | IdentityMethod::Certificate => Vec::new(),
        };
        RoleBinding {
            metadata: self.metadata(JOIN_ACCOUNT),
            role_ref: role_ref("Role", JOIN_ACCOUNT),
            subjects: Some(subjects),
        }
    }

    /// The account whose tokens invite, while somebody is invited.
    pub(crate) fn join_account(&self) -> Option<ServiceAccount> {
        self.invited.then(|| {
            let method = match self.method {
                IdentityMethod::Certificate => "certificate",
                IdentityMethod::Token => "token",
            };
            let mut account = self.account(JOIN_ACCOUNT);
            let annotations = account.metadata.annotations.get_or_insert_default();
            annotations.insert(annotation::IDENTITY.to_owned(), method.to_owned());
            account
        })
    }

    /// The account of the agent, where tokens are its identity.
    pub(crate) fn agent_account(&self) -> Option<ServiceAccount> {
        let exists = self.method == IdentityMethod::Token && self.accepted;
        exists.then(|| self.account(AGENT_ROLE))
    }

    fn account(&self, name: &str) -> ServiceAccount {
        ServiceAccount {
            metadata: self.metadata(name),
            // Nobody runs pods in the namespace of a cluster.
            automount_service_account_token: Some(false),
            ..ServiceAccount::default()
        }
    }

    fn agent(&self) -> Option<Subject> {
        self.accepted.then(|| match self.method {
            IdentityMethod::Certificate => Subject {
                api_group: Some(GROUP.to_owned()),
                kind: "User".to_owned(),
                name: self.user(),
                namespace: None,
            },
            IdentityMethod::Token => self.subject(AGENT_ROLE),
        })
    }

    fn invited(&self) -> Option<Subject> {
        self.invited.then(|| self.subject(JOIN_ACCOUNT))
    }

    fn subject(&self, account: &str) -> Subject {
        Subject {
            api_group: None,
            kind: "ServiceAccount".to_owned(),
            name: account.to_owned(),
            namespace: Some(self.cluster.namespace()),
        }
    }

    fn metadata(&self, name: &str) -> ObjectMeta {
        ObjectMeta {
            namespace: Some(self.cluster.namespace()),
            ..self.metadata_of_fleet(name)
        }
    }

    fn metadata_of_fleet(&self, name: &str) -> ObjectMeta {
        let labels: BTreeMap<String, String> = [
            (label::CLUSTER.to_owned(), self.cluster.as_str().to_owned()),
            (label::MANAGED_BY.to_owned(), label::MANAGED_BY_VALUE.to_owned()),
        ]
        .into();
        ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some(labels),
            // A hub that lags behind takes nothing back from a serial that it has not seen.
            annotations: Some([(annotation::SERIAL.to_owned(), self.serial.to_string())].into()),
            owner_references: self.owner.as_ref().map(|uid| vec![self.owned_by(uid)]),
            ..ObjectMeta::default()
        }
    }

    fn owned_by(&self, uid: &str) -> OwnerReference {
        OwnerReference {
            api_version: Cluster::api_version(&()).into_owned(),
            kind: Cluster::kind(&()).into_owned(),
            name: self.cluster.as_str().to_owned(),
            uid: uid.to_owned(),
            // Blocking would need the right to set finalizers of Clusters.
            block_owner_deletion: None,
            controller: None,
        }
    }
}

fn role_ref(kind: &str, name: &str) -> RoleRef {
    RoleRef {
        api_group: Some(GROUP.to_owned()),
        kind: kind.to_owned(),
        name: name.to_owned(),
    }
}
