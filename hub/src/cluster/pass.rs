//! One pass over one cluster: what is missing is made, what is decided is written.

use super::{
    ClusterError, ClusterOptions, Home, Observed,
    heartbeat::Heartbeat,
    join::{self, Requested, Verdict, rights::Rights},
    judge, labels, leave,
    objects::{Kept, params},
    provision::{self, Provision},
    same_but_last_seen,
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::{
        certificates::v1::{CertificateSigningRequest, CertificateSigningRequestCondition},
        coordination::v1::Lease,
        core::v1::Namespace,
    },
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
};
use roundhouse_api::{
    clock::SharedClock,
    cluster::{AgentIdentity, Cluster, ClusterReport, ClusterStatus, IdentityMethod},
    names::{CLUSTER_FINALIZER, ClusterName, HUB_FIELD_MANAGER},
};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

/// How often a cluster whose namespace is not ours, or is being deleted, is looked at again.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// One pass over one cluster, with all that was seen of it.
pub(super) struct Pass {
    pub(super) client: Client,
    pub(super) options: ClusterOptions,
    pub(super) clock: SharedClock,
    pub(super) hub_id: String,
    pub(super) cluster: Arc<Cluster>,
    pub(super) namespace: Option<Arc<Namespace>>,
    pub(super) lease: Option<Arc<Lease>>,
    pub(super) report: Option<Arc<ClusterReport>>,
    pub(super) request: Option<Arc<CertificateSigningRequest>>,
    pub(super) heartbeat: Option<Heartbeat>,
    /// The rights that are known to be as they should be.
    pub(super) settled: Option<Rights>,
}

/// What a pass leaves behind.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// When to look again.
    pub(super) again: Option<Timestamp>,
    /// The rights that are as they should be now.
    pub(super) settled: Option<Rights>,
}

pub(super) fn after(now: Timestamp, pause: Duration) -> Timestamp {
    let pause = SignedDuration::try_from(pause).unwrap_or(SignedDuration::MAX);
    now.checked_add(pause).unwrap_or(Timestamp::MAX)
}

impl Pass {
    /// Makes what is missing, judges, and writes the status if it differs.
    pub(super) async fn run(self) -> Result<Outcome, ClusterError> {
        let now = self.clock.now();
        if self.cluster.metadata.deletion_timestamp.is_some() {
            return self.leave(now).await;
        }
        let name = ClusterName::new(self.cluster.name_any());
        if name.is_ok() && self.wants_home() && !self.is_held() {
            self.hold().await?;
            // The watch brings the Cluster as it is now, and with it the next pass.
            return Ok(Outcome {
                settled: self.settled,
                ..Outcome::default()
            });
        }
        let home = match &name {
            Ok(name) => self.home(name).await?,
            Err(error) => Home::InvalidName(error.to_string()),
        };
        let (mut outcome, mut identity, mut approval) = (Outcome::default(), None, None);
        if let (Ok(name), Home::Ready) = (&name, &home)
            && self.cluster.spec.serial > 0
        {
            let heard = self.heartbeat.and_then(|heartbeat| heartbeat.changed);
            let invitation = join::invitation(&self.cluster, heard, now);
            let rights = self.rights(name, invitation.open);
            outcome.again = invitation.until;
            // Who was let in before has nothing any more before anybody else is, or is said to be, let in.
            if self.settled.as_ref() != Some(&rights) {
                put_rights(&self.client, &rights).await?;
            }
            let judged = self.judged_request(now);
            identity = Some(self.identity(&rights, judged.as_ref(), now));
            approval = judged;
            outcome.settled = Some(rights);
        }
        if home == Home::Ready
            && self.cluster.spec.accepted
            && let Ok(name) = &name
        {
            self.provision(name)
                .lease(self.lease.as_deref(), &self.hub_id, self.options.lease_duration)
                .await?;
        }
        let settled = matches!(home, Home::Ready | Home::NotAccepted | Home::InvalidName(_));
        let judgement = judge(
            &Observed {
                cluster: &self.cluster,
                home,
                heartbeat: self.heartbeat,
                report: self.report.as_deref().map(|report| &report.spec),
                identity,
            },
            self.options.lease_duration,
            now,
        );
        let wrote = self.write_if_other(judgement.status).await?;
        let look_again = (!settled).then(|| after(now, LOOK_AGAIN));
        outcome.again = [outcome.again, judgement.recheck_at, look_again]
            .into_iter()
            .flatten()
            .min();
        match approval {
            // Claimed first: a status that could not be written claims nothing.
            Some((request, Verdict::Approve(Some(_)))) if wrote == Wrote::Conflict => {
                tracing::debug!(request = request.name_any(), "a request waits for its claim");
            }
            Some((request, verdict)) => answer(&self.client, &request, &verdict, now).await?,
            None => {}
        }
        if wrote == Wrote::Nothing {
            self.relabel().await?;
        }
        Ok(outcome)
    }

    /// Whether the cluster has a namespace on the hub: it is let in, or somebody is invited to join from it.
    fn wants_home(&self) -> bool {
        self.cluster.spec.accepted || self.cluster.spec.serial > 0
    }

    fn is_held(&self) -> bool {
        self.cluster.finalizers().iter().any(|f| f == CLUSTER_FINALIZER)
    }

    fn provision<'a>(&'a self, cluster: &'a ClusterName) -> Provision<'a> {
        Provision {
            client: &self.client,
            cluster,
        }
    }

    async fn home(&self, name: &ClusterName) -> Result<Home, ClusterError> {
        if !self.wants_home() {
            return Ok(Home::NotAccepted);
        }
        let found;
        let namespace = match self.namespace.as_deref() {
            Some(namespace) => namespace,
            None => {
                found = self.provision(name).namespace().await?;
                &found
            }
        };
        if !provision::is_ours(namespace, name) {
            return Ok(Home::Foreign);
        }
        if namespace.metadata.deletion_timestamp.is_some() {
            return Ok(Home::Terminating);
        }
        Ok(Home::Ready)
    }

    fn rights(&self, name: &ClusterName, invited: bool) -> Rights {
        Rights {
            cluster: name.clone(),
            serial: self.cluster.spec.serial,
            method: self.options.identity,
            accepted: self.cluster.spec.accepted,
            invited,
        }
    }

    /// The request of the cluster's agent that is still to be decided, and what is decided.
    fn judged_request(&self, now: Timestamp) -> Option<(Arc<CertificateSigningRequest>, Verdict)> {
        let request = self.request.as_ref()?;
        let requested = Requested::of(request)?;
        let longest = self.options.longest_certificate;
        let verdict = join::decide(&requested, Some(&self.cluster), longest, now);
        Some((request.clone(), verdict))
    }

    /// What the status says of the identity, with the claim of what is about to be approved.
    fn identity(
        &self,
        rights: &Rights,
        judged: Option<&(Arc<CertificateSigningRequest>, Verdict)>,
        now: Timestamp,
    ) -> AgentIdentity {
        let before = join::identity_of(&self.cluster).cloned().unwrap_or_default();
        let serial = rights.serial;
        let claim = |key: Option<String>| match before.serial == serial {
            true => (before.serial, before.key.clone(), before.since.clone()),
            false => (serial, key, Some(Time(now))),
        };
        let (serial, key, since) = match (rights.method, judged) {
            // The account exists from the moment on in which the cluster is accepted.
            (IdentityMethod::Token, _) if rights.accepted => claim(None),
            (_, Some((_, Verdict::Approve(Some(key))))) => claim(Some(key.clone())),
            _ => (before.serial, before.key.clone(), before.since.clone()),
        };
        let waiting_key = match judged {
            Some((_, Verdict::Wait(key))) => Some(key.clone()),
            _ => None,
        };
        AgentIdentity {
            method: rights.method,
            user: rights.accepted.then(|| rights.user()),
            serial,
            key,
            since,
            waiting_key,
        }
    }

    async fn leave(&self, now: Timestamp) -> Result<Outcome, ClusterError> {
        if !self.is_held() {
            return Ok(Outcome::default());
        }
        let (message, again) = match leave::step(&self.client, &self.cluster, now).await? {
            leave::Left::Whole => {
                self.patch(
                    json!({"metadata": {
                    "resourceVersion": self.cluster.resource_version(),
                    "finalizers": others(&self.cluster)}}),
                    "releasing it",
                )
                .await?;
                return Ok(Outcome::default());
            }
            leave::Left::Waiting { message, again } => (message, again),
        };
        let status = leave::status(&self.cluster, message, now);
        self.write_if_other(status).await?;
        Ok(Outcome {
            again: Some(after(now, again)),
            settled: None,
        })
    }

    /// Puts the hub's finalizer on the Cluster: what is made for it is taken away before it is gone.
    async fn hold(&self) -> Result<(), ClusterError> {
        let mut finalizers = others(&self.cluster);
        finalizers.push(CLUSTER_FINALIZER.to_owned());
        let patch = json!({"metadata": {
            "resourceVersion": self.cluster.resource_version(), "finalizers": finalizers}});
        self.patch(patch, "putting the hub's finalizer on it").await
    }

    /// Takes over the labels that the agent proposes.
    async fn relabel(&self) -> Result<(), ClusterError> {
        let Some(report) = self.report.as_deref() else {
            return Ok(());
        };
        let Some(changed) = labels::difference(self.cluster.labels(), &report.spec.labels) else {
            return Ok(());
        };
        let patch = json!({"metadata": {
            "resourceVersion": self.cluster.resource_version(), "labels": changed}});
        self.patch(patch, "writing the labels that its agent proposes")
            .await
    }

    async fn patch(&self, patch: Value, action: &'static str) -> Result<(), ClusterError> {
        let api: Api<Cluster> = Api::all(self.client.clone());
        let params = PatchParams {
            field_manager: Some(HUB_FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let name = self.cluster.name_any();
        match api.patch(&name, &params, &Patch::Merge(patch)).await {
            Ok(_) => Ok(()),
            // Someone else wrote: the watch brings the newer object and with it the next pass.
            Err(kube::Error::Api(answer)) if answer.is_conflict() || answer.is_not_found() => Ok(()),
            Err(source) => Err(ClusterError::Api {
                cluster: name,
                action,
                source: Box::new(source),
            }),
        }
    }

    async fn write_if_other(&self, status: ClusterStatus) -> Result<Wrote, ClusterError> {
        let present = self.cluster.status.clone().unwrap_or_default();
        if same_but_last_seen(&present, &status) {
            return Ok(Wrote::Nothing);
        }
        let mut cluster = Cluster::clone(&self.cluster);
        cluster.metadata.managed_fields = None;
        cluster.status = Some(status);
        let name = cluster.name_any();
        let api: Api<Cluster> = Api::all(self.client.clone());
        match api.replace_status(&name, &params(), &cluster).await {
            Ok(_) => Ok(Wrote::Status),
            // Someone else wrote: the watch brings the newer object and with it the next pass.
            Err(kube::Error::Api(answer)) if answer.is_conflict() || answer.is_not_found() => {
                Ok(Wrote::Conflict)
            }
            Err(source) => Err(ClusterError::Api {
                cluster: name,
                action: "writing its status",
                source: Box::new(source),
            }),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wrote {
    Nothing,
    Status,
    Conflict,
}

/// The finalizers of others.
fn others(cluster: &Cluster) -> Vec<String> {
    let all = cluster.finalizers().iter();
    all.filter(|f| *f != CLUSTER_FINALIZER).cloned().collect()
}

/// Makes the rights what they should be: what is to end first.
pub(super) async fn put_rights(client: &Client, rights: &Rights) -> Result<(), ClusterError> {
    let (cluster, namespace) = (rights.cluster.as_str(), rights.cluster.namespace());
    let accounts = Kept {
        api: Api::namespaced(client.clone(), &namespace),
        cluster,
        what: "its ServiceAccount",
    };
    // A token is good as long as its account is the same object: another serial is another account.
    for (name, wanted) in [
        (roundhouse_api::names::JOIN_ACCOUNT, rights.join_account()),
        (roundhouse_api::names::AGENT_ROLE, rights.agent_account()),
    ] {
        let found = accounts.find(name).await?;
        let other = |there: &k8s_openapi::api::core::v1::ServiceAccount| {
            wanted
                .as_ref()
                .is_none_or(|wanted| there.annotations() != wanted.annotations())
        };
        if let Some(there) = found.as_ref().filter(|there| other(there)) {
            accounts.delete(there).await?;
        }
    }
    let roles = Kept {
        api: Api::namespaced(client.clone(), &namespace),
        cluster,
        what: "its Role",
    };
    roles.put(&rights.role()).await?;
    let bindings = Kept {
        api: Api::namespaced(client.clone(), &namespace),
        cluster,
        what: "its RoleBinding",
    };
    for binding in [rights.role_binding(), rights.token_role_binding()] {
        match binding.subjects.as_ref().is_none_or(Vec::is_empty) {
            true => bindings.remove(&binding.name_any()).await?,
            false => {
                if binding.name_any() == roundhouse_api::names::JOIN_ACCOUNT {
                    roles.put(&rights.token_role()).await?;
                }
                bindings.put(&binding).await?;
            }
        }
    }
    let binding = rights.request_role_binding();
    let fleet_bindings = Kept {
        api: Api::all(client.clone()),
        cluster,
        what: "its ClusterRoleBinding",
    };
    match binding.subjects.as_ref().is_none_or(Vec::is_empty) {
        true => fleet_bindings.remove(&binding.name_any()).await?,
        false => {
            let fleet_roles = Kept {
                api: Api::all(client.clone()),
                cluster,
                what: "its ClusterRole",
            };
            fleet_roles.put(&rights.request_role()).await?;
            fleet_bindings.put(&binding).await?;
        }
    }
    for account in rights.join_account().into_iter().chain(rights.agent_account()) {
        accounts.put(&account).await?;
    }
    Ok(())
}

/// Writes what was decided on a request, on the request that was looked at.
pub(super) async fn answer(
    client: &Client,
    request: &CertificateSigningRequest,
    verdict: &Verdict,
    now: Timestamp,
) -> Result<(), ClusterError> {
    let (type_, reason, message) = match verdict {
        Verdict::Wait(_) => return Ok(()),
        Verdict::Approve(_) => (
            "Approved",
            "AgentAccepted",
            "the cluster is accepted, and this is its agent".to_owned(),
        ),
        Verdict::Deny(reason, message) => ("Denied", *reason, message.clone()),
    };
    let name = request.name_any();
    if type_ == "Denied" {
        tracing::warn!(
            request = name,
            by = request.spec.username,
            reason,
            message,
            "the request for a certificate of an agent is denied"
        );
    } else {
        tracing::info!(request = name, "the certificate of an agent is approved");
    }
    let condition = CertificateSigningRequestCondition {
        type_: type_.to_owned(),
        status: "True".to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message),
        last_update_time: Some(Time(now)),
        last_transition_time: Some(Time(now)),
    };
    let mut conditions = request
        .status
        .as_ref()
        .and_then(|status| status.conditions.clone())
        .unwrap_or_default();
    conditions.push(condition);
    let patch = json!({
        "metadata": {"resourceVersion": request.resource_version(), "uid": request.uid()},
        "status": {"conditions": conditions}});
    let api: Api<CertificateSigningRequest> = Api::all(client.clone());
    let params = PatchParams {
        field_manager: Some(HUB_FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    };
    match api.patch_approval(&name, &params, &Patch::Merge(patch)).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(answer)) if answer.is_conflict() || answer.is_not_found() => Ok(()),
        Err(source) => Err(ClusterError::Api {
            cluster: name,
            action: "deciding this request for a certificate",
            source: Box::new(source),
        }),
    }
}
