//! One pass over one cluster: what is missing is made, what is decided is written.

use super::{
    ClusterError, ClusterOptions, Home, Observed,
    answer::answer,
    grant::{Settled, put_rights},
    heartbeat::Heartbeat,
    join::{self, Requested, Verdict, rights::Rights},
    judge,
    judge::Obstacle,
    labels, leave,
    provision::{self, Provision},
    same_but_last_seen,
};
use crate::{application::Making, writes};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::{certificates::v1::CertificateSigningRequest, coordination::v1::Lease, core::v1::Namespace},
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::{Api, Client, ResourceExt, api::Patch};
use roundhouse_api::{
    clock::SharedClock,
    cluster::{AVAILABLE, AgentIdentity, Cluster, ClusterReport, ClusterStatus, IdentityMethod},
    condition,
    names::{CLUSTER_FINALIZER, ClusterName, cluster_namespace},
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
    /// Bundles that are to be made.
    pub(super) making: Making,
    /// Fencing epoch of this hub.
    pub(super) epoch: Option<i64>,
    pub(super) cluster: Arc<Cluster>,
    pub(super) namespace: Option<Arc<Namespace>>,
    pub(super) lease: Option<Arc<Lease>>,
    pub(super) report: Option<Arc<ClusterReport>>,
    pub(super) request: Option<Arc<CertificateSigningRequest>>,
    pub(super) heartbeat: Option<Heartbeat>,
    /// The rights that are known to be as they should be.
    pub(super) settled: Option<Settled>,
}

/// What a pass leaves behind.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// When to look again.
    pub(super) again: Option<Timestamp>,
    /// The rights that are as they should be now.
    pub(super) settled: Option<Settled>,
    /// What could not be done, when everything else was.
    pub(super) failed: Option<ClusterError>,
}

pub(super) fn after(now: Timestamp, pause: Duration) -> Timestamp {
    let pause = SignedDuration::try_from(pause).unwrap_or(SignedDuration::MAX);
    now.checked_add(pause).unwrap_or(Timestamp::MAX)
}

impl Pass {
    /// Makes what is missing, judges, and writes the status if it differs. What cannot be made keeps nothing from being judged.
    pub(super) async fn run(self) -> Result<Outcome, ClusterError> {
        let now = self.clock.now();
        let leaving = self.cluster.metadata.deletion_timestamp.is_some();
        if leaving && !self.is_held() {
            return Ok(Outcome::default());
        }
        let name = ClusterName::new(self.cluster.name_any());
        if name.is_ok() && self.wants_home() && !self.is_held() {
            self.hold().await?;
            // The watch brings the Cluster as it was written, and with it the next pass.
            return Ok(Outcome {
                settled: self.settled,
                ..Outcome::default()
            });
        }
        let namespace = cluster_namespace(&self.cluster.name_any());
        if !leaving {
            self.making.open(&namespace);
        }
        let mut outcome = Outcome::default();
        let home = match &name {
            Ok(name) if leaving => self.home_left(name),
            Ok(name) => self.home(name).await.unwrap_or_else(|error| {
                outcome.failed = Some(error);
                Home::Unknown
            }),
            Err(error) => Home::InvalidName(error.to_string()),
        };
        let (mut identity, mut approval) = (None, None);
        if let (Ok(name), Home::Ready) = (&name, &home) {
            match self.admit(name, now, &mut outcome).await {
                Ok(admitted) => (identity, approval) = admitted,
                Err(error) => outcome.failed = Some(error),
            }
            if self.cluster.spec.accepted && !leaving {
                let lease = self.provision(name);
                let lease = lease.lease(self.lease.as_deref(), &self.hub_id, self.options.lease_duration);
                let failed = lease.await.err();
                outcome.failed = outcome.failed.or(failed);
            }
        }
        let settled = matches!(home, Home::Ready | Home::NotAccepted | Home::InvalidName(_));
        let obstacle = match &outcome.failed {
            Some(failed) => Some(Obstacle::NotProvisioned(failed.to_string())),
            None => self.decided(now, &mut outcome),
        };
        let judgement = judge(
            &Observed {
                cluster: &self.cluster,
                home,
                heartbeat: self.heartbeat,
                report: self.report.as_deref().map(|report| &report.spec),
                identity,
                obstacle,
            },
            self.options.lease_duration,
            now,
        );
        let mut status = judgement.status;
        let mut look_again = (!settled && !leaving).then(|| after(now, LOOK_AGAIN));
        if leaving {
            let available = condition::is_true(&status.conditions, AVAILABLE);
            let hub = (self.epoch, self.making.close(&namespace));
            match leave::step(&self.client, &self.cluster, available, hub).await? {
                leave::Left::Whole => return self.release().await,
                leave::Left::Waiting { message, again } => {
                    let generation = self.cluster.metadata.generation;
                    condition::set(&mut status.conditions, leave::verdict(message), generation, now);
                    look_again = Some(after(now, again));
                }
            }
        }
        let wrote = self.write_if_other(status).await;
        outcome.again = [outcome.again, judgement.recheck_at, look_again]
            .into_iter()
            .flatten()
            .min();
        // Claimed first: a status that could not be written claims nothing. What is known already is known all the same.
        let done = async {
            let wrote = wrote?;
            if let Some((request, verdict)) = approval {
                answer(&self.client, &request, &verdict, now).await?;
            }
            match !wrote && !leaving {
                true => self.relabel().await,
                false => Ok(()),
            }
        };
        outcome.failed = outcome.failed.or(done.await.err());
        Ok(outcome)
    }

    /// Gives the cluster's agent its rights, and judges what it asks for; nothing where nobody was ever invited.
    async fn admit(
        &self,
        name: &ClusterName,
        now: Timestamp,
        outcome: &mut Outcome,
    ) -> Result<(Option<AgentIdentity>, Option<Judged>), ClusterError> {
        if self.cluster.spec.serial == 0 {
            return Ok((None, None));
        }
        let heard = self.heartbeat.and_then(|heartbeat| heartbeat.changed);
        let invitation = join::invitation(&self.cluster, self.options.identity, heard, now);
        let rights = self.rights(name, invitation.open);
        outcome.again = invitation.until;
        // Who was let in before has nothing any more before anybody else is, or is said to be, let in.
        let settled = match &self.settled {
            Some(settled) if settled.rights == rights => settled.clone(),
            _ => {
                self.is_present().await?;
                put_rights(&self.client, rights).await?
            }
        };
        let judged = self.judged_request(settled.invited.as_deref(), now);
        let identity = self.identity(&settled.rights, judged.as_ref(), now);
        outcome.settled = Some(settled);
        Ok((Some(identity), judged))
    }

    /// Whether the Cluster is as it was seen: rights are not written by what a watch that lags behind shows.
    async fn is_present(&self) -> Result<(), ClusterError> {
        let api: Api<Cluster> = Api::all(self.client.clone());
        let name = self.cluster.name_any();
        let found = api.get_metadata_opt(&name).await;
        let found = found.map_err(|source| ClusterError::Api {
            cluster: name.clone(),
            action: "reading it",
            source: Box::new(source),
        })?;
        let same = found.is_some_and(|found| found.resource_version() == self.cluster.resource_version());
        if same {
            return Ok(());
        }
        Err(ClusterError::Changed {
            cluster: name,
            what: "it",
        })
    }

    /// What the request of the agent tells that was decided.
    fn decided(&self, now: Timestamp, outcome: &mut Outcome) -> Option<Obstacle> {
        let request = self.request.as_deref()?;
        let (obstacle, due) = join::told_by(request, self.cluster.spec.serial, now);
        outcome.again = [outcome.again, due].into_iter().flatten().min();
        obstacle
    }

    /// Where the namespace of a cluster that leaves stands: none is made for it.
    fn home_left(&self, name: &ClusterName) -> Home {
        match self.namespace.as_deref() {
            None => Home::NotAccepted,
            Some(namespace) if !provision::is_ours(namespace, name) => Home::Foreign,
            Some(namespace) if namespace.metadata.deletion_timestamp.is_some() => Home::Terminating,
            Some(_) => Home::Ready,
        }
    }

    /// Lets the Cluster go: nothing is left of it.
    async fn release(&self) -> Result<Outcome, ClusterError> {
        let patch = json!({"metadata": {
            "resourceVersion": self.cluster.resource_version(), "finalizers": others(&self.cluster)}});
        self.patch(patch, "releasing it").await?;
        Ok(Outcome::default())
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
            owner: self.cluster.uid(),
            serial: self.cluster.spec.serial,
            method: self.options.identity,
            accepted: join::lets_in(&self.cluster, self.options.identity),
            invited,
        }
    }

    /// The request of the cluster's agent that is still to be decided, and what is decided.
    fn judged_request(&self, invited: Option<&str>, now: Timestamp) -> Option<Judged> {
        let request = self.request.as_ref()?;
        let requested = Requested::of(request)?;
        let longest = self.options.longest_certificate;
        let verdict = join::decide(&requested, Some(&self.cluster), invited, longest, now);
        Some((request.clone(), verdict))
    }

    /// What the status says of the identity, with the claim of what is about to be approved.
    fn identity(&self, rights: &Rights, judged: Option<&Judged>, now: Timestamp) -> AgentIdentity {
        let before = join::identity_of(&self.cluster).cloned().unwrap_or_default();
        let serial = rights.serial;
        let claim = |key: Option<String>| match before.serial == serial {
            true => (before.serial, before.key.clone(), before.since.clone()),
            false => (serial, key, Some(Time(now))),
        };
        let (serial, key, since) = match (rights.method, judged) {
            // The account exists from the moment on in which this invitation is accepted.
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
            observed_serial: rights.serial,
            user: rights.accepted.then(|| rights.user()),
            serial,
            key,
            since,
            waiting_key,
        }
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
        let name = self.cluster.name_any();
        let answer = api.patch(&name, &writes::patch(), &Patch::Merge(patch)).await;
        answer.map(drop).map_err(self.failed(action))
    }

    /// Whether there was something to write.
    async fn write_if_other(&self, status: ClusterStatus) -> Result<bool, ClusterError> {
        let present = self.cluster.status.clone().unwrap_or_default();
        if same_but_last_seen(&present, &status) {
            return Ok(false);
        }
        // Only what differs: fields of a later hub stay, and so does a spec that is written in another way than this one would.
        let Some(changed) = difference(&present, &status) else {
            return Ok(false);
        };
        let patch =
            json!({"metadata": {"resourceVersion": self.cluster.resource_version()}, "status": changed});
        let name = self.cluster.name_any();
        let api: Api<Cluster> = Api::all(self.client.clone());
        let answer = api
            .patch_status(&name, &writes::patch(), &Patch::Merge(patch))
            .await;
        answer.map(|_| true).map_err(self.failed("writing its status"))
    }

    /// Why the Cluster could not be written. It may be another one by now, or a conflict may be the word of something in
    /// between: no event has to follow from that, so it is looked at again without one.
    fn failed(&self, action: &'static str) -> impl FnOnce(kube::Error) -> ClusterError {
        let cluster = self.cluster.name_any();
        move |source| match source {
            kube::Error::Api(answer) if answer.is_conflict() || answer.is_not_found() => {
                ClusterError::Changed { cluster, what: "it" }
            }
            source => ClusterError::Api {
                cluster,
                action,
                source: Box::new(source),
            },
        }
    }
}

/// A request that is to be decided, and what is decided.
type Judged = (Arc<CertificateSigningRequest>, Verdict);

/// What of a status is to change, as a merge patch.
fn difference(present: &ClusterStatus, next: &ClusterStatus) -> Option<Value> {
    let (present, next) = (serde_json::to_value(present), serde_json::to_value(next));
    roundhouse_patch::json_diff(&present.ok()?, &next.ok()?)
}

/// The finalizers of others.
fn others(cluster: &Cluster) -> Vec<String> {
    let all = cluster.finalizers().iter();
    all.filter(|f| *f != CLUSTER_FINALIZER).cloned().collect()
}
