//! A cluster leaves: its bundles are let go by its agent, or deleted by it, or forgotten; then goes what the hub made for it.
//!
//! Nothing is taken for done that the agent has not said, unless somebody who administers the hub says to forget it: then the
//! objects in the cluster stay as they are. What its agent holds of Bundles that are not there any more is told, too (`told`).

mod remains;
mod told;

use super::{ClusterError, join::rights::Rights, objects::Kept};
use crate::{relist::older, words, writes};
use k8s_openapi::api::{
    certificates::v1::CertificateSigningRequest,
    core::v1::Namespace,
    rbac::v1::{ClusterRole, ClusterRoleBinding},
};
use kube::{
    Api, Client, Error, ResourceExt,
    api::{ListParams, Patch},
};
use roundhouse_api::{
    bundle::{Bundle, BundlePhase, Deletion, PropagationPolicy},
    cluster::{Cluster, IdentityMethod, LEAVING, Leave},
    condition::{Status, Verdict},
    names::{AgentName, BUNDLE_FINALIZER, ClusterName},
};
use serde_json::{Value, json};
use std::{collections::BTreeSet, time::Duration};

/// Bundles that are looked at in one pass.
const PAGE: u32 = 100;
/// How soon it is looked again while something moves, and while an agent is waited for.
const SOON: Duration = Duration::from_secs(1);
const LATER: Duration = Duration::from_secs(5);

/// How far a cluster has left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Left {
    /// Nothing is left of it.
    Whole,
    /// Something is waited for.
    Waiting {
        /// What, for people.
        message: String,
        /// How soon to look again.
        again: Duration,
    },
}

/// What is due for one Bundle.
#[derive(Debug, Clone, PartialEq)]
enum Due {
    /// The evidence that its objects are let go, or may be deleted, in a merge patch.
    Tell(Value),
    /// It is deleted, held by its finalizer.
    Delete,
    /// The agent is done with it: the finalizer goes.
    Release,
    /// The agent is waited for.
    Await,
}

/// Decides what is due for a Bundle of a cluster that leaves in this way; pure.
fn due(bundle: &Bundle, how: Leave) -> Due {
    let (meta, spec) = (&bundle.metadata, &bundle.spec);
    let held = bundle.finalizers().iter().any(|f| f == BUNDLE_FINALIZER);
    let deleting = meta.deletion_timestamp.is_some();
    if how == Leave::Forget {
        return match (held, deleting) {
            (true, _) => Due::Release,
            (false, false) => Due::Delete,
            (false, true) => Due::Await,
        };
    }
    let told = spec
        .deletion
        .as_ref()
        .map(|deletion| deletion.confirmed_by.as_str());
    let policy = spec
        .delete_option
        .as_ref()
        .and_then(|option| option.propagation_policy);
    let as_told = match how {
        Leave::Orphan => policy == Some(PropagationPolicy::Orphan),
        Leave::DeleteResources | Leave::Forget => true,
    };
    if told != Some(Deletion::CLUSTER_LEFT) || !as_told || (!held && !deleting) {
        let deletion = Deletion {
            revision: spec.revision.clone().unwrap_or_default(),
            confirmed_by: Deletion::CLUSTER_LEFT.to_owned(),
        };
        let mut patch = json!({"metadata": {"resourceVersion": bundle.resource_version()},
            "spec": {"deletion": deletion}});
        if how == Leave::Orphan {
            patch["spec"]["deleteOption"] = json!({"propagationPolicy": "Orphan"});
        }
        // Held until the agent has heard of it, also where a person wrote the Bundle.
        if !held && !deleting {
            let mut finalizers = bundle.finalizers().to_vec();
            finalizers.push(BUNDLE_FINALIZER.to_owned());
            patch["metadata"]["finalizers"] = json!(finalizers);
        }
        return Due::Tell(patch);
    }
    if !deleting {
        return Due::Delete;
    }
    let cleaned = bundle.status.as_ref().is_some_and(|status| {
        let is_own = meta.generation.is_some_and(|present| status.is_about(present));
        status.phase == Some(BundlePhase::Cleaned) && is_own
    });
    match (cleaned, held) {
        (true, true) => Due::Release,
        _ => Due::Await,
    }
}

/// Takes the leaving of a cluster one step further.
///
/// `available` is whether its agent is heard of, `epoch` the fencing epoch of this hub, `may_be_made` for how long a Bundle may yet
/// be made in its namespace by a request that was not answered: with the namespace goes what its agent may, and who is not
/// asked before cannot be asked any more.
pub(super) async fn step(
    client: &Client,
    cluster: &Cluster,
    available: bool,
    (epoch, may_be_made): (Option<i64>, Option<Duration>),
) -> Result<Left, ClusterError> {
    let Ok(name) = ClusterName::new(cluster.name_any()) else {
        return Ok(Left::Whole);
    };
    let how = cluster.spec.leave.unwrap_or_default();
    let leaving = Leaving {
        client,
        name: &name,
        how,
        available,
        epoch,
    };
    let home = Kept {
        api: Api::<Namespace>::all(client.clone()),
        cluster: name.as_str(),
        what: "its namespace",
        serial: u32::MAX,
    };
    let namespace = match home.find(&name.namespace()).await {
        // A namespace of that name that is somebody else's was never ours to empty.
        Err(ClusterError::Foreign { .. }) => None,
        found => found?,
    };
    if let Some(namespace) = namespace {
        if how == Leave::Forget {
            // Its agent may have no more say in it.
            leaving.identity().await?;
        }
        let since = cluster.resource_version().unwrap_or_default();
        // What nothing can be made in any more can be told nothing more, either.
        let stands = namespace.metadata.deletion_timestamp.is_none();
        if let Some(waiting) = leaving.bundles(stands, &since).await? {
            return Ok(waiting);
        }
        if stands {
            if let Some(left) = may_be_made.filter(|_| how != Leave::Forget) {
                let message = format!(
                    "a request to make a bundle for it was not answered, and may still arrive: its namespace goes in {} at the latest",
                    words::time(left)
                );
                return Ok(Left::Waiting { message, again: SOON });
            }
            home.delete(&namespace).await?;
        }
        let mut message = format!("its namespace {} is being removed", name.namespace());
        let held = remains::held(client, &name, how).await?;
        if let Some(held) = remains::named(&held, &namespace) {
            message.push_str(&format!("; what is left in it: {held}"));
            if how != Leave::Forget {
                message.push_str(&format!(
                    "; roundhouse leave {name} --force removes what its agent holds"
                ));
            }
        }
        return Ok(Left::Waiting { message, again: SOON });
    }
    leaving.identity().await?;
    Ok(Left::Whole)
}

struct Leaving<'a> {
    client: &'a Client,
    name: &'a ClusterName,
    how: Leave,
    /// Whether its agent is heard of.
    available: bool,
    epoch: Option<i64>,
}

impl Leaving<'_> {
    fn api(&self) -> Api<Bundle> {
        Api::namespaced(self.client.clone(), &self.name.namespace())
    }

    /// Takes each Bundle one step further; what is waited for, if any is left. `since` is the version at which the cluster was
    /// seen to leave, `stands` whether its namespace is not being removed yet.
    async fn bundles(&self, stands: bool, since: &str) -> Result<Option<Left>, ClusterError> {
        let (api, how) = (self.api(), self.how);
        let tells = stands && how != Leave::Forget;
        let (mut token, mut left): (Option<String>, Option<u64>) = (None, None);
        let (mut moved, mut waiting, mut refused) = (false, None, None);
        let mut told = BTreeSet::new();
        loop {
            let page = ListParams::default().limit(PAGE);
            let page = match &token {
                Some(token) => page.continue_token(token),
                None => page,
            };
            let list = api.list(&page).await;
            let list = list.map_err(self.failed("listing its bundles"))?;
            if left.is_none() && list.items.is_empty() {
                // There may have been none then: only a list that is no older than the wish to leave says that none is left.
                let version = list.metadata.resource_version.unwrap_or_default();
                if older(since, &version) {
                    let message = "the API server lists its bundles as they were before it was to leave; it is asked again";
                    return Ok(Some(Left::Waiting {
                        message: message.to_owned(),
                        again: SOON,
                    }));
                }
                break;
            }
            let more = list.metadata.remaining_item_count.unwrap_or_default();
            left.get_or_insert(list.items.len() as u64 + u64::try_from(more).unwrap_or_default());
            for bundle in &list.items {
                let due = due(bundle, how);
                if tells && due == Due::Release && told::is_bare(bundle) {
                    told.insert(bundle.name_any());
                    continue;
                }
                if due == Due::Await {
                    waiting.get_or_insert_with(|| bundle.name_any());
                    continue;
                }
                // What is refused of one holds up no other.
                match self.take(&api, bundle, due).await {
                    Ok(()) => moved = true,
                    Err(error) => drop(refused.get_or_insert((bundle.name_any(), error))),
                }
            }
            token = list.metadata.continue_.filter(|token| !token.is_empty());
            // Where nothing moves any more, what is behind it may.
            if moved || token.is_none() {
                break;
            }
        }
        if !moved && waiting.is_none() && refused.is_none() {
            return match tells {
                true => self.tell(&told).await,
                false => Ok(None),
            };
        }
        Ok(Some(self.waits(
            left.unwrap_or_default(),
            waiting.as_ref(),
            moved,
            refused,
        )))
    }

    /// Makes a Bundle of each name of which the cluster has objects and no Bundle: it tells the agent what becomes of them. What is
    /// waited for, if anything is. Those that are `told` stay until all are, as nobody else keeps in mind that they were.
    async fn tell(&self, told: &BTreeSet<String>) -> Result<Option<Left>, ClusterError> {
        let holding = told::holding(self.client, self.name).await?;
        let (mut made, mut first, mut refused) = (0, None, None);
        for (bundle, owner) in &holding.bundles {
            if told.contains(bundle) {
                continue;
            }
            let untold = told::bundle(self.name, bundle, owner.as_ref(), (self.how, self.epoch));
            match self.api().create(&writes::post(), &untold).await {
                // Made meanwhile, it is seen to as the others are.
                Err(Error::Api(status)) if status.is_already_exists() => made += 1,
                Err(error) => {
                    let error = self.failed("telling its agent what becomes of what it holds")(error);
                    refused.get_or_insert((bundle.clone(), error));
                }
                Ok(_) => made += 1,
            }
            first.get_or_insert_with(|| bundle.clone());
        }
        if first.is_some() {
            return Ok(Some(self.waits(made, first.as_ref(), made > 0, refused)));
        }
        Ok((holding.more > 0).then(|| {
            let more = holding.more;
            let mut message = format!(
                "its agent holds objects of {more} more bundles that are not there any more, and has not named them yet"
            );
            message.push_str(&never(self.name, self.available));
            Left::Waiting {
                message,
                again: LATER,
            }
        }))
    }

    fn waits(
        &self,
        left: u64,
        first: Option<&String>,
        moved: bool,
        refused: Option<(String, ClusterError)>,
    ) -> Left {
        let mut message = waits_for(self.name, (self.how, self.available), left, first);
        if let Some((bundle, error)) = refused {
            tracing::warn!(cluster = self.name.as_str(), bundle, %error, "the bundle is not let go yet");
            message.push_str(&format!("; bundle {bundle}: {error}"));
        }
        Left::Waiting {
            message,
            again: if moved { SOON } else { LATER },
        }
    }

    async fn take(&self, api: &Api<Bundle>, bundle: &Bundle, due: Due) -> Result<(), ClusterError> {
        let patch = match due {
            Due::Await => return Ok(()),
            Due::Delete => {
                let deleted = api.delete(&bundle.name_any(), &writes::delete(bundle)).await;
                return gone_or(deleted.map(drop)).map_err(self.failed("deleting a bundle"));
            }
            Due::Tell(patch) => patch,
            Due::Release => {
                let kept: Vec<&String> = (bundle.finalizers().iter())
                    .filter(|f| *f != BUNDLE_FINALIZER)
                    .collect();
                json!({"metadata": {"resourceVersion": bundle.resource_version(), "finalizers": kept}})
            }
        };
        let patched = api
            .patch(&bundle.name_any(), &writes::patch(), &Patch::Merge(patch))
            .await;
        gone_or(patched.map(drop)).map_err(self.failed("letting a bundle go"))
    }

    /// Removes what the agent was known by.
    async fn identity(&self) -> Result<(), ClusterError> {
        let rights = Rights {
            cluster: self.name.clone(),
            owner: None,
            serial: 1,
            method: IdentityMethod::Certificate,
            accepted: false,
            invited: false,
        };
        let (cluster, role) = (self.name.as_str(), rights.request_role_name());
        let bindings = Kept {
            api: Api::<ClusterRoleBinding>::all(self.client.clone()),
            cluster,
            what: "its ClusterRoleBinding",
            serial: u32::MAX,
        };
        let roles = Kept {
            api: Api::<ClusterRole>::all(self.client.clone()),
            cluster,
            what: "its ClusterRole",
            serial: u32::MAX,
        };
        // What is called so and is not ours stays.
        for removed in [bindings.remove(&role).await, roles.remove(&role).await] {
            if !matches!(removed, Err(ClusterError::Foreign { .. })) {
                removed?;
            }
        }
        let requests: Api<CertificateSigningRequest> = Api::all(self.client.clone());
        let request = AgentName::request(self.name);
        let failed = || self.failed("removing the request of its agent");
        let Some(found) = requests.get_opt(&request).await.map_err(failed())? else {
            return Ok(());
        };
        // Not one of the same name that a cluster makes that joins again.
        match requests.delete(&request, &writes::delete(&found)).await {
            Err(Error::Api(status)) if status.is_not_found() => Ok(()),
            answer => answer.map(drop).map_err(failed()),
        }
    }

    fn failed(&self, action: &'static str) -> impl FnOnce(Error) -> ClusterError {
        let cluster = self.name.to_string();
        move |source| ClusterError::Api {
            cluster,
            action,
            source: Box::new(source),
        }
    }
}

/// What went meanwhile, or was written meanwhile, is looked at again.
fn gone_or(answer: Result<(), Error>) -> Result<(), Error> {
    match answer {
        Err(Error::Api(status)) if status.is_not_found() || status.is_conflict() => Ok(()),
        answer => answer,
    }
}

fn waits_for(
    name: &ClusterName,
    (how, available): (Leave, bool),
    left: u64,
    first: Option<&String>,
) -> String {
    let bundles = if left == 1 {
        "1 bundle"
    } else {
        &format!("{left} bundles")
    };
    let named = first
        .map(|name| format!(", {name} among them"))
        .unwrap_or_default();
    let does = match how {
        Leave::Orphan => "let go of",
        Leave::DeleteResources => "delete the objects of",
        Leave::Forget => return format!("{bundles} of it are being forgotten"),
    };
    let mut message = format!("the agent is to {does} {bundles}{named}");
    message.push_str(&never(name, available));
    message
}

/// What to do about an agent that never comes back.
fn never(name: &ClusterName, available: bool) -> String {
    match available {
        true => String::new(),
        false => format!(
            "; it is not heard of: when it never comes back, roundhouse leave {name} --force forgets it and leaves its objects as they are"
        ),
    }
}

/// That a cluster leaves, and what is waited for.
pub(super) fn verdict(message: String) -> Verdict {
    Verdict {
        type_: LEAVING,
        status: Status::True,
        reason: "Leaving",
        message,
    }
}

#[cfg(test)]
mod held;
#[cfg(test)]
mod tests;
