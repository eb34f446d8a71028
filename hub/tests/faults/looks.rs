//! What tests look at in clusters, and of hubs.

use k8s_openapi::api::{apps::v1::Deployment, coordination::v1::Lease};
use kube::{Api, ResourceExt};
use roundhouse_api::{bundle::Bundle, cluster::Cluster, condition, names::annotation};
use roundhouse_hub::{
    leader::{LEASE, NAMESPACE, Standing},
    simulate::{Fleet, run::Look},
};

/// What went wrong with a look, or nothing.
pub(crate) type Looked = Result<(), String>;

pub(crate) fn because(is_so: bool, why: impl FnOnce() -> String) -> Looked {
    if is_so { Ok(()) } else { Err(why()) }
}

/// A condition of a Cluster has this status and reason.
pub(crate) fn cluster(name: &str, type_: &'static str, status: &'static str) -> Look {
    let name = name.to_owned();
    Look::new(move |fleet| {
        let name = name.clone();
        Box::pin(async move {
            let cluster: Cluster = Api::all(fleet.hub_client())
                .get(&name)
                .await
                .map_err(|error| error.to_string())?;
            let conditions = cluster.status.unwrap_or_default().conditions;
            let found = condition::get(&conditions, type_);
            because(found.is_some_and(|c| c.status == status), || {
                format!("{type_} of {name}: {found:?}")
            })
        })
    })
}

/// Every Cluster is available.
pub(crate) fn all_available() -> Look {
    unavailable(&[])
}

/// The clusters that are not available, sorted.
async fn not_available(fleet: &Fleet) -> Result<Vec<String>, String> {
    let all = Api::<Cluster>::all(fleet.hub_client())
        .list(&Default::default())
        .await
        .map_err(|error| error.to_string())?;
    let is_not = |cluster: &&Cluster| {
        let conditions = cluster.status.as_ref().map(|status| status.conditions.as_slice());
        !condition::is_true(conditions.unwrap_or_default(), "Available")
    };
    Ok(all.iter().filter(is_not).map(ResourceExt::name_any).collect())
}

/// These clusters are not available, and all others are.
pub(crate) fn unavailable(names: &'static [&'static str]) -> Look {
    Look::new(move |fleet| {
        Box::pin(async move {
            let rest = not_available(fleet).await?;
            because(rest == names, || format!("not available: {rest:?}"))
        })
    })
}

/// All clusters but that one are available, and it may be.
pub(crate) fn none_unavailable_but(name: &'static str) -> Look {
    Look::new(move |fleet| {
        Box::pin(async move {
            let rest = not_available(fleet).await?;
            let others = rest.iter().all(|cluster| cluster == name);
            because(others, || format!("not available: {rest:?}"))
        })
    })
}

/// The Deployment of an application in a member.
pub(crate) async fn deployment(fleet: &Fleet, member: &str, name: &str) -> Result<Deployment, String> {
    let client = fleet.member_client(member).map_err(|error| error.to_string())?;
    let api: Api<Deployment> = Api::namespaced(client, "default");
    api.get(name).await.map_err(|error| format!("{member}: {error}"))
}

/// The image of its first container.
pub(crate) fn image(deployment: &Deployment) -> Option<String> {
    let template = &deployment.spec.as_ref()?.template;
    template.spec.as_ref()?.containers.first()?.image.clone()
}

/// The Deployment of an application has this image in these members.
pub(crate) fn images(name: &'static str, wanted: &'static str, members: Vec<String>) -> Look {
    Look::new(move |fleet| {
        let members = members.clone();
        Box::pin(async move {
            for member in members {
                let found = image(&deployment(fleet, &member, name).await?);
                because(found.as_deref() == Some(wanted), || {
                    format!("{member} runs {found:?}")
                })?;
            }
            Ok(())
        })
    })
}

/// The Deployment of a member has another image.
pub(crate) fn is_behind(name: &'static str, newest: &'static str, member: &str) -> Look {
    let member = member.to_owned();
    Look::new(move |fleet| {
        let member = member.clone();
        Box::pin(async move {
            let found = image(&deployment(fleet, &member, name).await?);
            because(found.is_some_and(|image| image != newest), || {
                format!("{member} runs {newest}")
            })
        })
    })
}

/// The Deployment was made once in every member, and changed so often since: nothing was applied twice with another effect.
pub(crate) fn generations(name: &'static str, wanted: i64, members: Vec<String>) -> Look {
    Look::new(move |fleet| {
        let members = members.clone();
        Box::pin(async move {
            for member in members {
                let found = deployment(fleet, &member, name).await?.metadata.generation;
                because(found == Some(wanted), || {
                    format!("{member}: generation {found:?}, not {wanted}")
                })?;
            }
            Ok(())
        })
    })
}

/// A hub leads, or follows.
pub(crate) fn leads(hub: &'static str, is_so: bool) -> Look {
    Look::new(move |fleet| {
        Box::pin(async move {
            let standing = fleet.standing(hub);
            let leads = matches!(standing, Some(Standing::Leading(_)));
            because(leads == is_so, || format!("{hub} stands as {standing:?}"))
        })
    })
}

/// The Lease of the hubs.
async fn lease(fleet: &Fleet) -> Result<Lease, String> {
    let api: Api<Lease> = Api::namespaced(fleet.hub_client(), NAMESPACE);
    api.get(LEASE).await.map_err(|error| error.to_string())
}

/// The Lease of the hubs changed hands so often.
pub(crate) fn transitions(wanted: i32) -> Look {
    Look::new(move |fleet| {
        Box::pin(async move {
            let spec = lease(fleet).await?.spec.unwrap_or_default();
            let found = spec.lease_transitions.unwrap_or(0);
            because(found == wanted, || {
                format!("it changed hands {found} times, not {wanted}")
            })
        })
    })
}

/// The epoch of whoever leads, by the Lease of the hubs.
async fn term(fleet: &Fleet) -> Result<i64, String> {
    let lease = lease(fleet).await?;
    let epoch = lease.annotations().get(annotation::EPOCH);
    epoch
        .and_then(|epoch| epoch.parse().ok())
        .ok_or_else(|| format!("the Lease has the epoch {epoch:?}"))
}

/// Every Bundle, and what its agent says, is of the epoch that the hub has which leads.
pub(crate) fn one_epoch() -> Look {
    Look::new(|fleet| {
        Box::pin(async move {
            let all = Api::<Bundle>::all(fleet.hub_client())
                .list(&Default::default())
                .await
                .map_err(|error| error.to_string())?;
            let epoch = term(fleet).await?;
            because(!all.items.is_empty(), || "there are no Bundles".to_owned())?;
            for bundle in &all {
                let obeyed = bundle.status.as_ref().and_then(|status| status.epoch);
                because(bundle.spec.epoch == Some(epoch) && obeyed == Some(epoch), || {
                    let name = bundle.name_any();
                    format!(
                        "{name}: epoch {:?}, the agent obeys {obeyed:?}, and the leader has {epoch}",
                        bundle.spec.epoch
                    )
                })?;
            }
            Ok(())
        })
    })
}
